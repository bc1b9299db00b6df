//! One watched turn: what the shadow missed, then the turn itself, as the engine that serves goes through it.

use super::shown::{Comparison, compare};
use super::{Shadows, Watched};
use crate::slot::{EngineRef, FailureKind, Hook, HookFailure, Lease};
use crate::transcript::Write;
use crate::turn::TurnError;
use crate::turn::house::House;
use crate::turn::offer::{Offer, ROWS_PER_CALL};
use crate::turn::run::{Cancel, TurnRun};
use crate::turn::services::Manner;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Why a turn was not watched to its end.
enum Stopped {
    /// The next turn wanted the session, or the gateway stops.
    GaveWay,
    Failed(HookFailure),
    /// The history was compacted or rewritten before it was watched: the two would not have chosen from the same.
    Moved,
    /// Something of the gateway's own.
    Broke(String),
}

impl From<HookFailure> for Stopped {
    fn from(failure: HookFailure) -> Stopped {
        if failure.kind == FailureKind::Cancelled { Stopped::GaveWay } else { Stopped::Failed(failure) }
    }
}

impl From<TurnError> for Stopped {
    fn from(error: TurnError) -> Stopped {
        match error {
            TurnError::Cancelled => Stopped::GaveWay,
            error => Stopped::Broke(error.to_string()),
        }
    }
}

/// Watches a turn and tells what came of it. Never fails anybody else.
pub(super) async fn watch(house: &Arc<House>, shadows: &Shadows, turn: Watched, cancel: CancellationToken) {
    let agent = turn.session.state().record().agent.clone();
    let engine = match house.slot.shadow(&agent) {
        None => return,
        Some(Ok(engine)) => engine,
        Some(Err(passed)) => {
            shadows.count(&passed.engine, |stats| stats.out += 1);
            count(house, &passed.engine, "out");
            let reason = format!("{}: {}", passed.code, passed.reason);
            return note(house, &turn, json!({"engine": passed.engine, "outcome": "out", "reason": reason}));
        }
    };
    let since = Instant::now();
    let mut run = TurnRun::operation(house.clone(), turn.session.clone(), Lease::only(engine.clone()), None);
    run.cancel = Cancel::new(cancel, house.stop.clone());
    run.call_as(Manner::Watch);
    run.admitted.first = turn.first;
    run.admitted.logical_id.clone_from(&turn.logical_id);
    run.params.clone_from(&turn.params);
    run.heartbeat = turn.heartbeat;
    (run.system_tokens, run.tool_tokens) = turn.fixed_tokens;
    run.view_until = turn.shown.until;
    run.services.set_fence(turn.first);
    if let Some(snapshot) = turn.memory.clone() {
        run.services.memory().adopt(snapshot);
    }
    let (found, stopped) = match assemble(&mut run, &engine, &turn).await {
        Ok(found) => {
            let took = since.elapsed();
            shadows.count(engine.id(), |stats| stats.compared(&found, took));
            compared(house, engine.id(), &found);
            (Some((found, took)), commit(&mut run, &engine, &turn).await.err())
        }
        // It is fed all the same.
        Err(Stopped::Moved) => (None, commit(&mut run, &engine, &turn).await.err().or(Some(Stopped::Moved))),
        Err(stopped) => (None, Some(stopped)),
    };
    tell(house, shadows, &turn, &run, &engine, found, stopped);
}

/// What comes before the model call: turns that wait for it, `bootstrap` where it missed something, `assemble`.
async fn assemble(run: &mut TurnRun, engine: &EngineRef, turn: &Watched) -> Result<Comparison, Stopped> {
    loop {
        let mut earlier = run.offers(engine.id(), ROWS_PER_CALL).await?;
        earlier.retain(|offer| offer.input.admission.entry_id < turn.first);
        if earlier.is_empty() {
            break;
        }
        hand_over(run, earlier).await?;
    }
    take_up(run, engine, turn).await?;
    run.cancel.check()?;
    if run.session.state().branch().get(turn.first).is_none() {
        return Err(Stopped::Moved);
    }
    let assembled = run.assemble_only(engine, turn.shown.limit).await??;
    if !turn.shown.is_of(&assembled.view) {
        return Err(Stopped::Moved);
    }
    let fixed = run.system_tokens + run.tool_tokens;
    Ok(compare(&turn.shown, &assembled.view, &assembled.given, &assembled.prompt, fixed))
}

