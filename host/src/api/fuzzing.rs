//! Doors for `fuzz/`: bodies, headers and paths of requests. Not for anything else.

use super::{body, chat, paths, sessions, subagents};
use crate::config::ApiConfig;
use crate::turn::{RepairRequest, SpawnRequest, TurnRequest};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

fn object(bytes: &[u8]) -> Option<Map<String, Value>> {
    match body::parse(bytes).ok()? {
        Value::Object(fields) => Some(fields),
        _ => None,
    }
}

/// `POST /v1/chat/completions` with these headers.
pub fn chat(headers: &[(&'static str, &[u8])], bytes: &[u8]) -> Option<TurnRequest> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(HeaderName::from_static(name), HeaderValue::from_bytes(value).ok()?);
    }
    let defaults = crate::config::Config::defaults("plugins.toml".into()).api;
    let config =
        ApiConfig { session_from: vec!["header".into(), "user".into()], max_body_bytes: bytes.len(), ..defaults };
    chat::request(&map, object(bytes)?, &config).ok()
}

/// `POST /api/sessions/{key}/subagents`.
pub fn spawn(bytes: &[u8]) -> Option<SpawnRequest> {
    subagents::request(&object(bytes)?).ok()
}

/// `POST /api/sessions/{key}/compact`: the focus.
pub fn compact(bytes: &[u8]) -> Option<Option<String>> {
    sessions::focus(&object(bytes)?).ok()
}

/// `POST /api/sessions/{key}/repair`.
pub fn repair(bytes: &[u8]) -> Option<RepairRequest> {
    sessions::repair(&object(bytes)?).ok()
}

/// The key that a path below `/api/sessions/` names, and what is asked of the session.
pub fn session(rest: &str) -> Option<(String, String)> {
    paths::session(rest).map(|(key, op)| (key, format!("{op:?}")))
}

/// The label under which a path is counted.
pub fn label(path: &str) -> &'static str {
    paths::label(path)
}
