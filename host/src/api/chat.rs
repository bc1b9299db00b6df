//! `POST /v1/chat/completions`.

use super::caller::{Caller, usable};
use super::{Api, ApiError, body, sse};
use crate::config::ApiConfig;
use crate::slot::MAIN_AGENT;
use crate::turn::{HistoryMode, TurnBody, TurnReply, TurnRequest};
use axum::Json;
use axum::body::Body;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Instant;

const SESSION: &str = "x-engineroom-session";
const HISTORY: &str = "x-engineroom-history";
const HEARTBEAT: &str = "x-engineroom-heartbeat";
const IDEMPOTENCY: [&str; 2] = ["idempotency-key", "x-idempotency-key"];
const ENGINE: &str = "x-engineroom-engine";
const DEGRADED: &str = "x-engineroom-degraded";
const TURN: &str = "x-engineroom-turn";
const REPLAYED: &str = "x-engineroom-replayed";

pub(super) async fn completions(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let config = &api.gateway.config.api;
    let fields = body::object(body, config.max_body_bytes).await?;
    let mut request = request(&headers, fields, config)?;
    match request.session_key.take() {
        Some(key) => {
            let key = caller.session(key, SESSION)?;
            api.limits.agent(&api.gateway.store, key.agent()).await?;
            request.session_key = Some(key.into_string());
        }
        // Served by the main agent's model and engine.
        None => caller.agent(MAIN_AGENT)?,
    }
    let since = Instant::now();
    let running = api.metrics.running();
    // When the client goes away the server drops this future, or the stream below, and with it the turn's reason to go on.
    let reply = api.gateway.turns.run(request).await?;
    let mut head = HeaderMap::new();
    describe(&mut head, &reply);
    let TurnReply { engine, degraded, body, .. } = reply;
    let metrics = Arc::clone(&api.metrics);
    let done = move || {
        metrics.turn(&engine, degraded.as_deref(), since.elapsed());
        drop(running);
    };
    Ok(match body {
        TurnBody::Full(full) => {
            done();
            (head, Json(full)).into_response()
        }
        TurnBody::Stream(chunks) => (head, sse::response(chunks, done)).into_response(),
    })
}

/// What is asked, from headers and body.
pub(super) fn request(
    headers: &HeaderMap,
    mut fields: Map<String, Value>,
    config: &ApiConfig,
) -> Result<TurnRequest, ApiError> {
    let messages = match fields.shift_remove("messages") {
        Some(Value::Array(messages)) if !messages.is_empty() => messages,
        Some(Value::Array(_)) => return Err(ApiError::invalid("messages is empty", "messages")),
        Some(_) => return Err(ApiError::invalid("messages is not an array", "messages")),
        None => return Err(ApiError::invalid("messages is missing", "messages")),
    };
    let stream = match fields.shift_remove("stream") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(stream)) => stream,
        Some(_) => return Err(ApiError::invalid("stream is neither true nor false", "stream")),
    };
    if fields.get("model").is_some_and(|model| !model.is_string() && !model.is_null()) {
        return Err(ApiError::invalid("model is not a text", "model"));
    }
    let from = |source: &str| config.session_from.iter().any(|known| known == source);
    let named = if from("header") { text(headers, SESSION)? } else { None };
    let user = fields.get("user").and_then(Value::as_str).filter(|user| from("user") && !user.trim().is_empty());
    let session_key = match (named, user) {
        (Some(named), _) => Some(named),
        (None, Some(user)) => Some(key(user, "user")?),
        (None, None) => None,
    };
    let history = match text(headers, HISTORY)?.as_deref() {
        None | Some("auto") => HistoryMode::Auto,
        Some("full") => HistoryMode::Full,
        Some("delta") => HistoryMode::Delta,
        Some(other) => {
            return Err(ApiError::invalid(format!("\"{other}\" is none of full, delta, auto"), HISTORY));
        }
    };
    let mut idempotency_key = None;
    for name in IDEMPOTENCY {
        idempotency_key = idempotency_key.or(text(headers, name)?);
    }
    let heartbeat = matches!(text(headers, HEARTBEAT)?.as_deref(), Some("true" | "1"));
    Ok(TurnRequest {
        session_key,
        history,
        messages,
        params: fields,
        stream,
        idempotency_key,
        heartbeat,
        ..TurnRequest::default()
    })
}

