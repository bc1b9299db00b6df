//! A store of engines in memory, for hosts that are made up: pairs by scope, changed in batches that apply whole or not at all.

use super::services::{ServiceError, ServiceStatus, StoreOp, StorePairs};
use crate::transcript::EngineOp;
use std::collections::BTreeMap;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pairs<S>(BTreeMap<(S, Vec<u8>), Vec<u8>>);

impl<S> Default for Pairs<S> {
    fn default() -> Pairs<S> {
        Pairs(BTreeMap::new())
    }
}

impl<S: Ord + Clone> Pairs<S> {
    pub(crate) fn get(&self, scope: &S, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(&(scope.clone(), key.to_vec())).cloned()
    }

    pub(crate) fn scan(&self, scope: &S, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> StorePairs {
        let wanted = |key: &[u8]| key.starts_with(prefix) && after.is_none_or(|after| key > after);
        let pairs = self.0.iter().filter(|((of, key), _)| of == scope && wanted(key));
        pairs.take(limit).map(|((_, key), value)| (key.clone(), value.clone())).collect()
    }

    /// All or nothing.
    pub(crate) fn batch(&mut self, scope: impl Fn(bool) -> S, ops: Vec<StoreOp>) -> Result<(), ServiceError> {
        let mut next = self.0.clone();
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
        self.0 = next;
        Ok(())
    }

    pub(crate) fn drop_scope(&mut self, scope: &S) {
        self.0.retain(|(of, _), _| of != scope);
    }

    /// Scope and key where these bytes stand, in a key or a value.
    pub(crate) fn find(&self, bytes: &[u8]) -> Option<(&S, &[u8])> {
        let holds = |text: &[u8]| memchr::memmem::find(text, bytes).is_some();
        let found = self.0.iter().find(|((_, key), value)| holds(key) || holds(value));
        found.map(|((scope, key), _)| (scope, key.as_slice()))
    }
}
