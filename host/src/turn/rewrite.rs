//! `rewriteTranscriptEntries`: a new branch that differs where the engine says so. What was written stays in the tree.
//!
//! All of it happens or nothing: the replacements are judged first, the branch changes in memory and is queued as one
//! submission. A replayed rewrite names entries that the active branch no longer holds, and changes nothing.

use super::house::House;
use super::session::{Session, State, message_of};
use crate::observe::{broken, failpoint};
use crate::slot::{MaintainOutput, Replacement, ServiceError, ServiceStatus};
use crate::transcript::{Ack, Entry, EntryBody, EntryId, Message, OutboxRow, Role, StoreError, Submission, Write};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

/// What a rewrite did.
pub(super) struct Rewritten {
    pub(super) output: MaintainOutput,
    /// Old ids of the branch with their new ones; empty when nothing changed.
    pub(super) renamed: HashMap<EntryId, EntryId>,
}

/// Replaces messages of the active branch: branches before the first one that changes, appends everything from there with new
/// ids, and starts a new generation, so that cursors of the old one are reset. Blocks until it is durable. Entries from `fence`
/// on, the current turn, cannot be replaced.
pub(super) fn rewrite(
    house: &House,
    session: &Session,
    replacements: Vec<Replacement>,
    fence: Option<EntryId>,
    deadline: Instant,
) -> Result<Rewritten, ServiceError> {
    if replacements.is_empty() {
        return Ok(unchanged("no replacements requested"));
    }
    let (rewritten, ack) = {
        let mut state = session.state();
        if state.branch().is_empty() {
            return Ok(unchanged("empty session"));
        }
        let changed = judged(&state, replacements, fence)?;
        let Some(at) = changed.keys().min().and_then(|first| state.branch().position(*first)) else {
            return Ok(unchanged("no changed matching message entries"));
        };
        failpoint::pass("rewrite.before");
        branch_off(house, session, &mut state, at, &changed).map_err(|error| failed(house, session, error))?
    };
    failpoint::pass("rewrite.queued");
    if let Some(ack) = ack {
        ack.durable_blocking(deadline).map_err(|error| failed(house, session, error))?;
    }
    failpoint::pass("rewrite.durable");
    Ok(rewritten)
}

/// The replacements that change a message of the active branch. The role stays, what is identical is skipped, and so is what is
/// not on the branch.
fn judged(
    state: &State<'_>,
    replacements: Vec<Replacement>,
    fence: Option<EntryId>,
) -> Result<HashMap<EntryId, Arc<Message>>, ServiceError> {
    let mut changed: HashMap<EntryId, Arc<Message>> = HashMap::new();
    for Replacement { entry_id: id, message: mut new } in replacements {
        let Some(old) = state.branch().get(id).and_then(|entry| message_of(entry)) else { continue };
        if fence.is_some_and(|fence| id >= fence) {
            let message = format!("entry {id} belongs to the current turn, which is being prepared");
            return Err(ServiceError::new(ServiceStatus::Refused, message));
        }
        new.role = old.role;
        keep_pairs(id, old, &mut new)?;
        if **old != new {
            changed.insert(id, Arc::new(new));
        }
    }
    Ok(changed)
}

/// A call stays with its results: its ids, and the id that a result answers, are not an engine's to change.
fn keep_pairs(id: EntryId, old: &Message, new: &mut Message) -> Result<(), ServiceError> {
    let split = |what: &str| {
        let message = format!("entry {id} cannot be replaced: its {what} would part a tool call from its result");
        Err(ServiceError::new(ServiceStatus::Invalid, message))
    };
    let ids = |message: &Message| message.tool_calls.iter().map(|call| call.id.clone()).collect::<Vec<_>>();
    if ids(old) != ids(new) {
        return split("tool calls");
    }
    if old.role == Role::Tool {
        match &new.tool_call_id {
            None => new.tool_call_id.clone_from(&old.tool_call_id),
            answered if *answered != old.tool_call_id => return split("tool_call_id"),
            Some(_) => {}
        }
    }
    Ok(())
}

