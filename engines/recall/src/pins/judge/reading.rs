//! A sentence with its hints, and where its head is.

use crate::pins::lexicon::{self, Found, Hint};
use crate::pins::subject;
use crate::pins::tokens::Tokens;

/// A sentence as the rules look at it.
pub(super) struct Reading {
    pub tokens: Tokens,
    /// All hints, those inside longer ones left out.
    found: Vec<Found>,
    /// First token that is neither a lead-in nor a word of politeness.
    pub head: usize,
    /// First token of the reason that it gives, which decides nothing; else its length.
    pub end: usize,
    /// It asks.
    pub question: bool,
    /// First token that is no lead-in, before a condition was passed over.
    pub opening: usize,
    /// Its head stands behind a condition: "if you are unsure, …".
    pub conditional: bool,
}

impl Reading {
    pub(super) fn of(text: &str) -> Reading {
        let tokens = Tokens::of(text);
        let all = lexicon::hints(&tokens);
        let mut end = reasons(&tokens);
        // Few phrases are long, and only they swallow.
        let long: Vec<Found> = all.iter().filter(|one| one.to - one.from > 1).copied().collect();
        let told = |one: &&Found| one.from < end && !long.iter().any(|other| swallows(other, one));
        let found: Vec<Found> = all.iter().filter(told).copied().collect();
        let closed = text.trim_end_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '?' | '？'));
        let mut question = closed.ends_with(['?', '？']) || text.trim_start().starts_with('¿');
        // "Never call me Bob, ok?" is an order.
        if question && let Some(tag) = assent(&tokens, &found) {
            (question, end) = (false, end.min(tag));
        }
        let mut reading = Reading { tokens, found, head: 0, end, opening: 0, question, conditional: false };
        reading.head = reading.skip(0);
        reading.opening = reading.head;
        reading.pass_condition();
        reading
    }

    pub(super) fn is_empty(&self) -> bool {
        self.head >= self.tokens.len()
    }

    /// A hint is somewhere.
    pub(super) fn has(&self, hint: Hint) -> bool {
        self.find(hint).is_some()
    }

    /// The first of a hint.
    pub(super) fn find(&self, hint: Hint) -> Option<Found> {
        self.found.iter().find(|found| found.hint == hint).copied()
    }

    /// It names a language to answer in.
    pub(super) fn names_language(&self) -> bool {
        subject::sets_language(&self.tokens)
    }

    /// All hints.
    pub(super) fn all(&self) -> &[Found] {
        &self.found
    }

    /// Where the longest phrase of the hint ends that begins at `at`.
    pub(super) fn at(&self, hint: Hint, at: usize) -> Option<usize> {
        self.found.iter().filter(|found| found.hint == hint && found.from == at).map(|found| found.to).max()
    }

    /// The token at `at`, folded.
    pub(super) fn word(&self, at: usize) -> &str {
        self.tokens.get(at)
    }

    /// The next word from `at` on, over punctuation and politeness.
    pub(super) fn skip(&self, mut at: usize) -> usize {
        while at < self.tokens.len() {
            if !self.tokens.list()[at].word {
                at += 1;
                continue;
            }
            let speaks = [Hint::Keep, Hint::Want, Hint::Standing, Hint::Task, Hint::Recall]
                .iter()
                .any(|hint| self.at(*hint, at).is_some());
            match self.at(Hint::Lead, at).filter(|_| !speaks).or_else(|| self.at(Hint::Polite, at)) {
                Some(to) => at = to,
                None => break,
            }
        }
        at
    }

    /// Number of words, without the reason.
    pub(super) fn words(&self) -> usize {
        self.tokens.list()[..self.end].iter().filter(|token| token.word).count()
    }

    /// "If you are unsure, ask me first": what counts stands behind the comma.
    fn pass_condition(&mut self) {
        if self.at(Hint::If, self.head).is_none() {
            return;
        }
        let comma = (self.head..self.tokens.len()).find(|at| self.word(*at) == ",");
        if let Some(comma) = comma {
            let main = self.skip(comma + 1);
            if main < self.tokens.len() {
                self.head = main;
                self.conditional = true;
            }
        }
    }
}

/// Where what only asks for assent begins, behind an order.
fn assent(tokens: &Tokens, found: &[Found]) -> Option<usize> {
    let last = tokens.list().iter().rposition(|token| token.word)? + 1;
    let tag = found
        .iter()
        .filter(|one| one.hint == Hint::Assent && one.to == last && one.from > 1)
        .map(|one| one.from)
        .min()?;
    let parted = !tokens.list()[tag - 1].word
        || matches!(tokens.get(tag), "ok" | "okay" | "please" | "vale" | "ja" | "bitte" | "stp" | "svp");
    let orders = |one: &Found| {
        matches!(
            one.hint,
            Hint::Verb
                | Hint::Dont
                | Hint::Never
                | Hint::Always
                | Hint::Standing
                | Hint::Want
                | Hint::Keep
                | Hint::Unwanted
                | Hint::Ban
                | Hint::Only
                | Hint::Manner
                | Hint::No
                | Hint::Quit
                | Hint::Me
                | Hint::Prefer
                | Hint::Order
        )
    };
    let lead = |at: usize| {
        found.iter().any(|one| matches!(one.hint, Hint::Lead | Hint::Polite) && (one.from..one.to).contains(&at))
    };
    let head = (0..tag).find(|at| tokens.list()[*at].word && !lead(*at))?;
    let asks = found.iter().any(|one| matches!(one.hint, Hint::Question | Hint::Ask) && one.from == head);
    (parted && !asks && found.iter().any(|one| one.from == head && orders(one))).then_some(tag)
}

/// Where a clause begins that only tells why.
fn reasons(tokens: &Tokens) -> usize {
    let opens = |at: &usize| {
        let behind = *at > 0 && tokens.get(at - 1) == ",";
        match tokens.get(*at) {
            "because" | "weil" | "porque" => *at > 2,
            "since" | "as" | "otherwise" | "or" | "denn" | "sonst" | "da" | "damit" | "pues" | "car" | "sinon" => {
                behind
            }
            "ya" | "parce" => behind && tokens.get(at + 1) == "que",
            "si" => behind && tokens.get(at + 1) == "no",
            _ => false,
        }
    };
    (0..tokens.len()).find(opens).unwrap_or(tokens.len())
}

/// Whether a hint means nothing where it stands, being a part of a longer phrase: "now" of "from now on".
fn swallows(longer: &Found, one: &Found) -> bool {
    let inside = longer.from <= one.from && longer.to >= one.to && longer.to - longer.from > one.to - one.from;
    let weak = matches!(
        one.hint,
        Hint::Once
            | Hint::Lead
            | Hint::Question
            | Hint::Subject
            | Hint::Speaker
            | Hint::Fault
            | Hint::Report
            | Hint::Must
            | Hint::All
            | Hint::No
            | Hint::Dont
            | Hint::Only
            | Hint::Want
            | Hint::If
            | Hint::Would
            | Hint::Order
            | Hint::Prefer
            | Hint::Recall
            | Hint::Finite
    );
    let lasting = matches!(one.hint, Hint::Always | Hint::Never | Hint::Standing);
    let over =
        matches!(longer.hint, Hint::Always | Hint::Never | Hint::Standing | Hint::Exempt | Hint::Revoke | Hint::Report);
    inside
        && (weak && !matches!(longer.hint, Hint::Announce | Hint::Paste | Hint::Choice | Hint::Done)
            || (lasting && over))
}
