//! Extractive gists: the sentences of folded entries that tell most, without a model.
//!
//! Sentences are ranked by their closeness to the centroid of what is folded, weighted by how rare their words are there
//! (MEAD: Radev, Jing, Styś, Tam 2004), and taken greedily unless what was taken says the same already (in the manner of MMR:
//! Carbonell, Goldstein 1998). What the person said comes first: it carries most of what is asked for later and is short. Names,
//! numbers and identifiers count more, since they cannot be guessed. Results of tools are not read: their stubs and the index
//! lead to them.

use super::count::Counter;
use super::log::Line;
use super::quote::one_line;
use super::stub::Stubber;
use engine_abi::Result;
use engine_abi::wire::{entry_flags, role};
use std::collections::HashMap;
use std::ops::Range;
use unicode_segmentation::UnicodeSegmentation;

/// Most bytes of text that are read for one gist, from the newest entry backwards: a batch must not delay a reply. What is older
/// than that keeps its range and its numbers, and is found by the index.
const MOST_BYTES: usize = 32 * 1024;
/// Most entries that are read for one gist.
const MOST_ENTRIES: usize = 96;
/// Most bytes of one entry that are read.
const MOST_OF_ONE: usize = 2 * 1024;
/// Letters of a line.
const LINE: usize = 220;
/// Sentences with fewer words say little by themselves.
const LEAST_WORDS: usize = 4;
/// Share of its words that a sentence may have in common with one that was taken.
const SAME: f64 = 0.6;
/// After how many sentences that did not fit no more are tried.
const MISSES: u32 = 6;
/// Share of the budget that what the person said may take before anything else.
const OF_THE_PERSON: (u64, u64) = (7, 10);
/// How much more a word counts that has a digit or is written like an identifier.
const IDENTIFIER: f64 = 2.0;
/// How much more a word counts that a compaction was asked to focus on.
const FOCUS: f64 = 4.0;

struct Sentence {
    number: u32,
    role: u32,
    text: String,
    words: Vec<u32>,
    worth: f64,
}

/// Lines of at most `budget` tokens for the entries of `places`, in their order. `focus` names what they should keep.
pub(crate) fn lines(
    stubber: &Stubber<'_>,
    places: Range<usize>,
    budget: u64,
    focus: Option<&str>,
) -> Result<Vec<Line>> {
    if budget == 0 {
        return Ok(Vec::new());
    }
    let mut words = Words::default();
    let mut sentences = read(stubber, places, &mut words)?;
    words.focus(focus.unwrap_or_default());
    rank(&mut sentences, &words);
    choose(sentences, budget, stubber.counter)
}

/// What a line costs behind others.
pub(crate) fn cost(counter: Counter<'_>, line: &Line) -> Result<u64> {
    Ok(counter.text(&line.shown())? + 1)
}

/// Reads sentences of the newest entries of `places`, oldest first.
fn read(stubber: &Stubber<'_>, places: Range<usize>, words: &mut Words) -> Result<Vec<Sentence>> {
    let heads = stubber.history.heads();
    let mut sentences = Vec::new();
    let (mut bytes, mut entries) = (0, 0);
    for place in places.rev() {
        let head = &heads[place];
        let told = match head.role {
            role::USER => true,
            role::ASSISTANT => !head.has(entry_flags::TOOL_CALLS),
            _ => false,
        };
        if !told {
            continue;
        }
        if bytes >= MOST_BYTES || entries >= MOST_ENTRIES {
            break;
        }
        let entry = stubber.history.entry(place)?;
        let text = entry.text();
        let text = &text[..text.floor_char_boundary(MOST_OF_ONE)];
        (bytes, entries) = (bytes + text.len(), entries + 1);
        let number = stubber.number(head.id).unwrap_or(0);
        let from = sentences.len();
        for sentence in text.lines().flat_map(UnicodeSegmentation::unicode_sentences) {
            let known = words.of(sentence);
            if known.len() >= LEAST_WORDS {
                let text = one_line(sentence, LINE);
                sentences.push(Sentence { number, role: head.role, text, words: known, worth: 0.0 });
            }
        }
        // Read backwards, so that all is reversed in the end.
        sentences[from..].reverse();
    }
    sentences.reverse();
    Ok(sentences)
}

/// The words of a batch, by number.
#[derive(Default)]
struct Words {
    numbers: HashMap<String, u32>,
    /// Sentences that have it.
    spread: Vec<f64>,
    boost: Vec<f64>,
}

impl Words {
    /// The words of a sentence, each once, rising.
    fn of(&mut self, sentence: &str) -> Vec<u32> {
        let mut known: Vec<u32> = sentence.unicode_words().map(|word| self.number(word)).collect();
        known.sort_unstable();
        known.dedup();
        for word in &known {
            self.spread[*word as usize] += 1.0;
        }
        known
    }

