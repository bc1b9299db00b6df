//! Against a small server in this process.

use super::*;
use crate::model::endpoint::bearer;
use crate::model::{Accumulator, ModelStream, usage_only};
use axum::Router;
use axum::body::Body as AxumBody;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response as Reply};
use axum::routing::{get, post};
use futures_util::StreamExt;
use http::header::CONTENT_TYPE;
use serde_json::json;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;

/// What the server does with the next requests, in order; and what it got.
#[derive(Clone, Default)]
struct Server {
    answers: Arc<Mutex<VecDeque<Reply>>>,
    requests: Arc<Mutex<Vec<(Value, HeaderMap)>>>,
}

impl Server {
    async fn start(answers: Vec<Reply>) -> (Server, OpenAiModel) {
        let server = Server { answers: Arc::new(Mutex::new(answers.into())), ..Server::default() };
        let router = Router::new()
            .route("/v1/chat/completions", post(Server::serve))
            .route("/v1/models", get(|| async { axum::Json(json!({"object": "list", "data": [{"id": "one"}]})) }))
            .with_state(server.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let model = model(&format!("http://{}/v1/", listener.local_addr().unwrap()));
        tokio::spawn(async move { axum::serve(listener, router).await });
        (server, model)
    }

    fn serve(
        State(server): State<Server>,
        headers: HeaderMap,
        axum::Json(body): axum::Json<Value>,
    ) -> std::future::Ready<Reply> {
        server.requests.lock().unwrap().push((body, headers));
        let answer = server.answers.lock().unwrap().pop_front();
        std::future::ready(
            answer.unwrap_or_else(|| error(418, json!({"error": {"message": "nothing more is scripted"}}))),
        )
    }

    fn requests(&self) -> Vec<Value> {
        self.requests.lock().unwrap().iter().map(|(body, _)| body.clone()).collect()
    }
}

fn model(base: &str) -> OpenAiModel {
    let mut config = crate::config::Config::defaults("/x/plugins.toml".into()).model;
    config.provider = "openai".into();
    config.base_url = Some(base.to_owned());
    config.model = Some("mock".into());
    config.timeout_ms = 20_000;
    OpenAiModel::new(&config).unwrap()
}

/// A model at a port on which nobody listens.
fn unreachable() -> OpenAiModel {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let mut model = model(&format!("http://{address}/v1?key=secret"));
    model.endpoint.max_attempts = 1;
    model
}

fn error(status: u16, body: Value) -> Reply {
    (StatusCode::from_u16(status).unwrap(), axum::Json(body)).into_response()
}

fn full(text: &str) -> Reply {
    let message = json!({"role": "assistant", "content": text});
    axum::Json(json!({"id": "c", "object": "chat.completion", "x_kept": 1,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}))
    .into_response()
}

fn events(text: &'static str) -> Reply {
    ([(CONTENT_TYPE, "text/event-stream; charset=utf-8")], text).into_response()
}

fn ask(stream: bool) -> ModelRequest {
    let params =
        json!({"model": "client-says", "temperature": 0.5, "x_unknown": {"a": [1]}, "tools": [{"type": "function"}]});
    ModelRequest {
        params: params.as_object().unwrap().clone(),
        messages: vec![json!({"role": "user", "content": "Hi", "x_field": true})].into(),
        stream,
        ..ModelRequest::default()
    }
}

async fn stream(model: &OpenAiModel) -> ModelStream {
    match model.call(ask(true)).await.unwrap() {
        ModelReply::Stream(stream) => stream,
        ModelReply::Full(full) => panic!("{full}"),
    }
}

const TWO: &str = "data: {\"id\":\"c\",\"x_kept\":[1],\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n\
                   : keep-alive\n\n\
                   data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\n\n\
                   data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n\
                   data: [DONE]\n\n";

#[tokio::test]
async fn parameters_pass_untouched_and_so_does_the_answer() {
    let (server, model) = Server::start(vec![full("hello")]).await;
    let ModelReply::Full(answer) = model.call(ask(false)).await.unwrap() else { panic!("a stream") };
    assert_eq!((&answer["x_kept"], &answer["choices"][0]["message"]["content"]), (&json!(1), &json!("hello")));
    let sent = &server.requests()[0];
    let expected = json!({"model": "mock", "messages": [{"role": "user", "content": "Hi", "x_field": true}],
        "temperature": 0.5, "x_unknown": {"a": [1]}, "tools": [{"type": "function"}]});
    assert_eq!(sent, &expected, "the configured model, no stream, nothing else");
}

#[tokio::test]
async fn the_key_goes_with_every_request_and_into_no_log() {
    let (server, mut model) = Server::start(vec![full("hello")]).await;
    model.endpoint.key = bearer("k-123");
    model.call(ask(false)).await.unwrap();
    assert_eq!(server.requests.lock().unwrap()[0].1["authorization"], "Bearer k-123");
    assert!(!format!("{model:?}").contains("k-123"));
    assert_eq!(bearer("with\nbreak"), None);
}

#[tokio::test]
async fn a_stream_gives_every_chunk_as_it_came_and_the_usage() {
    let (server, model) = Server::start(vec![events(TWO)]).await;
    let chunks: Vec<Value> = stream(&model).await.map(Result::unwrap).collect().await;
    assert_eq!(chunks.len(), 3);
    assert_eq!(chunks[0]["x_kept"], json!([1]));
    assert!(usage_only(&chunks[2]));
    let mut all = Accumulator::new();
    chunks.iter().for_each(|chunk| all.push(chunk));
    let reply = all.finish();
    assert_eq!((reply.message.text().as_ref(), reply.usage.unwrap().prompt_tokens), ("ab", Some(3)));
    let sent = &server.requests()[0];
    assert_eq!((&sent["stream"], &sent["stream_options"]), (&json!(true), &json!({"include_usage": true})));
}

#[tokio::test]
async fn a_chunk_is_here_before_the_next_is_sent_and_dropping_the_stream_cancels_the_call() {
    let (gone, mut closed) = mpsc::channel::<()>(1);
    let body = futures_util::stream::unfold((0, gone), move |(n, gone)| {
        async move {
            if n > 0 {
                // Nothing more is sent: the client must have the first chunk all the same.
                std::future::pending::<()>().await;
            }
            let text = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"first\"}}]}\n\n";
            Some((Ok::<_, Infallible>(text), (n + 1, gone)))
        }
    });
    let answer = Reply::builder().header(CONTENT_TYPE, "text/event-stream").body(AxumBody::from_stream(body)).unwrap();
    let (_, model) = Server::start(vec![answer]).await;
    let mut chunks = stream(&model).await;
    let first = chunks.next().await.unwrap().unwrap();
    assert_eq!(first["choices"][0]["delta"]["content"], "first");
    drop(chunks);
    // The server's side of the body is dropped, and its sender with it, once the connection is closed.
    assert_eq!(closed.recv().await, None);
}

#[tokio::test]
async fn a_failure_before_the_first_byte_is_tried_again_up_to_the_bound() {
    let down = || error(503, json!({"error": {"message": "loading"}}));
    let (server, model) = Server::start(vec![down(), down(), events(TWO)]).await;
    assert_eq!(stream(&model).await.count().await, 3);
    assert_eq!(server.requests().len(), 3);
    let (server, model) = Server::start(vec![down(), down(), down(), full("too late")]).await;
    let failed = model.call(ask(false)).await.unwrap_err();
    assert!(matches!(failed, ModelError::Unavailable { .. }) && failed.http_status() == 503, "{failed:?}");
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn an_error_as_the_first_event_is_an_error_of_the_call() {
    let overflow = "data: {\"error\":{\"code\":400,\"message\":\"prompt is too long: 9 tokens > 8 maximum\"}}\n\n";
    let (server, model) = Server::start(vec![events(overflow)]).await;
    match model.call(ask(true)).await {
        Err(ModelError::Overflow { limit: Some(8), .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(server.requests().len(), 1, "an overflow is not tried again");
}

#[tokio::test]
async fn what_fails_after_the_first_byte_is_the_last_item_and_is_not_tried_again() {
    let cases = [
        ("data: {\"choices\":[]}\n\ndata: {\"error\":{\"message\":\"worker died\",\"code\":500}}\n\n", "worker died"),
        ("data: {\"choices\":[]}\n\n", "ended before the answer did"),
        ("data: {\"choices\":[]}\n\ndata: {broken\n\n", "not JSON"),
    ];
    for (text, expected) in cases {
        let (server, model) = Server::start(vec![events(text)]).await;
        let items: Vec<_> = stream(&model).await.collect().await;
        assert_eq!(items.len(), 2, "{items:?}");
        let failed = items[1].as_ref().unwrap_err();
        assert!(failed.to_string().contains(expected), "{failed}");
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_answer_without_an_end_marker_is_whole_when_it_has_a_finish_reason() {
    let text = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n";
    let (_, model) = Server::start(vec![events(text)]).await;
    let items: Vec<_> = stream(&model).await.collect().await;
    assert!(items.len() == 1 && items[0].is_ok(), "{items:?}");
}

#[tokio::test]
async fn an_endpoint_that_does_not_know_the_usage_option_is_asked_without_it_from_then_on() {
    let refused = error(400, json!({"error": {"message": "Unrecognized request argument supplied: stream_options"}}));
    let (server, model) = Server::start(vec![refused, events(TWO), events(TWO)]).await;
    assert_eq!(stream(&model).await.count().await, 3);
    assert_eq!(stream(&model).await.count().await, 3);
    let asked: Vec<bool> = server.requests().iter().map(|body| body.get("stream_options").is_some()).collect();
    assert_eq!(asked, [true, false, false]);
}

#[tokio::test]
async fn an_endpoint_that_does_not_stream_still_gives_a_stream() {
    let (_, model) = Server::start(vec![full("whole")]).await;
    let mut all = Accumulator::new();
    let chunks: Vec<Value> = stream(&model).await.map(Result::unwrap).collect().await;
    assert_eq!(chunks[0]["object"], "chat.completion.chunk");
    chunks.iter().for_each(|chunk| all.push(chunk));
    let reply = all.finish();
    assert_eq!((reply.message.text().as_ref(), reply.finish_reason.as_deref()), ("whole", Some("stop")));
}

#[tokio::test]
async fn a_model_that_says_nothing_times_out_in_its_phase() {
    let silent = |first: &'static str| {
        let head = futures_util::stream::iter([Ok::<_, Infallible>(first)]);
        let body = AxumBody::from_stream(head.chain(futures_util::stream::pending()));
        Reply::builder().header(CONTENT_TYPE, "text/event-stream").body(body).unwrap()
    };
    let one = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
    let (_, mut model) = Server::start(vec![silent(": nothing yet\n\n"), silent(one)]).await;
    model.endpoint.timeout = Duration::from_millis(100);
    let failed = model.call(ask(true)).await.unwrap_err();
    assert!(matches!(failed, ModelError::Timeout { .. }), "{failed:?}");
    // Long enough for the first chunk on a busy machine; the second never comes.
    model.endpoint.timeout = Duration::from_secs(2);
    let items: Vec<_> = stream(&model).await.collect().await;
    assert!(matches!(items[1], Err(ModelError::Timeout { phase: Phase::NextByte, .. })), "{items:?}");
}

#[tokio::test]
async fn a_closed_port_is_unavailable_and_does_not_show_the_url() {
    let failed = unreachable().call(ask(false)).await.unwrap_err();
    assert!(matches!(failed, ModelError::Unavailable { said: None, .. }), "{failed:?}");
    assert_eq!(failed.http_status(), 502);
    assert!(!failed.to_string().contains("secret"), "{failed}");
}

#[tokio::test]
async fn models_are_listed_as_the_endpoint_lists_them() {
    let (_, model) = Server::start(Vec::new()).await;
    assert_eq!(model.models().await.unwrap(), [json!({"id": "one"})]);
    let silent = unreachable();
    assert_eq!(silent.models().await.unwrap()[0]["id"], "mock", "the configured one, where there is no list");
}

#[test]
fn a_configuration_that_cannot_work_is_refused_at_once() {
    let mut config = crate::config::Config::defaults("/x/plugins.toml".into()).model;
    config.provider = "openai".into();
    let refused =
        |config: &ModelConfig| OpenAiModel::new(config).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(refused(&config).contains("base_url"));
    config.base_url = Some("localhost:11434".into());
    assert!(refused(&config).contains("localhost:11434"));
    config.base_url = Some("http://localhost:11434/v1".into());
    config.api_key_env = Some("ENGINEROOM_TEST_NO_SUCH_VARIABLE".into());
    assert!(refused(&config).contains("ENGINEROOM_TEST_NO_SUCH_VARIABLE"));
    config.api_key_env = None;
    assert_eq!(refused(&config), "");
}
