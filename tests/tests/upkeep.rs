//! What an engine does beside turns: it catches up, and it maintains, without a turn ever waiting for it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::{Answer, Gateway, MockModel, Setup, model, wait_for};
use serde_json::{Value, json};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A window in which nothing has to be compacted.
const WIDE: u32 = 100_000;
/// What nobody may have to wait for; runs in these tests take far longer.
const SOON: Duration = Duration::from_secs(12);
/// A run that lasts: as long as any test waits.
const LONG_MS: u64 = 60_000;

fn recording(config: &Value) -> Setup {
    Setup::new().recorder(config).toml(&MockModel::saying("well said").toml(WIDE))
}

/// Maintenance in the background that takes `ms` unless it is cancelled.
fn slow(ms: u64) -> Value {
    json!({"background": true, "slow": {"maintain": ms}})
}

/// The calls of `maintain` after turns.
fn maintained(setup: &Setup) -> Vec<Value> {
    setup.calls().of("maintain").into_iter().filter(|call| call["reason"] == "Turn").collect()
}

#[track_caller]
fn wait<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_for(Duration::from_secs(30), what, look)
}

fn wait_for_runs(setup: &Setup, count: usize) -> Vec<Value> {
    wait(&format!("{count} runs"), || Some(maintained(setup)).filter(|calls| calls.len() >= count))
}

/// What the session's report says of the work for it.
fn report(gateway: &Gateway, session: &str) -> Value {
    gateway.client().get(&format!("/api/sessions/{session}")).json()["maintenance"][0].clone()
}

/// A turn that must not wait for what an engine does beside it.
#[track_caller]
fn say_soon(gateway: &Gateway, session: &str, text: &str) -> Answer {
    let since = Instant::now();
    let answer = gateway.client().say(session, text);
    assert!(since.elapsed() < SOON, "it waited {:?}", since.elapsed());
    answer
}

fn engine_row(gateway: &Gateway, id: &str) -> Value {
    let engines = gateway.client().engines();
    engines["engines"].as_array().unwrap().iter().find(|row| row["id"] == id).unwrap().clone()
}

#[test]
fn turns_in_a_row_leave_one_merged_run_behind() {
    // While one turn runs the others wait for the session, so that none of the runs can begin between them.
    let model = MockModel::start(|request, stream| {
        std::thread::sleep(Duration::from_millis(400));
        model::answer(request, stream, "well said");
    });
    let setup = Setup::new().recorder(&json!({"background": true})).toml(&model.toml(WIDE));
    let gateway = setup.start();
    std::thread::scope(|scope| {
        for number in 0..5 {
            let client = gateway.client().clone();
            scope.spawn(move || assert_eq!(client.say("one", &format!("message {number}")).engine(), Some("recorder")));
        }
    });
    let runs = wait_for_runs(&setup, 1);
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(maintained(&setup).len(), 1, "{:?}", setup.calls().hooks());
    assert_eq!((&runs[0]["allowDeferred"], &runs[0]["session"]["key"]), (&json!(true), &json!("one")));
    let report = report(&gateway, "one");
    assert_eq!((&report["state"], &report["last"]["outcome"]), (&json!("idle"), &json!("succeeded")), "{report:#}");
    let engine = gateway.client().get("/api/engines/recorder").json();
    assert_eq!(engine["maintenance"], json!([report]), "{engine:#}");
    let metrics = gateway.client().get("/metrics").body;
    assert!(metrics.contains("engineroom_maintenance_total{engine=\"recorder\",outcome=\"succeeded\"} 1"), "{metrics}");
}

#[test]
fn a_turn_never_waits_for_maintenance_and_takes_no_part_of_it() {
    let setup = recording(&slow(LONG_MS));
    let gateway = setup.start();
    gateway.client().say("one", "hello").text();
    wait_for_runs(&setup, 1);
    assert_eq!(report(&gateway, "one")["state"], "running");
    let answer = say_soon(&gateway, "one", "and again");
    assert_eq!((answer.engine(), answer.degraded()), (Some("recorder"), None), "it gave way and is not blamed");
    // It is done later, with the turn that came.
    wait_for_runs(&setup, 2);
    let calls = setup.calls().hooks();
    let turn: Vec<&str> = calls
        .iter()
        .map(String::as_str)
        .skip_while(|hook| *hook != "maintain")
        .skip(1)
        .filter(|hook| *hook != "tools")
        .collect();
    assert_eq!(turn, ["assemble", "commit_turn", "maintain"], "{calls:?}");
    assert_eq!(report(&gateway, "one")["last"]["outcome"], "gave-way");
    let other = say_soon(&gateway, "another", "hello");
    assert_eq!(other.engine(), Some("recorder"));
}

