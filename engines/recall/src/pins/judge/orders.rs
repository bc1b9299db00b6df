//! Orders: a sentence that begins with "always", with a verb as orders have it, or with "don't".

use super::conditions::{is_elsewhere, is_infinitive_clause, no_such_thing};
use super::grounds::{INSTRUCTION, is_idle, is_past, is_we, is_we_or_i, lasting};
use super::names::{is_being, is_title};
use super::reading::Reading;
use super::romance;
use crate::pins::Kind;
use crate::pins::lexicon::{Found, Hint};
use crate::pins::subject::{self, one_of};

/// "Always …", "never …", "from now on …" at the head.
pub(super) fn head_cue(reading: &Reading) -> Option<(Kind, u8)> {
    let head = reading.head;
    if let Some(to) = reading.at(Hint::Standing, head) {
        let next = reading.skip(to);
        if next >= reading.tokens.len() {
            return None;
        }
        if reading.at(Hint::Speaker, next).is_some() {
            return (is_we(reading.word(next)) && !is_past(reading, next + 1)).then_some((Kind::Instruction, 2));
        }
        if reading.at(Hint::Subject, next).is_some() && reading.at(Hint::Verb, next).is_none() {
            if is_infinitive_clause(reading, next) {
                return INSTRUCTION;
            }
            let binds =
                [Hint::Must, Hint::Order, Hint::Bound, Hint::Always, Hint::Never].iter().any(|hint| reading.has(*hint));
            return binds.then_some((Kind::Constraint, 2));
        }
        return (!is_past(reading, next)).then_some((Kind::Instruction, 3));
    }
    let to = reading.at(Hint::Always, head).or_else(|| reading.at(Hint::Never, head))?;
    let next = reading.skip(to);
    if is_infinitive_clause(reading, next) || romance::orders(reading, next) {
        return INSTRUCTION;
    }
    let narrates = next >= reading.tokens.len()
        || romance::states(reading, next)
        || [Hint::Subject, Hint::Speaker].iter().any(|hint| reading.at(*hint, next).is_some())
        || is_past(reading, next)
        || reading.at(Hint::Phrase, next).is_some();
    (!narrates).then_some((Kind::Instruction, 3))
}

/// "Whenever you deploy, …": what counts stands behind the comma.
pub(super) fn habit(reading: &Reading) -> Option<(Kind, u8)> {
    // "Always a bridesmaid, never a bride" says no time.
    let time = || reading.at(Hint::Always, reading.head).filter(|to| *to > reading.head + 1);
    let to = reading.at(Hint::Each, reading.head).or_else(time)?;
    let comma = (to..reading.tokens.len()).find(|at| reading.word(*at) == ",")?;
    let main = reading.skip(comma + 1);
    let statement = [Hint::Subject, Hint::Speaker].iter().any(|hint| reading.at(*hint, main).is_some());
    let ordered = [Hint::Verb, Hint::Dont, Hint::Never, Hint::Always, Hint::Want, Hint::Ban]
        .iter()
        .any(|hint| reading.at(*hint, main).is_some());
    (main < reading.tokens.len() && ordered && !statement).then_some((Kind::Instruction, 3))
}

/// "You can drop the formalities, from now on call me Sam": the rule follows.
pub(super) fn later(reading: &Reading) -> Option<(Kind, u8)> {
    let parted = |at: usize| at > 0 && matches!(reading.word(at - 1), "," | ";" | "and" | "und" | "y" | "et");
    let cue =
        reading.all().iter().find(|one| one.hint == Hint::Standing && one.from > reading.head && parted(one.from))?;
    let mut next = reading.skip(cue.to);
    while matches!(reading.word(next), "just" | "simply" | "einfach" | "solo" | "juste") {
        next += 1;
    }
    let ordered = [Hint::Verb, Hint::Me, Hint::Dont, Hint::Never, Hint::Always]
        .iter()
        .any(|hint| reading.at(*hint, next).is_some());
    (ordered && !reading.has(Hint::Fault) && !reading.conditional).then_some((Kind::Instruction, 2))
}

