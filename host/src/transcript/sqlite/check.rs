//! Is the database what was written? SQLite's own check of its structure, and the sums of the rows and what they
//! say of each other, which it knows nothing of. Entries and sessions have sums; of the other tables it is only known that they can
//! be read.
//!
//! | when | what |
//! |---|---|
//! | at each start | the tables, and of a database of ordinary size the sessions: their table, its indexes, their sums and heads |
//! | while it is used | each row of a branch as it is read; and once, beside the turns, all of it in small steps |
//! | `doctor`, `store check` | everything |

use super::trouble::Trouble;
use super::{backend, codec, missing, schema};
use crate::transcript::{EntryId, StoreError};
use rusqlite::{Connection, InterruptHandle};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A start looks at the sessions of a database up to this size, in bytes: about ten milliseconds at most.
const AT_START: u64 = 64 << 20;
/// Structure is checked beside the turns up to this size: a check keeps the log from being started over while it runs.
const BESIDE: u64 = 256 << 20;
/// How long after the start the check beside the turns begins: a command that ends at once has none.
const BEGIN: Duration = Duration::from_secs(5);
/// Entries of one step of it, and the pause after each.
const STEP: u32 = 1_000;
const PAUSE: Duration = Duration::from_millis(10);
/// First format with sums.
const SUMS: i64 = 4;

fn damaged(reason: impl Into<String>) -> StoreError {
    StoreError::Damaged { reason: reason.into() }
}

fn number(conn: &Connection, pragma: &str) -> Result<i64, StoreError> {
    conn.pragma_query_value(None, pragma, |row| row.get(0)).map_err(backend)
}

fn bytes(conn: &Connection) -> Result<u64, StoreError> {
    Ok((number(conn, "page_count")? * number(conn, "page_size")?).max(0) as u64)
}

/// What SQLite finds by one of its checks, at most so much.
fn structure(conn: &Connection, sql: &str) -> Result<Vec<String>, StoreError> {
    let mut statement = conn.prepare(sql).map_err(backend)?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0)).map_err(backend)?;
    let lines: Vec<String> = lines.collect::<Result<_, _>>().map_err(backend)?;
    // One answer may hold several lines.
    let lines = lines.iter().flat_map(|line| line.lines()).filter(|line| *line != "ok" && !line.is_empty());
    Ok(lines.map(str::to_owned).collect())
}

/// What must be right before a gateway goes on with a database of a known format.
pub(super) fn at_start(conn: &Connection) -> Result<(), StoreError> {
    for table in schema::TABLES {
        let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?1";
        let found: i64 = conn.query_row(sql, [table], |row| row.get(0)).map_err(backend)?;
        if found == 0 {
            return Err(damaged(format!("it has no table {table}")));
        }
    }
    if bytes(conn)? > AT_START {
        return Ok(());
    }
    if let Some(found) = structure(conn, "PRAGMA integrity_check('sessions')")?.into_iter().next() {
        return Err(damaged(found));
    }
    match sessions(conn, 1)?.into_iter().next() {
        Some(found) => Err(damaged(found)),
        None => Ok(()),
    }
}

/// Sessions whose row is not what was written, or whose head is not there.
fn sessions(conn: &Connection, most: usize) -> Result<Vec<String>, StoreError> {
    let mut found = Vec::new();
    let sums = number(conn, "user_version")? >= SUMS;
    let sql = format!(
        "SELECT s.row, s.key, s.session_id, s.agent, s.head, s.generation, {}, e.id IS NULL AND s.head <> 0
         FROM sessions AS s LEFT JOIN entries AS e ON e.id = s.head AND e.session = s.row",
        if sums { "s.sum" } else { "NULL" }
    );
    let mut statement = conn.prepare(&sql).map_err(backend)?;
    let mut rows = statement.query([]).map_err(backend)?;
    while let Some(row) = rows.next().map_err(backend)? {
        let number: i64 = row.get(0).map_err(backend)?;
        let text = |at: usize| row.get_ref(at).ok().and_then(|value| value.as_str().ok());
        let (Some(key), Some(id), Some(agent)) = (text(1), text(2), text(3)) else {
            found.push(format!("session {number} cannot be read"));
            continue;
        };
        let (head, generation) = (row.get(4).map_err(backend)?, row.get(5).map_err(backend)?);
        let sum: Option<i64> = row.get(6).map_err(backend)?;
        if sum.is_some_and(|sum| sum != codec::session_sum(number, key, id, agent, head, generation)) {
            found.push(format!("session {number} ({key}) is not what was written"));
        } else if row.get(7).map_err(backend)? {
            found.push(format!("the last entry of session {number} ({key}) is missing"));
        }
        if found.len() >= most {
            break;
        }
    }
    Ok(found)
}

