//! What the crash ledger adds to every call of an in-process engine: enter and leave, and the flag of a host service within.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench that cannot measure must stop; its result is what it prints"
)]

use engineroom::ledger::{self, Place, Sort, Watched};
use engineroom_benches::stats::Sample;
use std::hint::black_box;
use std::time::{Duration, Instant};

const CALLS: u32 = 1_000_000;
const BLOCKS: usize = 11;
/// What a call may cost at most.
const LIMIT_NS: f64 = 500.0;

fn main() {
    // `cargo test --benches` runs every bench with this flag; there is nothing to test here.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (_, ledger) = ledger::begin(folder.path(), &["assemble"], true);
    let ledger = ledger.expect("a ledger");
    let watched = Watched::new(Sort::Engine, "quiet", "quiet");
    let place = Place::hook(0);
    let mut rows =
        [("nobody", Sample::default()), ("enter + leave", Sample::default()), ("with a service", Sample::default())];
    for _ in 0..BLOCKS {
        rows[0].1.push(time(|| drop(ledger::enter(black_box(Watched::NOBODY), place))));
        rows[1].1.push(time(|| drop(ledger::enter(black_box(watched), place))));
        rows[2].1.push(time(|| {
            let _running = ledger::enter(black_box(watched), place);
            drop(black_box(ledger::serving()));
        }));
    }
    ledger.close();
    for (name, sample) in &rows {
        let nanoseconds = sample.percentile(50.0) * 1e6 / f64::from(CALLS);
        println!("{name:<16} {nanoseconds:>8.2} ns a call");
        // What is not optimised says nothing about the cost.
        assert!(cfg!(debug_assertions) || nanoseconds < LIMIT_NS, "{name} costs {nanoseconds} ns");
    }
}

fn time(call: impl Fn()) -> Duration {
    let start = Instant::now();
    for _ in 0..CALLS {
        call();
    }
    start.elapsed()
}
