//! What can be read of a damaged database, in a new one.
//!
//! ```text
//!  database, log ─► copy ─► each table read in ranges, around what cannot be read ─► new database ─► mended, checked
//!        │                                                                                                 │
//!        └────────────► kept under a name with the time ◄──── exchanged ◄──────────────────────────────────┘
//! ```
//!
//! Nothing is written to the damaged files. A row is taken when its sum is right, or when it is older than sums. Where a branch
//! lost a part, what is behind it stays, as a branch that begins there. A session whose row is lost gets a name of its own.

use super::evidence::{self, Found, Mark, beside};
use super::{backend, check, codec, lock, reading, schema};
use crate::transcript::{SessionRow, StoreError};
use reading::Table;
use rusqlite::Connection;
use rusqlite::types::Value;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Most lines about what could not be taken.
const LINES: usize = 200;
/// Size of a page of our databases.
const PAGE: usize = 4096;

/// What a repair took over, and what it could not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Salvaged {
    /// Where the damaged files are kept; empty when nothing was exchanged.
    pub kept: PathBuf,
    /// The database that is in their place.
    pub database: PathBuf,
    /// Rows that were taken, by table.
    pub taken: BTreeMap<String, u64>,
    /// What could not be taken, or had to be changed.
    pub lost: Vec<String>,
    /// More that is not listed.
    pub more: u64,
    /// Nothing was exchanged.
    pub dry_run: bool,
}

impl Salvaged {
    fn lose(&mut self, line: String) {
        if self.lost.len() < LINES {
            self.lost.push(line);
        } else {
            self.more += 1;
        }
    }
}

/// Takes what can be read of the database of a state folder into a new one, and puts that in its place; `None` where there is
/// no database. Takes the folder's lock.
///
/// # Errors
///
/// [`StoreError::Locked`] while a gateway runs; or that a file could not be copied or written: everything is as it was then.
pub fn salvage(state_dir: &Path, dry_run: bool) -> Result<Option<Salvaged>, StoreError> {
    let database = lock::database_path(state_dir);
    if !lock::folder_is_there(state_dir)? {
        return Ok(None);
    }
    let _lock = lock::FolderLock::take(state_dir)?;
    // SQLite reads a log as far as it is sound, and says nothing of the rest.
    let told = match evidence::look(&database) {
        Ok(Found::Nothing) => return Ok(None),
        Ok(Found::File) => None,
        Err(StoreError::Damaged { reason }) => Some(reason),
        // There is nothing to take anything from.
        Err(other) => return Err(other),
    };
    let failed = |error: std::io::Error| lock::open_error(&database, &error);
    let work = tempfile::Builder::new().prefix("transcript.repair-").tempdir_in(state_dir).map_err(failed)?;
    let copy = work.path().join("damaged.db");
    for suffix in ["", "-wal"] {
        let from = beside(&database, suffix);
        if from.exists() {
            std::fs::copy(&from, beside(&copy, suffix)).map_err(failed)?;
        }
    }
    let new = work.path().join("transcript.db");
    let mut report = Salvaged { database: database.clone(), dry_run, ..Salvaged::default() };
    told.into_iter().for_each(|reason| report.lose(reason));
    take_over(&copy, &new, work.path(), &mut report).map_err(|error| match error {
        StoreError::Damaged { reason } => StoreError::Unreadable { reason },
        other => other,
    })?;
    // An empty store in its place would be no repair.
    if report.taken.values().all(|rows| *rows == 0) {
        let reason = report.lost.first().cloned().unwrap_or_else(|| "it holds nothing".into());
        return Err(StoreError::Unreadable { reason });
    }
    if !dry_run {
        report.kept = exchange(&database, &new)?;
    }
    Ok(Some(report))
}

