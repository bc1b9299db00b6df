//! What `cargo xtask chaos` runs: the chaos matrix, or the part of it that the arguments name.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to its terminal")]

use engineroom_tests::matrix::{Cell, House, Isolation, Outcome, cells, leak, render, row_json, run};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Gateways at once, unless `--jobs` says so.
const JOBS: usize = 3;

#[derive(Debug, Default)]
struct Args {
    mode: Option<String>,
    hook: Option<String>,
    isolation: Option<String>,
    /// The N-th of M parts, N from 1.
    part: Option<(usize, usize)>,
    jobs: Option<usize>,
    /// Rounds of the leak run, instead of the matrix.
    leak: Option<usize>,
    json: bool,
    list: bool,
}

fn main() -> ExitCode {
    let args = match read(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(fault) => {
            eprintln!("chaos: {fault}");
            return ExitCode::from(2);
        }
    };
    if let Some(rounds) = args.leak {
        return leaks(&args, rounds);
    }
    let chosen = choose(&args);
    if chosen.is_empty() {
        eprintln!("chaos: no cell of the matrix is meant by that");
        return ExitCode::from(2);
    }
    if args.list {
        chosen.iter().for_each(|cell| println!("{cell}"));
        return ExitCode::SUCCESS;
    }
    let since = Instant::now();
    let outcomes = all(&chosen, args.jobs.unwrap_or(JOBS));
    if args.json {
        let rows: Vec<_> = outcomes.iter().map(row_json).collect();
        println!("{}", serde_json::Value::from(rows));
    } else {
        print!("{}", render(&outcomes));
    }
    let wrong: Vec<&Outcome> = outcomes.iter().filter(|outcome| !outcome.problems.is_empty()).collect();
    for outcome in &wrong {
        eprintln!("\n{}:", outcome.cell);
        outcome.problems.iter().for_each(|problem| eprintln!("  {problem}"));
    }
    eprintln!(
        "\nchaos: {} cells in {:.0} s, {} not as they must be",
        outcomes.len(),
        since.elapsed().as_secs_f64(),
        wrong.len()
    );
    if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn read(mut args: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut read = Args::default();
    while let Some(name) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{name} needs a value"));
        match name.as_str() {
            "--mode" => read.mode = Some(value()?),
            "--hook" => read.hook = Some(value()?),
            "--isolation" => read.isolation = Some(value()?),
            "--jobs" => read.jobs = Some(value()?.parse().map_err(|_| "--jobs takes a number")?),
            "--part" => {
                let value = value()?;
                let part = value.split_once('/').and_then(|(n, m)| Some((n.parse().ok()?, m.parse().ok()?)));
                read.part = Some(part.filter(|(n, m)| (1..=*m).contains(n)).ok_or("--part takes N/M")?);
            }
            "--leak" => read.leak = Some(value()?.parse().map_err(|_| "--leak takes a number of rounds")?),
            "--json" => read.json = true,
            "--list" => read.list = true,
            other => return Err(format!("what is {other}?")),
        }
    }
    Ok(read)
}

/// The leak run over the isolations that the arguments name.
fn leaks(args: &Args, rounds: usize) -> ExitCode {
    let house = House::new();
    let mut well = true;
    for isolation in Isolation::ALL {
        if args.isolation.as_deref().is_some_and(|wanted| wanted != isolation.as_str()) {
            continue;
        }
        let leak = leak(&house, isolation, rounds);
        println!(
            "{isolation}: {} rounds through 20 engines; before {:?}, after {:?}",
            leak.rounds, leak.before, leak.after
        );
        leak.problems.iter().for_each(|problem| eprintln!("  {problem}"));
        well &= leak.problems.is_empty();
    }
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The cells that the arguments name. A part takes every M-th, so that each part has something of everything.
fn choose(args: &Args) -> Vec<Cell> {
    let is = |wanted: &Option<String>, name: &str| wanted.as_deref().is_none_or(|wanted| wanted == name);
    let named = |cell: &Cell| {
        is(&args.mode, cell.case.name) && is(&args.hook, cell.spot.hook) && is(&args.isolation, cell.isolation.as_str())
    };
    let named: Vec<Cell> = cells().into_iter().filter(named).collect();
    match args.part {
        Some((n, m)) => named.into_iter().skip(n - 1).step_by(m).collect(),
        None => named,
    }
}

/// Runs them, some at once; the outcomes are in the order of the cells.
fn all(cells: &[Cell], jobs: usize) -> Vec<Outcome> {
    let house = House::new();
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Outcome)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, cells.len().max(1)) {
            scope.spawn(|| {
                while let Some(cell) = cells.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = run(&house, *cell);
                    let place = cells.iter().position(|known| std::ptr::eq(known, cell)).unwrap_or(usize::MAX);
                    if let Ok(mut done) = done.lock() {
                        done.push((place, outcome));
                        if done.len().is_multiple_of(50) {
                            eprintln!("chaos: {} of {}", done.len(), cells.len());
                        }
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}
