//! The engine's durable store, as a hook sees it: writes are collected, reads see them, one batch makes them durable.

use crate::error::ServiceError;
use crate::wire::{Bytes, StoreOpV1, store_op};
use crate::{Context, Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// One scope of the store: of the session of the call, or of the engine.
///
/// Deleting a session drops its scope. Keys have 1 to 1,024 bytes, values at most 16 MiB.
pub struct Store<'a> {
    pub(crate) context: &'a Context,
    pub(crate) engine_scope: bool,
}

/// A key with its value.
pub type Pair = (Vec<u8>, Vec<u8>);

impl Store<'_> {
    /// Value of `key`.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        match self.context.writes.borrow().lookup(self.engine_scope, key) {
            Some(written) => Ok(written.map(<[u8]>::to_vec)),
            None => Ok(self.context.store_get(self.engine_scope, key)?),
        }
    }

    /// Value of `key`, which is JSON.
    ///
    /// # Errors
    ///
    /// When the store cannot be read, or the value is not a `T`.
    pub fn get_json<T: DeserializeOwned>(&self, key: impl AsRef<[u8]>) -> Result<Option<T>> {
        Ok(self.get(key)?.map(|value| serde_json::from_slice(&value)).transpose()?)
    }

    /// Up to `limit` pairs whose key starts with `prefix` and is greater than `after`, in byte order.
    ///
    /// # Errors
    ///
    /// When the store cannot be read.
    pub fn scan(&self, prefix: impl AsRef<[u8]>, after: Option<&[u8]>, limit: usize) -> Result<Vec<Pair>> {
        let prefix = prefix.as_ref();
        let mut found: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
        let mut from = after.map(<[u8]>::to_vec);
        let writes = self.context.writes.borrow();
        // Rows of the store that this call has removed make room for later ones, so pages are read until enough are
        // left.
        loop {
            let page = self.context.store_scan(self.engine_scope, prefix, from.as_deref(), limit)?;
            let last_page = page.len() < limit;
            from = page.last().map(|(key, _)| key.clone());
            found.extend(page.into_iter().filter(|(key, _)| writes.lookup(self.engine_scope, key).is_none()));
            if last_page || found.len() >= limit {
                break;
            }
        }
        for (key, value) in writes.written(self.engine_scope, prefix) {
            let past_the_page = found.len() >= limit && found.last_key_value().is_some_and(|(last, _)| last < key);
            if after.is_none_or(|after| key.as_slice() > after) && !past_the_page {
                found.insert(key.clone(), value.to_vec());
            }
        }
        Ok(found.into_iter().take(limit).collect())
    }

    /// Sets `key` to `value`.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.write(store_op::PUT, key.as_ref(), value.as_ref());
    }

    /// Sets `key` to `value` as JSON.
    ///
    /// # Errors
    ///
    /// When `value` cannot be JSON.
    pub fn put_json(&self, key: impl AsRef<[u8]>, value: &impl Serialize) -> Result<()> {
        self.put(key, serde_json::to_vec(value)?);
        Ok(())
    }

    /// Removes `key`; a missing key is no error.
    pub fn delete(&self, key: impl AsRef<[u8]>) {
        self.write(store_op::DELETE, key.as_ref(), &[]);
    }

    /// Removes every key that starts with `prefix`.
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) {
        self.write(store_op::DELETE_PREFIX, prefix.as_ref(), &[]);
    }

    /// The batch fails unless `key` is absent in the store.
    pub fn require_absent(&self, key: impl AsRef<[u8]>) {
        self.write(store_op::REQUIRE_ABSENT, key.as_ref(), &[]);
    }

    /// The batch fails unless `key` holds exactly `value` in the store.
    pub fn require_equal(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.write(store_op::REQUIRE_EQUAL, key.as_ref(), value.as_ref());
    }

    /// Makes what was written so far durable, all or nothing. Done by the SDK when the hook returns `Ok`. Inside the
    /// default `commit_turn` it waits for the end of the turn, so that the turn stays one batch.
    ///
    /// # Errors
    ///
    /// When the batch is refused or cannot be written; nothing of it is in the store then.
    pub fn commit(&self) -> Result<()> {
        if self.context.one_batch.get() {
            return Ok(());
        }
        Ok(self.context.flush()?)
    }

    fn write(&self, op: u32, key: &[u8], value: &[u8]) {
        self.context.writes.borrow_mut().push(self.engine_scope, op, key, value);
    }
}

