//! Items between brackets, of an array or an inline table: one more, or one less, and all others as they were.

use super::text::Splice;
use std::ops::Range;

/// Where the items stand: behind the opening bracket, up to the closing one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Brackets {
    open: usize,
    close: usize,
}

impl Brackets {
    /// Of a value with its brackets.
    pub(super) fn of(span: Range<usize>) -> Option<Brackets> {
        (span.len() >= 2).then(|| Brackets { open: span.start + 1, close: span.end - 1 })
    }
}

/// An item behind the last one. `pad` stands inside brackets that were empty.
pub(super) fn added(
    text: &str,
    brackets: Brackets,
    items: &[Range<usize>],
    item: &str,
    pad: &str,
    line_end: &str,
) -> Vec<Splice> {
    let Brackets { open, close } = brackets;
    let inside = |at: usize, what: String| (at..at, what);
    let indent = |fallback: &str| match items.first() {
        Some(first) if text[open..first.start].contains('\n') => before(text, first.start).to_owned(),
        _ => format!("{}{fallback}", spaces(before(text, close))),
    };
    let Some(last) = items.last() else {
        return match text[open..close].rfind('\n') {
            // Behind what is said in there, before the line of the closing bracket.
            Some(at) => {
                let at = open + at;
                let at = if text[..at].ends_with('\r') { at - 1 } else { at };
                vec![inside(at, format!("{line_end}{}{item}", indent("    ")))]
            }
            None => vec![inside(open, format!("{pad}{item}{pad}"))],
        };
    };
    let comma = comma(text, last.end, close);
    let from = comma.map_or(last.end, |comma| comma + 1);
    match (end_of_line(text, from, close), comma) {
        (Some(end), Some(_)) => vec![inside(end, format!("{line_end}{}{item},", indent("    ")))],
        (Some(end), None) => {
            let new = format!("{line_end}{}{item}", indent("    "));
            if end == last.end {
                vec![inside(end, format!(",{new}"))]
            } else {
                vec![inside(last.end, ",".into()), inside(end, new)]
            }
        }
        (None, Some(comma)) => vec![inside(comma + 1, format!(" {item},"))],
        (None, None) => vec![inside(last.end, format!(", {item}"))],
    }
}

/// Without the item of that number. Comments stay.
pub(super) fn removed(text: &str, brackets: Brackets, items: &[Range<usize>], number: usize) -> Option<Vec<Splice>> {
    let Brackets { open, close } = brackets;
    let item = items.get(number)?.clone();
    let next = items.get(number + 1).map_or(close, |next| next.start);
    let own_comma = comma(text, item.end, next);
    let end = own_comma.map_or(item.end, |comma| comma + 1);
    let last_before = number.checked_sub(1).and_then(|before| items.get(before));
    let is_last = number + 1 == items.len();
    // Without a comma behind the last item there was none before it was added, either.
    let comma_before =
        last_before.filter(|_| is_last && own_comma.is_none()).and_then(|last| comma(text, last.end, item.start));
    let mut splices = Vec::new();
    let line_start = text[..item.start].rfind('\n').map(|at| at + 1).filter(|start| *start > open);
    let alone_from = line_start.filter(|start| text[*start..item.start].trim().is_empty());
    let gone = match (alone_from, end_of_line(text, end, close)) {
        // A line of its own goes, unless a comment stands on it.
        (Some(start), Some(line_end)) if text[end..line_end].trim().is_empty() => {
            let rest = &text[line_end..];
            let newline = if rest.starts_with("\r\n") { 2 } else { 1 };
            start..line_end + newline
        }
        (Some(_), None)
            if own_comma.is_none() && last_before.is_some_and(|last| text[last.end..item.start].trim() == ",") =>
        {
            last_before?.end..end
        }
        (Some(_), _) => item.start..end + (text[end..].len() - text[end..].trim_start_matches([' ', '\t']).len()),
        (None, _) if !is_last && text[end..next].trim().is_empty() => item.start..next,
        (None, _) => match last_before {
            Some(last) if text[last.end..item.start].trim() == "," && own_comma.is_none() => last.end..end,
            Some(last) if text[last.end..item.start].trim() == "," => comma(text, last.end, item.start)? + 1..end,
            _ => item.start..end,
        },
    };
    if let Some(comma) = comma_before.filter(|comma| !gone.contains(comma)) {
        splices.push((comma..comma + 1, String::new()));
    }
    splices.push((gone, String::new()));
    Some(splices)
}

/// The first comma between two places that is not in a comment.
fn comma(text: &str, from: usize, to: usize) -> Option<usize> {
    let mut in_comment = false;
    for (at, c) in text.get(from..to)?.char_indices() {
        match c {
            '#' => in_comment = true,
            '\n' => in_comment = false,
            ',' if !in_comment => return Some(from + at),
            _ => {}
        }
    }
    None
}

/// The end of the line, before its line end, when it comes before `to`.
fn end_of_line(text: &str, from: usize, to: usize) -> Option<usize> {
    let at = from + text.get(from..to)?.find('\n')?;
    Some(if at > from && text[..at].ends_with('\r') { at - 1 } else { at })
}

/// What stands before a place on its line.
fn before(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |at| at + 1);
    &text[start..at]
}

/// The spaces at the beginning of a line.
fn spaces(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}
