//! How an entry's body lies in its row.
//!
//! | kind | body |
//! |---|---|
//! | 0 | a message, JSON |
//! | 1 | a compaction, JSON |
//! | 2 | the text of a plain user message |
//! | 3 | the text of a plain assistant message |
//!
//! Most messages are plain: their text alone is smaller on disk, readable in any SQLite shell, and needs no parser on the
//! way back. The digest is not stored: it follows from the message.

use crate::transcript::{Content, Entry, EntryBody, Message, Role, StoreError};
use rusqlite::Row;
use std::borrow::Cow;
use std::sync::Arc;

const MESSAGE: i64 = 0;
const COMPACTION: i64 = 1;
const USER_TEXT: i64 = 2;
const ASSISTANT_TEXT: i64 = 3;

/// Columns that [`entry`] reads, in its order.
pub(super) const ENTRY_COLUMNS: &str = "id, parent, session, time_ms, flags, tokens, kind, body, sum";

/// Sum of an entry's row: SQLite has none of its own, and a bit that fell over on the disk must not pass for what was said.
pub(super) fn entry_sum(numbers: [i64; 7], body: &str) -> i64 {
    let mut hash = xxhash_rust::xxh3::Xxh3::new();
    numbers.iter().for_each(|number| hash.update(&number.to_le_bytes()));
    hash.update(body.as_bytes());
    hash.digest() as i64
}

/// Sum of what a session's row says of its branch.
pub(super) fn session_sum(row: i64, key: &str, session_id: &str, agent: &str, head: i64, generation: i64) -> i64 {
    let mut hash = xxhash_rust::xxh3::Xxh3::new();
    [row, head, generation].iter().for_each(|number| hash.update(&number.to_le_bytes()));
    for text in [key, session_id, agent] {
        hash.update(text.as_bytes());
        hash.update(&[0]);
    }
    hash.digest() as i64
}

/// Damage of one row, which SQLite does not see.
pub(super) fn differs(what: &str, number: u64) -> StoreError {
    StoreError::Damaged { reason: format!("{what} {number} is not what was written") }
}

/// Kind and body of an entry.
pub(super) fn encode(body: &EntryBody) -> Result<(i64, Cow<'_, str>), StoreError> {
    let failed = |error: serde_json::Error| StoreError::Backend(format!("cannot write an entry: {error}"));
    match body {
        EntryBody::Message(message) => match (plain_kind(message), &message.content) {
            (Some(kind), Content::Text(text)) => Ok((kind, Cow::Borrowed(text))),
            _ => Ok((MESSAGE, Cow::Owned(serde_json::to_string(message).map_err(failed)?))),
        },
        EntryBody::Compaction(compaction) => {
            Ok((COMPACTION, Cow::Owned(serde_json::to_string(compaction).map_err(failed)?)))
        }
    }
}

fn plain_kind(message: &Message) -> Option<i64> {
    let bare = message.tool_calls.is_empty()
        && message.tool_call_id.is_none()
        && message.name.is_none()
        && message.extra.is_empty();
    match message.role {
        Role::User if bare => Some(USER_TEXT),
        Role::Assistant if bare => Some(ASSISTANT_TEXT),
        _ => None,
    }
}

/// An entry from a row of [`ENTRY_COLUMNS`].
pub(super) fn entry(row: &Row<'_>) -> Result<Entry, StoreError> {
    let backend = super::backend;
    let id = row.get::<_, i64>(0).map_err(backend)? as u64;
    let text = row.get_ref(7).map_err(backend)?;
    let text = text.as_str().map_err(|_| differs("entry", id))?;
    let kind = row.get(6).map_err(backend)?;
    // Rows of an older format have none.
    if let Some(sum) = row.get::<_, Option<i64>>(8).map_err(backend)? {
        let mut numbers = [0; 7];
        for (at, number) in numbers.iter_mut().enumerate() {
            *number = row.get(at).map_err(backend)?;
        }
        if sum != entry_sum(numbers, text) {
            return Err(differs("entry", id));
        }
    }
    let body = decode(id, kind, text)?;
    let digest = match &body {
        EntryBody::Message(message) => message.digest(),
        EntryBody::Compaction(_) => 0,
    };
    Ok(Entry {
        id,
        parent: row.get::<_, i64>(1).map_err(backend)? as u64,
        session: row.get::<_, i64>(2).map_err(backend)? as u64,
        time_ms: row.get(3).map_err(backend)?,
        flags: row.get(4).map_err(backend)?,
        tokens: row.get(5).map_err(backend)?,
        digest,
        body,
    })
}

fn decode(id: u64, kind: i64, text: &str) -> Result<EntryBody, StoreError> {
    let failed =
        |error: serde_json::Error| StoreError::Damaged { reason: format!("entry {id} cannot be read: {error}") };
    match kind {
        MESSAGE => Ok(EntryBody::Message(serde_json::from_str(text).map_err(failed)?)),
        COMPACTION => Ok(EntryBody::Compaction(serde_json::from_str(text).map_err(failed)?)),
        USER_TEXT => Ok(EntryBody::Message(Arc::new(Message::text_of(Role::User, text)))),
        ASSISTANT_TEXT => Ok(EntryBody::Message(Arc::new(Message::text_of(Role::Assistant, text)))),
        other => Err(StoreError::Damaged { reason: format!("entry {id} has the unknown kind {other}") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::CompactionBody;
    use serde_json::json;

    fn round_trip(body: EntryBody) -> i64 {
        let (kind, text) = encode(&body).unwrap();
        assert_eq!(decode(1, kind, &text).unwrap(), body);
        kind
    }

    fn message(value: serde_json::Value) -> EntryBody {
        EntryBody::Message(Arc::new(serde_json::from_value(value).unwrap()))
    }

    #[test]
    fn every_body_comes_back_as_it_was() {
        assert_eq!(round_trip(message(json!({"role": "user", "content": "hé\u{0}llo"}))), USER_TEXT);
        assert_eq!(round_trip(message(json!({"role": "assistant", "content": ""}))), ASSISTANT_TEXT);
        for rich in [
            json!({"role": "user", "content": "x", "name": "ann"}),
            json!({"role": "user", "content": "x", "custom": {"a": [1, 2.5, null]}}),
            json!({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "u"}}]}),
            json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}),
            json!({"role": "assistant"}),
            json!({"role": "tool", "tool_call_id": "c", "content": "r"}),
        ] {
            assert_eq!(round_trip(message(rich)), MESSAGE);
        }
        let compaction = CompactionBody {
            summary: "s".into(),
            first_kept: 7,
            tokens_before: 9,
            tokens_after: 3,
            trigger: "budget".into(),
            by: "builtin".into(),
        };
        assert_eq!(round_trip(EntryBody::Compaction(compaction)), COMPACTION);
    }

    #[test]
    fn an_unknown_kind_and_broken_json_are_errors() {
        assert!(decode(1, 99, "x").is_err());
        assert!(decode(1, MESSAGE, "{").is_err());
    }
}
