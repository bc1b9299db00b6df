//! Any endpoint that speaks the OpenAI dialect.

use super::classify::classify_value;
use super::sse::Decoder;
use super::{Model, ModelError, ModelInfo, ModelReply, ModelRequest, Phase, classify, family_of, retry};
use crate::config::ModelConfig;
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Client, Response, Url};
use serde_json::{Map, Value, json};
use std::error::Error;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};

/// Largest answer that is not streamed.
const LARGEST_ANSWER: usize = 64 * 1024 * 1024;
/// Largest error answer that is read.
const LARGEST_ERROR: usize = 1024 * 1024;
const CONNECT: Duration = Duration::from_secs(10);
/// How long a connection whose answer is complete is watched for its end, so that it can be used again.
const DRAIN: Duration = Duration::from_secs(1);

/// The provider `openai`.
#[derive(Debug)]
pub struct OpenAiModel {
    client: Client,
    base: String,
    key: Option<HeaderValue>,
    info: ModelInfo,
    timeout: Duration,
    max_attempts: u32,
    /// The endpoint refused `stream_options`; it is not asked for the usage any more.
    no_stream_options: AtomicBool,
}

impl OpenAiModel {
    /// Reads the key from its variable; opens no connection.
    ///
    /// # Errors
    /// [`ModelError::Config`].
    pub fn new(config: &ModelConfig) -> Result<OpenAiModel, ModelError> {
        let base = config.base_url.as_deref().ok_or_else(|| ModelError::Config("base_url is missing".into()))?;
        let url = Url::parse(base).map_err(|cause| ModelError::Config(format!("base_url \"{base}\": {cause}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(ModelError::Config(format!("base_url \"{base}\" is neither http nor https")));
        }
        let key = match &config.api_key_env {
            None => None,
            Some(name) => {
                let key = std::env::var(name).ok().filter(|key| !key.trim().is_empty());
                let key =
                    key.ok_or_else(|| ModelError::Config(format!("the variable {name} (api_key_env) is not set")))?;
                Some(bearer(key.trim()).ok_or_else(|| {
                    ModelError::Config(format!("the variable {name} (api_key_env) holds characters that no key has"))
                })?)
            }
        };
        let resolved = config.model.clone().unwrap_or_default();
        Ok(OpenAiModel {
            client: client(&url)?,
            base: base.trim_end_matches('/').to_owned(),
            key,
            info: ModelInfo {
                provider: "openai".into(),
                requested: config.model.clone(),
                family: family_of(&resolved),
                resolved,
                context_window: config.context_window,
                max_output_tokens: config.max_output_tokens,
                has_llm: true,
            },
            timeout: Duration::from_millis(config.timeout_ms.max(1)),
            max_attempts: config.max_attempts.max(1),
            no_stream_options: AtomicBool::new(false),
        })
    }

    async fn complete(&self, request: ModelRequest) -> Result<ModelReply, ModelError> {
        let deadline = Instant::now() + self.timeout;
        let mut body = self.body(&request)?;
        let mut attempt = 1;
        loop {
            let error = match timeout_at(deadline, self.attempt(body.clone(), request.stream)).await {
                Err(_) => return Err(self.late(Phase::FirstByte)),
                Ok(Ok(reply)) => return Ok(reply),
                Ok(Err(error)) => error,
            };
            if request.stream && self.refused_options(&error, &request.params) {
                body = self.body(&request)?;
                continue;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(pause) = retry::pause(&error, attempt, self.max_attempts, left) else { return Err(error) };
            tracing::debug!(attempt, ?pause, %error, "trying the model again");
            tokio::time::sleep(pause).await;
            attempt += 1;
        }
    }

    fn body(&self, request: &ModelRequest) -> Result<Bytes, ModelError> {
        let model = self.info.requested.as_deref().or_else(|| request.params.get("model").and_then(Value::as_str));
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
        let mut request = self
            .client
            .post(format!("{}/chat/completions", self.base))
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .header(ACCEPT, HeaderValue::from_static(if stream { "text/event-stream" } else { "application/json" }))
            .body(body);
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key.clone());
        }
        let response = request.send().await.map_err(unavailable)?;
        if !response.status().is_success() {
            return Err(self.failed(response).await);
        }
        let events = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|kind| kind.to_str().ok())
            .is_some_and(|kind| kind.starts_with("text/event-stream"));
        if stream && events {
            let mut events = Events::new(response, self.timeout);
            let first = match events.next().await {
                Some(first) => first?,
                None => return Err(ModelError::Protocol("it is an empty stream".into())),
            };
            let rest = stream::unfold(events, |mut events| async move { Some((events.next().await?, events)) });
            let first = stream::once(std::future::ready(Ok(first)));
            return Ok(ModelReply::Stream(Box::pin(stream::StreamExt::chain(first, rest))));
        }
        let full = self.read(response).await?;
        if stream {
            // The endpoint does not stream; its answer becomes one chunk, so that the caller has one case.
            return Ok(ModelReply::Stream(Box::pin(stream::once(std::future::ready(Ok(chunk_of(full)))))));
        }
        Ok(ModelReply::Full(full))
    }

    /// A whole JSON answer.
    async fn read(&self, response: Response) -> Result<Value, ModelError> {
        let bytes = self.bytes(response, LARGEST_ANSWER).await?;
        let full: Value =
            serde_json::from_slice(&bytes).map_err(|cause| ModelError::Protocol(format!("it is not JSON: {cause}")))?;
        if is_error(&full) { Err(classify_value(200, full, None)) } else { Ok(full) }
    }

    async fn bytes(&self, mut response: Response, most: usize) -> Result<BytesMut, ModelError> {
        let mut bytes = BytesMut::new();
        loop {
            match timeout(self.timeout, response.chunk()).await {
                Err(_) => return Err(self.late(Phase::NextByte)),
                Ok(Err(cause)) => return Err(unavailable(cause)),
                Ok(Ok(None)) => return Ok(bytes),
                Ok(Ok(Some(more))) if bytes.len() + more.len() <= most => bytes.extend_from_slice(&more),
                Ok(Ok(Some(_))) => return Err(ModelError::Protocol(format!("it is longer than {most} bytes"))),
            }
        }
    }

    async fn failed(&self, response: Response) -> ModelError {
        let status = response.status().as_u16();
        let retry_after = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()).map(str::to_owned);
        // The status alone tells enough when the body does not arrive.
        let body = self.bytes(response, LARGEST_ERROR).await.unwrap_or_default();
        classify(status, &body, retry_after.as_deref())
    }

    fn late(&self, phase: Phase) -> ModelError {
        ModelError::Timeout { phase, after_ms: u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX) }
    }

    async fn list(&self) -> Result<Vec<Value>, ModelError> {
        let mut request = self.client.get(format!("{}/models", self.base));
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key.clone());
        }
        let answer = timeout(self.timeout, async {
            let response = request.send().await.map_err(unavailable)?;
            if response.status().is_success() { self.read(response).await } else { Err(self.failed(response).await) }
        });
        let answer = answer.await.unwrap_or_else(|_| Err(self.late(Phase::FirstByte)));
        match (answer, &self.info.requested) {
            (Ok(mut answer), _) => match answer.get_mut("data").map(Value::take) {
                Some(Value::Array(models)) => Ok(models),
                _ => Err(ModelError::Protocol("its list of models has no data".into())),
            },
            // Not every endpoint lists its models, and the one that is used is known.
            (Err(error), Some(name)) if !matches!(error, ModelError::Auth { .. }) => {
                tracing::debug!(%error, "the endpoint does not list its models");
                Ok(vec![json!({"id": name, "object": "model", "created": 0, "owned_by": "unknown"})])
            }
            (Err(error), _) => Err(error),
        }
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
        self.list().boxed()
    }
}

