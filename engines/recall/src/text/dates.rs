//! Dates and relative dates in a question, resolved against the conversation's own time.
//!
//! "two Fridays ago", "last weekend", "in May 2023", "the week before 9 June", "yesterday", "vor drei Wochen": each gives the days
//! that are meant. The grammar is small on purpose: a day that is missed costs a boost, one that is wrongly seen costs the same.
//! Days are those of UTC; summer is that of the northern half.

use jiff::civil::{Date, Weekday};
use jiff::{Span, ToSpan};

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
        .flat_map(separated)
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

/// The parts of a word: `2023-06-09` stays whole, `mid-May` does not, and days written without blanks stand alone.
fn separated(word: &str) -> Vec<&str> {
    if let Some(day) = RELATIVE_DENSE.iter().find(|day| word.contains(*day)) {
        return vec![day];
    }
    if iso(word).is_some() { vec![word] } else { word.split('-').collect() }
}

/// Words for days in scripts without spaces.
const RELATIVE_DENSE: [&str; 9] = ["昨日", "昨天", "今日", "今天", "明日", "明天", "先週", "上周", "어제"];

/// What is said, and when.
struct Speech<'a> {
    words: &'a [&'a str],
    today: Date,
}

/// What a count counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Day,
    Week,
    Weekend,
    Month,
    Year,
    On(Weekday),
}

