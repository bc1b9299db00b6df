//! A turn's chunks as server-sent events.
//!
//! Each chunk is an event of its own and leaves as it comes. `[DONE]` is the acknowledgement: it leaves after the turn is
//! durable, and never after an error. The engine that the headers name is the one whose assembly made the model call, and the
//! headers leave with that call's first chunk. When the tool loop goes on with another engine, a comment at the end says so.

use super::ApiError;
use crate::turn::{TurnError, TurnStream};
use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt, stream};
use serde_json::Value;
use std::convert::Infallible;

/// An answer whose body is the events; `done` runs when the last of them was taken, or the client went away.
pub(super) fn response(chunks: TurnStream, done: impl FnOnce() + Send + 'static) -> Response {
    let events = events(chunks, Done(Some(Box::new(done))));
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    (headers, Body::from_stream(events)).into_response()
}

struct Done(Option<Box<dyn FnOnce() + Send>>);

impl Drop for Done {
    fn drop(&mut self) {
        if let Some(done) = self.0.take() {
            done();
        }
    }
}

fn events(chunks: TurnStream, done: Done) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
    stream::unfold(Some((chunks, done)), |running| async move {
        let (mut chunks, done) = running?;
        Some(match chunks.next().await {
            Some(Ok(chunk)) => (Ok(event(&chunk)), Some((chunks, done))),
            Some(Err(error)) => (Ok(failed(error)), None),
            None => (Ok(Bytes::from_static(b"data: [DONE]\n\n")), None),
        })
    })
}

fn event(chunk: &Value) -> Bytes {
    if let Value::String(note) = chunk {
        // A comment: readers of events skip it.
        return Bytes::from(format!(": {}\n\n", note.replace(['\r', '\n'], " ")));
    }
    let mut line = Vec::with_capacity(256);
    line.extend_from_slice(b"data: ");
    // JSON in one line: its writer escapes every line break in a text. Writing into memory does not fail.
    let _ = serde_json::to_writer(&mut line, chunk);
    line.extend_from_slice(b"\n\n");
    Bytes::from(line)
}

/// The status has gone out already; the error is an event, and no end marker follows it.
fn failed(error: TurnError) -> Bytes {
    let error = ApiError::from(error);
    tracing::warn!(%error, "a stream broke off");
    event(&error.document())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn sent(items: Vec<Result<Value, TurnError>>) -> (TurnStream, Arc<AtomicUsize>, Done) {
        let ended = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&ended);
        let done = Done(Some(Box::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        })));
        (Box::pin(stream::iter(items)), ended, done)
    }

    async fn text(items: Vec<Result<Value, TurnError>>) -> String {
        let (chunks, ended, done) = sent(items);
        let parts: Vec<Bytes> = events(chunks, done).map(|part| part.unwrap_or_default()).collect().await;
        assert_eq!(ended.load(Ordering::Relaxed), 1);
        String::from_utf8(parts.concat()).unwrap()
    }

    #[tokio::test]
    async fn every_chunk_is_one_event_and_the_end_marker_is_last() {
        let text = text(vec![Ok(json!({"a": "line\nbreak"})), Ok(json!({"b": 2}))]).await;
        assert_eq!(text, "data: {\"a\":\"line\\nbreak\"}\n\ndata: {\"b\":2}\n\ndata: [DONE]\n\n");
    }

    #[tokio::test]
    async fn a_note_is_a_comment_of_one_line() {
        let text = text(vec![Ok(json!({"a": 1})), Ok(json!("engine: x\nevent: y"))]).await;
        assert_eq!(text, "data: {\"a\":1}\n\n: engine: x event: y\n\ndata: [DONE]\n\n");
    }

    #[tokio::test]
    async fn after_an_error_there_is_no_end_marker() {
        let text = text(vec![Ok(json!({"a": 1})), Err(TurnError::Draining)]).await;
        assert!(text.starts_with("data: {\"a\":1}\n\ndata: {\"error\":"), "{text}");
        assert!(!text.contains("[DONE]"), "{text}");
    }

    #[tokio::test]
    async fn a_client_that_leaves_ends_it_too() {
        let (chunks, ended, done) = sent(vec![Ok(json!({"a": 1})), Ok(json!({"b": 1}))]);
        let mut events = Box::pin(events(chunks, done));
        assert!(events.next().await.is_some());
        assert_eq!(ended.load(Ordering::Relaxed), 0);
        drop(events);
        assert_eq!(ended.load(Ordering::Relaxed), 1);
    }
}
