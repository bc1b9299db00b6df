//! The hosts that keep the conversation themselves, and what engines require of a host: seen from the client, the engine, the
//! provider and the command.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::thread::{call, message};
use engineroom_tests::{Answer, Gateway, Setup, ThreadServer, wait_for};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A window in which nothing has to be compacted.
const WIDE: u32 = 100_000;
/// Longest wait for what happens by itself.
const PATIENCE: Duration = Duration::from_secs(20);
/// Bit of `assemble-before-prompt`.
const ASSEMBLE: u32 = 1 << 1;
/// Bit of `thread-bootstrap-projection`.
const PROJECTION: u32 = 1 << 6;

#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(PATIENCE, what, || holds().then_some(()));
}

// The thread host.

fn threaded(server: &ThreadServer, config: &Value) -> Setup {
    Setup::new().recorder(config).toml(&server.toml(WIDE))
}

#[test]
fn a_thread_is_told_everything_once_and_then_only_what_is_new_also_after_a_restart() {
    let server = ThreadServer::counting();
    let setup = threaded(&server, &json!({"epoch": "one", "system": "house rules", "note": "remember the sea"}));
    let gateway = setup.start();
    assert_eq!(gateway.client().say("s", "first").text(), "answer 1");
    assert_eq!(gateway.client().say("s", "second").text(), "answer 2");
    assert!(gateway.stop().success());
    let gateway = setup.start();
    assert_eq!(gateway.client().say("s", "third").text(), "answer 3");
    gateway.kill();
    let gateway = setup.start();
    let last = gateway.client().say("s", "fourth");
    assert_eq!((last.text().as_str(), last.engine(), last.degraded()), ("answer 4", Some("recorder"), None));

    let heard = server.heard();
    let told: Vec<_> = heard.iter().map(|heard| (heard.previous(), heard.brought())).collect();
    let only = |text: &str| vec![text.to_owned()];
    assert_eq!(
        told,
        [
            (None, vec!["remember the sea".to_owned(), "first".to_owned()]),
            (Some("resp_1"), only("second")),
            (Some("resp_2"), only("third")),
            (Some("resp_3"), only("fourth")),
        ]
    );
    assert_eq!(
        heard[3].said(),
        ["remember the sea", "first", "answer 1", "second", "answer 2", "third", "answer 3", "fourth"]
    );
    for heard in &heard {
        assert_eq!(heard.request["store"], true);
        assert_eq!(heard.request["instructions"], "house rules", "no provider keeps them from call to call");
    }
    let assembled = setup.calls().of("assemble");
    assert_eq!(assembled.len(), 4, "the engine is asked before every call: only it knows the epoch");
    let settings = &assembled[0]["session"]["settings"];
    assert_eq!(settings["executionHost"], "engineroom-thread", "{settings}");
    assert_eq!((&settings["provider"], &settings["mode"]), (&json!("thread"), &json!("Fallback")), "{settings}");
}

#[test]
fn another_epoch_is_told_everything_again() {
    let server = ThreadServer::counting();
    let setup = threaded(
        &server,
        &json!({"epoch": "e{compactions}", "owns_compaction": true, "compact": "own", "note": "compacted {compactions} times"}),
    );
    let gateway = setup.start();
    gateway.client().say("s", "first").text();
    gateway.client().say("s", "second").text();
    let report = gateway.client().post("/api/sessions/s/compact", &[], &json!({}));
    assert_eq!(report.status, 200, "{report:?}");
    gateway.client().say("s", "third").text();
    gateway.client().say("s", "fourth").text();
    let told: Vec<_> =
        server.heard().iter().map(|heard| (heard.previous().map(str::to_owned), heard.brought())).collect();
    assert_eq!(told[1], (Some("resp_1".into()), vec!["second".into()]));
    assert_eq!(told[2].0, None, "the epoch has changed: {told:?}");
    assert_eq!(told[2].1.first().unwrap(), "compacted 1 times");
    assert_eq!(told[2].1.last().unwrap(), "third");
    assert!(!told[2].1.contains(&"first".to_owned()), "the engine has compacted it away: {told:?}");
    assert_eq!(told[3], (Some("resp_3".into()), vec!["fourth".into()]));
}

#[test]
fn a_history_that_the_host_compacted_is_told_again_whatever_the_epoch() {
    let server = ThreadServer::counting();
    let setup = threaded(&server, &json!({"epoch": "one"})).toml("[compaction]\nkeep_recent_tokens = 20\n");
    let gateway = setup.start();
    let long = "a long story of a harbour and its pilot. ".repeat(20);
    for turn in 0..4 {
        gateway.client().say("s", &format!("{turn}: {long}")).text();
    }
    let report = gateway.client().post("/api/sessions/s/compact", &[], &json!({})).json();
    assert_eq!(report["compacted"], true, "{report}");
    gateway.client().say("s", "and now").text();
    let heard = server.heard();
    let last = heard.last().unwrap();
    assert_eq!(last.previous(), None, "the provider has what was compacted: {:?}", last.brought());
    assert!(last.brought().len() < 8, "{:?}", last.brought());
    assert_eq!(last.brought().last().unwrap(), "and now");
}

