//! The program behind `cargo xtask eval`.

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    // The probe's child and workers are this program, as they are the gateway's own.
    let mut args = std::env::args_os().skip(1);
    let code = match args.next() {
        Some(first) if first == engineroom::worker::PROBE_ARGUMENT => {
            engineroom::worker::run_child(&args.collect::<Vec<OsString>>(), &engineroom::slot::selftest)
        }
        Some(first) if first == engineroom::worker::WORKER_ARGUMENT => {
            engineroom::worker::run_worker(&args.collect::<Vec<OsString>>(), engineroom::slot::worker_side())
        }
        _ => return engineroom_eval::cli::main(),
    };
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}
