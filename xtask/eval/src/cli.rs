//! The command line of `cargo xtask eval`.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to its terminal")]

use crate::data::{DataSet, Format};
use crate::engine::{Engine, LEGACY, library_name, settings};
use crate::evaluate::{Options, Progress, evaluate};
use crate::report::Report;
use crate::{generate, plot, table};
use clap::{Parser, ValueEnum};
use engineroom::config::Isolation;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Plays recorded conversations through context engines and asks what of the evidence stands in the prompts. No model is called.
#[derive(Debug, Parser)]
#[command(name = "eval", bin_name = "cargo xtask eval", version)]
pub struct Args {
    /// File with conversations and questions.
    #[arg(long, value_name = "FILE")]
    pub data: PathBuf,
    /// What it holds.
    #[arg(long, value_enum)]
    pub format: Format,
    /// The engines.
    #[command(flatten)]
    pub engines: Engines,
    /// Tokens that an engine's answer may cost; several are measured one after the other.
    #[arg(long = "budget", value_name = "N", required = true, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub budgets: Vec<u64>,
    /// Play all conversations one after the other in one session, and ask all questions at its end.
    #[arg(long)]
    pub joined: bool,
    /// Tokens of the window in which the conversations are played, instead of the budget and what the base prompt costs.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub window: Option<u64>,
    /// Write an array of reports instead of tables.
    #[arg(long)]
    pub json: bool,
    /// Write recall over budget as a picture.
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
    /// End well though an engine failed or another one served in its place.
    #[arg(long)]
    pub allow_degraded: bool,
}

/// Which engines to measure, and how they are found and set.
#[derive(Debug, clap::Args)]
pub struct Engines {
    /// Engine to measure; several are measured one after the other.
    #[arg(long = "engine", value_name = "ID", required = true)]
    pub ids: Vec<String>,
    /// Setting of the engines, as in `[plugins.entries.ID.config]`.
    #[arg(long = "config", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Libraries to find the engines in, instead of those of this workspace.
    #[arg(long = "library", value_name = "FILE")]
    pub libraries: Vec<PathBuf>,
    /// Where the engines run.
    #[arg(long, value_enum, default_value = "in-process")]
    pub isolation: Where,
}

/// Where an engine runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Where {
    /// In this process.
    InProcess,
    /// In a worker.
    Process,
}

/// Why nothing was measured.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// What was asked for cannot be: an engine that nobody has, a setting that it does not take, a file that cannot be read.
    Usage(String),
    /// It began, and failed.
    Failed(String),
}

impl From<String> for Refusal {
    fn from(reason: String) -> Refusal {
        Refusal::Failed(reason)
    }
}

impl Refusal {
    fn tell(&self) -> ExitCode {
        let (Refusal::Usage(reason) | Refusal::Failed(reason)) = self;
        eprintln!("eval: {reason}");
        match self {
            Refusal::Usage(_) => ExitCode::from(2),
            Refusal::Failed(_) => ExitCode::FAILURE,
        }
    }
}

/// Parses the command line, measures, and gives the exit code: 1 when something failed, 2 for wrong usage.
pub fn main() -> ExitCode {
    if std::env::args().any(|arg| arg == "--generate" || arg.starts_with("--generate=")) {
        return generated();
    }
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    engineroom::observe::init_tracing(engineroom::observe::LogFormat::from_env(), "error");
    match run(&args) {
        Ok(reports) => end(&args, &reports),
        Err(refusal) => refusal.tell(),
    }
}

/// The same for sessions that are made from a seed.
fn generated() -> ExitCode {
    let args = match generate::cli::Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    engineroom::observe::init_tracing(engineroom::observe::LogFormat::from_env(), "error");
    match generate::cli::run(&args) {
        Ok((failed, true)) => engineroom::slot::exit_now(i32::from(failed)),
        Ok((failed, false)) => ExitCode::from(u8::from(failed)),
        Err(refusal) => refusal.tell(),
    }
}

