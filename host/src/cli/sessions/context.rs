//! `sessions context`: what the model would see now, entry by entry.

use super::{TEXT, array, number, text};
use crate::cli::context::House;
use crate::cli::door::segment;
use crate::cli::error::CliError;
use crate::cli::out::{Cell, Out, Tone, count, printable, short};
use serde_json::Value;

/// Entries in a row that fare alike are told one by one up to this number.
const ALIKE: usize = 8;

/// How it is asked.
#[derive(Debug, Clone, Default)]
pub(in crate::cli) struct Ask {
    /// First do what the next turn would.
    pub(in crate::cli) take_up: bool,
    /// As if this were the next user message.
    pub(in crate::cli) question: Option<String>,
    /// Whole texts instead of a table.
    pub(in crate::cli) full: bool,
    /// Every entry, one by one.
    pub(in crate::cli) all: bool,
}

/// What the model would see now.
pub(in crate::cli) async fn context(out: &Out, house: &House<'_>, key: &str, ask: &Ask) -> Result<(), CliError> {
    let mut query = format!("?take_up={}", ask.take_up);
    if let Some(question) = &ask.question {
        query += &format!("&ask={}", segment(question));
    }
    let document = house.door.get(&format!("/api/sessions/{}/context{query}", segment(key))).await?;
    if out.is_json() {
        out.document(&document);
        return Ok(());
    }
    head(out, &document, ask.full);
    if ask.full {
        array(&document, "entries")
            .filter(|entry| ask.all || entry["shown"] == true)
            .for_each(|entry| whole(out, entry));
        return Ok(());
    }
    let entries: Vec<&Value> = array(&document, "entries").collect();
    let mut rows = Vec::with_capacity(entries.len());
    for alike in entries.chunk_by(|a, b| fate(a) == fate(b)) {
        match alike {
            [first, between @ .., last] if !ask.all && alike.len() > ALIKE => {
                rows.push(row(first));
                rows.push(gap(between));
                rows.push(row(last));
            }
            each => rows.extend(each.iter().map(|entry| row(entry))),
        }
    }
    out.table(&["#", "entry", "role", "tokens", "state", "span", "why", "text"], &rows);
    out.aside(
        "#: place among the session's messages, as engines that number what they show count them; entry: the store's id",
    );
    Ok(())
}

/// An entry with all of its text.
fn whole(out: &Out, entry: &Value) {
    out.line("");
    let (place, id) = (number_of(entry, "number"), number_of(entry, "id"));
    let name = match (place.as_str(), id.as_str()) {
        ("", "") => "new".to_owned(),
        ("", id) => format!("entry {id}"),
        (place, id) => format!("#{place}, entry {id}"),
    };
    let head = format!(
        "── {name}, {}, {} tokens, {}: {}",
        text(entry, "role"),
        count(number(entry, "tokens")),
        text(entry, "state"),
        short(text(entry, "why"), TEXT)
    );
    out.line(&out.paint(Tone::Strong, &head));
    text(entry, "text").lines().for_each(|line| out.line(&printable(line)));
}

fn number_of(entry: &Value, name: &str) -> String {
    entry.get(name).and_then(Value::as_u64).map(|number| number.to_string()).unwrap_or_default()
}

fn head(out: &Out, document: &Value, full: bool) {
    let degraded = document.get("degraded").and_then(Value::as_str);
    out.line(&format!(
        "engine {}{}, model {}: {}{} of {} tokens",
        out.paint(Tone::Strong, text(document, "engine")),
        degraded.map(|code| format!(" ({code})")).unwrap_or_default(),
        text(document, "model"),
        count(number(document, "tokens")),
        if document.get("estimated").and_then(Value::as_bool) == Some(true) { " (estimated)" } else { "" },
        count(number(document, "budget")),
    ));
    for passed in array(document, "passed") {
        out.line(&format!("{} would be passed over: {}", text(passed, "engine"), text(passed, "reason")));
    }
    let totals = &document["totals"];
    let sums = ["kept", "pruned", "made", "summarised", "dropped"].into_iter().filter_map(|state| {
        let sum = totals.get(state)?;
        let entries = number(sum, "entries");
        (entries > 0).then(|| format!("{state} {} ({} tokens)", count(entries), count(number(sum, "tokens"))))
    });
    out.line(&sums.collect::<Vec<_>>().join(", "));
    let fixed = [("additions", "additions"), ("system_prompt", "system prompt"), ("tools", "tools")];
    let fixed = fixed.into_iter().filter(|(name, _)| number(totals, name) > 0);
    let fixed: Vec<String> = fixed.map(|(name, label)| format!("{label} {}", count(number(totals, name)))).collect();
    if !fixed.is_empty() {
        out.line(&format!("besides, in tokens: {}", fixed.join(", ")));
    }
    for (name, label) in [
        ("systemPromptAddition", "before the system prompt"),
        ("volatilePromptAddition", "before the message"),
        ("memorySection", "memory, as prepared"),
    ] {
        if let Some(addition) = document.get(name).and_then(Value::as_str).filter(|addition| !addition.is_empty()) {
            if full {
                out.line(&out.paint(Tone::Strong, &format!("── {label}:")));
                addition.lines().for_each(|line| out.line(&printable(line)));
            } else {
                out.line(&format!("{label}: {}", short(addition, TEXT)));
            }
        }
    }
    if document.get("wouldCompact").and_then(Value::as_bool) == Some(true) {
        out.line("over its budget: the next turn would compact first; this is what trimming alone would leave");
    }
    if let Some(question) = document.get("asked").and_then(Value::as_str) {
        out.aside(&format!("as if this were asked, and kept nowhere: {}", short(question, TEXT)));
    }
    for note in array(document, "notes").filter_map(Value::as_str) {
        out.aside(note);
    }
}

/// What two entries must have in common to be told as one run.
fn fate(entry: &Value) -> (&str, u64, &str) {
    (text(entry, "state"), number(entry, "span"), text(entry, "why"))
}

fn row(entry: &Value) -> Vec<Cell> {
    let state = text(entry, "state");
    let tone = match state {
        "kept" => Tone::Good,
        "pruned" | "summary" | "made" => Tone::Warn,
        _ => Tone::Dim,
    };
    let tokens = match entry.get("stored_tokens").and_then(Value::as_u64) {
        Some(stored) => format!("{} of {stored}", number(entry, "tokens")),
        None => number(entry, "tokens").to_string(),
    };
    let span = number(entry, "span");
    vec![
        number_of(entry, "number").into(),
        entry.get("id").and_then(Value::as_u64).map_or_else(|| "new".to_owned(), |id| id.to_string()).into(),
        text(entry, "role").into(),
        tokens.into(),
        Cell::toned(state, tone),
        if span == 0 { "".into() } else { span.to_string().into() },
        short(text(entry, "why"), TEXT).into(),
        short(text(entry, "text"), TEXT).into(),
    ]
}

fn gap(between: &[&Value]) -> Vec<Cell> {
    let tokens: u64 = between.iter().map(|entry| number(entry, "tokens")).sum();
    let more = format!("… {} more like these", count(between.len() as u64));
    vec![
        "…".into(),
        "".into(),
        "".into(),
        count(tokens).into(),
        "".into(),
        "".into(),
        "".into(),
        Cell::toned(more, Tone::Dim),
    ]
}
