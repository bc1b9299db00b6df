//! `sessions`: what is stored, and what the model would see of it.

use super::args::SessionsCommand;
use super::context::{Context, House};
use super::door::segment;
use super::error::{CliError, Verdict};
use super::out::{Cell, Out, Tone, count, moment, short};
use super::repair;
use serde_json::{Value, json};

/// Longest text of a row, in characters.
const TEXT: usize = 100;

pub(super) async fn run(context: &Context, command: SessionsCommand) -> Result<Verdict, CliError> {
    let out = context.out;
    if let SessionsCommand::Repair(args) = &command {
        return repair::run(context, args).await;
    }
    // Where nothing is asked of an engine, no line of a library has to run.
    let house = match command {
        SessionsCommand::List { .. }
        | SessionsCommand::Show { .. }
        | SessionsCommand::Turns { .. }
        | SessionsCommand::Repair(_) => context.open_store().await?,
        // Engines are asked, or told.
        SessionsCommand::Context { .. }
        | SessionsCommand::Compact { .. }
        | SessionsCommand::Reset { .. }
        | SessionsCommand::Delete { .. } => Some(context.open().await?),
    };
    let Some(house) = house else { return nothing_stored(&out, &command) };
    let outcome = match &command {
        SessionsCommand::List { limit } => list(&out, &house, *limit).await,
        SessionsCommand::Show { key } => show(&out, &house, key).await,
        SessionsCommand::Context { key } => self::context(&out, &house, key).await,
        SessionsCommand::Turns { key, limit, before } => turns(&out, &house, key, *limit, before.as_deref()).await,
        SessionsCommand::Reset { key } => reset(&out, &house, key).await,
        SessionsCommand::Delete { key } => delete(&out, &house, key).await,
        SessionsCommand::Compact { key, focus } => compact(&out, &house, key, focus.as_deref()).await,
        SessionsCommand::Repair(_) => Ok(()),
    };
    house.close().await;
    outcome.map(|()| Verdict::Well)
}

fn nothing_stored(out: &Out, command: &SessionsCommand) -> Result<Verdict, CliError> {
    match command {
        SessionsCommand::Show { key } | SessionsCommand::Turns { key, .. } => {
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

async fn turns(out: &Out, house: &House<'_>, key: &str, limit: usize, before: Option<&str>) -> Result<(), CliError> {
    let before = before.map(|turn| format!("&before={}", segment(turn))).unwrap_or_default();
    let document = house.door.get(&format!("/api/sessions/{}/turns?limit={limit}{before}", segment(key))).await?;
    if out.is_json() {
        out.document(&document);
        return Ok(());
    }
    let rows: Vec<Vec<Cell>> = array(&document, "turns").map(turn_row).collect();
    if rows.is_empty() {
        out.aside("no turns");
        return Ok(());
    }
    out.table(&["turn", "begun", "outcome", "engine", "tokens", "ms", "hooks", "remarks"], &rows);
    if document.get("more").and_then(Value::as_bool) == Some(true) {
        let last = array(&document, "turns").last().map(|turn| text(turn, "turn_id")).unwrap_or_default();
        out.aside(&format!("there are older ones: --before {last}"));
    }
    Ok(())
}

fn turn_row(turn: &Value) -> Vec<Cell> {
    let degraded = text(turn, "degraded");
    let engine = match degraded {
        "" => text(turn, "engine").into(),
        code => Cell::toned(format!("{} ({code})", text(turn, "engine")), Tone::Warn),
    };
    let took = number(turn, "ended_ms").saturating_sub(number(turn, "started_ms"));
    let hooks: Vec<String> = array(turn, "hooks")
        .map(|call| match call.get("took_us").and_then(Value::as_u64) {
            Some(us) => format!("{} {:.1}", text(call, "hook"), us as f64 / 1e3),
            None => format!("{} hung", text(call, "hook")),
        })
        .collect();
    let said = |name: &'static str, words: fn(&Value) -> String| array(turn, name).map(words).collect::<Vec<_>>();
    let mut remarks = said("passed", |passed| {
        format!("{} passed over ({}): {}", text(passed, "engine"), text(passed, "code"), text(passed, "reason"))
    });
    remarks.extend(said("ladder", |step| {
        format!("{} {} → {}", text(step, "step"), count(number(step, "before")), count(number(step, "after")))
    }));
    remarks.extend(turn.get("error").and_then(Value::as_str).map(str::to_owned));
    vec![
        text(turn, "turn_id").into(),
        moment(turn.get("started_ms").and_then(Value::as_i64).unwrap_or(0)).into(),
        text(turn, "outcome").into(),
        engine,
        format!("{}/{}", count(number(&turn["tokens"], "prompt")), count(number(&turn["tokens"], "limit"))).into(),
        if number(turn, "ended_ms") == 0 { "".into() } else { count(took).into() },
        short(&hooks.join(", "), TEXT).into(),
        short(&remarks.join("; "), TEXT * 2).into(),
    ]
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
