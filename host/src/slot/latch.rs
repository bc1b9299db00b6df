//! The quarantine latch: one per engine id, first failure wins, final for the process; only a test build can open it again.

use super::failure::DegradedCode;
use crate::observe::broken;
use crate::plugins::{Cause, Kind};
use crate::sync::OnceLock;
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Why an engine is out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Quarantine {
    /// What it is.
    pub kind: Kind,
    /// Registered id of the engine or memory provider.
    pub engine: String,
    /// Its owner: `core`, or the plugin's id; empty when nothing registered it.
    pub owner: String,
    /// Load stage or hook in which it failed.
    pub at: String,
    /// Closed code.
    pub code: DegradedCode,
    /// Diagnostic code, `CE` and three digits.
    pub diagnostic: &'static str,
    /// What is wrong, one line.
    pub reason: String,
    /// Why, outermost cause first.
    pub causes: Vec<String>,
    /// When, ms since the Unix epoch.
    pub when_ms: i64,
    /// What to do.
    pub hint: String,
    /// What serves instead since then; `none` under the strict policy.
    pub serves: String,
}

/// Latches the first quarantine of an engine for good.
#[derive(Debug, Default)]
pub(crate) struct Latch(OnceLock<Box<Latched>>);

/// A quarantine, and what follows once a test has opened the latch.
#[derive(Debug)]
struct Latched {
    record: Quarantine,
    opened: AtomicBool,
    next: Latch,
}

impl Quarantine {
    /// The code for turns that come after the failure: a load stage keeps its own, what failed in a hook is quarantined.
    pub(crate) fn later_code(&self) -> DegradedCode {
        match self.code {
            DegradedCode::EngineMissing | DegradedCode::EngineRefused | DegradedCode::EngineCrashed => self.code,
            _ => DegradedCode::EngineQuarantined,
        }
    }
}

impl Quarantine {
    /// True when it stands for a crash of an earlier process: then a restart alone changes nothing.
    pub fn is_crash(&self) -> bool {
        self.diagnostic == Cause::Crashed.code()
    }
}

impl Latch {
    /// The quarantine; one atomic load, read before every call.
    pub(crate) fn get(&self) -> Option<&Quarantine> {
        self.last().0.get().map(|latched| &latched.record)
    }

    /// The latch behind every one that was opened.
    fn last(&self) -> &Latch {
        let mut latch = self;
        while let Some(latched) = latch.0.get().filter(|latched| latched.opened.load(Ordering::Acquire)) {
            latch = &latched.next;
        }
        latch
    }

    /// Lets the engine in again, as a restart would. For test builds: see [`crate::slot::Slot::reset_latches`].
    pub(crate) fn open(&self) {
        if let Some(latched) = self.last().0.get() {
            latched.opened.store(true, Ordering::Release);
        }
    }

    /// Latches, and says loudly what happens now. False when an earlier failure stands.
    pub(crate) fn set(&self, quarantine: Quarantine) -> bool {
        if broken("8.21") {
            return true;
        }
        let mut first = false;
        let latched = self.last().0.get_or_init(|| {
            first = true;
            Box::new(Latched { record: quarantine, opened: AtomicBool::new(false), next: Latch::default() })
        });
        if first {
            announce(&latched.record);
        }
        first
    }
}

/// The one loud line of a quarantine.
pub(crate) fn announce(record: &Quarantine) {
    let (at, reason) = match broken("8.22") {
        true => ("somewhere", "of something"),
        false => (record.at.as_str(), record.reason.as_str()),
    };
    let causes = record.causes.iter().map(|cause| format!("; cause: {cause}")).collect::<String>();
    let (what, code, now) = match record.kind {
        Kind::Engine if record.serves == "none" => {
            ("context engine", record.code.as_str(), "requests are refused".into())
        }
        Kind::Engine => ("context engine", record.code.as_str(), format!("\"{}\" serves", record.serves)),
        Kind::Memory => ("memory provider", record.code.memory(), "turns go on without memory".to_owned()),
    };
    let until = if record.is_crash() { "it is released" } else { "the gateway restarts" };
    tracing::error!(
        engine = %record.engine,
        owner = %record.owner,
        at = %at,
        code,
        diagnostic = record.diagnostic,
        "{what} \"{}\" (owner {}) failed in {}: {}{causes}. It is out until {until}; {now} now. To do: {}",
        record.engine,
        if record.owner.is_empty() { "unknown" } else { &record.owner },
        at,
        reason,
        record.hint,
    );
}

/// Milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(reason: &str) -> Quarantine {
        Quarantine {
            kind: Kind::Engine,
            engine: "e".into(),
            owner: "p".into(),
            at: "assemble".into(),
            code: DegradedCode::EngineQuarantined,
            diagnostic: "CE310",
            reason: reason.into(),
            causes: Vec::new(),
            when_ms: now_ms(),
            hint: "restart".into(),
            serves: "legacy".into(),
        }
    }

    #[test]
    fn the_first_failure_wins_for_good() {
        let latch = Latch::default();
        assert!(latch.get().is_none());
        assert!(latch.set(record("first")));
        assert!(!latch.set(record("second")));
        assert_eq!(latch.get().map(|q| q.reason.as_str()), Some("first"));
    }

    #[test]
    fn a_latch_that_was_opened_latches_again() {
        let latch = Latch::default();
        latch.open();
        for round in ["first", "second", "third"] {
            assert!(latch.get().is_none());
            assert!(latch.set(record(round)));
            assert!(!latch.set(record("late")));
            assert_eq!(latch.get().map(|q| q.reason.as_str()), Some(round));
            latch.open();
        }
        assert!(latch.get().is_none());
    }
}
