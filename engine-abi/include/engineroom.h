/* engineroom.h: the engine contract of Engineroom, for C and every language that can call C.
 *
 * Generated from engine-abi/wire and compared with it by the tests; do not edit. docs/engine-in-c.md is the tutorial, and
 * engines/c-window is a whole engine.
 *
 * THE WAY IN. A library exports one function, engineroom_entry_v1, which returns a static EngineroomEntryPointV1, and holds a
 * manifest (ENGINEROOM_MANIFEST, at the end), which the host reads before it loads anything. The host calls `register_` once; the
 * library hands over a factory for each of its engines and memory providers. The factory makes instances: a table of functions,
 * the hooks, and a pointer of the engine's own, which every hook gets first and the host never looks at.
 *
 * OWNERSHIP. Nobody frees what the other side made.
 *   - What a hook gets is lent: it is valid until the hook returns, so copy what shall live longer.
 *   - A result is pushed into the call's sink while the hook runs. The host has copied it when the push returns, so it may lie on
 *     the stack. Push the result that belongs to the hook, once, then return the push's own status.
 *   - What a service of the host writes into `out` is lent until the hook returns.
 *   - Tables, factories and the entry live as long as the process: make them static. A library is never unloaded.
 *   - The engine's own pointer lives from `create` to `dispose`, where the engine frees it.
 *
 * TEXTS. A text is a pointer and a length in bytes, without a NUL at its end, and is UTF-8. A null pointer means absent; an empty
 * text has a pointer. The host checks what it is given. Lists are a pointer and a length, too; with length 0 the pointer may not
 * be read. A number that is unknown is ENGINEROOM_NONE_U64. A time is milliseconds since the Unix epoch, -1 when unknown. Entries
 * come oldest first, tools by their names. A code or a set of bits is of the enum that its comment names, or that has its name.
 * Flags are 0 or 1. Set every `reserved` to 0: `= {0}` does.
 *
 * FAILURE. Every function returns a status. On a failure push the reason with `sink->fail`, then return ENGINEROOM_STATUS_ERROR.
 * An error that is not the engine's own but comes from a service is handed on with the token of `host->last_error`: then the
 * engine is not blamed for it. No function unwinds: catch every C++ exception, and never longjmp out of a hook. A failed hook puts
 * the engine out of service until the next start.
 *
 * THREADS. Hooks run on threads of the host with 8 MiB of stack. One instance is entered from several threads at once for
 * different sessions, never twice at once for one session: guard what sessions share. Push and ask services only from the thread
 * that runs the hook, and only until it returns; `host->log` alone may be called from any thread, at any time. Threads of the
 * engine's own are allowed, must be joined in `dispose`, and must not touch a call.
 *
 * TIME. Each call has a deadline. Long work asks `call->cancelled(call->frame)` now and then, and returns
 * ENGINEROOM_STATUS_CANCELLED when it says 1. A call that misses its deadline is abandoned: whatever it pushes or asks for later
 * returns ENGINEROOM_STATUS_EXPIRED and changes nothing.
 *
 * GROWTH. A struct of this header never changes. What comes later is a new table, asked for by an id with a version
 * (`host->service`, `get_extension`); one that is not there is null.
 */
#ifndef ENGINEROOM_H
#define ENGINEROOM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ENGINEROOM_CONTRACT_VERSION "1.0-draft" /* The contract's version as it stands in manifests */
#define ENGINEROOM_CONTRACT_MAJOR 1
#define ENGINEROOM_CONTRACT_MINOR 0
enum { /* Status of a call */
  ENGINEROOM_STATUS_OK = 0, /* Done */
  ENGINEROOM_STATUS_ERROR = 1, /* The callee failed; the reason was pushed through the call's `fail` sink, where there is one */
  ENGINEROOM_STATUS_PANIC = 2, /* The engine panicked and its guard caught it; the message was pushed like an error */
  /* The hook is not implemented, although its function pointer is set */
  ENGINEROOM_STATUS_UNSUPPORTED = 3, ENGINEROOM_STATUS_CANCELLED = 4, /* The call saw its cancel signal and stopped */
  ENGINEROOM_STATUS_EXPIRED = 5, /* The call's deadline has passed, or the instance is disposed; nothing was changed */
  ENGINEROOM_STATUS_REFUSED = 6, /* The host refuses: not granted, or a limit */
  ENGINEROOM_STATUS_INVALID = 7, /* An argument is invalid: text that is not UTF-8, an unknown code or id, a value out of range */
  ENGINEROOM_STATUS_NOT_FOUND = 8, /* What was asked for does not exist */
  ENGINEROOM_STATUS_UNAVAILABLE = 9, /* The service exists but cannot serve now; try later */
};
enum { /* Role of a message */
  ENGINEROOM_ROLE_USER = 1, /* The person */ ENGINEROOM_ROLE_ASSISTANT = 2, /* The model */ ENGINEROOM_ROLE_TOOL = 3, };
