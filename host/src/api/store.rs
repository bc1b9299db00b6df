//! The store's own account: whether it can be written to, its numbers, and what a look at the whole of it finds.

use super::{Api, ApiError};
use crate::diagnostic::{Diagnostic, Report};
use crate::transcript::{Store, StoreError, Submission, Write};
use axum::Json;
use axum::extract::{Query, State};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for a write that only asks whether writing works.
const PROBE: Duration = Duration::from_secs(2);
/// Most findings of a check.
const MOST: usize = 100;

#[derive(Debug, Default, Deserialize)]
pub(super) struct Ask {
    /// Read all of it.
    #[serde(default)]
    check: bool,
}

/// `GET /api/store`.
pub(super) async fn store(State(api): State<Arc<Api>>, Query(ask): Query<Ask>) -> Result<Json<Value>, ApiError> {
    let store = Arc::clone(&api.gateway.store);
    let health = health(&store).await;
    let folder = api.gateway.config.gateway.state_dir.clone();
    let looked = tokio::task::spawn_blocking(move || {
        let problems = ask.check.then(|| store.check(MOST)).transpose();
        (store.disk_bytes(), store.stats(), problems)
    });
    let (bytes, stats, problems) =
        looked.await.map_err(|cause| ApiError::Internal(format!("the store was not looked at: {cause}")))?;
    Ok(Json(json!({
        "stateDir": folder,
        "bytes": bytes,
        "status": if health.is_some() { "degraded" } else { "ok" },
        "trouble": health,
        "stats": stats,
        "problems": problems?,
    })))
}

/// What is wrong with the store now. One whose last write failed is asked once more: the disk may be free again, and nobody else
/// may have asked since.
pub(super) async fn health(store: &Arc<dyn Store>) -> Option<Report> {
    match store.health() {
        None => return None,
        Some(damage @ StoreError::Damaged { .. }) => return Some(damage.report()),
        Some(_) => {}
    }
    let probe = store.submit(Submission { lease: None, writes: vec![Write::Probe] });
    match tokio::time::timeout(PROBE, probe.durable()).await {
        Ok(Ok(())) => store.health().map(|error| error.report()),
        Ok(Err(error)) => Some(error.report()),
        Err(_) => Some(store.health().unwrap_or(StoreError::Deadline).report()),
    }
}
