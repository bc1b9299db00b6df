//! Reads: a small pool of read-only connections and the queries that run on them.

use super::apply::state_code;
use super::named::Named;
use super::trouble::Trouble;
use super::{backend, codec, schema};
use crate::transcript::{
    Backlog, BlockedReason, Entry, EntryId, OutboxCount, OutboxRow, OutboxState, SessionRecord, SessionRow, StoreError,
    TurnRecord,
};
use rusqlite::{Connection, OptionalExtension, Row};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Most connections that read at once.
const CONNECTIONS: usize = 4;
/// Longest wait for a free connection.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
struct State {
    idle: Vec<Connection>,
    open: usize,
    closed: bool,
}

/// The pool.
#[derive(Debug)]
pub(super) struct Readers {
    path: PathBuf,
    state: Mutex<State>,
    freed: Condvar,
    trouble: Arc<Trouble>,
    named: Arc<Named>,
}

/// A connection on loan; goes back when dropped.
struct Loan<'a> {
    readers: &'a Readers,
    conn: Option<Connection>,
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        let mut state = self.readers.lock();
        match self.conn.take() {
            Some(conn) if !state.closed => state.idle.push(conn),
            _ => state.open -= 1,
        }
        drop(state);
        self.readers.freed.notify_one();
    }
}

impl Readers {
    pub(super) fn new(path: PathBuf, trouble: Arc<Trouble>, named: Arc<Named>) -> Readers {
        Readers { path, state: Mutex::new(State::default()), freed: Condvar::new(), trouble, named }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `work` with a connection.
    ///
    /// # Errors
    /// [`StoreError::Closed`], and [`StoreError::Deadline`] when no connection became free in time.
    pub(super) fn with<T>(&self, work: impl FnOnce(&Connection) -> Result<T, StoreError>) -> Result<T, StoreError> {
        StoreError::at("store.read")?;
        let loan = self.borrow()?;
        let outcome = loan.conn.as_ref().map_or(Err(StoreError::Closed), work);
        if let Err(error @ StoreError::Damaged { .. }) = &outcome {
            self.trouble.damaged(error);
        }
        outcome
    }

    fn borrow(&self) -> Result<Loan<'_>, StoreError> {
        let (mut state, _) = self
            .freed
            .wait_timeout_while(self.lock(), PATIENCE, |s| !s.closed && s.idle.is_empty() && s.open >= CONNECTIONS)
            .unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return Err(StoreError::Closed);
        }
        if let Some(conn) = state.idle.pop() {
            return Ok(Loan { readers: self, conn: Some(conn) });
        }
        if state.open >= CONNECTIONS {
            return Err(StoreError::Deadline);
        }
        state.open += 1;
        drop(state);
        // From here on the loan gives the place back, also when the connection cannot be opened.
        let mut loan = Loan { readers: self, conn: None };
        // Opened by its name, which must not stand for another database.
        self.named.check()?;
        loan.conn = Some(schema::open_reader(&self.path).map_err(backend)?);
        Ok(loan)
    }

    /// Closes what is idle; what is on loan is closed when it comes back.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.open -= state.idle.len();
        state.idle.clear();
        drop(state);
        self.freed.notify_all();
    }
}

const SESSION_COLUMNS: &str = "row, key, session_id, agent, head, generation, created_ms, updated_ms, entries, sum";

/// A session's record, or that its row is damaged.
fn session_row(row: &Row<'_>) -> rusqlite::Result<Result<SessionRecord, StoreError>> {
    let record = session_record(row)?;
    let sum = codec::session_sum(
        record.row as i64,
        &record.key,
        &record.session_id,
        &record.agent,
        record.head as i64,
        record.generation as i64,
    );
    // Rows of an older format have none.
    let sound = row.get::<_, Option<i64>>(9)?.is_none_or(|written| written == sum);
    Ok(if sound { Ok(record) } else { Err(codec::differs("session", record.row)) })
}

fn session_record(row: &Row<'_>) -> rusqlite::Result<SessionRecord> {
    Ok(SessionRecord {
        row: row.get::<_, i64>(0)? as u64,
        key: row.get(1)?,
        session_id: row.get(2)?,
        agent: row.get(3)?,
        head: row.get::<_, i64>(4)? as u64,
        generation: row.get::<_, i64>(5)? as u64,
        created_ms: row.get(6)?,
        updated_ms: row.get(7)?,
        entries: row.get::<_, i64>(8)? as u64,
    })
}

