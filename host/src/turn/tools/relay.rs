//! One stream to the client over several calls of the model.
//!
//! Text passes as it comes. What belongs to a call that the gateway runs is kept back; a call is shown as soon as its name is
//! known to be the client's. The finish reason and the usage of each model call are kept back, too: the client gets one of
//! each, at the end. Chunks of later model calls carry the id of the first, and their text is set off by an empty line.

use super::offer::Toolbox;
use crate::transcript::Message;
use crate::transcript::reconcile::BETWEEN;
use serde_json::{Map, Value, json};

/// A call whose pieces come in.
struct Call {
    index: Option<u64>,
    id: Option<String>,
    name: String,
    fate: Fate,
}

enum Fate {
    /// Shown under this index.
    Shown(usize),
    /// Kept back until the name is known to be the client's; at the end it may be.
    Held(Vec<Value>),
}

/// The state of the stream.
#[derive(Default)]
pub(in crate::turn) struct Relay {
    /// `id` and `created` of the first chunk.
    first: Option<(Value, Value)>,
    /// The last chunk without its choices, usage and finish reason.
    frame: Map<String, Value>,
    /// Text was shown by an earlier model call, and none by this one.
    set_off: bool,
    /// Text was shown.
    text: bool,
    role: bool,
    calls: Vec<Call>,
    shown: usize,
}

impl Relay {
    /// Takes a chunk of the model; gives what the client gets of it.
    pub(in crate::turn) fn push(&mut self, mut chunk: Value, tools: &Toolbox) -> Vec<Value> {
        let Some(fields) = chunk.as_object_mut() else { return Vec::new() };
        fields.shift_remove("usage");
        let choices = match fields.shift_remove("choices") {
            Some(Value::Array(choices)) => choices,
            _ => Vec::new(),
        };
        if self.first.is_none() {
            let own = |name: &str| fields.get(name).cloned().unwrap_or_default();
            self.first = Some((own("id"), own("created")));
        }
        if let Some((id, created)) = &self.first {
            for (name, value) in [("id", id), ("created", created)] {
                if fields.contains_key(name) {
                    fields.insert(name.into(), value.clone());
                }
            }
        }
        self.frame.clone_from(fields);
        let mut out = Vec::new();
        for choice in choices {
            out.extend(self.choice(choice, tools).map(|choice| self.framed(choice)));
        }
        out
    }

    /// The model call is over and its calls were run: another one follows.
    pub(in crate::turn) fn next_call(&mut self) {
        self.set_off = self.text;
        self.calls.clear();
    }

    /// The last model call is over. `message` is what the client has been told in the end.
    pub(in crate::turn) fn finish(
        &mut self,
        message: &Message,
        reason: Option<&str>,
        usage: Option<&Value>,
    ) -> Vec<Value> {
        let mut out = Vec::new();
        for call in std::mem::take(&mut self.calls) {
            let Fate::Held(pieces) = call.fate else { continue };
            // An id is given to a call that came without one; such a call is found by its name.
            let is_shown = message.tool_calls.iter().any(|shown| match &call.id {
                Some(id) => shown.id == *id,
                None => shown.function.name == call.name,
            });
            if is_shown {
                let at = self.show();
                out.extend(
                    pieces.into_iter().map(|piece| self.framed(delta(json!({"tool_calls": [numbered(piece, at)]})))),
                );
            }
        }
        let reason = reason.unwrap_or(if message.tool_calls.is_empty() { "stop" } else { "tool_calls" });
        out.push(self.framed(json!({"index": 0, "delta": {}, "finish_reason": reason})));
        if let Some(usage) = usage {
            let mut last = self.frame.clone();
            last.insert("choices".into(), json!([]));
            last.insert("usage".into(), usage.clone());
            out.push(Value::Object(last));
        }
        out
    }

    /// A text of the gateway's own at the end of the answer.
    pub(in crate::turn) fn say(&mut self, text: &str) -> Value {
        let between = if std::mem::take(&mut self.set_off) { BETWEEN } else { "" };
        self.framed(delta(json!({"content": format!("{between}{text}")})))
    }

    fn show(&mut self) -> usize {
        self.shown += 1;
        self.shown - 1
    }

    fn framed(&self, choice: Value) -> Value {
        let mut chunk = self.frame.clone();
        chunk.insert("choices".into(), Value::Array(vec![choice]));
        Value::Object(chunk)
    }

