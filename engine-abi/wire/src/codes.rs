//! The closed code lists. A code is always a `u32` on the wire and is checked by whoever reads it.

/// Status of a call.
pub mod status {
    /// Done.
    pub const OK: u32 = 0;
    /// The callee failed; the reason was pushed through the call's `fail` sink, where there is one.
    pub const ERROR: u32 = 1;
    /// The engine panicked and its guard caught it; the message was pushed like an error.
    pub const PANIC: u32 = 2;
    /// The hook is not implemented, although its function pointer is set. Same as a null pointer.
    pub const UNSUPPORTED: u32 = 3;
    /// The call saw its cancel signal and stopped.
    pub const CANCELLED: u32 = 4;
    /// The call's deadline has passed, or the instance is disposed; nothing was changed.
    pub const EXPIRED: u32 = 5;
    /// The host refuses: not granted, or a limit.
    pub const REFUSED: u32 = 6;
    /// An argument is invalid: text that is not UTF-8, an unknown code or id, a value out of range.
    pub const INVALID: u32 = 7;
    /// What was asked for does not exist.
    pub const NOT_FOUND: u32 = 8;
    /// The service exists but cannot serve now; try later.
    pub const UNAVAILABLE: u32 = 9;
}

/// Role of a message.
pub mod role {
    /// The person.
    pub const USER: u32 = 1;
    /// The model.
    pub const ASSISTANT: u32 = 2;
    /// The result of a tool call.
    pub const TOOL: u32 = 3;
}

/// Bits of an entry.
pub mod entry_flags {
    /// A summary made by a compaction; its role is `user`.
    pub const SUMMARY: u32 = 1;
    /// An assistant entry with tool calls.
    pub const TOOL_CALLS: u32 = 1 << 1;
    /// Content holds more than text (an image, a file).
    pub const MEDIA: u32 = 1 << 2;
    /// Starts a turn: the first entry of a run that begins with a user message.
    pub const TURN_START: u32 = 1 << 3;
    /// Belongs to a heartbeat.
    pub const HEARTBEAT: u32 = 1 << 4;
    /// A tool result that pruning shortened in this projection; the transcript still has all of it.
    pub const PRUNED: u32 = 1 << 5;
    /// Calls of this assistant entry have no result in the transcript; the host sends an error result for them right
    /// behind it. That result has no row of its own; its tokens are part of this entry's.
    pub const SYNTHETIC: u32 = 1 << 6;
    /// `tokens` is an estimate, since the model in use has no known tokenizer.
    pub const TOKENS_ESTIMATED: u32 = 1 << 7;
    /// Admitted but never answered.
    pub const UNANSWERED: u32 = 1 << 8;
}

/// `turnMaintenanceMode`.
pub mod maintenance_mode {
    /// `maintain` runs before the turn ends.
    pub const FOREGROUND: u32 = 0;
    /// `maintain` is queued and never delays a reply.
    pub const BACKGROUND: u32 = 1;
}

/// Bits of `acceptedHostParams`.
pub mod host_params {
    /// `sessionKey`.
    pub const SESSION_KEY: u32 = 1;
    /// `prompt`.
    pub const PROMPT: u32 = 1 << 1;
    /// `runtimeSettings`.
    pub const RUNTIME_SETTINGS: u32 = 1 << 2;
    /// `sessionTarget`.
    pub const SESSION_TARGET: u32 = 1 << 3;
    /// `runtimeContext`: the host services beyond log, deadline and cancel.
    pub const RUNTIME_CONTEXT: u32 = 1 << 4;
    /// `abortSignal`. `compact` gets it always.
    pub const ABORT_SIGNAL: u32 = 1 << 5;
    /// All of them: what an engine without a declaration accepts.
    pub const ALL: u32 = (1 << 6) - 1;
    /// Names as documents spell them, in the order of the bits.
    pub const NAMES: [&str; 6] =
        ["sessionKey", "prompt", "runtimeSettings", "sessionTarget", "runtimeContext", "abortSignal"];
}

/// Bits of `transcriptSemantics`.
pub mod semantics {
    /// `currentTurnFence: before-current-turn-entry-v1`.
    pub const CURRENT_TURN_FENCE_V1: u32 = 1;
    /// `turnAdvancementIdempotency: atomic-idempotent-v1`.
    pub const ATOMIC_IDEMPOTENT_V1: u32 = 1 << 1;
    /// Both: what a durable turn needs, together with `commitTurn`.
    pub const DURABLE: u32 = CURRENT_TURN_FENCE_V1 | ATOMIC_IDEMPOTENT_V1;
}

