//! The store trait: what the gateway needs of a backend, and what a backend must promise.

use super::{Message, SubagentRecord};
use crate::diagnostic::Diagnostic;
use crate::observe::failpoint;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Instant;

/// Host-given id of an entry: stable for ever, rises with every append in the whole store, never 0.
pub type EntryId = u64;
/// Row id of a session in the store, never 0.
pub type SessionRow = u64;

/// Bits of a stored entry.
pub mod stored_flags {
    /// Belongs to a heartbeat.
    pub const HEARTBEAT: u32 = 1;
    /// Made inside the gateway (its own tool calls and their results): no client has seen it, so a client's history is
    /// compared without it.
    pub const INTERNAL: u32 = 1 << 1;
}

/// What an entry holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum EntryBody {
    /// A message; shared with the projection, so that each is held in memory once.
    Message(Arc<Message>),
    /// A compaction boundary: what is older than `first_kept` is replaced by `summary` in the projection.
    Compaction(CompactionBody),
}

/// Body of a compaction entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompactionBody {
    /// The summary.
    pub summary: String,
    /// First entry that stays verbatim.
    pub first_kept: EntryId,
    /// Tokens of the projection before, measured by the host.
    pub tokens_before: u64,
    /// Tokens of the projection after, measured by the host.
    pub tokens_after: u64,
    /// What asked for it: "budget", "overflow", "manual".
    pub trigger: String,
    /// Engine that made it, or "builtin".
    pub by: String,
}

/// An entry of the transcript. Append-only: it is never changed after it was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its id.
    pub id: EntryId,
    /// Parent, or 0 at the root of the tree.
    pub parent: EntryId,
    /// Session.
    pub session: SessionRow,
    /// Milliseconds since the Unix epoch.
    pub time_ms: i64,
    /// Bits of [`stored_flags`].
    pub flags: u32,
    /// Tokens of the entry as it would be sent, framing included; counted once.
    pub tokens: u32,
    /// [`Message::digest`], or 0 for a compaction.
    pub digest: u128,
    /// What it holds.
    pub body: EntryBody,
}

/// A session as the store lists it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SessionRecord {
    /// Row.
    pub row: SessionRow,
    /// Key, unique.
    pub key: String,
    /// Public id (UUID v7).
    pub session_id: String,
    /// Agent, from keys of the form `agent:ID:…`, else "main".
    pub agent: String,
    /// Head of the active branch, or 0 when empty.
    pub head: EntryId,
    /// Changes when the transcript is rewritten.
    pub generation: u64,
    /// Created, ms since the epoch.
    pub created_ms: i64,
    /// Last write, ms since the epoch.
    pub updated_ms: i64,
    /// Number of entries in all branches.
    pub entries: u64,
}

/// Fencing token of a writer. Each write carries it; a write with an older token than the session has seen is refused in the
/// same transaction, so that a store shared by several gateways can fence a stale one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LeaseToken(pub u64);

pub use super::outbox::{AcceptedFacts, BlockedReason, OutboxCount, OutboxRow, OutboxState, OutboxSummary};

/// Turns of one session that wait for an engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Backlog {
    /// Key of the session.
    pub session: String,
    /// Rows of the outbox.
    pub turns: u64,
    /// Of these: cannot be offered as they are.
    pub blocked: u64,
    /// The oldest was admitted, ms since the epoch.
    pub oldest_ms: i64,
    /// Most often that one of them was offered in vain.
    pub attempts: u32,
    /// A last error of one of them.
    pub last_error: Option<String>,
}

/// What happened in one turn, kept for the operator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnRecord {
    /// Id of the turn (UUID v7).
    pub turn_id: String,
    /// Session.
    pub session: SessionRow,
    /// First admitted entry.
    pub admitted: EntryId,
    /// Last entry, or 0 when the turn was not answered.
    pub terminal: EntryId,
    /// Idempotency key of the request.
    pub idempotency_key: Option<String>,
    /// Engine that served.
    pub engine: String,
    /// Closed degraded code, when it is not the selected one.
    pub degraded: Option<String>,
    /// Why, candidate by candidate, and everything else worth keeping.
    pub detail: serde_json::Value,
    /// Started, ms since the epoch.
    pub started_ms: i64,
    /// Ended, ms since the epoch.
    pub ended_ms: i64,
}

