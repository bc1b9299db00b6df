//! What a question asks for.

use crate::index::Index;
use crate::index::postings::Term;
use crate::text::dates;
use crate::text::words::{self, Kind};

/// A word that is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// Its number in the postings.
    pub term: Term,
    /// Its rarity, times what its kind is worth.
    pub weight: f32,
    /// It serves no grammar: whoever has it speaks of what is asked for.
    pub matters: bool,
}

/// A question, taken apart.
#[derive(Debug, Default)]
pub(crate) struct Query {
    /// The words that stand anywhere in the session, each once.
    pub wanted: Vec<Wanted>,
    /// It has words that matter, whether they stand in the session or not.
    pub matters: bool,
    /// Sum of their weights.
    pub total: f32,
    /// Whose words are asked for.
    pub speaker: Speaker,
    /// It asks for a time.
    pub when: bool,
    /// It asks for a number.
    pub how_many: bool,
    /// The days that it speaks of, from and until, in ms since the epoch.
    pub days: Vec<(i64, i64)>,
    /// Its text without the names of participants: what the vector is made of.
    pub bare: String,
}

/// Whose words are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Speaker {
    /// Nobody's before others'.
    #[default]
    Any,
    /// Those of the participant with this number of a name.
    Named(u16),
    /// Those of the person: participants have no names, or the person asks for "my" things.
    Person,
}

/// What a word of grammar is worth against one of content. It is not nothing, since a question may have no others.
const GRAMMAR: f32 = 0.1;

/// What the name of a participant is worth: each is called by the other one, so the name stands where the other one speaks.
const PARTICIPANT: f32 = 0.05;

/// What a part of an identifier is worth against the whole.
const PART: f32 = 0.5;

/// What one character of a script without spaces is worth against a pair.
const CHARACTER: f32 = 0.3;

/// Words of a question that are looked for; a longer text is known by its rarest ones.
const WANTED_MAX: usize = 48;

impl Query {
    /// Takes `text` apart for this index.
    pub(crate) fn of(index: &Index, text: &str, asker: Option<&str>, now_ms: i64) -> Query {
        let mut query = Query::default();
        let mut seen = Vec::new();
        let mut named = Vec::new();
        let (mut me, mut how, mut much) = (false, false, false);
        let mut bare_until = 0;
        words::each_word(text, |word| {
            let participant = index.names().find(|(_, keys)| keys.contains(&word.key)).map(|(name, _)| name);
            if let Some(name) = participant {
                // The words of a tool's name are words like others.
                if index.speaks(name) {
                    if !named.contains(&name) {
                        named.push(name);
                    }
                    if let Some(offset) = text[bare_until..].find(word.written) {
                        query.bare.push_str(&text[bare_until..bare_until + offset]);
                        bare_until += offset + word.written.len();
                    }
                }
            }
            me |= is_me(word.text);
            how |= word.text == "how";
            much |= is_much(word.text);
            query.when |= is_when(word.text) || how && word.text == "long";
            if seen.contains(&word.key) {
                return;
            }
            seen.push(word.key);
            let matters = match word.kind {
                Kind::Plain => !is_grammar(word.text),
                Kind::Number | Kind::Identifier | Kind::Pair | Kind::Part => true,
                Kind::Character => false,
            };
            query.matters |= matters;
            let Some(term) = index.postings.term(word.key) else { return };
            let worth = match word.kind {
                _ if participant.is_some_and(|name| index.speaks(name)) => PARTICIPANT,
                Kind::Plain if is_grammar(word.text) => GRAMMAR,
                Kind::Plain | Kind::Number | Kind::Identifier | Kind::Pair => 1.0,
                Kind::Part => PART,
                Kind::Character => CHARACTER,
            };
            let weight = worth * rarity(index.passages.len(), index.postings.length(term));
            query.wanted.push(Wanted { term, weight, matters });
        });
        query.bare.push_str(&text[bare_until..]);
        query.days = dates::spoken_of(text, now_ms).into_iter().map(dates::Days::ms).collect();
        query.how_many = how && much;
        query.wanted.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        query.wanted.truncate(WANTED_MAX);
        query.total = query.wanted.iter().map(|wanted| wanted.weight).sum::<f32>().max(f32::EPSILON);
        query.speaker = match (&*named, asker) {
            ([name], _) => Speaker::Named(*name),
            ([], Some(asker)) if me => index.number_of(asker).map_or(Speaker::Person, Speaker::Named),
            ([], _) if me || !index.has_speakers() => Speaker::Person,
            _ => Speaker::Any,
        };
        query
    }
}