fn bearer(key: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {key}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// A client with a warm pool. Where the endpoint needs no TLS, no root certificate is read.
fn client(url: &Url) -> Result<Client, ModelError> {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // An error means that there is one already.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
    let mut builder = Client::builder()
        .user_agent(concat!("engineroom/", env!("CARGO_PKG_VERSION")))
        .tcp_nodelay(true)
        .connect_timeout(CONNECT)
        .redirect(reqwest::redirect::Policy::none());
    if url.scheme() == "http" {
        builder = builder.tls_certs_only([]);
    }
    let host = url.host_str().unwrap_or("").trim_matches(['[', ']']);
    if host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback()) {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|cause| ModelError::Config(format!("the HTTP client cannot be built: {}", chain(&cause))))
}

fn unavailable(cause: reqwest::Error) -> ModelError {
    ModelError::Unavailable { message: chain(&cause.without_url()), said: None }
}

/// An error with its causes in one line; those of the HTTP client say nothing alone.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

fn is_error(value: &Value) -> bool {
    value.get("error").is_some_and(|error| !error.is_null())
        && value.get("choices").is_none_or(|choices| !choices.is_array())
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

/// The chunks of a running answer. Dropping it closes the connection, which is how an endpoint learns that nobody listens.
struct Events {
    /// `None` when the answer is complete or has failed.
    response: Option<Response>,
    decoder: Decoder,
    timeout: Duration,
    /// A finish reason was seen: the answer is whole, even when the end marker does not come.
    finished: bool,
}

impl Events {
    fn new(response: Response, timeout: Duration) -> Events {
        Events { response: Some(response), decoder: Decoder::default(), timeout, finished: false }
    }

    async fn next(&mut self) -> Option<Result<Value, ModelError>> {
        loop {
            self.response.as_ref()?;
            if let Some(data) = self.decoder.next() {
                return self.event(&data);
            }
            let response = self.response.as_mut()?;
            match timeout(self.timeout, response.chunk()).await {
                Ok(Ok(Some(bytes))) => {
                    if self.decoder.push(&bytes).is_err() {
                        return self.fail(ModelError::Protocol("an event is too long".into()));
                    }
                }
                Ok(Ok(None)) => {
                    if let Some(data) = self.decoder.finish() {
                        return self.event(&data);
                    }
                    if !self.finished {
                        let message = "the connection ended before the answer did".to_owned();
                        return self.fail(ModelError::Unavailable { message, said: None });
                    }
                    self.response = None;
                    return None;
                }
                Ok(Err(cause)) => return self.fail(unavailable(cause)),
                Err(_) => {
                    let after_ms = u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX);
                    return self.fail(ModelError::Timeout { phase: Phase::NextByte, after_ms });
                }
            }
        }
    }

    fn event(&mut self, data: &[u8]) -> Option<Result<Value, ModelError>> {
        if data == b"[DONE]" {
            if let Some(response) = self.response.take() {
                keep_warm(response);
            }
            return None;
        }
        match serde_json::from_slice::<Value>(data) {
            Ok(chunk) if is_error(&chunk) => self.fail(classify_value(200, chunk, None)),
            Ok(chunk) => {
                self.finished |= chunk.pointer("/choices/0/finish_reason").is_some_and(Value::is_string);
                Some(Ok(chunk))
            }
            Err(cause) => self.fail(ModelError::Protocol(format!("an event is not JSON: {cause}"))),
        }
    }

    fn fail(&mut self, error: ModelError) -> Option<Result<Value, ModelError>> {
        self.response = None;
        Some(Err(error))
    }
}

/// Reads the end of a complete answer, so that its connection goes back to the pool. Mostly it is here already.
fn keep_warm(mut response: Response) {
    if !matches!(response.chunk().now_or_never(), Some(Ok(None) | Err(_))) {
        tokio::spawn(timeout(DRAIN, async move { while let Ok(Some(_)) = response.chunk().await {} }));
    }
}

#[cfg(test)]
#[path = "openai_tests.rs"]
mod tests;