/// A header's text; absent and blank are the same.
fn text(headers: &HeaderMap, name: &str) -> Result<Option<String>, ApiError> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let text = std::str::from_utf8(value.as_bytes())
        .map_err(|_| ApiError::invalid(format!("{name} is not UTF-8"), name))?
        .trim();
    if text.is_empty() { Ok(None) } else { key(text, name).map(Some) }
}

fn key(text: &str, name: &str) -> Result<String, ApiError> {
    usable(text, name)?;
    Ok(text.to_owned())
}

/// Who served, and for whom.
fn describe(head: &mut HeaderMap, reply: &TurnReply) {
    let facts = &reply.facts;
    let rows = [
        (ENGINE, Some(reply.engine.as_str())),
        (DEGRADED, reply.degraded.as_deref()),
        (SESSION, facts.session_key.as_deref()),
        (TURN, Some(facts.turn_id.as_str())),
        (REPLAYED, facts.replayed.then_some("true")),
    ];
    for (name, value) in rows {
        if let Some(value) = value.and_then(|value| HeaderValue::from_bytes(value.as_bytes()).ok()) {
            head.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(headers: &[(&'static str, &str)], body: Value, from: &[&str]) -> Result<TurnRequest, String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        let defaults = crate::config::Config::defaults("/x/plugins.toml".into()).api;
        let config = ApiConfig { session_from: from.iter().map(|&s| s.to_owned()).collect(), ..defaults };
        let Value::Object(fields) = body else { panic!("an object") };
        request(&map, fields, &config).map_err(|error| error.document()["error"]["param"].as_str().unwrap().to_owned())
    }

    fn hello() -> Value {
        json!({"model": "m", "messages": [{"role": "user", "content": "Hello"}], "user": "ann", "x_unknown": [1], "stream": true})
    }

    #[test]
    fn everything_but_messages_and_stream_is_passed_on_in_its_order() {
        let request = read(&[], hello(), &["header"]).unwrap();
        assert_eq!(Value::Object(request.params).to_string(), r#"{"model":"m","user":"ann","x_unknown":[1]}"#);
        assert!(request.stream && request.messages.len() == 1);
        assert_eq!((request.session_key, request.history, request.heartbeat), (None, HistoryMode::Auto, false));
    }

    #[test]
    fn the_session_is_the_header_s_and_the_user_s_only_where_configured() {
        let session =
            |headers: &[(&'static str, &str)], from: &[&str]| read(headers, hello(), from).unwrap().session_key;
        let header = [(SESSION, " agent:main:desk ö ")];
        assert_eq!(session(&header, &["header"]).as_deref(), Some("agent:main:desk ö"));
        assert_eq!(session(&header, &["header", "user"]).as_deref(), Some("agent:main:desk ö"));
        assert_eq!(session(&[], &["header", "user"]).as_deref(), Some("ann"));
        assert_eq!(session(&[(SESSION, "  ")], &["header"]), None);
        assert_eq!(session(&header, &["user"]).as_deref(), Some("ann"));
    }

    #[test]
    fn headers_say_how_the_history_is_meant_and_what_is_a_retry() {
        let request =
            read(&[(HISTORY, "full"), ("x-idempotency-key", "k"), (HEARTBEAT, "true")], hello(), &[]).unwrap();
        assert_eq!((request.history, request.idempotency_key.as_deref()), (HistoryMode::Full, Some("k")));
        assert!(request.heartbeat);
        assert_eq!(read(&[(HISTORY, "delta")], hello(), &[]).unwrap().history, HistoryMode::Delta);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let wrong = |headers: &[(&'static str, &str)], body| read(headers, body, &["header"]).unwrap_err();
        assert_eq!(wrong(&[], json!({})), "messages");
        assert_eq!(wrong(&[], json!({"messages": []})), "messages");
        assert_eq!(wrong(&[], json!({"messages": "hello"})), "messages");
        assert_eq!(wrong(&[], json!({"messages": [1], "stream": "yes"})), "stream");
        assert_eq!(wrong(&[], json!({"messages": [1], "model": 5})), "model");
        assert_eq!(wrong(&[(HISTORY, "some")], hello()), HISTORY);
        let long = "x".repeat(super::super::caller::LONGEST_KEY + 1);
        assert_eq!(wrong(&[(SESSION, &long)], hello()), SESSION);
        assert_eq!(wrong(&[(SESSION, "a\tb")], hello()), SESSION);
    }
}
