//! Reading a body: bounded in size and in time, parsed off the async threads when it is large.

use super::ApiError;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Map, Value};
use std::time::Duration;

/// Longest wait for a body to be there as a whole.
const PATIENCE: Duration = Duration::from_secs(120);
/// A body from this size on is parsed on a blocking thread: about a millisecond of work.
const LARGE: usize = 512 * 1024;

/// The JSON object in a body. An empty body is refused.
pub(super) async fn object(headers: &HeaderMap, body: Body, limit: usize) -> Result<Map<String, Value>, ApiError> {
    let bytes = whole(headers, body, limit).await?;
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

/// The same, where nothing may be sent at all.
pub(super) async fn optional_object(
    headers: &HeaderMap,
    body: Body,
    limit: usize,
) -> Result<Map<String, Value>, ApiError> {
    let bytes = whole(headers, body, limit).await?;
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    object(headers, Body::from(bytes), limit).await
}

async fn whole(headers: &HeaderMap, body: Body, limit: usize) -> Result<Bytes, ApiError> {
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
    match tokio::time::timeout(PATIENCE, Limited::new(body, limit).collect()).await {
        Err(_) => Err(ApiError::Slow { seconds: PATIENCE.as_secs() }),
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(cause)) if cause.is::<LengthLimitError>() => Err(ApiError::TooLarge { limit }),
        Ok(Err(cause)) => Err(ApiError::Invalid { message: format!("the body did not arrive: {cause}"), param: None }),
    }
}

pub(super) fn parse(bytes: &[u8]) -> Result<Value, ApiError> {
    serde_json::from_slice(bytes)
        .map_err(|cause| ApiError::Invalid { message: format!("the body is not JSON: {cause}"), param: None })
}
