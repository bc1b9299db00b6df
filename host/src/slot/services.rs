//! The host services that an engine may call, as the rooms above offer them.

use super::facts::{CancelFlag, CompactArgs, CompactOutput, EntryRef, MaintainOutput, SessionFacts};
use super::hook::Hook;
use crate::transcript::{EngineOp, EntryId, Message};
use engine_abi::wire::status;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Where a service call comes from, and how long it may take.
#[derive(Debug, Clone, Copy)]
pub struct CallScope<'a> {
    /// Registered id of the engine: the name of its store.
    pub engine_id: &'a str,
    /// Its owner: `core`, or the plugin's id.
    pub owner: &'a str,
    /// The running hook.
    pub hook: Hook,
    /// Deadline of the running hook. A service that waits returns before it.
    pub deadline: Instant,
    /// The caller's cancel signal.
    pub cancel: &'a CancelFlag,
    /// The session; empty during `factory` and `info`.
    pub session: &'a SessionFacts,
    /// Grants of the plugin's entry (`sessions`, `memory-append`, `llm-model-override`).
    pub grants: &'a [String],
}

impl CallScope<'_> {
    /// True when the plugin's entry grants this.
    pub fn granted(&self, grant: &str) -> bool {
        self.grants.iter().any(|known| known == grant)
    }
}

/// Why a service call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServiceStatus {
    /// It failed.
    Failed,
    /// Cancelled.
    Cancelled,
    /// Past the deadline.
    Expired,
    /// Not granted, a limit, or not in this hook.
    Refused,
    /// An argument is invalid.
    Invalid,
    /// It does not exist.
    NotFound,
    /// Cannot serve now.
    Unavailable,
}

impl ServiceStatus {
    /// The kind in one word, for a metric.
    pub fn word(self) -> &'static str {
        match self {
            ServiceStatus::Failed => "failed",
            ServiceStatus::Cancelled => "cancelled",
            ServiceStatus::Expired => "expired",
            ServiceStatus::Refused => "refused",
            ServiceStatus::Invalid => "invalid",
            ServiceStatus::NotFound => "not-found",
            ServiceStatus::Unavailable => "unavailable",
        }
    }

    /// The wire code.
    pub fn code(self) -> u32 {
        match self {
            ServiceStatus::Failed => status::ERROR,
            ServiceStatus::Cancelled => status::CANCELLED,
            ServiceStatus::Expired => status::EXPIRED,
            ServiceStatus::Refused => status::REFUSED,
            ServiceStatus::Invalid => status::INVALID,
            ServiceStatus::NotFound => status::NOT_FOUND,
            ServiceStatus::Unavailable => status::UNAVAILABLE,
        }
    }
}

/// A failed service call. The engine gets the status and, on demand, the message with a token that marks it as the host's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct ServiceError {
    /// What kind.
    pub status: ServiceStatus,
    /// Why.
    pub message: String,
}

impl ServiceError {
    /// An error of this kind.
    pub fn new(status: ServiceStatus, message: impl Into<String>) -> ServiceError {
        ServiceError { status, message: message.into() }
    }

    /// The service cannot serve here or now.
    pub fn unavailable(what: &str) -> ServiceError {
        ServiceError::new(ServiceStatus::Unavailable, format!("runtime_unavailable: {what} is not available here"))
    }
}

/// Result of a token count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenCount {
    /// Tokens.
    pub tokens: u64,
    /// True when no tokenizer is known for the model and the number is a bound.
    pub estimated: bool,
}

/// Parameters of `llm.complete`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct LlmRequest {
    /// Messages; roles user and assistant.
    #[serde(with = "super::remote::lean::messages")]
    pub messages: Vec<Message>,
    /// `systemPrompt`.
    pub system_prompt: Option<String>,
    /// `model`; `None` for the model in use.
    pub model: Option<String>,
    /// `purpose`.
    pub purpose: Option<String>,
    /// `reasoning`.
    pub reasoning: Option<String>,
    /// `responseFormat`, JSON text.
    pub response_format_json: Option<String>,
    /// `maxTokens`.
    pub max_tokens: Option<u64>,
    /// `temperature`.
    pub temperature: Option<f64>,
}

/// Result of `llm.complete`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct LlmResponse {
    /// `text`.
    pub text: String,
    /// `provider`.
    pub provider: String,
    /// `model`.
    pub model: String,
    /// `responseModel`.
    pub response_model: Option<String>,
    /// `stopReason`.
    pub stop_reason: Option<String>,
    /// `agentId`.
    pub agent_id: Option<String>,
    /// `usage.inputTokens`.
    pub input_tokens: Option<u64>,
    /// `usage.outputTokens`.
    pub output_tokens: Option<u64>,
    /// `usage.cacheReadTokens`.
    pub cache_read_tokens: Option<u64>,
    /// `usage.cacheWriteTokens`.
    pub cache_write_tokens: Option<u64>,
    /// `usage.totalTokens`.
    pub total_tokens: Option<u64>,
    /// `usage.costUsd`.
    pub cost_usd: Option<f64>,
}

/// Request for a page of the transcript. Limits are checked and filled in by the slot.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CursorRequest {
    /// Another session of the same agent; `None` for the session of the call. Only with the grant `sessions`.
    pub session_key: Option<String>,
    /// Where to go on; `None` to start from the oldest entry.
    pub cursor: Option<String>,
    /// Most messages, 1 to 10,000.
    pub max_messages: usize,
    /// Most bytes, 1 to 64 MiB.
    pub max_bytes: u64,
}