enum { /* Bits of an entry */
  ENGINEROOM_ENTRY_FLAGS_SUMMARY = 1, /* A summary made by a compaction; its role is `user` */
  ENGINEROOM_ENTRY_FLAGS_TOOL_CALLS = 1 << 1, /* An assistant entry with tool calls */
  ENGINEROOM_ENTRY_FLAGS_MEDIA = 1 << 2, /* Content holds more than text (an image, a file) */
  ENGINEROOM_ENTRY_FLAGS_TURN_START = 1 << 3, /* Starts a turn: the first entry of a run that begins with a user message */
  ENGINEROOM_ENTRY_FLAGS_HEARTBEAT = 1 << 4, /* Belongs to a heartbeat */
  ENGINEROOM_ENTRY_FLAGS_PRUNED = 1 << 5, /* A tool result that pruning shortened in this projection */
  ENGINEROOM_ENTRY_FLAGS_SYNTHETIC = 1 << 6, /* Calls of this assistant entry have no result in the transcript */
  ENGINEROOM_ENTRY_FLAGS_TOKENS_ESTIMATED = 1 << 7, /* `tokens` is an estimate, since the model in use has no known tokenizer */
  ENGINEROOM_ENTRY_FLAGS_UNANSWERED = 1 << 8, /* Admitted but never answered */
};
enum { /* `turnMaintenanceMode` */
  ENGINEROOM_MAINTENANCE_MODE_FOREGROUND = 0, /* `maintain` runs before the turn ends */
  ENGINEROOM_MAINTENANCE_MODE_BACKGROUND = 1, /* `maintain` is queued and never delays a reply */
};
enum { /* Bits of `acceptedHostParams` */
  ENGINEROOM_HOST_PARAMS_SESSION_KEY = 1, ENGINEROOM_HOST_PARAMS_PROMPT = 1 << 1, ENGINEROOM_HOST_PARAMS_RUNTIME_SETTINGS = 1 << 2,
  ENGINEROOM_HOST_PARAMS_SESSION_TARGET = 1 << 3,
  ENGINEROOM_HOST_PARAMS_RUNTIME_CONTEXT = 1 << 4, /* `runtimeContext`: the host services beyond log, deadline and cancel */
  ENGINEROOM_HOST_PARAMS_ABORT_SIGNAL = 1 << 5, /* `abortSignal`. `compact` gets it always. */
};
enum { /* Bits of `transcriptSemantics` */
  ENGINEROOM_SEMANTICS_CURRENT_TURN_FENCE_V1 = 1, /* `currentTurnFence: before-current-turn-entry-v1` */
  ENGINEROOM_SEMANTICS_ATOMIC_IDEMPOTENT_V1 = 1 << 1, /* `turnAdvancementIdempotency: atomic-idempotent-v1` */
};
enum { /* Operations of `hostRequirements` */
  ENGINEROOM_OPERATION_AGENT_RUN = 1, ENGINEROOM_OPERATION_MANUAL_COMPACT = 2, ENGINEROOM_OPERATION_SUBAGENT_SPAWN = 3, };
enum { /* Bits of host capabilities */
  ENGINEROOM_CAPABILITY_BOOTSTRAP = 1, ENGINEROOM_CAPABILITY_ASSEMBLE_BEFORE_PROMPT = 1 << 1,
  ENGINEROOM_CAPABILITY_AFTER_TURN = 1 << 2, ENGINEROOM_CAPABILITY_MAINTAIN = 1 << 3, ENGINEROOM_CAPABILITY_COMPACT = 1 << 4,
  ENGINEROOM_CAPABILITY_RUNTIME_LLM_COMPLETE = 1 << 5, ENGINEROOM_CAPABILITY_THREAD_BOOTSTRAP_PROJECTION = 1 << 6, };
enum { /* `citationsMode` of `assemble` */
  ENGINEROOM_CITATIONS_MODE_AUTO = 0, ENGINEROOM_CITATIONS_MODE_ON = 1, ENGINEROOM_CITATIONS_MODE_OFF = 2, };
enum { /* `promptAuthority` of an assemble result */
  ENGINEROOM_PROMPT_AUTHORITY_ASSEMBLED = 0, /* What was assembled is what counts */
  /* `preassembly_may_overflow`: the larger of the assembled and the unwindowed history counts */
  ENGINEROOM_PROMPT_AUTHORITY_PREASSEMBLY_MAY_OVERFLOW = 1, };
enum { /* `contextProjection.mode` */
  ENGINEROOM_PROJECTION_MODE_PER_TURN = 0, /* Every turn is assembled anew */
  ENGINEROOM_PROJECTION_MODE_THREAD_BOOTSTRAP = 1, /* `thread_bootstrap`: inject once per epoch into a persistent backend thread */
};
enum { /* `compactionTarget` */
  ENGINEROOM_COMPACTION_TARGET_BUDGET = 0, /* `budget`, the default */ ENGINEROOM_COMPACTION_TARGET_THRESHOLD = 1, };
enum { /* Why a compaction or a maintenance runs */
  ENGINEROOM_TRIGGER_BUDGET = 0, /* The context grew past its threshold */
  ENGINEROOM_TRIGGER_OVERFLOW = 1, /* The provider said that the prompt is too long, or the precheck did */
  ENGINEROOM_TRIGGER_MANUAL = 2, /* A person or a program asked */
  ENGINEROOM_TRIGGER_TIMEOUT_RECOVERY = 3, /* The model timed out with a nearly full window */
  ENGINEROOM_TRIGGER_BOOTSTRAP = 4, /* After `bootstrap` */ ENGINEROOM_TRIGGER_TURN = 5, /* After an accepted turn */
  ENGINEROOM_TRIGGER_COMPACTION = 6, /* After a compaction */
  ENGINEROOM_TRIGGER_CLI_BUDGET = 7, /* `cli_budget`: the context of a command-line agent grew past its threshold */
  ENGINEROOM_TRIGGER_CLI_NATIVE_BUDGET = 8, /* `cli_native_budget`: the same, by the agent's own count */
};
enum { /* `forceReason` of `compact`. 0 is none. */
  ENGINEROOM_FORCE_REASON_NONE = 0, /* Not forced, or no reason given */
  ENGINEROOM_FORCE_REASON_PREFLIGHT_REQUIRED = 1, /* `preflight_required`: the next prompt would not fit */
  ENGINEROOM_FORCE_REASON_MANUAL = 2, };
enum { /* Status of `commitTurn` */
  ENGINEROOM_COMMIT_STATUS_COMMITTED = 1, ENGINEROOM_COMMIT_STATUS_DUPLICATE = 2, /* `duplicate`: the key was committed before */
};
enum { ENGINEROOM_CONTEXT_MODE_ISOLATED = 0, ENGINEROOM_CONTEXT_MODE_FORK = 1 }; /* `contextMode` of a subagent */
enum { /* Reason of `onSubagentEnded` */
  ENGINEROOM_SUBAGENT_END_COMPLETED = 0, ENGINEROOM_SUBAGENT_END_DELETED = 1, ENGINEROOM_SUBAGENT_END_SWEPT = 2,
  ENGINEROOM_SUBAGENT_END_RELEASED = 3, };
enum { /* Reason of `onSessionEnded` */
  ENGINEROOM_SESSION_END_DELETED = 0, /* The session was deleted, with its store scope */
  ENGINEROOM_SESSION_END_RESET = 1, /* A reset boundary was written */
  ENGINEROOM_SESSION_END_EXPIRED = 2, /* It was not used for long */
  ENGINEROOM_SESSION_END_EPHEMERAL = 3, /* It was ephemeral and its turn is over */
};
enum { /* `runtime.mode` of the runtime settings */
  ENGINEROOM_RUNTIME_MODE_NORMAL = 0, ENGINEROOM_RUNTIME_MODE_FALLBACK = 1, ENGINEROOM_RUNTIME_MODE_DEGRADED = 2, };
