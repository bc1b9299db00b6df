//! The projected history as engines and models see it.

use crate::transcript::{EntryId, Message, Role};
use engine_abi::wire::{EntryHeadV1, entry_flags};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The projected history: flat rows for choosing, bodies for reading.
///
/// `heads` and `bodies` have the same length, and `heads[i].id` rises strictly. A snapshot that somebody holds never changes:
/// the projection works on its own copy as soon as it is shared. So let go of it before the next sync, or that sync copies the
/// rows (40 bytes each, no text).
///
/// A tool call whose result is missing, or stands elsewhere in the transcript, has that result in `attached`: it has no row of
/// its own, since no id would be free between its call and the next entry. Whoever sends entry `i` sends `attached[i]` right
/// behind it, and [`View::sent`] does so. Thus a span of ids can never tear such a pair.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// One row for each entry, oldest first.
    pub heads: Vec<EntryHeadV1>,
    /// The messages of the rows.
    pub bodies: Vec<Arc<Message>>,
    /// Results that stand right behind an assistant entry, by its index. Their tokens are part of `heads[i].tokens`.
    pub attached: BTreeMap<usize, Vec<Attached>>,
}

/// A tool result without a row of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct Attached {
    /// The result.
    pub message: Arc<Message>,
    /// What it costs as sent.
    pub tokens: u32,
    /// Entry that it was moved from, or 0 when the host made it because the transcript has none.
    pub source: EntryId,
}

impl Attached {
    /// True when the host made it.
    pub fn synthetic(&self) -> bool {
        self.source == 0
    }
}

/// One message as it is sent.
#[derive(Debug, Clone, Copy)]
pub struct Sent<'a> {
    /// Index of the row that it belongs to.
    pub index: usize,
    /// Id of the entry; `None` for an attached result.
    pub id: Option<EntryId>,
    /// The message.
    pub message: &'a Arc<Message>,
    /// What it costs alone.
    pub tokens: u32,
}

/// A message on its way into the prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptItem {
    /// Entry that it is, or `None` for messages that the host or an engine made.
    pub id: Option<EntryId>,
    /// The message.
    pub message: Arc<Message>,
    /// What it costs as sent, framing included.
    pub tokens: u64,
    /// True for the messages of the turn that is being answered.
    pub current_turn: bool,
}

impl View {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// True when there is no row.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// Index of the first entry with this id or a greater one; `len()` when there is none.
    pub fn index_from(&self, id: EntryId) -> usize {
        self.heads.partition_point(|head| head.id < id)
    }

    /// Leaves out the rows from `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.heads.truncate(len);
        self.bodies.truncate(len);
        self.attached.split_off(&len);
    }

    /// Index of exactly this entry.
    pub fn index_of(&self, id: EntryId) -> Option<usize> {
        self.heads.binary_search_by_key(&id, |head| head.id).ok()
    }

    /// Tokens of a range of rows as sent. Out of range ends are cut.
    pub fn tokens(&self, range: Range<usize>) -> u64 {
        let end = range.end.min(self.heads.len());
        let start = range.start.min(end);
        self.heads[start..end].iter().map(|head| u64::from(head.tokens)).sum()
    }

    /// The messages of a range of rows in the order in which they are sent, attached results included.
    pub fn sent(&self, range: Range<usize>) -> impl Iterator<Item = Sent<'_>> {
        let end = range.end.min(self.heads.len());
        let start = range.start.min(end);
        (start..end).flat_map(move |index| {
            let attached = self.attached_at(index);
            let beside: u32 = attached.iter().map(|result| result.tokens).sum();
            let head = &self.heads[index];
            let own = Sent {
                index,
                id: Some(head.id),
                message: &self.bodies[index],
                tokens: head.tokens.saturating_sub(beside),
            };
            let behind = attached.iter().map(move |result| Sent {
                index,
                id: None,
                message: &result.message,
                tokens: result.tokens,
            });
            std::iter::once(own).chain(behind)
        })
    }

    /// The same as prompt items. Rows from `current_from` on belong to the turn that is being answered.
    pub fn items(&self, range: Range<usize>, current_from: usize) -> Vec<PromptItem> {
        self.sent(range)
            .map(|sent| PromptItem {
                id: sent.id,
                message: Arc::clone(sent.message),
                tokens: u64::from(sent.tokens),
                current_turn: sent.index >= current_from,
            })
            .collect()
    }

    /// Results attached to a row; mostly empty.
    pub fn attached_at(&self, index: usize) -> &[Attached] {
        self.attached.get(&index).map_or(&[], Vec::as_slice)
    }

    /// True when the row is the summary of a compaction.
    pub fn is_summary(&self, index: usize) -> bool {
        self.heads.get(index).is_some_and(|head| head.flags & entry_flags::SUMMARY != 0)
    }

    /// Index where the turn that `index` belongs to starts; 0 when no turn starts before it.
    pub fn turn_of(&self, index: usize) -> usize {
        let mut at = index.min(self.heads.len().saturating_sub(1));
        while at > 0 && self.heads[at].flags & entry_flags::TURN_START == 0 {
            at -= 1;
        }
        at
    }

    /// Adds a row.
    pub(super) fn push(&mut self, head: EntryHeadV1, body: Arc<Message>) {
        debug_assert!(self.heads.last().is_none_or(|last| last.id < head.id), "ids rise along a branch");
        self.heads.push(head);
        self.bodies.push(body);
    }

    /// Attaches a result behind row `index`, in the place of the host's own for the same call when there is one.
    /// Gives the change of the row's tokens.
    pub(super) fn attach(&mut self, index: usize, result: Attached) -> i64 {
        let Some(head) = self.heads.get_mut(index) else { return 0 };
        let list = self.attached.entry(index).or_default();
        let call = &result.message.tool_call_id;
        let gained = i64::from(result.tokens);
        let lost = match list
            .iter_mut()
            .find(|old| old.synthetic() != result.synthetic() && &old.message.tool_call_id == call)
        {
            Some(old) => {
                let lost = i64::from(old.tokens);
                *old = result;
                lost
            }
            None => {
                list.push(result);
                0
            }
        };
        if list.iter().any(Attached::synthetic) {
            head.flags |= entry_flags::SYNTHETIC;
        } else {
            head.flags &= !entry_flags::SYNTHETIC;
        }
        head.tokens = clamp(i64::from(head.tokens) + gained - lost);
        gained - lost
    }
}

/// True when the sequence keeps the pairing rule of every provider: each tool message answers an open call of the assistant
/// message before it, with only tool messages between, and no call stays open behind its results (`open_tail`: a last
/// assistant message whose calls are not answered yet is allowed).
pub fn pairs_whole<'a>(messages: impl IntoIterator<Item = &'a Message>, open_tail: bool) -> bool {
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        if message.role == Role::Tool {
            let Some(at) = open.iter().position(|id| message.tool_call_id.as_deref() == Some(id)) else { return false };
            open.swap_remove(at);
        } else {
            if !open.is_empty() {
                return false;
            }
            open.extend(message.tool_calls.iter().map(|call| call.id.as_str()));
        }
    }
    open_tail || open.is_empty()
}

/// A token count that cannot leave its type.
pub(super) fn clamp(tokens: i64) -> u32 {
    u32::try_from(tokens.max(0)).unwrap_or(u32::MAX)
}
