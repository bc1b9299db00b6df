//! Why a model call failed.

use super::ProviderSaid;
use crate::diagnostic::Diagnostic;
use engine_abi::wire::reason_code;
use serde_json::Value;
use std::time::Duration;

/// What was being waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The first byte of the answer.
    FirstByte,
    /// The next byte of an answer that has begun.
    NextByte,
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Phase::FirstByte => "the first byte of its answer",
            Phase::NextByte => "the next byte of its answer",
        })
    }
}

/// A failed model call. Where the provider answered, what it said is kept.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The prompt does not fit into the model's window.
    #[error("the prompt is too long for the model: {said}")]
    Overflow {
        /// The window in tokens, where the provider names it.
        limit: Option<u64>,
        /// What the provider said.
        said: Box<ProviderSaid>,
    },
    /// Too many requests or tokens, or no quota.
    #[error("the model endpoint limits the rate: {said}")]
    RateLimit {
        /// When the provider wants to be asked again.
        retry_after: Option<Duration>,
        /// True when waiting will not help: the quota is used up.
        exhausted: bool,
        /// What the provider said.
        said: Box<ProviderSaid>,
    },
    /// The key is missing, wrong, or may not do this.
    #[error("the model endpoint refuses the key: {said}")]
    Auth {
        /// What the provider said.
        said: Box<ProviderSaid>,
    },
    /// Nothing came in time.
    #[error("the model did not send {phase} within {after_ms} ms")]
    Timeout {
        /// What was awaited.
        phase: Phase,
        /// How long, in ms.
        after_ms: u64,
    },
    /// No connection, a broken one, or a server-side failure.
    #[error("the model endpoint is not available: {message}")]
    Unavailable {
        /// The cause.
        message: String,
        /// What the provider said, where it said something.
        said: Option<Box<ProviderSaid>>,
    },
    /// The provider refuses the request itself.
    #[error("the model refuses the request: {said}")]
    BadRequest {
        /// What the provider said.
        said: Box<ProviderSaid>,
    },
    /// The model, or the endpoint as it was started, takes no tools, and was offered some.
    #[error("the model takes no tools{}: {said}", offered(by))]
    NoTools {
        /// What the provider said.
        said: Box<ProviderSaid>,
        /// Who offered tools, as far as it is known: [`CLIENT`], [`GATEWAY`], or an engine's id.
        by: Vec<String>,
    },
    /// The provider does not know the response any more that the call was to continue. Telling it everything again helps.
    #[error("the provider has forgotten the conversation ({response}): {said}")]
    ThreadLost {
        /// The response that was to be continued.
        response: String,
        /// What the provider said.
        said: Box<ProviderSaid>,
    },
    /// The command of a `cli` host did not answer.
    #[error("the command {program} {what}")]
    Command {
        /// The program.
        program: String,
        /// What it did, or did not do, with the last of its standard error.
        what: String,
        /// It was terminated at its deadline.
        late: bool,
    },
    /// The answer is not what the dialect promises.
    #[error("the model's answer cannot be read: {0}")]
    Protocol(String),
    /// The caller went away.
    #[error("the model call was cancelled")]
    Cancelled,
    /// The caller may not call the model any more.
    #[error("the budget is used up: {0}")]
    Budget(String),
    /// The configuration of the model cannot be used.
    #[error("the model's configuration cannot be used: {0}")]
    Config(String),
}

/// Stands for the client among those who offered tools.
pub const CLIENT: &str = "the client";
/// Stands for the gateway among those who offered tools.
pub const GATEWAY: &str = "the gateway";

fn offered(by: &[String]) -> String {
    if by.is_empty() { String::new() } else { format!(", and {} offered some", by.join(" and ")) }
}

/// How those who offer tools are kept from it.
fn without_tools(by: &[String]) -> String {
    let mut ways = Vec::new();
    for who in by {
        match who.as_str() {
            CLIENT => ways.push("have the client send its request without tools".to_owned()),
            GATEWAY => ways.push("take the gateway's own out ([memory] tools = [], [subagents] tool = false)".to_owned()),
            engine => ways.push(format!(
                "turn those of {engine} off in [plugins.entries.{engine}.config] (for recall: tools = false), or all that \
                 engines and the gateway offer with [tools] max_calls = 0"
            )),
        }
    }
    if ways.is_empty() {
        ways.push("ask without tools".to_owned());
    }
    format!("{}; or use a model with tools (vLLM: --enable-auto-tool-choice, llama.cpp: --jinja)", ways.join("; "))
}

impl ModelError {
    /// What the provider said, where it answered.
    pub fn said(&self) -> Option<&ProviderSaid> {
        match self {
            ModelError::Overflow { said, .. }
            | ModelError::RateLimit { said, .. }
            | ModelError::Auth { said }
            | ModelError::BadRequest { said }
            | ModelError::NoTools { said, .. }
            | ModelError::ThreadLost { said, .. } => Some(said),
            ModelError::Unavailable { said, .. } => said.as_deref(),
            _ => None,
        }
    }

    /// The provider's body, where it answered.
    pub fn body(&self) -> Option<&Value> {
        self.said().map(|said| &said.body)
    }

