//! `qa-jsonl`: one JSON object a line. `docs/evaluation.md` describes it.
//!
//! A line is a message (it has a `role`), a question (it has a `question`), or the beginning of the next conversation (it has a
//! `conversation`, the name). A question asks about the conversation that it stands in, as it is at its end.

use super::{Conversation, DataError, DataSet, Question};
use engineroom::transcript::Message;
use engineroom::turn::replay::{Recorded, Recording};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// A conversation while it is read.
#[derive(Default)]
struct Open {
    conversation: Conversation,
    ids: HashMap<String, usize>,
    /// The questions with the number of their line; their evidence is looked up at the end.
    questions: Vec<(usize, Question, Vec<String>)>,
}

pub(super) fn read(text: &str) -> Result<DataSet, DataError> {
    let mut set = DataSet::default();
    let mut open: Option<Open> = None;
    let text = text.trim_start_matches('\u{feff}');
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let number = at + 1;
        let wrong = |reason: String| DataError::at(format!("line {number}"), reason);
        let fields = match serde_json::from_str(line) {
            Ok(Value::Object(fields)) => fields,
            Ok(_) => return Err(wrong("it is not an object".into())),
            Err(error) => {
                return Err(wrong(format!("it is not JSON: {} (column {})", said(&error), error.column())));
            }
        };
        match (fields.contains_key("conversation"), fields.contains_key("role"), fields.contains_key("question")) {
            (true, false, false) => {
                let name = begin(fields).map_err(wrong)?;
                if let Some(done) = open.take() {
                    done.close(&mut set)?;
                }
                open = Some(Open::named(name));
            }
            (false, true, false) => {
                let open = open.get_or_insert_with(|| Open::named("conversation 1".into()));
                open.message(fields).map_err(wrong)?;
            }
            (false, false, true) => {
                let open = open.as_mut().ok_or_else(|| wrong("a question before any message".into()))?;
                let (question, evidence) = question(fields).map_err(wrong)?;
                open.questions.push((number, question, evidence));
            }
            _ => return Err(wrong("a line has one of \"conversation\", \"role\" and \"question\"".into())),
        }
    }
    if let Some(done) = open {
        done.close(&mut set)?;
    }
    Ok(set)
}

/// What the parser says, without its own idea of the line.
fn said(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or_default().to_owned()
}

fn begin(mut fields: Map<String, Value>) -> Result<String, String> {
    let name = text(&mut fields, "conversation")?.unwrap_or_default();
    nothing_else(&fields)?;
    Ok(name)
}

fn question(mut fields: Map<String, Value>) -> Result<(Question, Vec<String>), String> {
    let asked = text(&mut fields, "question")?.filter(|text| !text.trim().is_empty());
    let category = match fields.shift_remove("category") {
        Some(Value::String(name)) if !name.is_empty() => name,
        Some(Value::Number(number)) => number.to_string(),
        None => return Err("a question needs a \"category\"".into()),
        Some(_) => return Err("\"category\" is neither a text nor a number".into()),
    };
    let counted = match fields.shift_remove("counted") {
        None => true,
        Some(Value::Bool(counted)) => counted,
        Some(_) => return Err("\"counted\" is neither true nor false".into()),
    };
    let Some(Value::Array(named)) = fields.shift_remove("evidence") else {
        return Err("a question needs \"evidence\", a list of ids of messages".into());
    };
    let evidence = named.into_iter().map(id_of).collect::<Result<_, _>>()?;
    fields.shift_remove("id");
    fields.shift_remove("answer");
    nothing_else(&fields)?;
    let text = asked.ok_or("the question is empty")?;
    Ok((Question { text, category, evidence: Vec::new(), counted }, evidence))
}

/// An id: a text or a whole number.
fn id_of(value: Value) -> Result<String, String> {
    match value {
        Value::String(id) if !id.is_empty() => Ok(id),
        Value::Number(id) if id.is_u64() || id.is_i64() => Ok(id.to_string()),
        other => Err(format!("an id is a text or a whole number, and not {other}")),
    }
}

fn text(fields: &mut Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match fields.shift_remove(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("\"{name}\" is not a text")),
    }
}

/// A misspelt field would be a field that silently does nothing.
fn nothing_else(fields: &Map<String, Value>) -> Result<(), String> {
    match fields.keys().next() {
        None => Ok(()),
        Some(name) => Err(format!("no such field: \"{name}\"")),
    }
}

/// RFC 3339, or milliseconds since the epoch.
fn time_of(value: Value) -> Result<i64, String> {
    match &value {
        Value::String(text) => text.parse::<jiff::Timestamp>().map(|time| time.as_millisecond()).ok(),
        Value::Number(number) => number.as_i64(),
        _ => None,
    }
    .ok_or_else(|| format!("\"time\" is RFC 3339 or whole milliseconds since the epoch, and not {value}"))
}

impl Open {
    fn named(name: String) -> Open {
        let recording = Recording { name, ..Recording::default() };
        Open { conversation: Conversation { recording, questions: Vec::new() }, ..Open::default() }
    }

