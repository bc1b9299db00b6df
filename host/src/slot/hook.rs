//! The hooks of engines and memory providers: their names and their default deadlines.

use serde::{Serialize, Serializer};
use std::fmt;
use std::time::Duration;

/// A call into an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Hook {
    /// Makes an instance.
    Factory,
    /// Reads `info`; part of the contract check.
    Info,
    /// `bootstrap`.
    Bootstrap,
    /// `maintain`.
    Maintain,
    /// `ingest`.
    Ingest,
    /// `ingestBatch`.
    IngestBatch,
    /// `afterTurn`.
    AfterTurn,
    /// `commitTurn`.
    CommitTurn,
    /// `assemble`.
    Assemble,
    /// `compact`.
    Compact,
    /// `prepareSubagentSpawn`.
    PrepareSubagentSpawn,
    /// Undoes `prepareSubagentSpawn`.
    RollbackSubagentSpawn,
    /// `onSubagentEnded`.
    OnSubagentEnded,
    /// `onSessionEnded`.
    OnSessionEnded,
    /// `tools`.
    Tools,
    /// `callTool`.
    CallTool,
    /// A memory provider's section of the system prompt.
    MemoryPrompt,
    /// A memory provider's search.
    MemorySearch,
    /// A memory provider keeps something.
    MemoryAppend,
    /// `dispose`.
    Dispose,
}

/// Number of hooks.
pub(crate) const HOOKS: usize = 20;

impl Hook {
    /// All hooks, in the order of their life.
    pub const ALL: [Hook; HOOKS] = [
        Hook::Factory,
        Hook::Info,
        Hook::Bootstrap,
        Hook::Maintain,
        Hook::Ingest,
        Hook::IngestBatch,
        Hook::AfterTurn,
        Hook::CommitTurn,
        Hook::Assemble,
        Hook::Compact,
        Hook::PrepareSubagentSpawn,
        Hook::RollbackSubagentSpawn,
        Hook::OnSubagentEnded,
        Hook::OnSessionEnded,
        Hook::Tools,
        Hook::CallTool,
        Hook::MemoryPrompt,
        Hook::MemorySearch,
        Hook::MemoryAppend,
        Hook::Dispose,
    ];

    /// Name as documents and people see it.
    pub const fn name(self) -> &'static str {
        match self {
            Hook::Factory => "factory",
            Hook::Info => "info",
            Hook::Bootstrap => "bootstrap",
            Hook::Maintain => "maintain",
            Hook::Ingest => "ingest",
            Hook::IngestBatch => "ingestBatch",
            Hook::AfterTurn => "afterTurn",
            Hook::CommitTurn => "commitTurn",
            Hook::Assemble => "assemble",
            Hook::Compact => "compact",
            Hook::PrepareSubagentSpawn => "prepareSubagentSpawn",
            Hook::RollbackSubagentSpawn => "rollbackSubagentSpawn",
            Hook::OnSubagentEnded => "onSubagentEnded",
            Hook::OnSessionEnded => "onSessionEnded",
            Hook::Tools => "tools",
            Hook::CallTool => "callTool",
            Hook::MemoryPrompt => "memoryPrompt",
            Hook::MemorySearch => "memorySearch",
            Hook::MemoryAppend => "memoryAppend",
            Hook::Dispose => "dispose",
        }
    }

    /// Name as `[plugins.deadlines]` keys it (before `_ms`).
    pub const fn key(self) -> &'static str {
        match self {
            Hook::IngestBatch => "ingest_batch",
            Hook::AfterTurn => "after_turn",
            Hook::CommitTurn => "commit_turn",
            Hook::PrepareSubagentSpawn => "prepare_subagent_spawn",
            Hook::RollbackSubagentSpawn => "rollback_subagent_spawn",
            Hook::OnSubagentEnded => "on_subagent_ended",
            Hook::OnSessionEnded => "on_session_ended",
            Hook::CallTool => "call_tool",
            Hook::MemoryPrompt => "memory_prompt",
            Hook::MemorySearch => "memory_search",
            Hook::MemoryAppend => "memory_append",
            other => other.name(),
        }
    }

    /// Deadline of one call when the configuration names none. `compact` may wait for a model; a turn waits for the memory
    /// section, and can do without.
    pub const fn default_deadline(self) -> Duration {
        match self {
            Hook::Compact => Duration::from_millis(180_000),
            Hook::MemoryPrompt => Duration::from_millis(3_000),
            _ => Duration::from_millis(10_000),
        }
    }

    /// True when a failure fails only its call: the caller does not go on with the next candidate.
    pub const fn fails_closed(self) -> bool {
        matches!(self, Hook::Compact | Hook::PrepareSubagentSpawn | Hook::RollbackSubagentSpawn)
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Hook {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_holds_each_hook_at_its_own_index_with_its_own_names() {
        let mut names = std::collections::BTreeSet::new();
        let mut keys = std::collections::BTreeSet::new();
        for (index, hook) in Hook::ALL.into_iter().enumerate() {
            assert_eq!(hook.index(), index);
            assert!(names.insert(hook.name()) && keys.insert(hook.key()), "{hook} shares a name");
            assert!(hook.key().bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
        }
    }
}
