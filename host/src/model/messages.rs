//! The messages of a call, written out once.
//!
//! A prompt is mostly what it was the turn before. So whoever makes one keeps its bytes, and a provider that sends JSON copies
//! them; a provider that wants to look inside reads the same messages as values, which are parsed on first use only.

use bytes::Bytes;
use serde_json::Value;
use std::ops::Deref;
use std::sync::OnceLock;

/// Messages of the OpenAI dialect, system first. Reads as a slice of values.
#[derive(Clone, Default)]
pub struct Messages {
    /// A JSON array; empty stands for the empty array.
    json: Bytes,
    values: OnceLock<Vec<Value>>,
}

impl Messages {
    /// Messages from the text of a JSON array. The caller has written it: nothing checks it here.
    pub(crate) fn written(json: Bytes) -> Messages {
        Messages { json, values: OnceLock::new() }
    }

    /// The JSON array as it is sent.
    pub fn json(&self) -> &[u8] {
        if self.json.is_empty() { b"[]" } else { &self.json }
    }
}

impl From<Vec<Value>> for Messages {
    fn from(values: Vec<Value>) -> Messages {
        // Values always serialise: their keys are text and their numbers came from JSON.
        let json = serde_json::to_vec(&values).unwrap_or_default().into();
        Messages { json, values: OnceLock::from(values) }
    }
}

impl Deref for Messages {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        self.values.get_or_init(|| serde_json::from_slice(self.json()).unwrap_or_default())
    }
}

impl std::fmt::Debug for Messages {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_and_values_say_the_same() {
        let values = vec![json!({"role": "user", "content": "hé\n\"x\""}), json!({"b": 1, "a": [null]})];
        let messages = Messages::from(values.clone());
        assert_eq!(&*messages, &values[..]);
        assert_eq!(&*Messages::written(messages.json().to_vec().into()), &values[..]);
        assert_eq!(Messages::default().json(), b"[]");
        assert!(Messages::default().is_empty());
    }
}