/// One operation of an atomic batch of an engine's store.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum EngineOp {
    /// Set.
    Put(Vec<u8>, Vec<u8>),
    /// Remove.
    Delete(Vec<u8>),
    /// Refuse the batch unless the key is absent.
    RequireAbsent(Vec<u8>),
    /// Refuse the batch unless the key holds exactly this.
    RequireEqual(Vec<u8>, Vec<u8>),
    /// Remove every key with this prefix.
    DeletePrefix(Vec<u8>),
}

/// Keys of an engine's store with their values, in byte order of the keys.
pub type EnginePairs = Vec<(Vec<u8>, Vec<u8>)>;

/// Scope of an engine's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EngineScope {
    /// The engine's own.
    Engine,
    /// One session's; dropped with it.
    Session(SessionRow),
}

/// One write. A list of writes that is submitted together is applied whole or not at all.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// A new session. `row` was taken from [`Store::next_session`].
    CreateSession {
        /// The record; `entries` is ignored.
        record: SessionRecord,
    },
    /// A new entry. It does not move the head. Its id was taken from [`Store::next_entry`]; its session exists, or is created in the same list.
    Append(Entry),
    /// Moves the head of the active branch.
    SetHead {
        /// Session.
        session: SessionRow,
        /// New head.
        head: EntryId,
    },
    /// A new generation: the transcript was rewritten, and cursors of older generations are reset.
    Generation {
        /// Session.
        session: SessionRow,
        /// New generation, greater than the one before.
        generation: u64,
    },
    /// Gives a session another public id.
    Rename {
        /// Session.
        session: SessionRow,
        /// Its new id.
        session_id: String,
    },
    /// Inserts or replaces an outbox row by engine and key. Refused as a collision when the row that is there belongs to
    /// another session.
    Outbox(OutboxRow),
    /// Removes an outbox row.
    OutboxDelete {
        /// Engine.
        engine: String,
        /// Key of the advancement.
        key: String,
    },
    /// Removes all rows of one engine and session that wait to be offered and whose range ends at or before `up_to` (settled
    /// as covered).
    OutboxCovered {
        /// Engine.
        engine: String,
        /// Session.
        session: SessionRow,
        /// Last entry handed over.
        up_to: EntryId,
    },
    /// The last entry handed over to an engine, by commit or by cursor, before which it missed nothing. Never moves back.
    HandedOver {
        /// Engine.
        engine: String,
        /// Session.
        session: SessionRow,
        /// Last entry handed over.
        entry: EntryId,
    },
    /// Inserts or replaces a turn record by turn id.
    Turn(TurnRecord),
    /// Sets one member of a turn record's `detail`; nothing when there is no such record.
    TurnDetail {
        /// Session.
        session: SessionRow,
        /// Id of the turn.
        turn_id: String,
        /// Member: a plain word.
        name: &'static str,
        /// Its value.
        value: serde_json::Value,
    },
    /// Freezes a pruned text of an entry: from now on the projection shows `text` for it, byte for byte.
    FreezePruned {
        /// Session.
        session: SessionRow,
        /// Entry.
        entry: EntryId,
        /// The shorter text.
        text: String,
    },
    /// Atomic batch of an engine's store. A failed requirement refuses the whole list with [`StoreError::Requirement`].
    EngineBatch {
        /// Engine.
        engine: String,
        /// Scope.
        scope: EngineScope,
        /// Operations, in order.
        ops: Vec<EngineOp>,
    },
    /// Drops all keys of a scope.
    EngineDropScope {
        /// Engine, or all engines when `None`.
        engine: Option<String>,
        /// Scope.
        scope: EngineScope,
    },
    /// Inserts a child of a session by its key, or merges what is new of it: see [`SubagentRecord::merge`].
    Subagent(Box<SubagentRecord>),
    /// Forgets a child.
    SubagentForget(String),
    /// Removes a session with everything that hangs on it. It is gone at once; the space that a large one took is freed later,
    /// in parts, between other writes.
    DeleteSession {
        /// Session.
        session: SessionRow,
    },
    /// Begins a session anew: an empty active branch (the old one stays in the tree), a new generation, and nothing handed over
    /// to any engine. Of what engines keep of the session a first part goes; the rest with [`Write::DropScopePart`].
    ResetSession {
        /// Session.
        session: SessionRow,
        /// New generation, greater than the one before.
        generation: u64,
    },
    /// Writes a little, to see whether writing works.
    Probe,
    /// Drops a part of what engines keep of a session, of bounded size: submit it while [`Store::scope_is_left`].
    DropScopePart {
        /// Session.
        session: SessionRow,
    },
}

