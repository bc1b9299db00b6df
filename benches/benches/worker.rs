//! What it costs to have an engine in a process of its own: the way of one frame over a lane beside a hand-off within the
//! process, and the same hooks in both isolations.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench that cannot measure must stop; its result is what it prints"
)]

use engineroom::compaction::View;
use engineroom::config::Isolation;
use engineroom::slot::{AssembleInput, EntryRef};
use engineroom::transcript::{Message, Role};
use engineroom::worker::{ChildLane, ProbeCommand, lane_pair, use_command};
use engineroom_benches::process::build;
use engineroom_benches::scene::{context, dispose, engine, head, slot};
use engineroom_benches::stats::Sample;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Instant;

const BLOCKS: usize = 11;
const TRIPS: usize = 2_000;
/// Argument with which this program is the other end of a lane.
const ECHO: &str = "--lane-echo";
/// Argument with which nothing is built and no engine is measured.
const ONLY_LANES: &str = "lanes";

fn main() {
    // `cargo test --benches` runs every bench with this flag; there is nothing to test here.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    if std::env::args().any(|arg| arg == ECHO) {
        return echo(&ChildLane::new(0, std::io::stdin().as_fd().try_clone_to_owned().expect("a lane")));
    }
    lanes();
    if std::env::args().any(|arg| arg == ONLY_LANES) {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(hooks());
}

fn echo(lane: &ChildLane) {
    let mut frame = Vec::new();
    while lane.receive(&mut frame).is_ok() && lane.send(&frame).is_ok() {}
}

/// One frame of 1 KiB there and back: to a thread of this process by channels, and to another process over a lane.
fn lanes() {
    let (to, from_here) = mpsc::channel::<Vec<u8>>();
    let (to_here, from) = mpsc::channel::<Vec<u8>>();
    std::thread::spawn(move || from_here.into_iter().try_for_each(|frame| to_here.send(frame)));

    let (here, there) = lane_pair().expect("a pair of sockets");
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .arg(ECHO)
        .stdin(Stdio::from(there))
        .spawn()
        .expect("the other end");
    let lane = ChildLane::new(0, here);

    let (mut handed, mut laned) = (Sample::default(), Sample::default());
    let mut frame = vec![7_u8; 1024];
    for _ in 0..BLOCKS {
        for _ in 0..TRIPS {
            let start = Instant::now();
            to.send(std::mem::take(&mut frame)).expect("the thread");
            frame = from.recv().expect("the thread");
            handed.push(start.elapsed());
        }
        for _ in 0..TRIPS {
            let start = Instant::now();
            lane.send(&frame).expect("the lane");
            lane.receive(&mut frame).expect("the lane");
            laned.push(start.elapsed());
        }
    }
    drop(lane);
    child.wait().expect("the other end");
    println!("1 KiB there and back, µs");
    line("to a thread of this process", &handed);
    line("to another process, over a lane", &laned);
    println!("  the lane costs {:.1} more at the median", micros(&laned, 50.0) - micros(&handed, 50.0));
}

fn micros(sample: &Sample, percent: f64) -> f64 {
    sample.percentile(percent) * 1e3
}

fn line(name: &str, sample: &Sample) {
    println!("  {name:<48} p50 {:>7.1}   p99 {:>7.1}", micros(sample, 50.0), micros(sample, 99.0));
}

/// The same two hooks of the same library, in-process behind the deadline and in a worker, block by block in turn.
async fn hooks() {
    let built = build();
    use_command(ProbeCommand::new(built.join("engineroom")));
    let (near, far) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let slots = [
        slot(&built, near.path(), "window", Isolation::InProcess),
        slot(&built, far.path(), "window", Isolation::Process),
    ];
    let engines = slots.each_ref().map(|slot| engine(slot, "window"));

    let entry = EntryRef { head: head(1), message: Arc::new(Message::text_of(Role::User, "x".repeat(1024))) };
    let body = Arc::new(Message::text_of(Role::User, "never read"));
    let view = Arc::new(View {
        heads: (1..=10_000).map(head).collect(),
        bodies: (1..=10_000).map(|_| Arc::clone(&body)).collect(),
        ..View::default()
    });
    let (mut ingests, mut assembles) = (<[Sample; 2]>::default(), <[Sample; 2]>::default());
    for _ in 0..BLOCKS {
        for (at, engine) in engines.iter().enumerate() {
            for _ in 0..TRIPS / 4 {
                let entry = entry.clone();
                let start = Instant::now();
                let done = engine.segment(context(), move |segment| segment.ingest(&entry).is_ok()).await;
                ingests[at].push(start.elapsed());
                assert!(done.expect("a segment"), "ingest failed");

                let input = assemble(&view);
                let start = Instant::now();
                let done = engine.segment(context(), move |segment| segment.assemble(&input).is_ok()).await;
                assembles[at].push(start.elapsed());
                assert!(done.expect("a segment"), "assemble failed");
            }
        }
    }
    for (name, samples) in [("ingest of 1 KiB", &ingests), ("assemble over 10,000 entries", &assembles)] {
        println!("{name}, hand-off and deadline included, µs");
        line("in-process", &samples[0]);
        line("in a worker", &samples[1]);
        let more = micros(&samples[1], 50.0) - micros(&samples[0], 50.0);
        println!("  the worker costs {more:.1} more at the median (target: under 30)");
    }
    slots.into_iter().for_each(dispose);
}

fn assemble(view: &Arc<View>) -> AssembleInput {
    AssembleInput {
        len: view.heads.len(),
        view: Arc::clone(view),
        prompt: None,
        system_tokens: 0,
        available_tools: Vec::new(),
        model: None,
        citations_mode: 0,
    }
}
