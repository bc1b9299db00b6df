//! From a phrase with choices and slots to a sentence.
//!
//! `(a|b|)` takes one of its branches, which may hold others; `{slot}` is filled from a lexicon. Every choice is drawn by itself.

use super::dice::Dice;
use super::slots;
use super::wording::Tongue;

/// Expands a phrase. `forms` are what `{0}`, `{1}` and so on stand for.
pub(super) fn expand(phrase: &str, forms: &[&str], tongue: &Tongue, dice: &mut Dice) -> String {
    let mut out = String::with_capacity(phrase.len() * 2);
    into(phrase, forms, tongue, dice, &mut out);
    let mut tidy = String::with_capacity(out.len());
    for c in out.chars() {
        if c == ' ' && tidy.ends_with(' ') {
            continue;
        }
        tidy.push(c);
    }
    tidy.trim().to_owned()
}

/// As a sentence of its own: with a capital, and `end` unless it has an end.
pub(super) fn sentence(text: &str, end: &str) -> String {
    let mut out = capital(text);
    if !out.ends_with(['.', '?', '!', ':']) {
        out.push_str(end);
    }
    out
}

/// With a capital at its head, wherever its first letter is.
pub(super) fn capital(text: &str) -> String {
    let Some(at) = text.find(char::is_alphanumeric) else { return text.to_owned() };
    // A path or a name of code stays as it is written.
    let word = text[at..].split(' ').next().unwrap_or_default();
    if word.contains(['/', '_', '-']) || word.chars().skip(1).any(|c| c.is_uppercase() || c.is_numeric()) {
        return text.to_owned();
    }
    let first = text[at..].chars().next().map_or(String::new(), |c| c.to_uppercase().collect());
    let rest = at + text[at..].chars().next().map_or(0, char::len_utf8);
    format!("{}{first}{}", &text[..at], &text[rest..])
}

fn into(phrase: &str, forms: &[&str], tongue: &Tongue, dice: &mut Dice, out: &mut String) {
    let mut rest = phrase;
    while let Some(at) = rest.find(['(', '{']) {
        out.push_str(&rest[..at]);
        let open = rest.as_bytes()[at];
        let end = at + closing(&rest[at..]);
        let inside = &rest[at + 1..end];
        if open == b'(' {
            let branches = branches(inside);
            let chosen = branches[dice.below(branches.len())];
            into(chosen, forms, tongue, dice, out);
        } else if let Some(form) = inside.parse::<usize>().ok().and_then(|form| forms.get(form)) {
            into(form, forms, tongue, dice, out);
        } else {
            let filled = slots::fill(inside, tongue, dice);
            into(&filled, forms, tongue, dice, out);
        }
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    out.push_str(rest);
}

/// Where the bracket that `text` begins with is closed; its last byte when it is not.
fn closing(text: &str) -> usize {
    let mut depth = 0usize;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' | b'{' => depth += 1,
            b')' | b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    text.len() - 1
}

/// The branches of a choice, split at the bars that are not inside another.
fn branches(inside: &str) -> Vec<&str> {
    let (mut depth, mut from, mut list) = (0usize, 0, Vec::new());
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            b'(' | b'{' => depth += 1,
            b')' | b'}' => depth = depth.saturating_sub(1),
            b'|' if depth == 0 => {
                list.push(&inside[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    list.push(&inside[from..]);
    list
}

#[cfg(test)]
mod tests {
    use super::super::wording::TONGUES;
    use super::*;

    #[test]
    fn choices_nest_and_are_drawn_one_by_one() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            seen.insert(expand("(a|b (c|d)|) {0}!", &["x(1|2)"], TONGUES[0], &mut Dice::new(seed)));
        }
        let all = ["a x1!", "a x2!", "b c x1!", "b c x2!", "b d x1!", "b d x2!", "x1!", "x2!"];
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), all);
    }

    #[test]
    fn capitals_leave_code_alone() {
        assert_eq!(sentence("use tabs", "."), "Use tabs.");
        assert_eq!(sentence("¿puedes venir?", "."), "¿Puedes venir?");
        assert_eq!(sentence("src/main.rs is mine", "."), "src/main.rs is mine.");
        assert_eq!(sentence("übrigens", "!"), "Übrigens!");
    }
}
