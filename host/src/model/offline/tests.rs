use super::*;
use crate::model::{Accumulator, reply_of, usage_only};
use futures_util::StreamExt;

fn model(window: u64) -> OfflineModel {
    let mut config = crate::config::Config::defaults("/x/plugins.toml".into()).model;
    config.context_window = window;
    OfflineModel::new(&config)
}

fn ask(messages: Value) -> ModelRequest {
    ModelRequest { messages: messages.as_array().unwrap().clone().into(), ..ModelRequest::default() }
}

async fn text(request: ModelRequest) -> String {
    match model(10_000).call(request).await.unwrap() {
        ModelReply::Full(full) => reply_of(&full).unwrap().message.text().into_owned(),
        ModelReply::Stream(_) => panic!("not asked to stream"),
    }
}

#[tokio::test]
async fn it_quotes_what_the_context_holds_and_says_who_said_it() {
    let answer = text(ask(json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "My harbour pilot is called Marisol. The weather is fine."},
        {"role": "assistant", "content": "Noted."},
        {"role": "user", "content": "What is my harbour pilot called?"},
    ])))
    .await;
    assert!(answer.contains("offline model"), "{answer}");
    assert!(answer.contains("you said: \u{201c}My harbour pilot is called Marisol.\u{201d}"), "{answer}");
    assert!(!answer.contains("weather"), "{answer}");
}

#[tokio::test]
async fn what_is_not_in_the_request_it_does_not_know() {
    let answer = text(ask(json!([
        {"role": "user", "content": "The weather is fine."},
        {"role": "user", "content": "What is my harbour pilot called?"},
    ])))
    .await;
    assert_eq!(answer, NOTHING);
}

#[tokio::test]
async fn it_knows_a_summary_and_the_system_prompt() {
    let answer = text(ask(json!([
        {"role": "system", "content": "The vault code is 7731."},
        {"role": "user", "content": "<summary>The cat is called Miso.</summary>"},
        {"role": "user", "content": "What is the vault code, and the name of the cat?"},
    ])))
    .await;
    assert!(answer.contains("the instructions say: \u{201c}The vault code is 7731.\u{201d}"), "{answer}");
    assert!(answer.contains("the summary says: \u{201c}The cat is called Miso.\u{201d}"), "{answer}");
}

#[tokio::test]
async fn the_same_request_gives_the_same_text_streamed_or_not_with_the_same_usage() {
    let mut request =
        ask(json!([{"role": "user", "content": "Ana owns a boat."}, {"role": "user", "content": "Who owns a boat?"}]));
    let ModelReply::Full(full) = model(10_000).call(request.clone()).await.unwrap() else { panic!("not a full reply") };
    request.stream = true;
    let ModelReply::Stream(stream) = model(10_000).call(request).await.unwrap() else { panic!("not a stream") };
    let chunks: Vec<Value> = stream.map(|chunk| chunk.unwrap()).collect().await;
    assert!(chunks.len() > 5, "word by word: {chunks:?}");
    assert!(usage_only(chunks.last().unwrap()));
    let mut all = Accumulator::new();
    chunks.iter().for_each(|chunk| all.push(chunk));
    let (streamed, whole) = (all.finish(), reply_of(&full).unwrap());
    assert_eq!((&streamed.message, streamed.usage, &streamed.id), (&whole.message, whole.usage, &whole.id));
    let usage = whole.usage.unwrap();
    assert_eq!(usage.total_tokens, Some(usage.prompt_tokens.unwrap() + usage.completion_tokens.unwrap()));
}

#[tokio::test]
async fn a_prompt_longer_than_its_window_overflows_as_anywhere_else() {
    let request = ask(json!([{"role": "user", "content": "word ".repeat(500)}]));
    match model(100).call(request).await {
        Err(ModelError::Overflow { limit: Some(100), .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn it_stops_where_the_client_wants_it_to() {
    let mut request = ask(json!([{"role": "user", "content": "Hello?"}]));
    request.params.insert("max_tokens".into(), json!(5));
    let ModelReply::Full(full) = model(10_000).call(request).await.unwrap() else { panic!("not a full reply") };
    assert_eq!(full["choices"][0]["finish_reason"], "length");
    assert!(full["usage"]["completion_tokens"].as_u64().unwrap() <= 5);
}
