//! Results of the hooks: flat structs that an engine pushes into the call while it runs. The host copies before `put`
//! returns.
//!
//! A result that was pushed twice counts once, the last. A hook that returns `OK` without the result it owes is
//! invalid.

use crate::{MessageV1, SessionTargetV1, SpanV1, Str};
use abi_stable::StableAbi;

/// Result of `bootstrap`.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct BootstrapResultV1 {
    /// 1 when the engine took up the session.
    pub bootstrapped: u32,
    /// Zero.
    pub reserved: u32,
    /// `importedMessages`, or [`crate::NONE_U64`].
    pub imported_messages: u64,
    /// `reason`; mostly absent.
    pub reason: Str,
}

/// Result of `maintain`, and of the rewrite service.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct MaintainResultV1 {
    /// 1 when something changed.
    pub changed: u32,
    /// Zero.
    pub reserved: u32,
    /// `bytesFreed`.
    pub bytes_freed: u64,
    /// `rewrittenEntries`.
    pub rewritten_entries: u64,
    /// `reason`; mostly absent.
    pub reason: Str,
}

/// Result of `ingest` and `ingestBatch`.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct IngestResultV1 {
    /// How many entries were taken; 0 says duplicate or nothing to do.
    pub ingested_count: u64,
}

/// Result of `commitTurn`.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct CommitResultV1 {
    /// A code from [`crate::commit_status`].
    pub status: u32,
    /// Zero.
    pub reserved: u32,
}

/// Result of `assemble`, beside the spans and messages, which are pushed in the order in which the model shall see
/// them.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct AssembleResultV1 {
    /// `estimatedTokens`: what the engine thinks that its answer costs.
    pub estimated_tokens: u64,
    /// `systemPromptAddition`, prepended to the system prompt; absent when none.
    pub system_prompt_addition: Str,
    /// `volatilePromptAddition`, a block at the head of the current user message as sent; absent when none.
    pub volatile_prompt_addition: Str,
    /// A code from [`crate::prompt_authority`].
    pub prompt_authority: u32,
    /// A code from [`crate::projection_mode`].
    pub projection_mode: u32,
    /// `contextProjection.epoch`; absent when none.
    pub projection_epoch: Str,
    /// `contextProjection.fingerprint`; absent when none.
    pub projection_fingerprint: Str,
}

/// Result of `compact`.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct CompactResultV1 {
    /// 1 when the call did what it could.
    pub ok: u32,
    /// 1 when the context is smaller now.
    pub compacted: u32,
    /// `reason`; absent when none.
    pub reason: Str,
    /// `result.summary`; absent when none.
    pub summary: Str,
    /// `result.firstKeptEntryId`, or 0.
    pub first_kept_entry_id: u64,
    /// `result.tokensBefore`, or [`crate::NONE_U64`] when there is no `result`.
    pub tokens_before: u64,
    /// `result.tokensAfter`, or [`crate::NONE_U64`].
    pub tokens_after: u64,
    /// `result.details`, JSON text; absent when none.
    pub details_json: Str,
    /// `result.sessionId` of a successor; absent when none.
    pub successor_session_id: Str,
    /// `result.sessionTarget` of a successor; null when none.
    pub successor_target: *const SessionTargetV1,
}

/// Result of `prepareSubagentSpawn`.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct PrepareSubagentResultV1 {
    /// A handle for [`crate::EngineV1::rollback_subagent_spawn`], or 0 when there is nothing to roll back.
    pub rollback_handle: u64,
}

/// One tool of an engine.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct ToolV1 {
    /// Name, `[a-zA-Z0-9_-]{1,64}`.
    pub name: Str,
    /// What it does, for the model.
    pub description: Str,
    /// JSON Schema of its arguments.
    pub parameters_json: Str,
}

/// Result of `callTool`.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct ToolResultV1 {
    /// Text for the model.
    pub text: Str,
    /// 1 when the call failed in a way that the model should read about.
    pub is_error: u32,
    /// Zero.
    pub reserved: u32,
}

