//! Durable turns: each accepted turn reaches its engine once, as a closed range, whatever fails or dies in between; and what
//! an engine did not get that way, it gets through the cursor.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::{Answer, Calls, Gateway, MockModel, Setup, model, wait_for};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

/// Longest wait for what happens off the reply's path.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until `look` finds something.
#[track_caller]
fn wait<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    wait_for(PATIENCE, what, look)
}

/// The rows of a session's outbox as the operator sees them.
fn outbox(gateway: &Gateway, session: &str) -> Vec<Value> {
    repair(gateway, session, json!({}))["rows"].as_array().cloned().unwrap_or_default()
}

fn repair(gateway: &Gateway, session: &str, ask: Value) -> Value {
    gateway.client().post(&format!("/api/sessions/{session}/repair"), &[], &ask).json()
}

/// Messages of a session as they are stored: id, role, text.
fn messages(gateway: &Gateway, session: &str) -> Vec<(u64, String, String)> {
    let document = gateway.client().get(&format!("/api/sessions/{session}")).json();
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let rows = document["messages"].as_array().unwrap_or_else(|| panic!("{document:#}"));
    rows.iter().map(|row| (row["id"].as_u64().unwrap(), text(row, "role"), text(row, "text"))).collect()
}

/// Texts of the range of a `commitTurn`.
fn range(call: &Value) -> Vec<String> {
    call["entries"].as_array().unwrap().iter().map(|entry| entry["text"].as_str().unwrap().to_owned()).collect()
}

/// The outcome of each `commitTurn` that returned.
fn commits(calls: &Calls) -> Vec<Value> {
    calls.did("commit")
}

/// Makes the hook fail at its next call, once; the engine is out after that, until the next start.
fn trip(setup: &Setup, hook: &str) {
    std::fs::write(setup.path().join("recorder/trip"), hook).unwrap();
}

/// A setup whose recorder can be tripped.
fn tripping(config: Value) -> Setup {
    let setup = Setup::new();
    let mut config = config;
    config["trip"] = json!(setup.path().join("recorder/trip"));
    setup.recorder(&config)
}

fn served_by(answer: &Answer) -> (Option<&str>, Option<&str>) {
    assert_eq!(answer.status, 200, "{answer:?}");
    (answer.engine(), answer.degraded())
}

/// How many turns that were not handed over a status shows for an engine.
fn outbox_of(gateway: &Gateway, engine: &str, state: &str) -> u64 {
    let engines = gateway.client().engines();
    let rows = engines["engines"].as_array().unwrap();
    rows.iter().find(|row| row["id"] == engine).unwrap()["outbox"][state].as_u64().unwrap()
}

/// 8.55
#[test]
fn an_engine_gets_exactly_the_closed_range_of_each_turn() {
    let setup = Setup::new().recorder(&json!({}));
    let gateway = setup.start();
    gateway.client().say("s", "one");
    let body = json!({"model": "test", "messages": [{"role": "user", "content": "two"}]});
    let headers = [("x-engineroom-session", "s"), ("idempotency-key", "the-second")];
    assert_eq!(gateway.client().post("/v1/chat/completions", &headers, &body).status, 200);
    let calls = setup.calls().wait_for("commit_turn", 2);
    let stored = messages(&gateway, "s");
    for (call, turn) in calls.iter().zip(stored.chunks(2)) {
        let ids: Vec<u64> = call["entries"].as_array().unwrap().iter().map(|e| e["id"].as_u64().unwrap()).collect();
        assert_eq!(ids, [turn[0].0, turn[1].0], "user to answer, and nothing else: {call:#}");
        assert_eq!(range(call), [turn[0].2.clone(), turn[1].2.clone()]);
        assert_eq!((&call["admission"]["entryId"], &call["terminal"]["entryId"]), (&json!(ids[0]), &json!(ids[1])));
        assert_eq!(call["terminal"]["parent"], json!(ids[0]));
        assert_eq!(call.get("prePromptMessageCount"), None);
        assert_eq!(call["advancementKey"], call["logicalTurnId"]);
    }
    assert_eq!((&calls[1]["admission"]["position"], &calls[1]["terminal"]["position"]), (&json!(2), &json!(3)));
    assert_eq!(calls[1]["admission"]["idempotencyKey"], "the-second");
    assert_ne!(calls[0]["advancementKey"], calls[1]["advancementKey"]);
    wait("an empty outbox", || outbox(&gateway, "s").is_empty().then_some(()));
}

