//! What kinds of things stand in a passage, as far as a look at its words tells.

use crate::text::words::{Kind, Word};

/// Bits of what stands in a passage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Signs(pub(crate) u16);

impl Signs {
    /// A word that places something in time: a weekday, a month, "yesterday", "ago".
    pub(crate) const TIME: Signs = Signs(1);
    /// A number, in digits or as a word.
    pub(crate) const NUMBER: Signs = Signs(1 << 1);
    /// A name: a capital letter within a sentence.
    pub(crate) const NAME: Signs = Signs(1 << 2);
    /// Its last sentence asks.
    pub(crate) const ASKS: Signs = Signs(1 << 3);
    /// The speaker speaks of themselves.
    pub(crate) const SELF: Signs = Signs(1 << 4);
    /// The speaker speaks to the other one.
    pub(crate) const OTHER: Signs = Signs(1 << 5);
    /// A title or a word in quotation marks.
    pub(crate) const QUOTE: Signs = Signs(1 << 6);
    /// All of it is one question or exclamation without a statement.
    pub(crate) const STATES: Signs = Signs(1 << 7);

    /// The signs that punctuation gives.
    pub(crate) fn of(text: &str) -> Signs {
        let mut signs = Signs::default();
        let end = text.trim_end();
        if end.ends_with(['?', '？', '؟']) {
            signs.set(Signs::ASKS);
        }
        if text.contains(". ") || end.ends_with(['.', '。']) {
            signs.set(Signs::STATES);
        }
        if text.matches(['"', '“', '”', '«', '»', '「', '『']).nth(1).is_some() {
            signs.set(Signs::QUOTE);
        }
        signs
    }

    /// Adds what a word is a sign of.
    pub(crate) fn note(&mut self, word: &Word<'_>) {
        match word.kind {
            Kind::Number => self.set(Signs::NUMBER),
            Kind::Plain | Kind::Pair | Kind::Character => {
                if is_time(word.text) {
                    self.set(Signs::TIME);
                } else if is_number(word.text) {
                    self.set(Signs::NUMBER);
                } else if is_self(word.text) {
                    self.set(Signs::SELF);
                } else if is_other(word.text) {
                    self.set(Signs::OTHER);
                } else if word.written.starts_with(char::is_uppercase) {
                    self.set(Signs::NAME);
                }
            }
            Kind::Identifier => self.set(Signs::NAME),
            Kind::Part => {}
        }
    }

    /// These signs are there.
    pub(crate) fn has(self, signs: Signs) -> bool {
        self.0 & signs.0 == signs.0
    }

    fn set(&mut self, signs: Signs) {
        self.0 |= signs.0;
    }
}

/// A word, stemmed, that places something in time.
fn is_time(word: &str) -> bool {
    matches!(
        word,
        "ago"
            | "today"
            | "tonight"
            | "tomorrow"
            | "yesterdai"
            | "yesterday"
            | "last"
            | "next"
            | "past"
            | "sinc"
            | "recent"
            | "dai"
            | "day"
            | "week"
            | "weekend"
            | "month"
            | "year"
            | "morn"
            | "night"
            | "mondai"
            | "monday"
            | "tuesdai"
            | "tuesday"
            | "wednesdai"
            | "wednesday"
            | "thursdai"
            | "thursday"
            | "fridai"
            | "friday"
            | "saturdai"
            | "saturday"
            | "sundai"
            | "sunday"
            | "januari"
            | "february"
            | "februari"
            | "march"
            | "april"
            | "june"
            | "jun"
            | "july"
            | "juli"
            | "august"
            | "septemb"
            | "september"
            | "octob"
            | "october"
            | "novemb"
            | "november"
            | "decemb"
            | "december"
            | "gestern"
            | "heut"
            | "morgen"
            | "letzt"
            | "letzten"
            | "woch"
            | "tag"
            | "jahr"
            | "monat"
            | "hier"
            | "demain"
            | "semain"
            | "ayer"
            | "mañana"
            | "semana"
            | "mes"
            | "año"
            | "вчера"
            | "сегодня"
            | "завтра"
            | "неделю"
            | "昨日"
            | "今日"
            | "明日"
            | "昨天"
            | "今天"
            | "明天"
            | "先週"
            | "上周"
    )
}

/// A word, stemmed, that counts.
fn is_number(word: &str) -> bool {
    matches!(
        word,
        "one"
            | "two"
            | "thre"
            | "three"
            | "four"
            | "fiv"
            | "five"
            | "six"
            | "seven"
            | "eight"
            | "nin"
            | "nine"
            | "ten"
            | "both"
            | "coupl"
            | "few"
            | "sever"
            | "many"
            | "first"
            | "second"
            | "third"
            | "dozen"
            | "hundr"
            | "thousand"
            | "zwei"
            | "drei"
            | "vier"
            | "deux"
            | "trois"
            | "quatr"
            | "dos"
            | "tres"
            | "cuatro"
    )
}

/// A word by which speakers mean themselves.
fn is_self(word: &str) -> bool {
    matches!(
        word,
        "i" | "i'm"
            | "i've"
            | "i'd"
            | "i'll"
            | "me"
            | "my"
            | "mine"
            | "our"
            | "we"
            | "we're"
            | "we've"
            | "us"
            | "ich"
            | "mein"
            | "meine"
            | "wir"
            | "je"
            | "moi"
            | "mon"
            | "ma"
            | "nous"
            | "yo"
            | "mi"
            | "мы"
            | "я"
            | "мой"
            | "моя"
            | "私"
            | "我"
    )
}

/// A word by which speakers mean whom they speak to.
fn is_other(word: &str) -> bool {
    matches!(
        word,
        "you" | "you're" | "you've" | "you'd" | "you'll" | "your" | "du" | "dein" | "tu" | "vous" | "ты" | "вы" | "你"
    )
}
