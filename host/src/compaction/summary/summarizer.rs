//! Who writes a summary.

use crate::model::Accumulator;
use crate::model::{Model, ModelError, ModelReply, ModelRequest, reply_of};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// What is asked of a summarizer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryPrompt {
    /// System prompt.
    pub system: String,
    /// The conversation with the instructions.
    pub user: String,
    /// Most tokens of the answer.
    pub max_tokens: u64,
}

/// Something that writes summaries. Its text is checked, completed and cut by the compaction; it is never stored as it is.
pub trait Summarizer: Send + Sync {
    /// Writes one.
    fn summarize<'a>(&'a self, prompt: SummaryPrompt) -> BoxFuture<'a, Result<String, ModelError>>;

    /// False when there is no model to ask: the built-in extract is made at once.
    fn available(&self) -> bool {
        true
    }

    /// Context window in tokens; longer sources are summarised in parts.
    fn window(&self) -> u64;
}

/// No model: every summary is an extract.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoModel;

impl Summarizer for NoModel {
    fn summarize<'a>(&'a self, _: SummaryPrompt) -> BoxFuture<'a, Result<String, ModelError>> {
        // Never asked: `available` is false. An empty text is refused as any other.
        Box::pin(std::future::ready(Ok(String::new())))
    }

    fn available(&self) -> bool {
        false
    }

    fn window(&self) -> u64 {
        0
    }
}

/// The model in use.
#[derive(Clone)]
pub struct ModelSummarizer {
    model: Arc<dyn Model>,
    name: Option<String>,
}

impl ModelSummarizer {
    /// A summarizer over `model`. `name` is the model that the running request asked for, for providers that serve several.
    pub fn new(model: Arc<dyn Model>, name: Option<String>) -> ModelSummarizer {
        ModelSummarizer { model, name }
    }
}

impl Summarizer for ModelSummarizer {
    fn summarize<'a>(&'a self, prompt: SummaryPrompt) -> BoxFuture<'a, Result<String, ModelError>> {
        Box::pin(async move {
            let mut params = Map::new();
            if let Some(name) = &self.name {
                params.insert("model".into(), Value::from(name.as_str()));
            }
            params.insert("max_tokens".into(), Value::from(prompt.max_tokens));
            let messages = vec![
                json!({"role": "system", "content": prompt.system}),
                json!({"role": "user", "content": prompt.user}),
            ];
            let request = ModelRequest { params, messages: messages.into(), ..ModelRequest::default() };
            let reply = match self.model.call(request).await? {
                ModelReply::Full(full) => reply_of(&full)?,
                ModelReply::Stream(mut stream) => {
                    let mut accumulator = Accumulator::new();
                    while let Some(chunk) = stream.next().await {
                        accumulator.push(&chunk?);
                    }
                    accumulator.finish()
                }
            };
            Ok(reply.message.text().into_owned())
        })
    }

    fn available(&self) -> bool {
        self.model.info().has_llm
    }

    fn window(&self) -> u64 {
        self.model.info().context_window
    }
}
