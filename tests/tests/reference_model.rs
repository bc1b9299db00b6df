//! Random sequences of everything that can happen to a session, against a model that is a plain list of messages.
//!
//! It knows nothing of the host: it drives the real binary over HTTP, with an engine in a shared library and a scripted model.
//! What must hold after each step: the transcript is the list; every prompt holds the current turn once, splits no tool pair and
//! stays within its budget. At the end: every accepted turn's key is in the engine's store, once, and nothing waits for it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::model::{self, MockModel};
use engineroom_tests::{Answer, Gateway, Setup};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};
use std::collections::HashSet;
use std::io::Write as _;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const WINDOW: u32 = 2_600;
const CHAT: &str = "/v1/chat/completions";
const SESSION: &str = "s";
/// How long the model thinks about a message that is going to be cancelled.
const SLOW: Duration = Duration::from_millis(700);
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
enum Step {
    /// A message of so many words.
    Say(usize),
    /// A message for which the model wants a tool of the client; its result has so many words.
    UseTool(usize),
    /// The last answer is asked for again, with the whole history.
    Regenerate,
    /// A user message is said differently, with the whole history before it.
    Edit(prop::sample::Index),
    Compact,
    /// The engine fails at its next call of this hook.
    Fail(&'static str),
    /// The client goes away before the answer.
    Cancel,
    Restart {
        kill: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (3usize..220).prop_map(Step::Say),
        3 => (3usize..400).prop_map(Step::UseTool),
        2 => Just(Step::Regenerate),
        2 => any::<prop::sample::Index>().prop_map(Step::Edit),
        1 => Just(Step::Compact),
        1 => prop::sample::select(vec!["assemble", "commit_turn", "compact", "maintain", "bootstrap"]).prop_map(Step::Fail),
        1 => Just(Step::Cancel),
        1 => any::<bool>().prop_map(|kill| Step::Restart { kill }),
    ]
}

/// How the engine is configured.
fn engine() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        json!({}),
        json!({"turns": 3}),
        json!({"owns_compaction": true, "compact": "own"}),
        json!({"owns_compaction": true, "compact": "nothing"}),
        json!({"background": true, "volatile": "note {n}", "system": "rules of the engine", "places_turn": true}),
    ])
}

