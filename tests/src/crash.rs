//! Rounds of `kill -9` under load, each checked against what the clients were told.
//!
//! ```text
//!  start ─► check what earlier rounds left ─► each session takes a turn ─► fail point armed ─► load ─► dead ─► next round
//! ```
//!
//! Clients of several kinds talk at once, each in a session of its own, and each keeps the list of what was acknowledged and of
//! what its last request, which was not, may have come to. At the next start the transcript is one of these; nothing is lost,
//! nothing is there twice. Each batch of rounds ends with a clean stop, and with the engine: every accepted turn was committed to
//! it, once.

use crate::model::{self, MockModel};
use crate::{Client, Gateway, Setup, failpoints};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const CHAT: &str = "/v1/chat/completions";
const WINDOW: u32 = 2_600;
const PATIENCE: Duration = Duration::from_secs(60);
/// Rounds on one state folder.
const BATCH: usize = 20;
/// Acknowledged operations of one round at most.
const LOAD: usize = 30;
/// Longest load of one round.
const LOAD_TIME: Duration = Duration::from_secs(6);

/// When the gateway is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kill {
    /// At a fail point, picked from all of them; at some, the step fails or panics instead.
    Point,
    /// At any moment.
    Moment,
}

/// What a run of rounds shall be.
#[derive(Debug, Clone)]
pub struct Rounds {
    /// How many.
    pub number: usize,
    /// The same load and the same points for the same seed; not the same moments.
    pub seed: u64,
    /// `in-process` or `process`.
    pub isolation: &'static str,
    /// When it is killed.
    pub kill: Kill,
}

impl Rounds {
    /// As the environment says: `CRASH_ROUNDS`, `CRASH_SEED`, `CRASH_ISOLATION`. To look closer, `CRASH_POINT` and `CRASH_ACTION`
    /// name one point, and what happens there.
    pub fn from_env(kill: Kill, number: usize) -> Rounds {
        let text = |name: &str| std::env::var(name).ok();
        Rounds {
            number: text("CRASH_ROUNDS").and_then(|text| text.parse().ok()).unwrap_or(number),
            seed: text("CRASH_SEED").and_then(|text| text.parse().ok()).unwrap_or(1),
            isolation: match text("CRASH_ISOLATION").as_deref() {
                Some("process") => "process",
                _ => "in-process",
            },
            kill,
        }
    }
}

/// What came of a run.
#[derive(Debug, Default)]
pub struct Tally {
    /// Rounds.
    pub rounds: usize,
    /// Operations that were acknowledged, and checked later.
    pub acknowledged: usize,
    /// Operations that failed or broke off.
    pub broken: usize,
    /// By what was armed: how often the gateway ended there, and how often it went by.
    pub points: BTreeMap<String, (usize, usize)>,
    /// Turns that the engine committed.
    pub committed: usize,
}

/// A plain generator.
#[derive(Debug, Clone)]
struct Random(u64);

impl Random {
    fn new(seed: u64, stream: u64) -> Random {
        let mut random = Random((seed ^ stream.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..4 {
            random.next();
        }
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from((self.next() >> 11) % most.max(1) as u64).expect("small")
    }
}

/// What a client says, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// One message a request, with a key for retries.
    Keyed,
    /// Streamed.
    Streamed,
    /// The model wants a tool of the client now and then.
    Tools,
    /// Whole histories, with edits and regenerated answers.
    Edits,
    /// Begins anew and is deleted now and then.
    Short,
    /// The model wants a tool of the engine; gives tasks to subagents.
    House,
}

const MANNERS: [Manner; 6] =
    [Manner::Keyed, Manner::Streamed, Manner::Tools, Manner::Edits, Manner::Short, Manner::House];

/// A message as the checks see it: role and text; no text for one that was not told.
type Said = (String, Option<String>);

fn said(role: &str, text: &str) -> Said {
    (role.to_owned(), Some(text.to_owned()))
}

/// One session with its client.
#[derive(Debug)]
pub(crate) struct Session {
    key: String,
    manner: Manner,
    random: Random,
    words: u64,
    /// What was acknowledged.
    list: Vec<(String, String)>,
    /// What the session may be instead, since the last request was not answered.
    maybe: Vec<Vec<Said>>,
    /// The last request with a key, when it was not answered.
    retry: Option<(String, String)>,
    /// Calls of a tool of the client that wait for their result.
    open_call: Option<String>,
    /// The room of the point that is armed: its operations come more often.
    wanted: String,
}

/// Why a client stopped.
pub(crate) enum Broken {
    /// Nobody answers.
    Gone,
    /// An answer that says that it failed.
    Refused(String),
}

impl Session {
    pub(crate) fn new(number: usize, manner: Manner, seed: u64) -> Session {
        Session {
            key: format!("agent:main:{manner:?}-{number}").to_lowercase(),
            manner,
            random: Random::new(seed, number as u64 + 7),
            words: 0,
            list: Vec::new(),
            maybe: Vec::new(),
            retry: None,
            open_call: None,
            wanted: String::new(),
        }
    }

