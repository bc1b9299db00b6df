//! Sentences: where they end, and how much one says.

/// What a sentence says for itself, by its words alone.
pub(super) fn weight(text: &str, by_user: bool) -> f64 {
    const DECIDING: [&str; 20] = [
        "decide",
        "decision",
        "agreed",
        "chose",
        "must",
        "never",
        "prefer",
        "remember",
        "deadline",
        "will use",
        "instead of",
        "require",
        "fixed",
        "broke",
        "todo",
        "password",
        "name is",
        "birthday",
        "allerg",
        "i live",
    ];
    const WANTING: [&str; 9] = ["need", "want", "should", "important", "because", "plan", "next", "always", "i'm "];
    const FILLER: [&str; 18] = [
        "thanks",
        "thank you",
        "ok",
        "okay",
        "sure",
        "great",
        "hello",
        "hi",
        "hey",
        "bye",
        "yes",
        "no",
        "wow",
        "cool",
        "nice",
        "good morning",
        "got it",
        "sounds good",
    ];
    let mut identifiers = 0u32;
    super::identifiers::scan(text, &mut |_| identifiers += 1);
    let words: Vec<&str> = text.split_whitespace().collect();
    let lower = text.to_lowercase();
    // Names: capital letters inside the sentence.
    let names = words
        .iter()
        .skip(1)
        .filter(|word| word.len() > 1 && word.chars().next().is_some_and(char::is_uppercase))
        .count();
    let mut score = 0.0;
    if identifiers > 0 {
        score += 1.2 + 0.3 * f64::from(identifiers.min(3));
    }
    score += 0.3 * names.min(3) as f64;
    if DECIDING.iter().any(|word| lower.contains(word)) {
        score += 1.2;
    } else if WANTING.iter().any(|word| lower.contains(word)) {
        score += 0.4;
    }
    if text.ends_with('?') {
        score += if by_user { -0.5 } else { -1.2 };
    }
    score += match words.len() {
        0..=3 if identifiers == 0 => -1.5,
        0..=5 => 0.0,
        6..=40 => 0.5,
        _ => 0.2,
    };
    let opening = lower.trim_end_matches(['.', '!', ',', '?', ' ']);
    if FILLER.contains(&opening) || words.len() < 6 && FILLER.iter().any(|word| lower.starts_with(word)) {
        score -= 1.5;
    }
    score
}

/// Calls `found` with each sentence of a line.
pub(super) fn each_sentence(line: &str, mut found: impl FnMut(&str)) {
    let mut start = 0;
    let mut chars = line.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        let ends = match c {
            '。' | '！' | '？' => true,
            '.' | '!' | '?' => next.is_some_and(char::is_whitespace) && !abbreviated(&line[start..at]),
            _ => false,
        };
        if ends {
            let end = at + c.len_utf8();
            found(line[start..end].trim());
            start = end;
        }
    }
    let rest = line[start..].trim();
    if !rest.is_empty() {
        found(rest);
    }
}

/// True when the dot after `text` belongs to a short form: a single letter, or one of the usual ones.
fn abbreviated(text: &str) -> bool {
    let last = text.rsplit(char::is_whitespace).next().unwrap_or("");
    last.chars().count() == 1 && last.chars().all(char::is_alphabetic)
        || ["Mr", "Mrs", "Ms", "Dr", "St", "vs", "etc", "e.g", "i.e", "No", "approx"].contains(&last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_where_they_end() {
        let mut found = Vec::new();
        each_sentence("I saw Dr. Smith at 3.30 p.m. today. He paid 12.50! Why? 好。走", |s| {
            found.push(s.to_owned());
        });
        assert_eq!(found, ["I saw Dr. Smith at 3.30 p.m.", "today.", "He paid 12.50!", "Why?", "好。", "走"]);
    }

    #[test]
    fn what_decides_or_names_weighs_more() {
        let plain = weight("it is what it is and so it goes on", true);
        assert!(weight("we decided to keep the old database", true) > plain);
        assert!(weight("the server is at 10.0.0.7:8443 and it answers", true) > plain);
        assert!(weight("Thanks!", true) < plain);
    }
}
