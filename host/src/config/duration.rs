//! Spans of time as people write them: `5m`, `1h30m`, `250ms`.

/// Reads a span of time; the result is in milliseconds. Units: ms, s, m, h, d; several may follow each other.
pub(super) fn parse(text: &str) -> Option<u64> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, next) = tail.split_at(end);
        let factor: u64 = match unit.trim() {
            "ms" => 1,
            "s" => 1_000,
            "m" | "min" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(factor)?)?;
        rest = next;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn reads_spans_with_a_unit_and_nothing_else() {
        for (text, ms) in [("5m", 300_000), ("250ms", 250), ("1h30m", 5_400_000), (" 2 s ", 2_000), ("1d", 86_400_000)]
        {
            assert_eq!(parse(text), Some(ms), "{text}");
        }
        for text in ["", "5", "m", "5x", "-5m", "5m 3", "99999999999999999999d", "1.5h"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
