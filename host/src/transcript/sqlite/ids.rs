//! Ids and the lease token, seeded when the store is opened.
//!
//! An id that was handed out is never handed out again, also not when the process died before the entry was written or when
//! the session was deleted: a block of ids is reserved on disk before any of it is used, and the next process starts behind it.

use super::schema::{meta, set_meta};
use rusqlite::Connection;
use std::sync::atomic::{AtomicU64, Ordering};

/// Entry ids that one reservation covers.
const ENTRY_BLOCK: u64 = 4096;
/// Session rows that one reservation covers.
const SESSION_BLOCK: u64 = 256;

/// A counter with its reservation. Only the writer extends it.
#[derive(Debug)]
pub(super) struct Counter {
    name: &'static str,
    block: u64,
    /// First id of this process.
    pub(super) first: u64,
    next: AtomicU64,
    reserved: AtomicU64,
}

impl Counter {
    fn open(conn: &Connection, name: &'static str, block: u64) -> rusqlite::Result<Counter> {
        let first = meta(conn, name)?.max(1);
        set_meta(conn, name, first + block)?;
        Ok(Counter { name, block, first, next: AtomicU64::new(first), reserved: AtomicU64::new(first + block) })
    }

    /// A fresh id.
    pub(super) fn take(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Reserves more, inside the running transaction, when half of the block is used. Returns what to set once it is committed.
    fn extend(&self, conn: &Connection) -> rusqlite::Result<Option<u64>> {
        let next = self.next.load(Ordering::Relaxed);
        if next + self.block / 2 <= self.reserved.load(Ordering::Relaxed) {
            return Ok(None);
        }
        set_meta(conn, self.name, next + self.block)?;
        Ok(Some(next + self.block))
    }
}

/// All counters of an open store.
#[derive(Debug)]
pub(super) struct Ids {
    /// Entry ids.
    pub(super) entries: Counter,
    /// Session rows.
    pub(super) sessions: Counter,
    /// Number of times that the store was opened, this time included: the lease token of this process.
    pub(super) epoch: u64,
}

impl Ids {
    /// Starts a new epoch behind everything that earlier ones reserved.
    pub(super) fn open(conn: &mut Connection) -> rusqlite::Result<Ids> {
        let tx = conn.transaction()?;
        let epoch = meta(&tx, "epoch")? + 1;
        set_meta(&tx, "epoch", epoch)?;
        let entries = Counter::open(&tx, "entries_reserved", ENTRY_BLOCK)?;
        let sessions = Counter::open(&tx, "sessions_reserved", SESSION_BLOCK)?;
        tx.commit()?;
        Ok(Ids { entries, sessions, epoch })
    }

    /// Extends both reservations where due. To be called inside a transaction, with [`Ids::extended`] after its commit.
    pub(super) fn extend(&self, conn: &Connection) -> rusqlite::Result<(Option<u64>, Option<u64>)> {
        Ok((self.entries.extend(conn)?, self.sessions.extend(conn)?))
    }

    /// Takes over what [`Ids::extend`] wrote.
    pub(super) fn extended(&self, (entries, sessions): (Option<u64>, Option<u64>)) {
        if let Some(reserved) = entries {
            self.entries.reserved.store(reserved, Ordering::Relaxed);
        }
        if let Some(reserved) = sessions {
            self.sessions.reserved.store(reserved, Ordering::Relaxed);
        }
    }
}