    /// One time in so many, or every second time where a point of this room is armed.
    fn now(&mut self, room: &str, most: usize) -> bool {
        let most = if self.wanted == room { 2 } else { most };
        self.random.below(most) == 0
    }

    fn text(&mut self, length: usize) -> String {
        let words: Vec<String> =
            (0..length.max(1)).map(|n| format!("{}w{}", self.key, self.words + n as u64)).collect();
        self.words += length.max(1) as u64;
        words.join(" ")
    }

    fn base(&self) -> Vec<Said> {
        self.list.iter().map(|(role, text)| said(role, text)).collect()
    }

    /// The list as it is, and with more and more of `then` behind it.
    fn expect(&mut self, base: Vec<Said>, then: &[Said]) {
        for length in 0..=then.len() {
            self.maybe.push(base.iter().chain(&then[..length]).cloned().collect());
        }
    }

    /// One thing that this client does.
    pub(crate) fn step(&mut self, client: &Client) -> Result<(), Broken> {
        self.maybe = vec![self.base()];
        if self.now("compact", 14) && !self.list.is_empty() {
            return self.compact(client);
        }
        match self.manner {
            Manner::Keyed => {
                let (text, key) = (self.short_text(), format!("{}-{}", self.key, self.words));
                self.retry = Some((text.clone(), key.clone()));
                self.say(client, &text, Some(&key), false)?;
                self.retry = None;
                Ok(())
            }
            Manner::Streamed => {
                let text = self.short_text();
                self.say(client, &text, None, true)
            }
            Manner::Tools => {
                let text = match self.random.below(2) {
                    0 => format!("please look {}", self.text(3)),
                    _ => self.short_text(),
                };
                self.say(client, &text, None, false)?;
                self.answer_call(client)
            }
            Manner::Edits => self.edit(client),
            Manner::Short => match self.now("session", 7) {
                true if !self.list.is_empty() => self.end(client),
                _ => {
                    let (text, stream) = (self.short_text(), self.random.below(2) == 0);
                    self.say(client, &text, None, stream)
                }
            },
            Manner::House if self.wanted == "outbox" && self.random.below(4) == 0 => self.repair(client),
            Manner::House => match (self.now("subagent", 4) && !self.list.is_empty(), self.random.below(3)) {
                (true, _) => self.spawn(client),
                (false, 0) => {
                    let text = self.short_text();
                    self.say(client, &text, None, true)
                }
                _ => {
                    let (text, stream) = (format!("please peek {}", self.text(3)), self.random.below(2) == 0);
                    self.say(client, &text, None, stream)
                }
            },
        }
    }

    fn short_text(&mut self) -> String {
        let length = 2 + self.random.below(60);
        self.text(length)
    }

