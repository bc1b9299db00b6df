/* The engine contract of Engineroom for C and other languages.
 *
 * Generated from engine-abi/wire; do not edit. The rules that hold for every function stand in that crate's documentation:
 * arguments are borrowed for the call, results are pushed into the call's sink, a text is a pair of pointer and length in
 * UTF-8 and absent when its pointer is null, every status but ENGINEROOM_STATUS_OK is a failure, nothing ever unwinds.
 */
#ifndef ENGINEROOM_H
#define ENGINEROOM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The contract's version as it stands in manifests. A draft loads only on hosts of the same draft. */
#define ENGINEROOM_CONTRACT_VERSION "1.0-draft"
/* Major number of the contract. */
#define ENGINEROOM_CONTRACT_MAJOR 1
/* Minor number of the contract. */
#define ENGINEROOM_CONTRACT_MINOR 0

/* Status of a call. */
/* Done. */
#define ENGINEROOM_STATUS_OK 0
/* The callee failed; the reason was pushed through the call's `fail` sink, where there is one. */
#define ENGINEROOM_STATUS_ERROR 1
/* The engine panicked and its guard caught it; the message was pushed like an error. */
#define ENGINEROOM_STATUS_PANIC 2
/* The hook is not implemented, although its function pointer is set. Same as a null pointer. */
#define ENGINEROOM_STATUS_UNSUPPORTED 3
/* The call saw its cancel signal and stopped. */
#define ENGINEROOM_STATUS_CANCELLED 4
/* The call's deadline has passed, or the instance is disposed; nothing was changed. */
#define ENGINEROOM_STATUS_EXPIRED 5
/* The host refuses: not granted, or a limit. */
#define ENGINEROOM_STATUS_REFUSED 6
/* An argument is invalid: text that is not UTF-8, an unknown code or id, a value out of range. */
#define ENGINEROOM_STATUS_INVALID 7
/* What was asked for does not exist. */
#define ENGINEROOM_STATUS_NOT_FOUND 8
/* The service exists but cannot serve now; try later. */
#define ENGINEROOM_STATUS_UNAVAILABLE 9

/* Role of a message. */
/* The person. */
#define ENGINEROOM_ROLE_USER 1
/* The model. */
#define ENGINEROOM_ROLE_ASSISTANT 2
/* The result of a tool call. */
#define ENGINEROOM_ROLE_TOOL 3

/* Bits of an entry. */
/* A summary made by a compaction; its role is `user`. */
#define ENGINEROOM_ENTRY_FLAGS_SUMMARY 1
/* An assistant entry with tool calls. */
#define ENGINEROOM_ENTRY_FLAGS_TOOL_CALLS (1u << 1)
/* Content holds more than text (an image, a file). */
#define ENGINEROOM_ENTRY_FLAGS_MEDIA (1u << 2)
/* Starts a turn: the first entry of a run that begins with a user message. */
#define ENGINEROOM_ENTRY_FLAGS_TURN_START (1u << 3)
/* Belongs to a heartbeat. */
#define ENGINEROOM_ENTRY_FLAGS_HEARTBEAT (1u << 4)
/* A tool result that pruning shortened in this projection; the transcript still has all of it. */
#define ENGINEROOM_ENTRY_FLAGS_PRUNED (1u << 5)
/* Calls of this assistant entry have no result in the transcript; the host sends an error result for them right
 * behind it. That result has no row of its own; its tokens are part of this entry's. */
#define ENGINEROOM_ENTRY_FLAGS_SYNTHETIC (1u << 6)
/* `tokens` is an estimate, since the model in use has no known tokenizer. */
#define ENGINEROOM_ENTRY_FLAGS_TOKENS_ESTIMATED (1u << 7)
/* Admitted but never answered. */
#define ENGINEROOM_ENTRY_FLAGS_UNANSWERED (1u << 8)

/* `turnMaintenanceMode`. */
/* `maintain` runs before the turn ends. */
#define ENGINEROOM_MAINTENANCE_MODE_FOREGROUND 0
/* `maintain` is queued and never delays a reply. */
#define ENGINEROOM_MAINTENANCE_MODE_BACKGROUND 1

/* Bits of `acceptedHostParams`. */
/* `sessionKey`. */
#define ENGINEROOM_HOST_PARAMS_SESSION_KEY 1
/* `prompt`. */
#define ENGINEROOM_HOST_PARAMS_PROMPT (1u << 1)
/* `runtimeSettings`. */
#define ENGINEROOM_HOST_PARAMS_RUNTIME_SETTINGS (1u << 2)
/* `sessionTarget`. */
#define ENGINEROOM_HOST_PARAMS_SESSION_TARGET (1u << 3)
/* `runtimeContext`: the host services beyond log, deadline and cancel. */
#define ENGINEROOM_HOST_PARAMS_RUNTIME_CONTEXT (1u << 4)
/* `abortSignal`. `compact` gets it always. */
#define ENGINEROOM_HOST_PARAMS_ABORT_SIGNAL (1u << 5)

/* Bits of `transcriptSemantics`. */
/* `currentTurnFence: before-current-turn-entry-v1`. */
#define ENGINEROOM_SEMANTICS_CURRENT_TURN_FENCE_V1 1
/* `turnAdvancementIdempotency: atomic-idempotent-v1`. */
#define ENGINEROOM_SEMANTICS_ATOMIC_IDEMPOTENT_V1 (1u << 1)

/* Operations of `hostRequirements`. */
/* `agent-run`. */
#define ENGINEROOM_OPERATION_AGENT_RUN 1
/* `manual-compact`. */
#define ENGINEROOM_OPERATION_MANUAL_COMPACT 2
/* `subagent-spawn`. */
#define ENGINEROOM_OPERATION_SUBAGENT_SPAWN 3

/* Bits of host capabilities. */
/* `bootstrap`. */
#define ENGINEROOM_CAPABILITY_BOOTSTRAP 1
/* `assemble-before-prompt`. */
#define ENGINEROOM_CAPABILITY_ASSEMBLE_BEFORE_PROMPT (1u << 1)
/* `after-turn`. */
#define ENGINEROOM_CAPABILITY_AFTER_TURN (1u << 2)
/* `maintain`. */
#define ENGINEROOM_CAPABILITY_MAINTAIN (1u << 3)
/* `compact`. */
#define ENGINEROOM_CAPABILITY_COMPACT (1u << 4)
/* `runtime-llm-complete`. */
#define ENGINEROOM_CAPABILITY_RUNTIME_LLM_COMPLETE (1u << 5)
/* `thread-bootstrap-projection`. */
#define ENGINEROOM_CAPABILITY_THREAD_BOOTSTRAP_PROJECTION (1u << 6)

/* `citationsMode` of `assemble`. */
/* `auto`. */
#define ENGINEROOM_CITATIONS_MODE_AUTO 0
/* `on`. */
#define ENGINEROOM_CITATIONS_MODE_ON 1
/* `off`. */
#define ENGINEROOM_CITATIONS_MODE_OFF 2

/* `promptAuthority` of an assemble result. */
/* What was assembled is what counts. */
#define ENGINEROOM_PROMPT_AUTHORITY_ASSEMBLED 0
/* `preassembly_may_overflow`: the larger of the assembled and the unwindowed history counts. */
#define ENGINEROOM_PROMPT_AUTHORITY_PREASSEMBLY_MAY_OVERFLOW 1

/* `contextProjection.mode`. */
/* Every turn is assembled anew. */
#define ENGINEROOM_PROJECTION_MODE_PER_TURN 0
/* `thread_bootstrap`: inject once per epoch into a persistent backend thread. */
#define ENGINEROOM_PROJECTION_MODE_THREAD_BOOTSTRAP 1

/* `compactionTarget`. */
/* `budget`, the default. */
#define ENGINEROOM_COMPACTION_TARGET_BUDGET 0
/* `threshold`. */
#define ENGINEROOM_COMPACTION_TARGET_THRESHOLD 1

