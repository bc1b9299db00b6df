//! The provider `thread`: an endpoint of the OpenAI Responses dialect, which keeps the conversation itself.
//!
//! Every answer has an id, and the next call may continue it (`previous_response_id`) with nothing but what is new. Which call
//! continues which is the turn's matter ([`super::HostCall`]); here the dialects are translated, both ways: the gateway inside
//! speaks chat completions. A provider forgets a conversation after a while: that is an error of its own kind
//! ([`ModelError::ThreadLost`]), since it can be answered by telling everything again.

mod answer;
mod ask;

use super::endpoint::{Endpoint, is_event_stream};
use super::events::Events;
use super::{Model, ModelError, ModelInfo, ModelReply, ModelRequest, Phase};
use crate::config::ModelConfig;
use answer::{Chunks, Step};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use serde_json::Value;
use std::collections::VecDeque;
use tokio::time::{Instant, timeout_at};

/// The provider `thread`.
#[derive(Debug)]
pub struct ResponsesModel {
    endpoint: Endpoint,
    info: ModelInfo,
}

impl ResponsesModel {
    /// Reads the key from its variable; opens no connection.
    ///
    /// # Errors
    /// [`ModelError::Config`].
    pub fn new(config: &ModelConfig) -> Result<ResponsesModel, ModelError> {
        Ok(ResponsesModel { endpoint: Endpoint::new(config)?, info: ModelInfo::of(config, "thread") })
    }

    async fn complete(&self, request: ModelRequest) -> Result<ModelReply, ModelError> {
        let deadline = Instant::now() + self.endpoint.timeout;
        let body = ask::body(&request, request.model.as_deref().or(self.info.requested.as_deref()))?;
        let previous = request.host.previous.as_deref();
        let mut attempt = 1;
        loop {
            let error = match timeout_at(deadline, self.attempt(body.clone(), request.stream)).await {
                Err(_) => return Err(self.endpoint.late(Phase::FirstByte)),
                Ok(Ok(reply)) => return Ok(reply),
                Ok(Err(error)) => lost(error, previous),
            };
            let (pause, error) = self.endpoint.pause(error, attempt, deadline)?;
            tracing::debug!(attempt, ?pause, error = error.kind(), "trying the model again");
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    async fn attempt(&self, body: Bytes, stream: bool) -> Result<ModelReply, ModelError> {
        let response = self.endpoint.post("responses", body, stream).await?;
        if stream && is_event_stream(&response) {
            let mut running = Running::new(Events::new(response, self.endpoint.timeout));
            // What comes before the first word says nothing; what fails before it may be tried again.
            let first = match running.next().await {
                Some(first) => first?,
                None => return Err(ModelError::Protocol("it is an empty stream".into())),
            };
            let rest = stream::unfold(running, |mut running| async move { Some((running.next().await?, running)) });
            let first = stream::once(std::future::ready(Ok(first)));
            return Ok(ModelReply::Stream(Box::pin(StreamExt::chain(first, rest))));
        }
        let full = self.endpoint.read(response, answer::is_error).await?;
        let full = answer::completion(full)?;
        // An endpoint that does not stream gives one chunk, so that the caller has one case.
        Ok(if stream {
            ModelReply::Stream(Box::pin(stream::iter(answer::chunks_of(full).into_iter().map(Ok))))
        } else {
            ModelReply::Full(full)
        })
    }
}

impl Model for ResponsesModel {
    fn info(&self) -> ModelInfo {
        self.info.clone()
    }

    fn call(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelReply, ModelError>> {
        self.complete(request).boxed()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Value>, ModelError>> {
        self.endpoint.models(self.info.requested.as_deref()).boxed()
    }
}

/// The provider does not know the response that was to be continued. There is a code for it; where an endpoint has none, its
/// refusal at least names the response or the parameter.
fn lost(error: ModelError, previous: Option<&str>) -> ModelError {
    let Some(previous) = previous else { return error };
    match error {
        ModelError::BadRequest { said } => {
            let text = said.body.to_string();
            let named = ["previous_response_not_found", "previous_response_id", previous];
            if named.iter().any(|name| text.contains(name)) {
                return ModelError::ThreadLost { response: previous.to_owned(), said };
            }
            ModelError::BadRequest { said }
        }
        other => other,
    }
}

/// The chunks of a running answer.
struct Running {
    events: Events,
    chunks: Chunks,
    ready: VecDeque<Value>,
    over: bool,
}

impl Running {
    fn new(events: Events) -> Running {
        Running { events, chunks: Chunks::default(), ready: VecDeque::new(), over: false }
    }

    async fn next(&mut self) -> Option<Result<Value, ModelError>> {
        loop {
            if let Some(chunk) = self.ready.pop_front() {
                return Some(Ok(chunk));
            }
            if self.over {
                return None;
            }
            let event = match self.events.next().await {
                Some(Ok(data)) if data == b"[DONE]" => continue,
                Some(Ok(data)) => serde_json::from_slice::<Value>(&data),
                Some(Err(error)) => return self.fail(error),
                None => {
                    let message = "the connection ended before the answer did".to_owned();
                    return self.fail(ModelError::Unavailable { message, said: None });
                }
            };
            let event = match event {
                Ok(event) => event,
                Err(cause) => return self.fail(ModelError::Protocol(format!("an event is not JSON: {cause}"))),
            };
            match self.chunks.take(event) {
                Ok(Step::Chunks(chunks)) => self.ready.extend(chunks),
                Ok(Step::Last(chunks)) => {
                    self.ready.extend(chunks);
                    self.over = true;
                    self.events.complete();
                }
                Err(error) => return self.fail(error),
            }
        }
    }

    fn fail(&mut self, error: ModelError) -> Option<Result<Value, ModelError>> {
        self.over = true;
        self.ready.clear();
        self.events.fail(error)
    }
}

#[cfg(test)]
mod tests;
