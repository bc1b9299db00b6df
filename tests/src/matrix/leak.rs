//! The leak run: a chain of 20 chaos engines that all fail, in one process, again and again. After it nothing is left behind.

use super::case::{CASES, Case, SHORT};
use super::house::House;
use super::rules::{Fate, expected};
use super::spot::SPOTS;
use super::{Cell, Isolation};
use crate::{Setup, process_state};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

/// Engines in the chain.
const CHAIN: usize = 20;
/// What the last of them does, which serves: it leaves a child behind that must be waited for.
const LAST: &str = "fork";
/// Modes that come first in the choice: they leave something to clean up.
const FIRST: [&str; 14] = [
    "return-late",
    "late-store",
    "late-rewrite",
    "late-llm",
    "hang-sleep",
    "deadlock",
    "abort",
    "exit",
    "exit-raw",
    "segfault",
    "stack-overflow",
    "panic-bomb",
    "panic-resume",
    "cancelled",
];
/// Longest wait for what is on its way out: idle threads of the runtime stay for some seconds.
const PATIENCE: Duration = Duration::from_secs(45);

/// How often the rounds are walked before something counts as left behind. What leaks grows every time; a bounded pool of
/// threads may fill a little later than in the first rounds when the machine is busy, and then grows no more.
const TRIES: usize = 3;

/// What a process and its descendants hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holds {
    /// Threads of all of them.
    pub threads: usize,
    /// Descendants.
    pub processes: usize,
    /// Open descriptors of all of them.
    pub descriptors: usize,
    /// Files in the state folder and the folder for temporary files.
    pub files: usize,
}

impl Holds {
    /// True when none of it is more than there.
    fn within(&self, there: &Holds) -> bool {
        self.threads <= there.threads
            && self.processes <= there.processes
            && self.descriptors <= there.descriptors
            && self.files <= there.files
    }
}

/// What a run of so many rounds left behind.
#[derive(Debug)]
pub struct Leak {
    /// Where the engines ran.
    pub isolation: Isolation,
    /// How often the chain was walked between the two counts.
    pub rounds: usize,
    /// After the first rounds, which fill the pools.
    pub before: Holds,
    /// So many rounds later.
    pub after: Holds,
    /// What is not as it must be.
    pub problems: Vec<String>,
}

/// Walks the chain, counts, walks it `rounds` times, and counts again; what has grown then must have stopped to grow, or it leaks.
pub fn leak(house: &House, isolation: Isolation, rounds: usize) -> Leak {
    let setup = chain(house, isolation);
    let gateway = setup.start();
    let mut problems = Vec::new();
    let mut round = |number: usize| {
        let answer = gateway.client().try_say("here", &format!("Round {number}."));
        let served = format!("cha{:02}", CHAIN - 1);
        match answer {
            Ok(answer) if answer.status == 200 && answer.engine() == Some(&served) && answer.degraded().is_some() => {}
            Ok(answer) => problems.push(format!("round {number}: {answer:?}")),
            Err(error) => problems.push(format!("round {number}: {error}")),
        }
        let reset = gateway.client().post("/api/test/latches", &[], &json!({}));
        if reset.status != 200 || reset.json()["reset"] != true {
            problems.push(format!("the latches were not opened: {reset:?}"));
        }
    };
    // Twice: what a late call of the first round took is there again in the second.
    round(0);
    round(1);
    let mut before = settled(&setup, gateway.pid(), None);
    let mut after = before;
    for tries in 0..TRIES {
        for number in 0..rounds {
            round(2 + tries * rounds + number);
        }
        after = settled(&setup, gateway.pid(), Some(before));
        if tries + 1 == TRIES || after.within(&before) {
            break;
        }
        before = settled(&setup, gateway.pid(), None);
    }
    let (status, said) = gateway.stop_and_hear();
    if !status.success() {
        let lines: Vec<&str> = said.lines().rev().take(3).collect();
        problems.push(format!("the stop: {status}: {}", lines.join(" / ")));
    }
    let names = ["threads", "processes", "descriptors", "files"];
    let pairs = [
        (before.threads, after.threads),
        (before.processes, after.processes),
        (before.descriptors, after.descriptors),
        (before.files, after.files),
    ];
    for (name, (before, after)) in names.iter().zip(pairs) {
        if after > before {
            problems.push(format!("{name}: {before} before, {after} after {rounds} rounds"));
        }
    }
    Leak { isolation, rounds, before, after, problems }
}

