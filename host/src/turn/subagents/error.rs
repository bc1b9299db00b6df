//! Why a child was not started, or cannot be used.

use crate::diagnostic::Diagnostic;
use crate::slot::HookFailure;

/// Errors of subagents.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SubagentError {
    /// Switched off.
    #[error("subagents are switched off")]
    Disabled,
    /// The parent is a child as deep as children may be.
    #[error("the session is a subagent of depth {depth} already; at most {max} is allowed")]
    TooDeep {
        /// Depth of the parent.
        depth: u32,
        /// Deepest child.
        max: u32,
    },
    /// The parent has as many running children as it may have.
    #[error("{running} subagents of this session run already")]
    TooMany {
        /// How many.
        running: usize,
    },
    /// The engine could not prepare the child: nothing was started.
    #[error("context engine subagent preparation failed: {0}")]
    Preparation(#[source] HookFailure),
    /// The child was prepared, and its first turn was not admitted: what the engine prepared was rolled back.
    #[error("the subagent was not started: {reason}")]
    Start {
        /// Why.
        reason: String,
    },
    /// Its session takes no turns but its task, and spawns nothing after its end.
    #[error("the session of the subagent \"{child}\" ({state}) takes nothing but its task")]
    Closed {
        /// Key of the child.
        child: String,
        /// "running", or why it ended.
        state: &'static str,
    },
    /// No such child.
    #[error("the session has no subagent \"{child}\"")]
    Unknown {
        /// Key that was asked for.
        child: String,
    },
}

impl SubagentError {
    /// The HTTP status that says the same.
    pub fn http_status(&self) -> u16 {
        match self {
            SubagentError::Disabled => 403,
            SubagentError::TooDeep { .. } | SubagentError::Closed { .. } => 409,
            SubagentError::TooMany { .. } => 429,
            SubagentError::Preparation(_) | SubagentError::Start { .. } => 500,
            SubagentError::Unknown { .. } => 404,
        }
    }
}

impl Diagnostic for SubagentError {
    fn code(&self) -> &'static str {
        match self {
            SubagentError::Disabled => "CE620",
            SubagentError::TooDeep { .. } => "CE621",
            SubagentError::TooMany { .. } => "CE622",
            SubagentError::Preparation(_) => "CE623",
            SubagentError::Start { .. } => "CE624",
            SubagentError::Closed { .. } => "CE625",
            SubagentError::Unknown { .. } => "CE626",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            SubagentError::Disabled => Some("set [subagents] enabled = true".into()),
            SubagentError::TooDeep { .. } => Some("raise [subagents] max_depth".into()),
            SubagentError::TooMany { .. } => {
                Some("wait for one to end, end one, or raise [subagents] max_children".into())
            }
            SubagentError::Preparation(failure) => failure.hint(),
            SubagentError::Start { .. } => Some("try again; the log says more".into()),
            SubagentError::Closed { .. } => Some("go on in the parent's session, or spawn another".into()),
            SubagentError::Unknown { .. } => Some("`engineroom sessions subagents KEY` shows them".into()),
        }
    }
}
