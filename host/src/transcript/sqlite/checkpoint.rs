//! Copying the log into the database, on a thread and a connection of its own, so that no commit pays for it.
//!
//! When the whole log is copied and nobody reads from it, the next commit starts it over: overwriting a file costs about half
//! of growing it. Under steady load a copy never quite catches up with the writer; when the log has grown past its bound, the
//! writer is held between two batches for the short rest.

use rusqlite::Connection;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Pages in the log from which on it is copied: 4 MiB.
const COPY_PAGES: u64 = 1_000;
/// Pages in the log from which on the writer is held until the copy is complete: 32 MiB.
const HOLD_PAGES: u64 = 8_000;
/// Copies in a row before it is left to the next occasion.
const ROUNDS: usize = 3;
/// Longest wait of either side for the other.
const PATIENCE: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
struct State {
    /// Pages written since the log was last copied whole; an estimate.
    pages: u64,
    /// The writer is inside a batch.
    busy: bool,
    /// The writer must wait before its next batch.
    hold: bool,
    closing: bool,
}

/// What the writer and the copying thread share.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
    pub(super) checkpoints: AtomicU64,
    pub(super) held: AtomicU64,
}

impl Gate {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The writer begins a batch; waits while it is held, but never for long.
    pub(super) fn enter(&self) {
        let mut state = self.lock();
        if state.hold {
            state = self
                .changed
                .wait_timeout_while(state, PATIENCE, |state| state.hold)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        state.busy = true;
    }

    /// The writer has committed a batch that wrote about `pages` pages.
    pub(super) fn leave(&self, pages: u64) {
        let mut state = self.lock();
        state.busy = false;
        state.pages += pages;
        if state.hold || state.pages >= COPY_PAGES {
            self.changed.notify_all();
        }
    }

    /// Ends the copying thread.
    pub(super) fn close(&self) {
        self.lock().closing = true;
        self.changed.notify_all();
    }

    fn wait_for_work(&self) -> bool {
        let state = self
            .changed
            .wait_while(self.lock(), |state| !state.closing && state.pages < COPY_PAGES)
            .unwrap_or_else(PoisonError::into_inner);
        !state.closing
    }

    fn hold(&self) {
        let mut state = self.lock();
        state.hold = true;
        let waited = self.changed.wait_timeout_while(state, PATIENCE, |state| state.busy);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn release(&self) {
        self.lock().hold = false;
        self.changed.notify_all();
    }
}

/// Body of the copying thread. Ends when the gate is closed.
pub(super) fn run(gate: &Gate, conn: &Connection) {
    while gate.wait_for_work() {
        let before = gate.lock().pages;
        let mut left = u64::MAX;
        let mut log = 0;
        for _ in 0..ROUNDS {
            (log, left) = copy(gate, conn);
            if left == 0 {
                break;
            }
        }
        if left > 0 && log >= HOLD_PAGES {
            gate.hold();
            (_, left) = copy(gate, conn);
            gate.release();
            gate.held.fetch_add(1, Ordering::Relaxed);
        }
        let mut state = gate.lock();
        // What was not copied waits for the next thousand pages: asking again at once would only compete with the writer.
        state.pages = if left == 0 { 0 } else { state.pages.saturating_sub(before.max(COPY_PAGES)) };
    }
}

/// One copy of what can be copied without waiting for anybody. Gives the pages in the log and those of them not copied yet.
fn copy(gate: &Gate, conn: &Connection) -> (u64, u64) {
    let began = Instant::now();
    let result =
        conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)));
    gate.checkpoints.fetch_add(1, Ordering::Relaxed);
    match result {
        Ok((log, copied)) => (log.max(0) as u64, (log - copied).max(0) as u64),
        Err(error) => {
            tracing::warn!(%error, elapsed = ?began.elapsed(), "the log could not be copied into the database");
            (0, u64::MAX)
        }
    }
}
