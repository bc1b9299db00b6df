//! A gateway that serves nobody without its engines, and a supervisor that knows nothing but its probe: `/readyz`.

use super::clients::Dice;
use super::{DEADLINES, Faults, Plan, config, echo, failures};
use crate::{Client, Setup};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A life that nothing ends is ended: the next engine has its turn.
const LIFE: Duration = Duration::from_secs(8);
/// Clients.
const CLIENTS: usize = 2;
/// Messages of one session.
const LONGEST: u64 = 100;

/// What clients were told to be there, by session: the numbers of messages whose answer came.
type Acknowledged = Mutex<HashMap<String, Vec<u64>>>;

/// Runs lives, one after the other, on one state; a line that says what happened.
pub(super) fn supervise(plan: &Plan, stop: &AtomicBool, faults: &Faults) -> String {
    let model = echo();
    let mut setup = Setup::new()
        .library("window")
        .toml(&model.toml(32_000))
        .toml(DEADLINES)
        .toml("[plugins.policy.contextEngine]\non_failure = \"strict\"\n");
    let mut ids = Vec::new();
    for isolation in &plan.isolations {
        // One that is only slow never leaves the service.
        for (mode, hook) in failures(*isolation).filter(|(mode, _)| *mode != "slow") {
            let id = format!("sup{:02}", ids.len());
            setup = setup.chaos_copy(&id, isolation.as_str(), &config(mode, hook));
            ids.push(id);
        }
    }
    let acknowledged = Acknowledged::default();
    let number = AtomicU64::new(0);
    let (mut lives, mut restarts) = (0, 0);
    let mut dice = Dice::new(plan.seed);
    let start = dice.roll(ids.len() as u64) as usize;
    while !stop.load(Ordering::Relaxed) {
        setup = setup.select(&ids[(start + lives) % ids.len()]);
        lives += 1;
        let gateway = setup.start();
        let over = AtomicBool::new(false);
        let out = std::thread::scope(|scope| {
            for client in 0..CLIENTS {
                let (gateway, over, acknowledged, number) = (gateway.client(), &over, &acknowledged, &number);
                scope.spawn(move || talk(client, gateway, over, acknowledged, number, faults));
            }
            let out = probe(gateway.client(), stop);
            over.store(true, Ordering::Relaxed);
            out
        });
        restarts += usize::from(out);
        let (status, said) = gateway.stop_and_hear();
        if !status.success() {
            let lines: Vec<&str> = said.lines().rev().take(3).collect();
            faults.note(format!("life {lives} did not end well: {status}: {}", lines.join(" / ")));
        }
    }
    // A busy machine needs a while before the first life begins.
    if restarts == 0 && plan.time > LIFE * 11 {
        faults.note(format!("in {lives} lives the supervisor had nothing to do"));
    }
    // One more life, with an engine that does as it should.
    let gateway = setup.select("window").start();
    let acknowledged = acknowledged.into_inner().expect("acknowledged");
    let messages: usize = acknowledged.values().map(Vec::len).sum();
    for (key, numbers) in &acknowledged {
        check(gateway.client(), key, numbers, faults);
        let answer = gateway.client().say(key, "Last words.");
        if answer.status != 200 {
            faults.note(format!("session {key} is stuck: {} {}", answer.status, answer.body));
        }
    }
    if !gateway.stop().success() {
        faults.note("the last life did not end well".into());
    }
    format!(
        "supervised: {lives} lives, {restarts} of them ended because all engines were out, {messages} acknowledged turns"
    )
}

/// What a supervisor does: true when it has to start the gateway again.
fn probe(client: &Client, stop: &AtomicBool) -> bool {
    let until = Instant::now() + LIFE;
    while Instant::now() < until && !stop.load(Ordering::Relaxed) {
        let answer = client.get("/readyz");
        if answer.status == 503 && answer.json()["restart"] == true {
            return true;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    false
}

fn talk(
    client: usize,
    gateway: &Client,
    over: &AtomicBool,
    acknowledged: &Acknowledged,
    number: &AtomicU64,
    faults: &Faults,
) {
    while !over.load(Ordering::Relaxed) {
        let number = number.fetch_add(1, Ordering::Relaxed);
        let key = format!("agent:main:sup-{client}-{}", number / LONGEST);
        match gateway.try_say(&key, &text(number)) {
            Ok(answer) if answer.status == 200 => {
                acknowledged.lock().expect("acknowledged").entry(key).or_default().push(number);
            }
            // Without an engine nobody is served: that is what the policy says.
            Ok(answer) if answer.status == 503 => std::thread::sleep(Duration::from_millis(50)),
            Ok(answer) => faults.note(format!("supervised: {} {}", answer.status, answer.body)),
            Err(error) => faults.note(format!("supervised: {error}")),
        }
    }
}

fn text(number: u64) -> String {
    format!("number {number}.")
}

/// Every acknowledged turn is there once, in its order, the answer behind the message.
fn check(client: &Client, key: &str, numbers: &[u64], faults: &Faults) {
    let document = client.get(&format!("/api/sessions/{}?limit=1000", key.replace(':', "%3A"))).json();
    let entries: Vec<&str> =
        document["messages"].as_array().into_iter().flatten().filter_map(|message| message["text"].as_str()).collect();
    let mut last = 0;
    for number in numbers {
        let text = text(*number);
        let places: Vec<usize> =
            entries.iter().enumerate().filter(|(_, entry)| **entry == text).map(|(at, _)| at).collect();
        let answered = format!("re: {text}");
        match places[..] {
            [at] if at >= last && entries.get(at + 1) == Some(&answered.as_str()) => last = at,
            _ => faults.note(format!("{key}: {text:?} was acknowledged and stands at {places:?}")),
        }
    }
}
