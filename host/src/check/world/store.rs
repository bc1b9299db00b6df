//! The engines' store: pairs by scope, changed in batches that apply whole or not at all.

use crate::slot::{ServiceError, ServiceStatus, StoreOp};
use crate::transcript::EngineOp;
use std::collections::BTreeMap;

/// Whose keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::check) enum Scope {
    /// The engine's own.
    Engine,
    /// A session's, by its key, or the id of one without a key.
    Session(String),
}

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::check) struct Store {
    pairs: BTreeMap<(Scope, Vec<u8>), Vec<u8>>,
    /// Batches that were applied.
    pub(in crate::check) batches: u64,
}

impl Store {
    pub(in crate::check) fn get(&self, scope: &Scope, key: &[u8]) -> Option<Vec<u8>> {
        self.pairs.get(&(scope.clone(), key.to_vec())).cloned()
    }

    pub(in crate::check) fn scan(
        &self,
        scope: &Scope,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Vec<(Vec<u8>, Vec<u8>)> {
        let wanted = |key: &[u8]| key.starts_with(prefix) && after.is_none_or(|after| key > after);
        let pairs = self.pairs.iter().filter(|((of, key), _)| of == scope && wanted(key));
        pairs.take(limit).map(|((_, key), value)| (key.clone(), value.clone())).collect()
    }

    /// All or nothing.
    pub(in crate::check) fn batch(
        &mut self,
        scope: impl Fn(bool) -> Scope,
        ops: Vec<StoreOp>,
    ) -> Result<(), ServiceError> {
        let mut next = self.pairs.clone();
        for StoreOp { engine_scope, op } in ops {
            let of = scope(engine_scope);
            let holds = match op {
                EngineOp::Put(key, value) => {
                    next.insert((of, key), value);
                    true
                }
                EngineOp::Delete(key) => {
                    next.remove(&(of, key));
                    true
                }
                EngineOp::DeletePrefix(prefix) => {
                    next.retain(|(one, key), _| *one != of || !key.starts_with(&prefix));
                    true
                }
                EngineOp::RequireAbsent(key) => !next.contains_key(&(of, key)),
                EngineOp::RequireEqual(key, value) => next.get(&(of, key)) == Some(&value),
            };
            if !holds {
                return Err(ServiceError::new(ServiceStatus::Refused, "a requirement of the batch does not hold"));
            }
        }
        self.pairs = next;
        self.batches += 1;
        Ok(())
    }

    pub(in crate::check) fn drop_scope(&mut self, scope: &Scope) {
        self.pairs.retain(|(of, _), _| of != scope);
    }

    /// Pairs of every scope, without the count of batches.
    pub(in crate::check) fn content(&self) -> &BTreeMap<(Scope, Vec<u8>), Vec<u8>> {
        &self.pairs
    }

    /// Where these bytes stand, in a key or a value.
    pub(in crate::check) fn find(&self, bytes: &[u8]) -> Option<String> {
        let holds = |text: &[u8]| memchr::memmem::find(text, bytes).is_some();
        let found = self.pairs.iter().find(|((_, key), value)| holds(key) || holds(value));
        found.map(|((scope, key), _)| {
            let whose = match scope {
                Scope::Engine => "the engine's scope",
                Scope::Session(_) => "a session's scope",
            };
            format!("{whose} of the store, at the key {:?}", String::from_utf8_lossy(key))
        })
    }
}
