//! Token counting, `llm.complete`, the built-in compaction.
#![allow(unsafe_code, reason = "these functions are called by engines with raw pointers")]

use super::{serve, write};
use crate::slot::call::ask::{Answer, Deed, Delegated, Request};
use crate::slot::call::receive::{self, Bad};
use crate::slot::services::LlmRequest;
use engine_abi::wire::*;

pub(super) static TOKENS: TokensV1 = TokensV1 { count };
pub(super) static LLM: LlmV1 = LlmV1 { complete };
pub(super) static COMPACTION: CompactionV1 = CompactionV1 { delegate };

extern "C" fn count(frame: *const FrameV1, text: Str, out_tokens: *mut u64, out_estimated: *mut u32) -> u32 {
    serve(
        frame,
        Deed::CountTokens,
        // SAFETY: lent for the duration of this call.
        || Ok(Request::CountTokens { text: unsafe { receive::text(text, "the text") }?.unwrap_or("") }),
        |answer, _| {
            let Answer::Tokens(count) = answer else { return };
            // SAFETY: both are lent for the duration of this call.
            unsafe {
                write(out_tokens, count.tokens);
                write(out_estimated, u32::from(count.estimated));
            }
        },
    )
}

extern "C" fn complete(frame: *const FrameV1, request: *const LlmRequestV1, out: *mut LlmResponseV1) -> u32 {
    serve(
        frame,
        Deed::Complete,
        // SAFETY: lent for the duration of this call.
        || Ok(Request::Complete(unsafe { llm_request(request) }?)),
        |answer, arena| {
            let Answer::Completed(response) = answer else { return };
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
        Ok(LlmRequest {
            messages: receive::list(request.messages, request.messages_len, receive::LIST_MAX, "messages")?
                .iter()
                .map(|message| receive::message(message))
                .collect::<Result<Vec<_>, Bad>>()?,
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
        Deed::Delegate,
        // SAFETY: lent for the duration of this call.
        || Ok(Request::Delegate(unsafe { delegated(args) }?)),
        |answer, arena| {
            let Answer::Compacted(output) = answer else { return };
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

/// # Safety
///
/// `args` and what it points to are lent.
unsafe fn delegated(args: *const CompactArgsV1) -> Result<Delegated, Bad> {
    // SAFETY: by the caller's promise.
    unsafe {
        let args = receive::one(args, "the arguments")?;
        let session = if args.session.is_null() { None } else { Some(receive::one(args.session, "the session")?) };
        Ok(Delegated {
            force: receive::flag(args.force, "force")?,
            target: args.target,
            trigger: args.trigger,
            attempt: args.attempt,
            max_attempts: args.max_attempts,
            force_reason: args.force_reason,
            custom_instructions: receive::owned(args.custom_instructions, "customInstructions")?,
            token_budget: session.and_then(|session| receive::number(session.token_budget)),
            current_token_count: session.and_then(|session| receive::number(session.current_token_count)),
        })
    }
}