    /// What the client gets of a choice.
    fn choice(&mut self, mut choice: Value, tools: &Toolbox) -> Option<Value> {
        if choice.get("index").and_then(Value::as_u64).unwrap_or(0) != 0 {
            return Some(choice);
        }
        if let Some(reason) = choice.get_mut("finish_reason") {
            *reason = Value::Null;
        }
        let fields = choice.get_mut("delta").and_then(Value::as_object_mut)?;
        if let Some(Value::Array(pieces)) = fields.shift_remove("tool_calls") {
            let shown: Vec<Value> = pieces.into_iter().flat_map(|piece| self.piece(piece, tools)).collect();
            if !shown.is_empty() {
                fields.insert("tool_calls".into(), Value::Array(shown));
            }
        }
        if fields.contains_key("role") && std::mem::replace(&mut self.role, true) {
            fields.shift_remove("role");
        }
        self.content(fields);
        let is_empty = fields.values().all(|value| value.is_null() || value.as_str().is_some_and(str::is_empty));
        (!is_empty || fields.contains_key("role")).then_some(choice)
    }

    fn content(&mut self, fields: &mut Map<String, Value>) {
        let Some(Value::String(text)) = fields.get_mut("content") else { return };
        if !text.is_empty() {
            if std::mem::take(&mut self.set_off) {
                text.insert_str(0, BETWEEN);
            }
            self.text = true;
        }
    }

    /// A piece of a call: shown with the client's own numbering, or kept back.
    fn piece(&mut self, piece: Value, tools: &Toolbox) -> Vec<Value> {
        let index = piece.get("index").and_then(Value::as_u64);
        let id = piece.get("id").and_then(Value::as_str).filter(|id| !id.is_empty()).map(str::to_owned);
        let place = match (index, &id) {
            (Some(_), _) => self.calls.iter().position(|call| call.index == index),
            (None, Some(_)) => self.calls.iter().position(|call| call.id == id),
            (None, None) => self.calls.len().checked_sub(1),
        };
        let place = place.unwrap_or_else(|| {
            self.calls.push(Call { index, id: None, name: String::new(), fate: Fate::Held(Vec::new()) });
            self.calls.len() - 1
        });
        let call = &mut self.calls[place];
        if id.is_some() {
            call.id = id;
        }
        if let Some(name) = piece.pointer("/function/name").and_then(Value::as_str)
            && call.name != name
        {
            call.name.push_str(name);
        }
        let clients = tools.client_has(&call.name) || piece.get("type").is_some_and(|kind| kind != "function");
        match &mut call.fate {
            Fate::Shown(at) => vec![numbered(piece, *at)],
            Fate::Held(pieces) => {
                pieces.push(piece);
                if !clients {
                    return Vec::new();
                }
                let pieces = std::mem::take(pieces);
                let at = self.shown;
                self.shown += 1;
                call.fate = Fate::Shown(at);
                pieces.into_iter().map(|piece| numbered(piece, at)).collect()
            }
        }
    }
}

fn delta(delta: Value) -> Value {
    json!({"index": 0, "delta": delta, "finish_reason": null})
}

