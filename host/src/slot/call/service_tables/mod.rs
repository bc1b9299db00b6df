//! The wire tables of the host services: from raw arguments to the gateway's trait and back.
#![allow(unsafe_code, reason = "these functions are called by engines with raw pointers")]

use super::arena::Arena;
use super::border::{frame, guard};
use super::frame::Frame;
use super::receive::Bad;
use crate::slot::facts::*;
use crate::slot::hook::Hook;
use crate::slot::services::*;
use engine_abi::host::extension;
use engine_abi::wire::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

mod model;
mod own;
mod transcript;

/// Most bytes that the services keep alive for one call.
const LENT_MAX: usize = 512 * 1024 * 1024;

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

/// A token that marks an error as the host's own.
pub(crate) fn fresh_token() -> u64 {
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
            engine_id: self.frame.core.store_name(),
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
