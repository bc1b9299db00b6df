//! Any endpoint that speaks the OpenAI dialect.

use super::classify::classify_value;
use super::endpoint::{Endpoint, is_error, is_event_stream};
use super::events::Events as Incoming;
use super::{Model, ModelError, ModelInfo, ModelReply, ModelRequest, Phase};
use crate::config::ModelConfig;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream;
use reqwest::Response;
use serde_json::{Map, Value};
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::time::{Instant, timeout_at};

/// The provider `openai`.
#[derive(Debug)]
pub struct OpenAiModel {
    endpoint: Endpoint,
    info: ModelInfo,
    /// The endpoint refused `stream_options`; it is not asked for the usage any more.
    no_stream_options: AtomicBool,
}

impl OpenAiModel {
    /// Reads the key from its variable; opens no connection.
    ///
    /// # Errors
    /// [`ModelError::Config`].
    pub fn new(config: &ModelConfig) -> Result<OpenAiModel, ModelError> {
        Ok(OpenAiModel {
            endpoint: Endpoint::new(config)?,
            info: ModelInfo::of(config, "openai"),
            no_stream_options: AtomicBool::new(false),
        })
    }

    async fn complete(&self, request: ModelRequest) -> Result<ModelReply, ModelError> {
        let deadline = Instant::now() + self.endpoint.timeout;
        let mut body = self.body(&request)?;
        let mut attempt = 1;
        loop {
            let error = match timeout_at(deadline, self.attempt(body.clone(), request.stream)).await {
                Err(_) => return Err(self.endpoint.late(Phase::FirstByte)),
                Ok(Ok(reply)) => return Ok(reply),
                Ok(Err(error)) => error,
            };
            if request.stream && self.refused_options(&error, &request.params) {
                body = self.body(&request)?;
                continue;
            }
            let (pause, error) = self.endpoint.pause(error, attempt, deadline)?;
            // The kind only: what a provider says may hold what it was sent.
            tracing::debug!(attempt, ?pause, error = error.kind(), "trying the model again");
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    fn body(&self, request: &ModelRequest) -> Result<Bytes, ModelError> {
        let configured = request.model.as_deref().or(self.info.requested.as_deref());
        let model = configured.or_else(|| request.params.get("model").and_then(Value::as_str));
        let body = Body { request, model, usage: request.stream && !self.no_stream_options.load(Ordering::Relaxed) };
        body.write().map_err(|cause| ModelError::Protocol(format!("the request cannot be written: {cause}")))
    }

    /// True, once, when the endpoint does not know the option that only we asked for.
    fn refused_options(&self, error: &ModelError, params: &Map<String, Value>) -> bool {
        matches!(error, ModelError::BadRequest { said } if said.body.to_string().contains("stream_options"))
            && !params.contains_key("stream_options")
            && !self.no_stream_options.swap(true, Ordering::Relaxed)
    }

    async fn attempt(&self, body: Bytes, stream: bool) -> Result<ModelReply, ModelError> {
        let response = self.endpoint.post("chat/completions", body, stream).await?;
        if stream && is_event_stream(&response) {
            let mut events = Events::new(response, &self.endpoint);
            let first = match events.next().await {
                Some(first) => first?,
                None => return Err(ModelError::Protocol("it is an empty stream".into())),
            };
            let rest = stream::unfold(events, |mut events| async move { Some((events.next().await?, events)) });
            let first = stream::once(std::future::ready(Ok(first)));
            return Ok(ModelReply::Stream(Box::pin(stream::StreamExt::chain(first, rest))));
        }
        let full = self.endpoint.read(response, is_error).await?;
        if stream {
            // The endpoint does not stream; its answer becomes one chunk, so that the caller has one case.
            return Ok(ModelReply::Stream(Box::pin(stream::once(std::future::ready(Ok(chunk_of(full)))))));
        }
        Ok(ModelReply::Full(full))
    }
}

impl Model for OpenAiModel {
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

/// The whole answer as its only chunk.
fn chunk_of(mut full: Value) -> Value {
    for choice in full.get_mut("choices").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(fields) = choice.as_object_mut()
            && let Some(mut message) = fields.shift_remove("message")
        {
            let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
            for (at, call) in calls.into_iter().flatten().enumerate() {
                call["index"] = at.into();
            }
            fields.insert("delta".into(), message);
        }
    }
    full["object"] = "chat.completion.chunk".into();
    full
}

/// The client's parameters, then what we put in. The messages are copied as they are written already.
struct Body<'a> {
    request: &'a ModelRequest,
    model: Option<&'a str>,
    usage: bool,
}

impl Body<'_> {
    fn write(&self) -> serde_json::Result<Bytes> {
        let messages = self.request.messages.json();
        // Growing a large buffer copies it.
        let mut bytes = Vec::with_capacity(messages.len() + 4 * 1024);
        bytes.push(b'{');
        if let Some(model) = self.model {
            field(&mut bytes, "model", model)?;
        }
        name(&mut bytes, "messages")?;
        bytes.extend_from_slice(messages);
        for (name, value) in &self.request.params {
            let ours = match name.as_str() {
                "messages" | "stream" => true,
                "model" => self.model.is_some(),
                "stream_options" => self.usage,
                _ => false,
            };
            if !ours {
                field(&mut bytes, name, value)?;
            }
        }
        if self.request.stream {
            field(&mut bytes, "stream", &true)?;
        }
        if self.usage {
            let mut options = match self.request.params.get("stream_options") {
                Some(Value::Object(options)) => options.clone(),
                _ => Map::new(),
            };
            options.insert("include_usage".into(), true.into());
            field(&mut bytes, "stream_options", &options)?;
        }
        bytes.push(b'}');
        Ok(bytes.into())
    }
}

