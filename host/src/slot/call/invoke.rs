//! From a hook's input to the call of a table in this process: the one place where arguments are lent to an engine.
#![allow(unsafe_code, reason = "an instance is a pointer that an engine gave; its table says what may be done with it")]

use super::arena::Arena;
use super::input::HookInput;
use super::lend;
use crate::slot::facts::SessionFacts;
use crate::slot::hook::Hook;
use engine_abi::wire::*;

/// An instance in this process.
pub(crate) struct Local {
    pub(crate) table: EngineV1,
    /// The table of a memory provider; of `table` it then has `info` and `dispose` alone.
    pub(crate) memory: Option<MemoryProviderV1>,
    pub(crate) pointer: *const u8,
}

// SAFETY: the contract: an instance is entered from several threads at once; its pointer is opaque to the host, and its table
// lives as long as the library, which is never unloaded.
unsafe impl Send for Local {}
// SAFETY: as above.
unsafe impl Sync for Local {}

impl Local {
    /// True when the table has the hook.
    pub(crate) fn has(&self, hook: Hook) -> bool {
        let table = &self.table;
        match hook {
            Hook::Factory => true,
            Hook::Info => table.info.is_some(),
            Hook::Bootstrap => table.bootstrap.is_some(),
            Hook::Maintain => table.maintain.is_some(),
            Hook::Ingest => table.ingest.is_some(),
            Hook::IngestBatch => table.ingest_batch.is_some(),
            Hook::AfterTurn => table.after_turn.is_some(),
            Hook::CommitTurn => table.commit_turn.is_some(),
            Hook::Assemble => table.assemble.is_some(),
            Hook::Compact => table.compact.is_some(),
            Hook::PrepareSubagentSpawn => table.prepare_subagent_spawn.is_some(),
            Hook::RollbackSubagentSpawn => table.rollback_subagent_spawn.is_some(),
            Hook::OnSubagentEnded => table.on_subagent_ended.is_some(),
            Hook::OnSessionEnded => table.on_session_ended.is_some(),
            Hook::Tools => table.tools.is_some(),
            Hook::CallTool => table.call_tool.is_some(),
            Hook::MemoryPrompt => self.memory.is_some_and(|memory| memory.prompt_section.is_some()),
            Hook::MemorySearch => self.memory.is_some_and(|memory| memory.search.is_some()),
            Hook::MemoryAppend => self.memory.is_some_and(|memory| memory.append.is_some()),
            Hook::Dispose => table.dispose.is_some(),
        }
    }

    /// Calls the hook of `input` and gives the engine's status; `UNSUPPORTED` when the table does not have it.
    pub(crate) fn invoke(&self, call: &CallV1, facts: &SessionFacts, params: u32, input: &HookInput<'_>) -> u32 {
        lend::with_session(facts, params, |session| self.with(call, session, input)).unwrap_or(status::UNSUPPORTED)
    }

