//! Extractive gists: the sentences of folded entries that tell most, without a model.
//!
//! Sentences are ranked by their closeness to the centroid of what is folded, weighted by how rare their words are there
//! (MEAD: Radev, Jing, Styś, Tam 2004), and taken greedily unless what was taken says the same already (in the manner of MMR:
//! Carbonell, Goldstein 1998). What the person said comes first: it carries most of what is asked for later and is short. Names,
//! numbers and identifiers count more, since they cannot be guessed. Where nothing was said the calls of tools stand for it.
//! Results of tools are not read: their stubs and the index lead to them.
//!
//! A sentence says the same as another when it has hardly a word that the other has not, each weighed by how rare it is, and
//! no number, name or identifier: facts of one form are as many facts.

use super::count::Counter;
use super::log::Line;
use super::quote::one_line;
use super::stub::Stubber;
use engine_abi::Result;
use engine_abi::wire::{entry_flags, role};
use std::collections::HashMap;
use std::ops::Range;
use unicode_segmentation::UnicodeSegmentation;

/// Most bytes of text that one batch reads, since it must not delay a reply: some 30 ms.
const MOST_BYTES: usize = 256 * 1024;
/// Most entries that it reads.
const MOST_ENTRIES: usize = 2_048;
/// Most bytes of one entry that are read.
const MOST_OF_ONE: usize = 2 * 1024;
/// Letters of a line.
const LINE: usize = 220;
/// Sentences with fewer words say little by themselves.
const LEAST_WORDS: usize = 4;
/// Most of a sentence's weight that is not in another when both say the same.
const NEW: f64 = 0.1;
/// After how many sentences that did not fit no more are tried.
const MISSES: u32 = 6;
/// Share of the budget that what the person said may take before anything else.
const OF_THE_PERSON: (u64, u64) = (7, 10);
/// How much more a word counts that has a digit or is written like an identifier.
const IDENTIFIER: f64 = 2.0;
/// Part of the budget that calls of tools take where nothing was said.
const OF_CALLS: u64 = 2;
/// How much more a word counts that a compaction was asked to focus on.
const FOCUS: f64 = 4.0;

struct Sentence {
    number: u32,
    role: u32,
    text: String,
    words: Vec<u32>,
    /// The numbers, names and identifiers among them.
    facts: Vec<u32>,
    worth: f64,
}

/// How much one batch may still read.
pub(crate) struct Pass {
    bytes: usize,
    entries: usize,
}

impl Default for Pass {
    fn default() -> Pass {
        Pass { bytes: MOST_BYTES, entries: MOST_ENTRIES }
    }
}

impl Pass {
    /// Nothing more may be read.
    pub(crate) fn is_over(&self) -> bool {
        self.bytes == 0 || self.entries == 0
    }
}

/// What was read of a stretch of entries.
pub(crate) struct Gist {
    /// Lines, in order.
    pub lines: Vec<Line>,
    /// The first place that was read: entries before it are for another pass.
    pub from: usize,
}

/// Lines of at most `budget` tokens for the entries of `places`, in their order, read from the newest backwards as far as `pass`
/// allows. `focus` names what they should keep; what stands in one of `known` is left out.
pub(crate) fn lines(
    stubber: &Stubber<'_>,
    places: Range<usize>,
    budget: u64,
    focus: Option<&str>,
    known: &[String],
    pass: &mut Pass,
) -> Result<Gist> {
    if budget == 0 {
        return Ok(Gist { lines: Vec::new(), from: places.end });
    }
    let mut words = Words::default();
    let (mut sentences, from) = read(stubber, places.clone(), &mut words, pass)?;
    sentences.retain(|sentence| !stands_in(&sentence.text, known));
    words.focus(focus.unwrap_or_default());
    rank(&mut sentences, &words);
    let mut lines = choose(&sentences, &words, budget, stubber.counter)?;
    if lines.is_empty() {
        lines = calls(stubber, from..places.end, budget / OF_CALLS)?;
    }
    Ok(Gist { lines, from })
}

