//! From what a provider sent to the message that the transcript keeps.

use super::{ModelError, Usage};
use crate::transcript::{Content, Message, Role, ToolCall, ToolFunction};
use serde_json::{Map, Value};

/// A whole answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The assistant's message, with every field that the provider gave it.
    pub message: Message,
    /// What the provider counted.
    pub usage: Option<Usage>,
    /// "stop", "length", "tool_calls", …
    pub finish_reason: Option<String>,
    /// Id of the completion.
    pub id: Option<String>,
    /// The model that answered.
    pub model: Option<String>,
}

/// True for the chunk that holds nothing but the usage. It is withheld from a client that did not ask for it: see
/// [`wants_usage`].
pub fn usage_only(chunk: &Value) -> bool {
    chunk.get("usage").is_some_and(Value::is_object)
        && chunk.get("choices").and_then(Value::as_array).is_some_and(Vec::is_empty)
}

/// True when the client's own parameters ask for the usage in a stream.
pub fn wants_usage(params: &Map<String, Value>) -> bool {
    params
        .get("stream_options")
        .and_then(|options| options.get("include_usage"))
        .and_then(Value::as_bool)
        .unwrap_or(false)
}

/// The first choice of a `chat.completion` object.
///
/// # Errors
/// [`ModelError::Protocol`] when there is no choice with a message.
pub fn reply_of(full: &Value) -> Result<Reply, ModelError> {
    let choice = full.pointer("/choices/0").ok_or_else(|| ModelError::Protocol("it has no choice".into()))?;
    let mut message = match choice.get("message") {
        Some(Value::Object(fields)) => fields.clone(),
        _ => return Err(ModelError::Protocol("its choice has no message".into())),
    };
    message.insert("role".into(), Value::String("assistant".into()));
    if message.get("tool_calls").is_some_and(Value::is_null) {
        message.shift_remove("tool_calls");
    }
    let message = serde_json::from_value(Value::Object(message))
        .map_err(|cause| ModelError::Protocol(format!("its message has another shape: {cause}")))?;
    Ok(Reply {
        message,
        usage: full.get("usage").and_then(Usage::read),
        finish_reason: text(choice, "finish_reason"),
        id: text(full, "id"),
        model: text(full, "model"),
    })
}

fn text(value: &Value, field: &str) -> Option<String> {
    value.get(field).and_then(Value::as_str).map(str::to_owned)
}

/// Collects the chunks of a streamed answer, first choice only.
#[derive(Debug, Default)]
pub struct Accumulator {
    content: Option<String>,
    parts: Vec<Value>,
    calls: Vec<Call>,
    extra: Map<String, Value>,
    name: Option<String>,
    usage: Option<Usage>,
    finish_reason: Option<String>,
    id: Option<String>,
    model: Option<String>,
}

#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: String,
    kind: Option<String>,
    name: String,
    arguments: String,
    extra: Map<String, Value>,
}

impl Accumulator {
    /// An empty one.
    pub fn new() -> Accumulator {
        Accumulator::default()
    }

    /// Takes a chunk.
    pub fn push(&mut self, chunk: &Value) {
        if self.id.is_none() {
            self.id = text(chunk, "id");
        }
        if self.model.is_none() {
            self.model = text(chunk, "model");
        }
        if let Some(usage) = chunk.get("usage").and_then(Usage::read) {
            self.usage = Some(usage);
        }
        let choices = chunk.get("choices").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for choice in choices.iter().filter(|choice| choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0) {
            if let Some(reason) = text(choice, "finish_reason") {
                self.finish_reason = Some(reason);
            }
            if let Some(Value::Object(delta)) = choice.get("delta") {
                self.delta(delta);
            }
        }
    }

    fn delta(&mut self, delta: &Map<String, Value>) {
        for (name, value) in delta {
            match (name.as_str(), value) {
                ("role", _) => {}
                ("content", Value::String(more)) => self.content.get_or_insert_default().push_str(more),
                ("content", Value::Array(more)) => self.parts.extend(more.iter().cloned()),
                ("content", _) => {}
                ("name", Value::String(name)) => self.name = Some(name.clone()),
                ("tool_calls", Value::Array(calls)) => calls.iter().for_each(|call| self.call(call)),
                ("tool_calls", _) => {}
                _ => merge(self.extra.entry(name.clone()).or_insert(Value::Null), value),
            }
        }
    }

