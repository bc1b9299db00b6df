//! One run of optional work: in an unused session, under a deadline of its own, giving way to turns.

use super::queue::{Kind, Params, SHUTDOWN, Wanted};
use super::status::LastRun;
use crate::observe::{broken, failpoint};
use crate::slot::{FailureKind, Hook, HookFailure, MaintainOutput};
use crate::turn::clock::now_ms;
use crate::turn::house::House;
use crate::turn::lanes::LaneGuard;
use crate::turn::run::TurnRun;
use engine_abi::wire::trigger;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// A run that takes longer is told of, while it runs and when it ends.
const NOTICE_AFTER: Duration = Duration::from_secs(10);

/// How a run ended.
pub(super) struct Ended {
    pub(super) last: LastRun,
    /// What is still to be done, when a turn wanted the session.
    pub(super) undone: Wanted,
}

/// Why a run stopped early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stopped {
    /// A turn wants the session.
    Wanted,
    /// The gateway stops.
    Shutdown,
}

/// Runs what is wanted: first the compaction, then `maintain`.
pub(super) async fn run(
    house: &Arc<House>,
    key: &str,
    wanted: Wanted,
    lane: LaneGuard,
    stop: &CancellationToken,
) -> Ended {
    let began = Instant::now();
    let mut lane = Some(lane);
    let mut told = MaintainOutput::default();
    let mut left = wanted;
    while let Some((kind, params)) = left.take() {
        let Some(held) = lane.take() else { break };
        let engine = params.lease.engine().id().to_owned();
        let (outcome, stopped, back) = one(house, key, kind, &params, held, stop).await;
        lane = back;
        match outcome {
            Ok(output) => {
                told.changed |= output.changed;
                told.bytes_freed += output.bytes_freed;
                told.rewritten_entries += output.rewritten_entries;
                told.reason = output.reason.or(told.reason);
            }
            Err(failure) => {
                let (last, gave_way) = failed(key, &engine, failure, stopped, began);
                if gave_way {
                    left.set(kind, params);
                } else {
                    left = Wanted::default();
                }
                return Ended { last, undone: left };
            }
        }
    }
    let took = began.elapsed();
    if took >= NOTICE_AFTER && !broken("8.77") {
        tracing::info!(session = key, seconds = took.as_secs(), "maintenance is done");
    } else {
        tracing::debug!(session = key, ?took, "maintenance is done");
    }
    Ended { last: last_run("succeeded", told, began), undone: Wanted::default() }
}

/// One hook, or one compaction. The lane comes back with it.
async fn one(
    house: &Arc<House>,
    key: &str,
    kind: Kind,
    params: &Params,
    lane: LaneGuard,
    stop: &CancellationToken,
) -> (Result<MaintainOutput, Failed>, Option<Stopped>, Option<LaneGuard>) {
    // The durable transcript: what a turn held in memory is not held here.
    let session = match house.open(key, false).await {
        Ok(session) => session,
        Err(error) => return (Err(Failed::Skipped(error.to_string())), None, None),
    };
    failpoint::pass("turn.background.before");
    let mut run = TurnRun::operation(house.clone(), session, params.lease.clone(), None);
    run.background = (!broken("9.15")).then_some(house.maintenance.limits);
    run.heartbeat = params.heartbeat;
    (run.system_tokens, run.tool_tokens) = params.fixed_tokens;
    run.params.clone_from(&params.params);
    let flag = run.cancel.flag();
    let mut stopped = None;
    let mut notice = Box::pin(tokio::time::sleep(NOTICE_AFTER));
    let mut noticed = false;
    let outcome = {
        let work = async {
            match kind {
                Kind::Maintain => run.maintain_now(params).await,
                Kind::Compact => run.compact_deferred(params).await,
            }
        };
        tokio::pin!(work);
        loop {
            tokio::select! {
                biased;
                () = lane.wanted(), if stopped.is_none() && !broken("8.76") => {
                    stopped = Some(Stopped::Wanted);
                    flag.cancel();
                }
                () = stop.cancelled(), if stopped.is_none() => {
                    stopped = Some(Stopped::Shutdown);
                    flag.cancel();
                }
                outcome = &mut work => break outcome,
                () = &mut notice, if !noticed => {
                    noticed = true;
                    if !broken("8.77") {
                        let engine = params.lease.engine().id();
                        tracing::info!(engine, session = key, kind = kind.name(), "maintenance is still running");
                    }
                }
            }
        }
    };
    failpoint::pass("turn.background.after");
    if let Some(key) = &run.session.key
        && !run.session.state().extra.deferred.is_empty()
    {
        house.note_waiting(key);
    }
    (outcome.map_err(Failed::Hook), stopped, Some(lane))
}

/// Why a part of a run did not succeed.
enum Failed {
    /// The session is gone.
    Skipped(String),
    Hook(HookFailure),
}

/// How a run ended that did not succeed, and whether it gave way.
fn failed(key: &str, engine: &str, failure: Failed, stopped: Option<Stopped>, began: Instant) -> (LastRun, bool) {
    let with = |outcome, reason, gave_way| {
        (last_run(outcome, MaintainOutput { reason: Some(reason), ..MaintainOutput::default() }, began), gave_way)
    };
    match (failure, stopped) {
        (Failed::Skipped(reason), _) => with("skipped", reason, false),
        (Failed::Hook(failure), Some(Stopped::Wanted)) if failure.kind == FailureKind::Cancelled => {
            tracing::debug!(session = key, engine, "maintenance gave way to a turn");
            with("gave-way", "a turn wants the session".into(), true)
        }
        (Failed::Hook(failure), Some(Stopped::Shutdown)) if failure.kind == FailureKind::Cancelled => {
            tracing::info!(session = key, engine, "maintenance was {SHUTDOWN}");
            with("cancelled", SHUTDOWN.into(), false)
        }
        (Failed::Hook(failure), _) if failure.kind == FailureKind::Quarantined => {
            with("skipped", failure.to_string(), false)
        }
        (Failed::Hook(failure), _) => {
            if !broken("8.77") {
                let hook = failure.hook.name();
                tracing::warn!(session = key, engine, hook, reason = failure.reason, "maintenance failed");
            }
            with("failed", failure.to_string(), false)
        }
    }
}

fn last_run(outcome: &'static str, told: MaintainOutput, began: Instant) -> LastRun {
    LastRun {
        outcome,
        reason: told.reason,
        ended_ms: now_ms(),
        duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        changed: told.changed,
        bytes_freed: told.bytes_freed,
        rewritten_entries: told.rewritten_entries,
    }
}

impl TurnRun {
    /// `maintain` after an accepted turn, with leave to carry out a compaction that was put off.
    pub(in crate::turn) async fn maintain_now(&mut self, params: &Params) -> Result<MaintainOutput, HookFailure> {
        if !self.lease.engine().has(Hook::Maintain) {
            return Ok(MaintainOutput::default());
        }
        let facts = self.session_facts(params.token_budget, params.current_tokens);
        self.segment(facts, false, |segment| segment.maintain(trigger::TURN, true)).await
    }

    /// What this turn leaves for a run in the background.
    pub(in crate::turn) fn maintenance_params(&self, token_budget: Option<u64>) -> Params {
        Params {
            lease: self.lease.clone(),
            token_budget,
            current_tokens: Some(self.session.state().projected_tokens()),
            heartbeat: self.heartbeat,
            fixed_tokens: (self.system_tokens + self.memory_tokens, self.tool_tokens),
            params: self.params.clone(),
        }
    }
}