/// The modes of the chain: such that the engine is out after them, and that leave nothing behind which only a restart takes away.
fn modes(isolation: Isolation) -> Vec<&'static Case> {
    let assemble = SPOTS.iter().find(|spot| spot.hook == "assemble").expect("assemble");
    let fits = |case: &&'static Case| {
        let cell = Cell { case, spot: assemble, isolation };
        // In-process a thread that never comes back stays, which is what the cap of abandoned threads is for.
        let stays = isolation == Isolation::InProcess && ["hang-sleep", "hang-spin", "deadlock"].contains(&case.name);
        case.fits(assemble) && expected(cell).fate == Fate::Out && !stays && !case.name.starts_with("huge")
    };
    let mut cases: Vec<&Case> = CASES.iter().filter(fits).filter(|case| case.name != "crash-later").collect();
    cases.sort_by_key(|case| FIRST.iter().position(|name| *name == case.name).unwrap_or(FIRST.len()));
    cases.truncate(CHAIN - 1);
    cases.extend(CASES.iter().filter(|case| case.name == LAST));
    assert_eq!(cases.len(), CHAIN, "modes for the whole chain");
    cases
}

fn chain(house: &House, isolation: Isolation) -> Setup {
    let ids: Vec<String> = (0..CHAIN).map(|n| format!("cha{n:02}")).collect();
    let mut setup = house.empty();
    for (id, case) in ids.iter().zip(modes(isolation)) {
        let config = json!({"mode": case.mode, "hook": "assemble", "ms": case.ms, "hooks": []});
        setup = setup.chaos_copy(id, isolation.as_str(), &config);
    }
    let temporary = setup.path().join("temporary");
    std::fs::create_dir(&temporary).expect("a folder for temporary files");
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    setup
        .chain(&ids)
        .toml(&format!("[plugins.deadlines]\nprobe_ms = 60000\nassemble_ms = {SHORT}\n"))
        .env("TMPDIR", temporary)
        .env("ENGINEROOM_BREAK", "latches")
}

/// What is held once nothing changes any more, or once it is no more than `wanted`.
fn settled(setup: &Setup, gateway: u32, wanted: Option<Holds>) -> Holds {
    let deadline = Instant::now() + PATIENCE;
    let mut last = holds(setup, gateway);
    let mut since = Instant::now();
    loop {
        std::thread::sleep(Duration::from_millis(250));
        let now = holds(setup, gateway);
        if now != last {
            (last, since) = (now, Instant::now());
        }
        let enough = wanted.is_some_and(|wanted| now.within(&wanted));
        // The runtime's own idle threads end after ten seconds.
        let quiet = wanted.is_none() && since.elapsed() > Duration::from_secs(12);
        if enough || quiet || Instant::now() > deadline {
            return now;
        }
    }
}

fn holds(setup: &Setup, gateway: u32) -> Holds {
    let family = family(gateway);
    let entries = |what: &str| -> usize {
        family.iter().filter_map(|pid| std::fs::read_dir(format!("/proc/{pid}/{what}")).ok()).map(Iterator::count).sum()
    };
    Holds {
        threads: entries("task"),
        processes: family.len() - 1,
        descriptors: entries("fd"),
        files: files(&setup.state()) + files(&setup.path().join("temporary")),
    }
}

/// A process and its descendants.
pub fn family(pid: u32) -> Vec<u32> {
    let mut family = vec![pid];
    let parents = parents();
    let mut at = 0;
    while at < family.len() {
        let parent = family[at];
        family.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    family
}

/// Every process with its parent.
fn parents() -> Vec<(u32, u32)> {
    let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    pids.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let (_, parent) = process_state(pid)?;
        Some((pid, parent))
    })
    .collect()
}

fn files(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| 1 + if entry.path().is_dir() { files(&entry.path()) } else { 0 }).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_modes_for_the_whole_chain_in_both_isolations() {
        for isolation in Isolation::ALL {
            let names: Vec<&str> = modes(isolation).iter().map(|case| case.name).collect();
            assert!(names.contains(&"return-late") && names.last() == Some(&LAST), "{names:?}");
            assert_eq!(names.contains(&"segfault"), isolation == Isolation::Process, "{names:?}");
        }
    }
}
