//! The gateway's ends of the lanes of one worker.
//!
//! A lane is made when all others are in use, and goes back when its call is over. One whose call did not come to its end
//! is of no use any more, and neither is its worker, which is then ended.

use super::cpu;
use super::frame::FRAME_MAX;
use super::start::Shared;
use super::wire::{LaneError, Wire, pair};
use crate::config::LimitsConfig;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most lanes of one worker: one for each thread that an engine may keep busy. Low limits of its entry make it fewer.
pub(crate) const LANES_MAX: u32 = 32;
/// How often a lane looks at the processor time of its call, at most.
const CPU_LOOK: Duration = Duration::from_millis(20);
/// How long a call that finds the control socket full waits before it tries again.
const RETRY: Duration = Duration::from_millis(5);

/// The pool.
pub(super) struct Lanes {
    /// Most of them.
    most: u32,
    state: Mutex<State>,
    bell: Condvar,
}

#[derive(Default)]
struct State {
    /// The one that was used last is used next: its thread is still warm.
    free: Vec<Free>,
    made: u32,
    closed: bool,
}

struct Free {
    number: u32,
    wire: Wire,
}

impl Lanes {
    /// As many as the worker has threads to spare for: a lane costs it a descriptor and a stack of 8 MiB, and the engine is
    /// left with most of what its entry allows.
    pub(super) fn within(limits: &LimitsConfig) -> Lanes {
        let most = (limits.open_files / 4).min(limits.memory_mb / 16).clamp(1, LANES_MAX.into());
        Lanes { most: u32::try_from(most).unwrap_or(1), state: Mutex::default(), bell: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The worker is dead: whoever waits is told.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.free.clear();
        drop(state);
        self.bell.notify_all();
    }

    fn give_back(&self, lane: Free) {
        let mut state = self.state();
        if !state.closed {
            state.free.push(lane);
            drop(state);
            self.bell.notify_one();
        }
    }

    fn take(&self, until: Instant, make: impl Fn(u32) -> Result<Option<Wire>, LaneError>) -> Result<Free, LaneError> {
        let mut state = self.state();
        loop {
            if state.closed {
                return Err(LaneError::Gone);
            }
            if let Some(lane) = state.free.pop() {
                return Ok(lane);
            }
            let mut pause = until.saturating_duration_since(Instant::now());
            if state.made < self.most {
                // Under the lock: numbers stay distinct, and making one waits for nothing.
                if let Some(wire) = make(state.made)? {
                    let number = state.made;
                    state.made += 1;
                    return Ok(Free { number, wire });
                }
                pause = pause.min(RETRY);
            }
            if pause.is_zero() {
                return Err(LaneError::Busy);
            }
            state = self.bell.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A lane for one call. Say [`LaneGuard::finish`] when the call is over: one that is dropped after something was sent on it
/// ends its worker, since nobody knows what is still to come.
pub(crate) struct LaneGuard {
    shared: Arc<Shared>,
    lane: Option<Free>,
    /// The worker's processor time when the call began, where it is limited.
    began: Option<Duration>,
    looked: Instant,
    /// Something was sent, and the call is not over.
    open: bool,
    broken: Option<Broken>,
}

enum Broken {
    /// The worker is dead, as far as can be seen.
    Gone,
    Because(String),
}

impl LaneGuard {
    pub(super) fn take(shared: &Arc<Shared>, until: Instant) -> Result<LaneGuard, LaneError> {
        let lane = shared.lanes.take(until, |number| {
            let (here, there) = pair().map_err(LaneError::Io)?;
            let handed = shared.control().lane(number, &there)?;
            Ok(handed.then(|| Wire::new(here, FRAME_MAX)))
        })?;
        let began = shared.cpu.and_then(|_| cpu::used(shared.pid));
        let looked = Instant::now();
        Ok(LaneGuard { shared: Arc::clone(shared), lane: Some(lane), began, looked, open: false, broken: None })
    }

    /// Which lane it is.
    pub(crate) fn number(&self) -> u32 {
        self.lane.as_ref().map_or(u32::MAX, |lane| lane.number)
    }

    /// Sends a frame; waits at most until then for the worker to take it.
    ///
    /// # Errors
    /// After any error the lane is broken.
    pub(crate) fn send(&mut self, frame: &[u8], until: Instant) -> Result<(), LaneError> {
        self.open = true;
        self.with(|wire| wire.send(frame, Some(until)))
    }

    /// Puts the next frame in the place of what `into` holds. False when there is none yet; then look after the call and
    /// ask again.
    ///
    /// # Errors
    /// After any error the lane is broken. [`LaneError::Cpu`] when the call used too much of the processor.
    pub(crate) fn receive(&mut self, into: &mut Vec<u8>, wait: Duration) -> Result<bool, LaneError> {
        let until = Instant::now() + wait;
        let came = self.with(|wire| wire.receive(into, Some(until)))?;
        self.look_at_cpu()?;
        Ok(came)
    }

    /// The call is over, and the worker owes nothing: the lane may serve another.
    pub(crate) fn finish(mut self) {
        self.open = false;
    }

    fn with<T>(&mut self, work: impl FnOnce(&mut Wire) -> Result<T, LaneError>) -> Result<T, LaneError> {
        if self.broken.is_some() {
            return Err(LaneError::Gone);
        }
        let Some(lane) = &mut self.lane else { return Err(LaneError::Gone) };
        work(&mut lane.wire).inspect_err(|error| self.broken = Some(broken(error)))
    }

    fn look_at_cpu(&mut self) -> Result<(), LaneError> {
        let (Some(began), Some(limit)) = (self.began, self.shared.cpu) else { return Ok(()) };
        if self.looked.elapsed() < CPU_LOOK {
            return Ok(());
        }
        self.looked = Instant::now();
        let Some(now) = cpu::used(self.shared.pid) else { return Ok(()) };
        let used = now.saturating_sub(began);
        if used <= limit {
            return Ok(());
        }
        let error = LaneError::Cpu { used, limit };
        self.broken = Some(broken(&error));
        Err(error)
    }
}

fn broken(error: &LaneError) -> Broken {
    match (error, std::error::Error::source(error)) {
        (LaneError::Gone, _) => Broken::Gone,
        (_, Some(source)) => Broken::Because(format!("{error}: {source}")),
        (_, None) => Broken::Because(error.to_string()),
    }
}

impl Drop for LaneGuard {
    fn drop(&mut self) {
        match (self.lane.take(), self.broken.take()) {
            (_, Some(Broken::Gone)) => self.shared.lost("it closed a lane"),
            (_, Some(Broken::Because(why))) => self.shared.end(&why),
            (Some(_), None) if self.open => self.shared.end("a call did not come back"),
            (Some(lane), None) => self.shared.lanes.give_back(lane),
            (None, None) => {}
        }
    }
}

impl std::fmt::Debug for LaneGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LaneGuard").field("worker", &self.shared.subject).field("number", &self.number()).finish()
    }
}
