//! What a sentence is about: the set of its words that carry meaning, hashed.

use super::tokens::{Tokens, is_dense};
use serde::{Deserialize, Serialize};

/// Words that carry no subject, folded and sorted: function words and cues of the languages that the rules know.
const EMPTY: &[&str] = &[
    "a",
    "ab",
    "aber",
    "about",
    "ahora",
    "al",
    "alle",
    "alles",
    "allez",
    "alors",
    "also",
    "always",
    "am",
    "an",
    "and",
    "any",
    "anymore",
    "are",
    "as",
    "at",
    "au",
    "auch",
    "auf",
    "aus",
    "aux",
    "avec",
    "be",
    "bei",
    "bis",
    "bitte",
    "but",
    "by",
    "can",
    "ce",
    "cela",
    "ces",
    "como",
    "con",
    "could",
    "cuando",
    "dans",
    "das",
    "dass",
    "de",
    "del",
    "dem",
    "den",
    "der",
    "des",
    "desde",
    "dich",
    "die",
    "dir",
    "do",
    "doch",
    "dont",
    "du",
    "ein",
    "eine",
    "einem",
    "einen",
    "einer",
    "el",
    "ella",
    "en",
    "er",
    "es",
    "eso",
    "est",
    "esta",
    "este",
    "et",
    "ever",
    "every",
    "exception",
    "existe",
    "favor",
    "for",
    "forget",
    "from",
    "fur",
    "going",
    "had",
    "has",
    "have",
    "hay",
    "i",
    "ich",
    "id",
    "if",
    "ihr",
    "il",
    "ils",
    "im",
    "immer",
    "in",
    "is",
    "ist",
    "it",
    "its",
    "ja",
    "jamais",
    "jamas",
    "je",
    "jetzt",
    "keine",
    "keinen",
    "la",
    "las",
    "le",
    "les",
    "lo",
    "longer",
    "los",
    "ma",
    "make",
    "man",
    "mas",
    "may",
    "me",
    "mes",
    "mi",
    "mich",
    "mir",
    "mit",
    "mon",
    "must",
    "my",
    "nach",
    "ne",
    "need",
    "never",
    "nicht",
    "nie",
    "niemals",
    "no",
    "noch",
    "not",
    "now",
    "nunca",
    "o",
    "oder",
    "of",
    "on",
    "or",
    "otra",
    "ou",
    "our",
    "para",
    "pas",
    "pero",
    "please",
    "plus",
    "por",
    "pour",
    "que",
    "qui",
    "quiero",
    "regel",
    "regla",
    "remember",
    "rule",
    "said",
    "se",
    "sein",
    "ser",
    "should",
    "si",
    "sie",
    "siempre",
    "sin",
    "so",
    "sobre",
    "sofort",
    "soll",
    "sollst",
    "su",
    "sur",
    "te",
    "that",
    "the",
    "their",
    "them",
    "there",
    "these",
    "they",
    "thing",
    "this",
    "tienes",
    "time",
    "to",
    "toda",
    "todo",
    "todos",
    "toujours",
    "tous",
    "tu",
    "tun",
    "un",
    "una",
    "und",
    "une",
    "uns",
    "unser",
    "up",
    "us",
    "ve",
    "vom",
    "von",
    "vor",
    "vous",
    "was",
    "we",
    "wenn",
    "what",
    "when",
    "whenever",
    "wie",
    "will",
    "wir",
    "with",
    "would",
    "y",
    "ya",
    "you",
    "your",
    "zu",
    "zum",
    "zur",
];

/// Words that turn a sentence into its contrary, folded and sorted.
const NEGATIVE: &[&str] = &[
    "cannot",
    "cant",
    "dont",
    "jamais",
    "jamas",
    "kein",
    "keine",
    "keinen",
    "keinesfalls",
    "ne",
    "never",
    "nicht",
    "nie",
    "niemals",
    "no",
    "non",
    "not",
    "nothing",
    "nunca",
    "pas",
];

/// What a sentence is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Subject {
    /// Hashes of its words' stems, rising.
    stems: Vec<u32>,
    /// It says no.
    negative: bool,
}

impl Subject {
    /// Reads a text.
    pub(super) fn of(text: &str) -> Subject {
        let tokens = Tokens::of(text);
        let mut subject = Subject::default();
        for index in 0..tokens.len() {
            let word = tokens.get(index);
            subject.negative |= NEGATIVE.binary_search(&word).is_ok();
            if tokens.list()[index].word && EMPTY.binary_search(&word).is_err() {
                subject.stems.push(hash(stem(word)));
            }
        }
        let mut last: Option<char> = None;
        for c in text.chars() {
            let dense = is_dense(c);
            if let (true, Some(before)) = (dense, last) {
                let mut pair = [0u8; 8];
                let first = before.encode_utf8(&mut pair).len();
                let length = first + c.encode_utf8(&mut pair[first..]).len();
                subject.stems.push(hash_bytes(&pair[..length]));
            }
            last = dense.then_some(c);
        }
        subject.negative |= ["不", "没", "禁", "ない", "ません", "勿"].iter().any(|no| text.contains(no));
        subject.stems.sort_unstable();
        subject.stems.dedup();
        subject
    }

    /// It says nothing that could be compared.
    pub(super) fn is_empty(&self) -> bool {
        self.stems.is_empty()
    }

    /// The same said again.
    pub(super) fn repeats(&self, other: &Subject) -> bool {
        self.negative == other.negative && self.stems == other.stems
    }

    /// It takes the place of an `older` one: the same matter with another value, or the contrary.
    pub(super) fn replaces(&self, older: &Subject) -> bool {
        let shared = self.shared(older);
        let all = self.stems.len() + older.stems.len() - shared;
        !self.stems.is_empty() && shared * 5 >= all * 4
    }

    /// Number of words in both.
    pub(super) fn shared(&self, other: &Subject) -> usize {
        self.stems.iter().filter(|stem| other.stems.binary_search(stem).is_ok()).count()
    }

    /// Number of words.
    pub(super) fn len(&self) -> usize {
        self.stems.len()
    }
}

/// A word without its commonest endings. Crude on purpose: it need only bring forms of one word together.
fn stem(word: &str) -> &str {
    if !word.is_ascii() || word.len() < 5 || word.bytes().any(|b| b.is_ascii_digit()) {
        return word;
    }
    let cut = ["ing", "ed", "es", "en", "st", "as", "os", "ar", "er", "ir", "s", "e", "a", "o", "t"]
        .iter()
        .find_map(|ending| word.strip_suffix(ending).filter(|left| left.len() >= 4))
        .unwrap_or(word);
    &cut[..cut.len().min(7)]
}

fn hash(word: &str) -> u32 {
    hash_bytes(word.as_bytes())
}

/// FNV-1a of 32 bits.
fn hash_bytes(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted() {
        assert!(NEGATIVE.is_sorted());
        let mut sorted = EMPTY.to_vec();
        sorted.sort_unstable();
        assert_eq!(EMPTY, sorted, "the list is looked up by halves");
    }
}
