//! What the host's services are asked and what they answer.

use crate::codes::CursorReset;
use crate::view::{Entry, Message};

/// A number of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// How many.
    pub count: u64,
    /// No tokenizer is known for the model, and the number is a bound.
    pub estimated: bool,
}

/// Parameters of [`crate::Host::complete`].
#[derive(Clone, Debug, Default)]
pub struct LlmRequest {
    /// Messages of the person and the model.
    pub messages: Vec<Message>,
    /// System prompt.
    pub system_prompt: Option<String>,
    /// Another model than the one in use; only where the plugin's entry allows it.
    pub model: Option<String>,
    /// What it is for, for the record.
    pub purpose: Option<String>,
    /// An effort that the model knows.
    pub reasoning: Option<String>,
    /// `responseFormat`, JSON text.
    pub response_format_json: Option<String>,
    /// Most tokens of the answer.
    pub max_tokens: Option<u64>,
    /// Temperature.
    pub temperature: Option<f64>,
}

/// Result of [`crate::Host::complete`].
#[derive(Clone, Debug, Default)]
pub struct LlmReply {
    /// What the model said.
    pub text: String,
    /// Provider.
    pub provider: Option<String>,
    /// Model that was asked.
    pub model: Option<String>,
    /// Model that answered.
    pub response_model: Option<String>,
    /// Why it stopped.
    pub stop_reason: Option<String>,
    /// Agent that was billed.
    pub agent_id: Option<String>,
    /// Tokens in.
    pub input_tokens: Option<u64>,
    /// Tokens out.
    pub output_tokens: Option<u64>,
    /// Tokens read from the prompt cache.
    pub cache_read_tokens: Option<u64>,
    /// Tokens written to the prompt cache.
    pub cache_write_tokens: Option<u64>,
    /// All tokens.
    pub total_tokens: Option<u64>,
    /// Cost in US dollars.
    pub cost_usd: Option<f64>,
}

/// Where to read a transcript from. The default starts at the oldest entry of the call's session.
#[derive(Clone, Debug, Default)]
pub struct CursorRequest {
    /// Another session, where granted.
    pub session_key: Option<String>,
    /// Where to go on: the cursor of the page before. A position, never an authorisation.
    pub cursor: Option<String>,
    /// Most messages: 0 for 1,000; at most 10,000.
    pub max_messages: u64,
    /// Most bytes: 0 for 1,000,000; at most 64 MiB.
    pub max_bytes: u64,
}

impl CursorRequest {
    /// Behind the last entry that this engine was handed over, by `commit_turn` or by a cursor: what follows is new to it.
    #[must_use]
    pub fn after_handed_over() -> CursorRequest {
        CursorRequest { cursor: Some(crate::wire::cursor_place::HANDED_OVER.to_owned()), ..CursorRequest::default() }
    }
}

/// A page of a transcript.
#[non_exhaustive]
pub enum Page<'a> {
    /// Entries, oldest first.
    Entries {
        /// The entries; valid until the hook returns.
        entries: &'a [Entry],
        /// Where the next page starts.
        cursor: Option<String>,
        /// More follows.
        has_more: bool,
        /// What `max_bytes` must at least be, when the first entry alone is larger.
        required_bytes: Option<u64>,
    },
    /// Start again from `cursor`.
    Reset {
        /// Where to start.
        cursor: Option<String>,
        /// Why.
        reason: CursorReset,
    },
    /// No such session.
    Missing,
    /// Not now; try later.
    Unavailable,
}

/// One hit of [`crate::Host::search_memory`].
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryHit {
    /// Id of the memory.
    pub id: String,
    /// Its text.
    pub text: String,
    /// Higher is better; comparable only within one answer.
    pub score: f64,
    /// Milliseconds since the epoch.
    pub time_ms: Option<i64>,
}
