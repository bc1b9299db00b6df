//! The SQLite backend: one file in the state folder, one writer, a few readers.
//!
//! | part | job |
//! |---|---|
//! | [`schema`] | tables, format version, how a connection is set up |
//! | [`lock`] | the state folder, its modes, one process per folder |
//! | [`ids`] | entry ids, session rows, the lease token: never given twice |
//! | [`writer`] | the thread that commits; group commit |
//! | [`apply`] | one submission inside a transaction; the fence of leases |
//! | [`engine`] | the engines' keys and values |
//! | [`purge`] | what a deleted session leaves, taken away in parts |
//! | [`mod@shrink`] | the database written anew, without what was deleted |
//! | [`subagents`] | the children of sessions |
//! | [`checkpoint`] | copying the log off the reply path |
//! | [`reader`] | the pool and the queries |
//! | [`evidence`] | what lies in the folder before SQLite is let near it |
//! | [`mod@check`] | whether the database is what was written |
//! | [`named`] | whether the file is still the one of its name |
//! | [`missing`] | what should be there and is not |
//! | [`trouble`] | what is wrong with the store now |
//! | [`mod@salvage`], [`reading`] | what can be read of a damaged database, in a new one |
//! | [`codec`] | an entry's body in its row |
//!
//! A program that only wants to read opens the store like a gateway does, under the same lock: when a gateway holds it, that
//! gateway is asked over HTTP instead.

mod apply;
mod check;
mod checkpoint;
mod codec;
#[cfg(test)]
mod damage_tests;
mod engine;
mod evidence;
#[cfg(test)]
mod gone_tests;
mod ids;
mod lock;
mod missing;
mod named;
mod purge;
mod reader;
mod reading;
mod salvage;
mod schema;
mod shrink;
mod subagents;
#[cfg(test)]
mod tests;
mod trouble;
mod writer;

use super::{
    Ack, Backlog, BlockedReason, EnginePairs, EngineScope, Entry, EntryId, LeaseToken, OutboxCount, OutboxRow,
    SessionRecord, SessionRow, Store, StoreError, StoreStats, SubagentRecord, Submission, TurnRecord,
};
use crate::observe::failpoint;
use evidence::{Found, Mark};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use writer::Job;

pub use salvage::{Salvaged, salvage};
pub use shrink::{Shrunk, shrink};

/// Most submissions in the queue. A disk that has stopped answering must not fill the memory.
const QUEUE: usize = 65_536;

/// Opens the store of a state folder, and creates both where they are missing. Blocks; takes the folder's lock.
///
/// # Errors
/// [`StoreError::Locked`] when another process holds the folder, [`StoreError::Format`] when a newer gateway wrote it,
/// [`StoreError::Open`] for everything else.
pub fn open(state_dir: &Path) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(SqliteStore::open(state_dir)?))
}

/// Opens the store of a state folder if there is one, and creates nothing: for commands that only look.
///
/// # Errors
/// As [`open`].
pub fn open_existing(state_dir: &Path) -> Result<Option<Arc<dyn Store>>, StoreError> {
    match lock::folder_is_there(state_dir)? && evidence::look(&lock::database_path(state_dir))? == Found::File {
        true => open(state_dir).map(Some),
        false => Ok(None),
    }
}

/// What a look at a whole database found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckReport {
    /// The database.
    pub path: PathBuf,
    /// Its size, with its log.
    pub bytes: u64,
    /// What is wrong, at most so much as was asked for; empty when all is well.
    pub problems: Vec<String>,
}

/// Reads the whole database of a state folder and changes nothing; `None` where there is none. Takes the folder's lock.
///
/// # Errors
///
/// As [`open`], but for damage, which is reported.
pub fn check(state_dir: &Path, most: usize) -> Result<Option<CheckReport>, StoreError> {
    if !lock::folder_is_there(state_dir)? {
        return Ok(None);
    }
    let _lock = lock::FolderLock::take(state_dir)?;
    let path = lock::database_path(state_dir);
    let bytes = disk_bytes(&path);
    let looked = evidence::look(&path).and_then(|found| match found {
        Found::Nothing => Ok(None),
        Found::File => {
            let conn = schema::open_reader(&path).map_err(backend)?;
            schema::known(&path, &conn)?;
            check::whole(&conn, most).map(Some)
        }
    });
    match looked {
        Ok(problems) => Ok(problems.map(|problems| CheckReport { path, bytes, problems })),
        Err(StoreError::Damaged { reason }) => Ok(Some(CheckReport { path, bytes, problems: vec![reason] })),
        Err(other) => Err(other),
    }
}