/// Six sessions, the same in every run; `PROPTEST_CASES` and `PROPTEST_RNG_SEED` look further.
fn config() -> ProptestConfig {
    let named = ProptestConfig::default();
    let is_set = |name: &str| std::env::var_os(name).is_some();
    ProptestConfig {
        cases: if is_set("PROPTEST_CASES") { named.cases } else { 6 },
        rng_seed: if is_set("PROPTEST_RNG_SEED") { named.rng_seed } else { RngSeed::Fixed(1) },
        max_shrink_iters: 24,
        failure_persistence: None,
        ..named
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn whatever_happens_the_session_is_what_a_plain_list_says(
        engine in engine(),
        steps in prop::collection::vec(step(), 6..16),
    ) {
        World::new(&engine).play(&steps);
    }
}

/// What the scripted model saw that must not be.
type Faults = Arc<Mutex<Vec<String>>>;

/// The gateway, its model, and the list that its session must equal.
struct World {
    setup: Setup,
    gateway: Option<Gateway>,
    trip: PathBuf,
    faults: Faults,
    list: Vec<Value>,
    words: u64,
}

impl World {
    fn new(engine: &Value) -> World {
        let faults = Faults::default();
        let model = scripted(Arc::clone(&faults));
        let setup = Setup::new().killed_often();
        let trip = setup.path().join("recorder/trip");
        let mut config = engine.clone();
        config["trip"] = json!(trip);
        let setup = setup
            .recorder(&config)
            .toml(&model.toml(WINDOW))
            .toml("[compaction]\nkeep_recent_tokens = 400\nreserve_tokens = 300\n");
        let gateway = Some(setup.start());
        World { setup, gateway, trip, faults, list: Vec::new(), words: 0 }
    }

    fn gateway(&self) -> &Gateway {
        self.gateway.as_ref().unwrap()
    }

    fn play(&mut self, steps: &[Step]) {
        for step in steps {
            self.take(step);
            self.compare(step);
        }
        // Everything that still waits is handed over before the next answer, by an engine that works.
        let _ = std::fs::remove_file(&self.trip);
        self.restart(false);
        self.take(&Step::Say(3));
        self.compare(&Step::Say(3));
        self.settled();
        assert!(self.gateway.take().unwrap().stop().success());
        self.handed_over();
    }

    /// Text that no other message holds, of words that cost a token each at least.
    fn text(&mut self, length: usize) -> String {
        let mut out = Vec::with_capacity(length);
        for _ in 0..length.max(1) {
            self.words += 1;
            out.push(format!("w{}x", self.words));
        }
        out.join(" ")
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Say(length) => {
                let text = self.text(*length);
                self.say(&text, "delta", Vec::new());
            }
            Step::UseTool(length) => self.use_tool(*length),
            Step::Regenerate => {
                if self.list.last().is_some_and(|last| last["role"] == "assistant") {
                    self.list.pop();
                    let Some(last) = self.list.pop_if(|last| last["role"] == "user") else {
                        // The answer to a tool's result: the result is sent again.
                        return self.answer_again();
                    };
                    let text = last["content"].as_str().unwrap().to_owned();
                    let before = self.list.clone();
                    self.say(&text, "full", before);
                }
            }
            Step::Edit(index) => {
                let users: Vec<usize> =
                    (0..self.list.len()).filter(|place| self.list[*place]["role"] == "user").collect();
                if !users.is_empty() {
                    self.list.truncate(*index.get(&users));
                    let text = self.text(20);
                    let before = self.list.clone();
                    self.say(&text, "full", before);
                }
            }
            Step::Compact => {
                if !self.list.is_empty() {
                    // It may fail with its engine; the transcript is the same either way.
                    self.gateway().client().post(&format!("/api/sessions/{SESSION}/compact"), &[], &json!({}));
                }
            }
            Step::Fail(hook) => std::fs::write(&self.trip, hook).unwrap(),
            Step::Cancel => self.cancel(),
            Step::Restart { kill } => self.restart(*kill),
        }
    }

    fn body(messages: Vec<Value>, current: &str) -> Value {
        json!({"model": "mock", "messages": messages, "metadata": {"current": current},
            "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]})
    }

    fn ask(&self, history: &str, messages: Vec<Value>, current: &str) -> Answer {
        let headers = [("x-engineroom-session", SESSION), ("x-engineroom-history", history)];
        let answer = self.gateway().client().post(CHAT, &headers, &World::body(messages, current));
        assert_eq!(answer.status, 200, "{answer:?}");
        answer
    }

    fn say(&mut self, text: &str, history: &str, mut messages: Vec<Value>) -> Value {
        let user = json!({"role": "user", "content": text});
        messages.push(user.clone());
        let answer = self.ask(history, messages, text).json()["choices"][0]["message"].clone();
        self.list.push(user);
        self.list.push(answer.clone());
        answer
    }

    fn use_tool(&mut self, length: usize) {
        let text = format!("please look {}", self.text(5));
        let calls = self.say(&text, "delta", Vec::new())["tool_calls"].clone();
        let result = json!({"role": "tool", "tool_call_id": calls[0]["id"], "content": self.text(length)});
        let answer = self.ask("delta", vec![result.clone()], &text).json()["choices"][0]["message"].clone();
        self.list.push(result);
        self.list.push(answer);
    }

    fn answer_again(&mut self) {
        let current = self.list.iter().rev().find(|message| message["role"] == "user").unwrap()["content"].clone();
        let answer = self.ask("full", self.list.clone(), current.as_str().unwrap()).json();
        self.list.push(answer["choices"][0]["message"].clone());
    }

    fn cancel(&mut self) {
        let text = format!("take your time {}", self.text(5));
        let user = json!({"role": "user", "content": text});
        let body = World::body(vec![user.clone()], &text).to_string();
        let address = self.gateway().client().base().trim_start_matches("http://").to_owned();
        let mut stream = TcpStream::connect(&address).unwrap();
        write!(
            stream,
            "POST {CHAT} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\nx-engineroom-session: {SESSION}\r\n\
             x-engineroom-history: delta\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        // Admitted, and on its way to the model.
        let deadline = Instant::now() + PATIENCE;
        while self.transcript().last().is_none_or(|(_, last)| *last != text) {
            assert!(Instant::now() < deadline, "the message was never admitted");
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(stream);
        self.list.push(user);
    }

    fn restart(&mut self, kill: bool) {
        let gateway = self.gateway.take().unwrap();
        if kill {
            gateway.kill();
        } else {
            assert!(gateway.stop().success());
        }
        self.gateway = Some(self.setup.start());
    }

    /// Role and text of every message on the active branch.
    fn transcript(&self) -> Vec<(String, String)> {
        let answer = self.gateway().client().get(&format!("/api/sessions/{SESSION}?limit=1000"));
        if answer.status == 404 {
            return Vec::new();
        }
        let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let rows = answer.json()["messages"].as_array().unwrap().clone();
        rows.iter()
            .filter(|row| row["role"] != "compaction")
            .map(|row| (text(row, "role"), text(row, "text")))
            .collect()
    }

    fn compare(&self, step: &Step) {
        let text = |message: &Value, name: &str| message[name].as_str().unwrap_or_default().to_owned();
        let list: Vec<_> = self.list.iter().map(|m| (text(m, "role"), text(m, "content"))).collect();
        let transcript = self.transcript();
        assert_eq!(transcript.len(), list.len(), "after {step:?}: {transcript:#?} is not {list:#?}");
        for (there, here) in transcript.iter().zip(&list) {
            assert_eq!(there, here, "after {step:?}");
        }
        let faults = self.faults.lock().unwrap();
        assert!(faults.is_empty(), "after {step:?}: {faults:#?}");
    }

    /// Waits until the engine has taken over what was accepted.
    fn settled(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let store = Store::open(&self.setup.state());
            if store.count("SELECT count(*) FROM outbox WHERE engine = 'recorder'") == 0 {
                return;
            }
            assert!(Instant::now() < deadline, "the outbox is not empty");
            // What is settled in memory is written with the next turn, or after a while.
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn handed_over(&self) {
        let store = Store::open(&self.setup.state());
        let keys: HashSet<String> = store.texts(
            "SELECT CAST(key AS TEXT) FROM engine_kv WHERE engine = 'recorder' AND CAST(key AS TEXT) LIKE 'engineroom/advanced/%'",
        );
        for turn in store.texts(
            "SELECT json_extract(detail, '$.logical_turn_id') FROM turns
             WHERE engine = 'recorder' AND json_extract(detail, '$.outcome') = 'answered'",
        ) {
            assert!(
                keys.contains(&format!("engineroom/advanced/{turn}")),
                "the turn {turn} was accepted and not handed over"
            );
        }
        let mut committed = HashSet::new();
        for line in self.setup.calls().lines() {
            if line["did"] == "commit" && line["result"] == "Committed" {
                let key = line["advancementKey"].to_string();
                assert!(committed.insert(key), "a turn was taken over twice: {line}");
            }
        }
        assert!(!committed.is_empty(), "no turn was ever taken over");
        // Whatever it missed while it was out, it read when it came back.
        let entries: HashSet<String> = store.texts(
            "SELECT CAST(key AS TEXT) FROM engine_kv WHERE engine = 'recorder' AND CAST(key AS TEXT) LIKE 'entry/%'",
        );
        for id in store.texts(
            "WITH RECURSIVE branch(id, parent, kind) AS (
                SELECT e.id, e.parent, e.kind FROM entries e JOIN sessions s ON s.head = e.id
                UNION ALL SELECT e.id, e.parent, e.kind FROM entries e JOIN branch b ON e.id = b.parent)
             SELECT CAST(id AS TEXT) FROM branch WHERE kind <> 1",
        ) {
            let id: u64 = id.parse().unwrap();
            assert!(entries.contains(&format!("entry/{id:012}")), "the engine never met the entry {id}");
        }
    }
}

/// The gateway's database, as anybody may read it.
struct Store(rusqlite::Connection);

impl Store {
    fn open(state: &Path) -> Store {
        let file = std::fs::read_dir(state)
            .unwrap()
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|extension| extension == "db"))
            .expect("the database");
        Store(rusqlite::Connection::open(file).unwrap())
    }

    fn count(&self, sql: &str) -> i64 {
        self.0.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    fn texts(&self, sql: &str) -> HashSet<String> {
        let mut statement = self.0.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }
}

/// Answers with a text that no other answer has, wants a tool when it is asked to look, and checks each prompt.
fn scripted(faults: Faults) -> MockModel {
    let count = AtomicU64::new(0);
    MockModel::start(move |request, stream| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        let Some(current) = request["metadata"]["current"].as_str() else {
            // The gateway's own question: a summary.
            return model::answer(request, stream, "## Goal\nThey talk.\n\n## State\nThey go on.");
        };
        if let Err(fault) = check(request, current) {
            faults.lock().unwrap().push(format!("{fault}: {request}"));
        }
        if current.starts_with("take your time") {
            std::thread::sleep(SLOW);
        }
        let messages = request["messages"].as_array().unwrap();
        let wants_tool =
            current.starts_with("please look") && messages.last().is_some_and(|last| last["role"] == "user");
        if wants_tool {
            let call = json!({"id": format!("call-{number}"), "type": "function",
                "function": {"name": "look", "arguments": "{}"}});
            model::message(stream, json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls");
        } else {
            model::answer(request, stream, &format!("answer {number}"));
        }
    })
}

/// The current turn once, whole pairs, within the window.
fn check(request: &Value, current: &str) -> Result<(), String> {
    let messages = request["messages"].as_array().unwrap();
    let is_current = |message: &&Value| {
        message["role"] == "user" && message["content"].as_str().is_some_and(|text| text.contains(current))
    };
    let shown = messages.iter().filter(is_current).count();
    if shown != 1 {
        return Err(format!("the current turn is shown {shown} times"));
    }
    let mut open: Vec<String> = Vec::new();
    for message in messages {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            let Some(place) = open.iter().position(|open| open == id) else {
                return Err(format!("the result {id} has no call"));
            };
            open.remove(place);
            continue;
        }
        if let Some(id) = open.first() {
            return Err(format!("the call {id} has no result"));
        }
        let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
        open.extend(calls.iter().filter_map(|call| call["id"].as_str().map(str::to_owned)));
    }
    if !open.is_empty() {
        return Err("the last call has no result".into());
    }
    // Each word costs a token at least, whatever the tokenizer.
    let words: usize = messages
        .iter()
        .filter_map(|message| message["content"].as_str())
        .map(|text| text.split_whitespace().count())
        .sum();
    let most = WINDOW as usize - 256;
    if words > most { Err(format!("{words} words do not fit in {most} tokens")) } else { Ok(()) }
}
