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

#[cfg(test)]
mod tests {
    use super::super::open;
    use crate::transcript::subagent::tests::child;
    use crate::transcript::{SessionRecord, Store, SubagentEnd, SubagentRecord, SubagentState, Submission, Write};
    use std::time::{Duration, Instant};

    fn write(store: &dyn Store, writes: Vec<Write>) {
        let ack = store.submit(Submission { lease: None, writes });
        ack.durable_blocking(Instant::now() + Duration::from_secs(10)).unwrap();
    }

    fn put(store: &dyn Store, record: SubagentRecord) {
        write(store, vec![Write::Subagent(Box::new(record))]);
    }

    fn names(found: Vec<SubagentRecord>) -> Vec<String> {
        found.iter().map(|child| child.child.rsplit(':').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn what_is_left_to_do_is_found_by_parent_and_by_time_also_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).unwrap();
        let ended = |name: &str| SubagentRecord {
            state: SubagentState::Ended,
            reason: Some(SubagentEnd::Completed),
            told: true,
            ..child("p", name)
        };
        put(&*store, child("p", "running"));
        put(&*store, ended("waiting"));
        put(&*store, SubagentRecord { delivered: true, expires_ms: 500, ..ended("late") });
        put(&*store, SubagentRecord { delivered: true, gone: true, ..ended("over") });
        put(&*store, child("q", "other"));
        store.close();
        drop(store);
        let store = open(dir.path()).unwrap();
        assert_eq!(names(store.subagents("p", false).unwrap()), ["late", "over", "running", "waiting"]);
        assert_eq!(names(store.subagents("p", true).unwrap()), ["waiting"]);
        let due = |now| {
            let mut due = names(store.subagents_due(now).unwrap());
            due.sort();
            due
        };
        assert_eq!(due(99), ["other", "running"]);
        assert_eq!(due(100), ["other", "running", "waiting"]);
        assert_eq!(due(500), ["late", "other", "running", "waiting"]);
        assert_eq!(store.subagent("agent:main:subagent:over").unwrap().unwrap().result, None);
        // A late writing does not take back what was done.
        put(&*store, SubagentRecord { attempts: 2, ..child("p", "over") });
        let over = store.subagent("agent:main:subagent:over").unwrap().unwrap();
        assert!(over.gone && over.delivered && over.state == SubagentState::Ended);
    }

    #[test]
    fn a_deleted_session_forgets_the_children_with_which_nothing_is_left_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path()).unwrap();
        let parent = SessionRecord::new(store.next_session(), "p", 1);
        let row = parent.row;
        write(&*store, vec![Write::CreateSession { record: parent }]);
        let ended = SubagentRecord { state: SubagentState::Ended, told: true, gone: true, ..child("p", "over") };
        put(&*store, ended);
        put(&*store, SubagentRecord { state: SubagentState::Ended, gone: true, ..child("p", "owed") });
        write(&*store, vec![Write::DeleteSession { session: row }]);
        assert_eq!(names(store.subagents("p", false).unwrap()), ["owed"]);
        write(&*store, vec![Write::SubagentForget("agent:main:subagent:owed".into())]);
        assert_eq!(names(store.subagents("p", false).unwrap()), Vec::<String>::new());
    }
}
