//! The offline model: an honest built-in that needs nothing.
//!
//! It is no language model and says so. It gets exactly the request that a remote model would get and answers by quoting the
//! sentences of it that have most to do with the question. So it shows what a context engine lets a model know: a fact that
//! the engine dropped is one that it does not have. The same request always gives the same text.

mod passages;
mod rank;

use super::{Model, ModelError, ModelInfo, ModelReply, ModelRequest, ProviderSaid, TokenCounter};
use crate::config::ModelConfig;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream;
use passages::{Passage, Prompt};
use serde_json::{Map, Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// Its name.
pub const OFFLINE_MODEL: &str = "offline";

/// How an answer with quotes begins.
pub(super) const FOUND: &str =
    "This is the offline model: no language model is configured. The context I was given says:";
/// An answer without quotes.
pub(super) const NOTHING: &str =
    "This is the offline model: no language model is configured. The context I was given holds nothing on that.";

/// The provider `offline`.
#[derive(Debug)]
pub struct OfflineModel {
    context_window: u64,
    max_output_tokens: u64,
    counter: TokenCounter,
}

impl OfflineModel {
    /// Takes the window from the configuration; like any model it refuses a prompt that is longer.
    pub fn new(config: &ModelConfig) -> OfflineModel {
        OfflineModel {
            context_window: config.context_window,
            max_output_tokens: config.max_output_tokens,
            counter: TokenCounter::for_model(OFFLINE_MODEL),
        }
    }

    fn answer(&self, request: &ModelRequest) -> Result<Answer, ModelError> {
        let tools = request.params.get("tools").map_or(0, |tools| self.counter.value(tools));
        let prompt_tokens =
            tools + request.messages.iter().map(|message| self.counter.json_message(message)).sum::<u64>();
        if prompt_tokens > self.context_window {
            return Err(too_long(prompt_tokens, self.context_window));
        }
        let prompt = Prompt::read(&request.messages);
        let quotes = rank::best(&prompt.question, &prompt.passages);
        let text = if quotes.is_empty() { NOTHING.to_owned() } else { quoting(&quotes) };
        let asked = ["max_completion_tokens", "max_tokens"].iter().find_map(|name| request.params.get(*name)?.as_u64());
        let most = asked.unwrap_or(self.max_output_tokens).min(self.max_output_tokens).max(1);
        let (words, completion_tokens, cut) = self.fit(&text, most);
        let hash = xxhash_rust::xxh3::xxh3_64(format!("{prompt_tokens}/{}/{text}", prompt.question).as_bytes());
        Ok(Answer {
            id: format!("chatcmpl-offline-{hash:016x}"),
            created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            words,
            finish: if cut { "length" } else { "stop" },
            usage: json!({"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens,
                "total_tokens": prompt_tokens + completion_tokens}),
        })
    }

    /// The words of a text, as many as fit, with their number of tokens.
    fn fit(&self, text: &str, most: u64) -> (Vec<String>, u64, bool) {
        let mut words: Vec<String> = text.split_inclusive(' ').map(str::to_owned).collect();
        let mut tokens = self.counter.text(text);
        let cut = tokens > most;
        while tokens > most && words.len() > 1 {
            // Drops at least one word, and about as many as are too much.
            let keep = usize::try_from(words.len() as u64 * most / tokens).unwrap_or(0);
            words.truncate(keep.clamp(1, words.len() - 1));
            tokens = self.counter.text(&words.concat());
        }
        (words, tokens, cut)
    }
}

struct Answer {
    id: String,
    created: u64,
    words: Vec<String>,
    finish: &'static str,
    usage: Value,
}

impl Answer {
    fn full(self) -> Value {
        json!({
            "id": self.id, "object": "chat.completion", "created": self.created, "model": OFFLINE_MODEL,
            "choices": [{"index": 0, "message": {"role": "assistant", "content": self.words.concat()}, "logprobs": null,
                "finish_reason": self.finish}],
            "usage": self.usage,
        })
    }

    fn chunks(self) -> Vec<Value> {
        let chunk = |choices: Value| {
            let mut chunk = Map::new();
            chunk.insert("id".into(), self.id.clone().into());
            chunk.insert("object".into(), "chat.completion.chunk".into());
            chunk.insert("created".into(), self.created.into());
            chunk.insert("model".into(), OFFLINE_MODEL.into());
            chunk.insert("choices".into(), choices);
            chunk
        };
        let delta = |delta: Value, finish: Value| json!([{"index": 0, "delta": delta, "finish_reason": finish}]);
        let mut chunks = vec![chunk(delta(json!({"role": "assistant", "content": ""}), Value::Null))];
        chunks.extend(self.words.iter().map(|word| chunk(delta(json!({"content": word}), Value::Null))));
        chunks.push(chunk(delta(json!({}), self.finish.into())));
        let mut last = chunk(json!([]));
        last.insert("usage".into(), self.usage.clone());
        chunks.push(last);
        chunks.into_iter().map(Value::Object).collect()
    }
}

fn quoting(quotes: &[&Passage]) -> String {
    let mut text = String::from(FOUND);
    for quote in quotes {
        text.push_str("\n- ");
        text.push_str(quote.by.label());
        text.push_str(": \u{201c}");
        text.push_str(&quote.text);
        text.push('\u{201d}');
    }
    text
}

fn too_long(tokens: u64, window: u64) -> ModelError {
    let message = format!(
        "This model's maximum context length is {window} tokens. However, your messages resulted in {tokens} tokens."
    );
    let body = json!({"error": {"message": message, "type": "invalid_request_error", "param": "messages",
        "code": "context_length_exceeded"}});
    ModelError::Overflow { limit: Some(window), said: Box::new(ProviderSaid { status: 400, message, body }) }
}

impl Model for OfflineModel {
    fn info(&self) -> ModelInfo {
        ModelInfo {
            provider: OFFLINE_MODEL.into(),
            requested: None,
            resolved: OFFLINE_MODEL.into(),
            family: None,
            context_window: self.context_window,
            max_output_tokens: self.max_output_tokens,
            has_llm: false,
        }
    }

    fn call(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelReply, ModelError>> {
        let reply = self.answer(&request).map(|answer| {
            if request.stream {
                ModelReply::Stream(Box::pin(stream::iter(answer.chunks().into_iter().map(Ok))))
            } else {
                ModelReply::Full(answer.full())
            }
        });
        std::future::ready(reply).boxed()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Value>, ModelError>> {
        let model = json!({"id": OFFLINE_MODEL, "object": "model", "created": 0, "owned_by": "engineroom"});
        std::future::ready(Ok(vec![model])).boxed()
    }
}

#[cfg(test)]
mod tests;
