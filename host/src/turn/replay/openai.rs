//! OpenAI-style recordings: `{"messages": [...]}` as JSON, a list of those, or JSONL with one conversation or one message a line.

use super::{Recorded, Recording, ReplayError};
use crate::transcript::Message;
use serde_json::Value;

pub(super) fn read(text: &str) -> Result<Vec<Recording>, ReplayError> {
    match serde_json::from_str::<Value>(text) {
        Ok(document) => read_document(document),
        // Several documents one after the other are JSONL; anything else is wrong as a whole.
        Err(_) if text.lines().filter(|line| !line.trim().is_empty()).count() > 1 => read_lines(text),
        Err(error) => Err(ReplayError::format(format!("line {}", error.line()), error.to_string())),
    }
}

fn read_document(document: Value) -> Result<Vec<Recording>, ReplayError> {
    match document {
        Value::Array(items) if items.first().is_some_and(|item| item.get("role").is_some()) => {
            Ok(vec![conversation("conversation 1".into(), items, None)?])
        }
        Value::Array(items) => items.into_iter().enumerate().map(|(at, item)| object(item, at + 1, None)).collect(),
        one if one.get("role").is_some() => Ok(vec![conversation("conversation 1".into(), vec![one], None)?]),
        other => Ok(vec![object(other, 1, None)?]),
    }
}

/// What a parser says of one line of many: its own "line 1" would be another line's number.
fn without_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((what, _)) => format!("{what} at column {}", error.column()),
        None => text,
    }
}

fn read_lines(text: &str) -> Result<Vec<Recording>, ReplayError> {
    let mut recordings: Vec<Recording> = Vec::new();
    // Lines that are messages make one conversation; a line that is a conversation ends it.
    let mut open = false;
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let number = at + 1;
        let value: Value = serde_json::from_str(line)
            .map_err(|error| ReplayError::format(format!("line {number}"), without_line(&error)))?;
        if value.get("role").is_none() {
            recordings.push(object(value, recordings.len() + 1, Some(number))?);
            open = false;
            continue;
        }
        if !open {
            recordings.push(Recording { name: name_of(recordings.len() + 1), ..Recording::default() });
            open = true;
        }
        if let Some(recording) = recordings.last_mut() {
            take(recording, value, &format!("line {number}"))?;
        }
    }
    Ok(recordings)
}

fn name_of(number: usize) -> String {
    format!("conversation {number}")
}

fn object(mut value: Value, number: usize, line: Option<usize>) -> Result<Recording, ReplayError> {
    let place = line.map_or_else(|| name_of(number), |line| format!("line {line}"));
    let name = ["id", "name", "session", "session_id"]
        .iter()
        .find_map(|key| value.get(*key).and_then(Value::as_str))
        .map_or_else(|| name_of(number), str::to_owned);
    match value.get_mut("messages").map(Value::take) {
        Some(Value::Array(messages)) => conversation(name, messages, Some(place)),
        Some(_) => Err(ReplayError::format(place, "\"messages\" is not a list")),
        None => Err(ReplayError::format(place, "there is no \"messages\"")),
    }
}

fn conversation(name: String, messages: Vec<Value>, place: Option<String>) -> Result<Recording, ReplayError> {
    let mut recording = Recording { name, ..Recording::default() };
    for (at, message) in messages.into_iter().enumerate() {
        let place = match &place {
            Some(place) => format!("{place}, messages[{at}]"),
            None => format!("messages[{at}]"),
        };
        take(&mut recording, message, &place)?;
    }
    Ok(recording)
}

fn take(recording: &mut Recording, mut value: Value, place: &str) -> Result<(), ReplayError> {
    let time_ms = value.as_object_mut().and_then(take_time);
    match value.get("role").and_then(Value::as_str) {
        Some("system" | "developer") => recording.system.push(value),
        Some("user" | "assistant" | "tool") => {
            let message: Message =
                serde_json::from_value(value).map_err(|error| ReplayError::format(place, error.to_string()))?;
            recording.messages.push(Recorded { message, time_ms, id: None });
        }
        Some(other) => return Err(ReplayError::format(place, format!("unknown role \"{other}\""))),
        None => return Err(ReplayError::format(place, "a message needs a role")),
    }
    Ok(())
}

