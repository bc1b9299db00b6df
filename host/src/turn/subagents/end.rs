//! The end of a child: written down, told to its engine, and its session deleted when nobody shall read it any more.

use super::super::TurnError;
use super::super::ended::{self, End};
use super::super::house::House;
use super::super::run::TurnRun;
use super::child::Child;
use super::{SubagentReport, durable, keep, stored};
use crate::observe::failpoint;
use crate::slot::{FailureKind, Lease};
use crate::transcript::{SubagentEnd, SubagentRecord, SubagentState, Write};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// Longest wait for a child that was told to end: its hooks have deadlines, and so has what follows them.
const END_PATIENCE: Duration = Duration::from_secs(300);

/// How a child ends.
pub(super) struct Ending {
    pub(super) reason: SubagentEnd,
    pub(super) cause: Option<String>,
    pub(super) result: Option<String>,
}

/// Ends a running child: reason and result are written down, and its engine is told after it took the child's turn over.
pub(super) async fn conclude(
    house: &Arc<House>,
    child: &Arc<Child>,
    ending: Ending,
    tell: Option<oneshot::Sender<SubagentReport>>,
) {
    let now = super::super::clock::now_ms();
    let usage = child.record().usage;
    let record = child.change(|record| {
        record.state = SubagentState::Ending;
        record.reason = Some(ending.reason);
        record.cause = ending.cause;
        record.result = ending.result;
        record.usage = usage;
        record.ended_ms = now;
        // Who ends a child by hand wants to hear no more of it.
        record.delivered = ending.reason == SubagentEnd::Deleted;
    });
    house.count_subagent(&record, ending.reason.name());
    // The child's turn is on disk already, so its answer may be heard.
    let heard = tell.is_some_and(|tell| tell.send(SubagentRecord { delivered: true, ..record }.into()).is_ok());
    let record = child.change(|record| record.delivered |= heard);
    failpoint::pass("subagent.end.before");
    if let Err(error) = keep(house, record.clone()).await {
        // The store says what it had before, and the next process ends the child again.
        tracing::error!(%error, child = &*child.key, "the end of a subagent could not be kept");
    }
    if !record.delivered {
        super::note::arrived(house, &record);
    }
    match house.lanes.enter(&child.key).await {
        Ok(_lane) => finish(house, record).await,
        // The sweep tells the engine.
        Err(error) => tracing::warn!(%error, child = &*child.key, "the end of a subagent waits for its session"),
    }
    house.subagents.remove(&child.key);
    child.done.cancel();
}

/// Tells the engine and writes down that it was told. The caller holds the child's lane.
pub(super) async fn finish(house: &Arc<House>, mut record: SubagentRecord) {
    let reason = record.reason.unwrap_or(SubagentEnd::Released);
    record.told = record.told || tell_engine(house, &record, reason).await;
    failpoint::pass("subagent.end.told");
    record.state = SubagentState::Ended;
    if let Err(error) = keep(house, record.clone()).await {
        tracing::warn!(%error, child = record.child, "the end of a subagent could not be kept; its engine is told again");
    }
}

/// `onSubagentEnded`. False when the engine could not be called and is to be told later.
async fn tell_engine(house: &Arc<House>, record: &SubagentRecord, reason: SubagentEnd) -> bool {
    let Some(engine) = house.slot.engine(&record.agent, &record.engine).filter(|engine| engine.in_service()) else {
        return false;
    };
    let session = match house.open(&record.child, true).await {
        Ok(session) => session,
        Err(error) => {
            tracing::warn!(%error, child = record.child, "an engine was not told of the end of a subagent");
            return false;
        }
    };
    let key = record.child.clone();
    let run = TurnRun::operation(house.clone(), session, Lease::only(engine), None);
    let facts = run.session_facts(None, None);
    let told = run.segment(facts, false, move |segment| segment.on_subagent_ended(&key, reason.code())).await;
    match told {
        Ok(_) => true,
        Err(failure) => {
            tracing::warn!(
                engine = failure.engine,
                reason = failure.reason,
                child = record.child,
                "an engine failed to hear of the end of a subagent"
            );
            // It was called, and once is the promise; it was not, and it still has to be.
            !matches!(failure.kind, FailureKind::Busy | FailureKind::Quarantined | FailureKind::Cancelled)
        }
    }
}

/// Before a session is deleted, and before its lane is entered: if it is a child that has not ended, it ends now.
pub(in super::super) async fn stop_child(house: &Arc<House>, key: &str) -> Result<(), TurnError> {
    if !super::may_be_child(key) {
        return Ok(());
    }
    if let Some(child) = house.subagents.live(key) {
        child.stop(SubagentEnd::Deleted, "it was ended");
        if tokio::time::timeout(END_PATIENCE, child.done.cancelled()).await.is_err() {
            return Err(TurnError::QueueTimeout { seconds: END_PATIENCE.as_secs() });
        }
    }
    let _lane = house.lanes.enter(key).await?;
    let Some(mut record) = stored(house, key).await? else { return Ok(()) };
    if record.open() && house.subagents.live(key).is_none() {
        if record.reason.is_none() {
            record.reason = Some(SubagentEnd::Deleted);
            record.cause = Some("it was ended".into());
            record.ended_ms = super::super::clock::now_ms();
        }
        record.delivered = true;
        finish(house, record).await;
    }
    Ok(())
}

/// Ends the children of a session and deletes their sessions: the session is deleted or reset, and its lane is held.
pub(in super::super) async fn children_end(house: &Arc<House>, parent: &str) -> Result<(), TurnError> {
    let (asked, key) = (house.clone(), parent.to_owned());
    let children = house.blocking(move || Ok(asked.store.subagents(&key, false)?)).await?;
    for child in children.into_iter().filter(|child| !child.gone) {
        remove(house, &child.child, End::Deleted).await?;
    }
    Ok(())
}

/// Ends a child if it has not ended, and deletes its session; its own children go first.
pub(super) fn remove<'a>(
    house: &'a Arc<House>,
    child: &'a str,
    end: End,
) -> Pin<Box<dyn Future<Output = Result<(), TurnError>> + Send + 'a>> {
    Box::pin(async move {
        match ended::end(house, child, end, &CancellationToken::new()).await {
            // It never had a session, or a process died in between.
            Err(TurnError::NoSession { .. }) => {
                stop_child(house, child).await?;
                forget(house, child).await
            }
            other => other.map(|_| ()),
        }
    })
}

/// A child's session was deleted.
pub(in super::super) async fn forget(house: &Arc<House>, key: &str) -> Result<(), TurnError> {
    if !super::may_be_child(key) {
        return Ok(());
    }
    let Some(mut record) = stored(house, key).await? else { return Ok(()) };
    TurnError::at("subagent.forget")?;
    record.gone = true;
    let (asked, parent) = (house.clone(), record.parent.clone());
    let orphan = house.blocking(move || Ok(asked.store.session(&parent)?.is_none())).await?;
    let write =
        if orphan && !record.open() { Write::SubagentForget(record.child) } else { Write::Subagent(Box::new(record)) };
    durable(house, vec![write]).await?;
    Ok(())
}
