//! Services for the benches of engines that keep something: a store in SQLite, and the tokenizer of the offline model.

use engine_abi::wire::{cursor_outcome, service};
use engineroom::model::{OFFLINE_MODEL, TokenCounter};
use engineroom::slot::{
    CallScope, CursorPage, CursorRequest, HostServices, ServiceError, ServiceStatus, StoreOp, StorePairs, TokenCount,
};
use engineroom::transcript::EngineOp;
use rusqlite::{Connection, OptionalExtension, params};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// See the module. Every batch is one transaction; nothing is synced, since the disk is not what is measured.
pub struct Kept {
    store: Mutex<Connection>,
    counter: TokenCounter,
}

impl Kept {
    /// A store in this file.
    pub fn new(file: &Path) -> Kept {
        let store = Connection::open(file).expect("a database");
        store
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;
                 CREATE TABLE IF NOT EXISTS kept (own INTEGER, key BLOB, value BLOB, PRIMARY KEY (own, key)) WITHOUT ROWID;",
            )
            .expect("a table");
        Kept { store: Mutex::new(store), counter: TokenCounter::for_model(OFFLINE_MODEL) }
    }

    /// Bytes of all keys and values.
    pub fn bytes(&self) -> u64 {
        let sum = "SELECT coalesce(sum(length(key) + length(value)), 0) FROM kept";
        let bytes: i64 = self.store().query_row(sum, [], |row| row.get(0)).expect("a sum");
        u64::try_from(bytes).expect("a sum of lengths")
    }

    fn store(&self) -> MutexGuard<'_, Connection> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[allow(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn failed(error: rusqlite::Error) -> ServiceError {
    ServiceError::new(ServiceStatus::Failed, error.to_string())
}

/// The first key behind every key with this prefix; `None` where there is none.
fn behind(prefix: &[u8]) -> Option<Vec<u8>> {
    let end = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut key = prefix[..=end].to_vec();
    key[end] += 1;
    Some(key)
}

impl HostServices for Kept {
    fn available(&self, service_id: &str) -> bool {
        [service::STORE, service::TOKENS, service::TRANSCRIPT].contains(&service_id)
    }

    fn count_tokens(&self, _: &CallScope<'_>, text: &str) -> Result<TokenCount, ServiceError> {
        Ok(TokenCount { tokens: self.counter.text(text), estimated: false })
    }

    /// Nothing is new: what an engine knows, it has from its store.
    fn read_transcript(&self, _: &CallScope<'_>, _: CursorRequest) -> Result<CursorPage, ServiceError> {
        Ok(CursorPage {
            outcome: cursor_outcome::PAGE,
            reset_reason: 0,
            has_more: false,
            cursor: None,
            entries: Vec::new(),
            serialized_bytes: 0,
            required_bytes: 0,
        })
    }

    fn store_get(&self, _: &CallScope<'_>, own: bool, key: &[u8]) -> Result<Option<Vec<u8>>, ServiceError> {
        let store = self.store();
        let mut get = store.prepare_cached("SELECT value FROM kept WHERE own = ?1 AND key = ?2").map_err(failed)?;
        get.query_row(params![own, key], |row| row.get(0)).optional().map_err(failed)
    }

    fn store_scan(
        &self,
        _: &CallScope<'_>,
        own: bool,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<StorePairs, ServiceError> {
        let store = self.store();
        let mut scan = store
            .prepare_cached(
                "SELECT key, value FROM kept WHERE own = ?1 AND key >= ?2 AND key > ?3 AND (?4 IS NULL OR key < ?4)
                 ORDER BY key LIMIT ?5",
            )
            .map_err(failed)?;
        let (after, limit) = (after.unwrap_or_default(), i64::try_from(limit).unwrap_or(i64::MAX));
        let pairs = scan
            .query_map(params![own, prefix, after, behind(prefix), limit], |row| Ok((row.get(0)?, row.get(1)?)))
            .map_err(failed)?;
        pairs.collect::<Result<_, _>>().map_err(failed)
    }

    fn store_batch(&self, _: &CallScope<'_>, ops: Vec<StoreOp>) -> Result<(), ServiceError> {
        let mut store = self.store();
        let batch = store.transaction().map_err(failed)?;
        for StoreOp { engine_scope: own, op } in ops {
            let get = "SELECT value FROM kept WHERE own = ?1 AND key = ?2";
            let there = |key: &[u8]| {
                batch.query_row(get, params![own, key], |row| row.get::<_, Vec<u8>>(0)).optional().map_err(failed)
            };
            let refused = || Err(ServiceError::new(ServiceStatus::Refused, "a requirement does not hold"));
            let done = match op {
                EngineOp::Put(key, value) => batch
                    .prepare_cached("INSERT OR REPLACE INTO kept VALUES (?1, ?2, ?3)")
                    .and_then(|mut put| put.execute(params![own, key, value])),
                EngineOp::Delete(key) => {
                    batch.execute("DELETE FROM kept WHERE own = ?1 AND key = ?2", params![own, key])
                }
                EngineOp::DeletePrefix(prefix) => batch.execute(
                    "DELETE FROM kept WHERE own = ?1 AND key >= ?2 AND (?3 IS NULL OR key < ?3)",
                    params![own, prefix, behind(&prefix)],
                ),
                EngineOp::RequireAbsent(key) if there(&key)?.is_some() => return refused(),
                EngineOp::RequireEqual(key, value) if there(&key)? != Some(value.clone()) => return refused(),
                EngineOp::RequireAbsent(_) | EngineOp::RequireEqual(..) => Ok(0),
            };
            done.map_err(failed)?;
        }
        batch.commit().map_err(failed)
    }
}
