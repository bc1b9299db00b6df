//! A loopback model that answers at once, and a bare proxy in front of it.

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request, Response, header};
use axum::routing::post;
use bytes::Bytes;
use futures_util::stream;
use http_body_util::BodyExt;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::Mutex;
use std::time::Duration;
use tokio::net::TcpListener;

/// What the model answers.
pub const ANSWER: &str = "Understood; I have made a note of that.";

/// The last request that a model of this process was sent.
static LAST: Mutex<Bytes> = Mutex::new(Bytes::new());

/// The last request that the model was sent, as a body without `stream`: what a client would send directly for the same prompt.
pub fn last_request() -> Value {
    let mut body: Value = serde_json::from_slice(&LAST.lock().expect("the last request")).expect("a JSON request");
    body.as_object_mut().expect("an object").remove("stream");
    body
}

/// Serves an OpenAI-compatible model on loopback; gives its `HOST:PORT`. A streaming answer has eight chunks, the first at
/// once and the others `pause` apart.
pub async fn model(pause: Duration) -> String {
    let router =
        Router::new().route("/v1/chat/completions", post(move |body: Bytes| async move { complete(&body, pause) }));
    serve(router).await
}

fn complete(body: &Bytes, pause: Duration) -> Response<Body> {
    let request: Value = serde_json::from_slice(body).expect("a JSON request");
    LAST.lock().expect("the last request").clone_from(body);
    if request["stream"] != true {
        let answer = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "bench",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}});
        return Response::builder()
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(answer.to_string()))
            .expect("a response");
    }
    let chunks = stream::unfold(0u32, move |n| async move {
        let text = match n {
            0..8 => {
                if n > 0 && !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                let finish = if n == 7 { json!("stop") } else { Value::Null };
                format!(
                    "data: {}\n\n",
                    json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "bench",
                        "choices": [{"index": 0, "delta": {"content": "word "}, "finish_reason": finish}]})
                )
            }
            8 => "data: [DONE]\n\n".to_owned(),
            _ => return None,
        };
        Some((Ok::<_, Infallible>(text), n + 1))
    });
    Response::builder()
        .header(header::CONTENT_TYPE, "text/event-stream")
        .body(Body::from_stream(chunks))
        .expect("a response")
}

/// Serves a proxy that only passes on, without a store; gives its `HOST:PORT`.
pub async fn bare_proxy(upstream: &str) -> String {
    let client: Client<HttpConnector, Body> = Client::builder(TokioExecutor::new()).build(connector());
    let router = Router::new()
        .route("/v1/chat/completions", post(pass))
        .with_state((client, format!("http://{upstream}/v1/chat/completions")));
    serve(router).await
}

async fn pass(
    State((client, upstream)): State<(Client<HttpConnector, Body>, String)>,
    _headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    // A proxy that passes on must at least have read what it passes on.
    let parsed: Value = serde_json::from_slice(&body).expect("a JSON request");
    let request = Request::post(&upstream)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Body::from(parsed.to_string()))
        .expect("a request");
    client.request(request).await.expect("the model answers").map(|body| Body::new(body.map_err(axum::Error::new)))
}

/// A connector without Nagle's delay.
pub fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector
}

async fn serve(router: Router) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port");
    let address = listener.local_addr().expect("its address").to_string();
    let listener = axum::serve::ListenerExt::tap_io(listener, |stream| {
        stream.set_nodelay(true).expect("nodelay");
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}
