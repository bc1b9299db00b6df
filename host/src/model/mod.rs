//! Providers, streaming, token counting, error classification.
//!
//! A [`Model`] takes the final list of messages and gives what the provider said, as raw as possible: objects of the OpenAI
//! dialect with every field that the provider put in. Nothing here knows sessions, turns or engines.

mod classify;
mod command;
mod discreet;
mod endpoint;
mod error;
mod events;
mod messages;
mod metered;
mod models;
mod offline;
mod openai;
mod reply;
mod responses;
mod retry;
mod sse;
mod tokens;

pub use classify::{ProviderSaid, classify};
pub use command::{CommandModel, end_commands};
pub use error::{CLIENT, GATEWAY, ModelError, Phase};
pub use messages::Messages;
pub use metered::metered;
pub use models::{Models, ModelsError};
pub use offline::{OFFLINE_MODEL, OfflineModel};
pub use openai::OpenAiModel;
pub use reply::{Accumulator, Reply, reply_of, usage_only, wants_usage};
pub use responses::ResponsesModel;
pub use tokens::TokenCounter;

use crate::config::ModelConfig;
use futures_util::Stream;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

/// What is known of a model before it is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ModelInfo {
    /// "openai", "offline", "thread" or "cli".
    pub provider: String,
    /// Name in the configuration; `None` when each request names its own.
    pub requested: Option<String>,
    /// Name that is sent; empty when each request names its own.
    pub resolved: String,
    /// "gpt", "claude", "llama", …, where the name tells.
    pub family: Option<String>,
    /// Context window in tokens.
    pub context_window: u64,
    /// Tokens kept free for the answer.
    pub max_output_tokens: u64,
    /// False for the offline model: engines then have no `llm.complete`.
    pub has_llm: bool,
}

impl ModelInfo {
    /// What the configuration says of a model behind an endpoint.
    fn of(config: &ModelConfig, provider: &str) -> ModelInfo {
        let resolved = config.model.clone().unwrap_or_default();
        ModelInfo {
            provider: provider.to_owned(),
            requested: config.model.clone(),
            family: family_of(&resolved),
            resolved,
            context_window: config.context_window,
            max_output_tokens: config.max_output_tokens,
            has_llm: true,
        }
    }
}

/// One call.
#[derive(Debug, Clone, Default)]
pub struct ModelRequest {
    /// The client's body without `messages` and `stream`, passed on untouched.
    pub params: Map<String, Value>,
    /// OpenAI messages, system first, final.
    pub messages: Messages,
    /// True asks for [`ModelReply::Stream`].
    pub stream: bool,
    /// The model to ask instead of the one that is configured.
    pub model: Option<String>,
    /// For a provider that keeps the conversation itself; the others do not look at it.
    pub host: HostCall,
}

/// What an execution host that keeps the conversation itself needs beside the messages. The default continues nothing and
/// leaves nothing behind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostCall {
    /// `cli`: id under which the command keeps its thread.
    pub session: Option<String>,
    /// `cli`: folder in which the command works; `None` for the gateway's own.
    pub workspace: Option<PathBuf>,
    /// `cli`: the command has seen this session before.
    pub resumed: bool,
    /// `thread`: id of the response that the messages continue.
    pub previous: Option<String>,
    /// `thread`: a later call may continue this one, so the provider shall keep it.
    pub keep: bool,
}

/// Token usage as the provider counted it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt, cached ones included.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the answer.
    pub completion_tokens: Option<u64>,
    /// Both.
    pub total_tokens: Option<u64>,
    /// Tokens of the prompt that came from the provider's cache.
    pub cached_tokens: Option<u64>,
    /// Tokens of the prompt that the provider's cache took in, where it counts them.
    pub cache_write_tokens: Option<u64>,
}

impl Usage {
    /// Reads a `usage` object; `None` when it is not one, or holds no number.
    pub fn read(usage: &Value) -> Option<Usage> {
        let number = |path: &str| usage.pointer(path).and_then(Value::as_u64);
        let usage = Usage {
            prompt_tokens: number("/prompt_tokens"),
            completion_tokens: number("/completion_tokens"),
            total_tokens: number("/total_tokens"),
            cached_tokens: number("/prompt_tokens_details/cached_tokens")
                .or_else(|| number("/cache_read_input_tokens")),
            cache_write_tokens: number("/prompt_tokens_details/cache_write_tokens")
                .or_else(|| number("/cache_creation_input_tokens")),
        };
        (usage != Usage::default()).then_some(usage)
    }
}

