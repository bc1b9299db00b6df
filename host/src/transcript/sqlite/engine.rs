//! The engines' own store: keys and values by scope and engine, changed by atomic batches.
//!
//! A session's scope may exist without a stored session: an ephemeral turn uses one and drops it at its end.

use super::apply::run;
use super::{backend, schema};
use crate::transcript::{EngineOp, EnginePairs, EngineScope, SessionRow, StoreError};
use rusqlite::{Connection, OptionalExtension};

fn code(scope: EngineScope) -> i64 {
    match scope {
        EngineScope::Engine => 0,
        EngineScope::Session(row) => row as i64,
    }
}

/// Applies the operations in order: a requirement sees what stands before it in the batch.
pub(super) fn batch(conn: &Connection, engine: &str, scope: EngineScope, ops: &[EngineOp]) -> Result<(), StoreError> {
    let at = code(scope);
    for op in ops {
        match op {
            EngineOp::Put(key, value) => {
                let sql = "INSERT INTO engine_kv(scope, engine, key, value) VALUES(?1, ?2, ?3, ?4)
                           ON CONFLICT(scope, engine, key) DO UPDATE SET value = ?4";
                run(conn, sql, (at, engine, key, value))?;
            }
            EngineOp::Delete(key) => {
                run(conn, "DELETE FROM engine_kv WHERE scope = ?1 AND engine = ?2 AND key = ?3", (at, engine, key))?;
            }
            EngineOp::RequireAbsent(key) => {
                if get(conn, engine, scope, key)?.is_some() {
                    return Err(StoreError::Requirement);
                }
            }
            EngineOp::RequireEqual(key, value) => {
                if get(conn, engine, scope, key)?.as_deref() != Some(value) {
                    return Err(StoreError::Requirement);
                }
            }
            EngineOp::DeletePrefix(prefix) => match after_prefix(prefix) {
                Some(end) => {
                    let sql = "DELETE FROM engine_kv WHERE scope = ?1 AND engine = ?2 AND key >= ?3 AND key < ?4";
                    run(conn, sql, (at, engine, prefix, end))?;
                }
                None => {
                    let sql = "DELETE FROM engine_kv WHERE scope = ?1 AND engine = ?2 AND key >= ?3";
                    run(conn, sql, (at, engine, prefix))?;
                }
            },
        }
    }
    Ok(())
}

/// Drops a scope of one engine or of all.
pub(super) fn drop_scope(conn: &Connection, engine: Option<&str>, scope: EngineScope) -> Result<(), StoreError> {
    let at = code(scope);
    match engine {
        Some(engine) => run(conn, "DELETE FROM engine_kv WHERE scope = ?1 AND engine = ?2", (at, engine)),
        None => run(conn, "DELETE FROM engine_kv WHERE scope = ?1", [at]),
    }
    .map(|_| ())
}

/// Drops what ephemeral sessions of a process that was killed left behind: scopes without a session, of the rows from the
/// last check up to `until`, the first row of this process.
pub(super) fn drop_orphans(conn: &mut Connection, until: SessionRow) -> rusqlite::Result<()> {
    const CHECKED: &str = "orphans_checked_to";
    let from = schema::meta(conn, CHECKED)?.max(1);
    if from >= until {
        return Ok(());
    }
    let tx = conn.transaction()?;
    tx.execute(
        "DELETE FROM engine_kv WHERE scope >= ?1 AND scope < ?2 AND scope NOT IN (SELECT row FROM sessions WHERE row >= ?1)",
        (from as i64, until as i64),
    )?;
    schema::set_meta(&tx, CHECKED, until)?;
    tx.commit()
}

/// Value of a key.
pub(super) fn get(
    conn: &Connection,
    engine: &str,
    scope: EngineScope,
    key: &[u8],
) -> Result<Option<Vec<u8>>, StoreError> {
    conn.prepare_cached("SELECT value FROM engine_kv WHERE scope = ?1 AND engine = ?2 AND key = ?3")
        .and_then(|mut s| s.query_row((code(scope), engine, key), |row| row.get(0)).optional())
        .map_err(backend)
}

/// Pairs in byte order whose key starts with `prefix` and is greater than `after`, at most `limit`.
pub(super) fn scan(
    conn: &Connection,
    engine: &str,
    scope: EngineScope,
    prefix: &[u8],
    after: Option<&[u8]>,
    limit: usize,
) -> Result<EnginePairs, StoreError> {
    // The smallest key greater than `after` is `after` with a zero byte behind it.
    let next = after.map(|key| [key, &[0]].concat());
    let start = next.as_deref().map_or(prefix, |key| key.max(prefix));
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let end = after_prefix(prefix);
    let sql = if end.is_some() {
        "SELECT key, value FROM engine_kv WHERE scope = ?1 AND engine = ?2 AND key >= ?3 AND key < ?5 ORDER BY key LIMIT ?4"
    } else {
        "SELECT key, value FROM engine_kv WHERE scope = ?1 AND engine = ?2 AND key >= ?3 AND ?5 IS NULL ORDER BY key LIMIT ?4"
    };
    let mut statement = conn.prepare_cached(sql).map_err(backend)?;
    let rows = statement
        .query_map((code(scope), engine, start, limit, end), |row| Ok((row.get(0)?, row.get(1)?)))
        .map_err(backend)?;
    rows.collect::<Result<_, _>>().map_err(backend)
}

/// First byte string that is greater than every string with this prefix, if there is one.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix.get(..=last)?.to_vec();
    if let Some(byte) = end.last_mut() {
        *byte += 1;
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::after_prefix;

    #[test]
    fn the_end_of_a_prefix_carries_over_full_bytes() {
        assert_eq!(after_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(after_prefix(&[1, 0xff]), Some(vec![2]));
        assert_eq!(after_prefix(&[0xff, 0xff]), None);
        assert_eq!(after_prefix(b""), None);
    }
}
