//! What goes into a hook and what comes out, in owned types of the host.

use crate::transcript::{Entry, EntryBody, EntryId, Message, Role, stored_flags};
use engine_abi::wire;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

pub use crate::compaction::View;

/// A cancel signal. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct CancelFlag(Arc<CancelState>);

#[derive(Debug, Default)]
struct CancelState {
    // Beside the token: hooks ask in inner loops, and the token's own question takes a lock.
    raised: AtomicBool,
    token: CancellationToken,
}

impl CancelFlag {
    /// A signal that is not raised.
    pub fn new() -> CancelFlag {
        CancelFlag::default()
    }

    /// Raises it for good.
    pub fn cancel(&self) {
        self.0.raised.store(true, Ordering::Release);
        self.0.token.cancel();
    }

    /// True once it was raised.
    pub fn is_cancelled(&self) -> bool {
        self.0.raised.load(Ordering::Acquire)
    }

    /// Waits until it is raised.
    pub async fn cancelled(&self) {
        self.0.token.cancelled().await;
    }
}

/// The session of a segment, and what the host tells about its run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SessionFacts {
    /// Id of the session; a throw-away id in an ephemeral turn.
    pub session_id: String,
    /// Key of the session; `None` in an ephemeral turn.
    pub session_key: Option<String>,
    /// Agent of the session.
    pub agent: String,
    /// Working folder of the run.
    pub cwd: Option<String>,
    /// Name of the store that holds it: opaque, equal for sessions of one store.
    pub store: Option<String>,
    /// Thread of the session, where the channel has threads.
    pub thread_id: Option<String>,
    /// True when nothing of this turn is stored.
    pub ephemeral: bool,
    /// True during a heartbeat.
    pub heartbeat: bool,
    /// `runtimeSettings`.
    pub settings: Option<RuntimeSettings>,
    /// `promptCache`.
    pub prompt_cache: Option<PromptCacheFacts>,
    /// The context budget in tokens.
    pub token_budget: Option<u64>,
    /// The measured tokens of the context now.
    pub current_token_count: Option<u64>,
}

/// `runtimeSettings`, schema version 1. The host's name and version number are filled in by the slot.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RuntimeSettings {
    /// A code from [`wire::runtime_mode`].
    pub mode: u32,
    /// `runtime.harnessId`.
    pub harness_id: Option<String>,
    /// `runtime.runtimeId`.
    pub runtime_id: Option<String>,
    /// `model.requested`.
    pub model_requested: Option<String>,
    /// `model.resolved`.
    pub model_resolved: Option<String>,
    /// `model.provider`.
    pub model_provider: Option<String>,
    /// `model.family`.
    pub model_family: Option<String>,
    /// `contextEngineSelection.selectedId`.
    pub selected_id: Option<String>,
    /// A code from [`wire::selection_source`].
    pub selection_source: u32,
    /// A code from [`wire::reason_code`], 0 for none.
    pub fallback_reason: u32,
    /// A code from [`wire::reason_code`], 0 for none.
    pub degraded_reason: u32,
    /// `executionHost.id`.
    pub execution_host_id: Option<String>,
    /// `executionHost.label`.
    pub execution_host_label: Option<String>,
    /// `limits.promptTokenBudget`.
    pub prompt_token_budget: Option<u64>,
    /// `limits.maxOutputTokens`.
    pub max_output_tokens: Option<u64>,
}

/// `promptCache`. Numbers are tokens.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct PromptCacheFacts {
    /// A code from [`wire::cache_retention`].
    pub retention: u32,
    /// True when the cache broke at the last call.
    pub broke: bool,
    /// `lastCallUsage.input`.
    pub input: Option<u64>,
    /// `lastCallUsage.output`.
    pub output: Option<u64>,
    /// `lastCallUsage.cacheRead`.
    pub cache_read: Option<u64>,
    /// `lastCallUsage.cacheWrite`.
    pub cache_write: Option<u64>,
    /// `lastCallUsage.total`.
    pub total: Option<u64>,
    /// `lastCallUsage.contextUsage.promptTokens`.
    pub context_prompt_tokens: Option<u64>,
    /// `observation.previousCacheRead`.
    pub previous_cache_read: Option<u64>,
    /// `observation.changes`, JSON.
    pub changes_json: Option<String>,
    /// Milliseconds since the epoch.
    pub last_cache_touch_ms: Option<i64>,
    /// Milliseconds since the epoch.
    pub expires_ms: Option<i64>,
}

