//! Copying the log into the database, on a thread and a connection of its own, so that no commit pays for it.
//!
//! When the whole log is copied and nobody reads from it, the next commit starts it over: overwriting a file costs about half
//! of growing it. Under steady load a copy never quite catches up with the writer; when the log has grown past its bound, the
//! writer is held between two batches for the short rest.
//!
//! What was deleted stands in the log until other writes lie over it. So after a deletion the log is emptied: copied whole and
//! cut, while the writer is held. At once when a session is gone; what engines and ephemeral turns delete waits for a pause.

use super::named::Named;
use super::schema;
use crate::observe::failpoint;
use rusqlite::Connection;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Pages in the log from which on it is copied: 4 MiB.
const COPY_PAGES: u64 = 1_000;
/// Pages in the log from which on the writer is held until the copy is complete: 16 MiB.
const HOLD_PAGES: u64 = 4_000;
/// Copies in a row before it is left to the next occasion.
const ROUNDS: usize = 3;
/// How long the writer must have been idle before the rest is copied.
const IDLE: Duration = Duration::from_millis(50);
/// The same after copies that failed, at most.
const LONGEST_IDLE: Duration = Duration::from_secs(30);
/// Longest wait of either side for the other.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long the writer must have been idle before the log is emptied of what engines deleted.
const SETTLED: Duration = Duration::from_secs(5);
/// Longest wait for such a pause, and for the one after a session is gone.
const LATEST: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(10));
/// How long an emptying waits for those who read from the log; they are let be, and it is tried again.
const READERS: Duration = Duration::from_millis(100);

/// What was deleted, and still stands in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gone {
    /// Keys of engines, or what is as small.
    Keys,
    /// All of a session.
    Session,
}

/// That the log is to be emptied.
#[derive(Debug, Clone, Copy)]
struct Emptying {
    /// As soon as the writer is idle for so long,
    idle: Duration,
    /// and then whether it is idle or not.
    by: Instant,
}

impl Emptying {
    fn after(gone: Gone) -> Emptying {
        let now = Instant::now();
        match gone {
            Gone::Keys => Emptying { idle: SETTLED, by: now + LATEST.0 },
            Gone::Session => Emptying { idle: IDLE, by: now + LATEST.1 },
        }
    }

    /// Both, as early as the earlier one.
    fn and(self, other: Option<Emptying>) -> Emptying {
        let other = other.unwrap_or(self);
        Emptying { idle: self.idle.min(other.idle), by: self.by.min(other.by) }
    }
}

/// What the copying thread has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Copy,
    Empty,
}