impl Speech<'_> {
    fn word(&self, at: usize) -> &str {
        self.words.get(at).copied().unwrap_or_default()
    }

    /// The days that are spoken of from a word on, and how many words say so.
    fn at(&self, at: usize) -> Option<(Days, usize)> {
        self.beside(at).or_else(|| self.counted(at)).or_else(|| self.relative(at)).or_else(|| self.named(at))
    }

    /// "the week before 9 June", "the Friday after 3 May": a unit beside a day.
    fn beside(&self, at: usize) -> Option<(Days, usize)> {
        let unit = unit(self.word(at))?;
        let after = match self.word(at + 1) {
            "before" | "vor" | "avant" | "antes" => false,
            "after" | "following" | "nach" | "après" | "después" => true,
            _ => return None,
        };
        let skip = usize::from(matches!(self.word(at + 2), "the" | "dem" | "le" | "el" | "de" | "del"));
        let (anchor, length) = self.named(at + 2 + skip).or_else(|| self.relative(at + 2 + skip))?;
        let days = if after { next(unit, anchor.until) } else { previous(unit, anchor.from, 1) };
        Some((days?, 2 + skip + length))
    }

    /// "two Fridays ago", "3 weeks ago", "vor drei Wochen", "il y a deux jours", "hace dos semanas".
    fn counted(&self, at: usize) -> Option<(Days, usize)> {
        let ahead = match (self.word(at), self.word(at + 1), self.word(at + 2)) {
            ("vor" | "hace", ..) => 1,
            ("il", "y", "a") => 3,
            _ => 0,
        };
        let (count, words) = self.count(at + ahead)?;
        let counted = at + ahead + words;
        let unit = unit(self.word(counted))?;
        let behind = matches!(self.word(counted + 1), "ago" | "back" | "earlier");
        if ahead == 0 && !behind {
            return None;
        }
        let days = match unit {
            Unit::Day => day(self.today.checked_sub(count.days()).ok()?),
            Unit::Week => Some(around(self.today.checked_sub(count.weeks()).ok()?, 3)),
            Unit::Month => month_of(self.today.checked_sub(count.months()).ok()?),
            Unit::Year => year(self.today.year().checked_sub(i16::try_from(count).ok()?)?),
            Unit::Weekend | Unit::On(_) => previous(unit, self.today, count),
        };
        Some((days?, ahead + words + 1 + usize::from(behind)))
    }

    /// A number, or a word for one, and how many words it takes.
    fn count(&self, at: usize) -> Option<(i64, usize)> {
        let word = self.word(at);
        if let Ok(count) = word.parse::<i64>() {
            return (1..=366).contains(&count).then_some((count, 1));
        }
        let count = match word {
            "a" | "an" if self.word(at + 1) == "couple" => {
                return Some((2, 2 + usize::from(self.word(at + 2) == "of")));
            }
            "a" | "an" | "one" | "ein" | "eine" | "einem" | "einer" | "un" | "une" | "una" => 1,
            "two" | "zwei" | "deux" | "dos" => 2,
            "three" | "drei" | "trois" | "tres" => 3,
            "four" | "vier" | "quatre" | "cuatro" => 4,
            "five" | "fünf" | "cinq" | "cinco" => 5,
            "six" | "sechs" | "seis" => 6,
            "seven" | "sieben" | "sept" | "siete" => 7,
            "eight" | "acht" | "huit" | "ocho" => 8,
            "nine" | "neun" | "neuf" | "nueve" => 9,
            "ten" | "zehn" | "dix" | "diez" => 10,
            _ => return None,
        };
        Some((count, 1))
    }

    /// "yesterday", "last week", "last Friday", "this month", "last summer".
    fn relative(&self, at: usize) -> Option<(Days, usize)> {
        let back = |days: i64| day(self.today.checked_sub(days.days()).ok()?);
        match self.word(at) {
            "today" | "tonight" | "heute" | "aujourd" | "hoy" | "сегодня" | "今日" | "今天" => {
                return Some((back(0)?, 1));
            }
            "yesterday" | "gestern" | "hier" | "ayer" | "вчера" | "昨日" | "昨天" | "어제" => {
                return Some((back(1)?, 1));
            }
            "vorgestern" | "anteayer" | "позавчера" => return Some((back(2)?, 1)),
            "tomorrow" | "demain" | "mañana" | "завтра" | "明日" | "明天" => return Some((back(-1)?, 1)),
            "先週" | "上周" => return Some((previous(Unit::Week, self.today, 1)?, 1)),
            _ => {}
        }
        let (past, this) = (
            is_last(self.word(at)),
            matches!(self.word(at), "this" | "diese" | "diesen" | "dieses" | "cette" | "esta"),
        );
        if !past && !this {
            // "la semaine dernière", "la semana pasada"
            let unit = unit(self.word(at))?;
            let past = matches!(self.word(at + 1), "dernière" | "dernier" | "pasada" | "pasado" | "passée" | "passé");
            return Some((past.then(|| previous(unit, self.today, 1))??, 2));
        }
        // "this past weekend" is the last one.
        let skip = usize::from(this && is_last(self.word(at + 1)));
        let noun = self.word(at + 1 + skip);
        let past = past || skip > 0;
        if past && noun == "night" {
            return Some((back(1)?, 2 + skip));
        }
        if let Some(first) = season(noun) {
            let year = self.today.year() - i16::from(past && self.today.month() <= first + 2);
            return Some((months(year, first, 3)?, 2 + skip));
        }
        if let Some(month) = month(noun) {
            let year = self.today.year() - i16::from(past && self.today.month() <= month);
            return Some((months(year, month, 1)?, 2 + skip));
        }
        let unit = unit(noun)?;
        let days = match (unit, past) {
            (Unit::Day, _) => return None,
            (_, true) => previous(unit, self.today, 1),
            (Unit::Week, false) => Some(week_of(self.today)?),
            (Unit::Month, false) => month_of(self.today),
            (Unit::Year, false) => year(self.today.year()),
            (Unit::Weekend | Unit::On(_), false) => next(unit, week_of(self.today)?.from),
        };
        Some((days?, 2 + skip))
    }

    /// "9 June 2023", "June 9th", "May 2023", "summer of 2023", "in 2023", "2023-06-09".
    fn named(&self, at: usize) -> Option<(Days, usize)> {
        let word = self.word(at);
        if let Some(date) = iso(word) {
            return Some((day(date)?, 1));
        }
        if let Some(first) = season(word) {
            let skip = usize::from(self.word(at + 1) == "of");
            let year = self.year(at + 1 + skip)?;
            return Some((months(year, first, 3)?, 2 + skip));
        }
        if let Some(number) = month(word) {
            if let Some(date) = ordinal(self.word(at + 1)) {
                let year = self.year(at + 2);
                return Some((self.dated(year, number, date)?, 2 + usize::from(year.is_some())));
            }
            let year = self.year(at + 1);
            // "may" and "march" are verbs as well: without a year or a preposition they are no months.
            let said = matches!(
                at.checked_sub(1).map(|before| self.word(before)),
                Some("in" | "during" | "since" | "of" | "im" | "en")
            );
            if year.is_none() && !said && matches!(word, "may" | "march" | "mars" | "mai" | "jan" | "sept" | "dec") {
                return None;
            }
            let passed = self.today.year() - i16::from(number > self.today.month());
            return Some((months(year.unwrap_or(passed), number, 1)?, 1 + usize::from(year.is_some())));
        }
        if let Some(date) = ordinal(word) {
            let skip = usize::from(matches!(self.word(at + 1), "of" | "de"));
            if let Some(number) = month(self.word(at + 1 + skip)) {
                let of = usize::from(matches!(self.word(at + 2 + skip), "de" | "of"));
                let year = self.year(at + 2 + skip + of);
                let length = 2 + skip + if year.is_some() { 1 + of } else { 0 };
                return Some((self.dated(year, number, date)?, length));
            }
        }
        let year_number = self.year(at)?;
        Some((year(year_number)?, 1))
    }

    /// A year in digits.
    fn year(&self, at: usize) -> Option<i16> {
        let word = self.word(at);
        word.parse().ok().filter(|year| word.len() == 4 && (1900..2100).contains(year))
    }

    /// A day of a month, of the year that passed it last where none is said.
    fn dated(&self, year: Option<i16>, month: i8, date: i8) -> Option<Days> {
        let of = |year| Date::new(year, month, date).ok();
        let date = match year {
            Some(year) => of(year)?,
            None => of(self.today.year()).filter(|date| *date <= self.today).or_else(|| of(self.today.year() - 1))?,
        };
        day(date)
    }
}

