//! What should be there and is not. Neither SQLite nor a sum misses a row that is gone; what is left of its neighbours does.

use super::{backend, reading};
use crate::transcript::StoreError;
use rusqlite::Connection;
use rusqlite::types::Value;

/// Sessions that are being taken away, part by part: what of them is left says nothing.
const LEAVING: &str = "(SELECT value FROM meta WHERE name GLOB 'dropping:*')";

/// Rows that others name, or that were counted, and that are not there; at most about so many lines. Each question is asked in
/// one statement, so that a gateway may go on writing meanwhile.
pub(super) fn rows(conn: &Connection, most: usize) -> Result<Vec<String>, StoreError> {
    let mut found = Vec::new();
    let mut ask = |sql: &str, line: &dyn Fn(i64, i64, i64) -> String| -> Result<(), StoreError> {
        let mut statement = conn.prepare(sql).map_err(backend)?;
        let mut rows = statement.query([]).map_err(backend)?;
        while found.len() < most {
            let Some(row) = rows.next().map_err(backend)? else { break };
            let number = |at: usize| row.get::<_, i64>(at).map_err(backend);
            found.push(line(number(0)?, number(1)?, number(2)?));
        }
        Ok(())
    };
    let gaps = format!(
        "SELECT e.id, e.session, e.parent FROM entries AS e
             LEFT JOIN entries AS p ON p.id = e.parent AND p.session = e.session
         WHERE e.parent <> 0 AND p.id IS NULL AND e.session NOT IN {LEAVING}"
    );
    ask(&gaps, &|id, session, parent| format!("entry {parent} of session {session}, before entry {id}, is missing"))?;
    let nameless = format!(
        "SELECT session, count(*), 0 FROM entries
         WHERE session NOT IN (SELECT row FROM sessions) AND session NOT IN {LEAVING} GROUP BY session"
    );
    ask(&nameless, &|session, entries, _| format!("session {session}, with {entries} entries, is missing"))?;
    // Entries only ever go with their session.
    let counted = "SELECT s.row, s.entries, ifnull(e.there, 0) FROM sessions AS s
             LEFT JOIN (SELECT session, count(*) AS there FROM entries GROUP BY session) AS e ON e.session = s.row
         WHERE s.entries <> ifnull(e.there, 0)";
    ask(counted, &|session, entries, there| format!("session {session} had {entries} entries, and {there} are there"))?;
    // Without its counters a store would give the same ids again.
    for (name, used) in [
        ("epoch", "SELECT max(lease) FROM sessions"),
        ("sessions_reserved", "SELECT max(row) FROM sessions"),
        ("entries_reserved", "SELECT max(id) FROM entries"),
    ] {
        let sql = format!(
            "SELECT ifnull(value, 0), used, value IS NULL
             FROM (SELECT (SELECT value FROM meta WHERE name = '{name}') AS value, ({used}) AS used)
             WHERE used IS NOT NULL AND (value IS NULL OR value < used)"
        );
        ask(&sql, &|value, used, absent| match absent {
            0 => format!("the counter {name} says {value}, and {used} was given already"),
            _ => format!("the counter {name} is missing"),
        })?;
    }
    Ok(found)
}

/// Rows of the tables without sums that cannot be read as what they are.
pub(super) fn unreadable(conn: &Connection, most: usize) -> Result<Vec<String>, StoreError> {
    let mut found = Vec::new();
    let summed = |name: &str| matches!(name, "sessions" | "entries");
    for table in reading::tables().iter().filter(|table| !summed(table.name)) {
        let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
        let mut statement =
            conn.prepare(&format!("SELECT {} FROM {}", names.join(", "), table.name)).map_err(backend)?;
        let mut rows = statement.query([]).map_err(backend)?;
        while found.len() < most {
            let Some(row) = rows.next().map_err(backend)? else { break };
            let value = |at: usize| row.get::<_, Value>(at).unwrap_or(Value::Null);
            let row: Vec<Value> = (0..names.len()).map(value).collect();
            found.extend(table.readable(&row).err());
        }
    }
    Ok(found)
}
