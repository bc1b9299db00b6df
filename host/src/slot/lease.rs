//! A lease: the ordered candidates of one logical turn. It only moves down.

use super::*;
use serde::Serialize;
use serde_json::Value;
use std::path::PathBuf;

/// What a lease is asked for.
#[derive(Debug, Clone)]
pub struct LeaseRequest {
    /// Agent of the session.
    pub agent: String,
    /// True when the session is stored: candidates must be durable.
    pub stored: bool,
    /// The operation, for host requirements.
    pub operation: Operation,
    /// Workspace folder; `None` for the agent's.
    pub workspace: Option<PathBuf>,
    /// The executing host; `None` for the embedded host of this gateway.
    pub host: Option<ExecutionHost>,
}

impl LeaseRequest {
    /// A turn of this agent on the embedded host.
    pub fn turn(agent: impl Into<String>, stored: bool) -> LeaseRequest {
        LeaseRequest { agent: agent.into(), stored, operation: Operation::AgentRun, workspace: None, host: None }
    }

    /// The same for another operation.
    pub fn operation(mut self, operation: Operation) -> LeaseRequest {
        self.operation = operation;
        self
    }
}

/// The host that executes a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExecutionHost {
    /// Id.
    pub id: String,
    /// Name for people.
    pub label: String,
    /// Bits of [`engine_abi::wire::capability`].
    pub capabilities: u32,
}

/// Why the serving engine is not the selected one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Degraded {
    /// The code for the header.
    pub code: DegradedCode,
    /// The engine that should have served.
    pub engine: String,
    /// Why it does not.
    pub reason: String,
}

/// The ordered candidates of one logical turn, retries included.
#[derive(Debug)]
pub struct Lease {
    candidates: Vec<EngineRef>,
    at: usize,
    passed: Vec<Passed>,
}

impl Lease {
    /// The candidate that serves now.
    pub fn engine(&self) -> &EngineRef {
        &self.candidates[self.at]
    }

    /// Moves down after a failed hook of [`Self::engine`].
    ///
    /// # Errors
    ///
    /// [`SlotError::Strict`] or [`SlotError::Exhausted`] when no candidate is left; the lease stays where it is.
    pub fn fail(&mut self, failure: &HookFailure) -> Result<(), SlotError> {
        self.pass_over(failure.code, failure.reason.clone())
    }

    /// Moves down for a reason that is no failure of the engine (`fence-unavailable`, `pending-commit`); the engine is asked
    /// again next turn.
    ///
    /// # Errors
    ///
    /// As [`Self::fail`].
    pub fn pass_over(&mut self, code: DegradedCode, reason: impl Into<String>) -> Result<(), SlotError> {
        let _ = (code, reason.into());
        Err(SlotError::Strict { passed: self.passed.clone() })
    }

    /// Moves down to `legacy` at once, past every other candidate, for such a reason.
    ///
    /// # Errors
    ///
    /// As [`Self::fail`]; also when the policy is strict and `legacy` is not listed.
    pub fn serve_legacy(&mut self, code: DegradedCode, reason: impl Into<String>) -> Result<(), SlotError> {
        self.pass_over(code, reason)
    }

    /// Why the serving engine is not the selected one: the reason of the first choice. `None` when it is.
    pub fn degraded(&self) -> Option<Degraded> {
        self.passed.first().map(|p| Degraded { code: p.code, engine: p.engine.clone(), reason: p.reason.clone() })
    }

    /// Registered id of the first choice.
    pub fn selected(&self) -> &str {
        ""
    }

    /// The candidates with reasons, for the turn record.
    pub fn reasons(&self) -> Value {
        Value::Null
    }
}
