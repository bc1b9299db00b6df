//! From a message to its sentences, without what is quoted, pasted or code.
//!
//! One pass over the lines, one over the characters of each paragraph: linear in the size of the message.

use super::tokens::is_dense;

/// A sentence of a message.
pub(super) struct Sentence {
    /// First byte in the message.
    pub start: usize,
    /// First byte after it, its final mark included.
    pub end: usize,
    /// Its text with everything that is in quotation marks or backticks blanked out, byte for byte.
    pub masked: String,
    /// It is an item below a line that announced rules.
    pub ruled: bool,
    /// It ends with a colon, or is a headline: what follows belongs to it.
    pub announces: bool,
    /// It ends its line.
    pub closes: bool,
}

/// How to go on after a sentence.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// As before.
    Go,
    /// It announced rules: the items below are rules, whatever they say.
    Rules,
    /// It handed over somebody else's text, which begins in it: the rest of the message is not the person's.
    Pasted,
    /// It handed over somebody else's text, which begins below it: that is what is marked up, if the next line is, else the rest
    /// of the message.
    Follows,
}

/// Whose the lines are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// The person's.
    Own,
    /// Somebody else's, from the next line on.
    Awaited,
    /// Somebody else's as long as they are marked up as code.
    Marked,
    /// Somebody else's up to an empty line.
    Quoted,
    /// Somebody else's, to the end.
    Pasted,
}

/// Longest quotation in bytes that is blanked out; an opening mark without an end within is no quotation.
const QUOTE_MAX: usize = 400;
/// A line at least as long as this that does not end a sentence goes on in the next: it was wrapped.
const WRAPPED: usize = 60;

/// Gives every sentence of `text` that is the person's own words.
pub(super) fn each(text: &str, mut visit: impl FnMut(&Sentence) -> Next) {
    let mut reader = Reader { text, visit: &mut visit, block: None, ruled: false, whose: Whose::Own };
    let mut shut: Shut<'_> = Shut::Open;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let (start, end) = (at, at + line.trim_end().len());
        at += line.len();
        let body = line.trim();
        let prose = shut.passes(body);
        let indent = line.len() - line.trim_start().len();
        let own = start + indent;
        let item = marker(body);
        let in_item = reader.block.as_ref().is_some_and(|block| block.item);
        let code = (indent >= 4 || line.starts_with('\t')) && !in_item;
        let plain = prose && !body.is_empty() && !body.starts_with(['>', '|', '#']) && item.is_none() && !code;
        if plain && reader.goes_on(end) {
            continue;
        }
        reader.flush();
        if reader.is_others(prose, body, &text[at..]) || !prose {
            continue;
        }
        if let Some(skip) = item.filter(|_| !body.starts_with(['>', '|'])) {
            reader.block = Some(Block { start: own + skip, end, item: true, headline: false });
        } else if body.starts_with('#') {
            let skip = body.len() - body.trim_start_matches('#').trim_start().len();
            reader.block = Some(Block { start: own + skip, end, item: false, headline: true });
            reader.flush();
        } else if plain {
            reader.block = Some(Block { start: own, end, item: false, headline: false });
        }
    }
    reader.flush();
}

/// Whether the lines are inside something that is not prose.
enum Shut<'a> {
    Open,
    /// Between fences of this character.
    Fence(char),
    /// Between tags of this name.
    Tag(&'a str),
}

impl<'a> Shut<'a> {
    /// Takes the next line; true when it is prose.
    fn passes(&mut self, line: &'a str) -> bool {
        let fence = ['`', '~'].into_iter().find(|c| line.chars().take_while(|found| found == c).count() >= 3);
        match self {
            Shut::Fence(open) => {
                if fence == Some(*open) {
                    *self = Shut::Open;
                }
                false
            }
            Shut::Tag(name) => {
                if line.ends_with('>')
                    && line.rfind("</").is_some_and(|at| line[at + 2..line.len() - 1].trim() == *name)
                {
                    *self = Shut::Open;
                }
                false
            }
            Shut::Open => {
                if let Some(open) = fence {
                    *self = Shut::Fence(open);
                    return false;
                }
                if let Some(name) = opening_tag(line) {
                    if !line.ends_with(&format!("</{name}>")) {
                        *self = Shut::Tag(name);
                    }
                    return false;
                }
                true
            }
        }
    }
}

/// Some line is a fence or a quote.
fn has_marks(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with(['>', '<']) || line.contains("```") || line.contains("~~~"))
}

/// Name of the element that a line opens, when the line begins with a tag.
fn opening_tag(line: &str) -> Option<&str> {
    let inner = line.strip_prefix('<')?;
    let end = inner.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-')))?;
    let name = &inner[..end];
    let closes = inner[end..].starts_with(['>', ' ']) && inner.contains('>');
    let void = ["br", "hr", "img", "p", "b", "i"].iter().any(|plain| name.eq_ignore_ascii_case(plain));
    (closes && !name.is_empty() && name.as_bytes()[0].is_ascii_alphabetic() && !void).then_some(name)
}