/// 8.56
#[test]
fn what_was_true_when_a_turn_was_accepted_is_told_again_on_recovery() {
    let model = MockModel::saying("noted");
    let setup = tripping(json!({})).toml(&model.toml(40_000));
    let gateway = setup.start();
    trip(&setup, "commit_turn");
    let body = json!({"model": "asked-for", "messages": [{"role": "user", "content": "tick"}]});
    let headers = [("x-engineroom-session", "s"), ("x-engineroom-heartbeat", "true")];
    gateway.client().post("/v1/chat/completions", &headers, &body);
    let first = setup.calls().wait_for("commit_turn", 1).remove(0);
    let rows = wait("the row of the failed commit", || {
        Some(outbox(&gateway, "s")).filter(|rows| rows.iter().any(|row| row["attempts"] == 1))
    });
    assert_eq!(rows[0]["facts"]["window"], 40_000, "the window is kept beside: {rows:?}");
    assert!(gateway.stop().success());

    let setup = setup.env("ENGINEROOM_MODEL_MODEL", "another").env("ENGINEROOM_MODEL_CONTEXT_WINDOW", "9000");
    let _gateway = setup.start();
    let again = setup.calls().wait_for("commit_turn", 2).remove(1);
    assert_eq!(again["advancementKey"], first["advancementKey"]);
    for call in [&first, &again] {
        let session = &call["session"];
        assert_eq!(session["heartbeat"], true, "{call:#}");
        let settings = &session["settings"];
        assert_eq!((&settings["requested"], &settings["resolved"]), (&json!("asked-for"), &json!("mock")), "{call:#}");
        assert!(session["tokenBudget"].as_u64().unwrap() > 9_000, "of the window of then: {call:#}");
        assert_eq!(session["tokenBudget"], settings["promptTokenBudget"]);
    }
    assert_eq!(first["session"]["tokenBudget"], again["session"]["tokenBudget"]);
}

/// A model that refuses "fail", streams half an answer to "stop" and then says nothing more, and hangs on "hang".
fn moody() -> MockModel {
    MockModel::start(|request, stream| {
        let last = request["messages"].as_array().unwrap().last().unwrap()["content"].to_string();
        if last.contains("fail") {
            model::respond(
                stream,
                "400 Bad Request",
                &json!({"error": {"message": "no", "type": "invalid_request_error"}}),
            );
        } else if last.contains("stop") {
            model::stream_head(stream);
            model::chunk(stream, json!({"role": "assistant", "content": "half an ans"}), Value::Null);
            std::thread::sleep(Duration::from_secs(60));
        } else if last.contains("hang") {
            std::thread::sleep(Duration::from_secs(60));
        } else {
            model::answer(request, stream, "whole");
        }
    })
}

