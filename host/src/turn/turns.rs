//! The turns of a session, as their records tell: who served, why not another, what it took.

use super::TurnError;
use super::house::House;
use super::settle::STORE_PATIENCE;
use crate::transcript::{EntryId, StoreError, Submission, TurnRecord};
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

/// A page of turns, newest first.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TurnsPage {
    /// The turns.
    pub turns: Vec<TurnRow>,
    /// There are older ones: ask again with `before` set to the id of the last of these.
    pub more: bool,
}

/// One turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TurnRow {
    /// Id of the request's turn (UUID v7).
    pub turn_id: String,
    /// Id of the logical turn: the same for all requests of one tool loop of a client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logical_turn_id: Option<String>,
    /// Started, ms since the epoch.
    pub started_ms: i64,
    /// The answer was stored, ms since the epoch; 0 while it runs, or when it broke off.
    pub ended_ms: i64,
    /// "answered", "tool_calls", "interrupted", "unanswered", "cancelled" or "admitted".
    pub outcome: String,
    /// First entry of the turn.
    pub admitted: EntryId,
    /// Last entry of the turn, or 0 without an answer.
    pub terminal: EntryId,
    /// Key that makes a repeated request a retry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Engine that served.
    pub engine: String,
    /// Engine that was selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selected: Option<String>,
    /// Closed degraded code, when it is not the selected one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// Candidates that were passed over, in order: `engine`, `code`, `reason`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passed: Vec<Value>,
    /// Candidates behind the one that served that could not have: `engine`, `reason`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<Value>,
    /// What it cost.
    pub tokens: TurnTokens,
    /// How a host that keeps the conversation was told of the turn: `continued` (what it went on from), or `injected` (why it
    /// was told everything); `command` for the thread of a command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<Value>,
    /// The memory section: `provider` and `tokens`, or `code` and `reason` where the selected provider gave none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Value>,
    /// Calls that the gateway answered: `name`, `by`, `call`, `micros`, `error`; and tools that it did not offer: `name`, `by`,
    /// `refused`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<Value>,
    /// What the provider said of a model that takes no tools: none of the gateway's and its engines' were offered in the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools_withheld: Option<String>,
    /// Calls of the model, when there was more than one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u64>,
    /// The engine that the headers of a stream named, when another one made the last model call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers_named: Option<String>,
    /// Steps that made the prompt shorter: `step`, `before`, `after` in tokens.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ladder: Vec<Value>,
    /// Compactions: `trigger`, `engine`, `attempt`, `outcome`, `reason`, tokens `before` and `after`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub compactions: Vec<Value>,
    /// The last prompt held against its budget before it was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precheck: Option<Value>,
    /// Hooks that failed: `engine`, `hook`, `code`, `reason`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Value>,
    /// Hooks that were called, in order: `engine`, `hook`, `at_us`, `took_us` (null: it did not come back), `failed`.
    pub hooks: Vec<Value>,
    /// Parts of the turn with their microseconds, in order; model calls included.
    pub timings: Vec<(String, u64)>,
    /// Model that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Why the model ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<String>,
    /// Why there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What the engine that only watches would have shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow: Option<Value>,
    /// What it is a child of, when its session is a subagent: `parent`, `depth`, `mode`, `label`, `attempt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subagent: Option<Value>,
}

/// Tokens of a turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TurnTokens {
    /// The last prompt, as the host counted it.
    pub prompt: u64,
    /// What it might have cost.
    pub limit: u64,
    /// The history in it, as the engine estimated it.
    pub engine_estimate: u64,
    /// What the provider counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Value>,
}

