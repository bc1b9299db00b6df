//! Grounds that are no orders: conditions of the work, tastes, norms of a team, and phrases without a verb.

use super::grounds::{is_idle, is_past, is_we};
use super::orders::is_topic;
use super::reading::Reading;
use crate::pins::Kind;
use crate::pins::lexicon::{Found, Hint};

/// "No deploys on Fridays".
pub(super) fn no_such_thing(reading: &Reading) -> Option<(Kind, u8)> {
    let to = reading.at(Hint::No, reading.head)?;
    let idle = is_idle(reading, to) || !reading.tokens.list().get(to).is_some_and(|token| token.word);
    let states = reading.has(Hint::Fault)
        || reading.has(Hint::Once)
        || (to..reading.tokens.len()).any(|at| {
            is_past(reading, at)
                || matches!(reading.word(at), "is" | "are" | "was" | "were" | "ist" | "sind" | "es" | "son" | "est")
        });
    (!idle && !states && reading.words() <= 12 && reading.words() >= 2).then_some((Kind::Constraint, 1))
}

/// "In this project we never …".
pub(super) fn here(reading: &Reading) -> Option<(Kind, u8)> {
    let here = reading.find(Hint::Here)?;
    let cue =
        reading.all().iter().find(|one| matches!(one.hint, Hint::Always | Hint::Never | Hint::Ban | Hint::Standing))?;
    let told = is_past(reading, reading.skip(cue.to)) || reading.has(Hint::Fault);
    (here.from == reading.head && !told).then_some((Kind::Constraint, 2))
}

/// "I prefer …", "call me …".
pub(super) fn taste(reading: &Reading) -> Option<(Kind, u8)> {
    let head = reading.head;
    if let Some(to) = reading.at(Hint::Me, head) {
        return (!is_elsewhere(reading.word(to))).then_some((Kind::Preference, 2));
    }
    let to = reading.at(Hint::Prefer, head)?;
    let chosen = reading.at(Hint::Choice, to).is_some() || to >= reading.tokens.len();
    (!chosen && !reading.has(Hint::Once) && reading.words() >= 3).then_some((Kind::Preference, 2))
}

/// Behind "call me" or "my name is": it is not about who the speaker is.
pub(super) fn is_elsewhere(word: &str) -> bool {
    matches!(word, "in" | "on" | "not" | "wrong" | "missing" | "when" | "back" | "if" | "later" | "after")
}

/// "… is off limits", "all new modules must have …", "nothing goes out without …".
pub(super) fn bound(reading: &Reading) -> Option<(Kind, u8)> {
    if reading.has(Hint::Fault)
        || reading.has(Hint::Once)
        || reading.conditional
        || reading.at(Hint::Question, reading.head).is_some()
    {
        return None;
    }
    let does = reading.at(Hint::Verb, reading.head).is_some()
        && !matches!(reading.word(reading.head), "treat" | "behandle" | "behandeln" | "trata" | "considere" | "keep");
    if let Some(bound) = reading.find(Hint::Bound).filter(|bound| !does || bound.from <= reading.head + 2) {
        // A budget is one when it has a number.
        let sum =
            (bound.from..bound.to).any(|at| matches!(reading.word(at), "budget" | "limit" | "presupuesto" | "limite"));
        let number = (bound.to..reading.end).any(|at| reading.word(at).bytes().any(|byte| byte.is_ascii_digit()));
        if sum && !number {
            return None;
        }
        return Some((Kind::Constraint, 2));
    }
    let all = reading.at(Hint::All, reading.head)?;
    let nobody = matches!(
        reading.word(reading.head),
        "nothing"
            | "nobody"
            | "no"
            | "none"
            | "nada"
            | "nadie"
            | "ningun"
            | "nichts"
            | "niemand"
            | "keiner"
            | "rien"
            | "personne"
    );
    let without = ["without", "ohne", "sin", "sans"]
        .iter()
        .any(|word| (all..reading.tokens.len()).any(|at| reading.word(at) == *word));
    let work = (reading.head..reading.end.min(all + 3)).any(|at| reading.at(Hint::Work, at).is_some());
    let must = (nobody && without || work)
        && reading.all().iter().any(|one| {
            one.hint == Hint::Must
                && (nobody && without
                    || matches!(
                        reading.word(one.from),
                        "must"
                            | "has"
                            | "have"
                            | "needs"
                            | "muss"
                            | "mussen"
                            | "braucht"
                            | "brauchen"
                            | "debe"
                            | "deben"
                            | "tiene"
                            | "tienen"
                            | "necesita"
                            | "necesitan"
                            | "doit"
                            | "doivent"
                    )
                    || (reading.word(one.from) == "should" && one.to - one.from > 1))
        });
    must.then_some((Kind::Constraint, 2))
}

