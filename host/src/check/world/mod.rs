//! The host of a check: transcripts, the engines' store, a model, a compaction, all in memory and all the check's to break.
//!
//! What is hard to get right comes from the rooms that a gateway uses: the branch and its cursor from `transcript`, what an
//! engine is shown from `compaction`, tokens from `model`. What is made up is small: nothing here waits or fails by itself.

mod faults;
mod services;
mod session;

pub(super) use faults::{Fault, Faults};
pub(super) use session::Session;

use crate::model::{OFFLINE_MODEL, TokenCounter};
use crate::slot::{Pairs, SessionFacts};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Whose keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Scope {
    /// The engine's own.
    Engine,
    /// A session's, by its key, or the id of one without a key.
    Session(String),
}

/// See the module.
pub(super) struct World {
    pub(super) counter: TokenCounter,
    sessions: Mutex<BTreeMap<String, Arc<Mutex<Session>>>>,
    store: Mutex<Pairs<Scope>>,
    pub(super) faults: Faults,
    ids: AtomicU64,
    rows: AtomicU64,
}

impl World {
    pub(super) fn new() -> Arc<World> {
        Arc::new(World {
            counter: TokenCounter::for_model(OFFLINE_MODEL),
            sessions: Mutex::default(),
            store: Mutex::default(),
            faults: Faults::default(),
            ids: AtomicU64::new(1),
            rows: AtomicU64::new(1),
        })
    }

    /// The session with this key, made when it is not there.
    pub(super) fn session(&self, key: &str) -> Arc<Mutex<Session>> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = sessions.get(key) {
            return Arc::clone(session);
        }
        // Rows are never used again: a session that is made anew has another id.
        let row = self.rows.fetch_add(1, Ordering::Relaxed);
        let session = Arc::new(Mutex::new(Session::new(row, key)));
        sessions.insert(key.to_owned(), Arc::clone(&session));
        session
    }

    /// The session of a call, by its key, or by its id where the engine is told no key.
    fn of(&self, facts: &SessionFacts) -> Arc<Mutex<Session>> {
        if let Some(key) = &facts.session_key {
            return self.session(key);
        }
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let found = sessions.values().find(|session| held(session).record.session_id == facts.session_id);
        found.map_or_else(|| Arc::new(Mutex::new(Session::new(0, ""))), Arc::clone)
    }

    /// Forgets a session and what its engine keeps in its scope.
    pub(super) fn delete(&self, key: &str) {
        let gone = self.sessions.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        let id = gone.map(|gone| held(&gone).record.session_id.clone());
        for scope in id.into_iter().chain([key.to_owned()]) {
            self.store().drop_scope(&Scope::Session(scope));
        }
    }

    /// The store as it is.
    pub(super) fn stored(&self) -> impl Eq + use<> {
        self.store().clone()
    }

    /// Where these bytes stand in the store, in words.
    pub(super) fn find(&self, bytes: &[u8]) -> Option<String> {
        let store = self.store();
        let (scope, key) = store.find(bytes)?;
        let whose = match scope {
            Scope::Engine => "the engine's scope",
            Scope::Session(_) => "a session's scope",
        };
        Some(format!("{whose} of the store, at the key {:?}", String::from_utf8_lossy(key)))
    }

    fn store(&self) -> MutexGuard<'_, Pairs<Scope>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next entry's id.
    pub(super) fn id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }
}

/// What a session's lock holds.
pub(super) fn held(session: &Mutex<Session>) -> MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}