/// Chunks of an answer: `chat.completion.chunk` objects as the provider gave them, each as soon as it is here. Ends after the
/// provider's end marker; an error is the last item. Dropping it cancels the call.
///
/// The usage is always asked for, so one chunk may hold nothing else: see [`usage_only`] and [`wants_usage`].
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<Value, ModelError>> + Send>>;

/// What a call gives.
pub enum ModelReply {
    /// The `chat.completion` object.
    Full(Value),
    /// Its chunks. The first one is here already.
    Stream(ModelStream),
}

impl std::fmt::Debug for ModelReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ModelReply::Full(value) => f.debug_tuple("Full").field(value).finish(),
            ModelReply::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// A provider.
pub trait Model: Send + Sync {
    /// What is known before a call.
    fn info(&self) -> ModelInfo;

    /// Calls the model. With `stream` it returns when the first chunk is here, so that everything that fails before that is
    /// an error of the call and may be tried again. Dropping the future cancels the call. Every wait in it is bounded.
    fn call(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelReply, ModelError>>;

    /// The `data` of `GET /v1/models`.
    fn models(&self) -> BoxFuture<'_, Result<Vec<Value>, ModelError>>;
}

/// The model that the configuration names. Opens no connection.
///
/// # Errors
/// [`ModelError::Config`] for an unknown provider, a missing or bad `base_url`, or a key variable that is not set.
pub fn from_config(config: &ModelConfig) -> Result<Arc<dyn Model>, ModelError> {
    let model: Arc<dyn Model> = match config.provider.as_str() {
        "offline" => Arc::new(OfflineModel::new(config)),
        "openai" => Arc::new(OpenAiModel::new(config)?),
        "thread" => Arc::new(ResponsesModel::new(config)?),
        "cli" => Arc::new(CommandModel::new(config)?),
        other => {
            let known = "\"offline\", \"openai\", \"thread\", \"cli\"";
            return Err(ModelError::Config(format!("no such provider: \"{other}\" (known: {known})")));
        }
    };
    Ok(discreet::discreet(model, config))
}

/// The family that a model's name tells, for the runtime settings.
pub(crate) fn family_of(name: &str) -> Option<String> {
    const FAMILIES: [(&str, &str); 14] = [
        ("gpt", "gpt"),
        ("chatgpt", "gpt"),
        ("claude", "claude"),
        ("gemini", "gemini"),
        ("gemma", "gemma"),
        ("llama", "llama"),
        ("qwen", "qwen"),
        ("mistral", "mistral"),
        ("mixtral", "mistral"),
        ("deepseek", "deepseek"),
        ("grok", "grok"),
        ("phi", "phi"),
        ("command", "command"),
        ("glm", "glm"),
    ];
    let name = tokens::bare_name(name);
    if tokens::is_o_series(&name) {
        return Some("gpt".to_owned());
    }
    FAMILIES.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, family)| (*family).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_family_is_read_from_the_name_with_or_without_a_vendor() {
        let family = |name| family_of(name);
        assert_eq!(family("gpt-4o-mini").as_deref(), Some("gpt"));
        assert_eq!(family("o3-mini").as_deref(), Some("gpt"));
        assert_eq!(family("meta-llama/Llama-3.3-70B").as_deref(), Some("llama"));
        assert_eq!(family("mock"), None);
    }

    #[test]
    fn a_usage_without_a_number_is_none() {
        assert_eq!(Usage::read(&Value::Null), None);
        assert_eq!(Usage::read(&json!({"prompt_tokens": null})), None);
        let read = Usage::read(&json!({"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 3}})).unwrap();
        assert_eq!((read.prompt_tokens, read.cached_tokens, read.total_tokens), (Some(7), Some(3), None));
    }

    #[test]
    fn an_unknown_provider_is_refused_with_its_name() {
        let mut config = crate::config::Config::defaults("/x/plugins.toml".into()).model;
        config.provider = "opnai".into();
        assert!(from_config(&config).err().unwrap().to_string().contains("opnai"));
    }
}
