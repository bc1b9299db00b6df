//! The frame of a segment: what a running call may still touch after everyone else has given up on it.
//!
//! A frame is reference-counted. The thread that runs the hooks owns one reference until the hook returns, however late; the
//! side that waits owns another. Giving up is one atomic step, after which every push and service call answers `EXPIRED`.
//! Engines know a frame by a number ([`super::handle`]) that leads nowhere once the frame is gone.

use super::arena::Arena;
use super::ask::Relay;
use super::guarded::Limits;
use super::handle::Handle;
use super::sink::Sink;
use crate::slot::core::EngineCore;
use crate::slot::facts::{CancelFlag, SessionFacts, View};
use crate::slot::failure::{FailureKind, HookFailure};
use crate::slot::hook::Hook;
use crate::slot::segment::SegmentContext;
use crate::slot::services::HostServices;
use crate::slot::trace::HookTrace;
use crate::sync::{AtomicU8, AtomicU32, AtomicU64, Mutex, MutexGuard};
use engine_abi::wire::FrameV1;
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long a hook may go on after its deadline, with its services revoked, before its thread is given up.
pub(crate) const GRACE: Duration = Duration::from_millis(100);

/// `armed` when no call is running.
const IDLE: u64 = 0;
/// `armed` when the running call was given up.
const ABANDONED: u64 = u64::MAX;

const QUEUED: u8 = 0;
const STARTED: u8 = 1;
const WITHDRAWN: u8 = 2;

thread_local! {
    /// The frame whose call runs on this thread: a service is looked up without one.
    static CURRENT: Cell<*const FrameV1> = const { Cell::new(std::ptr::null()) };
}

/// The frame whose call runs on this thread; null when none does.
pub(crate) fn current() -> *const FrameV1 {
    CURRENT.get()
}

/// Nanoseconds since the first use of this clock, never 0: an instant that fits an atomic.
pub(crate) fn ticks(at: Instant) -> u64 {
    u64::try_from(at.saturating_duration_since(base()).as_nanos()).unwrap_or(ABANDONED - 1).clamp(1, ABANDONED - 1)
}

/// The instant of a tick.
pub(crate) fn instant(ticks: u64) -> Instant {
    base() + Duration::from_nanos(ticks)
}

fn base() -> Instant {
    static BASE: OnceLock<Instant> = OnceLock::new();
    *BASE.get_or_init(Instant::now)
}

/// See the module.
pub(crate) struct Frame {
    /// What engines know it by.
    pub(crate) handle: Handle,
    /// Deadline of the running call in ticks, [`IDLE`] or [`ABANDONED`].
    armed: AtomicU64,
    /// Deadline of the call that was told to stop; equals `armed` from the deadline of the running call on.
    signalled: AtomicU64,
    /// When the running call began, in ticks.
    began: AtomicU64,
    /// Last entry that the running call read through the cursor: reading further is progress.
    reached: AtomicU64,
    hook: AtomicU32,
    phase: AtomicU8,
    pub(crate) core: Arc<EngineCore>,
    pub(crate) services: Arc<dyn HostServices>,
    pub(crate) cancel: CancelFlag,
    pub(crate) trace: HookTrace,
    look: bool,
    /// In a worker: who answers instead of the services.
    relay: Option<Arc<dyn Relay>>,
    state: Mutex<CallState>,
}

/// What belongs to the running call alone.
pub(crate) struct CallState {
    /// The hook.
    pub(crate) hook: Hook,
    /// The host parameters that it gets.
    pub(crate) params: u32,
    /// The session.
    pub(crate) session: Arc<SessionFacts>,
    /// The entries whose bodies it may read: the first so many of the view.
    pub(crate) view: Option<(Arc<View>, usize)>,
    /// What it pushed.
    pub(crate) sink: Sink,
    /// What services gave it.
    pub(crate) arena: Arena,
    /// Message and token of the last failed service call.
    pub(crate) last_error: Option<(String, u64)>,
    /// Tokens given out in this call.
    pub(crate) tokens: Vec<u64>,
}

impl CallState {
    fn reset(&mut self) {
        // First what points into the view, then the view.
        self.arena.clear();
        self.view = None;
        self.last_error = None;
        self.tokens.clear();
    }
}

/// What the waiting side should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tick {
    /// Look again at this instant at the latest.
    Wait(Instant),
    /// The running call was given up just now; it had this long.
    Abandoned(Hook, Duration),
    /// No thread took the work in time; it will not run any more.
    Withdrawn,
}

