//! What is known of one session, and how it is stored and made again.

use crate::index::{Index, NewEntry, Ordinal};
use crate::pins::Pins;
use engine_abi::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is known of one session.
#[derive(Default)]
pub(crate) struct Session {
    /// The entries by ordinal. Their ids rise.
    pub rows: Vec<Head>,
    /// The index over them.
    pub index: Index,
    /// What is pinned.
    pub pins: Pins,
}

impl Session {
    /// Takes in an entry; true when it is new.
    pub(crate) fn take_in(&mut self, context: &Context, entry: &Entry) -> Result<bool> {
        let _ = context;
        if self.rows.last().is_some_and(|last| last.id >= entry.id()) {
            return Ok(false);
        }
        self.index.add(&NewEntry {
            ordinal: Ordinal::try_from(self.rows.len()).map_err(|_| Error::new("the session is too long"))?,
            role: entry.head().role,
            time_ms: entry.head().time_ms,
            tokens: entry.head().tokens,
            starts_turn: entry.head().starts_turn(),
            name: entry.name(),
            text: entry.text(),
        });
        self.rows.push(*entry.head());
        Ok(true)
    }

    /// The ordinal of the entry with this id.
    pub(crate) fn ordinal(&self, id: u64) -> Option<Ordinal> {
        let at = self.rows.binary_search_by_key(&id, |row| row.id).ok()?;
        Ordinal::try_from(at).ok()
    }
}

/// A session that one call at a time may hold.
#[derive(Clone, Default)]
pub(crate) struct Held(Arc<Mutex<Session>>);

impl Held {
    /// Waits until nobody else holds it. The host never enters one session twice at once, so that is at once.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Session> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The sessions of one instance.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<String, Held>>);

impl Sessions {
    /// The session of the call.
    pub(crate) fn of(&self, context: &Context) -> Result<Held> {
        let id = context.session().id();
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(sessions.entry(id.to_owned()).or_default().clone())
    }
}
