//! The engine `recall` in the real gateway: what a model gets of it through its tools, whatever happens to the process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::{Client, Gateway, MockModel, Setup, model};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A window in which a conversation of these tests does not fit.
const NARROW: u32 = 3_000;
const ISOLATIONS: [&str; 2] = ["in-process", "process"];

/// A model that calls the tool that it is told to (`CALL name arguments`) and repeats what that says; else it agrees.
fn obedient() -> MockModel {
    MockModel::start(|request, stream| {
        let messages = request["messages"].as_array().unwrap();
        let last = messages.last().unwrap();
        if last["role"] == "tool" {
            return model::answer(request, stream, last["content"].as_str().unwrap());
        }
        let asked = last["content"].as_str().unwrap_or_default();
        match asked.rsplit_once("CALL ").and_then(|(_, call)| call.split_once(' ')) {
            Some((name, arguments)) => {
                let call = json!({"id": "call-1", "type": "function",
                    "function": {"name": name, "arguments": arguments}});
                model::message(
                    stream,
                    json!({"role": "assistant", "content": null, "tool_calls": [call]}),
                    "tool_calls",
                );
            }
            None => model::answer(request, stream, "Agreed."),
        }
    })
}

fn setup(model: &MockModel, isolation: &'static str) -> Setup {
    Setup::new().isolation(isolation).library("recall").select("recall").toml(&model.toml(NARROW)).killed_often()
}

/// Has the model call a tool; gives what it said.
fn call(client: &Client, session: &str, name: &str, arguments: Value) -> String {
    let answer = client.say(session, &format!("CALL {name} {arguments}"));
    assert_eq!((answer.engine(), answer.degraded()), (Some("recall"), None), "{answer:?}");
    answer.text()
}

fn say(client: &Client, session: &str, text: &str) {
    let answer = client.say(session, text);
    assert_eq!((answer.status, answer.engine(), answer.degraded()), (200, Some("recall"), None), "{answer:?}");
}

/// All that is kept of a session, from the first message on, as long as it is not new.
fn read(client: &Client, session: &str, last: usize) -> String {
    let (mut all, mut left) = (String::new(), format!("1-{last}"));
    loop {
        let answer = call(client, session, "recall_expand", json!({"numbers": left}));
        let (shown, rest) = answer.split_once("Not shown yet: ").unwrap_or((&answer, ""));
        all.push_str(shown);
        if rest.is_empty() {
            return all;
        }
        left = rest.trim_end_matches(['.', '\n']).to_owned();
    }
}

#[test]
fn what_is_not_shown_any_more_is_found_again_also_after_a_restart() {
    for isolation in ISOLATIONS {
        let model = obedient();
        let setup = setup(&model, isolation);
        let gateway = setup.start();
        let client = gateway.client();
        say(client, "trip", "The ferry Alcyone leaves from pier 41 at 06:15.");
        for turn in 0..12 {
            say(client, "trip", &format!("Filler {turn}: {}", "the weather is as it is. ".repeat(40)));
        }
        let shown = model.requests().pop().unwrap().to_string().matches("the weather is as it is.").count();
        assert!((40..11 * 40).contains(&shown), "{isolation}: {shown} sentences of 480 are shown");

        let by_words = json!({"query": "when does the ferry Alcyone leave?"});
        let found = call(client, "trip", "recall_search", by_words);
        assert!(found.contains("\n1 · ") && found.contains("> The ferry Alcyone leaves from pier 41"), "{found}");
        let by_pattern = json!({"mode": "regex", "query": r"pier\s\d+", "role": "user", "limit": 3});
        let found = call(client, "trip", "recall_search", by_pattern.clone());
        assert!(found.contains("pier 41"), "{found}");
        let before = read(client, "trip", 26);
        assert!(before.contains("> The ferry Alcyone leaves from pier 41 at 06:15.\n"), "{before}");
        assert!(gateway.stop().success());

        let gateway = setup.start();
        assert_eq!(read(gateway.client(), "trip", 26), before, "{isolation}");
        gateway.kill();
        let gateway = setup.start();
        assert_eq!(read(gateway.client(), "trip", 26), before, "{isolation}");

        // A session that is deleted is gone, and one of the same name knows nothing of it.
        let client = gateway.client();
        assert_eq!(client.delete("/api/sessions/trip").status, 200);
        say(client, "trip", "A new trip.");
        let found = call(client, "trip", "recall_search", json!({"mode": "regex", "query": "alcyone|filler"}));
        assert!(found.contains("Nothing matches"), "{found}");
        assert_eq!(read(client, "trip", 2).matches("\n> ").count(), 2);
        assert!(gateway.stop().success());
    }
}