/* Why a compaction or a maintenance runs. */
/* The context grew past its threshold. */
#define ENGINEROOM_TRIGGER_BUDGET 0
/* The provider said that the prompt is too long, or the precheck did. */
#define ENGINEROOM_TRIGGER_OVERFLOW 1
/* A person or a program asked. */
#define ENGINEROOM_TRIGGER_MANUAL 2
/* The model timed out with a nearly full window. */
#define ENGINEROOM_TRIGGER_TIMEOUT_RECOVERY 3
/* After `bootstrap`. */
#define ENGINEROOM_TRIGGER_BOOTSTRAP 4
/* After an accepted turn. */
#define ENGINEROOM_TRIGGER_TURN 5
/* After a compaction. */
#define ENGINEROOM_TRIGGER_COMPACTION 6
/* `cli_budget`: the context of a command-line agent grew past its threshold. */
#define ENGINEROOM_TRIGGER_CLI_BUDGET 7
/* `cli_native_budget`: the same, by the agent's own count. */
#define ENGINEROOM_TRIGGER_CLI_NATIVE_BUDGET 8

/* `forceReason` of `compact`. 0 is none. */
/* Not forced, or no reason given. */
#define ENGINEROOM_FORCE_REASON_NONE 0
/* `preflight_required`: the next prompt would not fit. */
#define ENGINEROOM_FORCE_REASON_PREFLIGHT_REQUIRED 1
/* `manual`. */
#define ENGINEROOM_FORCE_REASON_MANUAL 2

/* Status of `commitTurn`. */
/* `committed`. */
#define ENGINEROOM_COMMIT_STATUS_COMMITTED 1
/* `duplicate`: the key was committed before. */
#define ENGINEROOM_COMMIT_STATUS_DUPLICATE 2

/* `contextMode` of a subagent. */
/* `isolated`. */
#define ENGINEROOM_CONTEXT_MODE_ISOLATED 0
/* `fork`. */
#define ENGINEROOM_CONTEXT_MODE_FORK 1

/* Reason of `onSubagentEnded`. */
/* `completed`. */
#define ENGINEROOM_SUBAGENT_END_COMPLETED 0
/* `deleted`. */
#define ENGINEROOM_SUBAGENT_END_DELETED 1
/* `swept`. */
#define ENGINEROOM_SUBAGENT_END_SWEPT 2
/* `released`. */
#define ENGINEROOM_SUBAGENT_END_RELEASED 3

/* Reason of `onSessionEnded`. */
/* The session was deleted, with its store scope. */
#define ENGINEROOM_SESSION_END_DELETED 0
/* A reset boundary was written. */
#define ENGINEROOM_SESSION_END_RESET 1
/* It was not used for long. */
#define ENGINEROOM_SESSION_END_EXPIRED 2
/* It was ephemeral and its turn is over. */
#define ENGINEROOM_SESSION_END_EPHEMERAL 3

/* `runtime.mode` of the runtime settings. */
/* `normal`. */
#define ENGINEROOM_RUNTIME_MODE_NORMAL 0
/* `fallback`. */
#define ENGINEROOM_RUNTIME_MODE_FALLBACK 1
/* `degraded`. */
#define ENGINEROOM_RUNTIME_MODE_DEGRADED 2

/* `contextEngineSelection.source` of the runtime settings. */
/* `unknown`. */
#define ENGINEROOM_SELECTION_SOURCE_UNKNOWN 0
/* `configured`. */
#define ENGINEROOM_SELECTION_SOURCE_CONFIGURED 1
/* `default`. */
#define ENGINEROOM_SELECTION_SOURCE_DEFAULT 2

/* Closed reason codes of the runtime settings' diagnostics. 0 is none. */
/* No reason. */
#define ENGINEROOM_REASON_CODE_NONE 0
/* `provider_timeout`. */
#define ENGINEROOM_REASON_CODE_PROVIDER_TIMEOUT 1
/* `provider_unavailable`. */
#define ENGINEROOM_REASON_CODE_PROVIDER_UNAVAILABLE 2
/* `rate_limited`. */
#define ENGINEROOM_REASON_CODE_RATE_LIMITED 3
/* `context_overflow`. */
#define ENGINEROOM_REASON_CODE_CONTEXT_OVERFLOW 4
/* `runtime_unavailable`. */
#define ENGINEROOM_REASON_CODE_RUNTIME_UNAVAILABLE 5
/* `unknown`. */
#define ENGINEROOM_REASON_CODE_UNKNOWN 6

/* `promptCache.retention`. */
/* Unknown. */
#define ENGINEROOM_CACHE_RETENTION_UNKNOWN 0
/* `none`. */
#define ENGINEROOM_CACHE_RETENTION_NONE 1
/* `short`. */
#define ENGINEROOM_CACHE_RETENTION_SHORT 2
/* `long`. */
#define ENGINEROOM_CACHE_RETENTION_LONG 3
/* `in_memory`. */
#define ENGINEROOM_CACHE_RETENTION_IN_MEMORY 4
/* `24h`. */
#define ENGINEROOM_CACHE_RETENTION_HOURS_24 5

/* Level of a log line. */
/* Error. */
#define ENGINEROOM_LOG_LEVEL_ERROR 1
/* Warning. */
#define ENGINEROOM_LOG_LEVEL_WARN 2
/* Information. */
#define ENGINEROOM_LOG_LEVEL_INFO 3
/* Debugging. */
#define ENGINEROOM_LOG_LEVEL_DEBUG 4
/* Tracing. */
#define ENGINEROOM_LOG_LEVEL_TRACE 5

/* Outcome of a page of the transcript cursor. */
/* A page. */
#define ENGINEROOM_CURSOR_OUTCOME_PAGE 0
/* The cursor was reset; start from the one that is given. */
#define ENGINEROOM_CURSOR_OUTCOME_RESET 1
/* No such session. */
#define ENGINEROOM_CURSOR_OUTCOME_MISSING 2
/* Not now (`projection_rebuilding`); try later. */
#define ENGINEROOM_CURSOR_OUTCOME_UNAVAILABLE 3

/* Places of a transcript that have a name, instead of a cursor. */
/* Behind the last entry that this engine was handed over, by `commitTurn` or by a cursor, and before which it missed
 * nothing: what comes from here on is new to it. */
#define ENGINEROOM_CURSOR_PLACE_HANDED_OVER "handed-over"

/* Why a cursor was reset. 0 is none. */
/* No reset. */
#define ENGINEROOM_CURSOR_RESET_NONE 0
/* `invalid_cursor`. */
#define ENGINEROOM_CURSOR_RESET_INVALID_CURSOR 1
/* `scope_mismatch`. */
#define ENGINEROOM_CURSOR_RESET_SCOPE_MISMATCH 2
/* `generation_mismatch`. */
#define ENGINEROOM_CURSOR_RESET_GENERATION_MISMATCH 3
/* `anchor_missing`. */
#define ENGINEROOM_CURSOR_RESET_ANCHOR_MISSING 4
/* `anchor_moved`. */
#define ENGINEROOM_CURSOR_RESET_ANCHOR_MOVED 5

/* Operations of an atomic batch of the engine's store. */
/* Set `key` to `value`. */
#define ENGINEROOM_STORE_OP_PUT 1
/* Remove `key`; a missing key is no error. */
#define ENGINEROOM_STORE_OP_DELETE 2
/* The batch fails with `super::status::REFUSED` unless `key` is absent. */
#define ENGINEROOM_STORE_OP_REQUIRE_ABSENT 3
/* The batch fails with `super::status::REFUSED` unless `key` holds exactly `value`. */
#define ENGINEROOM_STORE_OP_REQUIRE_EQUAL 4
/* Remove every key that starts with `key`. */
#define ENGINEROOM_STORE_OP_DELETE_PREFIX 5
/* An unknown or absent number wherever a field says so. */
#define ENGINEROOM_NONE_U64 UINT64_MAX

