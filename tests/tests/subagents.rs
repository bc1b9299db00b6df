//! Children of sessions: how they start, what they are given, how they end, and what a crash leaves of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::{Answer, Client, MockModel, Setup, model};
use serde_json::{Value, json};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PARENT: &str = "agent:main:desk";
/// What should come comes within this time on any machine.
const SOON: Duration = Duration::from_secs(60);

fn path(parent: &str) -> String {
    format!("/api/sessions/{parent}/subagents")
}

fn spawn(client: &Client, parent: &str, body: Value) -> Answer {
    client.post(&path(parent), &[], &body)
}

fn children(client: &Client, parent: &str) -> Vec<Value> {
    client.get(&path(parent)).json()["subagents"].as_array().expect("a list").clone()
}

/// Waits until `found` gives something.
#[track_caller]
fn wait_for<T>(what: &str, found: impl FnMut() -> Option<T>) -> T {
    engineroom_tests::wait_for(Duration::from_secs(30), what, found)
}

/// The child as its parent's list shows it, once it is in `state`.
#[track_caller]
fn in_state(client: &Client, parent: &str, child: &str, state: &str) -> Value {
    let mut last = Value::Null;
    wait_for(&format!("{child} in {state}"), || {
        last = children(client, parent).into_iter().find(|row| row["child"] == child)?;
        (last["state"] == state).then(|| last.clone())
    })
}

