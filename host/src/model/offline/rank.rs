//! Which sentences have most to do with a question: BM25 over sentences, rare words first.

use super::passages::{By, Passage};
use std::collections::{HashMap, HashSet};

/// Most quotes in an answer.
const MOST: usize = 4;
/// A quote scores at least this part of the best one.
const NEAR: f64 = 0.5;
const K1: f64 = 1.2;
const B: f64 = 0.5;

/// Words that say nothing about the subject.
const COMMON: &[&str] = &[
    "a", "about", "again", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by",
    "can", "could", "did", "do", "does", "for", "from", "had", "has", "have", "he", "her", "hers", "him", "his", "how",
    "i", "if", "in", "into", "is", "it", "its", "just", "know", "let", "like", "many", "may", "me", "might", "mine",
    "more", "much", "my", "no", "not", "of", "off", "on", "one", "or", "our", "out", "please", "remember", "said",
    "say", "shall", "she", "should", "so", "some", "still", "tell", "than", "that", "the", "their", "them", "then",
    "there", "these", "they", "this", "those", "to", "told", "too", "up", "us", "very", "was", "we", "were", "what",
    "when", "where", "which", "who", "whom", "whose", "why", "will", "with", "would", "yes", "you", "your", "yours",
];

/// The best quotes, best first; equal ones newest first. Empty when nothing shares a word of weight with the question.
pub(super) fn best<'a>(question: &str, passages: &'a [Passage]) -> Vec<&'a Passage> {
    let mut asked: Vec<String> = words(question).collect();
    asked.sort_unstable();
    asked.dedup();
    if asked.is_empty() || passages.is_empty() {
        return Vec::new();
    }
    let wanted: HashMap<&str, usize> = asked.iter().enumerate().map(|(at, word)| (word.as_str(), at)).collect();
    // For each passage its number of words and how often each asked word stands in it.
    let mut rows = Vec::with_capacity(passages.len());
    let mut in_how_many = vec![0u32; asked.len()];
    for passage in passages {
        let mut counts = vec![0u32; asked.len()];
        let mut length = 0u32;
        for word in words(&passage.text) {
            length += 1;
            if let Some(&at) = wanted.get(word.as_str()) {
                counts[at] += 1;
            }
        }
        for (total, count) in in_how_many.iter_mut().zip(&counts) {
            *total += u32::from(*count > 0);
        }
        rows.push((length, counts));
    }
    let number = passages.len() as f64;
    let mean = (rows.iter().map(|(length, _)| f64::from(*length)).sum::<f64>() / number).max(1.0);
    let weight: Vec<f64> =
        in_how_many.iter().map(|&n| (1.0 + (number - f64::from(n) + 0.5) / (f64::from(n) + 0.5)).ln()).collect();
    let mut scored: Vec<(f64, usize)> = rows
        .iter()
        .enumerate()
        .map(|(at, (length, counts))| {
            let norm = K1 * (1.0 - B + B * f64::from(*length) / mean);
            let score: f64 = counts
                .iter()
                .zip(&weight)
                .map(|(&count, weight)| weight * f64::from(count) * (K1 + 1.0) / (f64::from(count) + norm))
                .sum();
            (score * trust(&passages[at]), at)
        })
        .filter(|(score, _)| *score > 0.0)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)));
    let least = scored.first().map_or(0.0, |(score, _)| score * NEAR);
    let mut seen = HashSet::new();
    scored
        .into_iter()
        .take_while(|(score, _)| *score >= least)
        .map(|(_, at)| &passages[at])
        .filter(|passage| seen.insert(passage.text.to_lowercase()))
        .take(MOST)
        .collect()
}

/// An earlier question repeats the words of this one and answers nothing.
fn trust(passage: &Passage) -> f64 {
    match passage.by {
        _ if passage.text.ends_with(['?', '？']) => 0.4,
        By::System => 0.8,
        _ => 1.0,
    }
}

/// The words of weight, lower case, without their commonest endings. Scripts without spaces give pairs of characters.
fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).flat_map(|word| {
        if word
            .chars()
            .any(|c| matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}'))
        {
            let letters: Vec<char> = word.chars().collect();
            return letters.windows(letters.len().min(2)).map(|pair| pair.iter().collect()).collect::<Vec<String>>();
        }
        let word = word.to_lowercase();
        if COMMON.contains(&word.as_str()) { Vec::new() } else { vec![stem(word)] }
    })
}

fn stem(mut word: String) -> String {
    for ending in ["ing", "ies", "ed", "es", "s", "e"] {
        if let Some(rest) = word.strip_suffix(ending)
            && rest.chars().count() >= 3
            && !(ending == "s" && rest.ends_with('s'))
        {
            word.truncate(rest.len());
            break;
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(question: &str, said: &[&str], expected: &[&str]) {
        let passages: Vec<_> = said.iter().map(|text| Passage { by: By::User, text: (*text).to_owned() }).collect();
        let quotes: Vec<_> = best(question, &passages).into_iter().map(|passage| passage.text.as_str()).collect();
        assert_eq!(quotes, expected, "{question}");
    }

    #[test]
    fn the_rare_word_decides() {
        let said = [
            "Ship Aurora-1 berths at /quay/1.",
            "Ship Aurora-39 berths at /quay/39.",
            "Ship Aurora-2 berths at /quay/2.",
        ];
        let passages: Vec<_> = said.iter().map(|text| Passage { by: By::User, text: (*text).to_owned() }).collect();
        assert_eq!(best("Where does ship Aurora-39 berth?", &passages)[0].text, said[1]);
    }

    #[test]
    fn an_earlier_question_gives_way_to_a_statement() {
        let said = ["What is my pilot called?", "My harbour pilot is called Marisol."];
        let passages: Vec<_> = said.iter().map(|text| Passage { by: By::User, text: (*text).to_owned() }).collect();
        assert_eq!(best("What is my pilot called?", &passages)[0].text, said[1]);
    }

    #[test]
    fn nothing_shared_gives_nothing() {
        check("Which colour has the boat?", &["The weather was fine."], &[]);
        check("What is it?", &["It is what it is."], &[]);
        check("", &["x"], &[]);
    }

    #[test]
    fn the_same_words_are_quoted_once_and_equal_scores_newest_first() {
        check("pilot", &["Pilot one", "Pilot two", "pilot ONE"], &["pilot ONE", "Pilot two"]);
    }

    #[test]
    fn words_match_across_endings_and_in_scripts_without_spaces() {
        check("Who is painting boats?", &["Ana painted a boat.", "Something else."], &["Ana painted a boat."]);
        check("东京的天气", &["昨天东京下雨", "hello there"], &["昨天东京下雨"]);
    }
}