/// Bytes of a list marker at the head of a line.
fn marker(line: &str) -> Option<usize> {
    let mut chars = line.char_indices();
    let (_, first) = chars.next()?;
    let skip = if matches!(first, '-' | '*' | '+' | '•' | '–' | '—' | '·' | '▪' | '◦' | '・') {
        let after = first.len_utf8();
        (line[after..].starts_with(char::is_whitespace) || matches!(first, '•' | '・')).then_some(after)?
    } else {
        let open = usize::from(first == '(');
        let digits = line[open..].bytes().take_while(u8::is_ascii_digit).count();
        let letter = line[open..].bytes().take(1).filter(u8::is_ascii_lowercase).count();
        let label = if digits > 0 { digits } else { letter };
        let mark = line[open + label..].chars().next()?;
        let fits = label > 0 && label <= 3 && (mark == ')' || (matches!(mark, '.' | '、') && digits > 0));
        let after = open + label + mark.len_utf8();
        (fits && (mark == '、' || line[after..].starts_with(char::is_whitespace))).then_some(after)?
    };
    let rest = &line[skip..];
    let body = rest.trim_start();
    let boxed = ["[ ] ", "[x] ", "[X] "].iter().find(|boxed| body.starts_with(**boxed)).map_or(0, |boxed| boxed.len());
    Some(skip + rest.len() - body.len() + boxed)
}

/// Lines that belong together.
struct Block {
    start: usize,
    end: usize,
    item: bool,
    headline: bool,
}

struct Reader<'t, 'v> {
    text: &'t str,
    visit: &'v mut dyn FnMut(&Sentence) -> Next,
    block: Option<Block>,
    ruled: bool,
    whose: Whose,
}

impl Reader<'_, '_> {
    /// Whether a line is somebody else's. A text that was handed over in marks ends with them, but only with the person's own:
    /// where more of them follow, those before may be the text's.
    fn is_others(&mut self, prose: bool, line: &str, rest: &str) -> bool {
        self.whose = match self.whose {
            Whose::Own => return false,
            Whose::Quoted if line.is_empty() => Whose::Marked,
            whose if line.is_empty() => whose,
            Whose::Pasted => Whose::Pasted,
            _ if !prose => Whose::Marked,
            _ if line.starts_with('>') => Whose::Quoted,
            Whose::Marked if !has_marks(rest) => Whose::Own,
            _ => Whose::Pasted,
        };
        self.whose != Whose::Own
    }

    /// A plain line goes on with the block when the line before was wrapped.
    fn goes_on(&mut self, end: usize) -> bool {
        let text = self.text;
        let Some(block) = &mut self.block else { return false };
        let last = &text[block.start..block.end];
        let line = last.rsplit('\n').next().unwrap_or(last);
        let wrapped = line.chars().count() >= WRAPPED && !line.ends_with(is_final) && !line.ends_with([':', '：']);
        if wrapped {
            block.end = end;
        }
        wrapped
    }

    /// Gives the sentences of the block.
    fn flush(&mut self) {
        let Some(block) = self.block.take() else { return };
        if self.whose != Whose::Own || block.start >= block.end {
            return;
        }
        if !block.item {
            self.ruled = false;
        }
        let whole = &self.text[block.start..block.end];
        let masked = mask(whole);
        if self.ruled {
            self.give(&block, &masked, 0, whole.len());
            return;
        }
        let mut from = 0;
        let markup = markup(whole);
        let mut ends = boundaries(whole, &masked).into_iter().peekable();
        while let Some(end) = ends.next() {
            if end > markup {
                return;
            }
            let next = ends.peek().copied();
            // "Run the linter first. Always." is one rule.
            if let Some(next) = next
                && is_postscript(&whole[end..next])
            {
                continue;
            }
            self.give(&block, &masked, from, end);
            if self.whose != Whose::Own {
                return;
            }
            from = end;
        }
    }

    fn give(&mut self, block: &Block, masked: &str, from: usize, to: usize) {
        let whole = &self.text[block.start..block.end];
        let from = from + whole[from..to].len() - whole[from..to].trim_start().len();
        let to = from + whole[from..to].trim_end().len();
        if from >= to {
            return;
        }
        let sentence = Sentence {
            start: block.start + from,
            end: block.start + to,
            masked: masked[from..to].to_owned(),
            ruled: self.ruled,
            announces: block.headline || (to == whole.len() && whole.ends_with([':', '：'])),
            closes: to == whole.len(),
        };
        match (self.visit)(&sentence) {
            Next::Go => {}
            Next::Rules => self.ruled = sentence.announces,
            Next::Pasted => self.whose = Whose::Pasted,
            Next::Follows => self.whose = Whose::Awaited,
        }
    }
}

/// Where markup begins in a block that holds an end tag: nobody speaks in elements, so that is from a page or a document. The
/// block's length where there is none; a generic type such as `Vec<String>` is none.
fn markup(block: &str) -> usize {
    let tag = |(at, _): &(usize, &str)| block[at + 1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let ends = |(at, _): (usize, &str)| block[at + 2..].starts_with(|c: char| c.is_ascii_alphabetic());
    if !block.match_indices("</").any(ends) {
        return block.len();
    }
    block.match_indices('<').find(tag).map_or(block.len(), |(at, _)| at)
}

fn is_final(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | '…' | '。' | '！' | '？' | '．')
}

