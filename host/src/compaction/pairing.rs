//! Which call a tool result belongs to: the second stage of the projection.
//!
//! It works per occurrence, since ids repeat in long sessions. A result that follows its call, with only results between,
//! stays where it is. A result that stands elsewhere is moved only when exactly one unanswered call can own it. Whatever else
//! is left over is dropped, and a call that the conversation went on without gets an error result of the host.

use super::view::PromptItem;
use crate::model::TokenCounter;
use crate::transcript::{Content, EntryId, Message, Role};
use std::collections::HashMap;
use std::sync::Arc;

/// Where a result goes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// It stays: a row of its own.
    Here,
    /// Behind the row with this index.
    Behind(usize),
    /// Nowhere.
    Dropped,
}

/// Calls without a result.
#[derive(Debug, Default, Clone)]
pub(super) struct Pairing {
    /// The last assistant row with calls, while only results came after it.
    current: Option<(usize, Vec<String>)>,
    /// Rows with an unanswered call that the conversation went on without, by call id.
    dangling: HashMap<String, Vec<usize>>,
}

impl Pairing {
    /// An assistant row with calls was added.
    pub(super) fn calls(&mut self, index: usize, message: &Message) {
        let ids: Vec<String> = message.tool_calls.iter().map(|call| call.id.clone()).collect();
        self.current = (!ids.is_empty()).then_some((index, ids));
    }

    /// Places a result.
    pub(super) fn place(&mut self, call: Option<&str>) -> Place {
        let Some(call) = call else { return Place::Dropped };
        if let Some((_, waiting)) = &mut self.current
            && let Some(at) = waiting.iter().position(|id| id == call)
        {
            waiting.remove(at);
            return Place::Here;
        }
        match self.dangling.get(call).map(Vec::as_slice) {
            Some(&[index]) => {
                self.dangling.remove(call);
                Place::Behind(index)
            }
            _ => Place::Dropped,
        }
    }

    /// The conversation goes on with something that is no result. Gives the row whose calls are now dangling, with their ids.
    pub(super) fn close(&mut self) -> Option<(usize, Vec<String>)> {
        let (index, left) = self.current.take()?;
        for id in &left {
            self.dangling.entry(id.clone()).or_default().push(index);
        }
        (!left.is_empty()).then_some((index, left))
    }

    /// A call is unanswered again, since the result that was moved to it is gone.
    pub(super) fn reopen(&mut self, index: usize, call: &str) {
        self.dangling.entry(call.to_owned()).or_default().push(index);
    }

    /// Forgets every row from `from` on. Only for a `from` that starts a turn: no call is open across it.
    pub(super) fn truncate(&mut self, from: usize) {
        self.current = None;
        self.dangling.retain(|_, rows| {
            rows.retain(|&row| row < from);
            !rows.is_empty()
        });
    }

    /// The rows below `from` are gone, all others move down by `by`.
    pub(super) fn shift(&mut self, from: usize, by: usize) {
        if let Some((index, _)) = &mut self.current {
            *index = index.saturating_sub(by);
        }
        self.dangling.retain(|_, rows| {
            rows.retain(|&row| row >= from);
            rows.iter_mut().for_each(|row| *row -= by);
            !rows.is_empty()
        });
    }
}

/// The error result for a call that has none.
pub(super) fn missing_result(call: &str) -> Message {
    Message {
        role: Role::Tool,
        content: Content::Text("error: this call was interrupted and has no result".into()),
        tool_calls: Vec::new(),
        tool_call_id: Some(call.to_owned()),
        name: None,
        extra: serde_json::Map::new(),
    }
}

/// Id that marks a result as the host's own.
pub(super) const NO_SOURCE: EntryId = 0;

/// Gives every call of a finished prompt that has no result an error result, so that a model can be called although a client
/// came back with only some of the results. For the turn in progress, which the projection leaves open; the rest is whole.
pub fn close_open_calls(items: &mut Vec<PromptItem>, counter: &TokenCounter) {
    let Some(at) = items.iter().rposition(|item| item.message.role != Role::Tool) else { return };
    let answered: Vec<&str> = items[at + 1..].iter().filter_map(|item| item.message.tool_call_id.as_deref()).collect();
    let open = items[at].message.tool_calls.iter().filter(|call| !answered.contains(&call.id.as_str()));
    let made: Vec<PromptItem> = open
        .map(|call| {
            let message = missing_result(&call.id);
            let tokens = u64::from(counter.message(&message));
            PromptItem { id: None, message: Arc::new(message), tokens, current_turn: items[at].current_turn }
        })
        .collect();
    items.extend(made);
}
