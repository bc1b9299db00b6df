//! Frames around what is quoted, and texts that cannot leave them.
//!
//! Everything quoted stands on lines of its own that begin with `> `, and a quoted text never holds a line break, so nothing that
//! was said or read can close a frame, open one or imitate one.

/// What every quoted line begins with.
pub(crate) const QUOTED: &str = "> ";

/// `text` on one line of at most `chars` characters: white space and control characters become single spaces, and what is left
/// out is marked.
pub(crate) fn one_line(text: &str, chars: usize) -> String {
    let mut line = String::with_capacity(text.len().min(chars * 4));
    let mut left = chars;
    let mut gap = false;
    for letter in text.chars() {
        if letter.is_whitespace() || letter.is_control() || is_line_separator(letter) {
            gap = !line.is_empty();
            continue;
        }
        // The mark and what stands before it need room, too.
        if left < 2 + usize::from(gap) {
            line.push('…');
            break;
        }
        if gap {
            line.push(' ');
            left -= 1;
            gap = false;
        }
        line.push(letter);
        left -= 1;
    }
    line
}

fn is_line_separator(letter: char) -> bool {
    matches!(letter, '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_no_breaks_and_no_more_than_its_letters() {
        assert_eq!(one_line("  a\n\n[recall · log]\u{2028}b\r\n\tc ", 80), "a [recall · log] b c");
        assert_eq!(one_line("abcdef", 4), "abc…");
        assert_eq!(one_line("äöü 漢字 x", 5), "äöü…");
        assert_eq!(one_line("", 5), "");
    }
}
