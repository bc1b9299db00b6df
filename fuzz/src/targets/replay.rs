//! Recordings.

use engineroom::transcript::Message;
use engineroom::turn::replay::{Format, read};
use serde_json::{Value, json};

/// A file in any of the formats.
pub(crate) fn replay(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for format in [Format::Auto, Format::OpenAi, Format::Locomo] {
        let Ok(recordings) = read(text, format) else { continue };
        assert!(recordings.iter().any(|recording| !recording.messages.is_empty()), "an empty recording is refused");
        let said = |recordings: &[engineroom::turn::replay::Recording]| -> Vec<(Vec<Value>, Vec<Message>)> {
            let with_messages = recordings.iter().filter(|recording| !recording.messages.is_empty());
            with_messages
                .map(|one| (one.system.clone(), one.messages.iter().map(|said| said.message.clone()).collect()))
                .collect()
        };
        let said_first = said(&recordings);
        let conversations: Vec<Value> = said_first
            .iter()
            .map(|(system, messages)| {
                let messages = messages.iter().map(|message| serde_json::to_value(message).expect("it can be written"));
                json!({"messages": system.iter().cloned().chain(messages).collect::<Vec<_>>()})
            })
            .collect();
        let again = read(&Value::from(conversations).to_string(), Format::OpenAi).expect("what was read can be read");
        assert_eq!(said(&again), said_first, "a recording changes when it is written and read again");
    }
}