    /// Status for the gateway's own reply. A refused key is the gateway's fault, not the client's: 502.
    pub fn http_status(&self) -> u16 {
        match self {
            ModelError::Overflow { .. } => 400,
            ModelError::RateLimit { .. } => 429,
            ModelError::Timeout { .. } | ModelError::Command { late: true, .. } => 504,
            ModelError::Unavailable { said: Some(said), .. } if matches!(said.status, 503 | 529) => 503,
            ModelError::Auth { .. }
            | ModelError::Unavailable { .. }
            | ModelError::ThreadLost { .. }
            | ModelError::Command { .. }
            | ModelError::Protocol(_) => 502,
            ModelError::BadRequest { said } if (400..500).contains(&said.status) => said.status,
            ModelError::BadRequest { .. } | ModelError::NoTools { .. } => 400,
            ModelError::Cancelled => 499,
            ModelError::Budget(_) => 409,
            ModelError::Config(_) => 500,
        }
    }

    /// The closed reason code of the runtime settings.
    pub fn reason_code(&self) -> u32 {
        match self {
            ModelError::Overflow { .. } => reason_code::CONTEXT_OVERFLOW,
            ModelError::RateLimit { .. } => reason_code::RATE_LIMITED,
            ModelError::Timeout { .. } | ModelError::Command { late: true, .. } => reason_code::PROVIDER_TIMEOUT,
            ModelError::Unavailable { .. } | ModelError::Auth { .. } | ModelError::Command { .. } => {
                reason_code::PROVIDER_UNAVAILABLE
            }
            _ => reason_code::UNKNOWN,
        }
    }

    /// One word for metrics and for the `code` of an OpenAI error.
    pub fn kind(&self) -> &'static str {
        match self {
            ModelError::Overflow { .. } => "context_length_exceeded",
            ModelError::RateLimit { .. } => "rate_limit_exceeded",
            ModelError::Auth { .. } => "model_auth",
            ModelError::Timeout { .. } => "model_timeout",
            ModelError::Unavailable { .. } => "model_unavailable",
            ModelError::BadRequest { .. } => "bad_request",
            ModelError::NoTools { .. } => "tools_unsupported",
            ModelError::ThreadLost { .. } => "thread_lost",
            ModelError::Command { .. } => "model_command",
            ModelError::Protocol(_) => "model_protocol",
            ModelError::Cancelled => "cancelled",
            ModelError::Budget(_) => "budget_exceeded",
            ModelError::Config(_) => "model_config",
        }
    }

    /// True when the prompt was too long.
    pub fn is_overflow(&self) -> bool {
        matches!(self, ModelError::Overflow { .. })
    }

    /// When to try again, as the provider wants it.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            ModelError::RateLimit { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// True when the same request may succeed a moment later. Only to be asked before the first byte.
    pub fn transient(&self) -> bool {
        matches!(self, ModelError::RateLimit { exhausted: false, .. } | ModelError::Unavailable { .. })
    }
}

impl Diagnostic for ModelError {
    fn code(&self) -> &'static str {
        match self {
            ModelError::Overflow { .. } => "CE501",
            ModelError::RateLimit { .. } => "CE502",
            ModelError::Auth { .. } => "CE503",
            ModelError::Timeout { .. } => "CE504",
            ModelError::Unavailable { .. } => "CE505",
            ModelError::BadRequest { .. } => "CE506",
            ModelError::Protocol(_) => "CE507",
            ModelError::Cancelled => "CE508",
            ModelError::Config(_) => "CE509",
            ModelError::ThreadLost { .. } => "CE510",
            ModelError::Command { .. } => "CE511",
            ModelError::Budget(_) => "CE512",
            ModelError::NoTools { .. } => "CE513",
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            ModelError::Overflow { limit: Some(limit), .. } => {
                format!("[model] context_window should be at most {limit}, the window that the endpoint names")
            }
            ModelError::Overflow { .. } => "set [model] context_window to the model's real window".into(),
            ModelError::RateLimit { exhausted: true, .. } => {
                "the quota is used up: look at the provider's billing".into()
            }
            ModelError::Auth { .. } => "set [model] api_key_env to a variable that holds a valid key".into(),
            ModelError::Timeout { .. } => "raise [model] timeout_ms, or use a faster model".into(),
            ModelError::Unavailable { .. } => "check that the endpoint at [model] base_url is running".into(),
            ModelError::Protocol(_) => {
                "check that [model] base_url is an OpenAI-compatible endpoint, up to and including /v1".into()
            }
            ModelError::NoTools { by, .. } => without_tools(by),
            ModelError::ThreadLost { .. } => {
                "send the message again: a new conversation is begun with all of it".into()
            }
            ModelError::Command { late: true, .. } => "raise [model] timeout_ms, or see why the command hangs".into(),
            ModelError::Command { .. } => {
                "run [model] command by hand, with the text on its standard input; variables that it needs go into env"
                    .into()
            }
            ModelError::Config(_) => "look at [model] in plugins.toml".into(),
            _ => return None,
        })
    }
}
