//! The grounds on which a sentence of an alphabetic language is pinned, one function each.

use super::Verdict;
use super::reading::Reading;
use crate::pins::Kind;
use crate::pins::lexicon::Hint;

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
        .or_else(|| dont(reading))
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
    if task.from > reading.head + 1 && !asked {
        return None;
    }
    if reading.has(Hint::Standing) || reading.has(Hint::Always) {
        return INSTRUCTION;
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
        && (unwanted.from <= reading.head + 2 || reading.at(Hint::Standing, reading.head).is_some())
        && (!reading.has(Hint::Once) || lasting(reading))
    {
        return INSTRUCTION;
    }
    let want = reading.find(Hint::Want)?;
    let leads = want.from <= reading.head + 1
        || [Hint::Standing, Hint::Always, Hint::Here].iter().any(|hint| reading.at(*hint, reading.head).is_some());
    let insists = reading.word(want.to.saturating_sub(1)) != "" && reading.at(Hint::Standing, want.from).is_some();
    (leads && (lasting(reading) || insists)).then_some((Kind::Instruction, 3))
}

/// "Under no circumstances …", "you are not allowed to …".
fn ban(reading: &Reading) -> Option<(Kind, u8)> {
    let ban = reading.find(Hint::Ban)?;
    let headed = ban.from <= reading.head + 1
        || [Hint::Standing, Hint::Here, Hint::Always, Hint::Never]
            .iter()
            .any(|hint| reading.at(*hint, reading.head).is_some());
    let narrated = [Hint::Subject, Hint::Speaker].iter().any(|hint| reading.at(*hint, reading.head).is_some());
    ((headed || !narrated) && (headed || !reading.has(Hint::Fault))).then_some((Kind::Instruction, 3))
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
            return (is_we(reading.word(next)) && !is_past(reading.word(next + 1))).then_some((Kind::Instruction, 2));
        }
        if reading.at(Hint::Subject, next).is_some() && reading.at(Hint::Verb, next).is_none() {
            if is_infinitive_clause(reading, next) {
                return INSTRUCTION;
            }
            let binds =
                [Hint::Must, Hint::Order, Hint::Bound, Hint::Always, Hint::Never].iter().any(|hint| reading.has(*hint));
            return binds.then_some((Kind::Constraint, 2));
        }
        return (!is_past(reading.word(next))).then_some((Kind::Instruction, 3));
    }
    let to = reading.at(Hint::Always, head).or_else(|| reading.at(Hint::Never, head))?;
    let next = reading.skip(to);
    if is_infinitive_clause(reading, next) {
        return INSTRUCTION;
    }
    let narrates = next >= reading.tokens.len()
        || [Hint::Subject, Hint::Speaker].iter().any(|hint| reading.at(*hint, next).is_some())
        || is_past(reading.word(next))
        || is_phrase(reading.word(next));
    (!narrates).then_some((Kind::Instruction, 3))
}

/// "Whenever you deploy, …": what counts stands behind the comma.
fn habit(reading: &Reading) -> Option<(Kind, u8)> {
    let to = reading.at(Hint::Always, reading.head)?;
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
    cue_of_order(reading).then_some((Kind::Instruction, 3))
}

/// A question that orders for good: "could you always …?".
fn asked(reading: &Reading) -> Option<(Kind, u8)> {
    let ask = reading.find(Hint::Ask).filter(|ask| ask.from <= reading.head + 1)?;
    (ask.to < reading.tokens.len() && cue_of_order(reading)).then_some((Kind::Instruction, 3))
}

/// The cue belongs to the order and not to something that the order is about: "find out why it always fails".
fn cue_of_order(reading: &Reading) -> bool {
    reading.all().iter().any(|cue| match cue.hint {
        Hint::Standing => true,
        Hint::Always | Hint::Never => {
            let last = (cue.to..reading.tokens.len())
                .all(|at| !reading.tokens.list()[at].word || reading.at(Hint::Polite, at).is_some());
            let about = (reading.head + 1..cue.from).any(|at| {
                matches!(
                    reading.word(at),
                    "why"
                        | "what"
                        | "that"
                        | "which"
                        | "who"
                        | "warum"
                        | "was"
                        | "dass"
                        | "que"
                        | "qui"
                        | "pourquoi"
                        | "wieso"
                )
            });
            let subject = cue.from > reading.head + 1
                && [Hint::Subject, Hint::Speaker].iter().any(|hint| reading.at(*hint, cue.from - 1).is_some());
            last || (!about && !subject)
        }
        _ => false,
    })
}

