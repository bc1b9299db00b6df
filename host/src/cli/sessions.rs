//! `sessions`: what is stored, and what the model would see of it.

use super::args::SessionsCommand;
use super::context::{Context, House};
use super::door::segment;
use super::error::{CliError, Verdict};
use super::out::{Cell, Out, Tone, count, moment, short};
use serde_json::{Value, json};

/// Longest text of a row, in characters.
const TEXT: usize = 100;

pub(super) async fn run(context: &Context, command: SessionsCommand) -> Result<Verdict, CliError> {
    let out = context.out;
    // Only a question about the prompt, or a summary, needs an engine; else no line of a library has to run.
    let house = match command {
        SessionsCommand::List { .. } | SessionsCommand::Show { .. } => context.open_store().await?,
        SessionsCommand::Context { .. } | SessionsCommand::Compact { .. } => Some(context.open().await?),
    };
    let Some(house) = house else { return nothing_stored(&out, &command) };
    let outcome = match &command {
        SessionsCommand::List { limit } => list(&out, &house, *limit).await,
        SessionsCommand::Show { key } => show(&out, &house, key).await,
        SessionsCommand::Context { key } => self::context(&out, &house, key).await,
        SessionsCommand::Compact { key, focus } => compact(&out, &house, key, focus.as_deref()).await,
    };
    house.close().await;
    outcome.map(|()| Verdict::Well)
}

fn nothing_stored(out: &Out, command: &SessionsCommand) -> Result<Verdict, CliError> {
    match command {
        SessionsCommand::Show { key } => Err(CliError::Unknown { what: "session", name: key.clone(), near: None }),
        _ => {
            if out.is_json() {
                out.document(&json!({"sessions": []}));
            } else {
                out.aside("no sessions");
            }
            Ok(Verdict::Well)
        }
    }
}

async fn list(out: &Out, house: &House<'_>, limit: usize) -> Result<(), CliError> {
    let document = house.door.get(&format!("/api/sessions?limit={limit}")).await?;
    if out.is_json() {
        out.document(&document);
        return Ok(());
    }
    let sessions: Vec<&Value> = array(&document, "sessions").collect();
    if sessions.is_empty() {
        out.aside("no sessions");
        return Ok(());
    }
    let rows: Vec<Vec<Cell>> = sessions
        .iter()
        .map(|session| {
            vec![
                short(text(session, "key"), TEXT).into(),
                text(session, "agent").into(),
                count(number(session, "entries")).into(),
                moment(session.get("updated_ms").and_then(Value::as_i64).unwrap_or(0)).into(),
            ]
        })
        .collect();
    out.table(&["session", "agent", "entries", "last used"], &rows);
    Ok(())
}

async fn show(out: &Out, house: &House<'_>, key: &str) -> Result<(), CliError> {
    let document = house.door.get(&format!("/api/sessions/{}", segment(key))).await?;
    if out.is_json() {
        out.document(&document);
        return Ok(());
    }
    let moment_of = |name: &str| moment(document.get(name).and_then(Value::as_i64).unwrap_or(0));
    out.line(&format!(
        "{}  agent {}, {} entries in {} branch(es), begun {}, last used {}",
        out.paint(Tone::Strong, &short(text(&document, "key"), TEXT)),
        text(&document, "agent"),
        count(number(&document, "entries")),
        array(&document, "branches").count(),
        moment_of("created_ms"),
        moment_of("updated_ms"),
    ));
    let rows: Vec<Vec<Cell>> = array(&document, "messages").map(message_row).collect();
    if !rows.is_empty() {
        out.table(&["entry", "time", "role", "tokens", "text"], &rows);
    }
    Ok(())
}

fn message_row(entry: &Value) -> Vec<Cell> {
    vec![
        number(entry, "id").to_string().into(),
        moment(entry.get("time_ms").and_then(Value::as_i64).unwrap_or(0)).into(),
        text(entry, "role").into(),
        number(entry, "tokens").to_string().into(),
        short(text(entry, "text"), TEXT).into(),
    ]
}

/// What the model would see now.
pub(super) async fn context(out: &Out, house: &House<'_>, key: &str) -> Result<(), CliError> {
    let document = house.door.get(&format!("/api/sessions/{}/context", segment(key))).await?;
    if out.is_json() {
        out.document(&document);
        return Ok(());
    }
    let degraded = document.get("degraded").and_then(Value::as_str);
    out.line(&format!(
        "engine {}{}, model {}: {}{} of {} tokens",
        out.paint(Tone::Strong, text(&document, "engine")),
        degraded.map(|code| format!(" ({code})")).unwrap_or_default(),
        text(&document, "model"),
        count(number(&document, "tokens")),
        if document.get("estimated").and_then(Value::as_bool) == Some(true) { " (estimated)" } else { "" },
        count(number(&document, "budget")),
    ));
    for (name, label) in
        [("systemPromptAddition", "before the system prompt"), ("volatilePromptAddition", "before the message")]
    {
        if let Some(addition) = document.get(name).and_then(Value::as_str).filter(|addition| !addition.is_empty()) {
            out.line(&format!("{label}: {}", short(addition, TEXT)));
        }
    }
    let rows: Vec<Vec<Cell>> = array(&document, "entries")
        .map(|entry| {
            let shown = entry.get("shown").and_then(Value::as_bool) == Some(true);
            vec![
                entry.get("id").and_then(Value::as_u64).map_or_else(|| "new".to_owned(), |id| id.to_string()).into(),
                text(entry, "role").into(),
                number(entry, "tokens").to_string().into(),
                if shown { Cell::toned("shown", Tone::Good) } else { Cell::toned("left out", Tone::Dim) },
                short(text(entry, "why"), TEXT).into(),
                short(text(entry, "text"), TEXT).into(),
            ]
        })
        .collect();
    out.table(&["entry", "role", "tokens", "model", "why", "text"], &rows);
    Ok(())
}

async fn compact(out: &Out, house: &House<'_>, key: &str, focus: Option<&str>) -> Result<(), CliError> {
    let body = focus.map_or_else(|| json!({}), |focus| json!({"focus": focus}));
    let path = format!("/api/sessions/{}/compact", segment(key));
    let report = house.door.post(&path, &[], &body).await?;
    if out.is_json() {
        out.document(&report);
    } else if report.get("compacted").and_then(Value::as_bool) == Some(true) {
        out.line(&format!(
            "compacted by {}: {} tokens before, {} after",
            text(&report, "engine"),
            count(number(&report, "tokensBefore")),
            count(number(&report, "tokensAfter"))
        ));
        if let Some(summary) = report.get("summary").and_then(Value::as_str) {
            out.line(&format!("\n{}", summary.trim_end()));
        }
    } else {
        out.line(&format!("not compacted: {}", text(&report, "reason")));
    }
    Ok(())
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or(0)
}

fn array<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}