/// The user messages of a request, oldest first.
fn said(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().expect("messages");
    let users = messages.iter().filter(|message| message["role"] == "user");
    users.map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

/// What the model is asked last, by anybody.
fn asks(request: &Value) -> String {
    said(request).pop().unwrap_or_default()
}

/// A model that answers with what it is asked, and holds a question with "wait" until it is let go.
fn echo() -> (MockModel, Arc<AtomicBool>) {
    let go = Arc::new(AtomicBool::new(false));
    let held = Arc::clone(&go);
    let model = MockModel::start(move |request, stream| {
        let question = asks(request);
        if question.contains("wait") {
            let deadline = Instant::now() + Duration::from_secs(60);
            while !held.load(Ordering::Acquire) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        model::answer(request, stream, &format!("answer to: {question}"));
    });
    (model, go)
}

#[test]
fn an_isolated_child_answers_its_task_and_its_parent_hears_it_once() {
    let (model, _) = echo();
    let setup = Setup::new().recorder(&json!({})).toml(&model.toml(100_000));
    let gateway = setup.start();
    let client = gateway.client();
    client.say(PARENT, "The tide is low.");
    let answer = spawn(client, PARENT, json!({"task": "count the boats", "label": "counter", "ttlMs": 60_000}));
    assert_eq!(answer.status, 200, "{answer:?}");
    let started = answer.json();
    let child = started["child"].as_str().unwrap().to_owned();
    assert!(child.starts_with("agent:main:subagent:"), "{child}");
    assert_eq!(
        (&started["state"], &started["depth"], &started["mode"]),
        (&json!("running"), &json!(1), &json!("isolated"))
    );
    let done = in_state(client, PARENT, &child, "completed");
    assert_eq!(done["result"], "answer to: count the boats");
    assert_eq!((&done["usage"]["turns"], &done["usage"]["tokens"]), (&json!(1), &json!(12)));

    // The engine prepared it, took its turn over like any other, and was told of its end, in this order, once each.
    let prepared = setup.calls().wait_for("prepare_subagent_spawn", 1);
    assert_eq!(prepared[0]["childKey"], child.as_str());
    assert_eq!(prepared[0]["mode"], "Isolated");
    assert_eq!(prepared[0]["ttlMs"], 60_000);
    assert_eq!(prepared[0]["childId"], done["sessionId"]);
    let ended = setup.calls().wait_for("on_subagent_ended", 1);
    assert_eq!((ended[0]["childKey"].as_str(), ended[0]["reason"].as_str()), (Some(child.as_str()), Some("Completed")));
    let of_child: Vec<String> = setup
        .calls()
        .lines()
        .iter()
        .filter(|line| line["session"]["key"] == child.as_str() || line["childKey"] == child.as_str())
        .filter(|line| line.get("did").is_none())
        .map(|line| line["hook"].as_str().unwrap().to_owned())
        .collect();
    let at =
        |hook: &str| of_child.iter().position(|name| name == hook).unwrap_or_else(|| panic!("{hook}: {of_child:?}"));
    assert!(at("assemble") < at("commit_turn") && at("commit_turn") < at("on_subagent_ended"), "{of_child:?}");

    // It saw its task only.
    let request = model.requests().into_iter().find(|request| asks(request) == "count the boats").unwrap();
    assert_eq!(said(&request), ["count the boats"]);

    // The parent's next turn has the result in front of its question; the one after it has it there still, once.
    client.say(PARENT, "And now?");
    let seen = said(&model.requests().pop().unwrap());
    let note = seen.iter().position(|text| text.contains("answer to: count the boats")).expect("the result");
    assert!(seen[note].contains("\"counter\"") && seen[note].contains(&child), "{seen:?}");
    assert_eq!(seen[note + 1], "And now?");
    client.say(PARENT, "Later.");
    let seen = said(&model.requests().pop().unwrap());
    assert_eq!(seen.iter().filter(|text| text.contains("answer to: count the boats")).count(), 1, "{seen:?}");
    assert_eq!(children(client, PARENT)[0]["delivered"], true);
    assert_eq!(setup.calls().of("on_subagent_ended").len(), 1);
    assert_eq!(setup.calls().of("rollback_subagent_spawn").len(), 0);

    // Its turn is recorded as what it is, and its session takes no other.
    let turns = client.get(&format!("/api/sessions/{child}/turns")).json();
    assert_eq!(turns["turns"][0]["subagent"]["parent"], PARENT, "{turns}");
    let refused = client.say(&child, "Go on.");
    assert_eq!((refused.status, refused.json()["error"]["diagnostic"].as_str()), (409, Some("CE625")), "{refused:?}");
    let metrics = client.get("/metrics").body;
    assert!(metrics.contains("engineroom_subagents_total{mode=\"isolated\",outcome=\"completed\"} 1"), "{metrics}");
}

#[test]
fn a_fork_begins_with_the_history_of_its_parent_and_waiting_gives_the_result() {
    let (model, _) = echo();
    let setup = Setup::new().recorder(&json!({})).toml(&model.toml(100_000));
    let gateway = setup.start();
    let client = gateway.client();
    client.say(PARENT, "My pilot is called Marisol.");
    client.say(PARENT, "The pier is number 7.");
    let done = spawn(client, PARENT, json!({"task": "who is the pilot?", "mode": "fork", "wait": true})).json();
    assert_eq!(
        (&done["state"], &done["mode"], &done["delivered"]),
        (&json!("completed"), &json!("fork"), &json!(true)),
        "{done}"
    );
    assert_eq!(done["result"], "answer to: who is the pilot?");
    let request = model.requests().pop().unwrap();
    assert_eq!(said(&request), ["My pilot is called Marisol.", "The pier is number 7.", "who is the pilot?"]);
    assert_eq!(request["messages"].as_array().unwrap().len(), 5);
    let child = done["child"].as_str().unwrap();
    assert_eq!(setup.calls().wait_for("prepare_subagent_spawn", 1)[0]["mode"], "Fork");
    // What the fork took over, the engine reads through the cursor: on first sight of the session.
    let first_sight = setup.calls().of("bootstrap").into_iter().any(|call| call["session"]["key"] == child);
    assert!(first_sight, "{:?}", setup.calls().hooks());

    // The histories part: neither hears what the other says, and who waited is not told again.
    client.say(PARENT, "What was that?");
    let seen = said(&model.requests().pop().unwrap());
    assert_eq!(seen, ["My pilot is called Marisol.", "The pier is number 7.", "What was that?"]);
    let shown = client.get(&format!("/api/sessions/{child}")).json();
    assert_eq!(shown["messages"].as_array().unwrap().len(), 6);
}

#[test]
fn a_light_isolated_child_is_not_prepared_and_its_end_is_told_all_the_same() {
    let (model, _) = echo();
    let setup = Setup::new().recorder(&json!({})).toml(&model.toml(100_000));
    let gateway = setup.start();
    let client = gateway.client();
    client.say(PARENT, "Hello.");
    let done = spawn(client, PARENT, json!({"task": "look", "lightContext": true, "wait": true})).json();
    assert_eq!((&done["state"], &done["lightContext"]), (&json!("completed"), &json!(true)), "{done}");
    setup.calls().wait_for("on_subagent_ended", 1);
    assert_eq!(setup.calls().of("prepare_subagent_spawn").len(), 0);
}

#[test]
fn a_failed_preparation_fails_the_spawn_and_the_next_one_is_prepared_by_the_next_engine() {
    let (model, _) = echo();
    let config = json!({"fail": {"prepare_subagent_spawn": {"message": "no room for a child"}}});
    let setup = Setup::new().recorder(&config).toml(&model.toml(100_000));
    let gateway = setup.start();
    let client = gateway.client();
    client.say(PARENT, "Hello.");
    let before = model.requests().len();
    let answer = spawn(client, PARENT, json!({"task": "look", "wait": true}));
    assert_eq!(answer.status, 500, "{answer:?}");
    let error = answer.json()["error"].clone();
    assert_eq!(error["diagnostic"], "CE623");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("subagent preparation failed") && message.contains("no room for a child"), "{message}");
    assert_eq!(model.requests().len(), before, "nothing was started");
    assert_eq!(children(client, PARENT), Vec::<Value>::new());
    assert_eq!(setup.calls().of("rollback_subagent_spawn").len(), 0, "nothing was prepared");
    let engine = client.engines()["engines"]
        .as_array()
        .and_then(|engines| engines.iter().find(|engine| engine["id"] == "recorder").cloned())
        .expect("the engine");
    assert_eq!(engine["state"], "quarantined", "{engine}");

    let done = spawn(client, PARENT, json!({"task": "look", "wait": true})).json();
    assert_eq!((&done["state"], &done["engine"]), (&json!("completed"), &json!("legacy")), "{done}");
}

#[test]
fn a_start_that_fails_after_the_preparation_is_rolled_back_once() {
    let (model, _) = echo();
    // The preparation takes longer than the child may live.
    let config = json!({"slow": {"prepare_subagent_spawn": 600}});
    let setup = Setup::new().recorder(&config).toml(&model.toml(100_000));
    let gateway = setup.start();
    let client = gateway.client();
    client.say(PARENT, "Hello.");
    let before = model.requests().len();
    let answer = spawn(client, PARENT, json!({"task": "look", "mode": "fork", "ttlMs": 200, "wait": true}));
    assert_eq!((answer.status, answer.json()["error"]["diagnostic"].as_str()), (500, Some("CE624")), "{answer:?}");
    let prepared = setup.calls().of("prepare_subagent_spawn");
    let rolled_back = setup.calls().of("rollback_subagent_spawn");
    assert_eq!((prepared.len(), rolled_back.len()), (1, 1));
    assert_eq!(rolled_back[0]["handle"], 1);
    assert_eq!(model.requests().len(), before);
    assert_eq!(children(client, PARENT), Vec::<Value>::new());
    // Nothing stays: not the copied history, not the row.
    let child = prepared[0]["childKey"].as_str().unwrap();
    assert_eq!(client.get(&format!("/api/sessions/{child}")).status, 404);
    assert_eq!(setup.calls().of("on_subagent_ended").len(), 0, "what never began does not end");
    assert!(gateway.stop().success());
    let gateway = setup.start();
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(setup.calls().of("rollback_subagent_spawn").len(), 1);
    assert_eq!(setup.calls().of("on_subagent_ended").len(), 0);
    drop(gateway);
}

#[test]
fn what_the_host_lacks_is_refused_before_anything_is_started() {
    let (model, _) = echo();
    // The embedded host keeps no thread.
    let config = json!({"requires": {"subagent_spawn": 1 << 6}, "requires_message": "bring your own"});
    let setup = Setup::new().recorder(&config).toml(&model.toml(100_000));
    let gateway = setup.start();
    let client = gateway.client();
    client.say(PARENT, "Hello.");
    let answer = spawn(client, PARENT, json!({"task": "look"}));
    assert_eq!((answer.status, answer.json()["error"]["diagnostic"].as_str()), (409, Some("CE302")), "{answer:?}");
    assert!(answer.body.contains("subagent-spawn") && answer.body.contains("bring your own"), "{answer:?}");
    assert_eq!(setup.calls().of("prepare_subagent_spawn").len(), 0);
    assert_eq!(children(client, PARENT), Vec::<Value>::new());
    // Not the engine's fault.
    assert_eq!(client.say(PARENT, "Still here?").engine(), Some("recorder"));
}

#[test]
fn a_child_is_swept_when_its_time_is_over_whether_it_runs_or_has_ended() {
    let (model, _) = echo();
    let setup = Setup::new().recorder(&json!({})).toml(&model.toml(100_000));
    let gateway = setup.start();
    let client = gateway.client();
    client.say(PARENT, "Hello.");
    let running = spawn(client, PARENT, json!({"task": "wait for the flood", "ttlMs": 700})).json();
    let ended = spawn(client, PARENT, json!({"task": "look", "ttlMs": 700, "wait": true})).json();
    assert_eq!(ended["state"], "completed");
    let child = running["child"].as_str().unwrap();
    let swept = in_state(client, PARENT, child, "swept");
    assert!(swept["cause"].as_str().unwrap().contains("time to live"), "{swept}");
    let told = setup.calls().wait_for("on_subagent_ended", 2);
    let mut reasons: Vec<_> = told.iter().map(|call| call["reason"].as_str().unwrap()).collect();
    reasons.sort_unstable();
    assert_eq!(reasons, ["Completed", "Swept"]);
    wait_for("both sessions gone", || children(client, PARENT).iter().all(|row| row["gone"] == true).then_some(()));
    for row in [&running, &ended] {
        assert_eq!(client.get(&format!("/api/sessions/{}", row["child"].as_str().unwrap())).status, 404);
    }
    assert_eq!(setup.calls().of("on_subagent_ended").len(), 2, "once each");
    // The parent hears that the one that ran has no result.
    client.say(PARENT, "And?");
    let seen = said(&model.requests().pop().unwrap());
    assert!(seen.iter().any(|text| text.contains(child) && text.contains("swept")), "{seen:?}");
}

#[test]
fn deleting_the_parent_ends_its_children_and_deleting_a_child_ends_that_one() {
    let (model, go) = echo();
    let setup = Setup::new().recorder(&json!({})).toml(&model.toml(100_000));
    let gateway = setup.start();
    let client = gateway.client();
    client.say(PARENT, "Hello.");
    let first = spawn(client, PARENT, json!({"task": "wait here"})).json()["child"].as_str().unwrap().to_owned();
    let second = spawn(client, PARENT, json!({"task": "wait there"})).json()["child"].as_str().unwrap().to_owned();
    let deleted = delete(client, &format!("{}/{first}", path(PARENT)));
    assert_eq!(deleted.0, 200, "{deleted:?}");
    let shown = in_state(client, PARENT, &first, "deleted");
    assert_eq!((&shown["gone"], &shown["delivered"]), (&json!(true), &json!(true)));
    assert_eq!(setup.calls().wait_for("on_subagent_ended", 1)[0]["reason"], "Deleted");
    let one = client.get(&format!("{}/{first}", path(PARENT)));
    assert_eq!((one.status, one.json()["state"].as_str()), (200, Some("deleted")), "{one:?}");
    assert_eq!(client.get(&format!("{}/{first}x", path(PARENT))).status, 404);
    assert_eq!(delete(client, &format!("{}/{first}x", path(PARENT))).0, 404);

    assert_eq!(delete(client, &format!("/api/sessions/{PARENT}")).0, 200);
    let told = setup.calls().of("on_subagent_ended");
    let deleted: Vec<_> =
        told.iter().filter(|call| call["reason"] == "Deleted").map(|call| &call["childKey"]).collect();
    assert_eq!(deleted.len(), told.len());
    assert!(deleted.contains(&&json!(second)), "{told:?}");
    assert_eq!(client.get(&format!("/api/sessions/{second}")).status, 404);
    assert_eq!(client.get(&path(PARENT)).status, 404);
    go.store(true, Ordering::Release);
}

fn delete(client: &Client, path: &str) -> (u16, String) {
    let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
    let mut answer = agent.delete(format!("{}{path}", client.base())).call().expect("DELETE");
    (answer.status().as_u16(), answer.body_mut().read_to_string().unwrap_or_default())
}

#[test]
fn a_child_that_is_ended_while_it_is_prepared_is_rolled_back() {
    let (model, _) = echo();
    let setup = Setup::new().recorder(&json!({"slow": {"prepare_subagent_spawn": 1500}})).toml(&model.toml(100_000));
    let gateway = setup.start();
    let client = gateway.client();
    client.say(PARENT, "Hello.");
    let answer = std::thread::scope(|scope| {
        let spawning = scope.spawn(|| spawn(client, PARENT, json!({"task": "look", "mode": "fork"})));
        let child = wait_for("the child", || children(client, PARENT).pop());
        assert_eq!(child["state"], "preparing");
        let (status, body) = delete(client, &format!("{}/{}", path(PARENT), child["child"].as_str().unwrap()));
        assert!(status == 200 && body.contains("\"state\":\"deleted\""), "{status} {body}");
        spawning.join().unwrap()
    });
    assert_eq!((answer.status, answer.json()["error"]["diagnostic"].as_str()), (500, Some("CE624")), "{answer:?}");
    assert_eq!(setup.calls().of("rollback_subagent_spawn").len(), 1);
    assert_eq!(setup.calls().of("on_subagent_ended").len(), 0);
    assert_eq!(children(client, PARENT), Vec::<Value>::new());
}

#[test]
fn who_waits_and_goes_away_ends_nothing_and_the_parent_hears_the_result() {
    let (model, go) = echo();
    let setup = Setup::new().recorder(&json!({})).toml(&model.toml(100_000));
    let gateway = setup.start();
    let client = gateway.client();
    client.say(PARENT, "Hello.");
    let body = json!({"task": "wait for the ferry", "wait": true}).to_string();
    let address = client.base().strip_prefix("http://").unwrap();
    let mut waiting = std::net::TcpStream::connect(address).unwrap();
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        path(PARENT),
        body.len()
    );
    waiting.write_all(head.as_bytes()).unwrap();
    let child = wait_for("the child", || children(client, PARENT).into_iter().find(|row| row["state"] == "running"));
    drop(waiting);
    // The gateway sees it go before the answer is there.
    std::thread::sleep(Duration::from_millis(300));
    go.store(true, Ordering::Release);
    let child = child["child"].as_str().unwrap();
    assert_eq!(in_state(client, PARENT, child, "completed")["delivered"], false);
    client.say(PARENT, "And?");
    let seen = said(&model.requests().pop().unwrap());
    assert_eq!(seen.iter().filter(|text| text.contains("answer to: wait for the ferry")).count(), 1, "{seen:?}");
}