fn is_last(word: &str) -> bool {
    matches!(
        word,
        "last" | "past" | "previous" | "letzte" | "letzten" | "letzter" | "letztes" | "vorige" | "прошлой" | "прошлый"
    )
}

fn unit(word: &str) -> Option<Unit> {
    Some(match word {
        "day" | "days" | "tag" | "tagen" | "jour" | "jours" | "día" | "días" => Unit::Day,
        "week" | "weeks" | "woche" | "wochen" | "semaine" | "semaines" | "semana" | "semanas" | "неделе" | "неделя" => {
            Unit::Week
        }
        "weekend" | "weekends" | "wochenende" => Unit::Weekend,
        "month" | "months" | "monat" | "monaten" | "mois" | "mes" | "meses" => Unit::Month,
        "year" | "years" | "jahr" | "jahren" | "an" | "ans" | "année" | "año" | "años" => Unit::Year,
        "monday" | "mondays" | "montag" | "lundi" | "lunes" => Unit::On(Weekday::Monday),
        "tuesday" | "tuesdays" | "dienstag" | "mardi" | "martes" => Unit::On(Weekday::Tuesday),
        "wednesday" | "wednesdays" | "mittwoch" | "mercredi" | "miércoles" => Unit::On(Weekday::Wednesday),
        "thursday" | "thursdays" | "donnerstag" | "jeudi" | "jueves" => Unit::On(Weekday::Thursday),
        "friday" | "fridays" | "freitag" | "vendredi" | "viernes" => Unit::On(Weekday::Friday),
        "saturday" | "saturdays" | "samstag" | "samedi" | "sábado" => Unit::On(Weekday::Saturday),
        "sunday" | "sundays" | "sonntag" | "dimanche" | "domingo" => Unit::On(Weekday::Sunday),
        _ => return None,
    })
}

fn month(word: &str) -> Option<i8> {
    Some(match word {
        "january" | "jan" | "januar" | "janvier" | "enero" => 1,
        "february" | "feb" | "februar" | "février" | "febrero" => 2,
        "march" | "märz" | "mars" | "marzo" => 3,
        "april" | "apr" | "avril" | "abril" => 4,
        "may" | "mai" | "mayo" => 5,
        "june" | "jun" | "juni" | "juin" | "junio" => 6,
        "july" | "jul" | "juli" | "juillet" | "julio" => 7,
        "august" | "aug" | "août" | "agosto" => 8,
        "september" | "sep" | "sept" | "septembre" | "septiembre" => 9,
        "october" | "oct" | "oktober" | "octobre" | "octubre" => 10,
        "november" | "nov" | "novembre" | "noviembre" => 11,
        "december" | "dec" | "dezember" | "décembre" | "diciembre" => 12,
        _ => return None,
    })
}

/// The first month of a season.
fn season(word: &str) -> Option<i8> {
    Some(match word {
        "spring" | "frühling" | "printemps" | "primavera" => 3,
        "summer" | "sommer" | "été" | "verano" => 6,
        "autumn" | "fall" | "herbst" | "automne" | "otoño" => 9,
        "winter" | "hiver" | "invierno" => 12,
        _ => return None,
    })
}

