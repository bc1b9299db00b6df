//! Arguments of the hooks. All of them are borrowed for the duration of the call.

use crate::{AnchorV1, EntryHeadV1, EntryList, MessageV1, SessionTargetV1, Str, StrList};
use abi_stable::StableAbi;

/// What every hook about a session gets first.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct SessionV1 {
    /// Id of the session. An ephemeral turn has a throw-away id.
    pub session_id: Str,
    /// Key of the session; absent when the engine does not accept `sessionKey`, or the turn has none.
    pub session_key: Str,
    /// Agent of the session (`agentId`); absent when it has none.
    pub agent_id: Str,
    /// Working folder of the run (`runtimeContext.cwd`); absent when unknown or not accepted.
    pub cwd: Str,
    /// Where the session lives; null when the engine does not accept `sessionTarget`.
    pub target: *const SessionTargetV1,
    /// Settings of the run; null when the engine does not accept `runtimeSettings`.
    pub settings: *const RuntimeSettingsV1,
    /// Facts about the provider's prompt cache; null when unknown or not accepted (`runtimeContext`).
    pub prompt_cache: *const PromptCacheV1,
    /// 1 when nothing of this turn is stored.
    pub ephemeral: u32,
    /// 1 during a heartbeat.
    pub heartbeat: u32,
    /// The context budget in tokens, or [`crate::NONE_U64`].
    pub token_budget: u64,
    /// The measured tokens of the context now, or [`crate::NONE_U64`].
    pub current_token_count: u64,
}

/// `runtimeSettings`, schema version 1. Absent texts are JSON null.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct RuntimeSettingsV1 {
    /// 1.
    pub schema_version: u32,
    /// `runtime.mode`, a code from [`crate::runtime_mode`].
    pub runtime_mode: u32,
    /// `runtime.host`: "engineroom".
    pub runtime_host: Str,
    /// `runtime.harnessId`.
    pub harness_id: Str,
    /// `runtime.runtimeId`.
    pub runtime_id: Str,
    /// `model.requested`.
    pub model_requested: Str,
    /// `model.resolved`.
    pub model_resolved: Str,
    /// `model.provider`.
    pub model_provider: Str,
    /// `model.family`.
    pub model_family: Str,
    /// `contextEngineSelection.selectedId`.
    pub selected_id: Str,
    /// `contextEngineSelection.source`, a code from [`crate::selection_source`].
    pub selection_source: u32,
    /// `diagnostics.fallbackReason`, a code from [`crate::reason_code`].
    pub fallback_reason: u32,
    /// `diagnostics.degradedReason`, a code from [`crate::reason_code`].
    pub degraded_reason: u32,
    /// Zero.
    pub reserved: u32,
    /// `executionHost.id`.
    pub execution_host_id: Str,
    /// `executionHost.label`.
    pub execution_host_label: Str,
    /// `limits.promptTokenBudget`, or [`crate::NONE_U64`].
    pub prompt_token_budget: u64,
    /// `limits.maxOutputTokens`, or [`crate::NONE_U64`].
    pub max_output_tokens: u64,
}

/// `promptCache`: what the provider told about its prompt cache. Numbers are tokens or [`crate::NONE_U64`].
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct PromptCacheV1 {
    /// A code from [`crate::cache_retention`].
    pub retention: u32,
    /// `observation.broke`: 1 when the cache broke at the last call.
    pub broke: u32,
    /// `lastCallUsage.input`.
    pub input: u64,
    /// `lastCallUsage.output`.
    pub output: u64,
    /// `lastCallUsage.cacheRead`.
    pub cache_read: u64,
    /// `lastCallUsage.cacheWrite`.
    pub cache_write: u64,
    /// `lastCallUsage.total`.
    pub total: u64,
    /// `lastCallUsage.contextUsage.promptTokens`.
    pub context_prompt_tokens: u64,
    /// `observation.previousCacheRead`.
    pub previous_cache_read: u64,
    /// `observation.changes` as JSON `[{code, detail}]`; absent when none.
    pub changes_json: Str,
    /// `lastCacheTouchAt` in ms since the epoch, or -1.
    pub last_cache_touch_ms: i64,
    /// `expiresAt` in ms since the epoch, or -1.
    pub expires_ms: i64,
}

/// Arguments of `bootstrap`.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct BootstrapArgsV1 {
    /// The session.
    pub session: *const SessionV1,
}

/// Arguments of `maintain`.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct MaintainArgsV1 {
    /// The session.
    pub session: *const SessionV1,
    /// Why, a code from [`crate::trigger`]: `BOOTSTRAP`, `TURN` or `COMPACTION`.
    pub reason: u32,
    /// `allowDeferredCompactionExecution`: 1 only in a background run.
    pub allow_deferred_compaction: u32,
}

/// Arguments of `ingest` (one entry) and `ingestBatch`.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct IngestArgsV1 {
    /// The session.
    pub session: *const SessionV1,
    /// The entries, oldest first; exactly one for `ingest`.
    pub entries: EntryList,
}

