//! Engines and memory providers in a process of their own: to a caller they are what they are in the gateway's process, and
//! when that process goes, the gateway does not.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::{Gateway, MockModel, Setup, library_name, lives, model, render, signal, wait_for};
use serde_json::{Value, json};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A window in which nothing has to be compacted.
const WIDE: u32 = 1_000_000;
/// Codes of `engine_abi::wire::status`.
const EXPIRED: u32 = 5;
const REFUSED: u32 = 6;

fn apart() -> Setup {
    Setup::new().isolation("process")
}

/// The fixture engine that writes down its calls, in a worker.
fn recording(config: &Value) -> Setup {
    apart().recorder(config).toml(&MockModel::saying("well said").toml(WIDE))
}

fn row(gateway: &Gateway, id: &str) -> Value {
    let engines = gateway.client().engines();
    engines["engines"].as_array().unwrap().iter().find(|row| row["id"] == id).unwrap().clone()
}

fn worker(gateway: &Gateway, id: &str) -> u32 {
    let pid = row(gateway, id)["worker"]["pid"].as_u64();
    pid.unwrap_or_else(|| panic!("no worker: {:#}", row(gateway, id))) as u32
}

#[track_caller]
fn until<T>(what: &str, found: impl FnMut() -> Option<T>) -> T {
    wait_for(Duration::from_secs(30), what, found)
}

#[test]
fn a_conversation_is_served_by_a_worker_that_ends_with_its_gateway() {
    let setup = apart().library("window").select("window");
    let gateway = setup.start();
    for turn in 0..5 {
        let answer = gateway.client().say("s", &format!("Question {turn}?"));
        assert_eq!((answer.engine(), answer.degraded()), (Some("window"), None), "{answer:?}");
    }
    let shown = row(&gateway, "window");
    assert_eq!((&shown["state"], &shown["worker"]["alive"]), (&json!("ready"), &json!(true)), "{shown:#}");
    assert_eq!(shown["hooks"]["assemble"]["count"], 5, "{shown:#}");
    let pid = worker(&gateway, "window");
    assert_ne!(pid, gateway.pid());
    let (status, said) = gateway.stop_and_hear();
    assert!(status.success(), "{said}");
    assert!(!said.contains("failed in"), "{said}");
    assert!(!lives(pid), "the worker outlives its gateway");
}

#[test]
fn a_gateway_that_is_killed_leaves_no_worker_behind() {
    let gateway = apart().library("window").select("window").start();
    let pid = worker(&gateway, "window");
    gateway.kill();
    until("its end", || (!lives(pid)).then_some(()));
}