#[test]
fn a_per_turn_engine_tells_everything_every_time_and_leaves_nothing_behind() {
    let server = ThreadServer::counting();
    let setup = threaded(&server, &json!({}));
    let gateway = setup.start();
    gateway.client().say("s", "first").text();
    gateway.client().say("s", "second").text();
    let heard = server.heard();
    assert_eq!(heard[1].brought(), ["first", "answer 1", "second"]);
    for heard in &heard {
        assert_eq!((heard.previous(), &heard.request["store"]), (None, &json!(false)));
    }
}

#[test]
fn a_thread_that_the_provider_has_forgotten_is_told_again_once_and_said_loudly() {
    let server = ThreadServer::counting();
    let setup = threaded(&server, &json!({"epoch": "one"}));
    let gateway = setup.start();
    gateway.client().say("s", "first").text();
    server.forget();
    let answer = gateway.client().say("s", "second");
    assert_eq!((answer.text().as_str(), answer.engine()), ("answer 2", Some("recorder")));
    let requests = server.requests();
    assert_eq!(requests.len(), 3, "one was refused");
    assert_eq!(requests[1]["previous_response_id"], "resp_1");
    assert_eq!(server.heard().last().unwrap().brought(), ["first", "answer 1", "second"]);
    let loud = gateway.stderr();
    assert!(loud.contains("forgotten the conversation") && loud.contains("resp_1"), "not loud: {loud}");
    let turns = gateway.client().get("/api/sessions/s/turns").body;
    assert!(turns.contains("\"injected\":\"lost\""), "the turn's record says it: {turns}");
    // The new thread goes on.
    gateway.client().say("s", "third").text();
    assert_eq!(server.heard().last().unwrap().previous(), Some("resp_2"));
}

#[test]
fn a_history_that_took_another_way_is_told_again() {
    let server = ThreadServer::counting();
    let setup = threaded(&server, &json!({"epoch": "one"}));
    let gateway = setup.start();
    let user = |text: &str| json!({"role": "user", "content": text});
    let assistant = |text: &str| json!({"role": "assistant", "content": text});
    gateway.client().chat(Some("s"), json!([user("first")])).text();
    gateway.client().chat(Some("s"), json!([user("first"), assistant("answer 1"), user("second")])).text();
    // The client edits its second question.
    gateway.client().chat(Some("s"), json!([user("first"), assistant("answer 1"), user("other")])).text();
    let heard = server.heard();
    assert_eq!(heard[1].previous(), Some("resp_1"));
    assert_eq!(
        (heard[2].previous(), heard[2].brought()),
        (None, vec!["first".into(), "answer 1".into(), "other".into()])
    );
    assert!(!heard[2].said().contains(&"second".to_owned()));
}

