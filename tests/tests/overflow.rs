//! A session longer than the window stays usable, and stays with its engine.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::model::{answer, respond};
use engineroom_tests::{MockModel, Setup};
use serde_json::{Value, json};

/// A model with a window of `tokens`, counted as a quarter of the characters: stricter than a real tokenizer on digits,
/// laxer on nothing. What it is sent beyond that, it refuses as providers do.
fn strict_model(tokens: usize) -> MockModel {
    MockModel::start(move |request, stream| {
        let characters: usize = request["messages"].as_array().unwrap().iter().map(|m| m.to_string().len()).sum();
        if characters / 4 > tokens {
            let message = format!(
                "This model's maximum context length is {tokens} tokens. Please reduce the length of the messages."
            );
            let error = json!({"error": {"message": message, "type": "invalid_request_error", "code": "context_length_exceeded"}});
            respond(stream, "400 Bad Request", &error);
        } else {
            answer(request, stream, "Noted, and the log book has it.");
        }
    })
}

/// Hundreds of turns with a small window; every one is answered by `engine`, and the model never sees more than fits.
fn long_session(engine: &str, setup: Setup) {
    const WINDOW: u32 = 2_500;
    let model = strict_model(WINDOW as usize);
    let setup = setup.toml(&model.toml(WINDOW)).toml("[compaction]\nkeep_recent_tokens = 600\n");
    let gateway = setup.start();
    for n in 0..300 {
        let text = format!(
            "Entry {n}: the barge Halcyon-{n} passed lock {} with {n} tons of gravel and a crew of four.",
            n % 17
        );
        let answer = gateway.client().say("s", &text);
        assert_eq!(answer.status, 200, "{engine}, turn {n}: {answer:?}\n{}", gateway.stderr());
        assert_eq!((answer.engine(), answer.degraded()), (Some(engine), None), "{engine}, turn {n}: {answer:?}");
    }
    let session = gateway.client().get("/api/sessions/s").json();
    let messages = session["messages"].as_u64().unwrap_or_else(|| session["entries"].as_u64().unwrap());
    assert!(messages >= 600, "nothing is lost: {session:#}");
    // The newest message is always there, whole.
    let last =
        model.requests().iter().rev().find(|request| request["messages"].to_string().contains("Halcyon-299")).cloned();
    assert!(last.is_some());
    assert!(gateway.stop().success());
}

#[test]
fn legacy_serves_hundreds_of_turns_in_a_small_window() {
    long_session("legacy", Setup::new());
}

#[test]
fn window_serves_hundreds_of_turns_in_a_small_window() {
    long_session("window", Setup::new().library("window").select("window"));
}

#[test]
fn an_engine_that_keeps_everything_is_compacted_and_keeps_serving() {
    long_session("chaos", Setup::new().chaos(&json!({"mode": "none"})));
}

#[test]
fn an_owning_engine_is_asked_to_compact_and_keeps_serving() {
    long_session("chaos", Setup::new().chaos(&json!({"owns_compaction": true})));
}

#[test]
fn an_engine_that_is_always_over_budget_is_trimmed_and_never_quarantined() {
    let model = strict_model(2_500);
    for owns in [false, true] {
        let setup = Setup::new()
            .chaos(&json!({"pad_tokens": 6000, "owns_compaction": owns}))
            .toml(&model.toml(2_500))
            .toml("[compaction]\nkeep_recent_tokens = 600\n");
        let gateway = setup.start();
        for n in 0..20 {
            let answer = gateway.client().say("s", &format!("Note {n}, keep it."));
            assert_eq!(
                (answer.status, answer.engine()),
                (200, Some("chaos")),
                "owns {owns}: {answer:?}\n{}",
                gateway.stderr()
            );
            let shown = model.requests().last().unwrap()["messages"].to_string();
            assert!(shown.contains(&format!("Note {n}, keep it.")), "the user's last words are always shown: {shown}");
        }
        assert!(!gateway.client().engines().to_string().contains("\"quarantined\""));
    }
}

#[test]
fn one_message_longer_than_the_window_ends_in_an_answer_or_a_clear_error_and_the_session_goes_on() {
    let model = strict_model(2_500);
    let setup = Setup::new().library("window").select("window").toml(&model.toml(2_500));
    let gateway = setup.start();
    gateway.client().say("s", "Hello.");
    let answer = gateway.client().say("s", &"the log of the barge ".repeat(5_000));
    assert!(answer.status == 200 || answer.json()["error"]["message"].is_string(), "{answer:?}");
    assert!(answer.status < 500, "{answer:?}");
    assert_eq!(gateway.client().say("s", "Are you still there?").status, 200);
}

#[test]
fn a_smaller_window_than_configured_is_learned_from_the_providers_error() {
    // The operator says 100,000; the model takes 2,500. Recovery compacts and trims until it fits.
    let model = strict_model(2_500);
    let setup = Setup::new().library("window").select("window").toml(&model.toml(100_000));
    let gateway = setup.start();
    let mut history: Vec<Value> = Vec::new();
    for n in 0..120 {
        history.push(json!({"role": "user", "content": format!("Note {n}: the barge Halcyon-{n} passed lock {n} with gravel and sand.")}));
        history.push(json!({"role": "assistant", "content": "Noted, and the log book has it."}));
    }
    history.push(json!({"role": "user", "content": "Which barge was last?"}));
    let answer = gateway.client().chat(Some("s"), Value::from(history));
    assert_eq!((answer.status, answer.engine()), (200, Some("window")), "{answer:?}\n{}", gateway.stderr());
}
