//! Postings in memory: for each word, the passages that it stands in, in order.
//!
//! All lists share one arena. A list is a chain of blocks that double in size, so adding never moves what is there, and what lies
//! idle is at most as much again as what is used.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Number of a word.
pub(crate) type Term = u32;

/// Bits of a posting that hold how often the word stands there.
const COUNT_BITS: u32 = 5;

/// More occurrences than this count as this many.
const COUNT_MAX: u32 = (1 << COUNT_BITS) - 1;

/// Most passages that a session can have.
pub(crate) const PASSAGES_MAX: u32 = 1 << (32 - COUNT_BITS);

/// Postings of the first block of a list, and of the largest.
const BLOCK_MIN: u32 = 1;
const BLOCK_MAX: u32 = 128;

/// A hasher for what is a hash already.
#[derive(Default)]
pub(crate) struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// A map by hashes of words.
pub(crate) type ByHash<V> = HashMap<u64, V, BuildHasherDefault<Hashed>>;

/// A chain of blocks. Each block ends with the place of the next one.
#[derive(Clone, Copy)]
struct List {
    /// Passages that the word stands in.
    length: u32,
    /// Where the first block starts.
    first: u32,
    /// Where the last posting is.
    last: u32,
    /// Postings of the last block, and those of them that are still free.
    size: u8,
    free: u8,
}

/// The lists of a session.
#[derive(Default)]
pub(crate) struct Postings {
    terms: ByHash<Term>,
    lists: Vec<List>,
    arena: Vec<u32>,
}

impl Postings {
    /// Notes that a word stands in `passage`, which is none before the last one that was noted.
    pub(crate) fn add(&mut self, key: u64, passage: u32) {
        let next = u32::try_from(self.lists.len()).unwrap_or(u32::MAX);
        let term = *self.terms.entry(key).or_insert(next);
        let posting = passage << COUNT_BITS | 1;
        let Some(list) = self.lists.get_mut(term as usize) else {
            let first = block(&mut self.arena, BLOCK_MIN);
            self.arena[first as usize] = posting;
            self.lists.push(List { length: 1, first, last: first, size: BLOCK_MIN as u8, free: BLOCK_MIN as u8 - 1 });
            return;
        };
        let last = &mut self.arena[list.last as usize];
        if *last >> COUNT_BITS == passage {
            *last += u32::from(*last & COUNT_MAX < COUNT_MAX);
            return;
        }
        list.length += 1;
        if list.free > 0 {
            list.free -= 1;
            list.last += 1;
        } else {
            let link = list.last as usize + 1;
            list.size = (u32::from(list.size) * 2).min(BLOCK_MAX) as u8;
            list.free = list.size - 1;
            list.last = block(&mut self.arena, u32::from(list.size));
            self.arena[link] = list.last;
        }
        self.arena[list.last as usize] = posting;
    }

    /// The number of a word that stands anywhere.
    pub(crate) fn term(&self, key: u64) -> Option<Term> {
        self.terms.get(&key).copied()
    }

    /// Passages that the word stands in.
    pub(crate) fn length(&self, term: Term) -> u32 {
        self.lists.get(term as usize).map_or(0, |list| list.length)
    }

    /// Gives each passage that the word stands in, with how often, in order.
    pub(crate) fn each(&self, term: Term, mut each: impl FnMut(u32, u32)) {
        let Some(list) = self.lists.get(term as usize) else { return };
        let (mut at, mut left, mut size) = (list.first as usize, list.length, BLOCK_MIN);
        while left > 0 {
            let taken = size.min(left) as usize;
            for posting in &self.arena[at..at + taken] {
                each(posting >> COUNT_BITS, posting & COUNT_MAX);
            }
            left -= taken as u32;
            if left > 0 {
                at = self.arena[at + taken] as usize;
                size = (size * 2).min(BLOCK_MAX);
            }
        }
    }

    /// Bytes that are held.
    pub(crate) fn bytes(&self) -> usize {
        // A bucket of the map holds a key, a value and a byte of control.
        self.terms.capacity() * 8 / 7 * 17 + self.lists.capacity() * size_of::<List>() + self.arena.capacity() * 4
    }
}

/// A new block for this many postings and the place of the next block.
fn block(arena: &mut Vec<u32>, size: u32) -> u32 {
    let start = arena.len();
    arena.resize(start + size as usize + 1, 0);
    u32::try_from(start).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_give_back_what_was_noted() {
        let mut postings = Postings::default();
        let mut noted = Vec::new();
        for passage in 0..3_000 {
            for _ in 0..passage % 3 {
                postings.add(7, passage);
            }
            if passage % 3 > 0 {
                noted.push((passage, passage % 3));
            }
            postings.add(u64::from(passage) + 100, passage);
        }
        let mut found = Vec::new();
        let term = postings.term(7).unwrap();
        postings.each(term, |passage, count| found.push((passage, count)));
        assert_eq!(found, noted);
        assert_eq!(postings.length(term) as usize, noted.len());
        for passage in 0..3_000 {
            let mut found = Vec::new();
            postings.each(postings.term(u64::from(passage) + 100).unwrap(), |at, count| found.push((at, count)));
            assert_eq!(found, [(passage, 1)]);
        }
        assert_eq!(postings.term(8), None);
    }

    #[test]
    fn counts_stop_at_their_bits() {
        let mut postings = Postings::default();
        (0..100).for_each(|_| postings.add(1, 5));
        postings.add(1, 6);
        let mut found = Vec::new();
        postings.each(0, |passage, count| found.push((passage, count)));
        assert_eq!(found, [(5, COUNT_MAX), (6, 1)]);
    }
}
