//! The summary that needs no model: the sentences that matter most, in their own words.
//!
//! What people said counts more than what was answered, and that more than what tools gave; a sentence with names, numbers or a
//! decision counts more than one without; of equals the newer one wins. Lines of a former extract take part with the rest, so
//! that what matters survives many compactions and the rest fades.

use super::sentence::{each_sentence, weight};
use super::text::{day, without_host_sections};
use crate::compaction::View;
use crate::compaction::boundary::summary_text;
use crate::compaction::trim::middle_cut;
use crate::model::TokenCounter;
use crate::transcript::{Message, Role};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// Longest sentence.
const SENTENCE_CHARS: usize = 320;
/// Weight of rare words.
const RARITY: f64 = 3.0;
/// Lines of one tool result that are looked at, from either end.
const RESULT_LINES: usize = 12;

/// Where a sentence goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    User,
    Assistant,
    Earlier,
}

impl Section {
    const ALL: [Section; 3] = [Section::User, Section::Assistant, Section::Earlier];

    fn heading(self) -> &'static str {
        match self {
            Section::User => "## What the user said",
            Section::Assistant => "## What was answered and done",
            Section::Earlier => "## Earlier notes",
        }
    }
}

#[derive(Debug)]
struct Sentence {
    section: Section,
    day: Option<String>,
    text: String,
    score: f64,
}

/// The sentences of a source, newest first.
#[derive(Debug)]
pub(crate) struct Extract {
    sentences: Vec<Sentence>,
    /// Indexes of `sentences`, best first.
    ranking: Vec<usize>,
}

impl Extract {
    /// Reads and ranks the sentences of a range of rows.
    pub(crate) fn of(view: &View, range: Range<usize>) -> Extract {
        let mut reader = Reader::default();
        let total = range.len().max(1) as f64;
        for (age, index) in range.rev().enumerate() {
            let recency = 1.0 - age as f64 / total;
            let when = day(view.heads[index].time_ms);
            if view.is_summary(index) {
                reader.former(summary_text(&view.bodies[index].text()));
                continue;
            }
            for result in view.attached_at(index).iter().rev() {
                reader.message(&result.message, when.as_deref(), recency);
            }
            reader.message(&view.bodies[index], when.as_deref(), recency);
        }
        let mut sentences = reader.sentences;
        add_rarity(&mut sentences);
        let mut ranking: Vec<usize> = (0..sentences.len()).collect();
        // Stable: of equals the newer one, which comes first.
        ranking.sort_by(|&a, &b| sentences[b].score.total_cmp(&sentences[a].score));
        Extract { sentences, ranking }
    }

    /// The best sentences within the room, under headings, newest first.
    pub(crate) fn write(&self, tokens: u64, chars: usize, counter: &TokenCounter) -> String {
        // Headings and days are paid in advance, roughly; the caller measures the whole.
        let mut tokens = tokens.saturating_sub(12);
        let mut chars = chars.saturating_sub(70);
        let mut picked = vec![false; self.sentences.len()];
        let mut misses = 0;
        for &index in &self.ranking {
            let sentence = &self.sentences[index];
            let size = sentence.text.chars().count() + 4;
            let cost = counter.text(&sentence.text) + 3;
            if size > chars || cost > tokens {
                misses += 1;
                // A few shorter ones may still find room; then it is full.
                if misses > 20 {
                    break;
                }
                continue;
            }
            chars -= size;
            tokens -= cost;
            picked[index] = true;
        }
        self.render(&picked)
    }

    fn render(&self, picked: &[bool]) -> String {
        let mut out = String::new();
        for section in Section::ALL {
            let mut last_day: Option<&str> = None;
            let mut open = false;
            for (sentence, _) in
                self.sentences.iter().zip(picked).filter(|(s, picked)| **picked && s.section == section)
            {
                if !open {
                    if !out.is_empty() {
                        out.push('\n');
                    }
                    out.push_str(section.heading());
                    out.push('\n');
                    open = true;
                }
                if sentence.day.is_some() && sentence.day.as_deref() != last_day {
                    last_day = sentence.day.as_deref();
                    out.push_str(last_day.unwrap_or_default());
                    out.push_str(":\n");
                }
                out.push_str("- ");
                out.push_str(&sentence.text);
                out.push('\n');
            }
        }
        out.truncate(out.trim_end().len());
        out
    }
}

