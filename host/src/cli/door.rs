//! The way to a gateway: over HTTP when one runs, else the same routes in this process.
//!
//! Either way a command speaks the HTTP interface, so it cannot know more, or behave otherwise, than any other program.

use super::error::CliError;
use super::running::Running;
use super::sse::{Decoder, Event};
use crate::config::Secret;
use axum::body::Body;
use futures_util::StreamExt;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use serde_json::{Value, json};
use std::time::Duration;
use tower::ServiceExt;

/// Longest wait for a connection to a gateway on this machine.
const CONNECT: Duration = Duration::from_secs(3);

/// A way to a gateway.
#[derive(Debug, Clone)]
pub struct Door {
    way: Way,
    token: Option<Secret>,
}

#[derive(Debug, Clone)]
enum Way {
    Remote(Running),
    Local(axum::Router),
}

/// An answer that comes in pieces.
pub struct Streamed {
    /// Headers.
    pub headers: HeaderMap,
    body: axum::body::BodyDataStream,
    decoder: Decoder,
    ready: std::collections::VecDeque<Event>,
    done: bool,
}

impl Door {
    /// To a running gateway.
    pub fn remote(running: Running, token: Option<Secret>) -> Door {
        Door { way: Way::Remote(running), token }
    }

    /// To the routes of a gateway in this process.
    pub fn local(router: axum::Router, token: Option<Secret>) -> Door {
        Door { way: Way::Local(router), token }
    }

    /// GET, a JSON document.
    pub async fn get(&self, path: &str) -> Result<Value, CliError> {
        self.whole(Method::GET, path, &[], None).await
    }

    /// POST, a JSON document.
    pub async fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Result<Value, CliError> {
        self.whole(Method::POST, path, headers, Some(body)).await
    }

    /// DELETE, a JSON document.
    pub async fn delete(&self, path: &str) -> Result<Value, CliError> {
        self.whole(Method::DELETE, path, &[], None).await
    }

    /// POST, an event stream.
    pub async fn stream(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Result<Streamed, CliError> {
        let response = self.send(Method::POST, path, headers, Some(body)).await?;
        let (parts, body) = response.into_parts();
        if !parts.status.is_success() {
            return Err(refusal(parts.status, &read(body).await?));
        }
        Ok(Streamed {
            headers: parts.headers,
            body: body.into_data_stream(),
            decoder: Decoder::default(),
            ready: std::collections::VecDeque::new(),
            done: false,
        })
    }

    async fn whole(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Value, CliError> {
        let (parts, body) = self.send(method, path, headers, body).await?.into_parts();
        let bytes = read(body).await?;
        if !parts.status.is_success() {
            return Err(refusal(parts.status, &bytes));
        }
        serde_json::from_slice(&bytes)
            .map_err(|error| CliError::Broken { reason: format!("{path} is not JSON: {error}") })
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Response<Body>, CliError> {
        let host = match &self.way {
            Way::Remote(running) => running.reachable().to_string(),
            Way::Local(_) => "127.0.0.1".to_owned(),
        };
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, host);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(token) = &self.token {
            let mut value = header::HeaderValue::from_str(&format!("Bearer {}", token.reveal()))
                .map_err(|error| CliError::Usage(format!("the token: {error}")))?;
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
        let body = match body {
            Some(value) => {
                request = request.header(header::CONTENT_TYPE, "application/json");
                Body::from(value.to_string())
            }
            None => Body::empty(),
        };
        let request = request.body(body).map_err(|error| CliError::Usage(format!("the request: {error}")))?;
        match &self.way {
            Way::Remote(running) => remote(running, request).await,
            Way::Local(router) => match router.clone().oneshot(request).await {
                Ok(response) => Ok(response),
                Err(never) => match never {},
            },
        }
    }
}

async fn remote(running: &Running, request: Request<Body>) -> Result<Response<Body>, CliError> {
    let unreachable =
        |reason: String| CliError::Unreachable { address: running.reachable().to_string(), pid: running.pid, reason };
    let connect = tokio::time::timeout(CONNECT, tokio::net::TcpStream::connect(running.reachable()));
    let stream = connect
        .await
        .map_err(|_| unreachable("no connection in time".into()))?
        .map_err(|error| unreachable(error.to_string()))?;
    let io = hyper_util::rt::TokioIo::new(stream);
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(io).await.map_err(|error| unreachable(error.to_string()))?;
    // The connection ends with its one request.
    tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(|error| unreachable(error.to_string()))?;
    Ok(response.map(Body::new))
}

async fn read(body: Body) -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    let mut stream = body.into_data_stream();
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk.map_err(|error| CliError::Broken { reason: error.to_string() })?);
    }
    Ok(bytes)
}