impl Frame {
    /// A frame for one segment.
    pub(crate) fn of(core: &Arc<EngineCore>, context: &SegmentContext) -> Arc<Frame> {
        let (services, cancel) = (Arc::clone(&context.services), context.cancel.clone());
        Frame::make(Arc::clone(core), services, cancel, context.trace.clone(), context.look, None)
    }

    /// A frame for a call that belongs to no turn.
    pub(crate) fn new(core: Arc<EngineCore>, services: Arc<dyn HostServices>, cancel: CancelFlag) -> Arc<Frame> {
        Frame::make(core, services, cancel, HookTrace::default(), false, None)
    }

    /// A frame in a worker, whose calls the gateway answers.
    pub(crate) fn relayed(core: Arc<EngineCore>, relay: Arc<dyn Relay>) -> Arc<Frame> {
        let services = Arc::new(crate::slot::services::NoServices);
        Frame::make(core, services, CancelFlag::new(), HookTrace::default(), false, Some(relay))
    }

    /// Who answers instead of the services.
    pub(crate) fn relay(&self) -> Option<&Arc<dyn Relay>> {
        self.relay.as_ref()
    }

    fn make(
        core: Arc<EngineCore>,
        services: Arc<dyn HostServices>,
        cancel: CancelFlag,
        trace: HookTrace,
        look: bool,
        relay: Option<Arc<dyn Relay>>,
    ) -> Arc<Frame> {
        // The clock starts before the first call is armed, so that a tick is never before it.
        base();
        let frame = Arc::new(Frame {
            handle: Handle::take(),
            armed: AtomicU64::new(IDLE),
            signalled: AtomicU64::new(IDLE),
            began: AtomicU64::new(IDLE),
            reached: AtomicU64::new(0),
            hook: AtomicU32::new(0),
            phase: AtomicU8::new(QUEUED),
            core,
            services,
            cancel,
            trace,
            look,
            relay,
            state: Mutex::new(CallState {
                hook: Hook::Info,
                params: 0,
                session: Arc::new(SessionFacts::default()),
                view: None,
                sink: Sink::default(),
                arena: Arena::default(),
                last_error: None,
                tokens: Vec::new(),
            }),
        });
        frame.handle.lead_to(&frame);
        frame
    }

    /// Runs a call of this frame on this thread.
    pub(crate) fn enter<R>(&self, call: impl FnOnce() -> R) -> R {
        struct Back(*const FrameV1);
        impl Drop for Back {
            fn drop(&mut self) {
                CURRENT.set(self.0);
            }
        }
        let _back = Back(CURRENT.replace(self.handle.pointer()));
        call()
    }

    /// A service that the running call asked for is not there: an error of the host's, with a token like any other.
    pub(crate) fn note_absent(&self, service: &str, token: u64) {
        let mut state = self.state();
        state.tokens.push(token);
        state.last_error = Some((format!("runtime_unavailable: the host does not offer {service} here"), token));
    }

    /// The running call failed. In a look that is told and no more.
    pub(crate) fn failed(&self, hook: Hook, kind: FailureKind, reason: String) -> HookFailure {
        if self.look {
            self.core.seen_failing(hook, kind, reason)
        } else {
            self.core.failed(hook, kind, reason, Vec::new())
        }
    }

    /// The running call returned, and took longer than it may.
    pub(crate) fn late(&self, hook: Hook, reason: String, limits: Limits) -> HookFailure {
        match self.look {
            true => self.core.seen_failing(hook, FailureKind::Deadline, reason),
            false => self.core.late(hook, reason, limits),
        }
    }

