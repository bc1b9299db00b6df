//! The model of the test host: what [`super::World::set_model`] answers.

use super::frame::owned;
use super::frame_of;
use crate::raw;
use crate::wire::*;
use std::sync::Arc;

/// What an engine asks the model (`llm.complete`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The system prompt.
    pub system_prompt: Option<String>,
    /// Role, a code from [`crate::wire::role`], and text of each message.
    pub messages: Vec<(u32, String)>,
    /// Another model than the one in use.
    pub model: Option<String>,
    /// What it is for.
    pub purpose: Option<String>,
    /// Most tokens of the answer.
    pub max_tokens: Option<u64>,
}

/// What answers: the text, or why there is none.
pub(super) type Model = Arc<dyn Fn(&Asked) -> Result<String, String> + Send + Sync>;

pub(super) static LLM: LlmV1 = LlmV1 { complete };

extern "C" fn complete(frame: *const FrameV1, request: *const LlmRequestV1, out: *mut LlmResponseV1) -> u32 {
    // SAFETY: the frame of the running call; the engine lends the request.
    let (frame, request) = unsafe { (frame_of(frame), &*request) };
    let Some(model) = frame.shared.model() else { return frame.fail(status::UNAVAILABLE, "there is no model") };
    // SAFETY: as above.
    let asked = unsafe {
        let messages = raw::slice(request.messages, request.messages_len).iter();
        Asked {
            system_prompt: owned(request.system_prompt),
            messages: messages.map(|message| (message.role, owned(message.text).unwrap_or_default())).collect(),
            model: owned(request.model),
            purpose: owned(request.purpose),
            max_tokens: raw::number(request.max_tokens),
        }
    };
    let answer = model(&asked);
    if frame.remaining_ms() == 0 {
        return frame.fail(status::EXPIRED, "the call's deadline passed while the model answered");
    }
    let text = match answer {
        Ok(text) => frame.lend(text.as_bytes()),
        Err(reason) => return frame.fail(status::ERROR, &reason),
    };
    let response = LlmResponseV1 {
        text: Str { ptr: text.ptr, len: text.len },
        provider: Str::new("test"),
        model: Str::new("test"),
        response_model: Str::NONE,
        stop_reason: Str::new("stop"),
        agent_id: Str::NONE,
        input_tokens: NONE_U64,
        output_tokens: NONE_U64,
        cache_read_tokens: NONE_U64,
        cache_write_tokens: NONE_U64,
        total_tokens: NONE_U64,
        cost_usd: -1.0,
    };
    // SAFETY: `out` is the engine's.
    unsafe { out.write(response) };
    status::OK
}
