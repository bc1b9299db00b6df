//! What a hook is called with, in the host's own facts: one way of saying it, whoever serves the engine.

use crate::slot::facts::{AssembleInput, CommitInput, CompactArgs, EntryRef, PromptInput, SubagentSpawn};
use crate::slot::hook::Hook;
use crate::slot::services::MemoryPromptArgs;

/// The arguments of one call beside its session. Nothing in it is owned: the caller keeps all of it until the hook is back.
#[derive(Clone, Copy)]
pub(crate) enum HookInput<'a> {
    Info,
    Bootstrap,
    Maintain {
        reason: u32,
        deferred: bool,
    },
    /// Exactly one.
    Ingest(&'a [EntryRef]),
    IngestBatch(&'a [EntryRef]),
    AfterTurn {
        entries: &'a [EntryRef],
        pre_prompt: usize,
        auto_compaction_summary: Option<&'a str>,
    },
    CommitTurn(&'a CommitInput),
    /// The first `len` entries of the view are the history; `prompt` is what the engine is shown of the current turn.
    Assemble {
        input: &'a AssembleInput,
        len: usize,
        prompt: Option<&'a PromptInput>,
    },
    Compact {
        args: &'a CompactArgs,
        len: usize,
    },
    PrepareSubagentSpawn(&'a SubagentSpawn),
    RollbackSubagentSpawn {
        handle: u64,
    },
    OnSubagentEnded {
        child_session_key: &'a str,
        agent_dir: Option<&'a str>,
        workspace_dir: Option<&'a str>,
        reason: u32,
    },
    OnSessionEnded {
        reason: u32,
    },
    Tools,
    CallTool {
        call_id: &'a str,
        name: &'a str,
        arguments: &'a str,
    },
    MemoryPrompt(&'a MemoryPromptArgs),
    MemorySearch {
        query: &'a str,
        limit: u64,
    },
    MemoryAppend {
        text: &'a str,
    },
    Dispose,
}

impl HookInput<'_> {
    /// The hook.
    pub(crate) const fn hook(&self) -> Hook {
        match self {
            HookInput::Info => Hook::Info,
            HookInput::Bootstrap => Hook::Bootstrap,
            HookInput::Maintain { .. } => Hook::Maintain,
            HookInput::Ingest(_) => Hook::Ingest,
            HookInput::IngestBatch(_) => Hook::IngestBatch,
            HookInput::AfterTurn { .. } => Hook::AfterTurn,
            HookInput::CommitTurn(_) => Hook::CommitTurn,
            HookInput::Assemble { .. } => Hook::Assemble,
            HookInput::Compact { .. } => Hook::Compact,
            HookInput::PrepareSubagentSpawn(_) => Hook::PrepareSubagentSpawn,
            HookInput::RollbackSubagentSpawn { .. } => Hook::RollbackSubagentSpawn,
            HookInput::OnSubagentEnded { .. } => Hook::OnSubagentEnded,
            HookInput::OnSessionEnded { .. } => Hook::OnSessionEnded,
            HookInput::Tools => Hook::Tools,
            HookInput::CallTool { .. } => Hook::CallTool,
            HookInput::MemoryPrompt(_) => Hook::MemoryPrompt,
            HookInput::MemorySearch { .. } => Hook::MemorySearch,
            HookInput::MemoryAppend { .. } => Hook::MemoryAppend,
            HookInput::Dispose => Hook::Dispose,
        }
    }
}
