//! The end of a session: deleted, or begun anew. Every engine that knows of it is told, once, before anything is gone.

use super::TurnError;
use super::hosts;
use super::house::House;
use super::run::TurnRun;
use super::session::Session;
use super::settle::STORE_PATIENCE;
use super::subagents;
use crate::observe::failpoint;
use crate::slot::{EngineRef, Hook, Lease};
use crate::transcript::{SessionRow, StoreError, Submission, Write};
use engine_abi::wire::session_end;
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Why a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// With everything that hangs on it.
    Deleted,
    /// As deleted, since its time was over.
    Expired,
    /// The key stays and begins anew; the old branch stays in the tree.
    Reset,
}

impl End {
    fn code(self) -> u32 {
        match self {
            End::Deleted => session_end::DELETED,
            End::Expired => session_end::EXPIRED,
            End::Reset => session_end::RESET,
        }
    }
}

/// What came of an end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EndReport {
    /// Key of the session.
    pub key: String,
    /// Every engine that knew of it, by registered id.
    pub engines: Vec<ToldEngine>,
}

/// An engine that knew of a session that ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToldEngine {
    /// Registered id.
    pub engine: String,
    /// True when its `onSessionEnded` returned.
    pub told: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Ends a session. What engines keep of it is dropped, whether or not they could be told.
///
/// `client` fires when nobody wants it any more; once its lane is entered it is done all the same.
pub(super) async fn end(
    house: &Arc<House>,
    key: &str,
    end: End,
    client: &CancellationToken,
) -> Result<EndReport, TurnError> {
    subagents::stop_child(house, key).await?;
    let lane = house.lanes.enter_for(key, client).await?;
    house.shadows.gone(key).await;
    let session = house.open(key, false).await?;
    subagents::children_end(house, key).await?;
    let (row, generation) = {
        let state = session.state();
        (state.record().row, state.record().generation)
    };
    TurnError::at("session.end.before_told")?;
    let known = knowing(house, &session, row).await?;
    let mut engines = Vec::with_capacity(known.len());
    for id in known {
        engines.push(tell(house, &session, id, end).await);
    }
    TurnError::at("session.end.told")?;
    // What waits for a next turn of a session that is gone must not be written.
    session.state().extra.deferred.clear();
    match end {
        End::Deleted | End::Expired => submit(house, row, Write::DeleteSession { session: row }).await?,
        End::Reset => {
            submit(house, row, Write::ResetSession { session: row, generation: generation + 1 }).await?;
            // The lane is held until the last part is gone: no engine meets half of what it kept.
            while is_left(house, row).await? {
                TurnError::at("session.reset.part")?;
                submit(house, row, Write::DropScopePart { session: row }).await?;
            }
        }
    }
    failpoint::pass("session.end.done");
    house.hot.forget(key);
    drop(lane);
    if end != End::Reset {
        subagents::forget(house, key).await?;
    }
    Ok(EndReport { key: key.to_owned(), engines })
}

/// Ids of the engines that know of the session, from this process or an earlier one.
async fn knowing(house: &Arc<House>, session: &Session, row: SessionRow) -> Result<BTreeSet<String>, TurnError> {
    let reading = house.clone();
    let stored = house.blocking(move || Ok(reading.store.engines_of(row)?)).await?;
    let state = session.state();
    let seen = state.extra.seen.keys().cloned();
    let owed = state.extra.outbox.iter().map(|row| row.engine.clone());
    // What the host keeps with the session goes as well, and nobody has to be told.
    Ok(stored.into_iter().chain(seen).chain(owed).filter(|id| id != hosts::OWNER).collect())
}

async fn tell(house: &Arc<House>, session: &Arc<Session>, id: String, end: End) -> ToldEngine {
    let agent = session.state().record().agent.clone();
    let Some(engine) = house.slot.engine(&agent, &id) else {
        return ToldEngine { engine: id, told: false, reason: Some("it is not in service".into()) };
    };
    if !engine.has(Hook::OnSessionEnded) {
        return ToldEngine { engine: id, told: false, reason: Some("it has no onSessionEnded".into()) };
    }
    let run = told_by(house, session, engine);
    let facts = run.session_facts(None, None);
    match run.segment(facts, false, move |segment| segment.on_session_ended(end.code())).await {
        Ok(told) => ToldEngine { engine: id, told, reason: None },
        Err(failure) => {
            tracing::warn!(
                engine = failure.engine,
                reason = failure.reason,
                "an engine was not told of a session's end"
            );
            ToldEngine { engine: id, told: false, reason: Some(failure.reason) }
        }
    }
}

fn told_by(house: &Arc<House>, session: &Arc<Session>, engine: EngineRef) -> TurnRun {
    TurnRun::operation(house.clone(), session.clone(), Lease::only(engine), None)
}

async fn submit(house: &House, row: SessionRow, write: Write) -> Result<(), TurnError> {
    let lease = Some((row, house.store.lease()));
    let done = house.store.submit(Submission { lease, writes: vec![write] });
    tokio::time::timeout(STORE_PATIENCE, done.durable()).await.unwrap_or(Err(StoreError::Deadline))?;
    Ok(())
}

async fn is_left(house: &Arc<House>, row: SessionRow) -> Result<bool, TurnError> {
    let reading = house.clone();
    house.blocking(move || Ok(reading.store.scope_is_left(row)?)).await
}
