//! The doors for programs: HTTP in the dialects of the clients.
//!
//! ```text
//!  connection: times, head ──► guard: Host, Origin, token, a place ──► route ──► the gateway ──► answer in the dialect
//!      └──► 408, 414, 431, 503    └──► 403, 401, 503                     └──► 404, 405
//! ```
//!
//! No rule about engines or turns lives here: a request is read, handed on, and what comes back is rendered.

mod body;
mod caller;
mod chat;
mod connection;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod guard;
mod limits;
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
pub(crate) use status::nobody_serves;

use crate::gateway::Gateway;
use crate::observe::{Metrics, broken};
use axum::Router;
use axum::http::{Method, Uri};
use axum::middleware;
use axum::routing::{MethodRouter, any, get, post};
use guard::Guard;
use limits::Limits;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The doors of one gateway.
pub struct Api {
    gateway: Arc<Gateway>,
    metrics: Arc<Metrics>,
    guard: Guard,
    limits: Limits,
    stopping: AtomicBool,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").field("guard", &self.guard).field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl Api {
    /// Doors to this gateway. Reads the tokens from their variables and files.
    ///
    /// # Errors
    /// [`ApiError::Token`] when a token is configured but cannot be read, or is too weak.
    pub fn new(gateway: Arc<Gateway>) -> Result<Arc<Api>, ApiError> {
        let config = &gateway.config.gateway;
        let tokens = config.tokens().map_err(ApiError::Token)?;
        let guard = Guard::new(config.listen, &config.hosts, &tokens, &config.open_agents);
        let limits = Limits::new(&gateway.config);
        let metrics = Arc::clone(&gateway.metrics);
        Ok(Arc::new(Api { gateway, metrics, guard, limits, stopping: AtomicBool::new(false) }))
    }

    fn stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

/// What a route tells of sessions, and so who may use it. A route is made with one of these, and a test asks each of them for
/// what a client may not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tells {
    /// Nothing: whoever comes in may use it.
    Nothing,
    /// Of the gateway as a whole: the operator's.
    Operator,
    /// Of the session that a header, or the body, names.
    Named,
    /// Of the session that the path names.
    InPath,
    /// Which sessions there are: those of the caller's agents.
    List,
}

/// Every route.
fn routes() -> Vec<(&'static str, Tells, MethodRouter<Arc<Api>>)> {
    let mut routes = vec![
        ("/v1/chat/completions", Tells::Named, post(chat::completions)),
        ("/v1/models", Tells::Nothing, get(models::list)),
        ("/v1/models/{*id}", Tells::Nothing, get(models::one)),
        ("/healthz", Tells::Nothing, get(status::healthz)),
        ("/readyz", Tells::Nothing, get(status::readyz)),
        ("/metrics", Tells::Operator, get(status::metrics)),
        ("/api/engines", Tells::Operator, get(status::engines)),
        ("/api/engines/{*id}", Tells::Operator, get(status::engine)),
        ("/api/store", Tells::Operator, get(store::store)),
        ("/api/sessions", Tells::List, get(sessions::list)),
        ("/api/sessions/{*rest}", Tells::InPath, any(sessions::one)),
    ];
    if broken("latches") {
        routes.push(("/api/test/latches", Tells::Operator, post(status::reset_latches)));
    }
    routes
}

/// All routes. [`serve()`] serves them; a program may also call them in its own process.
pub fn router(api: Arc<Api>) -> Router {
    let mut router = Router::new();
    for (path, tells, handler) in routes() {
        let handler = match tells {
            Tells::Operator => handler.layer(middleware::from_fn(guard::operator)),
            _ => handler,
        };
        router = router.route(path, handler);
    }
    router
        .fallback(|uri: Uri| async move { ApiError::NoRoute { path: uri.path().to_owned() } })
        .method_not_allowed_fallback(|method: Method, uri: Uri| async move {
            ApiError::Method { method: method.to_string(), path: uri.path().to_owned(), allow: "" }
        })
        .layer(middleware::from_fn_with_state(Arc::clone(&api), guard::check))
        .with_state(api)
}