/// "Run the linter … every single time", "only use …".
pub(super) fn imperative(reading: &Reading) -> Option<(Kind, u8)> {
    let head = reading.head;
    if let Some(to) = reading.at(Hint::Only, head) {
        let verb = reading.at(Hint::Verb, to).is_some();
        return (verb && !reading.has(Hint::Once)).then_some((Kind::Constraint, 2));
    }
    reading.at(Hint::Verb, head)?;
    let prefers = matches!(reading.word(head), "prefer" | "favour" | "favor" | "bevorzuge" | "privilegie");
    // "Cite sources for every claim", "keep every commit message short".
    let each = matches!(reading.word(head), "cite" | "keep")
        && (head + 1..reading.end.min(head + 5)).any(|at| matches!(reading.word(at), "every" | "each"));
    let norm = reading.has(Hint::Here) || prefers || each;
    let once = reading.has(Hint::Once) || reading.has(Hint::Fault);
    (cue_of_order(reading) || (norm && !once)).then_some((Kind::Instruction, 3))
}

/// "Keep your answers short", "no emojis", "I want honest feedback", "reply in Dutch": how the assistant is to be.
pub(super) fn manner(reading: &Reading) -> Option<(Kind, u8)> {
    let head = reading.head;
    let wanted = is_we_or_i(reading.word(head))
        && matches!(reading.word(head + 1), "want" | "need" | "expect" | "will" | "mochte" | "veux")
        || matches!(reading.word(head), "quiero");
    let ordered = wanted
        || [Hint::Verb, Hint::Dont, Hint::No, Hint::Only, Hint::Manner]
            .iter()
            .any(|hint| reading.at(*hint, head).is_some());
    let language = reading.words() <= 12 && reading.names_language() && !is_to_others(reading);
    let barred = reading.has(Hint::Once) || reading.has(Hint::Fault) || finite_head(reading);
    // "Skip the intro", "arrête les émojis".
    let leaves = matches!(reading.word(head), "skip" | "omit" | "leave" | "lass" | "omite") && reading.has(Hint::Form);
    let stops = matches!(reading.word(head), "stop" | "arrete" | "arretez" | "enough")
        && (reading.has(Hint::Form) || reading.has(Hint::Manner));
    let about = reading.has(Hint::Manner) || language || leaves;
    (!barred && (stops || ordered && about)).then_some((Kind::Instruction, 2))
}

/// "Reply to Kim in French" is for once.
fn is_to_others(reading: &Reading) -> bool {
    (reading.head + 1..reading.end).any(|at| {
        let next = reading.word(at + 1);
        let to = reading.word(at) == "to" && !matches!(next, "me" | "us" | "my" | "everything" | "all" | "every");
        let name = reading.tokens.list()[at].capital
            && !subject::is_language(reading.word(at))
            && !is_german(reading.word(reading.head));
        to || name
    })
}

fn is_german(verb: &str) -> bool {
    matches!(
        verb,
        "antworte"
            | "antworten"
            | "sprich"
            | "sprechen"
            | "schreib"
            | "schreibe"
            | "rede"
            | "kannst"
            | "konntest"
            | "bitte"
    )
}

/// The head is followed by a verb that makes it a statement: "emojis are broken".
fn finite_head(reading: &Reading) -> bool {
    (reading.head..reading.end.min(reading.head + 4)).any(|at| {
        matches!(reading.word(at), "is" | "are" | "was" | "were" | "ist" | "sind" | "es" | "son" | "sont")
            || is_past(reading, at)
    })
}

/// "When you write SQL, use capitals", "before committing, run the tests".
pub(super) fn case(reading: &Reading) -> Option<(Kind, u8)> {
    let from = if reading.conditional { reading.opening } else { reading.head };
    let to = reading.at(Hint::Case, from)?;
    if matches!(
        reading.word(to),
        "are" | "re" | "have" | "get" | "ve" | "can" | "start" | "fertig" | "acabes" | "termines"
    ) {
        return None;
    }
    let comma = (to..reading.end).find(|at| reading.word(*at) == ",")?;
    let main = reading.skip(comma + 1);
    let ordered =
        [Hint::Verb, Hint::Dont, Hint::Never, Hint::Always].iter().any(|hint| reading.at(*hint, main).is_some());
    let barred = reading.all().iter().any(|one| matches!(one.hint, Hint::Fault | Hint::Once) && one.from > comma);
    (ordered && !barred).then_some((Kind::Instruction, 2))
}

