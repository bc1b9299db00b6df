//! Doors for `fuzz/`: names that become folders, and what is said on a lane. Not for anything else.

pub use super::remote::fuzzing as lane;

/// The folder of an agent or of an engine.
pub fn folder(name: &str) -> String {
    super::core::folder_name(name)
}
