//! Quoted texts, which cannot pass for the tool's own words.
//!
//! Every line of a quoted text begins with `> `, and no line of the tool's own does. Whatever a reader may take for a line break
//! counts as one, so a text has no way out; and nothing is left out or replaced, so the text can be had back exactly.

use engine_abi::wire::role;

/// What every quoted line begins with.
pub(crate) const MARK: &str = "> ";

/// Longest name that is shown, in characters.
const NAME_CHARS: usize = 48;

/// True for what ends a line, for any reader (Unicode Standard Annex 14, classes BK, CR, LF and NL).
fn is_break(letter: char) -> bool {
    matches!(letter, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Appends `text` as quoted lines, and ends the last one.
pub(crate) fn quote(out: &mut String, text: &str) {
    out.push_str(MARK);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        out.push(letter);
        let is_pair = letter == '\r' && letters.peek() == Some(&'\n');
        if is_break(letter) && !is_pair {
            out.push_str(MARK);
        }
    }
    out.push('\n');
}

/// The text that is quoted at the beginning of `quoted`, and how many bytes its lines take; absent when there is none.
pub(crate) fn unquote(quoted: &str) -> Option<(String, usize)> {
    let mut text = String::new();
    let mut rest = quoted.strip_prefix(MARK)?;
    loop {
        let letter = rest.chars().next()?;
        rest = &rest[letter.len_utf8()..];
        let is_pair = letter == '\r' && rest.starts_with('\n');
        if is_break(letter) && !is_pair {
            match rest.strip_prefix(MARK) {
                Some(next) => rest = next,
                None if letter == '\n' => return Some((text, quoted.len() - rest.len())),
                None => return None,
            }
        }
        text.push(letter);
    }
}

/// `text[start..]`, shortened to about `bytes` on one quoted line; what is left out is marked.
pub(crate) fn snippet(out: &mut String, text: &str, start: usize, bytes: usize) {
    let start = text.floor_char_boundary(start);
    let end = text.floor_char_boundary(start + bytes);
    let mut line = String::with_capacity(bytes + 8);
    let mut gap = false;
    for letter in text[start..end].chars() {
        if letter.is_whitespace() || letter.is_control() || is_break(letter) {
            gap = !line.is_empty();
        } else {
            if std::mem::take(&mut gap) {
                line.push(' ');
            }
            line.push(letter);
        }
    }
    let (before, behind) = (if start > 0 { "… " } else { "" }, if end < text.len() { " …" } else { "" });
    quote(out, &format!("{before}{line}{behind}"));
}

/// A name within the tool's own words: nothing in it but letters, digits and what joins them.
pub(crate) fn name(name: &str) -> String {
    label(name, NAME_CHARS)
}

/// The same, of at most so many characters.
pub(crate) fn label(name: &str, chars: usize) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.' | '\'' | ' ' | ':');
    let shown: String = name.chars().map(|letter| if plain(letter) { letter } else { '_' }).take(chars).collect();
    shown.trim().to_owned()
}

/// The word for who said an entry.
pub(crate) fn who(role_code: u32) -> &'static str {
    match role_code {
        role::USER => "user",
        role::ASSISTANT => "assistant",
        role::TOOL => "tool",
        _ => "other",
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The text that was quoted.
    pub(crate) fn unquote(quoted: &str) -> String {
        let quoted = quoted.strip_suffix('\n').unwrap();
        let mut text = String::new();
        let mut rest = quoted.strip_prefix(MARK).unwrap();
        while let Some(letter) = rest.chars().next() {
            text.push(letter);
            rest = &rest[letter.len_utf8()..];
            if is_break(letter) && !(letter == '\r' && rest.starts_with('\n')) {
                rest = rest.strip_prefix(MARK).unwrap();
            }
        }
        text
    }

    /// Lines as any reader might see them.
    pub(crate) fn lines(text: &str) -> Vec<&str> {
        text.split(is_break).collect()
    }

    proptest! {
        #[test]
        fn no_text_leaves_its_quotes_and_none_is_changed(text in "(?s)[\r\n\u{b}\u{85}\u{2028}> #a-c]{0,40}|.{0,40}") {
            let mut quoted = String::new();
            quote(&mut quoted, &text);
            let both = super::unquote(&quoted);
            prop_assert_eq!(both, Some((text.clone(), quoted.len())));
            prop_assert_eq!(unquote(&quoted), text);
            let all = lines(&quoted);
            let (end, inner) = all.split_last().unwrap();
            prop_assert_eq!(*end, "");
            // Between the two halves of a pair there is no line.
            prop_assert!(inner.iter().all(|line| line.starts_with(MARK) || line.is_empty()));
        }

        #[test]
        fn a_snippet_is_one_line(text in "(?s).{0,80}", start in 0_usize..90) {
            let mut quoted = String::new();
            snippet(&mut quoted, &text, start.min(text.len()), 40);
            prop_assert_eq!(lines(&quoted).len(), 2);
            prop_assert!(quoted.starts_with(MARK));
        }

        #[test]
        fn a_name_is_no_more_than_a_name(text in "(?s).{0,80}") {
            let odd = name(&text).contains(['\n', '\r', '>', '#', '\u{2028}', '\u{85}', '"']);
            prop_assert!(!odd);
        }
    }
}
