//! Times as they are shown.

/// A time to the minute, in UTC; empty for none.
pub(crate) fn minute(time_ms: i64) -> String {
    if time_ms <= 0 {
        return String::new();
    }
    let time = jiff::Timestamp::from_millisecond(time_ms);
    time.map_or_else(|_| String::new(), |time| time.strftime("%Y-%m-%d %H:%M").to_string())
}

#[cfg(test)]
mod tests {
    use super::minute;

    #[test]
    fn times_are_to_the_minute() {
        assert_eq!(minute(1_700_000_000_000), "2023-11-14 22:13");
        assert_eq!(minute(0), "");
        assert_eq!(minute(i64::MAX), "");
    }
}
