//! The program: the probe's child, a worker or the child of a check when it is started as one, else the command line.

use std::ffi::OsString;
use std::process::ExitCode;

/// SHA-256 of the libraries that were built together with this program, separated by commas: `cargo xtask run` names them. Read
/// here, so that other hashes build this small part anew and not the library.
const BUNDLED: Option<&str> = option_env!("ENGINEROOM_BUNDLED");

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    // First of all: the child runs a library that nobody has tried yet, and must start fast, alone, with nothing set up.
    let first = args.next();
    if first.as_ref().is_some_and(|first| first == engineroom::worker::PROBE_ARGUMENT) {
        let args: Vec<OsString> = args.collect();
        let code = engineroom::worker::run_child(&args, &engineroom::slot::selftest);
        return ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX));
    }
    if first.as_ref().is_some_and(|first| first == engineroom::worker::WORKER_ARGUMENT) {
        let args: Vec<OsString> = args.collect();
        let code = engineroom::worker::run_worker(&args, engineroom::slot::worker_side());
        return ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX));
    }
    if first.is_some_and(|first| first == engineroom::check::CHECK_ARGUMENT) {
        let args: Vec<OsString> = args.collect();
        let code = engineroom::check::run_child(&args);
        return ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX));
    }
    engineroom::plugins::bundled_are(BUNDLED.unwrap_or_default());
    engineroom::cli::main()
}
