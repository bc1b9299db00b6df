//! What a turn through the gateway adds to a direct model call, start-up, and memory.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a bench that cannot measure must stop; its result is what it prints"
)]

use engineroom_benches::load::{Target, history, turn};
use engineroom_benches::model::{bare_proxy, last_request, model};
use engineroom_benches::process::{Gateway, build};
use engineroom_benches::stats::Sample;
use std::path::Path;
use std::time::{Duration, Instant};

/// Blocks in which each target is measured once; more blocks, less noise between targets.
const BLOCKS: usize = 5;
/// Length of one block for one target.
const BLOCK: Duration = Duration::from_secs(1);
/// Sessions that share a load, so that a rate above one session's own speed is possible.
const SESSIONS: usize = 4;

#[tokio::main]
async fn main() {
    // `cargo test --benches` runs every bench with this flag; there is nothing to test here.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    let built = build();
    let upstream = model(Duration::ZERO).await;
    let proxy = bare_proxy(&upstream).await;

    let disk = tempfile::tempdir_in(built.as_path()).expect("a folder on disk");
    one_commit(disk.path());
    start_and_memory(&built, disk.path(), &upstream).await;
    println!("\na turn through the gateway against the same request sent directly, ms added (synchronous=FULL)");
    added(&built, disk.path(), "disk", &upstream, &proxy).await;
    let shm = Path::new("/dev/shm");
    if shm.is_dir() {
        let memory = tempfile::tempdir_in(shm).expect("a folder in memory");
        added(&built, memory.path(), "memory", &upstream, &proxy).await;
    }
}

/// One durable commit of SQLite on this disk: what nothing durable can be faster than.
fn one_commit(folder: &Path) {
    let connection = rusqlite::Connection::open(folder.join("commit.db")).expect("a database");
    connection
        .execute_batch(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0; CREATE TABLE t(v)",
        )
        .expect("a table");
    let mut sample = Sample::default();
    for n in 0..500 {
        let start = Instant::now();
        connection.execute("INSERT INTO t VALUES (?1)", [format!("{n:0>400}")]).expect("a row");
        sample.push(start.elapsed());
    }
    println!("one durable commit: p50 {:.3} ms, p99 {:.3} ms", sample.percentile(50.0), sample.percentile(99.0));
}

/// Start to ready, resident memory after start, after 100 turns, and per stored message.
async fn start_and_memory(built: &Path, folder: &Path, upstream: &str) {
    let mut ready = Sample::default();
    for n in 0..10 {
        let folder = folder.join(format!("start-{n}"));
        std::fs::create_dir(&folder).expect("a folder");
        ready.push(Gateway::start(built, &folder, upstream).ready_after);
    }
    println!(
        "start to ready, one engine, probe included: p50 {:.1} ms, worst {:.1} ms (target: under 100)",
        ready.percentile(50.0),
        ready.percentile(100.0)
    );
    let folder = folder.join("memory");
    std::fs::create_dir(&folder).expect("a folder");
    let gateway = Gateway::start(built, &folder, upstream);
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!("resident after start: {:.1} MiB (target: under 30)", mib(gateway.resident()));
    let session = Target::new(&gateway.address, &["m".to_owned()]);
    for n in 0..100 {
        session.once(n, &turn(false)).await;
    }
    let small = gateway.resident();
    println!("resident after 100 turns: {:.1} MiB (target: under 80)", mib(small));
    let filled = Target::new(&gateway.address, &["filled".to_owned()]);
    filled.once(0, &history(20_000)).await;
    let grown = gateway.resident().saturating_sub(small);
    println!(
        "resident per stored message of a hot session: {:.0} bytes (20,000 messages, one request)",
        grown as f64 / 20_000.0
    );
}

/// The added time at three session lengths and two rates.
async fn added(built: &Path, folder: &Path, medium: &str, upstream: &str, proxy: &str) {
    println!("\nstate on {medium}");
    println!(
        "{:>9} {:>6} | {:>24} | {:>15} | {:>15} | syncs/turn",
        "messages", "req/s", "gateway p50 / p99", "proxy p50 / p99", "1st byte p50/p99"
    );
    let mut at_hundred = None;
    for messages in [100, 10_000, 100_000] {
        let state = folder.join(format!("added-{messages}"));
        std::fs::create_dir(&state).expect("a folder");
        let gateway = Gateway::start(built, &state, upstream);
        let sessions: Vec<String> = (0..SESSIONS).map(|n| format!("s{n}")).collect();
        for n in 0..SESSIONS {
            Target::new(&gateway.address, &sessions[n..=n]).once(0, &history(messages)).await;
        }
        let targets = [Target::new(upstream, &[]), Target::new(&gateway.address, &sessions), Target::new(proxy, &[])];
        // The same prompt for all three: the gateway is sent the new message, the others the whole prompt that it made of it.
        targets[1].once(0, &turn(false)).await;
        let direct = last_request();
        let prompt = direct["messages"].as_array().map_or(0, Vec::len);
        let mut direct_stream = direct.clone();
        direct_stream["stream"] = true.into();
        let bodies = [&direct, &turn(false), &direct];
        let stream_bodies = [&direct_stream, &turn(true), &direct_stream];
        println!("{messages:>9} stored, prompts of {prompt} messages");
        for rate in [200, 1_000] {
            let mut whole: [Sample; 3] = Default::default();
            let mut first: [Sample; 3] = Default::default();
            let before = gateway.counter("engineroom_store_commits_total");
            for _ in 0..BLOCKS {
                for (n, target) in targets.iter().enumerate() {
                    whole[n].extend(target.at_rate(rate, BLOCK, bodies[n]).await.1);
                }
            }
            let syncs = (gateway.counter("engineroom_store_commits_total") - before) / whole[1].len() as f64;
            for (n, target) in targets.iter().enumerate() {
                first[n].extend(target.at_rate(rate, BLOCK, stream_bodies[n]).await.0);
            }
            let more = |samples: &[Sample; 3], n: usize, percent| {
                samples[n].percentile(percent) - samples[0].percentile(percent)
            };
            let p50 = more(&whole, 1, 50.0);
            println!(
                "{messages:>9} {rate:>6} | {p50:>10.3} / {:>7.3}     | {:>6.3} / {:>6.3} | {:>6.3} / {:>6.3} | {syncs:.2}",
                more(&whole, 1, 99.0),
                more(&whole, 2, 50.0),
                more(&whole, 2, 99.0),
                more(&first, 1, 50.0),
                more(&first, 1, 99.0),
            );
            if messages == 100 && rate == 200 {
                at_hundred = Some(p50);
            }
            if let (100_000, 200, Some(base)) = (messages, rate, at_hundred) {
                println!("          added p50 at 100,000 is {:.2} times that at 100 (target: at most 1.5)", p50 / base);
            }
        }
    }
    let (p50, p99) = if medium == "disk" { ("0.7", "3") } else { ("0.35", "-") };
    println!("targets for {medium}: p50 under {p50} ms, p99 under {p99} ms, at most 2 syncs on the reply's path");
}
