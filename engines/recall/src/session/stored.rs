//! An entry as it is stored, and the text of it that is indexed.
//!
//! A value is one byte for the format, then the fields in postcard's encoding: no schema to migrate, a few bytes beside the
//! text. Reading borrows from the value.

use crate::index::Ordinal;
use crate::tools;
use engine_abi::wire::role;
use engine_abi::{Body, Entry, Head};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The format of the values. Another one is not read: the session is made again from the transcript.
pub(crate) const FORMAT: u8 = 1;

/// A tool call of the model, as it was said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Call<'a> {
    /// Its id.
    pub id: &'a str,
    /// Name of the tool.
    pub name: &'a str,
    /// Arguments, JSON text as the model wrote it.
    pub arguments: &'a str,
}

/// An entry with all that was said in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stored<'a> {
    id: u64,
    time_ms: i64,
    tokens: u32,
    role: u32,
    flags: u32,
    /// Who said it, where participants have names; the tool of a tool result.
    pub name: Option<&'a str>,
    /// The entry with the call that a tool result answers.
    pub asked_in: Option<Ordinal>,
    /// Id of the call that a tool result answers.
    pub call_id: Option<&'a str>,
    /// The calls of an assistant's message.
    #[serde(borrow)]
    pub calls: Vec<Call<'a>>,
    /// Its text.
    pub text: &'a str,
}

