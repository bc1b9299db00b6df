//! What `cargo xtask soak` runs.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to its terminal")]

use engineroom_tests::matrix::Isolation;
use engineroom_tests::soak::{Plan, soak};
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let mut plan = Plan { time: Duration::from_secs(120), isolations: Isolation::ALL.to_vec(), seed: 1 };
    let mut args = std::env::args().skip(1);
    while let Some(name) = args.next() {
        let value = args.next().unwrap_or_default();
        let known = match name.as_str() {
            "--minutes" => {
                value.parse().map(|minutes: f64| plan.time = Duration::from_secs_f64(minutes * 60.0)).is_ok()
            }
            "--seed" => value.parse().map(|seed| plan.seed = seed).is_ok(),
            "--isolation" => {
                let found = Isolation::ALL.into_iter().find(|isolation| isolation.as_str() == value);
                found.map(|isolation| plan.isolations = vec![isolation]).is_some()
            }
            _ => false,
        };
        if !known {
            eprintln!("soak: {name} {value}: known are --minutes N, --seed N, --isolation in-process|process");
            return ExitCode::from(2);
        }
    }
    let report = soak(&plan);
    report.notes.iter().for_each(|note| println!("{note}"));
    println!("\n{:<14} {:>10} {:>10} {:>10}", "", "2nd part", "last part", "at most");
    for [name, first, last, most] in &report.rows {
        println!("{name:<14} {first:>10} {last:>10} {most:>10}");
    }
    report.problems.iter().for_each(|problem| eprintln!("soak: {problem}"));
    println!("\nsoak: {:.1} minutes, {} problems", plan.time.as_secs_f64() / 60.0, report.problems.len());
    if report.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