/* Ids of the services. */
/* `super::TokensV1`. */
#define ENGINEROOM_SERVICE_TOKENS "engineroom.tokens/1"
/* `super::LlmV1`. */
#define ENGINEROOM_SERVICE_LLM "engineroom.llm/1"
/* `super::CompactionV1`. */
#define ENGINEROOM_SERVICE_COMPACTION "engineroom.compaction/1"
/* `super::TranscriptV1`. */
#define ENGINEROOM_SERVICE_TRANSCRIPT "engineroom.transcript/1"
/* `super::SessionsV1`; only when the plugin's entry grants it. */
#define ENGINEROOM_SERVICE_SESSIONS "engineroom.sessions/1"
/* `super::MemoryV1`. */
#define ENGINEROOM_SERVICE_MEMORY "engineroom.memory/1"
/* `super::StoreV1`. */
#define ENGINEROOM_SERVICE_STORE "engineroom.store/1"
/* Symbol of the C door: `const EntryPointV1 *engineroom_entry_v1(void)`. */
#define ENGINEROOM_C_ENTRY_SYMBOL "engineroom_entry_v1"

typedef struct EngineroomStr EngineroomStr;
typedef struct EngineroomBytes EngineroomBytes;
typedef struct EngineroomStrList EngineroomStrList;
typedef struct EngineroomEntryHeadV1 EngineroomEntryHeadV1;
typedef struct EngineroomToolCallV1 EngineroomToolCallV1;
typedef struct EngineroomMessageV1 EngineroomMessageV1;
typedef struct EngineroomEntryV1 EngineroomEntryV1;
typedef struct EngineroomEntryList EngineroomEntryList;
typedef struct EngineroomSpanV1 EngineroomSpanV1;
typedef struct EngineroomSessionTargetV1 EngineroomSessionTargetV1;
typedef struct EngineroomAnchorV1 EngineroomAnchorV1;
typedef struct EngineroomSessionV1 EngineroomSessionV1;
typedef struct EngineroomRuntimeSettingsV1 EngineroomRuntimeSettingsV1;
typedef struct EngineroomPromptCacheV1 EngineroomPromptCacheV1;
typedef struct EngineroomBootstrapArgsV1 EngineroomBootstrapArgsV1;
typedef struct EngineroomMaintainArgsV1 EngineroomMaintainArgsV1;
typedef struct EngineroomIngestArgsV1 EngineroomIngestArgsV1;
typedef struct EngineroomAfterTurnArgsV1 EngineroomAfterTurnArgsV1;
typedef struct EngineroomCommitTurnArgsV1 EngineroomCommitTurnArgsV1;
typedef struct EngineroomPromptV1 EngineroomPromptV1;
typedef struct EngineroomAssembleArgsV1 EngineroomAssembleArgsV1;
typedef struct EngineroomCompactArgsV1 EngineroomCompactArgsV1;
typedef struct EngineroomPrepareSubagentArgsV1 EngineroomPrepareSubagentArgsV1;
typedef struct EngineroomSubagentEndedArgsV1 EngineroomSubagentEndedArgsV1;
typedef struct EngineroomSessionEndedArgsV1 EngineroomSessionEndedArgsV1;
typedef struct EngineroomToolsArgsV1 EngineroomToolsArgsV1;
typedef struct EngineroomCallToolArgsV1 EngineroomCallToolArgsV1;
typedef struct EngineroomBootstrapResultV1 EngineroomBootstrapResultV1;
typedef struct EngineroomMaintainResultV1 EngineroomMaintainResultV1;
typedef struct EngineroomIngestResultV1 EngineroomIngestResultV1;
typedef struct EngineroomCommitResultV1 EngineroomCommitResultV1;
typedef struct EngineroomAssembleResultV1 EngineroomAssembleResultV1;
typedef struct EngineroomCompactResultV1 EngineroomCompactResultV1;
typedef struct EngineroomPrepareSubagentResultV1 EngineroomPrepareSubagentResultV1;
typedef struct EngineroomToolV1 EngineroomToolV1;
typedef struct EngineroomToolResultV1 EngineroomToolResultV1;
typedef struct EngineroomHostRequirementV1 EngineroomHostRequirementV1;
typedef struct EngineroomInfoV1 EngineroomInfoV1;
typedef struct EngineroomSinkV1 EngineroomSinkV1;
typedef struct EngineroomTokensV1 EngineroomTokensV1;
typedef struct EngineroomLlmRequestV1 EngineroomLlmRequestV1;
typedef struct EngineroomLlmResponseV1 EngineroomLlmResponseV1;
typedef struct EngineroomLlmV1 EngineroomLlmV1;
typedef struct EngineroomCompactionV1 EngineroomCompactionV1;
typedef struct EngineroomCursorRequestV1 EngineroomCursorRequestV1;
typedef struct EngineroomCursorPageV1 EngineroomCursorPageV1;
typedef struct EngineroomReplacementV1 EngineroomReplacementV1;
typedef struct EngineroomTranscriptV1 EngineroomTranscriptV1;
typedef struct EngineroomSessionsV1 EngineroomSessionsV1;
typedef struct EngineroomMemoryPromptArgsV1 EngineroomMemoryPromptArgsV1;
typedef struct EngineroomMemoryHitV1 EngineroomMemoryHitV1;
typedef struct EngineroomMemoryHitsV1 EngineroomMemoryHitsV1;
typedef struct EngineroomMemoryV1 EngineroomMemoryV1;
typedef struct EngineroomStoreOpV1 EngineroomStoreOpV1;
typedef struct EngineroomStorePairV1 EngineroomStorePairV1;
typedef struct EngineroomStorePairsV1 EngineroomStorePairsV1;
typedef struct EngineroomStoreV1 EngineroomStoreV1;
typedef struct EngineroomMemoryFactoryV1 EngineroomMemoryFactoryV1;
typedef struct EngineroomMemoryInstanceV1 EngineroomMemoryInstanceV1;
typedef struct EngineroomMemoryProviderV1 EngineroomMemoryProviderV1;
typedef struct EngineroomFrameV1 EngineroomFrameV1;
typedef struct EngineroomCallV1 EngineroomCallV1;
typedef struct EngineroomExtensionV1 EngineroomExtensionV1;
typedef struct EngineroomHostV1 EngineroomHostV1;
typedef struct EngineroomEntryPointV1 EngineroomEntryPointV1;
typedef struct EngineroomRegistrarV1 EngineroomRegistrarV1;
typedef struct EngineroomFactoryV1 EngineroomFactoryV1;
typedef struct EngineroomFactoryContextV1 EngineroomFactoryContextV1;
typedef struct EngineroomInstanceV1 EngineroomInstanceV1;
typedef struct EngineroomEngineV1 EngineroomEngineV1;

/* Borrowed UTF-8 text. `ptr` is null when the text is absent; an empty text has a non-null `ptr` and length 0.
 *
 * Host to engine: always valid UTF-8. Engine to host: checked by the host while it is received. */
struct EngineroomStr {
  /* First byte, or null when absent. */
  const uint8_t *ptr;
  /* Length in bytes. */
  size_t len;
};

/* Borrowed bytes; same rules as `Str` without the encoding. */
struct EngineroomBytes {
  /* First byte, or null when absent. */
  const uint8_t *ptr;
  /* Length in bytes. */
  size_t len;
};

/* Borrowed list of texts. */
struct EngineroomStrList {
  /* First element, or null when the list is absent. */
  const EngineroomStr *ptr;
  /* Number of elements. */
  size_t len;
};

/* One entry of the projected history, as a row of a flat array: what an engine needs to choose, without the text.
 *
 * Entries are in the order of the conversation; `id` rises strictly along the array. */
struct EngineroomEntryHeadV1 {
  /* Host-given id, stable for ever, never 0. */
  uint64_t id;
  /* Milliseconds since the Unix epoch. */
  int64_t time_ms;
  /* Tokens that the entry costs as it would be sent, framing included. */
  uint32_t tokens;
  /* A code from `role`. */
  uint32_t role;
  /* Bits from `entry_flags`. */
  uint32_t flags;
  /* Size of its text in bytes. */
  uint32_t text_bytes;
};

