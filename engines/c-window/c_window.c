/* Window in C: the model sees the newest whole turns that fit, compaction is the host's, and nothing is kept.
 *
 * `make` builds the library, `make check` tries it. engineroom.h has the rules; the comments here say how this file keeps them.
 */
#include "engineroom.h"

/* What the host knows before it loads the library. `panic=unwind` says that a failure never ends the process. */
ENGINEROOM_MANIFEST(manifest, "plugin=c-window\0engines=c-window\0kind=context-engine\0"
                              "contract=" ENGINEROOM_CONTRACT_VERSION "\0panic=unwind\0door=c\0"
                              "name=Window in C\0version=0.1.0\0"
                              "description=The newest whole turns that fit, in C.\0"
                              "config_schema={\"type\":\"object\",\"additionalProperties\":false}");

/* Fails a call. The host copies the text before the push returns, so any text that lives until then will do. */
static uint32_t fail(const EngineroomCallV1 *call, EngineroomStr reason, uint64_t token) {
  call->sink->fail(call->frame, reason, token);
  return ENGINEROOM_STATUS_ERROR;
}

/* Who this engine is. Both semantics, and `commit_turn` below, make its turns durable: without them the host passes the engine
 * over for every stored session. */
static uint32_t info(const uint8_t *instance, const EngineroomCallV1 *call) {
  (void)instance;
  EngineroomInfoV1 info = {0};
  info.id = engineroom_str("c-window");
  info.name = engineroom_str("Window in C");
  info.version = engineroom_str("0.1.0");
  info.turn_maintenance_mode = ENGINEROOM_MAINTENANCE_MODE_FOREGROUND;
  info.accepted_host_params = ENGINEROOM_HOST_PARAMS_SESSION_KEY | ENGINEROOM_HOST_PARAMS_PROMPT |
                              ENGINEROOM_HOST_PARAMS_RUNTIME_CONTEXT | ENGINEROOM_HOST_PARAMS_ABORT_SIGNAL;
  info.transcript_semantics = ENGINEROOM_SEMANTICS_CURRENT_TURN_FENCE_V1 | ENGINEROOM_SEMANTICS_ATOMIC_IDEMPOTENT_V1;
  return call->sink->info(call->frame, &info);
}

/* Nothing is kept, so nothing is ever new. */
static uint32_t ingest(const uint8_t *instance, const EngineroomCallV1 *call, const EngineroomIngestArgsV1 *args) {
  (void)instance, (void)args;
  EngineroomIngestResultV1 nothing = {0};
  return call->sink->ingest(call->frame, &nothing);
}

/* An accepted turn. An engine that keeps something writes the turn and `args->advancement_key` in one batch of its store, and
 * answers DUPLICATE when the key is there already. This one has nothing to write, so the turn is taken in at once. */
static uint32_t commit_turn(const uint8_t *instance, const EngineroomCallV1 *call,
                            const EngineroomCommitTurnArgsV1 *args) {
  (void)instance, (void)args;
  EngineroomCommitResultV1 committed = {0};
  committed.status = ENGINEROOM_COMMIT_STATUS_COMMITTED;
  return call->sink->commit(call->frame, &committed);
}

/* The newest whole turns within the budget. `args->entries` belongs to the host and may be shared with other calls: it is read
 * here and never written, and no pointer to it is kept. Several sessions may be in here at once, each on a thread of its own;
 * there is nothing that they share, so there is nothing to lock. */
static uint32_t assemble(const uint8_t *instance, const EngineroomCallV1 *call, const EngineroomAssembleArgsV1 *args) {
  (void)instance;
  uint64_t budget = args->session->token_budget; /* ENGINEROOM_NONE_U64, the largest number, when there is none */
  uint64_t tokens = 0, kept = 0;
  size_t start = args->entries_len;
  for (size_t i = args->entries_len; i > 0; i--) {
    const EngineroomEntryHeadV1 *entry = &args->entries[i - 1];
    if (tokens + entry->tokens > budget)
      break;
    tokens += entry->tokens;
    if (i == 1 || (entry->flags & ENGINEROOM_ENTRY_FLAGS_TURN_START)) {
      start = i - 1;
      kept = tokens;
    }
  }
  if (start < args->entries_len) {
    /* On the stack: the host has read it when the push returns. */
    EngineroomSpanV1 span = {args->entries[start].id, args->entries[args->entries_len - 1].id};
    uint32_t pushed = call->sink->spans(call->frame, &span, 1);
    if (pushed != ENGINEROOM_STATUS_OK)
      return pushed;
  }
  EngineroomAssembleResultV1 result = {0}; /* no additions: an absent text is a null pointer */
  result.estimated_tokens = kept;
  result.prompt_authority = ENGINEROOM_PROMPT_AUTHORITY_ASSEMBLED;
  result.projection_mode = ENGINEROOM_PROJECTION_MODE_PER_TURN;
  return call->sink->assemble(call->frame, &result);
}

/* The host compacts. Its result is lent until this hook returns, and is pushed back as it is. */
static uint32_t compact(const uint8_t *instance, const EngineroomCallV1 *call, const EngineroomCompactArgsV1 *args) {
  (void)instance;
  EngineroomExtensionV1 found = call->host->service(call->host, engineroom_str(ENGINEROOM_SERVICE_COMPACTION));
  const EngineroomCompactionV1 *compaction = (const EngineroomCompactionV1 *)(const void *)found.table;
  if (compaction == NULL)
    return fail(call, engineroom_str("the host offers no compaction"), 0);
  EngineroomCompactResultV1 result;
  if (compaction->delegate(call->frame, args, &result) != ENGINEROOM_STATUS_OK) {
    /* With the token the host knows that the error is its own. */
    EngineroomStr reason = {0};
    uint64_t token = call->host->last_error(call->frame, &reason);
    return fail(call, reason, token);
  }
  return call->sink->compact(call->frame, &result);
}

/* The last call of the instance, with no other one running: here an engine frees what `create` made. */
static uint32_t dispose(const uint8_t *instance, const EngineroomCallV1 *call) {
  (void)instance, (void)call;
  return ENGINEROOM_STATUS_OK;
}

/* A hook that is not named is not there, and is never called. */
static const EngineroomEngineV1 table = {
    .info = info,
    .ingest = ingest,
    .commit_turn = commit_turn,
    .assemble = assemble,
    .compact = compact,
    .dispose = dispose,
};

/* Makes an instance: one for each agent and workspace. An engine with state allocates it here, and puts the pointer where NULL
 * stands; this one has none. `context->config_json` is lent, and has passed the schema of the manifest. */
static uint32_t create(const uint8_t *tag, const EngineroomFactoryContextV1 *context, EngineroomInstanceV1 *out) {
  (void)tag, (void)context;
  out->table = &table;
  out->instance = NULL;
  return ENGINEROOM_STATUS_OK;
}

/* Called once, on the loading thread. The factory is copied; what it points to stays for ever. */
static uint32_t register_engines(const EngineroomRegistrarV1 *registrar) {
  static const EngineroomFactoryV1 factory = {.tag = NULL, .create = create};
  return registrar->register_engine(registrar->context, engineroom_str("c-window"), &factory);
}

static const EngineroomEntryPointV1 entry = {
    .contract_major = ENGINEROOM_CONTRACT_MAJOR,
    .contract_minor = ENGINEROOM_CONTRACT_MINOR,
    .register_ = register_engines,
};

const EngineroomEntryPointV1 *engineroom_entry_v1(void) {
  (void)*(volatile const char *)manifest.magic; /* so that no linker drops the manifest */
  return &entry;
}
