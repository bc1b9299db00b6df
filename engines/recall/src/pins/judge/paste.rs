//! Whether a sentence hands over a text: "summarise this: …", "Kim writes: …", "what does this mean?" and a new line. What
//! follows is quoted matter, whatever it says; so is what stands before "summarise the text above".
//!
//! "Remember this: …", "from now on: …" and "do it like this: …" open the person's own words.

use super::dense;
use super::reading::Reading;
use crate::pins::lexicon::{self, Found, Hint};
use crate::pins::sentences::{self, Sentence};
use crate::pins::subject::{is_language, one_of};

/// Longest piece in bytes that is looked at for what it hands over.
const HEAD_MAX: usize = 240;
/// Marks in a sentence that are looked at.
const MARKS_MAX: usize = 3;

/// Where in the sentence the text begins that it hands over: behind a colon, a dash or an arrow, or where it ends.
pub(super) fn handed_over(sentence: &Sentence, message: &str) -> Option<usize> {
    let text = sentence.masked.as_str();
    let mut marks = 0;
    for (at, mark) in text.char_indices().take_while(|(at, _)| *at <= HEAD_MAX) {
        let behind = at + mark.len_utf8();
        let Some(colon) = separates(mark, &text[..at], &text[behind..]) else { continue };
        // "Remember:" is a phrase with its colon.
        let head = if colon { &text[..behind] } else { &text[..at] };
        if opens(head, colon) {
            return Some(behind);
        }
        marks += 1;
        if marks == MARKS_MAX {
            return None;
        }
    }
    // "What does this mean?", and the text on the next line.
    let follows = || !message[sentence.end..].trim_start().is_empty();
    let ends = sentence.closes && text.len() <= HEAD_MAX / 2 && follows();
    (ends && is_request(text, Hint::Shown, false)).then_some(text.len())
}

/// The last line of the message asks for something to be done with what stands before it.
pub(super) fn is_about_what_went_before(text: &str) -> bool {
    let text = text.trim_end();
    let Some((before, line)) = text.rsplit_once('\n') else { return false };
    let line = line.trim();
    !before.trim().is_empty()
        && line.len() <= HEAD_MAX / 2
        && !line.ends_with([':', '：'])
        && (is_request(line, Hint::Above, true) || is_request(line, Hint::Shown, true))
}

/// What stands behind a colon that the person opens in his own name: "what I want: …", "do it like this: …".
pub(super) fn told_by_oneself(text: &str) -> Option<&str> {
    let (at, mark) =
        text.char_indices().take_while(|(at, _)| *at <= HEAD_MAX / 2).find(|(_, c)| matches!(c, ':' | '：'))?;
    let behind = &text[at + mark.len_utf8()..];
    let head = Head::of(&text[..at]);
    let own = (0..head.end())
        .any(|at| one_of(head.reading.word(at), "i me we us ich mir wir uns yo mi nosotros je moi nous"));
    let setting = head.end() == 1 && one_of(head.reading.word(0), SETTINGS);
    ((own || setting || head.is_own()) && behind.starts_with(char::is_whitespace)).then_some(behind)
}

/// What a rule may be about, by itself before a colon.
const SETTINGS: &str = "style tone format formatting language length spelling units answers replies comments commits stil ton sprache lange \
                        einheiten antworten kommentare estilo tono idioma formato unidades respuestas comentarios langue style unites reponses \
                        commentaires";

/// Whether a mark parts a sentence in two; true for a colon, which also does it behind what is only a name for a text.
fn separates(mark: char, before: &str, behind: &str) -> Option<bool> {
    let spaced =
        behind.is_empty() || behind.starts_with(|c: char| c.is_whitespace() || !sentences::closing(c).is_empty());
    match mark {
        ':' if spaced || !before.is_ascii() && !behind.starts_with(|c: char| c.is_ascii()) => Some(true),
        '：' => Some(true),
        '-' | '–' | '—' if spaced && before.ends_with(' ') => Some(false),
        '→' => Some(false),
        '>' if before.ends_with(['-', '=']) => Some(false),
        _ => None,
    }
}

/// Whether `head`, which stands before a colon or a dash, hands over a text.
fn opens(head: &str, colon: bool) -> bool {
    if dense::is_dense(head) {
        return dense::opens(head, colon);
    }
    let head = head.trim_end_matches(['-', '=']);
    let head = Head::of(head);
    !head.reading.is_empty() && (head.asks() || (colon && (head.labels() || head.quotes())))
}