/// The list of writes of one submission with the lease that it is made under. One without writes is a barrier: it is
/// acknowledged when everything queued before it was, and costs no sync.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// Session whose lease is checked, and the token; `None` for writes of no session (an engine's own scope).
    pub lease: Option<(SessionRow, LeaseToken)>,
    /// The writes.
    pub writes: Vec<Write>,
}

/// Receipt of a submission: await it, or block on it, to know that the writes are on disk.
pub struct Ack {
    receiver: tokio::sync::oneshot::Receiver<Result<(), StoreError>>,
    hurry: Option<Hurry>,
}

/// Tells a writer that somebody waits.
pub(crate) type Hurry = Box<dyn FnOnce() + Send + Sync>;

impl std::fmt::Debug for Ack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ack").field("soon", &self.hurry.is_some()).finish_non_exhaustive()
    }
}

impl Ack {
    pub(crate) fn new(receiver: tokio::sync::oneshot::Receiver<Result<(), StoreError>>, hurry: Option<Hurry>) -> Ack {
        Ack { receiver, hurry }
    }

    /// Waits until the writes are durable.
    pub async fn durable(mut self) -> Result<(), StoreError> {
        self.urge();
        self.receiver.await.unwrap_or(Err(StoreError::Closed))
    }

    fn urge(&mut self) {
        // What is written already needs no word.
        if let Some(hurry) = self.hurry.take().filter(|_| self.receiver.is_empty()) {
            hurry();
        }
    }

    /// Blocks this thread until the writes are durable. Not for async threads.
    pub fn durable_blocking(self, deadline: Instant) -> Result<(), StoreError> {
        let mut this = self;
        this.urge();
        let mut receiver = this.receiver;
        // A short spin-free poll: tokio's oneshot has no timed blocking receive, and a batch takes well under a millisecond.
        let mut pause = std::time::Duration::from_micros(20);
        loop {
            match receiver.try_recv() {
                Ok(result) => return result,
                Err(tokio::sync::oneshot::error::TryRecvError::Closed) => return Err(StoreError::Closed),
                Err(tokio::sync::oneshot::error::TryRecvError::Empty) => {
                    if Instant::now() >= deadline {
                        return Err(StoreError::Deadline);
                    }
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(std::time::Duration::from_millis(2));
                }
            }
        }
    }
}