/// What a gateway said with an error status: `{"error": {"message", "diagnostic", "causes", "hint"}}`.
fn refusal(status: StatusCode, bytes: &[u8]) -> CliError {
    let body: Value = serde_json::from_slice(bytes).unwrap_or_else(|_| json!({}));
    let error = body.get("error").unwrap_or(&body);
    let text = |name: &str| error.get(name).and_then(Value::as_str).map(str::to_owned);
    let message = text("message").unwrap_or_else(|| format!("the gateway answered {status}"));
    let causes = error.get("causes").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    CliError::Refused {
        status: status.as_u16(),
        code: text("diagnostic").or_else(|| text("code")).unwrap_or_else(|| "CE804".into()),
        // Clients of the dialect read the message only, so it may hold the causes already.
        causes: causes.filter(|cause| !message.contains(cause)).map(str::to_owned).collect(),
        message,
        hint: text("hint"),
    }
}

impl Streamed {
    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The next event; `None` after the end marker. A stream that ends without it was not acknowledged, which is an error.
    pub async fn next(&mut self) -> Result<Option<Event>, CliError> {
        loop {
            match self.ready.pop_front() {
                Some(Event::Done) => self.done = true,
                Some(Event::Chunk(chunk)) if chunk.get("error").is_some() => {
                    return Err(refusal(StatusCode::OK, chunk.to_string().as_bytes()));
                }
                Some(event) => return Ok(Some(event)),
                None => match self.body.next().await {
                    Some(Ok(bytes)) => self.ready.extend(self.decoder.push(&bytes)),
                    Some(Err(error)) => return Err(CliError::Broken { reason: error.to_string() }),
                    None if self.done => return Ok(None),
                    None => return Err(CliError::Broken { reason: "the stream ended without its end marker".into() }),
                },
            }
        }
    }
}

/// A session key as a piece of a path.
pub fn segment(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::{get, post};

    async fn check(door: Door) {
        assert_eq!(door.get("/json").await.unwrap(), json!({"a": 1}));
        match door.get("/refused").await.unwrap_err() {
            CliError::Refused { status: 409, code, hint: Some(hint), .. } => {
                assert_eq!((code.as_str(), hint.as_str()), ("CE302", "h"));
            }
            other => panic!("{other:?}"),
        }
        let mut stream = door.stream("/echo", &[("x-a", "b")], &json!({"n": 2})).await.unwrap();
        assert_eq!(stream.header("x-engineroom-engine"), Some("w"));
        assert_eq!(stream.next().await.unwrap(), Some(Event::Chunk(json!({"n": 2, "auth": "Bearer t", "a": "b"}))));
        assert_eq!(stream.next().await.unwrap(), Some(Event::Comment("end".into())));
        assert_eq!(stream.next().await.unwrap(), None);
        let mut broken = door.stream("/broken", &[], &json!({})).await.unwrap();
        assert!(matches!(broken.next().await, Ok(Some(Event::Chunk(_)))));
        assert!(matches!(broken.next().await, Err(CliError::Broken { .. })), "no end marker, no acknowledgement");
        let mut failed = door.stream("/failed", &[], &json!({})).await.unwrap();
        assert!(matches!(failed.next().await, Err(CliError::Refused { .. })));
    }

    fn routes() -> axum::Router {
        let refused = || async {
            (
                StatusCode::CONFLICT,
                axum::Json(json!({"error": {"message": "m", "code": "x", "diagnostic": "CE302", "hint": "h"}})),
            )
        };
        let echo = |headers: HeaderMap, axum::Json(mut body): axum::Json<Value>| async move {
            body["auth"] = headers["authorization"].to_str().unwrap_or_default().into();
            body["a"] = headers["x-a"].to_str().unwrap_or_default().into();
            ([("x-engineroom-engine", "w")], format!("data: {body}\n\ndata: [DONE]\n\n: end\n\n"))
        };
        axum::Router::new()
            .route("/json", get(|| async { axum::Json(json!({"a": 1})) }))
            .route("/refused", get(refused))
            .route("/echo", post(echo))
            .route("/broken", post(|| async { "data: {}\n\n" }))
            .route("/failed", post(|| async { "data: {\"error\":{\"message\":\"m\"}}\n\ndata: [DONE]\n\n" }))
    }

    #[tokio::test]
    async fn the_local_way_speaks_the_same_as_the_remote() {
        check(Door::local(routes(), Some(Secret::new("t")))).await;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move { axum::serve(listener, routes()).await });
        check(Door::remote(Running { address, pid: 1 }, Some(Secret::new("t")))).await;
        server.abort();
    }

    #[tokio::test]
    async fn a_gateway_that_is_not_there_is_unreachable() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let door = Door::remote(Running { address, pid: 1 }, None);
        assert!(matches!(door.get("/json").await, Err(CliError::Unreachable { .. })));
    }

    #[test]
    fn keys_become_one_piece_of_a_path() {
        assert_eq!(segment("agent:main:a/b ö"), "agent%3Amain%3Aa%2Fb%20%C3%B6");
    }
}