fn disk_bytes(path: &Path) -> u64 {
    let size = |suffix: &str| std::fs::metadata(evidence::beside(path, suffix)).map_or(0, |meta| meta.len());
    size("") + size("-wal") + size("-shm")
}

/// The backend.
struct SqliteStore {
    path: PathBuf,
    jobs: SyncSender<Job>,
    readers: reader::Readers,
    ids: Arc<ids::Ids>,
    gate: Arc<checkpoint::Gate>,
    counters: Arc<writer::Counters>,
    trouble: Arc<trouble::Trouble>,
    named: Arc<named::Named>,
    beside: Arc<check::Beside>,
    checking: Mutex<()>,
    running: Mutex<Option<Running>>,
}

/// What ends with the store; the fields are given up in this order.
struct Running {
    checkpointer: JoinHandle<()>,
    beside: JoinHandle<()>,
    writer: JoinHandle<()>,
    _lock: lock::FolderLock,
}

impl SqliteStore {
    fn open(state_dir: &Path) -> Result<SqliteStore, StoreError> {
        lock::prepare_folder(state_dir)?;
        let lock = lock::FolderLock::take(state_dir)?;
        let path = lock::database_path(state_dir);
        evidence::look(&path)?;
        StoreError::at("store.open.locked")?;
        lock::prepare_file(&path)?;
        StoreError::at("store.open.file")?;
        let mut conn = schema::open_writer(&path)?;
        StoreError::at("store.open.ready")?;
        let ids = Arc::new(ids::Ids::open(&mut conn).map_err(backend)?);
        // From here on there is a log. Without the mark a store works all the same; only what goes missing is not missed.
        if let Err(error) = Mark::Open.write(&path) {
            tracing::warn!(%error, "the mark of the store could not be written");
        }
        StoreError::at("store.open.marked")?;

        let named = Arc::new(named::Named::new(&path)?);
        let (jobs, queue) = sync_channel(QUEUE);
        let gate = Arc::new(checkpoint::Gate::default());
        let counters = Arc::new(writer::Counters::default());
        let trouble = Arc::new(trouble::Trouble::default());
        let writer = writer::Writer {
            trouble: Arc::clone(&trouble),
            named: Arc::clone(&named),
            conn,
            jobs: queue,
            gate: Arc::clone(&gate),
            ids: Arc::clone(&ids),
            counters: Arc::clone(&counters),
        };
        let writer = thread("store-writer", &path, move || writer.run())?;
        let (shared, log_of, still) = (Arc::clone(&gate), path.clone(), Arc::clone(&named));
        let checkpointer = thread("store-checkpoint", &path, move || checkpoint::run(&shared, &log_of, &still))?;
        let beside = Arc::new(check::Beside::default());
        let (shared, found, of) = (Arc::clone(&beside), Arc::clone(&trouble), path.clone());
        let checking = thread("store-check", &path, move || shared.run(&of, &found))?;
        let running = Mutex::new(Some(Running { checkpointer, beside: checking, writer, _lock: lock }));
        let readers = reader::Readers::new(path.clone(), Arc::clone(&trouble), Arc::clone(&named));
        Ok(SqliteStore {
            readers,
            path,
            jobs,
            ids,
            gate,
            counters,
            trouble,
            named,
            beside,
            checking: Mutex::new(()),
            running,
        })
    }
}

fn thread(name: &str, path: &Path, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StoreError> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body).map_err(|error| lock::open_error(path, &error))
}

