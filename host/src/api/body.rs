//! Reading a body: bounded in size, in time and in slowness, parsed off the async threads when it is large.

use super::limits::Reading;
use super::{Api, ApiError};
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use bytes::BytesMut;
use http_body_util::{BodyExt, Limited};
use serde_json::{Map, Value};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// A body from this size on is parsed on a blocking thread: about a millisecond of work.
const LARGE: usize = 512 * 1024;

/// The request with its whole body in memory. A request takes its place among those in work only then: whoever sends slowly holds
/// a connection, and nothing that others need.
pub(super) async fn received(api: &Api, request: Request, reading: &mut Reading<'_>) -> Result<Request, ApiError> {
    if request.body().is_end_stream() {
        return Ok(request);
    }
    let (parts, body) = request.into_parts();
    let bytes = whole(api, &parts.headers, body, reading).await?;
    Ok(Request::from_parts(parts, Body::from(bytes)))
}

/// The JSON object in a body. An empty body is refused.
pub(super) async fn object(body: Body, limit: usize) -> Result<Map<String, Value>, ApiError> {
    parsed(collected(body, limit).await?).await
}

/// The same, where nothing may be sent at all.
pub(super) async fn optional_object(body: Body, limit: usize) -> Result<Map<String, Value>, ApiError> {
    let bytes = collected(body, limit).await?;
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    parsed(bytes).await
}

/// A body that is in memory already.
async fn collected(body: Body, limit: usize) -> Result<Bytes, ApiError> {
    let collected = Limited::new(body, limit).collect().await;
    collected.map(http_body_util::Collected::to_bytes).map_err(|_| ApiError::TooLarge { limit })
}

async fn parsed(bytes: Bytes) -> Result<Map<String, Value>, ApiError> {
    let parsed = if bytes.len() < LARGE {
        parse(&bytes)
    } else {
        let parsing = tokio::task::spawn_blocking(move || parse(&bytes));
        parsing.await.map_err(|cause| ApiError::Internal(format!("the body was not parsed: {cause}")))?
    };
    match parsed? {
        Value::Object(fields) => Ok(fields),
        _ => Err(ApiError::Invalid { message: "the body is not a JSON object".into(), param: None }),
    }
}

async fn whole(api: &Api, headers: &HeaderMap, mut body: Body, reading: &mut Reading<'_>) -> Result<Bytes, ApiError> {
    let limit = api.gateway.config.api.max_body_bytes;
    if let Some(coding) = headers.get(header::CONTENT_ENCODING)
        && !coding.as_bytes().eq_ignore_ascii_case(b"identity")
    {
        return Err(ApiError::invalid("a compressed body is not read; send it as it is", "content-encoding"));
    }
    // Refused before it is sent, where the client says how long it is.
    let told = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if told.is_some_and(|told| told > limit as u64) {
        return Err(ApiError::TooLarge { limit });
    }
    let pace = Pace::new(api);
    let mut bytes = BytesMut::new();
    loop {
        let frame = match timeout_at(pace.until(bytes.len()), body.frame()).await {
            Err(_) => return Err(pace.broken()),
            Ok(None) => return Ok(bytes.freeze()),
            Ok(Some(Err(cause))) => {
                return Err(ApiError::Invalid { message: format!("the body did not arrive: {cause}"), param: None });
            }
            Ok(Some(Ok(frame))) => frame,
        };
        // Trailers say nothing here.
        let Ok(data) = frame.into_data() else { continue };
        if data.len() > limit - bytes.len() {
            return Err(ApiError::TooLarge { limit });
        }
        reading.more(data.len())?;
        bytes.extend_from_slice(&data);
    }
}

/// How fast a body has to come: it has a time to begin, from then on a mean rate, and a time in all.
struct Pace {
    since: Instant,
    begin: Duration,
    most: Duration,
    rate: u64,
}

impl Pace {
    fn new(api: &Api) -> Pace {
        let config = &api.gateway.config.api;
        Pace {
            since: Instant::now(),
            begin: Duration::from_millis(config.header_timeout_ms),
            most: Duration::from_millis(config.body_timeout_ms),
            rate: config.min_bytes_per_second.max(1),
        }
    }

    /// When a body of which this much is here has to have gone on.
    fn until(&self, bytes: usize) -> Instant {
        let earned = Duration::from_secs_f64(bytes as f64 / self.rate as f64);
        self.since + (self.begin + earned).min(self.most)
    }

    fn broken(&self) -> ApiError {
        if self.since.elapsed() >= self.most {
            ApiError::Slow { ms: u64::try_from(self.most.as_millis()).unwrap_or(u64::MAX) }
        } else {
            ApiError::Trickle { rate: self.rate, begin_ms: u64::try_from(self.begin.as_millis()).unwrap_or(u64::MAX) }
        }
    }
}

pub(super) fn parse(bytes: &[u8]) -> Result<Value, ApiError> {
    serde_json::from_slice(bytes)
        .map_err(|cause| ApiError::Invalid { message: format!("the body is not JSON: {cause}"), param: None })
}
