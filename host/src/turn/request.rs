//! What comes in and what goes out: the gateway-level face of a turn.

use super::{Successor, TurnError};
use crate::transcript::EntryId;
use futures_util::Stream;
use serde::Serialize;
use serde_json::{Map, Value};
use std::pin::Pin;
use tokio_util::sync::CancellationToken;

/// How the messages of a request relate to the stored session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HistoryMode {
    /// The whole conversation; compared with the stored branch.
    Full,
    /// Only what is new.
    Delta,
    /// Full when the body holds an assistant message, or a tool message, or two or more user messages; else delta.
    #[default]
    Auto,
}

/// One request for a turn.
#[derive(Debug, Clone, Default)]
pub struct TurnRequest {
    /// Key of the session; `None` for an ephemeral turn, of which nothing is stored.
    pub session_key: Option<String>,
    /// How `messages` relate to the stored session.
    pub history: HistoryMode,
    /// OpenAI messages as the client sent them, system and developer prompts included.
    pub messages: Vec<Value>,
    /// When each message of the conversation was said, in ms since the epoch, system and developer prompts not counted. Where
    /// it is shorter than the conversation or tells nothing, the answer is now.
    pub times_ms: Vec<Option<i64>>,
    /// The rest of the client's body, without `messages` and `stream`; passed on to the model untouched.
    pub params: Map<String, Value>,
    /// The client wants chunks.
    pub stream: bool,
    /// The same key on the same session gives the stored answer again, without a model call.
    pub idempotency_key: Option<String>,
    /// This is a heartbeat.
    pub heartbeat: bool,
    /// Fires when the caller no longer wants the answer. Dropping the reply, or the future of [`super::Turns::run`], does the
    /// same.
    pub cancel: CancellationToken,
}

/// Chunks of an answer, as the model gave them. It ends only after the turn is durable: an end without an error is the
/// acknowledgement. An item that is a text and no object is a note for whoever reads along, no part of the answer.
pub type TurnStream = Pin<Box<dyn Stream<Item = Result<Value, TurnError>> + Send>>;

/// Body of a reply.
pub enum TurnBody {
    /// A `chat.completion` object; the turn is durable.
    Full(Value),
    /// `chat.completion.chunk` objects.
    Stream(TurnStream),
}

impl std::fmt::Debug for TurnBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TurnBody::Full(value) => f.debug_tuple("Full").field(value).finish(),
            TurnBody::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// Facts about a turn that are known before its body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TurnFacts {
    /// Id of the logical turn (UUID v7).
    pub turn_id: String,
    /// Key of the session, or `None` when ephemeral.
    pub session_key: Option<String>,
    /// Id of the session; a throw-away one when ephemeral.
    pub session_id: String,
    /// Registered id of the engine that served: the one whose assembly made the last model call.
    pub engine: String,
    /// Closed degraded code, when it is not the selected engine.
    pub degraded: Option<String>,
    /// True when a stored answer was given again.
    pub replayed: bool,
}

/// The reply to a turn.
#[derive(Debug)]
pub struct TurnReply {
    /// Engine that served.
    pub engine: String,
    /// Closed degraded code.
    pub degraded: Option<String>,
    /// The other facts.
    pub facts: TurnFacts,
    /// The answer.
    pub body: TurnBody,
}

/// What a compaction did, measured by the host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CompactReport {
    /// The call did what it could.
    pub ok: bool,
    /// The context is smaller now.
    pub compacted: bool,
    /// Why not, or what else is worth saying.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Registered id of the engine that answered.
    pub engine: String,
    /// Closed degraded code, when it is not the selected engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// Tokens of the projected history before.
    pub tokens_before: u64,
    /// Tokens of the projected history after.
    pub tokens_after: u64,
    /// First entry that stays verbatim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_kept_entry_id: Option<EntryId>,
    /// The summary that stands for what is older.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Who wrote it: "model", or "extract" where there was no model to ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<&'static str>,
    /// Id of the session now.
    pub session_id: String,
    /// The move to another session id, when the engine made one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub successor: Option<Successor>,
}
