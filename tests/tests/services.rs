//! What the host does for a running hook, asked for by a real engine through the real binary.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::{Gateway, MockModel, Setup, model};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A window in which nothing has to be compacted.
const WIDE: u32 = 100_000;
/// Codes of `engine_abi::wire::status`.
const CANCELLED: u32 = 4;
const EXPIRED: u32 = 5;
const REFUSED: u32 = 6;
const INVALID: u32 = 7;

fn recording(config: &Value) -> Setup {
    Setup::new().recorder(config).toml(&MockModel::saying("well said").toml(WIDE))
}

fn engine_row(gateway: &Gateway) -> Value {
    let engines = gateway.client().engines();
    engines["engines"].as_array().unwrap().iter().find(|row| row["id"] == "recorder").unwrap().clone()
}

/// Waits for what a hook did, at most half a minute.
#[track_caller]
fn did(setup: &Setup, deed: &str, count: usize) -> Value {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(result) = setup.calls().did(deed).get(count - 1) {
            return result.clone();
        }
        assert!(Instant::now() < deadline, "{deed} was never done: {:?}", setup.calls().hooks());
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn texts(gateway: &Gateway, session: &str) -> Vec<String> {
    let shown = gateway.client().get(&format!("/api/sessions/{session}")).json();
    shown["messages"].as_array().unwrap().iter().map(|row| row["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_completion_tells_its_usage_and_another_model_needs_a_grant() {
    for granted in [false, true] {
        let model = MockModel::start(|request, stream| model::answer(request, stream, "the summary"));
        let grants: &[&str] = if granted { &["llm-model-override"] } else { &[] };
        let config = json!({"do": {"assemble": ["llm:summarise", "llm!cheap:summarise"]}});
        let setup = Setup::new().recorder_granted(&config, grants).toml(&model.toml(WIDE));
        let gateway = setup.start();
        gateway.client().say("one", "hello").text();
        let own = did(&setup, "llm:summarise", 1);
        assert_eq!(own, json!({"text": "the summary", "model": "mock", "input": 10, "output": 2, "total": 12}));
        let other = did(&setup, "llm!cheap:summarise", 1);
        let asked: Vec<Value> = model.requests().iter().map(|request| request["model"].clone()).collect();
        let metrics = gateway.client().get("/metrics").body;
        if granted {
            assert_eq!(other["text"], "the summary", "{other:#}");
            assert_eq!(asked, ["mock", "cheap", "mock"]);
        } else {
            assert_eq!(other["status"], REFUSED, "{other:#}");
            assert_eq!(asked, ["mock", "mock"], "a refused one is not asked");
        }
        let count = if granted { 2 } else { 1 };
        let counted = [
            format!("engineroom_llm_completions_total{{engine=\"recorder\",outcome=\"ok\"}} {count}\n"),
            format!("engineroom_llm_completion_tokens_total{{engine=\"recorder\",kind=\"input\"}} {}\n", 10 * count),
        ];
        for line in counted {
            assert!(metrics.contains(&line), "{line}: {metrics}");
        }
    }
}

#[test]
fn a_model_that_is_not_there_is_not_held_against_the_engine_that_asks_for_it() {
    // The offline model completes nothing.
    let setup = Setup::new().recorder(&json!({"do": {"assemble": ["offers:engineroom.llm/1", "must:llm:summarise"]}}));
    let gateway = setup.start();
    for turn in 1..=3 {
        let answer = gateway.client().say("one", "hello");
        assert_eq!((answer.engine(), answer.degraded()), (Some("legacy"), Some("service-error")), "turn {turn}");
        let state = if turn < 3 { "ready" } else { "quarantined" };
        assert_eq!(engine_row(&gateway)["state"], state, "turn {turn}");
    }
    assert_eq!(did(&setup, "offers:engineroom.llm/1", 1), false);
    let error = did(&setup, "must:llm:summarise", 1)["error"].to_string();
    assert!(error.contains("runtime_unavailable"), "{error}");
}

#[test]
fn a_service_that_is_not_granted_is_not_held_against_the_engine_either() {
    let config = json!({"do": {"assemble": ["must:sessions"]}});
    let setup = Setup::new().recorder_granted(&config, &[]).toml(&MockModel::saying("well said").toml(WIDE));
    let gateway = setup.start();
    assert_eq!(gateway.client().say("one", "hello").degraded(), Some("service-error"));
    assert_eq!(engine_row(&gateway)["state"], "ready");
}

/// A model that never comes to an end when it is asked to be slow.
fn sluggish() -> MockModel {
    MockModel::start(|request, stream| {
        if request["messages"].to_string().contains("slowly") {
            std::thread::sleep(Duration::from_secs(30));
        }
        model::answer(request, stream, "well said");
    })
}

#[test]
fn a_completion_ends_with_the_time_of_its_hook_or_with_its_cancel() {
    let setup = Setup::new()
        .recorder(&json!({"do": {"maintain": ["llm:slowly"]}}))
        .toml(&sluggish().toml(WIDE))
        .toml("[plugins.deadlines]\nmaintain_ms = 900\n");
    let since = Instant::now();
    let gateway = setup.start();
    gateway.client().say("one", "hello").text();
    assert_eq!(did(&setup, "llm:slowly", 1)["status"], EXPIRED);
    assert_eq!(gateway.client().say("one", "and again").degraded(), None, "it came back in time");

    let setup = Setup::new()
        .recorder(&json!({"background": true, "do": {"maintain": ["llm:slowly"]}}))
        .toml(&sluggish().toml(WIDE));
    let gateway = setup.start();
    gateway.client().say("one", "hello").text();
    setup.calls().wait_for("maintain", 1);
    assert_eq!(gateway.client().say("one", "and again").degraded(), None, "a turn cancels it");
    assert_eq!(did(&setup, "llm:slowly", 1)["status"], CANCELLED);
    assert!(since.elapsed() < Duration::from_secs(25), "nobody waited for the model");
}

#[test]
fn tokens_are_counted_by_the_model_s_own_tokenizer_or_marked_as_a_bound() {
    for (name, estimated) in [("gpt-4o", false), ("mock", true)] {
        let model = MockModel::saying("well said").toml(WIDE).replace("\"mock\"", &format!("{name:?}"));
        let setup = Setup::new().recorder(&json!({"do": {"assemble": ["count:hello world"]}})).toml(&model);
        let gateway = setup.start();
        gateway.client().say("one", "hello").text();
        let counted = did(&setup, "count:hello world", 1);
        assert_eq!(counted[1], estimated, "{name}: {counted}");
        let tokens = counted[0].as_u64().unwrap();
        assert!(if estimated { (2..=11).contains(&tokens) } else { tokens == 2 }, "{name}: {counted}");
    }
}

#[test]
fn other_sessions_of_the_agent_are_open_to_an_engine_with_the_grant() {
    let deeds = ["sessions", "read:one", "read:agent:other:desk", "read:nobody"];
    for granted in [true, false] {
        let grants: &[&str] = if granted { &["sessions"] } else { &[] };
        let config = json!({"do": {"assemble": deeds}});
        let model = MockModel::saying("well said").toml(WIDE);
        let setup = Setup::new().recorder_granted(&config, grants).toml(&model);
        let gateway = setup.start();
        gateway.client().say("one", "hello").text();
        gateway.client().say("agent:other:desk", "hello").text();
        setup.calls().wait_for("maintain", 2);
        setup.calls().clear();
        gateway.client().say("two", "hello").text();
        if granted {
            // Its own may not be stored yet.
            let listed = did(&setup, "sessions", 1).to_string();
            assert!(listed.contains("\"one\"") && !listed.contains("other"), "{listed}");
            assert_eq!(did(&setup, "read:one", 1), json!([1, 2]));
            assert_eq!(did(&setup, "read:agent:other:desk", 1), "missing", "of another agent");
            assert_eq!(did(&setup, "read:nobody", 1), "missing");
            // What was said there since is seen, though it is in memory.
            gateway.client().say("one", "and more").text();
            gateway.client().say("two", "and more").text();
            assert_eq!(did(&setup, "read:one", 3).as_array().unwrap().len(), 4);
        } else {
            for deed in ["read:one", "read:agent:other:desk"] {
                assert_eq!(did(&setup, deed, 1)["status"], REFUSED, "{deed}");
            }
            assert!(did(&setup, "sessions", 1)["error"].is_string());
        }
    }
}

#[test]
fn the_store_takes_a_batch_whole_or_not_at_all() {
    let long = format!("put:{}=x", "k".repeat(1_100));
    let setup = recording(&json!({"do": {
        "maintain": ["get:a", "put:a=1", long],
        "assemble": ["get:b", "put:b=2", "engine-get:b", "engine-put:b=3", "scan:b"]}}));
    let gateway = setup.start();
    for number in 0..2 {
        let answer = gateway.client().say("one", &format!("message {number}"));
        assert_eq!((answer.engine(), answer.degraded()), (Some("recorder"), None));
    }
    did(&setup, "get:a", 2);
    assert_eq!(setup.calls().did("get:a"), [Value::Null, Value::Null], "its batch was refused");
    assert_eq!(setup.calls().did("get:b"), [Value::Null, json!("2")]);
    assert_eq!(setup.calls().did("engine-get:b"), [Value::Null, json!("3")]);
    assert_eq!(setup.calls().did("scan:b"), [json!(["b"]), json!(["b"])], "what the call has written is seen in it");
    let row = engine_row(&gateway);
    assert_eq!((&row["state"], row["serviceErrors"].as_u64().unwrap() > 0), (&json!("ready"), true), "{row:#}");
    gateway.client().say("two", "hello").text();
    assert_eq!(did(&setup, "get:b", 3), Value::Null, "the session's scope is its own");
    assert_eq!(did(&setup, "engine-get:b", 3), "3", "the engine's is all sessions'");
}

#[test]
fn what_comes_after_the_deadline_is_expired_and_changes_nothing() {
    let setup = recording(&json!({"do": {"maintain": ["late:rewrite:1=too late", "late:count:words", "late:read"]}}))
        .toml("[plugins.deadlines]\nmaintain_ms = 300\n");
    let gateway = setup.start();
    gateway.client().say("one", "hello").text();
    for deed in ["late:rewrite:1=too late", "late:count:words", "late:read"] {
        assert_eq!(did(&setup, deed, 1)["status"], EXPIRED, "{deed}");
    }
    let answer = gateway.client().say("one", "and again");
    assert_eq!((answer.engine(), answer.degraded()), (Some("legacy"), Some("engine-quarantined")));
    assert_eq!(texts(&gateway, "one")[0], "hello");
    assert!(engine_row(&gateway)["lateServiceCalls"].as_u64().unwrap() >= 3);
}

#[test]
fn a_rewrite_parts_no_tool_call_from_its_result() {
    let model = MockModel::start(|request, stream| {
        if request["messages"].to_string().contains("found it") {
            model::answer(request, stream, "well said");
        } else {
            let call = json!({"id": "call-1", "type": "function", "function": {"name": "look", "arguments": "{}"}});
            model::message(stream, json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls");
        }
    });
    // Entry 1 asks, 2 calls, 3 is the result, 4 the answer.
    let deeds =
        ["rewrite!assistant:2=no call", "rewrite!user:3=no result", "rewrite!tool:3=shorter", "rewrite!tool:3=x"];
    let setup = Setup::new().recorder(&json!({"do": {"maintain": deeds}})).toml(&model.toml(WIDE));
    let gateway = setup.start();
    let tools = json!([{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]);
    let session = [("x-engineroom-session", "one")];
    let post = |messages: Value| {
        let body = json!({"model": "test", "messages": messages, "tools": tools});
        gateway.client().post("/v1/chat/completions", &session, &body)
    };
    assert_eq!(post(json!([{"role": "user", "content": "look for it"}])).status, 200);
    let result =
        json!([{"role": "tool", "tool_call_id": "call-1", "content": "found it, with much that nobody needs"}]);
    assert_eq!(post(result).text(), "well said");
    assert_eq!(did(&setup, deeds[0], 1)["status"], INVALID, "it would leave a result without its call");
    assert_eq!(did(&setup, deeds[1], 1), json!({"changed": true, "rewritten": 1}), "the role and the call stay");
    // The first change gave everything behind it new ids: the old ones name nothing any more.
    assert_eq!(did(&setup, deeds[2], 1), json!({"changed": false, "rewritten": 0}));
    assert_eq!(texts(&gateway, "one"), ["look for it", "", "no result", "well said"]);
    let answer = post(json!([{"role": "user", "content": "thanks, you found it"}]));
    assert_eq!((answer.status, answer.engine(), answer.degraded()), (200, Some("recorder"), None), "{answer:?}");
    let sent = model.requests().last().unwrap()["messages"].clone();
    let roles: Vec<&str> = sent.as_array().unwrap().iter().map(|row| row["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant", "user"]);
    assert_eq!(sent[2]["tool_call_id"], "call-1");
}

#[test]
fn a_rewrite_before_a_turn_moves_it_along_and_never_touches_it() {
    let setup = recording(&json!({"keeps": false, "do": {
        "maintain": ["rewrite:1=nothing to see", "rewrite:3=not what was said"],
        "assemble": ["rewrite:2=not now", "read"]}}));
    let legacy = setup.select("legacy");
    let gateway = legacy.start();
    gateway.client().say("one", "a secret of many words that cost many tokens").text();
    gateway.stop();
    let setup = legacy.select("recorder");
    let gateway = setup.start();
    let answer = gateway.client().say("one", "the question");
    assert_eq!((answer.engine(), answer.degraded()), (Some("recorder"), None), "{answer:?}");
    assert_eq!(did(&setup, "rewrite:1=nothing to see", 1), json!({"changed": true, "rewritten": 1}));
    assert_eq!(did(&setup, "rewrite:2=not now", 1)["status"], REFUSED, "not in assemble");
    // 3 was the current turn before it moved; it has another id since, and is behind the fence under that one, too.
    assert_eq!(did(&setup, "rewrite:3=not what was said", 1), json!({"changed": false, "rewritten": 0}));
    let read = did(&setup, "read", 1);
    assert_eq!(read.as_array().unwrap().len(), 2, "the current turn is fenced where it is now: {read}");
    assert_eq!(texts(&gateway, "one"), ["nothing to see", "well said", "the question", "well said"]);
    setup.calls().wait_for("commit_turn", 1);
    let commit = setup.calls().of("commit_turn").remove(0);
    let ids: Vec<u64> =
        commit["entries"].as_array().unwrap().iter().map(|entry| entry["id"].as_u64().unwrap()).collect();
    let shown = gateway.client().get("/api/sessions/one").json();
    let stored: Vec<u64> =
        shown["messages"].as_array().unwrap()[2..].iter().map(|row| row["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, stored, "the turn is handed over as it reads now");
    assert!(shown["messages"][0]["tokens"].as_u64().unwrap() < 9, "its tokens are counted anew: {shown:#}");
    assert_eq!(gateway.client().say("one", "and again").degraded(), None);
    assert_eq!(texts(&gateway, "one").len(), 6);
}

#[test]
fn the_current_turn_is_not_an_engine_s_to_rewrite_while_it_is_prepared() {
    let deed = "rewrite:5=not what was said";
    let setup = recording(&json!({"do": {"maintain": [deed]}}));
    let gateway = setup.start();
    gateway.client().say("one", "hello").text();
    gateway.client().say("one", "wrong").text();
    // Said otherwise: the turn begins behind entry 2, as entry 5, and the engine takes the session up again.
    let edited = json!([{"role": "user", "content": "hello"}, {"role": "assistant", "content": "well said"},
        {"role": "user", "content": "right"}]);
    assert_eq!(gateway.client().chat(Some("one"), edited).degraded(), None);
    assert_eq!(did(&setup, deed, 3)["status"], REFUSED, "{:?}", setup.calls().hooks());
    // When it is over it is history like any other.
    assert_eq!(did(&setup, deed, 4), json!({"changed": true, "rewritten": 1}));
    setup.calls().wait_for("maintain", 4);
    gateway.client().say("one", "and again").text();
    assert_eq!(texts(&gateway, "one")[..3], ["hello", "well said", "not what was said"]);
}

#[test]
fn everything_that_is_wrong_in_what_an_engine_says_of_itself_is_told_at_once() {
    let setup = Setup::new().chaos(&json!({"mode": "info-codes", "hook": "info"}));
    let gateway = setup.start();
    assert_eq!(gateway.client().say("one", "hello").engine(), Some("legacy"));
    let engines = gateway.client().engines().to_string();
    for word in ["info.ownsCompaction", "turnMaintenanceMode", "acceptedHostParams", "transcriptSemantics"] {
        assert!(engines.contains(word), "{word}: {engines}");
    }
}
