//! The host's table of one owner: its log, and which services it may ask for.
#![allow(unsafe_code, reason = "called by engines with raw pointers; the tables are shared with them for ever")]

use super::border::{frame, guard};
use super::{receive, service_tables};
use engine_abi::wire::*;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Grant that opens the agent's other sessions.
pub(crate) const GRANT_SESSIONS: &str = "sessions";
/// Grant that opens appending to the memory.
pub(crate) const GRANT_MEMORY_APPEND: &str = "memory-append";

/// What stands behind [`HostV1::private`].
struct HostPrivate {
    owner: String,
    llm: bool,
    sessions: bool,
    memory_append: bool,
}

/// The table of one owner. It lives for ever, since a library is never unloaded and may log from its own threads.
#[derive(Clone, Copy)]
pub(crate) struct HostTable(&'static Shared);

/// Lets the leaked table be shared: its raw pointer leads to an immutable [`HostPrivate`].
struct Shared(HostV1);

// SAFETY: `private` points to a leaked `HostPrivate`, which is immutable and itself Send and Sync.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

impl HostTable {
    /// A table for `owner`. One per owner and process: it is never freed.
    pub(crate) fn leak(owner: &str, grants: &[String], llm: bool) -> HostTable {
        let granted = |name: &str| grants.iter().any(|grant| grant == name);
        let private: &'static HostPrivate = Box::leak(Box::new(HostPrivate {
            owner: owner.to_owned(),
            llm,
            sessions: granted(GRANT_SESSIONS),
            memory_append: granted(GRANT_MEMORY_APPEND),
        }));
        HostTable(Box::leak(Box::new(Shared(HostV1 {
            log,
            service,
            last_error,
            private: std::ptr::from_ref(private).cast(),
        }))))
    }

    /// What crosses the border.
    pub(crate) fn pointer(self) -> *const HostV1 {
        &raw const self.0.0
    }
}

impl fmt::Debug for HostTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HostTable")
    }
}

/// The private part of a table that an engine hands back.
fn private<'a>(host: *const HostV1) -> Option<&'a HostPrivate> {
    if host.is_null() || !host.is_aligned() {
        return None;
    }
    // SAFETY: the contract: engines hand back the table that they were given; every table is leaked with its private part.
    unsafe { (*host).private.cast::<HostPrivate>().as_ref() }
}

extern "C" fn log(host: *const HostV1, pointer: *const FrameV1, level: u32, target: Str, message: Str) {
    guard("log", || {
        let owner = private(host).map_or("unknown", |private| private.owner.as_str());
        // SAFETY: both are lent for the duration of this call.
        let (target, message) = unsafe { (receive::reason(target), receive::reason(message)) };
        let running = frame(pointer).map(|frame| (Arc::clone(&frame.core), frame.running()));
        let (engine, hook) = running.as_ref().map_or(("", ""), |(core, hook)| (core.id.as_str(), hook.name()));
        log_line(owner, engine, hook, level, &target, &message);
        status::OK
    });
}

/// Takes lines of engines in the place of this process's log: in a worker, which has none.
pub(crate) type Elsewhere = Box<dyn Fn(&str, &str, u32, &str, &str) + Send + Sync>;

static ELSEWHERE: OnceLock<Elsewhere> = OnceLock::new();

/// Has the lines of engines taken elsewhere, for good: engine, hook, level, target, message.
pub(crate) fn log_elsewhere(take: Elsewhere) {
    let _ = ELSEWHERE.set(take);
}

/// One line of an engine in the host's log.
pub(crate) fn log_line(owner: &str, engine: &str, hook: &str, level: u32, target: &str, message: &str) {
    if let Some(take) = ELSEWHERE.get() {
        return take(engine, hook, level, target, message);
    }
    // A macro, since the level of an event is part of its static description.
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(target: "engine", owner, engine, hook, from = target, "{message}")
        };
    }
    match level {
        log_level::ERROR => line!(error),
        log_level::WARN => line!(warn),
        log_level::DEBUG => line!(debug),
        log_level::TRACE => line!(trace),
        _ => line!(info),
    }
}

extern "C" fn service(host: *const HostV1, id: Str) -> ExtensionV1 {
    let mut answer = ExtensionV1::NONE;
    guard("service", || {
        let Some(private) = private(host) else { return status::INVALID };
        // SAFETY: lent for the duration of this call.
        let Ok(Some(id)) = (unsafe { receive::text(id, "the id of a service") }) else { return status::INVALID };
        answer = service_tables::table(id, private.llm, private.sessions, private.memory_append);
        if answer.table.is_null()
            && let Some(frame) = frame(super::frame::current()).filter(|frame| !frame.expired())
        {
            // An engine that hands the absence on hands on an error of the host.
            frame.note_absent(id, super::ask::fresh_token());
        }
        status::OK
    });
    answer
}

extern "C" fn last_error(pointer: *const FrameV1, message: *mut Str) -> u64 {
    let mut token = 0;
    guard("last_error", || {
        let Some(frame) = frame(pointer) else { return status::INVALID };
        let mut state = frame.state();
        let Some((text, given)) = state.last_error.clone() else { return status::NOT_FOUND };
        token = given;
        if !message.is_null() && message.is_aligned() {
            let lent = state.arena.text(text);
            // SAFETY: not null and aligned; the engine lends it for the duration of this call.
            unsafe { message.write(lent) };
        }
        status::OK
    });
    token
}
