//! Subagents: children of sessions, from their start to the last thing that follows their end.
//!
//! ```text
//!  spawn: bounds, host requirements ─► record ─► prepareSubagentSpawn ─► session (fork: copied) ─► task admitted ─► running
//!             refused: nothing was            │ fails: the spawn fails      └─ fails: rollback, once ─┘               │
//!                                             └─ forgotten                                                            ▼
//!  ended ◄── onSubagentEnded, once ◄── ending (reason, result: on disk) ◄── answered | failed | budget | time | deleted
//!    ├─► the result: to who waits, else a note in the parent's transcript at its next turn
//!    └─► its time to live is over ─► its session is deleted
//! ```
//!
//! A child is an ordinary stored session; its task is its one turn. The store knows it from before the first step until nothing
//! is left to do, so that a process that dies leaves nothing that the next one does not find: what never ran is released, what
//! ran runs again, what ended is told, what is too old is swept ([`sweep`]).

mod budget;
mod child;
mod end;
mod error;
mod fork;
mod note;
mod report;
mod run;
mod spawn;
mod sweep;
mod tool;

pub use error::SubagentError;
pub use report::{SpawnBudgets, SpawnMode, SpawnRequest, SubagentReport};

pub(super) use child::Child;
pub(super) use end::{children_end, forget, stop_child};
pub(super) use note::{Notes, notes_behind, place_notes};
pub(super) use spawn::spawn;
pub(super) use sweep::start_sweeping;
pub(super) use tool::tool;

use super::TurnError;
use super::house::House;
use crate::transcript::{StoreError, SubagentEnd, SubagentRecord, SubagentState, Submission, Write};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What every key of a child holds.
const MARK: &str = ":subagent:";

/// The children that run in this process.
#[derive(Default)]
pub(super) struct Subagents {
    live: Mutex<HashMap<Arc<str>, Arc<Child>>>,
}

impl Subagents {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Arc<str>, Arc<Child>>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The running child with this session.
    pub(super) fn live(&self, key: &str) -> Option<Arc<Child>> {
        if may_be_child(key) { self.lock().get(key).cloned() } else { None }
    }

    fn add(&self, child: &Arc<Child>) {
        self.lock().insert(child.key.clone(), child.clone());
    }

    fn remove(&self, key: &str) {
        self.lock().remove(key);
    }

    /// Adds a child, unless its parent has as many running ones as it may have; then their number.
    fn add_within(&self, child: &Arc<Child>, most: usize) -> Result<(), usize> {
        let mut live = self.lock();
        let running = live.values().filter(|other| *other.parent == *child.parent).count();
        if running >= most {
            return Err(running);
        }
        live.insert(child.key.clone(), child.clone());
        Ok(())
    }
}

/// False for a key that is certainly none of a child.
pub(super) fn may_be_child(key: &str) -> bool {
    key.contains(MARK)
}

/// The children of a session, oldest first.
pub(super) async fn list(house: &Arc<House>, parent: &str) -> Result<Vec<SubagentReport>, TurnError> {
    let (asked, key) = (house.clone(), parent.to_owned());
    let records = house
        .blocking(move || {
            let records = asked.store.subagents(&key, false)?;
            if records.is_empty() && asked.store.session(&key)?.is_none() {
                return Err(TurnError::NoSession { key });
            }
            Ok(records)
        })
        .await?;
    Ok(records.into_iter().map(|record| current(house, record).into()).collect())
}

/// The same child as this process knows it.
fn current(house: &House, record: SubagentRecord) -> SubagentRecord {
    house.subagents.live(&record.child).map_or(record, |child| child.record())
}

/// Ends a child and deletes its session.
pub(super) async fn end_one(house: &Arc<House>, parent: &str, child: &str) -> Result<SubagentReport, TurnError> {
    let unknown = || TurnError::Subagent(SubagentError::Unknown { child: child.to_owned() });
    let record = stored(house, child).await?.filter(|record| record.parent == parent).ok_or_else(unknown)?;
    end::remove(house, &record.child, super::ended::End::Deleted).await?;
    // One that was still being started is forgotten, and what was prepared for it is rolled back.
    let never_ran = SubagentRecord {
        state: SubagentState::Ended,
        reason: Some(SubagentEnd::Deleted),
        delivered: true,
        gone: true,
        ..record
    };
    Ok(stored(house, child).await?.unwrap_or(never_ran).into())
}

/// The session of a child takes one turn, its task; the caller holds its lane.
///
/// # Errors
///
/// [`SubagentError::Closed`] for any other.
pub(super) async fn open_to(house: &Arc<House>, key: &str, idempotency_key: Option<&str>) -> Result<(), TurnError> {
    if !may_be_child(key) {
        return Ok(());
    }
    let own = idempotency_key.and_then(|own| own.strip_prefix(run::TASK)).is_some_and(|child| child == key);
    if own && house.subagents.live(key).is_some() {
        return Ok(());
    }
    match stored(house, key).await? {
        Some(record) => {
            let state = SubagentReport::from(record).state;
            Err(TurnError::Subagent(SubagentError::Closed { child: key.to_owned(), state }))
        }
        None => Ok(()),
    }
}

/// A child as the store has it.
async fn stored(house: &Arc<House>, child: &str) -> Result<Option<SubagentRecord>, TurnError> {
    let (asked, key) = (house.clone(), child.to_owned());
    house.blocking(move || Ok(asked.store.subagent(&key)?)).await
}

/// Writes a child down, and waits until it is on disk.
async fn keep(house: &House, record: SubagentRecord) -> Result<(), StoreError> {
    durable(house, vec![Write::Subagent(Box::new(record))]).await
}

async fn durable(house: &House, writes: Vec<Write>) -> Result<(), StoreError> {
    let ack = house.store.submit(Submission { lease: None, writes });
    tokio::time::timeout(super::settle::STORE_PATIENCE, ack.durable()).await.unwrap_or(Err(StoreError::Deadline))
}
