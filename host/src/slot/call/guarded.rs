//! The guard around every call: latch, cancel and deadline before it; status, lateness and pushes after it.

use super::border;
use super::frame::Frame;
use super::sink::Sink;
use crate::ledger::{self, Place};
use crate::observe::broken;
use crate::slot::core::EngineCore;
use crate::slot::facts::{SessionFacts, View};
use crate::slot::failure::{FailureKind, HookFailure};
use crate::slot::hook::Hook;
use engine_abi::wire::{CallV1, status};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the frame knows of the call that begins.
pub(crate) struct Setup {
    pub(crate) hook: Hook,
    pub(crate) params: u32,
    pub(crate) session: Arc<SessionFacts>,
    pub(crate) view: Option<(Arc<View>, usize)>,
    /// What becomes of the hook's own deadline.
    pub(crate) limits: Limits,
}

/// What becomes of a hook's own deadline in one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Instead of it: of a background run.
    pub(crate) instead: Option<Duration>,
    /// No call may take longer than this.
    pub(crate) cap: Option<Duration>,
}

impl Limits {
    /// No longer than `cap`.
    pub(crate) fn cap(cap: Option<Duration>) -> Limits {
        Limits { instead: None, cap }
    }

    /// How long a call of `hook` may take.
    pub(crate) fn of(self, core: &EngineCore, hook: Hook) -> Duration {
        if broken("9.1") && matches!(hook, Hook::CommitTurn | Hook::AfterTurn | Hook::IngestBatch | Hook::Ingest) {
            return Duration::from_secs(3600);
        }
        let own = self.instead.unwrap_or_else(|| core.deadline(hook));
        self.cap.map_or(own, |cap| cap.min(own))
    }
}

/// What a call that returned well has pushed; `None` when the engine says that it does not have the hook.
pub(crate) type Returned = Option<Sink>;

/// How a call came back.
pub(crate) enum Outcome {
    /// With the engine's status.
    Returned(u32),
    /// Not at all: the process that it ran in is gone.
    Lost(Lost),
    /// It was not made, by no fault of the engine.
    NotMade(String),
}

/// How a process was lost.
pub(crate) struct Lost {
    pub(crate) reason: String,
}

/// A call that was made.
pub(crate) struct Made {
    pub(crate) outcome: Outcome,
    pub(crate) sink: Sink,
    /// Tokens of the service errors of the call.
    pub(crate) tokens: Vec<u64>,
    pub(crate) ended: Instant,
    /// The deadline as it stood at the end; `None` when everyone had given up on the call.
    pub(crate) deadline: Option<Instant>,
}

/// Makes one call on this thread, unjudged. `None` when the frame takes no call any more.
pub(crate) fn unjudged(
    frame: &Frame,
    setup: Setup,
    (began, deadline): (Instant, Instant),
    invoke: impl FnOnce(&CallV1) -> Outcome,
) -> Option<Made> {
    let hook = setup.hook;
    {
        let mut state = frame.state();
        state.hook = hook;
        state.params = setup.params;
        state.session = setup.session;
        state.view = setup.view;
        state.sink = Sink::default();
    }
    if !frame.arm(hook, began, deadline) {
        return None;
    }
    let call = border::call(frame, frame.core.host.pointer());
    let outcome = frame.enter(|| {
        let _running = ledger::enter(frame.core.watched, Place::hook(hook.index()));
        invoke(&call)
    });
    let ended = Instant::now();
    let deadline = frame.disarm();
    let (sink, tokens) = {
        let mut state = frame.state();
        (std::mem::take(&mut state.sink), std::mem::take(&mut state.tokens))
    };
    frame.clear();
    Some(Made { outcome, sink, tokens, ended, deadline })
}

