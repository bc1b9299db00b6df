//! What nobody in this process looks after: children of a process that died, and those whose time to live is over.

use super::super::TurnError;
use super::super::clock::now_ms;
use super::super::ended::End;
use super::super::house::House;
use super::child::Child;
use super::end::{finish, remove};
use super::note::arrived;
use super::{keep, run, stored};
use crate::transcript::{SubagentEnd, SubagentRecord, SubagentState};
use std::sync::Arc;
use std::time::Duration;

/// How often it is looked; one look is one query of what is due.
const EVERY: Duration = Duration::from_secs(1);
/// How often a task is begun: a child whose turn ends the process must not do so for ever.
const ATTEMPTS: u32 = 3;

/// Looks at once, and then again and again until the gateway stops.
pub(in super::super) fn start_sweeping(house: &Arc<House>) {
    let stop = house.stop.clone();
    let runtime = house.runtime.clone();
    let house = Arc::downgrade(house);
    runtime.spawn(async move {
        let mut tick = tokio::time::interval(EVERY);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => {}
            }
            let Some(house) = house.upgrade() else { return };
            let round = house.clone();
            match house.finish(async move { sweep(&round).await }).await {
                Ok(()) => {}
                Err(TurnError::Draining) => return,
                Err(error) => tracing::warn!(%error, "the subagents were not swept"),
            }
        }
    });
}

async fn sweep(house: &Arc<House>) -> Result<(), TurnError> {
    let asked = house.clone();
    let due = house.blocking(move || Ok(asked.store.subagents_due(now_ms())?)).await?;
    for record in due {
        if house.subagents.live(&record.child).is_some() || (owed(&record) && !can_be_told(house, &record)) {
            continue;
        }
        if let Err(error) = look_after(house, &record.child).await {
            tracing::warn!(%error, child = record.child, "a subagent was not swept");
        }
    }
    Ok(())
}

/// It ended, and its engine was out.
fn owed(record: &SubagentRecord) -> bool {
    record.state == SubagentState::Ended && !record.told && (record.gone || record.expires_ms > now_ms())
}

fn can_be_told(house: &House, record: &SubagentRecord) -> bool {
    house.slot.engine(&record.agent, &record.engine).is_some_and(|engine| engine.in_service())
}

async fn look_after(house: &Arc<House>, key: &str) -> Result<(), TurnError> {
    // One that somebody uses waits for the next look, and the others do not wait for it.
    let Ok(lane) = tokio::time::timeout(EVERY, house.lanes.enter(key)).await else { return Ok(()) };
    let lane = lane?;
    // Whoever held the lane may have done it all.
    let Some(mut record) = stored(house, key).await? else { return Ok(()) };
    if house.subagents.live(key).is_some() {
        return Ok(());
    }
    let now = now_ms();
    let over = record.expires_ms <= now;
    match record.state {
        SubagentState::Running if !over && record.attempts < ATTEMPTS => {
            record.attempts += 1;
            keep(house, record.clone()).await?;
            let child = Child::new(record);
            house.subagents.add(&child);
            drop(lane);
            return match run::begin(house, &child) {
                Ok(head) => {
                    run::watch(house, &child, head, None);
                    Ok(())
                }
                Err(error) => {
                    house.subagents.remove(key);
                    Err(error)
                }
            };
        }
        SubagentState::Preparing | SubagentState::Running => {
            let (reason, cause) = match record.state {
                // Who asked for it heard nothing, or an error.
                SubagentState::Preparing => {
                    (SubagentEnd::Released, "the gateway ended before it was started".to_owned())
                }
                _ if over => (SubagentEnd::Swept, "its time to live was over".to_owned()),
                _ => (SubagentEnd::Released, format!("the gateway ended {ATTEMPTS} times while it ran")),
            };
            let never_ran = record.state == SubagentState::Preparing;
            record.delivered = never_ran;
            // Nothing was prepared for it.
            record.told = never_ran && record.light;
            record.state = SubagentState::Ending;
            record.reason = Some(reason);
            record.cause = Some(cause);
            record.ended_ms = now;
            house.count_subagent(&record, reason.name());
            keep(house, record.clone()).await?;
            if !never_ran {
                arrived(house, &record);
            }
            finish(house, record.clone()).await;
        }
        SubagentState::Ending => finish(house, record.clone()).await,
        SubagentState::Ended if !record.told => finish(house, record.clone()).await,
        SubagentState::Ended => {}
    }
    drop(lane);
    let never_ran = record.reason == Some(SubagentEnd::Released) && record.delivered;
    if !record.gone && (over || never_ran) { remove(house, key, End::Expired).await } else { Ok(()) }
}
