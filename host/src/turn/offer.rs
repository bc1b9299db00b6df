//! From a row of the outbox to what `commitTurn` gets: the closed range is read, checked and capped, and the facts of the
//! acceptance are put back.

use super::TurnError;
use super::run::TurnRun;
use super::session::{State, message_of};
use crate::observe::broken;
use crate::slot::{Anchor, CommitInput, EntryRef, SessionFacts};
use crate::transcript::{
    AcceptedFacts, BlockedReason, Entry, EntryId, OutboxRow, OutboxState, Store, StoreError, cursor,
};
use engine_abi::wire::runtime_mode;
use std::sync::Arc;

/// Most entries of a range.
pub(super) const MAX_ENTRIES: usize = 20_000;
/// Most bytes of the messages of a range, as JSON.
pub(super) const MAX_BYTES: usize = 8 << 20;
/// Most rows in one hand-off.
pub(super) const ROWS_PER_CALL: usize = 16;

/// A turn that is offered to an engine.
pub(super) struct Offer {
    pub(super) input: CommitInput,
    /// The facts of its acceptance.
    pub(super) facts: Option<AcceptedFacts>,
}

impl TurnRun {
    /// The next turns that wait for an engine, oldest first. A row whose range cannot be offered is blocked and left out: later
    /// turns proceed.
    pub(super) async fn offers(&self, engine: &str, most: usize) -> Result<Vec<Offer>, TurnError> {
        let rows: Vec<OutboxRow> = {
            let state = self.session.state();
            let mut rows: Vec<_> =
                state.extra.outbox.iter().filter(|row| row.engine == engine && row.state.waits()).cloned().collect();
            rows.sort_by_key(|row| row.first);
            rows
        };
        let mut offers = Vec::new();
        for row in rows {
            if offers.len() >= most {
                break;
            }
            if let Some(offer) = self.offer_of(row).await? {
                offers.push(offer);
            }
        }
        Ok(offers)
    }

    /// The offer of a row that waits; `None` when it had to be blocked.
    pub(super) async fn offer_of(&self, row: OutboxRow) -> Result<Option<Offer>, TurnError> {
        let (house, session) = (&self.house, &self.session);
        let on_branch = {
            let state = session.state();
            match check_target(&state, &row) {
                Err(reason) => Some(Err(reason)),
                Ok(()) => from_branch(&state, &row),
            }
        };
        let found = match on_branch {
            Some(found) => found,
            None => {
                // The branch changed since: the range lies on another one.
                let (store, row) = (house.store.clone(), row.clone());
                house.blocking(move || Ok(from_tree(&*store, &row)?)).await?
            }
        };
        let mut state = session.state();
        let range = match found.and_then(capped) {
            Ok(range) => range,
            Err(reason) => {
                state.block_row(&row.engine, &row.key, reason);
                return Ok(None);
            }
        };
        if let Some(row) = state.row_mut(&row.engine, &row.key) {
            row.state = OutboxState::Ready;
        }
        Ok(input(&state, &row, &range).map(|input| Offer { input, facts: row.facts }))
    }

    /// What is true now, for the row of a turn that is accepted.
    pub(super) fn accepted_facts(&self, state: &State<'_>) -> AcceptedFacts {
        let info = self.agent.model.info();
        AcceptedFacts {
            requested: state.extra.model_name.clone().or(info.requested),
            model: Some(info.resolved),
            provider: Some(info.provider),
            family: info.family,
            window: Some(info.context_window),
            max_output: Some(info.max_output_tokens),
            budget: self.notes.token_budget,
            heartbeat: self.heartbeat,
            generation: state.record().generation,
            idempotency_key: self.idempotency_key.clone(),
        }
    }
}

/// Puts the facts of an acceptance into those of the call.
pub(super) fn replayed(mut session: SessionFacts, accepted: Option<&AcceptedFacts>) -> SessionFacts {
    let Some(accepted) = accepted.filter(|_| !broken("8.56")) else { return session };
    session.heartbeat = accepted.heartbeat;
    session.token_budget = accepted.budget;
    if let Some(settings) = &mut session.settings {
        settings.model_requested = accepted.requested.clone();
        settings.model_resolved = accepted.model.clone();
        settings.model_provider = accepted.provider.clone();
        settings.model_family = accepted.family.clone();
        let is_other = accepted.requested.is_some() && accepted.requested != accepted.model;
        settings.mode = match settings.mode {
            runtime_mode::NORMAL | runtime_mode::FALLBACK if is_other => runtime_mode::FALLBACK,
            runtime_mode::NORMAL | runtime_mode::FALLBACK => runtime_mode::NORMAL,
            other => other,
        };
        settings.prompt_token_budget = accepted.budget;
        settings.max_output_tokens = accepted.max_output;
    }
    session
}