/// Makes one call on this thread. `invoke` gets the wire's call.
pub(crate) fn guarded(
    frame: &Frame,
    setup: Setup,
    invoke: impl FnOnce(&CallV1) -> Outcome,
) -> Result<Returned, HookFailure> {
    let core: &EngineCore = &frame.core;
    let (hook, limits) = (setup.hook, setup.limits);
    if let Some(failure) = core.out(hook) {
        return Err(failure);
    }
    if frame.cancel.is_cancelled() && hook != Hook::Dispose && !broken("8.28") {
        return Err(core.not_made(hook, FailureKind::Cancelled, "the caller had cancelled before the call"));
    }
    let started = Instant::now();
    let mut begun = None;
    let made = unjudged(frame, setup, (started, started + limits.of(core, hook)), |call| {
        begun = Some(frame.trace.begin(&core.id, hook));
        invoke(call)
    });
    let (Some(made), Some(begun)) = (made, begun) else {
        return Err(core.not_made(hook, FailureKind::Deadline, "an earlier call of the segment was given up"));
    };
    let Some(deadline) = made.deadline else {
        // The waiting side has counted and latched it; nobody waits for this value any more.
        return Err(core.not_made(hook, FailureKind::Deadline, "the call was given up"));
    };
    let took = made.ended - started;
    let judged = match made.outcome {
        Outcome::Returned(status) => {
            core.stats.returned(hook, took);
            let late = (made.ended >= deadline).then(|| (deadline - started, limits));
            judge(frame, hook, status, made.sink, &made.tokens, late)
        }
        Outcome::Lost(lost) => Err(core.crashed(hook, lost.reason)),
        Outcome::NotMade(reason) => Err(core.not_made(hook, FailureKind::Busy, &reason)),
    };
    frame.trace.end(begun, took, judged.as_ref().err().map(|failure| failure.kind));
    judged
}

/// What a call that returned comes to. `late`: its deadline, when it took longer.
fn judge(
    frame: &Frame,
    hook: Hook,
    status: u32,
    sink: Sink,
    tokens: &[u64],
    late: Option<(Duration, Limits)>,
) -> Result<Returned, HookFailure> {
    let core = &frame.core;
    if let Some((limit, limits)) = late.filter(|_| hook != Hook::Dispose) {
        if limits.instead.is_some() && frame.cancel.is_cancelled() {
            return Err(core.not_made(hook, FailureKind::Cancelled, "it gave way, at the last moment"));
        }
        let reason = format!("it took longer than its deadline of {} ms", limit.as_millis());
        return Err(frame.late(hook, reason, limits));
    }
    match status {
        status::OK => match sink.invalid {
            Some(bad) => Err(frame.failed(hook, FailureKind::InvalidResult, bad)),
            None => Ok(Some(sink)),
        },
        status::UNSUPPORTED => Ok(None),
        status::PANIC => {
            // The SDK's guard says the word itself.
            let said = said(&sink);
            let reason = format!("it panicked: {}", said.strip_prefix("panicked: ").unwrap_or(said));
            Err(frame.failed(hook, FailureKind::Panic, reason))
        }
        _ if frame.cancel.is_cancelled() && !broken("8.26") => {
            Err(core.not_made(hook, FailureKind::Cancelled, "the call was cancelled by its caller"))
        }
        status::CANCELLED if broken("8.27") => {
            Err(core.not_made(hook, FailureKind::Cancelled, "the call says that it was cancelled"))
        }
        other => {
            let (reason, token) = sink.fail.unwrap_or_default();
            let service = token != 0 && tokens.contains(&token);
            let kind = if service { FailureKind::Service } else { FailureKind::Error };
            let reason = match (other, reason.is_empty()) {
                (status::ERROR, true) => "it returned an error without a reason".to_owned(),
                (status::ERROR, false) => reason,
                (code, true) => format!("it returned the status {}", status_name(code)),
                (code, false) => format!("{reason} (status {})", status_name(code)),
            };
            Err(frame.failed(hook, kind, reason))
        }
    }
}

fn said(sink: &Sink) -> &str {
    match &sink.fail {
        Some((reason, _)) if !reason.is_empty() => reason,
        _ => "no message",
    }
}

fn status_name(code: u32) -> String {
    match code {
        status::CANCELLED => "cancelled, although nobody cancelled it".into(),
        status::EXPIRED => "expired".into(),
        status::REFUSED => "refused".into(),
        status::INVALID => "invalid".into(),
        status::NOT_FOUND => "not found".into(),
        status::UNAVAILABLE => "unavailable".into(),
        other => format!("{other}, which is unknown"),
    }
}
