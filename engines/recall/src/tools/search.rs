//! `recall_search`: messages by words, by a regular expression, by time, or by number.

use super::args::Wrong;
use super::{Answer, Desk, heading, no_such, number, ordinal, parameter, quote, when};
use crate::find::{Ask, Hit};
use crate::index::Ordinal;
use crate::session::{Session, Stored};
use engine_abi::wire::role;
use regex::{Regex, RegexBuilder};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fmt::Write as _;
use std::ops::Range;

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

pub(super) fn parameters() -> Value {
    json!({
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
    })
}

/// A message that was found, and where in it.
struct Found {
    ordinal: Ordinal,
    at: usize,
}

/// What was found for one page.
struct Results {
    found: Vec<Found>,
    has_more: bool,
    /// How they are ordered.
    order: &'static str,
    /// Not everything was searched: down to this ordinal.
    stopped_at: Option<Ordinal>,
}

/// What narrows a search.
struct Filter {
    role: Option<u32>,
    time: Range<i64>,
}

impl Filter {
    fn read(desk: &Desk<'_>) -> Result<Filter, Wrong> {
        let role = match desk.args.text(&["role"]).map(|role| role.to_lowercase()).as_deref() {
            None | Some("any" | "all") => None,
            Some("user" | "person" | "human") => Some(role::USER),
            Some("assistant" | "model" | "ai") => Some(role::ASSISTANT),
            Some("tool") => Some(role::TOOL),
            Some(_) => return Err("`role` must be user, assistant or tool".to_owned()),
        };
        let now = now_ms(desk.session);
        let stretch = |name: &str| match desk.args.text(&[name]) {
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
    let asked = match Asked::read(&desk) {
        Ok(asked) => asked,
        Err(wrong) => return Ok(Err(wrong)),
    };
    let results = match asked.mode {
        Mode::Words => words(&desk, &asked),
        Mode::Regex => match compiled(&asked.query) {
            Ok(regex) => by_regex(&desk, &asked, &regex)?,
            Err(wrong) => return Ok(Err(wrong)),
        },
        Mode::Time => by_time(&desk, &asked),
        Mode::Id => match by_number(&desk, &asked) {
            Ok(results) => results,
            Err(wrong) => return Ok(Err(wrong)),
        },
    };
    shown(&desk, &asked, &results).map(Ok)
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
    filter: Filter,
    limit: usize,
    skip: usize,
    page: usize,
}

impl Asked {
    fn read(desk: &Desk<'_>) -> Result<Asked, Wrong> {
        let args = &desk.args;
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
        let mut filter = Filter::read(desk)?;
        if mode == Mode::Time && !bounded {
            let day = query.as_deref().and_then(|query| when::when(query, now_ms(desk.session)));
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
        let small = |number: Option<u64>| number.and_then(|number| usize::try_from(number).ok());
        let limit = small(args.number(&["limit", "count", "max"])?).unwrap_or(LIMIT).clamp(1, LIMIT_MAX);
        let page = small(args.number(&["page"])?).unwrap_or(1).clamp(1, 1 << 20);
        Ok(Asked { mode, query, filter, limit, skip: (page - 1) * limit, page })
    }

    /// The page of what was found, one more than a page telling that there is more.
    fn page(&self, found: impl Iterator<Item = Found>, order: &'static str) -> Results {
        let mut found: Vec<Found> = found.skip(self.skip).take(self.limit + 1).collect();
        let has_more = found.len() > self.limit;
        found.truncate(self.limit);
        Results { found, has_more, order, stopped_at: None }
    }
}

/// The conversation's own time.
fn now_ms(session: &Session) -> i64 {
    session.rows.last().map_or(0, |row| row.time_ms)
}

fn words(desk: &Desk<'_>, asked: &Asked) -> Results {
    let session = &*desk.session;
    let allowed = |ordinal| asked.filter.lets(session, ordinal);
    let ask = Ask { text: &asked.query, name: None, now_ms: now_ms(session), allowed: &allowed };
    let wanted = asked.skip + asked.limit + 1;
    // A long message has several passages.
    let hits: Vec<Hit> = crate::find::search(&session.index, &ask, wanted * 3);
    let mut seen = HashSet::new();
    let found = hits.into_iter().filter(|hit| seen.insert(hit.ordinal));
    asked.page(found.map(|hit| Found { ordinal: hit.ordinal, at: hit.bytes.start as usize }), "best match first")
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

/// Newest first, until the page is full or the time is over.
fn by_regex(desk: &Desk<'_>, asked: &Asked, regex: &Regex) -> engine_abi::Result<Results> {
    let session = &*desk.session;
    let texts = session.texts(desk.context, None);
    let rest = desk.context.remaining() / 4;
    let mut found: Vec<Found> = Vec::new();
    let mut end = Ordinal::try_from(session.rows.len()).unwrap_or(Ordinal::MAX);
    let mut stopped_at = None;
    while end > 0 && found.len() <= asked.skip + asked.limit {
        desk.context.check()?;
        if desk.context.remaining() < rest {
            stopped_at = Some(end);
            break;
        }
        let start = end.saturating_sub(CHUNK);
        if (start..end).any(|ordinal| asked.filter.lets(session, ordinal)) {
            let mut chunk: Vec<Found> = Vec::new();
            texts.each(start..end, |ordinal, stored| {
                if asked.filter.lets(session, ordinal)
                    && let Some(matched) = regex.find(&stored.told())
                {
                    chunk.push(Found { ordinal, at: matched.start().saturating_sub(BEFORE) });
                }
            })?;
            found.extend(chunk.into_iter().rev());
        }
        end = start;
    }
    Ok(Results { stopped_at, ..asked.page(found.into_iter(), "newest first") })
}

fn by_time(desk: &Desk<'_>, asked: &Asked) -> Results {
    let session = &*desk.session;
    let all = 0..Ordinal::try_from(session.rows.len()).unwrap_or(Ordinal::MAX);
    let found = all.filter(|ordinal| asked.filter.lets(session, *ordinal));
    asked.page(found.map(|ordinal| Found { ordinal, at: 0 }), "oldest first")
}

fn by_number(desk: &Desk<'_>, asked: &Asked) -> Result<Results, Wrong> {
    let ranges = desk.args.numbers(&["query", "q", "numbers", "number", "id"])?;
    let session = &*desk.session;
    let last = session.rows.len() as u64;
    let numbers = ranges.into_iter().flat_map(|range| *range.start()..=(*range.end()).min(last));
    let found = numbers.filter_map(|number| ordinal(session, number)).map(|ordinal| Found { ordinal, at: 0 });
    let results = asked.page(found, "as asked for");
    if results.found.is_empty() { Err(no_such(session)) } else { Ok(results) }
}

fn shown(desk: &Desk<'_>, asked: &Asked, results: &Results) -> engine_abi::Result<String> {
    let texts = desk.session.texts(desk.context, None);
    let mut out = String::new();
    match results.found.len() {
        0 => out.push_str(nothing(asked)),
        count => {
            let what = if count == 1 { "message" } else { "messages" };
            let _ = write!(out, "{count} {what}, {}", results.order);
        }
    }
    if asked.page > 1 {
        let _ = write!(out, " (page {})", asked.page);
    }
    out.push('\n');
    for Found { ordinal, at } in &results.found {
        let value = texts.value(*ordinal)?;
        let Some(stored) = value.as_deref().and_then(Stored::decode) else {
            let _ = writeln!(out, "#{} cannot be read", number(*ordinal));
            continue;
        };
        heading(&mut out, *ordinal, &stored);
        out.push('\n');
        quote::snippet(&mut out, &stored.told(), *at, SNIPPET);
    }
    if results.has_more {
        let _ = writeln!(out, "There are more: ask again with page {}.", asked.page + 1);
    }
    if let Some(ordinal) = results.stopped_at {
        let _ = writeln!(
            out,
            "The time was over before all was searched: what is older than #{} is not. Narrow it with from and to.",
            number(ordinal)
        );
    }
    Ok(out)
}

fn nothing(asked: &Asked) -> &'static str {
    match asked.mode {
        _ if asked.page > 1 => "No more messages",
        Mode::Words => "Nothing was found for these words. Try other words, mode regex, or from and to",
        Mode::Regex => "Nothing matches. Try mode words, or a shorter pattern",
        Mode::Time | Mode::Id => "No message in this time",
    }
}
