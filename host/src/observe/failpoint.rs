//! Fail points: named places where a test makes the gateway end, fail, wait or panic. Never in an optimised build: there a point
//! and what hangs on it are compiled away.
//!
//! ```text
//!  ENGINEROOM_FAIL = POINT=ACTION[@WHEN] [; POINT=ACTION[@WHEN] …]
//!  ACTION            kill          SIGKILL of the own process
//!                    error         the step fails, where it can fail
//!                    panic         a panic
//!                    sleep:MS      the step takes so long
//!  WHEN              3             only the third time that the point is reached (default: 1)
//!                    3+            from the third time on
//!                    *             each time
//! ```
//!
//! `ENGINEROOM_FAIL_FILE` names a file with the same text instead: it may come and change while the process runs, and counting
//! begins anew with each change. When a point strikes, its name is written beside it, with the extension `struck`.
//!
//! Every point is named once in the source, with a literal: so whoever wants to pick from all of them reads the source, as
//! `tests/src/failpoints.rs` does.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

/// The variable that says what happens where.
const VARIABLE: &str = "ENGINEROOM_FAIL";
/// The variable that names a file which says it.
const FILE: &str = "ENGINEROOM_FAIL_FILE";

/// A step that can fail passes here: true when it shall fail now.
#[inline]
pub fn fails(point: &'static str) -> bool {
    cfg!(debug_assertions) && reached(point)
}

/// A step that cannot fail passes here.
#[inline]
pub fn pass(point: &'static str) {
    if cfg!(debug_assertions) {
        reached(point);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Kill,
    Error,
    Panic,
    Sleep(Duration),
}

/// What happens at a point, and when.
#[derive(Debug)]
struct Plan {
    action: Action,
    from: u64,
    until: u64,
    times: AtomicU64,
}

impl Plan {
    fn due(&self) -> Option<Action> {
        let time = self.times.fetch_add(1, Ordering::Relaxed) + 1;
        (self.from..=self.until).contains(&time).then_some(self.action)
    }
}

fn reached(point: &'static str) -> bool {
    static PLANS: LazyLock<HashMap<String, Plan>> =
        LazyLock::new(|| plans(&std::env::var(VARIABLE).unwrap_or_default()));
    let due = match &*CHANGING {
        Some(changing) => changing.due(point),
        None if PLANS.is_empty() => None,
        None => PLANS.get(point).and_then(Plan::due),
    };
    match due {
        None => false,
        Some(Action::Error) => {
            tracing::warn!(point, "a fail point lets its step fail");
            true
        }
        Some(Action::Sleep(time)) => {
            std::thread::sleep(time);
            false
        }
        #[allow(clippy::panic, reason = "that is what was asked for")]
        Some(Action::Panic) => panic!("the fail point {point} was reached"),
        Some(Action::Kill) => {
            let own = rustix::process::getpid();
            let _ = rustix::process::kill_process(own, rustix::process::Signal::KILL);
            // Nothing of this process goes on behind the point.
            loop {
                std::thread::park();
            }
        }
    }
}

/// Plans from a file.
struct Changing {
    file: std::path::PathBuf,
    plans: Mutex<(String, HashMap<String, Plan>)>,
}

static CHANGING: LazyLock<Option<Changing>> =
    LazyLock::new(|| Some(Changing { file: std::env::var_os(FILE)?.into(), plans: Mutex::default() }));

impl Changing {
    fn due(&self, point: &str) -> Option<Action> {
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let mut known = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != text {
            let plans = plans(&text);
            *known = (text, plans);
        }
        let due = known.1.get(point).and_then(Plan::due);
        if due.is_some() && point != "store.checkpoint.soon" {
            // Also said when the process ends here.
            let _ = std::fs::write(self.file.with_extension("struck"), point);
        }
        due
    }
}

/// What cannot be read is left out: the test that wrote it sees that nothing happens.
fn plans(text: &str) -> HashMap<String, Plan> {
    text.split(';').filter_map(|one| plan(one.trim())).collect()
}

fn plan(text: &str) -> Option<(String, Plan)> {
    let (point, what) = text.split_once('=')?;
    let (action, when) = what.split_once('@').unwrap_or((what, "1"));
    let action = match action.trim() {
        "kill" => Action::Kill,
        "error" => Action::Error,
        "panic" => Action::Panic,
        other => Action::Sleep(Duration::from_millis(other.strip_prefix("sleep:")?.parse().ok()?)),
    };
    let (from, until) = match when.trim() {
        "*" => (1, u64::MAX),
        when => match when.strip_suffix('+') {
            Some(from) => (from.parse().ok()?, u64::MAX),
            None => (when.parse().ok()?, when.parse().ok()?),
        },
    };
    Some((point.trim().to_owned(), Plan { action, from, until, times: AtomicU64::new(0) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due(text: &str, times: usize) -> Vec<bool> {
        let (_, plan) = plan(text).unwrap();
        (0..times).map(|_| plan.due().is_some()).collect()
    }

    #[test]
    fn a_plan_says_when() {
        assert_eq!(due("a.b=error", 3), [true, false, false]);
        assert_eq!(due("a.b=error@2", 3), [false, true, false]);
        assert_eq!(due("a.b=error@2+", 3), [false, true, true]);
        assert_eq!(due("a.b=error@*", 3), [true, true, true]);
    }

    #[test]
    fn several_plans_stand_side_by_side_and_nonsense_is_left_out() {
        let plans = plans("a=kill; b = sleep:20@3;c=dance;d;e=error@x");
        let mut names: Vec<_> = plans.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(plans["b"].action, Action::Sleep(Duration::from_millis(20)));
    }

    /// Whoever picks a point from the source must find each, and find it once.
    #[test]
    fn every_point_is_named_once_in_the_source() {
        let mut seen = std::collections::HashSet::new();
        let name = regex::Regex::new(r#"(?:fails|pass|Error::at)\(\s*"([a-z_]+(?:\.[a-z_]+)+)"\s*\)"#).unwrap();
        let mut folders = vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    for found in name.captures_iter(&text) {
                        assert!(seen.insert(found[1].to_owned()), "{} is named twice", &found[1]);
                    }
                }
            }
        }
        for room in ["store.", "turn.", "compact.", "rewrite.", "subagent.", "session.", "outbox.", "gateway."] {
            assert!(seen.iter().any(|point| point.starts_with(room)), "no point in {room}");
        }
        assert!(seen.len() >= 60, "{}", seen.len());
    }
}
