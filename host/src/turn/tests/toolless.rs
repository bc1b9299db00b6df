//! A model that takes no tools, where the gateway offers some.

use super::bench::{Bench, Plan, ask, echo, text};
use crate::diagnostic::Diagnostic;
use crate::model::{ModelError, ModelReply, ModelRequest, ProviderSaid};
use crate::turn::TurnError;
use serde_json::{Value, json};

/// Refuses whatever offers tools.
fn toolless(request: &ModelRequest, number: usize) -> Result<ModelReply, ModelError> {
    match request.params.get("tools") {
        None => echo(request, number),
        Some(_) => Err(ModelError::NoTools {
            said: Box::new(ProviderSaid { status: 400, message: "m does not support tools".into(), body: Value::Null }),
            by: Vec::new(),
        }),
    }
}

fn bench() -> Bench {
    Bench::start(Plan { child_tool: true, ..Plan::default() }, toolless)
}

fn offered(bench: &Bench) -> Vec<bool> {
    bench.model.requests().iter().map(|request| request.params.contains_key("tools")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_gateways_tools_are_taken_back_once_and_later_turns_offer_none() {
    let bench = bench();
    assert_eq!(text(&bench.say("s", "one").await), "re: one");
    assert_eq!(offered(&bench), [true, false], "asked again, without");
    for (session, word) in [("s", "two"), ("other", "three")] {
        assert_eq!(text(&bench.say(session, word).await), format!("re: {word}"));
    }
    assert_eq!(offered(&bench), [true, false, false, false], "it is remembered for the model");
    bench.settled().await;
    let page = bench.turns.turns("s", None, 10).await.unwrap();
    let told: Vec<_> = page.turns.iter().map(|turn| turn.tools_withheld.as_deref()).collect();
    assert_eq!(told, [Some("m does not support tools"); 2]);
    assert_eq!(page.turns[1].model_calls, None, "one answer: {:?}", page.turns[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_model_is_offered_them_all_the_same() {
    let bench = Bench::start(Plan { child_tool: true, ..Plan::default() }, |request, number| {
        if request.params["model"] == "able" { echo(request, number) } else { toolless(request, number) }
    });
    for model in ["unable", "able", "unable"] {
        let mut request = ask("s", json!([{"role": "user", "content": model}]));
        request.params.insert("model".into(), model.into());
        bench.turns.run(request).await.unwrap();
    }
    assert_eq!(offered(&bench), [true, false, true, false]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clients_own_tools_are_the_clients_to_leave_out() {
    let bench = bench();
    let mut request = ask("s", json!([{"role": "user", "content": "one"}]));
    request.params.insert("tools".into(), json!([{"type": "function", "function": {"name": "mine"}}]));
    let error = bench.turns.run(request).await.unwrap_err();
    assert!(matches!(&error, TurnError::Model(ModelError::NoTools { .. })), "{error}");
    assert_eq!((error.code(), error.http_status(), bench.model.calls()), ("CE513", 400, 1));
    let hint = error.hint().unwrap();
    assert!(hint.contains("the client send its request without tools"), "{hint}");
    assert!(hint.contains("[memory] tools = []"), "the gateway offered some as well: {hint}");
    // Without the client's, the gateway's are tried for themselves.
    assert_eq!(text(&bench.say("s", "two").await), "re: two");
    assert_eq!(offered(&bench), [true, true, false]);
}
