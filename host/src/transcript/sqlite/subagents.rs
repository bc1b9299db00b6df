//! Children of sessions: one row each, with what is asked for in columns and the rest as a document.

use super::apply::run;
use super::backend;
use crate::transcript::{StoreError, SubagentRecord, SubagentState};
use rusqlite::{Connection, OptionalExtension, Row};

/// Ended children that are kept for a parent to look at.
const KEPT: i64 = 200;

/// Inserts a child, or writes down what is new of it.
pub(super) fn put(conn: &Connection, record: &SubagentRecord) -> Result<(), StoreError> {
    let mut record = record.clone();
    if let Some(before) = one(conn, &record.child)? {
        record.merge(before);
    }
    let document = serde_json::to_string(&record).map_err(|error| StoreError::Backend(error.to_string()))?;
    let sql = "INSERT INTO subagents(child, parent, created_ms, open, due_ms, waiting, record)
               VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)
               ON CONFLICT(child) DO UPDATE SET open = ?4, due_ms = ?5, waiting = ?6, record = ?7";
    let values =
        (&record.child, &record.parent, record.created_ms, record.open(), record.due_ms(), record.waiting(), document);
    run(conn, sql, values)?;
    if record.state == SubagentState::Preparing {
        // What is over for good, beyond the newest, makes room.
        let sql =
            "DELETE FROM subagents WHERE parent = ?1 AND open = 0 AND due_ms IS NULL AND waiting = 0 AND child NOT IN
                   (SELECT child FROM subagents WHERE parent = ?1 ORDER BY created_ms DESC LIMIT ?2)";
        run(conn, sql, (&record.parent, KEPT))?;
    }
    Ok(())
}

/// Forgets a child.
pub(super) fn forget(conn: &Connection, child: &str) -> Result<(), StoreError> {
    run(conn, "DELETE FROM subagents WHERE child = ?1", [child]).map(|_| ())
}

/// Forgets the children of a session that is deleted, but for those with which something is left to do.
pub(super) fn forget_children(conn: &Connection, session: i64) -> Result<(), StoreError> {
    let sql = "DELETE FROM subagents WHERE parent = (SELECT key FROM sessions WHERE row = ?1) AND open = 0
               AND due_ms IS NULL";
    run(conn, sql, [session]).map(|_| ())
}

/// One child.
pub(super) fn one(conn: &Connection, child: &str) -> Result<Option<SubagentRecord>, StoreError> {
    conn.prepare_cached("SELECT record FROM subagents WHERE child = ?1")
        .and_then(|mut statement| statement.query_row([child], record).optional())
        .map_err(backend)
}

/// The children of a session, oldest first.
pub(super) fn of_parent(conn: &Connection, parent: &str, waiting: bool) -> Result<Vec<SubagentRecord>, StoreError> {
    let sql = if waiting {
        "SELECT record FROM subagents WHERE parent = ?1 AND waiting = 1 ORDER BY created_ms, child"
    } else {
        "SELECT record FROM subagents WHERE parent = ?1 ORDER BY created_ms, child"
    };
    rows(conn, sql, [parent])
}

/// The children with which something is left to do at `now_ms`.
pub(super) fn due(conn: &Connection, now_ms: i64) -> Result<Vec<SubagentRecord>, StoreError> {
    let sql = "SELECT record FROM subagents WHERE open = 1
               UNION ALL SELECT record FROM subagents WHERE due_ms <= ?1 AND open = 0";
    rows(conn, sql, [now_ms])
}

fn rows(conn: &Connection, sql: &str, values: impl rusqlite::Params) -> Result<Vec<SubagentRecord>, StoreError> {
    let mut statement = conn.prepare_cached(sql).map_err(backend)?;
    let rows = statement.query_map(values, record).map_err(backend)?;
    rows.collect::<Result<_, _>>().map_err(backend)
}

fn record(row: &Row<'_>) -> rusqlite::Result<SubagentRecord> {
    let document: String = row.get(0)?;
    serde_json::from_str(&document)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into()))
}
