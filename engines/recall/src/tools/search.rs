//! `recall_search`: messages by words, by a regular expression, by time, or by number.

use super::args::{Args, Wrong};
use super::{Answer, Desk, elsewhere, heading, no_such, number, ordinal, parameter, quote, when};
use crate::find::{Ask, Hit};
use crate::index::Ordinal;
use crate::session::{Session, Stored};
use engine_abi::Context;
use engine_abi::wire::role;
use regex::{Regex, RegexBuilder};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::ops::{Range, RangeInclusive};

/// Messages of one answer, unless the model says how many.
const LIMIT: usize = 8;
/// Most messages of one answer.
const LIMIT_MAX: usize = 30;
/// Bytes that are shown of a message.
const SNIPPET: usize = 280;
/// What stands before a match in a snippet, in bytes.
const BEFORE: usize = 60;
/// Most bytes of a compiled regular expression, and of its cache.
const REGEX_BYTES: usize = 1 << 20;
/// Entries that a regular expression is tried on between two looks at the clock.
const CHUNK: Ordinal = 256;
/// Longest query in bytes.
const QUERY_MAX: usize = 2_000;

pub(super) fn parameters(other_sessions: bool) -> Value {
    let mut parameters = json!({
        "type": "object",
        "properties": {
            "query": parameter("string", "What to look for; with mode id, numbers such as \"12\" or \"12-15\"."),
            "mode": {
                "type": "string", "enum": ["words", "regex", "time", "id"], "default": "words",
                "description": "words: best match first. regex: newest first. time: all between from and to.",
            },
            "from": parameter("string", "Only from this day or time on: 2024-05-03, 2024-05-03 14:00, two fridays ago."),
            "to": parameter("string", "Only up to this day or time."),
            "role": {"type": "string", "enum": ["user", "assistant", "tool"], "description": "Only who said it."},
            "limit": parameter("integer", "How many messages, at most 30."),
            "page": parameter("integer", "2 for the next page."),
        },
    });
    if other_sessions {
        parameters["properties"]["session"] =
            parameter("string", "all: search the other sessions instead of this one; or the name of one of them.");
    }
    parameters
}

/// A message that was found, and where in it.
struct Found {
    ordinal: Ordinal,
    at: usize,
}

/// What was found in one session, as much as is asked for and one more.
struct Results {
    found: Vec<Found>,
    /// Not everything was searched: down to this ordinal; by time, up to it.
    stopped_at: Option<Ordinal>,
}

/// What narrows a search.
struct Filter {
    role: Option<u32>,
    time: Range<i64>,
}

impl Filter {
    fn read(args: &Args, now: i64) -> Result<Filter, Wrong> {
        let role = match args.text(&["role"]).map(|role| role.to_lowercase()).as_deref() {
            None | Some("any" | "all") => None,
            Some("user" | "person" | "human") => Some(role::USER),
            Some("assistant" | "model" | "ai") => Some(role::ASSISTANT),
            Some("tool") => Some(role::TOOL),
            Some(_) => return Err("`role` must be user, assistant or tool".to_owned()),
        };
        let stretch = |name: &str| match args.text(&[name]) {
            None => Ok(None),
            Some(text) => when::when(&text, now).map(Some).ok_or_else(|| {
                format!("`{name}` must be a day or a time such as 2024-05-03, 2024-05-03 14:00 or yesterday")
            }),
        };
        let (from, to) = (stretch("from")?, stretch("to")?);
        let time = from.map_or(i64::MIN, |from| from.start)..to.map_or(i64::MAX, |to| to.end);
        if time.is_empty() {
            return Err("`from` is later than `to`".to_owned());
        }
        Ok(Filter { role, time })
    }

    fn lets(&self, session: &Session, ordinal: Ordinal) -> bool {
        let Some(row) = session.rows.get(ordinal as usize) else { return false };
        self.time.contains(&row.time_ms) && self.role.is_none_or(|role| role == row.role)
    }
}

