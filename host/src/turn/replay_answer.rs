//! A stored answer, given again to a request with the same idempotency key; and answers in the shapes of the OpenAI dialect.

use super::house::House;
use super::session::{Session, message_of};
use super::settle::STORE_PATIENCE;
use super::{TurnError, TurnFacts};
use crate::model::{Reply, Usage};
use crate::transcript::{EntryId, Message, StoreError, Submission, TurnRecord};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What is known of an idempotency key.
pub(super) enum Known {
    /// It was answered.
    Answered(Box<Stored>),
    /// Its message was admitted as this entry, and never answered.
    Unanswered(EntryId),
}

/// A stored answer.
pub(super) struct Stored {
    pub(super) facts: TurnFacts,
    /// The `chat.completion` object.
    pub(super) body: Value,
}

/// Looks a key up. Only a request that has one pays for it. `asked`: what it asks, to be compared with what it asked before.
///
/// # Errors
///
/// [`TurnError::KeyReused`], or that the store failed.
pub(super) async fn stored_answer(
    house: &Arc<House>,
    session: &Arc<Session>,
    key: &str,
    asked: Option<&str>,
) -> Result<Option<Known>, TurnError> {
    let row = {
        let state = session.state();
        if state.extra.ephemeral || !state.is_stored() {
            return Ok(None);
        }
        state.record().row
    };
    // The turn before may have ended without waiting for its record.
    let queued = house.store.submit(Submission { lease: None, writes: Vec::new() });
    tokio::time::timeout(STORE_PATIENCE, queued.durable()).await.unwrap_or(Err(StoreError::Deadline))?;
    let (house, session, key, asked) = (house.clone(), session.clone(), key.to_owned(), asked.map(str::to_owned));
    house
        .clone()
        .blocking(move || {
            let Some(record) = house.store.turn_by_key(row, &key)? else { return Ok(None) };
            // A record of an older gateway does not say what was asked.
            if record.detail.get("request").and_then(Value::as_str).is_some_and(|known| asked.as_deref() != Some(known))
            {
                return Err(TurnError::KeyReused);
            }
            if record.terminal == 0 {
                return Ok((record.admitted != 0).then_some(Known::Unanswered(record.admitted)));
            }
            let body = match record.detail.get("body").filter(|body| body.is_object()) {
                Some(body) => body.clone(),
                None => {
                    let Some(message) = message_at(&house, &session, record.terminal)? else { return Ok(None) };
                    rebuilt(&record, &message)
                }
            };
            let facts = TurnFacts {
                turn_id: record.turn_id,
                session_key: session.key.as_ref().map(|key| key.to_string()),
                session_id: session.state().record().session_id.clone(),
                engine: record.engine,
                degraded: record.degraded,
                replayed: true,
            };
            Ok(Some(Known::Answered(Box::new(Stored { facts, body }))))
        })
        .await
}

/// The message of an entry, on whatever branch it is.
fn message_at(house: &House, session: &Session, entry: EntryId) -> Result<Option<Arc<Message>>, TurnError> {
    let row = {
        let state = session.state();
        if let Some(entry) = state.branch().get(entry) {
            return Ok(message_of(entry).cloned());
        }
        state.record().row
    };
    let branch = house.store.branch(row, entry)?;
    Ok(branch.last().and_then(|entry| message_of(entry).cloned()))
}

fn rebuilt(record: &TurnRecord, message: &Message) -> Value {
    let detail = &record.detail;
    let mut body = completion_of(
        detail.get("id").and_then(Value::as_str).unwrap_or(&record.turn_id),
        record.started_ms / 1000,
        detail.get("model").and_then(Value::as_str).unwrap_or_default(),
        message,
        detail.get("finish_reason").and_then(Value::as_str),
    );
    if let (Some(fields), Some(usage)) = (body.as_object_mut(), detail.get("usage").filter(|usage| usage.is_object())) {
        fields.insert("usage".into(), usage.clone());
    }
    body
}

/// A `chat.completion` object from an answer that came in pieces.
pub(super) fn completion(reply: &Reply, fallback_id: &str, created: i64) -> Value {
    let mut body = completion_of(
        reply.id.as_deref().unwrap_or(fallback_id),
        created,
        reply.model.as_deref().unwrap_or_default(),
        &reply.message,
        reply.finish_reason.as_deref(),
    );
    if let (Some(fields), Some(usage)) = (body.as_object_mut(), &reply.usage) {
        fields.insert("usage".into(), usage_of(usage));
    }
    body
}

fn usage_of(usage: &Usage) -> Value {
    let mut fields = Map::new();
    let numbers = [
        ("prompt_tokens", usage.prompt_tokens),
        ("completion_tokens", usage.completion_tokens),
        ("total_tokens", usage.total_tokens),
    ];
    for (name, number) in numbers {
        fields.insert(name.into(), json!(number.unwrap_or(0)));
    }
    Value::Object(fields)
}

fn completion_of(id: &str, created: i64, model: &str, message: &Message, finish: Option<&str>) -> Value {
    json!({
        "id": id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [{
            "index": 0,
            "message": message,
            "finish_reason": finish.unwrap_or("stop"),
        }],
    })
}

/// A `chat.completion` object as chunks, for a client that asked for a stream.
pub(super) fn chunks_of(body: &Value) -> Vec<Value> {
    let mut head = body.as_object().cloned().unwrap_or_default();
    head.insert("object".into(), "chat.completion.chunk".into());
    let usage = head.remove("usage");
    let choices = head.remove("choices").and_then(|choices| choices.as_array().cloned()).unwrap_or_default();
    let mut chunks = Vec::new();
    for choice in &choices {
        let index = choice.get("index").cloned().unwrap_or_else(|| json!(0));
        let mut delta = choice.get("message").and_then(Value::as_object).cloned().unwrap_or_default();
        if let Some(calls) = delta.get_mut("tool_calls").and_then(Value::as_array_mut) {
            for (at, call) in calls.iter_mut().enumerate() {
                if let Some(call) = call.as_object_mut() {
                    call.insert("index".into(), at.into());
                }
            }
        }
        let chunk = |delta: Value, finish: Value| {
            let mut chunk = head.clone();
            chunk.insert("choices".into(), json!([{"index": index, "delta": delta, "finish_reason": finish}]));
            Value::Object(chunk)
        };
        chunks.push(chunk(Value::Object(delta), Value::Null));
        chunks.push(chunk(json!({}), choice.get("finish_reason").cloned().unwrap_or_else(|| "stop".into())));
    }
    if let (Some(usage), Some(last)) = (usage, chunks.last_mut().and_then(Value::as_object_mut)) {
        last.insert("usage".into(), usage);
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_say_what_the_whole_body_says() {
        let body = json!({
            "id": "x", "object": "chat.completion", "created": 5, "model": "m",
            "choices": [{
                "index": 0,
                "message": {"role": "assistant", "content": "hello", "tool_calls": [{"id": "c", "type": "function"}]},
                "finish_reason": "tool_calls",
            }],
            "usage": {"total_tokens": 3},
        });
        let chunks = chunks_of(&body);
        assert_eq!(chunks.len(), 2);
        assert!(chunks.iter().all(|chunk| chunk["object"] == "chat.completion.chunk" && chunk["id"] == "x"));
        assert_eq!(chunks[0]["choices"][0]["delta"]["content"], "hello");
        assert_eq!(chunks[0]["choices"][0]["delta"]["tool_calls"][0]["index"], 0);
        assert_eq!(chunks[1]["choices"][0]["finish_reason"], "tool_calls");
        assert_eq!(chunks[1]["usage"]["total_tokens"], 3);
    }
}
