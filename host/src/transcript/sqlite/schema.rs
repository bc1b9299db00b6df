//! The tables, their format version, and how a connection is set up.
//!
//! ```text
//!  meta      name PK ─ value                      epoch, id blocks (counters that only rise)
//!
//!  sessions  row PK ─ key U ─ session_id ─ agent ─ head ─ generation ─ created_ms ─ updated_ms ─ entries ─ lease ─ sum
//!     │                                             │
//!     │ session                                     ▼
//!  entries   id PK ─ session ─ parent ─ time_ms ─ flags ─ tokens ─ kind ─ body ─ sum     index (session, parent)
//!     │                         └──► id, or 0 at a root: the tree
//!     │ entry
//!  frozen    (session, entry) PK ─ text           pruned texts, shown byte for byte from then on
//!
//!  turns     (session, turn_id) PK ─ admitted ─ terminal ─ idempotency_key ─ engine ─ degraded ─ detail ─ times
//!  outbox    (engine, key) PK ─ session ─ session_id ─ first ─ last ─ position ─ generation ─ state ─ reason ─ attempts ─
//!            attempted_ms ─ last_error ─ facts ─ created_ms      turns that an engine was not given yet
//!  handed    (session, engine) PK ─ entry         last entry that an engine was given
//!  engine_kv (scope, engine, key) PK ─ value      scope 0: the engine's own; else the row of a session
//!  subagents child PK ─ parent ─ created_ms ─ open ─ due_ms ─ waiting ─ record     by keys of sessions, so that a child
//!                                                outlives its session until everybody was told
//! ```
//!
//! Entries lie in the order of their ids, whatever session they belong to, so that all appends of a group commit land on
//! the last page. A branch is read by walking parents, each step a lookup by row id.

use super::check;
use crate::transcript::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::path::Path;
use std::time::Duration;

/// Marks the file as ours: "Engr" in the header field that SQLite keeps for this.
const APPLICATION_ID: i64 = 0x456e_6772;

