//! `crash`: rounds of `kill -9` under load, by the tests' own harness.

use crate::{Outcome, cargo, done};

const USAGE: &str = "crash [--rounds N] [--seed S] [--isolation in-process|process] [--at points|moments]";

/// Runs the rounds: at fail points and at random moments, or one of the two.
pub(crate) fn crash(args: &[String]) -> Outcome {
    let mut tests = vec!["killed_at_fail_points", "killed_at_random_moments"];
    let mut command = cargo();
    let mut args = args.iter();
    let mut rounds = "100".to_owned();
    while let Some(arg) = args.next() {
        let mut value = || args.next().cloned().ok_or_else(|| format!("{arg} needs a value; usage: {USAGE}"));
        match arg.as_str() {
            "--rounds" => rounds = value()?,
            "--seed" => drop(command.env("CRASH_SEED", value()?)),
            "--isolation" => drop(command.env("CRASH_ISOLATION", value()?)),
            "--at" => match value()?.as_str() {
                "points" => tests.truncate(1),
                "moments" => drop(tests.remove(0)),
                other => return Err(format!("{other} is neither points nor moments; usage: {USAGE}")),
            },
            other => return Err(format!("{other} is not known; usage: {USAGE}")),
        }
    }
    command.env("CRASH_ROUNDS", rounds);
    // One after the other: two loads at once would only wait for each other.
    command.args(["test", "--package", "engineroom-tests", "--test", "crash", "--"]).args(tests);
    done(command.args(["--nocapture", "--test-threads=1"]))
}