enum { /* `contextEngineSelection.source` of the runtime settings */
  ENGINEROOM_SELECTION_SOURCE_UNKNOWN = 0, ENGINEROOM_SELECTION_SOURCE_CONFIGURED = 1, ENGINEROOM_SELECTION_SOURCE_DEFAULT = 2, };
enum { /* Closed reason codes of the runtime settings' diagnostics. 0 is none. */
  ENGINEROOM_REASON_CODE_NONE = 0, /* No reason */ ENGINEROOM_REASON_CODE_PROVIDER_TIMEOUT = 1,
  ENGINEROOM_REASON_CODE_PROVIDER_UNAVAILABLE = 2, ENGINEROOM_REASON_CODE_RATE_LIMITED = 3,
  ENGINEROOM_REASON_CODE_CONTEXT_OVERFLOW = 4, ENGINEROOM_REASON_CODE_RUNTIME_UNAVAILABLE = 5, ENGINEROOM_REASON_CODE_UNKNOWN = 6,
};
enum { /* `promptCache.retention` */
  ENGINEROOM_CACHE_RETENTION_UNKNOWN = 0, ENGINEROOM_CACHE_RETENTION_NONE = 1, ENGINEROOM_CACHE_RETENTION_SHORT = 2,
  ENGINEROOM_CACHE_RETENTION_LONG = 3, ENGINEROOM_CACHE_RETENTION_IN_MEMORY = 4,
  ENGINEROOM_CACHE_RETENTION_HOURS_24 = 5, /* `24h` */
};
enum { /* Level of a log line */
  ENGINEROOM_LOG_LEVEL_ERROR = 1, ENGINEROOM_LOG_LEVEL_WARN = 2, ENGINEROOM_LOG_LEVEL_INFO = 3, ENGINEROOM_LOG_LEVEL_DEBUG = 4,
  ENGINEROOM_LOG_LEVEL_TRACE = 5, };
enum { /* Outcome of a page of the transcript cursor */
  ENGINEROOM_CURSOR_OUTCOME_PAGE = 0,
  ENGINEROOM_CURSOR_OUTCOME_RESET = 1, /* The cursor was reset; start from the one that is given */
  ENGINEROOM_CURSOR_OUTCOME_MISSING = 2, /* No such session */
  ENGINEROOM_CURSOR_OUTCOME_UNAVAILABLE = 3, /* Not now (`projection_rebuilding`); try later */
};

/* Places of a transcript that have a name, instead of a cursor. */
/* Behind the last entry that this engine was handed over, by `commitTurn` or by a cursor, and before which it missed nothing:
 * what comes from here on is new to it */
#define ENGINEROOM_CURSOR_PLACE_HANDED_OVER "handed-over"
enum { /* Why a cursor was reset. 0 is none. */
  ENGINEROOM_CURSOR_RESET_NONE = 0, /* No reset */ ENGINEROOM_CURSOR_RESET_INVALID_CURSOR = 1,
  ENGINEROOM_CURSOR_RESET_SCOPE_MISMATCH = 2, ENGINEROOM_CURSOR_RESET_GENERATION_MISMATCH = 3,
  ENGINEROOM_CURSOR_RESET_ANCHOR_MISSING = 4, ENGINEROOM_CURSOR_RESET_ANCHOR_MOVED = 5, };
enum { /* Operations of an atomic batch of the engine's store */
  ENGINEROOM_STORE_OP_PUT = 1, /* Set `key` to `value` */
  ENGINEROOM_STORE_OP_DELETE = 2, /* Remove `key`; a missing key is no error */
  ENGINEROOM_STORE_OP_REQUIRE_ABSENT = 3, /* The batch fails with `status::REFUSED` unless `key` is absent */
  ENGINEROOM_STORE_OP_REQUIRE_EQUAL = 4, /* The batch fails with `status::REFUSED` unless `key` holds exactly `value` */
  ENGINEROOM_STORE_OP_DELETE_PREFIX = 5, /* Remove every key that starts with `key` */
};
#define ENGINEROOM_NONE_U64 UINT64_MAX /* An unknown or absent number wherever a field says so */

/* Ids of the services. */
#define ENGINEROOM_SERVICE_TOKENS "engineroom.tokens/1" /* `TokensV1` */
#define ENGINEROOM_SERVICE_LLM "engineroom.llm/1" /* `LlmV1` */
#define ENGINEROOM_SERVICE_COMPACTION "engineroom.compaction/1" /* `CompactionV1` */
#define ENGINEROOM_SERVICE_TRANSCRIPT "engineroom.transcript/1" /* `TranscriptV1` */
#define ENGINEROOM_SERVICE_SESSIONS "engineroom.sessions/1" /* `SessionsV1`; only when the plugin's entry grants it */
#define ENGINEROOM_SERVICE_MEMORY "engineroom.memory/1" /* `MemoryV1` */
#define ENGINEROOM_SERVICE_STORE "engineroom.store/1" /* `StoreV1` */
#define ENGINEROOM_C_ENTRY_SYMBOL "engineroom_entry_v1" /* Symbol of the C door: `const EntryPointV1 *engineroom_entry_v1(void)` */

/* Declared ahead. A frame belongs to the host: an engine hands it on, and never looks into it. */
typedef struct EngineroomCallV1 EngineroomCallV1; typedef struct EngineroomEngineV1 EngineroomEngineV1;
typedef struct EngineroomFactoryContextV1 EngineroomFactoryContextV1; typedef struct EngineroomFactoryV1 EngineroomFactoryV1;
typedef struct EngineroomFrameV1 EngineroomFrameV1; typedef struct EngineroomHostV1 EngineroomHostV1;
typedef struct EngineroomInstanceV1 EngineroomInstanceV1; typedef struct EngineroomMemoryHitV1 EngineroomMemoryHitV1;
typedef struct EngineroomMemoryInstanceV1 EngineroomMemoryInstanceV1;
typedef struct EngineroomMemoryProviderV1 EngineroomMemoryProviderV1;
typedef struct EngineroomPromptCacheV1 EngineroomPromptCacheV1; typedef struct EngineroomRegistrarV1 EngineroomRegistrarV1;
typedef struct EngineroomRuntimeSettingsV1 EngineroomRuntimeSettingsV1;
/* Borrowed UTF-8 text */
typedef struct EngineroomStr { const uint8_t *ptr; size_t len; } EngineroomStr;
typedef struct EngineroomBytes { const uint8_t *ptr; size_t len; } EngineroomBytes; /* Borrowed bytes */
typedef struct EngineroomStrList { const EngineroomStr *ptr; size_t len; } EngineroomStrList; /* Borrowed list of texts */

