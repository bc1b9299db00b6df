//! From a text to the pieces of its words, as the model's tokenizer makes them: WordPiece, uncased.
//!
//! The text loses control characters, accents and case; words end at white space, and every punctuation mark and Chinese character
//! is a word of its own. A word is then cut into pieces, each the longest that the vocabulary has. A word that cannot be cut
//! wholly gives none, where the tokenizer would give `[UNK]`. One rule is added: a symbol such as an emoji is a word of its
//! own too, since the tokenizer would lose the word that it touches. (Devlin et al., "BERT", 2018; the reference code is `tokenization.py`
//! there and `BertNormalizer`, `BertPreTokenizer` and `WordPiece` of the crate `tokenizers`, whose results these are.)

use super::table::{Hash, LONGEST, Piece, TABLE};
use unicode_general_category::{GeneralCategory, get_general_category as category};
use unicode_normalization::char::decompose_canonical;

/// A word of more characters has no pieces.
const WORD_CHARS: usize = 100;

/// Calls `take` with each piece of the text, in order. Nothing is allocated.
pub(super) fn each(text: &str, take: impl FnMut(Piece)) {
    let mut words = Words { bytes: [0; WORD_CHARS * 4], len: 0, chars: 0, take };
    for char in text.chars() {
        match char {
            'a'..='z' | 'A'..='Z' | '0'..='9' => words.push_ascii(char.to_ascii_lowercase() as u8),
            ' ' | '\t' | '\n' | '\r' => words.end(),
            '!'..='~' => words.alone(char),
            '\0'..='\x7f' | '\u{fffd}' => {}
            _ => words.push_foreign(char),
        }
    }
    words.end();
}

/// The word that is being read, and who takes its pieces.
struct Words<F> {
    bytes: [u8; WORD_CHARS * 4],
    len: usize,
    /// Characters of the word, which may be more than are kept.
    chars: usize,
    take: F,
}

impl<F: FnMut(Piece)> Words<F> {
    fn push_ascii(&mut self, byte: u8) {
        if self.chars < WORD_CHARS {
            self.bytes[self.len] = byte;
            self.len += 1;
        }
        self.chars += 1;
    }

    fn push(&mut self, char: char) {
        if self.chars < WORD_CHARS {
            self.len += char.encode_utf8(&mut self.bytes[self.len..]).len();
        }
        self.chars += 1;
    }

    /// A word of this character alone.
    fn alone(&mut self, char: char) {
        self.end();
        self.push(char);
        self.end();
    }

    /// A character outside of ASCII.
    #[cold]
    fn push_foreign(&mut self, char: char) {
        use GeneralCategory::{Control, Format, ModifierSymbol, OtherSymbol, PrivateUse, Surrogate, Unassigned};
        let kind = category(char);
        if matches!(kind, Control | Format | PrivateUse | Surrogate | Unassigned) {
            return;
        }
        if char.is_whitespace() {
            return self.end();
        }
        if matches!(kind, OtherSymbol | ModifierSymbol) {
            return self.alone(char);
        }
        let ideograph = is_ideograph(char);
        if ideograph {
            self.end();
        }
        decompose_canonical(char, |part| {
            if category(part) == GeneralCategory::NonspacingMark {
                return;
            }
            for lower in part.to_lowercase() {
                if is_punctuation(lower) { self.alone(lower) } else { self.push(lower) }
            }
        });
        if ideograph {
            self.end();
        }
    }

    /// The end of a word, or of nothing.
    fn end(&mut self) {
        let (len, chars) = (std::mem::take(&mut self.len), std::mem::take(&mut self.chars));
        if len == 0 || chars > WORD_CHARS {
            return;
        }
        let word = &self.bytes[..len];
        match whole(word) {
            Some(piece) => (self.take)(piece),
            None => self.cut(len),
        }
    }

    /// The pieces of a word that is none itself.
    #[inline(never)]
    fn cut(&mut self, len: usize) {
        let mut found = [Piece::default(); WORD_CHARS];
        let mut count = 0;
        let mut at = 0;
        while at < len {
            let Some((piece, length)) = longest(&self.bytes[at..len], at > 0) else { return };
            found[count] = piece;
            count += 1;
            at += length;
        }
        found[..count].iter().copied().for_each(&mut self.take);
    }
}

/// The piece that is the whole word, as most words have one.
fn whole(word: &[u8]) -> Option<Piece> {
    if word.len() > LONGEST {
        return None;
    }
    TABLE.find(word, false, word.iter().copied().fold(Hash::new(false), Hash::and))
}

/// The longest piece that the text starts with, and its length in bytes. (A prefix that ends within a character equals none.)
fn longest(text: &[u8], continues: bool) -> Option<(Piece, usize)> {
    let text = &text[..text.len().min(LONGEST)];
    let mut hashes = [Hash::new(continues); LONGEST];
    let mut hash = Hash::new(continues);
    for (slot, &byte) in hashes.iter_mut().zip(text) {
        hash = hash.and(byte);
        *slot = hash;
    }
    (1..=text.len())
        .rev()
        .find_map(|length| TABLE.find(&text[..length], continues, hashes[length - 1]).map(|piece| (piece, length)))
}

/// A mark that is a word of its own: what ASCII has besides letters and digits, and all that Unicode calls punctuation.
fn is_punctuation(char: char) -> bool {
    use GeneralCategory::*;
    char.is_ascii_punctuation()
        || matches!(
            category(char),
            ConnectorPunctuation
                | DashPunctuation
                | OpenPunctuation
                | ClosePunctuation
                | InitialPunctuation
                | FinalPunctuation
                | OtherPunctuation
        )
}

/// The blocks that the tokenizer takes for Chinese: CJK ideographs, but neither kana nor hangul.
fn is_ideograph(char: char) -> bool {
    matches!(char,
        '\u{4e00}'..='\u{9fff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{20000}'..='\u{2a6df}'
        | '\u{2a700}'..='\u{2b73f}'
        | '\u{2b740}'..='\u{2b81f}'
        | '\u{2b820}'..='\u{2ceaf}'
        | '\u{f900}'..='\u{faff}'
        | '\u{2f800}'..='\u{2fa1f}')
}
