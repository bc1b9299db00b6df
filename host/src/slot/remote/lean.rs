//! Messages and entries on their way: what [`engine_abi::wire::MessageV1`] shows, and no more.

use crate::slot::call::receive::{Bad, LIST_MAX};
use crate::slot::facts::EntryRef;
use crate::slot::few::{few, light};
use crate::transcript::{Content, Message, Role, ToolCall, ToolFunction};
use engine_abi::wire::{EntryHeadV1, role};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::sync::Arc;

/// A message. Of its content the text is left, of its tool calls what an engine is shown of them.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Lean<'a> {
    role: u32,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
    tool_call_id: Option<&'a str>,
    name: Option<&'a str>,
    #[serde(borrow, deserialize_with = "few::<LIST_MAX, _, _>")]
    calls: Vec<LeanCall<'a>>,
}

#[derive(Debug, Serialize, Deserialize)]
struct LeanCall<'a> {
    id: &'a str,
    name: &'a str,
    arguments: &'a str,
}

impl<'a> Lean<'a> {
    pub(super) fn of(message: &'a Message) -> Lean<'a> {
        Lean {
            role: message.role.code(),
            text: match &message.content {
                Content::Null => None,
                Content::Text(text) => Some(Cow::Borrowed(text)),
                Content::Parts(_) => Some(message.text()),
            },
            tool_call_id: message.tool_call_id.as_deref(),
            name: message.name.as_deref(),
            calls: message
                .tool_calls
                .iter()
                .map(|call| LeanCall { id: &call.id, name: &call.function.name, arguments: &call.function.arguments })
                .collect(),
        }
    }

    /// How much of a list's bound it takes: its calls count like messages.
    pub(super) fn weight(&self) -> usize {
        1 + self.calls.len()
    }

    pub(super) fn message(self) -> Result<Message, Bad> {
        Ok(Message {
            role: match self.role {
                role::USER => Role::User,
                role::ASSISTANT => Role::Assistant,
                role::TOOL => Role::Tool,
                other => return Err(format!("a message has the unknown role {other}")),
            },
            content: self.text.map_or(Content::Null, |text| Content::Text(text.into_owned())),
            tool_calls: self
                .calls
                .into_iter()
                .map(|call| ToolCall {
                    id: call.id.to_owned(),
                    kind: "function".into(),
                    function: ToolFunction { name: call.name.to_owned(), arguments: call.arguments.to_owned() },
                    extra: serde_json::Map::new(),
                })
                .collect(),
            tool_call_id: self.tool_call_id.map(str::to_owned),
            name: self.name.map(str::to_owned),
            extra: serde_json::Map::new(),
        })
    }
}

/// A row.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Head(u64, i64, u32, u32, u32, u32);

impl From<&EntryHeadV1> for Head {
    fn from(head: &EntryHeadV1) -> Head {
        Head(head.id, head.time_ms, head.tokens, head.role, head.flags, head.text_bytes)
    }
}

impl From<Head> for EntryHeadV1 {
    fn from(Head(id, time_ms, tokens, role, flags, text_bytes): Head) -> EntryHeadV1 {
        EntryHeadV1 { id, time_ms, tokens, role, flags, text_bytes }
    }
}

/// An entry with its body.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Entry<'a> {
    head: Head,
    #[serde(borrow)]
    message: Lean<'a>,
}

pub(super) fn entries(entries: &[EntryRef]) -> Vec<Entry<'_>> {
    entries.iter().map(|entry| Entry { head: (&entry.head).into(), message: Lean::of(&entry.message) }).collect()
}

pub(super) fn owned(entries: Vec<Entry<'_>>) -> Result<Vec<EntryRef>, Bad> {
    let owned =
        |entry: Entry<'_>| Ok(EntryRef { head: entry.head.into(), message: Arc::new(entry.message.message()?) });
    entries.into_iter().map(owned).collect()
}

/// A message as a field of something that is sent.
pub(crate) mod message {
    use super::{Deserialize, Deserializer, Lean, Message, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(message: &Message, serializer: S) -> Result<S::Ok, S::Error> {
        Lean::of(message).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Message, D::Error> {
        Lean::deserialize(deserializer)?.message().map_err(serde::de::Error::custom)
    }
}

/// The same for several.
pub(crate) mod messages {
    use super::{Deserializer, LIST_MAX, Lean, Message, Serializer, light};

    pub(crate) fn serialize<S: Serializer>(messages: &[Message], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(messages.iter().map(Lean::of))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Message>, D::Error> {
        // One more than may be, so that it is refused with the words that a call over the border gets.
        let lean: Vec<Lean<'de>> = light(deserializer, LIST_MAX + 1, Lean::weight)?;
        lean.into_iter().map(|lean| lean.message().map_err(serde::de::Error::custom)).collect()
    }
}

/// The same for entries.
pub(crate) mod refs {
    use super::{Deserialize, Deserializer, Entry, EntryRef, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(entries: &[EntryRef], serializer: S) -> Result<S::Ok, S::Error> {
        super::entries(entries).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<EntryRef>, D::Error> {
        super::owned(Vec::<Entry<'de>>::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}
