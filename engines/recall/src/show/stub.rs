//! Entries that are shown shorter: results of tools as one line that says how to see the whole, long texts by their beginning.

use super::count::Counter;
use super::quote::{QUOTED, one_line};
use super::state::{Said, Stub};
use crate::session::Session;
use engine_abi::wire::role;
use engine_abi::{Head, History, Result, ToolCall};
use std::ops::Range;

/// Results of at most this many tokens stay as they are: a stub would not be shorter.
const SHORT_RESULT: u32 = 64;
/// Arguments of a call beyond this many tokens are left out of a stub.
const LONG_ARGUMENTS: u64 = 256;
/// With how many results of the same size a result is compared.
const COMPARED: usize = 4;
/// Letters of a result's beginning that its stub quotes.
const QUOTED_RESULT: usize = 96;

/// Makes stubs of a call's history.
#[derive(Clone, Copy)]
pub(crate) struct Stubber<'a> {
    /// For the numbers that the model is shown.
    pub session: &'a Session,
    /// The history.
    pub history: History<'a>,
    /// The model has the tool that shows an entry in full.
    pub expands: bool,
    /// For what a stub costs.
    pub counter: Counter<'a>,
}

impl Stubber<'_> {
    /// A stub for a message of the model with calls and their results; `None` where it would not be shorter or cannot be whole.
    /// `below` are places of later results that are shown as they are: a stub says when one of them is the same.
    pub(crate) fn results(&self, at: Range<usize>, below: &[usize]) -> Result<Option<Stub>> {
        let heads = self.history.heads();
        let (Some(first), Some(last)) = (heads.get(at.start), heads.get(at.end - 1)) else { return Ok(None) };
        let asking = self.history.entry(at.start)?;
        let mut calls = Vec::with_capacity(asking.tool_calls().len());
        let mut open: Vec<&ToolCall> = Vec::with_capacity(asking.tool_calls().len());
        for call in asking.tool_calls() {
            let mut arguments = call.arguments().to_owned();
            let tokens = self.counter.text(&arguments)?;
            if tokens > LONG_ARGUMENTS {
                arguments = self.left_out(tokens, first.id);
            }
            calls.push([call.id().to_owned(), call.name().to_owned(), arguments]);
            open.push(call);
        }
        let asked = Said { role: role::ASSISTANT, text: asking.text().to_owned(), call_id: None, calls };
        let mut messages = vec![asked];
        for (place, head) in heads.iter().enumerate().take(at.end).skip(at.start + 1) {
            let result = self.history.entry(place)?;
            let id = result.tool_call_id().unwrap_or_default();
            let Some(call) = open.iter().position(|call| call.id() == id) else { return Ok(None) };
            let call = open.swap_remove(call);
            let text = if head.tokens <= SHORT_RESULT {
                result.text().to_owned()
            } else {
                self.result(call.name(), head, result.text(), self.same_as(head, result.text(), below)?)
            };
            messages.push(Said { role: role::TOOL, text, call_id: Some(id.to_owned()), calls: Vec::new() });
        }
        if !open.is_empty() || messages.len() < 2 {
            return Ok(None);
        }
        let before: u64 = heads[at.clone()].iter().map(|head| u64::from(head.tokens)).sum();
        self.stub(last, at.len(), messages).map(|stub| Some(stub).filter(|stub| stub.tokens < before))
    }

    /// A stub of at most `most` tokens for a message with a long text; `None` where that is too little to say anything.
    pub(crate) fn text(&self, place: usize, most: u64) -> Result<Option<Stub>> {
        let heads = self.history.heads();
        let Some(head) = heads.get(place).filter(|head| matches!(head.role, role::USER | role::ASSISTANT)) else {
            return Ok(None);
        };
        let entry = self.history.entry(place)?;
        if !entry.tool_calls().is_empty() {
            return Ok(None);
        }
        let note = format!("\n[the rest is left out here: {} tokens in all{}]", head.tokens, self.pointer(head.id));
        // A token has about four bytes of text; what was guessed too long is halved.
        let mut bytes = usize::try_from(most.saturating_mul(4)).unwrap_or(usize::MAX);
        for _ in 0..4 {
            let text = format!("{}…{note}", beginning(entry.text(), bytes));
            let said = Said { role: head.role, text, call_id: None, calls: Vec::new() };
            let stub = self.stub(head, 1, vec![said])?;
            if stub.tokens <= most {
                return Ok(Some(stub));
            }
            bytes /= 2;
        }
        Ok(None)
    }

    fn stub(&self, last: &Head, entries: usize, messages: Vec<Said>) -> Result<Stub> {
        let mut tokens = 0;
        for said in &messages {
            tokens += self.counter.said(said)?;
        }
        Ok(Stub { last: last.id, entries: u32::try_from(entries).unwrap_or(u32::MAX), messages, tokens })
    }

    /// What stands in the place of a result.
    fn result(&self, tool: &str, head: &Head, text: &str, same_as: Option<u32>) -> String {
        let tool = one_line(tool, 64);
        let pointer = self.pointer(head.id);
        if let Some(number) = same_as {
            return format!("[result of {tool}, left out here: it is the same as entry {number} below{pointer}]");
        }
        let quoted = one_line(beginning(text, QUOTED_RESULT * 8), QUOTED_RESULT);
        format!("[result of {tool}, {} tokens, left out here{pointer}; it begins:]\n{QUOTED}{quoted}", head.tokens)
    }

    /// The number of a result among those at the places `below` that has the same text.
    fn same_as(&self, head: &Head, text: &str, below: &[usize]) -> Result<Option<u32>> {
        let heads = self.history.heads();
        let like = |at: &&usize| heads[**at].text_bytes == head.text_bytes && heads[**at].tokens == head.tokens;
        for at in below.iter().filter(like).take(COMPARED) {
            if self.history.entry(*at)?.text() == text {
                return Ok(self.number(heads[*at].id));
            }
        }
        Ok(None)
    }

    /// What stands in the place of long arguments: JSON, since some providers read it.
    fn left_out(&self, tokens: u64, asking: u64) -> String {
        let note = format!("arguments of {tokens} tokens, left out here{}", self.pointer(asking));
        serde_json::json!({ "recall": note }).to_string()
    }

    fn pointer(&self, id: u64) -> String {
        let number = self.number(id).filter(|_| self.expands);
        number.map_or_else(String::new, |number| format!("; recall_expand {number} shows it"))
    }

    /// The number by which the model asks for an entry.
    pub(crate) fn number(&self, id: u64) -> Option<u32> {
        self.session.ordinal(id).map(|ordinal| ordinal + 1)
    }
}

/// The first `bytes` of a text, cut at a letter.
fn beginning(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}
