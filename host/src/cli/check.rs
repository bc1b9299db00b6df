//! `plugins check`: does a library keep the contract?

use super::args::{CheckArgs, CheckIsolation};
use super::context::Context;
use super::error::{CliError, Verdict};
use super::out::{Cell, Out, Tone, short};
use super::plugins::blocking;
use crate::check::{self, Check, Outcome, Place, Report, Request, Status, Weight};
use serde_json::{Map, Value, json};
use std::path::Path;

pub(super) async fn run(context: &Context, args: CheckArgs) -> Result<Verdict, CliError> {
    let out = context.out;
    if args.list {
        list(&out, args.level);
        return Ok(Verdict::Well);
    }
    let request = request(&args)?;
    let bar = out.progress(0);
    let steps = bar.clone();
    let work = move || {
        check::run_watched(&request, &mut |done, total| {
            steps.set_length(total as u64);
            steps.set_position(done as u64);
        })
    };
    let report = blocking(work).await?;
    bar.finish_and_clear();
    let report = report.map_err(|error| CliError::of(&error))?;
    if let Some(file) = &args.junit {
        let written = tokio::fs::write(file, report.junit()).await;
        written.map_err(|source| CliError::Write { path: file.display().to_string(), source })?;
    }
    if out.is_json() {
        out.document(&report);
    } else {
        print(&out, &report);
    }
    Ok(if report.well() { Verdict::Well } else { Verdict::Degraded })
}

fn request(args: &CheckArgs) -> Result<Request, CliError> {
    let file = args.file.clone().unwrap_or_default();
    let mut request = Request::new(file, args.seed.unwrap_or_else(|| u64::from(fastrand::u32(..))));
    request.engines.clone_from(&args.engines);
    request.level = args.level;
    request.rounds = args.rounds;
    request.places = match args.isolation {
        CheckIsolation::InProcess => vec![Place::InProcess],
        CheckIsolation::Process => vec![Place::Process],
        CheckIsolation::Both => vec![Place::InProcess, Place::Process],
    };
    for name in &args.tests {
        let near = || {
            let distance = |check: &&Check| strsim::damerau_levenshtein(check.name(), name);
            Check::ALL.iter().min_by_key(distance).map(|check| check.name().to_owned())
        };
        let check = Check::named(name);
        request.only.push(check.ok_or_else(|| CliError::Unknown {
            what: "check",
            name: name.clone(),
            near: near(),
        })?);
    }
    // Who names a check wants it, whatever its level.
    request.level = request.only.iter().map(|check| check.level()).max().unwrap_or(request.level);
    request.config = config(args)?;
    Ok(request)
}

/// The plugin's configuration. A value is read as TOML, and as text where it is none.
fn config(args: &CheckArgs) -> Result<Map<String, Value>, CliError> {
    let mut config = Map::new();
    for with in &args.with {
        let Some((key, value)) = with.split_once('=').filter(|(key, _)| !key.contains(['/', '.'])) else {
            config.extend(file(Path::new(with))?);
            continue;
        };
        let read = toml_edit::de::from_str::<Map<String, Value>>(&format!("value = {value}"));
        let value = read.ok().and_then(|mut read| read.remove("value")).unwrap_or_else(|| json!(value));
        config.insert(key.trim().to_owned(), value);
    }
    Ok(config)
}

fn file(path: &Path) -> Result<Map<String, Value>, CliError> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|source| CliError::Read { path: shown.clone(), source })?;
    toml_edit::de::from_str(&text).map_err(|error| CliError::Usage(format!("{shown} is no TOML table: {error}")))
}

fn list(out: &Out, level: u8) {
    let checks = Check::ALL.iter().filter(|check| check.level() <= level);
    let weight = |check: &Check| match check.weight() {
        Weight::Failure => "fails",
        Weight::Warning => "warns",
    };
    if out.is_json() {
        let document = |check: &Check| {
            json!({"check": check.name(), "level": check.level(), "finding": weight(check), "what": check.what(),
                "says": check.says(), "mend": check.mend()})
        };
        return out.document(&checks.map(document).collect::<Vec<_>>());
    }
    let rows: Vec<Vec<Cell>> = checks
        .map(|check| {
            vec![check.level().to_string().into(), check.name().into(), weight(check).into(), check.what().into()]
        })
        .collect();
    out.table(&["level", "check", "", "what"], &rows);
}

fn print(out: &Out, report: &Report) {
    let name = report.plugin.as_deref().map_or_else(|| report.file.display().to_string(), |id| short(id, 40));
    out.line(&format!("{}  seed {}, rounds {}", out.paint(Tone::Strong, &name), report.seed, report.rounds));
    let mut heading = (None, None);
    for outcome in &report.checks {
        let now = (outcome.engine.as_deref(), outcome.isolation);
        if now != heading {
            heading = now;
            let place = outcome.isolation.map(|place| format!(", {}", place.name())).unwrap_or_default();
            let subject = now.0.map_or_else(|| "the file".to_owned(), |id| short(id, 40));
            out.line(&format!("\n{}", out.paint(Tone::Dim, &format!("{subject}{place}"))));
        }
        line(out, outcome);
    }
    let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    out.line(&format!("\n{}, {}", count(report.failures, "failure"), count(report.warnings, "warning")));
    match report.level_reached {
        Some(0) => out.line("level reached: none"),
        Some(level) => out.line(&format!("level reached: {level} of {} ({})", check::LEVELS, check::level(level))),
        None => {}
    }
    out.line(&format!("next: {}", report.next));
    if !report.well() {
        out.line(&format!("to see the same again: --seed {} --rounds {}", report.seed, report.rounds));
    }
}

fn line(out: &Out, outcome: &Outcome) {
    let tone = match &outcome.status {
        Status::Pass => Tone::Good,
        Status::Warn { .. } => Tone::Warn,
        Status::Fail { .. } => Tone::Bad,
        Status::Unreached { .. } | Status::Skipped { .. } => Tone::Dim,
    };
    let word = out.paint(tone, &format!("{:9}", outcome.status.word()));
    let check = outcome.check;
    out.line(&format!("{word} {}  {:20} {}", check.level(), check.name(), check.what()));
    let Some(text) = outcome.status.text() else { return };
    let indent = " ".repeat(13);
    match &outcome.status {
        Status::Warn { .. } | Status::Fail { .. } => {
            let code = outcome.code.map(|code| format!(" [{code}]")).unwrap_or_default();
            out.line(&format!("{indent}found: {}{code}", short(&text, 600)));
            outcome.causes.iter().for_each(|cause| out.line(&format!("{indent}  {}", short(cause, 300))));
            if let Some(hint) = &outcome.hint {
                out.line(&format!("{indent}hint: {}", short(hint, 300)));
            }
            out.line(&format!("{indent}the contract says: {}", check.says()));
            out.line(&format!("{indent}mend it: {}", check.mend()));
        }
        _ => out.line(&format!("{indent}{}", short(&text, 300))),
    }
}