/// All rows of a query.
fn all<T>(
    conn: &Connection,
    sql: &str,
    values: impl rusqlite::Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = conn.prepare_cached(sql).map_err(backend)?;
    let rows = statement.query_map(values, read).map_err(backend)?;
    rows.collect::<Result<_, _>>().map_err(backend)
}

pub(super) fn session(conn: &Connection, key: &str) -> Result<Option<SessionRecord>, StoreError> {
    conn.prepare_cached(&format!("SELECT {SESSION_COLUMNS} FROM sessions WHERE key = ?1"))
        .and_then(|mut s| s.query_row([key], session_row).optional())
        .map_err(backend)?
        .transpose()
}

pub(super) fn session_by_id(conn: &Connection, session_id: &str) -> Result<Option<SessionRecord>, StoreError> {
    conn.prepare_cached(&format!("SELECT {SESSION_COLUMNS} FROM sessions WHERE session_id = ?1 LIMIT 1"))
        .and_then(|mut s| s.query_row([session_id], session_row).optional())
        .map_err(backend)?
        .transpose()
}

pub(super) fn sessions(conn: &Connection, limit: usize, offset: usize) -> Result<Vec<SessionRecord>, StoreError> {
    let number = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
    let sql = format!("SELECT {SESSION_COLUMNS} FROM sessions ORDER BY updated_ms DESC, row DESC LIMIT ?1 OFFSET ?2");
    all(conn, &sql, (number(limit), number(offset)), session_row)?.into_iter().collect()
}

/// Walks from the head to the root inside one read transaction, and turns the branch round.
pub(super) fn branch(conn: &Connection, session: SessionRow, head: EntryId) -> Result<Vec<Arc<Entry>>, StoreError> {
    let snapshot = conn.unchecked_transaction().map_err(backend)?;
    let sql = format!("SELECT {} FROM entries WHERE id = ?1 AND session = ?2", codec::ENTRY_COLUMNS);
    let mut statement = snapshot.prepare_cached(&sql).map_err(backend)?;
    let mut branch = Vec::new();
    let mut next = head;
    while next != 0 {
        let mut rows = statement.query((next as i64, session as i64)).map_err(backend)?;
        let Some(row) = rows.next().map_err(backend)? else {
            if branch.is_empty() {
                return Err(StoreError::NotFound("entry"));
            }
            // Nothing is written whose parent is not there.
            return Err(StoreError::Damaged { reason: format!("entry {next} of session {session} is missing") });
        };
        let entry = codec::entry(row)?;
        // Parents are older than their children, checked when they were written: so this ends.
        if entry.parent >= entry.id {
            return Err(StoreError::Damaged { reason: format!("entry {next} is not younger than its parent") });
        }
        next = entry.parent;
        branch.push(Arc::new(entry));
    }
    branch.reverse();
    Ok(branch)
}

pub(super) fn heads(conn: &Connection, session: SessionRow) -> Result<Vec<EntryId>, StoreError> {
    let sql = "SELECT id FROM entries AS e WHERE session = ?1
               AND NOT EXISTS (SELECT 1 FROM entries AS c WHERE c.session = ?1 AND c.parent = e.id) ORDER BY id";
    all(conn, sql, [session as i64], |row| Ok(row.get::<_, i64>(0)? as u64))
}

pub(super) fn frozen(conn: &Connection, session: SessionRow) -> Result<Vec<(EntryId, String)>, StoreError> {
    let sql = "SELECT entry, text FROM frozen WHERE session = ?1 ORDER BY entry";
    all(conn, sql, [session as i64], |row| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?)))
}

const OUTBOX_COLUMNS: &str = "engine, key, session, session_id, first, last, position, generation, state, reason, attempts, \
                              attempted_ms, last_error, facts, created_ms";

fn outbox_state(code: i64) -> OutboxState {
    let known = [OutboxState::Admitted, OutboxState::Accepted, OutboxState::Ready, OutboxState::Blocked];
    known.into_iter().find(|state| state_code(*state) == code).unwrap_or(OutboxState::Blocked)
}