/* One entry of the projected history, as a row of a flat array: what an engine needs to choose, without the text. Entries are in
 * the order of the conversation; `id` rises strictly along the array. */
typedef struct EngineroomEntryHeadV1 {
  uint64_t id; /* Host-given id, stable for ever, never 0 */
  int64_t time_ms;
  uint32_t tokens; /* Tokens that the entry costs as it would be sent, framing included */
  uint32_t role, flags, text_bytes; } EngineroomEntryHeadV1;
/* A tool call of an assistant entry or message */
typedef struct EngineroomToolCallV1 { EngineroomStr id, name, arguments; } EngineroomToolCallV1;

/* A whole message: the body of an entry, or a new message that an engine adds to the prompt. A `tool` message names the call it
 * answers in `tool_call_id`. System and developer roles are not allowed: an engine adds to the system prompt through
 * `AssembleResultV1::system_prompt_addition`. */
typedef struct EngineroomMessageV1 {
  uint32_t role, reserved;
  EngineroomStr text; /* Text of the message; images and other parts appear as short placeholders */
  EngineroomStr tool_call_id; /* Id of the answered call, for `tool` messages; else absent */
  EngineroomStr name;
  const EngineroomToolCallV1 *tool_calls; size_t tool_calls_len; /* Tool calls of an assistant message */
} EngineroomMessageV1;
/* An entry with its body, as it is handed to `ingest`, `ingestBatch`, `commitTurn` and `afterTurn` */
typedef struct EngineroomEntryV1 { EngineroomEntryHeadV1 head; EngineroomMessageV1 message; } EngineroomEntryV1;
typedef struct EngineroomEntryList { const EngineroomEntryV1 *ptr; size_t len; } EngineroomEntryList;
/* A closed range of entry ids of the projection: every entry with `first <= id <= last` */
typedef struct EngineroomSpanV1 { uint64_t first, last; } EngineroomSpanV1;
typedef struct EngineroomSessionTargetV1 { /* Where a session lives (`sessionTarget`) */
  EngineroomStr agent_id, session_id, session_key;
  EngineroomStr store; /* Name of the store that holds it (`storePath`): opaque, equal for sessions of one store */
  EngineroomStr thread_id; /* Thread of the session, where the channel has threads; else absent */
} EngineroomSessionTargetV1;
typedef struct EngineroomAnchorV1 { /* A fixed place in the transcript (`TranscriptEntryAnchor`) */
  uint64_t entry_id;
  uint64_t raw_seq; /* Number of the row in the store; rises with every append */
  uint64_t effective_parent_id; /* Id of the parent on the active branch, or 0 at the root */
  uint64_t active_message_position; /* Position among the messages of the active branch, from 0 */
  uint64_t generation; /* Changes when the transcript is rewritten; cursors of another generation are refused */
  EngineroomStr idempotency_key; } EngineroomAnchorV1;
typedef struct EngineroomSessionV1 { /* What every hook about a session gets first */
  EngineroomStr session_id; /* Id of the session. An ephemeral turn has a throw-away id. */
  EngineroomStr session_key; /* Key of the session; absent when the engine does not accept `sessionKey`, or the turn has none */
  EngineroomStr agent_id;
  EngineroomStr cwd; /* Working folder of the run (`runtimeContext.cwd`) */
  const EngineroomSessionTargetV1 *target; /* Where the session lives; null when the engine does not accept `sessionTarget` */
  const EngineroomRuntimeSettingsV1 *settings; /* Settings of the run; null when the engine does not accept `runtimeSettings` */
  /* Facts about the provider's prompt cache; null when unknown or not accepted (`runtimeContext`) */
  const EngineroomPromptCacheV1 *prompt_cache;
  uint32_t ephemeral; /* 1 when nothing of this turn is stored */
  uint32_t heartbeat;
  uint64_t token_budget; /* The context budget in tokens */
  uint64_t current_token_count; } EngineroomSessionV1;
struct EngineroomRuntimeSettingsV1 { /* `runtimeSettings`, schema version 1. Absent texts are JSON null */
  uint32_t schema_version, runtime_mode; EngineroomStr runtime_host, harness_id, runtime_id, model_requested, model_resolved;
  EngineroomStr model_provider, model_family, selected_id; uint32_t selection_source, fallback_reason, degraded_reason, reserved;
  EngineroomStr execution_host_id, execution_host_label; uint64_t prompt_token_budget, max_output_tokens; };

/* `promptCache`: what the provider told about its prompt cache. Numbers are tokens or `NONE_U64`. */
struct EngineroomPromptCacheV1 {
  uint32_t retention, broke; uint64_t input, output, cache_read, cache_write, total, context_prompt_tokens, previous_cache_read;
  EngineroomStr changes_json; int64_t last_cache_touch_ms, expires_ms; };
typedef struct EngineroomBootstrapArgsV1 { const EngineroomSessionV1 *session; } EngineroomBootstrapArgsV1;
typedef struct EngineroomMaintainArgsV1 {
  const EngineroomSessionV1 *session;
  uint32_t reason; /* Why, a code from `trigger`: `BOOTSTRAP`, `TURN` or `COMPACTION` */
  uint32_t allow_deferred_compaction; /* `allowDeferredCompactionExecution`: 1 only in a background run */
} EngineroomMaintainArgsV1;
typedef struct EngineroomIngestArgsV1 { /* Arguments of `ingest` (one entry) and `ingestBatch` */
  const EngineroomSessionV1 *session;
  EngineroomEntryList entries; /* The entries, oldest first; exactly one for `ingest` */
} EngineroomIngestArgsV1;
typedef struct EngineroomAfterTurnArgsV1 {
  const EngineroomSessionV1 *session; EngineroomEntryList entries;
  uint64_t pre_prompt_message_count; /* How many of them were there before the prompt of this turn */
  EngineroomStr auto_compaction_summary; } EngineroomAfterTurnArgsV1;