pub(super) fn search(desk: Desk<'_>) -> Answer {
    let now = now_ms(desk.session);
    let asked = match Asked::read(&desk.args, now) {
        Ok(asked) => asked,
        Err(wrong) => return Ok(Err(wrong)),
    };
    let Some(session) = desk.args.text(&["session"]) else {
        let results = match gather(desk.session, desk.context, &asked)? {
            Ok(results) => results,
            Err(wrong) => return Ok(Err(wrong)),
        };
        let places = [Place { session: desk.session, name: None, results }];
        return shown(desk.context, &asked, &places, 0).map(Ok);
    };
    let looked = match elsewhere::look(&desk, &session)? {
        Ok(looked) => looked,
        Err(wrong) => return Ok(Err(wrong)),
    };
    let held: Vec<_> = looked.sessions.iter().map(|(key, other)| (key, crate::session::others::lock(other))).collect();
    let mut places = Vec::with_capacity(held.len());
    for (key, other) in &held {
        // Numbers that one session has not, another may have.
        if let Ok(results) = gather(&other.session, desk.context, &asked)? {
            places.push(Place { session: &other.session, name: Some(elsewhere::shown_key(key)), results });
        }
    }
    shown(desk.context, &asked, &places, looked.left).map(Ok)
}

/// A session with what was found in it.
struct Place<'a> {
    session: &'a Session,
    /// Its name; `None` for the session of the call.
    name: Option<String>,
    results: Results,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Words,
    Regex,
    Time,
    Id,
}

struct Asked {
    mode: Mode,
    query: String,
    regex: Option<Regex>,
    numbers: Vec<RangeInclusive<u64>>,
    filter: Filter,
    now_ms: i64,
    limit: usize,
    page: usize,
}

/// The arguments, with the other names by which models call them.
const KNOWN: [&str; 16] = [
    "query", "q", "text", "pattern", "numbers", "number", "id", "mode", "from", "to", "role", "limit", "count", "max",
    "page", "session",
];

/// What is meant by arguments that are none.
const MEANT: [(&str, &str); 14] = [
    ("words", "`query`, with mode words"),
    ("word", "`query`, with mode words"),
    ("keywords", "`query`, with mode words"),
    ("search", "`query`"),
    ("regex", "`query`, with mode regex"),
    ("regexp", "`query`, with mode regex"),
    ("time", "`from` and `to`, with mode time"),
    ("date", "`from` and `to`, with mode time"),
    ("since", "`from`"),
    ("until", "`to`"),
    ("ids", "`query`, with mode id"),
    ("entry", "`query`, with mode id"),
    ("entries", "`query`, with mode id"),
    ("sessions", "`session`"),
];

impl Asked {
    fn read(args: &Args, now_ms: i64) -> Result<Asked, Wrong> {
        args.only(&KNOWN, &MEANT)?;
        let query = args.text(&["query", "q", "text", "pattern", "numbers", "number", "id"]);
        let bounded = args.text(&["from"]).is_some() || args.text(&["to"]).is_some();
        let mode = match args.text(&["mode"]).map(|mode| mode.to_lowercase()).as_deref() {
            Some("words" | "word" | "text" | "keyword" | "keywords" | "semantic") => Mode::Words,
            Some("regex" | "regexp" | "pattern" | "grep") => Mode::Regex,
            Some("time" | "times" | "date" | "dates" | "day") => Mode::Time,
            Some("id" | "ids" | "number" | "numbers") => Mode::Id,
            Some(_) => return Err("`mode` must be words, regex, time or id".to_owned()),
            None if query.is_none() && bounded => Mode::Time,
            None => Mode::Words,
        };
        let mut filter = Filter::read(args, now_ms)?;
        if mode == Mode::Time && !bounded {
            let day = query.as_deref().and_then(|query| when::when(query, now_ms));
            filter.time = day.ok_or_else(|| "give `from` and `to`: days or times such as 2024-05-03".to_owned())?;
        }
        let query = match (mode, query) {
            (Mode::Time, query) => query.unwrap_or_default(),
            (_, Some(query)) if query.len() > QUERY_MAX => {
                return Err(format!("the query is too long: at most {QUERY_MAX} bytes"));
            }
            (_, Some(query)) => query,
            (_, None) => return Err("give `query`: what to look for; or `from` and `to` with mode time".to_owned()),
        };
        let regex = if mode == Mode::Regex { Some(compiled(&query)?) } else { None };
        let numbers = match mode {
            Mode::Id => args.numbers(&["query", "q", "numbers", "number", "id"])?,
            _ => Vec::new(),
        };
        let small = |number: Option<u64>| number.and_then(|number| usize::try_from(number).ok());
        let limit = small(args.number(&["limit", "count", "max"])?).unwrap_or(LIMIT).clamp(1, LIMIT_MAX);
        let page = small(args.number(&["page"])?).unwrap_or(1).clamp(1, 1 << 20);
        Ok(Asked { mode, query, regex, numbers, filter, now_ms, limit, page })
    }