    fn with(&self, call: &CallV1, session: &SessionV1, input: &HookInput<'_>) -> Option<u32> {
        let (table, instance) = (&self.table, self.pointer);
        let call: *const CallV1 = call;
        let session: *const SessionV1 = session;
        let mut arena = Arena::default();
        Some(match *input {
            HookInput::Info => table.info?(instance, call),
            HookInput::Bootstrap => table.bootstrap?(instance, call, &BootstrapArgsV1 { session }),
            HookInput::Maintain { reason, deferred } => {
                let args = MaintainArgsV1 { session, reason, allow_deferred_compaction: u32::from(deferred) };
                table.maintain?(instance, call, &raw const args)
            }
            HookInput::Ingest(entries) => {
                let entries = arena.entries(entries);
                table.ingest?(instance, call, &IngestArgsV1 { session, entries })
            }
            HookInput::IngestBatch(entries) => {
                let entries = arena.entries(entries);
                table.ingest_batch?(instance, call, &IngestArgsV1 { session, entries })
            }
            HookInput::AfterTurn { entries, pre_prompt, auto_compaction_summary } => {
                let args = AfterTurnArgsV1 {
                    session,
                    entries: arena.entries(entries),
                    pre_prompt_message_count: pre_prompt as u64,
                    auto_compaction_summary: Str::opt(auto_compaction_summary),
                };
                table.after_turn?(instance, call, &raw const args)
            }
            HookInput::CommitTurn(input) => {
                let args = CommitTurnArgsV1 {
                    session,
                    advancement_key: Str::new(&input.advancement_key),
                    logical_turn_id: Str::new(&input.logical_turn_id),
                    admission: lend::anchor(&input.admission),
                    terminal: lend::anchor(&input.terminal),
                    entries: arena.entries(&input.entries),
                };
                table.commit_turn?(instance, call, &raw const args)
            }
            HookInput::Assemble { input, len, prompt } => {
                let tools: Vec<Str> = input.available_tools.iter().map(|name| Str::new(name)).collect();
                let prompt = prompt.map(|prompt| PromptV1 {
                    entry_id: prompt.entry_id,
                    tokens: prompt.tokens,
                    message: arena.borrowed(&prompt.message),
                });
                let args = AssembleArgsV1 {
                    session,
                    entries: input.view.heads.as_ptr(),
                    entries_len: len,
                    prompt: prompt.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
                    system_tokens: input.system_tokens,
                    available_tools: StrList::new(&tools),
                    model: Str::opt(input.model.as_deref()),
                    citations_mode: input.citations_mode,
                    reserved: 0,
                };
                table.assemble?(instance, call, &raw const args)
            }
            HookInput::Compact { args, len } => {
                let args = CompactArgsV1 {
                    session,
                    entries: args.view.heads.as_ptr(),
                    entries_len: len,
                    force: u32::from(args.force),
                    target: args.target,
                    trigger: args.trigger,
                    attempt: args.attempt,
                    max_attempts: args.max_attempts,
                    force_reason: args.force_reason,
                    custom_instructions: Str::opt(args.custom_instructions.as_deref()),
                };
                table.compact?(instance, call, &raw const args)
            }
            HookInput::PrepareSubagentSpawn(spawn) => {
                let args = PrepareSubagentArgsV1 {
                    parent_session_key: Str::new(&spawn.parent_session_key),
                    child_session_key: Str::new(&spawn.child_session_key),
                    parent_session_id: Str::opt(spawn.parent_session_id.as_deref()),
                    child_session_id: Str::opt(spawn.child_session_id.as_deref()),
                    context_mode: if spawn.fork { context_mode::FORK } else { context_mode::ISOLATED },
                    reserved: 0,
                    ttl_ms: spawn.ttl.map_or(NONE_U64, |ttl| u64::try_from(ttl.as_millis()).unwrap_or(NONE_U64 - 1)),
                };
                table.prepare_subagent_spawn?(instance, call, &raw const args)
            }
            HookInput::RollbackSubagentSpawn { handle } => table.rollback_subagent_spawn?(instance, call, handle),
            HookInput::OnSubagentEnded { child_session_key, agent_dir, workspace_dir, reason } => {
                let args = SubagentEndedArgsV1 {
                    child_session_key: Str::new(child_session_key),
                    agent_dir: Str::opt(agent_dir),
                    workspace_dir: Str::opt(workspace_dir),
                    reason,
                    reserved: 0,
                };
                table.on_subagent_ended?(instance, call, &raw const args)
            }
            HookInput::OnSessionEnded { reason } => {
                table.on_session_ended?(instance, call, &SessionEndedArgsV1 { session, reason, reserved: 0 })
            }
            HookInput::Tools => table.tools?(instance, call, &ToolsArgsV1 { session }),
            HookInput::CallTool { call_id, name, arguments } => {
                let args = CallToolArgsV1 {
                    session,
                    call_id: Str::new(call_id),
                    name: Str::new(name),
                    arguments: Str::new(arguments),
                };
                table.call_tool?(instance, call, &raw const args)
            }
            HookInput::MemoryPrompt(args) => {
                let tools: Vec<Str> = args.available_tools.iter().map(|name| Str::new(name)).collect();
                let args = MemoryPromptArgsV1 {
                    available_tools: StrList::new(&tools),
                    citations_mode: args.citations_mode,
                    sandboxed: u32::from(args.sandboxed),
                };
                self.memory?.prompt_section?(instance, call, &raw const args)
            }
            HookInput::MemorySearch { query, limit } => self.memory?.search?(instance, call, Str::new(query), limit),
            HookInput::MemoryAppend { text } => self.memory?.append?(instance, call, Str::new(text)),
            HookInput::Dispose => table.dispose?(instance, call),
        })
    }
}