fn numbered(mut piece: Value, at: usize) -> Value {
    if let Some(fields) = piece.as_object_mut() {
        fields.insert("index".into(), at.into());
    }
    piece
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::Role;
    use crate::turn::tools::offer::tests::toolbox;

    fn chunk(delta: Value, finish: Value) -> Value {
        json!({"id": "b", "created": 2, "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
            "usage": {"total_tokens": 1}})
    }

    fn piece(index: u64, id: Option<&str>, name: Option<&str>, arguments: &str) -> Value {
        let mut function = json!({"arguments": arguments});
        if let Some(name) = name {
            function["name"] = name.into();
        }
        let mut piece = json!({"index": index, "function": function});
        if let Some(id) = id {
            piece["id"] = id.into();
        }
        chunk(json!({"tool_calls": [piece]}), Value::Null)
    }

    fn shown(chunks: &[Value]) -> Vec<(u64, String)> {
        let pieces = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["tool_calls"].as_array()).flatten();
        pieces
            .map(|piece| {
                let function = &piece["function"];
                let text = |name: &str| function[name].as_str().unwrap_or_default().to_owned();
                (piece["index"].as_u64().unwrap(), text("name") + &text("arguments"))
            })
            .collect()
    }

    #[test]
    fn only_the_clients_calls_pass_under_numbers_of_their_own() {
        let tools = toolbox(&["theirs", "theirs_too"], &["ours"]);
        let mut relay = Relay::default();
        let mut out = Vec::new();
        for chunk in [
            piece(0, Some("a"), Some("ours"), ""),
            piece(1, Some("b"), Some("theirs"), ""),
            piece(0, None, None, "{1}"),
            piece(2, Some("c"), Some("nobodys"), "{}"),
            piece(1, None, None, "{2}"),
            piece(3, Some("d"), Some("theirs_too"), "{3}"),
        ] {
            out.extend(relay.push(chunk, &tools));
        }
        let expected = [(0, "theirs"), (0, "{2}"), (1, "theirs_too{3}")];
        assert_eq!(shown(&out), expected.map(|(at, text)| (at, text.to_owned())));
        assert!(out.iter().all(|chunk| chunk.get("usage").is_none()));
    }

    #[test]
    fn a_name_that_comes_in_pieces_is_kept_back_until_it_is_whole() {
        let tools = toolbox(&["weather_at_sea"], &["ours"]);
        let mut relay = Relay::default();
        assert!(relay.push(piece(0, Some("a"), Some("weather_"), ""), &tools).is_empty());
        let out = relay.push(piece(0, None, Some("at_sea"), "{}"), &tools);
        assert_eq!(shown(&out), [(0, "weather_".to_owned()), (0, "at_sea{}".to_owned())]);
    }

    #[test]
    fn a_call_that_turns_out_to_be_the_clients_comes_at_the_end() {
        let tools = toolbox(&["known"], &["ours"]);
        let mut relay = Relay::default();
        assert!(relay.push(piece(0, Some("a"), Some("custom_one"), "{}"), &tools).is_empty());
        let message: Message = serde_json::from_value(json!({"role": "assistant", "content": null,
            "tool_calls": [{"id": "a", "function": {"name": "custom_one", "arguments": "{}"}}]}))
        .unwrap();
        let out = relay.finish(&message, None, None);
        assert_eq!(shown(&out), [(0, "custom_one{}".to_owned())]);
        assert_eq!(out.last().unwrap()["choices"][0]["finish_reason"], "tool_calls");
    }

    #[test]
    fn a_word_of_the_gateway_is_set_off_like_any_other() {
        let tools = toolbox(&[], &["ours"]);
        let mut relay = Relay::default();
        relay.push(chunk(json!({"content": "One."}), Value::Null), &tools);
        relay.next_call();
        assert_eq!(relay.say("Over.")["choices"][0]["delta"]["content"], "\n\nOver.");
        relay.next_call();
        relay.push(chunk(json!({"content": " "}), Value::Null), &tools);
        assert_eq!(relay.say("Over.")["choices"][0]["delta"]["content"], "Over.");
    }

    #[test]
    fn several_calls_are_one_answer() {
        let tools = toolbox(&[], &["ours"]);
        let mut relay = Relay::default();
        let mut out = relay.push(chunk(json!({"role": "assistant", "content": "One."}), Value::Null), &tools);
        out.extend(relay.push(chunk(json!({}), json!("tool_calls")), &tools));
        relay.next_call();
        let mut second = chunk(json!({"role": "assistant", "content": ""}), Value::Null);
        second["id"] = "other".into();
        out.extend(relay.push(second, &tools));
        out.extend(relay.push(chunk(json!({"content": "Two"}), Value::Null), &tools));
        out.extend(relay.push(chunk(json!({"content": "."}), json!("stop")), &tools));
        let usage = json!({"total_tokens": 2});
        out.extend(relay.finish(&Message::text_of(Role::Assistant, "One.\n\nTwo."), Some("stop"), Some(&usage)));
        let said: Vec<_> = out.iter().map(|chunk| chunk["choices"][0]["delta"]["content"].clone()).collect();
        assert_eq!(said, [json!("One."), json!("\n\nTwo"), json!("."), Value::Null, Value::Null]);
        let roles = out.iter().filter(|chunk| chunk["choices"][0]["delta"]["role"].is_string()).count();
        let finishes = out.iter().filter(|chunk| chunk["choices"][0]["finish_reason"].is_string()).count();
        assert_eq!((roles, finishes), (1, 1));
        assert!(out.iter().all(|chunk| chunk["id"] == "b" && chunk["model"] == "m"));
        assert_eq!((&out[4]["usage"], &out[4]["choices"]), (&usage, &json!([])));
    }
}