/// The writes of a call that are not in the store yet.
#[derive(Default)]
pub(crate) struct Writes {
    ops: Vec<Op>,
    /// What each touched key holds now; `None` when it is removed.
    now: BTreeMap<(bool, Vec<u8>), Option<Vec<u8>>>,
    wiped: Vec<(bool, Vec<u8>)>,
}

struct Op {
    op: u32,
    engine_scope: bool,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Writes {
    fn push(&mut self, engine_scope: bool, op: u32, key: &[u8], value: &[u8]) {
        match op {
            store_op::PUT => drop(self.now.insert((engine_scope, key.to_vec()), Some(value.to_vec()))),
            store_op::DELETE => drop(self.now.insert((engine_scope, key.to_vec()), None)),
            store_op::DELETE_PREFIX => {
                self.now.retain(|(scope, other), _| *scope != engine_scope || !other.starts_with(key));
                self.wiped.push((engine_scope, key.to_vec()));
            }
            _ => {}
        }
        self.ops.push(Op { op, engine_scope, key: key.to_vec(), value: value.to_vec() });
    }

    /// What this call knows of `key`: nothing, that it is gone, or its value.
    fn lookup(&self, engine_scope: bool, key: &[u8]) -> Option<Option<&[u8]>> {
        if let Some(value) = self.now.get(&(engine_scope, key.to_vec())) {
            return Some(value.as_deref());
        }
        let wiped = |(scope, prefix): &(bool, Vec<u8>)| *scope == engine_scope && key.starts_with(prefix);
        self.wiped.iter().any(wiped).then_some(None)
    }

    fn written<'a>(&'a self, engine_scope: bool, prefix: &'a [u8]) -> impl Iterator<Item = (&'a Vec<u8>, &'a [u8])> {
        self.now
            .range((engine_scope, prefix.to_vec())..)
            .take_while(move |((scope, key), _)| *scope == engine_scope && key.starts_with(prefix))
            .filter_map(|((_, key), value)| Some((key, value.as_deref()?)))
    }

    /// Hands the operations over and forgets them. No call of `send` when there are none.
    pub(crate) fn flush(
        &mut self,
        send: impl FnOnce(&[StoreOpV1]) -> Result<(), ServiceError>,
    ) -> Result<(), ServiceError> {
        let taken = std::mem::take(self);
        if taken.ops.is_empty() {
            return Ok(());
        }
        let ops: Vec<StoreOpV1> = taken
            .ops
            .iter()
            .map(|op| StoreOpV1 {
                op: op.op,
                engine_scope: op.engine_scope.into(),
                key: Bytes::new(&op.key),
                value: Bytes::new(&op.value),
            })
            .collect();
        send(&ops)
    }
}

/// Where the default `commit_turn` records that a turn is in.
const ADVANCED: &[u8] = b"engineroom/advanced/";

