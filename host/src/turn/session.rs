//! What a turn knows of its session: the hot session of the transcript with the projection of it, and what engines saw.

use super::TurnError;
use super::agents::AgentRoom;
use super::cache::CacheWatch;
use super::hosts::HostNote;
use super::house::House;
use super::offer::ready_rows;
use super::written::Written;
use crate::compaction::{Projection, ProjectionPolicy, View};
use crate::model::TokenCounter;
use crate::slot::PromptCacheFacts;
use crate::transcript::{
    Entry, EntryBody, EntryId, Extra, HotGuard, HotHandle, HotSession, Message, OutboxRow, Role, SessionRecord, Store,
    StoreError, Submission, Write,
};
use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a turn keeps with a hot session.
pub(super) struct Memory {
    store: Arc<dyn Store>,
    row: crate::transcript::SessionRow,
    /// Nothing of it is stored.
    pub(super) ephemeral: bool,
    /// What the store holds beside the branch was read.
    ready: bool,
    projection: Projection,
    /// Outbox rows of the session that are not settled, oldest first.
    pub(super) outbox: Vec<OutboxRow>,
    /// Per engine: the last entry before which it missed nothing, in this process. Absent: never seen.
    pub(super) seen: HashMap<String, EntryId>,
    /// Per engine: the last entry that it was given, by commit or by cursor, and before which it missed nothing; as stored.
    pub(super) handed: HashMap<String, EntryId>,
    /// When the model was last called for it.
    pub(super) last_call_ms: Option<i64>,
    /// What the last call of the model was like.
    pub(super) watch: CacheWatch,
    /// What the provider told at the last call.
    pub(super) cache: Option<PromptCacheFacts>,
    /// Tokens of the system prompt and of the tools of the last request.
    pub(super) fixed_tokens: (u64, u64),
    /// Model that the last request named.
    pub(super) model_name: Option<String>,
    /// Writes that go with the next submission, or without one after a while: settled outbox rows, marks of what was handed
    /// over, frozen texts. All of them can be made again.
    pub(super) deferred: Vec<Write>,
    /// What a host that keeps the conversation has of it; `None` until it was read.
    pub(super) host_note: Option<Option<HostNote>>,
    /// What children of the session have to say at its next turn.
    pub(super) notes: super::subagents::Notes,
    /// A proactive compaction is not tried again below this many tokens.
    pub(super) compaction_floor: u64,
    /// The window that a provider named when it refused a prompt, and the model that was asked.
    pub(super) told_window: Option<(Option<String>, u64)>,
    /// First entry that stays by the cut of a compaction that was not carried out.
    pub(super) planned_cut: Option<EntryId>,
    /// The last prompt, as it was sent.
    pub(super) written: Written,
    /// Compactions on the branch, by id: so that nobody has to count them.
    boundaries: Vec<EntryId>,
    next_local: EntryId,
}

impl Memory {
    pub(super) fn new(store: Arc<dyn Store>, record: &SessionRecord, ephemeral: bool) -> Memory {
        Memory {
            store,
            row: record.row,
            ephemeral,
            ready: ephemeral,
            projection: Projection::new(ProjectionPolicy::default()),
            outbox: Vec::new(),
            seen: HashMap::new(),
            handed: HashMap::new(),
            last_call_ms: None,
            watch: CacheWatch::default(),
            cache: None,
            fixed_tokens: (0, 0),
            model_name: None,
            deferred: Vec::new(),
            host_note: None,
            notes: super::subagents::Notes::default(),
            compaction_floor: 0,
            told_window: None,
            planned_cut: None,
            written: Written::default(),
            boundaries: Vec::new(),
            next_local: 1,
        }
    }

    /// Submits the deferred writes. Nobody waits for them.
    pub(super) fn flush(&mut self) {
        if !self.deferred.is_empty() {
            let writes = std::mem::take(&mut self.deferred);
            drop(self.store.submit(Submission { lease: Some((self.row, self.store.lease())), writes }));
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.flush();
    }
}

impl Extra for Memory {
    fn weight(&self) -> usize {
        // A row of the projection with its pointer; bodies are shared with the branch.
        1024 + self.projection.view().len() * 56 + self.written.weight()
    }
}

enum Place {
    Stored(HotHandle<Memory>),
    Ephemeral(Box<Mutex<HotSession<Memory>>>),
}

/// A session in use. The lane gives one turn at a time the right to change it; services that run inside a hook of that turn
/// look at it through the same lock, each for a moment.
pub(super) struct Session {
    /// Its key; `None` when ephemeral.
    pub(super) key: Option<Arc<str>>,
    /// The room of its agent.
    pub(super) agent: Arc<AgentRoom>,
    place: Place,
}

impl Session {
    /// The state, for a moment: never held over an await or a hook.
    pub(super) fn state(&self) -> State<'_> {
        State(match &self.place {
            Place::Stored(handle) => Guard::Stored(handle.lock()),
            Place::Ephemeral(session) => Guard::Ephemeral(session.lock().unwrap_or_else(PoisonError::into_inner)),
        })
    }
}