/// One step per format version; step `n` lifts format `n` to `n + 1`. A step that was released never changes.
const STEPS: [&str; 4] = ["
    CREATE TABLE meta(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE sessions(
        row INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, session_id TEXT NOT NULL, agent TEXT NOT NULL,
        head INTEGER NOT NULL, generation INTEGER NOT NULL, created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL,
        entries INTEGER NOT NULL, lease INTEGER NOT NULL);
    CREATE TABLE entries(
        id INTEGER PRIMARY KEY, session INTEGER NOT NULL, parent INTEGER NOT NULL, time_ms INTEGER NOT NULL,
        flags INTEGER NOT NULL, tokens INTEGER NOT NULL, kind INTEGER NOT NULL, body TEXT NOT NULL);
    CREATE INDEX entries_tree ON entries(session, parent);
    CREATE TABLE frozen(
        session INTEGER NOT NULL, entry INTEGER NOT NULL, text TEXT NOT NULL, PRIMARY KEY(session, entry)) WITHOUT ROWID;
    CREATE TABLE turns(
        session INTEGER NOT NULL, turn_id TEXT NOT NULL, admitted INTEGER NOT NULL, terminal INTEGER NOT NULL,
        idempotency_key TEXT, engine TEXT NOT NULL, degraded TEXT, detail TEXT NOT NULL, started_ms INTEGER NOT NULL,
        ended_ms INTEGER NOT NULL, PRIMARY KEY(session, turn_id)) WITHOUT ROWID;
    CREATE INDEX turns_key ON turns(session, idempotency_key) WHERE idempotency_key IS NOT NULL;
    CREATE TABLE outbox(
        key TEXT PRIMARY KEY, engine TEXT NOT NULL, session INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
        state INTEGER NOT NULL, attempts INTEGER NOT NULL, last_error TEXT, created_ms INTEGER NOT NULL) WITHOUT ROWID;
    CREATE INDEX outbox_range ON outbox(session, first);
    CREATE TABLE handed(
        session INTEGER NOT NULL, engine TEXT NOT NULL, entry INTEGER NOT NULL, PRIMARY KEY(session, engine)) WITHOUT ROWID;
    CREATE TABLE engine_kv(
        scope INTEGER NOT NULL, engine TEXT NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL,
        PRIMARY KEY(scope, engine, key)) WITHOUT ROWID;
",
// A turn may wait for several engines, each with a row of its own; a row carries the place and the facts of its turn.
"
    ALTER TABLE outbox RENAME TO outbox_of_format_1;
    DROP INDEX outbox_range;
    CREATE TABLE outbox(
        engine TEXT NOT NULL, key TEXT NOT NULL, session INTEGER NOT NULL, session_id TEXT NOT NULL, first INTEGER NOT NULL,
        last INTEGER NOT NULL, position INTEGER NOT NULL, generation INTEGER NOT NULL, state INTEGER NOT NULL, reason TEXT,
        attempts INTEGER NOT NULL, attempted_ms INTEGER NOT NULL, last_error TEXT, facts TEXT, created_ms INTEGER NOT NULL,
        PRIMARY KEY(engine, key)) WITHOUT ROWID;
    INSERT INTO outbox
        SELECT o.engine, o.key, o.session, s.session_id, o.first, o.last, -1, s.generation, o.state,
            CASE o.state WHEN 2 THEN 'range-missing' END, o.attempts, 0, o.last_error, NULL, o.created_ms
        FROM outbox_of_format_1 AS o JOIN sessions AS s ON s.row = o.session;
    DROP TABLE outbox_of_format_1;
    CREATE INDEX outbox_range ON outbox(session, first);
",
// Children of sessions; what is left to do with them is found by the partial indexes alone.
"
    CREATE TABLE subagents(
        child TEXT PRIMARY KEY, parent TEXT NOT NULL, created_ms INTEGER NOT NULL, open INTEGER NOT NULL, due_ms INTEGER,
        waiting INTEGER NOT NULL, record TEXT NOT NULL) WITHOUT ROWID;
    CREATE INDEX subagents_parent ON subagents(parent, created_ms);
    CREATE INDEX subagents_open ON subagents(open) WHERE open = 1;
    CREATE INDEX subagents_due ON subagents(due_ms) WHERE due_ms IS NOT NULL;
",
// Sums over rows, so that damage which SQLite does not see is seen; rows from before have none.
"
    ALTER TABLE sessions ADD COLUMN sum INTEGER;
    ALTER TABLE entries ADD COLUMN sum INTEGER;
"];

/// Newest format that this gateway knows.
pub(super) const FORMAT: i64 = STEPS.len() as i64;

/// Opens the connection that writes, refuses a newer or foreign file before anything is changed, and lifts an older one.
pub(super) fn open_writer(path: &Path) -> Result<Connection, StoreError> {
    let failed = |error: rusqlite::Error| opening(path, error);
    let mut conn =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)
            .map_err(failed)?;
    conn.busy_timeout(Duration::from_secs(5)).map_err(failed)?;
    // Until it is known to be sound, closing it again changes nothing.
    copies_at_close(&conn, false).map_err(failed)?;
    let found = known(path, &conn)?;
    if found > 0 {
        check::at_start(&conn)?;
    }
    tune(&conn).map_err(failed)?;
    for (step, sql) in STEPS.iter().enumerate().skip(usize::try_from(found).unwrap_or(0)) {
        let tx = conn.transaction().map_err(failed)?;
        tx.execute_batch(sql).map_err(failed)?;
        tx.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
        tx.pragma_update(None, "user_version", step as i64 + 1).map_err(failed)?;
        StoreError::at("store.migrate.before_commit")?;
        tx.commit().map_err(failed)?;
        StoreError::at("store.migrate.after_commit")?;
    }
    copies_at_close(&conn, true).map_err(failed)?;
    Ok(conn)
}

/// The format of a database; refuses a newer one, and that of another program.
pub(super) fn known(path: &Path, conn: &Connection) -> Result<i64, StoreError> {
    let failed = |error: rusqlite::Error| opening(path, error);
    let found: i64 = conn.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(failed)?;
    let mark: i64 = conn.pragma_query_value(None, "application_id", |row| row.get(0)).map_err(failed)?;
    let tables: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    if mark != APPLICATION_ID && (mark != 0 || tables > 0) {
        let reason = "it is the database of another program".into();
        return Err(StoreError::Open { path: path.display().to_string(), reason });
    }
    if found > FORMAT {
        return Err(StoreError::Format { found, known: FORMAT });
    }
    Ok(found)
}

fn copies_at_close(conn: &Connection, copies: bool) -> rusqlite::Result<()> {
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !copies).map(|_| ())
}

/// What SQLite says when a database is opened: where it names no kind of trouble, the file is what it is about.
fn opening(path: &Path, error: rusqlite::Error) -> StoreError {
    match super::backend(error) {
        StoreError::Backend(reason) => super::lock::open_error(path, &reason),
        known => known,
    }
}

/// Tables of every format.
pub(super) const TABLES: [&str; 7] = ["meta", "sessions", "entries", "frozen", "turns", "handed", "engine_kv"];

/// How long the connection that copies the log waits for others.
pub(super) const CHECKPOINTER_PATIENCE: Duration = Duration::from_secs(1);

/// Opens the connection that copies the log into the database.
pub(super) fn open_checkpointer(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.busy_timeout(CHECKPOINTER_PATIENCE)?;
    tune(&conn)?;
    Ok(conn)
}

/// Opens a connection that only reads.
pub(super) fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    let conn = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    conn.busy_timeout(Duration::from_secs(5))?;
    conn.set_prepared_statement_cache_capacity(32);
    Ok(conn)
}