/// Errors of a store.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Another process holds the state folder.
    #[error("the state folder {folder} is in use by another gateway (pid {pid})")]
    Locked {
        /// The folder.
        folder: String,
        /// Its pid, or "unknown".
        pid: String,
    },
    /// The folder or the file cannot be used.
    #[error("cannot open the store at {path}: {reason}")]
    Open {
        /// Path.
        path: String,
        /// Reason.
        reason: String,
    },
    /// The store was written by a newer gateway.
    #[error("the store has format {found}; this gateway knows up to {known}")]
    Format {
        /// Found.
        found: i64,
        /// Known.
        known: i64,
    },
    /// A newer writer has taken the session.
    #[error("the lease of session {session} was taken by a newer writer")]
    StaleLease {
        /// Session.
        session: SessionRow,
    },
    /// A requirement of an engine's batch did not hold.
    #[error("a requirement of the batch does not hold")]
    Requirement,
    /// The backend failed.
    #[error("the store failed: {0}")]
    Backend(String),
    /// Another program holds the database.
    #[error("another program holds the database: {0}")]
    Busy(String),
    /// No space is left.
    #[error("the disk is full: {0}")]
    Full(String),
    /// Nothing can be written.
    #[error("the database cannot be written to: {0}")]
    ReadOnly(String),
    /// What is on disk is not what was written.
    #[error("the database is damaged: {reason}")]
    Damaged {
        /// What was found.
        reason: String,
    },
    /// A damaged database of which a repair can take nothing.
    #[error("nothing of the damaged database can be read: {reason}")]
    Unreadable {
        /// What was found.
        reason: String,
    },
    /// A store was here before, and is not there any more.
    #[error("the database {path} is gone: {reason}")]
    Gone {
        /// Where it was.
        path: String,
        /// What tells that there was one.
        reason: String,
        /// What to remove for an empty one.
        remove: String,
    },
    /// The file that is written to has lost its name while it was open: nothing that is written to it would outlive it.
    #[error("{path} was moved, deleted or replaced while the gateway runs: {reason}")]
    Lost {
        /// The name.
        path: String,
        /// What is there now.
        reason: String,
    },
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
    /// Not done in time; it may still be done.
    #[error("the store did not answer before the deadline; what was queued may still be done")]
    Deadline,
    /// What was asked for does not exist.
    #[error("no such {0}")]
    NotFound(&'static str),
    /// What should be created exists already.
    #[error("the {0} exists already")]
    Exists(&'static str),
    /// A write that would break the tree: a parent or head of another session, or a parent that is not older.
    #[error("invalid write: {0}")]
    Invalid(&'static str),
}

impl StoreError {
    /// The HTTP status that says the same: 503 for what may pass by itself.
    pub fn http_status(&self) -> u16 {
        match self {
            StoreError::Busy(_)
            | StoreError::Full(_)
            | StoreError::ReadOnly(_)
            | StoreError::Closed
            | StoreError::Deadline => 503,
            _ => 500,
        }
    }

    /// A step that a test can let fail: see [`failpoint`].
    #[inline]
    pub(crate) fn at(point: &'static str) -> Result<(), StoreError> {
        if failpoint::fails(point) {
            return Err(StoreError::Backend(format!("the fail point {point} was reached")));
        }
        Ok(())
    }
}

impl Diagnostic for StoreError {
    fn code(&self) -> &'static str {
        match self {
            StoreError::Locked { .. } => "CE401",
            StoreError::Open { .. } => "CE402",
            StoreError::Format { .. } => "CE403",
            StoreError::StaleLease { .. } => "CE404",
            StoreError::Requirement => "CE405",
            StoreError::Backend(_) => "CE406",
            StoreError::Closed => "CE407",
            StoreError::Deadline => "CE408",
            StoreError::NotFound(_) => "CE409",
            StoreError::Exists(_) => "CE410",
            StoreError::Invalid(_) => "CE411",
            StoreError::Busy(_) => "CE412",
            StoreError::Full(_) => "CE413",
            StoreError::ReadOnly(_) => "CE414",
            StoreError::Damaged { .. } | StoreError::Unreadable { .. } => "CE415",
            StoreError::Gone { .. } | StoreError::Lost { .. } => "CE416",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            StoreError::Locked { .. } => {
                Some("stop the other gateway, or give this one its own [gateway] state_dir".into())
            }
            StoreError::Open { .. } => Some("check that the folder exists, is writable, and has space".into()),
            StoreError::Format { .. } => Some("use the gateway version that wrote it, or a newer one".into()),
            StoreError::Backend(_) => Some("check the disk: space, permissions, health".into()),
            StoreError::Busy(_) => Some(
                "end the program that has the state folder's transcript.db open (`fuser` names it); it is tried again with the \
                 next request"
                    .into(),
            ),
            StoreError::Full(_) => {
                Some("free space on the disk of the state folder: a gateway that runs goes on by itself then, one that did not start is to be started again; nothing that was acknowledged is lost".into())
            }
            StoreError::ReadOnly(_) => {
                Some("make the state folder and its transcript.db* writable for the gateway's user, and its disk mounted for writing".into())
            }
            StoreError::Damaged { .. } => Some(
                "stop the gateway and run `engineroom store repair`: it keeps the damaged file and takes everything that can be \
                 read into a new one; `engineroom store check` shows the damage"
                    .into(),
            ),
            StoreError::Unreadable { .. } => Some(
                "nothing was changed; keep a copy of transcript.db and its -wal, and put a backup in their place; only to begin \
                 with an empty store, move them and transcript.mark out of the state folder"
                    .into(),
            ),
            StoreError::Gone { remove, .. } => {
                Some(format!("put the file back from a backup; only to begin with an empty store, remove {remove}"))
            }
            StoreError::Lost { .. } => Some(
                "if it was moved, move it back: the gateway goes on; if it was deleted, stop the gateway and put a backup in its \
                 place. Until then nothing is acknowledged"
                    .into(),
            ),
            StoreError::Closed => Some("restart the gateway; its log says what ended the store".into()),
            StoreError::Deadline => Some("the disk is slow, or another program holds the database; retry".into()),
            _ => None,
        }
    }
}

/// Counters of a store since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct StoreStats {
    /// Submissions that were acknowledged as durable.
    pub submissions: u64,
    /// Submissions that were refused or failed.
    pub refused: u64,
    /// Commits, each with one sync of the log: a reply that waited for two submissions waited for at most two of these.
    pub commits: u64,
    /// Checkpoints, off the reply path, each with up to two syncs.
    pub checkpoints: u64,
    /// Checkpoints for which the writer was held for a moment, because the log grew past its bound.
    pub held: u64,
}

