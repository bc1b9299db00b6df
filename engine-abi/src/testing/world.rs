//! What outlives an engine under test: the store, the transcripts, and what the host knows of them.

use super::Line;
use super::model::{Asked, Model};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A store, the transcripts of sessions, a clock, and a model if one is set. Several engines may be made in it, one after the
/// other: that is a restart.
#[derive(Clone, Default)]
pub struct World(pub(super) Arc<Shared>);

/// What becomes of a batch of the store, where that is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails, and nothing of it is in the store.
    Lost,
    /// It fails, and is in the store all the same.
    Unknown,
}

/// Id of a session, or `None` for the scope of the engine itself.
pub(super) type Scope = Option<String>;

/// Values by scope and key.
pub(super) type Stored = BTreeMap<(Scope, Vec<u8>), Vec<u8>>;

#[derive(Default)]
pub(super) struct Shared {
    store: Mutex<Stored>,
    /// By session key: the entries of the active branch.
    transcripts: Mutex<BTreeMap<String, Vec<Line>>>,
    /// By session id: the last entry that was handed over.
    handed: Mutex<BTreeMap<String, u64>>,
    /// What becomes of the next batches; `None` is what it should be.
    faults: Mutex<VecDeque<Option<Fault>>>,
    sessions_granted: AtomicBool,
    model: Mutex<Option<Model>>,
    /// Milliseconds since the clock of the world began.
    elapsed_ms: AtomicI64,
}

/// When the clock of every world begins: 2025-01-01T00:00:00Z, in ms since the epoch.
const BEGIN_MS: i64 = 1_735_689_600_000;

impl World {
    /// What the clock says, in ms since the epoch. It begins with 2025 and stands still but for [`World::advance`].
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        BEGIN_MS + self.0.elapsed_ms()
    }

    /// Lets time pass: for what is said later, and for the deadline of a call that is running (from within the model).
    pub fn advance(&self, time: Duration) {
        self.0.elapsed_ms.fetch_add(i64::try_from(time.as_millis()).unwrap_or(i64::MAX), Ordering::AcqRel);
    }

    /// From now on there is a model: `answer` says what it answers, or why it fails. Without one, `llm.complete` is absent.
    pub fn set_model(&self, answer: impl Fn(&Asked) -> Result<String, String> + Send + Sync + 'static) {
        *lock(&self.0.model) = Some(Arc::new(answer));
    }

    /// The active branch of a session.
    #[must_use]
    pub fn transcript(&self, session_key: &str) -> Vec<Line> {
        lock(&self.0.transcripts).get(session_key).cloned().unwrap_or_default()
    }

    /// Makes a session, unless it is there.
    pub(super) fn begin(&self, session_key: &str) {
        lock(&self.0.transcripts).entry(session_key.to_owned()).or_default();
    }

    /// Adds to the active branch of a session.
    pub(super) fn append(&self, session_key: &str, lines: &[Line]) {
        lock(&self.0.transcripts).entry(session_key.to_owned()).or_default().extend_from_slice(lines);
    }

    /// Sets the active branch of a session.
    pub fn set_transcript(&self, session_key: &str, lines: &[Line]) {
        lock(&self.0.transcripts).insert(session_key.to_owned(), lines.to_vec());
    }

    /// Deletes a session: its transcript and its scope of the store.
    pub fn delete(&self, session_id: &str, session_key: &str) {
        lock(&self.0.transcripts).remove(session_key);
        self.forget(session_id);
    }

    /// Loses everything that the engine knows of a session: its scope of the store is empty, and nothing was handed over.
    pub fn forget(&self, session_id: &str) {
        self.drop_scope(session_id);
        lock(&self.0.handed).remove(session_id);
    }

    /// The engine was handed everything over up to an entry.
    pub fn hand_over(&self, session_id: &str, entry: u64) {
        self.0.hand_over(session_id, entry);
    }

    /// Empties a session's scope of the store.
    pub fn drop_scope(&self, session_id: &str) {
        lock(&self.0.store).retain(|(scope, _), _| scope.as_deref() != Some(session_id));
    }

    /// Other sessions of the agent may be read.
    pub fn grant_sessions(&self, granted: bool) {
        self.0.sessions_granted.store(granted, Ordering::Release);
    }

    /// What becomes of the next batches, one after the other; `None` is what it should be.
    pub fn plan_batches(&self, faults: impl IntoIterator<Item = Option<Fault>>) {
        *lock(&self.0.faults) = faults.into_iter().collect();
    }

    /// Number of keys in the store, all scopes together.
    #[must_use]
    pub fn stored_keys(&self) -> usize {
        lock(&self.0.store).len()
    }

    /// The pairs of a session's scope, or of the engine's own, in the order of the keys.
    #[must_use]
    pub fn stored(&self, session_id: Option<&str>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let store = lock(&self.0.store);
        let pairs = store.iter().filter(|((scope, _), _)| scope.as_deref() == session_id);
        pairs.map(|((_, key), value)| (key.clone(), value.clone())).collect()
    }

    /// Puts a value into a session's scope, or removes it, past the engine.
    pub fn tamper(&self, session_id: &str, key: &[u8], value: Option<&[u8]>) {
        let place = (Some(session_id.to_owned()), key.to_vec());
        let mut store = lock(&self.0.store);
        match value {
            Some(value) => drop(store.insert(place, value.to_vec())),
            None => drop(store.remove(&place)),
        }
    }
}

impl Shared {
    pub(super) fn store(&self) -> MutexGuard<'_, Stored> {
        lock(&self.store)
    }

    pub(super) fn transcripts(&self) -> MutexGuard<'_, BTreeMap<String, Vec<Line>>> {
        lock(&self.transcripts)
    }

    pub(super) fn model(&self) -> Option<Model> {
        lock(&self.model).clone()
    }

    pub(super) fn elapsed_ms(&self) -> i64 {
        self.elapsed_ms.load(Ordering::Acquire)
    }

    pub(super) fn next_fault(&self) -> Option<Fault> {
        lock(&self.faults).pop_front().flatten()
    }

    pub(super) fn handed(&self, session_id: &str) -> u64 {
        lock(&self.handed).get(session_id).copied().unwrap_or(0)
    }

    pub(super) fn hand_over(&self, session_id: &str, entry: u64) {
        let mut handed = lock(&self.handed);
        let known = handed.entry(session_id.to_owned()).or_insert(0);
        *known = entry.max(*known);
    }

    pub(super) fn may_read_others(&self) -> bool {
        self.sessions_granted.load(Ordering::Acquire)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
