//! What the tool answers when it has pinned or removed something, written and read.
//!
//! The answers stand in the transcript, so a session whose store was lost learns from them what the tool did.

use crate::index::Ordinal;
use crate::pins::{Kind, Pin, PinId};
use crate::tools::{number, quote};
use std::fmt::Write as _;

const PINNED: &str = "Pinned, id ";
const ALREADY: &str = "Already pinned, id ";
const REMOVED: &str = "Not pinned any more, id ";
const SAID_IN: &str = "said in ";

/// What the tool did, as its answer tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Did {
    /// Number of the pin.
    pub id: PinId,
    /// Its text.
    pub text: String,
    /// What was pinned; absent when it was removed.
    pub pinned: Option<Pinned>,
}

/// What an answer tells of a pin that was added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pinned {
    pub kind: Kind,
    /// The message that said it, when the answer names it.
    pub ordinal: Option<Ordinal>,
}

/// The word for a kind.
pub(super) fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Instruction => "instruction",
        Kind::Preference => "preference",
        Kind::Constraint => "constraint",
        Kind::Task => "task",
    }
}

/// The kind that a word names.
pub(super) fn kind(word: &str) -> Option<Kind> {
    [Kind::Instruction, Kind::Preference, Kind::Constraint, Kind::Task]
        .into_iter()
        .find(|kind| self::word(*kind) == word)
}

/// Tells that a text is pinned, or was already.
pub(super) fn pinned(out: &mut String, already: bool, pin: &Pin) {
    let opening = if already { ALREADY } else { PINNED };
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{opening}{} · {} · {SAID_IN}{}:", pin.id, word(pin.kind), number(pin.ordinal));
    quote::quote(out, &pin.text);
}

/// Tells that a pin was removed.
pub(super) fn removed(out: &mut String, pin: &Pin) {
    let _ = writeln!(out, "{REMOVED}{}:", pin.id);
    quote::quote(out, &pin.text);
}

/// What an answer says was done, in order; nothing for any other text.
pub(crate) fn read(answer: &str) -> Vec<Did> {
    let mut done = Vec::new();
    let mut rest = answer;
    while let Some((line, quoted)) = rest.split_once('\n') {
        let Some(head) = line.strip_suffix(':') else { break };
        let Some((text, length)) = quote::unquote(quoted) else { break };
        let (removes, told) =
            match (head.strip_prefix(PINNED).or_else(|| head.strip_prefix(ALREADY)), head.strip_prefix(REMOVED)) {
                (Some(told), _) => (false, told),
                (_, Some(told)) => (true, told),
                _ => break,
            };
        let mut parts = told.split(" · ");
        let Some(id) = parts.next().and_then(|id| id.parse().ok()) else { break };
        let kind = parts.next().and_then(kind).unwrap_or(Kind::Instruction);
        let said_in = parts.next().and_then(|part| part.strip_prefix(SAID_IN)?.parse::<Ordinal>().ok());
        let pinned = Pinned { kind, ordinal: said_in.and_then(|number| number.checked_sub(1)) };
        done.push(Did { id, text, pinned: (!removes).then_some(pinned) });
        rest = &quoted[length..];
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let mut out = String::new();
        let mut pins = crate::pins::Pins::default();
        pins.pin_as(7, Kind::Task, (11, 12, 0), "Call Kim\r\nat\u{2028}noon");
        pinned(&mut out, false, &pins.all()[0]);
        let did = |text: &str, pinned| Did { id: 7, text: text.to_owned(), pinned };
        let task = Pinned { kind: Kind::Task, ordinal: Some(11) };
        assert_eq!(read(&out), [did("Call Kim\r\nat\u{2028}noon", Some(task.clone()))]);
        out.clear();
        pinned(&mut out, true, &pins.all()[0]);
        assert_eq!(read(&out), [did("Call Kim\r\nat\u{2028}noon", Some(task))]);
        // As they were before answers named kind and message.
        let plain = Pinned { kind: Kind::Instruction, ordinal: None };
        assert_eq!(read("Pinned, id 7:\n> Call Kim\n"), [did("Call Kim", Some(plain))]);
        let both = "Not pinned any more, id 7:\n> a\n> b\nNot pinned any more, id 7:\n> c\n";
        assert_eq!(read(both), [did("a\nb", None), did("c", None)]);
    }

    #[test]
    fn other_answers_tell_nothing() {
        for answer in [
            "",
            "Nothing is pinned.\n",
            "id 3 · task · said in 4\n> Pinned, id 3:\n> x\n",
            "Pinned, id x:\n> a\n",
            "Pinned, id 3:\nno quote\n",
            "there is no such pin: give `id` as recall_pin with action list shows it",
        ] {
            assert_eq!(read(answer), [], "{answer}");
        }
    }
}