/// A short sentence without more that asks for something to be done with a text which is only pointed at.
fn is_request(text: &str, pointed: Hint, is_last: bool) -> bool {
    if dense::is_dense(text) {
        return dense::is_request(text, pointed == Hint::Above, is_last);
    }
    let head = Head::of(text);
    let Some(at) = head.texts.iter().filter(|one| one.hint == pointed).map(|one| one.to).max() else { return false };
    let (end, tokens) = (head.reading.tokens.len(), &head.reading.tokens);
    // "this article" is pointed at elsewhere; "this into French" is not.
    let bare = (at..end).find(|at| tokens.list()[*at].word && head.reading.at(Hint::Polite, *at).is_none());
    let bare = bare.is_none_or(|at| one_of(head.reading.word(at), GOES_ON));
    let below = (0..end).any(|at| one_of(head.reading.word(at), BELOW));
    // "Summarise this." is about something else when more is said.
    let bare = below || bare && !(pointed == Hint::Shown && !is_last && text.ends_with(['.', '!', '…']));
    let meant =
        head.texts.iter().any(|one| one.hint == Hint::About) && (0..end).any(|at| one_of(head.reading.word(at), MEANS));
    let own = head.is_own();
    !own && (pointed == Hint::Above || bare) && (meant || head.treats().is_some())
}

/// Points at what follows.
const BELOW: &str = "below following unten untenstehenden folgenden folgende folgendes folgender continuacion siguiente siguientes dessous suivant \
                     suivante suivants";
/// Verbs of saying that may stand before a colon.
const SAYS: &str = "says said writes wrote asks asked replies replied adds added tells told warns warned quotes schreibt schrieb sagt sagte meint \
                    fragt fragte antwortet escribe escribio dice dijo pregunta responde ecrit dit demande repond";
/// What may stand behind a bare "this".
const GOES_ON: &str = "legal true fair accurate valid into in to for as mean means meaning correct right ins auf fur zu als al en a para por como au pour comme \
                       mean say quiere richtig korrekt correcto juste zusammen um bedeuten heissen";
/// What a question about a text asks for.
const MEANS: &str = "answer reply antworten antworte respondo contesto repondre reponds legal true fair accurate valid mean means say correct right grammatical bedeutet bedeuten heisst heissen richtig korrekt sagt sage significa significan \
                     decir dice correcto correcta signifie dire juste";
/// What may stand before a verb that opens a clause.
const BEFORE: &str = "to now just then quickly and also briefly mal jetzt und schnell zu einfach ahora y solo ademas et maintenant \
                      juste a de d can could pouvez";
/// What may stand before the name of a text.
const ARTICLES: &str = "the a an this that my his her their our its original full following first last next new here is heres s from of \
                        whole sample second user der die das dem den ein eine einen mein meine seine ihre dieser diese dieses \
                        folgender folgende folgendes hier ist aus el la los un una este esta mi su nuestro aqui va del de le les \
                        l une ce cet cette mon ma son sa voici du";
/// Verbs of looking at a work, and whose it is: "check my homework".
const EXAMINES: &str = "check review read grade rate evaluate assess judge look go pruf prufe prufen lies lesen uberprufe revisa revise revisar lee \
                        lea leer comprueba corrige verifie verifier verifiez lis lisez lire";
const MINE: &str = "my our mein meine meinen unser unsere mi mis nuestro nuestra mon ma mes notre nos";
/// To whom words are not handed on: the person.
const ME: &str = "me us myself mir uns mich moi nous";

/// What stands before the mark.
struct Head {
    reading: Reading,
    texts: Vec<Found>,
}

impl Head {
    fn of(text: &str) -> Head {
        let reading = Reading::of(text);
        let texts = lexicon::texts(&reading.tokens);
        Head { reading, texts }
    }

    /// It asks for something to be done with a text, or for words to be handed on.
    fn asks(&self) -> bool {
        if self.is_own() {
            return false;
        }
        self.treats().is_some() || self.handles() || self.says() || self.is_about() || self.names_language()
    }

    /// It opens the person's own words: "remember this", "from now on", "like this".
    fn is_own(&self) -> bool {
        let reading = &self.reading;
        let cue = [Hint::Keep, Hint::Standing, Hint::Always, Hint::Never, Hint::Each, Hint::Only, Hint::Case];
        let headed =
            [reading.head, reading.opening].iter().any(|at| cue.iter().any(|cue| reading.at(*cue, *at).is_some()));
        let end = self.end();
        headed || self.texts.iter().any(|one| one.hint == Hint::Like && one.to == end)
    }

    /// First token behind its last word.
    fn end(&self) -> usize {
        let tokens = self.reading.tokens.list();
        tokens.iter().rposition(|token| token.word).map_or(0, |at| at + 1)
    }

    /// The verb of a clause may stand here.
    fn opens_clause(&self, at: usize) -> bool {
        let reading = &self.reading;
        let asked = [Hint::Ask, Hint::Want]
            .iter()
            .any(|hint| reading.all().iter().any(|one| one.hint == *hint && one.to <= at));
        at <= reading.head
            || !reading.tokens.list()[at - 1].word
            || one_of(reading.word(at - 1), BEFORE)
            || reading.all().iter().any(|one| matches!(one.hint, Hint::Polite | Hint::Lead) && one.to == at)
            || asked
    }

