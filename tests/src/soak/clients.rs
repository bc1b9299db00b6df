//! Clients: they talk, stream, break off, edit, regenerate, use tools, flood, and hang up in the middle of a request.

use super::Faults;
use crate::Client;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Sessions of one client.
const SESSIONS: u64 = 4;
/// A session that is longer is deleted: what grows must be the gateway's own doing.
const LONGEST: usize = 24;
/// Requests of a flood at once.
const FLOOD: usize = 12;
/// Longest wait for a piece of a stream.
const PATIENCE: Duration = Duration::from_secs(120);

/// Numbers that repeat with their seed.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Below `most`.
    pub(super) fn roll(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// All clients of a gateway.
pub(super) struct Load {
    client: Client,
    faults: Arc<Faults>,
    sessions: Mutex<BTreeSet<String>>,
    /// When a whole turn began and how long it took, in ms.
    turns: Mutex<Vec<(Duration, f64)>>,
    counts: [AtomicU64; NAMES.len()],
}

const NAMES: [&str; 9] =
    ["turns", "streams", "broken off", "regenerated", "edited", "tool loops", "floods", "half requests", "deleted"];

/// A session as its client knows it: what was said and answered; `None` after a turn whose end it did not see.
struct Known {
    key: String,
    said: Option<Vec<Value>>,
}

impl Load {
    pub(super) fn new(client: Client, faults: Arc<Faults>) -> Load {
        Load {
            client,
            faults,
            sessions: Mutex::default(),
            turns: Mutex::default(),
            counts: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Every session that anybody used.
    pub(super) fn sessions(&self) -> Vec<String> {
        self.sessions.lock().expect("sessions").iter().cloned().collect()
    }

    /// Whole turns: when they began, how long they took.
    pub(super) fn turns(&self) -> Vec<(Duration, f64)> {
        self.turns.lock().expect("turns").clone()
    }

    /// How much was done, in one line.
    pub(super) fn told(&self) -> String {
        let counts = NAMES.iter().zip(&self.counts);
        let counts: Vec<String> =
            counts.map(|(name, count)| format!("{} {name}", count.load(Ordering::Relaxed))).collect();
        format!("clients: {}", counts.join(", "))
    }

    fn count(&self, name: &str) {
        let at = NAMES.iter().position(|known| *known == name).expect("a known name");
        self.counts[at].fetch_add(1, Ordering::Relaxed);
    }

    /// One client, until `stop`.
    pub(super) fn run(&self, number: usize, seed: u64, began: Instant, stop: &AtomicBool) {
        let mut dice = Dice::new(seed + 1 + number as u64);
        let mut known: Vec<Known> = (0..SESSIONS)
            .map(|session| Known { key: format!("agent:main:soak-{number}-{session}"), said: Some(Vec::new()) })
            .collect();
        let mut turn = 0_u64;
        while !stop.load(Ordering::Relaxed) {
            turn += 1;
            let session = &mut known[usize::try_from(dice.roll(SESSIONS)).expect("a small number")];
            self.sessions.lock().expect("sessions").insert(session.key.clone());
            let text = format!("message {turn} of client {number} about the harbour and its ships");
            if session.said.as_ref().is_some_and(|said| said.len() >= LONGEST) || session.said.is_none() {
                self.delete(session);
                continue;
            }
            match dice.roll(100) {
                0..45 => self.say(session, &text, began),
                45..60 => self.stream(session, &text),
                60..68 => self.break_off(session, &text, dice.roll(400)),
                68..75 => self.regenerate(session),
                75..82 => self.edit(session, &text),
                82..88 => self.tool(session, &text),
                88..92 => self.flood(number),
                92..96 => self.half(dice.roll(3)),
                _ => self.look(session),
            }
        }
    }

    fn ask(&self, key: &str, messages: &Value, more: &[(&str, Value)], full: bool) -> Option<Value> {
        let mut body = json!({"model": "test", "messages": messages});
        for (name, value) in more {
            body[*name] = value.clone();
        }
        let mut headers = vec![("x-engineroom-session", key)];
        if full {
            headers.push(("x-engineroom-history", "full"));
        }
        match self.client.try_post("/v1/chat/completions", &headers, &body) {
            Ok(answer) if answer.status == 200 => Some(answer.json()["choices"][0]["message"].clone()),
            Ok(answer) => {
                self.faults.note(format!("a turn of {key}: {} {}", answer.status, answer.body));
                None
            }
            Err(error) => {
                self.faults.note(format!("a turn of {key}: {error}"));
                None
            }
        }
    }

    /// The answer to `text` is what it must be, and is known from now on.
    fn learn(&self, session: &mut Known, text: &str, answer: Option<Value>) {
        let Some(answer) = answer else {
            session.said = None;
            return;
        };
        if answer["content"] != format!("re: {text}") {
            self.faults.note(format!("the answer to {text:?} is {answer}"));
        }
        if let Some(said) = &mut session.said {
            said.push(json!({"role": "user", "content": text}));
            said.push(json!({"role": "assistant", "content": answer["content"]}));
        }
    }

    fn say(&self, session: &mut Known, text: &str, began: Instant) {
        let since = Instant::now();
        let answer = self.ask(&session.key, &json!([{"role": "user", "content": text}]), &[], false);
        let took = since.elapsed().as_secs_f64() * 1e3;
        self.turns.lock().expect("turns").push((since.duration_since(began), took));
        self.count("turns");
        self.learn(session, text, answer);
    }

    /// A request on a connection of its own.
    fn connection(&self, key: &str, text: &str) -> std::io::Result<TcpStream> {
        let mut connection = TcpStream::connect(self.client.address())?;
        connection.set_read_timeout(Some(PATIENCE))?;
        let body =
            json!({"model": "test", "stream": true, "messages": [{"role": "user", "content": text}]}).to_string();
        write!(
            connection,
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\nconnection: close\r\nx-engineroom-session: {key}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.client.address(),
            body.len()
        )?;
        Ok(connection)
    }

    fn stream(&self, session: &mut Known, text: &str) {
        let mut answer = String::new();
        let read = self.connection(&session.key, text).and_then(|mut stream| stream.read_to_string(&mut answer));
        self.count("streams");
        if let Err(error) = read {
            self.faults.note(format!("a stream of {}: {error}", session.key));
        }
        if !answer.contains("data: [DONE]") {
            self.faults.note(format!("a stream of {} has no end: {answer}", session.key));
            session.said = None;
            return;
        }
        let pieces = answer.lines().filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
        let said: String =
            pieces.filter_map(|piece| Some(piece["choices"][0]["delta"]["content"].as_str()?.to_owned())).collect();
        self.learn(session, text, Some(json!({"content": said})));
    }

    /// Goes away after some bytes of the answer.
    fn break_off(&self, session: &mut Known, text: &str, bytes: u64) {
        self.count("broken off");
        session.said = None;
        if let Ok(stream) = self.connection(&session.key, text) {
            let mut some = Vec::new();
            // How much comes is of no interest.
            let _ = stream.take(bytes).read_to_end(&mut some);
        }
    }

    fn regenerate(&self, session: &mut Known) {
        let Some(said) = session.said.as_mut().filter(|said| said.len() >= 2) else { return };
        said.pop();
        let messages = Value::from(said.clone());
        let Some(Value::String(text)) = said.pop().map(|last| last["content"].clone()) else { return };
        self.count("regenerated");
        let answer = self.ask(&session.key, &messages, &[], true);
        self.learn(session, &text, answer);
    }

    /// Changes what was said two turns ago, or last.
    fn edit(&self, session: &mut Known, text: &str) {
        let Some(said) = session.said.as_mut().filter(|said| said.len() >= 2) else { return };
        said.truncate(said.len().saturating_sub(4) & !1);
        let mut messages = said.clone();
        messages.push(json!({"role": "user", "content": text}));
        self.count("edited");
        let answer = self.ask(&session.key, &Value::from(messages), &[], true);
        self.learn(session, text, answer);
    }

    fn tool(&self, session: &mut Known, text: &str) {
        let tools = json!([{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]);
        let asked = json!([{"role": "user", "content": text}]);
        let call = self.ask(&session.key, &asked, &[("tools", tools)], false);
        session.said = None;
        self.count("tool loops");
        let Some(call) = call else { return };
        if call["tool_calls"][0]["id"] != "call_1" {
            self.faults.note(format!("no tool call in {call}"));
            return;
        }
        let result = json!([{"role": "tool", "tool_call_id": "call_1", "content": "three ships"}]);
        if let Some(answer) = self.ask(&session.key, &result, &[], false)
            && answer["content"] != "re: three ships"
        {
            self.faults.note(format!("the answer to a tool's result is {answer}"));
        }
    }

    /// Many at once to one session: each is answered, or refused for want of a place.
    fn flood(&self, number: usize) {
        let key = format!("agent:main:flood-{number}");
        self.sessions.lock().expect("sessions").insert(key.clone());
        self.count("floods");
        std::thread::scope(|scope| {
            for request in 0..FLOOD {
                let key = &key;
                scope.spawn(move || match self.client.try_say(key, &format!("flood {request}")) {
                    Ok(answer) if [200, 429, 503].contains(&answer.status) => {}
                    Ok(answer) => self.faults.note(format!("a flood: {} {}", answer.status, answer.body)),
                    Err(error) => self.faults.note(format!("a flood: {error}")),
                });
            }
        });
        self.client.delete(&format!("/api/sessions/{}", key.replace(':', "%3A")));
    }

    /// Says a part of a request and hangs up.
    fn half(&self, how: u64) {
        self.count("half requests");
        let Ok(mut connection) = TcpStream::connect(self.client.address()) else { return };
        let part: &[u8] = match how {
            0 => b"POST /v1/chat/comp",
            1 => {
                b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100\r\n\r\n{\"messages\": ["
            }
            _ => b"\x16\x03\x01 this is not HTTP\r\n\r\n",
        };
        // The gateway may have closed it; that is its right.
        let _ = connection.write_all(part);
    }

    fn look(&self, session: &Known) {
        let key = session.key.replace(':', "%3A");
        for path in ["/metrics", "/api/engines", "/readyz", "/api/sessions", &format!("/api/sessions/{key}/context")] {
            let answer = self.client.get(path);
            // A session may have no turn yet, and an engine that fails cannot be looked at.
            if ![200, 404, 409].contains(&answer.status) {
                self.faults.note(format!("{path}: {} {}", answer.status, answer.body));
            }
        }
    }

    fn delete(&self, session: &mut Known) {
        self.count("deleted");
        let answer = self.client.delete(&format!("/api/sessions/{}", session.key.replace(':', "%3A")));
        if answer.status != 200 && answer.status != 404 {
            self.faults.note(format!("{} is not deleted: {} {}", session.key, answer.status, answer.body));
        }
        session.said = Some(Vec::new());
    }
}
