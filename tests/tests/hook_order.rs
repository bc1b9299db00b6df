//! The order and the parameters of the hooks, seen from the engine: what `recorder` wrote down of real turns, against
//! the snapshots in `tests/snapshots/`. `UPDATE_SNAPSHOTS=1` writes them anew; read the difference before you keep it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use engineroom_tests::model::{self, MockModel};
use engineroom_tests::{Gateway, Setup, ThreadServer, snapshot};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A window in which nothing has to be compacted.
const WIDE: u32 = 100_000;

fn recording(model: &MockModel, config: &Value) -> Setup {
    Setup::new().recorder(config).toml(&model.toml(WIDE))
}

/// A model that says each of these in turn, and the last of them for ever: a text, or a message with tool calls.
fn scripted(replies: Vec<Value>) -> MockModel {
    let asked = AtomicUsize::new(0);
    MockModel::start(move |request, stream| {
        let at = asked.fetch_add(1, Ordering::SeqCst);
        match &replies[at.min(replies.len() - 1)] {
            Value::String(text) => model::answer(request, stream, text),
            message => model::message(stream, message.clone(), "tool_calls"),
        }
    })
}

/// Three turns that are handed over, and not part of the snapshot.
fn three_turns(setup: &Setup, gateway: &Gateway) {
    for turn in 1..=3 {
        gateway.client().say("one", &format!("message {turn}")).text();
        setup.calls().wait_for("maintain", turn);
    }
    setup.calls().clear();
}

#[test]
fn first_turn() {
    let model = MockModel::saying("well said");
    let setup = recording(&model, &json!({}));
    let gateway = setup.start();
    gateway.client().say("one", "hello").text();
    setup.calls().wait_for("maintain", 1);
    assert!(gateway.stop().success());
    snapshot("first_turn", &setup.calls().lines());
}

#[test]
fn later_turn() {
    let model = MockModel::saying("well said");
    let setup = recording(&model, &json!({"volatile": "note {n}", "system": "rules"}));
    let gateway = setup.start();
    gateway.client().say("one", "hello").text();
    setup.calls().wait_for("maintain", 1);
    setup.calls().clear();
    gateway.client().say("one", "and again").text();
    setup.calls().wait_for("maintain", 1);
    assert!(gateway.stop().success());
    snapshot("later_turn", &setup.calls().lines());
}

#[test]
fn ephemeral_turn() {
    let model = MockModel::saying("well said");
    let setup = recording(&model, &json!({}));
    let gateway = setup.start();
    gateway.client().chat(None, json!([{"role": "user", "content": "hello"}])).text();
    setup.calls().wait_for("on_session_ended", 1);
    assert!(gateway.stop().success());
    snapshot("ephemeral_turn", &setup.calls().lines());
}

#[test]
fn manual_compaction() {
    let model = MockModel::saying("well said");
    let setup = recording(&model, &json!({"owns_compaction": true, "compact": "own"}));
    let gateway = setup.start();
    three_turns(&setup, &gateway);
    let report = gateway.client().post("/api/sessions/one/compact", &[], &json!({"focus": "the names"}));
    assert_eq!(report.status, 200, "{report:?}");
    setup.calls().wait_for("maintain", 1);
    gateway.client().say("one", "what now").text();
    setup.calls().wait_for("maintain", 2);
    assert!(gateway.stop().success());
    snapshot("manual_compaction", &setup.calls().lines());
}

#[test]
fn overflow_and_recovery() {
    // The provider refuses what is longer than the newest turn.
    let model = MockModel::start(|request, stream| {
        if request["messages"].as_array().unwrap().len() > 5 {
            let error = json!({"error": {"message": "maximum context length is 4000 tokens", "type": "invalid_request_error",
                "code": "context_length_exceeded"}});
            model::respond(stream, "400 Bad Request", &error);
        } else {
            model::answer(request, stream, "well said");
        }
    });
    let setup = recording(&model, &json!({"owns_compaction": true, "compact": "own"}));
    let gateway = setup.start();
    three_turns(&setup, &gateway);
    gateway.client().say("one", "one too many").text();
    setup.calls().wait_for("maintain", 2);
    assert!(gateway.stop().success());
    snapshot("overflow_and_recovery", &setup.calls().lines());
}

