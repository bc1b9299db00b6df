//! Phrases and what they hint at, in tables by language. A phrase alone decides nothing; [`super::judge`] weighs them.

pub(super) mod dense;
mod english;
mod french;
mod german;
mod spanish;

use super::tokens::Tokens;
use std::collections::HashMap;
use std::sync::LazyLock;

/// What a phrase hints at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hint {
    /// Opens a sentence without being part of it: "by the way".
    Lead,
    /// "please".
    Polite,
    /// "always": for good when it is an order, else narration.
    Always,
    /// Opens a clause that says when: "whenever".
    Each,
    /// "never".
    Never,
    /// For good, whoever says it: "from now on".
    Standing,
    /// The speaker wants something of the listener: "I want you to".
    Want,
    /// The speaker does not want it: "I don't want you to".
    Unwanted,
    /// An order to the listener that is narration without more: "you should".
    Order,
    /// A flat prohibition: "under no circumstances", "you are not allowed to".
    Ban,
    /// Opens a prohibition: "don't".
    Dont,
    /// A question that is an order: "could you".
    Ask,
    /// Speaks of rules: "one rule", "house rules".
    Rule,
    /// Opens a list of rules when it stands before a colon.
    Announce,
    /// "only" at the head of an order.
    Only,
    /// Tells of a taste: "I prefer", "I hate".
    Prefer,
    /// Makes of a taste a choice in this moment: "the second one", "that".
    Choice,
    /// Tells who the speaker is: "call me", "my time zone is".
    Me,
    /// A condition of the work, true by itself: "is off limits", "must not be exceeded".
    Bound,
    /// A condition when it is of all: "must have".
    Must,
    /// "all new", "every".
    All,
    /// Forbids a kind of thing: "no … on Fridays".
    No,
    /// Sets where a rule is in force: "in this project we".
    Here,
    /// Still to be done.
    Task,
    /// Has been done.
    Done,
    /// Takes back.
    Revoke,
    /// Refers to what was said.
    Recall,
    /// Somebody else says so.
    Report,
    /// Need not be done.
    Exempt,
    /// For this time only.
    Once,
    /// A condition that is only thought of.
    If,
    /// What would be.
    Would,
    /// Tells of a fault.
    Fault,
    /// A subject that is neither the listener nor nobody: "he", "the".
    Subject,
    /// "I", "we".
    Speaker,
    /// Opens a question.
    Question,
    /// A verb as orders have it.
    Verb,
    /// How the assistant speaks and works: an order about it is for good.
    Manner,
    /// A kind of work product that comes again and again: "commit", "answer".
    Work,
    /// Opens a clause before the order: "when you", "before committing", "for every".
    Case,
    /// An order to stop a habit: "stop apologising".
    Quit,
    /// A past tense.
    Past,
    /// Forbids nothing behind "don't" or "no": "worry", "idea".
    Idle,
    /// Makes a set phrase or a statement of "always" or "never" before it: "always welcome".
    Phrase,
    /// A finite verb or pronoun that makes a German phrase a statement.
    Finite,
    /// What somebody else wrote, when it stands before a colon: "the mail from".
    Paste,
    /// Opens a fact that is to be kept in mind: "remember that".
    Keep,
    /// Says what is to be done with a text, whichever follows: "translate", "proofread".
    Treat,
    /// May be done with a text, when one is named: "check", "reply to".
    Handle,
    /// Hands words on to somebody: "tell Kim", "repeat after me".
    Say,
    /// Names a text that is to be seen: "this", "the following".
    Shown,
    /// Names the text before: "the text above".
    Above,
    /// Makes of what follows a model and no text: "like this", "as follows".
    Like,
    /// A name for a text that stands before a colon by itself: "lyrics".
    Label,
    /// Asks about a text: "what does this mean".
    About,
    /// A form of writing: an order to leave it out is for good. "tables", "jargon".
    Form,
    /// Asks for assent behind an order, and makes no question of it: "ok?".
    Assent,
    /// A verb that makes a statement of what stands before it: "is".
    Copula,
}

/// A hint that was found, and the tokens that gave it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub hint: Hint,
    /// First token.
    pub from: usize,
    /// First token after it.
    pub to: usize,
}

/// Phrases of one hint: words separated by spaces, phrases by `|`; `*` stands for up to three words, `_` for one.
type Table = &'static [(Hint, &'static str)];

static LEXICON: LazyLock<Lexicon> =
    LazyLock::new(|| Lexicon::of(&[english::TABLE, german::TABLE, spanish::TABLE, french::TABLE]));
static TEXTS: LazyLock<Lexicon> =
    LazyLock::new(|| Lexicon::of(&[english::TEXTS, german::TEXTS, spanish::TEXTS, french::TEXTS]));

#[derive(Default)]
struct Lexicon {
    /// By first word: the other words, and the hint.
    phrases: HashMap<&'static str, Vec<(Vec<&'static str>, Hint)>>,
}

impl Lexicon {
    fn of(tables: &[Table]) -> Lexicon {
        let mut lexicon = Lexicon::default();
        for (hint, phrases) in tables.iter().copied().flatten() {
            for phrase in phrases.split('|').map(str::trim).filter(|phrase| !phrase.is_empty()) {
                let mut words = phrase.split(' ');
                let first = words.next().unwrap_or_default();
                lexicon.phrases.entry(first).or_default().push((words.collect(), *hint));
            }
        }
        lexicon
    }

    fn find(&self, tokens: &Tokens) -> Vec<Found> {
        let mut found = Vec::new();
        for from in 0..tokens.len() {
            let Some(phrases) = self.phrases.get(tokens.get(from)) else { continue };
            for (words, hint) in phrases {
                if let Some(to) = ends(tokens, from + 1, words) {
                    found.push(Found { hint: *hint, from, to });
                }
            }
        }
        found
    }
}

/// The hints of a sentence, by their first token.
pub(super) fn hints(tokens: &Tokens) -> Vec<Found> {
    LEXICON.find(tokens)
}

/// What tells of a text that follows or went before, by its first token.
pub(super) fn texts(tokens: &Tokens) -> Vec<Found> {
    TEXTS.find(tokens)
}

/// Where the phrase ends when its other words stand at `at`.
fn ends(tokens: &Tokens, mut at: usize, words: &[&str]) -> Option<usize> {
    for (index, word) in words.iter().enumerate() {
        if *word == "*" {
            return (0..=3).find_map(|skip| ends(tokens, at + skip, &words[index + 1..]));
        }
        if at >= tokens.len() || (*word != "_" && tokens.get(at) != *word) {
            return None;
        }
        at += 1;
    }
    Some(at)
}
