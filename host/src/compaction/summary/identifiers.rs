//! Exact identifiers: what a summary must not lose, because nobody can guess it again.
//!
//! Paths, URLs, hosts with ports, addresses, hashes, versions, file names, names with underscores, and everything with a digit
//! in it. An identifier is taken as the whole word that it stands in, so that any shorter reading of it is found in it as well.

use crate::compaction::View;
use crate::transcript::{Message, Role};
use std::collections::HashSet;
use std::ops::Range;

/// Longer words are data (an encoded file, a minified line), not names; URLs may be longer.
const LONGEST: usize = 256;
/// Longest URL.
const LONGEST_URL: usize = 1_024;
/// Identifiers of one tool result that count as much as what people said; the rest of it comes after everything else.
const FIRST_OF_RESULT: usize = 40;

/// Identifiers of a source, without repetition.
#[derive(Debug, Default)]
pub(crate) struct Identifiers {
    /// In the order in which they are kept when there is not enough room: newest first.
    pub list: Vec<String>,
}

impl Identifiers {
    /// Collects those of a range of rows, newest message first, in reading order within a message, until there are clearly more
    /// than `chars` characters of them: what is older would find no room.
    pub(crate) fn of(view: &View, range: Range<usize>, chars: usize) -> Identifiers {
        let enough = chars.saturating_mul(2).saturating_add(LONGEST_URL);
        let mut gathered = 0;
        let mut seen: HashSet<String> = HashSet::new();
        let mut list = Vec::new();
        let mut late = Vec::new();
        for index in range.rev() {
            if gathered > enough {
                break;
            }
            let behind = view.attached_at(index).iter().rev().map(|result| &result.message);
            for message in behind.chain(std::iter::once(&view.bodies[index])) {
                let mut of_result = 0;
                each_in(message, |word| {
                    if seen.contains(word) {
                        return;
                    }
                    seen.insert(word.to_owned());
                    of_result += usize::from(message.role == Role::Tool);
                    if of_result > FIRST_OF_RESULT {
                        late.push(word.to_owned());
                    } else {
                        gathered += word.len() + 1;
                        list.push(word.to_owned());
                    }
                });
            }
        }
        list.append(&mut late);
        Identifiers { list }
    }
}

/// Calls `found` with each identifier of a message: its text, the names and arguments of its calls.
fn each_in(message: &Message, mut found: impl FnMut(&str)) {
    scan(crate::compaction::boundary::summary_text(&message.text()), &mut found);
    for call in &message.tool_calls {
        scan(&call.function.name, &mut found);
        scan(&call.function.arguments, &mut found);
    }
}

/// Calls `found` with each identifier of `text`, in order.
pub(super) fn scan(text: &str, found: &mut impl FnMut(&str)) {
    for word in
        text.split(|c: char| c.is_whitespace() || matches!(c, '"' | '<' | '>' | '`' | '|' | '“' | '”' | '«' | '»'))
    {
        if let Some(url) = url_in(word) {
            let before = &word[..word.len() - url.len()];
            pieces(before, found);
            let url = trim_url(url);
            if url.len() <= LONGEST_URL {
                found(url);
            }
        } else {
            pieces(word, found);
        }
    }
}

/// The rest of the word from the URL's scheme on.
fn url_in(word: &str) -> Option<&str> {
    let at = word.find("://")?;
    let scheme = word[..at]
        .rfind(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '.' | '-')))
        .map_or(0, |before| before + word[before..].chars().next().map_or(1, char::len_utf8));
    (scheme < at).then(|| &word[scheme..])
}

fn trim_url(url: &str) -> &str {
    // A closing bracket belongs to the sentence unless its opening one is in the URL.
    let mut url = url;
    loop {
        let next = url.trim_end_matches(['.', ',', ';', ':', '!', '?', '\'', '*', '_', '…']);
        let next = match next.chars().next_back() {
            Some(')') if !next.contains('(') => &next[..next.len() - 1],
            Some(']') if !next.contains('[') => &next[..next.len() - 1],
            Some('}') if !next.contains('{') => &next[..next.len() - 1],
            _ => next,
        };
        if next.len() == url.len() {
            return url;
        }
        url = next;
    }
}