/// An error of SQLite, by what an operator can do about it.
fn backend(error: rusqlite::Error) -> StoreError {
    use rusqlite::{Error, ErrorCode};
    let text = error.to_string();
    match &error {
        // A row that is not of the kind that was written.
        Error::FromSqlConversionFailure(..)
        | Error::InvalidColumnType(..)
        | Error::IntegralValueOutOfRange(..)
        | Error::Utf8Error(..) => return StoreError::Damaged { reason: text },
        _ => {}
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Damaged { reason: text },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy(text),
        Some(ErrorCode::DiskFull) => StoreError::Full(text),
        Some(ErrorCode::ReadOnly) => StoreError::ReadOnly(text),
        _ => StoreError::Backend(text),
    }
}

impl SqliteStore {
    fn send(&self, job: Job) {
        match self.jobs.try_send(job) {
            Err(TrySendError::Full(Job::Submit(_, reply) | Job::Soon(_, reply, _))) => {
                let _ = reply.send(Err(StoreError::Backend("the queue of the writer is full".into())));
            }
            // The reply is dropped with the job, which the receipt reads as closed.
            Ok(()) | Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {}
        }
    }
}

impl Store for SqliteStore {
    fn lease(&self) -> LeaseToken {
        LeaseToken(self.ids.epoch)
    }

    fn next_entry(&self) -> EntryId {
        self.ids.entries.take()
    }

    fn next_session(&self) -> SessionRow {
        self.ids.sessions.take()
    }

    fn submit(&self, submission: Submission) -> Ack {
        let (reply, receiver) = tokio::sync::oneshot::channel();
        let is_outbox = !submission.writes.is_empty()
            && submission.writes.iter().all(|write| matches!(write, crate::transcript::Write::Outbox(_)));
        self.send(Job::Submit(submission, reply));
        if is_outbox && crate::observe::broken("8.63") {
            let (early, receiver) = tokio::sync::oneshot::channel();
            let _ = early.send(Ok(()));
            return Ack::new(receiver, None);
        }
        Ack::new(receiver, None)
    }

    fn submit_soon(&self, submission: Submission, patience: Duration) -> Ack {
        let (reply, receiver) = tokio::sync::oneshot::channel();
        self.send(Job::Soon(submission, reply, Instant::now() + patience));
        let jobs = self.jobs.clone();
        // A full queue is being written anyway.
        let hurry = move || drop(jobs.try_send(Job::Hurry));
        Ack::new(receiver, Some(Box::new(hurry)))
    }

    fn session(&self, key: &str) -> Result<Option<SessionRecord>, StoreError> {
        self.readers.with(|conn| reader::session(conn, key))
    }

    fn session_by_id(&self, session_id: &str) -> Result<Option<SessionRecord>, StoreError> {
        self.readers.with(|conn| reader::session_by_id(conn, session_id))
    }

    fn sessions(&self, limit: usize, offset: usize) -> Result<Vec<SessionRecord>, StoreError> {
        self.readers.with(|conn| reader::sessions(conn, limit, offset))
    }

    fn branch(&self, session: SessionRow, head: EntryId) -> Result<Vec<Arc<Entry>>, StoreError> {
        self.readers.with(|conn| reader::branch(conn, session, head))
    }

    fn heads(&self, session: SessionRow) -> Result<Vec<EntryId>, StoreError> {
        self.readers.with(|conn| reader::heads(conn, session))
    }

    fn frozen(&self, session: SessionRow) -> Result<Vec<(EntryId, String)>, StoreError> {
        self.readers.with(|conn| reader::frozen(conn, session))
    }

    fn range(
        &self,
        session: SessionRow,
        first: EntryId,
        last: EntryId,
        most: usize,
    ) -> Result<Result<Vec<Arc<Entry>>, BlockedReason>, StoreError> {
        self.readers.with(|conn| reader::range(conn, session, first, last, most))
    }

    fn outbox(&self, session: Option<SessionRow>) -> Result<Vec<OutboxRow>, StoreError> {
        self.readers.with(|conn| reader::outbox(conn, session))
    }

    fn agents(&self) -> Result<Vec<String>, StoreError> {
        self.readers.with(reader::agents)
    }

    fn outbox_sessions(&self) -> Result<Vec<String>, StoreError> {
        self.readers.with(reader::outbox_sessions)
    }

    fn outbox_counts(&self) -> Result<Vec<OutboxCount>, StoreError> {
        self.readers.with(reader::outbox_counts)
    }

    fn handed(&self, session: SessionRow) -> Result<Vec<(String, EntryId)>, StoreError> {
        self.readers.with(|conn| reader::handed(conn, session))
    }