#[test]
fn the_reply_is_over_when_it_is_said_and_the_next_message_is_heard_at_once() {
    let setup = recording(&slow(LONG_MS));
    let gateway = setup.start();
    for number in 0..3 {
        let answer = say_soon(&gateway, "one", &format!("message {number}"));
        assert_eq!((answer.engine(), answer.degraded()), (Some("recorder"), None));
    }
    wait_for_runs(&setup, 1);
    assert!(setup.calls().of("maintain").iter().all(|call| call["allowDeferred"] == json!(call["reason"] == "Turn")));
}

#[test]
fn a_run_that_does_not_give_way_costs_its_engine_the_turn_and_nobody_the_session() {
    let setup = recording(&json!({"background": true, "deaf": {"maintain": LONG_MS}}))
        .toml("[plugins.deadlines]\ngive_way_ms = 300\n");
    let gateway = setup.start();
    gateway.client().say("one", "hello").text();
    wait_for_runs(&setup, 1);
    let answer = say_soon(&gateway, "one", "and again");
    assert_eq!((answer.engine(), answer.degraded()), (Some("legacy"), Some("engine-quarantined")), "{answer:?}");
    let row = engine_row(&gateway, "recorder");
    assert_eq!((&row["state"], &row["abandoned"]), (&json!("quarantined"), &json!(1)), "{row:#}");
    assert_eq!(say_soon(&gateway, "one", "and once more").engine(), Some("legacy"));
}

#[test]
fn a_run_beyond_its_own_deadline_is_given_up_though_nobody_waits_for_it() {
    let setup = recording(&json!({"background": true, "deaf": {"maintain": LONG_MS}}))
        .toml("[plugins.deadlines]\nbackground_maintain_ms = 400\n");
    let gateway = setup.start();
    gateway.client().say("one", "hello").text();
    let row =
        wait("the quarantine", || Some(engine_row(&gateway, "recorder")).filter(|row| row["state"] == "quarantined"));
    assert_eq!((&row["code"], &row["quarantine"]["at"]), (&json!("deadline"), &json!("maintain")), "{row:#}");
    assert!(row["quarantine"]["hint"].as_str().unwrap().contains("background_maintain_ms"), "{row:#}");
    let last = wait("the report", || Some(report(&gateway, "one")).filter(|report| report["last"].is_object()));
    assert_eq!(last["last"]["outcome"], "failed", "{last:#}");
    assert_eq!(say_soon(&gateway, "one", "and now?").degraded(), Some("engine-quarantined"));
}

#[test]
fn work_that_was_put_off_has_the_time_of_the_background() {
    let setup = recording(&slow(1_500)).toml("[plugins.deadlines]\nmaintain_ms = 200\n");
    let gateway = setup.start();
    gateway.client().say("one", "hello").text();
    let done = wait("the end of the run", || Some(report(&gateway, "one")).filter(|report| report["last"].is_object()));
    assert_eq!(done["last"]["outcome"], "succeeded", "{done:#}");
    assert!(done["last"]["durationMs"].as_u64().unwrap() >= 1_400, "{done:#}");
    assert_eq!(maintained(&setup)[0]["allowDeferred"], true);
    assert_eq!(say_soon(&gateway, "one", "and again").degraded(), None);
}

#[test]
fn a_stop_cancels_what_runs_and_leaves_nothing_behind() {
    let setup = recording(&slow(LONG_MS));
    let gateway = setup.start();
    gateway.client().say("one", "hello").text();
    gateway.client().say("two", "hello").text();
    wait_for_runs(&setup, 2);
    let (status, said) = stopped(gateway);
    assert!(status, "{said}");
    assert_eq!(said.matches("cancelled during shutdown").count(), 2, "{said}");
    assert_eq!(setup.calls().of("dispose").len(), 1, "{:?}", setup.calls().hooks());
}

/// Stops the gateway; true when it ended well, with what it had said.
fn stopped(gateway: Gateway) -> (bool, String) {
    let (status, said) = gateway.stop_and_hear();
    (status.success(), said)
}

