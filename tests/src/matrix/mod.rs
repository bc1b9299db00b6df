//! The chaos matrix: every mode of the chaos engine, in every hook, in every isolation, against a gateway of its own.
//!
//! A cell's expectation follows from three things, each written down once: what a mode does ([`Case`]), when a hook is called
//! and who waits for it ([`Spot`]), and what an isolation contains ([`rules`]). There is no table of outcomes.
//!
//! ```text
//! Case × Spot × Isolation ──► rules::expected ──┐
//!                         └──► run::run ─────────┴──► Outcome: what the client got, the engine's state, how long it was held
//! ```

mod case;
mod house;
mod leak;
mod rules;
mod run;
mod spot;
mod table;

pub use case::{CASES, Case, Nature};
pub use house::House;
pub use leak::{Holds, Leak, family, leak};
pub use rules::{Expect, Fate, expected};
pub use run::{Outcome, run};
pub use spot::{SPOTS, Spot, When};
pub use table::{json as row_json, render};

use std::fmt;

/// Where the engine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// In the gateway.
    InProcess,
    /// In a worker.
    Process,
}

impl Isolation {
    /// Both.
    pub const ALL: [Isolation; 2] = [Isolation::InProcess, Isolation::Process];

    /// As the configuration spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Isolation::InProcess => "in-process",
            Isolation::Process => "process",
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One cell.
#[derive(Debug, Clone, Copy)]
pub struct Cell {
    /// What the engine does.
    pub case: &'static Case,
    /// In which hook.
    pub spot: &'static Spot,
    /// Where.
    pub isolation: Isolation,
}

/// Every cell that makes sense: a mode that spoils a result needs a hook with such a result.
pub fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for isolation in Isolation::ALL {
        for spot in SPOTS {
            let fitting = CASES.iter().filter(|case| case.fits(spot));
            cells.extend(fitting.map(|case| Cell { case, spot, isolation }));
        }
    }
    cells
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} × {} × {}", self.case.name, self.spot.hook, self.isolation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_general_mode_meets_every_hook_in_both_isolations() {
        let cells = cells();
        let names: BTreeSet<String> = cells.iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), cells.len(), "no cell twice");
        for case in CASES.iter().filter(|case| case.hooks.is_empty()) {
            for spot in SPOTS {
                for isolation in Isolation::ALL {
                    assert!(names.contains(&Cell { case, spot, isolation }.to_string()), "{} {}", case.name, spot.hook);
                }
            }
        }
        for case in CASES.iter().filter(|case| !case.hooks.is_empty()) {
            let known = |hook: &str| SPOTS.iter().any(|spot| spot.hook == hook);
            assert!(case.hooks.iter().all(|hook| known(hook)), "{}: a hook that there is not", case.name);
        }
    }

    #[test]
    fn what_a_worker_contains_is_everything() {
        for cell in cells().iter().filter(|cell| cell.isolation == Isolation::Process) {
            let expect = expected(*cell);
            assert!(!matches!(expect.fate, Fate::GatewayEnds | Fate::Unknown), "{cell}: {expect:?}");
        }
    }
}