    fn call(&mut self, piece: &Value) {
        let index = piece.get("index").and_then(Value::as_u64);
        let id = piece.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
        // Parallel calls come interleaved, told apart by their index. Without one, an id that is new begins a new call.
        let place = match (index, id) {
            (Some(index), _) => self.calls.iter().position(|call| call.index == Some(index)),
            (None, Some(id)) => self.calls.iter().position(|call| call.id == id),
            (None, None) => self.calls.len().checked_sub(1),
        };
        let place = place.unwrap_or_else(|| {
            self.calls.push(Call { index, ..Call::default() });
            self.calls.len() - 1
        });
        let call = &mut self.calls[place];
        for (name, value) in piece.as_object().into_iter().flatten() {
            if !matches!(name.as_str(), "index" | "id" | "type" | "function") {
                merge(call.extra.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        if let Some(id) = id {
            id.clone_into(&mut call.id);
        }
        if let Some(kind) = text(piece, "type").filter(|kind| !kind.is_empty()) {
            call.kind = Some(kind);
        }
        if let Some(name) = piece.pointer("/function/name").and_then(Value::as_str) {
            // Some endpoints repeat the whole name in every piece.
            if call.name != name {
                call.name.push_str(name);
            }
        }
        match piece.pointer("/function/arguments") {
            Some(Value::String(more)) => call.arguments.push_str(more),
            Some(whole @ Value::Object(_)) => call.arguments = whole.to_string(),
            _ => {}
        }
    }

    /// True when nothing of an answer has come.
    pub fn is_empty(&self) -> bool {
        self.content.is_none() && self.parts.is_empty() && self.calls.is_empty() && self.extra.is_empty()
    }

    /// The text so far.
    pub fn text(&self) -> &str {
        self.content.as_deref().unwrap_or("")
    }

    /// The whole answer.
    pub fn finish(mut self) -> Reply {
        self.calls.sort_by_key(|call| call.index.unwrap_or(u64::MAX));
        let completion = self.id.as_deref().unwrap_or("");
        let tool_calls = self
            .calls
            .into_iter()
            .enumerate()
            .map(|(at, call)| ToolCall {
                // A call without an id could never be answered.
                id: if call.id.is_empty() { format!("call_{completion}_{at}") } else { call.id },
                kind: call.kind.unwrap_or_else(|| "function".into()),
                function: ToolFunction { name: call.name, arguments: call.arguments },
                extra: call.extra,
            })
            .collect();
        let content = match (self.content, self.parts) {
            (None, parts) if parts.is_empty() => Content::Null,
            (Some(text), parts) if parts.is_empty() => Content::Text(text),
            (text, mut parts) => {
                if let Some(text) = text.filter(|text| !text.is_empty()) {
                    parts.insert(0, serde_json::json!({"type": "text", "text": text}));
                }
                Content::Parts(parts)
            }
        };
        self.extra.retain(|_, value| !value.is_null());
        Reply {
            message: Message {
                role: Role::Assistant,
                content,
                tool_calls,
                tool_call_id: None,
                name: self.name,
                extra: self.extra,
            },
            usage: self.usage,
            finish_reason: self.finish_reason,
            id: self.id,
            model: self.model,
        }
    }
}

/// Adds a piece of an unknown field to what is there: texts and lists grow, objects grow field by field, else the last wins.
fn merge(into: &mut Value, piece: &Value) {
    match (into, piece) {
        (_, Value::Null) => {}
        (Value::String(text), Value::String(more)) => text.push_str(more),
        (Value::Array(list), Value::Array(more)) => list.extend(more.iter().cloned()),
        (Value::Object(fields), Value::Object(more)) => {
            for (name, value) in more {
                merge(fields.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (into, piece) => *into = piece.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn collect(deltas: &[Value]) -> Reply {
        let mut all = Accumulator::new();
        for delta in deltas {
            all.push(
                &json!({"id": "c1", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]}),
            );
        }
        all.finish()
    }

    #[test]
    fn unknown_fields_of_a_tool_call_are_kept() {
        let reply = collect(&[
            json!({"tool_calls": [{"index": 0, "id": "c", "type": "function", "extra_content": {"signature": "s1"},
                "function": {"name": "f", "arguments": "{"}}]}),
            json!({"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]}),
        ]);
        let sent = serde_json::to_value(&reply.message).unwrap();
        assert_eq!(sent["tool_calls"][0]["extra_content"]["signature"], "s1");
        assert_eq!(sent["tool_calls"][0]["function"], json!({"name": "f", "arguments": "{}"}));
    }

    #[test]
    fn text_and_unknown_fields_grow_piece_by_piece() {
        let reply = collect(&[
            json!({"role": "assistant", "content": "", "refusal": null}),
            json!({"reasoning_content": "Let me "}),
            json!({"reasoning_content": "think.", "reasoning_details": [{"text": "a"}]}),
            json!({"content": "Hel", "reasoning_details": [{"text": "b"}]}),
            json!({"content": "lo"}),
        ]);
        assert_eq!(reply.message.content, Content::Text("Hello".into()));
        assert_eq!(reply.message.extra["reasoning_content"], "Let me think.");
        assert_eq!(reply.message.extra["reasoning_details"], json!([{"text": "a"}, {"text": "b"}]));
        assert!(!reply.message.extra.contains_key("refusal"));
        assert_eq!((reply.id.as_deref(), reply.model.as_deref()), (Some("c1"), Some("m")));
    }

    #[test]
    fn parallel_calls_come_interleaved_and_are_told_apart_by_index() {
        let reply = collect(&[
            json!({"tool_calls": [{"index": 1, "id": "b", "type": "function", "function": {"name": "two", "arguments": ""}}]}),
            json!({"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "one", "arguments": "{\"x\""}}]}),
            json!({"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}, {"index": 0, "function": {"arguments": ":1}"}}]}),
        ]);
        let calls: Vec<_> = reply
            .message
            .tool_calls
            .iter()
            .map(|call| (call.id.as_str(), call.function.name.as_str(), call.function.arguments.as_str()))
            .collect();
        assert_eq!(calls, [("a", "one", "{\"x\":1}"), ("b", "two", "{}")]);
        assert_eq!(reply.message.content, Content::Null);
    }

    #[test]
    fn calls_without_an_index_or_an_id_still_make_a_whole() {
        let reply = collect(&[
            json!({"tool_calls": [{"id": "a", "function": {"name": "one", "arguments": "{}"}}]}),
            json!({"tool_calls": [{"id": "b", "function": {"name": "two", "arguments": "{"}}]}),
            json!({"tool_calls": [{"function": {"arguments": "}"}}]}),
        ]);
        assert_eq!(reply.message.tool_calls.len(), 2);
        assert_eq!(reply.message.tool_calls[1].function.arguments, "{}");
        let reply = collect(&[json!({"tool_calls": [{"index": 0, "function": {"name": "n", "arguments": {"k": 1}}}]})]);
        assert_eq!(reply.message.tool_calls[0].id, "call_c1_0");
        assert_eq!(reply.message.tool_calls[0].function.arguments, "{\"k\":1}");
    }

    #[test]
    fn usage_comes_with_the_last_chunk_or_in_one_of_its_own() {
        let mut all = Accumulator::new();
        all.push(
            &json!({"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}], "usage": null}),
        );
        let last = json!({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}});
        assert!(usage_only(&last));
        assert!(!usage_only(&json!({"choices": [{"delta": {}}], "usage": {"prompt_tokens": 5}})));
        all.push(&last);
        let reply = all.finish();
        assert_eq!(reply.usage.unwrap().prompt_tokens, Some(5));
        assert_eq!(reply.finish_reason.as_deref(), Some("stop"));
    }

    #[test]
    fn other_choices_are_not_mixed_in() {
        let mut all = Accumulator::new();
        all.push(
            &json!({"choices": [{"index": 1, "delta": {"content": "no"}}, {"index": 0, "delta": {"content": "yes"}}]}),
        );
        assert_eq!(all.text(), "yes");
    }

    #[test]
    fn a_full_completion_and_its_chunks_give_the_same_message() {
        let message = json!({"role": "assistant", "content": "Hi", "reasoning_content": "r"});
        let full =
            json!({"id": "c1", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]});
        let whole = reply_of(&full).unwrap();
        assert_eq!(whole.message, collect(&[message]).message);
        assert_eq!(whole.finish_reason.as_deref(), Some("stop"));
    }

    #[test]
    fn a_completion_without_a_message_is_a_protocol_error() {
        for full in [json!({}), json!({"choices": []}), json!({"choices": [{"index": 0}]})] {
            assert!(matches!(reply_of(&full), Err(ModelError::Protocol(_))), "{full}");
        }
        let odd = json!({"choices": [{"message": {"content": "x", "tool_calls": null}}]});
        assert_eq!(reply_of(&odd).unwrap().message.text(), "x");
    }
}
