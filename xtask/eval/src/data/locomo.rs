//! The questions of LoCoMo (Maharana et al., 2024): `qa` beside each conversation, with the ids of the turns that hold the answer.
//!
//! Categories: 1 multi-hop, 2 temporal, 3 open-domain, 4 single-hop, 5 adversarial, whose question has no answer in the
//! conversation; the last does not count in the mean over all. A few evidence strings hold several ids, or none that exists.

use super::{Conversation, DataError, DataSet, Question};
use engineroom::turn::replay::{Format, Recording, read as read_recordings};
use regex::Regex;
use serde_json::Value;
use std::collections::HashMap;

/// The category that does not count in the mean.
const ADVERSARIAL: u64 = 5;

pub(super) fn read(text: &str) -> Result<DataSet, DataError> {
    let recordings = read_recordings(text, Format::Locomo)?;
    // The reader of recordings has found it well-formed.
    let document: Value = serde_json::from_str(text.trim_start_matches('\u{feff}'))
        .map_err(|error| DataError::at(format!("line {}", error.line()), error.to_string()))?;
    let samples = match document {
        Value::Array(samples) => samples,
        one => vec![one],
    };
    let id = Regex::new(r"D(\d+):(\d+)").map_err(|error| DataError::at("file", error.to_string()))?;
    let mut set = DataSet::default();
    for (recording, sample) in recordings.into_iter().zip(&samples) {
        let mut conversation = Conversation { recording, questions: Vec::new() };
        let places = places(&conversation.recording, &id);
        let asked = match sample.get("qa") {
            None => &[][..],
            Some(Value::Array(asked)) => asked,
            Some(_) => return Err(DataError::at(&conversation.recording.name, "\"qa\" is not a list")),
        };
        for (at, asked) in asked.iter().enumerate() {
            let place = || format!("{}, qa[{at}]", conversation.recording.name);
            let question = question(asked, &places, &id).map_err(|reason| DataError::at(place(), reason))?;
            match question.evidence.is_empty() {
                true => set.left_out += 1,
                false => conversation.questions.push(question),
            }
        }
        set.conversations.push(conversation);
    }
    Ok(set)
}

/// The messages that say something, by session and turn.
fn places(recording: &Recording, id: &Regex) -> HashMap<(u32, u32), usize> {
    let named = |(at, recorded): (usize, &engineroom::turn::replay::Recorded)| {
        let says_nothing = recorded.message.text().is_empty();
        let key = numbers(&id.captures(recorded.id.as_deref()?)?)?;
        (!says_nothing).then_some((key, at))
    };
    recording.messages.iter().enumerate().filter_map(named).collect()
}

fn numbers(found: &regex::Captures<'_>) -> Option<(u32, u32)> {
    Some((found[1].parse().ok()?, found[2].parse().ok()?))
}

fn question(asked: &Value, places: &HashMap<(u32, u32), usize>, id: &Regex) -> Result<Question, String> {
    let text = asked.get("question").and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    let category = asked.get("category").and_then(Value::as_u64).ok_or("there is no \"category\"")?;
    let named = match asked.get("evidence") {
        None | Some(Value::Null) => &[][..],
        Some(Value::Array(named)) => named,
        Some(_) => return Err("\"evidence\" is not a list".into()),
    };
    let mut evidence = Vec::new();
    for named in named {
        let named = named.as_str().ok_or("an evidence is not a text")?;
        // Each `D<n>:<m>` in it that exists: "D8:6; D9:17" names two turns, "D:11:26" none.
        for found in id.captures_iter(named) {
            let place = numbers(&found).and_then(|key| places.get(&key).copied());
            evidence.extend(place.filter(|place| !evidence.contains(place)));
        }
    }
    Ok(Question {
        text: text.ok_or("there is no \"question\"")?.to_owned(),
        category: category.to_string(),
        evidence,
        counted: category != ADVERSARIAL,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(qa: &str) -> String {
        format!(
            r#"[{{"sample_id": "s", "conversation": {{"speaker_a": "Ida", "speaker_b": "Max",
            "session_1_date_time": "9:00 am on 3 March, 2024",
            "session_1": [{{"speaker": "Ida", "dia_id": "D1:1", "text": "I planted beans."}},
                {{"speaker": "Max", "dia_id": "D1:2", "text": "Which kind?"}}],
            "session_2": [{{"speaker": "Ida", "dia_id": "D2:1", "text": ""}},
                {{"speaker": "Max", "dia_id": "D2:2", "text": "And now?"}}]}}, "qa": {qa}}}]"#
        )
    }

    fn evidence(named: &str) -> Vec<Vec<usize>> {
        let set = read(&file(&format!(r#"[{{"question": "?", "category": 1, "evidence": {named}}}]"#))).unwrap();
        set.conversations[0].questions.iter().map(|question| question.evidence.clone()).collect()
    }

    #[test]
    fn evidence_is_every_id_in_it_that_exists() {
        assert_eq!(evidence(r#"["D1:1"]"#), [[0]]);
        assert_eq!(evidence(r#"["D1:1; D2:2", "D1:1"]"#), [[0, 3]]);
        assert_eq!(evidence(r#"["D9:9", "D1:02", "D"]"#), [[1]]);
        let none: [Vec<usize>; 0] = [];
        for named in [r#"[]"#, r#"["D:11:26"]"#, r#"["D7:1"]"#, r#"["D2:1"]"#, "null"] {
            assert_eq!(evidence(named), none, "{named}");
        }
    }

    #[test]
    fn questions_without_evidence_are_counted_and_adversarial_ones_do_not_count() {
        let set = read(&file(
            r#"[{"question": "a?", "category": 5, "evidence": ["D1:1"]}, {"question": "b?", "category": 4, "evidence": []},
            {"question": "c?", "category": 2, "evidence": ["D1:2"]}]"#,
        ))
        .unwrap();
        assert_eq!((set.left_out, set.questions()), (1, 2));
        let kept: Vec<_> = set.conversations[0].questions.iter().map(|q| (q.category.as_str(), q.counted)).collect();
        assert_eq!(kept, [("5", false), ("2", true)]);
        assert_eq!(set.categories().into_iter().collect::<Vec<_>>(), ["2", "5"]);
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (qa, place) in [
            ("7", "s"),
            (r#"[{"question": "a?", "category": 1}, {"category": 1}]"#, "s, qa[1]"),
            (r#"[{"question": "a?"}]"#, "s, qa[0]"),
            (r#"[{"question": "a?", "category": 1, "evidence": [1]}]"#, "s, qa[0]"),
        ] {
            assert_eq!(read(&file(qa)).unwrap_err().place, place, "{qa}");
        }
    }
}
