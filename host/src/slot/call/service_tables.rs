//! The wire tables of the host services: from raw arguments to the gateway's trait and back.
#![allow(unsafe_code, reason = "these functions are called by engines with raw pointers")]

use super::arena::Arena;
use super::border::{frame, guard};
use super::frame::Frame;
use super::receive::{self, Bad};
use crate::slot::facts::*;
use crate::slot::hook::Hook;
use crate::slot::services::*;
use crate::transcript::EngineOp;
use engine_abi::host::extension;
use engine_abi::wire::{self, *};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

static TOKENS: TokensV1 = TokensV1 { count };
static LLM: LlmV1 = LlmV1 { complete };
static COMPACTION: CompactionV1 = CompactionV1 { delegate };
static TRANSCRIPT: TranscriptV1 = TranscriptV1 { read, rewrite };
static SESSIONS: SessionsV1 = SessionsV1 { list };
static MEMORY: MemoryV1 = MemoryV1 { prompt_addition, search, append: None };
static MEMORY_APPEND: MemoryV1 = MemoryV1 { prompt_addition, search, append: Some(append) };
static STORE: StoreV1 = StoreV1 { get, scan, batch };

const KEY_MAX: usize = 1_024;
const BATCH_MAX: usize = 100_000;
const SCAN_MAX: u64 = 10_000;
const LIST_MAX: u64 = 1_000;
const HITS_MAX: u64 = 100;
/// Most bytes that the services keep alive for one call.
const LENT_MAX: usize = 512 * 1024 * 1024;

/// The table of a service; none when unknown or not granted.
pub(crate) fn table(id: &str, llm: bool, sessions: bool, memory_append: bool) -> ExtensionV1 {
    match id {
        service::TOKENS => extension(&TOKENS),
        service::LLM if llm => extension(&LLM),
        service::COMPACTION => extension(&COMPACTION),
        service::TRANSCRIPT => extension(&TRANSCRIPT),
        service::SESSIONS if sessions => extension(&SESSIONS),
        service::MEMORY if memory_append => extension(&MEMORY_APPEND),
        service::MEMORY => extension(&MEMORY),
        service::STORE => extension(&STORE),
        _ => ExtensionV1::NONE,
    }
}

/// A token that marks an error as the host's own.
fn fresh_token() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// What a service call knows of its hook.
struct Asked<'a> {
    frame: &'a Frame,
    hook: Hook,
    session: Arc<SessionFacts>,
    deadline: std::time::Instant,
}

impl Asked<'_> {
    fn scope(&self) -> CallScope<'_> {
        CallScope {
            engine_id: &self.frame.core.id,
            owner: &self.frame.core.owner,
            hook: self.hook,
            deadline: self.deadline,
            cancel: &self.frame.cancel,
            session: &self.session,
            grants: &self.frame.core.grants,
        }
    }
}