    fn body(messages: &Value, current: &str, stream: bool, tools: bool) -> Value {
        let mut body =
            json!({"model": "mock", "messages": messages, "stream": stream, "metadata": {"current": current}});
        if tools {
            body["tools"] =
                json!([{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]);
        }
        body
    }

    /// Asks, and gives the message of the answer once it is acknowledged.
    fn ask(
        &self,
        client: &Client,
        history: &str,
        messages: &Value,
        current: &str,
        key: Option<&str>,
        stream: bool,
    ) -> Result<Value, Broken> {
        let mut headers = vec![("x-engineroom-session", self.key.as_str()), ("x-engineroom-history", history)];
        headers.extend(key.map(|key| ("idempotency-key", key)));
        let body = Session::body(messages, current, stream, self.manner == Manner::Tools);
        let answer = client.try_post(CHAT, &headers, &body).map_err(|_| Broken::Gone)?;
        if answer.status != 200 {
            return Err(refused(&answer.body, answer.status));
        }
        if !stream {
            let whole: Value = serde_json::from_str(&answer.body).map_err(|_| Broken::Gone)?;
            return Ok(whole["choices"][0]["message"].clone());
        }
        if !answer.body.contains("data: [DONE]") {
            return Err(Broken::Refused(answer.body.lines().last().unwrap_or_default().to_owned()));
        }
        let mut text = String::new();
        for chunk in answer.body.lines().filter_map(|line| line.strip_prefix("data: ")) {
            if let Ok(chunk) = serde_json::from_str::<Value>(chunk) {
                text.push_str(chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default());
            }
        }
        Ok(json!({"role": "assistant", "content": text}))
    }

    fn say(&mut self, client: &Client, text: &str, key: Option<&str>, stream: bool) -> Result<(), Broken> {
        let base = self.base();
        self.expect(base, &[said("user", text), ("assistant".into(), None)]);
        let messages = json!([{"role": "user", "content": text}]);
        let message = self.ask(client, "delta", &messages, text, key, stream)?;
        self.list.push(("user".into(), text.to_owned()));
        self.answered(&message);
        Ok(())
    }

    fn answered(&mut self, message: &Value) {
        self.list.push(("assistant".into(), message["content"].as_str().unwrap_or_default().to_owned()));
        self.open_call = message["tool_calls"][0]["id"].as_str().map(str::to_owned);
        self.maybe.clear();
    }

    /// Sends the result of a call that waits for it.
    fn answer_call(&mut self, client: &Client) -> Result<(), Broken> {
        let Some(id) = self.open_call.take() else { return Ok(()) };
        let current = self.list.iter().rev().find(|(role, _)| role == "user").map(|(_, text)| text.clone());
        let result = self.short_text();
        let base = self.base();
        self.maybe.clear();
        self.expect(base, &[said("tool", &result), ("assistant".into(), None)]);
        let messages = json!([{"role": "tool", "tool_call_id": id, "content": result}]);
        let message = self.ask(client, "delta", &messages, &current.unwrap_or_default(), None, false)?;
        self.list.push(("tool".into(), result));
        self.answered(&message);
        Ok(())
    }

    /// A message with the whole history before it: a new one, one that is said differently, or the last answer again.
    fn edit(&mut self, client: &Client) -> Result<(), Broken> {
        let users: Vec<usize> = (0..self.list.len()).filter(|at| self.list[*at].0 == "user").collect();
        let (kept, text) = match self.random.below(4) {
            0 if !users.is_empty() => (users[self.random.below(users.len())], self.short_text()),
            1 if self.list.last().is_some_and(|(role, _)| role == "assistant") => {
                let last = users[users.len() - 1];
                (last, self.list[last].1.clone())
            }
            _ => (self.list.len(), self.short_text()),
        };
        let kept_list: Vec<(String, String)> = self.list[..kept].to_vec();
        let base: Vec<Said> = kept_list.iter().map(|(role, text)| said(role, text)).collect();
        self.expect(base, &[said("user", &text), ("assistant".into(), None)]);
        let mut messages: Vec<Value> =
            kept_list.iter().map(|(role, text)| json!({"role": role, "content": text})).collect();
        messages.push(json!({"role": "user", "content": text}));
        let message = self.ask(client, "full", &Value::Array(messages), &text, None, false)?;
        self.list = kept_list;
        self.list.push(("user".into(), text));
        self.answered(&message);
        Ok(())
    }

    fn compact(&mut self, client: &Client) -> Result<(), Broken> {
        // The messages are the same whether or not it came about.
        let path = format!("/api/sessions/{}/compact", self.key);
        let answer = client.try_post(&path, &[], &json!({})).map_err(|_| Broken::Gone)?;
        if answer.status >= 500 { Err(refused(&answer.body, answer.status)) } else { Ok(()) }
    }

    /// The session is deleted, or begins anew.
    fn end(&mut self, client: &Client) -> Result<(), Broken> {
        self.maybe.push(Vec::new());
        let answer = match self.random.below(2) {
            0 => client.try_delete(&format!("/api/sessions/{}", self.key)),
            _ => client.try_post(&format!("/api/sessions/{}/reset", self.key), &[], &json!({})),
        };
        let answer = answer.map_err(|_| Broken::Gone)?;
        if answer.status != 200 {
            return Err(refused(&answer.body, answer.status));
        }
        self.list.clear();
        self.maybe.clear();
        Ok(())
    }

    /// A task for a child; the messages of this session are the same whatever becomes of it.
    fn spawn(&mut self, client: &Client) -> Result<(), Broken> {
        let body = json!({"task": self.text(4), "wait": self.random.below(2) == 0});
        let path = format!("/api/sessions/{}/subagents", self.key);
        let answer = client.try_post(&path, &[], &body).map_err(|_| Broken::Gone)?;
        if answer.status >= 400 { Err(refused(&answer.body, answer.status)) } else { Ok(()) }
    }

    /// Whatever waits for the engine is given up; the messages are the same.
    fn repair(&mut self, client: &Client) -> Result<(), Broken> {
        let path = format!("/api/sessions/{}/repair", self.key);
        let body = json!({"action": "drop", "waiting": true});
        let answer = client.try_post(&path, &[], &body).map_err(|_| Broken::Gone)?;
        if answer.status >= 500 { Err(refused(&answer.body, answer.status)) } else { Ok(()) }
    }

    /// Compares with what is stored, and goes on from there.
    pub(crate) fn check(&mut self, client: &Client, what: &str) {
        let stored = transcript(client, &self.key);
        let same = |wanted: &[Said]| {
            wanted.len() == stored.len()
                && wanted
                    .iter()
                    .zip(&stored)
                    .all(|((role, text), (there, said))| role == there && text.as_ref().is_none_or(|text| text == said))
        };
        let fits = same(&self.base()) || self.maybe.iter().any(|maybe| same(maybe));
        assert!(
            fits,
            "{what}: session {} is not what its client was told.\n{}\nstored: {}\ntold: {}\nor one of {} with these ends: {:?}",
            self.key,
            differs(&self.list, &stored),
            shown(&stored),
            shown(&self.list),
            self.maybe.len(),
            self.maybe.iter().map(|maybe| (maybe.len(), maybe.last())).collect::<Vec<_>>(),
        );
        self.list = stored;
        self.maybe.clear();
        self.open_call = None;
    }

    /// Sends a request again that was not answered; then takes a turn: the session can be used.
    pub(crate) fn use_again(&mut self, client: &Client, what: &str) {
        if let Some((text, key)) = self.retry.take() {
            let already = self.list.iter().filter(|(_, said)| *said == text).count();
            assert!(already <= 1, "{what}: {text} is there {already} times");
            let message = self
                .ask(client, "delta", &json!([{"role": "user", "content": text}]), &text, Some(&key), false)
                .unwrap_or_else(|broken| panic!("{what}: the retry of {key} failed: {}", broken.why()));
            let stored = transcript(client, &self.key);
            let there = stored.iter().filter(|(_, said)| *said == text).count();
            assert_eq!(there, 1, "{what}: after a retry {text} is there {there} times");
            let answer = message["content"].as_str().unwrap_or_default();
            assert_eq!(stored.last().map(|(_, said)| said.as_str()), Some(answer), "{what}: {}", self.key);
            self.list = stored;
        }
        let text = self.text(3);
        self.say(client, &text, None, false)
            .unwrap_or_else(|broken| panic!("{what}: session {} cannot be used: {}", self.key, broken.why()));
        self.check(client, what);
    }
}

impl Broken {
    fn why(self) -> String {
        match self {
            Broken::Gone => "nobody answers".into(),
            Broken::Refused(why) => why,
        }
    }
}

/// An error must be one: with a code, so that somebody can look it up.
fn refused(body: &str, status: u16) -> Broken {
    let document: Value = serde_json::from_str(body).unwrap_or_default();
    let code = document["error"]["diagnostic"].as_str().unwrap_or_default();
    assert!(code.starts_with("CE"), "an error without a code: {status} {body}");
    Broken::Refused(format!("{status} {body}"))
}

/// Where two lists part.
fn differs(told: &[(String, String)], stored: &[(String, String)]) -> String {
    let at = told.iter().zip(stored).position(|(one, other)| one != other).unwrap_or(told.len().min(stored.len()));
    let around = |list: &[(String, String)]| shown(&list[..list.len().min(at + 4)]);
    format!("they part at {at}: stored there: {}\ntold there: {}", around(stored), around(told))
}

fn shown(list: &[(String, String)]) -> String {
    let skip = list.len().saturating_sub(6);
    let short = |text: &str| text.chars().take(60).collect::<String>();
    let last: Vec<String> = list[skip..].iter().map(|(role, text)| format!("{role}: {}", short(text))).collect();
    format!("{} messages, the last: {last:#?}", list.len())
}

/// The messages that clients have seen, of the active branch.
fn transcript(client: &Client, key: &str) -> Vec<(String, String)> {
    let answer = client.get(&format!("/api/sessions/{key}?limit=5000"));
    if answer.status == 404 {
        return Vec::new();
    }
    assert_eq!(answer.status, 200, "{key}: {}", answer.body);
    let document = answer.json();
    let rows = document["messages"].as_array().expect("messages");
    let internal = |row: &&Value| {
        let message = &row["message"];
        let calls = message["tool_calls"].as_array().map_or(&[][..], Vec::as_slice);
        let peeks = !calls.is_empty() && calls.iter().all(|call| call["function"]["name"] == "peek");
        let peeked = message["tool_call_id"].as_str().is_some_and(|id| id.starts_with("peek"));
        // An engine that rewrites a note takes its name.
        let text = row["text"].as_str().unwrap_or_default();
        let note = text.starts_with("[Result of the subagent ") || text.starts_with("[The subagent ");
        row["role"] == "compaction" || peeks || peeked || note
    };
    rows.iter()
        .filter(|row| !internal(row))
        .map(|row| {
            // An engine may have put a space behind it.
            let text = |name: &str| row[name].as_str().unwrap_or_default().trim_end().to_owned();
            (text("role"), text("text"))
        })
        .collect()
}

/// Answers with a text that no other answer has, and wants tools where it is asked to.
pub(crate) fn scripted() -> MockModel {
    let count = AtomicU64::new(0);
    MockModel::start(move |request, stream| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        let Some(current) = request["metadata"]["current"].as_str() else {
            return model::answer(request, stream, "## Goal\nThey talk.\n\n## State\nThey go on.");
        };
        let messages = request["messages"].as_array().map_or(&[][..], Vec::as_slice);
        let fresh = messages.last().is_some_and(|last| last["role"] == "user");
        let wanted = match () {
            () if current.starts_with("please look") => Some("look"),
            () if current.starts_with("please peek") => Some("peek"),
            () => None,
        };
        // While another engine serves, its tools are not offered.
        let offered = |tool: &&str| {
            let tools = request["tools"].as_array().map_or(&[][..], Vec::as_slice);
            tools.iter().any(|known| known["function"]["name"] == *tool)
        };
        match wanted.filter(|_| fresh).filter(offered) {
            Some(tool) => {
                let call = json!({"index": 0, "id": format!("{tool}-{number}"), "type": "function",
                    "function": {"name": tool, "arguments": "{}"}});
                if request["stream"] == true {
                    model::stream_head(stream);
                    model::chunk(stream, json!({"role": "assistant", "tool_calls": [call]}), Value::Null);
                    model::chunk(stream, json!({}), json!("tool_calls"));
                    model::stream_end(stream);
                } else {
                    let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
                    model::message(stream, message, "tool_calls");
                }
            }
            None => model::answer(request, stream, &format!("answer {number}")),
        }
    })
}

/// The state folder of one batch.
struct Batch {
    setup: Setup,
    model: MockModel,
    plan: PathBuf,
    sessions: Vec<Session>,
}

/// How the engine of a batch is configured.
fn engines() -> Vec<Value> {
    let peek = json!([{"name": "peek", "answer": "it is there"}]);
    vec![
        json!({"tools": peek}),
        json!({"tools": peek, "owns_compaction": true, "compact": "own"}),
        json!({"tools": peek, "background": true, "turns": 5}),
        json!({"tools": peek, "owns_compaction": true, "compact": "rotate"}),
        json!({"tools": peek, "do": {"maintain": ["rewrite-some"]}}),
    ]
}

/// The engine fails at the hook that the file `trip` names.
fn tripping(config: &Value, folder: &std::path::Path) -> Value {
    let mut config = config.clone();
    config["trip"] = json!(folder.join("trip"));
    config
}

impl Batch {
    fn new(number: usize, rounds: &Rounds) -> Batch {
        let model = scripted();
        let engines = engines();
        let setup = Setup::new();
        let plan = setup.path().join("fail");
        let setup_path = setup.path().to_path_buf();
        let setup = setup
            .recorder(&tripping(&engines[number % engines.len()], &setup_path))
            .isolation(rounds.isolation)
            .toml(&model.toml(WINDOW))
            .toml("[compaction]\nkeep_recent_tokens = 400\nreserve_tokens = 300\n")
            // An engine in whose calls the gateway is killed again and again would be taken for the culprit.
            .killed_often()
            .env("ENGINEROOM_FAIL_FILE", &plan);
        let seed = rounds.seed.wrapping_mul(1_000_003) + number as u64;
        let sessions = MANNERS.iter().enumerate().map(|(n, manner)| Session::new(n, *manner, seed)).collect();
        Batch { setup, model, plan, sessions }
    }

