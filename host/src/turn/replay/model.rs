//! The model of a replay: it answers what was answered then, and keeps what it was shown.

use crate::model::{Messages, Model, ModelError, ModelInfo, ModelReply, ModelRequest};
use crate::transcript::Message;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::{Mutex, PoisonError};

/// A model that knows its next answer.
pub(super) struct RecordedModel {
    info: ModelInfo,
    next: Mutex<Option<Message>>,
    /// The prompts that nobody has taken yet.
    calls: Mutex<Vec<Messages>>,
}

impl RecordedModel {
    pub(super) fn new(info: ModelInfo) -> RecordedModel {
        RecordedModel { info, next: Mutex::default(), calls: Mutex::default() }
    }

    /// The answer that the next call gives; without one it fails as a model does that is not there.
    pub(super) fn expect(&self, answer: Option<Message>) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    }

    /// The prompts of the calls since the last time, in order.
    pub(super) fn take_calls(&self) -> Vec<Messages> {
        std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn answer(&self, request: ModelRequest) -> Result<Value, ModelError> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(request.messages);
        let next = self.next.lock().unwrap_or_else(PoisonError::into_inner).take();
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

impl Model for RecordedModel {
    fn info(&self) -> ModelInfo {
        self.info.clone()
    }

    fn call(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelReply, ModelError>> {
        Box::pin(std::future::ready(self.answer(request).map(ModelReply::Full)))
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Value>, ModelError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}