#[test]
fn an_instance_is_let_go_after_its_run_and_not_before() {
    let setup = recording(&json!({"background": true, "deaf": {"maintain": 1_200},
        "do": {"maintain": ["offers:the end of the run"]}}));
    let gateway = setup.start();
    gateway.client().say("one", "hello").text();
    wait_for_runs(&setup, 1);
    let (well, said) = stopped(gateway);
    assert!(well, "{said}");
    let lines = setup.calls().lines();
    let place = |wanted: &dyn Fn(&Value) -> bool| lines.iter().rposition(wanted);
    let end = place(&|line| line["did"] == "offers:the end of the run").expect("the run ended");
    let dispose = place(&|line| line["hook"] == "dispose").expect("it was disposed");
    assert!(end < dispose, "{:?}", setup.calls().hooks());
}

#[test]
fn a_stopping_gateway_takes_on_no_maintenance() {
    // The answer waits until the gateway is stopping, however long a busy machine needs for that.
    let stopping = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stopping);
    let model = MockModel::start(move |request, stream| {
        wait("the stop", || seen.load(Ordering::SeqCst).then_some(()));
        model::answer(request, stream, "well said");
    });
    let setup = Setup::new().recorder(&json!({"background": true})).toml(&model.toml(WIDE));
    let gateway = setup.start();
    let client = gateway.client().clone();
    let turn = std::thread::spawn(move || client.say("one", "hello").text());
    wait("the model's turn", || (!model.requests().is_empty()).then_some(()));
    gateway.signal("TERM");
    // It takes no connection any more.
    wait("the closed door", || TcpStream::connect(gateway.client().address()).is_err().then_some(()));
    stopping.store(true, Ordering::SeqCst);
    let (status, said) = gateway.end_and_hear();
    let well = status.success();
    assert_eq!(turn.join().unwrap(), "well said");
    assert!(well, "{said}");
    assert!(said.contains("maintenance was not queued: the gateway is stopping"), "{said}");
    assert!(maintained(&setup).is_empty());
}

#[test]
fn an_engine_that_is_stuck_holds_up_neither_readiness_nor_a_stop() {
    let setup = recording(&json!({"background": true, "deaf": {"maintain": LONG_MS}}))
        .toml("[plugins.deadlines]\ngive_way_ms = 300\n");
    let gateway = setup.start();
    gateway.client().say("one", "hello").text();
    wait_for_runs(&setup, 1);
    assert_eq!(gateway.client().get("/readyz").status, 200);
    let since = Instant::now();
    let (_, said) = stopped(gateway);
    assert!(since.elapsed() < SOON, "{said}");
}

#[test]
fn a_long_run_is_told_of_a_short_one_is_not_and_a_failure_always_is() {
    let setup = recording(&slow(10_700));
    let gateway = setup.start();
    gateway.client().say("one", "hello").text();
    wait("the notice", || gateway.stderr().contains("maintenance is still running").then_some(()));
    wait("the end", || gateway.stderr().contains("maintenance is done").then_some(()));

    let quiet = recording(&json!({"background": true}));
    let gateway = quiet.start();
    gateway.client().say("one", "hello").text();
    wait("the run", || (report(&gateway, "one")["last"]["outcome"] == "succeeded").then_some(()));
    assert!(!gateway.stderr().contains("maintenance is"), "{}", gateway.stderr());

    let failing = recording(&json!({"background": true, "fail": {"maintain": {"message": "no room left"}}}));
    let gateway = failing.start();
    gateway.client().say("one", "hello").text();
    wait("the failure in the log", || {
        let said = gateway.stderr();
        (said.contains("maintenance failed") && said.contains("no room left")).then_some(())
    });
    let report = wait("the report", || Some(report(&gateway, "one")).filter(|report| report["last"].is_object()));
    assert_eq!(report["last"]["outcome"], "failed", "{report:#}");
    assert!(report["last"]["reason"].as_str().unwrap().contains("no room left"), "{report:#}");
}

