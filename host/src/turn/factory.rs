//! What a factory may call: an engine that is being made has no session yet.

use super::services::{refused, store_error};
use crate::model::TokenCounter;
use crate::slot::{CallScope, HostServices, ServiceError, StoreOp, TokenCount};
use crate::transcript::{EngineScope, Store, Submission, Write};
use engine_abi::wire::service;
use std::sync::Arc;

/// Token counting, and the store's scope that belongs to the engine itself.
pub(super) struct FactoryServices {
    store: Arc<dyn Store>,
    counter: TokenCounter,
}

impl FactoryServices {
    pub(super) fn new(store: Arc<dyn Store>, counter: TokenCounter) -> FactoryServices {
        FactoryServices { store, counter }
    }
}

impl HostServices for FactoryServices {
    fn available(&self, service_id: &str) -> bool {
        matches!(service_id, service::TOKENS | service::STORE)
    }

    fn count_tokens(&self, _scope: &CallScope<'_>, text: &str) -> Result<TokenCount, ServiceError> {
        Ok(TokenCount { tokens: self.counter.text(text), estimated: self.counter.estimated() })
    }

    fn store_get(
        &self,
        scope: &CallScope<'_>,
        engine_scope: bool,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, ServiceError> {
        own_scope(engine_scope)?;
        self.store.engine_get(scope.engine_id, EngineScope::Engine, key).map_err(store_error)
    }

    fn store_scan(
        &self,
        scope: &CallScope<'_>,
        engine_scope: bool,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>, ServiceError> {
        own_scope(engine_scope)?;
        self.store.engine_scan(scope.engine_id, EngineScope::Engine, prefix, after, limit).map_err(store_error)
    }

    fn store_batch(&self, scope: &CallScope<'_>, ops: Vec<StoreOp>) -> Result<(), ServiceError> {
        if ops.is_empty() {
            return Ok(());
        }
        own_scope(ops.iter().all(|op| op.engine_scope))?;
        let ops = ops.into_iter().map(|op| op.op).collect();
        let batch = Write::EngineBatch { engine: scope.engine_id.to_owned(), scope: EngineScope::Engine, ops };
        let ack = self.store.submit(Submission { lease: None, writes: vec![batch] });
        ack.durable_blocking(scope.deadline).map_err(store_error)
    }
}

fn own_scope(engine_scope: bool) -> Result<(), ServiceError> {
    if engine_scope { Ok(()) } else { Err(refused("a factory has no session")) }
}
