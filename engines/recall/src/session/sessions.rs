//! The sessions of one instance, and the bound on their memory.

use super::Session;
use engine_abi::{Context, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

/// A session that one call at a time may hold.
#[derive(Clone, Default)]
pub(crate) struct Held(Arc<Mutex<Session>>);

impl Held {
    /// Waits until nobody else holds it. The host never enters one session twice at once, so that is at once.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Session> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sessions of one instance. The least recently used ones are dropped when all together take too much memory; they come
/// back from the store.
pub(crate) struct Sessions {
    /// Most bytes of memory, all together; the session in use may exceed it.
    most: usize,
    slots: Mutex<Slots>,
}

#[derive(Default)]
struct Slots {
    by_id: HashMap<String, Slot>,
    /// Bytes of all of them, as measured when each was asked for last.
    bytes: usize,
    clock: u64,
}

struct Slot {
    held: Held,
    bytes: usize,
    used: u64,
}

impl Sessions {
    /// No session yet; of those that come, `most` bytes are kept.
    pub(crate) fn new(most: usize) -> Sessions {
        Sessions { most, slots: Mutex::default() }
    }

    /// The session of the call, as the store and memory together know it.
    ///
    /// # Errors
    ///
    /// When the store cannot be read, or the call is over.
    pub(crate) fn of(&self, context: &Context) -> Result<Held> {
        let id = context.session().id();
        let (held, bytes) = {
            let held = self.held(id);
            let mut session = match held.0.try_lock() {
                Ok(session) => session,
                // A hook that panicked may have left half an entry behind.
                Err(TryLockError::Poisoned(_)) | Err(TryLockError::WouldBlock) => {
                    // A call that the host has given up still runs. It can write nothing any more, and keeps what it holds.
                    return self.anew(context, id);
                }
            };
            session.settle(context)?;
            let bytes = session.bytes();
            drop(session);
            (held, bytes)
        };
        self.measured(id, bytes);
        Ok(held)
    }

    /// Forgets a session.
    pub(crate) fn forget(&self, id: &str) {
        self.slots().take(id);
    }

    /// What is known of the session with this id, if it is in memory and nobody holds it.
    pub(crate) fn known<T>(&self, id: &str, look: impl FnOnce(&Session) -> T) -> Option<T> {
        let held = self.slots().by_id.get(id)?.held.clone();
        let session = held.0.try_lock().ok()?;
        Some(look(&session))
    }

    fn held(&self, id: &str) -> Held {
        let mut slots = self.slots();
        slots.clock += 1;
        let used = slots.clock;
        let slot = slots.by_id.entry(id.to_owned()).or_insert_with(|| Slot { held: Held::default(), bytes: 0, used });
        slot.used = used;
        slot.held.clone()
    }

    fn anew(&self, context: &Context, id: &str) -> Result<Held> {
        self.forget(id);
        let held = self.held(id);
        held.lock().settle(context)?;
        Ok(held)
    }

    /// Notes the size of a session and makes room.
    fn measured(&self, id: &str, bytes: usize) {
        let mut slots = self.slots();
        if let Some(slot) = slots.by_id.get_mut(id) {
            let before = std::mem::replace(&mut slot.bytes, bytes);
            slots.bytes = slots.bytes - before + bytes;
        }
        while slots.bytes > self.most {
            let oldest = slots.by_id.iter().filter(|(other, _)| *other != id).min_by_key(|(_, slot)| slot.used);
            let Some(oldest) = oldest.map(|(id, _)| id.clone()) else { return };
            slots.take(&oldest);
        }
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slots {
    fn take(&mut self, id: &str) {
        if let Some(slot) = self.by_id.remove(id) {
            self.bytes -= slot.bytes;
        }
    }
}
