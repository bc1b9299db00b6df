//! A light stemmer: words that differ by an inflection alone are looked for as one.
//!
//! The rules are the inflectional half of Porter's algorithm (M. F. Porter, "An algorithm for suffix stripping", 1980: steps
//! 1a, 1b and 1c), with the ending `-ly` and without the silent `e` of longer words. They are made for English. In other languages of the Latin script they do little harm, since a question
//! and the text it asks for are cut alike; words with anything but the letters a to z are left as they are.

/// Cuts the inflection of a word in lower case, in place.
pub(crate) fn stem(word: &mut String) {
    if word.len() < 4 || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return;
    }
    plural(word);
    tense(word);
    if word.len() > 5 && word.ends_with("ly") {
        word.truncate(word.len() - 2);
    }
    let end = word.len() - 1;
    if word.len() > 3 && word.ends_with('y') && !is_vowel(word.as_bytes(), end - 1) {
        word.truncate(end);
        word.push('i');
    }
    // `dance` and `dancing` meet without the silent letter.
    if word.len() > 4 && word.ends_with('e') {
        word.pop();
    }
}

/// Step 1a: `-sses`, `-ies`, `-s`.
fn plural(word: &mut String) {
    if word.ends_with("sses") {
        word.truncate(word.len() - 2);
    } else if word.ends_with("ies") {
        word.truncate(word.len() - 3);
        word.push('y');
    } else if word.ends_with('s') && !word.ends_with("ss") && !word.ends_with("us") && !word.ends_with("is") {
        word.pop();
    }
}

/// Step 1b: `-eed`, `-ed`, `-ing`, and the doubled letter before them.
fn tense(word: &mut String) {
    if word.ends_with("eed") {
        return;
    }
    let Some(kept) = word.strip_suffix("ed").or_else(|| word.strip_suffix("ing")) else { return };
    let length = kept.len();
    if length < 3 || !(0..length).any(|at| is_vowel(word.as_bytes(), at)) {
        return;
    }
    word.truncate(length);
    let bytes = word.as_bytes();
    let last = bytes[length - 1];
    if bytes[length - 2] == last && !matches!(last, b'l' | b's' | b'z') && !is_vowel(bytes, length - 1) {
        word.pop();
    } else if length <= 4
        && !matches!(last, b'w' | b'x')
        && !is_vowel(bytes, length - 1)
        && is_vowel(bytes, length - 2)
        && !is_vowel(bytes, length - 3)
    {
        // `making` is of `make`, `planting` of `plant`.
        word.push('e');
    }
}

/// A vowel stands at this place; `y` is one behind a consonant.
fn is_vowel(word: &[u8], at: usize) -> bool {
    match word[at] {
        b'a' | b'e' | b'i' | b'o' | b'u' => true,
        b'y' => at > 0 && !is_vowel(word, at - 1),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &[&str], stemmed: &str) {
        for word in words {
            let mut cut = (*word).to_owned();
            stem(&mut cut);
            assert_eq!(cut, stemmed, "{word}");
        }
    }

    #[test]
    fn inflections_of_a_word_meet() {
        check(&["paint", "paints", "painted", "painting"], "paint");
        check(&["plan", "plans", "planned", "planning"], "plan");
        check(&["hobby", "hobbies"], "hobbi");
        check(&["move", "moves", "moved", "moving"], "move");
        check(&["write", "writes", "writing"], "writ");
        check(&["visit", "visited", "visiting"], "visit");
        check(&["class", "classes"], "class");
        check(&["recent", "recently"], "recent");
    }

    #[test]
    fn what_only_looks_inflected_is_left_alone() {
        check(&["bus"], "bus");
        check(&["sing"], "sing");
        check(&["bed"], "bed");
        check(&["this"], "this");
        check(&["need"], "need");
        check(&["grüße"], "grüße");
    }
}