/// True when one of `known` has these words.
pub(super) fn stands_in(text: &str, known: &[String]) -> bool {
    let text = text.trim_end_matches(['…', '.', '!', '?', ' ']);
    !text.is_empty() && known.iter().any(|known| known.contains(text))
}

/// What a line costs behind others.
pub(crate) fn cost(counter: Counter<'_>, line: &Line) -> Result<u64> {
    Ok(counter.text(&line.shown())? + 1)
}

/// Reads sentences of the newest entries of `places`, oldest first, and where it stopped.
fn read(
    stubber: &Stubber<'_>,
    places: Range<usize>,
    words: &mut Words,
    pass: &mut Pass,
) -> Result<(Vec<Sentence>, usize)> {
    let heads = stubber.history.heads();
    let mut sentences = Vec::new();
    let mut stopped = places.start;
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
        if pass.is_over() {
            stopped = place + 1;
            break;
        }
        stubber.counter.0.check()?;
        let entry = stubber.history.entry(place)?;
        let text = entry.text();
        let text = &text[..text.floor_char_boundary(MOST_OF_ONE)];
        (pass.bytes, pass.entries) = (pass.bytes.saturating_sub(text.len()), pass.entries - 1);
        let number = stubber.number(head.id).unwrap_or(0);
        let from = sentences.len();
        for sentence in text.lines().flat_map(UnicodeSegmentation::unicode_sentences) {
            let (known, facts) = words.of(sentence);
            if known.len() >= LEAST_WORDS {
                let text = one_line(sentence, LINE);
                sentences.push(Sentence { number, role: head.role, text, words: known, facts, worth: 0.0 });
            }
        }
        // Read backwards, so that all is reversed in the end.
        sentences[from..].reverse();
    }
    sentences.reverse();
    Ok((sentences, stopped))
}

/// The newest calls of `places`, as lines.
fn calls(stubber: &Stubber<'_>, places: Range<usize>, budget: u64) -> Result<Vec<Line>> {
    let heads = stubber.history.heads();
    let mut lines = Vec::new();
    let mut left = budget;
    for place in places.rev().filter(|place| heads[*place].has(entry_flags::TOOL_CALLS)) {
        let entry = stubber.history.entry(place)?;
        let told: Vec<String> =
            entry.tool_calls().iter().map(|call| format!("{} {}", call.name(), call.arguments())).collect();
        let number = stubber.number(heads[place].id).unwrap_or(0);
        let text = one_line(&told.join("; "), LINE);
        let line = Line { number, who: Line::who(role::ASSISTANT), worth: 0, text };
        let tokens = cost(stubber.counter, &line)?;
        if line.text.is_empty() || tokens > left {
            break;
        }
        left -= tokens;
        lines.push(line);
    }
    lines.reverse();
    Ok(lines)
}

/// The words of a batch, by number.
#[derive(Default)]
struct Words {
    numbers: HashMap<String, u32>,
    /// Sentences that have it.
    spread: Vec<f64>,
    boost: Vec<f64>,
    /// It was seen in small letters: at the head of a sentence it is no name.
    small: Vec<bool>,
}

impl Words {
    /// The words of a sentence, each once, rising, and the facts among them.
    fn of(&mut self, sentence: &str) -> (Vec<u32>, Vec<u32>) {
        let mut known = Vec::new();
        let mut facts = Vec::new();
        for word in sentence.unicode_words() {
            let number = self.number(word);
            let is_name = word.starts_with(char::is_uppercase);
            if is_name || is_identifier(word) {
                facts.push(number);
            } else {
                self.small[number as usize] = true;
            }
            known.push(number);
        }
        for list in [&mut known, &mut facts] {
            list.sort_unstable();
            list.dedup();
        }
        for word in &known {
            self.spread[*word as usize] += 1.0;
        }
        (known, facts)
    }

