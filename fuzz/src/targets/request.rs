//! Bodies of requests.

use engineroom::api::fuzzing as api;
use engineroom::transcript::Message;
use engineroom::turn::{HistoryMode, fuzzing as turn};
use serde_json::Value;

/// The first byte names the route, the rest is the body.
pub(crate) fn request(data: &[u8]) {
    let Some((&route, body)) = data.split_first() else { return };
    match route % 4 {
        0 => chat(body),
        1 => {
            if let Some(asked) = api::spawn(body) {
                assert!(asked.label.is_none_or(|label| !label.trim().is_empty()), "a blank text is none");
            }
        }
        2 => {
            if let Some(Some(focus)) = api::compact(body) {
                assert!(!focus.trim().is_empty(), "a blank focus is none");
            }
        }
        _ => drop(api::repair(body)),
    }
}

fn chat(body: &[u8]) {
    let Some(request) = api::chat(&[], body) else { return };
    let asked: Value = serde_json::from_slice(body).expect("it was read");
    for (name, value) in &request.params {
        assert_eq!(asked.get(name), Some(value), "a parameter is passed on as it came");
    }
    if let Some(key) = &request.session_key {
        assert!(key.len() <= 512 && !key.chars().any(char::is_control), "{key:?}");
    }
    let Some((_, messages)) = turn::incoming(request.messages, HistoryMode::Auto) else { return };
    for message in messages {
        let written = serde_json::to_value(&message).expect("a message can be written");
        let read: Message = serde_json::from_value(written).expect("and read");
        assert_eq!(read, message, "a message changes when it is written and read again");
        assert_eq!(read.digest(), message.digest());
        assert!(message.weight() <= 64 * 1024, "a small message weighs {}", message.weight());
    }
}