/// Reads the ranges of turns that an earlier process accepted and did not get to hand over: each is ready then, or blocked.
pub(super) fn ready_rows(state: &mut State<'_>, store: &dyn Store) -> Result<(), StoreError> {
    let accepted: Vec<OutboxRow> =
        state.extra.outbox.iter().filter(|row| row.state == OutboxState::Accepted).cloned().collect();
    for row in accepted {
        let found = match check_target(state, &row) {
            Err(reason) => Err(reason),
            Ok(()) => match from_branch(state, &row) {
                Some(found) => found,
                None => from_tree(store, &row)?,
            },
        };
        match found.and_then(capped) {
            Err(reason) => state.block_row(&row.engine, &row.key, reason),
            Ok(_) => {
                if let Some(row) = state.row_mut(&row.engine, &row.key) {
                    row.state = OutboxState::Ready;
                }
            }
        }
    }
    Ok(())
}

/// The session is the one that the turn was admitted to.
fn check_target(state: &State<'_>, row: &OutboxRow) -> Result<(), BlockedReason> {
    let record = state.record();
    let same = row.session == record.row && row.session_id == record.session_id;
    if same || broken("8.58") { Ok(()) } else { Err(BlockedReason::TargetChanged) }
}

/// The message entries of a row's range, with the place of the first among the messages of its branch.
struct Range {
    entries: Vec<Arc<Entry>>,
    position: u64,
}

/// The range on the active branch; `None` when it does not lie there.
fn from_branch(state: &State<'_>, row: &OutboxRow) -> Option<Result<Range, BlockedReason>> {
    let last = if broken("8.65") { state.last_message() } else { row.last };
    let start = state.branch().position(row.first)?;
    let end = state.branch().position(last)?;
    let entries = messages(state.entries().get(start..=end)?);
    let position = start.saturating_sub(state.boundaries_before(row.first)) as u64;
    Some(Ok(Range { entries, position }))
}

/// The range from the store, wherever in the tree it lies.
fn from_tree(store: &dyn Store, row: &OutboxRow) -> Result<Result<Range, BlockedReason>, StoreError> {
    // Compactions in between do not count; a turn has a handful of them at most.
    let read = store.range(row.session, row.first, row.last, MAX_ENTRIES + 1024)?;
    Ok(read.map(|entries| Range { entries: messages(&entries), position: row.position.unwrap_or(0) }))
}

fn messages(entries: &[Arc<Entry>]) -> Vec<Arc<Entry>> {
    entries.iter().filter(|entry| message_of(entry).is_some()).cloned().collect()
}

/// A range within the limits.
fn capped(range: Range) -> Result<Range, BlockedReason> {
    let bytes = |entry: &Arc<Entry>| message_of(entry).map_or(0, |message| cursor::serialized_len(message));
    let too_large = range.entries.len() > MAX_ENTRIES || range.entries.iter().map(bytes).sum::<usize>() > MAX_BYTES;
    if too_large { Err(BlockedReason::TooLarge) } else { Ok(range) }
}

fn input(state: &State<'_>, row: &OutboxRow, range: &Range) -> Option<CommitInput> {
    let facts = row.facts.as_ref();
    let anchor = |entry: &Entry, position: u64, generation: u64| Anchor {
        entry_id: entry.id,
        raw_seq: entry.id,
        effective_parent_id: entry.parent,
        active_message_position: position,
        generation,
        idempotency_key: facts.and_then(|facts| facts.idempotency_key.clone()),
    };
    let (first, last) = (range.entries.first()?, range.entries.last()?);
    let accepted_at = facts.map_or(state.record().generation, |facts| facts.generation);
    let end = range.position + range.entries.len() as u64 - 1;
    let mut entries: Vec<_> = range.entries.iter().filter_map(|entry| EntryRef::of(entry)).collect();
    if broken("8.55") && facts.is_some_and(|facts| facts.idempotency_key.is_some()) {
        entries.pop();
    }
    let again = row.attempts > 0 || row.state == OutboxState::Ready;
    let key = if again && broken("8.64") { format!("{}-again", row.key) } else { row.key.clone() };
    Some(CommitInput {
        advancement_key: key,
        logical_turn_id: row.key.clone(),
        admission: anchor(first, range.position, row.generation),
        terminal: anchor(last, end, accepted_at),
        entries,
    })
}

/// Closes the row of a turn that is accepted with `last`; a turn whose target moved away under it is blocked at once.
pub(super) fn close_row(state: &State<'_>, mut row: OutboxRow, last: EntryId, facts: AcceptedFacts) -> OutboxRow {
    row.state = OutboxState::Accepted;
    row.last = last;
    row.facts = Some(facts);
    let moved = check_target(state, &row).is_err() || state.branch().position(row.first).is_none();
    if moved && !broken("8.58") {
        row.block(BlockedReason::TargetChanged);
        super::outbox::warn_of_blocked(&state.record().key, &row);
    }
    row
}