#[test]
fn resetting_the_parent_deletes_its_children() {
    let (model, _) = echo();
    let setup = Setup::new().recorder(&json!({})).toml(&model.toml(100_000));
    let gateway = setup.start();
    let client = gateway.client();
    client.say(PARENT, "Hello.");
    let done =
        spawn(client, PARENT, json!({"task": "look", "wait": true})).json()["child"].as_str().unwrap().to_owned();
    let running = spawn(client, PARENT, json!({"task": "wait"})).json()["child"].as_str().unwrap().to_owned();
    setup.calls().wait_for("on_subagent_ended", 1);
    let reset = client.post(&format!("/api/sessions/{PARENT}/reset"), &[], &json!({}));
    assert_eq!(reset.status, 200, "{reset:?}");
    let told = setup.calls().of("on_subagent_ended");
    let reason = |child: &str| {
        let of: Vec<_> =
            told.iter().filter(|call| call["childKey"] == child).map(|call| call["reason"].clone()).collect();
        assert_eq!(of.len(), 1, "{told:?}");
        of[0].clone()
    };
    assert_eq!((reason(&done), reason(&running)), (json!("Completed"), json!("Deleted")));
    assert!(children(client, PARENT).iter().all(|row| row["gone"] == true));
    for child in [done, running] {
        assert_eq!(client.get(&format!("/api/sessions/{child}")).status, 404);
    }
}

