//! Words of a sentence, folded for comparison: lower case, Latin letters without their marks, no apostrophes.

/// A word or a punctuation mark of a sentence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    /// Where its folded form is in [`Tokens::folded`].
    from: u32,
    to: u32,
    /// It is a word and no punctuation mark.
    pub word: bool,
    /// It begins with a capital, and goes on without one.
    pub capital: bool,
}

/// The tokens of a text.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    folded: String,
    list: Vec<Token>,
}

impl Tokens {
    /// Reads a text. Marks other than `, : ; ? ! ( )` separate words and are left out.
    pub(super) fn of(text: &str) -> Tokens {
        let mut tokens = Tokens::default();
        let mut open: Option<Token> = None;
        for (at, c) in text.char_indices() {
            if c.is_alphanumeric() && !is_dense(c) {
                let from = tokens.at();
                match &mut open {
                    // "I" and "NEVER" are no names.
                    Some(token) => token.capital &= !c.is_uppercase(),
                    None => open = Some(Token { from, to: 0, word: true, capital: c.is_uppercase() }),
                }
                fold(c, &mut tokens.folded);
                continue;
            }
            if matches!(c, '\'' | '’') && open.is_some() && is_contraction(&text[at + c.len_utf8()..]) {
                continue;
            }
            tokens.close(&mut open);
            let mark = match c {
                ',' | ':' | ';' | '?' | '!' | '(' | ')' => c,
                '¿' => '?',
                '，' | '、' => ',',
                '：' => ':',
                '？' => '?',
                '！' => '!',
                _ => continue,
            };
            let from = tokens.at();
            tokens.folded.push(mark);
            let to = tokens.at();
            tokens.list.push(Token { from, to, word: false, capital: false });
        }
        tokens.close(&mut open);
        tokens
    }

    /// All tokens in order.
    pub(super) fn list(&self) -> &[Token] {
        &self.list
    }

    /// Folded form of the token at `index`; empty past the end.
    pub(super) fn get(&self, index: usize) -> &str {
        self.list.get(index).map_or("", |token| &self.folded[token.from as usize..token.to as usize])
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    fn at(&self) -> u32 {
        u32::try_from(self.folded.len()).unwrap_or(u32::MAX)
    }

    fn close(&mut self, open: &mut Option<Token>) {
        if let Some(mut token) = open.take() {
            token.to = self.at();
            self.list.push(token);
        }
    }
}

/// `don't`, `it's`, `we're`: what follows belongs to the word. French elisions (`n'utilise`) are two words.
fn is_contraction(rest: &str) -> bool {
    let end = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
    matches!(rest[..end].to_ascii_lowercase().as_str(), "t" | "d" | "s" | "m" | "re" | "ve" | "ll")
}

/// Lower case; marked Latin letters lose their marks, so that what is typed without them reads the same.
fn fold(c: char, into: &mut String) {
    if c.is_ascii() {
        into.push(c.to_ascii_lowercase());
        return;
    }
    for c in c.to_lowercase() {
        match c {
            'à' | 'á' | 'â' | 'ã' | 'ä' | 'å' => into.push('a'),
            'ç' => into.push('c'),
            'è' | 'é' | 'ê' | 'ë' => into.push('e'),
            'ì' | 'í' | 'î' | 'ï' => into.push('i'),
            'ñ' => into.push('n'),
            'ò' | 'ó' | 'ô' | 'õ' | 'ö' | 'ø' => into.push('o'),
            'ù' | 'ú' | 'û' | 'ü' => into.push('u'),
            'ß' => into.push_str("ss"),
            'œ' => into.push_str("oe"),
            'æ' => into.push_str("ae"),
            c => into.push(c),
        }
    }
}

/// Han, Hiragana, Katakana: written without spaces between words.
pub(super) fn is_dense(c: char) -> bool {
    matches!(c,
        '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30FF}' | '\u{31F0}'..='\u{31FF}' | '\u{3400}'..='\u{4DBF}'
        | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}