    /// The state of the running call. Never held across a service or a hook.
    pub(crate) fn state(&self) -> MutexGuard<'_, CallState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread takes the work. False when it was withdrawn.
    pub(crate) fn start(&self) -> bool {
        self.phase.compare_exchange(QUEUED, STARTED, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Arms the deadline of a call. False when an earlier call of the segment was given up: no call may follow.
    pub(crate) fn arm(&self, hook: Hook, began: Instant, deadline: Instant) -> bool {
        self.hook.store(hook.index() as u32, Ordering::Relaxed);
        self.began.store(ticks(began), Ordering::Relaxed);
        self.reached.store(0, Ordering::Relaxed);
        self.armed.compare_exchange(IDLE, ticks(deadline), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The call returned: its deadline, as it stood then. `None` when it was given up meanwhile.
    pub(crate) fn disarm(&self) -> Option<Instant> {
        self.rearm(|_| Some(IDLE)).map(instant)
    }

    /// Gives the running call time until `to`, unless it has that already. Nothing happens once its deadline has passed.
    pub(crate) fn extend(&self, to: Instant) {
        let (now, to) = (ticks(Instant::now()), ticks(to));
        self.rearm(|armed| (now < armed && armed < to).then_some(to));
    }

    /// Takes time from the running call: it ends at `to` at the latest.
    pub(crate) fn shorten(&self, to: Instant) {
        let to = ticks(to);
        self.rearm(|armed| (to < armed).then_some(to));
    }

    /// Replaces the deadline of the running call by what `next` makes of it; gives the old one when it did.
    fn rearm(&self, next: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        let next = |armed| if armed == IDLE || armed == ABANDONED { None } else { next(armed) };
        self.armed.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).ok()
    }

    /// How long the running call has been running.
    fn running_for(&self, now: Instant) -> Duration {
        now.saturating_duration_since(instant(self.began.load(Ordering::Relaxed)))
    }

    /// The running call has read up to `entry` through the cursor. True when no call of its own has read that far yet.
    pub(crate) fn reaches(&self, entry: u64) -> bool {
        self.reached.fetch_max(entry, Ordering::Relaxed) < entry
    }

    /// When the running call began.
    pub(crate) fn began(&self) -> Instant {
        instant(self.began.load(Ordering::Relaxed))
    }

    /// Lets go of what was lent to the call that returned.
    pub(crate) fn clear(&self) {
        self.state().reset();
    }

    /// True once a call of the segment was given up.
    pub(crate) fn abandoned(&self) -> bool {
        self.armed.load(Ordering::Acquire) == ABANDONED
    }

    /// True when pushes and service calls change nothing any more.
    pub(crate) fn expired(&self) -> bool {
        match self.armed.load(Ordering::Acquire) {
            IDLE | ABANDONED => true,
            deadline => ticks(Instant::now()) >= deadline,
        }
    }

    /// Deadline of the running call.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        match self.armed.load(Ordering::Acquire) {
            IDLE | ABANDONED => None,
            deadline => Some(instant(deadline)),
        }
    }

    /// Tells the running call to stop, as its deadline would.
    pub(crate) fn tell_to_stop(&self) {
        self.cancel.cancel();
        self.signalled.store(self.armed.load(Ordering::Acquire), Ordering::Release);
    }

    /// True when the running call should stop: its deadline has passed, or the caller has cancelled.
    pub(crate) fn stop(&self) -> bool {
        let armed = self.armed.load(Ordering::Acquire);
        armed == IDLE
            || armed == ABANDONED
            || armed == self.signalled.load(Ordering::Acquire)
            || (self.cancel.is_cancelled() && self.core.sees_cancel(self.running()))
    }

    /// The hook that runs, or ran last.
    pub(crate) fn running(&self) -> Hook {
        Hook::ALL[self.hook.load(Ordering::Relaxed) as usize % Hook::ALL.len()]
    }

    /// One look of the waiting side. `queue_until`: when waiting for a thread ends. `shortest`: the shortest deadline that a
    /// later call of the segment may have; looking again that soon means that no call can be armed and due unseen, so arming
    /// costs no wake-up.
    pub(crate) fn tick(&self, now: Instant, queue_until: Instant, shortest: Duration) -> Tick {
        if self.phase.load(Ordering::Acquire) == QUEUED {
            if now < queue_until {
                return Tick::Wait(queue_until.min(now + shortest));
            }
            if self.phase.compare_exchange(QUEUED, WITHDRAWN, Ordering::AcqRel, Ordering::Acquire).is_ok() {
                return Tick::Withdrawn;
            }
        }
        let armed = self.armed.load(Ordering::Acquire);
        let soon = now + shortest;
        if armed == IDLE || armed == ABANDONED {
            return Tick::Wait(soon);
        }
        let deadline = instant(armed);
        if now < deadline {
            return Tick::Wait(deadline.min(soon));
        }
        self.signalled.store(armed, Ordering::Release);
        let end = deadline + GRACE;
        if now < end {
            return Tick::Wait(end.min(soon));
        }
        let hook = self.running();
        match self.armed.compare_exchange(armed, ABANDONED, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Tick::Abandoned(hook, self.running_for(deadline)),
            // It returned at the last moment.
            Err(_) => Tick::Wait(soon),
        }
    }
}
