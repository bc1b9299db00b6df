//! The one writer: a thread that takes all that is queued, commits it with one sync, and acknowledges each submission.
//!
//! ```text
//!  submit ─► queue ─►  BEGIN IMMEDIATE
//!                        SAVEPOINT ─ submission 1 ─ RELEASE            whole,
//!                        SAVEPOINT ─ submission 2 ─ ROLLBACK TO        or not at all
//!                        …
//!                      COMMIT (one sync)  ─► acknowledge 1, refuse 2, …
//! ```

use super::checkpoint::{Gate, Gone};
use super::ids::Ids;
use super::named::Named;
use super::trouble::Trouble;
use super::{apply, backend, engine, purge};
use crate::observe::failpoint;
use crate::transcript::{EngineOp, Entry, EntryBody, SessionRow, StoreError, Submission, Write};
use rusqlite::Connection;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Most submissions in one commit: bounds how long the first of them waits.
const BATCH: usize = 256;
/// Most bytes in one commit, about.
const BATCH_BYTES: usize = 8 << 20;
/// A busy store takes a part of what was deleted away after so many commits.
const PURGE_EVERY: u32 = 32;
/// How long a store that is closed takes away what deleted sessions left; the rest goes at the next start.
const CLOSING: Duration = Duration::from_secs(2);
/// Pages that a submission touches whatever its size: the ends of the tables and indexes.
const PAGES: usize = 4;

pub(super) type Reply = oneshot::Sender<Result<(), StoreError>>;

/// What the queue holds.
pub(super) enum Job {
    /// Apply and acknowledge.
    Submit(Submission, Reply),
    /// The same, with whatever comes until then, so that one sync does for both.
    Soon(Submission, Reply, Instant),
    /// Somebody waits for what came soon.
    Hurry,
    /// Finish what is queued before this, then end.
    Close,
}

/// Counters of the writer.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) submissions: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) commits: AtomicU64,
}

/// The writer's state; lives on its thread.
pub(super) struct Writer {
    pub(super) trouble: Arc<Trouble>,
    pub(super) named: Arc<Named>,
    pub(super) conn: Connection,
    pub(super) jobs: Receiver<Job>,
    pub(super) gate: Arc<Gate>,
    pub(super) ids: Arc<Ids>,
    pub(super) counters: Arc<Counters>,
}

impl Writer {
    /// Body of the thread. Ends at [`Job::Close`] or when nobody can submit any more.
    pub(super) fn run(mut self) {
        let mut leaving = purge::resume(&mut self.conn).unwrap_or_else(|error| {
            tracing::warn!(%error, "what deleted sessions left could not be looked up");
            VecDeque::new()
        });
        let mut busy = 0;
        if let Err(error) = engine::drop_orphans(&mut self.conn, self.ids.sessions.first) {
            tracing::warn!(%error, "what ephemeral sessions left in the engines' store could not be dropped");
        }
        let mut batch = Vec::new();
        let mut open = true;
        while open {
            let next = match self.jobs.try_recv() {
                Err(TryRecvError::Empty) if !leaving.is_empty() => {
                    self.purge(&mut leaving);
                    continue;
                }
                Err(TryRecvError::Empty) => self.jobs.recv().ok(),
                Err(TryRecvError::Disconnected) => None,
                Ok(job) => Some(job),
            };
            // Until when nobody waits for any of the batch.
            let mut patience = None;
            match next {
                Some(Job::Submit(submission, reply)) => batch.push((submission, reply)),
                Some(Job::Soon(submission, reply, until)) => {
                    patience = Some(until);
                    batch.push((submission, reply));
                }
                Some(Job::Hurry) => continue,
                Some(Job::Close) | None => break,
            }
            let mut bytes = batch.first().map_or(0, |(submission, _)| weight(submission));
            while batch.len() < BATCH && bytes < BATCH_BYTES {
                let more = match patience {
                    Some(until) => self.jobs.recv_timeout(until.saturating_duration_since(Instant::now())).ok(),
                    None => self.jobs.try_recv().ok(),
                };
                match more {
                    Some(Job::Submit(submission, reply)) => {
                        patience = None;
                        bytes += weight(&submission);
                        batch.push((submission, reply));
                    }
                    Some(Job::Soon(submission, reply, _)) => {
                        bytes += weight(&submission);
                        batch.push((submission, reply));
                    }
                    Some(Job::Hurry) => patience = None,
                    Some(Job::Close) => {
                        open = false;
                        break;
                    }
                    None => break,
                }
            }
            self.gate.enter();
            let results = self.commit_or_fail(&batch);
            failpoint::pass("store.acknowledge.before");
            self.gate.leave((batch.len() * PAGES + bytes / 4096) as u64);
            busy += 1;
            if busy % PURGE_EVERY == 0 && !leaving.is_empty() {
                // A store that is never idle frees what was deleted all the same.
                self.purge(&mut leaving);
            }
            for ((submission, reply), result) in batch.drain(..).zip(results) {
                if result.is_ok() {
                    leaving.extend(submission.writes.iter().filter_map(deleted));
                    if submission.writes.iter().any(takes_away) {
                        self.gate.deleted(Gone::Keys);
                    }
                }
                if let (Err(error), Some((session, _))) = (&result, submission.lease) {
                    self.trouble.failed(session, error);
                }
                let counter = if result.is_ok() { &self.counters.submissions } else { &self.counters.refused };
                counter.fetch_add(1, Ordering::Relaxed);
                // Nobody may wait for it any more; the writes stand all the same.
                let _ = reply.send(result);
            }
        }
        let until = Instant::now() + CLOSING;
        while !leaving.is_empty() && Instant::now() < until {
            self.purge(&mut leaving);
        }
        failpoint::pass("store.close.writer");
    }