/// FULL: each commit syncs the log before it is acknowledged. The log is never copied by a commit (that would be paid by
/// whoever waits for it), and what a savepoint remembers stays in memory. What is deleted or overwritten is overwritten with
/// zeros, whole pages that become free as well (`FAST` would leave those): a session that is deleted is gone from the file, too.
fn tune(conn: &Connection) -> rusqlite::Result<()> {
    conn.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    conn.pragma_update(None, "synchronous", "FULL")?;
    conn.pragma_update(None, "wal_autocheckpoint", 0)?;
    conn.pragma_update(None, "temp_store", "MEMORY")?;
    conn.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?;
    conn.pragma_update(None, "foreign_keys", false)?;
    conn.set_prepared_statement_cache_capacity(64);
    Ok(())
}

/// A counter of `meta`, 0 when it was never set.
pub(super) fn meta(conn: &Connection, name: &str) -> rusqlite::Result<u64> {
    use rusqlite::OptionalExtension;
    let value: Option<i64> = conn
        .prepare_cached("SELECT value FROM meta WHERE name = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()?;
    Ok(value.unwrap_or(0).max(0) as u64)
}

/// Sets a counter of `meta`.
pub(super) fn set_meta(conn: &Connection, name: &str, value: u64) -> rusqlite::Result<()> {
    conn.prepare_cached("INSERT INTO meta(name, value) VALUES(?1, ?2) ON CONFLICT(name) DO UPDATE SET value = ?2")?
        .execute((name, value as i64))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_format_and_a_foreign_database_are_refused_untouched() {
        let dir = tempfile::tempdir().unwrap();
        let newer = dir.path().join("newer.db");
        std::fs::write(&newer, "").unwrap();
        let conn = open_writer(&newer).unwrap();
        conn.pragma_update(None, "user_version", FORMAT + 1).unwrap();
        drop(conn);
        match open_writer(&newer) {
            Err(StoreError::Format { found, known }) => assert_eq!((found, known), (FORMAT + 1, FORMAT)),
            other => panic!("{other:?}"),
        }

        let foreign = dir.path().join("foreign.db");
        Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE t(x)").unwrap();
        let before = std::fs::read(&foreign).unwrap();
        assert!(matches!(open_writer(&foreign), Err(StoreError::Open { .. })));
        assert_eq!(std::fs::read(&foreign).unwrap(), before);
    }

    /// The whole content of the outbox, a line a row.
    fn rows(conn: &Connection) -> Vec<String> {
        let sql = "SELECT engine || ' ' || key || ' ' || session || ' ' || session_id || ' ' || first || ' ' || last || ' ' ||
            position || ' ' || generation || ' ' || state || ' ' || ifnull(reason, '-') || ' ' || attempts FROM outbox ORDER BY key";
        let mut statement = conn.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn rows_of_an_older_outbox_keep_their_turns() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.db");
        let conn = Connection::open(&path).unwrap();
        conn.execute_batch(STEPS[0]).unwrap();
        conn.execute_batch(
            "INSERT INTO sessions VALUES(7, 'k', 'id-7', 'main', 12, 3, 0, 0, 2, 0);
             INSERT INTO entries VALUES(12, 7, 0, 0, 0, 1, 2, 'x');
             INSERT INTO outbox VALUES('a', 'e', 7, 11, 12, 1, 2, 'no', 5), ('b', 'e', 7, 13, 14, 2, 0, NULL, 6),
                 ('c', 'e', 99, 1, 2, 1, 0, NULL, 7);",
        )
        .unwrap();
        conn.pragma_update(None, "application_id", APPLICATION_ID).unwrap();
        conn.pragma_update(None, "user_version", 1).unwrap();
        drop(conn);
        let conn = open_writer(&path).unwrap();
        let expected = ["e a 7 id-7 11 12 -1 3 1 - 2", "e b 7 id-7 13 14 -1 3 2 range-missing 0"];
        assert_eq!(rows(&conn), expected, "a row of a session that is gone goes with it");
        assert_eq!(conn.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0)).unwrap(), FORMAT);
    }

    #[test]
    fn a_file_that_is_no_database_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text.db");
        std::fs::write(&path, "this is a text, not a database; ".repeat(64)).unwrap();
        assert!(matches!(open_writer(&path), Err(StoreError::Damaged { .. })));
    }

    #[test]
    fn the_writer_syncs_every_commit_and_leaves_the_log_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.db");
        std::fs::write(&path, "").unwrap();
        let conn = open_writer(&path).unwrap();
        let number = |name: &str| conn.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(number("synchronous"), 2);
        assert_eq!(number("wal_autocheckpoint"), 0);
        assert_eq!(conn.pragma_query_value(None, "journal_mode", |row| row.get::<_, String>(0)).unwrap(), "wal");
    }
}