/// Arguments of `afterTurn`.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct AfterTurnArgsV1 {
    /// The session.
    pub session: *const SessionV1,
    /// The whole snapshot, oldest first.
    pub entries: EntryList,
    /// How many of them were there before the prompt of this turn.
    pub pre_prompt_message_count: u64,
    /// Summary of an automatic compaction in this turn; mostly absent.
    pub auto_compaction_summary: Str,
}

/// Arguments of `commitTurn`.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct CommitTurnArgsV1 {
    /// The session.
    pub session: *const SessionV1,
    /// Key of this advancement: the same turn always comes with the same key.
    pub advancement_key: Str,
    /// Id of the logical turn.
    pub logical_turn_id: Str,
    /// Anchor of the admitted user entry.
    pub admission: AnchorV1,
    /// Anchor of the last entry.
    pub terminal: AnchorV1,
    /// The closed range from admission to terminal.
    pub entries: EntryList,
}

/// The current user turn (`prompt`).
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct PromptV1 {
    /// Id of its entry, or 0 when nothing is stored. An engine may place the turn itself by a span of this id; else the
    /// host appends it after what the engine gave.
    pub entry_id: u64,
    /// Tokens of the whole current turn as it will be sent.
    pub tokens: u64,
    /// The message.
    pub message: MessageV1,
}

/// Arguments of `assemble`.
///
/// `entries` is the projected history *before* the current turn. It is never copied: the array belongs to a snapshot
/// that the call keeps alive, and the bodies are read on demand through [`crate::CallV1::entry`].
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct AssembleArgsV1 {
    /// The session; its `token_budget` is what the answer may cost, system prompt and current turn already taken off.
    pub session: *const SessionV1,
    /// First entry; dangling when `entries_len` is 0.
    pub entries: *const EntryHeadV1,
    /// Number of entries.
    pub entries_len: usize,
    /// The current turn; null when the engine does not accept `prompt` or the turn has none.
    pub prompt: *const PromptV1,
    /// Tokens of the system and developer prompts, for information.
    pub system_tokens: u64,
    /// Names of the tools that the model will be offered.
    pub available_tools: StrList,
    /// Model that will be called; absent when unknown.
    pub model: Str,
    /// A code from [`crate::citations_mode`].
    pub citations_mode: u32,
    /// Zero.
    pub reserved: u32,
}

/// Arguments of `compact`.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct CompactArgsV1 {
    /// The session; `token_budget` and `current_token_count` as the host measured them.
    pub session: *const SessionV1,
    /// First entry of the projected history; dangling when `entries_len` is 0.
    pub entries: *const EntryHeadV1,
    /// Number of entries.
    pub entries_len: usize,
    /// 1 when it must be done whatever the engine's own threshold says.
    pub force: u32,
    /// A code from [`crate::compaction_target`].
    pub target: u32,
    /// A code from [`crate::trigger`].
    pub trigger: u32,
    /// Attempt number, from 1.
    pub attempt: u32,
    /// Most attempts, at overflow.
    pub max_attempts: u32,
    /// `forceReason`, a code from [`crate::force_reason`].
    pub force_reason: u32,
    /// Focus text of the operator; data, not instructions to obey. Absent when none.
    pub custom_instructions: Str,
}

/// Arguments of `prepareSubagentSpawn`. Texts are absent when unknown.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct PrepareSubagentArgsV1 {
    /// Key of the parent session.
    pub parent_session_key: Str,
    /// Key of the child session.
    pub child_session_key: Str,
    /// Id of the parent session.
    pub parent_session_id: Str,
    /// Id of the child session.
    pub child_session_id: Str,
    /// A code from [`crate::context_mode`].
    pub context_mode: u32,
    /// Zero.
    pub reserved: u32,
    /// Life of the child in ms, or [`crate::NONE_U64`].
    pub ttl_ms: u64,
}

/// Arguments of `onSubagentEnded`.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct SubagentEndedArgsV1 {
    /// Key of the child session.
    pub child_session_key: Str,
    /// Agent folder; absent when there is none.
    pub agent_dir: Str,
    /// Workspace folder; absent when there is none.
    pub workspace_dir: Str,
    /// A code from [`crate::subagent_end`].
    pub reason: u32,
    /// Zero.
    pub reserved: u32,
}

/// Arguments of `onSessionEnded`.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct SessionEndedArgsV1 {
    /// The session.
    pub session: *const SessionV1,
    /// A code from [`crate::session_end`].
    pub reason: u32,
    /// Zero.
    pub reserved: u32,
}

/// Arguments of `tools`.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct ToolsArgsV1 {
    /// The session.
    pub session: *const SessionV1,
}

/// Arguments of `callTool`.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct CallToolArgsV1 {
    /// The session.
    pub session: *const SessionV1,
    /// Id of the model's call.
    pub call_id: Str,
    /// Name of the tool, as the engine gave it.
    pub name: Str,
    /// Arguments, JSON text as the model wrote it; not checked against the schema.
    pub arguments: Str,
}
