//! An ordinary client holds a conversation: sessions, branches, retries, streams, restarts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::model::{chunk, stream_end, stream_head};
use engineroom_tests::{Client, MockModel, Setup};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::mpsc;

fn window() -> Setup {
    Setup::new().library("window").select("window")
}

/// Entries of a session, all branches.
fn entries(client: &Client, session: &str) -> u64 {
    client.get(&format!("/api/sessions/{session}")).json()["entries"].as_u64().unwrap()
}

fn branches(client: &Client, session: &str) -> usize {
    client.get(&format!("/api/sessions/{session}")).json()["branches"].as_array().unwrap().len()
}

#[test]
fn thirty_turns_with_the_whole_history_each_time_leave_sixty_entries() {
    let setup = window();
    let gateway = setup.start();
    let mut history = Vec::new();
    for turn in 0..30 {
        history.push(json!({"role": "user", "content": format!("Question {turn}?")}));
        let answer = gateway.client().chat(Some("s"), Value::from(history.clone()));
        assert_eq!(answer.engine(), Some("window"), "{answer:?}");
        assert_eq!(answer.degraded(), None);
        history.push(answer.json()["choices"][0]["message"].clone());
    }
    assert_eq!(entries(gateway.client(), "s"), 60);
    assert_eq!(branches(gateway.client(), "s"), 1);

    // One edit leaves two branches: the fourth question is asked differently.
    history.truncate(6);
    history.push(json!({"role": "user", "content": "Something else?"}));
    assert_eq!(gateway.client().chat(Some("s"), Value::from(history.clone())).status, 200);
    assert_eq!(branches(gateway.client(), "s"), 2);
    assert_eq!(entries(gateway.client(), "s"), 62);
}

#[test]
fn an_equal_history_regenerates_and_with_a_key_it_is_a_retry() {
    let setup = window();
    let gateway = setup.start();
    let history = json!([
        {"role": "user", "content": "One?"}, {"role": "assistant", "content": "1"}, {"role": "user", "content": "Two?"}
    ]);
    let body = json!({"model": "m", "messages": history});
    let headers = [("x-engineroom-session", "s"), ("idempotency-key", "k1")];
    let first = gateway.client().post("/v1/chat/completions", &headers, &body);
    assert_eq!(entries(gateway.client(), "s"), 4);
    let retry = gateway.client().post("/v1/chat/completions", &headers, &body);
    assert_eq!(retry.text(), first.text());
    assert_eq!(entries(gateway.client(), "s"), 4, "a retry adds nothing");
    let again = gateway.client().post("/v1/chat/completions", &headers[..1], &body);
    assert_eq!(again.status, 200);
    assert_eq!(entries(gateway.client(), "s"), 5, "a new answer beside the old one");
    assert_eq!(branches(gateway.client(), "s"), 2);
}

#[test]
fn one_message_alone_is_a_delta_and_the_session_outlives_the_gateway() {
    let setup = window();
    let gateway = setup.start();
    gateway.client().say("s", "My harbour pilot is called Marisol.");
    assert!(gateway.stop().success());
    let gateway = setup.start();
    let answer = gateway.client().say("s", "What is my harbour pilot called?");
    assert!(answer.text().contains("Marisol"), "{answer:?}");
    assert!(answer.text().to_lowercase().contains("offline"), "the offline model says that it is one: {answer:?}");
    assert_eq!(entries(gateway.client(), "s"), 4);
}

#[test]
fn without_a_session_nothing_is_stored() {
    let setup = window();
    let gateway = setup.start();
    let answer = gateway.client().chat(None, json!([{"role": "user", "content": "Hello?"}]));
    assert_eq!((answer.status, answer.engine()), (200, Some("window")), "{answer:?}");
    assert_eq!(gateway.client().get("/api/sessions").json()["sessions"], json!([]));
}

#[test]
fn the_first_token_reaches_the_client_before_the_model_sends_the_second() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let model = MockModel::start(move |_, stream| {
        stream_head(stream);
        chunk(stream, json!({"role": "assistant", "content": "first"}), Value::Null);
        // The second is sent only when the client says that it has the first: no clock is needed.
        wait.lock().unwrap().recv().unwrap();
        chunk(stream, json!({"content": " second"}), json!("stop"));
        stream_end(stream);
    });
    let setup = window().toml(&model.toml(8_000));
    let gateway = setup.start();
    let address = gateway.client().base().strip_prefix("http://").unwrap().to_owned();
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(30))).unwrap();
    let body = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "Count."}]}).to_string();
    write!(
        stream,
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\nx-engineroom-session: s\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut seen = String::new();
    for line in BufReader::new(stream).lines() {
        let line = line.unwrap();
        if line.contains("first") {
            go.send(()).unwrap();
        }
        seen.push_str(&line);
        seen.push('\n');
    }
    let (first, second) = (seen.find("first").unwrap(), seen.find("second").unwrap());
    assert!(first < second && seen[second..].contains("[DONE]"), "{seen}");
    assert_eq!(entries(gateway.client(), "s"), 2);
}