/* A tool call of an assistant entry or message. All text is borrowed. */
struct EngineroomToolCallV1 {
  /* The call's id. */
  EngineroomStr id;
  /* Name of the tool. */
  EngineroomStr name;
  /* Arguments, JSON text as the model wrote it. */
  EngineroomStr arguments;
};

/* A whole message: the body of an entry, or a new message that an engine adds to the prompt.
 *
 * A `tool` message names the call it answers in `tool_call_id`. System and developer roles are not allowed: an engine
 * adds to the system prompt through `AssembleResultV1::system_prompt_addition`. */
struct EngineroomMessageV1 {
  /* A code from `role`. */
  uint32_t role;
  /* Zero. */
  uint32_t reserved;
  /* Text of the message; images and other parts appear as short placeholders. */
  EngineroomStr text;
  /* Id of the answered call, for `tool` messages; else absent. */
  EngineroomStr tool_call_id;
  /* The message's `name`; mostly absent. */
  EngineroomStr name;
  /* Tool calls of an assistant message. */
  const EngineroomToolCallV1 *tool_calls;
  /* Number of tool calls. */
  size_t tool_calls_len;
};

/* An entry with its body, as it is handed to `ingest`, `ingestBatch`, `commitTurn` and `afterTurn`. */
struct EngineroomEntryV1 {
  /* The row. */
  EngineroomEntryHeadV1 head;
  /* The body. */
  EngineroomMessageV1 message;
};

/* Borrowed list of entries. */
struct EngineroomEntryList {
  /* First entry; dangling when `len` is 0. */
  const EngineroomEntryV1 *ptr;
  /* Number of entries. */
  size_t len;
};

/* A closed range of entry ids of the projection: every entry with `first <= id <= last`. Both ends must be entries of
 * it. */
struct EngineroomSpanV1 {
  /* Id of the first entry. */
  uint64_t first;
  /* Id of the last entry. */
  uint64_t last;
};

/* Where a session lives (`sessionTarget`). */
struct EngineroomSessionTargetV1 {
  /* Agent of the session. */
  EngineroomStr agent_id;
  /* Id of the session. */
  EngineroomStr session_id;
  /* Key of the session. */
  EngineroomStr session_key;
  /* Name of the store that holds it (`storePath`): opaque, equal for sessions of one store. */
  EngineroomStr store;
  /* Thread of the session, where the channel has threads; else absent. */
  EngineroomStr thread_id;
};

/* A fixed place in the transcript (`TranscriptEntryAnchor`). */
struct EngineroomAnchorV1 {
  /* Entry id. */
  uint64_t entry_id;
  /* Number of the row in the store; rises with every append. */
  uint64_t raw_seq;
  /* Id of the parent on the active branch, or 0 at the root. */
  uint64_t effective_parent_id;
  /* Position among the messages of the active branch, from 0. */
  uint64_t active_message_position;
  /* Changes when the transcript is rewritten; cursors of another generation are refused. */
  uint64_t generation;
  /* Idempotency key of the request that brought it; mostly absent. */
  EngineroomStr idempotency_key;
};

/* What every hook about a session gets first. */
struct EngineroomSessionV1 {
  /* Id of the session. An ephemeral turn has a throw-away id. */
  EngineroomStr session_id;
  /* Key of the session; absent when the engine does not accept `sessionKey`, or the turn has none. */
  EngineroomStr session_key;
  /* Agent of the session (`agentId`); absent when it has none. */
  EngineroomStr agent_id;
  /* Working folder of the run (`runtimeContext.cwd`); absent when unknown or not accepted. */
  EngineroomStr cwd;
  /* Where the session lives; null when the engine does not accept `sessionTarget`. */
  const EngineroomSessionTargetV1 *target;
  /* Settings of the run; null when the engine does not accept `runtimeSettings`. */
  const EngineroomRuntimeSettingsV1 *settings;
  /* Facts about the provider's prompt cache; null when unknown or not accepted (`runtimeContext`). */
  const EngineroomPromptCacheV1 *prompt_cache;
  /* 1 when nothing of this turn is stored. */
  uint32_t ephemeral;
  /* 1 during a heartbeat. */
  uint32_t heartbeat;
  /* The context budget in tokens, or `NONE_U64`. */
  uint64_t token_budget;
  /* The measured tokens of the context now, or `NONE_U64`. */
  uint64_t current_token_count;
};

/* `runtimeSettings`, schema version 1. Absent texts are JSON null. */
struct EngineroomRuntimeSettingsV1 {
  /* 1. */
  uint32_t schema_version;
  /* `runtime.mode`, a code from `runtime_mode`. */
  uint32_t runtime_mode;
  /* `runtime.host`: "engineroom". */
  EngineroomStr runtime_host;
  /* `runtime.harnessId`. */
  EngineroomStr harness_id;
  /* `runtime.runtimeId`. */
  EngineroomStr runtime_id;
  /* `model.requested`. */
  EngineroomStr model_requested;
  /* `model.resolved`. */
  EngineroomStr model_resolved;
  /* `model.provider`. */
  EngineroomStr model_provider;
  /* `model.family`. */
  EngineroomStr model_family;
  /* `contextEngineSelection.selectedId`. */
  EngineroomStr selected_id;
  /* `contextEngineSelection.source`, a code from `selection_source`. */
  uint32_t selection_source;
  /* `diagnostics.fallbackReason`, a code from `reason_code`. */
  uint32_t fallback_reason;
  /* `diagnostics.degradedReason`, a code from `reason_code`. */
  uint32_t degraded_reason;
  /* Zero. */
  uint32_t reserved;
  /* `executionHost.id`. */
  EngineroomStr execution_host_id;
  /* `executionHost.label`. */
  EngineroomStr execution_host_label;
  /* `limits.promptTokenBudget`, or `NONE_U64`. */
  uint64_t prompt_token_budget;
  /* `limits.maxOutputTokens`, or `NONE_U64`. */
  uint64_t max_output_tokens;
};

/* `promptCache`: what the provider told about its prompt cache. Numbers are tokens or `NONE_U64`. */
struct EngineroomPromptCacheV1 {
  /* A code from `cache_retention`. */
  uint32_t retention;
  /* `observation.broke`: 1 when the cache broke at the last call. */
  uint32_t broke;
  /* `lastCallUsage.input`. */
  uint64_t input;
  /* `lastCallUsage.output`. */
  uint64_t output;
  /* `lastCallUsage.cacheRead`. */
  uint64_t cache_read;
  /* `lastCallUsage.cacheWrite`. */
  uint64_t cache_write;
  /* `lastCallUsage.total`. */
  uint64_t total;
  /* `lastCallUsage.contextUsage.promptTokens`. */
  uint64_t context_prompt_tokens;
  /* `observation.previousCacheRead`. */
  uint64_t previous_cache_read;
  /* `observation.changes` as JSON `[{code, detail}]`; absent when none. */
  EngineroomStr changes_json;
  /* `lastCacheTouchAt` in ms since the epoch, or -1. */
  int64_t last_cache_touch_ms;
  /* `expiresAt` in ms since the epoch, or -1. */
  int64_t expires_ms;
};

/* Arguments of `bootstrap`. */
struct EngineroomBootstrapArgsV1 {
  /* The session. */
  const EngineroomSessionV1 *session;
};

/* Arguments of `maintain`. */
struct EngineroomMaintainArgsV1 {
  /* The session. */
  const EngineroomSessionV1 *session;
  /* Why, a code from `trigger`: `BOOTSTRAP`, `TURN` or `COMPACTION`. */
  uint32_t reason;
  /* `allowDeferredCompactionExecution`: 1 only in a background run. */
  uint32_t allow_deferred_compaction;
};

/* Arguments of `ingest` (one entry) and `ingestBatch`. */
struct EngineroomIngestArgsV1 {
  /* The session. */
  const EngineroomSessionV1 *session;
  /* The entries, oldest first; exactly one for `ingest`. */
  EngineroomEntryList entries;
};

