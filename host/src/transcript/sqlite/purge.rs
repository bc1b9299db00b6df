//! Taking away what a session leaves behind, in parts: a session may be huge, and everybody's writes go through one writer.
//!
//! ```text
//!  delete:  the session's row goes at once, so nothing of it is seen any more; what it leaves is marked in `meta`,
//!           and the writer takes it away part by part whenever nothing else waits, after a restart, too
//!  reset:   the session stays and is in use again soon, so whoever resets it submits part after part; what a crash left of
//!           a scope goes before anything else is written
//! ```

use super::apply::run;
use super::{backend, schema};
use crate::transcript::{SessionRow, StoreError};
use rusqlite::Connection;
use std::collections::VecDeque;

/// Most rows of a table that go in one part.
pub(super) const PART: i64 = 500;

const SCOPE: &str = "DELETE FROM engine_kv WHERE (scope, engine, key) IN
    (SELECT scope, engine, key FROM engine_kv WHERE scope = ?1 LIMIT ?2)";
const WHOLE: [&str; 4] = [
    SCOPE,
    "DELETE FROM entries WHERE id IN (SELECT id FROM entries WHERE session = ?1 LIMIT ?2)",
    "DELETE FROM frozen WHERE (session, entry) IN (SELECT session, entry FROM frozen WHERE session = ?1 LIMIT ?2)",
    "DELETE FROM turns WHERE (session, turn_id) IN (SELECT session, turn_id FROM turns WHERE session = ?1 LIMIT ?2)",
];

/// What of a session goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// Everything that hangs on it.
    Session,
    /// What engines keep of it.
    Scope,
}

impl What {
    fn mark(self, session: SessionRow) -> String {
        match self {
            What::Session => format!("dropping:{session}"),
            What::Scope => format!("dropping_scope:{session}"),
        }
    }
}

/// Takes the next part away; true when that was the last. The mark comes and goes with it.
pub(super) fn part(conn: &Connection, session: SessionRow, what: What) -> Result<bool, StoreError> {
    let tables: &[&str] = match what {
        What::Session => &WHOLE,
        What::Scope => &[SCOPE],
    };
    let mut last = true;
    for sql in tables {
        let gone = run(conn, sql, (session as i64, PART))?;
        last &= i64::try_from(gone).is_ok_and(|gone| gone < PART);
    }
    let mark = what.mark(session);
    if last {
        run(conn, "DELETE FROM meta WHERE name = ?1", [mark])?;
    } else {
        schema::set_meta(conn, &mark, session).map_err(backend)?;
    }
    Ok(last)
}

/// True while a part of this is left.
pub(super) fn is_left(conn: &Connection, session: SessionRow, what: What) -> Result<bool, StoreError> {
    Ok(schema::meta(conn, &what.mark(session)).map_err(backend)? != 0)
}

/// What an earlier process did not finish: scopes of living sessions now, the rest of deleted sessions later.
pub(super) fn resume(conn: &mut Connection) -> Result<VecDeque<SessionRow>, StoreError> {
    for session in marked(conn, "dropping_scope:")? {
        loop {
            let part_of = conn.transaction().map_err(backend)?;
            let last = part(&part_of, session, What::Scope)?;
            part_of.commit().map_err(backend)?;
            if last {
                break;
            }
        }
    }
    marked(conn, "dropping:").map(VecDeque::from)
}

fn marked(conn: &Connection, prefix: &str) -> Result<Vec<SessionRow>, StoreError> {
    let mut statement = conn.prepare("SELECT value FROM meta WHERE name GLOB ?1 || '*'").map_err(backend)?;
    let rows = statement.query_map([prefix], |row| row.get::<_, i64>(0)).map_err(backend)?;
    rows.map(|row| row.map(|row| row as SessionRow)).collect::<Result<_, _>>().map_err(backend)
}