impl Context {
    /// What `commit_turn` does by default: unless the turn's key is in the store, hands every entry to `ingest` and
    /// records the key, all in one batch.
    ///
    /// # Errors
    ///
    /// When `ingest` fails or the batch cannot be written; nothing of the turn is in the store then.
    pub fn commit_once(
        &self,
        turn: &crate::CommitTurn,
        mut ingest: impl FnMut(&crate::Entry) -> Result<bool>,
    ) -> Result<crate::Committed> {
        let key = [ADVANCED, turn.advancement_key().as_bytes()].concat();
        let store = self.store();
        if store.get(&key)?.is_some() {
            return Ok(crate::Committed::Duplicate);
        }
        store.require_absent(&key);
        self.one_batch.set(true);
        for entry in turn.entries() {
            ingest(entry)?;
        }
        store.put(&key, []);
        self.one_batch.set(false);
        match self.flush() {
            Ok(()) => Ok(crate::Committed::Committed),
            // Another process may have committed the turn between the look-up and the batch.
            Err(error) if error.is_refused() && store.get(&key)?.is_some() => Ok(crate::Committed::Duplicate),
            Err(error) => Err(Error::from(error)),
        }
    }
}

impl Context {
    /// What `bootstrap` does by default: hands every entry that this engine was not given yet, up to the current turn, to
    /// `ingest`.
    ///
    /// # Errors
    ///
    /// When `ingest` fails, the transcript cannot be read, or the call is over.
    pub fn catch_up(&self, mut ingest: impl FnMut(&crate::Entry) -> Result<bool>) -> Result<crate::Bootstrapped> {
        let mut imported = 0;
        if self.offers(crate::wire::service::TRANSCRIPT) {
            let mut request = crate::CursorRequest::after_handed_over();
            loop {
                self.check()?;
                match self.read_transcript(&request)? {
                    crate::Page::Entries { entries, cursor, has_more, required_bytes } => {
                        for entry in entries {
                            imported += u64::from(ingest(entry)?);
                        }
                        if !has_more {
                            break;
                        }
                        if entries.is_empty() && request.max_bytes != 0 {
                            return Err(Error::new("an entry of the transcript is larger than any page"));
                        }
                        request.cursor = cursor;
                        // One entry that is larger than the usual page.
                        request.max_bytes = required_bytes.unwrap_or(0);
                    }
                    crate::Page::Reset { cursor, .. } => request.cursor = cursor,
                    _ => break,
                }
            }
        }
        Ok(crate::Bootstrapped { bootstrapped: true, imported_messages: Some(imported), reason: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_see_the_writes_of_the_call() {
        let mut writes = Writes::default();
        writes.push(false, store_op::PUT, b"a/1", b"one");
        writes.push(false, store_op::PUT, b"a/2", b"two");
        writes.push(false, store_op::DELETE, b"b", b"");
        assert_eq!(writes.lookup(false, b"a/1"), Some(Some(&b"one"[..])));
        assert_eq!(writes.lookup(true, b"a/1"), None);
        assert_eq!(writes.lookup(false, b"b"), Some(None));
        assert_eq!(writes.lookup(false, b"c"), None);

        writes.push(false, store_op::DELETE_PREFIX, b"a/", b"");
        writes.push(false, store_op::PUT, b"a/3", b"three");
        assert_eq!(writes.lookup(false, b"a/1"), Some(None));
        assert_eq!(writes.lookup(false, b"a/3"), Some(Some(&b"three"[..])));
        let left: Vec<_> = writes.written(false, b"a/").map(|(key, _)| key.clone()).collect();
        assert_eq!(left, [b"a/3".to_vec()]);
    }

    #[test]
    fn a_flush_keeps_the_order_and_leaves_nothing() {
        let mut writes = Writes::default();
        writes.push(true, store_op::REQUIRE_ABSENT, b"k", b"");
        writes.push(true, store_op::PUT, b"k", b"v");
        let mut seen = Vec::new();
        writes
            .flush(|ops| {
                seen = ops.iter().map(|op| (op.op, op.engine_scope, op.key.len, op.value.len)).collect();
                Ok(())
            })
            .unwrap();
        assert_eq!(seen, [(store_op::REQUIRE_ABSENT, 1, 1, 0), (store_op::PUT, 1, 1, 1)]);
        writes.flush(|_| panic!("nothing is left")).unwrap();
    }
}
