//! Words as they are indexed and looked up.
//!
//! Words are those of Unicode (UAX #29), in lower case. Scripts that are written without spaces give pairs of neighbouring
//! characters, since no dictionary says where their words end.

use unicode_segmentation::UnicodeSegmentation;

/// Longest word in bytes; what is longer is no word that anybody looks for.
const WORD_MAX: usize = 64;

/// Gives each word of `text`. Of texts without spaces: every pair and every character.
pub(crate) fn indexed(text: &str, mut each: impl FnMut(&str)) {
    split(text, true, &mut each);
}

/// The distinct words of a query. Of texts without spaces: the pairs, or the character when it stands alone.
pub(crate) fn asked(query: &str) -> Vec<String> {
    let mut words = Vec::new();
    split(query, false, &mut |word| {
        if !words.iter().any(|known| known == word) {
            words.push(word.to_owned());
        }
    });
    words
}

fn split(text: &str, every_character: bool, each: &mut impl FnMut(&str)) {
    let mut run = Run::default();
    for (at, word) in text.unicode_word_indices() {
        if word.chars().all(is_dense) {
            for (offset, character) in word.char_indices() {
                run.push(at + offset, character, every_character, each);
            }
            continue;
        }
        run.end(every_character, each);
        if word.len() > WORD_MAX {
            continue;
        }
        let word = word.to_lowercase();
        each(&word);
        // `snake_case`, `example.com` and `don't` are one word to Unicode; their parts are looked for as well.
        if word.contains(is_joint) {
            word.split(is_joint).filter(|part| !part.is_empty()).for_each(&mut *each);
        }
    }
    run.end(every_character, each);
}

fn is_joint(character: char) -> bool {
    matches!(character, '_' | '.' | '\'' | '’' | ':')
}

/// Han, Hiragana, Katakana, Hangul: words are not separated, or carry their endings with them.
fn is_dense(character: char) -> bool {
    matches!(character,
        '\u{1100}'..='\u{11FF}' | '\u{2E80}'..='\u{2FDF}' | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30FF}'
        | '\u{3130}'..='\u{318F}' | '\u{31F0}'..='\u{31FF}' | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}'
        | '\u{AC00}'..='\u{D7AF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}

/// Neighbouring characters of a script without spaces.
#[derive(Default)]
struct Run {
    last: Option<(usize, char)>,
    paired: bool,
}

impl Run {
    fn push(&mut self, at: usize, character: char, every_character: bool, each: &mut impl FnMut(&str)) {
        match self.last {
            Some((before, last)) if before + last.len_utf8() == at => {
                let pair: String = [last, character].into_iter().collect();
                each(&pair);
                self.paired = true;
            }
            _ => self.end(every_character, each),
        }
        if every_character {
            each(character.encode_utf8(&mut [0; 4]));
        }
        self.last = Some((at, character));
    }

    fn end(&mut self, every_character: bool, each: &mut impl FnMut(&str)) {
        if let Some((_, alone)) = self.last.take()
            && !self.paired
            && !every_character
        {
            each(alone.encode_utf8(&mut [0; 4]));
        }
        self.paired = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        indexed(text, |word| words.push(word.to_owned()));
        words
    }

    #[test]
    fn words_are_unicodes_in_lower_case() {
        assert_eq!(words("Grüße, World—42!"), ["grüße", "world", "42"]);
        assert_eq!(words("ПРИВЕТ мир"), ["привет", "мир"]);
        assert!(words("—…!").is_empty());
    }

    #[test]
    fn joined_words_are_found_by_their_parts_too() {
        assert_eq!(words("door_code"), ["door_code", "door", "code"]);
        assert_eq!(asked("example.com"), ["example.com", "example", "com"]);
    }

    #[test]
    fn scripts_without_spaces_give_pairs() {
        assert_eq!(asked("東京都"), ["東京", "京都"]);
        assert_eq!(asked("猫"), ["猫"]);
        assert_eq!(asked("猫 犬"), ["猫", "犬"]);
        assert!(words("東京都に住む").contains(&"京都".to_owned()) && words("黒猫").contains(&"猫".to_owned()));
        assert_eq!(asked("서울에서"), ["서울", "울에", "에서"]);
    }

    #[test]
    fn a_query_has_each_word_once() {
        assert_eq!(asked("Again and again"), ["again", "and"]);
    }
}
