//! Which passages say again what another one says.
//!
//! Containment of shingles, runs of neighbouring words (Broder 1997, "On the resemblance and containment of documents"): a
//! passage repeats another when all of its runs of three words stand there, whatever stands around them and however they are
//! punctuated. So what is dropped holds no number, name, date or "not" that what is shown does not hold, nor lacks one within.
//! Short passages are left alone, and so are those that are much shorter than what repeats them: an answer of a few words stands
//! in many a long text. What different people said is not the same, and what says "today" on two days is not either.
//!
//! Words are only compared where the vectors lie near each other, so that hardly any text is read for it.

use super::Texts;
use super::pack::DAY_MS;
use crate::index::{Index, Said, Signs};
use crate::text::words::{Kind, each_word, key};
use crate::vectors::Sides;
use std::collections::HashMap;
use std::rc::Rc;

/// Words of a shingle.
const SHINGLE: usize = 3;
/// A passage with fewer words is left alone.
const LEAST_WORDS: u16 = 8;
/// A passage repeats one that has at most this many times its words.
const LONGER: u16 = 2;
/// Vectors that lie further apart, as a share of a half turn, are of texts on different things.
const APART: f32 = 0.25;

/// Compares passages of one answer.
pub(crate) struct Near<'a> {
    index: &'a Index,
    texts: &'a dyn Texts,
    /// Where the vectors of passages lie.
    sides: HashMap<u32, Option<Sides>>,
    /// The shingles of those whose text was read.
    read: HashMap<u32, Option<Rc<[u64]>>>,
}

impl<'a> Near<'a> {
    pub(crate) fn of(index: &'a Index, texts: &'a dyn Texts) -> Near<'a> {
        Near { index, texts, sides: HashMap::new(), read: HashMap::new() }
    }

    /// True when `passage` says nothing that one of `others` does not say.
    pub(crate) fn repeats(&mut self, passage: u32, others: impl Iterator<Item = u32>) -> bool {
        if self.index.passages[passage as usize].words < LEAST_WORDS {
            return false;
        }
        let mut others = others;
        others.any(|other| self.may_repeat(passage, other) && self.is_in(passage, other))
    }

    /// What can be told without the texts.
    fn may_repeat(&mut self, passage: u32, other: u32) -> bool {
        let [a, b] = [passage, other].map(|passage| &self.index.passages[passage as usize]);
        if b.words > a.words.saturating_mul(LONGER) || b.words < a.words / LONGER {
            return false;
        }
        let [said, repeated] = [a.entry, b.entry].map(|entry| &self.index.entries[entry as usize]);
        if is_other_occasion(self.index, a.signs, (said, repeated)) {
            return false;
        }
        match [passage, other].map(|passage| self.sides(passage)) {
            [Some(here), Some(there)] => here.apart(&there) <= APART,
            _ => true,
        }
    }

    fn sides(&mut self, passage: u32) -> Option<Sides> {
        let index = self.index;
        *self.sides.entry(passage).or_insert_with(|| index.vectors[passage as usize].sides())
    }

    fn is_in(&mut self, passage: u32, other: u32) -> bool {
        let (Some(a), Some(b)) = (self.shingles(passage), self.shingles(other)) else { return false };
        a.iter().all(|shingle| b.binary_search(shingle).is_ok())
    }

    /// The shingles of a passage; `None` when its text cannot be had.
    fn shingles(&mut self, passage: u32) -> Option<Rc<[u64]>> {
        let (index, texts) = (self.index, self.texts);
        let read = self.read.entry(passage).or_insert_with(|| {
            let place = &index.passages[passage as usize];
            let text = texts.text(index.entries[place.entry as usize].ordinal)?;
            Some(shingles(text.get(place.start as usize..place.end as usize)?).into())
        });
        read.clone()
    }
}

/// The same words were said on another occasion: by another person, or, where they say "today", on another day.
pub(crate) fn is_other_occasion(index: &Index, signs: Signs, (a, b): (&Said, &Said)) -> bool {
    let speak = index.speaks(a.name) && index.speaks(b.name);
    let another_day = a.time_ms.div_euclid(DAY_MS) != b.time_ms.div_euclid(DAY_MS);
    (speak && a.name != b.name) || (another_day && signs.has(Signs::TIME))
}

/// The hashes of the shingles of a text, each once, rising.
fn shingles(text: &str) -> Vec<u64> {
    let mut words = Vec::new();
    each_word(text, |word| {
        if !matches!(word.kind, Kind::Pair | Kind::Part) {
            // Not the stem: "costs" may be another fact than "cost".
            words.push(key(&word.written.to_lowercase()));
        }
    });
    let run = |words: &[u64]| words.iter().fold(0u64, |all, word| (all.rotate_left(7) ^ word).wrapping_mul(SPREAD));
    let mut shingles: Vec<u64> = words.windows(SHINGLE.min(words.len()).max(1)).map(run).collect();
    shingles.sort_unstable();
    shingles.dedup();
    shingles
}

/// An odd number without a pattern.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