    fn arm(&self, plan: &str) {
        let half = self.plan.with_extension("half");
        std::fs::write(&half, format!("{plan};store.checkpoint.soon=error@*")).expect("the plan");
        std::fs::rename(&half, &self.plan).expect("its name");
    }

    fn disarm(&self) {
        let _ = std::fs::remove_file(&self.plan);
    }

    /// What earlier rounds left is what the clients were told.
    fn check(&mut self, gateway: &Gateway, what: &str) {
        let store = gateway.client().get("/api/store?check=true").json();
        assert_eq!(store["problems"], json!([]), "{what}: {store}");
        assert_eq!(store["status"], "ok", "{what}: {store}");
        for session in &mut self.sessions {
            session.check(gateway.client(), what);
            session.use_again(gateway.client(), what);
        }
    }

    /// Lets the clients talk until the gateway is gone or they have said enough; gives what was acknowledged and what not.
    fn load(&mut self, gateway: &Gateway, kill_after: Option<usize>) -> (usize, usize) {
        let (acknowledged, broken) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let gone = AtomicBool::new(false);
        let until = Instant::now() + LOAD_TIME;
        let most = kill_after.unwrap_or(LOAD);
        std::thread::scope(|scope| {
            for session in &mut self.sessions {
                let (client, acknowledged, broken, gone) = (gateway.client(), &acknowledged, &broken, &gone);
                scope.spawn(move || {
                    while !gone.load(Ordering::Acquire) && Instant::now() < until {
                        if kill_after.is_none() && acknowledged.load(Ordering::Acquire) >= most {
                            break;
                        }
                        match session.step(client) {
                            Ok(()) => drop(acknowledged.fetch_add(1, Ordering::AcqRel)),
                            Err(Broken::Gone) => {
                                broken.fetch_add(1, Ordering::AcqRel);
                                gone.store(true, Ordering::Release);
                            }
                            Err(Broken::Refused(_)) => {
                                broken.fetch_add(1, Ordering::AcqRel);
                                // Somebody failed, and the gateway goes on: so does the client.
                                if session.resync(client).is_err() {
                                    gone.store(true, Ordering::Release);
                                }
                            }
                        }
                    }
                });
            }
            if kill_after.is_some() {
                while acknowledged.load(Ordering::Acquire) < most
                    && !gone.load(Ordering::Acquire)
                    && Instant::now() < until
                {
                    std::thread::sleep(Duration::from_micros(200));
                }
                gateway.signal("KILL");
            }
        });
        (acknowledged.into_inner(), broken.into_inner())
    }