    /// What is searched and quoted of an entry; `None` for what these tools were asked and answered, which is found where it was
    /// said. Whoever asks for a number gets what has it, and the answers are there for whoever asks for results of tools.
    fn searched<'a>(&self, stored: &Stored<'a>) -> Option<Cow<'a, str>> {
        if self.mode == Mode::Id || (stored.is_own_answer() && self.filter.role == Some(role::TOOL)) {
            return Some(stored.told());
        }
        (!stored.is_own()).then(|| stored.indexed())
    }

    /// How many are skipped: the pages before.
    fn skip(&self) -> usize {
        (self.page - 1) * self.limit
    }

    /// How many are looked for: one more than the page tells that there is more.
    fn most(&self) -> usize {
        self.skip() + self.limit + 1
    }
}

/// The conversation's own time.
fn now_ms(session: &Session) -> i64 {
    session.rows.last().map_or(0, |row| row.time_ms)
}

fn compiled(pattern: &str) -> Result<Regex, Wrong> {
    let regex = RegexBuilder::new(pattern)
        .case_insensitive(true)
        .size_limit(REGEX_BYTES)
        .dfa_size_limit(REGEX_BYTES)
        .nest_limit(64)
        .build();
    regex.map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => "the regular expression is too large; write a smaller one".to_owned(),
        _ => "the regular expression cannot be read; there are no look-arounds and no back-references; \
              escape ( ) [ ] { } . * + ? ^ $ | \\ where they are meant literally"
            .to_owned(),
    })
}

/// What one session has.
fn gather(session: &Session, context: &Context, asked: &Asked) -> engine_abi::Result<Result<Results, Wrong>> {
    let all = |found| Results { found, stopped_at: None };
    Ok(Ok(match (asked.mode, &asked.regex) {
        (_, Some(regex)) => by_regex(session, context, asked, regex)?,
        (Mode::Id, _) => {
            let found = by_number(session, asked);
            if found.is_empty() && asked.page == 1 {
                return Ok(Err(no_such(session)));
            }
            all(found)
        }
        (Mode::Time, _) => by_time(session, context, asked)?,
        _ => all(words(session, asked)),
    }))
}

fn words(session: &Session, asked: &Asked) -> Vec<Found> {
    let allowed = |ordinal| asked.filter.lets(session, ordinal);
    let ask = Ask { text: &asked.query, name: None, now_ms: asked.now_ms, allowed: &allowed, expands: true };
    // A long message has several passages.
    let hits: Vec<Hit> = crate::find::search(&session.index, &ask, asked.most() * 3);
    let mut seen = HashSet::new();
    let found = hits.into_iter().filter(|hit| seen.insert(hit.ordinal));
    found.map(|hit| Found { ordinal: hit.ordinal, at: hit.bytes.start as usize }).collect()
}

/// Newest first, until there are enough or the time is over.
fn by_regex(session: &Session, context: &Context, asked: &Asked, regex: &Regex) -> engine_abi::Result<Results> {
    let count = Ordinal::try_from(session.rows.len()).unwrap_or(Ordinal::MAX);
    let chunks = (0..count.div_ceil(CHUNK)).rev().map(|chunk| chunk * CHUNK..((chunk + 1) * CHUNK).min(count));
    let place = |text: &str| regex.find(text).map(|matched| matched.start().saturating_sub(BEFORE));
    scan(session, context, asked, chunks, true, &place)
}

/// Oldest first, until there are enough or the time is over.
fn by_time(session: &Session, context: &Context, asked: &Asked) -> engine_abi::Result<Results> {
    let count = Ordinal::try_from(session.rows.len()).unwrap_or(Ordinal::MAX);
    let chunks = (0..count.div_ceil(CHUNK)).map(|chunk| chunk * CHUNK..((chunk + 1) * CHUNK).min(count));
    scan(session, context, asked, chunks, false, &|_| Some(0))
}

/// Looks through chunks of entries; `place` says where in a text what is looked for stands.
fn scan(
    session: &Session,
    context: &Context,
    asked: &Asked,
    chunks: impl Iterator<Item = Range<Ordinal>>,
    newest_first: bool,
    place: &dyn Fn(&str) -> Option<usize>,
) -> engine_abi::Result<Results> {
    let texts = session.texts(context, None);
    let rest = context.remaining() / 4;
    let mut found: Vec<Found> = Vec::new();
    for chunk in chunks {
        if found.len() >= asked.most() {
            break;
        }
        context.check()?;
        if context.remaining() < rest {
            let at = if newest_first { chunk.end } else { chunk.start };
            return Ok(Results { found, stopped_at: Some(at) });
        }
        if !chunk.clone().any(|ordinal| asked.filter.lets(session, ordinal)) {
            continue;
        }
        let from = found.len();
        texts.each(chunk, |ordinal, stored| {
            if asked.filter.lets(session, ordinal)
                && let Some(at) = asked.searched(stored).and_then(|text| place(&text))
            {
                found.push(Found { ordinal, at });
            }
        })?;
        if newest_first {
            found[from..].reverse();
        }
    }
    Ok(Results { found, stopped_at: None })
}

