//! An engine in a process of its own, seen from outside: who serves when it ends, and that nothing of it stays.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::{Client, Setup, built, library_name, lives, process_state, signal, wait_for};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The chaos engine in a worker, with this configuration.
fn chaos(config: &Value) -> Setup {
    chaos_within(1_000, config)
}

/// The same with this deadline of `assemble`, in ms.
fn chaos_within(deadline: u32, config: &Value) -> Setup {
    let bytes = std::fs::read(built().library("chaos")).unwrap();
    let mut lines = String::from("[plugins.entries.chaos]\nisolation = \"process\"\n[plugins.entries.chaos.config]\n");
    for (key, value) in config.as_object().unwrap() {
        lines.push_str(&format!("{key} = {value}\n"));
    }
    lines.push_str(&format!("[plugins.deadlines]\nassemble_ms = {deadline}\n"));
    Setup::new().file(&library_name("chaos"), &bytes).select("chaos").toml(&lines)
}

/// The processes that `parent` started.
fn children(parent: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| process_state(*pid).is_some_and(|(state, ppid)| ppid == parent && state != "Z")).collect()
}

#[track_caller]
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(Duration::from_secs(60), what, || condition().then_some(()));
}

fn row(client: &Client) -> Value {
    let engines = client.engines();
    let row = engines["engines"].as_array().unwrap().iter().find(|row| row["id"] == "chaos").cloned();
    row.unwrap_or_else(|| panic!("chaos is not listed: {engines:#}"))
}

#[test]
fn a_worker_that_is_killed_between_calls_is_quarantined_and_the_next_turn_is_served() {
    let setup = chaos(&json!({}));
    let gateway = setup.start();
    let answer = gateway.client().say("s", "first");
    assert_eq!(answer.engine(), Some("chaos"), "{answer:?}");
    let workers = children(gateway.pid());
    assert_eq!(workers.len(), 1, "{workers:?}");
    signal(workers[0], "KILL");
    until("its death is not seen", || row(gateway.client())["state"] == "quarantined");
    let row = row(gateway.client());
    let told = row.to_string();
    assert!(told.contains("engine-crashed") && told.contains("SIGKILL"), "{row:#}");
    let answer = gateway.client().say("s", "second");
    assert_eq!((answer.status, answer.engine()), (200, Some("legacy")), "{answer:?}");
    assert!(answer.degraded().is_some_and(|told| told.contains("engine-crashed")), "{answer:?}");
    assert!(gateway.stop().success());
}

#[test]
fn a_worker_that_dies_in_a_call_is_told_with_its_signal_its_hook_and_what_it_wrote() {
    let setup = chaos(&json!({ "mode": "panic-twice", "hook": "assemble", "after": 1 }));
    let gateway = setup.start();
    assert_eq!(gateway.client().say("s", "first").engine(), Some("chaos"));
    let answer = gateway.client().say("s", "second");
    assert_eq!((answer.status, answer.engine()), (200, Some("legacy")), "{answer:?}");
    let told = row(gateway.client()).to_string();
    for word in ["engine-crashed", "SIGABRT", "assemble", "it wrote", "panic"] {
        assert!(told.contains(word), "{word} is missing: {told}");
    }
    until("it was not waited for", || children(gateway.pid()).is_empty());
    assert!(gateway.stop().success());
}

#[test]
fn a_worker_that_hangs_is_ended_and_the_turn_goes_on() {
    let setup = chaos(&json!({ "mode": "hang-spin", "hook": "assemble", "after": 1 }));
    let gateway = setup.start();
    assert_eq!(gateway.client().say("s", "first").engine(), Some("chaos"));
    let workers = children(gateway.pid());
    let answer = gateway.client().say("s", "second");
    assert_eq!((answer.status, answer.engine()), (200, Some("legacy")), "{answer:?}");
    until("the worker still runs", || !workers.iter().any(|pid| lives(*pid)));
    assert!(gateway.stop().success());
}

#[test]
fn a_gateway_that_stops_leaves_no_process_and_one_that_is_killed_neither() {
    let setup = chaos(&json!({}));
    let gateway = setup.start();
    assert_eq!(gateway.client().say("s", "first").engine(), Some("chaos"));
    let workers = children(gateway.pid());
    assert_eq!(workers.len(), 1);
    assert!(gateway.stop().success());
    assert!(!lives(workers[0]), "the worker outlived a stop");

    let gateway = setup.start();
    assert_eq!(gateway.client().say("s", "second").engine(), Some("chaos"));
    let workers = children(gateway.pid());
    gateway.kill();
    until("the worker outlived its gateway", || !lives(workers[0]));

    let gateway = setup.start();
    assert_eq!(gateway.client().say("s", "third").engine(), Some("chaos"));
    assert!(gateway.stop().success());
    let left = walk(&setup.state()).into_iter().filter(|name| name.contains(".worker-")).collect::<Vec<_>>();
    assert!(left.is_empty(), "{left:?}");
}

/// All that lies below a folder.
fn walk(folder: &std::path::Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        found.push(entry.path().display().to_string());
        if entry.file_type().unwrap().is_dir() {
            found.extend(walk(&entry.path()));
        }
    }
    found
}

#[test]
fn a_worker_has_nothing_of_the_gateways() {
    let setup = chaos(&json!({})).env("ENGINEROOM_TEST_SECRET", "the-secret-of-the-gateway");
    let gateway = setup.start();
    assert_eq!(gateway.client().say("s", "first").engine(), Some("chaos"));
    let worker = children(gateway.pid())[0];
    let environment = std::fs::read(format!("/proc/{worker}/environ")).unwrap();
    assert!(!String::from_utf8_lossy(&environment).contains("the-secret"), "it sees the gateway's environment");
    let open = std::fs::read_dir(format!("/proc/{worker}/fd")).unwrap().flatten();
    let links: Vec<String> =
        open.filter_map(|entry| Some(std::fs::read_link(entry.path()).ok()?.display().to_string())).collect();
    let foreign = |link: &&String| !(link.starts_with("socket:") || link.starts_with("pipe:") || *link == "/dev/null");
    assert_eq!(links.iter().find(foreign), None, "{links:?}");
    // The gateway's own sockets are not among them.
    let own = std::fs::read_dir(format!("/proc/{}/fd", gateway.pid())).unwrap().flatten();
    let own: Vec<String> =
        own.filter_map(|entry| Some(std::fs::read_link(entry.path()).ok()?.display().to_string())).collect();
    let shared = |link: &&String| link.starts_with("socket:") && own.contains(link);
    assert_eq!(links.iter().find(shared), None, "{links:?} {own:?}");
    assert!(gateway.stop().success());
}

#[test]
fn a_call_that_uses_too_much_of_the_processor_is_ended_before_its_deadline() {
    let setup = chaos_within(120_000, &json!({ "mode": "hang-spin", "hook": "assemble", "after": 1 }))
        .toml("[plugins.entries.chaos.limits]\ncpu_seconds = 1\n");
    let gateway = setup.start();
    assert_eq!(gateway.client().say("s", "first").engine(), Some("chaos"));
    let start = Instant::now();
    let answer = gateway.client().say("s", "second");
    assert_eq!((answer.status, answer.engine()), (200, Some("legacy")), "{answer:?}");
    assert!(start.elapsed() < Duration::from_secs(60), "the deadline ended it");
    let told = row(gateway.client()).to_string();
    assert!(told.contains("processor time"), "{told}");
    assert!(gateway.stop().success());
}