/// One service call: the checks that all of them share, the call, and what `give` makes of its answer for the engine.
fn serve<T>(
    pointer: *const FrameV1,
    id: &'static str,
    ask: impl FnOnce(&Asked<'_>) -> Result<T, ServiceError>,
    give: impl FnOnce(T, &mut Arena),
) -> u32 {
    guard(id, || {
        let Some(frame) = frame(pointer) else { return status::INVALID };
        let (hook, params, session) = {
            let state = frame.state();
            (state.hook, state.params, Arc::clone(&state.session))
        };
        let Some(deadline) = frame.deadline().filter(|_| !frame.expired()) else {
            frame.core.stats.late_service_calls.fetch_add(1, Relaxed);
            frame.state().last_error = Some(("the call's deadline has passed".into(), 0));
            return status::EXPIRED;
        };
        let answer = if params & host_params::RUNTIME_CONTEXT == 0 {
            Err(ServiceError::new(ServiceStatus::Refused, "the engine does not accept runtimeContext"))
        } else if !frame.services.available(id) {
            Err(ServiceError::unavailable(id))
        } else if frame.state().arena.weight() > LENT_MAX {
            Err(ServiceError::new(
                ServiceStatus::Refused,
                "the call has been lent too much; return and go on in another",
            ))
        } else {
            ask(&Asked { frame, hook, session, deadline })
        };
        match answer {
            Ok(value) => {
                give(value, &mut frame.state().arena);
                status::OK
            }
            Err(error) => {
                let token = fresh_token();
                let mut state = frame.state();
                state.tokens.push(token);
                state.last_error = Some((error.message, token));
                error.status.code()
            }
        }
    })
}

fn invalid(bad: Bad) -> ServiceError {
    ServiceError::new(ServiceStatus::Invalid, bad)
}

fn refused(why: &str) -> ServiceError {
    ServiceError::new(ServiceStatus::Refused, why)
}

/// Writes an answer where the engine wants it.
///
/// # Safety
///
/// `out` is null or lent for the duration of the call.
unsafe fn write<T>(out: *mut T, value: T) {
    if !out.is_null() && out.is_aligned() {
        // SAFETY: not null and aligned; writable by the caller's promise.
        unsafe { out.write(value) };
    }
}

extern "C" fn count(frame: *const FrameV1, text: Str, out_tokens: *mut u64, out_estimated: *mut u32) -> u32 {
    serve(
        frame,
        service::TOKENS,
        |asked| {
            // SAFETY: lent for the duration of this call.
            let text = unsafe { receive::text(text, "the text") }.map_err(invalid)?.unwrap_or("");
            asked.frame.services.count_tokens(&asked.scope(), text)
        },
        // SAFETY: both are lent for the duration of this call.
        |count, _| unsafe {
            write(out_tokens, count.tokens);
            write(out_estimated, u32::from(count.estimated));
        },
    )
}

extern "C" fn complete(frame: *const FrameV1, request: *const LlmRequestV1, out: *mut LlmResponseV1) -> u32 {
    serve(
        frame,
        service::LLM,
        |asked| {
            // SAFETY: lent for the duration of this call.
            let request = unsafe { llm_request(request) }.map_err(invalid)?;
            asked.frame.services.llm_complete(&asked.scope(), request)
        },
        |response, arena| {
            let number = |value: Option<u64>| value.unwrap_or(NONE_U64);
            let wire = LlmResponseV1 {
                text: arena.text(response.text),
                provider: arena.text(response.provider),
                model: arena.text(response.model),
                response_model: arena.opt(response.response_model),
                stop_reason: arena.opt(response.stop_reason),
                agent_id: arena.opt(response.agent_id),
                input_tokens: number(response.input_tokens),
                output_tokens: number(response.output_tokens),
                cache_read_tokens: number(response.cache_read_tokens),
                cache_write_tokens: number(response.cache_write_tokens),
                total_tokens: number(response.total_tokens),
                cost_usd: response.cost_usd.unwrap_or(-1.0),
            };
            // SAFETY: lent for the duration of this call.
            unsafe { write(out, wire) };
        },
    )
}

/// # Safety
///
/// `request` and what it points to are lent.
unsafe fn llm_request(request: *const LlmRequestV1) -> Result<LlmRequest, Bad> {
    // SAFETY: by the caller's promise.
    unsafe {
        let request = receive::one(request, "the request")?;
        let messages = receive::list(request.messages, request.messages_len, receive::LIST_MAX, "messages")?
            .iter()
            .map(|message| {
                if message.role == role::TOOL {
                    return Err("messages may be of the user or the assistant".to_owned());
                }
                receive::message(message)
            })
            .collect::<Result<Vec<_>, Bad>>()?;
        if messages.is_empty() {
            return Err("messages is empty".into());
        }
        Ok(LlmRequest {
            messages,
            system_prompt: receive::owned(request.system_prompt, "systemPrompt")?,
            model: receive::owned(request.model, "model")?,
            purpose: receive::owned(request.purpose, "purpose")?,
            reasoning: receive::owned(request.reasoning, "reasoning")?,
            response_format_json: receive::owned(request.response_format_json, "responseFormat")?,
            max_tokens: receive::number(request.max_tokens),
            temperature: (request.temperature >= 0.0).then_some(request.temperature),
        })
    }
}

extern "C" fn delegate(frame: *const FrameV1, args: *const CompactArgsV1, out: *mut CompactResultV1) -> u32 {
    serve(
        frame,
        service::COMPACTION,
        |asked| {
            if asked.hook != Hook::Compact {
                return Err(refused("compaction can be delegated only inside compact"));
            }
            let Some((view, len)) = asked.frame.state().view.clone() else {
                return Err(refused("this compact has no history"));
            };
            // SAFETY: lent for the duration of this call.
            let args = unsafe { compact_args(args, view, len, &asked.session) }.map_err(invalid)?;
            asked.frame.services.delegate_compaction(&asked.scope(), args)
        },
        |output, arena| {
            let target = output.successor_target.map_or(std::ptr::null(), |target| {
                let wire = SessionTargetV1 {
                    agent_id: arena.opt(target.agent_id),
                    session_id: arena.opt(target.session_id),
                    session_key: arena.opt(target.session_key),
                    store: arena.opt(target.store),
                    thread_id: arena.opt(target.thread_id),
                };
                arena.target(wire)
            });
            let wire = CompactResultV1 {
                ok: u32::from(output.ok),
                compacted: u32::from(output.compacted),
                reason: arena.opt(output.reason),
                summary: arena.opt(output.summary),
                first_kept_entry_id: output.first_kept.unwrap_or(0),
                tokens_before: output.tokens_before.unwrap_or(NONE_U64),
                tokens_after: output.tokens_after.unwrap_or(NONE_U64),
                details_json: arena.opt(output.details_json),
                successor_session_id: arena.opt(output.successor_session_id),
                successor_target: target,
            };
            // SAFETY: lent for the duration of this call.
            unsafe { write(out, wire) };
        },
    )
}

/// The engine's arguments over the host's own history: what is compacted is never the engine's to say.
///
/// # Safety
///
/// `args` and what it points to are lent.
unsafe fn compact_args(
    args: *const CompactArgsV1,
    view: Arc<View>,
    len: usize,
    session: &SessionFacts,
) -> Result<CompactArgs, Bad> {
    // SAFETY: by the caller's promise.
    unsafe {
        let args = receive::one(args, "the arguments")?;
        let (mut token_budget, mut current_token_count) = (session.token_budget, session.current_token_count);
        if !args.session.is_null() {
            let given = receive::one(args.session, "the session")?;
            token_budget = receive::number(given.token_budget).or(token_budget);
            current_token_count = receive::number(given.current_token_count).or(current_token_count);
        }
        Ok(CompactArgs {
            view,
            len,
            force: receive::flag(args.force, "force")?,
            target: args.target,
            trigger: args.trigger,
            attempt: args.attempt,
            max_attempts: args.max_attempts,
            force_reason: args.force_reason,
            custom_instructions: receive::owned(args.custom_instructions, "customInstructions")?,
            token_budget,
            current_token_count,
        })
    }
}

extern "C" fn read(frame: *const FrameV1, request: *const CursorRequestV1, out: *mut CursorPageV1) -> u32 {
    serve(
        frame,
        service::TRANSCRIPT,
        |asked| {
            // SAFETY: lent for the duration of this call.
            let request = unsafe { cursor_request(request) }.map_err(invalid)?;
            let other = request.session_key.is_some() && request.session_key != asked.session.session_key;
            if other && !asked.scope().granted(super::host_table::GRANT_SESSIONS) {
                return Err(refused("other sessions are not granted (grants = [\"sessions\"])"));
            }
            asked.frame.services.read_transcript(&asked.scope(), request)
        },
        |page, arena| {
            let wire = CursorPageV1 {
                outcome: page.outcome,
                reset_reason: page.reset_reason,
                has_more: u32::from(page.has_more),
                reserved: 0,
                cursor: arena.opt(page.cursor),
                entries: arena.entries(&page.entries),
                serialized_bytes: page.serialized_bytes,
                required_bytes: page.required_bytes,
            };
            // SAFETY: lent for the duration of this call.
            unsafe { write(out, wire) };
        },
    )
}

/// # Safety
///
/// `request` and what it points to are lent.
unsafe fn cursor_request(request: *const CursorRequestV1) -> Result<CursorRequest, Bad> {
    // SAFETY: by the caller's promise.
    unsafe {
        let request = receive::one(request, "the request")?;
        let or = |value: u64, default: u64, most: u64| if value == 0 { default } else { value.min(most) };
        Ok(CursorRequest {
            session_key: receive::owned(request.session_key, "sessionKey")?,
            cursor: receive::owned(request.cursor, "cursor")?,
            max_messages: or(request.max_messages, 1_000, 10_000) as usize,
            max_bytes: or(request.max_bytes, 1_000_000, 64 * 1024 * 1024),
        })
    }
}

extern "C" fn rewrite(
    frame: *const FrameV1,
    replacements: *const ReplacementV1,
    len: usize,
    out: *mut MaintainResultV1,
) -> u32 {
    serve(
        frame,
        service::TRANSCRIPT,
        |asked| {
            if matches!(asked.hook, Hook::Bootstrap | Hook::Assemble) {
                return Err(refused("the transcript cannot be rewritten during bootstrap and assemble"));
            }
            // SAFETY: lent for the duration of this call.
            let replacements = unsafe {
                receive::list(replacements, len, receive::LIST_MAX, "replacements")
                    .and_then(|list| {
                        list.iter()
                            .map(|r| Ok(Replacement { entry_id: r.entry_id, message: receive::message(&r.message)? }))
                            .collect::<Result<Vec<_>, Bad>>()
                    })
                    .map_err(invalid)?
            };
            asked.frame.services.rewrite(&asked.scope(), replacements)
        },
        |output, arena| {
            let wire = MaintainResultV1 {
                changed: u32::from(output.changed),
                reserved: 0,
                bytes_freed: output.bytes_freed,
                rewritten_entries: output.rewritten_entries,
                reason: arena.opt(output.reason),
            };
            // SAFETY: lent for the duration of this call.
            unsafe { write(out, wire) };
        },
    )
}

extern "C" fn list(frame: *const FrameV1, after: Str, limit: u64, out: *mut StrList) -> u32 {
    serve(
        frame,
        service::SESSIONS,
        |asked| {
            if !asked.scope().granted(super::host_table::GRANT_SESSIONS) {
                return Err(refused("the list of sessions is not granted (grants = [\"sessions\"])"));
            }
            // SAFETY: lent for the duration of this call.
            let after = unsafe { receive::text(after, "after") }.map_err(invalid)?;
            asked.frame.services.list_sessions(&asked.scope(), after, limit.min(LIST_MAX) as usize)
        },
        |keys, arena| {
            let (ptr, len) = arena.texts(keys);
            // SAFETY: lent for the duration of this call.
            unsafe { write(out, StrList { ptr, len }) };
        },
    )
}

extern "C" fn prompt_addition(frame: *const FrameV1, args: *const MemoryPromptArgsV1, out: *mut Str) -> u32 {
    serve(
        frame,
        service::MEMORY,
        |asked| {
            // SAFETY: lent for the duration of this call.
            let args = unsafe {
                receive::one(args, "the arguments").and_then(|args| {
                    Ok(MemoryPromptArgs {
                        available_tools: receive::texts(args.available_tools, "availableTools")?,
                        citations_mode: args.citations_mode,
                        sandboxed: receive::flag(args.sandboxed, "sandboxed")?,
                    })
                })
            }
            .map_err(invalid)?;
            asked.frame.services.memory_prompt(&asked.scope(), args)
        },
        |text, arena| {
            let text = arena.opt(text);
            // SAFETY: lent for the duration of this call.
            unsafe { write(out, text) };
        },
    )
}

extern "C" fn search(frame: *const FrameV1, query: Str, limit: u64, out: *mut MemoryHitsV1) -> u32 {
    serve(
        frame,
        service::MEMORY,
        |asked| {
            // SAFETY: lent for the duration of this call.
            let query = unsafe { receive::required(query, "the query") }.map_err(invalid)?;
            asked.frame.services.memory_search(&asked.scope(), &query, limit.min(HITS_MAX) as usize)
        },
        |hits, arena| {
            let (ptr, len) = arena.hits(hits);
            // SAFETY: lent for the duration of this call.
            unsafe { write(out, MemoryHitsV1 { ptr, len }) };
        },
    )
}

extern "C" fn append(frame: *const FrameV1, text: Str) -> u32 {
    serve(
        frame,
        service::MEMORY,
        |asked| {
            if !asked.scope().granted(super::host_table::GRANT_MEMORY_APPEND) {
                return Err(refused("appending to the memory is not granted (grants = [\"memory-append\"])"));
            }
            // SAFETY: lent for the duration of this call.
            let text = unsafe { receive::required(text, "the text") }.map_err(invalid)?;
            asked.frame.services.memory_append(&asked.scope(), &text)
        },
        |(), _| (),
    )
}

/// # Safety
///
/// `key` is lent.
unsafe fn store_key<'a>(key: Bytes) -> Result<&'a [u8], Bad> {
    // SAFETY: by the caller's promise.
    match unsafe { receive::bytes(key, KEY_MAX, "the key") }? {
        Some(key) if !key.is_empty() => Ok(key),
        _ => Err("the key is empty".into()),
    }
}

extern "C" fn get(frame: *const FrameV1, engine_scope: u32, key: Bytes, out: *mut Bytes) -> u32 {
    serve(
        frame,
        service::STORE,
        |asked| {
            // SAFETY: lent for the duration of this call.
            let key = unsafe { store_key(key) }.map_err(invalid)?;
            let scope = receive::flag(engine_scope, "the scope").map_err(invalid)?;
            let value = asked.frame.services.store_get(&asked.scope(), scope, key)?;
            value.ok_or_else(|| ServiceError::new(ServiceStatus::NotFound, "no such key"))
        },
        |value, arena| {
            let value = arena.bytes(value);
            // SAFETY: lent for the duration of this call.
            unsafe { write(out, value) };
        },
    )
}

extern "C" fn scan(
    frame: *const FrameV1,
    engine_scope: u32,
    prefix: Bytes,
    after: Bytes,
    limit: u64,
    out: *mut StorePairsV1,
) -> u32 {
    serve(
        frame,
        service::STORE,
        |asked| {
            // SAFETY: lent for the duration of this call.
            let (prefix, after) = unsafe {
                (
                    receive::bytes(prefix, KEY_MAX, "the prefix").map_err(invalid)?.unwrap_or(&[]),
                    receive::bytes(after, KEY_MAX, "the key").map_err(invalid)?,
                )
            };
            let scope = receive::flag(engine_scope, "the scope").map_err(invalid)?;
            asked.frame.services.store_scan(&asked.scope(), scope, prefix, after, limit.min(SCAN_MAX) as usize)
        },
        |pairs, arena| {
            let (ptr, len) = arena.pairs(pairs);
            // SAFETY: lent for the duration of this call.
            unsafe { write(out, StorePairsV1 { ptr, len }) };
        },
    )
}

extern "C" fn batch(frame: *const FrameV1, ops: *const StoreOpV1, len: usize) -> u32 {
    serve(
        frame,
        service::STORE,
        |asked| {
            // SAFETY: lent for the duration of this call.
            let ops = unsafe {
                receive::list(ops, len, BATCH_MAX, "the batch")
                    .and_then(|ops| ops.iter().map(|op| store_op(op)).collect::<Result<Vec<_>, Bad>>())
                    .map_err(invalid)?
            };
            if ops.is_empty() {
                return Ok(());
            }
            asked.frame.services.store_batch(&asked.scope(), ops)
        },
        |(), _| (),
    )
}

/// # Safety
///
/// The key and the value of `op` are lent.
unsafe fn store_op(op: &StoreOpV1) -> Result<StoreOp, Bad> {
    // SAFETY: by the caller's promise.
    let (key, value) = unsafe {
        (store_key(op.key)?.to_vec(), receive::bytes(op.value, receive::TEXT_MAX, "the value")?.map(<[u8]>::to_vec))
    };
    let present = |value: Option<Vec<u8>>| value.ok_or_else(|| "the value is absent".to_owned());
    Ok(StoreOp {
        engine_scope: receive::flag(op.engine_scope, "the scope")?,
        op: match op.op {
            wire::store_op::PUT => EngineOp::Put(key, present(value)?),
            wire::store_op::DELETE => EngineOp::Delete(key),
            wire::store_op::REQUIRE_ABSENT => EngineOp::RequireAbsent(key),
            wire::store_op::REQUIRE_EQUAL => EngineOp::RequireEqual(key, present(value)?),
            wire::store_op::DELETE_PREFIX => EngineOp::DeletePrefix(key),
            other => return Err(format!("unknown operation {other}")),
        },
    })
}
