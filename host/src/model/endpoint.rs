//! One HTTP endpoint: address, key, connection pool, and the bounds of every wait. What is said over it is the providers' matter.

use super::classify::classify_value;
use super::{ModelError, Phase, classify, retry};
use crate::config::ModelConfig;
use crate::config::secret::shown_url;
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Client, RequestBuilder, Response, Url};
use serde_json::{Value, json};
use std::error::Error;
use std::sync::Once;
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// Largest answer that is not streamed.
const LARGEST_ANSWER: usize = 64 * 1024 * 1024;
/// Largest error answer that is read.
const LARGEST_ERROR: usize = 1024 * 1024;
const CONNECT: Duration = Duration::from_secs(10);
/// How long a connection whose answer is complete is watched for its end, so that it can be used again.
const DRAIN: Duration = Duration::from_secs(1);

/// An endpoint of `[model] base_url`.
#[derive(Debug)]
pub(super) struct Endpoint {
    client: Client,
    base: String,
    pub(super) key: Option<HeaderValue>,
    /// Deadline of an answer's first byte, and between its bytes.
    pub(super) timeout: Duration,
    /// Most tries of one call.
    pub(super) max_attempts: u32,
}

impl Endpoint {
    /// Reads the key from its variable; opens no connection.
    ///
    /// # Errors
    /// [`ModelError::Config`].
    pub(super) fn new(config: &ModelConfig) -> Result<Endpoint, ModelError> {
        let base = config.base_url.as_deref().ok_or_else(|| ModelError::Config("base_url is missing".into()))?;
        let url = Url::parse(base)
            .map_err(|cause| ModelError::Config(format!("base_url \"{}\": {cause}", shown_url(base))))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(ModelError::Config(format!("base_url \"{}\" is neither http nor https", shown_url(base))));
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
        Ok(Endpoint {
            client: client(&url)?,
            base: base.trim_end_matches('/').to_owned(),
            key,
            timeout: Duration::from_millis(config.timeout_ms.max(1)),
            max_attempts: config.max_attempts.max(1),
        })
    }

    /// Posts a JSON body. The answer's status is a success; its body is not read.
    pub(super) async fn post(&self, path: &str, body: Bytes, stream: bool) -> Result<Response, ModelError> {
        let request = self
            .client
            .post(format!("{}/{path}", self.base))
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .header(ACCEPT, HeaderValue::from_static(if stream { "text/event-stream" } else { "application/json" }))
            .body(body);
        let response = self.with_key(request).send().await.map_err(unavailable)?;
        if response.status().is_success() { Ok(response) } else { Err(self.failed(response).await) }
    }

    fn with_key(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.key {
            Some(key) => request.header(AUTHORIZATION, key.clone()),
            None => request,
        }
    }

    /// The pause before try `attempt + 1` after `error`, or the error when there must be none.
    pub(super) fn pause(
        &self,
        error: ModelError,
        attempt: u32,
        deadline: Instant,
    ) -> Result<(Duration, ModelError), ModelError> {
        let left = deadline.saturating_duration_since(Instant::now());
        match retry::pause(&error, attempt, self.max_attempts, left) {
            Some(pause) => Ok((pause, error)),
            None => Err(error),
        }
    }

    /// A whole JSON answer. `is_error` tells an error that came with a good status.
    pub(super) async fn read(
        &self,
        response: Response,
        is_error: impl FnOnce(&Value) -> bool,
    ) -> Result<Value, ModelError> {
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
                Ok(Ok(Some(chunk))) if bytes.len() + chunk.len() > most => {
                    return Err(ModelError::Protocol(format!("it is longer than {most} bytes")));
                }
                Ok(Ok(Some(chunk))) => bytes.extend_from_slice(&chunk),
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

    /// Nothing came in time.
    pub(super) fn late(&self, phase: Phase) -> ModelError {
        ModelError::Timeout { phase, after_ms: u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX) }
    }

    /// The `data` of the endpoint's list of models; the model that is `used` when the endpoint has no list.
    pub(super) async fn models(&self, used: Option<&str>) -> Result<Vec<Value>, ModelError> {
        let request = self.with_key(self.client.get(format!("{}/models", self.base)));
        let answer = timeout(self.timeout, async {
            let response = request.send().await.map_err(unavailable)?;
            if response.status().is_success() {
                self.read(response, is_error).await
            } else {
                Err(self.failed(response).await)
            }
        });
        let answer = answer.await.unwrap_or_else(|_| Err(self.late(Phase::FirstByte)));
        match (answer, used) {
            (Ok(mut answer), _) => match answer.get_mut("data").map(Value::take) {
                Some(Value::Array(models)) => Ok(models),
                _ => Err(ModelError::Protocol("its list of models has no data".into())),
            },
            // Not every endpoint lists its models, and the one that is used is known.
            (Err(error), Some(name)) if !matches!(error, ModelError::Auth { .. }) => {
                tracing::debug!(error = error.kind(), "the endpoint does not list its models");
                Ok(vec![json!({"id": name, "object": "model", "created": 0, "owned_by": "unknown"})])
            }
            (Err(error), _) => Err(error),
        }
    }
}

/// True when the answer is a stream of events.
pub(super) fn is_event_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}

/// True for an `error` object where an answer should be.
pub(super) fn is_error(value: &Value) -> bool {
    value.get("error").is_some_and(|error| !error.is_null())
        && value.get("choices").is_none_or(|choices| !choices.is_array())
}

pub(super) fn bearer(key: &str) -> Option<HeaderValue> {
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

/// No connection, or a broken one.
pub(super) fn unavailable(cause: reqwest::Error) -> ModelError {
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

/// Reads the end of a complete answer, so that its connection goes back to the pool. Mostly it is here already.
pub(super) fn keep_warm(mut response: Response) {
    if !matches!(response.chunk().now_or_never(), Some(Ok(None) | Err(_))) {
        tokio::spawn(timeout(DRAIN, async move { while let Ok(Some(_)) = response.chunk().await {} }));
    }
}