/// A few words that only underline the sentence before.
fn is_postscript(text: &str) -> bool {
    let text = text.trim().trim_end_matches(is_final);
    text.len() <= 24
        && [
            "always",
            "ever",
            "never",
            "every time",
            "each time",
            "no exceptions",
            "without exception",
            "immer",
            "nie",
            "niemals",
            "jedes mal",
            "ohne ausnahme",
            "ausnahmslos",
            "siempre",
            "nunca",
            "jamás",
            "sin excepción",
            "sin excepciones",
            "toujours",
            "jamais",
            "sans exception",
        ]
        .iter()
        .any(|words| text.to_lowercase() == *words)
}

/// Blanks what stands in quotation marks or backticks, byte for byte.
fn mask(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let (mut at, mut before) = (0, ' ');
    while let Some(c) = text[at..].chars().next() {
        masked.push(c);
        at += c.len_utf8();
        if let Some(length) = quoted(c, before, &text[at..]) {
            masked.extend(std::iter::repeat_n(' ', length));
            at += length;
            if let Some(close) = text[at..].chars().next() {
                masked.push(close);
                at += close.len_utf8();
            }
        }
        before = c;
    }
    masked
}

/// Marks that close a quotation which `mark` opens; none for other characters.
pub(super) fn closing(mark: char) -> &'static [char] {
    match mark {
        '"' => &['"'],
        '`' => &['`'],
        '“' => &['”'],
        '„' => &['“', '”'],
        '«' => &['»'],
        '《' => &['》'],
        '〈' => &['〉'],
        '「' => &['」'],
        '『' => &['』'],
        '\'' | '‘' => &['\'', '’'],
        _ => &[],
    }
}

/// Bytes up to the mark that closes the quotation that `mark` opens; absent when it opens none.
fn quoted(mark: char, before: char, rest: &str) -> Option<usize> {
    let closes = closing(mark);
    if closes.is_empty() || matches!(mark, '\'' | '‘') && before.is_alphanumeric() {
        return None;
    }
    let mut chars = rest.char_indices().take_while(|(at, _)| *at < QUOTE_MAX);
    let (end, close) = chars.find(|(_, c)| closes.contains(c))?;
    // `'tis the manager's` is no quotation.
    let apostrophe =
        matches!(close, '\'' | '’') && rest[end + close.len_utf8()..].starts_with(|c: char| c.is_alphanumeric());
    (!apostrophe).then_some(end)
}

/// Where the sentences of a block end, in bytes; the last is its length.
fn boundaries(whole: &str, masked: &str) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut chars = masked.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        if !is_final(c) {
            continue;
        }
        let (mut end, mut marks) = (at + c.len_utf8(), 1);
        while let Some((next, more)) = chars.peek().copied() {
            if !is_final(more) && !matches!(more, '"' | '”' | '“' | '»' | ')' | '’' | '」' | '』') {
                break;
            }
            chars.next();
            end = next + more.len_utf8();
            marks += 1;
        }
        let rest = &masked[end..];
        let wide = matches!(c, '。' | '！' | '？' | '．') || masked[..at].chars().next_back().is_some_and(is_dense);
        if !wide && !rest.starts_with(char::is_whitespace) && !rest.is_empty() {
            continue;
        }
        // Many write without capitals, so a small letter goes on only behind what may be an abbreviation.
        let short = masked[..at].rsplit(' ').next().is_some_and(|word| word.len() <= 3);
        let goes_on = marks == 1 && c == '.' && short && rest.trim_start().starts_with(char::is_lowercase);
        if !wide && (goes_on || (c == '.' && marks == 1 && is_abbreviation(&masked[..at]))) {
            continue;
        }
        ends.push(end);
    }
    if ends.last() != Some(&whole.len()) {
        ends.push(whole.len());
    }
    ends
}

/// Whether the full stop behind `before` belongs to its last word.
fn is_abbreviation(before: &str) -> bool {
    let word = before.rsplit([' ', '(', '\n', '\t', '"', '“', '„']).next().unwrap_or(before);
    let letters = word.chars().filter(|c| c.is_alphanumeric()).count();
    if letters == 1 && word.chars().all(|c| c.is_alphabetic() || c == '.') {
        return true;
    }
    // German ordinals: "am 3. Mai".
    if (1..=2).contains(&word.len()) && word.bytes().all(|b| b.is_ascii_digit()) {
        return true;
    }
    word.len() <= 8
        && [
            "abb", "approx", "art", "bspw", "bzw", "ca", "cf", "d.h", "dr", "e.g", "ej", "evtl", "fig", "ggf", "i.e",
            "inkl", "jr", "max", "min", "mr", "mrs", "ms", "nr", "p.ej", "p.ex", "prof", "resp", "sr", "sra", "st",
            "str", "tel", "u.a", "ud", "uds", "vgl", "vol", "vs", "z.b",
        ]
        .iter()
        .any(|known| word.eq_ignore_ascii_case(known))
}