/// The inverse document frequency of BM25, never below 0 (Lucene's form).
fn rarity(passages: usize, holders: u32) -> f32 {
    let (all, held) = (passages as f32, holders as f32);
    (1.0 + (all - held + 0.5) / (held + 0.5)).ln()
}

/// A word by which askers mean themselves.
fn is_me(word: &str) -> bool {
    matches!(
        word,
        "i" | "i'm"
            | "i've"
            | "i'd"
            | "me"
            | "my"
            | "mine"
            | "ich"
            | "mein"
            | "meine"
            | "mir"
            | "je"
            | "mon"
            | "yo"
            | "mi"
            | "я"
            | "мой"
            | "моя"
            | "私"
            | "我"
    )
}

/// A word that asks for a time.
fn is_when(word: &str) -> bool {
    matches!(
        word,
        "when"
            | "date"
            | "dat"
            | "wann"
            | "quand"
            | "cuándo"
            | "cuando"
            | "quando"
            | "когда"
            | "いつ"
            | "何時"
            | "何时"
            | "언제"
    )
}

/// With "how": a word that asks for a number.
fn is_much(word: &str) -> bool {
    matches!(word, "mani" | "many" | "much" | "often")
}

/// A word that serves the grammar of a question rather than its matter, stemmed. Such words are rare in statements, so their
/// rarity in a session says nothing of their worth.
fn is_grammar(word: &str) -> bool {
    matches!(
        word,
        "a" | "an"
            | "the"
            | "of"
            | "to"
            | "in"
            | "on"
            | "at"
            | "for"
            | "from"
            | "by"
            | "with"
            | "about"
            | "as"
            | "into"
            | "and"
            | "or"
            | "but"
            | "if"
            | "than"
            | "then"
            | "that"
            | "this"
            | "these"
            | "thes"
            | "those"
            | "thos"
            | "it"
            | "its"
            | "is"
            | "are"
            | "was"
            | "wa"
            | "were"
            | "wer"
            | "be"
            | "been"
            | "being"
            | "am"
            | "do"
            | "doe"
            | "did"
            | "don"
            | "doing"
            | "done"
            | "has"
            | "ha"
            | "have"
            | "hav"
            | "had"
            | "having"
            | "will"
            | "would"
            | "can"
            | "could"
            | "should"
            | "might"
            | "may"
            | "must"
            | "shall"
            | "not"
            | "no"
            | "nor"
            | "so"
            | "what"
            | "when"
            | "where"
            | "wher"
            | "who"
            | "whom"
            | "whose"
            | "whos"
            | "which"
            | "why"
            | "how"
            | "he"
            | "she"
            | "they"
            | "them"
            | "his"
            | "her"
            | "their"
            | "him"
            | "i"
            | "you"
            | "we"
            | "me"
            | "my"
            | "our"
            | "us"
            | "your"
            | "there"
            | "ther"
            | "here"
            | "it's"
            | "der"
            | "die"
            | "das"
            | "den"
            | "dem"
            | "des"
            | "ein"
            | "eine"
            | "einen"
            | "und"
            | "oder"
            | "ist"
            | "sind"
            | "war"
            | "hat"
            | "habe"
            | "haben"
            | "wie"
            | "wo"
            | "wann"
            | "warum"
            | "welche"
            | "welcher"
            | "mit"
            | "von"
            | "zu"
            | "für"
            | "auf"
            | "ich"
            | "er"
            | "sie"
            | "wir"
            | "ihr"
            | "nicht"
            | "mein"
            | "meine"
            | "le"
            | "la"
            | "les"
            | "un"
            | "une"
            | "de"
            | "du"
            | "et"
            | "ou"
            | "est"
            | "que"
            | "qui"
            | "quoi"
            | "quand"
            | "où"
            | "dans"
            | "pour"
            | "avec"
            | "je"
            | "tu"
            | "il"
            | "elle"
            | "nous"
            | "vous"
            | "el"
            | "los"
            | "las"
            | "una"
            | "y"
            | "o"
            | "es"
            | "qué"
            | "quién"
            | "cuándo"
            | "dónde"
            | "cómo"
            | "en"
            | "con"
            | "и"
            | "в"
            | "на"
            | "что"
            | "кто"
            | "где"
            | "как"
            | "с"
            | "по"
            | "не"
            | "я"
            | "ты"
            | "мы"
            | "の"
            | "は"
            | "が"
            | "を"
            | "に"
            | "で"
            | "と"
            | "的"
            | "了"
            | "是"
    )
}