#[test]
fn a_stop_in_good_order_lets_a_child_go_on_afterwards() {
    let (model, go) = echo();
    let setup = Setup::new().recorder(&json!({})).toml(&model.toml(100_000)).env("ENGINEROOM_GATEWAY_DRAIN_MS", "200");
    let gateway = setup.start();
    let client = gateway.client();
    client.say(PARENT, "Hello.");
    let child = spawn(client, PARENT, json!({"task": "wait for me"})).json()["child"].as_str().unwrap().to_owned();
    gateway.stop();
    // More often than a task is begun again after a crash.
    for _ in 0..3 {
        let before = model.requests().len();
        let gateway = setup.start();
        wait_for("the task to be begun again", || (model.requests().len() > before).then_some(()));
        gateway.stop();
    }
    go.store(true, Ordering::Release);
    let gateway = setup.start();
    let done = in_state(gateway.client(), PARENT, &child, "completed");
    assert_eq!(done["result"], "answer to: wait for me");
    assert_eq!(setup.calls().wait_for("on_subagent_ended", 1).len(), 1);
    assert_eq!(setup.calls().of("rollback_subagent_spawn").len(), 0);
}

#[test]
fn a_client_that_sends_its_whole_history_does_not_lose_what_a_child_said() {
    let (model, _) = echo();
    let setup = Setup::new().recorder(&json!({})).toml(&model.toml(100_000));
    let gateway = setup.start();
    let client = gateway.client();
    let user = |text: &str| json!({"role": "user", "content": text});
    let assistant = |text: &str| json!({"role": "assistant", "content": format!("answer to: {text}")});
    client.chat(Some(PARENT), json!([user("one")]));
    let child = spawn(client, PARENT, json!({"task": "count"})).json()["child"].as_str().unwrap().to_owned();
    in_state(client, PARENT, &child, "completed");
    let seen = |messages: Value| {
        assert_eq!(client.chat(Some(PARENT), messages).status, 200);
        said(&model.requests().pop().unwrap())
    };
    let note = |seen: &[String]| seen.iter().filter(|text| text.contains("answer to: count")).count();
    // The next message, then the same again (a new answer is wanted), then another in its place.
    let first = seen(json!([user("one"), assistant("one"), user("two")]));
    assert_eq!((first.len(), note(&first)), (3, 1), "{first:?}");
    let again = seen(json!([user("one"), assistant("one"), user("two")]));
    assert_eq!(again, first);
    let edited = seen(json!([user("one"), assistant("one"), user("three")]));
    assert_eq!((edited.len(), note(&edited)), (3, 1), "{edited:?}");
    assert_eq!(edited[2], "three");
    let later = seen(json!([user("one"), assistant("one"), user("three"), assistant("three"), user("four")]));
    assert_eq!((later.len(), note(&later)), (4, 1), "{later:?}");
}