typedef struct EngineroomCommitTurnArgsV1 {
  const EngineroomSessionV1 *session;
  EngineroomStr advancement_key; /* Key of this advancement: the same turn always comes with the same key */
  EngineroomStr logical_turn_id; EngineroomAnchorV1 admission, terminal; EngineroomEntryList entries; } EngineroomCommitTurnArgsV1;
typedef struct EngineroomPromptV1 { /* The current user turn (`prompt`) */
  uint64_t entry_id; /* Id of its entry, or 0 when nothing is stored */
  uint64_t tokens; EngineroomMessageV1 message; } EngineroomPromptV1;

/* Arguments of `assemble`. `entries` is the projected history *before* the current turn. It is never copied: the array belongs
 * to a snapshot that the call keeps alive, and the bodies are read on demand through `CallV1::entry`. */
typedef struct EngineroomAssembleArgsV1 {
  const EngineroomSessionV1 *session; const EngineroomEntryHeadV1 *entries; size_t entries_len;
  const EngineroomPromptV1 *prompt; /* The current turn; null when the engine does not accept `prompt` or the turn has none */
  uint64_t system_tokens; /* Tokens of the system and developer prompts, for information */
  EngineroomStrList available_tools; EngineroomStr model; uint32_t citations_mode, reserved; } EngineroomAssembleArgsV1;
typedef struct EngineroomCompactArgsV1 {
  const EngineroomSessionV1 *session; const EngineroomEntryHeadV1 *entries; size_t entries_len;
  uint32_t force; /* 1 when it must be done whatever the engine's own threshold says */
  uint32_t target, trigger, attempt, max_attempts, force_reason;
  EngineroomStr custom_instructions; /* Focus text of the operator; data, not instructions to obey. Absent when none. */
} EngineroomCompactArgsV1;
typedef struct EngineroomPrepareSubagentArgsV1 { /* Arguments of `prepareSubagentSpawn` */
  EngineroomStr parent_session_key, child_session_key, parent_session_id, child_session_id; uint32_t context_mode, reserved;
  uint64_t ttl_ms; } EngineroomPrepareSubagentArgsV1;
typedef struct EngineroomSubagentEndedArgsV1 {
  EngineroomStr child_session_key, agent_dir, workspace_dir; uint32_t reason, reserved; } EngineroomSubagentEndedArgsV1;
typedef struct EngineroomSessionEndedArgsV1 {
  const EngineroomSessionV1 *session; uint32_t reason, reserved; } EngineroomSessionEndedArgsV1;
typedef struct EngineroomToolsArgsV1 { const EngineroomSessionV1 *session; } EngineroomToolsArgsV1;
typedef struct EngineroomCallToolArgsV1 {
  const EngineroomSessionV1 *session; EngineroomStr call_id, name;
  EngineroomStr arguments; /* Arguments, JSON text as the model wrote it; not checked against the schema */
} EngineroomCallToolArgsV1;
typedef struct EngineroomBootstrapResultV1 {
  uint32_t bootstrapped, reserved; uint64_t imported_messages; EngineroomStr reason; } EngineroomBootstrapResultV1;
typedef struct EngineroomMaintainResultV1 { /* Result of `maintain`, and of the rewrite service */
  uint32_t changed, reserved; uint64_t bytes_freed, rewritten_entries; EngineroomStr reason; } EngineroomMaintainResultV1;
typedef struct EngineroomIngestResultV1 { /* Result of `ingest` and `ingestBatch` */
  uint64_t ingested_count; /* How many entries were taken; 0 says duplicate or nothing to do */
} EngineroomIngestResultV1;
typedef struct EngineroomCommitResultV1 { uint32_t status, reserved; } EngineroomCommitResultV1; /* Result of `commitTurn` */

/* Result of `assemble`, beside the spans and messages, which are pushed in the order in which the model shall see them. */
typedef struct EngineroomAssembleResultV1 {
  uint64_t estimated_tokens; /* `estimatedTokens`: what the engine thinks that its answer costs */
  EngineroomStr system_prompt_addition; /* `systemPromptAddition`, prepended to the system prompt */
  EngineroomStr volatile_prompt_addition; /* `volatilePromptAddition`, a block at the head of the current user message as sent */
  uint32_t prompt_authority, projection_mode; EngineroomStr projection_epoch, projection_fingerprint; } EngineroomAssembleResultV1;
typedef struct EngineroomCompactResultV1 {
  uint32_t ok; /* 1 when the call did what it could */
  uint32_t compacted; /* 1 when the context is smaller now */
  EngineroomStr reason, summary; uint64_t first_kept_entry_id, tokens_before, tokens_after; EngineroomStr details_json;
  EngineroomStr successor_session_id; const EngineroomSessionTargetV1 *successor_target; } EngineroomCompactResultV1;
typedef struct EngineroomPrepareSubagentResultV1 { /* Result of `prepareSubagentSpawn` */
  uint64_t rollback_handle; /* A handle for `EngineV1::rollback_subagent_spawn`, or 0 when there is nothing to roll back */
} EngineroomPrepareSubagentResultV1;
typedef struct EngineroomToolV1 {
  EngineroomStr name; /* Name, `[a-zA-Z0-9_-]{1,64}` */
  EngineroomStr description, parameters_json; } EngineroomToolV1;
typedef struct EngineroomToolResultV1 {
  EngineroomStr text;
  uint32_t is_error; /* 1 when the call failed in a way that the model should read about */
  uint32_t reserved; } EngineroomToolResultV1;
typedef struct EngineroomHostRequirementV1 {
  uint32_t operation, required_capabilities; EngineroomStr unsupported_message; } EngineroomHostRequirementV1;
typedef struct EngineroomInfoV1 {
  EngineroomStr id; /* `id`; not blank. May differ from the id under which the engine is registered. */
  EngineroomStr name; /* `name`; not blank */
  EngineroomStr version; uint32_t owns_compaction, turn_maintenance_mode;
  uint32_t accepted_host_params; /* Bits from `host_params`. An engine without a declaration pushes `host_params::ALL`. */
  uint32_t transcript_semantics; const EngineroomHostRequirementV1 *host_requirements; size_t host_requirements_len;
} EngineroomInfoV1;

