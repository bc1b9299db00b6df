//! First sight of a session by an engine: it catches up through the cursor, then maintains. Long ones are told of while they run.

use super::clock::now_ms;
use super::house::House;
use super::run::TurnRun;
use super::services::Manner;
use crate::observe::InFlight;
use crate::slot::{Hook, HookFailure};
use crate::transcript::{EntryId, Submission, TurnRecord, Write};
use engine_abi::wire::trigger;
use serde::Serialize;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A catch-up that takes longer is told of, and again after each further time like this.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// A catch-up that runs.
#[derive(Debug)]
pub(super) struct CatchUp {
    engine: String,
    entries: u64,
    read: AtomicU64,
    since_ms: i64,
}

impl CatchUp {
    /// The engine read further.
    pub(super) fn read(&self, entries: usize) {
        self.read.fetch_add(entries as u64, Ordering::Relaxed);
    }

    fn status(&self) -> CatchUpStatus {
        CatchUpStatus {
            engine: self.engine.clone(),
            entries: self.entries,
            read: self.read.load(Ordering::Relaxed),
            since_ms: self.since_ms,
        }
    }
}

/// How far an engine has come that reads what it missed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CatchUpStatus {
    /// Registered id of the engine.
    pub engine: String,
    /// Messages of the session before the current turn.
    pub entries: u64,
    /// Messages that it has read.
    pub read: u64,
    /// When it began, ms since the epoch.
    pub since_ms: i64,
}

/// The catch-ups that run, by session.
#[derive(Debug, Default)]
pub(super) struct CatchUps(Mutex<HashMap<Arc<str>, Arc<CatchUp>>>);

impl CatchUps {
    /// That of a session.
    pub(super) fn status(&self, key: &str) -> Option<CatchUpStatus> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).map(|running| running.status())
    }
}

/// A catch-up in the list; taken out when dropped.
struct Listed {
    house: Arc<House>,
    key: Arc<str>,
    _counted: Option<InFlight>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.house.catch_ups.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
    }
}

impl TurnRun {
    /// `bootstrap`, then `maintain`, both before the current turn. Gives the last entry that the engine read, or 0.
    pub(super) async fn bootstrap(&mut self) -> Result<EntryId, HookFailure> {
        let engine = self.lease.engine().clone();
        if !engine.has(Hook::Bootstrap) && !engine.has(Hook::Maintain) {
            return Ok(0);
        }
        let since = Instant::now();
        let facts = self.session_facts(None, None);
        self.services.take_read_up_to();
        self.services.set_head_pending(self.admitted.head_pending);
        let catch_up = Arc::new(CatchUp {
            engine: engine.id().to_owned(),
            entries: self.entries_before_the_turn(),
            read: AtomicU64::new(0),
            since_ms: now_ms(),
        });
        // One that only watches maintains nothing, and its catch-up is not what a turn waits for.
        let serves = self.manner == Manner::Serve;
        let listed = if serves { self.list(&catch_up) } else { None };
        self.services.set_catch_up(Some(catch_up.clone()));
        let outcome = {
            let work = self.segment(facts, false, move |segment| {
                segment.bootstrap()?;
                if serves { segment.maintain(trigger::BOOTSTRAP, false).map(drop) } else { Ok(()) }
            });
            tokio::pin!(work);
            let mut tell = tokio::time::interval_at(tokio::time::Instant::now() + TELL_EVERY, TELL_EVERY);
            loop {
                tokio::select! {
                    biased;
                    outcome = &mut work => break outcome,
                    _ = tell.tick() => self.tell(&catch_up, since, "an engine is catching up"),
                }
            }
        };
        self.services.set_catch_up(None);
        drop(listed);
        self.timed("bootstrap", since);
        self.follow_rewrite();
        outcome?;
        if since.elapsed() >= TELL_EVERY {
            self.tell(&catch_up, since, "an engine has caught up");
        }
        Ok(self.services.take_read_up_to())
    }

    fn list(&self, catch_up: &Arc<CatchUp>) -> Option<Listed> {
        let key = self.session.key.clone()?;
        let counted = self.house.metrics.as_ref().map(|metrics| metrics.catching_up());
        let mut running = self.house.catch_ups.0.lock().unwrap_or_else(PoisonError::into_inner);
        running.insert(key.clone(), catch_up.clone());
        Some(Listed { house: self.house.clone(), key, _counted: counted })
    }

    fn tell(&self, catch_up: &CatchUp, since: Instant, what: &str) {
        let CatchUpStatus { engine, entries, read, .. } = catch_up.status();
        let seconds = since.elapsed().as_secs();
        tracing::info!(engine, session = self.session.key.as_deref(), read, entries, seconds, "{what}");
    }

    fn entries_before_the_turn(&self) -> u64 {
        let state = self.session.state();
        let first = if self.admitted.first == 0 { EntryId::MAX } else { self.admitted.first };
        let entries = state.entries().partition_point(|entry| entry.id < first);
        entries.saturating_sub(state.boundaries_before(first)) as u64
    }

    /// After a hook that may have rewritten the transcript: the current turn has new ids then.
    pub(super) fn follow_rewrite(&mut self) {
        let fence = self.services.fence();
        if fence == 0 || fence == self.admitted.first {
            return;
        }
        self.admitted.first = fence;
        let Some(key) = &self.idempotency_key else { return };
        // A retry after a crash must find what was admitted, where it is now.
        let state = self.session.state();
        let record = TurnRecord {
            turn_id: self.admitted.turn_id.clone(),
            session: state.record().row,
            admitted: fence,
            terminal: 0,
            idempotency_key: Some(key.clone()),
            engine: String::new(),
            degraded: None,
            detail: serde_json::json!({"outcome": "admitted", "request": self.asked}),
            started_ms: self.started_ms,
            ended_ms: 0,
        };
        let lease = Some((state.record().row, self.house.store.lease()));
        drop(self.house.store.submit(Submission { lease, writes: vec![Write::Turn(record)] }));
    }
}