#[test]
fn a_session_that_another_engine_served_is_caught_up_with() {
    let model = obedient();
    let setup = Setup::new().library("window").library("recall").toml(&model.toml(NARROW)).select("window");
    let gateway = setup.start();
    for turn in 0..6 {
        assert_eq!(gateway.client().say("s", &format!("Fact {turn} is kept.")).engine(), Some("window"));
    }
    assert!(gateway.stop().success());
    let setup = setup.select("recall");
    let gateway = setup.start();
    let read = read(gateway.client(), "s", 12);
    for turn in 0..6 {
        assert_eq!(read.matches(&format!("> Fact {turn} is kept.")).count(), 1, "{read}");
    }
}

#[test]
fn a_fork_finds_what_its_parent_knows_and_an_isolated_child_does_not() {
    let model = obedient();
    let gateway = setup(&model, "in-process").start();
    let client = gateway.client();
    let parent = "agent:main:desk";
    say(client, parent, "Never book a flight before noon.");
    say(client, parent, "The code of the shed is 7341.");
    let pins = call(client, parent, "recall_pin", json!({"action": "list"}));
    assert!(pins.contains("> Never book a flight before noon."), "{pins}");
    let child = |mode: &str, tool: &str, arguments: Value| -> String {
        let task = format!("CALL {tool} {arguments}");
        let body = json!({"task": task, "mode": mode, "wait": true});
        let answer = client.post(&format!("/api/sessions/{parent}/subagents"), &[], &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        let done = answer.json();
        done["result"].as_str().unwrap_or_else(|| panic!("{done}")).to_owned()
    };
    let list = json!({"action": "list"});
    let code = json!({"mode": "regex", "query": "shed is \\d+"});
    assert!(child("fork", "recall_pin", list.clone()).contains("> Never book a flight before noon."));
    assert!(child("fork", "recall_search", code.clone()).contains("> The code of the shed is 7341."));
    assert_eq!(child("isolated", "recall_pin", list).trim(), "Nothing is pinned.");
    assert!(child("isolated", "recall_search", code).contains("Nothing matches"));
}

/// What one client said, and what of it was acknowledged.
struct Talker {
    session: String,
    said: u32,
    acknowledged: Vec<String>,
}

impl Talker {
    /// Talks until the gateway is gone.
    fn talk(&mut self, gateway: &Gateway, gone: &AtomicBool) {
        while !gone.load(Ordering::Acquire) {
            self.said += 1;
            let text = format!("{} says word{} here.", self.session, self.said);
            match gateway.client().try_say(&self.session, &text) {
                Ok(answer) if answer.status == 200 => self.acknowledged.push(text),
                _ => return,
            }
        }
    }

    /// Everything that was acknowledged is found, once. Gives all that was found.
    fn check(&self, gateway: &Gateway) -> String {
        let (mut all, mut page) = (String::new(), 1);
        loop {
            let arguments =
                json!({"mode": "regex", "query": r"says word\d+ here", "role": "user", "limit": 30, "page": page});
            let found = call(gateway.client(), &self.session, "recall_search", arguments);
            all.push_str(&found);
            if !found.contains("There are more") {
                break;
            }
            page += 1;
        }
        for text in &self.acknowledged {
            assert_eq!(all.matches(&format!("\n> {text}\n")).count(), 1, "{text}: {all}");
        }
        all
    }
}

fn killed(isolation: &'static str, rounds: u32) {
    let model = obedient();
    let setup = setup(&model, isolation);
    let mut talkers: Vec<Talker> = ["ada", "ben", "cleo"]
        .map(|name| Talker { session: format!("agent:main:{name}"), said: 0, acknowledged: Vec::new() })
        .into();
    for round in 0..rounds {
        let gateway = setup.start();
        if round > 0 {
            talkers.iter().for_each(|talker| drop(talker.check(&gateway)));
        }
        let gone = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for talker in &mut talkers {
                let (gateway, gone) = (&gateway, &gone);
                scope.spawn(move || talker.talk(gateway, gone));
            }
            let until = Instant::now() + Duration::from_millis(250 + u64::from(round * 137) % 400);
            while Instant::now() < until {
                std::thread::sleep(Duration::from_millis(5));
            }
            gateway.signal("KILL");
            gone.store(true, Ordering::Release);
        });
        drop(gateway);
    }
    assert!(talkers.iter().all(|talker| !talker.acknowledged.is_empty()));
    let gateway = setup.start();
    let lived: Vec<String> = talkers.iter().map(|talker| talker.check(&gateway)).collect();
    assert!(gateway.stop().success());
    let gateway = setup.start();
    for (talker, lived) in talkers.iter().zip(lived) {
        let read = talker.check(&gateway);
        assert_eq!(read, lived, "{isolation}, {}", talker.session);
    }
    assert!(gateway.stop().success());
}

#[test]
fn killed_at_any_moment_it_has_every_word_that_was_acknowledged() {
    killed("in-process", 4);
}

#[test]
fn killed_at_any_moment_with_its_worker_it_has_every_word_that_was_acknowledged() {
    killed("process", 3);
}
