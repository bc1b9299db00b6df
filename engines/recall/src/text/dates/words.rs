//! Words for units of time, weekdays, months and seasons, and days in digits.

use jiff::civil::{Date, Weekday};

/// What a count counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Day,
    Week,
    Weekend,
    Month,
    Year,
    On(Weekday),
}

/// The parts of a word: `2023-06-09` stays whole, `mid-May` does not, and days written without blanks stand alone.
pub(super) fn separated(word: &str) -> Vec<&str> {
    if let Some(day) = RELATIVE_DENSE.iter().find(|day| word.contains(*day)) {
        return vec![day];
    }
    if iso(word).is_some() { vec![word] } else { word.split('-').collect() }
}

/// Words for days in scripts without spaces.
const RELATIVE_DENSE: [&str; 9] = ["昨日", "昨天", "今日", "今天", "明日", "明天", "先週", "上周", "어제"];

pub(super) fn is_last(word: &str) -> bool {
    matches!(
        word,
        "last" | "past" | "previous" | "letzte" | "letzten" | "letzter" | "letztes" | "vorige" | "прошлой" | "прошлый"
    )
}

pub(super) fn unit(word: &str) -> Option<Unit> {
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

pub(super) fn month(word: &str) -> Option<i8> {
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
pub(super) fn season(word: &str) -> Option<i8> {
    Some(match word {
        "spring" | "frühling" | "printemps" | "primavera" => 3,
        "summer" | "sommer" | "été" | "verano" => 6,
        "autumn" | "fall" | "herbst" | "automne" | "otoño" => 9,
        "winter" | "hiver" | "invierno" => 12,
        _ => return None,
    })
}

/// `9`, `9th`, `21st`.
pub(super) fn ordinal(word: &str) -> Option<i8> {
    let digits = ["st", "nd", "rd", "th", "er"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word);
    digits.parse().ok().filter(|day| (1..=31).contains(day) && digits.len() <= 2)
}

/// `2023-06-09`.
pub(super) fn iso(word: &str) -> Option<Date> {
    (word.len() == 10 && word.as_bytes()[4] == b'-').then(|| word.parse().ok())?
}