/// "Commits always in English", "bei Preisen immer in Euro": no verb at all.
pub(super) fn elliptic(reading: &Reading) -> Option<(Kind, u8)> {
    let lasts =
        |one: &&Found| matches!(one.hint, Hint::Always | Hint::Never | Hint::Standing) && !is_topic(reading, one);
    let cue = reading.all().iter().find(lasts)?;
    let closes = cue.to == reading.end && cue.from > 0 && reading.word(cue.from - 1) == ",";
    let told = reading.has(Hint::Fault) || reading.has(Hint::Speaker) || (0..cue.from).any(|at| is_past(reading, at));
    if closes && !told && cue.hint != Hint::Never {
        return Some((Kind::Instruction, 2));
    }
    let norm = (is_we(reading.word(reading.head)) || reading.word(reading.head) == "on")
        && reading.has(Hint::Standing)
        && !reading.has(Hint::Fault);
    if norm && !is_past(reading, reading.head + 1) {
        return Some((Kind::Instruction, 2));
    }
    let he = matches!(
        reading.word(reading.head),
        "he" | "she"
            | "they"
            | "it"
            | "you"
            | "er"
            | "sie"
            | "es"
            | "du"
            | "il"
            | "elle"
            | "ils"
            | "elles"
            | "on"
            | "tu"
            | "el"
            | "ella"
            | "ellos"
            | "ellas"
    );
    let barred = reading.has(Hint::Speaker)
        || he
        || reading.has(Hint::Fault)
        || reading.at(Hint::Question, reading.head).is_some()
        || reading.words() > 14
        || (0..reading.tokens.len()).any(|at| is_past(reading, at));
    if barred {
        return None;
    }
    let preposition = matches!(
        reading.word(cue.to),
        "in" | "auf"
            | "en"
            | "as"
            | "als"
            | "como"
            | "comme"
            | "with"
            | "mit"
            | "con"
            | "avec"
            | "without"
            | "ohne"
            | "sin"
            | "sans"
            | "by"
            | "per"
            | "por"
            | "par"
            | "im"
            | "unter"
            | "under"
            | "vor"
            | "before"
            | "antes"
            | "avant"
            | "nach"
            | "after"
    );
    let headed = cue.from > reading.head;
    if preposition && headed && !finite(reading) {
        return Some((Kind::Instruction, 2));
    }
    // German rules in the infinitive: "Vor dem Deploy immer die Tests laufen lassen".
    let last = (0..reading.tokens.len()).rev().find(|at| reading.tokens.list()[*at].word).unwrap_or(0);
    let infinitive = reading.word(last).ends_with("en")
        || reading.word(last).ends_with("ern")
        || reading.word(last).ends_with("eln");
    let german = ["immer", "nie", "niemals", "stets", "grundsatzlich", "generell", "ab", "kunftig", "nur"]
        .contains(&reading.word(cue.from));
    (infinitive && german && headed && !finite(reading)).then_some((Kind::Instruction, 2))
}

/// German orders in the infinitive: the clause from `from` on ends with one, and has neither a subject nor a finite verb.
pub(super) fn is_infinitive_clause(reading: &Reading, from: usize) -> bool {
    let end = (from..reading.end).find(|at| matches!(reading.word(*at), "," | ";" | ":")).unwrap_or(reading.end);
    let Some(last) =
        (from..end).rev().find(|at| reading.tokens.list()[*at].word && reading.at(Hint::Polite, *at).is_none())
    else {
        return false;
    };
    let word = reading.word(last);
    let infinitive = word.len() > 4 && ["en", "ern", "eln"].iter().any(|ending| word.ends_with(ending));
    let subject =
        (from..end).any(|at| reading.at(Hint::Speaker, at).is_some() || reading.at(Hint::Finite, at).is_some());
    infinitive
        && last > from
        && !subject
        && (from..end).any(|at| is_german(reading.word(at)) || reading.at(Hint::Verb, last).is_some())
}

/// Small words that only German has.
fn is_german(word: &str) -> bool {
    matches!(
        word,
        "der"
            | "den"
            | "dem"
            | "des"
            | "die"
            | "das"
            | "ein"
            | "eine"
            | "einen"
            | "einem"
            | "einer"
            | "und"
            | "mit"
            | "auf"
            | "bei"
            | "von"
            | "zu"
            | "zum"
            | "zur"
            | "vor"
            | "nach"
            | "unter"
            | "uber"
            | "fur"
            | "im"
            | "ins"
            | "aus"
            | "als"
            | "statt"
            | "nicht"
            | "nur"
            | "in"
            | "an"
            | "am"
            | "ohne"
            | "beim"
            | "vom"
    )
}

fn finite(reading: &Reading) -> bool {
    reading.has(Hint::Finite)
        || (0..reading.tokens.len()).any(|at| {
            matches!(reading.word(at), "is" | "are" | "was" | "has" | "had" | "es" | "son" | "est" | "sont" | "esta")
        })
}