/// "Stop using emojis": a rule, where it takes nothing back.
pub(super) fn quits(reading: &Reading) -> bool {
    let quit = match reading.question {
        false => reading.at(Hint::Quit, reading.head).is_some(),
        true => is_asked(reading) && reading.has(Hint::Quit),
    };
    quit && !reading.has(Hint::Once) && reading.words() >= 2
}

/// A question to the listener: "could you".
fn is_asked(reading: &Reading) -> bool {
    reading.question && reading.at(Hint::Ask, reading.head).is_some()
}

/// A question that orders for good: "could you always …?", "can you stop …?", "could you answer in Dutch?".
pub(super) fn asked(reading: &Reading) -> Option<(Kind, u8)> {
    let ask = reading.find(Hint::Ask).filter(|ask| ask.from <= reading.head + 1)?;
    // "If I always agreed, would you …?" asks what would be.
    let thought = reading.conditional && matches!(reading.word(ask.from), "would" | "wurdest" | "wurden");
    if ask.to >= reading.tokens.len() || thought {
        return None;
    }
    if cue_of_order(reading) {
        return INSTRUCTION;
    }
    let next = reading.skip(ask.to);
    let barred = reading.has(Hint::Once) || reading.has(Hint::Fault);
    let called = reading.all().iter().find(|one| one.hint == Hint::Me && one.from >= ask.to);
    if let Some(called) = called.filter(|_| !barred) {
        return if is_elsewhere(reading.word(called.to)) { None } else { Some((Kind::Preference, 2)) };
    }
    let about = (next..reading.end).any(|at| one_of(reading.word(at), THINGS));
    let leaves = (ask.to..reading.end).any(|at| one_of(reading.word(at), LEAVES));
    let form = reading.has(Hint::Form) || reading.has(Hint::Manner);
    let manner = reading.has(Hint::Manner)
        && (leaves || reading.at(Hint::Verb, next).is_some() || reading.at(Hint::Manner, next).is_some());
    let language = reading.words() <= 10 && reading.names_language() && !is_to_others(reading);
    (!barred && !about && (manner || (form && leaves) || language || quits(reading))).then_some((Kind::Instruction, 2))
}

/// What an order is about that is for once.
const THINGS: &str = "it this that these those him her them question email mail letter es diese diesen dieses frage esto esta este pregunta ceci \
                      cette ce question";
/// Verbs and words of leaving something out.
const LEAVES: &str = "not avoid without skip omit fewer less no stop quit nicht keine keinen kein weniger ohne weglassen vermeiden verzichten \
                      lassen aufhoren no evitar sin menos omitir dejar ne n eviter sans moins arreter cesser supprimer";

/// Opens a clause that an order is about.
const ABOUT: &str = "why what that which who warum was dass que qui pourquoi wieso";

/// The cue belongs to the order and not to something that the order is about: "find out why it always fails".
fn cue_of_order(reading: &Reading) -> bool {
    reading.all().iter().any(|cue| match cue.hint {
        Hint::Standing => true,
        // "Ask me whenever you are unsure" is a rule, "let me know whenever you need help" is an offer.
        Hint::Each => {
            matches!(reading.word(cue.to), "you" | "du" | "tu")
                && !matches!(
                    reading.word(cue.to + 1),
                    "need" | "want" | "like" | "can" | "feel" | "wish" | "have" | "willst" | "quieres" | "veux"
                )
        }
        Hint::Always | Hint::Never if is_title(reading, cue.from) || is_topic(reading, cue) => false,
        Hint::Always | Hint::Never => {
            let last = (cue.to..reading.end)
                .all(|at| !reading.tokens.list()[at].word || reading.at(Hint::Polite, at).is_some());
            let about = (reading.head + 1..cue.from).any(|at| one_of(reading.word(at), ABOUT));
            let named = |at: usize| [Hint::Subject, Hint::Speaker].iter().any(|hint| reading.at(*hint, at).is_some());
            let subject = cue.from > reading.head + 1
                && (named(cue.from - 1) || (cue.from > reading.head + 2 && is_article(reading.word(cue.from - 2))));
            last || (!about && !subject)
        }
        _ => false,
    })
}

