//! What a sentence is about: the set of its words that carry meaning, hashed.

use super::lexicon::dense;
use super::tokens::{Tokens, is_dense};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::LazyLock;

/// Words that carry no subject: function words and cues of the languages that the rules know, folded.
static EMPTY: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    "\
    a ab aber about actually adelante ahora ai al alle alles allez alors also always am an and any anymore applies \
    apply are arrete as at au auch auf aufhoren aus aux avec be bei benutze benutzen besoin bis bitte brauchst but \
    by can ce cela ces como con could cuando danke dans daran das dass de deja dejar del dem den der des desde \
    desormais dich die dije dijo dir dit do doch dont dorenavant du eigentlich ein eine einem einen einer el ella \
    en encore er erinner erinnere es eso est esta este esto et ever every exception existe falta favor for forget \
    from fur gesagt going gracias habe hace had has have hay heute hor i ich id if ignore ihr il ils im immer in \
    instead is ist it its ja jamais jamas je jetzt just keine keinen la las later le les lieber lo longer los ma \
    maintenant make man manana mas may me mehr mejor merci mes mi mich mir mit mon morgen musst must my nach ne \
    need never nicht nie niemals no noch not now nunca nutze nutzen o oder of olvida olvide on only or otra ou \
    oublie our para pas pero please plus plutot por pour que qui quiero rappelle rather recuerdame regel regla \
    remember remind rule said se sein ser should si sie siempre sin so sobre sofort soll sollst spater still stop \
    su sur te thanks that the their them there these they thing things this tienes time to toda todavia today todo \
    todos tomorrow toujours tous tu tun uber un una und une uns unser up us usa usar use used uses using utilise \
    utiliser ve vergessen vergiss verwende verwenden vom von vor vous was we wenn what when whenever wie will wir \
    with would y ya you your zu zum zur"
        .split(' ')
        .collect()
});

/// Words that turn a sentence into its contrary, folded.
const NEGATIVE: &str = "cannot cant dont jamais jamas kein keine keinen keinesfalls ne never nicht nie niemals no non not nothing nunca pas";

/// What a sentence is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Subject {
    /// Hashes of its words' stems, rising.
    stems: Vec<u32>,
    /// Hashes of its numbers, in words or digits, rising.
    numbers: Vec<u32>,
    /// It says no.
    negative: bool,
}

impl Subject {
    /// Reads a text.
    pub(super) fn of(text: &str) -> Subject {
        let tokens = Tokens::of(text);
        let mut subject = Subject::default();
        for index in 0..tokens.len() {
            let word = tokens.get(index);
            subject.negative |= one_of(word, NEGATIVE);
            if !tokens.list()[index].word || EMPTY.contains(word) {
                continue;
            }
            match is_number(word) {
                true => subject.numbers.push(hash(word)),
                false => subject.stems.push(hash(stem(word))),
            }
        }
        let mut last: Option<char> = None;
        for c in text.chars() {
            let dense = is_dense(c);
            if let (true, Some(before)) = (dense, last) {
                let mut pair = [0u8; 8];
                let first = before.encode_utf8(&mut pair).len();
                let length = first + c.encode_utf8(&mut pair[first..]).len();
                subject.stems.push(hash_bytes(&pair[..length]));
            }
            last = dense.then_some(c);
        }
        subject.negative |= ["不", "没", "禁", "ない", "ません", "勿"].iter().any(|no| text.contains(no));
        for list in [&mut subject.stems, &mut subject.numbers] {
            list.sort_unstable();
            list.dedup();
        }
        subject
    }

    /// It says nothing that could be compared.
    pub(super) fn is_empty(&self) -> bool {
        self.stems.is_empty()
    }

    /// The same said again.
    pub(super) fn repeats(&self, other: &Subject) -> bool {
        self.negative == other.negative && self.stems == other.stems && self.numbers == other.numbers
    }

    /// It takes the place of an `older` one: the contrary, nearly the same words, or, where it is said to be new (`renews`), the
    /// same with another number, or all of the older and more.
    pub(super) fn replaces(&self, older: &Subject, renews: bool) -> bool {
        let shared = self.shared(older);
        let all = self.stems.len() + older.stems.len() - shared;
        if self.stems.is_empty() || self.numbers != older.numbers && !renews {
            return false;
        }
        let near = shared * 6 >= all * 5;
        near || (renews && shared >= 3 && shared == older.stems.len())
    }

    /// Number of words in both.
    pub(super) fn shared(&self, other: &Subject) -> usize {
        let both = |one: &[u32], other: &[u32]| one.iter().filter(|hash| other.binary_search(hash).is_ok()).count();
        both(&self.stems, &other.stems)
    }

    /// Number of words.
    pub(super) fn len(&self) -> usize {
        self.stems.len()
    }
}