/// An entry with its body, for `ingest`, `ingestBatch`, `afterTurn`, `commitTurn` and pages of the transcript.
#[derive(Debug, Clone)]
pub struct EntryRef {
    /// The row.
    pub head: wire::EntryHeadV1,
    /// The body.
    pub message: Arc<Message>,
}

impl EntryRef {
    /// A stored entry as an engine sees it; `None` for a compaction.
    pub fn of(entry: &Entry) -> Option<EntryRef> {
        let EntryBody::Message(message) = &entry.body else { return None };
        let flags = [
            (message.role == Role::User, wire::entry_flags::TURN_START),
            (!message.tool_calls.is_empty(), wire::entry_flags::TOOL_CALLS),
            (message.has_media(), wire::entry_flags::MEDIA),
            (entry.flags & stored_flags::HEARTBEAT != 0, wire::entry_flags::HEARTBEAT),
        ];
        let head = wire::EntryHeadV1 {
            id: entry.id,
            time_ms: entry.time_ms,
            tokens: entry.tokens,
            role: message.role.code(),
            flags: flags.into_iter().filter(|(is, _)| *is).map(|(_, flag)| flag).sum(),
            text_bytes: message.text().len().try_into().unwrap_or(u32::MAX),
        };
        Some(EntryRef { head, message: Arc::clone(message) })
    }
}

/// A fixed place in the transcript.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Anchor {
    /// Entry.
    pub entry_id: EntryId,
    /// Number of the row in the store.
    pub raw_seq: u64,
    /// Parent on the active branch, or 0.
    pub effective_parent_id: EntryId,
    /// Position among the messages of the active branch, from 0.
    pub active_message_position: u64,
    /// Generation of the transcript.
    pub generation: u64,
    /// Idempotency key of the request that brought it.
    pub idempotency_key: Option<String>,
}

/// What `bootstrap` gave. An engine without the hook gives the default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootstrapOutput {
    /// True when the engine took up the session.
    pub bootstrapped: bool,
    /// `importedMessages`.
    pub imported_messages: Option<u64>,
    /// `reason`.
    pub reason: Option<String>,
}

/// What `maintain` or a rewrite gave. An engine without the hook gives the default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaintainOutput {
    /// True when something changed.
    pub changed: bool,
    /// `bytesFreed`.
    pub bytes_freed: u64,
    /// `rewrittenEntries`.
    pub rewritten_entries: u64,
    /// `reason`.
    pub reason: Option<String>,
}

/// Input of `commitTurn`.
#[derive(Debug, Clone)]
pub struct CommitInput {
    /// The same turn always comes with the same key.
    pub advancement_key: String,
    /// Id of the logical turn.
    pub logical_turn_id: String,
    /// Anchor of the admitted user entry.
    pub admission: Anchor,
    /// Anchor of the last entry.
    pub terminal: Anchor,
    /// The closed range from admission to terminal.
    pub entries: Vec<EntryRef>,
}

/// Status of `commitTurn`. Both settle the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CommitStatus {
    /// The turn was taken now.
    Committed,
    /// The key was committed before.
    Duplicate,
}

/// The current user turn.
#[derive(Debug, Clone)]
pub struct PromptInput {
    /// Id of its first entry, or 0 when it has none.
    pub entry_id: EntryId,
    /// Tokens of the whole current turn as it will be sent.
    pub tokens: u64,
    /// The message.
    pub message: Arc<Message>,
}

/// Input of `assemble`.
#[derive(Debug, Clone)]
pub struct AssembleInput {
    /// The projection. The engine sees its first `len` entries; the rest is the current turn and counts in the checks.
    pub view: Arc<View>,
    /// Number of entries before the current turn.
    pub len: usize,
    /// The current turn.
    pub prompt: Option<PromptInput>,
    /// Tokens of the system and developer prompts.
    pub system_tokens: u64,
    /// Names of the tools that the model will be offered.
    pub available_tools: Vec<String>,
    /// Model that will be called.
    pub model: Option<String>,
    /// A code from [`wire::citations_mode`].
    pub citations_mode: u32,
}

