//! `cargo xtask eval --generate agent`: the command line of generated sessions.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to its terminal")]

use super::measure::{AgentReport, measure};
use super::{Options, Wording};
use crate::cli::{Engines, Refusal, sentence};
use clap::{Parser, ValueEnum};
use comfy_table::{Table, presets};

/// Plays an agent session from a seed through context engines, and looks how stable their prompts are and what of the standing
/// instructions is left at the end. No model is called.
#[derive(Debug, Parser)]
#[command(name = "eval", bin_name = "cargo xtask eval", version)]
pub struct Args {
    /// What to make.
    #[arg(long, value_enum)]
    pub generate: Kind,
    /// Seed of the session; several are played one after the other.
    #[arg(long = "seed", value_name = "N", required = true)]
    pub seeds: Vec<u64>,
    /// Messages over which prefixes are measured.
    #[arg(long, default_value_t = 2000, value_name = "N")]
    pub entries: usize,
    /// Turn in whose prompt the standing instructions are looked for; the session goes on until then.
    #[arg(long, default_value_t = 500, value_name = "N")]
    pub turns: usize,
    /// Standing instructions.
    #[arg(long, default_value_t = 60, value_name = "N")]
    pub instructions: usize,
    /// Phrases that the instructions are made of.
    #[arg(long, value_enum, default_value = "all")]
    pub wording: Wording,
    /// Tokens that an engine's answer may cost; several are measured one after the other.
    #[arg(long = "budget", value_name = "N", required = true, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub budgets: Vec<u64>,
    /// The engines.
    #[command(flatten)]
    pub engines: Engines,
    /// Write an array of reports instead of tables.
    #[arg(long)]
    pub json: bool,
    /// End well though an engine failed or another one served in its place.
    #[arg(long)]
    pub allow_degraded: bool,
}

/// What can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A session of an agent that works with tools.
    Agent,
}

/// Measures and prints; true when an engine failed, and whether calls of engines still run.
///
/// # Errors
///
/// One sentence.
pub fn run(args: &Args) -> Result<(bool, bool), Refusal> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start the runtime: {error}"))?;
    let engines = args.engines.find(runtime.handle()).map_err(Refusal::Usage)?;
    let mut reports = Vec::new();
    for engine in &engines {
        for budget in &args.budgets {
            for seed in &args.seeds {
                let options = Options {
                    seed: *seed,
                    entries: args.entries,
                    turns: args.turns,
                    instructions: args.instructions,
                    wording: args.wording,
                };
                let report = runtime.block_on(measure(engine, &options, *budget));
                let report = report.map_err(|error| sentence(&error))?;
                for reason in &report.degraded.reasons {
                    eprintln!("DEGRADED: {} at {budget}, seed {seed}: {reason}", engine.id);
                }
                eprintln!("{} at {budget}, seed {seed}: {} turns played", engine.id, report.turns);
                reports.push(report);
            }
        }
    }
    runtime.shutdown_background();
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&reports).map_err(|error| error.to_string())?),
        false => println!("{}", tables(&reports)),
    }
    let failed = reports.iter().any(|report| !report.degraded.is_empty()) && !args.allow_degraded;
    Ok((failed, reports.iter().any(|report| report.abandoned > 0)))
}

/// The reports as tables: prompts, and instructions.
fn tables(reports: &[AgentReport]) -> String {
    let mut prompts = Table::new();
    prompts.load_style(presets::UTF8_HORIZONTAL_ONLY).set_header([
        "engine",
        "budget",
        "seed",
        "entries",
        "turns",
        "in tools %",
        "longest loop",
        "prefix median %",
        "mean %",
        "p10 %",
        "volatile max %",
        "assemble p50 µs",
        "degraded",
    ]);
    let mut pins = Table::new();
    pins.load_style(presets::UTF8_HORIZONTAL_ONLY).set_header([
        "engine",
        "budget",
        "seed",
        "shown %",
        "of",
        "open %",
        "held out %",
        "pins",
        "pinned tokens",
        "of budget %",
        "never instructions %",
        "chores open, done",
        "taken back",
    ]);
    for report in reports {
        let share = |name: &str| report.by.get(name).map_or("-".to_owned(), |shown| one(shown.share));
        prompts.add_row([
            report.engine.clone(),
            report.budget.to_string(),
            report.seed.to_string(),
            report.entries[0].to_string(),
            report.turns.to_string(),
            one(report.tool_share),
            report.longest_loop.to_string(),
            one(report.prefix.median),
            one(report.prefix.mean),
            one(report.prefix.p10),
            one(report.volatile_max),
            report.hooks.get("assemble").map_or("-".to_owned(), |times| one(times.p50_us)),
            report.degraded.turns.to_string(),
        ]);
        pins.add_row([
            report.engine.clone(),
            report.budget.to_string(),
            report.seed.to_string(),
            one(report.instructions.share),
            report.instructions.of.to_string(),
            share("open"),
            share("held-out"),
            report.pins.shown.to_string(),
            report.pins.tokens.to_string(),
            one(report.pins.share),
            one(report.pins.never_share),
            format!("{}, {}", report.pins.chores, report.pins.done),
            report.pins.taken_back.to_string(),
        ]);
    }
    format!("{prompts}\n\n{pins}")
}

fn one(number: f64) -> String {
    format!("{number:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound_and_read() {
        Args::command().debug_assert();
        let args =
            Args::try_parse_from("eval --generate agent --seed 3 --engine recall --budget 32000".split(' ')).unwrap();
        assert_eq!((args.seeds, args.entries, args.turns, args.instructions), (vec![3], 2000, 500, 60));
        assert!(Args::try_parse_from("eval --generate agent --engine recall --budget 1".split(' ')).is_err());
    }
}
