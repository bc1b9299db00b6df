//! Spans of days: what lies around, before and after a day.

use super::Days;
use super::words::Unit;
use jiff::civil::{Date, Weekday};
use jiff::{Span, ToSpan};

pub(super) fn day(date: Date) -> Option<Days> {
    Some(Days { from: date, until: date.tomorrow().ok()? })
}

/// A day and so many on both sides.
pub(super) fn around(date: Date, days: i64) -> Days {
    Days { from: date.saturating_sub(days.days()), until: date.saturating_add((days + 1).days()) }
}

/// The week from Monday on.
pub(super) fn week_of(date: Date) -> Option<Days> {
    let from = date.checked_sub(i64::from(date.weekday().to_monday_zero_offset()).days()).ok()?;
    Some(Days { from, until: from.checked_add(1.week()).ok()? })
}

pub(super) fn month_of(date: Date) -> Option<Days> {
    months(date.year(), date.month(), 1)
}

pub(super) fn year(year: i16) -> Option<Days> {
    months(year, 1, 12)
}

pub(super) fn months(year: i16, first: i8, count: i64) -> Option<Days> {
    let from = Date::new(year, first, 1).ok()?;
    Some(Days { from, until: from.checked_add(Span::new().months(count)).ok()? })
}

/// The `count`-th one of its kind that lies before a day.
pub(super) fn previous(unit: Unit, before: Date, count: i64) -> Option<Days> {
    match unit {
        Unit::Day => day(before.checked_sub(count.days()).ok()?),
        Unit::Week => {
            // People who say "last week" mean the days behind them as often as the week before this one.
            let from =
                before.checked_sub((count * 7 + i64::from(before.weekday().to_monday_zero_offset())).days()).ok()?;
            Some(Days { from, until: before.checked_sub(((count - 1) * 7).days()).ok()? })
        }
        Unit::Month => month_of(before.first_of_month().checked_sub(count.months()).ok()?),
        Unit::Year => year(before.year().checked_sub(i16::try_from(count).ok()?)?),
        Unit::On(weekday) => {
            let last = before.nth_weekday(-1, weekday).ok()?;
            day(last.checked_sub((count - 1).weeks()).ok()?)
        }
        Unit::Weekend => {
            // On a Sunday, the weekend that is going on is not yet the last one.
            let sunday = before.nth_weekday(-1, Weekday::Sunday).ok()?.checked_sub((count - 1).weeks()).ok()?;
            Some(Days { from: sunday.yesterday().ok()?, until: sunday.tomorrow().ok()? })
        }
    }
}

/// The first one of its kind from a day on.
pub(super) fn next(unit: Unit, from: Date) -> Option<Days> {
    match unit {
        Unit::Day => day(from),
        Unit::Week => Some(Days { from, until: from.checked_add(1.week()).ok()? }),
        Unit::Month => Some(Days { from, until: from.checked_add(1.month()).ok()? }),
        Unit::Year => Some(Days { from, until: from.checked_add(1.year()).ok()? }),
        Unit::On(weekday) => day(from.yesterday().ok()?.nth_weekday(1, weekday).ok()?),
        Unit::Weekend => {
            let saturday = from.yesterday().ok()?.nth_weekday(1, Weekday::Saturday).ok()?;
            Some(Days { from: saturday, until: saturday.checked_add(2.days()).ok()? })
        }
    }
}
