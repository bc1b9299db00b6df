//! Small conversations through real libraries and `legacy`, by the path that the command takes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom::config::Isolation;
use engineroom::turn::replay::{Call, Watch};
use engineroom::worker::ProbeCommand;
use engineroom_eval::data::{DataSet, Format};
use engineroom_eval::engine::Engine;
use engineroom_eval::evaluate::{Options, evaluate, play};
use engineroom_eval::prefix::Prefix;
use engineroom_eval::report::Report;
use serde_json::{Value, json};
use std::path::Path;

/// What the gardener says in each of the turns; the answers are as long.
const SAID: [&str; 5] = [
    "On the north wall I keep the seven pear trees that my aunt grafted in the autumn after the flood.",
    "The compost needs turning on every second Tuesday, else the worms move over to the neighbour's heap.",
    "If rows < 3 && beds > 5 then the \"short\" rota applies & nobody waters twice.",
    "My brother brings the ladder on the ninth, and wants it back before the pruning course begins.",
    "Remind me that the frost fleece is in the blue crate under the workbench in the shed.",
];

/// A conversation of [`SAID`], with a question to each of the user's messages and one that does not count.
fn garden(name: &str) -> String {
    let mut lines = vec![json!({"conversation": name})];
    for (n, text) in SAID.iter().enumerate() {
        let time = |second: usize| format!("2024-03-{:02}T09:00:{second:02}Z", n + 1);
        let answer =
            format!("{name}: noted as number {n}. I shall keep it in mind for whenever it is needed in the garden.");
        lines.push(json!({"role": "user", "id": format!("u{n}"), "time": time(0), "name": "Ida", "content": text}));
        lines.push(json!({"role": "assistant", "id": format!("a{n}"), "time": time(1), "content": answer}));
    }
    for n in 0..SAID.len() {
        let evidence = [format!("u{n}"), format!("a{n}")];
        lines.push(json!({"question": format!("What was number {n}?"), "category": n, "evidence": evidence}));
    }
    lines.push(json!({"question": "What was never said?", "category": "none", "evidence": ["u0"], "counted": false}));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn data(text: &str) -> DataSet {
    DataSet::read(text, Format::QaJsonl).unwrap()
}

fn engine(id: &str, config: &Value) -> Engine {
    // The program of the command is its own probe.
    engineroom::worker::use_command(ProbeCommand::new(env!("CARGO_BIN_EXE_engineroom-eval")));
    Engine {
        id: id.into(),
        libraries: vec![engineroom_tests::built().library(id)],
        isolation: Isolation::InProcess,
        config: config.as_object().unwrap().clone(),
    }
}

async fn measure(engine: &Engine, text: &str, budget: u64, joined: bool) -> Report {
    measure_with(engine, text, Options { budget, joined, window: None }).await
}

async fn measure_with(engine: &Engine, text: &str, options: Options) -> Report {
    evaluate(engine, &data(text), options, &mut |_| {}).await.unwrap()
}

/// The calls that the recorder wrote down.
fn calls(log: &Path) -> Vec<Value> {
    std::fs::read_to_string(log).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fits_is_all_found_and_all_of_it_is_tail() {
    let report = measure(&Engine::legacy(), &garden("g"), 4_000, false).await;
    assert_eq!((report.recall, report.strict, report.questions), (100.0, 100.0, 5));
    assert_eq!((report.categories.len(), report.categories["none"].questions), (6, 1));
    assert!(report.degraded.is_empty(), "{:?}", report.degraded);
    assert_eq!((report.over_budget, report.turns, report.sessions, report.left_out), (0, 5, 1, 0));
    // Nothing but the history is shown, and all of it.
    assert_eq!((report.tail.mean_messages, report.tail.mean_tokens), (10.0, report.tokens.mean));
    assert!((report.tail.min_share - report.tokens.mean / 40.0).abs() < 1e-9);
    assert_eq!((report.hooks["assemble"].count, report.hooks["commitTurn"].count), (5 + 6 + 1, 5));
    // Each prompt but the first begins with the whole one before: only its closing bracket is gone.
    assert_eq!(report.prefix.calls, 4);
    assert!(report.prefix.p10 > 30.0 && report.prefix.median < 100.0, "{:?}", report.prefix);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_finds_the_newest_and_keeps_its_budget() {
    // In a window of that size the host would compact, and its summary would take a part of the budget.
    let options = Options { budget: 120, joined: false, window: Some(4_000) };
    let report = measure_with(&engine("window", &json!({})), &garden("g"), options).await;
    assert!(report.degraded.is_empty(), "{:?}", report.degraded);
    let recall: Vec<f64> = (0..5).map(|n| report.categories[&n.to_string()].recall).collect();
    assert_eq!((recall[0], recall[4]), (0.0, 100.0), "{recall:?}");
    assert!(report.tokens.max <= 120.0 && report.over_budget == 0 && report.tail.mean_tokens == report.tokens.mean);
    assert_eq!(report.engine, "window");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_evidence_counts_in_the_volatile_block_as_the_engine_gave_it() {
    // Nothing of the history is shown, and one message, which has what the host escapes, in the block.
    let config = json!({"turns": 0, "volatile": format!("[5] Ida: {}", SAID[2])});
    let report = measure(&engine("recorder", &config), &garden("g"), 400, false).await;
    assert!(report.degraded.is_empty(), "{:?}", report.degraded);
    let recall: Vec<f64> = (0..5).map(|n| report.categories[&n.to_string()].recall).collect();
    assert_eq!(recall, [0.0, 0.0, 50.0, 0.0, 0.0]);
    assert_eq!((report.recall, report.strict), (10.0, 0.0));
    assert_eq!((report.tail.mean_tokens, report.tail.mean_messages), (0.0, 0.0));
    assert!(report.volatile.mean > 20.0 && report.tokens.mean >= report.volatile.mean);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_are_asked_with_the_whole_budget_and_told_to_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("calls.jsonl");
    let report = measure(&engine("recorder", &json!({"log": log})), &garden("g"), 4_321, false).await;
    assert!(report.degraded.is_empty(), "{:?}", report.degraded);
    let calls = calls(&log);
    let asks = |call: &&Value| call.to_string().contains("What was");
    let asked: Vec<&Value> = calls.iter().filter(asks).collect();
    // Six, and the first one again.
    assert_eq!(asked.len(), 7);
    for call in &asked {
        assert_eq!(call["hook"], "assemble", "{call}");
        assert_eq!(call["session"]["tokenBudget"], 4_321, "{call}");
        assert_eq!(call["prompt"]["entryId"], asked[0]["prompt"]["entryId"], "{call}");
        assert_eq!(call["history"], asked[0]["history"], "{call}");
    }
    // The turns were handed over, the last one as well, before anything was asked.
    let first = calls.iter().position(|call| asks(&call)).unwrap();
    let commit = |call: &&Value| call["hook"] == "commit_turn" && call.get("did").is_none();
    let commits = |calls: &[Value]| calls.iter().filter(commit).count();
    assert_eq!((commits(&calls[..first]), commits(&calls)), (5, 5));
    let behind: Vec<&Value> = calls[first..].iter().filter(|call| call["hook"] != "assemble").collect();
    assert!(behind.iter().all(|call| call["hook"] == "dispose"), "{behind:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_over_the_budget_is_seen() {
    // An owning engine that compacts nothing gives everything.
    let config = json!({"owns_compaction": true, "compact": "nothing"});
    let report = measure(&engine("recorder", &config), &garden("g"), 150, false).await;
    assert_eq!(report.over_budget, 6, "{report:?}");
    assert!(report.tokens.max > 150.0);
    // What counts is what is left of it when the host has cut it down.
    assert!(report.recall < 100.0 && report.tail.mean_tokens <= 150.0, "{report:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conversations_can_be_played_in_one_session() {
    let text = format!("{}{}", garden("g"), garden("h"));
    let apart = measure(&Engine::legacy(), &text, 4_000, false).await;
    let joined = measure(&Engine::legacy(), &text, 4_000, true).await;
    assert_eq!((apart.sessions, apart.prefix.calls, apart.tail.mean_messages), (2, 8, 10.0));
    assert_eq!((joined.sessions, joined.prefix.calls, joined.tail.mean_messages), (1, 9, 20.0));
    assert!(joined.degraded.is_empty(), "{:?}", joined.degraded);
    assert_eq!((joined.recall, joined.questions, apart.questions), (100.0, 10, 10));
    assert_eq!(joined.tokens.mean, 2.0 * apart.tokens.mean);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_remembers_questions_is_found_out() {
    let report = measure(&engine("recorder", &json!({"volatile": "call {n}"})), &garden("g"), 4_000, false).await;
    assert_eq!(report.degraded.traces.len(), 1, "{:?}", report.degraded);
    assert!(!report.degraded.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_fails_or_is_not_there_is_told() {
    let config = json!({"fail": {"assemble": {"after": 7, "message": "tired"}}});
    let report = measure(&engine("recorder", &config), &garden("g"), 4_000, false).await;
    // Five turns and two questions went well.
    assert_eq!((report.degraded.turns, report.degraded.questions), (0, 4), "{:?}", report.degraded);
    assert!(report.degraded.reasons.iter().any(|reason| reason.contains("tired")), "{:?}", report.degraded);

    let nobody = Engine { id: "nobody".into(), ..engine("window", &json!({})) };
    let report = measure(&nobody, &garden("g"), 4_000, false).await;
    assert_eq!((report.degraded.turns, report.degraded.questions), (5, 6), "{:?}", report.degraded);
    assert!(!report.degraded.reasons.is_empty());
}

/// Keeps what it is shown.
#[derive(Default)]
struct Shown {
    said: Vec<usize>,
    prefix: Prefix,
}

impl Watch for Shown {
    fn call(&mut self, call: Call<'_>) {
        self.said.push(call.said);
        self.prefix.call(call.messages);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_of_a_tool_loop_is_a_prompt() {
    let call = |id: &str| json!([{"id": id, "type": "function", "function": {"name": "count", "arguments": "{\"what\":\"pears\"}"}}]);
    let lines = [
        json!({"role": "system", "content": "You look after a garden."}),
        json!({"role": "user", "id": "u", "content": "How many pears are there?"}),
        json!({"role": "assistant", "content": null, "tool_calls": call("c1")}),
        json!({"role": "tool", "tool_call_id": "c1", "content": "east: 12"}),
        json!({"role": "assistant", "content": null, "tool_calls": call("c2")}),
        json!({"role": "tool", "tool_call_id": "c2", "content": "west: 30"}),
        json!({"role": "assistant", "content": "42."}),
        json!({"role": "user", "content": "Thank you."}),
        json!({"question": "How many?", "category": 1, "evidence": ["u"]}),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let set = data(&text);
    let recording = &set.conversations[0].recording;
    let mut shown = Shown::default();
    let (turns, closed) = play(&engine("window", &json!({})), recording, 2_000, &mut shown).await.unwrap();
    assert_eq!((shown.said, turns.len(), closed.abandoned), (vec![1, 3, 5, 7], 4, 0));
    // Within the loop nothing changes but what is new at the end.
    let shares = shown.prefix.shares();
    assert!(shares.len() == 3 && shares[0] > 0.3 && shares.is_sorted(), "{shares:?}");
    // The base prompt costs nothing of the budget, and a message without an answer is history, too.
    let report = measure(&engine("window", &json!({})), &text, 2_000, false).await;
    assert_eq!((report.recall, report.tail.mean_messages), (100.0, 7.0));
    assert!(report.degraded.is_empty(), "{:?}", report.degraded);
}

/// The program with these arguments about one small conversation: its exit code, and what it said on standard error.
fn program(args: &[&str]) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data.jsonl");
    std::fs::write(&file, garden("g")).unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_engineroom-eval"));
    command.arg("--data").arg(&file).args(["--budget", "900"]).args(args);
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn what_cannot_be_measured_is_refused_before_anything_is_played() {
    let window = engineroom_tests::built().library("window");
    let window = window.to_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("libwindow.so");
    std::fs::write(&broken, "this is a text, no library").unwrap();
    let broken = broken.to_str().unwrap();
    let qa = ["--format", "qa-jsonl"];
    for (args, told) in [
        (vec!["--engine", "windwo", "--library", window], "did you mean `window`?"),
        (vec!["--engine", "legacy", "--engine", "windwo", "--library", window], "the engine windwo of"),
        (
            vec!["--engine", "window", "--library", window, "--config", "pin_first_trun=true"],
            "did you mean \"pin_first_turn\"?",
        ),
        (vec!["--engine", "window", "--library", "/nowhere/libwindow.so"], "/nowhere/libwindow.so"),
        (vec!["--engine", "window", "--library", broken], "libwindow.so"),
        (vec!["--engine", "legacy", "--config", "x=1"], "legacy has no setting \"x\""),
    ] {
        let (code, said) = program(&[&qa[..], &args].concat());
        assert_eq!(code, Some(2), "{args:?}: {said}");
        assert!(said.contains(told), "{args:?}: {said}");
        assert!(!said.contains("turns in"), "nothing was played: {said}");
    }
    let (code, said) = program(&["--format", "csv", "--engine", "legacy"]);
    assert_eq!(code, Some(2), "{said}");
    let (code, said) = program(&[&qa[..], &["--engine", "window", "--library", window]].concat());
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("turns in"), "{said}");
}
