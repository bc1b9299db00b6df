//! A provider's section as it may be sent.

/// Bytes that a token has at most, mostly: a text that is longer than so many for each token is cut before it is counted.
const BYTES_PER_TOKEN: u64 = 8;
/// What stands in place of the lines that did not fit.
const CUT: &str = "[…]";

/// The section without blank ends and within `limit` tokens, by whole lines from its head; `None` when nothing is left.
/// `count` gives the tokens of a text.
pub fn fitted(text: &str, limit: u64, count: &(dyn Fn(&str) -> u64 + Sync)) -> Option<String> {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let whole = lines.join("\n").trim().to_owned();
    if whole.is_empty() {
        return None;
    }
    let bytes = usize::try_from(limit.saturating_mul(BYTES_PER_TOKEN)).unwrap_or(usize::MAX);
    if whole.len() <= bytes && count(&whole) <= limit {
        return Some(whole);
    }
    let mut left = bytes;
    let mut lines: Vec<&str> = Vec::new();
    for line in whole.lines() {
        let Some(rest) = left.checked_sub(line.len() + 1) else { break };
        left = rest;
        lines.push(line);
    }
    let head = |kept: usize| format!("{}\n{CUT}", lines[..kept].join("\n"));
    // The most lines that fit: the tokens of a head grow with its lines.
    let (mut fits, mut too_many) = (0, lines.len() + 1);
    while too_many - fits > 1 {
        let middle = fits + (too_many - fits) / 2;
        if count(&head(middle)) <= limit { fits = middle } else { too_many = middle }
    }
    (fits > 0).then(|| head(fits))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> u64 {
        text.split_whitespace().count() as u64
    }

    #[test]
    fn blank_is_nothing_and_ends_are_trimmed() {
        assert_eq!(fitted(" \n\t\n", 100, &words), None);
        assert_eq!(fitted("\n# A  \n\n- b \n", 100, &words).as_deref(), Some("# A\n\n- b"));
    }

    #[test]
    fn what_is_too_long_is_cut_at_a_line_and_says_so() {
        let text = "one two\nthree four\nfive six\nseven";
        assert_eq!(fitted(text, 7, &words).as_deref(), Some(text));
        assert_eq!(fitted(text, 6, &words).as_deref(), Some("one two\nthree four\n[…]"));
        assert_eq!(fitted(text, 3, &words).as_deref(), Some("one two\n[…]"));
        assert_eq!(fitted(text, 2, &words), None, "not even a line fits");
        let long = "x".repeat(1_000_000);
        assert_eq!(fitted(&format!("short\n{long}"), 50, &words).as_deref(), Some("short\n[…]"), "not counted at all");
    }
}