/* The sinks of a call. Each function takes the call's frame. Pushing a result that does not belong to the running hook returns
 * `status::INVALID`. */
typedef struct EngineroomSinkV1 {
  /* The reason of a failure, before the hook returns `ERROR` or `PANIC` */
  uint32_t (*fail)(const EngineroomFrameV1 *, EngineroomStr message, uint64_t service_token);
  uint32_t (*info)(const EngineroomFrameV1 *, const EngineroomInfoV1 *info);
  uint32_t (*bootstrap)(const EngineroomFrameV1 *, const EngineroomBootstrapResultV1 *);
  uint32_t (*maintain)(const EngineroomFrameV1 *, const EngineroomMaintainResultV1 *);
  uint32_t (*ingest)(const EngineroomFrameV1 *, const EngineroomIngestResultV1 *); /* `ingest` and `ingestBatch` */
  uint32_t (*commit)(const EngineroomFrameV1 *, const EngineroomCommitResultV1 *); /* `commitTurn` */
  /* `assemble`: entries, in bulk, in the order of the prompt */
  uint32_t (*spans)(const EngineroomFrameV1 *, const EngineroomSpanV1 *spans, size_t len);
  /* `assemble`: one new message, in the order of the prompt */
  uint32_t (*message)(const EngineroomFrameV1 *, const EngineroomMessageV1 *message);
  uint32_t (*assemble)(const EngineroomFrameV1 *, const EngineroomAssembleResultV1 *); /* `assemble`: all the rest */
  uint32_t (*compact)(const EngineroomFrameV1 *, const EngineroomCompactResultV1 *);
  uint32_t (*prepare_subagent)(const EngineroomFrameV1 *, const EngineroomPrepareSubagentResultV1 *); /* `prepareSubagentSpawn` */
  uint32_t (*tool)(const EngineroomFrameV1 *, const EngineroomToolV1 *tool);
  uint32_t (*tool_result)(const EngineroomFrameV1 *, const EngineroomToolResultV1 *);
  uint32_t (*memory_prompt)(const EngineroomFrameV1 *, EngineroomStr text); /* Memory provider, prompt section: the text, once */
  /* Memory provider, search: hits, in bulk, best first */
  uint32_t (*memory_hits)(const EngineroomFrameV1 *, const EngineroomMemoryHitV1 *hits, size_t len); } EngineroomSinkV1;
typedef struct EngineroomTokensV1 { /* Token counting with the tokenizer of the model in use */
  /* Tokens of `text` */
  uint32_t (*count)(const EngineroomFrameV1 *, EngineroomStr text, uint64_t *out_tokens, uint32_t *out_estimated);
} EngineroomTokensV1;
typedef struct EngineroomLlmRequestV1 { /* Parameters of `llm.complete` */
  const EngineroomMessageV1 *messages; size_t messages_len; /* First message; roles user and assistant */
  EngineroomStr system_prompt;
  EngineroomStr model; /* `model`; absent for the model in use. Another one only where the plugin's entry allows it. */
  EngineroomStr purpose, reasoning, response_format_json; uint64_t max_tokens;
  double temperature; /* `temperature`; negative when not set */
} EngineroomLlmRequestV1;
typedef struct EngineroomLlmResponseV1 { /* Result of `llm.complete` */
  EngineroomStr text, provider, model, response_model, stop_reason, agent_id; uint64_t input_tokens, output_tokens;
  uint64_t cache_read_tokens, cache_write_tokens, total_tokens;
  double cost_usd; /* `usage.costUsd`; negative when unknown */
} EngineroomLlmResponseV1;
typedef struct EngineroomLlmV1 { /* `llm.complete`. Absent with the offline model */
  /* One completion; blocks until it is there, the call is cancelled, or its deadline passes */
  uint32_t (*complete)(const EngineroomFrameV1 *, const EngineroomLlmRequestV1 *request, EngineroomLlmResponseV1 *out);
} EngineroomLlmV1;
typedef struct EngineroomCompactionV1 { /* `delegateCompactionToRuntime` */
  /* Runs the built-in compaction on the session of this call; ignores `target` */
  uint32_t (*delegate)(const EngineroomFrameV1 *, const EngineroomCompactArgsV1 *, EngineroomCompactResultV1 *out);
} EngineroomCompactionV1;
typedef struct EngineroomCursorRequestV1 { /* Request for a page of the transcript */
  EngineroomStr session_key; /* Session to read; absent for the session of this call. Another one only when granted. */
  EngineroomStr cursor; /* Where to go on; absent to start from the oldest entry, or a name from `cursor_place` */
  uint64_t max_messages; /* Most messages: 0 for 1,000; at most 10,000 */
  uint64_t max_bytes; /* Most bytes: 0 for 1,000,000; at most 64 MiB */
} EngineroomCursorRequestV1;
typedef struct EngineroomCursorPageV1 { /* A page of the transcript, oldest first, along the active branch */
  uint32_t outcome, reset_reason, has_more, reserved; EngineroomStr cursor; EngineroomEntryList entries; uint64_t serialized_bytes;
  uint64_t required_bytes; /* What `max_bytes` must at least be when the first entry alone is larger; else 0 */
} EngineroomCursorPageV1;
typedef struct EngineroomReplacementV1 { /* One replacement of `rewriteTranscriptEntries` */
  uint64_t entry_id; /* Entry to replace; must be a message of the active branch */
  EngineroomMessageV1 message; /* What replaces it; the role stays */
} EngineroomReplacementV1;
typedef struct EngineroomTranscriptV1 {
  /* `readSessionTranscriptVisibleMessageDelta` */
  uint32_t (*read)(const EngineroomFrameV1 *, const EngineroomCursorRequestV1 *request, EngineroomCursorPageV1 *out);
  /* `rewriteTranscriptEntries` */
  uint32_t (*rewrite)(const EngineroomFrameV1 *, const EngineroomReplacementV1 *replacements, size_t len,
      EngineroomMaintainResultV1 *out); } EngineroomTranscriptV1;
typedef struct EngineroomSessionsV1 { /* The same agent's other sessions */
  /* Keys of the agent's sessions, newest use first; `after` is the last key of the page before, or absent */
  uint32_t (*list)(const EngineroomFrameV1 *, EngineroomStr after, uint64_t limit, EngineroomStrList *out); } EngineroomSessionsV1;

