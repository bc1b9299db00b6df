//! The parent's side: a child for each play, a few at once, each ended at its deadline; and the judgement over what they told.

use super::blame::Finding;
use super::catalogue::Check;
use super::child::{ChildRequest, Line};
use super::plays::Play;
use super::report::{Outcome, Place, Status};
use super::{CHECK_ARGUMENT, Request};
use crate::plugins::{LoadRequest, Wanted};
use crate::worker::errand::{self, Ended};
use crate::worker::{send, signal_name};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Most children at once.
const AT_ONCE: usize = 4;

/// One play of one engine in one place.
pub(super) struct Task {
    pub play: Play,
    pub place: Place,
    pub wanted: Wanted,
    pub load: LoadRequest,
    pub config: BTreeMap<String, u64>,
}

/// What a child told.
#[derive(Debug, Default)]
pub(super) struct Told {
    findings: Vec<Finding>,
    skipped: BTreeMap<Check, String>,
    cut: Option<Check>,
    took: Duration,
    causes: Vec<String>,
}

/// Runs all tasks; what they told, in their order.
pub(super) fn run(request: &Request, tasks: &[Task], scratch: &Path, watch: &mut dyn FnMut(usize, usize)) -> Vec<Told> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(1, AT_ONCE).min(tasks.len().max(1));
    let next = AtomicUsize::new(0);
    let (sender, told) = mpsc::channel();
    let mut all: Vec<Told> = tasks.iter().map(|_| Told::default()).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(task) = tasks.get(at) else { return };
                    if sender.send((at, one(request, task, scratch, at))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut done = 0;
        watch(done, tasks.len());
        for (at, one) in told {
            all[at] = one;
            done += 1;
            watch(done, tasks.len());
        }
    });
    all
}

fn one(request: &Request, task: &Task, scratch: &Path, number: usize) -> Told {
    let began = Instant::now();
    let mut told = Told::default();
    let folder = scratch.join(format!("play-{number}"));
    if let Err(error) = errands(request, task, &folder, &mut told) {
        told.found(Check::Lives, format!("the child of the check could not be started: {error}"));
    }
    // What an engine wrote may be large.
    let _ = std::fs::remove_dir_all(&folder);
    told.took = began.elapsed();
    told
}

fn errands(request: &Request, task: &Task, folder: &Path, told: &mut Told) -> std::io::Result<()> {
    let state_dir = folder.join("state");
    std::fs::DirBuilder::new().mode(0o700).create(folder)?;
    std::fs::DirBuilder::new().mode(0o700).create(&state_dir)?;
    let path = folder.join("request.json");
    let asked = ChildRequest {
        version: env!("CARGO_PKG_VERSION").into(),
        parent: std::process::id(),
        state_dir: state_dir.clone(),
        load: task.load.clone(),
        wanted: task.wanted.clone(),
        play: task.play,
        apart: task.place == Place::Process,
        seed: request.seed,
        rounds: request.rounds,
        deadlines: task.config.clone(),
    };
    errand::leave(&asked, &path)?;
    let limit = task.play.limit(request.rounds);
    let mut doing = String::from("before it did anything");
    let mut errand = send(CHECK_ARGUMENT, &path, &state_dir)?;
    let ended = errand.run(Instant::now() + limit, &mut |line| {
        match errand::decode(line) {
            Some(Ok(Line::At { doing: now })) => doing = now,
            Some(Ok(Line::Found { finding })) => told.findings.push(finding),
            Some(Ok(Line::Skipped { check, why })) => drop(told.skipped.insert(check, why)),
            Some(Ok(Line::Done { cut })) => {
                told.cut = cut;
                return true;
            }
            Some(Err(_)) | None => {}
        }
        false
    });
    let died = |how: String| format!("the process {how} {doing}");
    match ended {
        Ended::Done => return Ok(()),
        Ended::Late => told
            .found(Check::Deadlines, format!("nothing came back within {} s; it was stopped {doing}", limit.as_secs())),
        Ended::Signal(signal) => told.found(Check::Lives, died(format!("was killed by {}", signal_name(signal)))),
        Ended::Exit(code) => told.found(Check::Lives, died(format!("ended with exit code {code}"))),
        Ended::Unknown(error) => told.found(Check::Lives, died(format!("was lost ({error})"))),
    }
    told.causes = errand.complaints().into_iter().map(|line| format!("it wrote: {line}")).collect();
    Ok(())
}

impl Told {
    /// A finding that ended the play.
    fn found(&mut self, check: Check, found: String) {
        self.findings.push(Finding::new(check, found));
        self.cut = Some(check);
    }
}