impl From<TurnRecord> for TurnRow {
    fn from(record: TurnRecord) -> TurnRow {
        let mut detail = record.detail;
        let mut take = |pointer: &str| detail.pointer_mut(pointer).map(Value::take).filter(|value| !value.is_null());
        let text = |value: Option<Value>| value.and_then(|value| value.as_str().map(str::to_owned));
        let number = |value: Option<Value>| value.and_then(|value| value.as_u64()).unwrap_or(0);
        let list = |value: Option<Value>| match value {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        };
        TurnRow {
            logical_turn_id: text(take("/logical_turn_id")),
            outcome: text(take("/outcome")).unwrap_or_default(),
            selected: text(take("/candidates/selected")),
            passed: list(take("/candidates/passed")),
            left_out: list(take("/candidates/leftOut")),
            tokens: TurnTokens {
                prompt: number(take("/notes/prompt_tokens")),
                limit: number(take("/notes/prompt_limit")),
                engine_estimate: number(take("/notes/engine_estimate")),
                usage: take("/usage"),
            },
            thread: take("/notes/thread"),
            memory: take("/notes/memory"),
            tools: list(take("/notes/tools")),
            tools_withheld: text(take("/notes/tools_withheld")),
            model_calls: take("/notes/model_calls").and_then(|value| value.as_u64()),
            headers_named: text(take("/notes/headers_named")),
            ladder: list(take("/notes/ladder")),
            compactions: list(take("/notes/compactions")),
            precheck: take("/notes/precheck"),
            failures: list(take("/notes/failures")),
            hooks: list(take("/notes/hooks")),
            timings: take("/notes/timings").and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default(),
            model: text(take("/model")),
            finish_reason: text(take("/finish_reason")),
            error: text(take("/error")),
            shadow: take("/shadow"),
            subagent: take("/notes/subagent"),
            turn_id: record.turn_id,
            started_ms: record.started_ms,
            ended_ms: record.ended_ms,
            admitted: record.admitted,
            terminal: record.terminal,
            idempotency_key: record.idempotency_key,
            engine: record.engine,
            degraded: record.degraded,
        }
    }
}

/// A page of the turns of a session; what waits to be written of them is written first.
pub(super) async fn page(
    house: &Arc<House>,
    key: &str,
    before: Option<String>,
    limit: usize,
) -> Result<TurnsPage, TurnError> {
    if let Some(handle) = house.hot.warm(key) {
        handle.lock().extra.flush();
    }
    let queued = house.store.submit(Submission { lease: None, writes: Vec::new() });
    tokio::time::timeout(STORE_PATIENCE, queued.durable()).await.unwrap_or(Err(StoreError::Deadline))?;
    let (reading, name) = (house.clone(), key.to_owned());
    house
        .blocking(move || {
            let Some(session) = reading.store.session(&name)? else {
                return Err(TurnError::NoSession { key: name });
            };
            let mut records = reading.store.turns_before(session.row, before.as_deref(), limit.saturating_add(1))?;
            let more = records.len() > limit;
            records.truncate(limit);
            Ok(TurnsPage { turns: records.into_iter().map(TurnRow::from).collect(), more })
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_record_is_told_flat_and_without_the_body_of_its_answer() {
        let record = TurnRecord {
            turn_id: "t".into(),
            session: 1,
            admitted: 5,
            terminal: 6,
            idempotency_key: None,
            engine: "legacy".into(),
            degraded: Some("engine-missing".into()),
            detail: json!({
                "outcome": "answered", "logical_turn_id": "l", "body": {"choices": ["a secret"]},
                "usage": {"total_tokens": 3}, "model": "m",
                "candidates": {"selected": "x", "served": "legacy", "leftOut": [], "next": [],
                    "passed": [{"engine": "x", "code": "engine-missing", "reason": "no such file"}]},
                "notes": {"prompt_tokens": 9, "prompt_limit": 99, "engine_estimate": 8,
                    "timings": [["assemble", 12]], "hooks": [{"engine": "legacy", "hook": "assemble", "took_us": 3}]},
            }),
            started_ms: 1,
            ended_ms: 2,
        };
        let row = serde_json::to_value(TurnRow::from(record)).unwrap();
        assert_eq!(row["passed"][0]["code"], "engine-missing");
        assert_eq!(
            row["tokens"],
            json!({"prompt": 9, "limit": 99, "engine_estimate": 8, "usage": {"total_tokens": 3}})
        );
        assert_eq!(row["timings"], json!([["assemble", 12]]));
        assert_eq!((row["selected"].as_str(), row["hooks"][0]["took_us"].as_u64()), (Some("x"), Some(3)));
        assert!(!row.to_string().contains("secret") && row.get("left_out").is_none());
    }
}
