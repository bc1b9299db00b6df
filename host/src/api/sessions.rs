//! `/api/sessions…`: what is stored, and what the model would see of it.

use super::body;
use super::caller::Caller;
use super::paths::{self, SessionOp};
use super::{Api, ApiError, subagents};
use crate::transcript::{Entry, EntryBody, EntryId, SessionRecord, Store, StoreError};
use crate::turn::{CompactReport, ContextAsk, ContextReport, RepairAction, RepairRequest};
use axum::Json;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Extension, Query, State};
use axum::http::{Method, Uri};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Most rows of an answer.
const MOST: usize = 1_000;
/// Rows of an answer that names no number.
const USUAL: usize = 100;
/// Operations on a session are asked for in a small body.
const SMALL_BODY: usize = 64 * 1024;

/// Which part of a list is asked for.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Page {
    limit: Option<usize>,
    offset: Option<usize>,
    /// Only entries, or turns, before this one.
    before: Option<String>,
    /// A report of the context first does what the next turn would.
    take_up: Option<bool>,
    /// A report of the context is given as if this were the next user message.
    ask: Option<String>,
}

impl Page {
    fn limit(&self) -> usize {
        self.limit.unwrap_or(USUAL).clamp(1, MOST)
    }
}

/// A query, or why it cannot be read.
type AskedPage = Result<Query<Page>, QueryRejection>;

/// A query that cannot be read is told like any other mistake of a request, not in the framework's bare text.
fn read_page(asked: AskedPage) -> Result<Page, ApiError> {
    asked.map(|Query(page)| page).map_err(|rejection| {
        let text = rejection.body_text();
        let said = text.strip_prefix("Failed to deserialize query string: ").unwrap_or(&text);
        let name = said.split_once(": ").map_or("query", |(name, _)| name);
        ApiError::invalid(format!("the query cannot be read: {said}"), name)
    })
}

/// Sessions of the caller's agents, newest use first. `more` is true when there are further ones behind these.
pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    page: AskedPage,
) -> Result<Json<Value>, ApiError> {
    let page = read_page(page)?;
    let (limit, offset) = (page.limit(), page.offset.unwrap_or(0));
    let mut sessions = read(&api, move |store| {
        if caller.unlimited() {
            return store.sessions(limit + 1, offset);
        }
        let (mut found, mut passed, mut at) = (Vec::new(), 0, 0);
        loop {
            let part = store.sessions(MOST, at)?;
            at += part.len();
            let last = part.len() < MOST;
            for session in part.into_iter().filter(|session| caller.may_use(&session.agent)) {
                passed += 1;
                if passed > offset {
                    found.push(session);
                }
                if found.len() > limit {
                    return Ok(found);
                }
            }
            if last {
                return Ok(found);
            }
        }
    })
    .await?;
    let more = sessions.len() > limit;
    sessions.truncate(limit);
    Ok(Json(json!({"sessions": sessions, "limit": limit, "offset": offset, "more": more})))
}

