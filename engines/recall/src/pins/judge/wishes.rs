//! Wishes and duties of the listener that do not begin with the verb: "I want you to", "you must", "under no circumstances".

use super::grounds::{INSTRUCTION, is_idle, is_past, is_we_or_i, lasting};
use super::reading::Reading;
use crate::pins::Kind;
use crate::pins::lexicon::{Found, Hint};
use crate::pins::subject::one_of;

/// "Remind me to …", "TODO: …", "we still need to …".
pub(super) fn task(reading: &Reading) -> Option<(Kind, u8)> {
    let task = reading.find(Hint::Task)?;
    if reading.at(Hint::Keep, reading.head).is_some() {
        return None;
    }
    let asked = reading.at(Hint::Ask, reading.head).is_some_and(|to| reading.skip(to) == task.from);
    if task.from > reading.head && !asked {
        return None;
    }
    if reading.has(Hint::Standing) || reading.has(Hint::Always) {
        return INSTRUCTION;
    }
    let word =
        reading.word(task.from) == "todo" && reading.word(task.to) != ":" && reading.at(Hint::Verb, task.to).is_none();
    if word
        || (task.from..reading.end)
            .any(|at| matches!(reading.word(at), "why" | "warum" | "pourquoi" | "herausfinden" | "averiguar"))
    {
        return None;
    }
    (reading.words() > task.to - task.from).then_some((Kind::Task, 2))
}

/// "One rule for all of this: …".
pub(super) fn rule(reading: &Reading) -> Option<(Kind, u8)> {
    let rule = reading.find(Hint::Rule)?;
    let near = rule.from <= reading.head + 2;
    let colon = (rule.to..reading.tokens.len().min(rule.to + 8)).any(|at| reading.word(at) == ":");
    let opens = rule.to - rule.from >= 3 && rule.from == reading.head;
    (near && (colon || opens) && reading.words() >= 4).then_some((Kind::Instruction, 3))
}

/// "Add a rule to the linter: …" is work.
pub(super) fn is_rule_of_a_thing(reading: &Reading) -> bool {
    let makes = matches!(
        reading.word(reading.head),
        "add" | "write" | "create" | "implement" | "generate" | "draft" | "define" | "configure"
    );
    let thing = |rule: Found| matches!(reading.word(rule.to), "to" | "for" | "in" | "into") && !reading.has(Hint::Here);
    makes && reading.find(Hint::Rule).is_some_and(thing)
}

/// "I want you to … every time", "I don't want you to …".
pub(super) fn wish(reading: &Reading) -> Option<(Kind, u8)> {
    if let Some(unwanted) = reading.find(Hint::Unwanted)
        && !is_of_a_thing(reading, unwanted.to)
        && (unwanted.from <= reading.head + 2 || reading.at(Hint::Standing, reading.head).is_some())
        && (!reading.has(Hint::Once) || lasting(reading))
    {
        return INSTRUCTION;
    }
    let kept = reading.find(Hint::Keep).filter(|kept| kept.from == reading.head && reading.word(kept.to - 1) != ",");
    let want = kept.or_else(|| reading.find(Hint::Want))?;
    if is_of_a_thing(reading, want.to) && reading.at(Hint::Standing, reading.head).is_none() {
        return None;
    }
    let leads = want.from <= reading.head + 1
        || [Hint::Standing, Hint::Always, Hint::Here].iter().any(|hint| reading.at(*hint, reading.head).is_some());
    let insists = reading.at(Hint::Standing, want.from).is_some();
    (leads && (lasting(reading) || insists)).then_some((Kind::Instruction, 3))
}

/// What is wished is something of a thing and not of the listener: "make sure the page always loads".
fn is_of_a_thing(reading: &Reading, at: usize) -> bool {
    let mut at = at;
    while matches!(reading.word(at), "," | "that" | "dass" | "que") {
        at += 1;
    }
    let listener = matches!(
        reading.word(at),
        "you" | "du" | "sie" | "ihr" | "tu" | "vous" | "we" | "wir" | "me" | "te" | "mi" | "my"
    );
    // "I want the numbers included" is about what the listener gives.
    let given = matches!(reading.word(at.saturating_sub(1)), "want" | "need")
        || matches!(reading.word(at - 1), "the" | "a" | "an" | "my");
    !listener && !given && reading.at(Hint::Subject, at).is_some()
}

/// "Under no circumstances …", "you are not allowed to …".
pub(super) fn ban(reading: &Reading) -> Option<(Kind, u8)> {
    let ban = reading.find(Hint::Ban).filter(|ban| !is_idle(reading, ban.to))?;
    let headed = ban.from <= reading.head + 1
        || [Hint::Standing, Hint::Here, Hint::Always, Hint::Never]
            .iter()
            .any(|hint| reading.at(*hint, reading.head).is_some());
    let narrated = [Hint::Subject, Hint::Speaker].iter().any(|hint| reading.at(*hint, reading.head).is_some());
    (headed || (!narrated && !reading.has(Hint::Fault))).then_some((Kind::Instruction, 3))
}

/// "You should always …".
pub(super) fn order(reading: &Reading) -> Option<(Kind, u8)> {
    let order = reading.find(Hint::Order)?;
    let leads = order.from == reading.head
        || [Hint::Standing, Hint::Here, Hint::Always, Hint::Never]
            .iter()
            .any(|hint| reading.at(*hint, reading.head).is_some());
    (leads && lasting(reading)).then_some((Kind::Instruction, 3))
}

/// What a fact begins with that is the speaker's own.
const OWN: &str =
    "my our i im ive we mein meine unser unsere ich wir mi mis nuestro nuestra soy mon ma mes notre je j nous";

/// "Remember that I am left-handed", "don't forget: …".
pub(super) fn kept_in_mind(reading: &Reading) -> Option<(Kind, u8)> {
    let to = reading.at(Hint::Keep, reading.head)?;
    let fact = reading.skip(to);
    let colon = reading.word(to - 1) == ":";
    // "Remember that we talked about it" keeps nothing.
    let shared = is_we_or_i(reading.word(fact)) || matches!(reading.word(fact), "you" | "du" | "tu" | "on" | "yo");
    let past = shared && (fact..reading.end).any(|at| reading.word(at).len() > 1 && is_past(reading, at));
    // "Remember, every step counts" is said to comfort.
    let idle = reading.word(to - 1) == "," && (lasting(reading) || !one_of(reading.word(fact), OWN));
    let barred = idle || !colon && (past || reading.has(Hint::Once)) || reading.has(Hint::Recall) || reading.question;
    (fact < reading.end && !barred).then_some((Kind::Preference, 2))
}
