//! The index over the passages of a session: postings for words, a vector each, and what the finder needs to know of an entry.
//!
//! A passage is an entry, or a part of one that is long. Entries are added in the order of their ordinals and never removed;
//! which of them count is asked at each search, since a session may have left branches behind.

pub(crate) mod postings;
mod signs;

use crate::text::{passages, words};
use crate::vectors::{self, Vector};
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
    /// What the passages are about, in order.
    pub vectors: Vec<Vector>,
    /// By passage: one over the length of its [`window`].
    pub windows: Vec<f32>,
    /// The words of the passages.
    pub postings: Postings,
    /// Words of all passages together.
    pub words: u64,
    names: Vec<Name>,
}

/// What a passage's neighbours count in its window: a vector plus this much of those before and after it.
pub(crate) const NEIGHBOUR: f32 = 0.5;

/// One over the length of a window: so many neighbours, the sum of their cosines to the middle, and the cosine between them.
fn window(neighbours: f32, to_middle: f32, between: f32) -> f32 {
    let square = 1.0 + NEIGHBOUR * NEIGHBOUR * (neighbours + 2.0 * between) + 2.0 * NEIGHBOUR * to_middle;
    1.0 / square.max(MIN_SQUARE).sqrt()
}

/// Vectors that point away from each other leave no window worth dividing by.
const MIN_SQUARE: f32 = 0.1;

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
            self.add_vector(vectors::embed(text).unwrap_or(Vector::NONE));
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

    /// Adds the vector of the newest passage, which completes the window of the one before.
    fn add_vector(&mut self, vector: Vector) {
        let cosine = |a: Option<&Vector>, b: &Vector| a.map_or(0.0, |a| vectors::dot(a, b));
        let [before, earlier] = [1, 2].map(|back| self.vectors.len().checked_sub(back).map(|at| self.vectors[at]));
        let near = cosine(before.as_ref(), &vector);
        if let Some(before) = before {
            let backed = cosine(earlier.as_ref(), &before);
            let across = cosine(earlier.as_ref(), &vector);
            let ends = if earlier.is_some() { 2.0 } else { 1.0 };
            *self.windows.last_mut().unwrap_or(&mut 0.0) = window(ends, backed + near, across);
        }
        self.windows.push(window(f32::from(u8::from(before.is_some())), near, 0.0));
        self.vectors.push(vector);
    }

    /// The name behind a number of [`Said::name`].
    pub(crate) fn name(&self, number: u16) -> Option<&str> {
        Some(&*self.names.get(usize::from(number).checked_sub(1)?)?.written)
    }

    /// Numbers of the names, each with the hashes of its words.
    pub(crate) fn names(&self) -> impl Iterator<Item = (u16, &[u64])> {
        (1..).zip(self.names.iter().map(|name| &*name.keys))
    }

    /// Bytes that are held.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Said>()
            + self.passages.capacity() * size_of::<Passage>()
            + self.vectors.capacity() * size_of::<Vector>()
            + self.windows.capacity() * size_of::<f32>()
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
