//! `sessions repair`: what waits or is blocked in a session's outbox, and the operator's hand on it.

use super::args::RepairArgs;
use super::context::Context;
use super::door::segment;
use super::error::{CliError, Verdict};
use super::out::{Cell, Out, Tone, moment, short};
use serde_json::{Value, json};

/// Longest text of a row, in characters.
const TEXT: usize = 80;

pub(super) async fn run(context: &Context, args: &RepairArgs) -> Result<Verdict, CliError> {
    let out = context.out;
    // Only an offer needs an engine; else no line of a library has to run.
    let house = if args.retry { Some(context.open().await?) } else { context.open_store().await? };
    let Some(house) = house else {
        return Err(CliError::Unknown { what: "session", name: args.key.clone(), near: None });
    };
    let action = match (args.retry, args.drop) {
        (true, _) => "retry",
        (_, true) => "drop",
        _ => "list",
    };
    let body = json!({"action": action, "engine": args.engine, "turn": args.turn, "waiting": args.waiting,
        "dryRun": args.dry_run});
    let answer = house.door.post(&format!("/api/sessions/{}/repair", segment(&args.key)), &[], &body).await;
    house.close().await;
    let report = answer?;
    if out.is_json() {
        out.document(&report);
    } else {
        print(&out, &report);
    }
    let left = |name: &str| report.get(name).and_then(Value::as_u64).unwrap_or(0);
    Ok(if left("blocked") > 0 { Verdict::Degraded } else { Verdict::Well })
}

fn print(out: &Out, report: &Value) {
    let rows: Vec<&Value> = report.get("rows").and_then(Value::as_array).into_iter().flatten().collect();
    if rows.is_empty() {
        out.aside("nothing waits to be handed over");
        return;
    }
    let text = |row: &Value, name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let cells: Vec<Vec<Cell>> = rows
        .iter()
        .map(|row| {
            let state = text(row, "state");
            let reason = match (text(row, "reason"), text(row, "lastError")) {
                (code, words) if code.is_empty() => words,
                (code, words) => format!("{code}: {words}"),
            };
            let tone = if state == "blocked" { Tone::Bad } else { Tone::Dim };
            vec![
                text(row, "turn").into(),
                text(row, "engine").into(),
                Cell::toned(state, tone),
                row.get("attempts").and_then(Value::as_u64).unwrap_or(0).to_string().into(),
                moment(row.get("createdMs").and_then(Value::as_i64).unwrap_or(0)).into(),
                text(row, "outcome").into(),
                short(&reason, TEXT).into(),
            ]
        })
        .collect();
    out.table(&["turn", "engine", "state", "attempts", "since", "outcome", "why"], &cells);
    let asked = rows.iter().any(|row| !["listed", "kept"].contains(&text(row, "outcome").as_str()));
    if !asked && rows.iter().any(|row| text(row, "state") == "blocked") {
        out.aside("--retry offers what is blocked again; --drop gives it up; --dry-run shows what would be done");
    }
}