fn outbox_row(row: &Row<'_>) -> rusqlite::Result<OutboxRow> {
    let facts: Option<String> = row.get(13)?;
    let reason: Option<String> = row.get(9)?;
    Ok(OutboxRow {
        engine: row.get(0)?,
        key: row.get(1)?,
        session: row.get::<_, i64>(2)? as u64,
        session_id: row.get(3)?,
        first: row.get::<_, i64>(4)? as u64,
        last: row.get::<_, i64>(5)? as u64,
        position: u64::try_from(row.get::<_, i64>(6)?).ok(),
        generation: row.get::<_, i64>(7)? as u64,
        state: outbox_state(row.get(8)?),
        reason: reason.as_deref().and_then(BlockedReason::of),
        attempts: row.get(10)?,
        attempted_ms: row.get(11)?,
        last_error: row.get(12)?,
        facts: facts.and_then(|facts| serde_json::from_str(&facts).ok()),
        created_ms: row.get(14)?,
    })
}

/// Entry ids rise in the whole store, so the first entry tells the age of a row.
pub(super) fn outbox(conn: &Connection, session: Option<SessionRow>) -> Result<Vec<OutboxRow>, StoreError> {
    match session {
        Some(session) => {
            let sql = format!("SELECT {OUTBOX_COLUMNS} FROM outbox WHERE session = ?1 ORDER BY first, key, engine");
            all(conn, &sql, [session as i64], outbox_row)
        }
        None => {
            let sql = format!("SELECT {OUTBOX_COLUMNS} FROM outbox ORDER BY first, key, engine");
            all(conn, &sql, [], outbox_row)
        }
    }
}

pub(super) fn agents(conn: &Connection) -> Result<Vec<String>, StoreError> {
    all(conn, "SELECT DISTINCT agent FROM sessions", [], |row| row.get(0))
}

pub(super) fn outbox_sessions(conn: &Connection) -> Result<Vec<String>, StoreError> {
    let sql =
        "SELECT s.key FROM outbox AS o JOIN sessions AS s ON s.row = o.session GROUP BY s.row ORDER BY min(o.first)";
    all(conn, sql, [], |row| row.get(0))
}

pub(super) fn outbox_counts(conn: &Connection) -> Result<Vec<OutboxCount>, StoreError> {
    // With one min() SQLite takes the other columns from its row.
    let sql = "SELECT o.engine, o.state, count(*), s.key, min(o.created_ms) FROM outbox AS o JOIN sessions AS s ON s.row = o.session
               GROUP BY o.engine, o.state ORDER BY o.engine, o.state";
    all(conn, sql, [], |row| {
        Ok(OutboxCount {
            engine: row.get(0)?,
            state: outbox_state(row.get(1)?),
            rows: row.get::<_, i64>(2)? as u64,
            session_key: row.get(3)?,
            oldest_ms: row.get(4)?,
        })
    })
}

/// Walks from the last entry towards the root until the first one.
pub(super) fn range(
    conn: &Connection,
    session: SessionRow,
    first: EntryId,
    last: EntryId,
    most: usize,
) -> Result<Result<Vec<Arc<Entry>>, BlockedReason>, StoreError> {
    let snapshot = conn.unchecked_transaction().map_err(backend)?;
    let sql = format!("SELECT {} FROM entries WHERE id = ?1 AND session = ?2", codec::ENTRY_COLUMNS);
    let mut statement = snapshot.prepare_cached(&sql).map_err(backend)?;
    let mut entries = Vec::new();
    let mut next = last;
    loop {
        // Parents are older than their children.
        if next < first || next == 0 {
            return Ok(Err(BlockedReason::NotDescendant));
        }
        let mut rows = statement.query((next as i64, session as i64)).map_err(backend)?;
        let Some(row) = rows.next().map_err(backend)? else { return Ok(Err(BlockedReason::RangeMissing)) };
        if entries.len() >= most {
            return Ok(Err(BlockedReason::TooLarge));
        }
        let entry = codec::entry(row)?;
        next = entry.parent;
        let done = entry.id == first;
        entries.push(Arc::new(entry));
        if done {
            entries.reverse();
            return Ok(Ok(entries));
        }
    }
}

pub(super) fn handed(conn: &Connection, session: SessionRow) -> Result<Vec<(String, EntryId)>, StoreError> {
    let sql = "SELECT engine, entry FROM handed WHERE session = ?1 ORDER BY engine";
    all(conn, sql, [session as i64], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as u64)))
}

