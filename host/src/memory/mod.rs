//! The memory slot.
//!
//! No provider can be selected yet: `plugins.slots.memory` is `none`, a plugin's memory providers are registered and not
//! used. So the memory section that the host prepares before each turn is empty, a search finds nothing, and engines that ask
//! for the section get no text. The room holds what the turn needs to treat that as the normal case.

/// The memory section of a turn, prepared once before `assemble`. An engine that asks for it must name the same arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemorySnapshot {
    /// Names of the tools that the model will be offered.
    pub available_tools: Vec<String>,
    /// A code from [`engine_abi::wire::citations_mode`].
    pub citations_mode: u32,
    /// True in a sandbox.
    pub sandboxed: bool,
    /// The section; `None` when there is nothing to add.
    pub section: Option<String>,
}

impl MemorySnapshot {
    /// The section for these arguments. Without a provider it is empty.
    pub fn prepare(available_tools: Vec<String>, citations_mode: u32, sandboxed: bool) -> MemorySnapshot {
        MemorySnapshot { available_tools, citations_mode, sandboxed, section: None }
    }

    /// True when an engine asks with the arguments that the snapshot was prepared for.
    pub fn answers(&self, available_tools: &[String], citations_mode: u32, sandboxed: bool) -> bool {
        self.available_tools == available_tools && self.citations_mode == citations_mode && self.sandboxed == sandboxed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_answers_only_the_arguments_it_was_prepared_for() {
        let snapshot = MemorySnapshot::prepare(vec!["search".into()], 0, false);
        assert!(snapshot.section.is_none());
        assert!(snapshot.answers(&["search".into()], 0, false));
        assert!(!snapshot.answers(&[], 0, false) && !snapshot.answers(&["search".into()], 1, false));
        assert!(!snapshot.answers(&["search".into()], 0, true));
    }
}