fn take_over(copy: &Path, new: &Path, work: &Path, report: &mut Salvaged) -> Result<(), StoreError> {
    std::fs::write(new, "").map_err(|error| lock::open_error(new, &error))?;
    let mut to = schema::open_writer(new)?;
    let tx = to.transaction().map_err(backend)?;
    let from = open_damaged(copy, work, report)?;
    // What cannot be read is to be salvaged; what is not ours, or newer, is not ours to change.
    if let Err(error @ (StoreError::Format { .. } | StoreError::Open { .. })) = schema::known(copy, &from) {
        return Err(error);
    }
    let mut sessions = Vec::new();
    for table in reading::tables() {
        let seen = read_table(&from, &tx, &table, &sessions, report)?;
        if table.name == "sessions" {
            sessions = seen;
        } else if table.name == "entries" {
            sessions = mend(&tx, report)?;
        }
    }
    counters(&tx)?;
    tx.commit().map_err(backend)?;
    let found = check::whole(&to, 1)?;
    if let Some(found) = found.into_iter().next() {
        return Err(StoreError::Backend(format!("the new database is not sound: {found}")));
    }
    // The log goes into the database with the last connection.
    to.close().map_err(|(_, error)| backend(error))
}

/// Opens the copy. One whose first page cannot be read is given that of a new database, which has its tables at the same places.
fn open_damaged(copy: &Path, work: &Path, report: &mut Salvaged) -> Result<Connection, StoreError> {
    let readable = |copy: &Path, lenient: bool| -> Result<Connection, StoreError> {
        let conn = Connection::open(copy).map_err(backend)?;
        // A table of which no page is left, or a file that is too short, does not hide the others then.
        conn.pragma_update(None, "writable_schema", lenient).map_err(backend)?;
        conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0)).map_err(backend)?;
        let format: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(backend)?;
        // A name that changed hides a column: without its sums a damaged row would pass for a sound one.
        match reading::tables().iter().find(|table| format >= schema::FORMAT && !table.is_whole(&conn)) {
            Some(table) => Err(StoreError::Damaged { reason: format!("the table {} is not what it was", table.name) }),
            None => Ok(conn),
        }
    };
    let error = match readable(copy, false) {
        Ok(conn) => return Ok(conn),
        Err(error) => error,
    };
    if let Ok(conn) = readable(copy, true) {
        report.lose(format!("the database is not whole ({error}); each table is read as far as it is there"));
        return Ok(conn);
    }
    report.lose(format!("the beginning of the database cannot be read ({error}); that of a new one stands in for it"));
    let model = work.join("model.db");
    let failed = |error: std::io::Error| lock::open_error(copy, &error);
    std::fs::write(&model, "").map_err(failed)?;
    let conn = schema::open_writer(&model)?;
    let mut pages = conn.prepare("SELECT pageno FROM dbstat WHERE name = 'sqlite_schema'").map_err(backend)?;
    let numbers = pages.query_map([], |row| row.get::<_, i64>(0)).map_err(backend)?;
    let numbers: Vec<usize> =
        numbers.filter_map(Result::ok).filter_map(|number| usize::try_from(number).ok()).collect();
    drop(pages);
    conn.close().map_err(|(_, error)| backend(error))?;
    let model = std::fs::read(&model).map_err(failed)?;
    let mut bytes = std::fs::read(copy).map_err(failed)?;
    let pages = bytes.len().div_ceil(PAGE).max(1);
    bytes.resize(pages * PAGE, 0);
    let whole = bytes.clone();
    // First the header alone: the tables may have grown at other places than those of a new database.
    for (pages_of_model, lenient) in [(&[][..], false), (&numbers[..], false), (&[][..], true), (&numbers[..], true)] {
        bytes.clone_from(&whole);
        for number in pages_of_model {
            let range = (number - 1) * PAGE..number * PAGE;
            if let (Some(to), Some(page)) = (bytes.get_mut(range.clone()), model.get(range)) {
                to.copy_from_slice(page);
            }
        }
        if let (Some(to), Some(header)) = (bytes.get_mut(..100), model.get(..100)) {
            to.copy_from_slice(header);
            to[28..32].copy_from_slice(&u32::try_from(pages).unwrap_or(u32::MAX).to_be_bytes());
            to[32..40].fill(0);
            to.copy_within(24..28, 92);
        }
        std::fs::write(copy, &bytes).map_err(failed)?;
        if let Ok(conn) = readable(copy, lenient) {
            return Ok(conn);
        }
    }
    Err(StoreError::Unreadable { reason: error.to_string() })
}

