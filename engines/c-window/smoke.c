/* A small host for the engine in c_window.c: registers it, makes an instance, calls its hooks and checks what they pushed.
 * Build it together with the engine and run it (`make check`); it says what is wrong and ends with 1.
 */
#include "engineroom.h"
#include <stdio.h>

static int failures = 0;

static void check(int holds, const char *what) {
  if (!holds) {
    fprintf(stderr, "failed: %s\n", what);
    failures++;
  }
}

/* A frame belongs to its host, so it may hold what this one wants: what was pushed in the call. */
struct EngineroomFrameV1 {
  EngineroomSpanV1 spans[8];
  size_t spans_len;
  int is_done;
  uint64_t number;
};

static EngineroomFrameV1 *own(const EngineroomFrameV1 *frame) { return (EngineroomFrameV1 *)frame; }

static uint32_t push_fail(const EngineroomFrameV1 *frame, EngineroomStr message, uint64_t token) {
  (void)frame, (void)token;
  fprintf(stderr, "the engine says: %.*s\n", (int)message.len, (const char *)message.ptr);
  return ENGINEROOM_STATUS_OK;
}

static uint32_t push_info(const EngineroomFrameV1 *frame, const EngineroomInfoV1 *info) {
  own(frame)->is_done = 1;
  own(frame)->number = info->transcript_semantics;
  check(info->id.len > 0 && info->name.len > 0, "info has an id and a name");
  return ENGINEROOM_STATUS_OK;
}

static uint32_t push_ingest(const EngineroomFrameV1 *frame, const EngineroomIngestResultV1 *result) {
  own(frame)->is_done = 1;
  own(frame)->number = result->ingested_count;
  return ENGINEROOM_STATUS_OK;
}

static uint32_t push_commit(const EngineroomFrameV1 *frame, const EngineroomCommitResultV1 *result) {
  own(frame)->is_done = 1;
  own(frame)->number = result->status;
  return ENGINEROOM_STATUS_OK;
}

static uint32_t push_spans(const EngineroomFrameV1 *frame, const EngineroomSpanV1 *spans, size_t len) {
  for (size_t i = 0; i < len && own(frame)->spans_len < 8; i++)
    own(frame)->spans[own(frame)->spans_len++] = spans[i];
  return ENGINEROOM_STATUS_OK;
}

static uint32_t push_assemble(const EngineroomFrameV1 *frame, const EngineroomAssembleResultV1 *result) {
  own(frame)->is_done = 1;
  own(frame)->number = result->estimated_tokens;
  return ENGINEROOM_STATUS_OK;
}

static uint32_t push_compact(const EngineroomFrameV1 *frame, const EngineroomCompactResultV1 *result) {
  own(frame)->is_done = 1;
  own(frame)->number = result->compacted;
  return ENGINEROOM_STATUS_OK;
}

static const EngineroomSinkV1 sink = {
    .fail = push_fail,
    .info = push_info,
    .ingest = push_ingest,
    .commit = push_commit,
    .spans = push_spans,
    .assemble = push_assemble,
    .compact = push_compact,
};

/* The one service of this host. */
static uint32_t delegate(const EngineroomFrameV1 *frame, const EngineroomCompactArgsV1 *args,
                         EngineroomCompactResultV1 *out) {
  (void)frame;
  memset(out, 0, sizeof *out);
  out->ok = 1;
  out->compacted = args->entries_len > 0;
  out->summary = engineroom_str("a summary");
  out->tokens_before = out->tokens_after = ENGINEROOM_NONE_U64;
  return ENGINEROOM_STATUS_OK;
}

static const EngineroomCompactionV1 compaction = {delegate};

static EngineroomExtensionV1 service(const EngineroomHostV1 *host, EngineroomStr id) {
  (void)host;
  EngineroomExtensionV1 found = {NULL, NULL};
  EngineroomStr known = engineroom_str(ENGINEROOM_SERVICE_COMPACTION);
  if (id.len == known.len && memcmp(id.ptr, known.ptr, known.len) == 0)
    found.table = (const uint8_t *)(const void *)&compaction;
  return found;
}

static void log_line(const EngineroomHostV1 *host, const EngineroomFrameV1 *frame, uint32_t level, EngineroomStr target,
                     EngineroomStr message) {
  (void)host, (void)frame, (void)level, (void)target;
  fprintf(stderr, "log: %.*s\n", (int)message.len, (const char *)message.ptr);
}

static uint64_t last_error(const EngineroomFrameV1 *frame, EngineroomStr *message) {
  (void)frame, (void)message;
  return 0;
}

static const EngineroomHostV1 host = {.log = log_line, .service = service, .last_error = last_error};

static uint32_t is_cancelled(const EngineroomFrameV1 *frame) {
  (void)frame;
  return 0;
}

static uint64_t remaining_ms(const EngineroomFrameV1 *frame) {
  (void)frame;
  return 60000;
}

