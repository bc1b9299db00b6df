//! What is lent to an engine for the duration of one call: it owns the bytes and gives out borrowed wire views of them.
#![allow(
    unsafe_code,
    reason = "wire views hold raw pointers, which are Send only because of what this type keeps alive"
)]

use crate::slot::facts::{EntryRef, View};
use crate::transcript::{Content, Message};
use engine_abi::wire::{
    Bytes, EntryHeadV1, EntryList, EntryV1, MemoryHitV1, MessageV1, SessionTargetV1, StorePairV1, Str, ToolCallV1,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Owner of lent bytes. Nothing in it is changed or moved on the heap until the whole is dropped or cleared.
#[derive(Default)]
pub(crate) struct Arena {
    kept: Vec<Kept>,
    weight: usize,
    /// Bodies of the view that had to be made, by index.
    made: HashMap<usize, EntryV1>,
}

enum Kept {
    Text(String),
    Bytes(Vec<u8>),
    Message(#[expect(dead_code, reason = "kept alive for what was lent of it")] Arc<Message>),
    Texts(Vec<Str>),
    Calls(Vec<ToolCallV1>),
    Entries(Vec<EntryV1>),
    Pairs(Vec<StorePairV1>),
    Hits(Vec<MemoryHitV1>),
    Target(Vec<SessionTargetV1>),
}

impl Kept {
    /// Size in bytes, for the cap of a call.
    fn weight(&self) -> usize {
        match self {
            Kept::Text(text) => text.len(),
            Kept::Bytes(bytes) => bytes.len(),
            // Shared with the projection or the store's page.
            Kept::Message(_) => 0,
            Kept::Texts(list) => size_of_val(list.as_slice()),
            Kept::Calls(list) => size_of_val(list.as_slice()),
            Kept::Entries(list) => size_of_val(list.as_slice()),
            Kept::Pairs(list) => size_of_val(list.as_slice()),
            Kept::Hits(list) => size_of_val(list.as_slice()),
            Kept::Target(list) => size_of_val(list.as_slice()),
        }
    }
}

// SAFETY: the raw pointers in kept wire values point into heap blocks that the same arena (or a message kept in it, or in the
// view beside it in the frame) owns, or to nothing; they move with it. Shared access to the arena is through a lock only.
unsafe impl Send for Arena {}

impl Arena {
    fn keep(&mut self, kept: Kept) {
        self.weight += kept.weight();
        self.kept.push(kept);
    }

    /// Keeps a text.
    pub(crate) fn text(&mut self, text: String) -> Str {
        let lent = Str::new(&text);
        self.keep(Kept::Text(text));
        lent
    }

    /// Keeps a text, where there is one.
    pub(crate) fn opt(&mut self, text: Option<String>) -> Str {
        text.map_or(Str::NONE, |text| self.text(text))
    }

    /// Keeps bytes.
    pub(crate) fn bytes(&mut self, bytes: Vec<u8>) -> Bytes {
        let lent = Bytes::new(&bytes);
        self.keep(Kept::Bytes(bytes));
        lent
    }

    /// Keeps a list of texts.
    pub(crate) fn texts(&mut self, texts: Vec<String>) -> (*const Str, usize) {
        let list: Vec<Str> = texts.into_iter().map(|text| self.text(text)).collect();
        let lent = (list.as_ptr(), list.len());
        self.keep(Kept::Texts(list));
        lent
    }

    /// Lends a message that this arena keeps alive.
    pub(crate) fn message(&mut self, message: &Arc<Message>) -> MessageV1 {
        self.keep(Kept::Message(Arc::clone(message)));
        self.borrowed(message)
    }

    /// Lends a message that someone else keeps alive as long as this arena: only what must be made for it is kept here.
    pub(crate) fn borrowed(&mut self, message: &Message) -> MessageV1 {
        let text = match &message.content {
            Content::Null => Str::new(""),
            Content::Text(text) => Str::new(text),
            Content::Parts(_) => self.text(message.text().into_owned()),
        };
        let (tool_calls, tool_calls_len) = if message.tool_calls.is_empty() {
            (std::ptr::null(), 0)
        } else {
            let calls: Vec<ToolCallV1> = message
                .tool_calls
                .iter()
                .map(|call| ToolCallV1 {
                    id: Str::new(&call.id),
                    name: Str::new(&call.function.name),
                    arguments: Str::new(&call.function.arguments),
                })
                .collect();
            let lent = (calls.as_ptr(), calls.len());
            self.keep(Kept::Calls(calls));
            lent
        };
        MessageV1 {
            role: message.role.code(),
            reserved: 0,
            text,
            tool_call_id: Str::opt(message.tool_call_id.as_deref()),
            name: Str::opt(message.name.as_deref()),
            tool_calls,
            tool_calls_len,
        }
    }

    /// Lends the body of entry number `index` of a view that lives as long as this arena. What had to be made is made once.
    pub(crate) fn body(&mut self, view: &View, len: usize, index: usize) -> Option<EntryV1> {
        if let Some(made) = self.made.get(&index) {
            return Some(*made);
        }
        if index >= len {
            return None;
        }
        let (head, message) = (*view.heads.get(index)?, view.bodies.get(index)?);
        let plain = message.tool_calls.is_empty() && !matches!(message.content, Content::Parts(_));
        let entry = EntryV1 { head, message: self.borrowed(message) };
        if !plain {
            self.made.insert(index, entry);
        }
        Some(entry)
    }

    /// What was lent of entry number `index` before.
    pub(crate) fn made(&self, index: usize) -> Option<EntryV1> {
        self.made.get(&index).copied()
    }

    /// Lends a body that no view holds, and keeps it alive.
    pub(crate) fn lend_body(&mut self, index: usize, head: EntryHeadV1, message: &Arc<Message>) -> EntryV1 {
        let entry = EntryV1 { head, message: self.message(message) };
        // Two threads may have asked for it at once; the first answer stays the one.
        *self.made.entry(index).or_insert(entry)
    }

    /// Lends entries and keeps their bodies alive.
    pub(crate) fn entries(&mut self, entries: &[EntryRef]) -> EntryList {
        let list: Vec<EntryV1> =
            entries.iter().map(|entry| EntryV1 { head: entry.head, message: self.message(&entry.message) }).collect();
        let lent = EntryList { ptr: list.as_ptr(), len: list.len() };
        self.keep(Kept::Entries(list));
        lent
    }

    /// Keeps pairs of an engine's store.
    pub(crate) fn pairs(&mut self, pairs: Vec<(Vec<u8>, Vec<u8>)>) -> (*const StorePairV1, usize) {
        let list: Vec<StorePairV1> = pairs
            .into_iter()
            .map(|(key, value)| StorePairV1 { key: self.bytes(key), value: self.bytes(value) })
            .collect();
        let lent = (list.as_ptr(), list.len());
        self.keep(Kept::Pairs(list));
        lent
    }

    /// Keeps hits of a memory search.
    pub(crate) fn hits(&mut self, hits: Vec<crate::slot::services::MemoryHit>) -> (*const MemoryHitV1, usize) {
        let list: Vec<MemoryHitV1> = hits
            .into_iter()
            .map(|hit| MemoryHitV1 {
                id: self.text(hit.id),
                text: self.text(hit.text),
                score: hit.score,
                time_ms: hit.time_ms.unwrap_or(-1),
            })
            .collect();
        let lent = (list.as_ptr(), list.len());
        self.keep(Kept::Hits(list));
        lent
    }

    /// Keeps a session target.
    pub(crate) fn target(&mut self, target: SessionTargetV1) -> *const SessionTargetV1 {
        let list = vec![target];
        let lent = list.as_ptr();
        self.keep(Kept::Target(list));
        lent
    }

    /// Bytes that it keeps alive.
    pub(crate) fn weight(&self) -> usize {
        self.weight
    }

    /// Lets go of everything that was lent.
    pub(crate) fn clear(&mut self) {
        self.kept.clear();
        self.weight = 0;
        self.made.clear();
    }
}