    fn message(&mut self, mut fields: Map<String, Value>) -> Result<(), String> {
        let id = fields.shift_remove("id").map(id_of).transpose()?;
        let time_ms = fields.shift_remove("time").map(time_of).transpose()?;
        let recording = &mut self.conversation.recording;
        match fields.get("role").and_then(Value::as_str) {
            Some("system") => {
                if !recording.messages.is_empty() {
                    return Err("system messages stand before all others of their conversation".into());
                }
                recording.system.push(Value::Object(fields));
                return Ok(());
            }
            Some("user" | "assistant" | "tool") => {}
            _ => return Err("\"role\" is system, user, assistant or tool".into()),
        }
        let message: Message = serde_json::from_value(Value::Object(fields)).map_err(|error| error.to_string())?;
        if let Some(field) = message.extra.keys().next() {
            return Err(format!("no such field: \"{field}\""));
        }
        if let Some(id) = &id
            && self.ids.insert(id.clone(), recording.messages.len()).is_some()
        {
            return Err(format!("another message of the conversation has the id \"{id}\""));
        }
        recording.messages.push(Recorded { message, time_ms, id });
        Ok(())
    }

    fn close(mut self, set: &mut DataSet) -> Result<(), DataError> {
        for (line, mut question, named) in self.questions {
            for id in named {
                let place = self.ids.get(&id).copied();
                let place = place.ok_or_else(|| {
                    DataError::at(format!("line {line}"), format!("no message of the conversation has the id \"{id}\""))
                })?;
                if self.conversation.recording.messages[place].message.text().is_empty() {
                    return Err(DataError::at(format!("line {line}"), format!("the evidence \"{id}\" says nothing")));
                }
                question.evidence.extend(Some(place).filter(|place| !question.evidence.contains(place)));
            }
            match question.evidence.is_empty() {
                true => set.left_out += 1,
                false => self.conversation.questions.push(question),
            }
        }
        set.conversations.push(self.conversation);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engineroom::transcript::Role;

    const FILE: &str = r#"
{"conversation": "garden"}
{"role": "system", "content": "Be brief."}
{"role": "user", "id": "a", "time": "2024-03-03T09:00:00Z", "name": "Ida", "content": "I planted beans."}
{"role": "assistant", "id": "b", "time": 1709456460000, "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]}
{"role": "tool", "id": 3, "tool_call_id": "c1", "content": "12 rows"}
{"question": "What did I plant?", "category": 4, "evidence": ["a", 3, "a"]}
{"question": "Why?", "category": "why", "evidence": [], "id": "q2", "answer": "nobody knows"}

{"conversation": "other"}
{"role": "user", "id": "a", "content": "Hello."}
{"question": "Who?", "category": "who", "evidence": ["a"], "counted": false}
"#;

    #[test]
    fn conversations_messages_and_questions_are_read() {
        let set = read(FILE).unwrap();
        assert_eq!((set.conversations.len(), set.left_out, set.questions()), (2, 1, 2));
        let garden = &set.conversations[0];
        assert_eq!((garden.recording.name.as_str(), garden.recording.system.len()), ("garden", 1));
        let messages = &garden.recording.messages;
        assert_eq!(
            messages.iter().map(|m| m.message.role).collect::<Vec<_>>(),
            [Role::User, Role::Assistant, Role::Tool]
        );
        assert_eq!(
            messages.iter().map(|m| m.time_ms).collect::<Vec<_>>(),
            [Some(1_709_456_400_000), Some(1_709_456_460_000), None]
        );
        assert_eq!(messages[0].message.name.as_deref(), Some("Ida"));
        assert_eq!(messages[1].message.tool_calls.len(), 1);
        assert_eq!(garden.questions[0].evidence, [0, 2]);
        assert!(garden.questions[0].counted && garden.questions[0].category == "4");
        assert!(!set.conversations[1].questions[0].counted);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let message = r#"{"role": "user", "id": "a", "content": "x"}"#;
        for (lines, line, part) in [
            (&["oops"][..], 1, "not JSON"),
            (&["[1]"], 1, "not an object"),
            (&[r#"{"text": "x"}"#], 1, "one of"),
            (&[r#"{"role": "user", "question": "x"}"#], 1, "one of"),
            (&[r#"{"role": "narrator", "content": "x"}"#], 1, "\"role\""),
            (&[r#"{"role": "user", "content": "x", "time": "soon"}"#], 1, "RFC 3339"),
            (&[r#"{"role": "user", "content": "x", "mood": "good"}"#], 1, "mood"),
            (&[r#"{"role": "user", "content": "x", "id": 1.5}"#], 1, "whole number"),
            (&[message, message], 2, "another message"),
            (&[message, r#"{"role": "system", "content": "x"}"#], 2, "before"),
            (&[r#"{"question": "x", "category": 1, "evidence": []}"#], 1, "before any message"),
            (&[message, "", r#"{"question": "x", "category": 1, "evidence": ["b"]}"#], 3, "the id \"b\""),
            (&[message, r#"{"question": "x", "category": 1}"#], 2, "evidence"),
            (&[message, r#"{"question": "x", "evidence": []}"#], 2, "category"),
            (&[message, r#"{"question": " ", "category": 1, "evidence": []}"#], 2, "empty"),
            (&[message, r#"{"question": "x", "category": 1, "evidence": [], "hint": 1}"#], 2, "hint"),
            (
                &[
                    r#"{"role": "user", "id": "a", "content": ""}"#,
                    r#"{"question": "x", "category": 1, "evidence": ["a"]}"#,
                ],
                2,
                "says nothing",
            ),
        ] {
            let error = read(&lines.join("\n")).unwrap_err();
            assert_eq!(error.place, format!("line {line}"), "{lines:?}: {error}");
            assert!(error.reason.contains(part), "{lines:?}: {error}");
        }
    }

    #[test]
    fn a_file_without_anything_to_measure_is_refused() {
        use crate::data::Format;
        let read = |text: &str| DataSet::read(text, Format::QaJsonl).unwrap_err().to_string();
        assert!(read("").contains("no message"));
        assert!(read(r#"{"role": "user", "content": "x"}"#).contains("no question"));
    }
}