#[test]
fn unknown_fields_pass_in_both_directions_and_tools_go_back_to_the_client() {
    let model = MockModel::start(|request, stream| {
        let answered = request["messages"].as_array().unwrap().iter().any(|message| message["role"] == "tool");
        if answered {
            engineroom_tests::model::answer(request, stream, "It is 7 degrees.");
        } else {
            let call = json!({"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}});
            let message = json!({"role": "assistant", "content": null, "tool_calls": [call]});
            engineroom_tests::model::message(stream, message, "tool_calls");
        }
    });
    let setup = window().toml(&model.toml(8_000));
    let gateway = setup.start();
    let tools = json!([{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]);
    let ask = json!({"model": "m", "tools": tools, "x_unknown": {"kept": true}, "seed": 7,
        "messages": [{"role": "user", "content": "How cold is it?"}]});
    let first = gateway.client().post("/v1/chat/completions", &[("x-engineroom-session", "s")], &ask);
    assert_eq!(first.json()["choices"][0]["message"]["tool_calls"][0]["id"], "call_1", "{first:?}");
    assert_eq!(first.json()["system_fingerprint"], "kept-as-it-came");
    let sent = &model.requests()[0];
    assert_eq!((&sent["x_unknown"]["kept"], &sent["seed"], &sent["tools"]), (&json!(true), &json!(7), &tools));

    // The client ran the tool and sends everything again with the result.
    let mut second = ask;
    second["messages"].as_array_mut().unwrap().extend([
        first.json()["choices"][0]["message"].clone(),
        json!({"role": "tool", "tool_call_id": "call_1", "content": "7"}),
    ]);
    let answer = gateway.client().post("/v1/chat/completions", &[("x-engineroom-session", "s")], &second);
    assert_eq!(answer.text(), "It is 7 degrees.");
    assert_eq!(answer.engine(), Some("window"));
    assert_eq!(entries(gateway.client(), "s"), 4);
    assert_eq!(branches(gateway.client(), "s"), 1);
}

#[test]
fn errors_are_the_dialects_own_and_the_door_is_closed_to_other_origins() {
    let setup = window();
    let gateway = setup.start();
    let client = gateway.client();
    let bad = client.post("/v1/chat/completions", &[], &json!({"model": "m"}));
    assert_eq!(bad.status, 400, "{bad:?}");
    assert!(bad.json()["error"]["message"].is_string() && bad.json()["error"]["type"].is_string(), "{bad:?}");
    assert_eq!(client.get("/nowhere").status, 404);
    let ask = json!({"model": "m", "messages": [{"role": "user", "content": "?"}]});
    let foreign = client.post("/v1/chat/completions", &[("origin", "https://example.com")], &ask);
    assert_eq!(foreign.status, 403, "{foreign:?}");
    let rebound = client.post("/v1/chat/completions", &[("host", "example.com")], &ask);
    assert_eq!(rebound.status, 403, "{rebound:?}");
    for (path, word) in [("/healthz", ""), ("/readyz", ""), ("/metrics", "engineroom_"), ("/v1/models", "\"data\"")] {
        let answer = client.get(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        assert!(answer.body.contains(word), "{path}: {answer:?}");
    }
}

#[test]
fn a_session_shows_what_the_model_would_see_and_can_be_compacted() {
    let setup = window().toml("[compaction]\nkeep_recent_tokens = 200\n");
    let gateway = setup.start();
    for n in 0..40 {
        gateway
            .client()
            .say("s", &format!("Note {n}: ship Aurora-{n} berths at /quay/{n} for https://example.com/{n}."));
    }
    let context = gateway.client().get("/api/sessions/s/context").json();
    assert!(context["entries"].as_array().is_some_and(|list| !list.is_empty()), "{context:#}");
    let report = gateway.client().post("/api/sessions/s/compact", &[], &json!({})).json();
    assert_eq!(report["compacted"], true, "{report:#}");
    assert!(report["tokensAfter"].as_u64().unwrap() < report["tokensBefore"].as_u64().unwrap(), "{report:#}");
    let answer = gateway.client().say("s", "Where does ship Aurora-39 berth?");
    assert!(answer.text().contains("/quay/39"), "{answer:?}");
    assert_eq!(answer.engine(), Some("window"));
}

#[test]
fn turns_of_one_session_wait_in_order() {
    let setup = window();
    let gateway = setup.start();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let client = gateway.client();
            scope.spawn(move || assert_eq!(client.say("s", &format!("Parallel {n}.")).status, 200));
        }
    });
    assert_eq!(entries(gateway.client(), "s"), 16);
    assert_eq!(branches(gateway.client(), "s"), 1);
}

#[test]
fn a_second_gateway_on_the_same_state_is_refused() {
    let setup = window();
    let gateway = setup.start();
    let second = setup.cli(&["gateway"]);
    assert_ne!(second.code, Some(0));
    assert!(second.stderr.contains("CE401") && second.stderr.contains(&gateway.pid().to_string()), "{second:?}");
    assert_eq!(gateway.client().say("s", "Still there?").status, 200);
}

#[test]
fn an_empty_session_key_is_refused_and_not_taken_for_a_turn_that_is_not_stored() {
    let said = window().cli(&["turn", "--session", " ", "hello"]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("--session"), "{said:?}");
}