/// Everything below one session.
pub(super) async fn one(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    method: Method,
    uri: Uri,
    page: AskedPage,
    body: Body,
) -> Result<Json<Value>, ApiError> {
    let rest = uri.path().strip_prefix("/api/sessions/").unwrap_or("");
    let Some((key, op)) = paths::session(rest) else {
        return Err(ApiError::NoRoute { path: uri.path().to_owned() });
    };
    // Before anything else is said: whose session it is.
    let key = caller.session(key, "key")?;
    if let SessionOp::Subagent(child) = &op {
        caller.session(child.clone(), "child")?;
    }
    let page = read_page(page)?;
    let answer = match (&op, method.as_str()) {
        (SessionOp::Whole, "GET" | "HEAD") => show(&api, key.into_string(), &page).await?,
        (SessionOp::Whole, "DELETE") => {
            let report = api.gateway.turns.delete(&key).await?;
            json!({"deleted": true, "key": report.key, "engines": report.engines})
        }
        (SessionOp::Context, "GET" | "HEAD") => {
            let ask = ContextAsk { take_up: page.take_up == Some(true), question: page.ask.clone() };
            context(&api.gateway.turns.context(&key, ask).await?)
        }
        (SessionOp::Turns, "GET" | "HEAD") => turns(&api, key.into_string(), &page).await?,
        (SessionOp::Compact, "POST") => {
            let asked = body::optional_object(body, SMALL_BODY).await?;
            let report = api.gateway.turns.compact(&key, focus(&asked)?).await?;
            compacted(&report)
        }
        (SessionOp::Reset, "POST") => {
            body::optional_object(body, SMALL_BODY).await?;
            let report = api.gateway.turns.reset(&key).await?;
            json!({"reset": true, "key": report.key, "engines": report.engines})
        }
        (SessionOp::Repair, "POST") => {
            let asked = body::optional_object(body, SMALL_BODY).await?;
            let report = api.gateway.turns.repair(&key, repair(&asked)?).await?;
            serde_json::to_value(report)
                .map_err(|cause| ApiError::Internal(format!("the repair cannot be shown: {cause}")))?
        }
        (SessionOp::Subagents, "GET" | "HEAD") => subagents::list(&api, &key).await?,
        (SessionOp::Subagents, "POST") => subagents::spawn(&api, &caller, &key, body).await?,
        (SessionOp::Subagent(child), "GET" | "HEAD") => subagents::one(&api, &key, child).await?,
        (SessionOp::Subagent(child), "DELETE") => subagents::end(&api, &key, child).await?,
        (op, _) => {
            let allow = match op {
                SessionOp::Subagents => "GET, HEAD, POST",
                SessionOp::Subagent(_) => "GET, HEAD, DELETE",
                SessionOp::Whole => "GET, HEAD, DELETE",
                SessionOp::Compact | SessionOp::Reset | SessionOp::Repair => "POST",
                SessionOp::Context | SessionOp::Turns => "GET, HEAD",
            };
            return Err(ApiError::Method { method: method.to_string(), path: uri.path().to_owned(), allow });
        }
    };
    Ok(Json(answer))
}

/// Reads from the store, off the async threads.
async fn read<T: Send + 'static>(
    api: &Api,
    work: impl FnOnce(&dyn Store) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, ApiError> {
    let store = Arc::clone(&api.gateway.store);
    let reading = tokio::task::spawn_blocking(move || work(&*store));
    Ok(reading.await.map_err(|cause| ApiError::Internal(format!("the store was not read: {cause}")))??)
}

fn unknown(key: &str) -> ApiError {
    ApiError::NotFound { what: "session", name: key.to_owned(), near: None }
}

/// The session, its branches, and the newest messages of the active one, oldest first.
async fn show(api: &Api, key: String, page: &Page) -> Result<Value, ApiError> {
    let limit = page.limit.unwrap_or(MOST).clamp(1, MOST);
    let before: Option<EntryId> = match page.before.as_deref().map(str::parse) {
        None => None,
        Some(Ok(before)) => Some(before),
        Some(Err(_)) => return Err(ApiError::invalid("before is not the id of an entry", "before")),
    };
    let wanted = key.clone();
    let found = read(api, move |store| {
        let Some(record) = store.session(&wanted)? else { return Ok(None) };
        let heads = store.heads(record.row)?;
        let branch = if record.head == 0 { Vec::new() } else { store.branch(record.row, record.head)? };
        let former = crate::turn::former_ids(store, record.row)?;
        Ok(Some((record, heads, branch, former)))
    })
    .await?;
    let (record, heads, branch, former) = found.ok_or_else(|| unknown(&key))?;
    let end = before.map_or(branch.len(), |before| branch.partition_point(|entry| entry.id < before));
    let start = end.saturating_sub(limit);
    let mut shown = session(&record, &heads, &branch[start..end], start > 0);
    if let Value::Object(fields) = &mut shown {
        if !former.is_empty() {
            fields.insert("former_session_ids".into(), json!(former));
        }
        if let Some(catch_up) = api.gateway.turns.catch_up(&record.key) {
            fields.insert("catchUp".into(), json!(catch_up));
        }
        fields.insert("maintenance".into(), json!(api.gateway.turns.session_maintenance(&record.key)));
    }
    Ok(shown)
}

fn session(record: &SessionRecord, heads: &[EntryId], entries: &[Arc<Entry>], more: bool) -> Value {
    let branches: Vec<Value> = heads.iter().map(|head| json!({"head": head, "active": *head == record.head})).collect();
    let messages: Vec<Value> = entries.iter().map(|entry| row(entry)).collect();
    json!({
        "key": record.key, "session_id": record.session_id, "agent": record.agent, "head": record.head,
        "generation": record.generation, "created_ms": record.created_ms, "updated_ms": record.updated_ms,
        "entries": record.entries, "branches": branches, "messages": messages, "more": more,
    })
}