/// Entries behind `after` that are not what was written, and the last one that was looked at; `None` behind the last.
fn entries(conn: &Connection, after: EntryId) -> Result<(Vec<String>, Option<EntryId>), StoreError> {
    let sql = format!("SELECT {} FROM entries WHERE id > ?1 ORDER BY id LIMIT ?2", codec::ENTRY_COLUMNS);
    let mut statement = conn.prepare_cached(&sql).map_err(backend)?;
    let mut rows = statement.query((after as i64, STEP)).map_err(backend)?;
    let (mut found, mut last) = (Vec::new(), None);
    while let Some(row) = rows.next().map_err(backend)? {
        last = Some(row.get::<_, i64>(0).map_err(backend)? as EntryId);
        match codec::entry(row) {
            Ok(_) => {}
            Err(StoreError::Damaged { reason }) => found.push(reason),
            Err(other) => return Err(other),
        }
    }
    Ok((found, last))
}

/// Everything; about `most` findings at most.
pub(super) fn whole(conn: &Connection, most: usize) -> Result<Vec<String>, StoreError> {
    let most = most.max(1);
    let mut found = match structure(conn, &format!("PRAGMA integrity_check({most})")) {
        Err(StoreError::Damaged { reason }) => vec![reason],
        other => other?,
    };
    let mut rows = || -> Result<(), StoreError> {
        if number(conn, "user_version")? < SUMS {
            return Ok(());
        }
        found.extend(sessions(conn, most)?);
        let mut after = 0;
        while found.len() < most {
            let (more, last) = entries(conn, after)?;
            found.extend(more);
            let Some(last) = last else { break };
            after = last;
        }
        found.extend(missing::rows(conn, most)?);
        found.extend(missing::unreadable(conn, most)?);
        Ok(())
    };
    match rows() {
        // A structure that cannot be walked was told of already.
        Err(StoreError::Damaged { reason }) => found.push(reason),
        other => other?,
    }
    found.truncate(most);
    Ok(found)
}

/// The check beside the turns.
#[derive(Default)]
pub(super) struct Beside {
    state: Mutex<Stop>,
    changed: Condvar,
}

#[derive(Default)]
struct Stop {
    stop: bool,
    running: Option<InterruptHandle>,
}

impl Beside {
    /// Body of its thread.
    pub(super) fn run(&self, path: &Path, trouble: &Arc<Trouble>) {
        if self.wait(BEGIN) {
            return;
        }
        match self.look(path, trouble) {
            Ok(()) => {}
            Err(error @ StoreError::Damaged { .. }) => trouble.broken(&error),
            Err(error) => tracing::debug!(%error, "the database was not checked to its end"),
        }
    }

    fn look(&self, path: &Path, trouble: &Trouble) -> Result<(), StoreError> {
        let conn = schema::open_reader(path).map_err(backend)?;
        self.lock().running = Some(conn.get_interrupt_handle());
        if bytes(&conn)? <= BESIDE
            && let Some(found) = structure(&conn, "PRAGMA quick_check(1)")?.into_iter().next()
        {
            return Err(damaged(found));
        }
        let mut after = 0;
        while !self.wait(PAUSE) {
            let (found, last) = entries(&conn, after)?;
            if let Some(reason) = found.into_iter().next() {
                trouble.damaged(&damaged(reason));
            }
            let Some(last) = last else { break };
            after = last;
        }
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Stop> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits; true when it shall end.
    fn wait(&self, time: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), time, |state| !state.stop);
        waited.unwrap_or_else(PoisonError::into_inner).0.stop
    }

    /// Ends it soon, wherever it is.
    pub(super) fn stop(&self) {
        let mut state = self.lock();
        state.stop = true;
        if let Some(running) = &state.running {
            running.interrupt();
        }
        self.changed.notify_all();
    }
}
