//! From a message to its sentences, without what is quoted, pasted or code.
//!
//! One pass over the lines, one over the characters of each paragraph: linear in the size of the message.

mod ends;
mod lines;
mod marks;

use ends::{boundaries, is_final, is_postscript};
use lines::{Shut, has_marks, is_machines, is_setting, marker, markup, passes_on};
pub(super) use marks::closing;
use marks::mask;

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

/// A line at least as long as this that does not end a sentence goes on in the next: it was wrapped.
const WRAPPED: usize = 60;

/// Gives every sentence of `text` that is the person's own words.
pub(super) fn each(text: &str, mut visit: impl FnMut(&Sentence) -> Next) {
    let mut reader = Reader { text, visit: &mut visit, block: None, ruled: false, whose: Whose::Own };
    let mut shut: Shut<'_> = Shut::Open;
    let (mut at, mut settings) = (0, false);
    for line in text.split_inclusive('\n') {
        let (start, end) = (at, at + line.trim_end().len());
        at += line.len();
        let body = line.trim();
        let prose = shut.passes(body);
        let indent = line.len() - line.trim_start().len();
        let own = start + indent;
        // One such line may be the person's; several are a file's.
        let setting = is_setting(body);
        let machines = is_machines(body)
            || setting && (settings || text[at..].lines().next().is_some_and(|next| is_setting(next.trim())));
        settings = setting;
        let item = marker(body).filter(|_| !machines);
        let in_item = reader.block.as_ref().is_some_and(|block| block.item);
        let code = (indent >= 4 || line.starts_with('\t')) && !in_item;
        let plain =
            prose && !body.is_empty() && !body.starts_with(['>', '|', '#']) && item.is_none() && !code && !machines;
        if plain && reader.goes_on(end) {
            continue;
        }
        reader.flush();
        if reader.whose == Whose::Own && passes_on(body, &text[at..]) {
            reader.whose = Whose::Pasted;
        }
        if reader.is_others(prose, body, &text[at..]) || !prose || machines {
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