/* Arguments of `buildMemorySystemPromptAddition`; must equal the snapshot that was prepared for this run. */
typedef struct EngineroomMemoryPromptArgsV1 {
  EngineroomStrList available_tools; uint32_t citations_mode, sandboxed; } EngineroomMemoryPromptArgsV1;
struct EngineroomMemoryHitV1 { /* One hit of a memory search */
  EngineroomStr id, text;
  double score; /* Higher is better; comparable only within one answer */
  int64_t time_ms; };
/* Hits of a memory search */
typedef struct EngineroomMemoryHitsV1 { const EngineroomMemoryHitV1 *ptr; size_t len; } EngineroomMemoryHitsV1;
typedef struct EngineroomMemoryV1 { /* The memory slot */
  /* `buildMemorySystemPromptAddition`; absent text when there is nothing to add */
  uint32_t (*prompt_addition)(const EngineroomFrameV1 *, const EngineroomMemoryPromptArgsV1 *, EngineroomStr *out);
  uint32_t (*search)(const EngineroomFrameV1 *, EngineroomStr query, uint64_t limit, EngineroomMemoryHitsV1 *out);
  uint32_t (*append)(const EngineroomFrameV1 *, EngineroomStr text); /* Append; null unless granted */
} EngineroomMemoryV1;
typedef struct EngineroomStoreOpV1 { /* One operation of an atomic batch */
  uint32_t op;
  uint32_t engine_scope; /* 1 for the engine's own scope, 0 for the scope of the call's session */
  EngineroomBytes key; /* Key, 1 to 1,024 bytes */
  EngineroomBytes value; /* Value, at most 16 MiB */
} EngineroomStoreOpV1;
typedef struct EngineroomStorePairV1 { EngineroomBytes key, value; } EngineroomStorePairV1; /* A key with its value */
/* Pairs of a scan */
typedef struct EngineroomStorePairsV1 { const EngineroomStorePairV1 *ptr; size_t len; } EngineroomStorePairsV1;
typedef struct EngineroomStoreV1 { /* The engine's own durable store */
  uint32_t (*get)(const EngineroomFrameV1 *, uint32_t engine_scope, EngineroomBytes key, EngineroomBytes *out); /* Value of `key` */
  /* Pairs whose key starts with `prefix` and is greater than `after` (absent: from the first), in byte order, at most `limit` */
  uint32_t (*scan)(const EngineroomFrameV1 *, uint32_t engine_scope, EngineroomBytes prefix, EngineroomBytes after, uint64_t limit,
      EngineroomStorePairsV1 *out);
  /* All of the operations or none, durable when it returns `OK` */
  uint32_t (*batch)(const EngineroomFrameV1 *, const EngineroomStoreOpV1 *ops, size_t len); } EngineroomStoreV1;
typedef struct EngineroomMemoryFactoryV1 { /* Makes instances of a memory provider */
  const uint8_t *tag;
  /* Makes one instance; on `OK` it has written `out` */
  uint32_t (*create)(const uint8_t *tag, const EngineroomFactoryContextV1 *, EngineroomMemoryInstanceV1 *out);
} EngineroomMemoryFactoryV1;
struct EngineroomMemoryInstanceV1 { /* One instance of a memory provider */
  const EngineroomMemoryProviderV1 *table; /* The table; lives as long as the library, that is for ever */
  const uint8_t *instance; };

/* The table of a memory provider. `info` and `search` are required; it follows the thread and deadline rules of engines. */
struct EngineroomMemoryProviderV1 {
  uint32_t (*info)(const uint8_t *instance, const EngineroomCallV1 *); /* Pushes `info` */
  /* The memory section of the system prompt; pushes `memory_prompt`, or nothing */
  uint32_t (*prompt_section)(const uint8_t *instance, const EngineroomCallV1 *, const EngineroomMemoryPromptArgsV1 *);
  /* Search: pushes at most `limit` hits through `memory_hits`, best first */
  uint32_t (*search)(const uint8_t *instance, const EngineroomCallV1 *, EngineroomStr query, uint64_t limit);
  uint32_t (*append)(const uint8_t *instance, const EngineroomCallV1 *, EngineroomStr text); /* Keeps `text` */
  uint32_t (*dispose)(const uint8_t *instance, const EngineroomCallV1 *); /* The last call; frees the instance */
};
struct EngineroomCallV1 { /* One call of one hook. Valid until the hook returns */
  const EngineroomFrameV1 *frame; /* First argument of every function below */
  const EngineroomSinkV1 *sink; const EngineroomHostV1 *host;
  /* Body of entry number `index` of the array that this call was given */
  uint32_t (*entry)(const EngineroomFrameV1 *, size_t index, EngineroomEntryV1 *out);
  uint32_t (*cancelled)(const EngineroomFrameV1 *); /* 1 when the call is cancelled or past its deadline and should return soon */
  uint64_t (*remaining_ms)(const EngineroomFrameV1 *); /* Milliseconds until the deadline; 0 when it has passed */
};
typedef struct EngineroomExtensionV1 { /* A table that was asked for by id. `table` is null when the id is unknown or not granted */
  const uint8_t *table; /* The table; its type is what the id says */
  const uint8_t *layout; /* The table's `&'static abi_stable::type_layout::TypeLayout`, or null from engines that have none (C) */
} EngineroomExtensionV1;
struct EngineroomHostV1 { /* The host, for every call and for threads of the engine */
  /* A log line */
  void (*log)(const EngineroomHostV1 *, const EngineroomFrameV1 *, uint32_t level, EngineroomStr target, EngineroomStr message);
  EngineroomExtensionV1 (*service)(const EngineroomHostV1 *, EngineroomStr id); /* A table of `service` by its id with version */
  /* Message and token of the last failed service call of this frame, or of the last service that was asked for during the call,
   * on its own thread, and is not there */
  uint64_t (*last_error)(const EngineroomFrameV1 *, EngineroomStr *message);
  const uint8_t *private_; /* Belongs to the host */
};
typedef struct EngineroomEntryPointV1 { /* The entry of a library */
  uint32_t contract_major, contract_minor;
  uint32_t (*register_)(const EngineroomRegistrarV1 *registrar); /* Called once, on the loading thread */
  EngineroomExtensionV1 (*get_extension)(EngineroomStr id); /* A table by id with version; `ExtensionV1::NONE` when unknown */
} EngineroomEntryPointV1;
struct EngineroomRegistrarV1 { /* What `register` gets. Valid until it returns */
  const uint8_t *context; /* First argument of the functions below */
  const EngineroomHostV1 *host; /* The host; its `log` may be called from now on and for ever */
  /* Registers an engine under `id` */
  uint32_t (*register_engine)(const uint8_t *, EngineroomStr id, const EngineroomFactoryV1 *factory);
  /* Registers a memory provider under `id` */
  uint32_t (*register_memory)(const uint8_t *, EngineroomStr id, const EngineroomMemoryFactoryV1 *factory);
  /* The reason of a failure, before `register` returns `ERROR` or `PANIC` */
  uint32_t (*fail)(const uint8_t *, EngineroomStr message); };
