//! `/compact`: a person or a program asks.

use super::Ask;
use crate::slot::{LeaseRequest, Operation};
use crate::turn::house::House;
use crate::turn::run::TurnRun;
use crate::turn::{CompactReport, TurnError};
use engine_abi::wire::{compaction_target, trigger};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Compacts a session now. `client` fires when nobody wants it any more.
pub(in crate::turn) async fn manual(
    house: &Arc<House>,
    key: &str,
    focus: Option<String>,
    client: CancellationToken,
) -> Result<CompactReport, TurnError> {
    let lane = tokio::select! {
        lane = house.lanes.enter(key) => lane?,
        () = client.cancelled() => return Err(TurnError::Cancelled),
    };
    let session = house.open(key, false).await?;
    let agent = session.state().record().agent.clone();
    let lease = house
        .slot
        .lease(&LeaseRequest::turn(agent, true).operation(Operation::ManualCompact))
        .map_err(TurnError::Slot)?;
    let mut run = TurnRun::operation(house.clone(), session, lease, Some(lane));
    run.cancel.wanted_by(client);
    run.keep_open_turn();
    let owns = run.lease.engine().info().owns_compaction;
    let before = if owns { run.shown_tokens().await } else { None };
    let window = run.window();
    let reserve = run.agent.compaction.reserve_tokens.min(window / 4);
    let ask = Ask {
        trigger: trigger::MANUAL,
        force: true,
        target: compaction_target::BUDGET,
        attempt: 1,
        max_attempts: 1,
        budget: run.agent.counter.budget(window.saturating_sub(reserve)),
        current: run.session.state().extra.cache.as_ref().and_then(|cache| cache.total),
        focus,
        may_defer: false,
    };
    let engine = run.lease.engine().id().to_owned();
    let degraded = run.degraded_code();
    let mut measured = run.compact(ask).await?;
    if let (true, Some(before)) = (measured.claimed, before) {
        let after = run.shown_tokens().await.unwrap_or(before);
        measured.compacted = run.prove_compaction(before, after);
        (measured.before, measured.after) = (before, after);
        if !measured.compacted {
            measured.reason = Some(super::NO_PROGRESS.into());
        }
    }
    if measured.compacted {
        run.note_progress(true);
    }
    run.barrier().await?;
    let session_id = run.session.state().record().session_id.clone();
    Ok(CompactReport {
        ok: measured.ok,
        compacted: measured.compacted,
        reason: measured.reason,
        engine,
        degraded,
        tokens_before: measured.before,
        tokens_after: measured.after,
        first_kept_entry_id: measured.first_kept,
        summary: measured.summary,
        method: measured.method,
        session_id,
        successor: measured.successor,
    })
}