impl House {
    /// The session of a key, from memory, from the store, or (when `create`) new. The caller holds its lane.
    pub(super) async fn open(self: &Arc<House>, key: &str, create: bool) -> Result<Arc<Session>, TurnError> {
        let name: Arc<str> = Arc::from(key);
        if let Some(handle) = self.hot.warm(key) {
            let session = self.session_of(name.clone(), handle);
            let (row, usable) = {
                let state = session.state();
                (state.record().row, state.extra.ready && (create || state.is_stored()))
            };
            // Something of it was not written that nobody waited for: what is in memory is ahead of the store.
            if let Some(error) = self.store.take_failed(row) {
                tracing::warn!(%error, session = key, "a write of the session failed; it is read anew");
                self.hot.forget(key);
            } else if usable {
                return Ok(Arc::new(session));
            }
        }
        let house = self.clone();
        self.blocking(move || {
            let handle = if create {
                house.hot.load_or_new(&*house.store, &name, house.clock.now_ms())?
            } else {
                house.hot.load(&*house.store, &name)?.ok_or_else(|| TurnError::NoSession { key: name.to_string() })?
            };
            let session = house.session_of(name.clone(), handle);
            session.state().make_ready(&*house.store, &session.agent.counter)?;
            if !create && !session.state().is_stored() {
                return Err(TurnError::NoSession { key: name.to_string() });
            }
            Ok(Arc::new(session))
        })
        .await
    }

    /// A session of which nothing is stored.
    pub(super) fn ephemeral(&self) -> Arc<Session> {
        let record = SessionRecord::new(self.store.next_session(), "", self.clock.now_ms());
        let memory = Memory::new(self.store.clone(), &record, true);
        let agent = self.agent(&record.agent);
        let place = Place::Ephemeral(Box::new(Mutex::new(HotSession::new(record, memory))));
        Arc::new(Session { key: None, agent, place })
    }

    fn session_of(&self, key: Arc<str>, handle: HotHandle<Memory>) -> Session {
        let agent = self.agent(&handle.lock().record().agent);
        Session { key: Some(key), agent, place: Place::Stored(handle) }
    }
}

enum Guard<'a> {
    Stored(HotGuard<'a, Memory>),
    Ephemeral(MutexGuard<'a, HotSession<Memory>>),
}

/// Access to a session.
pub(super) struct State<'a>(Guard<'a>);

impl Deref for State<'_> {
    type Target = HotSession<Memory>;

    fn deref(&self) -> &HotSession<Memory> {
        match &self.0 {
            Guard::Stored(guard) => guard,
            Guard::Ephemeral(guard) => guard,
        }
    }
}

impl DerefMut for State<'_> {
    fn deref_mut(&mut self) -> &mut HotSession<Memory> {
        match &mut self.0 {
            Guard::Stored(guard) => guard,
            Guard::Ephemeral(guard) => guard,
        }
    }
}