/// `9`, `9th`, `21st`.
fn ordinal(word: &str) -> Option<i8> {
    let digits = ["st", "nd", "rd", "th", "er"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
    digits.parse().ok().filter(|day| (1..=31).contains(day) && digits.len() <= 2)
}

/// `2023-06-09`.
fn iso(word: &str) -> Option<Date> {
    (word.len() == 10 && word.as_bytes()[4] == b'-').then(|| word.parse().ok())?
}

fn day(date: Date) -> Option<Days> {
    Some(Days { from: date, until: date.tomorrow().ok()? })
}

/// A day and so many on both sides.
fn around(date: Date, days: i64) -> Days {
    Days { from: date.saturating_sub(days.days()), until: date.saturating_add((days + 1).days()) }
}

/// The week from Monday on.
fn week_of(date: Date) -> Option<Days> {
    let from = date.checked_sub(i64::from(date.weekday().to_monday_zero_offset()).days()).ok()?;
    Some(Days { from, until: from.checked_add(1.week()).ok()? })
}

fn month_of(date: Date) -> Option<Days> {
    months(date.year(), date.month(), 1)
}

fn year(year: i16) -> Option<Days> {
    months(year, 1, 12)
}

fn months(year: i16, first: i8, count: i64) -> Option<Days> {
    let from = Date::new(year, first, 1).ok()?;
    Some(Days { from, until: from.checked_add(Span::new().months(count)).ok()? })
}

/// The `count`-th one of its kind that lies before a day.
fn previous(unit: Unit, before: Date, count: i64) -> Option<Days> {
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
fn next(unit: Unit, from: Date) -> Option<Days> {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// Spoken on Wednesday, 14 June 2023.
    fn check(text: &str, expected: &[(&str, &str)]) {
        let now: jiff::Timestamp = "2023-06-14T15:00:00Z".parse().unwrap();
        let found: Vec<(String, String)> = spoken_of(text, now.as_millisecond())
            .iter()
            .map(|days| (days.from.to_string(), days.until.yesterday().unwrap().to_string()))
            .collect();
        let expected: Vec<(String, String)> = expected.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn days_by_name() {
        check("What happened on 9 June 2023?", &[("2023-06-09", "2023-06-09")]);
        check("and on June 9th, 2022?", &[("2022-06-09", "2022-06-09")]);
        check("on 3 July", &[("2022-07-03", "2022-07-03")]);
        check(
            "on 2023-05-01, or between May 3 and May 5",
            &[("2023-05-01", "2023-05-01"), ("2023-05-03", "2023-05-03"), ("2023-05-05", "2023-05-05")],
        );
        check(
            "am 3. Mai 2023; le 1er juin 2023; el 4 de mayo de 2023",
            &[("2023-05-03", "2023-05-03"), ("2023-06-01", "2023-06-01"), ("2023-05-04", "2023-05-04")],
        );
    }

    #[test]
    fn months_seasons_and_years() {
        check("in May 2023", &[("2023-05-01", "2023-05-31")]);
        check("in mid-November", &[("2022-11-01", "2022-11-30")]);
        check("in the summer of 2022", &[("2022-06-01", "2022-08-31")]);
        check(
            "last winter, in 2021, this year",
            &[("2022-12-01", "2023-02-28"), ("2021-01-01", "2021-12-31"), ("2023-01-01", "2023-12-31")],
        );
        check("You may march on.", &[]);
    }

    #[test]
    fn days_by_their_distance() {
        check("yesterday", &[("2023-06-13", "2023-06-13")]);
        check("last night, last Friday", &[("2023-06-13", "2023-06-13"), ("2023-06-09", "2023-06-09")]);
        check("two Fridays ago", &[("2023-06-02", "2023-06-02")]);
        check("last weekend; this past weekend", &[("2023-06-10", "2023-06-11")]);
        check("two weekends ago", &[("2023-06-03", "2023-06-04")]);
        check("three days ago", &[("2023-06-11", "2023-06-11")]);
        check("a couple of weeks ago", &[("2023-05-28", "2023-06-03")]);
        check("2 months ago", &[("2023-04-01", "2023-04-30")]);
        check("last week", &[("2023-06-05", "2023-06-13")]);
        check("last month", &[("2023-05-01", "2023-05-31")]);
        check("two eggs, three weeks of rain", &[]);
    }

    #[test]
    fn days_beside_others() {
        check("the week before 9 June 2023", &[("2023-05-29", "2023-06-08")]);
        check("the Friday before 9 June 2023", &[("2023-06-02", "2023-06-02")]);
        check("the weekend after 5 May 2023", &[("2023-05-06", "2023-05-07")]);
        check("the day before yesterday", &[("2023-06-12", "2023-06-12")]);
    }

    #[test]
    fn other_languages() {
        check("Was war gestern, und vor drei Wochen?", &[("2023-06-13", "2023-06-13"), ("2023-05-21", "2023-05-27")]);
        check("la semaine dernière", &[("2023-06-05", "2023-06-13")]);
        check("hace dos días", &[("2023-06-12", "2023-06-12")]);
        check("il y a deux jours", &[("2023-06-12", "2023-06-12")]);
        check("昨日は何をした", &[("2023-06-13", "2023-06-13")]);
        check("что было вчера", &[("2023-06-13", "2023-06-13")]);
    }

    #[test]
    fn any_time_and_any_text_are_survived() {
        for now in [i64::MIN, -1, 0, i64::MAX, 253_402_207_200_000, -377_705_000_000_000] {
            for text in ["two weeks ago last year tomorrow", "9999-12-31 366 days ago", "the year before 31 Dec 1900"] {
                let _ = spoken_of(text, now);
            }
        }
    }
}
