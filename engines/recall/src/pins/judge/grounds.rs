//! Whether a sentence of an alphabetic language is pinned: the grounds, in the order in which they are asked.

use super::Verdict;
use super::conditions::{bound, elliptic, here, taste};
use super::names::is_named;
use super::orders::{asked, case, dont, habit, head_cue, imperative, later, manner, quits};
use super::reading::Reading;
use super::wishes::{ban, is_rule_of_a_thing, kept_in_mind, order, rule, task, wish};
use crate::pins::Kind;
use crate::pins::lexicon::Hint;

/// A line that announces what follows.
pub(super) fn announcement(reading: &Reading) -> Verdict {
    if reading.has(Hint::Paste) || reading.has(Hint::Report) {
        Verdict::Follows
    } else if reading.has(Hint::Announce) && !reading.question {
        Verdict::Rules
    } else {
        Verdict::Nothing
    }
}

/// What an item of a list of rules is.
pub(super) fn kind(reading: &Reading) -> Kind {
    if reading.at(Hint::Prefer, reading.head).is_some() || reading.at(Hint::Me, reading.head).is_some() {
        Kind::Preference
    } else if reading.has(Hint::Bound) {
        Kind::Constraint
    } else {
        Kind::Instruction
    }
}

/// It takes something back.
pub(super) fn takes_back(reading: &Reading) -> bool {
    let told = |at: usize| reading.all().iter().any(|one| one.hint == Hint::Report && one.from < at);
    // A single word such as "stop" must be the order itself.
    let revokes = reading.all().iter().any(|one| {
        let order = one.to - one.from > 1 || reading.skip(one.from) == reading.head;
        one.hint == Hint::Revoke && order && !told(one.from)
    });
    revokes && !reading.question || quits(reading)
}

/// It says that something is done.
pub(super) fn done(reading: &Reading) -> bool {
    !reading.question && reading.has(Hint::Done)
}

/// It refers to what was said.
pub(super) fn recalls(reading: &Reading) -> bool {
    reading.has(Hint::Recall)
}

/// Whether and as what it is pinned, and how sure that is.
pub(super) fn pin(reading: &Reading) -> Option<(Kind, u8)> {
    let thought = matches!(
        reading.word(reading.head),
        "imagine" | "suppose" | "pretend" | "imagina" | "supongamos" | "imaginons" | "supposons" | "angenommen"
    );
    if thought || is_reported(reading) || (reading.conditional && reading.has(Hint::Would)) {
        return None;
    }
    if reading.question {
        return asked(reading).or_else(|| task(reading).filter(|_| reading.at(Hint::Ask, reading.head).is_some()));
    }
    // "He must never know!" tells of somebody.
    let other = matches!(reading.word(reading.head), "he" | "she") && reading.word(reading.head + 1) == "must";
    if other || reading.has(Hint::Exempt) || is_named(reading) || is_rule_of_a_thing(reading) {
        return None;
    }
    task(reading)
        .or_else(|| rule(reading))
        .or_else(|| wish(reading))
        .or_else(|| ban(reading))
        .or_else(|| order(reading))
        .or_else(|| head_cue(reading))
        .or_else(|| habit(reading))
        .or_else(|| imperative(reading))
        .or_else(|| manner(reading))
        .or_else(|| dont(reading))
        .or_else(|| case(reading))
        .or_else(|| kept_in_mind(reading))
        .or_else(|| here(reading))
        .or_else(|| taste(reading))
        .or_else(|| bound(reading))
        .or_else(|| elliptic(reading))
        .or_else(|| later(reading))
}

/// Somebody else's words stand before the first cue: "Kim says that we should never".
fn is_reported(reading: &Reading) -> bool {
    let cues: Vec<usize> = reading
        .all()
        .iter()
        .filter(|one| {
            matches!(
                one.hint,
                Hint::Always
                    | Hint::Never
                    | Hint::Standing
                    | Hint::Ban
                    | Hint::Order
                    | Hint::Unwanted
                    | Hint::Bound
                    | Hint::Task
            )
        })
        .map(|one| one.from)
        .collect();
    let addressed = [Hint::Verb, Hint::Ask, Hint::Want, Hint::Unwanted, Hint::Always, Hint::Never, Hint::Standing]
        .iter()
        .any(|hint| reading.at(*hint, reading.head).is_some());
    let own =
        |from: usize| from > 0 && matches!(reading.word(from - 1), "i" | "ich" | "we" | "wir" | "je" | "j" | "nous");
    let told = |from: usize| cues.is_empty() || cues.iter().any(|cue| *cue > from);
    let reported = reading.all().iter().any(|one| one.hint == Hint::Report && told(one.from) && !own(one.from));
    reported && !addressed
}

/// What begins with "always", "never" or "from now on", and behind a colon needs no verb: "what I want: always the short version".
pub(super) fn cue(reading: &Reading) -> Option<(Kind, u8)> {
    if reading.is_empty() || reading.question || is_named(reading) {
        return None;
    }
    let bare = || {
        let to = reading.at(Hint::Always, reading.head).or_else(|| reading.at(Hint::Never, reading.head))?;
        let told =
            reading.has(Hint::Speaker) || reading.has(Hint::Copula) || (to..reading.end).any(|at| is_past(reading, at));
        (to < reading.end && !told && !reading.has(Hint::Fault)).then_some((Kind::Instruction, 2))
    };
    head_cue(reading).or_else(bare)
}

pub(super) const INSTRUCTION: Option<(Kind, u8)> = Some((Kind::Instruction, 3));

/// For good: "from now on", "always", "never".
pub(super) fn lasting(reading: &Reading) -> bool {
    reading.has(Hint::Standing) || reading.has(Hint::Always) || reading.has(Hint::Never)
}

/// The speaker and his people.
pub(super) fn is_we(word: &str) -> bool {
    matches!(word, "we" | "wir" | "nous" | "nosotros")
}

pub(super) fn is_we_or_i(word: &str) -> bool {
    is_we(word) || matches!(word, "i" | "ich" | "je")
}

/// Past tenses, as far as they show.
pub(super) fn is_past(reading: &Reading, at: usize) -> bool {
    let word = reading.word(at);
    let english = word.len() > 4 && word.ends_with("ed") && !word.ends_with("eed");
    let spanish =
        word.len() > 5 && ["aron", "ieron", "imos", "aba", "aban", "ado"].iter().any(|ending| word.ends_with(ending));
    english || spanish || reading.at(Hint::Past, at).is_some()
}

/// What stands behind "don't", "no" or "never" and forbids nothing: "don't worry", "no idea", "never give up".
pub(super) fn is_idle(reading: &Reading, at: usize) -> bool {
    reading.at(Hint::Idle, at).is_some()
}
