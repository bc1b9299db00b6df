//! Hot sessions: those in use, and those used lately, kept in memory within a bound.
//!
//! A [`HotSession`] is always what the store holds plus what was queued to its writer: each change gives the writes that belong
//! to it, and the caller submits them. When a submission fails, the session in memory is ahead of the store:
//! [`HotSessions::forget`] it, and the next use reads it again.

use super::{Branch, Entry, EntryId, SessionRecord, Store, StoreError, Submission, Write};
use std::collections::{BTreeMap, HashMap};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Bytes that a session costs beside its branch.
const SESSION_OVERHEAD: usize = 1024;
/// Longest wait for writes that were queued before a session is read.
const BARRIER: Duration = Duration::from_secs(10);

/// What another room keeps with each hot session, such as its projection.
pub trait Extra: Send + 'static {
    /// Rough size in memory, in bytes; asked often, so it must be cheap.
    fn weight(&self) -> usize;
}

impl Extra for () {
    fn weight(&self) -> usize {
        0
    }
}

/// A session in memory.
#[derive(Debug)]
pub struct HotSession<X> {
    record: SessionRecord,
    branch: Branch,
    frozen: HashMap<EntryId, String>,
    frozen_bytes: usize,
    stored: bool,
    /// What another room keeps with it.
    pub extra: X,
}

impl<X> HotSession<X> {
    /// An empty session that is in no cache: of an ephemeral turn, which throws its writes away.
    pub fn new(record: SessionRecord, extra: X) -> HotSession<X> {
        HotSession { record, branch: Branch::default(), frozen: HashMap::new(), frozen_bytes: 0, stored: false, extra }
    }

    /// The record, with the head, counts and times that the queued writes will give it.
    pub fn record(&self) -> &SessionRecord {
        &self.record
    }

    /// The active branch.
    pub fn branch(&self) -> &Branch {
        &self.branch
    }

    /// Frozen pruned texts.
    pub fn frozen(&self) -> &HashMap<EntryId, String> {
        &self.frozen
    }

    /// The branch, the frozen texts and the extra value at once, for work on the extra value that reads the others.
    pub fn parts(&mut self) -> (&Branch, &HashMap<EntryId, String>, &mut X) {
        (&self.branch, &self.frozen, &mut self.extra)
    }

    /// False for a session that the store does not know yet. Its first change creates it.
    pub fn is_stored(&self) -> bool {
        self.stored
    }

    /// Appends a child of the head and moves the head to it. The writes go behind `writes`.
    ///
    /// # Errors
    /// [`StoreError::Invalid`], and nothing changes, when it is no child of the head or of another session.
    pub fn append(&mut self, entry: Entry, writes: &mut Vec<Write>) -> Result<Arc<Entry>, StoreError> {
        if entry.session != self.record.row {
            return Err(StoreError::Invalid("the entry is of another session"));
        }
        let entry = Arc::new(entry);
        if !self.branch.push(Arc::clone(&entry)) {
            return Err(StoreError::Invalid("the entry is no child of the head"));
        }
        self.create(writes);
        // One move of the head is enough for a run of entries.
        let row = self.record.row;
        if matches!(writes.last(), Some(Write::SetHead { session, .. }) if *session == row) {
            writes.pop();
        }
        writes.push(Write::Append(Entry::clone(&entry)));
        writes.push(Write::SetHead { session: row, head: entry.id });
        self.record.head = entry.id;
        self.record.entries += 1;
        self.record.updated_ms = self.record.updated_ms.max(entry.time_ms);
        Ok(entry)
    }

    /// Makes `id`, an entry of the branch or 0, the head: the next entry begins a sibling branch behind it.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], and nothing changes, when the branch does not hold it.
    pub fn branch_at(&mut self, id: EntryId, writes: &mut Vec<Write>) -> Result<(), StoreError> {
        if id == self.branch.head() {
            return Ok(());
        }
        if !self.branch.branch_at(id) {
            return Err(StoreError::NotFound("entry"));
        }
        self.move_head(writes);
        Ok(())
    }

    /// Goes back to `record`, how the session stood before entries were appended to it that were never submitted: they were
    /// only to be looked at.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], and nothing changes, when the branch does not hold the record's head.
    pub fn take_back(&mut self, record: SessionRecord) -> Result<(), StoreError> {
        if record.row != self.record.row || !self.branch.branch_at(record.head) {
            return Err(StoreError::NotFound("entry"));
        }
        self.record = record;
        Ok(())
    }

