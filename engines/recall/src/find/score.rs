//! How well each passage answers a question.
//!
//! A linear model over a few features, each of which says one thing that can be told in words. The weights were fitted once: by
//! the softmax over the passages of a conversation, so that the passages which hold the evidence of a question come before the
//! others, with the conversations that a figure is given for always left out. `exp(score)` is therefore, up to a factor that is
//! the same for all passages of one answer, how likely a passage is to be evidence, and is used as such when room is shared out.

use super::query::{Query, Speaker};
use crate::index::{Index, Signs};
use engine_abi::wire::role;

/// How fast further occurrences of a word stop to count, and how much the length of a passage matters: the usual values of BM25.
const K1: f32 = 1.2;
const B: f32 = 0.75;

/// Passages that are looked at closely.
const CANDIDATES: usize = 2_000;

/// Entries on both sides that say what is being talked about around a passage, and how fast they fade.
const AROUND: i64 = 8;
const FADE: f32 = 5.0;

/// Number of features.
pub(crate) const FEATURES: usize = 21;

/// What a passage shows of being an answer, in the order of [`WEIGHTS`].
pub(crate) type Features = [f32; FEATURES];

/// A feature's name, and what it is worth.
pub(crate) const WEIGHTS: [(&str, f32); FEATURES] = [
    ("covered", 1.997),
    ("words", 0.949),
    ("words of the best", 1.917),
    ("words before", 0.228),
    ("words before that", 0.634),
    ("words after", 0.082),
    ("around", 0.744),
    ("speaker", 2.619),
    ("long", 0.733),
    ("asks", -0.537),
    ("states", 0.012),
    ("self", 0.366),
    ("other", -0.110),
    ("quotes", 0.680),
    ("names", -0.144),
    ("time", 0.585),
    ("time for when", 1.939),
    ("number for how many", 0.671),
    ("answers a question", 0.686),
    ("tool", 0.000),
    ("spare", 0.000),
];

/// A passage and how well it answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scored {
    /// The passage.
    pub passage: u32,
    /// Natural logarithm of how likely it is the evidence, but for a constant of the answer.
    pub score: f32,
}

/// What is known of all passages before single ones are looked at.
pub(crate) struct Scan<'a> {
    index: &'a Index,
    query: &'a Query,
    /// By passage: BM25, and the share of the question's words that stand in it.
    words: Vec<f32>,
    covered: Vec<f32>,
    /// The best of all BM25.
    best: f32,
}

impl<'a> Scan<'a> {
    /// Goes through the postings of the words that are looked for.
    pub(crate) fn of(index: &'a Index, query: &'a Query) -> Scan<'a> {
        let count = index.passages.len();
        let mut words = vec![0.0; count];
        let mut covered = vec![0.0; count];
        let mean = (index.words as f32 / count.max(1) as f32).max(1.0);
        for wanted in &query.wanted {
            index.postings.each(wanted.term, |passage, times| {
                let at = passage as usize;
                let norm = K1 * (1.0 - B + B * f32::from(index.passages[at].words) / mean);
                let times = times as f32;
                words[at] += wanted.weight * times * (K1 + 1.0) / (times + norm);
                covered[at] += wanted.weight / query.total;
            });
        }
        let best = words.iter().fold(f32::EPSILON, |best, score| score.max(best));
        Scan { index, query, words, covered, best }
    }

    /// The passages that are worth a closer look, in the order of the session.
    pub(crate) fn candidates(&self, allowed: &dyn Fn(u32) -> bool) -> Vec<u32> {
        let count = self.words.len();
        let mut found: Vec<u32> =
            (0..count as u32).filter(|passage| allowed(self.index.passages[*passage as usize].entry)).collect();
        if found.len() > CANDIDATES {
            let rough = |passage: u32| self.rough(passage);
            found.select_nth_unstable_by(CANDIDATES, |a, b| rough(*b).total_cmp(&rough(*a)).then(b.cmp(a)));
            found.truncate(CANDIDATES);
            found.sort_unstable();
        }
        found
    }

    /// A first guess from what costs nothing to look at.
    fn rough(&self, passage: u32) -> f32 {
        let before = passage.checked_sub(1).map_or(0.0, |before| self.words[before as usize]);
        self.words[passage as usize] + 0.3 * before
    }

    /// What a passage shows of being an answer.
    pub(crate) fn features(&self, passage: u32) -> Features {
        let at = passage as usize;
        let here = &self.index.passages[at];
        let entry = i64::from(here.entry);
        let said = &self.index.entries[here.entry as usize];
        let mean = self.index.words as f32 / self.words.len().max(1) as f32;
        let sign = |signs| f32::from(u8::from(here.signs.has(signs)));
        let mut around = 0.0;
        for step in 1..=AROUND {
            around += (self.entry_words(entry - step) + self.entry_words(entry + step)) * (-(step as f32) / FADE).exp();
        }
        let before = self.entry_words(entry - 1);
        let speaker = match self.query.speaker {
            Speaker::Any => false,
            Speaker::Named(name) => said.name == name,
            Speaker::Person => u32::from(said.role) == role::USER,
        };
        [
            self.covered[at],
            self.words[at] / SCALE,
            self.words[at] / self.best,
            before,
            self.entry_words(entry - 2),
            self.entry_words(entry + 1),
            around,
            f32::from(u8::from(speaker)),
            ((f32::from(here.words) + 3.0) / (mean + 3.0)).ln(),
            sign(Signs::ASKS),
            sign(Signs::STATES),
            sign(Signs::SELF),
            sign(Signs::OTHER),
            sign(Signs::QUOTE),
            sign(Signs::NAME),
            sign(Signs::TIME),
            if self.query.when { sign(Signs::TIME) } else { 0.0 },
            if self.query.how_many { sign(Signs::NUMBER) } else { 0.0 },
            if self.asks(entry - 1) { before } else { 0.0 },
            f32::from(u8::from(u32::from(said.role) == role::TOOL)),
            0.0,
        ]
    }

    /// The best BM25 of an entry's passages near its border, scaled; 0 beyond the ends.
    fn entry_words(&self, entry: i64) -> f32 {
        let Some(said) = usize::try_from(entry).ok().and_then(|entry| self.index.entries.get(entry)) else {
            return 0.0;
        };
        let end = self.index.passages_end(entry as u32).min(said.passage + PASSAGES_NEAR);
        self.words[said.passage as usize..end as usize].iter().fold(0.0, |best: f32, score| best.max(*score)) / SCALE
    }

    /// The entry ends with a question.
    fn asks(&self, entry: i64) -> bool {
        let Ok(entry) = u32::try_from(entry) else { return false };
        let last = self.index.passages_end(entry).checked_sub(1);
        last.and_then(|last| self.index.passages.get(last as usize))
            .is_some_and(|passage| passage.signs.has(Signs::ASKS))
    }
}

/// Brings BM25 to about the size of the other features.
const SCALE: f32 = 5.0;

/// Passages of a long neighbour that are looked at.
const PASSAGES_NEAR: u32 = 4;

/// The passages that answer best, best first.
pub(crate) fn ranked(index: &Index, query: &Query, allowed: &dyn Fn(u32) -> bool) -> Vec<Scored> {
    let scan = Scan::of(index, query);
    let mut scored: Vec<Scored> = scan
        .candidates(allowed)
        .into_iter()
        .map(|passage| {
            let features = scan.features(passage);
            let score = features.iter().zip(&WEIGHTS).map(|(feature, (_, weight))| feature * weight).sum();
            Scored { passage, score }
        })
        .collect();
    scored.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.passage.cmp(&b.passage)));
    scored
}