    fn number(&mut self, word: &str) -> u32 {
        let folded = word.to_lowercase();
        if let Some(number) = self.numbers.get(&folded) {
            return *number;
        }
        let number = u32::try_from(self.spread.len()).unwrap_or(u32::MAX);
        self.spread.push(0.0);
        self.small.push(false);
        self.boost.push(if is_identifier(word) { IDENTIFIER } else { 1.0 });
        self.numbers.insert(folded, number);
        number
    }

    /// How rare a word is, `all` being the number of sentences.
    fn rare(&self, word: u32, all: f64) -> f64 {
        (1.0 + all / self.spread[word as usize].max(1.0)).ln()
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
                let rare = words.rare(*word, all);
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
fn choose(sentences: &[Sentence], words: &Words, budget: u64, counter: Counter<'_>) -> Result<Vec<Line>> {
    #[allow(clippy::cast_precision_loss, reason = "a batch has some thousand sentences")]
    let all = sentences.len() as f64;
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
            if taken.iter().any(|other| says_the_same(sentence, &sentences[*other], words, all)) {
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

/// True when sentence `a` has nothing that `b` has not. `all` is the number of sentences.
fn says_the_same(a: &Sentence, b: &Sentence, words: &Words, all: f64) -> bool {
    let is_there = |word: &u32| b.words.binary_search(word).is_ok();
    let is_fact = |word: &&u32| words.boost[**word as usize] > 1.0 || !words.small[**word as usize];
    if !a.facts.iter().filter(is_fact).all(is_there) {
        return false;
    }
    let weight = |word: &u32| words.rare(*word, all).powi(2);
    let whole: f64 = a.words.iter().map(weight).sum();
    let new: f64 = a.words.iter().filter(|word| !is_there(word)).map(weight).sum();
    new <= whole * NEW
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the first of some sentences says nothing that the second does not.
    fn is_same(texts: &[&str]) -> bool {
        let mut words = Words::default();
        let sentences: Vec<Sentence> = texts
            .iter()
            .map(|text| {
                let (known, facts) = words.of(text);
                Sentence { number: 1, role: role::USER, text: String::new(), words: known, facts, worth: 0.0 }
            })
            .collect();
        says_the_same(&sentences[0], &sentences[1], &words, sentences.len() as f64)
    }

    #[test]
    fn a_sentence_without_anything_new_says_the_same() {
        for texts in [
            ["The port is 8080.", "Remember that the port is 8080."],
            ["I live in Porto now.", "I now live in Porto, you know."],
            ["the port is 8080", "The port is 8080."],
            ["", "The port is 8080."],
        ] {
            assert!(is_same(&texts), "{texts:?}");
        }
        assert!(!is_same(&["Remember that the port is 8080.", "The port is 8080."]), "it has more");
    }

    #[test]
    fn facts_of_one_form_are_as_many_facts() {
        for texts in [
            ["The code of door 1 is 17.", "The code of door 2 is 93."],
            ["The code of door 1 is 17.", "The code of door 1 is 93."],
            [
                "Anna wants the big room on the third floor of the house.",
                "Boris wants the big room on the third floor of the house.",
            ],
            ["On Monday the crane goes to the dry dock.", "On Friday the crane goes to the dry dock."],
            [
                "The lamp in the hall of the old house by the sea is green.",
                "The lamp in the hall of the old house by the sea is blue.",
            ],
            ["You may not delete files in this folder.", "You may delete files in this folder."],
            ["门1的密码是17", "门2的密码是93"],
            ["Run build_all before the merge.", "Run build_one before the merge."],
        ] {
            assert!(!is_same(&texts), "{texts:?}");
        }
        // Also where all of a long batch has that form, so that each of its words is common.
        let many: Vec<String> =
            (0..400).map(|at| format!("The code of door {} is {}.", at % 40, at * 7 % 90)).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(!is_same(&many));
    }

    #[test]
    fn what_cannot_be_guessed_counts_more() {
        assert!(["8080", "v2", "snake_case", "camelCase", "iPhone"].iter().all(|word| is_identifier(word)));
        assert!(!["Anna", "harbour", "I"].iter().any(|word| is_identifier(word)));
    }
}
