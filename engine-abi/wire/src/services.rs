//! Host services. Each is a table that is asked for by a string id with a version and may be absent.
//!
//! Outputs of a service are borrowed from the call's frame and stay valid until the hook returns. On any status but
//! `OK` [`crate::HostV1::last_error`] tells why.

use crate::{Bytes, CompactArgsV1, CompactResultV1, EntryList, FrameV1, MaintainResultV1, MessageV1, Str, StrList};
use abi_stable::StableAbi;

/// Ids of the services.
pub mod service {
    /// [`super::TokensV1`].
    pub const TOKENS: &str = "engineroom.tokens/1";
    /// [`super::LlmV1`].
    pub const LLM: &str = "engineroom.llm/1";
    /// [`super::CompactionV1`].
    pub const COMPACTION: &str = "engineroom.compaction/1";
    /// [`super::TranscriptV1`].
    pub const TRANSCRIPT: &str = "engineroom.transcript/1";
    /// [`super::SessionsV1`]; only when the plugin's entry grants it.
    pub const SESSIONS: &str = "engineroom.sessions/1";
    /// [`super::MemoryV1`].
    pub const MEMORY: &str = "engineroom.memory/1";
    /// [`super::StoreV1`].
    pub const STORE: &str = "engineroom.store/1";
}

/// Token counting with the tokenizer of the model in use.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct TokensV1 {
    /// Tokens of `text`. `estimated` becomes 1 when no tokenizer is known for the model and the number is a bound.
    pub count: extern "C" fn(frame: *const FrameV1, text: Str, out_tokens: *mut u64, out_estimated: *mut u32) -> u32,
}

/// Parameters of `llm.complete`.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct LlmRequestV1 {
    /// First message; roles user and assistant.
    pub messages: *const MessageV1,
    /// Number of messages.
    pub messages_len: usize,
    /// `systemPrompt`; absent when none.
    pub system_prompt: Str,
    /// `model`; absent for the model in use. Another one only where the plugin's entry allows it.
    pub model: Str,
    /// `purpose`, for the record; absent when none.
    pub purpose: Str,
    /// `reasoning`: an effort that the model knows; absent when none.
    pub reasoning: Str,
    /// `responseFormat`, JSON text; absent when none.
    pub response_format_json: Str,
    /// `maxTokens`, or [`crate::NONE_U64`].
    pub max_tokens: u64,
    /// `temperature`; negative when not set.
    pub temperature: f64,
}

/// Result of `llm.complete`. Token numbers may be [`crate::NONE_U64`].
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct LlmResponseV1 {
    /// `text`.
    pub text: Str,
    /// `provider`.
    pub provider: Str,
    /// `model`.
    pub model: Str,
    /// `responseModel`; absent when unknown.
    pub response_model: Str,
    /// `stopReason`; absent when unknown.
    pub stop_reason: Str,
    /// `agentId`; absent when unknown.
    pub agent_id: Str,
    /// `usage.inputTokens`.
    pub input_tokens: u64,
    /// `usage.outputTokens`.
    pub output_tokens: u64,
    /// `usage.cacheReadTokens`.
    pub cache_read_tokens: u64,
    /// `usage.cacheWriteTokens`.
    pub cache_write_tokens: u64,
    /// `usage.totalTokens`.
    pub total_tokens: u64,
    /// `usage.costUsd`; negative when unknown.
    pub cost_usd: f64,
}

/// `llm.complete`. Absent with the offline model.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct LlmV1 {
    /// One completion; blocks until it is there, the call is cancelled, or its deadline passes.
    pub complete: extern "C" fn(frame: *const FrameV1, request: *const LlmRequestV1, out: *mut LlmResponseV1) -> u32,
}

/// `delegateCompactionToRuntime`.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct CompactionV1 {
    /// Runs the built-in compaction on the session of this call; ignores `target`. Only inside `compact`.
    pub delegate: extern "C" fn(frame: *const FrameV1, args: *const CompactArgsV1, out: *mut CompactResultV1) -> u32,
}

/// Request for a page of the transcript.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct CursorRequestV1 {
    /// Session to read; absent for the session of this call. Another one only when granted.
    pub session_key: Str,
    /// Where to go on; absent to start from the oldest entry, or a name from [`crate::cursor_place`]. Opaque; a position,
    /// never an authorisation.
    pub cursor: Str,
    /// Most messages: 0 for 1,000; at most 10,000.
    pub max_messages: u64,
    /// Most bytes: 0 for 1,000,000; at most 64 MiB.
    pub max_bytes: u64,
}