/// Reads a table of the damaged database into the new one; gives the numbers of its rows.
fn read_table(
    from: &Connection,
    to: &Connection,
    table: &Table,
    sessions: &[SessionRow],
    report: &mut Salvaged,
) -> Result<Vec<SessionRow>, StoreError> {
    let places: Vec<String> = (1..=table.columns.len()).map(|at| format!("?{at}")).collect();
    let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
    let sql = format!("INSERT OR IGNORE INTO {}({}) VALUES({})", table.name, names.join(", "), places.join(", "));
    let mut insert = to.prepare(&sql).map_err(backend)?;
    let (mut taken, mut numbers, mut lost) = (0u64, Vec::new(), Vec::new());
    let mut take = |row: &mut Vec<Value>| -> Result<(), StoreError> {
        if let Err(line) = judge(table, row) {
            lost.push(line);
            return Ok(());
        }
        let inserted = insert.execute(rusqlite::params_from_iter(row.iter())).map_err(backend)?;
        taken += inserted as u64;
        if let Some(Value::Integer(number)) = row.first() {
            numbers.push(*number as SessionRow);
        }
        Ok(())
    };
    let unread = reading::read(from, table, sessions, &mut take)?;
    unread.into_iter().chain(lost).for_each(|line| report.lose(line));
    report.taken.insert(table.name.to_owned(), taken);
    Ok(numbers)
}

/// Whether a row is what was written; its sum is made anew, since rows from before sums get one here.
fn judge(table: &Table, row: &mut [Value]) -> Result<(), String> {
    let number = |at: usize| match row.get(at) {
        Some(Value::Integer(number)) => *number,
        _ => 0,
    };
    table.readable(row)?;
    if table.name != "entries" {
        return Ok(());
    }
    let mut numbers = [0; 7];
    for (at, place) in numbers.iter_mut().enumerate() {
        *place = number(at);
    }
    let (Some(Value::Text(body)), Some(sum)) = (row.get(7), row.get(8)) else { return Ok(()) };
    let right = codec::entry_sum(numbers, body);
    if matches!(sum, Value::Integer(sum) if *sum != right) {
        return Err(format!("entry {} of session {} is not what was written", numbers[0], numbers[2]));
    }
    row[8] = Value::Integer(right);
    Ok(())
}

/// Puts the sessions and their branches in order; gives the sessions that there are.
fn mend(conn: &Connection, report: &mut Salvaged) -> Result<Vec<SessionRow>, StoreError> {
    // Entries whose session is lost.
    let sql = "SELECT session, count(*), min(time_ms), max(time_ms), max(id) FROM entries
               WHERE session NOT IN (SELECT row FROM sessions) GROUP BY session";
    for [row, entries, first, last, head] in
        rows(conn, sql, |row| Ok([row.get::<_, i64>(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?]))?
    {
        let key = format!("recovered-{row}");
        report.lose(format!("the name of session {row} is lost; its {entries} entries are in the session \"{key}\""));
        let sql = "INSERT INTO sessions(row, key, session_id, agent, head, generation, created_ms, updated_ms, entries, lease)
                   VALUES(?1, ?2, ?3, 'main', ?6, 1, ?4, ?5, 0, 0)";
        conn.execute(sql, (row, &key, uuid::Uuid::now_v7().to_string(), first, last, head)).map_err(backend)?;
    }
    // Branches that lost a part begin behind it.
    let sql =
        "SELECT e.id, e.session FROM entries AS e LEFT JOIN entries AS p ON p.id = e.parent AND p.session = e.session
               WHERE e.parent <> 0 AND p.id IS NULL";
    for (id, session) in rows(conn, sql, |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))? {
        report.lose(format!("what stood before entry {id} of session {session} is lost; a branch begins there"));
        conn.execute("UPDATE entries SET parent = 0 WHERE id = ?1", [id]).map_err(backend)?;
        let sum = conn
            .query_row(&format!("SELECT {} FROM entries WHERE id = ?1", codec::ENTRY_COLUMNS), [id], |row| {
                let mut numbers = [0; 7];
                for (at, number) in numbers.iter_mut().enumerate() {
                    *number = row.get(at)?;
                }
                Ok(codec::entry_sum(numbers, &row.get::<_, String>(7)?))
            })
            .map_err(backend)?;
        conn.execute("UPDATE entries SET sum = ?2 WHERE id = ?1", (id, sum)).map_err(backend)?;
    }
    let sql = "SELECT s.row, s.key, s.session_id, s.agent, s.head, s.generation, s.sum, e.id IS NOT NULL,
                   (SELECT max(id) FROM entries WHERE session = s.row)
               FROM sessions AS s LEFT JOIN entries AS e ON e.id = s.head AND e.session = s.row";
    let found = rows(conn, sql, |row| {
        let (key, id, agent): (String, String, String) = (row.get(1)?, row.get(2)?, row.get(3)?);
        let (number, head, generation): (i64, i64, i64) = (row.get(0)?, row.get(4)?, row.get(5)?);
        let sound = row
            .get::<_, Option<i64>>(6)?
            .is_none_or(|sum| sum == codec::session_sum(number, &key, &id, &agent, head, generation));
        Ok((number, key, head, sound, row.get::<_, bool>(7)?, row.get::<_, Option<i64>>(8)?))
    })?;
    let mut sessions = Vec::with_capacity(found.len());
    for (row, key, head, sound, there, youngest) in found {
        if !sound {
            report.lose(format!(
                "session {row} (\"{key}\") is not what was written: look at its name and its last entry"
            ));
        }
        let lost = head != 0 && !there;
        if lost || (!sound && head == 0) {
            let to = youngest.unwrap_or(0);
            if lost {
                report
                    .lose(format!("the last entry of session {row} (\"{key}\") is lost; it goes on behind entry {to}"));
            }
            conn.execute("UPDATE sessions SET head = ?2 WHERE row = ?1", (row, to)).map_err(backend)?;
        }
        let sql = "UPDATE sessions SET entries = (SELECT count(*) FROM entries WHERE session = ?1) WHERE row = ?1";
        conn.execute(sql, [row]).map_err(backend)?;
        super::apply::seal_session(conn, row as SessionRow)?;
        sessions.push(row as SessionRow);
    }
    Ok(sessions)
}

