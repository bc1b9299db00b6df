//! The grounds on which a sentence of an alphabetic language is pinned, one function each: orders and wishes.

use super::Verdict;
use super::conditions::{bound, elliptic, here, is_infinitive_clause, no_such_thing, taste};
use super::reading::Reading;
use crate::pins::Kind;
use crate::pins::lexicon::Hint;
use crate::pins::subject;

/// A line that announces what follows.
pub(super) fn announcement(reading: &Reading) -> Verdict {
    if reading.has(Hint::Paste) || reading.has(Hint::Report) {
        Verdict::Pasted
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
    revokes && !reading.question
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
    if is_reported(reading) || (reading.conditional && reading.has(Hint::Would)) {
        return None;
    }
    if reading.question {
        return asked(reading).or_else(|| task(reading).filter(|_| reading.at(Hint::Ask, reading.head).is_some()));
    }
    if reading.has(Hint::Exempt) {
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
}

const INSTRUCTION: Option<(Kind, u8)> = Some((Kind::Instruction, 3));

/// For good: "from now on", "always", "never".
fn lasting(reading: &Reading) -> bool {
    reading.has(Hint::Standing) || reading.has(Hint::Always) || reading.has(Hint::Never)
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

/// "Remind me to …", "TODO: …", "we still need to …".
fn task(reading: &Reading) -> Option<(Kind, u8)> {
    let task = reading.find(Hint::Task)?;
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
fn rule(reading: &Reading) -> Option<(Kind, u8)> {
    let rule = reading.find(Hint::Rule)?;
    let near = rule.from <= reading.head + 2;
    let colon = (rule.to..reading.tokens.len().min(rule.to + 8)).any(|at| reading.word(at) == ":");
    let opens = rule.to - rule.from >= 3 && rule.from == reading.head;
    (near && (colon || opens) && reading.words() >= 4).then_some((Kind::Instruction, 3))
}

/// "I want you to … every time", "I don't want you to …".
fn wish(reading: &Reading) -> Option<(Kind, u8)> {
    if let Some(unwanted) = reading.find(Hint::Unwanted)
        && !is_of_a_thing(reading, unwanted.to)
        && (unwanted.from <= reading.head + 2 || reading.at(Hint::Standing, reading.head).is_some())
        && (!reading.has(Hint::Once) || lasting(reading))
    {
        return INSTRUCTION;
    }
    let want = reading.find(Hint::Want)?;
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
fn ban(reading: &Reading) -> Option<(Kind, u8)> {
    let ban = reading.find(Hint::Ban).filter(|ban| !is_idle(reading, ban.to))?;
    let headed = ban.from <= reading.head + 1
        || [Hint::Standing, Hint::Here, Hint::Always, Hint::Never]
            .iter()
            .any(|hint| reading.at(*hint, reading.head).is_some());
    let narrated = [Hint::Subject, Hint::Speaker].iter().any(|hint| reading.at(*hint, reading.head).is_some());
    (headed || (!narrated && !reading.has(Hint::Fault))).then_some((Kind::Instruction, 3))
}

/// "You should always …".
fn order(reading: &Reading) -> Option<(Kind, u8)> {
    let order = reading.find(Hint::Order)?;
    let leads = order.from == reading.head
        || [Hint::Standing, Hint::Here, Hint::Always, Hint::Never]
            .iter()
            .any(|hint| reading.at(*hint, reading.head).is_some());
    (leads && lasting(reading)).then_some((Kind::Instruction, 3))
}

/// "Always …", "never …", "from now on …" at the head.
fn head_cue(reading: &Reading) -> Option<(Kind, u8)> {
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
    if is_infinitive_clause(reading, next) {
        return INSTRUCTION;
    }
    let narrates = next >= reading.tokens.len()
        || [Hint::Subject, Hint::Speaker].iter().any(|hint| reading.at(*hint, next).is_some())
        || is_past(reading, next)
        || reading.at(Hint::Phrase, next).is_some();
    (!narrates).then_some((Kind::Instruction, 3))
}

/// "Whenever you deploy, …": what counts stands behind the comma.
fn habit(reading: &Reading) -> Option<(Kind, u8)> {
    let to = reading.at(Hint::Each, reading.head).or_else(|| reading.at(Hint::Always, reading.head))?;
    let comma = (to..reading.tokens.len()).find(|at| reading.word(*at) == ",")?;
    let main = reading.skip(comma + 1);
    let statement = [Hint::Subject, Hint::Speaker].iter().any(|hint| reading.at(*hint, main).is_some());
    let ordered = [Hint::Verb, Hint::Dont, Hint::Never, Hint::Always, Hint::Want, Hint::Ban]
        .iter()
        .any(|hint| reading.at(*hint, main).is_some());
    (main < reading.tokens.len() && ordered && !statement).then_some((Kind::Instruction, 3))
}

/// "Run the linter … every single time", "only use …".
fn imperative(reading: &Reading) -> Option<(Kind, u8)> {
    let head = reading.head;
    if let Some(to) = reading.at(Hint::Only, head) {
        let verb = reading.at(Hint::Verb, to).is_some();
        return (verb && !reading.has(Hint::Once)).then_some((Kind::Constraint, 2));
    }
    reading.at(Hint::Verb, head)?;
    let prefers = matches!(reading.word(head), "prefer" | "favour" | "favor" | "bevorzuge" | "privilegie");
    let norm = reading.has(Hint::Here) || prefers;
    let once = reading.has(Hint::Once) || reading.has(Hint::Fault);
    (cue_of_order(reading) || (norm && !once)).then_some((Kind::Instruction, 3))
}

/// "Keep your answers short", "no emojis", "I want honest feedback", "reply in Dutch": how the assistant is to be.
fn manner(reading: &Reading) -> Option<(Kind, u8)> {
    let head = reading.head;
    let wanted = is_we_or_i(reading.word(head))
        && matches!(reading.word(head + 1), "want" | "need" | "expect" | "will" | "mochte" | "veux")
        || matches!(reading.word(head), "quiero");
    let ordered = wanted
        || [Hint::Verb, Hint::Dont, Hint::No, Hint::Only, Hint::Manner]
            .iter()
            .any(|hint| reading.at(*hint, head).is_some());
    let language = reading.language && reading.words() <= 12;
    let barred = reading.has(Hint::Once) || reading.has(Hint::Fault) || finite_head(reading);
    (ordered && !barred && (reading.has(Hint::Manner) || language)).then_some((Kind::Instruction, 2))
}

/// The head is followed by a verb that makes it a statement: "emojis are broken".
fn finite_head(reading: &Reading) -> bool {
    (reading.head..reading.end.min(reading.head + 4)).any(|at| {
        matches!(reading.word(at), "is" | "are" | "was" | "were" | "ist" | "sind" | "es" | "son" | "sont")
            || is_past(reading, at)
    })
}

/// "When you write SQL, use capitals", "before committing, run the tests".
fn case(reading: &Reading) -> Option<(Kind, u8)> {
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

/// "Remember that I am left-handed."
fn kept_in_mind(reading: &Reading) -> Option<(Kind, u8)> {
    let want = reading.find(Hint::Want).filter(|want| want.from == reading.head)?;
    let keeps = matches!(
        reading.word(want.from),
        "remember" | "merk" | "merke" | "recuerda" | "recuerde" | "souviens" | "keep" | "bear"
    );
    let states = matches!(reading.word(want.to.saturating_sub(1)), "that" | "que")
        || matches!(reading.word(want.to), "," | ":" | "que" | "dass");
    let past = (want.to..reading.end).any(|at| is_past(reading, at));
    let barred = past || reading.has(Hint::Once) || reading.has(Hint::Recall) || reading.words() < 4;
    (keeps && states && !barred).then_some((Kind::Preference, 2))
}

fn is_we_or_i(word: &str) -> bool {
    is_we(word) || matches!(word, "i" | "ich" | "je")
}

/// "Stop using emojis": a rule, where it takes nothing back.
pub(super) fn quits(reading: &Reading) -> bool {
    reading.at(Hint::Quit, reading.head).is_some()
        && !reading.has(Hint::Once)
        && !reading.question
        && reading.words() >= 2
}

/// A question that orders for good: "could you always …?".
fn asked(reading: &Reading) -> Option<(Kind, u8)> {
    let ask = reading.find(Hint::Ask).filter(|ask| ask.from <= reading.head + 1)?;
    (ask.to < reading.tokens.len() && cue_of_order(reading)).then_some((Kind::Instruction, 3))
}

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
        Hint::Always | Hint::Never => {
            let last = (cue.to..reading.end)
                .all(|at| !reading.tokens.list()[at].word || reading.at(Hint::Polite, at).is_some());
            let about = (reading.head + 1..cue.from).any(|at| subject::one_of(reading.word(at), ABOUT));
            let named = |at: usize| [Hint::Subject, Hint::Speaker].iter().any(|hint| reading.at(*hint, at).is_some());
            let subject = cue.from > reading.head + 1
                && (named(cue.from - 1) || (cue.from > reading.head + 2 && is_article(reading.word(cue.from - 2))));
            last || (!about && !subject)
        }
        _ => false,
    })
}

fn is_article(word: &str) -> bool {
    matches!(
        word,
        "the" | "a" | "an" | "der" | "die" | "das" | "el" | "la" | "los" | "las" | "le" | "les" | "this" | "that"
    )
}

/// "Don't …".
fn dont(reading: &Reading) -> Option<(Kind, u8)> {
    let to = reading.at(Hint::Dont, reading.head)?;
    let next = reading.skip(to);
    let word = reading.word(next);
    let comforts = word == "ever" && is_idle(reading, next + 1);
    if next >= reading.tokens.len() || is_idle(reading, next) || comforts {
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
    let verb = match reading.word(reading.head) {
        "dont" | "do" => reading.at(Hint::Verb, next).is_some() || word.len() > 2,
        "avoid" | "avoir" | "vermeide" | "vermeiden" | "verzichte" | "verzichten" | "evita" | "evite" | "evitez" => {
            true
        }
        "no" => reading.words() >= 3 && is_spanish_prohibition(word),
        "ne" | "n" => reading.tokens.list().iter().enumerate().any(|(at, _)| reading.word(at) == "pas"),
        _ => return no_such_thing(reading),
    };
    if reading.word(reading.head) == "no" && !verb {
        return no_such_thing(reading);
    }
    (verb && !about).then_some((Kind::Instruction, 1))
}

/// The speaker and his people.
pub(super) fn is_we(word: &str) -> bool {
    matches!(word, "we" | "wir" | "nous" | "nosotros")
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

/// Spanish forbids in the subjunctive: "no toques", "no hagas".
fn is_spanish_prohibition(word: &str) -> bool {
    word.len() > 3 && (word.ends_with("es") || word.ends_with("as"))
}