    /// "Translate", "give me a summary of".
    fn treats(&self) -> Option<usize> {
        let end = self.end();
        let verb = |one: &&Found| {
            one.hint == Hint::Treat && (self.opens_clause(one.from) || one.to == end || one.to - one.from > 1)
        };
        self.texts.iter().find(verb).map(|one| one.from)
    }

    /// "Check this", "reply to the mail".
    fn handles(&self) -> bool {
        let reading = &self.reading;
        let lasting = [Hint::Standing, Hint::Always, Hint::Never, Hint::Rule].iter().any(|hint| reading.has(*hint));
        let verb = self.texts.iter().find(|one| one.hint == Hint::Handle && self.opens_clause(one.from));
        let own = |from: usize| {
            one_of(reading.word(from), EXAMINES) && (0..self.end()).any(|at| one_of(reading.word(at), MINE))
        };
        !lasting && verb.is_some_and(|verb| self.names_text(verb.from + 1) || own(verb.from))
    }

    /// A text is pointed at or named from `at` on.
    fn names_text(&self, at: usize) -> bool {
        self.texts.iter().any(|one| matches!(one.hint, Hint::Shown | Hint::Label) && one.from >= at)
    }

    /// "Tell Kim".
    fn says(&self) -> bool {
        let (reading, end) = (&self.reading, self.end());
        let lasting = [Hint::Standing, Hint::Always, Hint::Never].iter().any(|hint| reading.has(*hint));
        let verb = self.texts.iter().filter(|one| one.hint == Hint::Say && self.opens_clause(one.from));
        let handed = verb.max_by_key(|one| one.to);
        let person =
            |at: usize| one_of(reading.word(at), ME) && !matches!(reading.word(at - 1), "after" | "nach" | "apres");
        !lasting && handed.is_some_and(|one| end - one.to.min(end) <= 3 && !person(one.to - 1))
    }

    /// "What does this sentence mean", "who said".
    fn is_about(&self) -> bool {
        let reading = &self.reading;
        let asks = self.texts.iter().find(|one| one.hint == Hint::About && self.opens_clause(one.from));
        let own = reading.has(Hint::Announce) || reading.has(Hint::Rule);
        asks.is_some_and(|asks| {
            let better = (0..reading.tokens.len())
                .any(|at| one_of(reading.word(at), "sounds sound better klingt besser suena mejor sonne mieux"));
            let who = better || matches!(reading.word(asks.from), "who" | "wer" | "quien" | "qui" | "de" | "von");
            who || (!own && self.names_text(asks.from))
        })
    }

    /// "I need this in German", "in French, please".
    fn names_language(&self) -> bool {
        let reading = &self.reading;
        let language = (0..reading.tokens.len()).any(|at| is_language(reading.word(at)));
        let meant = reading.has(Hint::Polite) || self.texts.iter().any(|one| one.hint == Hint::Shown);
        let lasting = [Hint::Standing, Hint::Always, Hint::Never, Hint::Rule].iter().any(|hint| reading.has(*hint));
        language && meant && !lasting && reading.words() <= 8
    }

    /// "Lyrics", "here is the mail from the bank".
    fn labels(&self) -> bool {
        let (reading, end) = (&self.reading, self.end());
        let name = self.texts.iter().find(|one| one.hint == Hint::Label && one.to == end);
        if name.is_some_and(|name| (0..name.from).all(|at| self.is_article(at))) {
            return true;
        }
        let shows =
            ["here", "heres", "hier", "aqui", "voici", "from", "aus", "del"].contains(&reading.word(reading.head));
        let named = self.texts.iter().any(|one| one.hint == Hint::Label);
        shows && named && !reading.has(Hint::Announce) && !reading.has(Hint::Rule)
    }

    fn is_article(&self, at: usize) -> bool {
        !self.reading.tokens.list()[at].word || one_of(self.reading.word(at), ARTICLES)
    }

    /// "Kim says", "according to the wiki".
    fn quotes(&self) -> bool {
        let (reading, end) = (&self.reading, self.end());
        let own = |at: usize| at > 0 && one_of(reading.word(at - 1), "i ich we wir je j nous yo");
        let last = end.saturating_sub(1);
        let verb = if one_of(reading.word(last), ME) { last.saturating_sub(1) } else { last };
        let sends = one_of(reading.word(verb), SAYS)
            || matches!(reading.word(verb), "emailed" | "mailed" | "texted" | "messaged" | "sent");
        let says = verb > reading.head && sends && !own(verb);
        let reports = reading
            .all()
            .iter()
            .any(|one| one.hint == Hint::Report && !own(one.from) && (one.to == end || one.from == reading.head));
        !reading.has(Hint::Recall) && (says || reports)
    }
}