    /// A gateway that nothing disturbs takes everything over, and ends.
    fn end(mut self, what: &str) -> usize {
        self.disarm();
        let mut gateway = self.setup.start();
        self.check(&gateway, what);
        let settled = Instant::now() + PATIENCE;
        loop {
            let engine = gateway.client().get("/api/engines/recorder").json();
            if engine["outbox"]["waiting"].as_u64().unwrap_or(0) == 0 {
                break;
            }
            assert!(Instant::now() < settled, "{what}: the outbox is not empty: {engine:#}");
            if engine["state"] != "ready" {
                // On a machine without time even a sound engine misses a deadline; what waits for it waits for the next start.
                eprintln!("{what}: the engine is out: {}", engine["quarantine"]);
                let _status = gateway.stop();
                gateway = self.setup.start();
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let (status, said) = gateway.stop_and_hear();
        assert!(status.success(), "{what}: {said}");
        self.committed(what)
    }

    /// No turn was committed twice to the engine, and every accepted one once.
    fn committed(&self, what: &str) -> usize {
        let mut committed = HashSet::new();
        for line in self.setup.calls().lines_leniently() {
            if line["did"] == "commit" && line["result"] == "Committed" {
                let key = format!("{} {}", line["engine"], line["advancementKey"]);
                assert!(committed.insert(key), "{what}: a turn was taken over twice: {line}");
            }
        }
        assert!(!committed.is_empty(), "{what}: no turn was ever taken over");
        committed.len()
    }
}

impl Session {
    /// After an error: the session is free, and is one of what it may be.
    fn resync(&mut self, client: &Client) -> Result<(), Broken> {
        // What was queued before an acknowledged turn of any session is written: the queue is one.
        let mut settled = false;
        for _ in 0..5 {
            let other = client.try_say(&format!("{}-beside", self.key), "Done?").map_err(|_| Broken::Gone)?;
            settled |= other.status == 200;
            if settled {
                break;
            }
        }
        assert!(settled, "after an error in {}: no other session can be used either", self.key);
        // It may be killed in between: then the next start looks.
        let stored = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| transcript(client, &self.key)));
        if client.try_get("/healthz").is_err() {
            return Err(Broken::Gone);
        }
        if stored.is_ok() {
            self.check(client, "after an error");
        }
        Ok(())
    }
}

/// Where a point is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Start,
    Load,
    Stop,
}

