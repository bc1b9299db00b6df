//! What a forked subagent is given of its parent beside the history.
//!
//! The host copies the history of a parent that this engine serves whole into the child's transcript, under new ids, so the
//! child reads every word of it through the cursor. What its branch does not tell of the pins, what was done on others and in
//! the turn that is open, waits in the engine's own scope of the store, under the child's key, until the child is taken up for
//! the first time, or never is.

use super::disk::stored_pins;
use super::{Kept, Session, Sessions};
use crate::index::Ordinal;
use crate::pins::{Pin, Pins};
use engine_abi::*;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What the keys of waiting pins begin with; the child's session key follows.
const WAITING: &[u8] = b"fork/";

fn waiting(child_key: &str) -> Vec<u8> {
    [WAITING, child_key.as_bytes()].concat()
}

/// The handle of a preparation. It is made of the child's key alone, so that any process can undo it.
fn handle(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish() | 1
}

impl Sessions {
    /// Leaves for a child what its parent knows; gives the handle of the rollback. A child that begins with nothing gets nothing.
    pub(crate) fn prepare(&self, context: &Context, spawn: &SubagentSpawn) -> Result<Option<u64>> {
        let (SubagentContext::Fork, Some(child)) = (spawn.context_mode(), spawn.child_session_key()) else {
            return Ok(None);
        };
        let known = spawn.parent_session_id().and_then(|id| self.known(id, |parent| parent.pins.encode()));
        let pins = match known {
            Some(pins) => pins?,
            // The call is the parent's, and so is the scope.
            None => match stored_pins(context)? {
                Some(pins) => pins,
                None => return Ok(None),
            },
        };
        let key = waiting(child);
        context.engine_store().put(&key, pins);
        Ok(Some(handle(&key)))
    }
}

/// Takes a preparation back.
pub(crate) fn roll_back(context: &Context, handle: u64) -> Result<()> {
    let store = context.engine_store();
    let mut after: Option<Vec<u8>> = None;
    loop {
        let page = store.scan(WAITING, after.as_deref(), 64)?;
        for (key, _) in page.iter().filter(|(key, _)| self::handle(key) == handle) {
            store.delete(key);
        }
        match page.into_iter().next_back() {
            Some((last, _)) => after = Some(last),
            None => return Ok(()),
        }
    }
}

/// Drops what still waits for a child that ended, or was deleted.
pub(crate) fn forget(context: &Context, child_key: &str) -> Result<()> {
    let (store, key) = (context.engine_store(), waiting(child_key));
    if store.get(&key)?.is_some() {
        store.delete(&key);
    }
    Ok(())
}

impl Session {
    /// Takes what the parent left, once the history that came with it is in. It goes into the same batch.
    pub(super) fn inherit(&mut self, context: &Context) -> Result<()> {
        let Some(key) = context.session().key().map(waiting) else { return Ok(()) };
        let store = context.engine_store();
        let Some(left) = store.get(&key)? else { return Ok(()) };
        store.delete(&key);
        let Some(left) = Kept::<Pins>::read(Some(left)) else {
            tracing::info!("what a parent left for this session cannot be read");
            return Ok(());
        };
        let texts = self.texts(context, None);
        let place = |pin: &Pin| {
            // Copies have the times of what they were copied from.
            let end = self.rows.partition_point(|row| row.time_ms <= pin.time_ms);
            let start = self.rows.partition_point(|row| row.time_ms < pin.time_ms);
            let ordinals = (start..end).filter_map(|at| Ordinal::try_from(at).ok());
            let says = |ordinal: &Ordinal| {
                let value = texts.value(*ordinal).ok().flatten();
                value.as_deref().and_then(super::Stored::decode).is_some_and(|stored| stored.text.contains(&pin.text))
            };
            let said = ordinals.rev().find(says);
            // Said in the turn that is open, or on a branch that was left: what the tool was told to keep is kept.
            let near = || Ordinal::try_from(end.checked_sub(1)?).ok();
            let ordinal = said.or_else(|| near().filter(|_| pin.explicit))?;
            Some((ordinal, self.rows.get(ordinal as usize)?.id))
        };
        let mut pins = (*left).clone();
        pins.carry(place);
        *self.pins = pins;
        Ok(())
    }
}