#[test]
fn an_engine_that_is_out_when_a_child_ends_is_told_when_it_is_back() {
    let (model, go) = echo();
    // The third assembly of a process fails.
    let config = json!({"fail": {"assemble": {"after": 2, "times": 1}}});
    let setup = Setup::new().recorder(&config).toml(&model.toml(100_000));
    let gateway = setup.start();
    let client = gateway.client();
    client.say(PARENT, "Hello.");
    let child = spawn(client, PARENT, json!({"task": "wait for me"})).json()["child"].as_str().unwrap().to_owned();
    wait_for("the child's call", || {
        model.requests().iter().any(|request| asks(request) == "wait for me").then_some(())
    });
    assert_eq!(client.say(PARENT, "And?").engine(), Some("legacy"));
    go.store(true, Ordering::Release);
    in_state(client, PARENT, &child, "completed");
    // A second passes in which the sweep looks for what is owed.
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(setup.calls().of("on_subagent_ended").len(), 0);
    assert!(gateway.stop().success());
    let gateway = setup.start();
    let told = setup.calls().wait_for("on_subagent_ended", 1);
    assert_eq!((&told[0]["childKey"], &told[0]["reason"]), (&json!(child), &json!("Completed")));
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(setup.calls().of("on_subagent_ended").len(), 1);
    drop(gateway);
}

#[test]
fn a_child_whose_time_is_over_before_it_starts_is_no_failure_of_the_gateway() {
    let (model, _) = echo();
    let setup = Setup::new().recorder(&json!({"slow": {"prepare_subagent_spawn": 200}})).toml(&model.toml(100_000));
    let gateway = setup.start();
    let client = gateway.client();
    client.say(PARENT, "Hello.");
    let late = spawn(client, PARENT, json!({"task": "x", "budgets": {"timeMs": 50}, "wait": true}));
    assert!(late.status >= 400, "{late:?}");
    let message = late.json()["error"]["message"].as_str().unwrap().to_owned();
    assert_eq!(message, "the subagent was not started: its time was over before it began");
}

#[test]
fn a_child_of_another_agent_is_prepared_by_the_engine_that_serves_it() {
    let (model, _) = echo();
    let agents = "[agents.helper]\nworkspace_dir = \"work\"\n[agents.plain.slots]\ncontextEngine = \"legacy\"\n";
    let setup = Setup::new().recorder(&json!({})).toml(&model.toml(100_000)).toml(agents);
    let gateway = setup.start();
    let client = gateway.client();
    client.say(PARENT, "Hello.");
    let helper = spawn(client, PARENT, json!({"task": "look", "agent": "helper", "wait": true})).json();
    assert!(helper["child"].as_str().unwrap().starts_with("agent:helper:subagent:"), "{helper}");
    assert_eq!((&helper["agent"], &helper["engine"]), (&json!("helper"), &json!("recorder")));
    let told = setup.calls().wait_for("on_subagent_ended", 1);
    assert_eq!(told[0]["childKey"], helper["child"]);
    let plain = spawn(client, PARENT, json!({"task": "look", "agent": "plain", "wait": true})).json();
    assert_eq!((&plain["engine"], &plain["state"]), (&json!("legacy"), &json!("completed")), "{plain}");
    assert_eq!(setup.calls().of("prepare_subagent_spawn").len(), 1, "legacy prepared the other one");
    let fork = spawn(client, PARENT, json!({"task": "look", "agent": "helper", "mode": "fork"}));
    assert_eq!((fork.status, &fork.json()["error"]["param"]), (400, &json!("mode")), "{fork:?}");
}

#[test]
fn a_history_that_is_too_long_for_a_fork_is_not_taken_over_and_that_is_said() {
    let (model, _) = echo();
    let setup =
        Setup::new().recorder(&json!({})).toml(&model.toml(100_000)).toml("[subagents]\nfork_max_tokens = 100\n");
    let gateway = setup.start();
    let client = gateway.client();
    client.say(PARENT, &"word ".repeat(200));
    let done = spawn(client, PARENT, json!({"task": "look", "mode": "fork", "wait": true})).json();
    assert_eq!((&done["state"], &done["mode"]), (&json!("completed"), &json!("isolated")), "{done}");
    assert!(done["note"].as_str().unwrap().contains("100 at most"), "{done}");
    assert_eq!(said(&model.requests().pop().unwrap()), ["look"]);
}

