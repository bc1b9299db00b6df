//! `sessions`: what is stored, and what the model would see of it.

mod context;
mod turns;

pub(in crate::cli) use context::{Ask, context};

use crate::cli::args::SessionsCommand;
use crate::cli::context::{Context, House};
use crate::cli::door::segment;
use crate::cli::error::{CliError, Verdict};
use crate::cli::out::{Cell, Out, Tone, count, moment, short};
use crate::cli::repair;
use crate::cli::subagents;
use serde_json::{Value, json};

/// Longest text of a row, in characters.
const TEXT: usize = 100;

pub(in crate::cli) async fn run(context: &Context, command: SessionsCommand) -> Result<Verdict, CliError> {
    let out = context.out;
    if let SessionsCommand::Repair(args) = &command {
        return repair::run(context, args).await;
    }
    // Where nothing is asked of an engine, no line of a library has to run.
    let house = match command {
        SessionsCommand::List { .. }
        | SessionsCommand::Show { .. }
        | SessionsCommand::Turns { .. }
        | SessionsCommand::Repair(_)
        | SessionsCommand::Subagents { end: None, .. } => context.open_store().await?,
        // Engines are asked, or told.
        SessionsCommand::Context { .. }
        | SessionsCommand::Compact { .. }
        | SessionsCommand::Reset { .. }
        | SessionsCommand::Delete { .. }
        | SessionsCommand::Subagents { .. }
        | SessionsCommand::Spawn(_) => Some(context.open().await?),
    };
    let Some(house) = house else { return nothing_stored(&out, &command) };
    let outcome = match &command {
        SessionsCommand::List { limit } => list(&out, &house, *limit).await,
        SessionsCommand::Show { key } => show(&out, &house, key).await,
        SessionsCommand::Context { key, take_up, ask, all, full } => {
            let ask = Ask { take_up: *take_up, question: ask.clone(), all: *all, full: *full };
            self::context(&out, &house, key, &ask).await
        }
        SessionsCommand::Turns { key, limit, before } => {
            turns::turns(&out, &house, key, *limit, before.as_deref()).await
        }
        SessionsCommand::Reset { key } => reset(&out, &house, key).await,
        SessionsCommand::Delete { key } => delete(&out, &house, key).await,
        SessionsCommand::Compact { key, focus } => compact(&out, &house, key, focus.as_deref()).await,
        SessionsCommand::Repair(_) => Ok(()),
        SessionsCommand::Subagents { key, end } => subagents::list(&out, &house, key, end.as_deref()).await,
        SessionsCommand::Spawn(args) => match subagents::spawn(&out, &house, args, context.running().is_some()).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                house.close().await;
                return Ok(Verdict::Degraded);
            }
            Err(error) => Err(error),
        },
    };
    house.close().await;
    outcome.map(|()| Verdict::Well)
}

fn nothing_stored(out: &Out, command: &SessionsCommand) -> Result<Verdict, CliError> {
    match command {
        SessionsCommand::Show { key } | SessionsCommand::Turns { key, .. } | SessionsCommand::Subagents { key, .. } => {
            Err(CliError::Unknown { what: "session", name: key.clone(), near: None })
        }
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
    if let Some(catch_up) = document.get("catchUp") {
        out.line(&format!(
            "{} is catching up: {} of {} messages",
            text(catch_up, "engine"),
            count(number(catch_up, "read")),
            count(number(catch_up, "entries"))
        ));
    }
    array(&document, "maintenance").for_each(|work| out.line(&maintenance_line(work)));
    Ok(())
}

/// What an engine does for the session beside turns.
fn maintenance_line(work: &Value) -> String {
    let kinds: Vec<&str> = array(work, "kinds").filter_map(Value::as_str).collect();
    let doing = if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
    let mut line = format!("maintenance by {}: {}{doing}", text(work, "engine"), text(work, "state"));
    if let Some(last) = work.get("last") {
        line += &format!("; last run {} after {} ms", text(last, "outcome"), number(last, "durationMs"));
        let reason = text(last, "reason");
        if !reason.is_empty() {
            line += &format!(": {}", short(reason, TEXT));
        }
    }
    line
}

fn message_row(entry: &Value) -> Vec<Cell> {
    vec![
        number(entry, "id").to_string().into(),
        moment(entry.get("time_ms").and_then(Value::as_i64).unwrap_or(0)).into(),
        text(entry, "role").into(),
        number(entry, "tokens").to_string().into(),
        short(&said(entry), TEXT).into(),
    ]
}

/// A message's text, or which tools it calls when it says nothing else.
fn said(entry: &Value) -> String {
    let calls = entry.pointer("/message/tool_calls").and_then(Value::as_array);
    let names: Vec<&str> =
        calls.into_iter().flatten().filter_map(|call| call.pointer("/function/name")?.as_str()).collect();
    match text(entry, "text") {
        "" if !names.is_empty() => format!("calls {}", names.join(", ")),
        text => text.to_owned(),
    }
}

async fn reset(out: &Out, house: &House<'_>, key: &str) -> Result<(), CliError> {
    let report = house.door.post(&format!("/api/sessions/{}/reset", segment(key)), &[], &json!({})).await?;
    ended(out, &report, "begun anew; its history stays as another branch");
    Ok(())
}

async fn delete(out: &Out, house: &House<'_>, key: &str) -> Result<(), CliError> {
    let report = house.door.delete(&format!("/api/sessions/{}", segment(key))).await?;
    ended(out, &report, "deleted");
    Ok(())
}

fn ended(out: &Out, report: &Value, what: &str) {
    if out.is_json() {
        out.document(report);
        return;
    }
    out.line(&format!("{}: {what}", short(text(report, "key"), TEXT)));
    for engine in array(report, "engines") {
        match engine.get("reason").and_then(Value::as_str) {
            None => out.line(&format!("  {} was told", text(engine, "engine"))),
            Some(reason) => out.line(&format!("  {} was not told: {reason}", text(engine, "engine"))),
        }
    }
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
        if let Some(to) = report.pointer("/successor/to").and_then(Value::as_str) {
            out.line(&format!("the session goes on under the id {to}"));
        }
        if let Some(summary) = report.get("summary").and_then(Value::as_str) {
            out.line(&format!("\n{}", summary.trim_end()));
        }
    } else {
        out.line(&format!("not compacted: {}", text(&report, "reason")));
    }
    Ok(())
}

pub(super) fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or(0)
}

pub(super) fn array<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_only_calls_tools_says_which() {
        let calls = json!([{"function": {"name": "look"}}, {"function": {"name": "note"}}]);
        assert_eq!(said(&json!({"text": "", "message": {"tool_calls": calls}})), "calls look, note");
        assert_eq!(said(&json!({"text": "Let me see.", "message": {"tool_calls": calls}})), "Let me see.");
        assert_eq!(said(&json!({"text": "", "message": {}})), "");
    }
}