/// A conversation in which all that an engine can see happens, as the engine saw it.
fn seen(place: &'static str) -> String {
    let asked = AtomicUsize::new(0);
    let model = MockModel::start(move |request, stream| {
        let at = asked.fetch_add(1, Ordering::SeqCst);
        let text = request["messages"].to_string();
        if text.contains("what time") && !text.contains("\"tool\"") {
            let call = json!({"id": format!("call-{at}"), "type": "function",
                "function": {"name": "clock", "arguments": "{\"zone\": \"utc\"}"}});
            model::message(stream, json!({"role": "assistant", "content": null, "tool_calls": [call]}), "tool_calls");
        } else {
            model::answer(request, stream, &format!("answer {at}"));
        }
    });
    let config = json!({
        "owns_compaction": true, "compact": "own", "volatile": "note {n}", "system": "rules", "turns": 4,
        "note": "remember", "tools": [{"name": "clock", "answer": "noon {arguments}"}],
        "do": {
            "assemble": ["count:hello", "read", "put:a=1", "get:a", "get:none", "scan:", "engine-put:b=2",
                "engine-get:b", "llm:summarise", "memory-search:tea", "rewrite:1=no", "offers:engineroom.llm/1"],
            // In the first assemble of a session its row may not be written yet.
            "maintain": ["sessions", "rewrite:999=none", "log:upkeep"],
            "compact": ["count:compact"],
        },
    });
    let setup = Setup::new().isolation(place).recorder(&config).toml(&model.toml(WIDE));
    let gateway = setup.start();
    let client = gateway.client();
    // Until the upkeep of so many turns is over: what the next request leads to must not come between.
    let kept_up = |turns: usize| {
        until("the upkeep", || {
            let begun = setup.calls().of("maintain");
            let of_turns = begun.iter().filter(|call| call["reason"] == "Turn").count();
            (of_turns >= turns && setup.calls().did("log:upkeep").len() >= begun.len()).then_some(())
        });
    };
    client.say("one", "hello").text();
    kept_up(1);
    let answer = client.say("one", "what time is it");
    assert_eq!((answer.engine(), answer.degraded()), (Some("recorder"), None), "{place}: {answer:?}");
    kept_up(2);
    // An edit of what was said before.
    let edited = json!([{"role": "user", "content": "hello"}, {"role": "assistant", "content": "answer 1"},
        {"role": "user", "content": "something else"}]);
    assert_eq!(client.chat(Some("one"), edited).status, 200);
    kept_up(3);
    let parts = json!([{"role": "user", "content": [{"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]);
    client.chat(None, parts).text();
    setup.calls().wait_for("on_session_ended", 1);
    let report = client.post("/api/sessions/one/compact", &[], &json!({"focus": "the names"}));
    assert_eq!(report.status, 200, "{report:?}");
    kept_up(3);
    client.say("one", "what now").text();
    kept_up(4);
    client.delete("/api/sessions/one");
    setup.calls().wait_for("on_session_ended", 2);
    let status = gateway.stop();
    assert!(status.success());
    render(&setup.calls().lines())
}

#[test]
fn an_engine_sees_the_same_calls_with_the_same_parameters_in_both_isolations() {
    let (inside, apart) = (seen("in-process"), seen("process"));
    let differs = inside.lines().zip(apart.lines()).position(|(inside, apart)| inside != apart);
    if let Some(at) = differs {
        let line = |text: &str| text.lines().nth(at).unwrap_or_default().to_owned();
        panic!("line {at}:\n in-process: {}\n process:    {}\n\n{apart}", line(&inside), line(&apart));
    }
    assert_eq!(inside.lines().count(), apart.lines().count());
    assert!(inside.lines().count() > 100, "{inside}");
}

#[test]
fn a_memory_provider_serves_from_a_worker() {
    let model = MockModel::saying("ok");
    let setup = apart().library("notes").memory("notes").toml(&model.toml(WIDE));
    let folder = setup.path().join("workspace/memory");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("MEMORY.md"), "- The captain likes tea.\n").unwrap();
    let workspace = setup.path().join("workspace");
    let setup = setup
        .toml("[agents.main]\nworkspace_dir = \"workspace\"\n")
        .toml(&format!("[plugins.entries.notes]\nlimits = {{ write = [{}] }}\n", json!(workspace)));
    let gateway = setup.start();
    gateway.client().say("s", "Hi").text();
    let first = model.requests().last().unwrap()["messages"][0].clone();
    assert!(first["content"].as_str().unwrap().contains("The captain likes tea."), "{first}");
    let provider = gateway.client().engines()["memory"]["providers"][0].clone();
    assert!(provider["worker"]["pid"].is_u64(), "{provider:#}");
    assert_eq!(provider["state"], "ready", "{provider:#}");
    signal(provider["worker"]["pid"].as_u64().unwrap() as u32, "ABRT");
    let out = until("the crash is told", || {
        let provider = gateway.client().engines()["memory"]["providers"][0].clone();
        (provider["state"] == "quarantined").then_some(provider)
    });
    assert_eq!(out["code"], "memory-crashed", "{out:#}");
    assert_eq!(gateway.client().say("s", "And now?").status, 200, "turns go on without memory");
}

#[test]
fn an_engine_in_c_serves_from_a_worker() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let setup = apart();
    let name = library_name("c_window");
    let built = setup.path().join(&name);
    let status = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-std=c11", "-I"])
        .arg(root.join("engine-abi/include"))
        .arg(root.join("engines/c-window/c_window.c"))
        .arg("-o")
        .arg(&built)
        .status()
        .unwrap();
    assert!(status.success());
    let setup = setup.file(&name, &std::fs::read(&built).unwrap()).select("c-window");
    let gateway = setup.start();
    for turn in 0..4 {
        let answer = gateway.client().say("s", &format!("Question {turn}?"));
        assert_eq!((answer.engine(), answer.degraded()), (Some("c-window"), None), "{answer:?}");
    }
    assert!(worker(&gateway, "c-window") > 0);
    assert!(gateway.stop().success());
}

#[test]
fn services_keep_their_grants_fences_and_deadlines_over_a_worker() {
    let config = json!({"do": {
        "assemble": ["llm!cheap:summarise", "sessions", "read:other", "rewrite:1=no", "memory-append:x"],
        "maintain": ["late:count:hello"],
    }});
    let model = MockModel::start(|request, stream| model::answer(request, stream, "the summary"));
    let setup = apart().recorder_granted(&config, &[]).toml(&model.toml(WIDE));
    let setup = setup.toml("[plugins.deadlines]\nmaintain_ms = 600\n");
    let gateway = setup.start();
    gateway.client().say("one", "hello").text();
    let did = |deed: &str| until(deed, || setup.calls().did(deed).first().cloned());
    for deed in ["llm!cheap:summarise", "read:other", "rewrite:1=no"] {
        assert_eq!(did(deed)["status"], REFUSED, "{deed}: {:#}", did(deed));
    }
    assert!(did("sessions")["error"].to_string().contains("runtime_unavailable"), "{:#}", did("sessions"));
    assert_eq!(did("late:count:hello")["status"], EXPIRED, "{:#}", did("late:count:hello"));
    assert_eq!(model.requests().len(), 1, "the model of the turn alone was asked");
}

#[test]
fn a_log_line_of_a_worker_is_told_like_any_other() {
    let gateway = recording(&json!({"do": {"assemble": ["log:from afar"]}})).start();
    gateway.client().say("one", "hello").text();
    until("the line", || {
        gateway.stderr().lines().any(|l| l.contains("from afar") && l.contains("recorder")).then_some(())
    });
}

#[test]
fn a_worker_that_dies_in_a_call_costs_its_engine_and_nothing_else() {
    let setup = recording(&json!({"slow": {"assemble": 20_000}}));
    let gateway = setup.start();
    let pid = worker(&gateway, "recorder");
    let client = gateway.client().clone();
    let turn = std::thread::spawn(move || client.say("one", "hello"));
    setup.calls().wait_for("assemble", 1);
    signal(pid, "ABRT");
    let answer = turn.join().unwrap();
    assert_eq!((answer.status, answer.engine(), answer.degraded()), (200, Some("legacy"), Some("engine-crashed")));
    let shown = row(&gateway, "recorder");
    let record = &shown["quarantine"];
    assert_eq!((&record["code"], &record["at"]), (&json!("engine-crashed"), &json!("assemble")), "{shown:#}");
    assert_eq!(record["diagnostic"], "CE319", "{shown:#}");
    assert!(record["reason"].as_str().unwrap().contains("SIGABRT"), "{shown:#}");
    assert_eq!(shown["worker"]["alive"], false, "{shown:#}");
    let next = gateway.client().say("one", "and again");
    assert_eq!((next.status, next.engine(), next.degraded()), (200, Some("legacy"), Some("engine-crashed")));
    let (status, said) = gateway.stop_and_hear();
    assert!(status.success() && !said.contains("failed in dispose"), "{said}");
}

#[test]
fn a_worker_that_dies_between_calls_is_out_before_the_next_one() {
    let setup = recording(&json!({}));
    let gateway = setup.start();
    gateway.client().say("one", "hello").text();
    setup.calls().wait_for("maintain", 1);
    signal(worker(&gateway, "recorder"), "KILL");
    let shown = until("the crash is told", || {
        let shown = row(&gateway, "recorder");
        (shown["state"] == "quarantined").then_some(shown)
    });
    assert_eq!(shown["code"], "engine-crashed", "{shown:#}");
    let reason = "its worker was killed by SIGKILL between calls (perhaps out of memory or by hand)";
    assert_eq!((&shown["reason"], &shown["quarantine"]["at"]), (&json!(reason), &json!("between calls")), "{shown:#}");
    let hooks = shown["hooks"].as_object().unwrap();
    assert!(hooks.values().all(|hook| hook["failures"] == 0), "{shown:#}");
    let answer = gateway.client().say("one", "and again");
    assert_eq!((answer.engine(), answer.degraded()), (Some("legacy"), Some("engine-crashed")));
}

#[test]
fn a_hook_that_does_not_come_back_costs_its_worker_and_no_thread() {
    let setup = recording(&json!({"deaf": {"assemble": 60_000}})).toml("[plugins.deadlines]\nassemble_ms = 400\n");
    let gateway = setup.start();
    let pid = worker(&gateway, "recorder");
    let since = Instant::now();
    let answer = gateway.client().say("one", "hello");
    assert_eq!((answer.engine(), answer.degraded()), (Some("legacy"), Some("deadline")), "{answer:?}");
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    until("the worker's end", || (!lives(pid)).then_some(()));
    let shown = until("the thread is back", || {
        let shown = row(&gateway, "recorder");
        (shown["abandonedLive"] == 0).then_some(shown)
    });
    assert_eq!((&shown["abandoned"], &shown["code"]), (&json!(1), &json!("deadline")), "{shown:#}");
    let reason = shown["reason"].as_str().unwrap();
    assert!(reason.ends_with("and its worker is ended"), "{reason}");
    let doctor = setup.cli(&["doctor"]).stdout;
    assert!(!doctor.contains("did not come back, and"), "{doctor}");
}

#[test]
fn an_error_keeps_its_words_and_ends_the_worker() {
    let gateway = recording(&json!({"fail": {"assemble": {"message": "no idea"}}})).start();
    let pid = worker(&gateway, "recorder");
    let answer = gateway.client().say("one", "hello");
    assert_eq!((answer.engine(), answer.degraded()), (Some("legacy"), Some("engine-quarantined")), "{answer:?}");
    assert!(row(&gateway, "recorder")["reason"].as_str().unwrap().contains("no idea"));
    until("the worker's end", || (!lives(pid)).then_some(()));
}

#[test]
fn a_client_that_leaves_cancels_the_hook_in_the_worker() {
    let setup = recording(&json!({"slow": {"assemble": 25_000}})).toml("[plugins.deadlines]\nassemble_ms = 30000\n");
    let gateway = setup.start();
    let body = json!({"model": "test", "messages": [{"role": "user", "content": "hello"}]}).to_string();
    let address = gateway.client().base().trim_start_matches("http://").to_owned();
    let mut stream = std::net::TcpStream::connect(&address).unwrap();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         x-engineroom-session: one\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    std::io::Write::write_all(&mut stream, (head + &body).as_bytes()).unwrap();
    setup.calls().wait_for("assemble", 1);
    let since = Instant::now();
    drop(stream);
    until("the hook is back", || {
        let hooks = row(&gateway, "recorder")["hooks"].clone();
        (hooks["assemble"]["count"] == 1).then_some(())
    });
    assert!(since.elapsed() < Duration::from_secs(15), "{:?}", since.elapsed());
    assert_eq!(row(&gateway, "recorder")["state"], "ready", "a cancelled call is nobody's fault");
}

#[test]
fn agents_and_sessions_share_one_worker_side_by_side() {
    let setup = recording(&json!({"slow": {"assemble": 100}})).toml("[agents.second]\n");
    let gateway = setup.start();
    let pid = worker(&gateway, "recorder");
    let turns: Vec<_> = (0..12)
        .map(|number| {
            let client = gateway.client().clone();
            let agent = if number % 2 == 0 { "main" } else { "second" };
            std::thread::spawn(move || {
                for turn in 0..3 {
                    let answer = client.say(&format!("agent:{agent}:s{number}"), &format!("message {turn}"));
                    assert_eq!((answer.engine(), answer.degraded()), (Some("recorder"), None), "{answer:?}");
                }
            })
        })
        .collect();
    turns.into_iter().for_each(|turn| turn.join().unwrap());
    let shown = row(&gateway, "recorder");
    assert_eq!((&shown["instances"], &shown["hooks"]["assemble"]["count"]), (&json!(2), &json!(36)), "{shown:#}");
    assert_eq!(worker(&gateway, "recorder"), pid);
    assert!(gateway.stop().success());
}

#[test]
fn a_long_history_crosses_once_and_then_only_what_was_added() {
    let setup = apart().library("window").select("window").toml(&MockModel::saying("ok").toml(WIDE));
    let gateway = setup.start();
    let mut history: Vec<Value> = Vec::new();
    for number in 0..5_000 {
        history.push(json!({"role": "user", "content": format!("Question {number}?")}));
        history.push(json!({"role": "assistant", "content": format!("Answer {number}.")}));
    }
    history.push(json!({"role": "user", "content": "The first that is asked"}));
    let first = gateway.client().chat(Some("s"), Value::from(history));
    assert_eq!((first.engine(), first.degraded()), (Some("window"), None), "{first:?}");
    let crossed = |gateway: &Gateway| {
        let worker = row(gateway, "window")["worker"].clone();
        worker["bytesSent"].as_u64().unwrap() + worker["bytesReceived"].as_u64().unwrap()
    };
    gateway.client().say("s", "The second").text();
    until("the hand-over is done", || {
        let before = crossed(&gateway);
        std::thread::sleep(Duration::from_millis(300));
        (crossed(&gateway) == before).then_some(())
    });
    let before = crossed(&gateway);
    assert!(before > 100_000, "{before}");
    for turn in 0..5 {
        let answer = gateway.client().say("s", &format!("One more: {turn}"));
        assert_eq!((answer.engine(), answer.degraded()), (Some("window"), None), "{answer:?}");
    }
    let more = crossed(&gateway) - before;
    assert!(more < 60_000, "{more} bytes for five turns");
}

#[test]
fn commands_without_a_gateway_and_look_ups_work_with_a_worker() {
    let setup = apart().library("window").select("window");
    let turn = setup.cli(&["turn", "--session", "s", "hello"]);
    assert_eq!(turn.code, Some(0), "{turn:?}");
    let gateway = setup.start();
    gateway.client().say("s", "and again").text();
    let context = gateway.client().get("/api/sessions/s/context");
    assert_eq!(context.status, 200, "{context:?}");
    assert_eq!(row(&gateway, "window")["state"], "ready");
}