/// What the checks come to. A finding belongs to its own check where that found it in its own play; where only another play
/// met it, that play's check tells it. So each fault is told at the level at which it shows.
pub(super) fn judge(request: &Request, tasks: &[Task], told: Vec<Told>) -> Vec<Outcome> {
    let own = |task: &Task, told: &Told| -> Vec<(String, Place, Check)> {
        let decided = told.findings.iter().filter(|finding| task.play.decides().contains(&finding.check));
        decided.map(|finding| (task.wanted.id.clone(), task.place, finding.check)).collect()
    };
    let known: BTreeSet<(String, Place, Check)> =
        tasks.iter().zip(&told).flat_map(|(task, told)| own(task, told)).collect();
    let mut outcomes = Vec::new();
    for (task, told) in tasks.iter().zip(told) {
        let knows = |check: Check| known.contains(&(task.wanted.id.clone(), task.place, check));
        // Prompts of an engine that never shows the same twice say nothing when they are compared.
        let vain = |finding: &Finding| {
            finding.compared && finding.check != Check::Deterministic && knows(Check::Deterministic)
        };
        let cut = told.cut.map(|cut| match told.findings.iter().any(|one| one.check == cut && vain(one)) {
            true => Check::Deterministic,
            false => cut,
        });
        let stray =
            told.findings.iter().find(|finding| !task.play.decides().contains(&finding.check) && !knows(finding.check));
        for (at, check) in task.play.decides().iter().enumerate().filter(|(_, check)| request.asks_for(**check)) {
            let found = told.findings.iter().find(|finding| finding.check == *check);
            let status = match (found, told.skipped.get(check), cut) {
                (Some(finding), ..) if vain(finding) => Status::Unreached { because: Check::Deterministic },
                (Some(finding), ..) => Status::found(*check, finding.found.clone()),
                (None, Some(why), _) => Status::Skipped { why: why.clone() },
                (None, None, Some(cut)) if knows(cut) || at > 0 => Status::Unreached { because: cut },
                _ => match stray.filter(|_| at == 0) {
                    // Whatever the check's own weight, a contract that is broken is a failure.
                    Some(stray) if stray.check.weight() == super::Weight::Failure => {
                        Status::Fail { found: format!("[{}] {}", stray.check, stray.found) }
                    }
                    _ => Status::Pass,
                },
            };
            let mut causes = Vec::new();
            if matches!(status, Status::Fail { .. } | Status::Warn { .. }) {
                let of_another = stray.filter(|_| found.is_none());
                causes.extend(of_another.map(|one| format!("{}: {}", one.check, one.check.says())));
                causes.extend(told.causes.iter().cloned());
            }
            outcomes.push(Outcome {
                isolation: Some(task.place),
                took: told.took,
                causes,
                ..Outcome::new(*check, status).of(&task.wanted.id)
            });
        }
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::Door;

    fn task(play: Play) -> Task {
        let load = LoadRequest {
            staged: "lib.so".into(),
            plugin_id: "p".into(),
            door: Door::C,
            engines: vec!["e".into()],
            memory: Vec::new(),
            wanted: vec![Wanted::engine("e")],
            config_json: "{}".into(),
            limits: crate::config::LimitsConfig::default(),
            deadline_ms: 1,
        };
        Task { play, place: Place::InProcess, wanted: Wanted::engine("e"), load, config: BTreeMap::new() }
    }

    /// What becomes of each check when the plays told this, each finding ending its play.
    fn judged(told: &[(Play, Option<Finding>)]) -> BTreeMap<Check, Status> {
        let tasks: Vec<Task> = told.iter().map(|(play, _)| task(*play)).collect();
        let one = |finding: &Option<Finding>| Told {
            cut: finding.as_ref().map(|finding| finding.check),
            findings: finding.iter().cloned().collect(),
            ..Told::default()
        };
        let told = told.iter().map(|(_, finding)| one(finding)).collect();
        let outcomes = judge(&Request::new("lib.so", 1), &tasks, told);
        outcomes.into_iter().map(|outcome| (outcome.check, outcome.status)).collect()
    }

    #[test]
    fn a_fault_is_told_once_and_where_it_belongs() {
        let panic = Finding::new(Check::Panics, "assemble: it panicked");
        let known = judged(&[(Play::Ordinary, Some(panic.clone())), (Play::Fuzz, Some(panic.clone()))]);
        assert_eq!(known[&Check::Panics], Status::Fail { found: panic.found });
        assert_eq!(known[&Check::Spans], Status::Unreached { because: Check::Panics });
        assert_eq!(known[&Check::Fuzz], Status::Unreached { because: Check::Panics });
    }

    #[test]
    fn what_only_a_later_play_meets_is_told_by_its_own_check() {
        let panic = Finding::new(Check::Panics, "assemble: it panicked");
        let judged = judged(&[(Play::Ordinary, None), (Play::Fuzz, Some(panic))]);
        assert_eq!((&judged[&Check::Panics], &judged[&Check::Spans]), (&Status::Pass, &Status::Pass));
        assert_eq!(judged[&Check::Fuzz], Status::Fail { found: "[panics] assemble: it panicked".into() });
    }

    #[test]
    fn prompts_that_always_differ_are_not_compared() {
        let differs = |check| Finding { compared: true, ..Finding::new(check, "they differ") };
        let restart = (Play::Restart, Some(differs(Check::Restart)));
        let alone = judged(std::slice::from_ref(&restart));
        assert_eq!(alone[&Check::Restart], Status::Fail { found: "they differ".into() });
        let never_the_same = judged(&[restart, (Play::Twice, Some(differs(Check::Deterministic)))]);
        for check in [Check::Restart, Check::Durable] {
            assert_eq!(never_the_same[&check], Status::Unreached { because: Check::Deterministic });
        }
        assert_eq!(never_the_same[&Check::Deterministic], Status::Warn { found: "they differ".into() });
    }
}
