//! What was acknowledged is there after a `kill -9`, and after a power cut that drops every write that was not synced.
//!
//! Three clients talk at once, one of them in streams. At a random number of acknowledged turns the gateway is killed; the next
//! gateway on the same state must show every acknowledged turn once, in order. In the rounds of the power cut a preloaded
//! library keeps what lay under each write since the file's last sync, and after the kill those writes are undone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

#[path = "../fixtures/powercut/src/undo.rs"]
#[allow(dead_code, reason = "the undo of the fixture, of which one function is needed")]
mod undo;

use engineroom_tests::{Client, Gateway, Setup, built, library_name};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

const ROUNDS: usize = 100;
const CLIENTS: usize = 3;

/// One turn; true when it was acknowledged: a complete reply, or the end marker of a stream.
fn acknowledged(client: &Client, session: &str, text: &str, stream: bool) -> bool {
    let body = json!({"model": "m", "stream": stream, "messages": [{"role": "user", "content": text}]});
    let answer = client.try_post("/v1/chat/completions", &[("x-engineroom-session", session)], &body);
    answer.is_ok_and(|answer| {
        if stream {
            answer.body.contains("data: [DONE]")
        } else {
            answer.status == 200 && serde_json::from_str::<Value>(&answer.body).is_ok()
        }
    })
}

fn session(round: usize, client: usize) -> String {
    format!("r{round}-c{client}")
}

/// Talks until the gateway is gone; what was acknowledged, per client.
fn talk_and_kill(gateway: Gateway, round: usize, kill_after: usize) -> Vec<Vec<String>> {
    let turns = AtomicUsize::new(0);
    let client = gateway.client().clone();
    std::thread::scope(|scope| {
        let talkers: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (client, turns) = (&client, &turns);
                scope.spawn(move || {
                    let mut kept = Vec::new();
                    for n in 0.. {
                        let text = format!("Turn {n} of client {number} in round {round}.");
                        if !acknowledged(client, &session(round, number), &text, number == 0) {
                            break;
                        }
                        kept.push(text);
                        turns.fetch_add(1, Ordering::Release);
                    }
                    kept
                })
            })
            .collect();
        while turns.load(Ordering::Acquire) < kill_after {
            std::thread::yield_now();
        }
        gateway.kill();
        talkers.into_iter().map(|talker| talker.join().unwrap()).collect()
    })
}

/// Every acknowledged turn is there once, in order, with its answer.
fn check(client: &Client, round: usize, acknowledged: &[Vec<String>]) {
    for (number, kept) in acknowledged.iter().enumerate() {
        if kept.is_empty() {
            continue;
        }
        let key = session(round, number);
        let document = client.get(&format!("/api/sessions/{key}")).json();
        let rows: Vec<(&str, &str)> = document["messages"]
            .as_array()
            .unwrap_or_else(|| panic!("{key}: {document:#}"))
            .iter()
            .map(|row| (row["role"].as_str().unwrap(), row["text"].as_str().unwrap()))
            .collect();
        let mut rest = rows.iter();
        for text in kept {
            assert_eq!(rows.iter().filter(|(_, have)| have == text).count(), 1, "{key}: {text:?} not once in {rows:?}");
            assert!(
                rest.any(|(role, have)| *role == "user" && have == text),
                "{key}: {text:?} out of order in {rows:?}"
            );
            assert!(
                rest.next().is_some_and(|(role, _)| *role == "assistant"),
                "{key}: {text:?} has no answer in {rows:?}"
            );
        }
        // Beyond what was acknowledged there may be the one turn that was under way.
        let users = rows.iter().filter(|(role, _)| *role == "user").count();
        assert!(users <= kept.len() + 1, "{key}: {rows:?}");
    }
}

fn rounds(setup: &Setup, power_cut: Option<&Path>) {
    let mut seed: u64 = 0x2545_f491_4f6c_dd1d;
    let mut previous: Option<Vec<Vec<String>>> = None;
    let mut total = 0;
    for round in 0..=ROUNDS {
        let gateway = setup.start();
        if let Some(acknowledged) = previous.take() {
            check(gateway.client(), round - 1, &acknowledged);
        }
        if round == ROUNDS {
            assert!(gateway.stop().success());
            break;
        }
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let acknowledged = talk_and_kill(gateway, round, usize::try_from(seed % 24).unwrap());
        total += acknowledged.iter().map(Vec::len).sum::<usize>();
        previous = Some(acknowledged);
        if let Some(journal) = power_cut {
            undo::roll_back(&setup.state(), journal).unwrap();
        }
    }
    assert!(total > ROUNDS, "the rounds must have something to lose: {total}");
}

#[test]
fn a_kill_at_a_random_moment_loses_nothing_that_was_acknowledged() {
    rounds(&Setup::new().killed_often().library("window").select("window"), None);
}

#[test]
#[cfg(target_os = "linux")]
fn a_power_cut_at_a_random_moment_loses_nothing_that_was_acknowledged() {
    let setup = Setup::new().killed_often().library("window").select("window");
    // The store is made before the first cut: what a cut does to the names of new files is not part of the fixture.
    assert!(setup.start().stop().success());
    let journal = setup.path().join("journal");
    std::fs::create_dir(&journal).unwrap();
    let shim = built().library("fixture_powercut");
    assert!(shim.ends_with(library_name("fixture_powercut")));
    let state = setup.state().canonicalize().unwrap();
    let setup =
        setup.env("LD_PRELOAD", shim).env(undo::FOLDER, state).env(undo::JOURNAL, journal.canonicalize().unwrap());
    rounds(&setup, Some(&journal));
}
