//! LoCoMo recordings: long dated conversations of two people. The first speaker is the user, the second the assistant, and the
//! `name` of a message says who speaks, as the OpenAI protocol tells participants apart; a shared picture stands in the text by
//! its caption; every message has the time of its session, and its `dia_id` as its id.

use super::{Recorded, Recording, ReplayError};
use crate::transcript::{Message, Role};
use serde_json::{Map, Value};

/// True for an array (or one object) of samples with a `conversation`.
pub(super) fn looks_like(text: &str) -> bool {
    let first = |document: &Value| match document {
        Value::Array(items) => items.first().is_some_and(|item| item.get("conversation").is_some_and(Value::is_object)),
        other => other.get("conversation").is_some_and(Value::is_object),
    };
    text.contains("\"speaker_a\"") && serde_json::from_str::<Value>(text).is_ok_and(|document| first(&document))
}

pub(super) fn read(text: &str) -> Result<Vec<Recording>, ReplayError> {
    let document: Value = serde_json::from_str(text)
        .map_err(|error| ReplayError::format(format!("line {}", error.line()), error.to_string()))?;
    let samples = match document {
        Value::Array(samples) => samples,
        one => vec![one],
    };
    samples.iter().enumerate().map(|(at, sample)| read_sample(sample, at + 1)).collect()
}

fn read_sample(sample: &Value, number: usize) -> Result<Recording, ReplayError> {
    let name =
        sample.get("sample_id").and_then(Value::as_str).map_or_else(|| format!("conversation {number}"), str::to_owned);
    let conversation = sample
        .get("conversation")
        .and_then(Value::as_object)
        .ok_or_else(|| ReplayError::format(&name, "there is no \"conversation\""))?;
    let speaker = |key: &str| {
        conversation
            .get(key)
            .and_then(Value::as_str)
            .ok_or_else(|| ReplayError::format(&name, format!("there is no \"{key}\"")))
    };
    let speakers = [(speaker("speaker_a")?, Role::User), (speaker("speaker_b")?, Role::Assistant)];
    let mut messages = Vec::new();
    for (session, turns) in sessions(conversation) {
        let place = format!("{name}, session_{session}");
        let turns = turns.as_array().ok_or_else(|| ReplayError::format(&place, "it is not a list"))?;
        let time_ms = match conversation.get(&format!("session_{session}_date_time")) {
            None => None,
            Some(text) => Some(
                text.as_str()
                    .and_then(time_of)
                    .ok_or_else(|| ReplayError::format(&place, format!("cannot read its date {text}")))?,
            ),
        };
        for (at, turn) in turns.iter().enumerate() {
            let message =
                message_of(turn, &speakers).map_err(|reason| ReplayError::format(format!("{place}[{at}]"), reason))?;
            let id = turn.get("dia_id").and_then(Value::as_str).map(str::to_owned);
            messages.push(Recorded { message, time_ms, id });
        }
    }
    Ok(Recording { name, system: Vec::new(), messages })
}

/// The sessions in the order of their numbers, which is not that of the text.
fn sessions(conversation: &Map<String, Value>) -> Vec<(u32, &Value)> {
    let mut sessions: Vec<(u32, &Value)> = conversation
        .iter()
        .filter_map(|(key, value)| Some((key.strip_prefix("session_")?.parse().ok()?, value)))
        .collect();
    sessions.sort_by_key(|(number, _)| *number);
    sessions
}

fn message_of(turn: &Value, speakers: &[(&str, Role); 2]) -> Result<Message, String> {
    let text_of = |key: &str| turn.get(key).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    let speaker = text_of("speaker").ok_or("there is no \"speaker\"")?;
    let role = speakers
        .iter()
        .find(|(name, _)| *name == speaker)
        .map(|(_, role)| *role)
        .ok_or_else(|| format!("\"{speaker}\" is neither of the two speakers"))?;
    let caption = text_of("blip_caption").map(|caption| format!("[shares image: {caption}]"));
    let text = [text_of("text").map(str::to_owned), caption].into_iter().flatten().collect::<Vec<_>>().join(" ");
    Ok(Message { name: protocol_name(speaker), ..Message::text_of(role, text) })
}

/// A person's name as the OpenAI protocol takes a participant's: at most 64 ASCII letters, digits, `_` and `-`. What else there
/// is of it becomes `_`; `None` when nothing of it would be left.
fn protocol_name(name: &str) -> Option<String> {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    let name: String = name.chars().take(64).map(|letter| if allowed(letter) { letter } else { '_' }).collect();
    name.chars().any(|letter| letter != '_').then_some(name)
}