/// Asks for a stream, reads until the first words are there, and goes away.
fn go_away_in_the_middle(gateway: &Gateway, session: &str, text: &str) {
    let address = gateway.client().base().trim_start_matches("http://").to_owned();
    let body = json!({"model": "test", "stream": true, "messages": [{"role": "user", "content": text}]}).to_string();
    let mut stream = std::net::TcpStream::connect(&address).unwrap();
    write!(
        stream,
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         x-engineroom-session: {session}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let (mut seen, mut chunk) = (String::new(), [0; 4096]);
    while !seen.contains("half an ans") {
        let n = stream.read(&mut chunk).unwrap();
        assert!(n > 0, "{seen}");
        seen.push_str(&String::from_utf8_lossy(&chunk[..n]));
    }
}

/// 8.57
#[test]
fn a_turn_that_failed_or_was_stopped_is_not_advanced_and_gets_no_maintenance() {
    let model = moody();
    let setup = Setup::new().recorder(&json!({})).toml(&model.toml(40_000));
    let gateway = setup.start();
    assert!(gateway.client().say("s", "fail please").status >= 400);
    assert_eq!(outbox(&gateway, "s"), Vec::<Value>::new(), "nothing of a failed turn waits");
    go_away_in_the_middle(&gateway, "s", "stop in the middle");
    wait("the record of the stopped turn", || {
        let turns = gateway.client().get("/api/sessions/s/turns").json();
        turns["turns"].as_array().unwrap().iter().any(|turn| turn["outcome"] == "interrupted").then_some(())
    });
    assert_eq!(outbox(&gateway, "s"), Vec::<Value>::new(), "nothing of a stopped turn waits");
    assert_eq!(setup.calls().of("commit_turn"), Vec::<Value>::new());
    assert_eq!(setup.calls().of("maintain").iter().filter(|call| call["reason"] == "Turn").count(), 0);
    assert_eq!(served_by(&gateway.client().say("s", "and now?")), (Some("recorder"), None));
    let commit = setup.calls().wait_for("commit_turn", 1).remove(0);
    assert_eq!(range(&commit), ["and now?", "whole"], "only the turn itself");
    assert_eq!(messages(&gateway, "s")[2].2, "half an ans", "what was said stays in the transcript");
}

/// 8.69
#[test]
fn what_failed_comes_through_the_cursor_with_the_next_turn() {
    let model = moody();
    let setup = Setup::new().recorder(&json!({"do": {"bootstrap": ["read"]}})).toml(&model.toml(40_000));
    let gateway = setup.start();
    assert!(gateway.client().say("s", "fail please").status >= 400);
    assert_eq!(setup.calls().did("read"), Vec::<Value>::new(), "the failed turn itself shows it nothing");
    assert_eq!(served_by(&gateway.client().say("s", "and now?")), (Some("recorder"), None));
    let commit = setup.calls().wait_for("commit_turn", 1).remove(0);
    assert_eq!(range(&commit), ["and now?", "whole"], "only the turn itself");
    let failed = messages(&gateway, "s")[0].0;
    assert_eq!(setup.calls().did("read"), [json!([failed])], "before the assembly that shows it");
}

/// 8.59
#[test]
fn a_turn_that_is_too_large_is_blocked_and_told_and_later_turns_proceed() {
    let model = MockModel::saying("ok");
    let setup = Setup::new().recorder(&json!({"keeps": false, "turns": 1})).toml(&model.toml(10_000_000));
    let gateway = setup.start();
    let mut huge = vec![json!({"role": "user", "content": "read all this"})];
    huge.extend((0..20_000).map(|n| json!({"role": "assistant", "content": n.to_string()})));
    assert_eq!(served_by(&gateway.client().chat(Some("s"), Value::from(huge))), (Some("recorder"), None));
    let rows = wait("the blocked row", || Some(outbox(&gateway, "s")).filter(|rows| !rows.is_empty()));
    assert_eq!((&rows[0]["state"], &rows[0]["reason"]), (&json!("blocked"), &json!("too-large")), "{rows:?}");
    wait("the warning", || gateway.stderr().contains("sessions repair s").then_some(()));

    assert_eq!(served_by(&gateway.client().say("s", "go on")), (Some("recorder"), None), "a later turn proceeds");
    let commit = setup.calls().wait_for("commit_turn", 1).remove(0);
    assert_eq!(range(&commit), ["go on", "ok"]);
    wait("the count", || (outbox_of(&gateway, "recorder", "blocked") == 1).then_some(()));
    let doctor = setup.cli(&["doctor"]);
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    assert!(doctor.stdout.contains("engineroom sessions repair s"), "{}", doctor.stdout);
    assert!(gateway.stop().success());

    // Told again at the next start, and never offered by itself.
    let gateway = setup.start();
    wait("the warning", || gateway.stderr().contains("too-large").then_some(()));
    assert_eq!(served_by(&gateway.client().say("s", "still here")), (Some("recorder"), None));
    setup.calls().wait_for("commit_turn", 2);
    let shown = setup.cli(&["sessions", "repair", "s", "--json"]);
    assert_eq!((shown.code, &shown.json()["rows"][0]["outcome"]), (Some(1), &json!("listed")), "{shown:?}");
    let tried = setup.cli(&["sessions", "repair", "s", "--retry", "--json"]);
    assert_eq!((tried.code, &tried.json()["rows"][0]["outcome"]), (Some(1), &json!("blocked")), "{tried:?}");
    let would = setup.cli(&["sessions", "repair", "s", "--drop", "--dry-run", "--json"]);
    assert_eq!((would.code, &would.json()["rows"][0]["outcome"]), (Some(1), &json!("would-drop")), "{would:?}");
    let dropped = setup.cli(&["sessions", "repair", "s", "--drop"]);
    assert_eq!(dropped.code, Some(0), "{dropped:?}");
    assert_eq!(outbox(&gateway, "s"), Vec::<Value>::new());
    assert_eq!(setup.calls().of("commit_turn").len(), 2);
}

/// 8.60
#[test]
fn a_turn_that_was_never_accepted_is_forgotten_on_recovery_with_a_warning() {
    let model = moody();
    let setup = Setup::new().recorder(&json!({})).toml(&model.toml(40_000));
    let gateway = setup.start();
    let client = gateway.client().clone();
    let talker = std::thread::spawn(move || client.try_say("s", "hang in there"));
    wait("the admission", || (gateway.client().get("/api/sessions/s").status == 200).then_some(()));
    gateway.kill();
    assert!(talker.join().unwrap().is_err());

    let gateway = setup.start();
    wait("the warning", || gateway.stderr().contains("never accepted").then_some(()));
    assert_eq!(outbox(&gateway, "s"), Vec::<Value>::new());
    assert_eq!(served_by(&gateway.client().say("s", "again")), (Some("recorder"), None));
    let commit = setup.calls().wait_for("commit_turn", 1).remove(0);
    assert_eq!(range(&commit), ["again", "whole"]);
    assert_eq!(messages(&gateway, "s")[0].2, "hang in there", "the message itself stays");
}

/// 8.61
#[test]
fn any_other_status_keeps_the_turn_with_the_error() {
    for mode in ["commit-status", "error", "no-result"] {
        let setup = Setup::new().chaos(&json!({"mode": mode, "hook": "commit_turn", "times": 1}));
        let gateway = setup.start();
        assert_eq!(served_by(&gateway.client().say("s", "one")), (Some("chaos"), None), "{mode}");
        let row = wait("the failed commit", || {
            let rows = outbox(&gateway, "s");
            assert_eq!(rows.len(), 1, "{mode}: the row stays: {rows:?}");
            rows.into_iter().find(|row| row["attempts"] == 1)
        });
        assert_eq!((&row["state"], &row["engine"]), (&json!("ready"), &json!("chaos")), "{mode}: {row:#}");
        assert!(!row["lastError"].as_str().unwrap().is_empty(), "{mode}: {row:#}");
        assert!(gateway.stop().success());
    }
}

/// 8.62
#[test]
fn an_engine_that_is_behind_is_passed_over_until_it_took_what_waits() {
    let setup = Setup::new().recorder(&json!({"fail": {"commit_turn": {"times": 2, "service": true}}}));
    let gateway = setup.start();
    assert_eq!(served_by(&gateway.client().say("s", "one")), (Some("recorder"), None));
    setup.calls().wait_for("commit_turn", 1);
    assert_eq!(served_by(&gateway.client().say("s", "two")), (Some("legacy"), Some("pending-commit")));
    wait("the warning", || gateway.stderr().contains("could not be handed over").then_some(()));
    let told = gateway.stderr();
    assert_eq!(told.matches("pending-commit").count(), 1, "one warning for the turn: {told}");
    // Nothing was changed for good: the next turn asks again, and first hands over what waits.
    assert_eq!(served_by(&gateway.client().say("s", "three")), (Some("recorder"), None));
    let calls = setup.calls().wait_for("commit_turn", 4);
    let keys: Vec<&Value> = calls.iter().map(|call| &call["advancementKey"]).collect();
    assert!(keys[0] == keys[1] && keys[1] == keys[2], "the same turn, until it is taken: {keys:?}");
    assert_eq!(range(&calls[3])[0], "three");
    assert_eq!(outbox_of(&gateway, "recorder", "blocked"), 0);
}

/// 8.64
#[test]
fn a_crash_between_the_commit_and_its_mark_offers_the_same_turn_again() {
    let setup = Setup::new().killed_often().recorder(&json!({}));
    let gateway = setup.start();
    gateway.client().say("s", "one");
    wait("the commit", || (commits(&setup.calls()).len() == 1).then_some(()));
    gateway.kill();

    let gateway = setup.start();
    wait("the second offer", || (commits(&setup.calls()).len() == 2).then_some(()));
    let calls = setup.calls().of("commit_turn");
    assert_eq!(calls[0]["advancementKey"], calls[1]["advancementKey"]);
    assert_eq!(range(&calls[0]), range(&calls[1]));
    assert_eq!(commits(&setup.calls()), ["Committed", "Duplicate"]);
    wait("an empty outbox", || outbox(&gateway, "s").is_empty().then_some(()));
    gateway.kill();
    let _gateway = setup.start();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(setup.calls().of("commit_turn").len(), 2, "settled for good");
}

/// 8.65
#[test]
fn the_end_of_a_turn_is_its_own_answer_whatever_was_said_since() {
    let setup = tripping(json!({}));
    let gateway = setup.start();
    trip(&setup, "commit_turn");
    gateway.client().say("s", "one");
    setup.calls().wait_for("commit_turn", 1);
    for text in ["two", "three"] {
        assert_eq!(gateway.client().say("s", text).engine(), Some("legacy"));
    }
    let stored = messages(&gateway, "s");
    assert!(gateway.stop().success());
    let _gateway = setup.start();
    let again = setup.calls().wait_for("commit_turn", 2).remove(1);
    assert_eq!(again["terminal"]["entryId"], stored[1].0);
    assert_eq!(range(&again), [stored[0].2.clone(), stored[1].2.clone()]);
}

/// 8.66
#[test]
fn maintenance_is_offered_after_a_commit_in_the_foreground_or_behind_it() {
    for background in [false, true] {
        let setup = Setup::new().recorder(&json!({"background": background, "slow": {"maintain": 400}}));
        let gateway = setup.start();
        gateway.client().say("s", "one");
        let maintain = setup.calls().wait_for("maintain", 1).remove(0);
        assert_eq!(maintain["reason"], "Turn", "{maintain:#}");
        let hooks = setup.calls().hooks();
        let place = |hook: &str| hooks.iter().position(|name| name == hook).unwrap();
        assert!(place("commit_turn") < place("maintain"), "{hooks:?}");
        if !background {
            // The next turn of the session comes after it.
            let since = Instant::now();
            gateway.client().say("s", "two");
            assert!(since.elapsed() > Duration::from_millis(100), "it was awaited");
        }
    }
}

/// 8.67
#[test]
fn a_commit_that_failed_gets_no_maintenance() {
    let setup = Setup::new().recorder(&json!({"fail": {"commit_turn": {"times": 1, "service": true}}}));
    let gateway = setup.start();
    gateway.client().say("s", "one");
    wait("the failed commit", || outbox(&gateway, "s").iter().any(|row| row["attempts"] == 1).then_some(()));
    assert_eq!(setup.calls().of("maintain"), Vec::<Value>::new());
}

/// 8.68
#[test]
fn a_bootstrap_reads_up_to_the_admitted_entry_and_the_commit_brings_the_rest() {
    let setup = Setup::new().recorder(&json!({"do": {"bootstrap": ["read"], "maintain": ["read"]}}));
    let gateway = setup.start();
    gateway.client().say("s", "one");
    setup.calls().wait_for("commit_turn", 1);
    assert!(gateway.stop().success());
    let gateway = setup.start();
    setup.calls().clear();
    gateway.client().say("s", "two");
    let commit = setup.calls().wait_for("commit_turn", 1).remove(0);
    let stored: Vec<u64> = messages(&gateway, "s").into_iter().map(|(id, _, _)| id).collect();
    let read = setup.calls().did("read");
    assert_eq!(read[0], json!(stored[..2]), "bootstrap");
    assert_eq!(read[1], json!(stored[..2]), "the maintenance that follows it");
    assert_eq!(commit["admission"]["entryId"], stored[2]);
    wait("the maintenance after the turn", || (setup.calls().did("read").last() == Some(&json!(stored))).then_some(()));
}

/// 8.70
#[test]
fn a_rewrite_resets_a_cursor_once_and_then_shows_what_there_is_now() {
    let setup = Setup::new().recorder(&json!({"do": {"assemble": ["read-after"], "maintain": ["rewrite:1=changed"]}}));
    let gateway = setup.start();
    for text in ["one", "two", "three"] {
        assert_eq!(served_by(&gateway.client().say("s", text)), (Some("recorder"), None));
        wait("the end of the turn", || {
            let calls = setup.calls();
            (calls.of("maintain").len() == calls.of("assemble").len()).then_some(())
        });
    }
    let read = setup.calls().did("read-after");
    assert_eq!(read[0]["entries"], json!([]), "{read:?}");
    assert_eq!(read[1], json!({"reset": "GenerationMismatch"}), "{read:?}");
    let texts: Vec<&str> =
        read[2]["entries"].as_array().unwrap().iter().map(|entry| entry["text"].as_str().unwrap()).collect();
    assert_eq!((texts.len(), texts[0], texts[2]), (4, "changed", "two"), "{read:?}");
}

/// 8.40, 9.6
#[test]
fn an_engine_without_durable_turns_is_passed_over_loudly_for_each_turn_and_the_slot_stays() {
    let setup = Setup::new().recorder(&json!({})).select("recorder-fleeting");
    let gateway = setup.start();
    for round in 1..=2 {
        let answer = gateway.client().say("s", "hello");
        assert_eq!(served_by(&answer), (Some("legacy"), Some("durable-semantics-missing")));
        let warnings = |told: &str| told.matches("passed over for this logical turn").count();
        wait("the warning", || (warnings(&gateway.stderr()) >= round).then_some(()));
        let told = gateway.stderr();
        assert_eq!(warnings(&told), round, "one warning a turn: {told}");
        assert!(told.contains("before-current-turn-entry-v1"), "it says what is missing: {told}");
    }
    let engines = gateway.client().engines();
    assert_eq!(engines["chain"], json!(["recorder-fleeting"]));
    let row = engines["engines"].as_array().unwrap().iter().find(|row| row["id"] == "recorder-fleeting").unwrap();
    assert_eq!((&row["state"], &row["durable"]), (&json!("ready"), &json!(false)), "no quarantine: {row:#}");
    let doctor = setup.cli(&["doctor"]);
    assert_eq!(doctor.code, Some(1));
    assert!(doctor.stdout.contains("durable-semantics-missing"), "{}", doctor.stdout);
    // Where nothing is stored it serves.
    let answer = gateway.client().chat(None, json!([{"role": "user", "content": "hello"}]));
    assert_eq!(served_by(&answer), (Some("recorder-fleeting"), None));
}

/// 8.41, 9.5
#[test]
fn a_fresh_turn_of_a_fresh_session_is_served_by_the_selected_engine() {
    let setup = Setup::new().recorder(&json!({}));
    let gateway = setup.start();
    for session in ["a", "b"] {
        for text in ["one", "two"] {
            let headers = [("x-engineroom-session", session), ("idempotency-key", text)];
            let body = json!({"model": "test", "messages": [{"role": "user", "content": text}]});
            let answer = gateway.client().post("/v1/chat/completions", &headers, &body);
            assert_eq!(served_by(&answer), (Some("recorder"), None));
        }
        // An answer that is asked for again stands on an entry that the engine knows already.
        let again = json!([{"role": "user", "content": "one"}]);
        assert_eq!(served_by(&gateway.client().chat(Some(session), again)), (Some("recorder"), None));
    }
    assert!(!gateway.stderr().contains("passed over"), "{}", gateway.stderr());
}

/// 8.45
#[test]
fn a_failed_assembly_is_not_tried_again_in_its_turn_and_the_engine_serves_the_next() {
    let setup = Setup::new().recorder(&json!({"fail": {"assemble": {"times": 1, "service": true}}}));
    let gateway = setup.start();
    assert_eq!(served_by(&gateway.client().say("s", "one")), (Some("legacy"), Some("service-error")));
    assert_eq!(setup.calls().of("assemble").len(), 1);
    assert_eq!(served_by(&gateway.client().say("s", "two")), (Some("recorder"), None));
}

/// A turn whose client runs tools goes on after a crash: one turn, one key, from the question to the answer.
#[test]
fn a_turn_that_waits_for_its_client_goes_on_after_a_crash() {
    let call = json!({"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}});
    let asked = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let says = asked.clone();
    let model = MockModel::start(move |request, stream| match request["messages"].as_array().unwrap().last() {
        Some(last) if last["role"] == "tool" => model::answer(request, stream, "7 degrees"),
        _ => model::message(stream, says.clone(), "tool_calls"),
    });
    let setup = Setup::new().recorder(&json!({})).toml(&model.toml(40_000));
    let gateway = setup.start();
    let question = json!({"role": "user", "content": "how cold is it?"});
    let first = gateway.client().chat(Some("s"), json!([question]));
    assert_eq!((first.status, first.engine()), (200, Some("recorder")));
    let row = outbox(&gateway, "s").remove(0);
    assert_eq!(row["state"], "admitted", "{row:#}");
    gateway.kill();

    let gateway = setup.start();
    let result = json!({"role": "tool", "tool_call_id": "c1", "content": "7"});
    let answer = gateway.client().chat(Some("s"), json!([question, asked, result]));
    assert_eq!(answer.text(), "7 degrees");
    let commit = setup.calls().wait_for("commit_turn", 1).remove(0);
    assert_eq!(range(&commit), ["how cold is it?", "", "7", "7 degrees"]);
    assert_eq!(commit["advancementKey"], row["turn"], "the same logical turn");
    assert!(!gateway.stderr().contains("never accepted"), "{}", gateway.stderr());
}

/// The gateway itself moves a session to another id, in the middle of a turn: the turn goes with it.
#[test]
fn a_turn_follows_its_session_to_a_successor() {
    let calls = std::sync::atomic::AtomicUsize::new(0);
    let model =
        MockModel::start(move |request, stream| match calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            2 => {
                let error =
                    json!({"message": "maximum context length is 30 tokens", "code": "context_length_exceeded"});
                model::respond(stream, "400 Bad Request", &json!({"error": error}));
            }
            _ => model::answer(request, stream, "ok"),
        });
    let setup = Setup::new().recorder(&json!({"owns_compaction": true, "compact": "rotate"})).toml(&model.toml(40_000));
    let gateway = setup.start();
    for text in ["zero", "one"] {
        assert_eq!(served_by(&gateway.client().say("s", text)), (Some("recorder"), None));
    }
    let before = gateway.client().get("/api/sessions/s").json()["session_id"].clone();
    assert_eq!(served_by(&gateway.client().say("s", "two")), (Some("recorder"), None));
    let after = gateway.client().get("/api/sessions/s").json()["session_id"].clone();
    assert_ne!(before, after, "{:?}", setup.calls().hooks());
    let commit = setup.calls().wait_for("commit_turn", 3).remove(2);
    assert_eq!((range(&commit), &commit["session"]["id"]), (vec!["two".to_owned(), "ok".to_owned()], &after));
    assert_eq!(outbox_of(&gateway, "recorder", "blocked"), 0);
}

/// 8.42
#[test]
fn a_turn_stays_where_it_moved_to_through_its_retries() {
    let model = MockModel::start(|request, stream| {
        // The first prompt is too long for the provider, whatever it is.
        static CALLS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        match CALLS.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
            0 => {
                let error =
                    json!({"message": "maximum context length is 30 tokens", "code": "context_length_exceeded"});
                model::respond(stream, "400 Bad Request", &json!({"error": error}));
            }
            _ => model::answer(request, stream, "ok"),
        }
    });
    let setup =
        Setup::new().recorder(&json!({"fail": {"assemble": {"times": 1, "service": true}}})).toml(&model.toml(40_000));
    let gateway = setup.start();
    assert_eq!(served_by(&gateway.client().say("s", "one")), (Some("legacy"), Some("service-error")));
    assert_eq!(model.requests().len(), 2, "the provider was asked again");
    assert_eq!(setup.calls().of("assemble").len(), 1, "the engine was not, though it would do better now");
    assert_eq!(served_by(&gateway.client().say("s", "two")), (Some("recorder"), None));
}

/// 9.19
#[test]
fn the_current_turn_is_shown_exactly_once_whoever_places_it() {
    for places_turn in [false, true] {
        let model = MockModel::saying("ok");
        let setup = Setup::new()
            .recorder(&json!({"places_turn": places_turn, "volatile": "it is {n} o'clock"}))
            .toml(&model.toml(40_000));
        let gateway = setup.start();
        for text in ["first words", "second words"] {
            assert_eq!(served_by(&gateway.client().say("s", text)), (Some("recorder"), None), "{places_turn}");
            let request = model.requests().pop().unwrap();
            let users: Vec<String> = request["messages"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|message| message["role"] == "user")
                .map(|message| message["content"].to_string())
                .collect();
            assert_eq!(users.iter().filter(|said| said.contains(text)).count(), 1, "{places_turn}: {users:?}");
            assert!(users.last().unwrap().contains(text), "{places_turn}: it comes last: {users:?}");
        }
    }
}

/// Turns that another engine served come through the cursor before the next assembly, over restarts and crashes.
#[test]
fn engines_that_take_turns_know_everything_before_they_assemble() {
    let mut setup = Setup::new().recorder(&json!({"do": {"assemble": ["scan:entry/"]}}));
    let mut expected = 0;
    for (round, engine) in ["recorder", "recorder-two", "recorder", "recorder-two", "recorder"].iter().enumerate() {
        setup = setup.select(engine);
        let gateway = setup.start();
        for text in ["one", "two"] {
            assert_eq!(served_by(&gateway.client().say("s", text)), (Some(*engine), None));
            let known = setup.calls().did("scan:entry/").pop().unwrap();
            assert_eq!(known.as_array().unwrap().len(), expected, "{engine} in round {round}: {known}");
            expected += 2;
        }
        if round % 2 == 0 {
            gateway.kill();
        } else {
            assert!(gateway.stop().success());
        }
    }
}
