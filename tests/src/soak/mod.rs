//! The soak: a gateway under clients of every kind while its engines fail in every way that can be contained, and beside it
//! one that a supervisor starts again whenever all of its engines are out.
//!
//! What must hold: memory, threads, processes and descriptors are flat after a warm-up, so is the 99th percentile of a turn, no
//! session is stuck, and nothing that was acknowledged is lost. `cargo xtask soak` runs it.

mod clients;
mod measure;
mod supervised;

use crate::matrix::Isolation;
use crate::{Gateway, MockModel, Setup, model};
use clients::Load;
use measure::Meter;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Threads of clients.
const CLIENTS: usize = 6;
/// How often the engines that are out are let in again, as a restart would: so that one process sees them fail again and again.
const AGAIN: Duration = Duration::from_secs(3);
/// Longest wait for the last answer of a session.
const LAST: Duration = Duration::from_secs(60);

/// What is soaked.
#[derive(Debug, Clone)]
pub struct Plan {
    /// How long.
    pub time: Duration,
    /// Where engines run.
    pub isolations: Vec<Isolation>,
    /// Repeats what clients do, not when.
    pub seed: u64,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Report {
    /// Rows of the table: what, first, last, bound.
    pub rows: Vec<[String; 4]>,
    /// Counts for people.
    pub notes: Vec<String>,
    /// What is not as it must be.
    pub problems: Vec<String>,
}

/// Collects what goes wrong, the first so many in words.
#[derive(Debug, Default)]
pub(crate) struct Faults(Mutex<(usize, Vec<String>)>);

impl Faults {
    pub(crate) fn note(&self, fault: String) {
        let mut faults = self.0.lock().expect("faults");
        faults.0 += 1;
        if faults.1.len() < 20 {
            faults.1.push(fault);
        }
    }

    fn told(&self) -> Vec<String> {
        let faults = self.0.lock().expect("faults");
        let more = faults.0 - faults.1.len();
        faults.1.iter().cloned().chain((more > 0).then(|| format!("and {more} more"))).collect()
    }
}

/// Runs it.
pub fn soak(plan: &Plan) -> Report {
    let faults = Arc::new(Faults::default());
    let stop = Arc::new(AtomicBool::new(false));
    let model = echo();
    let setup = steady(plan, &model);
    let gateway = setup.start();
    let load = Load::new(gateway.client().clone(), Arc::clone(&faults));
    let meter = Meter::default();
    let began = Instant::now();
    let supervised = std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (load, stop, seed) = (&load, &stop, plan.seed);
            scope.spawn(move || load.run(client, seed, began, stop));
        }
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                meter.look(gateway.pid(), began.elapsed());
                std::thread::sleep(Duration::from_millis(500));
            }
        });
        scope.spawn(|| let_in(&gateway, &stop, &faults));
        let other = scope.spawn(|| supervised::supervise(plan, &stop, &faults));
        std::thread::sleep(plan.time);
        stop.store(true, Ordering::Relaxed);
        other.join().expect("the supervisor")
    });
    let mut report = Report::default();
    report.notes.push(load.told());
    report.notes.push(supervised);
    ends(&gateway, &load, &faults);
    meter.judge(plan.time, &load.turns(), &mut report);
    let (status, said) = gateway.stop_and_hear();
    if !status.success() {
        let lines: Vec<&str> = said.lines().rev().take(3).collect();
        faults.note(format!("the stop: {status}: {}", lines.join(" / ")));
    }
    report.problems.extend(faults.told());
    report
}