/// One piece of an assembled prompt, in the order in which the model shall see it.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// Entries `start..end` of the view.
    Span {
        /// First index.
        start: usize,
        /// One past the last index.
        end: usize,
    },
    /// A message of the engine's own.
    Message(Arc<Message>),
    /// The engine placed the current turn here. At most once; when absent the host appends it at the end.
    CurrentTurn,
}

/// What `assemble` gave; checked.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct AssembleOutput {
    /// The prompt.
    #[serde(skip)]
    pub items: Vec<Item>,
    /// The engine's own estimate.
    pub estimated_tokens: u64,
    /// Prepended to the system prompt.
    pub system_prompt_addition: Option<String>,
    /// A block at the head of the current user message as sent.
    pub volatile_prompt_addition: Option<String>,
    /// What counts in the precheck.
    pub prompt_authority: PromptAuthority,
    /// How a host with a persistent thread shall use it.
    pub projection: ContextProjection,
}

/// `promptAuthority`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptAuthority {
    /// What was assembled is what counts.
    #[default]
    Assembled,
    /// The larger of the assembled and the unwindowed history counts.
    PreassemblyMayOverflow,
}

/// `contextProjection`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ContextProjection {
    /// True for `thread_bootstrap`, false for `per_turn`.
    pub thread_bootstrap: bool,
    /// `epoch`.
    pub epoch: Option<String>,
    /// `fingerprint`.
    pub fingerprint: Option<String>,
}

/// Input of `compact`, and of the delegated compaction.
#[derive(Debug, Clone)]
pub struct CompactArgs {
    /// The projection.
    pub view: Arc<View>,
    /// Number of entries that may be compacted (those before the current turn).
    pub len: usize,
    /// True when it must be done whatever the engine's own threshold says.
    pub force: bool,
    /// A code from [`wire::compaction_target`].
    pub target: u32,
    /// A code from [`wire::trigger`].
    pub trigger: u32,
    /// Attempt number, from 1.
    pub attempt: u32,
    /// Most attempts.
    pub max_attempts: u32,
    /// A code from [`wire::force_reason`].
    pub force_reason: u32,
    /// Focus text of the operator.
    pub custom_instructions: Option<String>,
    /// Tokens that the result should fit in; taken from the session's facts for the hook, from the engine for the service.
    pub token_budget: Option<u64>,
    /// Tokens now, as the host or (for the service) the engine counted them.
    pub current_token_count: Option<u64>,
}

/// What `compact` or the delegated compaction gave; checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactOutput {
    /// True when the call did what it could.
    pub ok: bool,
    /// True when the context is smaller now.
    pub compacted: bool,
    /// `reason`.
    pub reason: Option<String>,
    /// `result.summary`.
    pub summary: Option<String>,
    /// `result.firstKeptEntryId`.
    pub first_kept: Option<EntryId>,
    /// `result.tokensBefore`.
    pub tokens_before: Option<u64>,
    /// `result.tokensAfter`.
    pub tokens_after: Option<u64>,
    /// `result.details`, JSON text.
    pub details_json: Option<String>,
    /// `result.sessionId` of a successor.
    pub successor_session_id: Option<String>,
    /// `result.sessionTarget` of a successor.
    pub successor_target: Option<SuccessorTarget>,
}

/// Where a successor session lives.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SuccessorTarget {
    /// Agent.
    pub agent_id: Option<String>,
    /// Session id.
    pub session_id: Option<String>,
    /// Session key.
    pub session_key: Option<String>,
    /// Store.
    pub store: Option<String>,
    /// Thread.
    pub thread_id: Option<String>,
}

/// Input of `prepareSubagentSpawn`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SubagentSpawn {
    /// Key of the parent session.
    pub parent_session_key: String,
    /// Key of the child session.
    pub child_session_key: String,
    /// Id of the parent session.
    pub parent_session_id: Option<String>,
    /// Id of the child session.
    pub child_session_id: Option<String>,
    /// True for `fork`, false for `isolated`.
    pub fork: bool,
    /// Life of the child.
    pub ttl: Option<Duration>,
}

/// A tool of an engine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Tool {
    /// Name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments; an object.
    pub parameters: serde_json::Value,
}

/// Result of `callTool`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// Text for the model.
    pub text: String,
    /// True when the call failed in a way that the model should read about.
    pub is_error: bool,
}
