//! Days and times as models write them, as a stretch of time.
//!
//! Dates are read in UTC, as the tools show them. What is relative counts from the conversation's own time, so that a question
//! means the same whenever it is asked again.

use jiff::civil::{Date, DateTime, Weekday};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan};
use std::ops::Range;

/// The stretch of time that a text names, in ms since the epoch; `None` when it names none.
///
/// Times in RFC 3339 or `YYYY-MM-DD HH:MM[:SS]`, which mean their minute or second; `YYYY-MM-DD`, `YYYY-MM`, `YYYY`; `today`,
/// `yesterday`, `last week|month|year`, `3 days|weeks|months|years ago`, and weekdays: `friday`, `last friday`, `two fridays ago`.
pub(crate) fn when(text: &str, now_ms: i64) -> Option<Range<i64>> {
    let text = text.trim().to_lowercase();
    absolute(&text).or_else(|| relative(&text, now_ms))
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

fn relative(text: &str, now_ms: i64) -> Option<Range<i64>> {
    let today = Timestamp::from_millisecond(now_ms).ok()?.to_zoned_datetime(TimeZone::UTC).date();
    let words: Vec<&str> = text.split_whitespace().filter(|word| !matches!(*word, "the" | "on" | "in")).collect();
    match words[..] {
        ["today"] => days(today, 1.day()),
        ["yesterday"] => days(today.yesterday().ok()?, 1.day()),
        ["last" | "previous", "week"] => days(monday(today)?.checked_sub(1.week()).ok()?, 1.week()),
        ["last" | "previous", "month"] => days(today.first_of_month().checked_sub(1.month()).ok()?, 1.month()),
        ["last" | "previous", "year"] => days(today.first_of_year().checked_sub(1.year()).ok()?, 1.year()),
        ["this", "week"] => days(monday(today)?, 1.week()),
        ["this", "month"] => days(today.first_of_month(), 1.month()),
        ["this", "year"] => days(today.first_of_year(), 1.year()),
        [day] | ["last" | "previous", day] => days(weekday_ago(today, weekday(day)?, 1)?, 1.day()),
        [number, unit, "ago"] => ago(today, count(number)?, unit),
        _ => None,
    }
}

fn ago(today: Date, number: i32, unit: &str) -> Option<Range<i64>> {
    let unit = unit.strip_suffix('s').unwrap_or(unit);
    match unit {
        "day" => days(today.checked_sub(number.days()).ok()?, 1.day()),
        "week" => days(monday(today)?.checked_sub(number.weeks()).ok()?, 1.week()),
        "month" => days(today.first_of_month().checked_sub(number.months()).ok()?, 1.month()),
        "year" => days(today.first_of_year().checked_sub(number.years()).ok()?, 1.year()),
        day => days(weekday_ago(today, weekday(day)?, number)?, 1.day()),
    }
}

fn count(word: &str) -> Option<i32> {
    const WORDS: [&str; 13] =
        ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
    match word {
        "a" | "an" => Some(1),
        _ => word
            .parse()
            .ok()
            .filter(|number| (0..=10_000).contains(number))
            .or_else(|| WORDS.iter().position(|known| *known == word).and_then(|number| i32::try_from(number).ok())),
    }
}

fn weekday(word: &str) -> Option<Weekday> {
    const DAYS: [(&str, Weekday); 7] = [
        ("monday", Weekday::Monday),
        ("tuesday", Weekday::Tuesday),
        ("wednesday", Weekday::Wednesday),
        ("thursday", Weekday::Thursday),
        ("friday", Weekday::Friday),
        ("saturday", Weekday::Saturday),
        ("sunday", Weekday::Sunday),
    ];
    DAYS.iter().find(|(name, _)| *name == word).map(|(_, day)| *day)
}

/// The `number`th such weekday before today.
fn weekday_ago(today: Date, day: Weekday, number: i32) -> Option<Date> {
    today.nth_weekday(-number.max(1), day).ok()
}

fn monday(today: Date) -> Option<Date> {
    today.checked_sub(i64::from(today.weekday().to_monday_zero_offset()).days()).ok()
}

fn days(first: Date, length: Span) -> Option<Range<i64>> {
    stretch(first.at(0, 0, 0, 0), length)
}

fn stretch(start: DateTime, length: Span) -> Option<Range<i64>> {
    let end = start.checked_add(length).ok()?;
    let ms = |time: DateTime| Some(TimeZone::UTC.to_timestamp(time).ok()?.as_millisecond());
    Some(ms(start)?..ms(end)?)
}

/// A time to the minute, in UTC; empty for none.
pub(crate) fn minute(time_ms: i64) -> String {
    match Timestamp::from_millisecond(time_ms) {
        Ok(time) if time_ms > 0 => time.strftime("%Y-%m-%d %H:%M").to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        check("last week", Some(("2024-05-06 00:00", "2024-05-13 00:00")));
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