/// A model that says what was said last, in pieces when it streams, and asks for a tool when one is offered. It keeps nothing.
fn echo() -> MockModel {
    MockModel::forgetful(|request, stream| {
        let last = request["messages"].as_array().and_then(|all| all.last()).cloned().unwrap_or_default();
        let text = last["content"].as_str().unwrap_or_default();
        if last["role"] == "user" && request["tools"].is_array() {
            let call = json!({"id": "call_1", "type": "function", "function": {"name": "look", "arguments": "{}"}});
            model::message(stream, json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls");
        } else if request["stream"] == true {
            model::stream_head(stream);
            model::chunk(stream, json!({"role": "assistant", "content": "re: "}), Value::Null);
            for piece in text.split_inclusive(' ') {
                std::thread::sleep(Duration::from_millis(2));
                model::chunk(stream, json!({"content": piece}), Value::Null);
            }
            model::chunk(stream, json!({}), json!("stop"));
            model::stream_end(stream);
        } else {
            model::answer(request, stream, &format!("re: {text}"));
        }
    })
}

/// How engines fail: the mode, the hook, and whether only a worker contains it.
const FAILURES: [(&str, &str, bool); 14] = [
    ("error", "assemble", false),
    ("panic", "commit_turn", false),
    ("panic-bomb", "assemble", false),
    ("slow", "assemble", false),
    ("service-error", "assemble", false),
    ("span-out-of-range", "assemble", false),
    ("huge-text", "assemble", false),
    ("panic", "maintain", false),
    ("segfault", "assemble", true),
    ("abort", "commit_turn", true),
    ("exit", "assemble", true),
    ("hang-sleep", "assemble", true),
    ("stack-overflow", "assemble", true),
    ("close-fds", "assemble", true),
];

/// The failures that this isolation contains, without leaving behind what only a restart takes away.
fn failures(isolation: Isolation) -> impl Iterator<Item = (&'static str, &'static str)> {
    let worker = isolation == Isolation::Process;
    FAILURES.into_iter().filter(move |(_, _, only_worker)| worker || !only_worker).map(|(mode, hook, _)| (mode, hook))
}

/// The configuration of an engine that fails after a while.
fn config(mode: &str, hook: &str) -> Value {
    let ms = if mode == "slow" { 60 } else { 0 };
    json!({"mode": mode, "hook": hook, "after": 4, "ms": ms, "background": hook == "maintain"})
}

/// Deadlines that a busy machine keeps, but for the hook that may hang.
const DEADLINES: &str = "[plugins.deadlines]\nregister_ms = 20000\nprobe_ms = 60000\nassemble_ms = 2000\n";

/// A chain of engines that fail, one after the other, and one that does not.
fn steady(plan: &Plan, model: &MockModel) -> Setup {
    let mut setup = Setup::new().library("window").toml(&model.toml(32_000)).toml(DEADLINES);
    let mut ids = Vec::new();
    for isolation in &plan.isolations {
        for (mode, hook) in failures(*isolation) {
            let id = format!("cha{:02}", ids.len());
            setup = setup.chaos_copy(&id, isolation.as_str(), &config(mode, hook));
            ids.push(id);
        }
    }
    ids.push("window".into());
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    setup.chain(&ids).env("ENGINEROOM_BREAK", "latches")
}

fn let_in(gateway: &Gateway, stop: &AtomicBool, faults: &Faults) {
    let mut next = Instant::now() + AGAIN;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(100));
        if Instant::now() >= next {
            next = Instant::now() + AGAIN;
            match gateway.client().try_post("/api/test/latches", &[], &json!({})) {
                Ok(answer) if answer.status == 200 => {}
                other => faults.note(format!("the latches were not opened: {other:?}")),
            }
        }
    }
}

/// Each session answers once more.
fn ends(gateway: &Gateway, load: &Load, faults: &Faults) {
    for key in load.sessions() {
        let since = Instant::now();
        match gateway.client().try_say(&key, "Last words.") {
            Ok(answer) if answer.status == 200 && since.elapsed() < LAST => {}
            Ok(answer) => faults.note(format!(
                "session {key} is stuck: {} after {:?}: {}",
                answer.status,
                since.elapsed(),
                answer.body
            )),
            Err(error) => faults.note(format!("session {key} is stuck: {error}")),
        }
    }
}