/* Arguments of `afterTurn`. */
struct EngineroomAfterTurnArgsV1 {
  /* The session. */
  const EngineroomSessionV1 *session;
  /* The whole snapshot, oldest first. */
  EngineroomEntryList entries;
  /* How many of them were there before the prompt of this turn. */
  uint64_t pre_prompt_message_count;
  /* Summary of an automatic compaction in this turn; mostly absent. */
  EngineroomStr auto_compaction_summary;
};

/* Arguments of `commitTurn`. */
struct EngineroomCommitTurnArgsV1 {
  /* The session. */
  const EngineroomSessionV1 *session;
  /* Key of this advancement: the same turn always comes with the same key. */
  EngineroomStr advancement_key;
  /* Id of the logical turn. */
  EngineroomStr logical_turn_id;
  /* Anchor of the admitted user entry. */
  EngineroomAnchorV1 admission;
  /* Anchor of the last entry. */
  EngineroomAnchorV1 terminal;
  /* The closed range from admission to terminal. */
  EngineroomEntryList entries;
};

/* The current user turn (`prompt`). */
struct EngineroomPromptV1 {
  /* Id of its entry, or 0 when nothing is stored. An engine may place the turn itself by a span of this id; else the
   * host appends it after what the engine gave. */
  uint64_t entry_id;
  /* Tokens of the whole current turn as it will be sent. */
  uint64_t tokens;
  /* The message. */
  EngineroomMessageV1 message;
};

/* Arguments of `assemble`.
 *
 * `entries` is the projected history *before* the current turn. It is never copied: the array belongs to a snapshot
 * that the call keeps alive, and the bodies are read on demand through `CallV1::entry`. */
struct EngineroomAssembleArgsV1 {
  /* The session; its `token_budget` is what the answer may cost, system prompt and current turn already taken off. */
  const EngineroomSessionV1 *session;
  /* First entry; dangling when `entries_len` is 0. */
  const EngineroomEntryHeadV1 *entries;
  /* Number of entries. */
  size_t entries_len;
  /* The current turn; null when the engine does not accept `prompt` or the turn has none. */
  const EngineroomPromptV1 *prompt;
  /* Tokens of the system and developer prompts, for information. */
  uint64_t system_tokens;
  /* Names of the tools that the model will be offered. */
  EngineroomStrList available_tools;
  /* Model that will be called; absent when unknown. */
  EngineroomStr model;
  /* A code from `citations_mode`. */
  uint32_t citations_mode;
  /* Zero. */
  uint32_t reserved;
};

/* Arguments of `compact`. */
struct EngineroomCompactArgsV1 {
  /* The session; `token_budget` and `current_token_count` as the host measured them. */
  const EngineroomSessionV1 *session;
  /* First entry of the projected history; dangling when `entries_len` is 0. */
  const EngineroomEntryHeadV1 *entries;
  /* Number of entries. */
  size_t entries_len;
  /* 1 when it must be done whatever the engine's own threshold says. */
  uint32_t force;
  /* A code from `compaction_target`. */
  uint32_t target;
  /* A code from `trigger`. */
  uint32_t trigger;
  /* Attempt number, from 1. */
  uint32_t attempt;
  /* Most attempts, at overflow. */
  uint32_t max_attempts;
  /* `forceReason`, a code from `force_reason`. */
  uint32_t force_reason;
  /* Focus text of the operator; data, not instructions to obey. Absent when none. */
  EngineroomStr custom_instructions;
};

/* Arguments of `prepareSubagentSpawn`. Texts are absent when unknown. */
struct EngineroomPrepareSubagentArgsV1 {
  /* Key of the parent session. */
  EngineroomStr parent_session_key;
  /* Key of the child session. */
  EngineroomStr child_session_key;
  /* Id of the parent session. */
  EngineroomStr parent_session_id;
  /* Id of the child session. */
  EngineroomStr child_session_id;
  /* A code from `context_mode`. */
  uint32_t context_mode;
  /* Zero. */
  uint32_t reserved;
  /* Life of the child in ms, or `NONE_U64`. */
  uint64_t ttl_ms;
};

/* Arguments of `onSubagentEnded`. */
struct EngineroomSubagentEndedArgsV1 {
  /* Key of the child session. */
  EngineroomStr child_session_key;
  /* Agent folder; absent when there is none. */
  EngineroomStr agent_dir;
  /* Workspace folder; absent when there is none. */
  EngineroomStr workspace_dir;
  /* A code from `subagent_end`. */
  uint32_t reason;
  /* Zero. */
  uint32_t reserved;
};

/* Arguments of `onSessionEnded`. */
struct EngineroomSessionEndedArgsV1 {
  /* The session. */
  const EngineroomSessionV1 *session;
  /* A code from `session_end`. */
  uint32_t reason;
  /* Zero. */
  uint32_t reserved;
};

/* Arguments of `tools`. */
struct EngineroomToolsArgsV1 {
  /* The session. */
  const EngineroomSessionV1 *session;
};

/* Arguments of `callTool`. */
struct EngineroomCallToolArgsV1 {
  /* The session. */
  const EngineroomSessionV1 *session;
  /* Id of the model's call. */
  EngineroomStr call_id;
  /* Name of the tool, as the engine gave it. */
  EngineroomStr name;
  /* Arguments, JSON text as the model wrote it; not checked against the schema. */
  EngineroomStr arguments;
};

/* Result of `bootstrap`. */
struct EngineroomBootstrapResultV1 {
  /* 1 when the engine took up the session. */
  uint32_t bootstrapped;
  /* Zero. */
  uint32_t reserved;
  /* `importedMessages`, or `NONE_U64`. */
  uint64_t imported_messages;
  /* `reason`; mostly absent. */
  EngineroomStr reason;
};

/* Result of `maintain`, and of the rewrite service. */
struct EngineroomMaintainResultV1 {
  /* 1 when something changed. */
  uint32_t changed;
  /* Zero. */
  uint32_t reserved;
  /* `bytesFreed`. */
  uint64_t bytes_freed;
  /* `rewrittenEntries`. */
  uint64_t rewritten_entries;
  /* `reason`; mostly absent. */
  EngineroomStr reason;
};

/* Result of `ingest` and `ingestBatch`. */
struct EngineroomIngestResultV1 {
  /* How many entries were taken; 0 says duplicate or nothing to do. */
  uint64_t ingested_count;
};

/* Result of `commitTurn`. */
struct EngineroomCommitResultV1 {
  /* A code from `commit_status`. */
  uint32_t status;
  /* Zero. */
  uint32_t reserved;
};

/* Result of `assemble`, beside the spans and messages, which are pushed in the order in which the model shall see
 * them. */
struct EngineroomAssembleResultV1 {
  /* `estimatedTokens`: what the engine thinks that its answer costs. */
  uint64_t estimated_tokens;
  /* `systemPromptAddition`, prepended to the system prompt; absent when none. */
  EngineroomStr system_prompt_addition;
  /* `volatilePromptAddition`, a block at the head of the current user message as sent; absent when none. */
  EngineroomStr volatile_prompt_addition;
  /* A code from `prompt_authority`. */
  uint32_t prompt_authority;
  /* A code from `projection_mode`. */
  uint32_t projection_mode;
  /* `contextProjection.epoch`; absent when none. */
  EngineroomStr projection_epoch;
  /* `contextProjection.fingerprint`; absent when none. */
  EngineroomStr projection_fingerprint;
};

/* Result of `compact`. */
struct EngineroomCompactResultV1 {
  /* 1 when the call did what it could. */
  uint32_t ok;
  /* 1 when the context is smaller now. */
  uint32_t compacted;
  /* `reason`; absent when none. */
  EngineroomStr reason;
  /* `result.summary`; absent when none. */
  EngineroomStr summary;
  /* `result.firstKeptEntryId`, or 0. */
  uint64_t first_kept_entry_id;
  /* `result.tokensBefore`, or `NONE_U64` when there is no `result`. */
  uint64_t tokens_before;
  /* `result.tokensAfter`, or `NONE_U64`. */
  uint64_t tokens_after;
  /* `result.details`, JSON text; absent when none. */
  EngineroomStr details_json;
  /* `result.sessionId` of a successor; absent when none. */
  EngineroomStr successor_session_id;
  /* `result.sessionTarget` of a successor; null when none. */
  const EngineroomSessionTargetV1 *successor_target;
};

