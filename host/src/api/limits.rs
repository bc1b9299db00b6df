//! What is in work at once: requests, bytes of bodies, agents that no configuration names.
//!
//! A place is held by a guard that lives as long as what it stands for, so that it is free again on every path.

use super::{Api, ApiError};
use crate::config::Config;
use crate::slot::MAIN_AGENT;
use crate::transcript::Store;
use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places of one gateway.
#[derive(Debug)]
pub(super) struct Limits {
    requests: Arc<Semaphore>,
    most_requests: usize,
    /// Bytes of bodies that are being read.
    bytes: AtomicUsize,
    most_bytes: usize,
    /// Agents that the configuration names.
    named: HashSet<String>,
    most_unknown: usize,
    /// Those that it does not, and that have a session; read from the store when the first one comes.
    unknown: tokio::sync::Mutex<Option<HashSet<String>>>,
}

impl Limits {
    pub(super) fn new(config: &Config) -> Limits {
        let api = &config.api;
        let of_tokens = config.gateway.tokens.values().flat_map(|token| &token.agents);
        let named = config.agents.keys().chain(of_tokens).chain(&config.gateway.open_agents);
        Limits {
            requests: Arc::new(Semaphore::new(api.max_requests.min(Semaphore::MAX_PERMITS))),
            most_requests: api.max_requests,
            bytes: AtomicUsize::new(0),
            most_bytes: api.max_bodies_bytes,
            named: named.cloned().chain([MAIN_AGENT.to_owned()]).collect(),
            most_unknown: config.gateway.unknown_agents,
            unknown: tokio::sync::Mutex::new(None),
        }
    }

    /// A place for a request.
    ///
    /// # Errors
    /// [`ApiError::Busy`].
    pub(super) fn request(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        let place = Arc::clone(&self.requests).try_acquire_owned();
        place.map_err(|_| ApiError::Busy { what: "requests", most: self.most_requests, key: "[api] max_requests" })
    }

    #[cfg(test)]
    pub(super) fn bytes_read(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// That a session of this agent may be made: each agent has a folder and an instance of every engine, so that a client
    /// must not bring as many of them as it likes.
    ///
    /// # Errors
    /// [`ApiError::UnknownAgent`], or that the store failed.
    pub(super) async fn agent(&self, store: &Arc<dyn Store>, agent: &str) -> Result<(), ApiError> {
        if self.named.contains(agent) {
            return Ok(());
        }
        let mut unknown = self.unknown.lock().await;
        let known = match &mut *unknown {
            Some(known) => known,
            slot => {
                let store = Arc::clone(store);
                let stored = tokio::task::spawn_blocking(move || store.agents()).await;
                let stored =
                    stored.map_err(|cause| ApiError::Internal(format!("the store was not read: {cause}")))??;
                slot.insert(stored.into_iter().filter(|agent| !self.named.contains(agent)).collect())
            }
        };
        if known.contains(agent) {
            return Ok(());
        }
        if known.len() >= self.most_unknown {
            return Err(ApiError::UnknownAgent { agent: agent.to_owned(), most: self.most_unknown });
        }
        known.insert(agent.to_owned());
        Ok(())
    }
}

/// Bytes of one body.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    limits: &'a Limits,
    bytes: usize,
}

impl Reading<'_> {
    pub(super) fn new(api: &Api) -> Reading<'_> {
        Reading { limits: &api.limits, bytes: 0 }
    }

    /// Room for further bytes.
    ///
    /// # Errors
    /// [`ApiError::Busy`].
    pub(super) fn more(&mut self, bytes: usize) -> Result<(), ApiError> {
        let most = self.limits.most_bytes;
        let before = self.limits.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
        if before.saturating_add(bytes) > most {
            return Err(ApiError::Busy { what: "bytes of bodies", most, key: "[api] max_bodies_bytes" });
        }
        Ok(())
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.limits.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// An answer that holds `place` until its last byte was taken, or its client is gone.
pub(super) fn holding<T: Send + Unpin + 'static>(response: Response, place: T) -> Response {
    response.map(|body| Body::new(Holding { body, _place: place }))
}

struct Holding<T> {
    body: Body,
    _place: T,
}

impl<T: Unpin> HttpBody for Holding<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        HttpBody::size_hint(&self.body)
    }
}
