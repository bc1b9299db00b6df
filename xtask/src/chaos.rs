//! `chaos`: the chaos matrix, and the leak run.

use crate::conform::day;
use crate::{Outcome, cargo, done};

/// Parts of the matrix; a continuous run takes one, which rotates with the day of the commit.
const PARTS: u64 = 18;
/// Rounds of the leak run in a continuous run.
const ROUNDS: &str = "2";

/// `chaos [--mode M] [--hook H] [--isolation I] [--part N/M] [--jobs N] [--json] [--list]`: the cells that are meant, all of them
/// without arguments. `chaos --leak ROUNDS`: the leak run. `chaos --today`: the part of the commit's day, and a short leak run.
pub(crate) fn chaos(args: &[String]) -> Outcome {
    if args.iter().any(|arg| arg == "--today") {
        let part = format!("{}/{PARTS}", day() % PARTS + 1);
        run(&["--part".to_owned(), part])?;
        return run(&["--leak".to_owned(), ROUNDS.to_owned()]);
    }
    run(args)
}

fn run(args: &[String]) -> Outcome {
    let program = ["run", "--quiet", "--package", "engineroom-tests", "--bin", "chaos-matrix", "--"];
    done(cargo().args(program).args(args))
}
