//! The bytes of a session's last prompt, so that the next one is written only where it differs.
//!
//! A provider's cache works on the same bytes from the first one on, and so does this: what stands before the first difference
//! is kept as it is, and nothing of it is rendered again. Messages never change, so the same message is the same bytes.

use crate::model::Messages;
use crate::transcript::Message;
use serde::Serialize;
use serde_json::Value;
use std::sync::Arc;

/// One message of the prompt.
#[derive(Debug)]
enum Part {
    /// A system or developer prompt.
    Value(Value),
    /// A message of the projection or of an engine.
    Message(Arc<Message>),
    /// Made for this prompt alone.
    Once,
}

/// The last prompt.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// Each message with the end of its text in `json`.
    parts: Vec<(Part, usize)>,
    /// The array without its closing bracket.
    json: Vec<u8>,
    /// Bytes of `json` that the prompt before had as well, from the first on.
    kept: usize,
    /// Bytes of the system prompts, now and in the prompt before.
    system: (usize, usize),
}

impl Written {
    /// Begins the next prompt.
    pub(super) fn again(&mut self) -> Writer<'_> {
        self.system = (0, self.system.0);
        Writer { at: 0, same: true, written: self }
    }

    /// True when the system prompts are others than in the prompt before.
    pub(super) fn system_changed(&self) -> bool {
        self.system.0 != self.system.1 || self.kept < self.system.0
    }

    /// Size in memory, in bytes.
    pub(super) fn weight(&self) -> usize {
        self.json.capacity() + self.parts.capacity() * size_of::<(Part, usize)>()
    }
}

/// Writes a prompt over the last one.
pub(super) struct Writer<'a> {
    written: &'a mut Written,
    /// Parts that were the same so far.
    at: usize,
    /// No difference yet.
    same: bool,
}

impl Writer<'_> {
    /// A prompt that is no entry.
    pub(super) fn value(&mut self, value: &Value) {
        if !self.next(|part| matches!(part, Part::Value(old) if old == value)) {
            self.write(value, Part::Value(value.clone()));
        }
    }

    /// The system prompts are written.
    pub(super) fn system_ends(&mut self) {
        self.written.system.0 = match self.same {
            true => self.at.checked_sub(1).and_then(|last| self.written.parts.get(last)).map_or(0, |(_, end)| *end),
            false => self.written.json.len(),
        };
    }

    /// A message of the conversation.
    pub(super) fn message(&mut self, message: &Arc<Message>) {
        if !self.next(|part| matches!(part, Part::Message(old) if Arc::ptr_eq(old, message) || old == message)) {
            self.write(&**message, Part::Message(Arc::clone(message)));
        }
    }

    /// A message that is like no other.
    pub(super) fn once(&mut self, value: &Value) {
        self.next(|_| false);
        self.write(value, Part::Once);
    }

    /// Writes the prompt's end.
    pub(super) fn end(mut self) -> Messages {
        self.differs();
        let json = &self.written.json;
        let mut bytes = Vec::with_capacity(json.len() + 2);
        bytes.extend_from_slice(if json.is_empty() { b"[" } else { json });
        bytes.push(b']');
        Messages::written(bytes.into())
    }

    /// True when the next part is what it was.
    fn next(&mut self, same: impl FnOnce(&Part) -> bool) -> bool {
        if self.same && self.written.parts.get(self.at).is_some_and(|(part, _)| same(part)) {
            self.at += 1;
            return true;
        }
        self.differs();
        false
    }

    /// From here on nothing of the last prompt counts.
    fn differs(&mut self) {
        if std::mem::replace(&mut self.same, false) {
            let written = &mut *self.written;
            written.parts.truncate(self.at);
            written.json.truncate(written.parts.last().map_or(0, |(_, end)| *end));
            written.kept = written.json.len();
        }
    }

    fn write<T: Serialize + ?Sized>(&mut self, value: &T, part: Part) {
        let json = &mut self.written.json;
        json.push(if json.is_empty() { b'[' } else { b',' });
        // Writing into memory does not fail, and neither values nor messages do.
        let _ = serde_json::to_writer(&mut *json, value);
        let end = json.len();
        self.written.parts.push((part, end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::Role;
    use serde_json::json;

    fn message(text: &str) -> Arc<Message> {
        Arc::new(Message::text_of(Role::User, text))
    }

    fn check(written: &mut Written, system: &Value, messages: &[&Arc<Message>], kept: usize) {
        let mut writer = written.again();
        writer.value(system);
        writer.system_ends();
        messages.iter().for_each(|message| writer.message(message));
        let given = writer.end();
        let mut expected = vec![system.clone()];
        expected.extend(messages.iter().map(|message| serde_json::to_value(&***message).unwrap()));
        assert_eq!(given.json(), serde_json::to_vec(&expected).unwrap());
        assert_eq!(written.kept, kept, "{:?}", written.parts);
        assert_eq!(written.system_changed(), kept == 0, "{:?}", written.parts);
    }

    #[test]
    fn only_what_differs_is_written_again() {
        let mut written = Written::default();
        let system = json!({"role": "system", "content": "s"});
        let (a, b, c) = (message("a"), message("b"), message("c"));
        let lens: Vec<usize> = [&a, &b, &c].iter().map(|m| serde_json::to_vec(&***m).unwrap().len() + 1).collect();
        let first = serde_json::to_vec(&system).unwrap().len() + 1;
        check(&mut written, &system, &[&a, &b], 0);
        check(&mut written, &system, &[&a, &b, &c], first + lens[0] + lens[1]);
        check(&mut written, &system, &[&a, &b, &c], first + lens[0] + lens[1] + lens[2]);
        check(&mut written, &system, &[&a], first + lens[0]);
        check(&mut written, &system, &[&b, &a], first);
        check(&mut written, &json!({"role": "system", "content": "t"}), &[&b, &a], 0);
    }

    #[test]
    fn what_was_made_for_one_prompt_is_never_kept() {
        let mut written = Written::default();
        let a = message("a");
        for _ in 0..2 {
            let mut writer = written.again();
            writer.message(&a);
            writer.once(&json!({"role": "user", "content": "now"}));
            writer.end();
        }
        assert_eq!(written.kept, serde_json::to_vec(&*a).unwrap().len() + 1);
    }

    #[test]
    fn no_message_is_an_empty_array() {
        assert_eq!(Written::default().again().end().json(), b"[]");
    }
}