    /// Makes another branch of the session the active one, as [`Store::branch`] gave it.
    pub fn switch(&mut self, branch: Branch, writes: &mut Vec<Write>) {
        self.branch = branch;
        self.move_head(writes);
    }

    /// Starts a new generation, after a rewrite: cursors of the one before are reset.
    pub fn rewritten(&mut self, writes: &mut Vec<Write>) {
        self.create(writes);
        self.record.generation += 1;
        writes.push(Write::Generation { session: self.record.row, generation: self.record.generation });
    }

    /// Gives the session another public id; everything else of it stays.
    pub fn rename(&mut self, session_id: String, writes: &mut Vec<Write>) {
        self.create(writes);
        writes.push(Write::Rename { session: self.record.row, session_id: session_id.clone() });
        self.record.session_id = session_id;
    }

    /// Freezes a pruned text of an entry.
    pub fn freeze(&mut self, entry: EntryId, text: String, writes: &mut Vec<Write>) {
        self.create(writes);
        writes.push(Write::FreezePruned { session: self.record.row, entry, text: text.clone() });
        self.frozen_bytes += text.len();
        if let Some(old) = self.frozen.insert(entry, text) {
            self.frozen_bytes -= old.len();
        }
    }

    fn create(&mut self, writes: &mut Vec<Write>) {
        if !self.stored {
            writes.push(Write::CreateSession { record: self.record.clone() });
            self.stored = true;
        }
    }

    fn move_head(&mut self, writes: &mut Vec<Write>) {
        self.record.head = self.branch.head();
        writes.push(Write::SetHead { session: self.record.row, head: self.record.head });
    }
}

impl<X: Extra> HotSession<X> {
    /// Rough size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        SESSION_OVERHEAD + self.branch.bytes() + self.frozen_bytes + self.extra.weight()
    }
}

#[derive(Debug)]
struct Cell<X> {
    key: Arc<str>,
    session: Mutex<HotSession<X>>,
}

/// A place in the cache: exists while a session is loaded, so that it is read once, and holds it afterwards.
#[derive(Debug)]
struct Place<X> {
    loading: Mutex<()>,
    cell: OnceLock<Arc<Cell<X>>>,
}

#[derive(Debug)]
struct Kept<X> {
    place: Arc<Place<X>>,
    bytes: usize,
    used: u64,
}

#[derive(Debug)]
struct Inner<X> {
    kept: HashMap<Arc<str>, Kept<X>>,
    /// Loaded sessions by last use.
    order: BTreeMap<u64, Arc<str>>,
    clock: u64,
    bytes: usize,
}

struct Shared<X> {
    inner: Mutex<Inner<X>>,
    max_bytes: usize,
    make: Box<dyn Fn(&SessionRecord) -> X + Send + Sync>,
}

/// The cache. Clones share it.
pub struct HotSessions<X: Extra>(Arc<Shared<X>>);

impl<X: Extra> Clone for HotSessions<X> {
    fn clone(&self) -> Self {
        HotSessions(Arc::clone(&self.0))
    }
}

impl<X: Extra> HotSessions<X> {
    /// A cache of at most about `max_bytes`, sessions in use not counted out; `make` makes the extra value of a loaded session.
    pub fn new(max_bytes: u64, make: impl Fn(&SessionRecord) -> X + Send + Sync + 'static) -> HotSessions<X> {
        let inner = Inner { kept: HashMap::new(), order: BTreeMap::new(), clock: 0, bytes: 0 };
        let max_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
        HotSessions(Arc::new(Shared { inner: Mutex::new(inner), max_bytes, make: Box::new(make) }))
    }

    /// A session that is in memory. Never blocks on the store.
    pub fn warm(&self, key: &str) -> Option<HotHandle<X>> {
        let mut inner = self.0.lock();
        let cell = Arc::clone(inner.kept.get(key)?.place.cell.get()?);
        inner.touch(key);
        drop(inner);
        Some(HotHandle { shared: Arc::clone(&self.0), cell })
    }

    /// A session, from memory or from the store; `None` when there is none. Blocks: not for async threads.
    ///
    /// # Errors
    /// Those of the store.
    pub fn load(&self, store: &dyn Store, key: &str) -> Result<Option<HotHandle<X>>, StoreError> {
        self.fetch(store, key, None)
    }