struct EngineroomFactoryV1 { /* Makes instances */
  const uint8_t *tag;
  uint32_t (*create)(const uint8_t *tag, const EngineroomFactoryContextV1 *, EngineroomInstanceV1 *out); /* Makes one instance */
};
struct EngineroomFactoryContextV1 { /* What a factory gets. Valid until it returns */
  const EngineroomHostV1 *host;
  const EngineroomFrameV1 *frame; /* Frame of this call, for the host's services */
  EngineroomStr engine_id; /* Id under which the engine was registered */
  EngineroomStr config_json; /* The engine's own configuration, a JSON object that its schema accepted */
  EngineroomStr agent_dir, workspace_dir;
  EngineroomStr state_dir; /* The engine's private state folder; it exists */
  uint32_t (*fail)(const EngineroomFrameV1 *, EngineroomStr message, uint64_t service_token); /* The reason of a failure */
};
struct EngineroomInstanceV1 { /* One instance: its table and what the table's functions get first */
  const EngineroomEngineV1 *table; /* The table; lives as long as the library, that is for ever */
  const uint8_t *instance; };

/* The table of an engine. A null pointer is a hook that the engine does not have; `info`, `ingest`, `assemble` and `compact` are
 * required and checked after the factory. */
struct EngineroomEngineV1 {
  uint32_t (*info)(const uint8_t *instance, const EngineroomCallV1 *); /* Pushes `info`. Called once, after the factory. */
  uint32_t (*bootstrap)(const uint8_t *instance, const EngineroomCallV1 *, const EngineroomBootstrapArgsV1 *);
  uint32_t (*maintain)(const uint8_t *instance, const EngineroomCallV1 *, const EngineroomMaintainArgsV1 *);
  uint32_t (*ingest)(const uint8_t *instance, const EngineroomCallV1 *, const EngineroomIngestArgsV1 *);
  uint32_t (*ingest_batch)(const uint8_t *instance, const EngineroomCallV1 *, const EngineroomIngestArgsV1 *);
  uint32_t (*after_turn)(const uint8_t *instance, const EngineroomCallV1 *, const EngineroomAfterTurnArgsV1 *); /* `afterTurn` */
  uint32_t (*commit_turn)(const uint8_t *instance, const EngineroomCallV1 *, const EngineroomCommitTurnArgsV1 *);
  uint32_t (*assemble)(const uint8_t *instance, const EngineroomCallV1 *, const EngineroomAssembleArgsV1 *);
  uint32_t (*compact)(const uint8_t *instance, const EngineroomCallV1 *, const EngineroomCompactArgsV1 *);
  uint32_t (*prepare_subagent_spawn)(const uint8_t *instance, const EngineroomCallV1 *, const EngineroomPrepareSubagentArgsV1 *);
  /* Undoes a preparation, at most once per handle */
  uint32_t (*rollback_subagent_spawn)(const uint8_t *instance, const EngineroomCallV1 *, uint64_t handle);
  /* `onSubagentEnded`; pushes nothing */
  uint32_t (*on_subagent_ended)(const uint8_t *instance, const EngineroomCallV1 *, const EngineroomSubagentEndedArgsV1 *);
  /* `onSessionEnded`; pushes nothing */
  uint32_t (*on_session_ended)(const uint8_t *instance, const EngineroomCallV1 *, const EngineroomSessionEndedArgsV1 *);
  uint32_t (*tools)(const uint8_t *instance, const EngineroomCallV1 *, const EngineroomToolsArgsV1 *);
  uint32_t (*call_tool)(const uint8_t *instance, const EngineroomCallV1 *, const EngineroomCallToolArgsV1 *);
  uint32_t (*dispose)(const uint8_t *instance, const EngineroomCallV1 *); /* `dispose`: the last call; frees the instance */
};

/* A text that ends with a NUL, as the contract has texts; absent when `text` is null. */
static inline EngineroomStr engineroom_str(const char *text) {
  EngineroomStr str = {(const uint8_t *)text, text ? strlen(text) : 0};
  return str;
}

/* The manifest: key=value texts with "\0" between them, for example
 *
 *   ENGINEROOM_MANIFEST(manifest, "plugin=mine\0engines=mine\0kind=context-engine\0contract=" ENGINEROOM_CONTRACT_VERSION
 *                                 "\0panic=unwind\0door=c");
 *
 * Further keys: memory (ids of memory providers; then `engines` may be absent, and `kind` is memory), config_schema (a JSON
 * Schema), name, version, description. For linkers that drop what nothing names, the door says
 * `(void)*(volatile const char *)manifest.magic;`.
 */
#if defined(__APPLE__)
#define ENGINEROOM_SECTION __attribute__((used, section("__DATA_CONST,__engineroom")))
#elif defined(__has_attribute) && __has_attribute(retain)
#define ENGINEROOM_SECTION __attribute__((used, retain, section(".engineroom")))
#else
#define ENGINEROOM_SECTION __attribute__((used, section(".engineroom")))
#endif
#define ENGINEROOM_MANIFEST(name, body)                                                                                \
  ENGINEROOM_SECTION static const struct {                                                                             \
    char magic[8];                                                                                                     \
    uint64_t length; /* little-endian, as every supported target is */                                                 \
    char text[sizeof(body)];                                                                                           \
  } name = {{'E', 'N', 'G', 'R', 'O', 'O', 'M', 1}, sizeof(body), body}

/* The door: the one symbol that a library exports, also where all others are hidden. */
__attribute__((visibility("default"))) const EngineroomEntryPointV1 *engineroom_entry_v1(void);

#ifdef __cplusplus
}
#endif

#endif