fn phase(point: &str) -> Phase {
    let is = |prefixes: &[&str]| prefixes.iter().any(|prefix| point.starts_with(prefix));
    if is(&["store.open.", "store.migrate.", "gateway.store_opened", "gateway.started", "outbox.recover."]) {
        Phase::Start
    } else if is(&["gateway.drained", "gateway.before_close", "store.close."]) {
        Phase::Stop
    } else {
        Phase::Load
    }
}

/// Runs rounds. Panics at the first thing that does not hold, with what is needed to see it again.
pub fn rounds(rounds: &Rounds) -> Tally {
    let points = failpoints();
    let mut tally = Tally::default();
    let mut batch: Option<Batch> = None;
    for round in 0..rounds.number {
        let mut random = Random::new(rounds.seed, round as u64);
        let mut now = batch.take().unwrap_or_else(|| Batch::new(round / BATCH, rounds));
        let what = format!("seed {}, {:?}, round {round}", rounds.seed, rounds.kill);
        match rounds.kill {
            Kill::Moment => {
                now.disarm();
                let gateway = now.setup.start();
                now.check(&gateway, &what);
                now.arm("");
                let (acknowledged, broken) = now.load(&gateway, Some(random.below(24)));
                gateway.kill();
                tally.acknowledged += acknowledged;
                tally.broken += broken;
            }
            Kill::Point => {
                // Each point in turn, so that none is left out; then at random.
                let named = std::env::var("CRASH_POINT").ok();
                let point = match named.as_ref().or_else(|| points.get(round + (rounds.seed as usize - 1) * 7)) {
                    Some(point) => point.clone(),
                    None => points[random.below(points.len())].clone(),
                };
                let what = format!("{what}, {point}");
                if point.starts_with("store.migrate.") && !now.sessions.iter().all(|session| session.list.is_empty()) {
                    // Only a new store is lifted from format to format.
                    tally.committed += now.end(&what);
                    now = Batch::new(round / BATCH, rounds);
                }
                let ended = one(&mut now, &point, &mut random, &what, &mut tally);
                let (there, by) = tally.points.entry(point).or_default();
                if ended { *there += 1 } else { *by += 1 }
            }
        }
        tally.rounds += 1;
        now.model.forget();
        if (round + 1) % BATCH == 0 || round + 1 == rounds.number {
            tally.committed += now.end(&what);
        } else {
            batch = Some(now);
        }
        if tally.rounds % 20 == 0 {
            eprintln!("{} rounds, {} acknowledged, {} broken", tally.rounds, tally.acknowledged, tally.broken);
        }
    }
    tally
}