/// One requirement of `hostRequirements`.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct HostRequirementV1 {
    /// A code from [`crate::operation`].
    pub operation: u32,
    /// Bits from [`crate::capability`].
    pub required_capabilities: u32,
    /// `unsupportedMessage`; absent when none.
    pub unsupported_message: Str,
}

/// `info` of an engine.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct InfoV1 {
    /// `id`; not blank. May differ from the id under which the engine is registered.
    pub id: Str,
    /// `name`; not blank.
    pub name: Str,
    /// `version`; absent when unknown.
    pub version: Str,
    /// 1 when the engine owns compaction.
    pub owns_compaction: u32,
    /// A code from [`crate::maintenance_mode`].
    pub turn_maintenance_mode: u32,
    /// Bits from [`crate::host_params`]. An engine without a declaration pushes [`crate::host_params::ALL`].
    pub accepted_host_params: u32,
    /// Bits from [`crate::semantics`].
    pub transcript_semantics: u32,
    /// First requirement; dangling when `host_requirements_len` is 0.
    pub host_requirements: *const HostRequirementV1,
    /// Number of requirements.
    pub host_requirements_len: usize,
}

/// The sinks of a call. Each function takes the call's frame. Pushing a result that does not belong to the running hook
/// returns [`crate::status::INVALID`].
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct SinkV1 {
    /// The reason of a failure, before the hook returns `ERROR` or `PANIC`. `service_token` is the token of the host
    /// service whose error is handed on ([`crate::HostV1::last_error`]), or 0.
    pub fail: extern "C" fn(frame: *const crate::FrameV1, message: Str, service_token: u64) -> u32,
    /// `info`.
    pub info: extern "C" fn(frame: *const crate::FrameV1, info: *const InfoV1) -> u32,
    /// `bootstrap`.
    pub bootstrap: extern "C" fn(frame: *const crate::FrameV1, result: *const BootstrapResultV1) -> u32,
    /// `maintain`.
    pub maintain: extern "C" fn(frame: *const crate::FrameV1, result: *const MaintainResultV1) -> u32,
    /// `ingest` and `ingestBatch`.
    pub ingest: extern "C" fn(frame: *const crate::FrameV1, result: *const IngestResultV1) -> u32,
    /// `commitTurn`.
    pub commit: extern "C" fn(frame: *const crate::FrameV1, result: *const CommitResultV1) -> u32,
    /// `assemble`: entries, in bulk, in the order of the prompt.
    pub spans: extern "C" fn(frame: *const crate::FrameV1, spans: *const SpanV1, len: usize) -> u32,
    /// `assemble`: one new message, in the order of the prompt.
    pub message: extern "C" fn(frame: *const crate::FrameV1, message: *const MessageV1) -> u32,
    /// `assemble`: all the rest.
    pub assemble: extern "C" fn(frame: *const crate::FrameV1, result: *const AssembleResultV1) -> u32,
    /// `compact`.
    pub compact: extern "C" fn(frame: *const crate::FrameV1, result: *const CompactResultV1) -> u32,
    /// `prepareSubagentSpawn`.
    pub prepare_subagent: extern "C" fn(frame: *const crate::FrameV1, result: *const PrepareSubagentResultV1) -> u32,
    /// `tools`: one tool.
    pub tool: extern "C" fn(frame: *const crate::FrameV1, tool: *const ToolV1) -> u32,
    /// `callTool`.
    pub tool_result: extern "C" fn(frame: *const crate::FrameV1, result: *const ToolResultV1) -> u32,
    /// Memory provider, prompt section: the text, once. No push means that there is nothing to add.
    pub memory_prompt: extern "C" fn(frame: *const crate::FrameV1, text: Str) -> u32,
    /// Memory provider, search: hits, in bulk, best first.
    pub memory_hits: extern "C" fn(frame: *const crate::FrameV1, hits: *const crate::MemoryHitV1, len: usize) -> u32,
}