pub(super) fn handed_over(conn: &Connection, engine: &str, session: SessionRow) -> Result<EntryId, StoreError> {
    let found: Option<i64> = conn
        .prepare_cached("SELECT entry FROM handed WHERE session = ?1 AND engine = ?2")
        .and_then(|mut s| s.query_row((session as i64, engine), |row| row.get(0)).optional())
        .map_err(backend)?;
    Ok(found.unwrap_or(0) as u64)
}

/// The keys of a scope lie engine by engine, so one step of the index for each engine is enough.
pub(super) fn engines_of(conn: &Connection, session: SessionRow) -> Result<Vec<String>, StoreError> {
    let sql = "WITH RECURSIVE keeping(engine) AS (
                   SELECT min(engine) FROM engine_kv WHERE scope = ?1
                   UNION ALL
                   SELECT (SELECT min(engine) FROM engine_kv WHERE scope = ?1 AND engine > keeping.engine)
                   FROM keeping WHERE keeping.engine IS NOT NULL)
               SELECT engine FROM keeping WHERE engine IS NOT NULL
               UNION SELECT engine FROM handed WHERE session = ?1
               UNION SELECT engine FROM outbox WHERE session = ?1
               UNION SELECT engine FROM turns WHERE session = ?1 AND engine <> ''
               ORDER BY 1";
    all(conn, sql, [session as i64], |row| row.get(0))
}

pub(super) fn backlog(conn: &Connection, engine: &str, limit: usize) -> Result<Vec<Backlog>, StoreError> {
    let sql = "SELECT s.key, count(*), total(o.state = ?2), min(o.created_ms), max(o.attempts), max(o.last_error)
               FROM outbox AS o JOIN sessions AS s ON s.row = o.session WHERE o.engine = ?1
               GROUP BY o.session ORDER BY count(*) DESC, s.key LIMIT ?3";
    let values = (engine, state_code(OutboxState::Blocked), i64::try_from(limit).unwrap_or(i64::MAX));
    all(conn, sql, values, |row| {
        Ok(Backlog {
            session: row.get(0)?,
            turns: row.get::<_, i64>(1)? as u64,
            blocked: row.get::<_, f64>(2)? as u64,
            oldest_ms: row.get(3)?,
            attempts: row.get(4)?,
            last_error: row.get(5)?,
        })
    })
}

const TURN_COLUMNS: &str =
    "turn_id, session, admitted, terminal, idempotency_key, engine, degraded, detail, started_ms, ended_ms";

fn turn_row(row: &Row<'_>) -> rusqlite::Result<TurnRecord> {
    let detail: String = row.get(7)?;
    Ok(TurnRecord {
        turn_id: row.get(0)?,
        session: row.get::<_, i64>(1)? as u64,
        admitted: row.get::<_, i64>(2)? as u64,
        terminal: row.get::<_, i64>(3)? as u64,
        idempotency_key: row.get(4)?,
        engine: row.get(5)?,
        degraded: row.get(6)?,
        detail: serde_json::from_str(&detail)
            .map_err(|error| rusqlite::Error::FromSqlConversionFailure(7, rusqlite::types::Type::Text, error.into()))?,
        started_ms: row.get(8)?,
        ended_ms: row.get(9)?,
    })
}

/// The newest turn of a key: a request that failed may have been sent again under the same one.
pub(super) fn turn_by_key(conn: &Connection, session: SessionRow, key: &str) -> Result<Option<TurnRecord>, StoreError> {
    let sql = format!(
        "SELECT {TURN_COLUMNS} FROM turns WHERE session = ?1 AND idempotency_key = ?2 ORDER BY turn_id DESC LIMIT 1"
    );
    conn.prepare_cached(&sql).and_then(|mut s| s.query_row((session as i64, key), turn_row).optional()).map_err(backend)
}

/// Ids are UUID v7: their order is that of time.
pub(super) fn turns(
    conn: &Connection,
    session: SessionRow,
    before: Option<&str>,
    limit: usize,
) -> Result<Vec<TurnRecord>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    match before {
        None => {
            let sql = format!("SELECT {TURN_COLUMNS} FROM turns WHERE session = ?1 ORDER BY turn_id DESC LIMIT ?2");
            all(conn, &sql, (session as i64, limit), turn_row)
        }
        Some(before) => {
            let sql = format!(
                "SELECT {TURN_COLUMNS} FROM turns WHERE session = ?1 AND turn_id < ?3 ORDER BY turn_id DESC LIMIT ?2"
            );
            all(conn, &sql, (session as i64, limit, before), turn_row)
        }
    }
}