    /// [`Writer::commit`], whatever breaks in it: the next batch finds the writer in good order.
    fn commit_or_fail(&mut self, batch: &[(Submission, Reply)]) -> Vec<Result<(), StoreError>> {
        if let Some(damage) = self.trouble.refuses() {
            return batch.iter().map(|_| Err(damage.clone())).collect();
        }
        let results = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.commit(batch)));
        results.unwrap_or_else(|_| {
            let error = StoreError::Backend("the writer panicked; nothing of the batch was written".into());
            self.roll_back();
            self.trouble.committed(Some(&error));
            batch.iter().map(|_| Err(error.clone())).collect()
        })
    }

    fn roll_back(&self) {
        if !self.conn.is_autocommit()
            && let Err(error) = self.conn.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "a failed transaction could not be rolled back");
        }
    }

    /// Takes a part of the first of the deleted sessions away.
    fn purge(&mut self, leaving: &mut VecDeque<SessionRow>) {
        let Some(session) = leaving.front().copied() else { return };
        self.gate.enter();
        let done = self.conn.transaction().map_err(backend).and_then(|part| {
            StoreError::at("store.purge.part")?;
            let last = purge::part(&part, session, purge::What::Session)?;
            part.commit().map_err(backend)?;
            Ok(last)
        });
        self.gate.leave(purge::PART as u64);
        match done {
            Ok(false) => {}
            Ok(true) => {
                leaving.pop_front();
                self.gate.deleted(Gone::Session);
            }
            Err(error) => {
                tracing::warn!(%error, session, "what a deleted session left is taken away at the next start");
                leaving.pop_front();
            }
        }
    }

    /// One transaction for all of them; the results in their order.
    fn commit(&mut self, batch: &[(Submission, Reply)]) -> Vec<Result<(), StoreError>> {
        if batch.iter().all(|(submission, _)| is_barrier(submission)) {
            return batch.iter().map(|_| Ok(())).collect();
        }
        match self.transaction(batch) {
            Ok(results) => results,
            Err(error) => {
                self.roll_back();
                self.trouble.committed(Some(&error));
                batch.iter().map(|_| Err(error.clone())).collect()
            }
        }
    }

    fn transaction(&mut self, batch: &[(Submission, Reply)]) -> Result<Vec<Result<(), StoreError>>, StoreError> {
        let conn = &self.conn;
        let run = |sql: &str| conn.prepare_cached(sql).and_then(|mut s| s.execute([])).map_err(backend);
        // Before: a log of one database must not grow with what was meant for another.
        self.named.check()?;
        StoreError::at("store.begin.before")?;
        run("BEGIN IMMEDIATE")?;
        StoreError::at("store.begin.after")?;
        let mut results = Vec::with_capacity(batch.len());
        for (submission, _) in batch {
            run("SAVEPOINT submission")?;
            let result = apply::submission(conn, submission);
            if let Err(error) = &result {
                // Some failures of the disk end the whole transaction: then nothing of the batch was written.
                if conn.is_autocommit() {
                    return Err(error.clone());
                }
                run("ROLLBACK TO submission")?;
            }
            run("RELEASE submission")?;
            results.push(result);
        }
        if results.iter().all(Result::is_err) {
            run("ROLLBACK")?;
            return Ok(results);
        }
        let extended = self.ids.extend(conn).map_err(backend)?;
        StoreError::at("store.commit.before")?;
        run("COMMIT")?;
        failpoint::pass("store.commit.after");
        // And after: what went into a file that nobody will find again is not durable.
        let named = self.named.check();
        self.ids.extended(extended);
        named?;
        self.trouble.committed(None);
        self.counters.commits.fetch_add(1, Ordering::Relaxed);
        Ok(results)
    }
}

/// The session that a write deletes.
fn deleted(write: &Write) -> Option<SessionRow> {
    match write {
        Write::DeleteSession { session } => Some(*session),
        _ => None,
    }
}

/// True for a write that takes away what was told or kept, and is no deletion of a session.
fn takes_away(write: &Write) -> bool {
    match write {
        Write::EngineBatch { ops, .. } => {
            ops.iter().any(|op| matches!(op, EngineOp::Delete(_) | EngineOp::DeletePrefix(_)))
        }
        Write::EngineDropScope { .. }
        | Write::ResetSession { .. }
        | Write::DropScopePart { .. }
        | Write::SubagentForget(_) => true,
        _ => false,
    }
}

fn is_barrier(submission: &Submission) -> bool {
    submission.writes.is_empty() && submission.lease.is_none()
}

/// Bytes of the large parts of a submission.
fn weight(submission: &Submission) -> usize {
    submission.writes.iter().map(write_weight).sum()
}

fn write_weight(write: &Write) -> usize {
    match write {
        Write::Append(Entry { body: EntryBody::Message(message), .. }) => message.weight(),
        Write::Append(Entry { body: EntryBody::Compaction(compaction), .. }) => compaction.summary.len(),
        Write::FreezePruned { text, .. } => text.len(),
        Write::EngineBatch { ops, .. } => ops
            .iter()
            .map(|op| match op {
                EngineOp::Put(key, value) => key.len() + value.len(),
                _ => 64,
            })
            .sum(),
        _ => 256,
    }
}
