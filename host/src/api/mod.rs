//! The doors for programs: HTTP in the dialects of the clients.
//!
//! ```text
//!  connection ──► guard: Host, Origin, token ──► route ──► the gateway ──► answer in the dialect of the endpoint
//!                   └──► 403, 401                  └──► 404, 405
//! ```
//!
//! No rule about engines or turns lives here: a request is read, handed on, and what comes back is rendered.

mod body;
mod chat;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod guard;
mod models;
mod paths;
mod serve;
mod sessions;
mod sse;
mod status;
mod store;
mod subagents;
#[cfg(test)]
mod tests;

pub use error::ApiError;
pub use serve::serve;

use crate::gateway::Gateway;
use crate::observe::{Metrics, broken};
use axum::Router;
use axum::http::{Method, Uri};
use axum::middleware;
use axum::routing::{any, get, post};
use guard::Guard;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The doors of one gateway.
pub struct Api {
    gateway: Arc<Gateway>,
    metrics: Arc<Metrics>,
    guard: Guard,
    stopping: AtomicBool,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").field("guard", &self.guard).finish_non_exhaustive()
    }
}

impl Api {
    /// Doors to this gateway. Reads the token from its variable.
    ///
    /// # Errors
    /// [`ApiError::Token`] when a token is configured but its variable is not set.
    pub fn new(gateway: Arc<Gateway>) -> Result<Arc<Api>, ApiError> {
        let config = &gateway.config.gateway;
        let token = config.token().map_err(ApiError::Token)?;
        let guard = Guard::new(config.listen, token.as_deref());
        let metrics = Arc::clone(&gateway.metrics);
        Ok(Arc::new(Api { gateway, metrics, guard, stopping: AtomicBool::new(false) }))
    }

    fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

/// All routes. [`serve()`] serves them; a program may also call them in its own process.
pub fn router(api: Arc<Api>) -> Router {
    let mut router = Router::new();
    if broken("latches") {
        router = router.route("/api/test/latches", post(status::reset_latches));
    }
    router
        .route("/v1/chat/completions", post(chat::completions))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*id}", get(models::one))
        .route("/healthz", get(status::healthz))
        .route("/readyz", get(status::readyz))
        .route("/metrics", get(status::metrics))
        .route("/api/engines", get(status::engines))
        .route("/api/engines/{*id}", get(status::engine))
        .route("/api/store", get(store::store))
        .route("/api/sessions", get(sessions::list))
        .route("/api/sessions/{*rest}", any(sessions::one))
        .fallback(|uri: Uri| async move { ApiError::NoRoute { path: uri.path().to_owned() } })
        .method_not_allowed_fallback(|method: Method, uri: Uri| async move {
            ApiError::Method { method: method.to_string(), path: uri.path().to_owned(), allow: "" }
        })
        .layer(middleware::from_fn_with_state(Arc::clone(&api), guard::check))
        .with_state(api)
}