#[test]
fn budgets_end_a_child_with_a_clear_reason() {
    let (model, _) = echo();
    let setup = Setup::new().recorder(&json!({})).toml(&model.toml(100_000));
    let gateway = setup.start();
    let client = gateway.client();
    client.say(PARENT, "Hello.");
    let long = "word ".repeat(200);
    let tokens = spawn(client, PARENT, json!({"task": long, "budgets": {"maxTokens": 50}, "wait": true})).json();
    assert_eq!(tokens["state"], "released", "{tokens}");
    assert!(tokens["cause"].as_str().unwrap().contains("budget is used up: tokens"), "{tokens}");
    let time = spawn(client, PARENT, json!({"task": "wait", "budgets": {"timeMs": 300}, "wait": true})).json();
    assert_eq!(time["state"], "released", "{time}");
    assert!(time["cause"].as_str().unwrap().contains("time: 300 ms"), "{time}");
    let told = setup.calls().wait_for("on_subagent_ended", 2);
    assert!(told.iter().all(|call| call["reason"] == "Released"), "{told:?}");
    // Not the engine's fault either.
    assert_eq!(client.say(PARENT, "Still here?").engine(), Some("recorder"));
}

#[test]
fn depth_number_and_switch_bound_the_children() {
    let (model, go) = echo();
    let bounds = "[subagents]\nmax_depth = 1\nmax_children = 2\n";
    let setup = Setup::new().recorder(&json!({})).toml(&model.toml(100_000)).toml(bounds);
    let gateway = setup.start();
    let client = gateway.client();
    client.say(PARENT, "Hello.");
    let code = |answer: &Answer| (answer.status, answer.json()["error"]["diagnostic"].as_str().map(str::to_owned));
    let done = spawn(client, PARENT, json!({"task": "look", "wait": true})).json();
    for task in ["wait 1", "wait 2"] {
        assert_eq!(spawn(client, PARENT, json!({"task": task})).status, 200);
    }
    let third = spawn(client, PARENT, json!({"task": "look"}));
    assert_eq!(code(&third), (429, Some("CE622".into())), "{third:?}");
    let below = spawn(client, done["child"].as_str().unwrap(), json!({"task": "look"}));
    assert_eq!(code(&below).0, 409, "{below:?}");
    let nobody = spawn(client, "agent:main:nobody", json!({"task": "look"}));
    assert_eq!(code(&nobody).0, 404, "{nobody:?}");
    let stranger = spawn(client, PARENT, json!({"task": "look", "agent": "stranger"}));
    assert_eq!(code(&stranger).0, 400, "{stranger:?}");
    go.store(true, Ordering::Release);
    drop(gateway);

    let setup = setup.toml("# off\n");
    let off = setup.cli(&["sessions", "spawn", PARENT, "look", "--set", "subagents.enabled=false", "--json"]);
    assert_eq!(off.code, Some(1), "{off:?}");
    assert!(format!("{}{}", off.stdout, off.stderr).contains("CE620"), "{off:?}");
}

#[test]
fn a_killed_gateway_leaves_children_that_the_next_one_finishes_releases_or_sweeps() {
    let (model, go) = echo();
    let config = json!({"slow": {"prepare_subagent_spawn": 1}});
    let setup = Setup::new().recorder(&config).toml(&model.toml(100_000));
    let gateway = setup.start();
    let client = gateway.client().clone();
    client.say(PARENT, "Hello.");
    let key = |answer: Answer| answer.json()["child"].as_str().expect("a child").to_owned();
    let resumed = key(spawn(&client, PARENT, json!({"task": "wait for me", "ttlMs": 600_000})));
    let late = key(spawn(&client, PARENT, json!({"task": "wait too long", "ttlMs": 900})));
    let told = key(spawn(&client, PARENT, json!({"task": "look"})));
    in_state(&client, PARENT, &told, "completed");
    setup.calls().wait_for("on_subagent_ended", 1);
    gateway.kill();
    std::thread::sleep(Duration::from_millis(1000));
    go.store(true, Ordering::Release);
    let gateway = setup.start();
    let client = gateway.client();
    let done = in_state(client, PARENT, &resumed, "completed");
    assert_eq!(done["result"], "answer to: wait for me");
    in_state(client, PARENT, &late, "swept");
    let calls = setup.calls().wait_for("on_subagent_ended", 3);
    let reason = |child: &str| {
        let of: Vec<_> = calls.iter().filter(|call| call["childKey"] == child).map(|call| &call["reason"]).collect();
        assert_eq!(of.len(), 1, "{child}: {calls:?}");
        of[0].clone()
    };
    assert_eq!(
        (reason(&resumed), reason(&late), reason(&told)),
        (json!("Completed"), json!("Swept"), json!("Completed"))
    );
    assert_eq!(setup.calls().of("rollback_subagent_spawn").len(), 0);
    // Its task is in its session once, though it was begun twice.
    let shown = client.get(&format!("/api/sessions/{resumed}")).json();
    let users = shown["messages"].as_array().unwrap().iter().filter(|row| row["role"] == "user").count();
    assert_eq!(users, 1, "{shown}");
    // All three are heard, once.
    client.say(PARENT, "And?");
    let seen = said(&model.requests().pop().unwrap());
    for child in [&resumed, &late, &told] {
        assert_eq!(seen.iter().filter(|text| text.contains(child.as_str())).count(), 1, "{seen:?}");
    }
}