fn by_number(session: &Session, asked: &Asked) -> Vec<Found> {
    let last = session.rows.len() as u64;
    let numbers = asked.numbers.iter().flat_map(|range| *range.start()..=(*range.end()).min(last));
    let found = numbers.filter_map(|number| ordinal(session, number)).map(|ordinal| Found { ordinal, at: 0 });
    found.take(asked.most()).collect()
}

/// The page of what was found in all places together.
fn paged<'a>(asked: &Asked, places: &'a [Place<'a>]) -> (Vec<(&'a Place<'a>, &'a Found)>, bool) {
    let mut ranked: Vec<(usize, &Place<'_>, &Found)> = Vec::new();
    for place in places {
        ranked.extend(place.results.found.iter().enumerate().map(|(rank, found)| (rank, place, found)));
    }
    let time = |place: &Place<'_>, found: &Found| place.session.rows.get(found.ordinal as usize).map(|row| row.time_ms);
    if places.len() > 1 {
        match asked.mode {
            // Scores of two sessions cannot be compared; ranks can.
            Mode::Words | Mode::Id => ranked.sort_by_key(|(rank, ..)| *rank),
            Mode::Time => ranked.sort_by_key(|(_, place, found)| time(place, found)),
            Mode::Regex => ranked.sort_by_key(|(_, place, found)| std::cmp::Reverse(time(place, found))),
        }
    }
    let has_more = ranked.len() > asked.skip() + asked.limit;
    let page = ranked.into_iter().skip(asked.skip()).take(asked.limit);
    (page.map(|(_, place, found)| (place, found)).collect(), has_more)
}

fn shown(context: &Context, asked: &Asked, places: &[Place<'_>], left: usize) -> engine_abi::Result<String> {
    let (page, has_more) = paged(asked, places);
    let mut out = String::new();
    let order = match asked.mode {
        Mode::Words => "best match first",
        Mode::Regex => "newest first",
        Mode::Time => "oldest first",
        Mode::Id => "as asked for",
    };
    match page.len() {
        0 => out.push_str(nothing(asked)),
        1 => out.push_str("1 message"),
        count => {
            let _ = write!(out, "{count} messages, {order}");
        }
    }
    if asked.page > 1 {
        let _ = write!(out, " (page {})", asked.page);
    }
    out.push('\n');
    for (place, Found { ordinal, at }) in page {
        let value = place.session.texts(context, None).value(*ordinal)?;
        let Some(stored) = value.as_deref().and_then(Stored::decode) else {
            let _ = writeln!(out, "{} cannot be read", number(*ordinal));
            continue;
        };
        heading(&mut out, place.session, *ordinal, &stored);
        if let Some(name) = &place.name {
            let _ = write!(out, " · in session {name}");
        }
        out.push('\n');
        let text = asked.searched(&stored).unwrap_or_else(|| stored.told());
        quote::snippet(&mut out, &text, *at, SNIPPET);
    }
    if has_more {
        let _ = writeln!(out, "There are more: ask again with page {}.", asked.page + 1);
    }
    for place in places {
        if let Some(ordinal) = place.results.stopped_at {
            let side = if asked.mode == Mode::Time { "newer" } else { "older" };
            let _ = writeln!(
                out,
                "The time was over before all was searched: what is {side} than {} is not. Narrow it with from and to.",
                number(ordinal)
            );
        }
    }
    if left > 0 {
        let _ = writeln!(out, "The time was over before all was searched: {left} sessions are left out. Name one.");
    }
    Ok(out)
}

fn nothing(asked: &Asked) -> &'static str {
    match asked.mode {
        _ if asked.page > 1 => "No more messages",
        Mode::Words => "Nothing was found for these words. Try other words, mode regex, or from and to",
        Mode::Regex => "Nothing matches. Try mode words, or a shorter pattern",
        Mode::Time => "No message in this time",
        Mode::Id => "No such message",
    }
}