/// Whether a sentence says that something is to be another way than before.
pub(super) fn renews(text: &str) -> bool {
    const ONE: &str = "now instead actually rather henceforth jetzt sofort stattdessen statt kunftig ahora adelante mejor desormais \
                       dorenavant maintenant plutot";
    let tokens = Tokens::of(text);
    let pair = |at: usize| {
        matches!((tokens.get(at), tokens.get(at + 1)), ("going", "forward") | ("en", "vez" | "lugar") | ("au", "lieu"))
    };
    (0..tokens.len()).any(|at| one_of(tokens.get(at), ONE) || pair(at))
        || ["从现在", "今后", "以后", "改为", "今後", "これから", "代わりに"].iter().any(|cue| text.contains(cue))
}

/// A matter of which only one value can hold at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Single {
    /// How the person is called.
    Name,
    /// Where the person's clock is.
    Zone,
    /// In which language the person is answered.
    Language,
}

/// Names of languages.
static LANGUAGES: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    words(
        "english german spanish french italian dutch portuguese polish russian chinese japanese korean arabic turkish hindi \
                             romanian hungarian vietnamese thai indonesian schwedisch danisch norwegisch finnisch griechisch tschechisch ukrainisch rumanisch ungarisch sueco danes noruego finlandes griego checo ucraniano rumano hungaro suedois danois norvegien finnois grec tcheque ukrainien roumain hongrois swedish danish norwegian finnish greek czech ukrainian hebrew latin catalan englisch deutsch spanisch franzosisch \
                             italienisch portugiesisch polnisch russisch chinesisch japanisch koreanisch arabisch turkisch niederlandisch \
                             ingles aleman espanol castellano frances italiano portugues polaco ruso chino japones coreano arabe turco \
                             neerlandes catalan anglais allemand espagnol francais italien portugais polonais russe chinois japonais coreen \
                             arabe turc neerlandais",
    )
});

/// Words for answering.
static ANSWERS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    words(
        "answer answers reply replies respond speak talk antworte antworten sprich responde responder respondeme respuestas \
                           contesta contestar contestame hablame hablar hablarme responderme sprechen reden reponds repondre repondez reponses parle parler",
    )
});

fn words(list: &str) -> HashSet<&str> {
    list.split_whitespace().collect()
}

/// The word names a language.
pub(super) fn is_language(word: &str) -> bool {
    LANGUAGES.contains(word)
}

/// An order says in which language the person is answered.
pub(super) fn sets_language(tokens: &Tokens) -> bool {
    let end = affirmed(tokens);
    let has = |list: &HashSet<&str>| (0..end).any(|at| list.contains(tokens.get(at)));
    has(&LANGUAGES) && has(&ANSWERS)
}

/// Where what is said turns into its contrary, if it does: "never call me Bob" sets no name.
fn affirmed(tokens: &Tokens) -> usize {
    (0..tokens.len()).find(|at| one_of(tokens.get(*at), NEGATIVE)).unwrap_or(tokens.len())
}

/// The matter of which a sentence sets the only value.
pub(super) fn single(text: &str) -> Option<Single> {
    let tokens = Tokens::of(text);
    let end = affirmed(&tokens);
    let has = |list: &str| (0..end).any(|at| one_of(tokens.get(at), list));
    let pair = |first: &str, second: &str| {
        (0..end).any(|at| one_of(tokens.get(at), first) && one_of(tokens.get(at + 1), second))
    };
    if pair("call nenn nenne nennen appelle appelez", "me mich moi sie") || has("llamame llameme") {
        Some(Single::Name)
    } else if pair("time zona fuseau", "zone horaria horaire") || has("timezone zeitzone") {
        Some(Single::Zone)
    } else if sets_language(&tokens)
        || (!text.is_ascii()
            && dense::has(text, dense::ANSWERS)
            && dense::has(text, dense::LANGUAGES)
            && !dense::has(text, dense::DONT))
    {
        Some(Single::Language)
    } else {
        None
    }
}

/// Digits, or a small number in words.
fn is_number(word: &str) -> bool {
    const WORDS: &str = "two three four five six seven eight nine ten twelve zwei drei vier funf sechs sieben acht neun zehn zwolf dos \
                         tres cuatro cinco seis siete ocho nueve diez deux trois quatre cinq huit neuf dix";
    word.starts_with(|c: char| c.is_ascii_digit()) || one_of(word, WORDS)
}

/// Whether a word is one of those in `list`, which spaces separate.
pub(super) fn one_of(word: &str, list: &str) -> bool {
    !word.is_empty() && list.split(' ').any(|one| one == word)
}

/// A word without its commonest endings. Crude on purpose: it need only bring forms of one word together.
fn stem(word: &str) -> &str {
    if !word.is_ascii() || word.len() < 5 || word.bytes().any(|b| b.is_ascii_digit()) {
        return word;
    }
    let cut = ["ing", "ed", "es", "en", "st", "as", "os", "ar", "er", "ir", "s", "e", "a", "o", "t"]
        .iter()
        .find_map(|ending| {
            word.strip_suffix(ending).filter(|left| left.len() >= if ending.ends_with('t') { 5 } else { 4 })
        })
        .unwrap_or(word);
    &cut[..cut.len().min(6)]
}

fn hash(word: &str) -> u32 {
    hash_bytes(word.as_bytes())
}

/// FNV-1a of 32 bits.
fn hash_bytes(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}