#[test]
fn a_hook_that_hangs_after_the_reply_frees_the_session_at_its_deadline() {
    for (engine, hook) in [("recorder", "commit_turn"), ("recorder-fleeting", "after_turn")] {
        let setup = recording(&json!({"deaf": {hook: LONG_MS}}))
            .select(engine)
            .toml(&format!("[plugins.deadlines]\n{hook}_ms = 400\n"));
        let gateway = setup.start();
        // Without durable turns it serves only what is not stored.
        let session = (engine == "recorder").then_some("one");
        let hello = || gateway.client().chat(session, json!([{"role": "user", "content": "hello"}]));
        assert_eq!(hello().engine(), Some(engine));
        let row =
            wait("the quarantine", || Some(engine_row(&gateway, engine)).filter(|row| row["state"] == "quarantined"));
        assert_eq!(row["quarantine"]["diagnostic"], "CE312", "{hook}: {row:#}");
        let since = Instant::now();
        assert_eq!(hello().engine(), Some("legacy"), "{hook}");
        assert!(since.elapsed() < SOON, "{hook}");
    }
}

#[test]
fn a_rewrite_of_either_kind_is_seen_by_the_next_turn_and_outlives_the_process() {
    for background in [false, true] {
        let setup = recording(&json!({"background": background, "do": {"maintain": ["rewrite:1=nothing to see"]}}));
        let gateway = setup.start();
        gateway.client().say("one", "a secret").text();
        let done = wait("the rewrite", || setup.calls().did("rewrite:1=nothing to see").first().cloned());
        assert_eq!(done, json!({"changed": true, "rewritten": 1}), "background {background}");
        wait("the end of the turn", || {
            let shown = gateway.client().get("/api/sessions/one").json();
            (shown["messages"][0]["text"] == "nothing to see").then_some(())
        });
        assert_eq!(gateway.client().say("one", "and again").degraded(), None);
        gateway.kill();
        let gateway = setup.start();
        assert_eq!(gateway.client().say("one", "after the fall").degraded(), None);
        let shown = gateway.client().get("/api/sessions/one").json();
        let texts: Vec<&str> =
            shown["messages"].as_array().unwrap().iter().map(|row| row["text"].as_str().unwrap()).collect();
        let expected = ["nothing to see", "well said", "and again", "well said", "after the fall", "well said"];
        assert_eq!(texts, expected, "background {background}");
        // Said again with the ids of then, it changes nothing.
        let again = wait("the replay", || setup.calls().did("rewrite:1=nothing to see").get(1).cloned());
        assert_eq!(again, json!({"changed": false, "rewritten": 0}));
    }
}

#[test]
fn a_heartbeat_is_told_in_every_hook_of_its_turn_and_marks_its_entries() {
    let setup = recording(&json!({"background": true}));
    let gateway = setup.start();
    gateway.client().say("one", "hello").text();
    wait_for_runs(&setup, 1);
    setup.calls().clear();
    let body = json!({"model": "test", "messages": [{"role": "user", "content": "tick"}]});
    let headers = [("x-engineroom-session", "one"), ("x-engineroom-heartbeat", "true")];
    gateway.client().post("/v1/chat/completions", &headers, &body).text();
    wait_for_runs(&setup, 1);
    for call in setup.calls().lines().iter().filter(|line| line.get("did").is_none()) {
        assert_eq!(call["session"]["heartbeat"], true, "{call:#}");
    }
    let commit = &setup.calls().of("commit_turn")[0];
    assert!(
        commit["entries"].as_array().unwrap().iter().all(|entry| entry["flags"].to_string().contains("heartbeat")),
        "{commit:#}"
    );
    setup.calls().clear();
    gateway.client().say("one", "and again").text();
    assert!(setup.calls().of("assemble")[0]["session"].get("heartbeat").is_none());
}

/// A gateway that knows a session of `turns` turns, served by `legacy`.
fn history(turns: usize) -> Setup {
    let setup = recording(&json!({"page": 10, "page_ms": 300, "keeps": false}));
    let mut messages = Vec::new();
    for number in 0..turns {
        messages.push(json!({"role": "user", "content": format!("question {number}")}));
        messages.push(json!({"role": "assistant", "content": format!("answer {number}")}));
    }
    messages.push(json!({"role": "user", "content": "the last one"}));
    let setup = setup.select("legacy");
    let gateway = setup.start();
    gateway.client().chat(Some("one"), json!(messages)).text();
    gateway.stop();
    setup.select("recorder")
}