/// `bootstrap`, when it did not see everything before the turn.
async fn take_up(run: &mut TurnRun, engine: &EngineRef, turn: &Watched) -> Result<(), Stopped> {
    let before = {
        let state = run.session.state();
        let before = state.message_before(turn.first);
        let seen = state.extra.seen.get(engine.id()).is_some_and(|seen| *seen >= before);
        if before == 0 || seen {
            return Ok(());
        }
        before
    };
    let read = if engine.has(Hook::Bootstrap) { run.bootstrap().await? } else { 0 };
    let mut state = run.session.state();
    if read != 0 {
        state.covered(engine.id(), read);
    }
    // The session went on meanwhile, perhaps on another branch: then nothing can be said of that one.
    if state.branch().get(before).is_some() {
        let seen = state.extra.seen.entry(engine.id().to_owned()).or_insert(0);
        *seen = before.max(*seen);
    }
    Ok(())
}

/// What follows the answer: `commitTurn` of the turn itself.
async fn commit(run: &mut TurnRun, engine: &EngineRef, turn: &Watched) -> Result<(), Stopped> {
    run.services.set_fence(0);
    let mut offers = run.offers(engine.id(), ROWS_PER_CALL).await?;
    offers.retain(|offer| offer.input.logical_turn_id == turn.logical_id);
    if offers.is_empty() { Ok(()) } else { hand_over(run, offers).await }
}

async fn hand_over(run: &mut TurnRun, offers: Vec<Offer>) -> Result<(), Stopped> {
    run.cancel.check()?;
    match run.commit(offers, false).await? {
        true => Ok(()),
        false => Err(Stopped::Broke("it did not take a turn that was offered to it".into())),
    }
}

fn tell(
    house: &House,
    shadows: &Shadows,
    turn: &Watched,
    run: &TurnRun,
    engine: &EngineRef,
    found: Option<(Comparison, Duration)>,
    stopped: Option<Stopped>,
) {
    let id = engine.id();
    let (outcome, reason) = match &stopped {
        None => ("compared", None),
        Some(Stopped::GaveWay) if found.is_some() => {
            ("compared", Some("gave way before it took the turn over".to_owned()))
        }
        Some(Stopped::GaveWay) => ("gave_way", Some("the next turn wanted the session".to_owned())),
        Some(Stopped::Moved) => {
            ("moved", Some("the history was compacted or rewritten before it was watched".to_owned()))
        }
        Some(Stopped::Failed(failure)) => ("failed", Some(format!("{} failed: {}", failure.hook, failure.reason))),
        Some(Stopped::Broke(reason)) => ("failed", Some(reason.clone())),
    };
    shadows.count(id, |stats| match outcome {
        "gave_way" => stats.gave_way += 1,
        "failed" => stats.failed += 1,
        "moved" => stats.moved += 1,
        _ => {}
    });
    count(house, id, outcome);
    if outcome == "failed" {
        tracing::warn!(engine = id, session = &*turn.key, reason, "the engine that only watches failed");
    }
    let mut value = json!({
        "engine": id,
        "served": turn.served,
        "outcome": outcome,
        "reason": reason,
        "budget": run.notes.token_budget,
        "limit": turn.shown.limit,
        "engine_estimate": run.notes.engine_estimate,
        "took_us": found.as_ref().map(|(_, took)| u64::try_from(took.as_micros()).unwrap_or(u64::MAX)),
        "hooks": run.notes.hooks,
    });
    if let (Some(fields), Some((found, _))) = (value.as_object_mut(), &found)
        && let Value::Object(more) = found.to_json()
    {
        fields.extend(more);
    }
    note(house, turn, value);
}

/// Puts it into the record of the turn, with the next submission of the session.
fn note(house: &House, turn: &Watched, value: Value) {
    let mut state = turn.session.state();
    let session = state.record().row;
    state.extra.deferred.push(Write::TurnDetail { session, turn_id: turn.turn_id.clone(), name: "shadow", value });
    drop(state);
    house.note_waiting(&turn.key);
}

fn count(house: &House, engine: &str, outcome: &str) {
    if let Some(metrics) = &house.metrics {
        metrics.shadow_turn(engine, outcome);
    }
}

fn compared(house: &House, engine: &str, found: &Comparison) {
    if let Some(metrics) = &house.metrics {
        for (shown_by, amount) in [("both", found.both), ("first", found.only_first), ("shadow", found.only_shadow)] {
            metrics.shadow_shown(engine, shown_by, amount.entries, amount.tokens);
        }
    }
}
