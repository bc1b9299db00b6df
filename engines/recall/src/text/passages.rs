//! Cuts a long text into passages.

use std::ops::Range;

/// Words of a passage that is aimed at: the size that BM25 over passages was measured best with.
const AIM: usize = 120;

/// A text of up to this many words is one passage.
const WHOLE: usize = 180;

/// Longest passage in bytes, whatever its words.
const BYTES_MAX: usize = 2_400;

/// Gives the byte ranges of the passages of `text`, in order. They cover all of it but blanks at their borders, and end at a line's
/// or a sentence's end where there is one.
pub(crate) fn split(text: &str, mut each: impl FnMut(Range<usize>)) {
    if text.len() <= BYTES_MAX && text.split_ascii_whitespace().nth(WHOLE).is_none() {
        return each(0..text.len());
    }
    let mut start = 0;
    while start < text.len() {
        let end = start + first(&text[start..]);
        let passage = text[start..end].trim_ascii_end();
        let lead = passage.len() - passage.trim_ascii_start().len();
        if lead < passage.len() {
            each(start + lead..start + passage.len());
        }
        start = end;
    }
}

/// Length of the first passage of what is left.
fn first(text: &str) -> usize {
    // The last borders within reach: of a line, of a sentence, of a word.
    let (mut line, mut sentence, mut space) = (None, None, None);
    let mut words = 0;
    let mut in_word = false;
    let mut before = ' ';
    for (at, character) in text.char_indices() {
        if at >= BYTES_MAX || words > WHOLE {
            return line.or(sentence).or(space).unwrap_or(at);
        }
        if character.is_whitespace() {
            words += usize::from(std::mem::take(&mut in_word));
            let end = at + character.len_utf8();
            space = Some(end);
            if words * 2 >= AIM {
                if character == '\n' {
                    line = Some(end);
                } else if matches!(before, '.' | '!' | '?' | '…' | ':' | ';') {
                    sentence = Some(end);
                }
            }
            if words >= AIM && line.is_some() {
                return line.unwrap_or(end);
            }
        } else {
            in_word = true;
            if matches!(character, '。' | '！' | '？') {
                let end = at + character.len_utf8();
                sentence = Some(end);
                if end * 2 >= BYTES_MAX {
                    return end;
                }
            }
        }
        before = character;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passages(text: &str) -> Vec<&str> {
        let mut found = Vec::new();
        split(text, |range| found.push(&text[range]));
        found
    }

    #[test]
    fn a_short_text_is_one_passage_as_it_stands() {
        assert_eq!(passages(" two\nlines "), [" two\nlines "]);
        assert_eq!(passages(""), [""]);
    }

    #[test]
    fn a_long_text_is_cut_at_lines_and_nothing_is_lost() {
        let text: String = (0..100).map(|line| format!("Line {line} has six words here.\n")).collect();
        let found = passages(&text);
        assert!(found.len() > 3, "{}", found.len());
        assert!(found.iter().all(|passage| passage.starts_with("Line") && passage.ends_with('.')));
        assert_eq!(found.join("\n"), text.trim_end());
    }

    #[test]
    fn a_text_without_any_border_is_cut_at_characters() {
        let text = "é".repeat(5_000);
        let found = passages(&text);
        assert!(found.iter().all(|passage| passage.len() <= BYTES_MAX));
        assert_eq!(found.concat(), text);
        let text = "これは長い文です。".repeat(400);
        assert!(passages(&text).iter().all(|passage| passage.ends_with('。')));
    }
}