/// The time that some recorders write beside a message: RFC 3339, or seconds or milliseconds since the epoch. It is taken out,
/// since it is no part of the message.
fn take_time(message: &mut serde_json::Map<String, Value>) -> Option<i64> {
    let key = ["timestamp", "created_at", "time"].into_iter().find(|key| time_of(message.get(*key)).is_some())?;
    time_of(message.remove(key).as_ref())
}

fn time_of(value: Option<&Value>) -> Option<i64> {
    match value? {
        Value::String(text) => text.parse::<jiff::Timestamp>().ok().map(|time| time.as_millisecond()),
        // Until the year 5138 no time in seconds reaches this; every time in milliseconds since 1973 does.
        Value::Number(number) => number.as_f64().map(|n| if n >= 1e11 { n as i64 } else { (n * 1000.0) as i64 }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::Role;

    fn shape(text: &str) -> Vec<(String, usize, Vec<&'static str>)> {
        read(text)
            .unwrap()
            .iter()
            .map(|r| (r.name.clone(), r.system.len(), r.messages.iter().map(|m| m.message.role.name()).collect()))
            .collect()
    }

    #[test]
    fn a_document_a_list_and_lines_are_read() {
        let one = r#"{"id": "x", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]}"#;
        assert_eq!(shape(one), [("x".into(), 1, vec!["user", "assistant"])]);
        assert_eq!(shape(&format!("[{one}, {one}]")).len(), 2);
        assert_eq!(shape(&format!("{one}\n\n{one}\n")).len(), 2);
        let lines = "{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\"assistant\",\"content\":\"b\"}\n";
        assert_eq!(shape(lines), [("conversation 1".into(), 0, vec!["user", "assistant"])]);
        assert_eq!(shape("{\"role\":\"user\",\"content\":\"a\"}"), [("conversation 1".into(), 0, vec!["user"])]);
    }

    #[test]
    fn times_are_taken_out_of_the_message() {
        let text = r#"{"messages": [
            {"role": "user", "content": "a", "timestamp": "2023-05-08T13:56:00Z"},
            {"role": "user", "content": "b", "created_at": 1683554160},
            {"role": "user", "content": "c", "time": 1683554160000}]}"#;
        let recording = read(text).unwrap().remove(0);
        assert!(recording.messages.iter().all(|m| m.time_ms == Some(1_683_554_160_000)));
        assert!(recording.messages.iter().all(|m| m.message.extra.is_empty()));
    }

    #[test]
    fn unknown_fields_and_calls_are_kept() {
        let text = r#"{"messages": [{"role": "assistant", "content": null, "mood": "good",
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "c", "content": "r"}]}"#;
        let recording = read(text).unwrap().remove(0);
        assert_eq!(recording.messages[0].message.extra["mood"], "good");
        assert_eq!(recording.messages[0].message.tool_calls.len(), 1);
        assert_eq!(recording.messages[1].message.role, Role::Tool);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, place) in [
            ("{\"messages\": [{\"content\": \"a\"}]}", "conversation 1, messages[0]"),
            ("{\"messages\": 7}", "conversation 1"),
            ("{\"role\":\"user\",\"content\":\"a\"}\n{oops\n", "line 2"),
            ("{\"messages\": []}\n{\"messages\": [{\"role\": \"narrator\"}]}", "line 2, messages[0]"),
            ("oops", "line 1"),
        ] {
            match read(text) {
                Err(ReplayError::Format { place: found, .. }) => assert_eq!(found, place, "{text}"),
                other => panic!("{text} gave {other:?}"),
            }
        }
    }
}