#[test]
fn results_of_the_client_s_tools_go_into_the_thread() {
    let server = ThreadServer::start(|heard| match heard.said().last().unwrap().as_str() {
        "look" => vec![message("I look."), call("c1", "look", "{\"at\": \"sea\"}")],
        last => vec![message(&format!("heard {last}"))],
    });
    let setup = threaded(&server, &json!({"epoch": "one"}));
    let gateway = setup.start();
    let tools = json!([{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]);
    let say = |messages: Value, stream: bool| -> Answer {
        let body = json!({"model": "test", "messages": messages, "tools": tools, "stream": stream});
        gateway.client().post("/v1/chat/completions", &[("x-engineroom-session", "s")], &body)
    };
    let asked = say(json!([{"role": "user", "content": "look"}]), false).json();
    let message = &asked["choices"][0]["message"];
    assert_eq!(asked["choices"][0]["finish_reason"], "tool_calls");
    assert_eq!(message["content"], "I look.");
    assert_eq!(message["tool_calls"][0]["function"], json!({"name": "look", "arguments": "{\"at\": \"sea\"}"}));
    let result = json!([{"role": "tool", "tool_call_id": "c1", "content": "waves"}]);
    let body = json!({"model": "test", "messages": result, "tools": tools});
    let headers = [("x-engineroom-session", "s"), ("x-engineroom-history", "delta")];
    let answer = gateway.client().post("/v1/chat/completions", &headers, &body);
    assert_eq!(answer.text(), "heard =waves");
    let heard = server.heard();
    assert_eq!(heard[0].request["tools"][0]["name"], "look");
    assert_eq!((heard[1].previous(), heard[1].brought()), (Some("resp_1"), vec!["=waves".to_owned()]));
    assert_eq!(heard[1].said(), ["look", "I look.", "look({\"at\": \"sea\"})", "=waves"]);
}

#[test]
fn results_of_an_engine_s_tools_go_on_in_the_same_thread_within_the_turn() {
    let server = ThreadServer::start(|heard| match heard.said().last().unwrap().as_str() {
        "how is the tide?" => vec![call("c1", "tide", "{}")],
        last => vec![message(&format!("heard {last}"))],
    });
    let config = json!({"epoch": "one", "tools": [{"name": "tide", "answer": "high"}]});
    let setup = threaded(&server, &config);
    let gateway = setup.start();
    assert_eq!(gateway.client().say("s", "how is the tide?").text(), "heard =high");
    assert_eq!(gateway.client().say("s", "thank you").text(), "heard thank you");
    let heard = server.heard();
    let told: Vec<_> = heard.iter().map(|heard| (heard.previous(), heard.brought())).collect();
    assert_eq!(told[0], (None, vec!["how is the tide?".to_owned()]));
    assert_eq!(told[1], (Some("resp_1"), vec!["=high".to_owned()]));
    assert_eq!(told[2], (Some("resp_2"), vec!["thank you".to_owned()]));
    assert_eq!(heard[2].said(), ["how is the tide?", "tide({})", "=high", "heard =high", "thank you"]);
    assert_eq!(heard[0].request["tools"][0]["name"], "tide");
}

#[test]
fn a_volatile_addition_goes_with_the_turn_that_it_is_for() {
    let server = ThreadServer::counting();
    let setup = threaded(&server, &json!({"epoch": "one", "volatile": "tide {n}"}));
    let gateway = setup.start();
    gateway.client().say("s", "first").text();
    gateway.client().say("s", "second").text();
    let brought = server.heard()[1].brought();
    assert_eq!(brought.len(), 1, "{brought:?}");
    assert!(brought[0].contains("tide 2") && brought[0].ends_with("second"), "{brought:?}");
}

#[test]
fn a_streamed_answer_has_the_usage_and_what_was_cached() {
    let server =
        ThreadServer::start(|_| vec![message("well said, and in quite a few words, so that they are worth a cache")]);
    let setup = threaded(&server, &json!({"epoch": "one"}));
    let gateway = setup.start();
    let body = json!({"model": "test", "messages": [{"role": "user", "content": "hello"}], "stream": true,
        "stream_options": {"include_usage": true}});
    let answer = gateway.client().post("/v1/chat/completions", &[("x-engineroom-session", "s")], &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    let chunks: Vec<Value> = answer
        .body
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .filter(|data| *data != "[DONE]")
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    let text: String = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(text, "well said, and in quite a few words, so that they are worth a cache");
    assert!(chunks.len() > 5, "piece by piece: {chunks:?}");
    let usage = chunks.iter().find_map(|chunk| chunk["usage"].as_object()).unwrap();
    assert!(usage["prompt_tokens"].as_u64().unwrap() > 0 && usage["prompt_tokens_details"]["cached_tokens"] == 0);
    assert!(answer.body.trim_end().ends_with("data: [DONE]"));
    // What was cached reaches the engine with the next turn.
    gateway.client().say("s", "again").text();
    gateway.client().say("s", "and again").text();
    let last = setup.calls().of("assemble").pop().unwrap();
    assert!(last["session"]["promptCache"]["cacheRead"].as_u64().unwrap() > 0, "{last}");
}

#[test]
fn an_ephemeral_turn_leaves_nothing_at_the_provider() {
    let server = ThreadServer::counting();
    let setup = threaded(&server, &json!({"epoch": "one"}));
    let gateway = setup.start();
    gateway.client().chat(None, json!([{"role": "user", "content": "hello"}])).text();
    assert_eq!(server.heard()[0].request["store"], false);
}

#[test]
fn legacy_serves_on_a_thread_as_anywhere() {
    let server = ThreadServer::counting();
    let setup = Setup::new().toml(&server.toml(WIDE));
    let gateway = setup.start();
    gateway.client().say("s", "first").text();
    assert_eq!(gateway.client().say("s", "second").text(), "answer 2");
    assert_eq!(server.heard()[1].brought(), ["first", "answer 1", "second"]);
}

// The command host.

/// A folder with an agent: a script that gets what `[model]` gives, `$1` is the id of its thread.
fn commanded(config: &Value, script: &str, more: &str) -> Setup {
    let setup = Setup::new().recorder(config);
    let path = setup.path().join("agent.sh");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    setup.toml(&format!(
        "[model]\nprovider = \"cli\"\ncommand = [\"./agent.sh\", \"{{session}}\"]\ncontext_window = {WIDE}\n{more}"
    ))
}

/// An agent that writes down its thread and what it heard, and says how often it was run in this thread.
const WRITES_DOWN: &str =
    "cat > heard; printf '%s|%s\\n' \"$1\" \"$(cat heard)\" >> log; echo \"turn $(grep -c \"^$1\" log)\"";

fn log(setup: &Setup) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(setup.path().join("log")).unwrap_or_default();
    text.lines().filter_map(|line| line.split_once('|')).map(|(a, b)| (a.to_owned(), b.to_owned())).collect()
}

#[test]
fn a_command_gets_the_user_s_words_and_keeps_its_thread_also_after_a_restart() {
    let setup = commanded(&json!({"system": "never sent", "note": "never sent"}), WRITES_DOWN, "");
    let gateway = setup.start();
    let first = gateway.client().say("s", "hello");
    assert_eq!((first.text().as_str(), first.engine(), first.degraded()), ("turn 1", Some("recorder"), None));
    assert_eq!(gateway.client().say("s", "and again").text(), "turn 2");
    assert_eq!(gateway.client().say("other", "hello").text(), "turn 1");
    assert!(gateway.stop().success());
    let gateway = setup.start();
    assert_eq!(gateway.client().say("s", "still there?").text(), "turn 3");
    let heard: Vec<_> = log(&setup).into_iter().map(|(_, words)| words).collect();
    assert_eq!(heard, ["hello", "and again", "hello", "still there?"]);
    setup.calls().wait_for("maintain", 4);
    assert!(gateway.stop().success());

    let hooks = setup.calls().hooks();
    assert!(!hooks.iter().any(|hook| hook == "assemble"), "it cannot assemble before the prompt: {hooks:?}");
    for (hook, count) in [("commit_turn", 4), ("bootstrap", 1)] {
        assert!(setup.calls().of(hook).len() >= count, "{hook}: {hooks:?}");
    }
    let settings = &setup.calls().of("commit_turn")[0]["session"]["settings"];
    assert_eq!(
        (&settings["executionHost"], &settings["provider"]),
        (&json!("cli:agent.sh"), &json!("cli")),
        "{settings}"
    );
}

#[test]
fn a_thread_that_the_command_knows_is_resumed() {
    let more = "resume_command = [\"./agent.sh\", \"{session}\", \"again\"]\n";
    let setup = commanded(&json!({}), "cat > /dev/null; echo \"$1 ${2:-new}\"", more);
    let gateway = setup.start();
    let first = gateway.client().say("s", "hello").text();
    let (id, how) = first.split_once(' ').unwrap();
    assert_eq!(how, "new");
    assert_eq!(gateway.client().say("s", "hello").text(), format!("{id} again"));
}

#[test]
fn words_that_a_command_dies_of_do_not_hold_the_session_for_ever() {
    let setup = commanded(&json!({}), "if grep -q BOOM; then exit 3; fi; echo well", "");
    let gateway = setup.start();
    assert_eq!(gateway.client().say("s", "BOOM").status, 502);
    let later: Vec<u16> = (0..5).map(|turn| gateway.client().say("s", &format!("hello {turn}")).status).collect();
    assert_eq!(later, [502, 502, 502, 200, 200], "what was not answered is said again, but not for ever");
}

#[test]
fn a_command_that_fails_says_why_and_what_it_did_not_answer_is_said_again() {
    let script = format!("if [ ! -e ready ]; then cat > /dev/null; echo 'no licence' >&2; exit 7; fi; {WRITES_DOWN}");
    let setup = commanded(&json!({}), &script, "");
    let gateway = setup.start();
    let failed = gateway.client().say("s", "hello");
    assert_eq!(failed.status, 502, "{failed:?}");
    let error = &failed.json()["error"];
    for word in ["exit code 7", "no licence"] {
        assert!(error["message"].as_str().unwrap().contains(word), "{error}");
    }
    assert_eq!((&error["diagnostic"], error["hint"].is_string()), (&json!("CE511"), true), "{error}");
    std::fs::write(setup.path().join("ready"), "").unwrap();
    assert_eq!(gateway.client().say("s", "are you there?").text(), "turn 1");
    let heard = std::fs::read_to_string(setup.path().join("heard")).unwrap();
    assert_eq!(heard, "hello\n\nare you there?");
    setup.calls().wait_for("maintain", 1);
    assert!(gateway.stop().success());
    assert_eq!(setup.calls().of("commit_turn").len(), 1, "the failed turn was not accepted");
}

/// Ids of processes that the agent wrote into `pids`.
fn pids(setup: &Setup) -> Vec<PathBuf> {
    let text = std::fs::read_to_string(setup.path().join("pids")).unwrap_or_default();
    text.lines().map(|pid| PathBuf::from("/proc").join(pid)).collect()
}

fn runs(process: &Path) -> bool {
    std::fs::read_to_string(process.join("stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// An agent that starts another process, and hangs with it.
const HANGS: &str = "sleep 100 & echo $! >> pids; echo $$ >> pids; cat > /dev/null; sleep 100";

#[test]
fn a_command_past_its_deadline_is_terminated_with_everything_that_it_started() {
    let setup = commanded(&json!({}), HANGS, "timeout_ms = 500\n");
    let gateway = setup.start();
    let late = gateway.client().say("s", "hello");
    assert_eq!((late.status, late.json()["error"]["diagnostic"].clone()), (504, json!("CE511")), "{late:?}");
    assert_eq!(pids(&setup).len(), 2);
    eventually("both processes are gone", || !pids(&setup).iter().any(|process| runs(process)));
    // The session is free again.
    assert_eq!(gateway.client().say("s", "hello").status, 504);
}

#[test]
fn a_client_that_goes_away_ends_the_command_and_a_stop_ends_it_too() {
    let setup = commanded(&json!({}), HANGS, "").env("ENGINEROOM_GATEWAY_DRAIN_MS", "300");
    let gateway = setup.start();
    let address = gateway.client().base().trim_start_matches("http://").to_owned();
    {
        use std::io::Write;
        let body = json!({"model": "m", "messages": [{"role": "user", "content": "hello"}]}).to_string();
        let mut stream = std::net::TcpStream::connect(&address).unwrap();
        write!(
            stream,
            "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\nx-engineroom-session: s\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        eventually("the command runs", || pids(&setup).len() == 2);
    }
    eventually("the first one is gone", || !pids(&setup).iter().any(|process| runs(process)));
    // One signal: what does not end in time is cancelled. Two signals: everything ends at once.
    let mut gateway = gateway;
    for signals in 1..=2 {
        let client = gateway.client().clone();
        let waiting = std::thread::spawn(move || client.try_say("t", "hello").is_ok());
        eventually("the next command runs", || pids(&setup).len() == 2 + 2 * signals);
        (1..signals).for_each(|_| gateway.signal("TERM"));
        gateway.stop();
        waiting.join().unwrap();
        eventually("the next command is gone", || !pids(&setup).iter().any(|process| runs(process)));
        gateway = setup.start();
    }
}

#[test]
fn a_command_streams_its_reply() {
    let setup = commanded(&json!({}), "cat > /dev/null; echo one two; echo three", "");
    let gateway = setup.start();
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hello"}], "stream": true});
    let answer = gateway.client().post("/v1/chat/completions", &[("x-engineroom-session", "s")], &body);
    let text: String = answer
        .body
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok())
        .filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(text, "one two\nthree", "{}", answer.body);
    let stored = gateway.client().get("/api/sessions/s").json();
    assert_eq!(stored["entries"], 2, "{stored}");
}

#[test]
fn a_command_gets_a_small_environment_and_the_agent_s_folder() {
    let setup = commanded(&json!({}), "cat > /dev/null; pwd; env", "env = [\"LICENCE\"]\n")
        .env("LICENCE", "granted")
        .env("GATEWAY_SECRET", "hidden");
    let desk = setup.path().join("desk");
    std::fs::create_dir(&desk).unwrap();
    let setup = setup.toml("[agents.support]\nworkspace_dir = \"desk\"\n");
    let gateway = setup.start();
    let seen = gateway.client().say("agent:support:x", "hello").text();
    assert!(seen.contains("LICENCE=granted") && seen.contains("PATH="), "{seen}");
    assert!(!seen.contains("hidden"), "{seen}");
    assert_eq!(seen.lines().next().unwrap(), desk.canonicalize().unwrap().display().to_string());
    let plain = gateway.client().say("s", "hello").text();
    assert_eq!(plain.lines().next().unwrap(), setup.path().canonicalize().unwrap().display().to_string());
}

#[test]
fn a_history_over_the_budget_is_compacted_before_the_command_runs() {
    let script = "cat > /dev/null; seq -s ' ' 1 400";
    let more = "max_output_tokens = 100\n";
    let setup =
        commanded(&json!({}), script, more).toml("[compaction]\nkeep_recent_tokens = 200\nreserve_tokens = 100\n");
    // The window of the section above is replaced: a small one, so that few turns fill it.
    let gateway = setup.env("ENGINEROOM_MODEL_CONTEXT_WINDOW", "3000");
    let setup = gateway;
    let gateway = setup.start();
    for turn in 0..6 {
        let answer = gateway.client().say("s", &format!("turn {turn}"));
        assert_eq!(answer.status, 200, "{answer:?}\n{}", gateway.stderr());
    }
    let compactions = setup.calls().of("compact");
    assert!(!compactions.is_empty(), "{:?}", setup.calls().hooks());
    for compaction in &compactions {
        assert_eq!((&compaction["trigger"], &compaction["force"]), (&json!("CliBudget"), &json!(true)), "{compaction}");
    }
    let hooks = setup.calls().hooks();
    assert!(!hooks.iter().any(|hook| hook == "assemble"), "{hooks:?}");
}

#[test]
fn a_compaction_that_fails_before_the_command_ends_the_turn_and_the_next_candidate_has_the_next() {
    let config = json!({"fail": {"compact": {"message": "told to fail"}}});
    let setup = commanded(&config, "cat > /dev/null; echo ran >> ran; seq -s ' ' 1 400", "max_output_tokens = 100\n")
        .toml("[compaction]\nkeep_recent_tokens = 200\nreserve_tokens = 100\n")
        .env("ENGINEROOM_MODEL_CONTEXT_WINDOW", "3000");
    let gateway = setup.start();
    let answers: Vec<Answer> = (0..8).map(|turn| gateway.client().say("s", &format!("turn {turn}"))).collect();
    let failed: Vec<&Answer> = answers.iter().filter(|answer| answer.status != 200).collect();
    assert_eq!(failed.len(), 1, "{answers:?}");
    assert!(failed[0].body.contains("told to fail"), "{failed:?}");
    let ran = std::fs::read_to_string(setup.path().join("ran")).unwrap().lines().count();
    assert_eq!(ran, 7, "nothing was run for the turn that failed");
    let last = answers.last().unwrap();
    assert_eq!((last.status, last.engine(), last.degraded()), (200, Some("legacy"), Some("engine-quarantined")));
}

#[test]
fn a_report_says_how_the_host_would_be_told_and_tells_it_nothing() {
    let setup = commanded(&json!({}), "cat", "");
    let gateway = setup.start();
    gateway.client().say("s", "hello").text();
    let report = gateway.client().get("/api/sessions/s/context").json();
    assert!(report["notes"].to_string().contains("keeps its own history"), "{report}");
    assert!(report["entries"].as_array().unwrap().iter().all(|entry| entry["shown"] == false), "{report}");
    assert_eq!(setup.calls().of("assemble").len(), 0);
    drop(gateway);

    let server = ThreadServer::counting();
    let setup = threaded(&server, &json!({"epoch": "one"}));
    let gateway = setup.start();
    gateway.client().say("s", "hello").text();
    let notes = |gateway: &Gateway| gateway.client().get("/api/sessions/s/context").json()["notes"].to_string();
    assert!(notes(&gateway).contains("up to entry 2 (resp_1)"), "{}", notes(&gateway));
    drop(gateway);
    let setup = setup.env("ENGINEROOM_MODEL_MODEL", "another");
    let gateway = setup.start();
    assert!(notes(&gateway).contains("(another-host)"), "{}", notes(&gateway));
    assert_eq!(server.heard().len(), 1, "a look is no call");
}

#[test]
fn what_a_command_cannot_take_is_refused() {
    let setup = commanded(&json!({}), "cat", "");
    let gateway = setup.start();
    let image = json!([{"role": "user", "content": [{"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}]);
    let answer = gateway.client().chat(Some("s"), image);
    assert_eq!(answer.status, 400, "{answer:?}");
    assert!(answer.body.contains("text only"), "{answer:?}");
}

// Host requirements.

#[track_caller]
fn refused(answer: &Answer, operation: &str, missing: &[&str]) -> Value {
    assert_eq!(answer.status, 409, "{answer:?}");
    let error = answer.json()["error"].clone();
    assert_eq!((&error["type"], &error["diagnostic"]), (&json!("conflict_error"), &json!("CE302")), "{error}");
    let requirement = &error["requirement"];
    assert_eq!(requirement["operation"], operation, "{error}");
    assert_eq!(requirement["missing"], json!(missing), "{error}");
    error
}

#[test]
fn what_the_host_lacks_is_listed_and_nothing_is_started() {
    let config = json!({"requires": {"agent_run": ASSEMBLE | 1}, "requires_message": "use the embedded host"});
    let setup = commanded(&config, "echo ran >> ran; cat", "");
    let gateway = setup.start();
    setup.calls().clear();
    let answer = gateway.client().say("s", "hello");
    let error = refused(&answer, "agent-run", &["assemble-before-prompt"]);
    let requirement = &error["requirement"];
    assert_eq!(requirement["engine"], "recorder");
    assert_eq!(requirement["hostId"], "cli:agent.sh");
    assert_eq!(requirement["required"], json!(["bootstrap", "assemble-before-prompt"]));
    assert_eq!(requirement["provided"], json!(["bootstrap", "after-turn", "maintain", "compact"]));
    assert_eq!(requirement["message"], "use the embedded host");
    for word in ["recorder", "agent-run", "Command-line backend \"agent.sh\"", "assemble-before-prompt"] {
        assert!(error["message"].as_str().unwrap().contains(word), "{error}");
    }
    assert_eq!(gateway.client().get("/api/sessions/s").status, 404, "nothing was admitted");
    assert_eq!(setup.calls().hooks(), [""; 0], "no hook was called");
    assert!(!setup.path().join("ran").exists(), "no command was run");
    let engines = gateway.client().engines();
    let row = engines["engines"].as_array().unwrap().iter().find(|row| row["id"] == "recorder").unwrap();
    assert_eq!((&row["state"], &row["quarantine"]), (&json!("ready"), &Value::Null), "{row}");
    // An ephemeral turn is a run as well; and all present is well.
    refused(
        &gateway.client().chat(None, json!([{"role": "user", "content": "x"}])),
        "agent-run",
        &["assemble-before-prompt"],
    );
    drop(gateway);
    let setup = Setup::new().recorder(&json!({"requires": {"agent_run": ASSEMBLE | 1}}));
    let answer = setup.start().client().say("s", "hello");
    assert_eq!((answer.status, answer.engine()), (200, Some("recorder")), "{answer:?}");
}

#[test]
fn no_other_engine_of_the_chain_and_no_legacy_serves_in_its_place() {
    let setup = commanded(&json!({"requires": {"agent_run": ASSEMBLE}}), "cat", "")
        .library("window")
        .chain(&["recorder", "window"]);
    let gateway = setup.start();
    refused(&gateway.client().say("s", "hello"), "agent-run", &["assemble-before-prompt"]);
    drop(gateway);
    // Behind one that can, it is left out, and the record says so.
    let setup = setup.chain(&["window", "recorder"]);
    let gateway = setup.start();
    let answer = gateway.client().say("s", "hello");
    assert_eq!((answer.status, answer.engine(), answer.degraded()), (200, Some("window"), None), "{answer:?}");
    let turns = gateway.client().get("/api/sessions/s/turns").body;
    assert!(turns.contains("left_out") && turns.contains("assemble-before-prompt"), "{turns}");
}

#[test]
fn a_requirement_counts_for_its_operation_only_and_ends_with_the_engine_s_words() {
    let config = json!({"requires": {"manual_compact": PROJECTION}, "requires_message": "only on a thread"});
    let setup = Setup::new().recorder(&config);
    let gateway = setup.start();
    assert_eq!(gateway.client().say("s", "hello").status, 200, "a turn requires nothing");
    setup.calls().wait_for("maintain", 1);
    setup.calls().clear();
    let answer = gateway.client().post("/api/sessions/s/compact", &[], &json!({}));
    let error = refused(&answer, "manual-compact", &["thread-bootstrap-projection"]);
    assert!(error["message"].as_str().unwrap().ends_with("(only on a thread)"), "{error}");
    assert_eq!(setup.calls().hooks(), [""; 0], "nothing was started");
    let said = setup.cli(&["sessions", "compact", "s"]);
    assert_ne!(said.code, Some(0), "{said:?}");
    assert!(
        said.stderr.contains("thread-bootstrap-projection") && said.stderr.contains("only on a thread"),
        "{said:?}"
    );
    // The session is as it was: reports and deletion require nothing.
    assert_eq!(gateway.client().get("/api/sessions/s/context").status, 200);
    assert_eq!(gateway.client().say("s", "hello").status, 200);
}

#[test]
fn a_child_is_not_begun_on_a_host_that_cannot_spawn_or_run_it() {
    for (operation, name) in [("subagent_spawn", "subagent-spawn"), ("agent_run", "agent-run")] {
        let setup = Setup::new().recorder(&json!({"requires": {operation: PROJECTION}}));
        // The parent's sessions are of another agent, whose chain asks for nothing.
        let setup = setup.toml("[agents.main]\n[agents.plain.slots]\ncontextEngine = \"legacy\"\n");
        let gateway = setup.start();
        gateway.client().say("agent:plain:s", "hello").text();
        setup.calls().clear();
        let ask = json!({"task": "count to three", "agent": "main"});
        let path = "/api/sessions/agent:plain:s/subagents";
        refused(&gateway.client().post(path, &[], &ask), name, &["thread-bootstrap-projection"]);
        assert_eq!(setup.calls().hooks(), [""; 0], "nothing was prepared");
        let sessions = gateway.client().get("/api/sessions").json()["sessions"].as_array().unwrap().len();
        assert_eq!(sessions, 1, "there is no child");
    }
}

#[test]
fn settings_leave_open_what_is_not_known_and_speak_in_closed_codes() {
    // The engine before it in the chain fails with words that sound like a provider's.
    let setup = Setup::new()
        .chaos(&json!({"mode": "error", "hook": "assemble"}))
        .recorder(&json!({}))
        .chain(&["chaos", "recorder"])
        .toml("[model]\nprovider = \"offline\"\n");
    let gateway = setup.start();
    let body = json!({"model": "offline", "messages": [{"role": "user", "content": "hello"}]});
    let say = |body: &Value| {
        let answer = gateway.client().post("/v1/chat/completions", &[("x-engineroom-session", "s")], body);
        assert_eq!((answer.status, answer.engine()), (200, Some("recorder")), "{answer:?}");
        setup.calls().of("assemble").pop().unwrap()["session"]["settings"].clone()
    };
    let settings = say(&body);
    assert_eq!(settings["schemaVersion"], 1);
    for unknown in ["harnessId", "runtimeId", "family"] {
        assert_eq!(settings[unknown], Value::Null, "{unknown}: {settings}");
    }
    assert_eq!((&settings["requested"], &settings["resolved"]), (&json!("offline"), &json!("offline")));
    assert_eq!((&settings["selectedId"], &settings["source"]), (&json!("chaos"), &json!("Configured")));
    assert_eq!((&settings["mode"], &settings["fallbackReason"]), (&json!("Degraded"), &Value::Null), "{settings}");
    let closed =
        ["ProviderTimeout", "ProviderUnavailable", "RateLimited", "ContextOverflow", "RuntimeUnavailable", "Unknown"];
    let reason = settings["degradedReason"].as_str().unwrap();
    assert!(closed.contains(&reason), "{settings}");
    drop(gateway);

    let setup = Setup::new().recorder(&json!({}));
    let gateway = setup.start();
    for (model, mode) in [("offline", "Normal"), ("gpt-4o", "Fallback")] {
        let body = json!({"model": model, "messages": [{"role": "user", "content": "hello"}]});
        gateway.client().post("/v1/chat/completions", &[("x-engineroom-session", model)], &body).text();
        let settings = setup.calls().of("assemble").pop().unwrap()["session"]["settings"].clone();
        assert_eq!((&settings["mode"], &settings["degradedReason"]), (&json!(mode), &Value::Null), "{settings}");
    }
}

#[test]
fn an_engine_for_threads_runs_on_the_thread_host_only() {
    let config = json!({"requires": {"agent_run": PROJECTION}, "epoch": "one"});
    let server = ThreadServer::counting();
    let setup = threaded(&server, &config);
    let gateway = setup.start();
    assert_eq!(gateway.client().say("s", "hello").engine(), Some("recorder"));
    drop(gateway);
    // An agent with another model has another host.
    let setup = setup.toml("[agents.plain.model]\nprovider = \"offline\"\n");
    let gateway = setup.start();
    assert_eq!(gateway.client().say("s", "hello").status, 200);
    refused(&gateway.client().say("agent:plain:s", "hello"), "agent-run", &["thread-bootstrap-projection"]);
}

#[test]
fn doctor_shows_the_host_what_it_can_do_and_whether_the_command_is_there() {
    let setup = commanded(&json!({}), "cat", "");
    let said = setup.cli(&["doctor"]);
    for word in ["cli:agent.sh", "Command-line backend", "bootstrap, after-turn, maintain, compact"] {
        assert!(said.stdout.contains(word), "no {word:?}:\n{}", said.stdout);
    }
    assert_eq!(said.code, Some(0), "{}", said.stdout);
    std::fs::remove_file(setup.path().join("agent.sh")).unwrap();
    let said = setup.cli(&["doctor"]);
    assert_eq!(said.code, Some(1), "{}", said.stdout);
    assert!(said.stdout.contains("agent.sh does not exist") && said.stdout.contains("CE511"), "{}", said.stdout);
    let bare = Setup::new().toml("[model]\nprovider = \"cli\"\n").cli(&["doctor"]);
    assert_eq!(bare.code, Some(2), "{bare:?}");
    assert!(bare.stderr.contains("CE114") && bare.stderr.contains("command"), "{bare:?}");
}

#[test]
fn doctor_warns_of_an_engine_that_cannot_run_on_the_host() {
    let setup = commanded(&json!({"requires": {"agent_run": ASSEMBLE}}), "cat", "");
    let said = setup.cli(&["doctor"]);
    assert_eq!(said.code, Some(1), "{}", said.stdout);
    for word in ["recorder", "assemble-before-prompt", "agent-run"] {
        assert!(said.stdout.contains(word), "no {word:?}:\n{}", said.stdout);
    }
}