/// Operations of `hostRequirements`.
pub mod operation {
    /// `agent-run`.
    pub const AGENT_RUN: u32 = 1;
    /// `manual-compact`.
    pub const MANUAL_COMPACT: u32 = 2;
    /// `subagent-spawn`.
    pub const SUBAGENT_SPAWN: u32 = 3;
}

/// Bits of host capabilities.
pub mod capability {
    /// `bootstrap`.
    pub const BOOTSTRAP: u32 = 1;
    /// `assemble-before-prompt`.
    pub const ASSEMBLE_BEFORE_PROMPT: u32 = 1 << 1;
    /// `after-turn`.
    pub const AFTER_TURN: u32 = 1 << 2;
    /// `maintain`.
    pub const MAINTAIN: u32 = 1 << 3;
    /// `compact`.
    pub const COMPACT: u32 = 1 << 4;
    /// `runtime-llm-complete`.
    pub const RUNTIME_LLM_COMPLETE: u32 = 1 << 5;
    /// `thread-bootstrap-projection`.
    pub const THREAD_BOOTSTRAP_PROJECTION: u32 = 1 << 6;
    /// Names as documents spell them, in the order of the bits.
    pub const NAMES: [&str; 7] = [
        "bootstrap",
        "assemble-before-prompt",
        "after-turn",
        "maintain",
        "compact",
        "runtime-llm-complete",
        "thread-bootstrap-projection",
    ];
}

/// `citationsMode` of `assemble`.
pub mod citations_mode {
    /// `auto`.
    pub const AUTO: u32 = 0;
    /// `on`.
    pub const ON: u32 = 1;
    /// `off`.
    pub const OFF: u32 = 2;
}

/// `promptAuthority` of an assemble result.
pub mod prompt_authority {
    /// What was assembled is what counts.
    pub const ASSEMBLED: u32 = 0;
    /// `preassembly_may_overflow`: the larger of the assembled and the unwindowed history counts.
    pub const PREASSEMBLY_MAY_OVERFLOW: u32 = 1;
}

/// `contextProjection.mode`.
pub mod projection_mode {
    /// Every turn is assembled anew.
    pub const PER_TURN: u32 = 0;
    /// `thread_bootstrap`: inject once per epoch into a persistent backend thread.
    pub const THREAD_BOOTSTRAP: u32 = 1;
}

/// `compactionTarget`.
pub mod compaction_target {
    /// `budget`, the default.
    pub const BUDGET: u32 = 0;
    /// `threshold`.
    pub const THRESHOLD: u32 = 1;
}

/// Why a compaction or a maintenance runs.
pub mod trigger {
    /// The context grew past its threshold.
    pub const BUDGET: u32 = 0;
    /// The provider said that the prompt is too long, or the precheck did.
    pub const OVERFLOW: u32 = 1;
    /// A person or a program asked.
    pub const MANUAL: u32 = 2;
    /// The model timed out with a nearly full window.
    pub const TIMEOUT_RECOVERY: u32 = 3;
    /// After `bootstrap`.
    pub const BOOTSTRAP: u32 = 4;
    /// After an accepted turn.
    pub const TURN: u32 = 5;
    /// After a compaction.
    pub const COMPACTION: u32 = 6;
    /// `cli_budget`: the context of a command-line agent grew past its threshold.
    pub const CLI_BUDGET: u32 = 7;
    /// `cli_native_budget`: the same, by the agent's own count.
    pub const CLI_NATIVE_BUDGET: u32 = 8;
}

/// `forceReason` of `compact`. 0 is none.
pub mod force_reason {
    /// Not forced, or no reason given.
    pub const NONE: u32 = 0;
    /// `preflight_required`: the next prompt would not fit.
    pub const PREFLIGHT_REQUIRED: u32 = 1;
    /// `manual`.
    pub const MANUAL: u32 = 2;
}

/// Status of `commitTurn`.
pub mod commit_status {
    /// `committed`.
    pub const COMMITTED: u32 = 1;
    /// `duplicate`: the key was committed before.
    pub const DUPLICATE: u32 = 2;
}

/// `contextMode` of a subagent.
pub mod context_mode {
    /// `isolated`.
    pub const ISOLATED: u32 = 0;
    /// `fork`.
    pub const FORK: u32 = 1;
}

/// Reason of `onSubagentEnded`.
pub mod subagent_end {
    /// `completed`.
    pub const COMPLETED: u32 = 0;
    /// `deleted`.
    pub const DELETED: u32 = 1;
    /// `swept`.
    pub const SWEPT: u32 = 2;
    /// `released`.
    pub const RELEASED: u32 = 3;
}