#[derive(Debug, Default)]
struct State {
    /// Pages written since the log was last copied; an estimate.
    pages: u64,
    /// Pages written since the store was opened; an estimate, but it changes with every batch.
    written: u64,
    /// The writer is inside a batch.
    busy: bool,
    /// The writer must wait before its next batch.
    hold: bool,
    /// The last copy left something; it is tried again as soon as the writer is idle for so long.
    unfinished: Option<Duration>,
    /// Something was deleted that stands in the log.
    emptying: Option<Emptying>,
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
        state.written += pages;
        // A test need not write so much.
        if failpoint::fails("store.checkpoint.soon") {
            state.pages = COPY_PAGES;
        }
        if state.hold || state.pages >= COPY_PAGES {
            self.changed.notify_all();
        }
    }

    /// Something was deleted: the log is to be emptied of it.
    pub(super) fn deleted(&self, gone: Gone) {
        let mut state = self.lock();
        state.emptying = Some(Emptying::after(gone).and(state.emptying));
        self.changed.notify_all();
    }

    /// Ends the copying thread.
    pub(super) fn close(&self) {
        self.lock().closing = true;
        self.changed.notify_all();
    }

    /// Waits until there is enough to copy, or the writer has been idle after a copy that left something or after a deletion.
    /// `None` when closing.
    fn wait_for_work(&self) -> Option<Work> {
        let mut state = self.lock();
        loop {
            if state.closing {
                return None;
            }
            if state.emptying.is_some_and(|emptying| Instant::now() >= emptying.by) {
                return Some(Work::Empty);
            }
            if state.pages >= COPY_PAGES {
                return Some(Work::Copy);
            }
            let idle = [state.unfinished, state.emptying.map(|emptying| emptying.idle)].into_iter().flatten().min();
            let Some(idle) = idle else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let before = state.written;
            let (after, waited) = self.changed.wait_timeout(state, idle).unwrap_or_else(PoisonError::into_inner);
            state = after;
            if waited.timed_out() && state.written == before && !state.busy && !state.closing {
                let empties = state.emptying.is_some_and(|emptying| emptying.idle <= idle);
                return Some(if empties { Work::Empty } else { Work::Copy });
            }
        }
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

/// Body of the copying thread. Ends when the gate is closed. Its connection is opened when it is first needed, not at the
/// start of the gateway.
pub(super) fn run(gate: &Gate, path: &Path, named: &Named) {
    let mut kept = None;
    // A disk that refuses is asked ever less often, and told of once. So is whoever reads from a log that is to be emptied.
    let (mut again, mut read) = (IDLE, IDLE);
    while let Some(work) = gate.wait_for_work() {
        failpoint::pass("store.checkpoint.before");
        let opened = match kept.take() {
            Some(conn) => Ok(conn),
            // Opened by its name: the log must not go into another database.
            None if named.check().is_err() => Err(rusqlite::Error::InvalidPath(path.to_owned())),
            None => schema::open_checkpointer(path),
        };
        let emptying = (work == Work::Empty).then(|| gate.lock().emptying.take()).flatten();
        let copied = opened.and_then(|conn| {
            let conn = kept.insert(conn);
            let copied = copies(gate, conn)?;
            // The most of it is copied while nobody waits.
            let emptied = emptying.is_none() || empty(gate, conn)?;
            Ok((copied, emptied))
        });
        failpoint::pass("store.checkpoint.after");
        let mut state = gate.lock();
        // Under load what is left waits for the next thousand pages: asking again at once would only compete with the writer.
        state.pages = 0;
        let later;
        state.unfinished = match copied {
            Ok((copied, emptied)) => {
                again = IDLE;
                read = if emptied { IDLE } else { (read * 2).min(LONGEST_IDLE) };
                later = (!emptied).then_some(read);
                let unfinished = emptying.is_none() && matches!(copied, Copied::Part(_));
                unfinished.then_some(IDLE)
            }
            Err(error) => {
                if again == IDLE {
                    tracing::warn!(%error, "the log cannot be copied into the database; it grows until it can");
                }
                again = (again * 2).min(LONGEST_IDLE);
                later = emptying.is_some().then_some(again);
                Some(again)
            }
        };
        if let Some(wait) = later {
            let emptying = Emptying { idle: wait, by: Instant::now() + wait.max(LATEST.1) };
            state.emptying = Some(emptying.and(state.emptying));
        }
    }
}

/// Copies all of the log and cuts it, while the writer is held. False where somebody reads from it.
fn empty(gate: &Gate, conn: &Connection) -> rusqlite::Result<bool> {
    gate.hold();
    let emptied = cut(conn);
    gate.release();
    emptied
}

fn cut(conn: &Connection) -> rusqlite::Result<bool> {
    conn.busy_timeout(READERS)?;
    let busy = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
    conn.busy_timeout(schema::CHECKPOINTER_PATIENCE)?;
    failpoint::pass("store.checkpoint.cut");
    if busy? != 0 {
        return Ok(false);
    }
    // A log that is empty while the store is in use tells at the next start that something was lost: so it is begun anew.
    schema::set_meta(conn, "emptied", 1)?;
    Ok(true)
}

/// Copies until all is copied, or it makes no sense any more.
fn copies(gate: &Gate, conn: &Connection) -> rusqlite::Result<Copied> {
    let mut copied = copy(gate, conn)?;
    for _ in 1..ROUNDS {
        if matches!(copied, Copied::Whole) {
            break;
        }
        copied = copy(gate, conn)?;
    }
    if matches!(copied, Copied::Part(log) if log >= HOLD_PAGES) {
        gate.hold();
        let held = copy(gate, conn);
        gate.release();
        gate.held.fetch_add(1, Ordering::Relaxed);
        copied = held?;
    }
    Ok(copied)
}

enum Copied {
    /// Everything, and nothing was written meanwhile: the next commit starts the log over.
    Whole,
    /// Something is left; pages in the log.
    Part(u64),
}

/// One copy of what can be copied without waiting for anybody.
fn copy(gate: &Gate, conn: &Connection) -> rusqlite::Result<Copied> {
    let before = gate.lock().written;
    let result =
        conn.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| Ok((row.get::<_, i64>(1)?, row.get::<_, i64>(2)?)));
    gate.checkpoints.fetch_add(1, Ordering::Relaxed);
    let state = gate.lock();
    let still = state.written == before && !state.busy;
    Ok(match result? {
        (log, copied) if log == copied && still => Copied::Whole,
        (log, _) => Copied::Part(log.max(0) as u64),
    })
}