impl State<'_> {
    fn make_ready(&mut self, store: &dyn Store, counter: &TokenCounter) -> Result<(), StoreError> {
        if self.extra.ready {
            return Ok(());
        }
        if self.is_stored() {
            let row = self.record().row;
            self.extra.handed = store.handed(row)?.into_iter().collect();
            self.take_up_rows(store.outbox(Some(row))?);
            for child in store.subagents(&self.record().key.clone(), true)? {
                self.extra.notes.add(child);
            }
        }
        // The time of the last answer stands for that of the last call, which is not stored.
        self.extra.last_call_ms =
            self.entries().iter().rev().find(|entry| is_role(entry, Role::Assistant)).map(|entry| entry.time_ms);
        self.find_boundaries();
        ready_rows(self, store)?;
        self.sync(counter);
        self.extra.ready = true;
        Ok(())
    }

    /// A fresh entry id: the store's, or a local one that nothing outside the turn sees.
    pub(super) fn next_entry(&mut self, store: &dyn Store) -> EntryId {
        if !self.extra.ephemeral {
            return store.next_entry();
        }
        self.extra.next_local += 1;
        self.extra.next_local - 1
    }

    /// The active branch, root first.
    pub(super) fn entries(&self) -> &[Arc<Entry>] {
        self.branch().entries()
    }

    /// Brings the projection up to date with the branch.
    pub(super) fn sync(&mut self, counter: &TokenCounter) {
        let (branch, frozen, memory) = self.parts();
        memory.projection.sync(branch.entries(), frozen, counter);
    }

    /// Cuts tool results that are too large for the window, and shortens old ones once the provider's cache is cold anyway; the
    /// texts are frozen from then on.
    pub(super) fn prune(&mut self, now_ms: i64, window: u64, config: &crate::config::PruningConfig) {
        if self.extra.ephemeral {
            // Nobody knows what the cache of a conversation is that the client keeps; what is too large is too large.
            self.extra.projection.prune(now_ms, Some(now_ms), window, config);
            return;
        }
        let last = self.extra.last_call_ms;
        let frozen = self.extra.projection.prune(now_ms, last, window, config);
        self.extra.watch.pruned |= !frozen.is_empty();
        let mut writes = Vec::new();
        for (entry, text) in frozen {
            self.freeze(entry, text, &mut writes);
        }
        self.extra.deferred.append(&mut writes);
    }

    /// The projection up to the row `until` (0: to its end) as [`State::prune`] would leave it, with its tokens; nothing changes.
    /// Costs a copy of the rows, so that nobody else pays for one.
    pub(super) fn pruned_copy(
        &self,
        now_ms: i64,
        window: u64,
        config: &crate::config::PruningConfig,
        until: EntryId,
    ) -> (Arc<View>, u64) {
        let mut copy = self.extra.projection.clone();
        if !self.extra.ephemeral {
            drop(copy.prune(now_ms, self.extra.last_call_ms, window, config));
        }
        let mut view = View::clone(&copy.view());
        if until != 0 {
            view.truncate(view.index_from(until + 1));
        }
        let tokens = view.tokens(0..view.len());
        (Arc::new(view), tokens)
    }

    /// The context window: as configured, or what the provider of the same model said when it is less.
    pub(super) fn window(&self, configured: u64) -> u64 {
        match &self.extra.told_window {
            Some((name, told)) if *name == self.extra.model_name => configured.min(*told),
            _ => configured,
        }
    }

    /// The projection. Let go of it before the next sync, else that one copies its rows.
    pub(super) fn view(&self) -> Arc<View> {
        self.extra.projection.view()
    }

    /// Index in the view of the first projected entry of the turn that begins with `first`.
    pub(super) fn turn_start(&self, first: EntryId) -> usize {
        self.extra.projection.turn_start(first)
    }

    /// Tokens of the projection.
    pub(super) fn projected_tokens(&self) -> u64 {
        self.extra.projection.tokens()
    }

    /// The last user entry of the branch: where the current turn begins.
    pub(super) fn last_user(&self) -> Option<EntryId> {
        self.entries().iter().rev().find(|entry| is_role(entry, Role::User)).map(|entry| entry.id)
    }

    /// The last message entry before `id` on the branch, or 0.
    pub(super) fn message_before(&self, id: EntryId) -> EntryId {
        let at = self.entries().partition_point(|entry| entry.id < id);
        self.entries()[..at].iter().rev().find(|entry| message_of(entry).is_some()).map_or(0, |entry| entry.id)
    }

    /// Place of an entry among the messages of the branch, from 0.
    pub(super) fn message_position(&self, id: EntryId) -> Option<u64> {
        let at = self.branch().position(id)?;
        Some(at.saturating_sub(self.boundaries_before(id)) as u64)
    }

    /// The last message entry of the branch, or 0.
    pub(super) fn last_message(&self) -> EntryId {
        self.message_before(EntryId::MAX)
    }

    /// The last message entry before the turn that begins with `first`; of the whole branch when there is none (0).
    pub(super) fn before_turn(&self, first: EntryId) -> EntryId {
        if first == 0 { self.last_message() } else { self.message_before(first) }
    }

    /// The message entries of the branch from `first` on.
    pub(super) fn messages_from(&self, first: EntryId) -> Vec<Arc<Entry>> {
        let at = self.entries().partition_point(|entry| entry.id < first);
        self.entries()[at..].iter().filter(|entry| message_of(entry).is_some()).cloned().collect()
    }

    /// Reads anew where the branch was compacted.
    pub(super) fn find_boundaries(&mut self) {
        let found = self.entries().iter().filter(|entry| message_of(entry).is_none()).map(|entry| entry.id).collect();
        self.extra.boundaries = found;
    }

    /// The branch was compacted here.
    pub(super) fn add_boundary(&mut self, id: EntryId) {
        self.extra.boundaries.push(id);
    }

    /// Compactions on the branch.
    pub(super) fn compactions(&self) -> usize {
        self.extra.boundaries.len()
    }

    /// Compactions on the branch before `id`.
    pub(super) fn boundaries_before(&self, id: EntryId) -> usize {
        self.extra.boundaries.partition_point(|boundary| *boundary < id)
    }

    /// Leaves everything behind `id` to another branch.
    pub(super) fn cut_behind(&mut self, id: EntryId, writes: &mut Vec<Write>) -> Result<(), StoreError> {
        if id == self.branch().head() {
            return Ok(());
        }
        self.branch_at(id, writes)?;
        // What an engine saw of the other branch says nothing about this one.
        self.extra.seen.clear();
        self.extra.boundaries.retain(|boundary| *boundary <= id);
        Ok(())
    }
}

/// The message of an entry; `None` for a compaction.
pub(super) fn message_of(entry: &Entry) -> Option<&Arc<Message>> {
    match &entry.body {
        EntryBody::Message(message) => Some(message),
        EntryBody::Compaction(_) => None,
    }
}

/// True for a message of this role.
pub(super) fn is_role(entry: &Entry, role: Role) -> bool {
    message_of(entry).is_some_and(|message| message.role == role)
}
