//! The project's own chores. `cargo xtask` lists them.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks to its terminal")]

mod chaos;
mod conform;
mod crash;
mod deb;
mod eval;
mod fuzz;
mod licences;
mod run;
mod smoke;
mod soak;
mod test;

use std::process::{Command, ExitCode};

/// What a chore returns: nothing, or one sentence that says what failed.
type Outcome = Result<(), String>;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let chore = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    let outcome = match chore.as_str() {
        "run" => run::run(&rest),
        "test" => test::test(&rest),
        "lint" => test::lint(),
        "fuzz" => fuzz::fuzz(&rest),
        "conform" => conform::conform(&rest),
        "chaos" => chaos::chaos(&rest),
        "crash" => crash::crash(&rest),
        "eval" => eval::eval(&rest),
        "soak" => soak::soak(&rest),
        "smoke" => smoke::smoke(),
        "deb" => deb::deb(&rest),
        "licences" => licences::check(),
        other => {
            if !other.is_empty() {
                eprintln!("xtask: no such chore: {other}\n");
            }
            eprintln!(
                "usage: cargo xtask CHORE\n\n  \
                 run [ARGS]   build all, put the bundled engine into plugins/, start the gateway (ARGS go to `engineroom gateway`)\n  \
                 test [ARGS]  every test of the workspace (ARGS go to `cargo test`)\n  \
                 lint         rustfmt, clippy and rustdoc, warnings are errors\n  \
                 conform [LINES]  break lines of docs/conformance.md and see that their tests notice (without LINES: the part of the commit's day)\n  \
                 chaos [ARGS] run every mode of the chaos engine in every hook in both isolations, or what ARGS name: --mode, --hook, \
                 --isolation, --part N/M, --jobs, --json, --list; --leak ROUNDS; --today (the part of the commit's day)\n  \
                 crash [ARGS] kill the gateway again and again under load, and check what its clients were told (--rounds, --seed, --isolation, --at)\n  \
                 eval [ARGS]  play recorded conversations through engines and tell what of the evidence stands in the prompts \
                 (docs/evaluation.md)\n  \
                 soak [--minutes N] [--seed N] [--isolation I]  a gateway under clients of every kind while its engines fail (2 minutes)\n  \
                 fuzz [--seconds N] [--keep] [TARGETS]  the fuzz targets, each for so many seconds (10); --keep adds to their corpora\n  \
                 deb [--check] [--unoptimised]  target/debian/engineroom_VERSION_ARCH.deb of what `run` builds; --check installs it into a folder and talks to it\n  \
                 smoke        start what `run` starts, hold a conversation with it, stop it\n  \
                 licences     check every dependency's licence"
            );
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("xtask {chore}: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the workspace.
fn root() -> std::path::PathBuf {
    let here = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(std::path::Path::to_path_buf).unwrap_or(here)
}

/// The cargo that runs this chore.
fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Runs a command to its end.
fn done(command: &mut Command) -> Outcome {
    let shown = format!("{command:?}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{shown}: {status}")),
        Err(error) => Err(format!("{shown}: {error}")),
    }
}

/// Folder of the built files of a profile.
fn built(profile: &str) -> std::path::PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), std::path::PathBuf::from);
    let target = if target.is_absolute() { target } else { root().join(target) };
    target.join(profile)
}