#[test]
fn restart_in_the_middle_of_a_turn() {
    let asked = AtomicUsize::new(0);
    let model = MockModel::start(move |request, stream| {
        if asked.fetch_add(1, Ordering::SeqCst) == 1 {
            // Longer than the gateway lives.
            std::thread::sleep(std::time::Duration::from_secs(20));
        }
        model::answer(request, stream, "well said");
    });
    let setup = recording(&model, &json!({}));
    let gateway = setup.start();
    gateway.client().say("one", "hello").text();
    setup.calls().wait_for("maintain", 1);
    let client = engineroom_tests::Client::new(gateway.client().base().strip_prefix("http://").unwrap());
    let asking = std::thread::spawn(move || client.try_say("one", "are you there"));
    setup.calls().wait_for("assemble", 2);
    // What was asked is in the store, and the model is thinking.
    let stored = || gateway.client().get("/api/sessions/one").json()["messages"].as_array().map_or(0, Vec::len);
    while model.requests().len() < 2 || stored() < 3 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    gateway.kill();
    assert!(asking.join().unwrap().is_err(), "nobody answered");
    setup.calls().clear();
    let gateway = setup.start();
    gateway.client().say("one", "are you there").text();
    setup.calls().wait_for("commit_turn", 1);
    assert!(gateway.stop().success());
    snapshot("restart_in_the_middle_of_a_turn", &setup.calls().lines());
}

#[test]
fn tool_loop_of_three_calls() {
    let call = |number: u32, name: &str| {
        let function = json!({"name": name, "arguments": format!("{{\"n\":{number}}}")});
        json!({"role": "assistant", "content": null,
            "tool_calls": [{"id": format!("call-{number}"), "type": "function", "function": function}]})
    };
    let model = scripted(vec![call(1, "look"), call(2, "look"), call(3, "find"), json!("that is all")]);
    let tools = json!([{"name": "look", "answer": "seen {arguments}"}, {"name": "find", "answer": "nothing", "is_error": true}]);
    let setup = recording(&model, &json!({"tools": tools}));
    let gateway = setup.start();
    assert_eq!(gateway.client().say("one", "look around").text(), "that is all");
    setup.calls().wait_for("maintain", 1);
    assert!(gateway.stop().success());
    snapshot("tool_loop_of_three_calls", &setup.calls().lines());
}

#[test]
fn background_maintenance() {
    let model = MockModel::saying("well said");
    let setup = recording(&model, &json!({"background": true}));
    let gateway = setup.start();
    gateway.client().say("one", "hello").text();
    setup.calls().wait_for("maintain", 1);
    gateway.client().say("one", "and again").text();
    setup.calls().wait_for("maintain", 2);
    assert!(gateway.stop().success());
    snapshot("background_maintenance", &setup.calls().lines());
}

#[test]
fn subagent_that_succeeds() {
    let model = MockModel::saying("well said");
    let setup = recording(&model, &json!({}));
    let gateway = setup.start();
    gateway.client().say("one", "hello").text();
    setup.calls().wait_for("maintain", 1);
    setup.calls().clear();
    let task = json!({"task": "look", "mode": "fork", "ttlMs": 60_000, "wait": true});
    assert_eq!(gateway.client().post("/api/sessions/one/subagents", &[], &task).status, 200);
    setup.calls().wait_for("on_subagent_ended", 1);
    gateway.client().say("one", "what did it say").text();
    setup.calls().wait_for("maintain", 2);
    assert!(gateway.stop().success());
    snapshot("subagent_that_succeeds", &setup.calls().lines());
}

#[test]
fn subagent_that_does_not_start() {
    let model = MockModel::saying("well said");
    // The preparation takes longer than the child may live.
    let setup = recording(&model, &json!({"slow": {"prepare_subagent_spawn": 600}}));
    let gateway = setup.start();
    gateway.client().say("one", "hello").text();
    setup.calls().wait_for("maintain", 1);
    setup.calls().clear();
    let task = json!({"task": "look", "mode": "isolated", "ttlMs": 200, "wait": true});
    assert_eq!(gateway.client().post("/api/sessions/one/subagents", &[], &task).status, 500);
    setup.calls().wait_for("rollback_subagent_spawn", 1);
    assert!(gateway.stop().success());
    snapshot("subagent_that_does_not_start", &setup.calls().lines());
}

#[test]
fn command_host() {
    let setup = Setup::new().recorder(&json!({"system": "never sent"})).toml(&format!(
        "[model]\nprovider = \"cli\"\ncommand = [\"/bin/sh\", \"-c\", \"cat > /dev/null; echo well said\"]\ncontext_window = {WIDE}\n"
    ));
    let gateway = setup.start();
    for (turn, text) in ["hello", "and again"].iter().enumerate() {
        assert_eq!(gateway.client().say("one", text).text(), "well said");
        setup.calls().wait_for("commit_turn", turn + 1);
    }
    assert!(gateway.stop().success());
    snapshot("command_host", &setup.calls().lines());
}

#[test]
fn thread_host() {
    let server = ThreadServer::counting();
    let setup = Setup::new().recorder(&json!({"epoch": "first"})).toml(&server.toml(WIDE));
    let gateway = setup.start();
    for (turn, text) in ["hello", "and again"].iter().enumerate() {
        gateway.client().say("one", text).text();
        setup.calls().wait_for("commit_turn", turn + 1);
    }
    assert!(gateway.stop().success());
    snapshot("thread_host", &setup.calls().lines());
}
