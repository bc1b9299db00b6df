//! `rewriteTranscriptEntries`: a new branch that differs where the engine says so. What was written stays in the tree.

use super::house::House;
use super::session::{Session, message_of};
use crate::slot::{MaintainOutput, Replacement};
use crate::transcript::{Entry, EntryBody, EntryId, Message, StoreError, Submission};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// Replaces messages of the active branch: branches before the first one that changes, appends everything from there with new
/// ids, and starts a new generation, so that cursors of the old one are reset. Blocks until it is durable.
pub(super) fn rewrite(
    house: &House,
    session: &Session,
    replacements: Vec<Replacement>,
    deadline: Instant,
) -> Result<MaintainOutput, StoreError> {
    if replacements.is_empty() {
        return Ok(unchanged("no replacements requested"));
    }
    let mut state = session.state();
    if state.branch().is_empty() {
        return Ok(unchanged("empty session"));
    }
    // The role stays, and what is identical is skipped.
    let mut changed: HashMap<EntryId, Arc<Message>> = HashMap::new();
    for (id, mut new) in replacements.into_iter().map(|replacement| (replacement.entry_id, replacement.message)) {
        let Some(old) = state.branch().get(id).and_then(|entry| message_of(entry)) else { continue };
        new.role = old.role;
        if **old != new {
            changed.insert(id, Arc::new(new));
        }
    }
    let Some(at) = changed.keys().min().and_then(|first| state.branch().position(*first)) else {
        return Ok(unchanged("no changed matching message entries"));
    };
    let seen = state.extra.seen.clone();
    let tail: Vec<Arc<Entry>> = state.entries()[at..].to_vec();
    let behind = if at == 0 { 0 } else { state.entries()[at - 1].id };
    let mut freed = 0u64;
    let mut renamed: HashMap<EntryId, EntryId> = HashMap::new();
    let mut writes = Vec::new();
    state.cut_behind(behind, &mut writes)?;
    for old in tail {
        let mut entry = (*old).clone();
        entry.id = state.next_entry(&*house.store);
        entry.parent = state.branch().head();
        if let Some(message) = changed.get(&old.id) {
            freed += json_len(message_of(&old)).saturating_sub(json_len(Some(message)));
            entry.tokens = session.agent.counter.message(message);
            entry.digest = message.digest();
            entry.body = EntryBody::Message(message.clone());
        }
        if let EntryBody::Compaction(body) = &mut entry.body {
            body.first_kept = renamed.get(&body.first_kept).copied().unwrap_or(body.first_kept);
        }
        renamed.insert(old.id, entry.id);
        state.append(entry, &mut writes)?;
    }
    state.rewritten(&mut writes);
    // The engine that rewrites knows what it did; where it stood, it still stands.
    state.extra.seen =
        seen.into_iter().map(|(engine, entry)| (engine, renamed.get(&entry).copied().unwrap_or(entry))).collect();
    state.find_boundaries();
    state.sync(&session.agent.counter);
    if !state.extra.ephemeral {
        let lease = Some((state.record().row, house.store.lease()));
        // Under the lock: nobody else waits for it, since the lane is held.
        let done = house.store.submit(Submission { lease, writes }).durable_blocking(deadline);
        drop(state);
        if let Err(error) = done {
            // What is in memory is ahead of the store, or may be: the next use reads it anew.
            if let Some(key) = &session.key {
                house.hot.forget(key);
            }
            return Err(error);
        }
    }
    Ok(MaintainOutput { changed: true, bytes_freed: freed, rewritten_entries: changed.len() as u64, reason: None })
}

fn unchanged(reason: &str) -> MaintainOutput {
    MaintainOutput { reason: Some(reason.into()), ..MaintainOutput::default() }
}

fn json_len(message: Option<&Arc<Message>>) -> u64 {
    message.and_then(|message| serde_json::to_vec(&**message).ok()).map_or(0, |bytes| bytes.len() as u64)
}