/* Result of `prepareSubagentSpawn`. */
struct EngineroomPrepareSubagentResultV1 {
  /* A handle for `EngineV1::rollback_subagent_spawn`, or 0 when there is nothing to roll back. */
  uint64_t rollback_handle;
};

/* One tool of an engine. */
struct EngineroomToolV1 {
  /* Name, `[a-zA-Z0-9_-]{1,64}`. */
  EngineroomStr name;
  /* What it does, for the model. */
  EngineroomStr description;
  /* JSON Schema of its arguments. */
  EngineroomStr parameters_json;
};

/* Result of `callTool`. */
struct EngineroomToolResultV1 {
  /* Text for the model. */
  EngineroomStr text;
  /* 1 when the call failed in a way that the model should read about. */
  uint32_t is_error;
  /* Zero. */
  uint32_t reserved;
};

/* One requirement of `hostRequirements`. */
struct EngineroomHostRequirementV1 {
  /* A code from `operation`. */
  uint32_t operation;
  /* Bits from `capability`. */
  uint32_t required_capabilities;
  /* `unsupportedMessage`; absent when none. */
  EngineroomStr unsupported_message;
};

/* `info` of an engine. */
struct EngineroomInfoV1 {
  /* `id`; not blank. May differ from the id under which the engine is registered. */
  EngineroomStr id;
  /* `name`; not blank. */
  EngineroomStr name;
  /* `version`; absent when unknown. */
  EngineroomStr version;
  /* 1 when the engine owns compaction. */
  uint32_t owns_compaction;
  /* A code from `maintenance_mode`. */
  uint32_t turn_maintenance_mode;
  /* Bits from `host_params`. An engine without a declaration pushes `host_params::ALL`. */
  uint32_t accepted_host_params;
  /* Bits from `semantics`. */
  uint32_t transcript_semantics;
  /* First requirement; dangling when `host_requirements_len` is 0. */
  const EngineroomHostRequirementV1 *host_requirements;
  /* Number of requirements. */
  size_t host_requirements_len;
};

/* The sinks of a call. Each function takes the call's frame. Pushing a result that does not belong to the running hook
 * returns `status::INVALID`. */
struct EngineroomSinkV1 {
  /* The reason of a failure, before the hook returns `ERROR` or `PANIC`. `service_token` is the token of the host
   * service whose error is handed on (`HostV1::last_error`), or 0. */
  uint32_t (*fail)(const EngineroomFrameV1 *frame, EngineroomStr message, uint64_t service_token);
  /* `info`. */
  uint32_t (*info)(const EngineroomFrameV1 *frame, const EngineroomInfoV1 *info);
  /* `bootstrap`. */
  uint32_t (*bootstrap)(const EngineroomFrameV1 *frame, const EngineroomBootstrapResultV1 *result);
  /* `maintain`. */
  uint32_t (*maintain)(const EngineroomFrameV1 *frame, const EngineroomMaintainResultV1 *result);
  /* `ingest` and `ingestBatch`. */
  uint32_t (*ingest)(const EngineroomFrameV1 *frame, const EngineroomIngestResultV1 *result);
  /* `commitTurn`. */
  uint32_t (*commit)(const EngineroomFrameV1 *frame, const EngineroomCommitResultV1 *result);
  /* `assemble`: entries, in bulk, in the order of the prompt. */
  uint32_t (*spans)(const EngineroomFrameV1 *frame, const EngineroomSpanV1 *spans, size_t len);
  /* `assemble`: one new message, in the order of the prompt. */
  uint32_t (*message)(const EngineroomFrameV1 *frame, const EngineroomMessageV1 *message);
  /* `assemble`: all the rest. */
  uint32_t (*assemble)(const EngineroomFrameV1 *frame, const EngineroomAssembleResultV1 *result);
  /* `compact`. */
  uint32_t (*compact)(const EngineroomFrameV1 *frame, const EngineroomCompactResultV1 *result);
  /* `prepareSubagentSpawn`. */
  uint32_t (*prepare_subagent)(const EngineroomFrameV1 *frame, const EngineroomPrepareSubagentResultV1 *result);
  /* `tools`: one tool. */
  uint32_t (*tool)(const EngineroomFrameV1 *frame, const EngineroomToolV1 *tool);
  /* `callTool`. */
  uint32_t (*tool_result)(const EngineroomFrameV1 *frame, const EngineroomToolResultV1 *result);
  /* Memory provider, prompt section: the text, once. No push means that there is nothing to add. */
  uint32_t (*memory_prompt)(const EngineroomFrameV1 *frame, EngineroomStr text);
  /* Memory provider, search: hits, in bulk, best first. */
  uint32_t (*memory_hits)(const EngineroomFrameV1 *frame, const EngineroomMemoryHitV1 *hits, size_t len);
};

/* Token counting with the tokenizer of the model in use. */
struct EngineroomTokensV1 {
  /* Tokens of `text`. `estimated` becomes 1 when no tokenizer is known for the model and the number is a bound. */
  uint32_t (*count)(const EngineroomFrameV1 *frame, EngineroomStr text, uint64_t *out_tokens, uint32_t *out_estimated);
};

/* Parameters of `llm.complete`. */
struct EngineroomLlmRequestV1 {
  /* First message; roles user and assistant. */
  const EngineroomMessageV1 *messages;
  /* Number of messages. */
  size_t messages_len;
  /* `systemPrompt`; absent when none. */
  EngineroomStr system_prompt;
  /* `model`; absent for the model in use. Another one only where the plugin's entry allows it. */
  EngineroomStr model;
  /* `purpose`, for the record; absent when none. */
  EngineroomStr purpose;
  /* `reasoning`: an effort that the model knows; absent when none. */
  EngineroomStr reasoning;
  /* `responseFormat`, JSON text; absent when none. */
  EngineroomStr response_format_json;
  /* `maxTokens`, or `NONE_U64`. */
  uint64_t max_tokens;
  /* `temperature`; negative when not set. */
  double temperature;
};

/* Result of `llm.complete`. Token numbers may be `NONE_U64`. */
struct EngineroomLlmResponseV1 {
  /* `text`. */
  EngineroomStr text;
  /* `provider`. */
  EngineroomStr provider;
  /* `model`. */
  EngineroomStr model;
  /* `responseModel`; absent when unknown. */
  EngineroomStr response_model;
  /* `stopReason`; absent when unknown. */
  EngineroomStr stop_reason;
  /* `agentId`; absent when unknown. */
  EngineroomStr agent_id;
  /* `usage.inputTokens`. */
  uint64_t input_tokens;
  /* `usage.outputTokens`. */
  uint64_t output_tokens;
  /* `usage.cacheReadTokens`. */
  uint64_t cache_read_tokens;
  /* `usage.cacheWriteTokens`. */
  uint64_t cache_write_tokens;
  /* `usage.totalTokens`. */
  uint64_t total_tokens;
  /* `usage.costUsd`; negative when unknown. */
  double cost_usd;
};

/* `llm.complete`. Absent with the offline model. */
struct EngineroomLlmV1 {
  /* One completion; blocks until it is there, the call is cancelled, or its deadline passes. */
  uint32_t (*complete)(const EngineroomFrameV1 *frame, const EngineroomLlmRequestV1 *request, EngineroomLlmResponseV1 *out);
};

/* `delegateCompactionToRuntime`. */
struct EngineroomCompactionV1 {
  /* Runs the built-in compaction on the session of this call; ignores `target`. Only inside `compact`. */
  uint32_t (*delegate)(const EngineroomFrameV1 *frame, const EngineroomCompactArgsV1 *args, EngineroomCompactResultV1 *out);
};

