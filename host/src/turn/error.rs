//! Why a turn was refused, or ended without an answer.

use super::subagents::SubagentError;
use crate::diagnostic::Diagnostic;
use crate::model::ModelError;
use crate::observe::failpoint;
use crate::slot::SlotError;
use crate::transcript::StoreError;

/// Errors of a turn. Everything that was acknowledged before stays.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TurnError {
    /// The request makes no sense.
    #[error("{message}")]
    Invalid {
        /// What is wrong.
        message: String,
        /// Where, in the body of the request.
        param: Option<String>,
    },
    /// Too many requests wait for the session already.
    #[error("{waiting} requests wait for this session already")]
    QueueFull {
        /// How many.
        waiting: usize,
    },
    /// Too many requests wait for sessions already, of all of them together.
    #[error("{waiting} requests wait for their sessions already")]
    QueuesFull {
        /// How many.
        waiting: usize,
    },
    /// The idempotency key came before, with another request.
    #[error("the idempotency key was used with another request in this session")]
    KeyReused,
    /// The request's message was kept by an earlier try, and the conversation has gone on without an answer to it.
    #[error("the message was kept by an earlier try without an answer, and the conversation has gone on since")]
    Superseded,
    /// The session was busy for too long.
    #[error("the session was busy for {seconds} seconds")]
    QueueTimeout {
        /// How long.
        seconds: u64,
    },
    /// The gateway stops.
    #[error("the gateway is stopping")]
    Draining,
    /// The caller gave up.
    #[error("the request was cancelled")]
    Cancelled,
    /// No such session.
    #[error("there is no session \"{key}\"")]
    NoSession {
        /// Its key.
        key: String,
    },
    /// No engine may serve, and the policy is strict; or the host cannot meet an engine's requirements.
    #[error("no context engine may serve this request")]
    Slot(#[source] SlotError),
    /// The model failed.
    #[error("the model did not answer")]
    Model(#[source] ModelError),
    /// The prompt does not fit, whatever was tried.
    #[error("the prompt does not fit the model's context window after {attempts} attempts to shorten it")]
    Overflow {
        /// How often it was sent.
        attempts: u32,
        /// The provider's last words.
        #[source]
        last: ModelError,
    },
    /// A look at an engine's answer says nothing about the next turn.
    #[error("what {engine} would show cannot be told by looking alone: {reason}")]
    Look {
        /// Registered id of the engine.
        engine: String,
        /// Why.
        reason: String,
    },
    /// What cannot be shortened is longer than the window.
    #[error(
        "the prompt cannot be made to fit: {tokens} tokens are left of it, the window has {window} (system prompt {system}, tools \
         {tools}, all that is fixed {fixed})"
    )]
    DoesNotFit {
        /// Tokens of the shortest prompt there is.
        tokens: u64,
        /// Tokens of the window.
        window: u64,
        /// Tokens of what is sent with every prompt: system prompt, tools, what the engine adds.
        fixed: u64,
        /// Tokens of the system prompt.
        system: u64,
        /// Tokens of the tool schemas.
        tools: u64,
    },
    /// A compaction failed; history is as it was.
    #[error("the compaction failed: {reason}")]
    Compaction {
        /// Why.
        reason: String,
    },
    /// A child of the session could not be started, or is not to be had.
    #[error(transparent)]
    Subagent(#[from] SubagentError),
    /// The store failed; the turn is not acknowledged.
    #[error("the transcript could not be kept")]
    Store(#[from] StoreError),
    /// Something inside the gateway broke.
    #[error("the gateway failed: {reason}")]
    Internal {
        /// What.
        reason: String,
    },
}

impl TurnError {
    /// A step that a test can let fail: see [`failpoint`].
    #[inline]
    pub(super) fn at(point: &'static str) -> Result<(), TurnError> {
        if failpoint::fails(point) {
            return Err(TurnError::internal(format!("the fail point {point} was reached")));
        }
        Ok(())
    }

    pub(super) fn invalid(message: impl Into<String>, param: impl Into<String>) -> TurnError {
        TurnError::Invalid { message: message.into(), param: Some(param.into()) }
    }

    pub(super) fn internal(reason: impl Into<String>) -> TurnError {
        TurnError::Internal { reason: reason.into() }
    }

    /// When to try again, in seconds, where the gateway itself refused for now.
    pub fn retry_after(&self) -> Option<u64> {
        match self {
            TurnError::QueueFull { .. } | TurnError::QueuesFull { .. } => Some(1),
            TurnError::QueueTimeout { .. } | TurnError::Draining => Some(5),
            _ => None,
        }
    }

    /// The HTTP status that says the same.
    pub fn http_status(&self) -> u16 {
        match self {
            TurnError::Invalid { .. } | TurnError::Overflow { .. } | TurnError::DoesNotFit { .. } => 400,
            TurnError::NoSession { .. } => 404,
            TurnError::QueueFull { .. } => 429,
            TurnError::QueuesFull { .. } | TurnError::QueueTimeout { .. } | TurnError::Draining => 503,
            TurnError::KeyReused => 422,
            TurnError::Look { .. } | TurnError::Superseded => 409,
            TurnError::Cancelled => 499,
            TurnError::Slot(error) => error.http_status(),
            TurnError::Subagent(error) => error.http_status(),
            TurnError::Model(error) => error.http_status(),
            TurnError::Store(error) => error.http_status(),
            TurnError::Compaction { .. } | TurnError::Internal { .. } => 500,
        }
    }
}

impl Diagnostic for TurnError {
    fn code(&self) -> &'static str {
        match self {
            TurnError::Invalid { .. } => "CE601",
            TurnError::QueueFull { .. } => "CE602",
            TurnError::QueueTimeout { .. } => "CE603",
            TurnError::Draining => "CE604",
            TurnError::Cancelled => "CE605",
            TurnError::NoSession { .. } => "CE606",
            TurnError::Overflow { .. } => "CE607",
            TurnError::Compaction { .. } => "CE608",
            TurnError::DoesNotFit { .. } => "CE655",
            TurnError::Internal { .. } => "CE609",
            TurnError::Look { .. } => "CE619",
            TurnError::QueuesFull { .. } => "CE627",
            TurnError::KeyReused => "CE628",
            TurnError::Superseded => "CE629",
            // The room below knows best.
            TurnError::Slot(error) => error.code(),
            TurnError::Subagent(error) => error.code(),
            TurnError::Model(error) => error.code(),
            TurnError::Store(error) => error.code(),
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            TurnError::QueueFull { .. } => {
                Some("wait for the running requests, or raise [gateway] queue_per_session".into())
            }
            TurnError::QueuesFull { .. } => Some("retry in a moment, or raise [gateway] queue_total".into()),
            TurnError::KeyReused => Some("send a new idempotency-key with a new request; nothing was stored".into()),
            TurnError::Superseded => Some(
                "the message is in the session once, and the model has seen it with the next one; send a new message, with a \
                 new key"
                    .into(),
            ),
            TurnError::Invalid { .. } => Some(
                "`param` names the place in the body or the header; nothing was stored, so mend it and send it again".into(),
            ),
            TurnError::Internal { .. } => Some("the gateway's log says more; a retry is safe with an idempotency-key".into()),
            TurnError::QueueTimeout { .. } => Some("retry; `engineroom doctor` shows what holds the session".into()),
            TurnError::Draining => Some("retry when the gateway is up again".into()),
            TurnError::NoSession { .. } => Some("`engineroom sessions list` shows the sessions".into()),
            TurnError::DoesNotFit { .. } => Some(
                "send a shorter system prompt or fewer tools, or use a model with a larger window ([model] context_window)".into(),
            ),
            TurnError::Compaction { .. } => Some("the history is unchanged; the gateway's log says more".into()),
            TurnError::Overflow { .. } => {
                Some("shorten the last message or the system prompt, or use a model with a larger window".into())
            }
            TurnError::Look { .. } => Some(
                "ask with take_up (`sessions context --take-up`): the engine then takes the session up as the next turn would have it"
                    .into(),
            ),
            TurnError::Slot(error) => error.hint(),
            TurnError::Subagent(error) => error.hint(),
            TurnError::Model(error) => error.hint(),
            TurnError::Store(error) => error.hint(),
            _ => None,
        }
    }
}
