//! The outbox of durable turns, as the session in memory sees it.
//!
//! A row is written with the admission, closed in the same write as the answer, and gone once its engine took the turn. Until
//! then each start, and each turn before its engine is asked for anything, offers it again: the engine answers `duplicate` when
//! it has it.

use super::session::State;
use crate::observe::{broken, failpoint};
use crate::transcript::{BlockedReason, EntryId, OutboxRow, OutboxState, Write};

impl State<'_> {
    /// The row of a turn for an engine.
    pub(super) fn row_mut(&mut self, engine: &str, key: &str) -> Option<&mut OutboxRow> {
        self.extra.outbox.iter_mut().find(|row| row.key == key && row.engine == engine)
    }

    /// Keeps a row, in memory and with `writes`.
    pub(super) fn put_row(&mut self, row: OutboxRow, writes: &mut Vec<Write>) {
        match self.row_mut(&row.engine, &row.key) {
            Some(old) => *old = row.clone(),
            None => self.extra.outbox.push(row.clone()),
        }
        writes.push(Write::Outbox(row));
    }

    /// Drops a row, in memory and with `writes`.
    pub(super) fn drop_row(&mut self, engine: &str, key: &str, writes: &mut Vec<Write>) {
        self.extra.outbox.retain(|row| row.key != key || row.engine != engine);
        writes.push(Write::OutboxDelete { engine: engine.to_owned(), key: key.to_owned() });
    }

    /// The admitted row of a logical turn, whichever engine it was to be for.
    pub(super) fn admitted_row(&self, key: &str) -> Option<&OutboxRow> {
        self.extra.outbox.iter().find(|row| row.key == key && row.state == OutboxState::Admitted)
    }

    /// A row was taken by its engine: it goes with the next submission. Until then a crash offers it again, and the engine
    /// answers `duplicate`.
    pub(super) fn settle_row(&mut self, engine: &str, key: &str) {
        failpoint::pass("outbox.settle");
        let Some(row) = self.row_mut(engine, key) else { return };
        let (first, last, session) = (row.first, row.last, row.session);
        let mut writes = std::mem::take(&mut self.extra.deferred);
        self.drop_row(engine, key, &mut writes);
        // What lies between is known to the engine only if nothing passed it by.
        let before = self.message_before(first);
        let seen = self.extra.seen.entry(engine.to_owned()).or_insert(0);
        if *seen >= before && *seen < last {
            *seen = last;
        }
        let handed = self.extra.handed.entry(engine.to_owned()).or_insert(0);
        if *handed >= before && *handed < last {
            *handed = last;
            writes.push(Write::HandedOver { engine: engine.to_owned(), session, entry: last });
        }
        self.extra.deferred = writes;
    }

    /// A row was offered in vain: it stays, with the reason.
    pub(super) fn blame_row(&mut self, engine: &str, key: &str, reason: &str, now_ms: i64) {
        failpoint::pass("outbox.blame");
        let Some(row) = self.row_mut(engine, key) else { return };
        row.attempts += 1;
        row.attempted_ms = now_ms;
        row.last_error = Some(reason.to_owned());
        let row = row.clone();
        let mut writes = std::mem::take(&mut self.extra.deferred);
        if broken("8.61") {
            self.drop_row(engine, key, &mut writes);
        } else {
            writes.push(Write::Outbox(row));
        }
        self.extra.deferred = writes;
    }

    /// A row can never be offered as it is.
    pub(super) fn block_row(&mut self, engine: &str, key: &str, reason: BlockedReason) {
        failpoint::pass("outbox.block");
        let session = self.record().key.clone();
        if broken("8.59") && reason != BlockedReason::TargetChanged {
            self.extra.outbox.retain(|row| row.key != key || row.engine != engine);
        }
        let Some(row) = self.row_mut(engine, key) else { return };
        row.block(reason);
        warn_of_blocked(&session, row);
        let row = row.clone();
        self.extra.deferred.push(Write::Outbox(row));
    }

    /// The engine read up to `entry` through the cursor: rows wholly before it are settled.
    pub(super) fn covered(&mut self, engine: &str, entry: EntryId) {
        if self.extra.ephemeral {
            return;
        }
        let session = self.record().row;
        let engine = engine.to_owned();
        self.extra.outbox.retain(|row| row.engine != engine || !row.state.waits() || row.last == 0 || row.last > entry);
        let handed = self.extra.handed.entry(engine.clone()).or_insert(0);
        *handed = entry.max(*handed);
        self.extra.deferred.push(Write::OutboxCovered { engine: engine.clone(), session, up_to: entry });
        self.extra.deferred.push(Write::HandedOver { engine, session, entry });
    }

    /// The gateway itself gave the session another public id: turns on their way to their engines go with it.
    pub(super) fn retarget_rows(&mut self, session_id: &str, writes: &mut Vec<Write>) {
        for row in self.extra.outbox.iter_mut().filter(|row| row.state != OutboxState::Blocked) {
            session_id.clone_into(&mut row.session_id);
            writes.push(Write::Outbox(row.clone()));
        }
    }

    /// Rows of an earlier process: a turn that was admitted and never accepted is forgotten (its entries reach the engine
    /// through the cursor), unless its client has an answer to go on from. What is blocked is told again.
    pub(super) fn take_up_rows(&mut self, rows: Vec<OutboxRow>) {
        let key = self.record().key.clone();
        for mut row in rows {
            if row.state == OutboxState::Admitted && !row.is_open() {
                if broken("8.60") {
                    row.state = OutboxState::Accepted;
                    row.last = self.last_message();
                } else {
                    tracing::warn!(
                        session = %key,
                        engine = %row.engine,
                        turn = %row.key,
                        "a turn was admitted but never accepted: its outbox row is discarded; its message stays in the transcript"
                    );
                    let (engine, key) = (row.engine, row.key);
                    self.extra.deferred.push(Write::OutboxDelete { engine, key });
                    continue;
                }
            }
            if row.state == OutboxState::Blocked {
                warn_of_blocked(&key, &row);
            }
            self.extra.outbox.push(row);
        }
    }
}

/// Blocked rows are told at each recovery: nobody but the operator ends them.
pub(super) fn warn_of_blocked(session: &str, row: &OutboxRow) {
    tracing::warn!(
        session = %session,
        engine = %row.engine,
        turn = %row.key,
        reason = row.reason.map_or("unknown", BlockedReason::as_str),
        "an accepted turn cannot be handed over and is blocked: {}; see `engineroom sessions repair {session}`",
        row.last_error.as_deref().unwrap_or("no reason was kept"),
    );
}
