//! Token counting, `llm.complete`, the built-in compaction.
#![allow(unsafe_code, reason = "these functions are called by engines with raw pointers")]

use super::{invalid, refused, serve, write};
use crate::slot::call::receive::{self, Bad};
use crate::slot::facts::*;
use crate::slot::hook::Hook;
use crate::slot::services::LlmRequest;
use engine_abi::wire::*;
use std::sync::Arc;

pub(super) static TOKENS: TokensV1 = TokensV1 { count };
pub(super) static LLM: LlmV1 = LlmV1 { complete };
pub(super) static COMPACTION: CompactionV1 = CompactionV1 { delegate };

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
