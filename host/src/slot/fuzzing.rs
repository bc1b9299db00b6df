//! Doors for `fuzz/`: names that become folders. Not for anything else.

/// The folder of an agent or of an engine.
pub fn folder(name: &str) -> String {
    super::core::folder_name(name)
}
