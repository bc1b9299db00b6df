//! Sessions that are played with one engine, each in a child of its own. A play decides some checks by name, and ends early
//! when a call fails: the engine is out then, as it would be in a gateway.

mod compacting;
mod durable;
mod odd;
mod ordinary;
mod script;
mod steady;
mod talk;

use super::blame::Finding;
use super::catalogue::Check;
use super::child::{ChildRequest, Line};
use super::report::Place;
use crate::plugins::Registration;
use crate::slot::Single;
use crate::worker::Subject;
use crate::worker::errand::Mouth;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A part of a play; `Err` is what ended it.
type Step<T> = Result<T, Finding>;

macro_rules! plays {
    ($($name:ident by $work:path: $($check:ident),+;)*) => {
        /// A play.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        pub(in crate::check) enum Play {
            $($name,)*
        }

        impl Play {
            /// All plays, in the order of their levels.
            pub(in crate::check) const ALL: &'static [Play] = &[$(Play::$name),*];

            /// The checks that it decides, the one that it is about first.
            pub(in crate::check) const fn decides(self) -> &'static [Check] {
                match self { $(Play::$name => &[$(Check::$check),+],)* }
            }

            fn work(self) -> fn(&Lab) -> Step<()> {
                match self { $(Play::$name => $work,)* }
            }
        }
    };
}

plays! {
    Worker by ordinary::worker: Worker;
    Ordinary by ordinary::ordinary: HookErrors, Lives, Panics, Owes, Spans, ToolPairs, CurrentTurn, Texts, Codes,
        CommitStatus, Tools, Budget, Estimate;
    Commit by ordinary::commit: CommitOnce;
    Compact by compacting::compact: CompactTruth, CompactResult, CompactNoOp;
    Ephemeral by ordinary::ephemeral: Ephemeral;
    Restart by durable::restart: Restart, Durable;
    CatchUp by durable::catch_up: CatchUp;
    Switch by durable::switch: Switch;
    Kill by durable::kill: Kill;
    Branch by durable::branch: Branch;
    Deleted by durable::deleted: Deleted;
    Prefix by steady::prefix: StablePrefix;
    Twice by steady::twice: Deterministic;
    Crowd by steady::crowd: SessionsApart;
    Long by steady::long: Deadlines, Threads, Memory;
    Cancel by steady::cancel: Cancel;
    Dispose by steady::dispose: Dispose;
    Fuzz by odd::fuzz: Fuzz;
    Tiny by odd::tiny: TinyBudgets;
    Huge by odd::huge: HugeEntries;
    StoreFaults by odd::store_faults: StoreFaults;
    ServiceFaults by odd::service_faults: ServiceFaults;
}

impl Play {
    /// Is it played when the engine runs there? What is about a worker, or kills one, only there.
    pub(in crate::check) fn in_place(self, place: Place) -> bool {
        place == Place::Process || !matches!(self, Play::Worker | Play::Kill)
    }

    /// How long its child may take.
    pub(in crate::check) fn limit(self, rounds: u32) -> Duration {
        let per_round = match self {
            Play::Kill | Play::Fuzz | Play::StoreFaults => 5,
            _ => 0,
        };
        Duration::from_secs(180 + u64::from(rounds) * per_round)
    }
}

/// Where the engine comes from.
pub(in crate::check) enum Source {
    /// Loaded in this process.
    Here(Box<Registration>),
    /// A worker loads it.
    Apart,
}

/// What a play works with.
pub(in crate::check) struct Lab {
    request: ChildRequest,
    source: Source,
    /// `/proc/self/status`, where there is one.
    status: Option<File>,
    mouth: Mouth,
}

impl Lab {
    pub(in crate::check) fn new(request: ChildRequest, source: Source, status: Option<File>, mouth: Mouth) -> Lab {
        Lab { request, source, status, mouth }
    }

    /// Plays, and gives the check whose finding ended the play.
    pub(in crate::check) fn play(&self, play: Play) -> Option<Check> {
        let finding = play.work()(self).err()?;
        let check = finding.check;
        self.found(finding);
        Some(check)
    }

    pub(in crate::check) fn say(&self, line: &Line) {
        self.mouth.say(line);
    }

    /// A finding after which the play goes on.
    fn found(&self, finding: Finding) {
        self.say(&Line::Found { finding });
    }

    fn skip(&self, check: Check, why: &str) {
        self.say(&Line::Skipped { check, why: why.to_owned() });
    }

    fn doing(&self, doing: &str) {
        self.say(&Line::At { doing: doing.to_owned() });
    }

    fn random(&self) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.request.seed)
    }

    fn rounds(&self) -> u32 {
        self.request.rounds.max(1)
    }

    /// A folder for the engine's state.
    fn folder(&self, name: &str) -> Step<PathBuf> {
        let folder = self.request.state_dir.join(name);
        match std::fs::create_dir_all(&folder) {
            Ok(()) => Ok(folder),
            Err(error) => Err(Finding::new(Check::Factory, format!("its state folder cannot be made: {error}"))),
        }
    }

    /// A new instance over that folder, in a worker of its own where it runs in one.
    fn bench(&self, folder: &Path) -> Step<Single> {
        let request = &self.request;
        let bench = match &self.source {
            Source::Here(registration) => Single::here(Subject::Engine(registration), &request.deadlines, folder, true),
            Source::Apart => Single::apart(&request.load, &request.wanted, &request.deadlines, folder)
                .map_err(|failure| Finding::new(Check::Worker, format!("{}: {}", failure.stage, failure.message)))?,
        };
        let opened = talk::open(&bench);
        match (&self.source, opened) {
            (_, Ok(())) => Ok(bench),
            // In the probe the same factory has made an instance.
            (Source::Apart, Err(finding)) if matches!(finding.check, Check::Factory | Check::Info) => {
                Err(Finding { check: Check::Worker, ..finding })
            }
            (_, Err(finding)) => Err(finding),
        }
    }

    /// A line of the status of the process that runs the engine: a number.
    fn status(&self, bench: &Single, name: &str) -> Option<u64> {
        let text = match bench.process() {
            Some(pid) => std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?,
            None => {
                let mut bytes = vec![0; 16 * 1024];
                let read = self.status.as_ref()?.read_at(&mut bytes, 0).ok()?;
                String::from_utf8_lossy(&bytes[..read]).into_owned()
            }
        };
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.split_whitespace().next()?.parse().ok()
    }
}

/// Where these bytes stand in a file below the folder.
fn file_with(folder: &Path, bytes: &[u8]) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?;
    entries.flatten().find_map(|entry| {
        let path = entry.path();
        match entry.file_type().ok()?.is_dir() {
            true => file_with(&path, bytes),
            false => std::fs::read(&path).ok().filter(|text| memchr::memmem::find(text, bytes).is_some()).map(|_| path),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_check_above_the_stages_is_decided_by_one_play() {
        let decided: Vec<Check> = Play::ALL.iter().flat_map(|play| play.decides()).copied().collect();
        let once: BTreeSet<Check> = decided.iter().copied().collect();
        assert_eq!(decided.len(), once.len());
        let wanted = Check::ALL.iter().filter(|check| check.level() > 1 || **check == Check::Worker);
        assert_eq!(once, wanted.copied().collect());
    }
}