/// A backend. Reads block and are called off the async threads; writes are queued to the one writer, in order, and
/// acknowledged when they are on disk. A read sees every write that was acknowledged before it began.
pub trait Store: Send + Sync + 'static {
    /// Token of this process: greater than that of every process that opened the store before.
    fn lease(&self) -> LeaseToken;
    /// A fresh entry id.
    fn next_entry(&self) -> EntryId;
    /// A fresh session row.
    fn next_session(&self) -> SessionRow;
    /// Queues writes.
    fn submit(&self, submission: Submission) -> Ack;
    /// Queues writes that may wait for others to share their sync with, at most for `patience`, and not once somebody waits for
    /// their receipt.
    fn submit_soon(&self, submission: Submission, patience: std::time::Duration) -> Ack {
        let _ = patience;
        self.submit(submission)
    }
    /// A session by key.
    fn session(&self, key: &str) -> Result<Option<SessionRecord>, StoreError>;
    /// A session by its public id.
    fn session_by_id(&self, session_id: &str) -> Result<Option<SessionRecord>, StoreError>;
    /// All sessions, newest use first.
    fn sessions(&self, limit: usize, offset: usize) -> Result<Vec<SessionRecord>, StoreError>;
    /// The branch that ends at `head`, root first, whole.
    fn branch(&self, session: SessionRow, head: EntryId) -> Result<Vec<Arc<Entry>>, StoreError>;
    /// Heads (entries without children) of all branches, oldest first.
    fn heads(&self, session: SessionRow) -> Result<Vec<EntryId>, StoreError>;
    /// Frozen pruned texts of a session.
    fn frozen(&self, session: SessionRow) -> Result<Vec<(EntryId, String)>, StoreError>;
    /// The entries from `first` to `last` along the tree, oldest first: at most `most` of them. Costs what it gives.
    fn range(
        &self,
        session: SessionRow,
        first: EntryId,
        last: EntryId,
        most: usize,
    ) -> Result<Result<Vec<Arc<Entry>>, BlockedReason>, StoreError>;
    /// Outbox rows, oldest first, of one session or of all.
    fn outbox(&self, session: Option<SessionRow>) -> Result<Vec<OutboxRow>, StoreError>;
    /// Every agent that has a session, in no order.
    fn agents(&self) -> Result<Vec<String>, StoreError>;
    /// Keys of the sessions with outbox rows, the one with the oldest row first.
    fn outbox_sessions(&self) -> Result<Vec<String>, StoreError>;
    /// How many outbox rows there are, by engine and state.
    fn outbox_counts(&self) -> Result<Vec<OutboxCount>, StoreError>;
    /// Last entry handed over to an engine, or 0.
    fn handed_over(&self, engine: &str, session: SessionRow) -> Result<EntryId, StoreError>;
    /// Ids of the engines that know of a session: that served it, were given entries of it, or keep something of it. In order.
    fn engines_of(&self, session: SessionRow) -> Result<Vec<String>, StoreError>;
    /// What waits for an engine, session by session, most first.
    fn backlog(&self, engine: &str, limit: usize) -> Result<Vec<Backlog>, StoreError>;
    /// True while a reset has not dropped all that engines kept of a session.
    fn scope_is_left(&self, session: SessionRow) -> Result<bool, StoreError>;
    /// The same of every engine that was given something of the session.
    fn handed(&self, session: SessionRow) -> Result<Vec<(String, EntryId)>, StoreError>;
    /// Turn record of an idempotency key.
    fn turn_by_key(&self, session: SessionRow, idempotency_key: &str) -> Result<Option<TurnRecord>, StoreError>;
    /// Turn records of a session, newest first.
    fn turns(&self, session: SessionRow, limit: usize) -> Result<Vec<TurnRecord>, StoreError> {
        self.turns_before(session, None, limit)
    }
    /// The same, only those older than the turn `before`.
    fn turns_before(
        &self,
        session: SessionRow,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Vec<TurnRecord>, StoreError>;
    /// A value of an engine's store.
    fn engine_get(&self, engine: &str, scope: EngineScope, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError>;
    /// Pairs of an engine's store in byte order: keys with `prefix`, greater than `after`.
    fn engine_scan(
        &self,
        engine: &str,
        scope: EngineScope,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<EnginePairs, StoreError>;
    /// A child of a session, by the key of the child.
    fn subagent(&self, child: &str) -> Result<Option<SubagentRecord>, StoreError>;
    /// The children of a session, oldest first; all of them, or those whose parent has not got what became of them.
    fn subagents(&self, parent: &str, waiting: bool) -> Result<Vec<SubagentRecord>, StoreError>;
    /// The children, of all sessions, with which something is left to do at a time.
    fn subagents_due(&self, now_ms: i64) -> Result<Vec<SubagentRecord>, StoreError>;
    /// Counters since the store was opened.
    fn stats(&self) -> StoreStats {
        StoreStats::default()
    }
    /// What is wrong with the store now: the last commit failed, or damage was found. Ends with the next commit that succeeds,
    /// but for damage, which only a repair ends.
    fn health(&self) -> Option<StoreError> {
        None
    }
    /// Why a submission of this session was not written, if one was not since this was asked last: what is in memory of the
    /// session may be ahead of the store then.
    fn take_failed(&self, session: SessionRow) -> Option<StoreError> {
        let _ = session;
        None
    }
    /// Reads the whole database and says what is wrong with it, at most about `most` things.
    ///
    /// # Errors
    ///
    /// When it could not be looked at.
    fn check(&self, most: usize) -> Result<Vec<String>, StoreError> {
        let _ = most;
        Ok(Vec::new())
    }
    /// Bytes on disk.
    fn disk_bytes(&self) -> u64;
    /// Waits for the queue, then closes. Later submissions fail with [`StoreError::Closed`].
    fn close(&self);
}