#[test]
fn a_catch_up_has_time_as_long_as_it_reads_on_and_is_shown() {
    // Ten pages and more, 300 ms each: far beyond the deadline between two of them.
    let setup = history(60).toml("[plugins.deadlines]\nbootstrap_ms = 1500\n");
    let gateway = setup.start();
    let client = gateway.client().clone();
    let turn = std::thread::spawn(move || client.say("one", "what did I say?"));
    let shown = wait("the catch-up", || {
        let shown = gateway.client().get("/api/sessions/one").json()["catchUp"].clone();
        shown["read"].as_u64().filter(|read| *read > 0).map(|_| shown)
    });
    assert_eq!((&shown["engine"], &shown["entries"]), (&json!("recorder"), &json!(122)), "{shown:#}");
    let answer = turn.join().unwrap();
    assert_eq!((answer.engine(), answer.degraded()), (Some("recorder"), None), "{}", gateway.stderr());
    assert_eq!(setup.calls().did("catch-up"), [json!(122)], "all of it, and not the current turn");
    assert!(gateway.client().get("/api/sessions/one").json().get("catchUp").is_none());
}

#[test]
fn a_catch_up_beyond_its_cap_is_given_up() {
    let setup = history(60).toml("[plugins.deadlines]\nbootstrap_ms = 1500\nbootstrap_max_ms = 2000\n");
    let gateway = setup.start();
    let answer = gateway.client().say("one", "what did I say?");
    assert_eq!((answer.engine(), answer.degraded()), (Some("legacy"), Some("deadline")), "{answer:?}");
}

#[test]
fn an_idle_instance_makes_room_for_that_of_another_agent() {
    let setup = recording(&json!({})).env("ENGINEROOM_PLUGINS_INSTANCES_PER_ENGINE", "1");
    let gateway = setup.start();
    for agent in ["main", "a", "b"] {
        let answer = gateway.client().say(&format!("agent:{agent}:desk"), "hello");
        assert_eq!((answer.engine(), answer.degraded()), (Some("recorder"), None), "{agent}");
    }
    setup.calls().wait_for("dispose", 2);
    assert_eq!(setup.calls().of("factory").len(), 3);
    // Whose instance is gone gets a new one, and has lost nothing.
    let answer = gateway.client().say("agent:a:desk", "and again");
    assert_eq!((answer.engine(), answer.degraded()), (Some("recorder"), None));
    assert_eq!(setup.calls().of("factory").len(), 4);
    let row = engine_row(&gateway, "recorder");
    assert!(row["instancesDisposed"].as_u64().unwrap() >= 2, "{row:#}");
}

#[test]
fn an_instance_that_a_run_holds_stays_beyond_the_cap() {
    let setup = recording(&slow(2_500)).env("ENGINEROOM_PLUGINS_INSTANCES_PER_ENGINE", "1");
    let gateway = setup.start();
    gateway.client().say("agent:a:desk", "hello").text();
    wait_for_runs(&setup, 1);
    setup.calls().wait_for("dispose", 1);
    gateway.client().say("agent:b:desk", "hello").text();
    wait_for_runs(&setup, 2);
    assert_eq!(engine_row(&gateway, "recorder")["instances"], 2, "{:?}", setup.calls().hooks());
    assert_eq!(setup.calls().of("dispose").len(), 1, "only the one that nobody used");
    wait("the end of the runs", || {
        let done = ["agent:a:desk", "agent:b:desk"].map(|key| report(&gateway, key)["last"]["outcome"] == "succeeded");
        (done == [true, true]).then_some(())
    });
    gateway.client().say("agent:b:desk", "and again").text();
    setup.calls().wait_for("dispose", 2);
    assert_eq!(engine_row(&gateway, "recorder")["instances"], 1);
}

#[test]
fn a_command_without_a_gateway_waits_a_moment_for_what_its_engine_does_beside_the_turn() {
    let setup = recording(&slow(400));
    let said = setup.cli(&["turn", "--session", "one", "hello"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stdout.contains("well said"), "{said:?}");
    assert_eq!(maintained(&setup).len(), 1);
    assert!(!said.stderr.contains("shutdown"), "{said:?}");
    let setup = recording(&slow(LONG_MS));
    let since = Instant::now();
    assert_eq!(setup.cli(&["turn", "--session", "one", "hello"]).code, Some(0));
    assert!(since.elapsed() < Duration::from_secs(30), "and no longer");
}
