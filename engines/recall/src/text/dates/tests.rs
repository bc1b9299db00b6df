//! What is said, and which days are meant.

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