static EngineroomFactoryV1 factory;

static uint32_t register_engine(const uint8_t *context, EngineroomStr id, const EngineroomFactoryV1 *registered) {
  (void)context;
  check(id.len > 0, "an engine is registered under an id");
  factory = *registered;
  return ENGINEROOM_STATUS_OK;
}

static uint32_t factory_fail(const EngineroomFrameV1 *frame, EngineroomStr message, uint64_t token) {
  return push_fail(frame, message, token);
}

/* Turns of a question and an answer, each of 10 tokens; ids from 1. */
enum { TURNS = 10, ENTRIES = 2 * TURNS };
static EngineroomEntryHeadV1 history[ENTRIES];

static EngineroomFrameV1 frame;

static EngineroomCallV1 call(void) {
  EngineroomCallV1 call = {0};
  memset(&frame, 0, sizeof frame);
  call.frame = &frame;
  call.sink = &sink;
  call.host = &host;
  call.cancelled = is_cancelled;
  call.remaining_ms = remaining_ms;
  return call;
}

static void assembles(EngineroomInstanceV1 engine, uint64_t budget, uint64_t first, const char *what) {
  EngineroomSessionV1 session = {0};
  EngineroomAssembleArgsV1 args = {0};
  EngineroomCallV1 now = call();
  session.session_id = engineroom_str("desk");
  session.token_budget = budget;
  args.session = &session;
  args.entries = history;
  args.entries_len = ENTRIES;
  check(engine.table->assemble(engine.instance, &now, &args) == ENGINEROOM_STATUS_OK && frame.is_done, what);
  if (first == 0)
    check(frame.spans_len == 0, what);
  else
    check(frame.spans_len == 1 && frame.spans[0].first == first && frame.spans[0].last == ENTRIES, what);
  check(frame.number <= budget, "what is shown costs no more than the budget");
}

int main(void) {
  for (uint64_t i = 0; i < ENTRIES; i++) {
    history[i].id = i + 1;
    history[i].tokens = 10;
    history[i].role = i % 2 == 0 ? ENGINEROOM_ROLE_USER : ENGINEROOM_ROLE_ASSISTANT;
    history[i].flags = i % 2 == 0 ? ENGINEROOM_ENTRY_FLAGS_TURN_START : 0;
  }

  const EngineroomEntryPointV1 *entry = engineroom_entry_v1();
  check(entry->contract_major == ENGINEROOM_CONTRACT_MAJOR, "the engine is built for this contract");
  EngineroomRegistrarV1 registrar = {0};
  registrar.host = &host;
  registrar.register_engine = register_engine;
  check(entry->register_(&registrar) == ENGINEROOM_STATUS_OK && factory.create != NULL, "the library registers an engine");
  if (failures > 0)
    return 1;

  EngineroomFactoryContextV1 context = {0};
  EngineroomInstanceV1 engine = {NULL, NULL};
  context.host = &host;
  context.frame = &frame;
  context.config_json = engineroom_str("{}");
  context.fail = factory_fail;
  check(factory.create(factory.tag, &context, &engine) == ENGINEROOM_STATUS_OK && engine.table != NULL,
        "the factory makes an instance");
  if (failures > 0)
    return 1;

  EngineroomCallV1 now = call();
  check(engine.table->info(engine.instance, &now) == ENGINEROOM_STATUS_OK && frame.is_done, "info is pushed");
  check(frame.number == (ENGINEROOM_SEMANTICS_CURRENT_TURN_FENCE_V1 | ENGINEROOM_SEMANTICS_ATOMIC_IDEMPOTENT_V1),
        "turns are durable");

  assembles(engine, ENGINEROOM_NONE_U64, 1, "without a budget everything is shown");
  assembles(engine, 45, 17, "the newest whole turns that fit are shown");
  assembles(engine, 19, 0, "a turn is never split");

  EngineroomSessionV1 session = {0};
  EngineroomCommitTurnArgsV1 turn = {0};
  turn.session = &session;
  turn.advancement_key = engineroom_str("turn-1");
  now = call();
  check(engine.table->commit_turn(engine.instance, &now, &turn) == ENGINEROOM_STATUS_OK &&
            frame.number == ENGINEROOM_COMMIT_STATUS_COMMITTED,
        "an accepted turn is taken in");

  EngineroomCompactArgsV1 compact = {0};
  compact.session = &session;
  compact.entries = history;
  compact.entries_len = ENTRIES;
  now = call();
  check(engine.table->compact(engine.instance, &now, &compact) == ENGINEROOM_STATUS_OK && frame.number == 1,
        "compaction is delegated, and its result is handed on");

  now = call();
  if (engine.table->dispose != NULL)
    check(engine.table->dispose(engine.instance, &now) == ENGINEROOM_STATUS_OK, "the instance is disposed");

  if (failures == 0)
    printf("all is well\n");
  return failures > 0;
}