    fn handed_over(&self, engine: &str, session: SessionRow) -> Result<EntryId, StoreError> {
        self.readers.with(|conn| reader::handed_over(conn, engine, session))
    }

    fn engines_of(&self, session: SessionRow) -> Result<Vec<String>, StoreError> {
        self.readers.with(|conn| reader::engines_of(conn, session))
    }

    fn backlog(&self, engine: &str, limit: usize) -> Result<Vec<Backlog>, StoreError> {
        self.readers.with(|conn| reader::backlog(conn, engine, limit))
    }

    fn scope_is_left(&self, session: SessionRow) -> Result<bool, StoreError> {
        self.readers.with(|conn| purge::is_left(conn, session, purge::What::Scope))
    }

    fn turn_by_key(&self, session: SessionRow, idempotency_key: &str) -> Result<Option<TurnRecord>, StoreError> {
        self.readers.with(|conn| reader::turn_by_key(conn, session, idempotency_key))
    }

    fn turns_before(
        &self,
        session: SessionRow,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Vec<TurnRecord>, StoreError> {
        self.readers.with(|conn| reader::turns(conn, session, before, limit))
    }

    fn engine_get(&self, engine: &str, scope: EngineScope, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.readers.with(|conn| engine::get(conn, engine, scope, key))
    }

    fn engine_scan(
        &self,
        engine: &str,
        scope: EngineScope,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<EnginePairs, StoreError> {
        self.readers.with(|conn| engine::scan(conn, engine, scope, prefix, after, limit))
    }

    fn subagent(&self, child: &str) -> Result<Option<SubagentRecord>, StoreError> {
        self.readers.with(|conn| subagents::one(conn, child))
    }

    fn subagents(&self, parent: &str, waiting: bool) -> Result<Vec<SubagentRecord>, StoreError> {
        self.readers.with(|conn| subagents::of_parent(conn, parent, waiting))
    }

    fn subagents_due(&self, now_ms: i64) -> Result<Vec<SubagentRecord>, StoreError> {
        self.readers.with(|conn| subagents::due(conn, now_ms))
    }

    fn stats(&self) -> StoreStats {
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        StoreStats {
            submissions: read(&self.counters.submissions),
            refused: read(&self.counters.refused),
            commits: read(&self.counters.commits),
            checkpoints: read(&self.gate.checkpoints),
            held: read(&self.gate.held),
        }
    }

    fn disk_bytes(&self) -> u64 {
        disk_bytes(&self.path)
    }

    fn health(&self) -> Option<StoreError> {
        self.trouble.health().or_else(|| self.named.check().err())
    }

    fn take_failed(&self, session: SessionRow) -> Option<StoreError> {
        self.trouble.take_failed(session)
    }

    fn check(&self, most: usize) -> Result<Vec<String>, StoreError> {
        // One at a time: it reads everything.
        let Ok(_alone) = self.checking.try_lock() else {
            return Err(StoreError::Busy("a check of it runs already".into()));
        };
        self.named.check()?;
        // A connection of its own: the pool is for turns.
        let conn = schema::open_reader(&self.path).map_err(backend)?;
        check::whole(&conn, most)
    }

    fn close(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(running) = running else { return };
        failpoint::pass("store.close.before");
        // The writer's connection is the last to go: it copies the log and removes it.
        self.readers.close();
        self.gate.close();
        self.beside.stop();
        let _ = running.checkpointer.join();
        let _ = running.beside.join();
        // Before the log goes, and after: in between it may be gone or not.
        let lost = self.named.check();
        if let Err(error) = &lost {
            tracing::error!(%error, "the store is closed without its file; what was acknowledged goes with it");
        }
        // What lies in its place now is not what was closed.
        let marked = if lost.is_ok() { Mark::Closing.write(&self.path) } else { Ok(()) };
        let _ = self.jobs.send(Job::Close);
        let _ = running.writer.join();
        failpoint::pass("store.close.after");
        if lost.is_ok()
            && let Err(error) = marked.and_then(|()| Mark::Closed.write(&self.path))
        {
            tracing::warn!(%error, "the mark of the store could not be written");
        }
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.close();
    }
}
