//! `sessions turns`: who served, what it took, and why another did not.

use super::{TEXT, array, number, text};
use crate::cli::context::House;
use crate::cli::door::segment;
use crate::cli::error::CliError;
use crate::cli::out::{Cell, Out, Tone, count, moment, short};
use serde_json::Value;

pub(super) async fn turns(
    out: &Out,
    house: &House<'_>,
    key: &str,
    limit: usize,
    before: Option<&str>,
) -> Result<(), CliError> {
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
    if let Some(code) = turn.pointer("/memory/code").and_then(Value::as_str) {
        remarks.push(format!("no memory ({code})"));
    }
    if let Some(said) = turn.get("tools_withheld").and_then(Value::as_str) {
        remarks.push(format!("no tools offered: {said}"));
    }
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
