//! One cell: a fresh gateway, the request that calls the hook, and everything that must hold after it.

use super::house::{House, KEPT, OLD, PARENT};
use super::rules::{Answered, Expect, Fate, expected};
use super::spot::{Trigger, When};
use super::{Cell, Isolation, Nature};
use crate::{Answer, Client, Gateway, Setup};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The session of the request that calls the hook.
const SESSION: &str = "here";
/// What is said in it.
const SAID: &str = "Which bell rings at nine?";
/// Longest wait for what happens after the reply.
const SOON: Duration = Duration::from_secs(20);
/// How long after its hook the engine may still do something.
const AFTERMATH: Duration = Duration::from_millis(450);

/// What came of a cell.
#[derive(Debug)]
pub struct Outcome {
    /// The cell.
    pub cell: Cell,
    /// What the client got.
    pub got: String,
    /// What the engine's state became.
    pub state: String,
    /// How long the session was held.
    pub held: Duration,
    /// What is not as it must be; empty when all is.
    pub problems: Vec<String>,
}

/// Runs a cell.
pub fn run(house: &House, cell: Cell) -> Outcome {
    let expect = expected(cell);
    let setup = house.of(cell);
    let mut trial = Trial {
        house,
        cell,
        expect,
        setup,
        got: "-".into(),
        state: "-".into(),
        held: Duration::ZERO,
        acknowledged: false,
        problems: Vec::new(),
    };
    trial.run();
    Outcome { cell, got: trial.got, state: trial.state, held: trial.held, problems: trial.problems }
}

struct Trial<'a> {
    house: &'a House,
    cell: Cell,
    expect: Expect,
    setup: Setup,
    got: String,
    state: String,
    held: Duration,
    /// What was said in the session was answered with 200, so it is durable.
    acknowledged: bool,
    problems: Vec<String>,
}