/// One round at a point; true when it struck.
fn one(batch: &mut Batch, point: &str, random: &mut Random, what: &str, tally: &mut Tally) -> bool {
    let chosen = random.below(10);
    let named = std::env::var("CRASH_ACTION").ok();
    let action = match chosen {
        _ if named.is_some() => named.as_deref().unwrap_or_default(),
        0..=5 => "kill",
        6..=7 => "error",
        8 => "panic",
        _ => "sleep:30",
    };
    let struck = |batch: &Batch| batch.plan.with_extension("struck").exists();
    let _ = std::fs::remove_file(batch.plan.with_extension("struck"));
    if phase(point) == Phase::Start {
        let action = if action == "panic" { "kill" } else { action };
        batch.arm(&format!("{point}={action}"));
        match Gateway::try_start(&batch.setup) {
            Ok(gateway) => {
                std::thread::sleep(Duration::from_millis(100));
                gateway.kill();
            }
            Err(said) if action == "error" => {
                assert!(said.contains("error[CE") && !said.contains("panicked"), "{what}: {said}");
            }
            Err(_) => {}
        }
        batch.disarm();
        let gateway = batch.setup.start();
        batch.check(&gateway, what);
        gateway.kill();
        return struck(batch);
    }
    batch.disarm();
    let mut gateway = batch.setup.start();
    batch.check(&gateway, what);
    if phase(point) == Phase::Stop {
        let (acknowledged, broken) = batch.load(&gateway, None);
        tally.acknowledged += acknowledged;
        tally.broken += broken;
        batch.arm(&format!("{point}=kill"));
        gateway.signal("TERM");
        let until = Instant::now() + PATIENCE;
        while gateway.is_alive() {
            assert!(Instant::now() < until, "{what}: it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        batch.disarm();
        return struck(batch);
    }
    if point == "outbox.blame" {
        std::fs::write(batch.setup.path().join("trip"), "commit_turn").expect("the trip");
    }
    let when = 1 + random.below(3);
    let room = point.split('.').next().unwrap_or_default();
    batch.sessions.iter_mut().for_each(|session| room.clone_into(&mut session.wanted));
    batch.arm(&format!("{point}={action}@{when}"));
    let (acknowledged, broken) = batch.load(&gateway, None);
    tally.acknowledged += acknowledged;
    tally.broken += broken;
    if action != "kill" {
        // It goes on, whatever failed.
        batch.disarm();
        assert!(gateway.is_alive(), "{what}: {action} ended it: {}", gateway.stderr());
        let healed = Instant::now() + PATIENCE;
        loop {
            let ready = gateway.client().get("/readyz");
            if ready.status == 200 {
                break;
            }
            assert!(Instant::now() < healed, "{what}: {action}: not ready again: {}", ready.body);
            std::thread::sleep(Duration::from_millis(50));
        }
        batch.check(&gateway, &format!("{what} ({action})"));
    }
    gateway.kill();
    struck(batch)
}

/// The tally in lines.
pub fn shown_tally(rounds: &Rounds, tally: &Tally) -> String {
    let missed: Vec<&str> =
        tally.points.iter().filter(|(_, (there, _))| *there == 0).map(|(point, _)| point.as_str()).collect();
    format!(
        "{} rounds of {:?} with isolation {}: {} operations acknowledged, {} broken off, {} turns committed; points: {} struck, \
         never reached: {missed:?}",
        tally.rounds,
        rounds.kill,
        rounds.isolation,
        tally.acknowledged,
        tally.broken,
        tally.committed,
        tally.points.len() - missed.len(),
    )
}
