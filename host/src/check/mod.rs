//! The conformance kit: does a library keep the contract?
//!
//! It drives an engine through the same guarded calls as a gateway, over a host that is made up: a transcript in memory with
//! its cursor and its fence, a store with atomic batches, a model, a compaction. What it tells is what a gateway would do.
//!
//! ```text
//!  run ─► stages: plugins::check, the way of a library up to its probe                        level 1
//!    └──► children, a few at once ══ request ══► child ─► play ─► Bench (slot): guarded calls  levels 2 to 5
//!             ▲      deadline, kill                 │               ▲ in this process, or in a worker
//!             └──────── findings ═══════════════════┘      world: the host that is made up
//! ```
//!
//! - `catalogue`: the checks by name, with what the contract says. `report`: what came of them.
//! - `stages`: level 1. `children`: one process for each play, ended whatever happens. `child`: what runs there.
//! - `plays`: sessions that are played, each of which decides some checks. `blame`: which check a failed call belongs to.
//! - `world`: the host.

mod blame;
mod catalogue;
mod child;
mod children;
mod plays;
mod report;
mod stages;
mod world;

pub use catalogue::{Check, LEVELS, Weight, level};
pub use child::run_child;
pub use report::{Outcome, Place, Report, Status};

use crate::plugins::Kind;
use plays::Play;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// First argument that makes the program the child of a check.
pub const CHECK_ARGUMENT: &str = "__check";

/// What is checked, and how.
#[derive(Debug, Clone)]
pub struct Request {
    /// The library.
    pub file: PathBuf,
    /// Engines and memory providers of it; empty for all.
    pub engines: Vec<String>,
    /// Highest level, 1 to [`LEVELS`].
    pub level: u8,
    /// Only these checks; empty for all of the levels.
    pub only: Vec<Check>,
    /// Seed of everything that is made up.
    pub seed: u64,
    /// Rounds of fuzzed sessions, of kills and of failing services: more find more, and take longer.
    pub rounds: u32,
    /// Where it runs.
    pub places: Vec<Place>,
    /// The plugin's configuration.
    pub config: Map<String, Value>,
}

/// Rounds when nobody says how many.
pub const ROUNDS: u32 = 8;

impl Request {
    /// Everything about this file, with this seed.
    pub fn new(file: impl Into<PathBuf>, seed: u64) -> Request {
        Request {
            file: file.into(),
            engines: Vec::new(),
            level: LEVELS,
            only: Vec::new(),
            seed,
            rounds: ROUNDS,
            places: vec![Place::InProcess, Place::Process],
            config: Map::new(),
        }
    }

    /// Only whether it loads and answers.
    #[must_use]
    pub fn loads(mut self) -> Request {
        self.level = 1;
        self
    }

    fn asks_for(&self, check: Check) -> bool {
        check.level() <= self.level && (self.only.is_empty() || self.only.contains(&check))
    }
}

/// Why a run could not be made at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The file is not there.
    #[error("cannot read {path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// There is no place for what the engine writes.
    #[error("cannot make a scratch folder")]
    Scratch(#[source] std::io::Error),
    /// The library offers nothing of that name.
    #[error("the library offers no engine \"{name}\"; it offers {}", .known.join(", "))]
    Unknown {
        /// The name.
        name: String,
        /// What it offers.
        known: Vec<String>,
    },
}

impl crate::diagnostic::Diagnostic for CheckError {
    fn code(&self) -> &'static str {
        match self {
            CheckError::File { .. } => "CE380",
            CheckError::Scratch(_) => "CE381",
            CheckError::Unknown { .. } => "CE382",
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            CheckError::File { .. } => "name the built library, such as target/release/libNAME.so".into(),
            CheckError::Scratch(_) => "set TMPDIR to a folder that can be written to".into(),
            CheckError::Unknown { .. } => "leave --engine out to check all of them".into(),
        })
    }
}

/// Checks a library. Blocks.
///
/// # Errors
///
/// Only when nothing could be checked; what is found stands in the report.
pub fn run(request: &Request) -> Result<Report, CheckError> {
    run_watched(request, &mut |_, _| ())
}

/// The same; `watch` is told of progress: steps that are done, and all of them.
///
/// # Errors
///
/// As [`run`].
pub fn run_watched(request: &Request, watch: &mut dyn FnMut(usize, usize)) -> Result<Report, CheckError> {
    let file = std::path::absolute(&request.file).unwrap_or_else(|_| request.file.clone());
    let is_file = std::fs::metadata(&file).and_then(|found| match found.is_file() {
        true => Ok(()),
        false => Err(std::io::Error::other("it is no file")),
    });
    is_file.map_err(|source| CheckError::File { path: file.clone(), source })?;
    let scratch = tempfile::Builder::new().prefix("engineroom-check-").tempdir().map_err(CheckError::Scratch)?;
    let stages = stages::pass(request, &file, scratch.path())?;
    let mut report = Report {
        file,
        plugin: stages.plugin,
        sha256: stages.sha256,
        engines: stages.wanted.iter().map(|wanted| wanted.id.clone()).collect(),
        seed: request.seed,
        rounds: request.rounds,
        level: request.level,
        level_reached: None,
        failures: 0,
        warnings: 0,
        next: String::new(),
        checks: stages.outcomes,
    };
    // What was refused at a stage is not tried any further.
    let mut tasks = Vec::new();
    for (wanted, load) in &stages.ready {
        for place in &request.places {
            let plays = Play::ALL.iter().filter(|play| {
                let asked = play.decides().iter().any(|check| request.asks_for(*check));
                // What compares prompts must know whether there is anything to compare.
                let needed = **play == Play::Twice && request.level > 1;
                (asked || needed) && play.in_place(*place) && (wanted.kind == Kind::Engine || **play == Play::Worker)
            });
            tasks.extend(plays.map(|play| children::Task {
                play: *play,
                place: *place,
                wanted: wanted.clone(),
                load: load.clone(),
                config: stages.deadlines.clone(),
            }));
        }
    }
    let findings = children::run(request, &tasks, scratch.path(), watch);
    report.checks.extend(children::judge(request, &tasks, findings));
    report.checks.sort_by(|a, b| {
        let key = |one: &Outcome| (one.engine.clone(), one.isolation, one.check);
        key(a).cmp(&key(b))
    });
    Ok(report.finish(request.only.is_empty()))
}