/// Raises sentences that say much in few words, by how rare their words are in the source.
fn add_rarity(sentences: &mut [Sentence]) {
    let words = |text: &str| -> HashSet<String> {
        text.split(|c: char| !c.is_alphanumeric())
            .filter(|word| word.chars().count() > 3)
            .map(str::to_lowercase)
            .collect()
    };
    let mut spread: HashMap<String, u32> = HashMap::new();
    for sentence in sentences.iter() {
        for word in words(&sentence.text) {
            *spread.entry(word).or_default() += 1;
        }
    }
    let total = sentences.len() as f64;
    for sentence in sentences {
        let length = sentence.text.split_whitespace().count() as f64 + 4.0;
        let said: f64 = words(&sentence.text)
            .iter()
            .map(|word| (1.0 + total / f64::from(spread.get(word).copied().unwrap_or(1))).ln())
            .sum();
        sentence.score += RARITY * said / length;
    }
}

#[derive(Default)]
struct Reader {
    sentences: Vec<Sentence>,
    seen: HashSet<String>,
    /// How often a sentence came, its numbers not looked at.
    shapes: HashMap<String, u16>,
}

impl Reader {
    fn message(&mut self, message: &Message, when: Option<&str>, recency: f64) {
        let text = message.text();
        match message.role {
            Role::User => self.prose(&text, Section::User, when, 3.0 + recency),
            Role::Assistant => {
                for call in message.tool_calls.iter().rev() {
                    let arguments = middle_cut(call.function.arguments.trim(), 120);
                    self.add(
                        format!("called {}({arguments})", call.function.name),
                        Section::Assistant,
                        when,
                        0.2 + recency,
                    );
                }
                self.prose(&text, Section::Assistant, when, 2.0 + recency);
            }
            Role::Tool => self.result(&text, when, recency),
        }
    }

    fn prose(&mut self, text: &str, section: Section, when: Option<&str>, base: f64) {
        let mut lines: Vec<(String, f64)> = Vec::new();
        let mut fenced = false;
        for line in text.lines() {
            if line.trim_start().starts_with("```") {
                fenced = !fenced;
                continue;
            }
            // A line of code rarely says what somebody wanted.
            let base = if fenced { base - 2.0 } else { base };
            each_sentence(line, |sentence| lines.push((sentence.to_owned(), base)));
        }
        for (line, base) in lines.into_iter().rev() {
            let score = base + weight(&line, section == Section::User);
            self.add(line, section, when, score);
        }
    }

    fn result(&mut self, text: &str, when: Option<&str>, recency: f64) {
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let tail = lines.len().saturating_sub(RESULT_LINES);
        for (at, line) in lines.iter().enumerate().rev() {
            if at >= RESULT_LINES && at < tail {
                continue;
            }
            let lower = line.to_lowercase();
            let failed = ["error", "failed", "panic", "exception", "denied"].iter().any(|word| lower.contains(word));
            let score = recency + if failed { 1.5 } else { 0.0 } + weight(line, false) / 2.0;
            self.add(format!("result: {line}"), Section::Assistant, when, score);
        }
    }

    /// Lines of a former summary, which stand newest first already.
    fn former(&mut self, text: &str) {
        let mut section = Section::Earlier;
        let mut when: Option<String> = None;
        for line in without_host_sections(text).lines() {
            let line = line.trim();
            if line.starts_with('#') {
                section =
                    Section::ALL.into_iter().find(|section| section.heading() == line).unwrap_or(Section::Earlier);
                when = None;
            } else if let Some(date) = line.strip_suffix(':').filter(|date| is_day(date)) {
                when = Some(date.to_owned());
            } else {
                let text = line.trim_start_matches(['-', '*', '•', ' ']);
                // It was found to matter once, so it may stay beside what is new.
                let base = match section {
                    Section::User => 3.5,
                    Section::Assistant => 2.0,
                    Section::Earlier => 3.0,
                };
                let score = base + weight(text, section == Section::User);
                self.add(text.to_owned(), section, when.as_deref(), score);
            }
        }
    }

    fn add(&mut self, text: String, section: Section, when: Option<&str>, score: f64) {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = middle_cut(&text, SENTENCE_CHARS);
        if text.chars().filter(|c| c.is_alphanumeric()).count() < 2 || !self.seen.insert(text.to_lowercase()) {
            return;
        }
        // The tenth sentence of one shape says little that the newest did not.
        let shape =
            text.to_lowercase().split(|c: char| c.is_ascii_digit()).filter(|part| !part.is_empty()).collect::<String>();
        let repeats = self.shapes.entry(shape).or_insert(0u16);
        let score = score - 0.7 * f64::from((*repeats).min(6));
        *repeats = repeats.saturating_add(1);
        self.sentences.push(Sentence { section, day: when.map(str::to_owned), text, score });
    }
}

fn is_day(text: &str) -> bool {
    text.len() == 10
        && text.bytes().enumerate().all(|(at, b)| if at == 4 || at == 7 { b == b'-' } else { b.is_ascii_digit() })
}
