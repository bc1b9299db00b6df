//! "Always" and "never" that order nothing, since they belong to a name or are spoken about: "Never Let Me Go is a great book".

use super::reading::Reading;
use crate::pins::lexicon::{Found, Hint};
use crate::pins::subject::one_of;

/// Opens a clause in which a verb is not the sentence's own.
const OPENS: &str = "that what which who whom whose whether if when where why how because until unless while as than whatever whichever whoever \
                     wherever since dass ob wenn was wer wo wie weil bis que qui quoi si quand ou comme cual donde cuando como cuanto";
/// Begins a part of the sentence that may be the subject of a clause without "that".
const NOUNS: &str = "the a an this these those my your our their his her its it he she they we i you all every each any some everything something \
                     anything nothing both there der die das den dem ein eine einen alle alles el la los las un una le les une des";
/// Verbs that take a clause: "never assume tests are green".
const CLAIMS: &str = "assume ensure verify check say think believe claim suppose pretend trust know note mention state tell imply guess make expect \
                      confirm see hope remember forget write report mark show explain test";
/// Cues of English, whose words are capitals only in names.
const PLAIN: &str = "always never siempre nunca jamas toujours jamais";

/// The sentence begins with "always" or "never", and that orders nothing.
pub(super) fn is_named(reading: &Reading) -> bool {
    let head = reading.head;
    let Some(to) = reading.at(Hint::Always, head).or_else(|| reading.at(Hint::Never, head)) else { return false };
    let cue = reading.all().iter().find(|one| one.from == head && one.to == to);
    is_title(reading, head)
        || is_spoken_about(reading, to)
        || is_turned(reading, to)
        || is_done(reading, to)
        || cue.is_some_and(|cue| is_being(reading, cue))
}

/// The cue at `at` begins a name in capitals: "Always Be My Baby", within a sentence that is not all in capitals.
pub(super) fn is_title(reading: &Reading, at: usize) -> bool {
    let tokens = reading.tokens.list();
    let capital = |at: usize| tokens.get(at).is_some_and(|token| token.capital);
    let run = (at..tokens.len()).take_while(|at| capital(*at)).count();
    let lower = |token: &crate::pins::tokens::Token| token.word && !token.capital;
    one_of(reading.word(at), PLAIN)
        && (run >= 3 || (run == 2 && at > 0))
        && (tokens[at + run..].iter().any(lower) || tokens[..at].iter().any(lower))
}

/// "Never say never is my motto": what begins with the cue is the subject of a verb.
fn is_spoken_about(reading: &Reading, to: usize) -> bool {
    let Some(verb) = reading.all().iter().find(|one| one.hint == Hint::Copula && one.from >= to).map(|one| one.from)
    else {
        return false;
    };
    let between = |list: &str| (to..verb).any(|at| one_of(reading.word(at), list));
    let marks = (to..verb).any(|at| !reading.tokens.list()[at].word);
    let twice = verb > 0 && [Hint::Always, Hint::Never].iter().any(|hint| reading.at(*hint, verb - 1).is_some());
    let claims = one_of(reading.word(to), CLAIMS) && !twice;
    !marks && !claims && !between(OPENS) && !between(NOUNS)
}

/// "Never have I seen such a thing": the verb stands before its subject.
fn is_turned(reading: &Reading, to: usize) -> bool {
    let helps = one_of(reading.word(to), "have has had did does will would was were am is are can could should");
    helps && one_of(reading.word(to + 1), "i you he she it we they")
        || (reading.word(to) == "do" && one_of(reading.word(to + 1), "i he she we they"))
}

/// "Nie gehört": nothing but what was done.
fn is_done(reading: &Reading, to: usize) -> bool {
    let word = reading.word(to);
    let participle = word.len() > 4 && word.starts_with("ge") && (word.ends_with('t') || word.ends_with("en"));
    participle
        && matches!(reading.word(reading.head), "nie" | "niemals" | "noch")
        && (to + 1..reading.end).all(|at| !reading.tokens.list()[at].word)
}

/// "Always being late": no order.
pub(super) fn is_being(reading: &Reading, cue: &Found) -> bool {
    let word = reading.word(cue.to);
    let english = matches!(reading.word(cue.from), "always" | "never");
    english
        && word.len() > 4
        && word.ends_with("ing")
        && !one_of(word, "bring string spring swing fling during everything anything nothing something")
}