#[test]
fn a_kill_at_any_moment_of_starts_and_ends_leaves_nothing_behind() {
    let (model, go) = echo();
    go.store(true, Ordering::Release);
    let setup = Setup::new()
        .killed_often()
        .recorder(&json!({"slow": {"prepare_subagent_spawn": 3, "on_subagent_ended": 3}}))
        .toml(&model.toml(100_000));
    let mut seed: u64 = 0x9e37_79b9_7f4a_7c15;
    for round in 0..12 {
        let gateway = setup.start();
        let client = gateway.client().clone();
        client.say(PARENT, "Hello.");
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let spawned = AtomicUsize::new(0);
        let kill_after = Duration::from_millis(seed % 120);
        let gateway = Mutex::new(Some(gateway));
        std::thread::scope(|scope| {
            for number in 0..2 {
                let (client, spawned) = (&client, &spawned);
                scope.spawn(move || {
                    for n in 0.. {
                        let mode = if n % 2 == 0 { "isolated" } else { "fork" };
                        let body =
                            json!({"task": format!("look {round} {number} {n}"), "mode": mode, "ttlMs": 3_600_000});
                        if client.try_post(&path(PARENT), &[], &body).is_err() {
                            break;
                        }
                        spawned.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            // A machine that is slow has begun nothing yet when the time is over.
            let since = Instant::now();
            while spawned.load(Ordering::Relaxed) < 2 && since.elapsed() < SOON {
                std::thread::sleep(Duration::from_millis(2));
            }
            std::thread::sleep(kill_after);
            gateway.lock().unwrap().take().unwrap().kill();
        });
    }
    let gateway = setup.start();
    let client = gateway.client();
    // Whatever was prepared and not rolled back is told of, whatever began is answered or released.
    let prepared: Vec<String> = setup
        .calls()
        .of("prepare_subagent_spawn")
        .iter()
        .map(|call| call["childKey"].as_str().unwrap().to_owned())
        .collect();
    assert!(prepared.len() > 12, "the rounds must have something to lose: {}", prepared.len());
    wait_for("every child told of", || {
        let told = setup.calls().of("on_subagent_ended");
        prepared.iter().all(|child| told.iter().any(|call| call["childKey"] == child.as_str())).then_some(())
    });
    wait_for("nothing runs", || {
        children(client, PARENT)
            .iter()
            .all(|row| row["state"] != "running" && row["state"] != "preparing")
            .then_some(())
    });
    assert_eq!(setup.calls().of("rollback_subagent_spawn").len(), 0);
    // What never began has no session.
    for row in children(client, PARENT).iter().filter(|row| row["state"] == "released") {
        let child = row["child"].as_str().unwrap();
        wait_for("its session is gone", || (client.get(&format!("/api/sessions/{child}")).status == 404).then_some(()));
    }
}

#[test]
fn the_model_spawns_with_a_tool_and_reads_the_result() {
    let model = MockModel::start(|request, stream| {
        let question = asks(request);
        let last = request["messages"].as_array().and_then(|messages| messages.last().cloned()).unwrap();
        if question == "delegate" && last["role"] == "user" {
            let call = |id: &str, arguments: Value| {
                json!({"id": id, "type": "function",
                    "function": {"name": "spawn_subagent", "arguments": arguments.to_string()}})
            };
            let calls = [
                call("a", json!({"task": "count the boats", "label": "boats"})),
                call("b", json!({"task": "who is the pilot?", "mode": "fork"})),
                call("c", json!({"task": "look later", "wait": false})),
                call("d", json!({"mode": "fork"})),
            ];
            model::message(stream, json!({"role": "assistant", "content": null, "tool_calls": calls}), "tool_calls");
        } else {
            model::answer(request, stream, &format!("answer to: {question}"));
        }
    });
    let setup =
        Setup::new().recorder(&json!({})).toml(&model.toml(100_000)).toml("[subagents]\ntool = true\nmax_depth = 1\n");
    let gateway = setup.start();
    let client = gateway.client();
    client.say(PARENT, "My pilot is called Marisol.");
    let answer = client.say(PARENT, "delegate");
    assert_eq!(answer.text(), "answer to: delegate", "{answer:?}");
    let requests = model.requests();
    let last =
        requests.iter().rev().find(|request| request["messages"].as_array().unwrap().last().unwrap()["role"] == "tool");
    let messages = last.expect("a call with the results")["messages"].as_array().unwrap().clone();
    let result = |id: &str| {
        let found = messages.iter().find(|message| message["tool_call_id"] == id).expect("a result");
        found["content"].as_str().unwrap().to_owned()
    };
    assert_eq!(result("a"), "answer to: count the boats");
    assert_eq!(result("b"), "answer to: who is the pilot?");
    assert!(result("c").contains("agent:main:subagent:"), "{}", result("c"));
    assert!(result("d").contains("needs a task"), "{}", result("d"));
    // The fork has what was answered, and nothing of the turn that spawned it.
    let fork = requests.iter().find(|request| asks(request) == "who is the pilot?").unwrap();
    assert_eq!(said(fork), ["My pilot is called Marisol.", "who is the pilot?"]);
    // A child of the deepest kind is not offered the tool.
    let offers = |request: &Value| request["tools"].to_string().contains("spawn_subagent");
    assert!(!offers(fork) && offers(&requests[0]));
    // What was waited for is not told again; what was not comes as a note.
    let later = children(client, PARENT).into_iter().find(|row| row["task"] == "look later").unwrap();
    in_state(client, PARENT, later["child"].as_str().unwrap(), "completed");
    client.say(PARENT, "And?");
    let seen = said(&model.requests().pop().unwrap());
    let notes: Vec<_> = seen.iter().filter(|text| text.starts_with("[Result of the subagent")).collect();
    assert!(notes.len() == 1 && notes[0].contains("look later"), "{seen:?}");
    assert_eq!(setup.calls().wait_for("on_subagent_ended", 3).len(), 3);
}

#[test]
fn a_spawn_of_the_model_enters_the_engine_when_the_engine_s_own_tools_are_done() {
    let model = MockModel::start(|request, stream| {
        let last = request["messages"].as_array().and_then(|messages| messages.last().cloned()).unwrap();
        if last["role"] == "user" && asks(request) == "both" {
            let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
            let task = r#"{"task": "look"}"#;
            let calls = [call("a", "spawn_subagent", task), call("b", "tide", "{}"), call("c", "spawn_subagent", task)];
            model::message(stream, json!({"role": "assistant", "content": null, "tool_calls": calls}), "tool_calls");
        } else {
            model::answer(request, stream, "well");
        }
    });
    // A deed is written down when the hook has taken its time.
    let config = json!({"tools": [{"name": "tide", "answer": "low"}],
        "slow": {"call_tool": 300, "prepare_subagent_spawn": 200},
        "do": {"call_tool": ["log:tide"], "prepare_subagent_spawn": ["log:prepared"]}});
    let setup = Setup::new().recorder(&config).toml(&model.toml(100_000)).toml("[subagents]\ntool = true\n");
    let gateway = setup.start();
    assert_eq!(gateway.client().say(PARENT, "both").text(), "well");
    let entered: Vec<(String, bool)> = setup
        .calls()
        .lines()
        .iter()
        .map(|line| (line["hook"].as_str().unwrap().to_owned(), line.get("did").is_some()))
        .filter(|(hook, _)| hook == "call_tool" || hook == "prepare_subagent_spawn")
        .collect();
    let row = |hook: &str, left: bool| (hook.to_owned(), left);
    let (tide, prepare) = ("call_tool", "prepare_subagent_spawn");
    let one_after_the_other = [
        row(tide, false),
        row(tide, true),
        row(prepare, false),
        row(prepare, true),
        row(prepare, false),
        row(prepare, true),
    ];
    assert_eq!(entered, one_after_the_other);
}

#[test]
fn a_kill_in_the_middle_of_a_rollback_does_not_call_it_again() {
    let (model, _) = echo();
    let config = json!({"slow": {"prepare_subagent_spawn": 600, "rollback_subagent_spawn": 5000}});
    let setup = Setup::new().recorder(&config).toml(&model.toml(100_000));
    let gateway = setup.start();
    let client = gateway.client().clone();
    client.say(PARENT, "Hello.");
    let spawning = std::thread::spawn(move || {
        client.try_post(&path(PARENT), &[], &json!({"task": "look", "mode": "fork", "ttlMs": 200})).is_err()
    });
    let rolled_back = setup.calls().wait_for("rollback_subagent_spawn", 1);
    gateway.kill();
    assert!(spawning.join().unwrap(), "nobody answered");
    let gateway = setup.start();
    // The handle was the dead process's; what it stood for is let go by its key.
    let told = setup.calls().wait_for("on_subagent_ended", 1);
    assert_eq!(told[0]["reason"], "Released");
    let child = told[0]["childKey"].as_str().unwrap();
    wait_for("nothing of it", || (gateway.client().get(&format!("/api/sessions/{child}")).status == 404).then_some(()));
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(setup.calls().of("rollback_subagent_spawn").len(), rolled_back.len());
    assert_eq!(setup.calls().of("on_subagent_ended").len(), 1);
}

#[test]
fn budgets_bound_the_tool_loop_of_a_child() {
    // It never comes to an end by itself.
    let model = MockModel::start(|request, stream| {
        if asks(request).contains("for ever") {
            let call = json!({"id": "c", "type": "function", "function": {"name": "tide", "arguments": "{}"}});
            model::message(stream, json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls");
        } else {
            model::answer(request, stream, "well");
        }
    });
    let config = json!({"tools": [{"name": "tide", "answer": "low"}]});
    let setup = Setup::new().recorder(&config).toml(&model.toml(100_000));
    let gateway = setup.start();
    let client = gateway.client();
    client.say(PARENT, "Hello.");
    let turns =
        spawn(client, PARENT, json!({"task": "look for ever", "budgets": {"maxTurns": 3}, "wait": true})).json();
    assert_eq!((&turns["state"], &turns["usage"]["turns"]), (&json!("released"), &json!(3)), "{turns}");
    assert!(turns["cause"].as_str().unwrap().contains("turns: 3 of 3"), "{turns}");
    let calls =
        spawn(client, PARENT, json!({"task": "look for ever", "budgets": {"maxToolCalls": 2}, "wait": true})).json();
    assert!(calls["cause"].as_str().unwrap().contains("tool calls: 3 wanted, 2 allowed"), "{calls}");
    assert_eq!(setup.calls().of("call_tool").len(), 3 + 2);
}

#[test]
fn the_command_line_spawns_lists_and_ends() {
    let (model, _) = echo();
    let setup = Setup::new().recorder(&json!({})).toml(&model.toml(100_000));
    // Without a gateway: in the process of the command.
    setup.cli(&["turn", "--session", PARENT, "Hello."]);
    let spawned = setup.cli(&["sessions", "spawn", PARENT, "--label", "eye", "look", "around"]);
    assert_eq!((spawned.code, spawned.stdout.trim()), (Some(0), "answer to: look around"), "{spawned:?}");
    let listed = setup.cli(&["sessions", "subagents", PARENT, "--json"]).json();
    let child = listed["subagents"][0]["child"].as_str().unwrap().to_owned();
    assert_eq!(listed["subagents"][0]["state"], "completed");
    let ended = setup.cli(&["sessions", "subagents", PARENT, "--end", &child]);
    assert!(ended.code == Some(0) && ended.stdout.contains("eye"), "{ended:?}");
    assert_eq!(setup.cli(&["sessions", "subagents", PARENT, "--json"]).json()["subagents"][0]["gone"], true);
}
