//! A shadow engine watches the slot: fed and asked like the one that serves, and felt by nobody.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::model::message;
use engineroom_tests::{Client, MockModel, Setup};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const SHADOW: &str = "[plugins.policy.contextEngine]\nshadow = \"recorder\"\n";

/// `window` serves, and `recorder` with this configuration watches.
fn watched(config: &Value) -> Setup {
    Setup::new().recorder(config).library("window").select("window").toml(SHADOW)
}

fn turns(client: &Client, session: &str) -> Vec<Value> {
    client.get(&format!("/api/sessions/{session}/turns")).json()["turns"].as_array().unwrap().clone()
}

/// Waits until the newest `count` turns tell what the shadow made of them; newest first.
fn told(client: &Client, session: &str, count: usize) -> Vec<Value> {
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let turns = turns(client, session);
        if turns.len() >= count && turns.iter().take(count).all(|turn| turn["shadow"].is_object()) {
            return turns;
        }
        assert!(Instant::now() < until, "the shadow was not told of: {turns:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Says something, and waits until the shadow is through with it.
fn say(client: &Client, text: &str) -> Value {
    let answer = client.say("s", text);
    assert_eq!((answer.status, answer.engine(), answer.degraded()), (200, Some("window"), None), "{answer:?}");
    told(client, "s", 1)[0]["shadow"].clone()
}

#[test]
fn it_is_fed_like_the_first_and_what_only_one_would_have_shown_is_told() {
    let setup = watched(&json!({"turns": 1, "system": "ignored"}));
    let gateway = setup.start();
    let client = gateway.client();
    for text in ["One?", "Two?", "Three?"] {
        say(client, text);
    }
    let shadow = told(client, "s", 3)[0]["shadow"].clone();
    assert_eq!(
        (shadow["engine"].as_str(), shadow["outcome"].as_str()),
        (Some("recorder"), Some("compared")),
        "{shadow:#}"
    );
    // Of two earlier turns the shadow would have shown the newer one.
    assert_eq!(
        (shadow["only_first"]["entries"].as_u64(), shadow["both"]["entries"].as_u64()),
        (Some(2), Some(2)),
        "{shadow:#}"
    );
    assert_eq!(shadow["only_shadow"]["entries"], 0);
    assert!(shadow["only_first"]["tokens"].as_u64().unwrap() > 0);
    let span = shadow["only_first"]["spans"][0].as_array().unwrap();
    assert!(span[0].as_u64() < span[1].as_u64(), "{shadow:#}");
    assert!(shadow["additions"]["shadow"].as_u64() > Some(0) && shadow["additions"]["first"] == 0, "{shadow:#}");

    // The same turns in the same order, under the same keys, and nothing else was asked of it.
    let calls = setup.calls();
    assert_eq!(calls.of("commit_turn").len(), 3);
    for hook in ["compact", "maintain", "tools", "call_tool", "after_turn"] {
        assert!(calls.of(hook).is_empty(), "{hook}: {:?}", calls.hooks());
    }
    let prompts: Vec<Value> = calls.of("assemble").iter().map(|call| call["prompt"]["text"].clone()).collect();
    assert_eq!(prompts, ["One?", "Two?", "Three?"]);

    let engine = client.get("/api/engines/recorder").json();
    let summary = &engine["shadow"];
    assert_eq!((summary["compared"].as_u64(), summary["onlyFirstEntries"].as_u64()), (Some(3), Some(2)), "{summary:#}");
    let metrics = client.get("/metrics").body;
    assert!(metrics.contains("engineroom_shadow_turns_total{engine=\"recorder\",outcome=\"compared\"} 3"), "{metrics}");
    assert!(metrics.contains("engineroom_shadow_entries_total{engine=\"recorder\",shown_by=\"first\"} 2"), "{metrics}");
}

#[test]
fn it_assembles_for_the_same_turn_with_the_same_budget_and_the_same_rows() {
    let setup = watched(&json!({}));
    let gateway = setup.start();
    let client = gateway.client();
    say(client, "One?");
    let shadow = say(client, "Two?");
    assert_eq!(shadow["same"], true, "{shadow:#}");
    let turn = &turns(client, "s")[0];
    assert_eq!(shadow["limit"], turn["tokens"]["limit"]);
    let assemble = &setup.calls().of("assemble")[1];
    // The answer is stored by then, and it is not shown.
    assert_eq!(assemble["history"]["count"], 2, "{assemble:#}");
    assert_eq!(assemble["prompt"]["entryId"], turn["admitted"]);
}

#[test]
fn its_failure_costs_nobody_else_anything_and_its_latch_is_its_own() {
    let setup = watched(&json!({"fail": {"assemble": {"after": 1}}}));
    let gateway = setup.start();
    let client = gateway.client();
    assert_eq!(say(client, "One?")["outcome"], "compared");
    let failed = say(client, "Two?");
    assert_eq!(failed["outcome"], "failed", "{failed:#}");
    assert!(failed["reason"].as_str().unwrap().contains("told to fail"), "{failed:#}");
    let out = say(client, "Three?");
    assert_eq!(out["outcome"], "out", "{out:#}");
    let state = |id: &str| client.get(&format!("/api/engines/{id}")).json()["state"].clone();
    assert_eq!((state("recorder").as_str().unwrap(), state("window").as_str().unwrap()), ("quarantined", "ready"));
    assert_eq!(setup.calls().of("assemble").len(), 2, "an engine that is out is asked nothing");
}

#[test]
fn a_turn_that_wants_the_session_does_not_wait_for_it_and_it_catches_up() {
    // Deaf to its cancel: only a lane that it does not hold lets the second turn through before it returns.
    let setup = watched(&json!({"deaf": {"assemble": 8000}}));
    let gateway = setup.start();
    let client = gateway.client();
    client.say("s", "One?");
    setup.calls().wait_for("assemble", 1);
    let second = client.say("s", "Two?");
    assert_eq!((second.status, second.degraded()), (200, None));
    assert!(setup.calls().of("commit_turn").is_empty(), "the second reply waited for the shadow of the first");
    // What it missed of the first turn comes before it is asked about the second.
    let calls = setup.calls();
    calls.wait_for("commit_turn", 1);
    calls.wait_for("assemble", 2);
    let order: Vec<String> =
        calls.hooks().into_iter().filter(|hook| hook == "assemble" || hook == "commit_turn").collect();
    assert_eq!(order, ["assemble", "commit_turn", "assemble"]);
    let first = turns(client, "s")[1]["shadow"].clone();
    assert!(first["reason"].as_str().unwrap().contains("gave way"), "{first:#}");
}

#[test]
fn what_it_did_not_take_survives_a_restart() {
    let setup = watched(&json!({"slow": {"assemble": 60000}})).toml("[plugins.deadlines]\nassemble_ms = 120000\n");
    let gateway = setup.start();
    gateway.client().say("s", "One?");
    setup.calls().wait_for("assemble", 1);
    assert!(setup.calls().of("commit_turn").is_empty());
    assert!(gateway.stop().success(), "a shadow does not hold up a stop");

    let gateway = setup.start();
    gateway.client().say("s", "Two?");
    let calls = setup.calls();
    calls.wait_for("commit_turn", 1);
    let offered = calls.wait_for("commit_turn", 1).remove(0);
    assert_eq!(offered["entries"][0]["text"], "One?", "{offered:#}");
}

#[test]
fn it_may_neither_ask_the_model_nor_rewrite() {
    let model = MockModel::saying("Fine.");
    let setup = watched(&json!({"do": {
        "assemble": ["offers:engineroom.llm/1", "llm:Hello?"], "commit_turn": ["rewrite:1=other", "put:k=v", "get:k"],
    }}))
    .toml(&model.toml(32_000));
    let gateway = setup.start();
    say(gateway.client(), "One?");
    setup.calls().wait_for("commit_turn", 1);
    assert_eq!(model.requests().len(), 1, "the turn's own call and no other");
    let calls = setup.calls();
    assert!(calls.did("llm:Hello?")[0]["error"].is_string(), "{:?}", calls.did("llm:Hello?"));
    assert!(calls.did("rewrite:1=other")[0]["error"].is_string(), "{:?}", calls.did("rewrite:1=other"));
    let session = gateway.client().get("/api/sessions/s").json();
    assert_eq!(session["messages"][0]["text"], "One?");
    assert_eq!(
        (session["entries"].as_u64(), session["branches"].as_array().unwrap().len()),
        (Some(2), 1),
        "{session:#}"
    );
}

#[test]
fn in_a_tool_loop_of_a_client_it_watches_the_turn_once_when_it_is_answered() {
    let model = MockModel::start(|request, stream| {
        let asked = request["messages"].as_array().unwrap().last().unwrap()["role"] == "user";
        match asked {
            true => message(
                stream,
                json!({"role": "assistant", "content": null, "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]}),
                "tool_calls",
            ),
            false => message(stream, json!({"role": "assistant", "content": "Found."}), "stop"),
        }
    });
    let setup = watched(&json!({})).toml(&model.toml(32_000));
    let gateway = setup.start();
    let client = gateway.client();
    let tools = json!([{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]);
    let headers = [("x-engineroom-session", "s"), ("x-engineroom-history", "delta")];
    let ask = |messages: Value| {
        let body = json!({"model": "m", "messages": messages, "tools": tools});
        client.post("/v1/chat/completions", &headers, &body)
    };
    assert_eq!(ask(json!([{"role": "user", "content": "Where?"}])).status, 200);
    assert_eq!(ask(json!([{"role": "tool", "tool_call_id": "c1", "content": "here"}])).status, 200);
    let shadow = told(client, "s", 1)[0]["shadow"].clone();
    assert_eq!(shadow["outcome"], "compared", "{shadow:#}");
    let calls = setup.calls();
    let assembled = calls.of("assemble");
    assert_eq!(assembled.len(), 1, "{assembled:#?}");
    assert_eq!((assembled[0]["prompt"]["text"].as_str(), &assembled[0]["tools"]), (Some("Where?"), &json!(["look"])));
    let taken = calls.wait_for("commit_turn", 1).remove(0);
    assert_eq!(taken["entries"].as_array().unwrap().len(), 4, "{taken:#}");
}

#[test]
fn a_session_that_it_knows_is_ended_for_it_too() {
    let setup = watched(&json!({}));
    let gateway = setup.start();
    let client = gateway.client();
    say(client, "One?");
    let deleted = client.delete("/api/sessions/s").json();
    assert_eq!(deleted["deleted"], true, "{deleted:#}");
    let ended = setup.calls().of("on_session_ended");
    assert_eq!(ended.len(), 1, "{deleted:#}");
}

#[test]
fn an_engine_serves_or_watches_and_not_both() {
    let setup = Setup::new().recorder(&json!({})).toml(SHADOW);
    let doctor = setup.cli(&["doctor"]);
    assert_eq!(doctor.code, Some(2), "{doctor:?}");
    assert!(doctor.stderr.contains("serves or watches"), "{doctor:?}");
}