/// The words of what has no URL in it: brackets and list marks part them, a comma only outside a number.
fn pieces(word: &str, found: &mut impl FnMut(&str)) {
    let part = |c: char| matches!(c, '(' | ')' | '[' | ']' | '{' | '}' | ';' | '\'' | '’' | '=' | '…' | '—' | '–');
    for piece in word.split(part) {
        let mut start = 0;
        let bytes = piece.as_bytes();
        for (at, _) in piece.match_indices(',') {
            let digit = |i: Option<usize>| i.and_then(|i| bytes.get(i)).is_some_and(u8::is_ascii_digit);
            if digit(at.checked_sub(1)) && digit(Some(at + 1)) {
                continue;
            }
            one(&piece[start..at], found);
            start = at + 1;
        }
        one(&piece[start..], found);
    }
}

fn one(piece: &str, found: &mut impl FnMut(&str)) {
    let word =
        piece.trim_end_matches(['.', ',', ':', '!', '?', '*', '\\']).trim_start_matches(['*', ':', ',', '!', '?']);
    if !word.is_empty() && word.len() <= LONGEST && is_identifier(word) {
        found(word);
    }
}

fn is_identifier(word: &str) -> bool {
    let has_alphanumeric = word.chars().any(char::is_alphanumeric);
    has_alphanumeric
        && (word.chars().any(char::is_numeric)
            || is_path(word)
            || word.contains('\\')
            || word.contains('_')
            || word.contains('@')
            || word.contains("::")
            || is_dotted(word)
            || is_hex(word))
}

fn is_path(word: &str) -> bool {
    const ENGLISH: [&str; 14] = [
        "and/or",
        "he/she",
        "she/he",
        "him/her",
        "his/her",
        "her/his",
        "she/her",
        "he/him",
        "they/them",
        "yes/no",
        "n/a",
        "w/o",
        "either/or",
        "true/false",
    ];
    word.contains('/') && word != "/" && !ENGLISH.iter().any(|pair| word.eq_ignore_ascii_case(pair))
}

/// `main.rs`, `example.com`; not `e.g.`, not two sentences without a space.
fn is_dotted(word: &str) -> bool {
    let Some((stem, end)) = word.rsplit_once('.') else { return false };
    // A name that begins with a dot is a hidden file.
    let named = stem.is_empty() || stem.chars().next_back().is_some_and(char::is_alphanumeric);
    named
        && !end.is_empty()
        && end.len() <= 10
        && end.chars().all(|c| c.is_ascii_lowercase())
        && (stem.chars().count() > 1 || end.len() > 1)
}

fn is_hex(word: &str) -> bool {
    word.len() >= 8 && word.chars().all(|c| c.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[&str]) {
        let mut found = Vec::new();
        scan(text, &mut |word: &str| found.push(word.to_owned()));
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn finds_every_kind() {
        check("see /etc/app/config.toml, then ./run.sh!", &["/etc/app/config.toml", "./run.sh"]);
        check("(https://example.com/a?b=1&c=2).", &["https://example.com/a?b=1&c=2"]);
        check("at 10.0.0.7:8443 or db.internal:5432;", &["10.0.0.7:8443", "db.internal:5432"]);
        check("commit deadbeefcafe and 9f86d081884c", &["deadbeefcafe", "9f86d081884c"]);
        check("pay 12,500 on 2024-05-08, not 3", &["12,500", "2024-05-08", "3"]);
        check("{\"path\":\"src/lib.rs\",\"id\":123}", &["src/lib.rs", "123"]);
        check("call load_config in Cargo.toml for ops@example.org", &["load_config", "Cargo.toml", "ops@example.org"]);
        check(r"C:\Users\ann\notes", &[r"C:\Users\ann\notes"]);
        check("use v1.2.3 of gpt-4o", &["v1.2.3", "gpt-4o"]);
    }

    #[test]
    fn leaves_prose_alone() {
        check("He said yes, and/or no: nothing, e.g. nothing. Not even it's (that).", &[]);
    }

    #[test]
    fn keeps_brackets_that_belong_to_the_url() {
        check("https://en.wikipedia.org/wiki/Rust_(fungus)", &["https://en.wikipedia.org/wiki/Rust_(fungus)"]);
        check("[link](https://a.example/x)", &["https://a.example/x"]);
    }

    #[test]
    fn skips_blobs() {
        let blob = "QUJD1".repeat(200);
        check(&format!("image {blob} end"), &[]);
    }
}
