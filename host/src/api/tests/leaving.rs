//! A client that goes away, at every stage of a turn: the model's call is cancelled, and the session is free.

use super::flood::{Served, asks, served, turn};
use super::model::{Deed, Server, last, until};
use super::*;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// A server whose answer depends on what the newest message of the user says, and on how many calls there were.
async fn told() -> Server {
    Server::start(|request, _| {
        let messages = request["messages"].as_array().cloned().unwrap_or_default();
        let last = last(request);
        let has = |word: &str| last.contains(word);
        let ran = messages.last().is_some_and(|message| message["role"] == "tool");
        // A request for a summary is the gateway's own.
        if !has("hang") && !has("begin") && !has("loop") && !has("well") {
            return Deed::Hang;
        }
        match () {
            () if has("hang") => Deed::Hang,
            () if has("begin") => Deed::Begin(3),
            () if has("loop") && !ran => Deed::Message(json!({"role": "assistant", "content": null, "tool_calls": [
                {"id": "c1", "type": "function",
                 "function": {"name": "spawn_subagent", "arguments": "{\"task\": \"x\", \"mode\": \"neither\"}"}}]})),
            () if has("loop") => Deed::Hang,
            () => Deed::Say("well"),
        }
    })
    .await
}

/// The session answers, and nothing of the turn before is left.
async fn is_free(served: &Served, session: &str) {
    let headers = [("x-engineroom-session", session)];
    let (status, body) = served.house.post(CHAT, &headers, user("well")).await;
    assert_eq!(status, 200, "{session}: {body}");
    until("the end of every turn", || served.house.api.gateway.turns.running() == 0).await;
    let metrics = served.house.api.metrics.render();
    assert!(metrics.contains("engineroom_turns_waiting 0\n"), "{metrics}");
    assert!(metrics.contains("engineroom_turns_running 0\n"), "{metrics}");
}

fn streamed(text: &str) -> Value {
    let mut asked = user(text);
    asked["stream"] = true.into();
    asked
}

#[tokio::test(flavor = "multi_thread")]
async fn in_the_model_s_call_whole_or_streamed_and_in_the_middle_of_a_stream() {
    let server = told().await;
    let served = served(|config| asks(config, &server)).await;
    let rows = [("whole", user("hang")), ("before", streamed("hang")), ("middle", streamed("begin"))];
    for (number, (session, asked)) in rows.into_iter().enumerate() {
        let calls = server.seen();
        let mut client = served.sent(&turn(session, &asked)).await;
        until("the call", || server.seen() > calls).await;
        if session == "middle" {
            let mut piece = [0; 4096];
            assert!(client.read(&mut piece).await.unwrap() > 0);
        }
        drop(client);
        until("that the model notices", || server.left() == number + 1).await;
        is_free(&served, session).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_beginning_of_another_request_behind_the_first() {
    let server = told().await;
    let served = served(|config| asks(config, &server)).await;
    for (number, asked) in [user("hang"), streamed("begin")].into_iter().enumerate() {
        let calls = server.seen();
        let client = served.sent(&format!("{}GET /healthz HT", turn("s", &asked))).await;
        until("the call", || server.seen() > calls).await;
        drop(client);
        until("that the model notices", || server.left() == number + 1).await;
        is_free(&served, "s").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_it_waits_for_its_session_whatever_it_waits_for() {
    let server = told().await;
    let served = served(|config| {
        asks(config, &server);
        config.gateway.queue_per_session = 1;
    })
    .await;
    is_free(&served, "s").await;
    let running = served.sent(&turn("s", &user("hang"))).await;
    until("the call", || server.seen() == 2).await;
    let turns = served.house.api.gateway.turns.clone();
    let bare = |method: &str, path: &str| {
        format!("{method} /api/sessions/s{path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n")
    };
    let spawn = "{\"task\":\"x\"}";
    let rows = [
        turn("s", &user("hang")),
        turn("s", &streamed("hang")),
        bare("POST", "/compact"),
        bare("GET", "/context"),
        bare("POST", "/reset"),
        bare("POST", "/repair"),
        bare("DELETE", ""),
        format!(
            "POST /api/sessions/s/subagents HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{spawn}",
            spawn.len()
        ),
    ];
    for request in rows {
        let client = served.sent(&request).await;
        until("that it waits", || turns.waiting() == 1).await;
        assert_eq!(served.house.say("s", "hang").await.status().as_u16(), 429, "it has the one place");
        drop(client);
        until("that its place is free", || (turns.waiting(), turns.running()) == (0, 1)).await;
    }
    assert_eq!(server.seen(), 2, "nobody who left while waiting has reached the model");
    drop(running);
    until("that the model notices", || server.left() == 1).await;
    is_free(&served, "s").await;
    let (_, session) = served.house.get("/api/sessions/s").await;
    assert_eq!(session["key"], "s", "what was given up was not done: {session}");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_the_loop_of_tools() {
    let server = told().await;
    let served = served(|config| {
        asks(config, &server);
        config.subagents.tool = true;
    })
    .await;
    for (number, asked) in [user("loop"), streamed("loop")].into_iter().enumerate() {
        let calls = server.seen();
        let client = served.sent(&turn("s", &asked)).await;
        until("the call behind the tool", || server.seen() == calls + 2).await;
        drop(client);
        until("that the model notices", || server.left() == number + 1).await;
        is_free(&served, "s").await;
    }
}

/// A summary that was begun goes on for whoever asks the same again, since it is paid for; a few of them, not as many as
/// clients begin. The turn itself ends at once.
#[tokio::test(flavor = "multi_thread")]
async fn in_a_compaction_that_comes_before_the_turn_and_in_one_that_was_asked_for() {
    let server = told().await;
    let served = served(|config| {
        asks(config, &server);
        config.model.context_window = 2_000;
        config.model.max_output_tokens = 200;
        config.compaction.keep_recent_tokens = 200;
        config.compaction.reserve_tokens = 200;
    })
    .await;
    // A history that has no room any more, taken up as it is.
    let history = |name: &str| {
        let mut messages = Vec::new();
        for n in 0..30 {
            messages.push(json!({"role": "user", "content": format!("{name} {n}: {}", "berth ".repeat(60))}));
            messages.push(json!({"role": "assistant", "content": "noted"}));
        }
        messages.push(json!({"role": "user", "content": "well?"}));
        json!({"model": "m", "messages": messages})
    };
    let turns = served.house.api.gateway.turns.clone();
    for number in 0..12 {
        let session = format!("s{number}");
        let mut body = history(&session);
        body["stream"] = (number % 2 == 0).into();
        let calls = server.seen();
        let client: TcpStream = served.sent(&turn(&session, &body)).await;
        until("the summary", || server.seen() > calls).await;
        drop(client);
        until("the end of the turn", || turns.running() == 0).await;
    }
    assert!(server.seen() > 20, "{} calls are too few to show a bound", server.seen());
    until("that most are given up", || server.active() <= 16).await;
    let request = "POST /api/sessions/s0/compact HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n";
    let client = served.sent(request).await;
    until("that it runs", || turns.running() == 1).await;
    drop(client);
    until("the end of it", || turns.running() == 0).await;
    until("that most are given up", || server.active() <= 16).await;
}
