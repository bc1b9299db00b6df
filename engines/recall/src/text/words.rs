//! Words as they are indexed and looked up.
//!
//! Words are those of Unicode (UAX #29), in lower case and without their inflection. Scripts that are written without spaces give
//! single characters and pairs of neighbouring ones, since no dictionary says where their words end. A word is known by the hash
//! of what is left of it.

use super::stem::stem;
use unicode_segmentation::UnicodeSegmentation;
use xxhash_rust::xxh3::xxh3_64;

/// Longest word in bytes that is indexed as one; of a longer one only the parts are.
const WORD_MAX: usize = 64;

/// What kind of word it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A word of a language with spaces.
    Plain,
    /// Digits, with or without a point or a comma.
    Number,
    /// Letters mixed with digits or joined by signs, such as `x86_64`, `example.com`, `getUserId`: kept exactly.
    Identifier,
    /// A part of an identifier.
    Part,
    /// One character of a script without spaces.
    Character,
    /// Two neighbouring characters of a script without spaces.
    Pair,
}

/// A word of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word<'a> {
    /// Its hash.
    pub key: u64,
    /// In lower case, stemmed when plain.
    pub text: &'a str,
    /// As it stands in the text.
    pub written: &'a str,
    /// What kind of word.
    pub kind: Kind,
}

/// The hash by which a word is known.
pub(crate) fn key(word: &str) -> u64 {
    xxh3_64(word.as_bytes())
}

/// Gives each word of `text` in order; of joined ones the whole first and then the parts.
pub(crate) fn each_word(text: &str, mut each: impl FnMut(Word<'_>)) {
    let mut buffer = String::new();
    // The last character of a run without spaces, and where it ends.
    let mut last: Option<(usize, char)> = None;
    for (at, written) in text.unicode_word_indices() {
        if written.chars().all(is_dense) {
            for (offset, character) in written.char_indices() {
                let start = at + offset;
                let mut utf8 = [0; 4];
                if let Some((end, before)) = last
                    && end == start
                {
                    buffer.clear();
                    buffer.extend([before, character]);
                    each(Word { key: key(&buffer), text: &buffer, written: &buffer, kind: Kind::Pair });
                }
                let alone = &*character.encode_utf8(&mut utf8);
                each(Word { key: key(alone), text: alone, written: alone, kind: Kind::Character });
                last = Some((start + character.len_utf8(), character));
            }
            continue;
        }
        last = None;
        spaced(written, &mut buffer, &mut each);
    }
}

/// Gives a word of a language with spaces.
fn spaced(written: &str, buffer: &mut String, each: &mut impl FnMut(Word<'_>)) {
    let bare = strip_possessive(written);
    let digits = bare.bytes().any(|byte| byte.is_ascii_digit());
    let letters = bare.chars().any(char::is_alphabetic);
    let joint = bare.contains(is_joint);
    if digits && !letters {
        emit(bare, Kind::Number, buffer, each);
        if joint {
            bare.split(is_joint).filter(|part| !part.is_empty()).for_each(|part| emit(part, Kind::Part, buffer, each));
        }
        return;
    }
    let camel = is_camel(bare);
    if !digits && !joint && !camel {
        // `don't` and `L'eau` are words; the apostrophe only says that something was left out.
        return emit(bare, Kind::Plain, buffer, each);
    }
    if bare.len() <= WORD_MAX {
        emit(bare, Kind::Identifier, buffer, each);
    }
    if joint || camel {
        let mut start = 0;
        let mut lower = false;
        for (at, character) in bare.char_indices() {
            if is_joint(character) || (lower && character.is_uppercase()) {
                emit(&bare[start..at], Kind::Part, buffer, each);
                start = if is_joint(character) { at + character.len_utf8() } else { at };
            }
            lower = character.is_lowercase();
        }
        emit(&bare[start..], Kind::Part, buffer, each);
    }
}

/// Gives one form.
fn emit(written: &str, kind: Kind, buffer: &mut String, each: &mut impl FnMut(Word<'_>)) {
    if written.is_empty() || written.len() > WORD_MAX {
        return;
    }
    buffer.clear();
    if written.is_ascii() {
        buffer.push_str(written);
        buffer.make_ascii_lowercase();
    } else {
        buffer.extend(written.chars().flat_map(char::to_lowercase).map(|character| match character {
            '’' => '\'',
            other => other,
        }));
    }
    if matches!(kind, Kind::Plain | Kind::Part) {
        stem(buffer);
    }
    each(Word { key: key(buffer), text: buffer, written, kind });
}

/// Without the `'s` of an owner.
fn strip_possessive(word: &str) -> &str {
    ["'s", "’s", "'S"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word)
}

/// A capital letter behind a small one.
fn is_camel(word: &str) -> bool {
    word.is_ascii() && word.as_bytes().windows(2).any(|two| two[0].is_ascii_lowercase() && two[1].is_ascii_uppercase())
}

/// What joins the parts of an identifier within a word of Unicode.
fn is_joint(character: char) -> bool {
    matches!(character, '_' | '.' | ':' | ',')
}

/// Han, Hiragana, Katakana, Hangul, and the scripts of South-East Asia: words are not separated, or carry their endings with them.
fn is_dense(character: char) -> bool {
    matches!(character,
        '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}'
        | '\u{1100}'..='\u{11FF}' | '\u{2E80}'..='\u{2FDF}' | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30FF}'
        | '\u{3130}'..='\u{318F}' | '\u{31F0}'..='\u{31FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}'
        | '\u{AC00}'..='\u{D7AF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        each_word(text, |word| words.push(word.text.to_owned()));
        words
    }

    #[test]
    fn words_are_unicodes_in_lower_case_without_inflection() {
        assert_eq!(words("Grüße, Worlds—42!"), ["grüße", "world", "42"]);
        assert_eq!(words("ПРИВЕТ мир"), ["привет", "мир"]);
        assert_eq!(words("Ada's don’t"), ["ada", "don't"]);
        assert!(words("—…!").is_empty());
    }

    #[test]
    fn identifiers_are_kept_exactly_and_found_by_their_parts() {
        assert_eq!(words("door_codes"), ["door_codes", "door", "code"]);
        assert_eq!(words("getUserId"), ["getuserid", "get", "user", "id"]);
        assert_eq!(words("example.com"), ["example.com", "exampl", "com"]);
        assert_eq!(words("x86"), ["x86"]);
        assert_eq!(words("2,300"), ["2,300", "2", "300"]);
    }

    #[test]
    fn scripts_without_spaces_give_characters_and_pairs() {
        assert_eq!(words("東京都"), ["東", "東京", "京", "京都", "都"]);
        assert_eq!(words("猫 犬"), ["猫", "犬"]);
        assert!(words("서울에서").contains(&"서울".to_owned()));
        assert!(words("ภาษาไทย").contains(&"ไท".to_owned()));
    }

    #[test]
    fn a_word_too_long_to_be_looked_for_is_left_out() {
        assert!(words(&"a".repeat(65)).is_empty());
        assert_eq!(words(&"a".repeat(64)).len(), 1);
    }
}