/// A page of the transcript.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CursorPage {
    /// A code from [`engine_abi::wire::cursor_outcome`].
    pub outcome: u32,
    /// A code from [`engine_abi::wire::cursor_reset`].
    pub reset_reason: u32,
    /// True when more follows.
    pub has_more: bool,
    /// Where the next page starts.
    pub cursor: Option<String>,
    /// The entries, oldest first.
    #[serde(with = "super::remote::lean::refs")]
    pub entries: Vec<EntryRef>,
    /// Size of the page in bytes.
    pub serialized_bytes: u64,
    /// What `max_bytes` must at least be when the first entry alone is larger; else 0.
    pub required_bytes: u64,
}

/// One replacement of `rewriteTranscriptEntries`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Replacement {
    /// Entry to replace.
    pub entry_id: EntryId,
    /// What replaces it; the role stays.
    #[serde(with = "super::remote::lean::message")]
    pub message: Message,
}

/// Arguments of `buildMemorySystemPromptAddition`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryPromptArgs {
    /// Names of the tools that the model will be offered.
    #[serde(deserialize_with = "super::few::few::<{ super::call::receive::LIST_MAX + 1 }, _, _>")]
    pub available_tools: Vec<String>,
    /// A code from [`engine_abi::wire::citations_mode`].
    pub citations_mode: u32,
    /// True in a sandbox.
    pub sandboxed: bool,
}

/// One hit of a memory search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryHit {
    /// Id.
    pub id: String,
    /// Text.
    pub text: String,
    /// Higher is better.
    pub score: f64,
    /// Milliseconds since the epoch.
    pub time_ms: Option<i64>,
}

/// Keys with their values, in byte order of the keys.
pub type StorePairs = Vec<(Vec<u8>, Vec<u8>)>;

/// One operation of an engine's atomic batch with its scope.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreOp {
    /// True for the engine's own scope, false for the session's.
    pub engine_scope: bool,
    /// The operation.
    pub op: EngineOp,
}

/// What the gateway offers to a running call. The slot checks the deadline, the grants and the encoding before it asks.
///
/// All of it blocks the engine's thread; an implementation waits no longer than the scope's deadline, and stops when the scope
/// is cancelled. Each default says that the service is not there.
pub trait HostServices: Send + Sync {
    /// True when the service of this id ([`engine_abi::wire::service`]) can serve.
    fn available(&self, service_id: &str) -> bool {
        let _ = service_id;
        false
    }

    /// Tokens of a text, by the tokenizer of the model in use.
    fn count_tokens(&self, scope: &CallScope<'_>, text: &str) -> Result<TokenCount, ServiceError> {
        let _ = (scope, text);
        Err(ServiceError::unavailable("token counting"))
    }

    /// `llm.complete`.
    fn llm_complete(&self, scope: &CallScope<'_>, request: LlmRequest) -> Result<LlmResponse, ServiceError> {
        let _ = (scope, request);
        Err(ServiceError::unavailable("llm.complete"))
    }

    /// `delegateCompactionToRuntime`.
    fn delegate_compaction(&self, scope: &CallScope<'_>, args: CompactArgs) -> Result<CompactOutput, ServiceError> {
        let _ = (scope, args);
        Err(ServiceError::unavailable("the built-in compaction"))
    }

    /// A page of the transcript.
    fn read_transcript(&self, scope: &CallScope<'_>, request: CursorRequest) -> Result<CursorPage, ServiceError> {
        let _ = (scope, request);
        Err(ServiceError::unavailable("the transcript"))
    }

    /// `rewriteTranscriptEntries`.
    fn rewrite(&self, scope: &CallScope<'_>, replacements: Vec<Replacement>) -> Result<MaintainOutput, ServiceError> {
        let _ = (scope, replacements);
        Err(ServiceError::unavailable("rewriting the transcript"))
    }

    /// Keys of the agent's sessions, newest use first.
    fn list_sessions(
        &self,
        scope: &CallScope<'_>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, ServiceError> {
        let _ = (scope, after, limit);
        Err(ServiceError::unavailable("the list of sessions"))
    }

    /// `buildMemorySystemPromptAddition`.
    fn memory_prompt(&self, scope: &CallScope<'_>, args: MemoryPromptArgs) -> Result<Option<String>, ServiceError> {
        let _ = (scope, args);
        Err(ServiceError::unavailable("memory"))
    }

    /// Search in the memory.
    fn memory_search(&self, scope: &CallScope<'_>, query: &str, limit: usize) -> Result<Vec<MemoryHit>, ServiceError> {
        let _ = (scope, query, limit);
        Err(ServiceError::unavailable("memory"))
    }

    /// Append to the memory.
    fn memory_append(&self, scope: &CallScope<'_>, text: &str) -> Result<(), ServiceError> {
        let _ = (scope, text);
        Err(ServiceError::unavailable("memory"))
    }

    /// A value of the engine's store.
    fn store_get(
        &self,
        scope: &CallScope<'_>,
        engine_scope: bool,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, ServiceError> {
        let _ = (scope, engine_scope, key);
        Err(ServiceError::unavailable("the engine's store"))
    }

    /// Pairs whose key starts with `prefix` and is greater than `after`, in byte order.
    fn store_scan(
        &self,
        scope: &CallScope<'_>,
        engine_scope: bool,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<StorePairs, ServiceError> {
        let _ = (scope, engine_scope, prefix, after, limit);
        Err(ServiceError::unavailable("the engine's store"))
    }

    /// All of the operations or none, durable when it returns. A requirement that does not hold is `Refused`.
    fn store_batch(&self, scope: &CallScope<'_>, ops: Vec<StoreOp>) -> Result<(), ServiceError> {
        let _ = (scope, ops);
        Err(ServiceError::unavailable("the engine's store"))
    }
}

/// No services at all: for the disposable child that probes a library, and for `factory` and `info`.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoServices;

impl HostServices for NoServices {}
