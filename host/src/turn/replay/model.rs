//! The model of a replay: it answers what was answered then, and keeps count of what it was shown.

use crate::model::{Model, ModelError, ModelInfo, ModelReply, ModelRequest};
use crate::transcript::Message;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::{Mutex, PoisonError};

/// A model that knows its next answer.
pub(super) struct RecordedModel {
    info: ModelInfo,
    next: Mutex<Option<Message>>,
    /// Messages of the last prompt, system prompts not counted.
    shown: Mutex<Option<usize>>,
}

impl RecordedModel {
    pub(super) fn new(info: ModelInfo) -> RecordedModel {
        RecordedModel { info, next: Mutex::default(), shown: Mutex::default() }
    }

    /// The answer that the next call gives; without one it fails as a model does that is not there.
    pub(super) fn expect(&self, answer: Option<Message>) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    }

    /// How many messages the last call was shown, system prompts not counted; `None` when it was not called since.
    pub(super) fn take_shown(&self) -> Option<usize> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn answer(&self, request: &ModelRequest) -> Result<Value, ModelError> {
        let shown = request.messages.iter().filter(|message| !is_system(message)).count();
        *self.shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(shown);
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