/// "Don't …".
fn dont(reading: &Reading) -> Option<(Kind, u8)> {
    let to = reading.at(Hint::Dont, reading.head)?;
    let next = reading.skip(to);
    let word = reading.word(next);
    if next >= reading.tokens.len() || is_idle(word) {
        return None;
    }
    if lasting(reading) {
        return INSTRUCTION;
    }
    let about = reading.has(Hint::Once) || reading.has(Hint::Fault) || reading.conditional;
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

/// "No deploys on Fridays".
fn no_such_thing(reading: &Reading) -> Option<(Kind, u8)> {
    let to = reading.at(Hint::No, reading.head)?;
    let next = reading.word(to);
    let idle = is_idle(next) || !reading.tokens.list().get(to).is_some_and(|token| token.word);
    let states = reading.has(Hint::Fault)
        || reading.has(Hint::Once)
        || (to..reading.tokens.len()).any(|at| {
            is_past(reading.word(at))
                || matches!(reading.word(at), "is" | "are" | "was" | "were" | "ist" | "sind" | "es" | "son" | "est")
        });
    (!idle && !states && reading.words() <= 12 && reading.words() >= 2).then_some((Kind::Constraint, 1))
}

/// "In this project we never …".
fn here(reading: &Reading) -> Option<(Kind, u8)> {
    let here = reading.find(Hint::Here)?;
    let cue =
        reading.all().iter().find(|one| matches!(one.hint, Hint::Always | Hint::Never | Hint::Ban | Hint::Standing))?;
    let told = is_past(reading.word(reading.skip(cue.to))) || reading.has(Hint::Fault);
    (here.from == reading.head && !told).then_some((Kind::Constraint, 2))
}

/// "I prefer …", "call me …".
fn taste(reading: &Reading) -> Option<(Kind, u8)> {
    let head = reading.head;
    if reading.at(Hint::Me, head).is_some() {
        return Some((Kind::Preference, 2));
    }
    let to = reading.at(Hint::Prefer, head)?;
    let chosen = reading.at(Hint::Choice, to).is_some() || to >= reading.tokens.len();
    (!chosen && !reading.has(Hint::Once) && reading.words() >= 3).then_some((Kind::Preference, 2))
}

/// "… is off limits", "all new modules must have …", "nothing goes out without …".
fn bound(reading: &Reading) -> Option<(Kind, u8)> {
    if reading.has(Hint::Fault)
        || reading.has(Hint::Once)
        || reading.conditional
        || reading.at(Hint::Question, reading.head).is_some()
    {
        return None;
    }
    if reading.has(Hint::Bound) {
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
    let must = reading.all().iter().any(|one| {
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
fn elliptic(reading: &Reading) -> Option<(Kind, u8)> {
    let cue = reading.all().iter().find(|one| matches!(one.hint, Hint::Always | Hint::Never | Hint::Standing))?;
    let norm = is_we(reading.word(reading.head)) && reading.has(Hint::Standing) && !reading.has(Hint::Fault);
    if norm && !is_past(reading.word(reading.head + 1)) {
        return Some((Kind::Instruction, 2));
    }
    let barred = reading.has(Hint::Speaker)
        || reading.has(Hint::Fault)
        || reading.at(Hint::Question, reading.head).is_some()
        || reading.words() > 14
        || (0..reading.tokens.len()).any(|at| is_past(reading.word(at)));
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
fn is_infinitive_clause(reading: &Reading, from: usize) -> bool {
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

/// The speaker and his people.
fn is_we(word: &str) -> bool {
    matches!(word, "we" | "wir" | "nous" | "nosotros")
}

fn finite(reading: &Reading) -> bool {
    reading.has(Hint::Finite)
        || (0..reading.tokens.len()).any(|at| {
            matches!(reading.word(at), "is" | "are" | "was" | "has" | "had" | "es" | "son" | "est" | "sont" | "esta")
        })
}

/// Past tenses, as far as they show.
fn is_past(word: &str) -> bool {
    (word.len() > 3
        && (word.ends_with("ed")
            && !matches!(word, "need" | "feed" | "embed" | "speed" | "seed" | "proceed" | "exceed")))
        || ["aron", "ieron", "imos", "aba", "aban", "ado"].iter().any(|ending| word.len() > 5 && word.ends_with(ending))
        || matches!(
            word,
            "found"
                | "knew"
                | "had"
                | "was"
                | "were"
                | "got"
                | "did"
                | "saw"
                | "went"
                | "came"
                | "made"
                | "took"
                | "thought"
                | "told"
                | "said"
                | "gave"
                | "ran"
                | "wrote"
                | "broke"
                | "been"
                | "seen"
                | "heard"
                | "felt"
                | "kept"
                | "left"
                | "lost"
                | "met"
                | "paid"
                | "sent"
                | "understood"
                | "won"
                | "worked"
                | "hat"
                | "hatte"
                | "war"
                | "waren"
                | "wurde"
                | "haben"
                | "habe"
                | "fue"
                | "ha"
                | "han"
                | "era"
                | "vi"
                | "supe"
                | "supimos"
                | "pude"
                | "tuve"
                | "etait"
                | "avait"
                | "ai"
                | "avons"
        )
}

/// Words that make a set phrase of "always" or "never" at the head.
fn is_phrase(word: &str) -> bool {
    matches!(
        word,
        "mind"
            | "again"
            | "a"
            | "happy"
            | "glad"
            | "nice"
            | "good"
            | "been"
            | "seen"
            | "wieder"
            | "so"
            | "noch"
            | "gut"
            | "dice"
            | "falla"
            | "pasa"
            | "da"
            | "llega"
            | "sigue"
            | "cae"
            | "igual"
            | "fails"
            | "happens"
            | "works"
            | "returns"
            | "breaks"
            | "crashes"
    )
}

/// Verbs and nouns behind "don't" and "no" that forbid nothing.
fn is_idle(word: &str) -> bool {
    matches!(
        word,
        "worry"
            | "bother"
            | "mind"
            | "forget"
            | "hesitate"
            | "think"
            | "get"
            | "know"
            | "see"
            | "understand"
            | "care"
            | "you"
            | "we"
            | "i"
            | "panic"
            | "wait"
            | "let"
            | "idea"
            | "problem"
            | "problems"
            | "luck"
            | "wonder"
            | "error"
            | "errors"
            | "need"
            | "way"
            | "rush"
            | "hurry"
            | "worries"
            | "thanks"
            | "result"
            | "results"
            | "change"
            | "changes"
            | "clue"
            | "output"
            | "response"
            | "difference"
            | "doubt"
            | "one"
            | "matter"
            | "longer"
            | "question"
            | "questions"
            | "reason"
            | "big"
            | "more"
            | "success"
            | "chance"
            | "ahnung"
            | "fehler"
            | "sorge"
            | "problema"
            | "idee"
            | "zeit"
            | "lust"
            | "eile"
            | "puedes"
            | "tienes"
            | "sabes"
            | "quieres"
            | "eres"
            | "entiendes"
            | "ves"
            | "vas"
            | "has"
            | "estas"
            | "crees"
            | "haces"
            | "es"
            | "te"
            | "se"
            | "me"
            | "lo"
            | "la"
            | "hay"
            | "pasa"
            | "gracias"
            | "preocupes"
            | "importa"
            | "prisa"
            | "oublie"
            | "oubliez"
            | "inquiete"
            | "probleme"
            | "hesite"
            | "so"
            | "mehr"
            | "funciona"
            | "estoy"
            | "tengo"
            | "puedo"
            | "entiendo"
            | "veo"
            | "creo"
            | "olvides"
            | "c"
            | "est"
    )
}

/// Spanish forbids in the subjunctive: "no toques", "no hagas".
fn is_spanish_prohibition(word: &str) -> bool {
    word.len() > 3 && (word.ends_with("es") || word.ends_with("as"))
}
