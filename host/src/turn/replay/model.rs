//! The model of a replay: it answers what was answered then, and keeps count of what it was shown.

use crate::model::{Model, ModelError, ModelInfo, ModelReply, ModelRequest};
use crate::transcript::Message;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// A model that knows its next answer.
pub(super) struct RecordedModel {
    info: ModelInfo,
    next: Mutex<Option<Message>>,
    /// Messages of the last prompt, system prompts not counted.
    shown: AtomicUsize,
}

impl RecordedModel {
    pub(super) fn new(info: ModelInfo) -> RecordedModel {
        RecordedModel { info, next: Mutex::default(), shown: AtomicUsize::new(0) }
    }

    /// The answer that the next call gives.
    pub(super) fn expect(&self, answer: Message) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
    }

    /// How many messages the last call was shown, system prompts not counted.
    pub(super) fn shown(&self) -> usize {
        self.shown.load(Ordering::Acquire)
    }

    fn answer(&self, request: &ModelRequest) -> Result<Value, ModelError> {
        let shown = request.messages.iter().filter(|message| !is_system(message)).count();
        self.shown.store(shown, Ordering::Release);
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A turn calls its model once; more calls mean that the recording is over.
        let message = next.ok_or(ModelError::Cancelled)?;
        let finish = if message.tool_calls.is_empty() { "stop" } else { "tool_calls" };
        let message = serde_json::to_value(&message).unwrap_or_default();
        Ok(json!({
            "id": "chatcmpl-replay",
            "object": "chat.completion",
            "created": 0,
            "model": self.info.resolved,
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        }))
    }
}

fn is_system(message: &Value) -> bool {
    matches!(message.get("role").and_then(Value::as_str), Some("system" | "developer"))
}

impl Model for RecordedModel {
    fn info(&self) -> ModelInfo {
        self.info.clone()
    }

    fn call(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelReply, ModelError>> {
        Box::pin(std::future::ready(self.answer(&request).map(ModelReply::Full)))
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Value>, ModelError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}