/// Makes the new branch, and queues it.
fn branch_off(
    house: &House,
    session: &Session,
    state: &mut State<'_>,
    at: usize,
    changed: &HashMap<EntryId, Arc<Message>>,
) -> Result<(Rewritten, Option<Ack>), StoreError> {
    let counter = &session.agent.counter;
    let seen = state.extra.seen.clone();
    let tail: Vec<Arc<Entry>> = state.entries()[at..].to_vec();
    // What was shortened for good stays so, as far as its entry says the same.
    let frozen: HashMap<EntryId, String> = tail
        .iter()
        .filter(|entry| !changed.contains_key(&entry.id))
        .filter_map(|entry| Some((entry.id, state.frozen().get(&entry.id)?.clone())))
        .collect();
    let behind = if at == 0 { 0 } else { state.entries()[at - 1].id };
    let mut freed = 0u64;
    let mut renamed: HashMap<EntryId, EntryId> = HashMap::new();
    let mut writes = std::mem::take(&mut state.extra.deferred);
    state.cut_behind(behind, &mut writes)?;
    for old in tail {
        let mut entry = (*old).clone();
        entry.id = state.next_entry(&*house.store);
        entry.parent = state.branch().head();
        if let Some(message) = changed.get(&old.id) {
            freed += json_len(message_of(&old)).saturating_sub(json_len(Some(message)));
            entry.tokens = counter.message(message);
            entry.digest = message.digest();
            entry.body = EntryBody::Message(message.clone());
        }
        if let EntryBody::Compaction(body) = &mut entry.body {
            body.first_kept = renamed.get(&body.first_kept).copied().unwrap_or(body.first_kept);
        }
        let new = entry.id;
        renamed.insert(old.id, new);
        state.append(entry, &mut writes)?;
        if let Some(text) = frozen.get(&old.id) {
            state.freeze(new, text.clone(), &mut writes);
        }
    }
    if !broken("8.70") {
        state.rewritten(&mut writes);
    }
    let moved = |entry: EntryId| renamed.get(&entry).copied().unwrap_or(entry);
    // Where an engine stood it still stands; what changed there it learns from its cursor, which is reset.
    for (engine, entry) in seen {
        state.extra.seen.insert(engine, moved(entry));
    }
    let ids: Vec<EntryId> = renamed.keys().copied().collect::<BTreeSet<_>>().into_iter().collect();
    let handed: Vec<(String, EntryId)> =
        state.extra.handed.iter().map(|(engine, entry)| (engine.clone(), *entry)).collect();
    for (engine, entry) in handed {
        // What it was given lies wholly before the next entry, whatever that is called now.
        let Some(last) = ids.partition_point(|id| *id <= entry).checked_sub(1).and_then(|at| ids.get(at)) else {
            continue;
        };
        let entry = moved(*last);
        state.extra.handed.insert(engine.clone(), entry);
        if !state.extra.ephemeral {
            writes.push(Write::HandedOver { engine, session: state.record().row, entry });
        }
    }
    // A turn that is still to be handed over is handed over as it reads now.
    let generation = state.record().generation;
    let mut rows: Vec<OutboxRow> = Vec::new();
    for row in &mut state.extra.outbox {
        let (first, last) = (moved(row.first), moved(row.last));
        if (first, last) != (row.first, row.last) {
            (row.first, row.last) = (first, last);
            row.generation = generation;
            rows.push(row.clone());
        }
    }
    writes.extend(rows.into_iter().map(Write::Outbox));
    state.find_boundaries();
    state.sync(counter);
    let output =
        MaintainOutput { changed: true, bytes_freed: freed, rewritten_entries: changed.len() as u64, reason: None };
    let ack = (!state.extra.ephemeral && !broken("8.71")).then(|| {
        let lease = Some((state.record().row, house.store.lease()));
        house.store.submit(Submission { lease, writes })
    });
    Ok((Rewritten { output, renamed }, ack))
}

/// What is in memory is ahead of the store, or may be: the next use reads it anew.
fn failed(house: &House, session: &Session, error: StoreError) -> ServiceError {
    if let Some(key) = &session.key {
        house.hot.forget(key);
    }
    super::services::store_error(error)
}

/// Nothing was done, and why.
pub(super) fn unchanged(reason: &str) -> Rewritten {
    let output = MaintainOutput { reason: Some(reason.into()), ..MaintainOutput::default() };
    Rewritten { output, renamed: HashMap::new() }
}

fn json_len(message: Option<&Arc<Message>>) -> u64 {
    message.and_then(|message| serde_json::to_vec(&**message).ok()).map_or(0, |bytes| bytes.len() as u64)
}
