//! Small rules about the text of a summary.

use super::{IDENTIFIERS, REQUEST};
use crate::compaction::trim::middle_cut;
use crate::model::TokenCounter;
use std::borrow::Cow;

/// Room for the mark that [`middle_cut`] leaves.
const MARK_CHARS: usize = 36;

/// What a model wrote, without what is not part of a summary: a chain of thought, a fence around the whole.
pub(crate) fn cleaned(text: &str) -> String {
    let text = match text.rsplit_once("</think>") {
        Some((_, rest)) => rest,
        None => text,
    };
    let text = text.trim();
    let inner =
        text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```")).and_then(|rest| rest.split_once('\n'));
    match inner {
        Some((language, body)) if !language.contains(' ') && !body.contains("```") => body.trim().to_owned(),
        _ => text.to_owned(),
    }
}

/// True when something is said beside headings and ways to say "nothing".
pub(crate) fn has_content(text: &str) -> bool {
    const NOTHING: [&str; 16] = [
        "none",
        "n a",
        "na",
        "nothing",
        "nothing yet",
        "not applicable",
        "no prior history",
        "empty",
        "unknown",
        "tbd",
        "to be determined",
        "no conversation",
        "no content",
        "no messages",
        "no history",
        "none yet",
    ];
    let said = text.lines().filter(|line| !line.trim_start().starts_with('#')).map(|line| {
        let words: String = line.chars().map(|c| if c.is_alphanumeric() { c } else { ' ' }).collect();
        words.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>().join(" ")
    });
    said.filter(|line| !NOTHING.contains(&line.as_str())).map(|line| line.chars().count()).sum::<usize>() >= 3
}

/// The text under a heading, up to the next heading of the same level.
pub(crate) fn section<'a>(text: &'a str, heading: &str) -> Option<&'a str> {
    let start = lines(text).find(|(_, line)| line.trim_end() == heading).map(|(at, line)| at + line.len())?;
    let end = lines(text).find(|(at, line)| *at >= start && line.starts_with("## ")).map_or(text.len(), |(at, _)| at);
    Some(text[start..end].trim())
}

/// The text without the parts that the host writes itself, however a model spelled their headings.
pub(crate) fn without_host_sections(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    for (_, line) in lines(text) {
        if line.starts_with('#') {
            let title = line.trim().trim_start_matches('#').trim();
            inside = [REQUEST, IDENTIFIERS].iter().any(|own| own.trim_start_matches("## ").eq_ignore_ascii_case(title));
        }
        if !inside {
            out.push_str(line);
        }
    }
    out.trim().to_owned()
}

/// `text` within a number of tokens and characters: the longest section gives its last lines first, so that no heading of
/// a model's summary is lost to the one before it.
pub(crate) fn shortened(text: &str, tokens: u64, chars: usize, counter: &TokenCounter) -> String {
    let size = text.chars().count();
    let cost = counter.text(text);
    if cost <= tokens && size <= chars {
        return text.to_owned();
    }
    // The share of the text that may stay, by the scarcer of the two.
    let by_tokens = u64::try_from(size).unwrap_or(u64::MAX).saturating_mul(tokens) / cost.max(1);
    let mut excess = size.saturating_sub(chars.min(usize::try_from(by_tokens).unwrap_or(usize::MAX)));
    let mut sections: Vec<(usize, Vec<Cow<'_, str>>)> = Vec::new();
    for (_, line) in lines(text) {
        let length = line.chars().count();
        match sections.last_mut() {
            Some((size, section)) if !line.starts_with("## ") => {
                *size += length;
                section.push(Cow::Borrowed(line));
            }
            _ => sections.push((length, vec![Cow::Borrowed(line)])),
        }
    }
    while excess > 0 {
        let Some((size, longest)) = sections.iter_mut().max_by_key(|(size, _)| *size) else { break };
        let Some(line) = longest.pop() else { break };
        let length = line.chars().count();
        *size -= length;
        // A long line is cut rather than dropped whole.
        if length > excess + MARK_CHARS {
            longest.push(Cow::Owned(middle_cut(&line, length - excess - MARK_CHARS)));
            break;
        }
        excess = excess.saturating_sub(length);
    }
    sections.into_iter().flat_map(|(_, section)| section).collect::<String>().trim().to_owned()
}

/// Lines with their positions, ends included.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive('\n').map(move |line| {
        let start = at;
        at += line.len();
        (start, line)
    })
}

/// The day of a time as `2023-05-08` (UTC); `None` for times that mean nothing.
pub(super) fn day(time_ms: i64) -> Option<String> {
    if time_ms <= 0 {
        return None;
    }
    let time = jiff::Timestamp::from_millisecond(time_ms).ok()?;
    Some(jiff::tz::Offset::UTC.to_datetime(time).date().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skeleton_has_no_content() {
        assert!(!has_content("## Goal\nNone.\n\n## Next Steps\n- N/A\n"));
        assert!(!has_content("## Goal\n\n## Next Steps\nNo prior history.\n"));
        assert!(!has_content("  \n"));
        assert!(has_content("## Goal\nMove the database to 10.0.0.7.\n"));
    }

    #[test]
    fn a_thought_and_a_fence_are_no_part_of_it() {
        assert_eq!(cleaned("<think>hm</think>\n```markdown\n## Goal\nx\n```"), "## Goal\nx");
        assert_eq!(cleaned("plain ```code``` text"), "plain ```code``` text");
    }

    #[test]
    fn the_hosts_sections_are_taken_out_and_found() {
        let text = "## Goal\nship\n\n### exact identifiers\n1 2\n\n## Next\ngo\n";
        assert_eq!(without_host_sections(text), "## Goal\nship\n\n## Next\ngo");
        assert_eq!(section(text, "## Goal"), Some("ship\n\n### exact identifiers\n1 2"));
        assert_eq!(section(text, "## Other"), None);
    }

    #[test]
    fn days_are_plain() {
        assert_eq!(day(1_683_554_160_000).as_deref(), Some("2023-05-08"));
        assert_eq!(day(0), None);
    }
}
