//! What was called in one turn or operation: each hook with its time, in the order in which it began.

use super::failure::FailureKind;
use super::hook::Hook;
use serde::Serialize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most calls that are kept; a tool loop may make more.
const CALLS: usize = 256;

/// One call of a hook. Times are microseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HookCall {
    /// Registered id of the engine.
    pub engine: String,
    /// The hook.
    pub hook: Hook,
    /// Since the turn began.
    pub at_us: u64,
    /// How long it took; `None` for one that did not return in time.
    pub took_us: Option<u64>,
    /// How it failed, when it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<FailureKind>,
}

/// The calls of one turn or operation. Clones share them.
#[derive(Debug, Clone)]
pub struct HookTrace(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    since: Instant,
    calls: Mutex<Vec<HookCall>>,
}

impl Default for HookTrace {
    fn default() -> HookTrace {
        HookTrace(Arc::new(Inner { since: Instant::now(), calls: Mutex::default() }))
    }
}

/// A call that began, if it is kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun(Option<usize>);

impl HookTrace {
    /// The calls so far.
    pub fn calls(&self) -> Vec<HookCall> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<HookCall>> {
        self.0.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, engine: &str, hook: Hook) -> Begun {
        let at_us = micros(self.0.since.elapsed());
        let mut calls = self.lock();
        if calls.len() >= CALLS {
            return Begun(None);
        }
        calls.push(HookCall { engine: engine.to_owned(), hook, at_us, took_us: None, failed: None });
        Begun(Some(calls.len() - 1))
    }

    pub(crate) fn end(&self, begun: Begun, took: Duration, failed: Option<FailureKind>) {
        let Some(at) = begun.0 else { return };
        if let Some(call) = self.lock().get_mut(at) {
            call.took_us = Some(micros(took));
            call.failed = failed;
        }
    }

    /// The last call of this hook returned well, but its result is wrong.
    pub(crate) fn invalid(&self, hook: Hook) {
        if let Some(call) = self.lock().iter_mut().rev().find(|call| call.hook == hook) {
            call.failed = Some(FailureKind::InvalidResult);
        }
    }
}

impl Serialize for HookTrace {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.lock().iter())
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_did_not_return_has_no_time_and_a_wrong_result_is_told() {
        let trace = HookTrace::default();
        let first = trace.begin("a", Hook::Bootstrap);
        trace.end(first, Duration::from_micros(7), None);
        let second = trace.begin("a", Hook::Assemble);
        trace.end(second, Duration::from_micros(9), None);
        trace.invalid(Hook::Assemble);
        trace.begin("b", Hook::Assemble);
        let calls = trace.calls();
        assert_eq!(calls.iter().map(|call| call.took_us).collect::<Vec<_>>(), [Some(7), Some(9), None]);
        assert_eq!(calls[1].failed, Some(FailureKind::InvalidResult));
        assert_eq!(calls[2].engine, "b");
    }

    #[test]
    fn only_so_many_are_kept() {
        let trace = HookTrace::default();
        for _ in 0..CALLS + 5 {
            let begun = trace.begin("a", Hook::CallTool);
            trace.end(begun, Duration::ZERO, None);
        }
        assert_eq!(trace.calls().len(), CALLS);
    }
}
