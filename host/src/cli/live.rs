//! What a running gateway knows of an engine, in lines for people.

use super::context::Context;
use super::door::segment;
use super::error::CliError;
use super::out::{Out, Tone, count, short};
use serde_json::Value;

/// What the running gateway tells of these engines; empty when none runs. An engine that it does not know is left out.
pub(super) async fn engines(context: &Context, ids: &[String]) -> Result<Vec<Value>, CliError> {
    let Some(door) = context.remote()? else { return Ok(Vec::new()) };
    let mut known = Vec::with_capacity(ids.len());
    for id in ids {
        match door.get(&format!("/api/engines/{}", segment(id))).await {
            Ok(engine) => known.push(engine),
            Err(CliError::Refused { status: 404, .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(known)
}

/// State, calls with their times, what waits, and what it found while it watched.
pub(super) fn show(out: &Out, engine: &Value) {
    let text = |name: &str| engine.get(name).and_then(Value::as_str).unwrap_or_default();
    let tone = if text("state") == "ready" { Tone::Good } else { Tone::Bad };
    let mut head = format!("engine {}: {}", out.paint(Tone::Strong, text("id")), out.paint(tone, text("state")));
    if engine.get("effective").and_then(Value::as_bool) == Some(true) {
        head.push_str(", serves");
    }
    out.line(&head);
    if !text("reason").is_empty() {
        out.line(&format!("  because    {}", short(text("reason"), 400)));
    }
    for (hook, calls) in engine.get("hooks").and_then(Value::as_object).into_iter().flatten() {
        let number = |name: &str| calls.get(name).and_then(Value::as_f64).unwrap_or(0.0);
        let failures = calls.get("failures").and_then(Value::as_u64).unwrap_or(0);
        let failed = if failures == 0 { String::new() } else { format!(", {} failed", count(failures)) };
        out.line(&format!(
            "  {hook:<10} {} calls{failed}, mean {:.2} ms, p99 {:.2} ms",
            count(calls.get("count").and_then(Value::as_u64).unwrap_or(0)),
            number("mean_us") / 1e3,
            number("p99_us") / 1e3,
        ));
    }
    for waiting in engine.get("backlog").and_then(Value::as_array).into_iter().flatten() {
        let number = |name: &str| waiting.get(name).and_then(Value::as_u64).unwrap_or(0);
        let session = waiting.get("session").and_then(Value::as_str).unwrap_or_default();
        out.line(&format!(
            "  waiting    {}: {} turn(s), {} blocked",
            short(session, 100),
            number("turns"),
            number("blocked")
        ));
    }
    if let Some(shadow) = engine.get("shadow") {
        let number = |name: &str| count(shadow.get(name).and_then(Value::as_u64).unwrap_or(0));
        out.line(&format!(
            "  watched    {} turns, the same in {}; only the first showed {} entries ({} tokens), only this one {} ({} tokens)",
            number("compared"),
            number("same"),
            number("onlyFirstEntries"),
            number("onlyFirstTokens"),
            number("onlyShadowEntries"),
            number("onlyShadowTokens"),
        ));
    }
}