/// `1:56 pm on 8 May, 2023`, taken as UTC.
fn time_of(text: &str) -> Option<i64> {
    const MONTHS: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let text = text.to_lowercase().replace(',', " ");
    let (clock, date) = text.split_once(" on ")?;
    let mut clock = clock.split_whitespace();
    let (hour, minute) = clock.next()?.split_once(':')?;
    let hour: i8 = hour.parse().ok().filter(|hour| (1..=12).contains(hour))?;
    let hour = match clock.next()? {
        "am" => hour % 12,
        "pm" => hour % 12 + 12,
        _ => return None,
    };
    let mut date = date.split_whitespace();
    let day = date.next()?.parse().ok()?;
    let month = date.next()?;
    let month = MONTHS.iter().position(|name| *name == month || name.len() > 3 && name[..3] == *month)?;
    let year = date.next()?.parse().ok()?;
    let date =
        jiff::civil::DateTime::new(year, i8::try_from(month + 1).ok()?, day, hour, minute.parse().ok()?, 0, 0).ok()?;
    jiff::tz::Offset::UTC.to_timestamp(date).ok().map(|time| time.as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: &str = r#"[{"sample_id": "s-1", "conversation": {
        "speaker_a": "Ann", "speaker_b": "Ben",
        "session_10_date_time": "12:05 am on 1 January, 2024",
        "session_10": [{"speaker": "Ben", "dia_id": "D10:1", "text": "Happy new year!"}],
        "session_2_date_time": "1:56 pm on 8 May, 2023",
        "session_2": [
            {"speaker": "Ann", "dia_id": "D2:1", "text": "Look at this.", "blip_caption": "a dog on a beach"},
            {"speaker": "Ben", "dia_id": "D2:2", "text": "Lovely."}],
        "session_11_date_time": "3:00 pm on 2 January, 2024"}, "qa": []}]"#;

    #[test]
    fn sessions_come_in_the_order_of_their_numbers_with_their_times() {
        assert!(looks_like(SAMPLE));
        let recording = read(SAMPLE).unwrap().remove(0);
        assert_eq!(recording.name, "s-1");
        let said: Vec<_> = recording
            .messages
            .iter()
            .map(|m| (m.message.role, m.message.text().into_owned(), m.time_ms.unwrap()))
            .collect();
        let names: Vec<_> = recording.messages.iter().map(|m| m.message.name.as_deref().unwrap()).collect();
        assert_eq!(names, ["Ann", "Ben", "Ben"]);
        let ids: Vec<_> = recording.messages.iter().map(|m| m.id.as_deref().unwrap()).collect();
        assert_eq!(ids, ["D2:1", "D2:2", "D10:1"]);
        assert_eq!(
            said,
            [
                (Role::User, "Look at this. [shares image: a dog on a beach]".into(), 1_683_554_160_000),
                (Role::Assistant, "Lovely.".into(), 1_683_554_160_000),
                (Role::Assistant, "Happy new year!".into(), 1_704_067_500_000),
            ]
        );
    }

    #[test]
    fn a_name_is_one_that_the_protocol_takes() {
        assert_eq!(protocol_name("Ann-Marie_2").as_deref(), Some("Ann-Marie_2"));
        assert_eq!(protocol_name("Jo O'Neil").as_deref(), Some("Jo_O_Neil"));
        assert_eq!(protocol_name("José").as_deref(), Some("Jos_"));
        assert_eq!(protocol_name("小明"), None);
        assert_eq!(protocol_name(&"x".repeat(80)).map(|name| name.len()), Some(64));
    }

    #[test]
    fn noon_and_midnight_are_where_they_belong() {
        let hour = |text: &str| time_of(text).unwrap() / 3_600_000 % 24;
        assert_eq!(hour("12:30 am on 27 March, 2022"), 0);
        assert_eq!(hour("12:30 pm on 27 March, 2022"), 12);
        assert_eq!(hour("11:59 pm on 27 March, 2022"), 23);
        for wrong in ["13:00 pm on 1 May, 2023", "1:00 on 1 May, 2023", "1:00 pm on 31 June, 2023", "soon"] {
            assert_eq!(time_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (from, to, place) in [
            ("\"speaker_b\": \"Ben\",", "", "s-1"),
            ("\"speaker\": \"Ann\"", "\"speaker\": \"Eve\"", "s-1, session_2[0]"),
            ("1:56 pm on 8 May, 2023", "some day", "s-1, session_2"),
        ] {
            match read(&SAMPLE.replace(from, to)) {
                Err(ReplayError::Format { place: found, .. }) => assert_eq!(found, place),
                other => panic!("{other:?}"),
            }
        }
    }
}
