//! A lease: the ordered candidates of one logical turn. It only moves down.

use super::engine::{EngineRef, Operation};
use super::failure::{DegradedCode, HookFailure, Passed, SlotError};
use super::host::ExecutionHost;
use super::slot::LEGACY;
use crate::observe::broken;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;

/// What a lease is asked for.
#[derive(Debug, Clone)]
pub struct LeaseRequest {
    /// Agent of the session.
    pub agent: String,
    /// True when the session is stored: candidates must be durable.
    pub stored: bool,
    /// The operation, for host requirements. `None` for work that runs nothing (a report, a deletion): nothing is required.
    pub operation: Option<Operation>,
    /// Workspace folder; `None` for the agent's.
    pub workspace: Option<PathBuf>,
    /// The executing host; `None` for the one that the agent's model selects.
    pub host: Option<Arc<ExecutionHost>>,
}

impl LeaseRequest {
    /// A turn of this agent on its host.
    pub fn turn(agent: impl Into<String>, stored: bool) -> LeaseRequest {
        let operation = Some(Operation::AgentRun);
        LeaseRequest { agent: agent.into(), stored, operation, workspace: None, host: None }
    }

    /// Work on a stored session that runs nothing, whatever the engine requires for a run.
    pub fn upkeep(agent: impl Into<String>) -> LeaseRequest {
        LeaseRequest { operation: None, ..LeaseRequest::turn(agent, true) }
    }

    /// The same for another operation.
    #[must_use]
    pub fn operation(mut self, operation: Operation) -> LeaseRequest {
        self.operation = Some(operation);
        self
    }
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
#[derive(Debug, Clone)]
pub struct Lease {
    selected: String,
    strict: bool,
    candidates: Vec<EngineRef>,
    at: usize,
    passed: Vec<Passed>,
    /// Candidates that were left out without being passed over, with the reason.
    notes: Vec<(String, String)>,
}

impl Lease {
    pub(crate) fn empty(selected: &str, strict: bool) -> Lease {
        Lease {
            selected: selected.to_owned(),
            strict,
            candidates: Vec::new(),
            at: 0,
            passed: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// A lease of one engine, whatever the slot's value: for what concerns that engine alone.
    pub fn only(engine: EngineRef) -> Lease {
        let mut lease = Lease::empty(engine.id(), true);
        lease.push(engine);
        lease
    }

    /// A candidate that cannot serve. Those behind the first that can are left out silently but for the record.
    pub(crate) fn skip(&mut self, mut passed: Passed) {
        if broken("8.44") {
            passed.reason.clear();
        }
        if self.candidates.is_empty() {
            self.passed.push(passed);
        } else {
            self.notes.push((passed.engine, format!("{}: {}", passed.code, passed.reason)));
        }
    }

    pub(crate) fn note(&mut self, engine: &str, reason: String) {
        self.notes.push((engine.to_owned(), reason));
    }

    pub(crate) fn push(&mut self, engine: EngineRef) {
        self.candidates.push(engine);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }

    pub(crate) fn ready(self) -> Result<Lease, SlotError> {
        if self.candidates.is_empty() { Err(SlotError::Strict { passed: self.passed }) } else { Ok(self) }
    }

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
        self.pass_over(failure.code, format!("{} failed: {}", failure.hook, failure.reason))
    }

    /// Moves down for a reason that is no failure of the engine (`fence-unavailable`, `pending-commit`); the engine is asked
    /// again next turn.
    ///
    /// # Errors
    ///
    /// As [`Self::fail`].
    pub fn pass_over(&mut self, code: DegradedCode, reason: impl Into<String>) -> Result<(), SlotError> {
        let reason = reason.into();
        if broken("8.35") && self.engine().in_service() {
            return Ok(());
        }
        let next = self.candidates[self.at + 1..].iter().position(EngineRef::in_service);
        self.move_to(next.map(|ahead| self.at + 1 + ahead), code, reason)
    }

    /// Moves down to `legacy` at once, past every other candidate, for such a reason.
    ///
    /// # Errors
    ///
    /// As [`Self::fail`]; also when the policy is strict and `legacy` is not listed.
    pub fn serve_legacy(&mut self, code: DegradedCode, reason: impl Into<String>) -> Result<(), SlotError> {
        if self.engine().id() == LEGACY {
            return Ok(());
        }
        let next = self.candidates.iter().position(|engine| engine.id() == LEGACY).filter(|legacy| *legacy > self.at);
        self.move_to(next, code, reason.into())
    }

    fn move_to(&mut self, next: Option<usize>, code: DegradedCode, reason: String) -> Result<(), SlotError> {
        let engine = self.engine().id().to_owned();
        let here = Passed { engine: engine.clone(), code, reason: reason.clone() };
        let Some(next) = next else {
            if self.strict {
                let mut passed = self.passed.clone();
                passed.push(here);
                return Err(SlotError::Strict { passed });
            }
            return Err(SlotError::Exhausted { engine, reason });
        };
        self.passed.push(here);
        for between in &self.candidates[self.at + 1..next] {
            if let Some(record) = between.core.latch.get() {
                let (code, reason) = (record.later_code(), format!("it failed in {}: {}", record.at, record.reason));
                self.passed.push(Passed { engine: between.id().to_owned(), code, reason });
            } else {
                self.passed.push(Passed { engine: between.id().to_owned(), code, reason: reason.clone() });
            }
        }
        self.at = next;
        Ok(())
    }

    /// Why the serving engine is not the selected one: the reason of the first choice. `None` when it is.
    pub fn degraded(&self) -> Option<Degraded> {
        self.passed.first().map(|p| Degraded { code: p.code, engine: p.engine.clone(), reason: p.reason.clone() })
    }

    /// The host that executes what was leased for.
    pub fn host(&self) -> &ExecutionHost {
        self.engine().host()
    }

    /// Registered id of the first choice.
    pub fn selected(&self) -> &str {
        &self.selected
    }

    /// The candidates that were passed over, in order, with reasons.
    pub fn passed(&self) -> &[Passed] {
        &self.passed
    }

    /// The candidates with reasons, for the turn record.
    pub fn reasons(&self) -> Value {
        let left_out: Vec<Value> =
            self.notes.iter().map(|(engine, reason)| json!({ "engine": engine, "reason": reason })).collect();
        json!({
            "selected": self.selected,
            "served": self.engine().id(),
            "passed": self.passed,
            "leftOut": left_out,
            "next": self.candidates[self.at + 1..].iter().map(EngineRef::id).collect::<Vec<_>>(),
        })
    }
}
