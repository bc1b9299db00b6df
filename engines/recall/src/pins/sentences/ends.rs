//! Where sentences end.

use crate::pins::tokens::is_dense;

pub(super) fn is_final(c: char) -> bool {
    matches!(c, '.' | '!' | '?' | '…' | '。' | '！' | '？' | '．')
}

/// A few words that only underline the sentence before.
pub(super) fn is_postscript(text: &str) -> bool {
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

/// Where the sentences of a block end, in bytes; the last is its length.
pub(super) fn boundaries(whole: &str, masked: &str) -> Vec<usize> {
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