/// What the order is to be about: "a poem about never giving up".
pub(super) fn is_topic(reading: &Reading, cue: &Found) -> bool {
    const TOPIC: &str = "about sobre sur daruber uber fait titled called named entitled";
    const SAYS_NO: &str = "no ne n never always nunca siempre nie immer jamais toujours not , de que";
    let topic =
        (reading.head + 1..cue.from).any(|at| one_of(reading.word(at), TOPIC) && one_of(reading.word(at + 1), SAYS_NO));
    topic || (cue.from > reading.head && is_being(reading, cue))
}

fn is_article(word: &str) -> bool {
    matches!(
        word,
        "the" | "a" | "an" | "der" | "die" | "das" | "el" | "la" | "los" | "las" | "le" | "les" | "this" | "that"
    )
}

/// "Don't …".
pub(super) fn dont(reading: &Reading) -> Option<(Kind, u8)> {
    let without = matches!(reading.word(reading.head), "without" | "ohne" | "sin" | "sans");
    let Some(to) = reading.at(Hint::Dont, reading.head).filter(|_| !without) else { return forbids(reading) };
    let next = reading.skip(to);
    let verb = romance::verb(reading, next);
    let word = reading.word(verb);
    let comforts = word == "ever" && is_idle(reading, verb + 1);
    let idle = is_idle(reading, verb) || verb == next && is_idle(reading, next);
    if verb >= reading.tokens.len() || idle || comforts || romance::narrates(reading, next, verb) {
        return None;
    }
    if lasting(reading) {
        return INSTRUCTION;
    }
    let contrast = (next..reading.end).any(|at| {
        reading.word(at) == ","
            && matches!(reading.word(at + 1), "just" | "only" | "nur" | "solo" | "seulement" | "juste" | "sondern")
    });
    let about = reading.has(Hint::Once) || reading.has(Hint::Fault) || reading.conditional || contrast;
    let forbidden = match reading.word(reading.head) {
        "dont" | "do" => reading.at(Hint::Verb, next).is_some() || word.len() > 2,
        "avoid" | "avoir" | "vermeide" | "vermeiden" | "verzichte" | "verzichten" | "evita" | "evite" | "evitez" => {
            true
        }
        "no" => reading.words() >= 3 && romance::is_prohibition(word, verb > next),
        "ne" | "n" => {
            (next..reading.end).any(|at| matches!(reading.word(at), "pas" | "plus" | "aucun" | "aucune" | "rien"))
        }
        _ => return no_such_thing(reading),
    };
    if reading.word(reading.head) == "no" && !forbidden {
        return no_such_thing(reading);
    }
    (forbidden && !about).then_some((Kind::Instruction, 1))
}

/// Orders that say no behind the verb, or have none: "verwende keine Tabellen", "use no tables", "without tables, please".
fn forbids(reading: &Reading) -> Option<(Kind, u8)> {
    let head = reading.head;
    if reading.has(Hint::Once) || reading.has(Hint::Fault) || reading.conditional {
        return None;
    }
    let form = reading.has(Hint::Form) || reading.has(Hint::Manner);
    if matches!(reading.word(head), "without" | "ohne" | "sin" | "sans") {
        return (form && reading.words() <= 6).then_some((Kind::Instruction, 1));
    }
    reading.at(Hint::Verb, head)?;
    if reading.word(head + 1) == "no" {
        let writes =
            matches!(reading.word(head), "use" | "write" | "add" | "give" | "include" | "put" | "make" | "show");
        return (writes && !is_idle(reading, head + 2)).then_some((Kind::Instruction, 1));
    }
    let no = (head + 1..reading.end)
        .find(|at| matches!(reading.word(*at), "nicht" | "keine" | "keinen" | "kein" | "keinerlei"))?;
    let comforts = matches!(reading.word(head), "warte" | "warten" | "gib")
        || reading.word(head) == "sei" && !form
        || reading.word(head + 1) == "dir"
        || is_idle(reading, no + 1);
    let pointed = (head + 1..no)
        .all(|at| matches!(reading.word(at), "das" | "es" | "dies" | "sie" | "ihn" | "bitte" | "mal" | "da" | "hier"));
    let bare = pointed && (no + 1..reading.end).all(|at| !reading.tokens.list()[at].word);
    let contrast = (no..reading.end).any(|at| reading.word(at) == "sondern");
    (!comforts && !bare && !contrast).then_some((Kind::Instruction, 1))
}
