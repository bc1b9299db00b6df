//! Days and times as models write them, as a stretch of time.
//!
//! Dates are read in UTC, as the tools show them. What is relative counts from the conversation's own time, so that a question
//! means the same whenever it is asked again.

use crate::text::dates;
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan};
use std::ops::Range;

/// The stretch of time that a text names, in ms since the epoch; `None` when it names none.
///
/// Times in RFC 3339 or `YYYY-MM-DD HH:MM[:SS]`, which mean their minute or second; `YYYY-MM-DD`, `YYYY-MM`, `YYYY`; and what
/// [`dates`] reads in a question: `yesterday`, `two fridays ago`.
pub(crate) fn when(text: &str, now_ms: i64) -> Option<Range<i64>> {
    let text = text.trim().to_lowercase();
    absolute(&text).or_else(|| {
        // A date that is none must not pass for the year in it.
        text.find(char::is_alphabetic)?;
        let first = |text: &str| dates::spoken_of(text, now_ms).first().copied();
        // A weekday by itself is the one before.
        let days = first(&text).or_else(|| first(&format!("last {}", text.trim_start_matches("on "))))?;
        let (from, until) = days.ms();
        Some(from..until)
    })
}

fn absolute(text: &str) -> Option<Range<i64>> {
    if let Ok(time) = text.to_uppercase().parse::<Timestamp>() {
        let start = time.as_millisecond();
        return Some(start..start + 1000);
    }
    if text.contains([':', 't']) && text.len() > 10 {
        let time: DateTime = text.replacen(' ', "t", 1).parse().ok()?;
        let step: Span = if text.matches(':').count() > 1 { 1.second() } else { 1.minute() };
        return stretch(time, step);
    }
    let parts: Vec<i16> = text.split(['-', '/', '.']).map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let small = |number: i16| i8::try_from(number).ok();
    match parts[..] {
        [year] if text.len() == 4 => days(Date::new(year, 1, 1).ok()?, 1.year()),
        [year, month] if year >= 1000 => days(Date::new(year, small(month)?, 1).ok()?, 1.month()),
        [year, month, day] if year >= 1000 => days(Date::new(year, small(month)?, small(day)?).ok()?, 1.day()),
        _ => None,
    }
}

fn days(first: Date, length: Span) -> Option<Range<i64>> {
    stretch(first.at(0, 0, 0, 0), length)
}

fn stretch(start: DateTime, length: Span) -> Option<Range<i64>> {
    let end = start.checked_add(length).ok()?;
    let ms = |time: DateTime| Some(TimeZone::UTC.to_timestamp(time).ok()?.as_millisecond());
    Some(ms(start)?..ms(end)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::time::minute;

    /// Wednesday, 2024-05-15, 12:00 UTC.
    const NOW: i64 = 1_715_774_400_000;

    fn check(text: &str, expected: Option<(&str, &str)>) {
        let found = when(text, NOW).map(|range| (minute(range.start), minute(range.end)));
        assert_eq!(found, expected.map(|(start, end)| (start.to_owned(), end.to_owned())), "{text}");
    }

    #[test]
    fn days_and_times_are_stretches() {
        check("2024-05-03", Some(("2024-05-03 00:00", "2024-05-04 00:00")));
        check("2024/5", Some(("2024-05-01 00:00", "2024-06-01 00:00")));
        check("2023", Some(("2023-01-01 00:00", "2024-01-01 00:00")));
        check("2024-05-03 14:22", Some(("2024-05-03 14:22", "2024-05-03 14:23")));
        check("2024-05-03T14:22:00+02:00", Some(("2024-05-03 12:22", "2024-05-03 12:22")));
        check("Yesterday", Some(("2024-05-14 00:00", "2024-05-15 00:00")));
        check("last month", Some(("2024-04-01 00:00", "2024-05-01 00:00")));
        check("3 days ago", Some(("2024-05-12 00:00", "2024-05-13 00:00")));
        check("two Fridays ago", Some(("2024-05-03 00:00", "2024-05-04 00:00")));
        check("last friday", Some(("2024-05-10 00:00", "2024-05-11 00:00")));
        check("on Wednesday", Some(("2024-05-08 00:00", "2024-05-09 00:00")));
    }

    #[test]
    fn what_names_no_time_is_none() {
        for text in ["", "soon", "2024-13", "2024-02-30", "99", "5 moons ago", "99999999 days ago", "2024-05-03 25:00"]
        {
            check(text, None);
        }
    }
}
