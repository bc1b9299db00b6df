//! The wire tables of the host services: from raw arguments to typed service calls and back.
#![allow(unsafe_code, reason = "these functions are called by engines with raw pointers")]

use super::arena::Arena;
use super::ask::{Answer, Deed, Refusal, Request, fresh_token};
use super::border::{frame, guard};
use super::receive::Bad;
use engine_abi::host::extension;
use engine_abi::wire::*;

mod model;
mod own;
mod transcript;

/// The table of a service; none when unknown or not granted.
pub(crate) fn table(id: &str, llm: bool, sessions: bool, memory_append: bool) -> ExtensionV1 {
    match id {
        service::TOKENS => extension(&model::TOKENS),
        service::LLM if llm => extension(&model::LLM),
        service::COMPACTION => extension(&model::COMPACTION),
        service::TRANSCRIPT => extension(&transcript::TRANSCRIPT),
        service::SESSIONS if sessions => extension(&transcript::SESSIONS),
        service::MEMORY if memory_append => extension(&own::MEMORY_APPEND),
        service::MEMORY => extension(&own::MEMORY),
        service::STORE => extension(&own::STORE),
        _ => ExtensionV1::NONE,
    }
}

/// One service call: `request` reads the arguments, `give` lends the answer to the engine.
fn serve<'a>(
    pointer: *const FrameV1,
    deed: Deed,
    request: impl FnOnce() -> Result<Request<'a>, Bad>,
    give: impl FnOnce(Answer, &mut Arena),
) -> u32 {
    guard(deed.service(), || {
        let Some(frame) = frame(pointer) else { return status::INVALID };
        match frame.ask(deed, request) {
            Ok(answer) => {
                give(answer, &mut frame.state().arena);
                status::OK
            }
            Err(Refusal::Expired) => {
                frame.state().last_error = Some(("the call's deadline has passed".into(), 0));
                status::EXPIRED
            }
            Err(Refusal::Error(error)) => {
                let token = fresh_token();
                let mut state = frame.state();
                state.tokens.push(token);
                state.last_error = Some((error.message, token));
                error.status.code()
            }
        }
    })
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
