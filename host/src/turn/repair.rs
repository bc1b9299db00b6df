//! What waits or is blocked in a session's outbox, and the operator's hand on it.

use super::TurnError;
use super::house::House;
use super::run::TurnRun;
use super::session::Session;
use super::settle::STORE_PATIENCE;
use crate::slot::EngineRef;
use crate::transcript::{AcceptedFacts, BlockedReason, EntryId, OutboxRow, OutboxState, StoreError, Submission};
use serde::Serialize;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What shall become of the rows that are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RepairAction {
    /// Nothing: they are listed.
    #[default]
    List,
    /// Offered again, now.
    Retry,
    /// Dropped: their engines meet the entries through the cursor, if at all.
    Drop,
}

/// What the operator asks for.
#[derive(Debug, Clone, Default)]
pub struct RepairRequest {
    /// What to do.
    pub action: RepairAction,
    /// Only rows of this engine.
    pub engine: Option<String>,
    /// Only the row of this turn.
    pub turn: Option<String>,
    /// Also rows that only wait, not the blocked ones alone.
    pub waiting: bool,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// What became of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RepairOutcome {
    /// It was listed.
    Listed,
    /// It was not asked for: it only waits, or its turn goes on when the client comes back.
    Kept,
    /// It would be offered again.
    WouldRetry,
    /// It would be dropped.
    WouldDrop,
    /// Its engine took it, or had it already.
    HandedOver,
    /// It cannot be offered.
    Blocked,
    /// It was offered in vain.
    Failed,
    /// Its engine cannot serve now.
    EngineUnavailable,
    /// It is gone.
    Dropped,
}

/// A row of the outbox, and what became of it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RepairRow {
    /// Key of the advancement.
    pub turn: String,
    /// Engine that it is for.
    pub engine: String,
    /// State.
    pub state: OutboxState,
    /// Why it is blocked.
    pub reason: Option<BlockedReason>,
    /// How often it was offered in vain.
    pub attempts: u32,
    /// Last error.
    pub last_error: Option<String>,
    /// When it was offered last, in ms since the epoch; 0 for never.
    pub attempted_ms: i64,
    /// Created, ms since the epoch.
    pub created_ms: i64,
    /// First entry.
    pub first_entry_id: EntryId,
    /// Last entry; 0 while nothing was answered.
    pub last_entry_id: EntryId,
    /// The facts of its acceptance.
    pub facts: Option<AcceptedFacts>,
    /// True when its engine has read the whole of it through the cursor: nothing is lost by dropping it.
    pub read_by_cursor: bool,
    /// What became of it.
    pub outcome: RepairOutcome,
}

/// What a repair found and did.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RepairReport {
    /// Key of the session.
    pub session: String,
    /// Nothing was changed.
    pub dry_run: bool,
    /// Rows that are blocked after it.
    pub blocked: usize,
    /// Rows that wait after it.
    pub waiting: usize,
    /// The rows, oldest first, as they are after it; those that are gone as they were.
    pub rows: Vec<RepairRow>,
}

/// Lists a session's outbox, and does what was asked.
pub(super) async fn repair(
    house: &Arc<House>,
    key: &str,
    ask: RepairRequest,
    client: &CancellationToken,
) -> Result<RepairReport, TurnError> {
    let _lane = house.lanes.enter_for(key, client).await?;
    let session = house.open(key, false).await?;
    let mut rows: Vec<OutboxRow> = session.state().extra.outbox.clone();
    rows.sort_by(|one, other| (one.first, &one.engine).cmp(&(other.first, &other.engine)));
    let mut done = Vec::with_capacity(rows.len());
    for row in rows {
        let chosen = ask.engine.as_ref().is_none_or(|engine| *engine == row.engine)
            && ask.turn.as_ref().is_none_or(|turn| *turn == row.key)
            && (row.state == OutboxState::Blocked || (ask.waiting && row.state.waits()));
        let outcome = match ask.action {
            RepairAction::List => RepairOutcome::Listed,
            _ if !chosen => RepairOutcome::Kept,
            RepairAction::Retry if ask.dry_run => RepairOutcome::WouldRetry,
            RepairAction::Drop if ask.dry_run => RepairOutcome::WouldDrop,
            RepairAction::Retry => retry(house, &session, &row).await?,
            RepairAction::Drop => {
                drop_row(house, &session, &row).await?;
                RepairOutcome::Dropped
            }
        };
        done.push(shown(&session, row, outcome));
    }
    session.state().extra.flush();
    let state = session.state();
    let count = |which: fn(OutboxState) -> bool| state.extra.outbox.iter().filter(|row| which(row.state)).count();
    Ok(RepairReport {
        session: key.to_owned(),
        dry_run: ask.dry_run,
        blocked: count(|state| state == OutboxState::Blocked),
        waiting: count(OutboxState::waits),
        rows: done,
    })
}

/// Offers one row again, whatever blocked it. What still blocks it blocks it again.
async fn retry(house: &Arc<House>, session: &Arc<Session>, row: &OutboxRow) -> Result<RepairOutcome, TurnError> {
    let agent = session.state().record().agent.clone();
    let Some(engine) = house.slot.engine(&agent, &row.engine).filter(EngineRef::durable) else {
        return Ok(RepairOutcome::EngineUnavailable);
    };
    if let Some(row) = session.state().row_mut(&row.engine, &row.key)
        && row.state == OutboxState::Blocked
    {
        row.state = OutboxState::Accepted;
        row.reason = None;
    }
    let mut run = TurnRun::alone(house, session, engine, None).await;
    let Some(offer) = run.offer_of(row.clone()).await? else { return Ok(RepairOutcome::Blocked) };
    Ok(match run.commit(vec![offer], false).await {
        Ok(true) => RepairOutcome::HandedOver,
        Ok(false) => RepairOutcome::Failed,
        Err(failure) => {
            tracing::warn!(engine = failure.engine, reason = failure.reason, "a repaired turn was not taken over");
            RepairOutcome::Failed
        }
    })
}

/// Drops a row; done when it is on disk.
async fn drop_row(house: &Arc<House>, session: &Session, row: &OutboxRow) -> Result<(), TurnError> {
    TurnError::at("outbox.repair.drop")?;
    let ack = {
        let mut state = session.state();
        let mut writes = std::mem::take(&mut state.extra.deferred);
        state.drop_row(&row.engine, &row.key, &mut writes);
        let lease = Some((state.record().row, house.store.lease()));
        house.store.submit(Submission { lease, writes })
    };
    tokio::time::timeout(STORE_PATIENCE, ack.durable()).await.unwrap_or(Err(StoreError::Deadline))?;
    tracing::info!(session = session.key.as_deref(), engine = row.engine, turn = row.key, "an outbox row was dropped");
    Ok(())
}

fn shown(session: &Session, row: OutboxRow, outcome: RepairOutcome) -> RepairRow {
    let mut state = session.state();
    let handed = state.extra.handed.get(&row.engine).copied().unwrap_or(0);
    let row = state.row_mut(&row.engine, &row.key).map(|row| row.clone()).unwrap_or(row);
    RepairRow {
        read_by_cursor: row.last != 0 && row.last <= handed,
        turn: row.key,
        engine: row.engine,
        state: row.state,
        reason: row.reason,
        attempts: row.attempts,
        last_error: row.last_error,
        attempted_ms: row.attempted_ms,
        created_ms: row.created_ms,
        first_entry_id: row.first,
        last_entry_id: row.last,
        facts: row.facts,
        outcome,
    }
}