/* Request for a page of the transcript. */
struct EngineroomCursorRequestV1 {
  /* Session to read; absent for the session of this call. Another one only when granted. */
  EngineroomStr session_key;
  /* Where to go on; absent to start from the oldest entry, or a name from `cursor_place`. Opaque; a position,
   * never an authorisation. */
  EngineroomStr cursor;
  /* Most messages: 0 for 1,000; at most 10,000. */
  uint64_t max_messages;
  /* Most bytes: 0 for 1,000,000; at most 64 MiB. */
  uint64_t max_bytes;
};

/* A page of the transcript, oldest first, along the active branch. */
struct EngineroomCursorPageV1 {
  /* A code from `cursor_outcome`. */
  uint32_t outcome;
  /* A code from `cursor_reset`. */
  uint32_t reset_reason;
  /* 1 when more follows. */
  uint32_t has_more;
  /* Zero. */
  uint32_t reserved;
  /* Where the next page starts. */
  EngineroomStr cursor;
  /* The entries. */
  EngineroomEntryList entries;
  /* Size of the page in bytes. */
  uint64_t serialized_bytes;
  /* What `max_bytes` must at least be when the first entry alone is larger; else 0. */
  uint64_t required_bytes;
};

/* One replacement of `rewriteTranscriptEntries`. */
struct EngineroomReplacementV1 {
  /* Entry to replace; must be a message of the active branch. */
  uint64_t entry_id;
  /* What replaces it; the role stays. */
  EngineroomMessageV1 message;
};

/* The transcript of the session. */
struct EngineroomTranscriptV1 {
  /* `readSessionTranscriptVisibleMessageDelta`. During `bootstrap` and `assemble` of an admitted turn the current
   * turn is fenced: it is not in the page, and a cursor at or past it is refused with `status::REFUSED`. */
  uint32_t (*read)(const EngineroomFrameV1 *frame, const EngineroomCursorRequestV1 *request, EngineroomCursorPageV1 *out);
  /* `rewriteTranscriptEntries`. Refused during `bootstrap` and `assemble`. */
  uint32_t (*rewrite)(const EngineroomFrameV1 *frame, const EngineroomReplacementV1 *replacements, size_t len, EngineroomMaintainResultV1 *out);
};

/* The same agent's other sessions. */
struct EngineroomSessionsV1 {
  /* Keys of the agent's sessions, newest use first; `after` is the last key of the page before, or absent. */
  uint32_t (*list)(const EngineroomFrameV1 *frame, EngineroomStr after, uint64_t limit, EngineroomStrList *out);
};

/* Arguments of `buildMemorySystemPromptAddition`; must equal the snapshot that was prepared for this run. */
struct EngineroomMemoryPromptArgsV1 {
  /* Names of the tools that the model will be offered. */
  EngineroomStrList available_tools;
  /* A code from `citations_mode`. */
  uint32_t citations_mode;
  /* 1 in a sandbox. */
  uint32_t sandboxed;
};

/* One hit of a memory search. */
struct EngineroomMemoryHitV1 {
  /* Id of the memory. */
  EngineroomStr id;
  /* Its text. */
  EngineroomStr text;
  /* Higher is better; comparable only within one answer. */
  double score;
  /* Milliseconds since the epoch, or -1. */
  int64_t time_ms;
};

/* Hits of a memory search. */
struct EngineroomMemoryHitsV1 {
  /* First hit; dangling when `len` is 0. */
  const EngineroomMemoryHitV1 *ptr;
  /* Number of hits. */
  size_t len;
};

/* The memory slot. */
struct EngineroomMemoryV1 {
  /* `buildMemorySystemPromptAddition`; absent text when there is nothing to add. */
  uint32_t (*prompt_addition)(const EngineroomFrameV1 *frame, const EngineroomMemoryPromptArgsV1 *args, EngineroomStr *out);
  /* Search. */
  uint32_t (*search)(const EngineroomFrameV1 *frame, EngineroomStr query, uint64_t limit, EngineroomMemoryHitsV1 *out);
  /* Append; null unless granted. */
  uint32_t (*append)(const EngineroomFrameV1 *frame, EngineroomStr text);
};

/* One operation of an atomic batch. */
struct EngineroomStoreOpV1 {
  /* A code from `store_op`. */
  uint32_t op;
  /* 1 for the engine's own scope, 0 for the scope of the call's session. Deleting a session drops its scope. */
  uint32_t engine_scope;
  /* Key, 1 to 1,024 bytes. */
  EngineroomBytes key;
  /* Value, at most 16 MiB. */
  EngineroomBytes value;
};

/* A key with its value. */
struct EngineroomStorePairV1 {
  /* Key. */
  EngineroomBytes key;
  /* Value. */
  EngineroomBytes value;
};

/* Pairs of a scan. */
struct EngineroomStorePairsV1 {
  /* First pair; dangling when `len` is 0. */
  const EngineroomStorePairV1 *ptr;
  /* Number of pairs. */
  size_t len;
};

/* The engine's own durable store. */
struct EngineroomStoreV1 {
  /* Value of `key`; `status::NOT_FOUND` when absent. */
  uint32_t (*get)(const EngineroomFrameV1 *frame, uint32_t engine_scope, EngineroomBytes key, EngineroomBytes *out);
  /* Pairs whose key starts with `prefix` and is greater than `after` (absent: from the first), in byte order, at
   * most `limit`. */
  uint32_t (*scan)(const EngineroomFrameV1 *frame, uint32_t engine_scope, EngineroomBytes prefix, EngineroomBytes after, uint64_t limit, EngineroomStorePairsV1 *out);
  /* All of the operations or none, durable when it returns `OK`. */
  uint32_t (*batch)(const EngineroomFrameV1 *frame, const EngineroomStoreOpV1 *ops, size_t len);
};

/* Makes instances of a memory provider. */
struct EngineroomMemoryFactoryV1 {
  /* Passed to `create` untouched. */
  const uint8_t *tag;
  /* Makes one instance; on `OK` it has written `out`. On failure it pushes the reason with `context.fail`. */
  uint32_t (*create)(const uint8_t *tag, const EngineroomFactoryContextV1 *context, EngineroomMemoryInstanceV1 *out);
};

/* One instance of a memory provider. */
struct EngineroomMemoryInstanceV1 {
  /* The table; lives as long as the library, that is for ever. */
  const EngineroomMemoryProviderV1 *table;
  /* Opaque to the host. */
  const uint8_t *instance;
};

/* The table of a memory provider. `info` and `search` are required; it follows the thread and deadline rules of
 * engines. */
struct EngineroomMemoryProviderV1 {
  /* Pushes `info`; of it only `id`, `name` and `version` count. Called once, after the factory. */
  uint32_t (*info)(const uint8_t *instance, const EngineroomCallV1 *call);
  /* The memory section of the system prompt; pushes `memory_prompt`, or nothing. */
  uint32_t (*prompt_section)(const uint8_t *instance, const EngineroomCallV1 *call, const EngineroomMemoryPromptArgsV1 *args);
  /* Search: pushes at most `limit` hits through `memory_hits`, best first. */
  uint32_t (*search)(const uint8_t *instance, const EngineroomCallV1 *call, EngineroomStr query, uint64_t limit);
  /* Keeps `text`; durable when it returns `OK`. */
  uint32_t (*append)(const uint8_t *instance, const EngineroomCallV1 *call, EngineroomStr text);
  /* The last call; frees the instance. No other call is running or follows. */
  uint32_t (*dispose)(const uint8_t *instance, const EngineroomCallV1 *call);
};

/* One call of one hook. Valid until the hook returns. */
struct EngineroomCallV1 {
  /* First argument of every function below. */
  const EngineroomFrameV1 *frame;
  /* Where results go. */
  const EngineroomSinkV1 *sink;
  /* The host. */
  const EngineroomHostV1 *host;
  /* Body of entry number `index` of the array that this call was given. The body is borrowed and stays valid until
   * the hook returns. `status::NOT_FOUND` past the end. */
  uint32_t (*entry)(const EngineroomFrameV1 *frame, size_t index, EngineroomEntryV1 *out);
  /* 1 when the call is cancelled or past its deadline and should return soon. An atomic load: cheap enough for inner
   * loops. */
  uint32_t (*cancelled)(const EngineroomFrameV1 *frame);
  /* Milliseconds until the deadline; 0 when it has passed. */
  uint64_t (*remaining_ms)(const EngineroomFrameV1 *frame);
};