    fn number(&mut self, word: &str) -> u32 {
        let folded = word.to_lowercase();
        if let Some(number) = self.numbers.get(&folded) {
            return *number;
        }
        let number = u32::try_from(self.spread.len()).unwrap_or(u32::MAX);
        self.spread.push(0.0);
        self.boost.push(if is_identifier(word) { IDENTIFIER } else { 1.0 });
        self.numbers.insert(folded, number);
        number
    }

    fn focus(&mut self, focus: &str) {
        for word in focus.unicode_words() {
            if let Some(number) = self.numbers.get(&word.to_lowercase()) {
                self.boost[*number as usize] *= FOCUS;
            }
        }
    }
}

/// True for what cannot be guessed: numbers, and words with letters of both cases inside.
fn is_identifier(word: &str) -> bool {
    word.contains(|letter: char| letter.is_numeric() || letter == '_') || word.chars().skip(1).any(char::is_uppercase)
}

/// Gives each sentence its worth: the mean weight of its words, where a word weighs by how much of the batch it stands for and by
/// how rare it is in language that repeats itself.
fn rank(sentences: &mut [Sentence], words: &Words) {
    #[allow(clippy::cast_precision_loss, reason = "a batch has some thousand sentences")]
    let all = sentences.len() as f64;
    for sentence in sentences {
        let weight: f64 = sentence
            .words
            .iter()
            .map(|word| {
                let (spread, boost) = (words.spread[*word as usize], words.boost[*word as usize]);
                let rare = (1.0 + all / spread.max(1.0)).ln();
                // The centroid's weight of a word: how often it comes times how rare it is.
                rare * rare * (1.0 + spread.ln_1p()) * boost
            })
            .sum();
        #[allow(clippy::cast_precision_loss, reason = "a sentence has few words")]
        let length = (sentence.words.len() as f64 + 4.0).sqrt();
        sentence.worth = weight / length;
    }
}

/// Takes the best that fit, what the person said first.
fn choose(sentences: Vec<Sentence>, budget: u64, counter: Counter<'_>) -> Result<Vec<Line>> {
    let best = sentences.iter().map(|sentence| sentence.worth).fold(f64::MIN_POSITIVE, f64::max);
    let mut order: Vec<usize> = (0..sentences.len()).collect();
    order.sort_by(|a, b| sentences[*b].worth.total_cmp(&sentences[*a].worth).then(b.cmp(a)));
    let mut taken: Vec<usize> = Vec::new();
    let mut lines: Vec<(usize, Line)> = Vec::new();
    let mut left = budget;
    let (part, whole) = OF_THE_PERSON;
    for (role, reserve) in [(role::USER, budget - budget * part / whole), (role::ASSISTANT, 0)] {
        let mut missed = 0;
        for at in order.iter().copied().filter(|at| sentences[*at].role == role) {
            let sentence = &sentences[at];
            if taken.iter().any(|other| says_the_same(sentence, &sentences[*other])) {
                continue;
            }
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 20,000")]
            let worth = (sentence.worth / best * 10_000.0) as u16 + if role == role::USER { 10_000 } else { 0 };
            let line = Line { number: sentence.number, who: Line::who(role), worth, text: sentence.text.clone() };
            let tokens = cost(counter, &line)?;
            if tokens > left.saturating_sub(reserve) {
                // A shorter one may still fit, but after some that did not it is full.
                missed += 1;
                if missed == MISSES {
                    break;
                }
                continue;
            }
            left -= tokens;
            taken.push(at);
            lines.push((at, line));
        }
    }
    lines.sort_by_key(|(at, _)| *at);
    Ok(lines.into_iter().map(|(_, line)| line).collect())
}

/// True when most words of the shorter sentence stand in the other, too. Their words rise.
fn says_the_same(a: &Sentence, b: &Sentence) -> bool {
    let (mut left, mut right, mut both) = (a.words.as_slice(), b.words.as_slice(), 0usize);
    while let ([one, ..], [other, ..]) = (left, right) {
        both += usize::from(one == other);
        (left, right) = (&left[usize::from(one <= other)..], &right[usize::from(other <= one)..]);
    }
    #[allow(clippy::cast_precision_loss, reason = "a sentence has few words")]
    let share = both as f64 / a.words.len().min(b.words.len()).max(1) as f64;
    share > SAME
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(words: &[u32]) -> Sentence {
        Sentence { number: 1, role: role::USER, text: String::new(), words: words.to_vec(), worth: 0.0 }
    }

    #[test]
    fn sentences_with_most_words_in_common_say_the_same() {
        assert!(says_the_same(&sentence(&[1, 2, 3, 4]), &sentence(&[2, 3, 4, 9, 10, 11])));
        assert!(!says_the_same(&sentence(&[1, 2, 3, 4]), &sentence(&[3, 4, 9, 10])));
        assert!(!says_the_same(&sentence(&[]), &sentence(&[1])));
    }

    #[test]
    fn what_cannot_be_guessed_counts_more() {
        assert!(["8080", "v2", "snake_case", "camelCase", "iPhone"].iter().all(|word| is_identifier(word)));
        assert!(!["Anna", "harbour", "I"].iter().any(|word| is_identifier(word)));
    }
}
