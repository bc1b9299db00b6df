//! From words to the days that they speak of: a small grammar.

use super::Days;
use super::calendar::{around, day, month_of, months, next, previous, week_of, year};
use super::words::{Unit, is_last, iso, month, ordinal, season, unit};
use jiff::ToSpan;
use jiff::civil::Date;

/// What is said, and when.
pub(super) struct Speech<'a> {
    pub words: &'a [&'a str],
    pub today: Date,
}

impl Speech<'_> {
    fn word(&self, at: usize) -> &str {
        self.words.get(at).copied().unwrap_or_default()
    }

    /// The days that are spoken of from a word on, and how many words say so.
    pub(super) fn at(&self, at: usize) -> Option<(Days, usize)> {
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
