//! Recovery at the start: what an earlier process admitted and did not accept is forgotten, what it accepted is handed over.
//!
//! Sessions take turns, the one with the oldest row first, one row each: no long outbox holds up the others. Inside a session it
//! goes oldest first, and a row that fails stops it until its next turn. Each step holds the session's lane for one call.

use super::TurnError;
use super::house::House;
use super::lanes::LaneGuard;
use super::maintenance::Kind;
use super::offer::ROWS_PER_CALL;
use super::run::TurnRun;
use super::services::Manner;
use super::session::Session;
use crate::slot::{EngineRef, Hook, Lease};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

impl House {
    /// Recovers, beside the first turns: a turn that comes sooner drains its own session.
    pub(super) fn start_recovery(self: &Arc<House>) {
        let house = self.clone();
        let work = async move {
            if let Err(error) = recover(&house).await {
                tracing::warn!(%error, "the outbox of durable turns was not recovered; each session's next turn tries again");
            }
        };
        // Refused only when the gateway stops already.
        drop(self.spawn_turn(work));
    }
}

async fn recover(house: &Arc<House>) -> Result<(), TurnError> {
    let store = house.store.clone();
    let keys = house.blocking(move || Ok(store.outbox_sessions()?)).await?;
    let mut queue = VecDeque::with_capacity(keys.len());
    for key in keys {
        if house.tasks.is_closed() {
            return Ok(());
        }
        match take_up(house, &key).await {
            Ok(true) => queue.push_back(key),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, session = key, "the outbox of a session was not recovered"),
        }
    }
    let mut offered = 0;
    while let Some(key) = queue.pop_front() {
        if house.tasks.is_closed() {
            return Ok(());
        }
        match hand_over_next(house, &key).await {
            Ok(true) => queue.push_back(key),
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, session = key, "accepted turns were not handed over"),
        }
        offered += 1;
        if offered % ROWS_PER_CALL == 0 {
            tokio::task::yield_now().await;
        }
    }
    Ok(())
}

impl TurnRun {
    /// Work with one engine for one session, apart from any turn. One that only watches may do no more than that, and is not
    /// inside the session twice.
    pub(super) async fn alone(
        house: &Arc<House>,
        session: &Arc<Session>,
        engine: EngineRef,
        lane: Option<LaneGuard>,
    ) -> TurnRun {
        let watches = house.shadows.only_watches(engine.id());
        if let Some(key) = session.key.as_deref().filter(|_| watches) {
            house.shadows.gone(key).await;
        }
        let mut run = TurnRun::operation(house.clone(), session.clone(), Lease::only(engine), lane);
        if watches {
            run.call_as(Manner::Watch);
        }
        run
    }
}

/// Opens a session, which reads its rows anew. True when turns wait to be handed over.
async fn take_up(house: &Arc<House>, key: &str) -> Result<bool, TurnError> {
    TurnError::at("outbox.recover.take_up")?;
    let _lane = house.lanes.enter(key).await?;
    let session = house.open(key, false).await?;
    let mut state = session.state();
    state.extra.flush();
    Ok(state.extra.outbox.iter().any(|row| row.state.waits()))
}

/// Hands over the oldest turn of a session that waits for an engine which can take it. True when there are more.
async fn hand_over_next(house: &Arc<House>, key: &str) -> Result<bool, TurnError> {
    TurnError::at("outbox.recover.hand_over")?;
    let lane = house.lanes.enter(key).await?;
    let session = house.open(key, false).await?;
    let (agent, engines) = {
        let state = session.state();
        let waiting = state.extra.outbox.iter().filter(|row| row.state.waits());
        (state.record().agent.clone(), waiting.map(|row| row.engine.clone()).collect::<BTreeSet<_>>())
    };
    // A shadow takes its turns when it watches the next one; it is called off the lane.
    let there = |id: &String| {
        house.slot.engine(&agent, id).filter(|_| !house.shadows.only_watches(id)).filter(EngineRef::durable)
    };
    let Some(engine) = engines.iter().find_map(there) else { return Ok(false) };
    let waiting = |id: &str| session.state().extra.outbox.iter().any(|row| row.engine == id && row.state.waits());
    let mut run = TurnRun::alone(house, &session, engine.clone(), Some(lane)).await;
    let offers = run.offers(engine.id(), 1).await?;
    let Some(key) = offers.first().map(|offer| offer.input.logical_turn_id.clone()) else {
        // Blocked, all of them.
        session.state().extra.flush();
        return Ok(false);
    };
    let is_last = session.state().extra.outbox.iter().all(|row| row.engine != engine.id() || row.key == key);
    // One offer of maintenance for what was recovered, as after a turn.
    let maintain = is_last && engine.has(Hook::Maintain) && !house.shadows.only_watches(engine.id());
    let background = engine.info().background_maintenance;
    let outcome = run.commit(offers, maintain && !background).await;
    session.state().extra.flush();
    if matches!(outcome, Ok(true)) && maintain && background {
        // Refused is noted and told there; nothing hangs on it.
        let _ = house.maintenance.queue(house, &session, Kind::Maintain, run.maintenance_params(None));
    }
    match outcome {
        Ok(taken) => Ok(taken && engines.iter().any(|id| waiting(id))),
        Err(failure) => {
            tracing::warn!(
                engine = failure.engine,
                reason = failure.reason,
                session = session.key.as_deref(),
                "an accepted turn could not be handed over; it is offered again at the session's next turn"
            );
            Ok(false)
        }
    }
}