    /// A session, from memory or from the store, or a new one, which its first change creates. Blocks: not for async threads.
    ///
    /// # Errors
    /// Those of the store.
    pub fn load_or_new(&self, store: &dyn Store, key: &str, now_ms: i64) -> Result<HotHandle<X>, StoreError> {
        self.fetch(store, key, Some(now_ms))?.ok_or(StoreError::NotFound("session"))
    }

    /// Takes a session out: it was deleted, or a submission failed. Handles that exist keep what they have.
    pub fn forget(&self, key: &str) {
        self.0.lock().remove(key);
    }

    /// Number of sessions in memory.
    pub fn len(&self) -> usize {
        self.0.lock().order.len()
    }

    /// True when no session is in memory.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rough size of them, in bytes.
    pub fn bytes(&self) -> usize {
        self.0.lock().bytes
    }

    fn fetch(&self, store: &dyn Store, key: &str, new: Option<i64>) -> Result<Option<HotHandle<X>>, StoreError> {
        loop {
            if let Some(handle) = self.warm(key) {
                return Ok(Some(handle));
            }
            let place = self.0.place(key);
            let turn = place.loading.lock().unwrap_or_else(PoisonError::into_inner);
            if place.cell.get().is_some() {
                continue;
            }
            let session = match self.0.read(store, key, new) {
                Ok(Some(session)) => session,
                other => {
                    drop(turn);
                    self.0.give_up(key, place);
                    return other.map(|_| None);
                }
            };
            let bytes = session.bytes();
            let cell = Arc::new(Cell { key: key.into(), session: Mutex::new(session) });
            if self.0.keep(key, &place, &cell, bytes) {
                return Ok(Some(HotHandle { shared: Arc::clone(&self.0), cell }));
            }
            // Forgotten while it was read: what was read may be old.
        }
    }
}

impl<X: Extra> Shared<X> {
    fn lock(&self) -> MutexGuard<'_, Inner<X>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, key: &str) -> Arc<Place<X>> {
        let mut inner = self.lock();
        if let Some(kept) = inner.kept.get(key) {
            return Arc::clone(&kept.place);
        }
        let place = Arc::new(Place { loading: Mutex::new(()), cell: OnceLock::new() });
        inner.kept.insert(key.into(), Kept { place: Arc::clone(&place), bytes: 0, used: 0 });
        place
    }

    /// Removes a place where nothing was loaded, unless somebody else waits for it.
    fn give_up(&self, key: &str, place: Arc<Place<X>>) {
        let mut inner = self.lock();
        let ours = inner.kept.get(key).is_some_and(|kept| Arc::ptr_eq(&kept.place, &place));
        if ours && place.cell.get().is_none() && Arc::strong_count(&place) == 2 {
            inner.kept.remove(key);
        }
    }

    fn read(&self, store: &dyn Store, key: &str, new: Option<i64>) -> Result<Option<HotSession<X>>, StoreError> {
        // Writes of an earlier use may still be queued; they must be seen.
        let barrier = store.submit(Submission { lease: None, writes: Vec::new() });
        barrier.durable_blocking(Instant::now() + BARRIER)?;
        let (record, stored) = match (store.session(key)?, new) {
            (Some(record), _) => (record, true),
            (None, Some(now_ms)) => (SessionRecord::new(store.next_session(), key, now_ms), false),
            (None, None) => return Ok(None),
        };
        let (branch, frozen) = if stored {
            (store.branch(record.row, record.head)?, store.frozen(record.row)?)
        } else {
            (Vec::new(), Vec::new())
        };
        let extra = (self.make)(&record);
        let frozen_bytes = frozen.iter().map(|(_, text)| text.len()).sum();
        let branch = Branch::from_entries(branch);
        Ok(Some(HotSession { record, branch, frozen: frozen.into_iter().collect(), frozen_bytes, stored, extra }))
    }

    fn keep(&self, key: &str, place: &Arc<Place<X>>, cell: &Arc<Cell<X>>, bytes: usize) -> bool {
        let mut inner = self.lock();
        let Some(kept) = inner.kept.get_mut(key).filter(|kept| Arc::ptr_eq(&kept.place, place)) else { return false };
        if place.cell.set(Arc::clone(cell)).is_err() {
            return false;
        }
        kept.bytes = bytes;
        inner.bytes += bytes;
        inner.touch(key);
        self.evict(&mut inner, None);
        true
    }

    /// Takes out the sessions that were not used for longest, until the rest fits. One in use stays, and so do the place that
    /// somebody waits for and the one that was used last: a session larger than the bound is not read anew at every turn.
    /// `leaving` is a session whose handle is just being dropped.
    fn evict(&self, inner: &mut Inner<X>, leaving: Option<&Arc<Cell<X>>>) {
        if inner.bytes <= self.max_bytes {
            return;
        }
        let idle = |kept: &Kept<X>| {
            let Some(cell) = kept.place.cell.get() else { return false };
            let handles = 1 + usize::from(leaving.is_some_and(|other| Arc::ptr_eq(other, cell)));
            Arc::strong_count(&kept.place) == 1 && Arc::strong_count(cell) <= handles
        };
        let mut excess = inner.bytes - self.max_bytes;
        let mut out = Vec::new();
        for key in inner.order.values().take(inner.order.len().saturating_sub(1)) {
            let Some(kept) = inner.kept.get(key).filter(|kept| idle(kept)) else { continue };
            out.push(Arc::clone(key));
            excess = excess.saturating_sub(kept.bytes);
            if excess == 0 {
                break;
            }
        }
        for key in out {
            inner.remove(&key);
        }
    }
}

