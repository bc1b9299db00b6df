//! `store`: is the database sound, what can be saved of a damaged one, and a new one without what was deleted.

use super::args::StoreCommand;
use super::context::Context;
use super::error::{CliError, Verdict};
use super::out::{Out, Tone, bytes, count};
use crate::transcript::{self, Salvaged, StoreError};
use serde_json::{Value, json};

/// What a check that found nothing may claim: the other tables have no sums.
pub(super) const SOUND: &str = "every entry and session is what was written; the other tables can be read";
/// Most problems that are told.
const MOST: usize = 100;

pub(super) async fn run(context: &Context, command: &StoreCommand) -> Result<Verdict, CliError> {
    match command {
        StoreCommand::Check => check(context).await,
        StoreCommand::Repair { dry_run } => repair(context, *dry_run).await,
        StoreCommand::Shrink => shrink(context).await,
    }
}

async fn check(context: &Context) -> Result<Verdict, CliError> {
    let folder = context.config().gateway.state_dir.clone();
    let report = match context.remote()? {
        // A gateway has its database to itself.
        Some(door) => Some(door.get("/api/store?check=true").await?),
        None => {
            let found = blocking(move || transcript::check(&folder, MOST)).await?;
            found.map(|report| json!(report))
        }
    };
    let out = &context.out;
    let problems: Vec<&str> = report
        .as_ref()
        .and_then(|report| report.get("problems")?.as_array())
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let size = report.as_ref().and_then(|report| report.get("bytes")?.as_u64());
    if out.is_json() {
        out.document(&report.clone().unwrap_or_else(|| json!({"problems": []})));
    } else {
        match size {
            None => out.aside("nothing is stored"),
            Some(size) if problems.is_empty() => out.line(&format!("{}: {SOUND}", bytes(size))),
            Some(size) => {
                out.line(&format!("{}: {}", bytes(size), out.paint(Tone::Bad, "damaged")));
                problems.iter().for_each(|problem| out.line(&format!("  {problem}")));
                out.aside("`engineroom store repair` takes everything that can be read into a new database and keeps this one");
            }
        }
    }
    Ok(if problems.is_empty() { Verdict::Well } else { Verdict::Degraded })
}

async fn shrink(context: &Context) -> Result<Verdict, CliError> {
    let folder = context.config().gateway.state_dir.clone();
    let report = blocking(move || transcript::shrink(&folder)).await?;
    let out = &context.out;
    match report {
        report if out.is_json() => out.document(&report),
        None => out.aside("nothing is stored"),
        Some(report) => out.line(&format!(
            "written anew: {}, was {}; nothing of what was deleted is in it",
            bytes(report.bytes),
            bytes(report.before)
        )),
    }
    Ok(Verdict::Well)
}

async fn repair(context: &Context, dry_run: bool) -> Result<Verdict, CliError> {
    let folder = context.config().gateway.state_dir.clone();
    let report = blocking(move || transcript::salvage(&folder, dry_run)).await?;
    let out = &context.out;
    let Some(report) = report else {
        if out.is_json() {
            out.document(&Value::Null);
        } else {
            out.aside("nothing is stored");
        }
        return Ok(Verdict::Well);
    };
    if out.is_json() {
        out.document(&report);
    } else {
        print(out, &report);
    }
    Ok(if report.lost.is_empty() { Verdict::Well } else { Verdict::Degraded })
}

fn print(out: &Out, report: &Salvaged) {
    let taken: Vec<String> = report.taken.iter().map(|(table, rows)| format!("{} {table}", count(*rows))).collect();
    out.line(&format!("taken: {}", taken.join(", ")));
    if report.lost.is_empty() {
        out.line("nothing is lost");
    } else {
        out.line(&out.paint(Tone::Bad, "not taken, or changed:"));
        report.lost.iter().for_each(|line| out.line(&format!("  {line}")));
        if report.more > 0 {
            out.line(&format!("  … and {} more", count(report.more)));
        }
    }
    if report.dry_run {
        out.aside("nothing was changed");
    } else {
        out.line(&format!("the new database is {}", report.database.display()));
        out.line(&format!("the damaged one is kept in {}", report.kept.display()));
    }
}

/// Runs what reads a whole file off the async threads.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, CliError> {
    let failed = |error| CliError::Start { what: "the look at the store", source: std::io::Error::other(error) };
    tokio::task::spawn_blocking(work).await.map_err(failed)?.map_err(|error| CliError::of(&error))
}
