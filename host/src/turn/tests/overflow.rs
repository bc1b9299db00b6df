//! Small windows: compaction, the ladder, providers that say that a prompt is too long.

use super::bench::{Bench, Plan, ask, echo, text};
use crate::model::{ModelError, ProviderSaid, TokenCounter};
use crate::transcript::EntryBody;
use crate::turn::{ContextAsk, TurnError};
use serde_json::{Value, json};

fn overflow(limit: Option<u64>) -> ModelError {
    ModelError::Overflow {
        limit,
        said: Box::new(ProviderSaid { status: 400, message: "too long".into(), body: Value::Null }),
    }
}

fn tokens(messages: &[Value]) -> u64 {
    let counter = TokenCounter::for_model("gpt-4o");
    messages.iter().map(|message| counter.json_message(message)).sum()
}

/// A message of about fifty tokens that is different from all others.
fn long(number: usize) -> String {
    format!("Message {number}: {}", format!("item {number} of the cargo list, crate {}, ", number * 7).repeat(3))
}

#[tokio::test(flavor = "multi_thread")]
async fn hundreds_of_turns_in_a_small_window_are_all_answered_and_fit() {
    let bench = Bench::start(Plan { window: Some(2_000), ..Plan::default() }, echo);
    for number in 0..200 {
        let reply = bench.say("s", &long(number)).await;
        assert_eq!(reply.engine, "legacy");
        assert!(text(&reply).contains(&format!("Message {number}:")));
    }
    bench.settled().await;
    for request in bench.model.requests() {
        let tokens = tokens(&request.messages);
        assert!(tokens <= 1_900, "{tokens}");
    }
    let record = bench.session("s");
    let branch = bench.store.branch(record.row, record.head).unwrap();
    let boundaries = branch.iter().filter(|entry| matches!(entry.body, EntryBody::Compaction(_))).count();
    assert!(boundaries > 1, "{boundaries}");
    assert_eq!(branch.len() - boundaries, 400, "no message is lost");
    for entry in &branch {
        if let EntryBody::Compaction(body) = &entry.body {
            assert!(body.tokens_after < body.tokens_before, "{body:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_says_too_long_gets_a_shorter_prompt() {
    let bench = Bench::start(Plan::default(), |request, number| {
        if tokens(&request.messages) > 600 { Err(overflow(None)) } else { echo(request, number) }
    });
    let mut history = Vec::new();
    for number in 0..20 {
        history.push(json!({"role": "user", "content": long(number)}));
        history.push(json!({"role": "assistant", "content": long(1000 + number)}));
    }
    history.push(json!({"role": "user", "content": "And now?"}));
    let reply = bench.turns.run(ask("s", Value::from(history))).await.unwrap();
    assert_eq!(text(&reply), "re: And now?");
    assert!(bench.model.calls() > 1);
    let prompt = bench.model.last_prompt();
    assert_eq!(prompt.last().unwrap().1, "And now?");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_always_says_too_long_ends_in_a_clear_error() {
    let bench = Bench::start(Plan::default(), |_, _| Err(overflow(Some(500))));
    let error = bench.turns.run(ask("s", json!([{"role": "user", "content": "Hello?"}]))).await.unwrap_err();
    assert!(matches!(error, TurnError::Overflow { attempts: 4, .. }), "{error}");
    assert_eq!((bench.model.calls(), error.http_status()), (4, 400));
    bench.settled().await;
    assert_eq!(bench.session("s").entries, 1, "the message is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_message_larger_than_the_window_is_still_answered() {
    let bench = Bench::start(Plan { window: Some(1_000), ..Plan::default() }, echo);
    let huge = "word ".repeat(5_000);
    let reply = bench.turns.run(ask("s", json!([{"role": "user", "content": huge}]))).await.unwrap();
    assert!(text(&reply).starts_with("re: "));
    assert!(tokens(&bench.model.requests()[0].messages) <= 900);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manual_compaction_reports_what_the_host_measured() {
    let bench = Bench::ordinary();
    for number in 0..20 {
        bench.say("s", &long(number)).await;
    }
    let report = bench.turns.compact("s", Some("the crates".into())).await.unwrap();
    assert!(report.ok && report.compacted, "{report:?}");
    assert!(report.tokens_after < report.tokens_before, "{report:?}");
    assert_eq!(report.engine, "legacy");
    bench.say("s", "What was in it?").await;
    assert!(bench.model.last_prompt().len() < 41);
    let bench = bench.restart(&[], &[]).await;
    let context = bench.turns.context("s", ContextAsk::default()).await.unwrap();
    assert_eq!(context.entries[0].why, "the summary of older entries");
    assert!(context.entries.iter().any(|entry| !entry.shown && entry.why.contains("summary")));
    assert!(matches!(bench.turns.compact("t", None).await, Err(TurnError::NoSession { .. })));
}