/// Complains, and ends the process without destructors when a call of an engine still runs.
fn end(args: &Args, reports: &[Report]) -> ExitCode {
    complain(reports);
    let failed = reports.iter().any(|report| !report.degraded.is_empty()) && !args.allow_degraded;
    if reports.iter().any(|report| report.abandoned > 0) {
        engineroom::slot::exit_now(i32::from(failed));
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn complain(reports: &[Report]) {
    for report in reports {
        let degraded = &report.degraded;
        let name = format!("{} at {}", report.engine, report.budget);
        if degraded.questions + degraded.turns > 0 {
            eprintln!(
                "DEGRADED: {name}: another engine served {} of the played turns and {} of the questions; the figures are not those \
                 of {}",
                degraded.turns, degraded.questions, report.engine
            );
        }
        for reason in &degraded.reasons {
            eprintln!("DEGRADED: {name}: {reason}");
        }
        for trace in &degraded.traces {
            eprintln!("DEGRADED: {name}: questions left a trace: {trace}");
        }
        if report.over_budget > 0 {
            eprintln!(
                "OVER BUDGET: {name}: {} answers cost more than the budget and were cut by the host",
                report.over_budget
            );
        }
    }
}

fn run(args: &Args) -> Result<Vec<Report>, Refusal> {
    let path = args.data.display();
    let unreadable = |error: &dyn std::fmt::Display| Refusal::Usage(format!("cannot read {path}: {error}"));
    let text = std::fs::read_to_string(&args.data).map_err(|error| unreadable(&error))?;
    let data = DataSet::read(&text, args.format).map_err(|error| unreadable(&error))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start the runtime: {error}"))?;
    let engines = args.engines.find(runtime.handle()).map_err(Refusal::Usage)?;
    let mut reports = Vec::with_capacity(engines.len() * args.budgets.len());
    for engine in &engines {
        for budget in &args.budgets {
            let mut tell = |at: Progress<'_>| tell(engine, *budget, &at);
            let options = Options { budget: *budget, joined: args.joined, window: args.window };
            let report = runtime.block_on(evaluate(engine, &data, options, &mut tell));
            reports.push(report.map_err(|error| sentence(&error))?);
        }
    }
    runtime.shutdown_background();
    if let Some(file) = &args.plot {
        let title = args.data.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let how = if args.joined { ", all in one session" } else { "" };
        let picture = plot::svg(&reports, &format!("Evidence recall, {title}{how}"));
        std::fs::write(file, picture).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    }
    match args.json {
        true => println!("{}", serde_json::to_string_pretty(&reports).map_err(|error| error.to_string())?),
        false => println!("{}", table::tables(&reports)),
    }
    Ok(reports)
}

fn tell(engine: &Engine, budget: u64, at: &Progress<'_>) {
    eprintln!(
        "{} at {budget}: {}: {} turns in {:.1} s, {} questions in {:.1} s",
        engine.id,
        at.session,
        at.turns.0,
        at.turns.1.as_secs_f64(),
        at.questions.0,
        at.questions.1.as_secs_f64()
    );
}

/// An error with its causes.
pub(crate) fn sentence(error: &dyn std::error::Error) -> String {
    let mut out = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        out.push_str(&format!(": {next}"));
        cause = next.source();
    }
    out
}

impl Engines {
    /// The engines that are to be measured, each tried out: whatever keeps one from serving is told before anything is played.
    ///
    /// # Errors
    ///
    /// One sentence that names what is wrong or not there.
    pub fn find(&self, runtime: &tokio::runtime::Handle) -> Result<Vec<Engine>, String> {
        let config = settings(&self.settings)?;
        if let Some(key) = config.keys().next().filter(|_| self.ids.iter().all(|id| id == LEGACY)) {
            return Err(format!("{LEGACY} has no setting \"{key}\", and no other"));
        }
        let isolation = match self.isolation {
            Where::InProcess => Isolation::InProcess,
            Where::Process => Isolation::Process,
        };
        let engine = |id: &String| -> Result<Engine, String> {
            if id == LEGACY {
                return Ok(Engine::legacy());
            }
            let libraries = match self.libraries.is_empty() {
                true => built(id)?,
                false => self.libraries.iter().map(|file| absolute(file)).collect::<Result<_, _>>()?,
            };
            Ok(Engine { id: id.clone(), libraries, isolation, config: config.clone() })
        };
        let engines: Vec<Engine> = self.ids.iter().map(engine).collect::<Result<_, _>>()?;
        // Libraries are tried in children, which the slot waits for.
        let _inside = runtime.enter();
        engines.iter().try_for_each(|engine| engine.try_out(runtime.clone()))?;
        Ok(engines)
    }
}

/// The library of an engine of this workspace: it is built into the folder of this program. Where there is none of its name,
/// all that are there: one of them may offer it, and else it is told what they do offer.
fn built(id: &str) -> Result<Vec<PathBuf>, String> {
    let own = std::env::current_exe().map_err(|error| format!("cannot tell where this program is: {error}"))?;
    let folder = own.parent().unwrap_or(Path::new("."));
    let file = folder.join(library_name(id));
    if file.is_file() {
        return Ok(vec![file]);
    }
    let missing = || format!("engine {id} is not built: {} is missing; `cargo xtask eval` builds it", file.display());
    let listed = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", missing()))?;
    let is_library = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(std::env::consts::DLL_PREFIX) && name.ends_with(std::env::consts::DLL_SUFFIX) && path.is_file()
    };
    let mut libraries: Vec<PathBuf> = listed.flatten().map(|entry| entry.path()).filter(is_library).collect();
    libraries.sort();
    if libraries.is_empty() { Err(missing()) } else { Ok(libraries) }
}

fn absolute(file: &Path) -> Result<PathBuf, String> {
    file.canonicalize().map_err(|error| format!("cannot find the library {}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound_and_read() {
        Args::command().debug_assert();
        let line =
            "eval --data f --format qa-jsonl --engine a --engine legacy --budget 1 --budget 2 --joined --config x=1";
        let args = Args::try_parse_from(line.split(' ')).unwrap();
        assert_eq!((args.engines.ids.len(), args.budgets, args.joined, args.json), (2, vec![1, 2], true, false));
        for wrong in ["eval --data f --format locomo --engine a", "eval --data f --format csv --engine a --budget 1"] {
            assert!(Args::try_parse_from(wrong.split(' ')).is_err(), "{wrong}");
        }
        assert!(Args::try_parse_from("eval --data f --format locomo --engine a --budget 0".split(' ')).is_err());
    }

    #[test]
    fn an_engine_that_is_not_built_is_told_with_the_file_that_is_missing() {
        // Beside a test's own program there may be libraries of the workspace, or none.
        match built("nobody") {
            Err(missing) => assert!(missing.contains(&library_name("nobody")), "{missing}"),
            Ok(others) => assert!(others.iter().all(|file| !file.ends_with(library_name("nobody")))),
        }
    }
}