fn name(bytes: &mut Vec<u8>, name: &str) -> serde_json::Result<()> {
    if bytes.len() > 1 {
        bytes.push(b',');
    }
    serde_json::to_writer(&mut *bytes, name)?;
    bytes.push(b':');
    Ok(())
}

fn field<T: serde::Serialize + ?Sized>(bytes: &mut Vec<u8>, key: &str, value: &T) -> serde_json::Result<()> {
    name(bytes, key)?;
    serde_json::to_writer(bytes, value)
}

/// The chunks of a running answer.
struct Events {
    incoming: Incoming,
    /// A finish reason was seen: the answer is whole, even when the end marker does not come.
    finished: bool,
}

impl Events {
    fn new(response: Response, endpoint: &Endpoint) -> Events {
        Events { incoming: Incoming::new(response, endpoint.timeout), finished: false }
    }

    async fn next(&mut self) -> Option<Result<Value, ModelError>> {
        let data = match self.incoming.next().await {
            Some(Ok(data)) => data,
            Some(Err(error)) => return Some(Err(error)),
            None if self.finished => return None,
            None => {
                self.finished = true;
                let message = "the connection ended before the answer did".to_owned();
                return Some(Err(ModelError::Unavailable { message, said: None }));
            }
        };
        if data == b"[DONE]" {
            self.finished = true;
            self.incoming.complete();
            return None;
        }
        match serde_json::from_slice::<Value>(&data) {
            Ok(chunk) if is_error(&chunk) => self.fail(classify_value(200, chunk, None)),
            Ok(chunk) => {
                self.finished |= chunk.pointer("/choices/0/finish_reason").is_some_and(Value::is_string);
                Some(Ok(chunk))
            }
            Err(cause) => self.fail(ModelError::Protocol(format!("an event is not JSON: {cause}"))),
        }
    }

    fn fail(&mut self, error: ModelError) -> Option<Result<Value, ModelError>> {
        self.finished = true;
        self.incoming.fail(error)
    }
}

#[cfg(test)]
#[path = "openai_tests.rs"]
mod tests;
