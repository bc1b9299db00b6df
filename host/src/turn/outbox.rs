//! The outbox of durable turns, as the session in memory sees it.

use super::TurnError;
use super::house::House;
use super::session::{Session, State, message_of};
use crate::slot::{Anchor, CommitInput, EntryRef};
use crate::transcript::{Entry, EntryId, OutboxRow, OutboxState, Role, Write, stored_flags};
use engine_abi::wire::{EntryHeadV1, entry_flags};
use std::sync::Arc;

impl State<'_> {
    /// A row was taken by its engine: it goes with the next submission. Until then a crash offers it again, and the engine
    /// answers `duplicate`.
    pub(super) fn settle_row(&mut self, engine: &str, key: &str) {
        let Some(at) = self.extra.outbox.iter().position(|row| row.key == key) else { return };
        let row = self.extra.outbox.remove(at);
        let session = self.record().row;
        self.extra.deferred.push(Write::OutboxDelete(row.key));
        self.extra.deferred.push(Write::HandedOver { engine: engine.to_owned(), session, entry: row.last });
        // What lies between is known to the engine only if nothing passed it by.
        let before = self.message_before(row.first);
        let seen = self.extra.seen.entry(engine.to_owned()).or_insert(0);
        if *seen >= before && *seen < row.last {
            *seen = row.last;
        }
    }

    /// A row was offered in vain.
    pub(super) fn blame_row(&mut self, key: &str, reason: &str) {
        let Some(row) = self.extra.outbox.iter_mut().find(|row| row.key == key) else { return };
        row.attempts += 1;
        row.last_error = Some(reason.to_owned());
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
        self.extra
            .outbox
            .retain(|row| row.engine != engine || row.state != OutboxState::Ready || row.last == 0 || row.last > entry);
        self.extra.deferred.push(Write::OutboxCovered { engine: engine.clone(), session, up_to: entry });
        self.extra.deferred.push(Write::HandedOver { engine, session, entry });
    }
}

/// The input of `commitTurn` for a ready row. `None` when its range is not in the tree any more: the row is blocked, with the
/// reason.
pub(super) async fn commit_input(
    house: &Arc<House>,
    session: &Arc<Session>,
    row: OutboxRow,
) -> Result<Option<CommitInput>, TurnError> {
    let on_branch = {
        let state = session.state();
        let boundaries = state.boundaries_before(row.first);
        range(state.entries(), &row, boundaries)
    };
    let found = match on_branch {
        Some(range) => Some(range),
        None => {
            // The branch changed since: the range lies on another one.
            let (house, row) = (house.clone(), row.clone());
            house
                .clone()
                .blocking(move || {
                    let branch = house.store.branch(row.session, row.last).unwrap_or_default();
                    let before = branch.iter().take_while(|entry| entry.id < row.first);
                    let boundaries = before.filter(|entry| message_of(entry).is_none()).count();
                    Ok(range(&branch, &row, boundaries))
                })
                .await?
        }
    };
    let Some(Range { entries, position }) = found else {
        let mut state = session.state();
        let reason = "the range of the turn is not in the transcript any more";
        if let Some(old) = state.extra.outbox.iter_mut().find(|old| old.key == row.key) {
            old.state = OutboxState::Blocked;
            old.last_error = Some(reason.into());
            let row = old.clone();
            state.extra.deferred.push(Write::Outbox(row));
        }
        return Ok(None);
    };
    let generation = session.state().record().generation;
    let anchor = |entry: &Entry, position: u64| Anchor {
        entry_id: entry.id,
        raw_seq: entry.id,
        effective_parent_id: entry.parent,
        active_message_position: position,
        generation,
        idempotency_key: None,
    };
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return Ok(None) };
    Ok(Some(CommitInput {
        advancement_key: row.key.clone(),
        logical_turn_id: row.key,
        admission: anchor(first, position),
        terminal: anchor(last, position + entries.len() as u64 - 1),
        entries: entries.iter().filter_map(|entry| entry_ref(entry)).collect(),
    }))
}

/// The message entries of a row's range, with the place of the first among the messages of the branch.
struct Range {
    entries: Vec<Arc<Entry>>,
    position: u64,
}

/// `boundaries`: compactions on the branch before the range.
fn range(branch: &[Arc<Entry>], row: &OutboxRow, boundaries: usize) -> Option<Range> {
    let start = branch.binary_search_by_key(&row.first, |entry| entry.id).ok()?;
    let end = branch.binary_search_by_key(&row.last, |entry| entry.id).ok()?;
    let entries = branch.get(start..=end)?.iter().filter(|entry| message_of(entry).is_some()).cloned().collect();
    Some(Range { entries, position: start.saturating_sub(boundaries) as u64 })
}

/// A stored entry as an engine sees it; `None` for a compaction.
pub(super) fn entry_ref(entry: &Entry) -> Option<EntryRef> {
    let message = message_of(entry)?;
    let mut flags = 0;
    if message.role == Role::User {
        flags |= entry_flags::TURN_START;
    }
    if !message.tool_calls.is_empty() {
        flags |= entry_flags::TOOL_CALLS;
    }
    if message.has_media() {
        flags |= entry_flags::MEDIA;
    }
    if entry.flags & stored_flags::HEARTBEAT != 0 {
        flags |= entry_flags::HEARTBEAT;
    }
    Some(EntryRef {
        head: EntryHeadV1 {
            id: entry.id,
            time_ms: entry.time_ms,
            tokens: entry.tokens,
            role: message.role.code(),
            flags,
            text_bytes: message.text().len().try_into().unwrap_or(u32::MAX),
        },
        message: message.clone(),
    })
}