impl<'a> Stored<'a> {
    /// An entry as the host lends it; of a tool result, `asked` says which entry asked for it and for which tool.
    pub(crate) fn of(head: &Head, body: &'a Body, asked: Option<(Ordinal, &'a str)>) -> Stored<'a> {
        let calls = body.tool_calls().iter();
        Stored {
            id: head.id,
            time_ms: head.time_ms,
            tokens: head.tokens,
            role: head.role,
            flags: head.flags,
            name: body.name().or(asked.map(|(_, name)| name)),
            asked_in: asked.map(|(ordinal, _)| ordinal),
            call_id: body.tool_call_id(),
            calls: calls.map(|call| Call { id: call.id(), name: call.name(), arguments: call.arguments() }).collect(),
            text: body.text(),
        }
    }

    /// The row of the entry.
    pub(crate) fn head(&self) -> Head {
        Head {
            id: self.id,
            time_ms: self.time_ms,
            tokens: self.tokens,
            role: self.role,
            flags: self.flags,
            text_bytes: u32::try_from(self.text.len()).unwrap_or(u32::MAX),
        }
    }

    /// All of it, as the tools show it: of an assistant's tool calls, names and arguments follow the words.
    pub(crate) fn told(&self) -> Cow<'a, str> {
        self.with_calls(|_| true)
    }

    /// The text that is indexed: the same without calls of this engine's own tools. What those answered is not indexed at all:
    /// it quotes what is indexed already, and would be found instead of it.
    pub(crate) fn indexed(&self) -> Cow<'a, str> {
        if self.is_own_answer() { Cow::Borrowed("") } else { self.with_calls(|call| !tools::is_own(call.name)) }
    }

    /// An answer of one of this engine's tools.
    pub(crate) fn is_own_answer(&self) -> bool {
        self.role == role::TOOL && self.asked_in.is_some() && self.name.is_some_and(tools::is_own)
    }

    /// An answer of one of this engine's tools, or a message that does nothing but call them.
    pub(crate) fn is_own(&self) -> bool {
        let calls = !self.calls.is_empty() && self.calls.iter().all(|call| tools::is_own(call.name));
        self.is_own_answer() || (calls && self.text.trim().is_empty())
    }

    fn with_calls(&self, is_told: impl Fn(&Call<'_>) -> bool) -> Cow<'a, str> {
        if self.calls.is_empty() {
            return Cow::Borrowed(self.text);
        }
        let mut told = String::with_capacity(self.text.len() + 64);
        told.push_str(self.text);
        for call in self.calls.iter().filter(|call| is_told(call)) {
            if !told.is_empty() {
                told.push('\n');
            }
            told.push_str(call.name);
            told.push(' ');
            told.push_str(call.arguments);
        }
        Cow::Owned(told)
    }

    /// The value for the store.
    ///
    /// # Errors
    ///
    /// None that a message can bring about: the encoding knows every field.
    pub(crate) fn encode(&self) -> engine_abi::Result<Vec<u8>> {
        let value = Vec::with_capacity(self.text.len() + 48);
        postcard::to_extend(self, [value.as_slice(), &[FORMAT]].concat()).map_err(engine_abi::Error::new)
    }

    /// Reads a value of the store; `None` when it is of another format or damaged.
    pub(crate) fn decode(value: &'a [u8]) -> Option<Stored<'a>> {
        let (format, fields) = value.split_first()?;
        if *format != FORMAT {
            return None;
        }
        match postcard::take_from_bytes(fields) {
            Ok((stored, [])) => Some(stored),
            _ => None,
        }
    }
}

/// The calls of the last message that had any: what a tool result that follows answers.
#[derive(Default)]
pub(crate) struct OpenCalls {
    asked_in: Ordinal,
    calls: Vec<(String, String)>,
}

impl OpenCalls {
    /// The entry and the tool that a result with this call id answers.
    pub(crate) fn asked<'a>(&'a self, body: &Body) -> Option<(Ordinal, &'a str)> {
        let id = body.tool_call_id()?;
        let (_, name) = self.calls.iter().find(|(call, _)| call == id)?;
        Some((self.asked_in, name))
    }

    /// Takes note of an entry.
    pub(crate) fn note(&mut self, ordinal: Ordinal, stored: &Stored<'_>) {
        if stored.role == role::ASSISTANT && !stored.calls.is_empty() {
            self.asked_in = ordinal;
            self.calls = stored.calls.iter().map(|call| (call.id.to_owned(), call.name.to_owned())).collect();
        }
    }
}

/// Reads an entry as the host lends it.
pub(crate) fn of_entry<'a>(entry: &'a Entry, open: &'a OpenCalls) -> Stored<'a> {
    Stored::of(entry.head(), entry, open.asked(entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored<'a>(text: &'a str, calls: Vec<Call<'a>>) -> Stored<'a> {
        Stored {
            id: 1 << 40,
            time_ms: -1,
            tokens: 3,
            role: role::ASSISTANT,
            flags: 2,
            name: Some("Ada"),
            asked_in: Some(7),
            call_id: None,
            calls,
            text,
        }
    }

    #[test]
    fn a_value_reads_as_it_was_written_and_a_damaged_one_does_not() {
        let calls = vec![Call { id: "c1", name: "look", arguments: "{\"at\":\"火\"}" }];
        let entry = stored("words\0 and 言葉", calls);
        let value = entry.encode().unwrap();
        assert_eq!(Stored::decode(&value), Some(entry.clone()));
        assert_eq!(entry.told(), "words\0 and 言葉\nlook {\"at\":\"火\"}");
        assert_eq!(entry.head().text_bytes as usize, entry.text.len());
        assert_eq!(Stored::decode(&value[..value.len() - 1]), None);
        assert_eq!(Stored::decode(&[value.as_slice(), b"x"].concat()), None);
        assert_eq!(Stored::decode(&[&[FORMAT + 1], &value[1..]].concat()), None);
        assert_eq!(Stored::decode(b""), None);
    }

    #[test]
    fn what_the_engines_own_tools_were_asked_and_answered_is_not_indexed() {
        let calls = vec![
            Call { id: "c1", name: "recall_search", arguments: "{\"query\":\"tea\"}" },
            Call { id: "c2", name: "look", arguments: "{}" },
        ];
        assert_eq!(stored("I look.", calls).indexed(), "I look.\nlook {}");
        let answer = Stored { role: role::TOOL, name: Some("recall_search"), ..stored("> tea", Vec::new()) };
        assert_eq!((answer.indexed().as_ref(), answer.told().as_ref()), ("", "> tea"));
        let other = Stored { name: Some("look"), ..answer };
        assert_eq!(other.indexed(), "> tea");
    }

    #[test]
    fn a_call_without_words_is_told_by_itself() {
        let calls =
            vec![Call { id: "c1", name: "look", arguments: "{}" }, Call { id: "c2", name: "go", arguments: "" }];
        assert_eq!(stored("", calls).told(), "look {}\ngo ");
    }
}
