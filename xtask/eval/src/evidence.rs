//! Whether a message of a conversation stands in a prompt, whole.
//!
//! It does when its text, as the recording has it, stands in the text of a message or in the engine's block, word for word. The
//! same text said twice stands there when it stands there once: nobody could tell which of the two it is. But a text that is
//! also a piece of a longer message ("Yes." of "Yes. And you?") stands there only where it is not that piece.

use std::borrow::Cow;

/// A text to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needle {
    text: String,
    /// Longer messages with this text in them: the message, and where in it.
    inside: Vec<(String, usize)>,
}

impl Needle {
    /// `text`, among `all` texts of the history.
    pub fn new(text: &str, all: &[Cow<'_, str>]) -> Needle {
        let mut inside: Vec<(String, usize)> = Vec::new();
        for other in all.iter().filter(|other| other.len() > text.len()) {
            for (at, _) in other.match_indices(text) {
                if !inside.iter().any(|(known, place)| *place == at && known == other.as_ref()) {
                    inside.push((other.to_string(), at));
                }
            }
        }
        Needle { text: text.to_owned(), inside }
    }

    /// True when it stands in one of `texts`.
    pub fn stands_in(&self, texts: &[Cow<'_, str>]) -> bool {
        !self.text.is_empty() && texts.iter().any(|text| self.stands_in_one(text))
    }

    fn stands_in_one(&self, text: &str) -> bool {
        text.match_indices(&self.text).any(|(at, _)| {
            let is_piece = |(longer, place): &(String, usize)| {
                at.checked_sub(*place).and_then(|start| text.get(start..)).is_some_and(|rest| rest.starts_with(longer))
            };
            !self.inside.iter().any(is_piece)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stands(text: &str, all: &[&str], prompt: &[&str]) -> bool {
        let all: Vec<Cow<'_, str>> = all.iter().map(|text| Cow::Borrowed(*text)).collect();
        let prompt: Vec<Cow<'_, str>> = prompt.iter().map(|text| Cow::Borrowed(*text)).collect();
        Needle::new(text, &all).stands_in(&prompt)
    }

    #[test]
    fn a_text_stands_there_only_whole() {
        let all = ["I planted beans in May.", "Which kind?"];
        assert!(stands(all[0], &all, &["x", "[3] user: I planted beans in May."]));
        for cut in ["I planted beans in May", "I planted … in May.", "i planted beans in may.", ""] {
            assert!(!stands(all[0], &all, &[cut]), "{cut}");
        }
        // Two halves in two messages are no whole.
        assert!(!stands(all[0], &all, &["I planted beans", " in May."]));
    }

    #[test]
    fn a_piece_of_a_longer_message_is_not_the_short_one() {
        let all = ["Yes.", "Yes. And you?", "No. Yes."];
        assert!(!stands("Yes.", &all, &["Yes. And you?"]));
        assert!(!stands("Yes.", &all, &["then: No. Yes."]));
        assert!(stands("Yes.", &all, &["Yes. And you?", "Yes."]));
        assert!(stands("Yes.", &all, &["Yes. And you?\nYes."]));
        // Cut off, the longer one is not there, and what is left cannot be told from the short one.
        assert!(stands("Yes.", &all, &["Yes. And"]));
        assert!(stands("Yes. And you?", &all, &["Yes. And you?"]));
    }

    #[test]
    fn the_same_text_twice_stands_there_once_or_twice() {
        let all = ["Good morning!", "Good morning!"];
        assert!(stands(all[1], &all, &["Good morning!"]));
    }
}