/// Reason of `onSessionEnded`.
pub mod session_end {
    /// The session was deleted, with its store scope.
    pub const DELETED: u32 = 0;
    /// A reset boundary was written.
    pub const RESET: u32 = 1;
    /// It was not used for long.
    pub const EXPIRED: u32 = 2;
    /// It was ephemeral and its turn is over.
    pub const EPHEMERAL: u32 = 3;
}

/// `runtime.mode` of the runtime settings.
pub mod runtime_mode {
    /// `normal`.
    pub const NORMAL: u32 = 0;
    /// `fallback`.
    pub const FALLBACK: u32 = 1;
    /// `degraded`.
    pub const DEGRADED: u32 = 2;
}

/// `contextEngineSelection.source` of the runtime settings.
pub mod selection_source {
    /// `unknown`.
    pub const UNKNOWN: u32 = 0;
    /// `configured`.
    pub const CONFIGURED: u32 = 1;
    /// `default`.
    pub const DEFAULT: u32 = 2;
}

/// Closed reason codes of the runtime settings' diagnostics. 0 is none.
pub mod reason_code {
    /// No reason.
    pub const NONE: u32 = 0;
    /// `provider_timeout`.
    pub const PROVIDER_TIMEOUT: u32 = 1;
    /// `provider_unavailable`.
    pub const PROVIDER_UNAVAILABLE: u32 = 2;
    /// `rate_limited`.
    pub const RATE_LIMITED: u32 = 3;
    /// `context_overflow`.
    pub const CONTEXT_OVERFLOW: u32 = 4;
    /// `runtime_unavailable`.
    pub const RUNTIME_UNAVAILABLE: u32 = 5;
    /// `unknown`.
    pub const UNKNOWN: u32 = 6;
}

/// `promptCache.retention`.
pub mod cache_retention {
    /// Unknown.
    pub const UNKNOWN: u32 = 0;
    /// `none`.
    pub const NONE: u32 = 1;
    /// `short`.
    pub const SHORT: u32 = 2;
    /// `long`.
    pub const LONG: u32 = 3;
    /// `in_memory`.
    pub const IN_MEMORY: u32 = 4;
    /// `24h`.
    pub const HOURS_24: u32 = 5;
}

/// Level of a log line.
pub mod log_level {
    /// Error.
    pub const ERROR: u32 = 1;
    /// Warning.
    pub const WARN: u32 = 2;
    /// Information.
    pub const INFO: u32 = 3;
    /// Debugging.
    pub const DEBUG: u32 = 4;
    /// Tracing.
    pub const TRACE: u32 = 5;
}

/// Outcome of a page of the transcript cursor.
pub mod cursor_outcome {
    /// A page.
    pub const PAGE: u32 = 0;
    /// The cursor was reset; start from the one that is given.
    pub const RESET: u32 = 1;
    /// No such session.
    pub const MISSING: u32 = 2;
    /// Not now (`projection_rebuilding`); try later.
    pub const UNAVAILABLE: u32 = 3;
}

/// Places of a transcript that have a name, instead of a cursor.
pub mod cursor_place {
    /// Behind the last entry that this engine was handed over, by `commitTurn` or by a cursor, and before which it missed
    /// nothing: what comes from here on is new to it.
    pub const HANDED_OVER: &str = "handed-over";
}

/// Why a cursor was reset. 0 is none.
pub mod cursor_reset {
    /// No reset.
    pub const NONE: u32 = 0;
    /// `invalid_cursor`.
    pub const INVALID_CURSOR: u32 = 1;
    /// `scope_mismatch`.
    pub const SCOPE_MISMATCH: u32 = 2;
    /// `generation_mismatch`.
    pub const GENERATION_MISMATCH: u32 = 3;
    /// `anchor_missing`.
    pub const ANCHOR_MISSING: u32 = 4;
    /// `anchor_moved`.
    pub const ANCHOR_MOVED: u32 = 5;
}

/// Operations of an atomic batch of the engine's store.
pub mod store_op {
    /// Set `key` to `value`.
    pub const PUT: u32 = 1;
    /// Remove `key`; a missing key is no error.
    pub const DELETE: u32 = 2;
    /// The batch fails with [`super::status::REFUSED`] unless `key` is absent.
    pub const REQUIRE_ABSENT: u32 = 3;
    /// The batch fails with [`super::status::REFUSED`] unless `key` holds exactly `value`.
    pub const REQUIRE_EQUAL: u32 = 4;
    /// Remove every key that starts with `key`.
    pub const DELETE_PREFIX: u32 = 5;
}