impl Trial<'_> {
    fn problem(&mut self, what: impl Into<String>) {
        self.problems.push(what.into());
    }

    fn run(&mut self) {
        let mut gateway = match Gateway::try_start(&self.setup) {
            Ok(gateway) => gateway,
            Err(said) => {
                self.got = "no gateway".into();
                if self.may_end() && self.cell.spot.when == When::Start {
                    self.restart();
                } else {
                    self.problem(format!("the gateway did not start: {}", last(&said)));
                }
                return;
            }
        };
        let pid = gateway.pid();
        if self.cell.spot.when == When::Stop {
            return self.stop(gateway);
        }
        let since = Instant::now();
        let answer = self.trigger(gateway.client());
        self.judge_answer(&answer);
        if self.may_end() {
            self.see_the_end(gateway);
            return;
        }
        self.settle(&mut gateway);
        // Turns of one session wait for each other, so this one tells until when the session was held.
        let session = self.session();
        let next = gateway.client().try_say(&session, "And now?");
        self.held = since.elapsed();
        if self.held > self.expect.held {
            self.problem(format!("the session was held for {} ms", self.held.as_millis()));
        }
        self.judge_next(&next);
        let other = gateway.client().try_say("there", "And here?");
        self.judge_next(&other);
        if !gateway.is_alive() || gateway.pid() != pid {
            self.problem(format!("the gateway ended: {}", last(&gateway.stderr())));
            return;
        }
        self.judge_data(gateway.client());
        let (status, said) = gateway.stop_and_hear();
        if !status.success() {
            self.problem(format!("the stop: {status}: {}", last(&said)));
        }
        if let Some(line) = said.lines().find(|line| line.contains("CHAOS-VIOLATION")) {
            self.problem(line.to_owned());
        }
    }

    /// True where the gateway need not live on.
    fn may_end(&self) -> bool {
        matches!(self.expect.fate, Fate::GatewayEnds | Fate::Unknown)
    }

    fn session(&self) -> String {
        match self.cell.spot.trigger {
            Trigger::OldSession | Trigger::Compact => OLD,
            Trigger::Child | Trigger::LateChild => PARENT,
            _ => SESSION,
        }
        .to_owned()
    }

    /// Makes the gateway call the hook.
    fn trigger(&self, client: &Client) -> Result<Answer, String> {
        let children = format!("/api/sessions/{PARENT}/subagents");
        let answer = match self.cell.spot.trigger {
            Trigger::Turn | Trigger::Stop => client.try_say(SESSION, SAID),
            Trigger::OldSession => client.try_say(OLD, SAID),
            Trigger::Ephemeral => {
                let body = json!({"model": "test", "messages": [{"role": "user", "content": SAID}]});
                client.try_post("/v1/chat/completions", &[], &body)
            }
            Trigger::Compact => client.try_post(&format!("/api/sessions/{OLD}/compact"), &[], &json!({})),
            Trigger::Child => client.try_post(&children, &[], &json!({"task": SAID, "wait": true})),
            Trigger::LateChild => {
                client.try_post(&children, &[], &json!({"task": SAID, "mode": "fork", "ttlMs": 100, "wait": true}))
            }
        };
        answer.map_err(|error| error.to_string())
    }

    fn judge_answer(&mut self, answer: &Result<Answer, String>) {
        let Ok(answer) = answer else {
            self.got = "no answer".into();
            if !matches!(self.expect.answered, Answered::Nobody | Answered::Somehow) {
                self.problem("no answer");
            }
            return;
        };
        let engine = answer.engine().map(str::to_owned).or_else(|| engine_of(answer));
        self.got = format!(
            "{}{}{}",
            answer.status,
            engine.as_deref().map(|engine| format!(" {engine}")).unwrap_or_default(),
            answer.degraded().map(|code| format!(" ({code})")).unwrap_or_default()
        );
        self.acknowledged =
            answer.status == 200 && matches!(self.cell.spot.trigger, Trigger::Turn | Trigger::OldSession);
        let spot = self.cell.spot;
        // A provider is no engine: whatever it does, the engine's answer stands.
        let own = match (spot.memory, spot.deed()) {
            (false, _) => "chaos",
            (true, Some(_)) => "recorder",
            (true, None) => "legacy",
        };
        let well = answer.status == 200;
        let by = |wanted: &str| engine.as_deref().is_none_or(|engine| engine == wanted);
        let code = answer.degraded();
        let fits = match self.expect.answered {
            Answered::ByEngine => well && by(own) && code.is_none(),
            // A tool's turn is under way when its engine fails: the head of the reply was the first engine's.
            Answered::ByFallback if spot.hook == "call_tool" => well,
            Answered::ByFallback => well && by("legacy") && code.is_some_and(|code| self.expect.codes.contains(&code)),
            Answered::ByAny => well && code.is_none_or(|code| self.expect.codes.contains(&code)),
            Answered::Refused => (400..600).contains(&answer.status),
            Answered::Somehow | Answered::Nobody => true,
        };
        if !fits {
            let wanted = &self.expect;
            self.problems.push(format!(
                "the answer must be {:?} {:?}: {}",
                wanted.answered,
                wanted.codes,
                answer.body.chars().take(300).collect::<String>()
            ));
        }
    }

    /// Waits until the engine's state is what it must become, and until the hook was called at all.
    fn settle(&mut self, gateway: &mut Gateway) {
        let deadline = Instant::now() + SOON;
        if matches!(self.cell.case.nature, Nature::EndsLater) || self.cell.case.mode == "service-stale" {
            std::thread::sleep(AFTERMATH);
        }
        loop {
            if !gateway.is_alive() {
                return;
            }
            let row = self.row(gateway.client());
            let state = row["state"].as_str().unwrap_or("?").to_owned();
            self.state = match row["code"].as_str() {
                Some(code) => format!("{state} ({code})"),
                None => state.clone(),
            };
            let called = self.was_called(&row);
            let settled = match self.expect.fate {
                Fate::Serves => state == "ready" && called,
                Fate::Out => state == "quarantined",
                _ => called || state == "quarantined",
            };
            if settled {
                if state == "quarantined" && self.cell.case.nature != Nature::EndsLater {
                    self.judge_quarantine(&row);
                }
                return;
            }
            if Instant::now() > deadline {
                let (state, called) = (&self.state, if called { "" } else { ", and the hook was never called" });
                self.problems.push(format!(
                    "the engine must become {:?} and is {state}{called}: {} {}",
                    self.expect.fate, row["reason"], row["hooks"]
                ));
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The engine, or the memory provider, as the API shows it.
    fn row(&self, client: &Client) -> Value {
        let all = client.engines();
        let rows = if self.cell.spot.memory { &all["memory"]["providers"] } else { &all["engines"] };
        rows.as_array().into_iter().flatten().find(|row| row["id"] == "chaos").cloned().unwrap_or_default()
    }

    /// True when the hook was called: a cell in which it was not shows nothing.
    fn was_called(&self, row: &Value) -> bool {
        let spot = self.cell.spot;
        let calls = &row["hooks"][spot.spelled];
        spot.when == When::Start || calls["count"].as_u64() > Some(0) || calls["failures"].as_u64() > Some(0)
    }

    fn judge_quarantine(&mut self, row: &Value) {
        let at = row["quarantine"]["at"].as_str().unwrap_or_default();
        let spot = self.cell.spot;
        // What `info` says is judged with the contract.
        let named =
            at == spot.spelled || spot.spelled == "info" && ["factory", "contract", "contract check"].contains(&at);
        if !named {
            self.problem(format!(
                "the quarantine names {at:?} instead of {}: {}",
                spot.spelled, row["quarantine"]["reason"]
            ));
        }
        if row["quarantine"]["hint"].as_str().unwrap_or_default().is_empty() {
            self.problem("the quarantine has no hint");
        }
    }

    /// A turn after the failure: answered by the engine when it goes on, else by the next of the chain, which is said.
    fn judge_next(&mut self, next: &Result<Answer, ureq::Error>) {
        let answer = match next {
            Ok(answer) => answer,
            Err(error) => return self.problem(format!("the next turn: {error}")),
        };
        let spot = self.cell.spot;
        let fits = match (self.expect.fate, spot.memory) {
            (_, true) => answer.degraded().is_none(),
            (Fate::Serves, false) => answer.engine() == Some("chaos") && answer.degraded().is_none(),
            (Fate::Out, false) => answer.engine() == Some("legacy") && answer.degraded().is_some(),
            _ => true,
        };
        if answer.status != 200 || !fits {
            self.problem(format!(
                "the next turn got {} {:?} {:?}: {}",
                answer.status,
                answer.engine(),
                answer.degraded(),
                answer.body.chars().take(300).collect::<String>()
            ));
        }
    }

    /// What was acknowledged is there.
    fn judge_data(&mut self, client: &Client) {
        let mut wanted = vec![(PARENT.to_owned(), KEPT)];
        if self.acknowledged {
            wanted.push((self.session(), SAID));
        }
        for (session, text) in wanted {
            let shown = client.get(&format!("/api/sessions/{session}"));
            if shown.status != 200 || !shown.body.contains(text) {
                self.problem(format!("{text:?} is not in {session}: {}", shown.status));
            }
        }
    }

    /// The gateway must end, or may; then its data and the ledger's verdict count.
    fn see_the_end(&mut self, mut gateway: Gateway) {
        let must = self.expect.fate == Fate::GatewayEnds;
        let deadline = Instant::now() + if must { SOON } else { Duration::from_secs(1) };
        while gateway.is_alive() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
        self.state = if gateway.is_alive() { "gateway alive".into() } else { "gateway ended".into() };
        if must && gateway.is_alive() {
            self.problem("the gateway did not end");
        }
        drop(gateway);
        self.restart();
    }

    /// The gateway stops, and the hook is called by that.
    fn stop(&mut self, gateway: Gateway) {
        // Without a turn there may be no instance of every kind.
        let answer = self.trigger(gateway.client());
        self.acknowledged = answer.is_ok_and(|answer| answer.status == 200);
        let since = Instant::now();
        let (status, said) = gateway.stop_and_hear();
        self.held = since.elapsed();
        self.got = format!("stop: {status}");
        if !self.may_end() && !status.success() {
            self.problem(format!("the stop: {status}: {}", last(&said)));
        }
        if self.cell.isolation == Isolation::Process && self.held > self.expect.held {
            self.problem(format!("the stop took {} ms", self.held.as_millis()));
        }
        self.restart();
    }

    /// Starts again, and looks for what was acknowledged and for what the crash ledger says.
    fn restart(&mut self) {
        if let Some(wanted) = self.expect.verdict {
            self.judge_verdict(wanted);
        }
        let setup = self.house.without_engine(&self.setup);
        match Gateway::try_start(&setup) {
            Ok(gateway) => {
                self.judge_data(gateway.client());
                let answer = gateway.client().try_say(SESSION, "And now?");
                if !answer.is_ok_and(|answer| answer.status == 200) {
                    self.problem("the session is of no use after the restart");
                }
            }
            Err(said) => self.problem(format!("no restart: {}", last(&said))),
        }
    }

    /// What the crash ledger must say at the next start: `crashed` keeps the engine out, `unexplained` shows it with a count,
    /// `outside` accuses nobody.
    fn judge_verdict(&mut self, wanted: &str) {
        let gateway = match Gateway::try_start(&self.setup) {
            Ok(gateway) => gateway,
            Err(said) => return self.problem(format!("no restart with the engine that crashed: {}", last(&said))),
        };
        let all = gateway.client().engines();
        let said = all["previousEnd"]["verdict"].as_str().unwrap_or("nothing").to_owned();
        self.state = format!("ledger: {said}");
        if said != wanted {
            self.problem(format!("the ledger must say {wanted}: {}", all["previousEnd"]));
        }
        let row = self.row(gateway.client());
        let (state, crash) = (row["state"].as_str().unwrap_or_default(), &row["crash"]);
        if wanted == "outside" {
            if state == "crashed" || !crash.is_null() {
                self.problem(format!("nobody is to be accused, and the engine is {state}: {crash}"));
            }
            return;
        }
        if wanted == "crashed" && state != "crashed" || crash["verdict"] != wanted {
            self.problem(format!("the engine is {state}: {crash}"));
        }
        // What crashes later does so in no hook.
        if self.cell.case.nature == Nature::Ends && crash["at"] != self.cell.spot.spelled {
            self.problem(format!("the ledger does not name the hook {}: {crash}", self.cell.spot.spelled));
        }
        if wanted == "crashed" && !self.cell.spot.memory {
            let answer = gateway.client().try_say("there", "And now?");
            let fits =
                |answer: &Answer| answer.engine() == Some("legacy") && answer.degraded() == Some("engine-crashed");
            if !answer.as_ref().is_ok_and(fits) {
                self.problem(format!("after the crash legacy must serve: {answer:?}"));
            }
        }
    }
}

/// The engine that a report of another kind than a turn names.
fn engine_of(answer: &Answer) -> Option<String> {
    let body: Value = serde_json::from_str(&answer.body).ok()?;
    body["engine"].as_str().map(str::to_owned)
}

/// The end of what a gateway said.
fn last(said: &str) -> String {
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(4)..].join(" / ").chars().take(1_500).collect()
}
