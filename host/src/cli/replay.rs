//! `replay`: what the model would have seen of a recorded conversation.

use super::args::{Format, ReplayArgs};
use super::context::Context;
use super::error::{CliError, Verdict};
use super::out::{Cell, Out, Tone, count, short};
use crate::turn::replay::{self, CompactionReport, ConversationReport, ReplayOptions, ReplayReport};
use serde_json::Value;

pub(super) async fn run(context: &Context, args: ReplayArgs) -> Result<Verdict, CliError> {
    let out = context.out;
    let shown = args.file.display().to_string();
    let text = tokio::fs::read_to_string(&args.file).await;
    let text = text.map_err(|source| CliError::Read { path: shown, source })?;
    let format = match args.format {
        None => replay::Format::Auto,
        // One reader takes both: it tells lines from a document.
        Some(Format::Openai | Format::Jsonl) => replay::Format::OpenAi,
        Some(Format::Locomo) => replay::Format::Locomo,
    };
    let recordings = replay::read(&text, format).map_err(|error| CliError::of(&error))?;
    let options = ReplayOptions { chain: args.engine.into_iter().collect(), budget: args.budget };
    let bar = out.progress(0);
    let mut progress = |at: replay::Progress<'_>| {
        bar.set_length(at.total as u64);
        bar.set_position(at.done as u64);
        bar.set_message(short(at.name, 40));
    };
    let played = replay::replay(context.config(), &recordings, &options, &mut progress).await;
    bar.finish_and_clear();
    let report = played.map_err(|error| CliError::of(&error))?;
    if report.abandoned > 0 {
        context.leave_threads_behind();
    }
    if out.is_json() {
        out.document(&report);
    } else {
        print(&out, &report);
    }
    let degraded = report.conversations.iter().any(|conversation| conversation.shown.degraded > 0);
    Ok(if degraded || report.abandoned > 0 { Verdict::Degraded } else { Verdict::Well })
}

fn print(out: &Out, report: &ReplayReport) {
    out.line(&format!(
        "engine {}, window {} tokens{}",
        out.paint(Tone::Strong, &report.engine),
        count(report.window),
        if report.estimated { " (counts are estimates)" } else { "" }
    ));
    let rows: Vec<Vec<Cell>> = report.conversations.iter().map(row).collect();
    let head = [
        "conversation",
        "turns",
        "messages",
        "tokens",
        "prompt mean",
        "prompt max",
        "all prompts",
        "over budget",
        "compactions",
        "by another engine",
    ];
    out.table(&head, &rows);
    hooks(out, report);
    for (id, engine) in &report.engines {
        if let Some(reason) = &engine.reason {
            out.warn(&format!("engine {} is {}: {}", short(id, 40), engine.state, short(reason, 300)));
        }
    }
    for conversation in &report.conversations {
        failures(out, conversation);
    }
}

fn row(conversation: &ConversationReport) -> Vec<Cell> {
    let number = |n: usize| count(n as u64);
    let alarm = |n: usize| if n == 0 { Cell::from("0") } else { Cell::toned(number(n), Tone::Bad) };
    let shown = &conversation.shown;
    vec![
        short(&conversation.name, 40).into(),
        number(conversation.turns.len()).into(),
        number(conversation.messages).into(),
        count(conversation.tokens).into(),
        format!("{:.0}", shown.tokens_mean).into(),
        count(shown.tokens_max).into(),
        count(shown.tokens_total).into(),
        alarm(shown.over_budget),
        compactions(conversation).into(),
        alarm(shown.degraded),
    ]
}

/// How many, and the tokens of the history before and after them on average.
fn compactions(conversation: &ConversationReport) -> String {
    let all = &conversation.compactions;
    let mean = |tokens: fn(&CompactionReport) -> u64| count(all.iter().map(tokens).sum::<u64>() / all.len() as u64);
    match all.len() {
        0 => "0".into(),
        n => format!("{n} ({} → {})", mean(|one| one.tokens_before), mean(|one| one.tokens_after)),
    }
}

fn hooks(out: &Out, report: &ReplayReport) {
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for (engine, took_part) in &report.engines {
        for (hook, times) in took_part.hooks.as_object().into_iter().flatten() {
            let number = |name: &str| count(times.get(name).and_then(Value::as_u64).unwrap_or(0));
            let micros = |name: &str| format!("{:.1}", times.get(name).and_then(Value::as_f64).unwrap_or(0.0));
            rows.push(vec![
                short(engine, 40).into(),
                hook.as_str().into(),
                number("count").into(),
                number("failures").into(),
                micros("p50_us").into(),
                micros("p99_us").into(),
                micros("max_us").into(),
            ]);
        }
    }
    if !rows.is_empty() {
        out.table(&["engine", "hook", "calls", "failures", "p50 µs", "p99 µs", "max µs"], &rows);
    }
}

/// The hooks that failed, and the engine that went on instead, once each.
fn failures(out: &Out, conversation: &ConversationReport) {
    for turn in conversation.turns.iter().filter(|turn| !turn.failures.is_empty()) {
        for failure in &turn.failures {
            let text = |name: &str| failure.get(name).and_then(Value::as_str).unwrap_or_default();
            out.warn(&format!(
                "{} turn {}: engine {} failed in {}: {}; {} went on",
                short(&conversation.name, 40),
                turn.turn,
                text("engine"),
                text("hook"),
                short(text("reason"), 300),
                turn.engine
            ));
        }
    }
}
