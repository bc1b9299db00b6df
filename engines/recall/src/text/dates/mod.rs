//! Dates and relative dates in a question, resolved against the conversation's own time.
//!
//! "two Fridays ago", "last weekend", "in May 2023", "the week before 9 June", "yesterday", "vor drei Wochen": each gives the days
//! that are meant. The grammar is small on purpose: a day that is missed costs a boost, one that is wrongly seen costs the same.
//! Days are those of UTC; summer is that of the northern half.

mod calendar;
mod speech;
#[cfg(test)]
mod tests;
mod words;

use jiff::civil::Date;
use speech::Speech;

/// Days that are meant: from the first up to, but without, the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Days {
    /// The first day.
    pub from: Date,
    /// The day after the last one.
    pub until: Date,
}

impl Days {
    /// The same in ms since the epoch.
    pub(crate) fn ms(self) -> (i64, i64) {
        (ms(self.from), ms(self.until))
    }
}

/// Start of a day in ms since the epoch.
fn ms(date: Date) -> i64 {
    jiff::tz::Offset::UTC.to_timestamp(date.at(0, 0, 0, 0)).map_or(0, jiff::Timestamp::as_millisecond)
}

/// The days that `text` speaks of, in the order of the text. `now_ms` is the time of the one who speaks.
pub(crate) fn spoken_of(text: &str, now_ms: i64) -> Vec<Days> {
    let Ok(now) = jiff::Timestamp::from_millisecond(now_ms) else { return Vec::new() };
    let lower = text.to_lowercase();
    let words: Vec<&str> = lower
        .split(|character: char| !character.is_alphanumeric() && character != '-')
        .flat_map(words::separated)
        .filter(|word| !word.is_empty())
        .collect();
    let speech = Speech { words: &words, today: jiff::tz::Offset::UTC.to_datetime(now).date() };
    let mut found: Vec<Days> = Vec::new();
    let mut at = 0;
    while at < words.len() {
        match speech.at(at) {
            Some((days, length)) => {
                if !found.contains(&days) {
                    found.push(days);
                }
                at += length.max(1);
            }
            None => at += 1,
        }
    }
    found
}