/* A table that was asked for by id. `table` is null when the id is unknown or not granted. */
struct EngineroomExtensionV1 {
  /* The table; its type is what the id says. */
  const uint8_t *table;
  /* The table's `&'static abi_stable::type_layout::TypeLayout`, or null from engines that have none (C). */
  const uint8_t *layout;
};

/* The host, for every call and for threads of the engine. */
struct EngineroomHostV1 {
  /* A log line. `frame` may be null, from any thread: then it is filed under the engine alone. Never fails. */
  void (*log)(const EngineroomHostV1 *host, const EngineroomFrameV1 *frame, uint32_t level, EngineroomStr target, EngineroomStr message);
  /* A table of `service` by its id with version. Each service call takes the frame of the running call. */
  EngineroomExtensionV1 (*service)(const EngineroomHostV1 *host, EngineroomStr id);
  /* Message and token of the last failed service call of this frame, or of the last service that was asked for during
   * the call, on its own thread, and is not there. The token marks an error as the host's own when the engine hands it
   * on. Returns 0 when there was none. */
  uint64_t (*last_error)(const EngineroomFrameV1 *frame, EngineroomStr *message);
  /* Belongs to the host. */
  const uint8_t *private_;
};

/* The entry of a library. */
struct EngineroomEntryPointV1 {
  /* `CONTRACT_MAJOR` that the library was built for. */
  uint32_t contract_major;
  /* `CONTRACT_MINOR` that the library was built for. */
  uint32_t contract_minor;
  /* Called once, on the loading thread. Registers engines and memory providers through `registrar`. */
  uint32_t (*register_)(const EngineroomRegistrarV1 *registrar);
  /* A table by id with version; `ExtensionV1::NONE` when unknown. May be called from any thread. */
  EngineroomExtensionV1 (*get_extension)(EngineroomStr id);
};

/* What `register` gets. Valid until it returns. */
struct EngineroomRegistrarV1 {
  /* First argument of the functions below. */
  const uint8_t *context;
  /* The host; its `log` may be called from now on and for ever. */
  const EngineroomHostV1 *host;
  /* Registers an engine under `id`. The factory is copied. `REFUSED` with a reason in the host's log when the id is
   * reserved or belongs to another owner; the library may go on. */
  uint32_t (*register_engine)(const uint8_t *context, EngineroomStr id, const EngineroomFactoryV1 *factory);
  /* Registers a memory provider under `id`. */
  uint32_t (*register_memory)(const uint8_t *context, EngineroomStr id, const EngineroomMemoryFactoryV1 *factory);
  /* The reason of a failure, before `register` returns `ERROR` or `PANIC`. */
  uint32_t (*fail)(const uint8_t *context, EngineroomStr message);
};

/* Makes instances. */
struct EngineroomFactoryV1 {
  /* Passed to `create` untouched. */
  const uint8_t *tag;
  /* Makes one instance; on `OK` it has written `out`. On failure it pushes the reason with `context.fail`. */
  uint32_t (*create)(const uint8_t *tag, const EngineroomFactoryContextV1 *context, EngineroomInstanceV1 *out);
};

/* What a factory gets. Valid until it returns. */
struct EngineroomFactoryContextV1 {
  /* The host. */
  const EngineroomHostV1 *host;
  /* Frame of this call, for the host's services. */
  const EngineroomFrameV1 *frame;
  /* Id under which the engine was registered. */
  EngineroomStr engine_id;
  /* The engine's own configuration, a JSON object that its schema accepted. */
  EngineroomStr config_json;
  /* Agent folder; absent when there is none. */
  EngineroomStr agent_dir;
  /* Workspace folder; absent when there is none. */
  EngineroomStr workspace_dir;
  /* The engine's private state folder; it exists. */
  EngineroomStr state_dir;
  /* The reason of a failure. */
  uint32_t (*fail)(const EngineroomFrameV1 *frame, EngineroomStr message, uint64_t service_token);
};

/* One instance: its table and what the table's functions get first. */
struct EngineroomInstanceV1 {
  /* The table; lives as long as the library, that is for ever. */
  const EngineroomEngineV1 *table;
  /* Opaque to the host. */
  const uint8_t *instance;
};

/* The table of an engine. A null pointer is a hook that the engine does not have; `info`, `ingest`, `assemble` and
 * `compact` are required and checked after the factory. */
struct EngineroomEngineV1 {
  /* Pushes `info`. Called once, after the factory. */
  uint32_t (*info)(const uint8_t *instance, const EngineroomCallV1 *call);
  /* `bootstrap`. */
  uint32_t (*bootstrap)(const uint8_t *instance, const EngineroomCallV1 *call, const EngineroomBootstrapArgsV1 *args);
  /* `maintain`. */
  uint32_t (*maintain)(const uint8_t *instance, const EngineroomCallV1 *call, const EngineroomMaintainArgsV1 *args);
  /* `ingest`. */
  uint32_t (*ingest)(const uint8_t *instance, const EngineroomCallV1 *call, const EngineroomIngestArgsV1 *args);
  /* `ingestBatch`. */
  uint32_t (*ingest_batch)(const uint8_t *instance, const EngineroomCallV1 *call, const EngineroomIngestArgsV1 *args);
  /* `afterTurn`; pushes nothing. */
  uint32_t (*after_turn)(const uint8_t *instance, const EngineroomCallV1 *call, const EngineroomAfterTurnArgsV1 *args);
  /* `commitTurn`. */
  uint32_t (*commit_turn)(const uint8_t *instance, const EngineroomCallV1 *call, const EngineroomCommitTurnArgsV1 *args);
  /* `assemble`. */
  uint32_t (*assemble)(const uint8_t *instance, const EngineroomCallV1 *call, const EngineroomAssembleArgsV1 *args);
  /* `compact`. */
  uint32_t (*compact)(const uint8_t *instance, const EngineroomCallV1 *call, const EngineroomCompactArgsV1 *args);
  /* `prepareSubagentSpawn`. */
  uint32_t (*prepare_subagent_spawn)(const uint8_t *instance, const EngineroomCallV1 *call, const EngineroomPrepareSubagentArgsV1 *args);
  /* Undoes a preparation, at most once per handle. */
  uint32_t (*rollback_subagent_spawn)(const uint8_t *instance, const EngineroomCallV1 *call, uint64_t handle);
  /* `onSubagentEnded`; pushes nothing. */
  uint32_t (*on_subagent_ended)(const uint8_t *instance, const EngineroomCallV1 *call, const EngineroomSubagentEndedArgsV1 *args);
  /* `onSessionEnded`; pushes nothing. */
  uint32_t (*on_session_ended)(const uint8_t *instance, const EngineroomCallV1 *call, const EngineroomSessionEndedArgsV1 *args);
  /* `tools`. */
  uint32_t (*tools)(const uint8_t *instance, const EngineroomCallV1 *call, const EngineroomToolsArgsV1 *args);
  /* `callTool`. */
  uint32_t (*call_tool)(const uint8_t *instance, const EngineroomCallV1 *call, const EngineroomCallToolArgsV1 *args);
  /* `dispose`: the last call; frees the instance. No other call is running or follows. */
  uint32_t (*dispose)(const uint8_t *instance, const EngineroomCallV1 *call);
};

/* The manifest: key=value texts with "\0" between them, for example
 *
 *   ENGINEROOM_MANIFEST(manifest, "plugin=mine\0engines=mine\0kind=context-engine\0contract=" ENGINEROOM_CONTRACT_VERSION
 *                                 "\0panic=unwind\0door=c");
 *
 * Name it once in engineroom_entry_v1, `(void)*(volatile const char *)manifest.magic;`, for compilers without `retain`.
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

/* The door: the one symbol that a library exports. The entry is a static. */
const EngineroomEntryPointV1 *engineroom_entry_v1(void);

#ifdef __cplusplus
}
#endif

#endif