fn rows<T>(
    conn: &Connection,
    sql: &str,
    read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = conn.prepare(sql).map_err(backend)?;
    let found = statement.query_map([], read).map_err(backend)?;
    found.collect::<Result<_, _>>().map_err(backend)
}

/// No id that was ever given is given again, as far as what was taken tells.
fn counters(conn: &Connection) -> Result<(), StoreError> {
    for (name, sql) in [
        ("entries_reserved", "SELECT ifnull(max(id), 0) + 4096 FROM entries"),
        ("sessions_reserved", "SELECT ifnull(max(row), 0) + 256 FROM sessions"),
        ("epoch", "SELECT ifnull(max(lease), 0) FROM sessions"),
    ] {
        let least: i64 = conn.query_row(sql, [], |row| row.get(0)).map_err(backend)?;
        let known = schema::meta(conn, name).map_err(backend)?;
        schema::set_meta(conn, name, known.max(least.max(0) as u64)).map_err(backend)?;
    }
    Ok(())
}

/// Keeps the damaged files under a name with the time, and puts the new database in their place.
fn exchange(database: &Path, new: &Path) -> Result<PathBuf, StoreError> {
    let failed = |error: std::io::Error| lock::open_error(database, &error);
    let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let mut kept = database.with_file_name(format!("transcript.damaged-{time}"));
    let mut number = 1;
    while kept.exists() {
        number += 1;
        kept = database.with_file_name(format!("transcript.damaged-{time}-{number}"));
    }
    std::fs::create_dir(&kept).map_err(failed)?;
    let name = database.file_name().unwrap_or_default();
    let inside = kept.join(name);
    for suffix in ["", "-wal", "-shm"] {
        let (from, to) = (beside(database, suffix), beside(&inside, suffix));
        if from.exists() && std::fs::hard_link(&from, &to).is_err() {
            std::fs::copy(&from, &to).map_err(failed)?;
        }
    }
    lock::sync_folder(&kept)?;
    // The log first: it must not be taken for one of the new database.
    Mark::Closing.write(database).map_err(failed)?;
    for suffix in ["-wal", "-shm"] {
        match std::fs::remove_file(beside(database, suffix)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
    }
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(new, mode).map_err(failed)?;
    std::fs::File::open(new).and_then(|file| file.sync_all()).map_err(failed)?;
    std::fs::rename(new, database).map_err(failed)?;
    if let Some(folder) = database.parent() {
        lock::sync_folder(folder)?;
    }
    Mark::Closed.write(database).map_err(failed)?;
    Ok(kept)
}
