//! `sessions spawn` and `sessions subagents`: children of a session.

use super::args::SpawnArgs;
use super::context::House;
use super::door::segment;
use super::error::CliError;
use super::out::{Cell, Out, Tone, count, moment, short};
use super::sessions::{array, number, text};
use serde_json::{Map, Value, json};

/// Longest text of a row, in characters.
const TEXT: usize = 60;

pub(super) async fn list(out: &Out, house: &House<'_>, key: &str, end: Option<&str>) -> Result<(), CliError> {
    let path = format!("/api/sessions/{}/subagents", segment(key));
    if let Some(child) = end {
        house.door.delete(&format!("{path}/{}", segment(child))).await?;
    }
    let document = house.door.get(&path).await?;
    if out.is_json() {
        out.document(&document);
        return Ok(());
    }
    let rows: Vec<Vec<Cell>> = array(&document, "subagents").map(row).collect();
    if rows.is_empty() {
        out.aside("no subagents");
    } else {
        out.table(
            &["subagent", "label", "mode", "state", "turns", "tools", "tokens", "seconds", "begun", "why"],
            &rows,
        );
    }
    Ok(())
}

fn row(child: &Value) -> Vec<Cell> {
    let used = |name: &str| {
        let (used, most) = (of(child, "usage", name), of(child, "budgets", &bound(name)));
        if most == 0 { count(used) } else { format!("{} of {}", count(used), count(most)) }
    };
    let state = text(child, "state");
    let tone = match state {
        "completed" => Tone::Good,
        "swept" | "released" => Tone::Bad,
        _ => Tone::Dim,
    };
    let why = [text(child, "cause"), text(child, "note")].into_iter().find(|why| !why.is_empty()).unwrap_or_default();
    vec![
        text(child, "child").into(),
        short(text(child, "label"), TEXT).into(),
        text(child, "mode").into(),
        Cell::toned(state, tone),
        used("turns").into(),
        used("toolCalls").into(),
        used("tokens").into(),
        format!("{:.1}", of(child, "usage", "timeMs") as f64 / 1e3).into(),
        moment(child.get("createdMs").and_then(Value::as_i64).unwrap_or(0)).into(),
        short(why, TEXT).into(),
    ]
}

fn of(child: &Value, part: &str, name: &str) -> u64 {
    child.get(part).map_or(0, |part| number(part, name))
}

/// `toolCalls` is bounded by `maxToolCalls`.
fn bound(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase()).unwrap_or_default();
    format!("max{first}{}", letters.as_str())
}

/// True when the subagent gave a result, or runs.
pub(super) async fn spawn(out: &Out, house: &House<'_>, args: &SpawnArgs, running: bool) -> Result<bool, CliError> {
    if args.no_wait && !running {
        return Err(CliError::Usage("--no-wait needs a running gateway: without one, nobody is left to run it".into()));
    }
    let mut budgets = Map::new();
    for (name, bound) in [
        ("maxTurns", args.max_turns),
        ("maxToolCalls", args.max_tool_calls),
        ("maxTokens", args.max_tokens),
        ("timeMs", args.time_ms),
    ] {
        if let Some(bound) = bound {
            budgets.insert(name.into(), bound.into());
        }
    }
    let body = json!({
        "task": args.text.join(" "),
        "mode": if args.fork { "fork" } else { "isolated" },
        "lightContext": args.light,
        "agent": args.agent,
        "label": args.label,
        "ttlMs": args.ttl_ms,
        "budgets": budgets,
        "wait": !args.no_wait,
    });
    let child = house.door.post(&format!("/api/sessions/{}/subagents", segment(&args.key)), &[], &body).await?;
    let well = matches!(text(&child, "state"), "running" | "completed");
    if out.is_json() {
        out.document(&child);
        return Ok(well);
    }
    if let Some(note) = child.get("note").and_then(Value::as_str) {
        out.aside(note);
    }
    match child.get("result").and_then(Value::as_str) {
        Some(result) => out.line(result),
        None if well => out.line(&format!("{} runs", out.paint(Tone::Strong, text(&child, "child")))),
        None => out.line(&format!("{} {}: {}", text(&child, "child"), text(&child, "state"), text(&child, "cause"))),
    }
    Ok(well)
}