fn row(entry: &Entry) -> Value {
    let head = json!({"id": entry.id, "parent": entry.parent, "time_ms": entry.time_ms, "tokens": entry.tokens});
    let (mut row, body) = match (head, &entry.body) {
        (Value::Object(row), EntryBody::Message(message)) => {
            (row, json!({"role": message.role.name(), "text": message.text(), "message": &**message}))
        }
        (Value::Object(row), EntryBody::Compaction(body)) => (
            row,
            json!({"role": "compaction", "text": body.summary, "compaction": {
                "firstKeptEntryId": body.first_kept, "tokensBefore": body.tokens_before,
                "tokensAfter": body.tokens_after, "trigger": body.trigger, "by": body.by}}),
        ),
        (other, _) => return other,
    };
    if let Value::Object(body) = body {
        row.extend(body);
    }
    Value::Object(row)
}

/// The last turns, newest first: who served, and why not another.
async fn turns(api: &Api, key: String, page: &Page) -> Result<Value, ApiError> {
    if page.before.as_deref().is_some_and(|before| uuid::Uuid::try_parse(before).is_err()) {
        return Err(ApiError::invalid("before is not the id of a turn", "before"));
    }
    let found = api.gateway.turns.turns(&key, page.before.clone(), page.limit()).await?;
    Ok(json!({"key": key, "turns": found.turns, "more": found.more}))
}

/// What a compaction shall keep in view.
pub(super) fn focus(asked: &serde_json::Map<String, Value>) -> Result<Option<String>, ApiError> {
    // The contract's own name for it is taken as well.
    if let Some(unknown) = asked.keys().find(|name| !["focus", "customInstructions"].contains(&name.as_str())) {
        return Err(ApiError::invalid(format!("there is no \"{unknown}\" here; known is focus"), unknown));
    }
    match asked.get("focus").or_else(|| asked.get("customInstructions")) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(focus)) => Ok(Some(focus.clone()).filter(|focus| !focus.trim().is_empty())),
        Some(_) => Err(ApiError::invalid("focus is not a text", "focus")),
    }
}

/// What a body asks of the outbox: `{"action": "retry" | "drop", "engine", "turn", "waiting", "dryRun"}`, all of it optional.
pub(super) fn repair(asked: &serde_json::Map<String, Value>) -> Result<RepairRequest, ApiError> {
    let text = |name: &'static str| match asked.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(ApiError::invalid(format!("{name} is not a text"), name)),
    };
    let flag = |name: &'static str| match asked.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(ApiError::invalid(format!("{name} is not true or false"), name)),
    };
    let action = match text("action")?.as_deref() {
        None | Some("list") => RepairAction::List,
        Some("retry") => RepairAction::Retry,
        Some("drop") => RepairAction::Drop,
        Some(other) => {
            return Err(ApiError::invalid(format!("action is {other:?}, not list, retry or drop"), "action"));
        }
    };
    let (engine, turn) = (text("engine")?, text("turn")?);
    Ok(RepairRequest { action, engine, turn, waiting: flag("waiting")?, dry_run: flag("dryRun")? })
}

fn compacted(report: &CompactReport) -> Value {
    json!({
        "ok": report.ok, "compacted": report.compacted, "reason": report.reason, "engine": report.engine,
        "degraded": report.degraded, "tokensBefore": report.tokens_before, "tokensAfter": report.tokens_after,
        "firstKeptEntryId": report.first_kept_entry_id, "summary": report.summary, "method": report.method,
        "sessionId": report.session_id, "successor": report.successor,
    })
}

fn context(report: &ContextReport) -> Value {
    json!({
        "session": report.session, "engine": report.engine, "selected": report.selected, "degraded": report.degraded,
        "passed": report.passed, "model": report.model, "takenUp": report.taken_up,
        "waitingTurns": report.waiting_turns, "wouldCompact": report.would_compact, "totals": report.totals,
        "memorySection": report.memory_section, "asked": report.asked, "notes": report.notes,
        "contextWindow": report.context_window, "budget": report.budget, "tokens": report.tokens,
        "engineEstimate": report.engine_estimate, "estimated": report.estimated,
        "systemPromptAddition": report.system_prompt_addition,
        "volatilePromptAddition": report.volatile_prompt_addition,
        "entries": report.entries,
    })
}
