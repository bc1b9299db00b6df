//! Fitting a summary into its limits.

use super::text::has_content;
use super::{IDENTIFIERS, Identifiers, REQUEST};
use crate::compaction::boundary::summary_message;
use crate::compaction::trim::middle_cut;
use crate::model::TokenCounter;

/// Characters of the request whose turn was split.
const REQUEST_CHARS: usize = 800;

/// How large a summary may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Characters, without the preface.
    pub chars: usize,
    /// Tokens as sent, preface and framing included.
    pub tokens: u64,
}

/// What a summary is made of. `body` writes it within a number of tokens and characters; it may give less.
pub(crate) struct Parts<'a> {
    pub request: Option<&'a str>,
    pub identifiers: &'a Identifiers,
    pub body: &'a dyn Fn(u64, usize) -> String,
}

/// Puts the parts together. `None` when even the shortest form says nothing or does not fit.
///
/// Identifiers come before the body in the sharing out of room, up to three quarters of it: the body can be said in fewer
/// words, an identifier cannot.
pub(crate) fn compose(parts: &Parts<'_>, limits: Limits, counter: &TokenCounter) -> Option<String> {
    let overhead = u64::from(counter.message(&summary_message("")));
    let mut tokens = limits.tokens.checked_sub(overhead).filter(|&left| left > 0)?;
    let mut chars = limits.chars;
    // Counts of pieces add up to a little more or less than the count of the whole, so it is measured and tried again smaller.
    for _ in 0..24 {
        let summary = attempt(parts, tokens, chars, counter);
        let fits = summary.chars().count() <= limits.chars
            && u64::from(counter.message(&summary_message(&summary))) <= limits.tokens;
        if fits {
            return has_content(&summary).then_some(summary);
        }
        tokens = tokens * 4 / 5;
        chars = chars * 4 / 5;
        if tokens < 8 || chars < 16 {
            break;
        }
    }
    None
}

fn attempt(parts: &Parts<'_>, tokens: u64, chars: usize, counter: &TokenCounter) -> String {
    let mut room = Room { tokens, chars };
    let request = parts.request.map(|request| {
        let most = REQUEST_CHARS.min(chars / 4).min(usize::try_from(tokens / 2).unwrap_or(usize::MAX));
        let text = format!("{REQUEST}\n{}", quoted(request.trim(), most));
        room.take(counter.text(&text) + 2, text.chars().count() + 2);
        text
    });
    let named =
        identifiers(parts.identifiers, Room { tokens: room.tokens * 3 / 4, chars: room.chars * 3 / 4 }, counter);
    if let Some(named) = &named {
        room.take(counter.text(named) + 2, named.chars().count() + 2);
    }
    let body = (parts.body)(room.tokens, room.chars);
    let all = [request, Some(body).filter(|body| !body.is_empty()), named];
    all.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
}

#[derive(Clone, Copy)]
struct Room {
    tokens: u64,
    chars: usize,
}

impl Room {
    fn take(&mut self, tokens: u64, chars: usize) {
        self.tokens = self.tokens.saturating_sub(tokens);
        self.chars = self.chars.saturating_sub(chars);
    }
}

/// Headings in a request would end its section, so each line is quoted.
fn quoted(text: &str, most: usize) -> String {
    let cut = middle_cut(text, most);
    cut.lines().map(|line| format!("> {line}")).collect::<Vec<_>>().join("\n")
}

/// The section of the identifiers: as many as there is room for, newest first.
fn identifiers(identifiers: &Identifiers, room: Room, counter: &TokenCounter) -> Option<String> {
    let heading = format!("{IDENTIFIERS}\n");
    let mut left = room;
    left.take(counter.text(&heading), heading.len());
    let (tokens, chars) = (left.tokens, left.chars);
    let mut out = heading;
    let mut any = false;
    for word in &identifiers.list {
        let size = word.chars().count() + 1;
        let cost = counter.text(word) + 1;
        // One that could never fit must not keep the others out.
        if size > chars || cost > tokens {
            continue;
        }
        if size > left.chars || cost > left.tokens {
            break;
        }
        left.take(cost, size);
        if any {
            out.push(' ');
        }
        out.push_str(word);
        any = true;
    }
    any.then_some(out)
}
