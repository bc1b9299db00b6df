//! The index over the passages of a session: postings for words, a vector each, and what the finder needs to know of an entry.
//!
//! A passage is an entry, or a part of one that is long. Entries are added in the order of their ordinals and never removed;
//! which of them count is asked at each search, since a session may have left branches behind.

pub(crate) mod postings;
mod signs;

use crate::text::{passages, words};
use engine_abi::wire::role;
use postings::{PASSAGES_MAX, Postings};
pub(crate) use signs::Signs;

/// Number of an entry in its session, from 0, in the order of arrival. The model is shown this number plus one.
pub(crate) type Ordinal = u32;

/// An entry as it is indexed.
pub(crate) struct NewEntry<'a> {
    /// Its number; greater than all before.
    pub ordinal: Ordinal,
    /// A code of [`engine_abi::wire::role`].
    pub role: u32,
    /// When it was said, in ms since the epoch.
    pub time_ms: i64,
    /// Tokens of the whole message as the host counts them.
    pub tokens: u32,
    /// A turn starts here.
    pub starts_turn: bool,
    /// Name of who said it, where participants have names; of the tool for tool results.
    pub name: Option<&'a str>,
    /// Its text: of an assistant's tool calls, names and arguments follow the words.
    pub text: &'a str,
}

/// What is known of an entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said {
    /// Its number.
    pub ordinal: Ordinal,
    /// A code of [`engine_abi::wire::role`].
    pub role: u8,
    /// Place of its name in [`Index::name`], plus one; 0 when it has none.
    pub name: u16,
    /// Its first passage.
    pub passage: u32,
    /// When it was said, in ms since the epoch.
    pub time_ms: i64,
    /// Tokens of the whole message.
    pub tokens: u32,
    /// Bytes of its text.
    pub bytes: u32,
}

/// What is known of a passage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passage {
    /// Place of its entry in [`Index::entries`].
    pub entry: u32,
    /// Bytes of the entry's text.
    pub start: u32,
    pub end: u32,
    /// Words, for the length norm of BM25.
    pub words: u16,
    /// What kind of things stand in it.
    pub signs: Signs,
    /// The same for passages of the same words in the same order, and hardly ever for others.
    pub likeness: u32,
}

/// The index of one session.
#[derive(Default)]
pub(crate) struct Index {
    /// What is known of the entries, in order.
    pub entries: Vec<Said>,
    /// What is known of the passages, in order.
    pub passages: Vec<Passage>,
    /// The words of the passages.
    pub postings: Postings,
    /// Words of all passages together.
    pub words: u64,
    names: Vec<Name>,
}

/// Name of a participant or a tool.
struct Name {
    written: Box<str>,
    /// The hashes of its words.
    keys: Box<[u64]>,
    /// It is a participant's, not a tool's.
    speaks: bool,
}

/// Names of a session that are told apart.
const NAMES_MAX: usize = 1_000;

impl Index {
    /// Adds an entry.
    pub(crate) fn add(&mut self, entry: &NewEntry<'_>) {
        let first = self.passages.len() as u32;
        let at = self.entries.len() as u32;
        passages::split(entry.text, |range| {
            let passage = self.passages.len() as u32;
            if passage >= PASSAGES_MAX {
                return;
            }
            let text = &entry.text[range.clone()];
            let mut count = 0;
            let mut likeness = 0u64;
            let mut signs = Signs::of(text);
            words::each_word(text, |word| {
                // A pair repeats its characters, and an identifier its parts: they do not make the text longer.
                count += u32::from(!matches!(word.kind, words::Kind::Pair | words::Kind::Part));
                likeness = (likeness.rotate_left(5) ^ word.key).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                signs.note(&word);
                self.postings.add(word.key, passage);
            });
            self.words += u64::from(count);
            self.passages.push(Passage {
                entry: at,
                start: range.start as u32,
                end: range.end as u32,
                words: count.min(u32::from(u16::MAX)) as u16,
                signs,
                likeness: (likeness >> 32) as u32,
            });
        });
        let name = entry.name.map_or(0, |name| self.name_of(name, entry.role != role::TOOL));
        self.entries.push(Said {
            ordinal: entry.ordinal,
            role: entry.role.min(u32::from(u8::MAX)) as u8,
            name,
            passage: first,
            time_ms: entry.time_ms,
            tokens: entry.tokens,
            bytes: entry.text.len() as u32,
        });
    }

    /// The name behind a number of [`Said::name`].
    pub(crate) fn name(&self, number: u16) -> Option<&str> {
        Some(&*self.names.get(usize::from(number).checked_sub(1)?)?.written)
    }

    /// Numbers of the names, each with the hashes of its words.
    pub(crate) fn names(&self) -> impl Iterator<Item = (u16, &[u64])> {
        (1..).zip(self.names.iter().map(|name| &*name.keys))
    }

    /// The place after the last passage of an entry.
    pub(crate) fn passages_end(&self, entry: u32) -> u32 {
        self.entries.get(entry as usize + 1).map_or(self.passages.len() as u32, |next| next.passage)
    }

    /// Bytes that are held.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Said>()
            + self.passages.capacity() * size_of::<Passage>()
            + self.postings.bytes()
            + self.names.iter().map(|name| size_of::<Name>() + name.written.len() + name.keys.len() * 8).sum::<usize>()
    }

    /// The number of a name that was used.
    pub(crate) fn number_of(&self, name: &str) -> Option<u16> {
        Some(self.names.iter().position(|known| &*known.written == name)? as u16 + 1)
    }

    /// The name is a participant's, not a tool's.
    pub(crate) fn speaks(&self, number: u16) -> bool {
        usize::from(number).checked_sub(1).and_then(|at| self.names.get(at)).is_some_and(|name| name.speaks)
    }

    /// Participants have names.
    pub(crate) fn has_speakers(&self) -> bool {
        self.names.iter().any(|name| name.speaks)
    }

    /// The number of a name; it gets one when it is new.
    fn name_of(&mut self, name: &str, speaks: bool) -> u16 {
        if let Some(number) = self.number_of(name) {
            return number;
        }
        if name.is_empty() || self.names.len() >= NAMES_MAX {
            return 0;
        }
        let mut keys = Vec::new();
        words::each_word(name, |word| keys.push(word.key));
        self.names.push(Name { written: name.into(), keys: keys.into(), speaks });
        self.names.len() as u16
    }
}
