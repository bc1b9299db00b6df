//! The events of a running answer as they arrive.

use super::endpoint::{keep_warm, unavailable};
use super::sse::Decoder;
use super::{ModelError, Phase};
use reqwest::Response;
use std::time::Duration;
use tokio::time::timeout;

/// The data of each event. Dropping it closes the connection, which is how an endpoint learns that nobody listens.
pub(super) struct Events {
    /// `None` when the answer is complete or has failed.
    response: Option<Response>,
    decoder: Decoder,
    timeout: Duration,
}

impl Events {
    /// Reads `response`; waits at most `timeout` for each of its pieces.
    pub(super) fn new(response: Response, timeout: Duration) -> Events {
        Events { response: Some(response), decoder: Decoder::default(), timeout }
    }

    /// The data of the next event; `None` when the connection has ended, or nothing more is wanted of it.
    pub(super) async fn next(&mut self) -> Option<Result<Vec<u8>, ModelError>> {
        loop {
            self.response.as_ref()?;
            if let Some(data) = self.decoder.next() {
                return Some(Ok(data));
            }
            let response = self.response.as_mut()?;
            match timeout(self.timeout, response.chunk()).await {
                Ok(Ok(Some(bytes))) => {
                    if self.decoder.push(&bytes).is_err() {
                        return self.fail(ModelError::Protocol("an event is too long".into()));
                    }
                }
                Ok(Ok(None)) => {
                    let last = self.decoder.finish();
                    if last.is_none() {
                        self.response = None;
                    }
                    return last.map(Ok);
                }
                Ok(Err(cause)) => return self.fail(unavailable(cause)),
                Err(_) => {
                    let after_ms = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
                    return self.fail(ModelError::Timeout { phase: Phase::NextByte, after_ms });
                }
            }
        }
    }

    /// The answer is complete: what is left of the connection is read, so that it can be used again.
    pub(super) fn complete(&mut self) {
        if let Some(response) = self.response.take() {
            keep_warm(response);
        }
    }

    /// Ends with `error`.
    pub(super) fn fail<T>(&mut self, error: ModelError) -> Option<Result<T, ModelError>> {
        self.response = None;
        Some(Err(error))
    }
}