impl<X> Inner<X> {
    fn touch(&mut self, key: &str) {
        let Some((name, kept)) = self.kept.get_key_value(key) else { return };
        let (name, before) = (Arc::clone(name), kept.used);
        self.clock += 1;
        self.order.remove(&before);
        self.order.insert(self.clock, name);
        if let Some(kept) = self.kept.get_mut(key) {
            kept.used = self.clock;
        }
    }

    fn remove(&mut self, key: &str) {
        if let Some(kept) = self.kept.remove(key) {
            self.order.remove(&kept.used);
            self.bytes -= kept.bytes;
        }
    }
}

/// A session in use: it stays in memory while a handle exists.
pub struct HotHandle<X: Extra> {
    shared: Arc<Shared<X>>,
    cell: Arc<Cell<X>>,
}

impl<X: Extra> HotHandle<X> {
    /// Its key.
    pub fn key(&self) -> &str {
        &self.cell.key
    }

    /// The session, for a moment: never hold it across an await or a call of an engine.
    pub fn lock(&self) -> HotGuard<'_, X> {
        HotGuard { handle: self, session: self.cell.session.lock().unwrap_or_else(PoisonError::into_inner) }
    }
}

impl<X: Extra> Clone for HotHandle<X> {
    fn clone(&self) -> Self {
        HotHandle { shared: Arc::clone(&self.shared), cell: Arc::clone(&self.cell) }
    }
}

impl<X: Extra> Drop for HotHandle<X> {
    fn drop(&mut self) {
        let mut inner = self.shared.lock();
        self.shared.evict(&mut inner, Some(&self.cell));
    }
}

/// Access to a hot session; its size is measured anew when it is dropped.
pub struct HotGuard<'a, X: Extra> {
    handle: &'a HotHandle<X>,
    session: MutexGuard<'a, HotSession<X>>,
}

impl<X: Extra> Deref for HotGuard<'_, X> {
    type Target = HotSession<X>;

    fn deref(&self) -> &HotSession<X> {
        &self.session
    }
}

impl<X: Extra> DerefMut for HotGuard<'_, X> {
    fn deref_mut(&mut self) -> &mut HotSession<X> {
        &mut self.session
    }
}

impl<X: Extra> Drop for HotGuard<'_, X> {
    fn drop(&mut self) {
        let bytes = self.session.bytes();
        let cell = &self.handle.cell;
        let mut inner = self.handle.shared.lock();
        let Some(kept) = inner.kept.get_mut(&cell.key) else { return };
        // After it was forgotten, the place may hold a newer copy; that one counts for itself.
        if kept.place.cell.get().is_some_and(|now| Arc::ptr_eq(now, cell)) {
            let before = std::mem::replace(&mut kept.bytes, bytes);
            inner.bytes = inner.bytes + bytes - before;
        }
    }
}

#[cfg(test)]
#[path = "hot_tests.rs"]
mod tests;