/// A page of the transcript, oldest first, along the active branch.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct CursorPageV1 {
    /// A code from [`crate::cursor_outcome`].
    pub outcome: u32,
    /// A code from [`crate::cursor_reset`].
    pub reset_reason: u32,
    /// 1 when more follows.
    pub has_more: u32,
    /// Zero.
    pub reserved: u32,
    /// Where the next page starts.
    pub cursor: Str,
    /// The entries.
    pub entries: EntryList,
    /// Size of the page in bytes.
    pub serialized_bytes: u64,
    /// What `max_bytes` must at least be when the first entry alone is larger; else 0.
    pub required_bytes: u64,
}

/// One replacement of `rewriteTranscriptEntries`.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct ReplacementV1 {
    /// Entry to replace; must be a message of the active branch.
    pub entry_id: u64,
    /// What replaces it; the role stays.
    pub message: MessageV1,
}

/// The transcript of the session.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct TranscriptV1 {
    /// `readSessionTranscriptVisibleMessageDelta`. During `bootstrap` and `assemble` of an admitted turn the current
    /// turn is fenced: it is not in the page, and a cursor at or past it is refused with [`crate::status::REFUSED`].
    pub read: extern "C" fn(frame: *const FrameV1, request: *const CursorRequestV1, out: *mut CursorPageV1) -> u32,
    /// `rewriteTranscriptEntries`. Refused during `bootstrap` and `assemble`.
    pub rewrite: extern "C" fn(
        frame: *const FrameV1,
        replacements: *const ReplacementV1,
        len: usize,
        out: *mut MaintainResultV1,
    ) -> u32,
}

/// The same agent's other sessions.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct SessionsV1 {
    /// Keys of the agent's sessions, newest use first; `after` is the last key of the page before, or absent.
    pub list: extern "C" fn(frame: *const FrameV1, after: Str, limit: u64, out: *mut StrList) -> u32,
}

/// Arguments of `buildMemorySystemPromptAddition`; must equal the snapshot that was prepared for this run.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct MemoryPromptArgsV1 {
    /// Names of the tools that the model will be offered.
    pub available_tools: StrList,
    /// A code from [`crate::citations_mode`].
    pub citations_mode: u32,
    /// 1 in a sandbox.
    pub sandboxed: u32,
}

/// One hit of a memory search.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct MemoryHitV1 {
    /// Id of the memory.
    pub id: Str,
    /// Its text.
    pub text: Str,
    /// Higher is better; comparable only within one answer.
    pub score: f64,
    /// Milliseconds since the epoch, or -1.
    pub time_ms: i64,
}

/// Hits of a memory search.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct MemoryHitsV1 {
    /// First hit; dangling when `len` is 0.
    pub ptr: *const MemoryHitV1,
    /// Number of hits.
    pub len: usize,
}

/// The memory slot.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct MemoryV1 {
    /// `buildMemorySystemPromptAddition`; absent text when there is nothing to add.
    pub prompt_addition: extern "C" fn(frame: *const FrameV1, args: *const MemoryPromptArgsV1, out: *mut Str) -> u32,
    /// Search.
    pub search: extern "C" fn(frame: *const FrameV1, query: Str, limit: u64, out: *mut MemoryHitsV1) -> u32,
    /// Append; null unless granted.
    pub append: Option<extern "C" fn(frame: *const FrameV1, text: Str) -> u32>,
}

/// One operation of an atomic batch.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct StoreOpV1 {
    /// A code from [`crate::store_op`].
    pub op: u32,
    /// 1 for the engine's own scope, 0 for the scope of the call's session. Deleting a session drops its scope.
    pub engine_scope: u32,
    /// Key, 1 to 1,024 bytes.
    pub key: Bytes,
    /// Value, at most 16 MiB.
    pub value: Bytes,
}

/// A key with its value.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct StorePairV1 {
    /// Key.
    pub key: Bytes,
    /// Value.
    pub value: Bytes,
}

/// Pairs of a scan.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct StorePairsV1 {
    /// First pair; dangling when `len` is 0.
    pub ptr: *const StorePairV1,
    /// Number of pairs.
    pub len: usize,
}

/// The engine's own durable store.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct StoreV1 {
    /// Value of `key`; [`crate::status::NOT_FOUND`] when absent.
    pub get: extern "C" fn(frame: *const FrameV1, engine_scope: u32, key: Bytes, out: *mut Bytes) -> u32,
    /// Pairs whose key starts with `prefix` and is greater than `after` (absent: from the first), in byte order, at
    /// most `limit`.
    pub scan: extern "C" fn(
        frame: *const FrameV1,
        engine_scope: u32,
        prefix: Bytes,
        after: Bytes,
        limit: u64,
        out: *mut StorePairsV1,
    ) -> u32,
    /// All of the operations or none, durable when it returns `OK`.
    pub batch: extern "C" fn(frame: *const FrameV1, ops: *const StoreOpV1, len: usize) -> u32,
}
