//! What can go wrong with an engine, in closed codes.

use super::hook::Hook;
use crate::diagnostic::Diagnostic;
use engine_abi::wire::reason_code;
use serde::{Serialize, Serializer};
use std::fmt;

/// Why a turn was not served by the selected engine. Closed; the value of `x-engineroom-degraded`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DegradedCode {
    /// No such engine is registered.
    EngineMissing,
    /// The engine's plugin is switched off or denied.
    EngineDisabled,
    /// The engine was refused at a load stage.
    EngineRefused,
    /// A crash inside the engine was recorded.
    EngineCrashed,
    /// A hook of the engine failed; it is out for the rest of the process.
    EngineQuarantined,
    /// A stored turn needs both transcript semantics and `commitTurn`.
    DurableSemanticsMissing,
    /// The admitted entry cannot be fenced.
    FenceUnavailable,
    /// Earlier turns of the session are not handed over yet.
    PendingCommit,
    /// A hook did not return before its deadline.
    Deadline,
    /// A hook gave a result that breaks the contract.
    InvalidResult,
    /// A host service that the engine needs failed.
    ServiceError,
    /// So many calls never came back that no engine is called in-process; a restart is due.
    ThreadsAbandoned,
}

impl DegradedCode {
    /// All codes.
    pub const ALL: [DegradedCode; 12] = [
        DegradedCode::EngineMissing,
        DegradedCode::EngineDisabled,
        DegradedCode::EngineRefused,
        DegradedCode::EngineCrashed,
        DegradedCode::EngineQuarantined,
        DegradedCode::DurableSemanticsMissing,
        DegradedCode::FenceUnavailable,
        DegradedCode::PendingCommit,
        DegradedCode::Deadline,
        DegradedCode::InvalidResult,
        DegradedCode::ServiceError,
        DegradedCode::ThreadsAbandoned,
    ];

    /// The code as headers and documents spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            DegradedCode::EngineMissing => "engine-missing",
            DegradedCode::EngineDisabled => "engine-disabled",
            DegradedCode::EngineRefused => "engine-refused",
            DegradedCode::EngineCrashed => "engine-crashed",
            DegradedCode::EngineQuarantined => "engine-quarantined",
            DegradedCode::DurableSemanticsMissing => "durable-semantics-missing",
            DegradedCode::FenceUnavailable => "fence-unavailable",
            DegradedCode::PendingCommit => "pending-commit",
            DegradedCode::Deadline => "deadline",
            DegradedCode::InvalidResult => "invalid-result",
            DegradedCode::ServiceError => "service-error",
            DegradedCode::ThreadsAbandoned => "threads-abandoned",
        }
    }

    /// The code as the memory slot spells it: what is said of an engine there is said of a memory provider here.
    pub const fn memory(self) -> &'static str {
        match self {
            DegradedCode::EngineMissing => "memory-missing",
            DegradedCode::EngineDisabled => "memory-disabled",
            DegradedCode::EngineRefused => "memory-refused",
            DegradedCode::EngineCrashed => "memory-crashed",
            DegradedCode::EngineQuarantined => "memory-quarantined",
            other => other.as_str(),
        }
    }

    /// The code of `runtimeSettings.diagnostics` ([`reason_code`]).
    ///
    /// Those codes speak of providers; what they can say of an engine is that it was not available, or that the reason is
    /// none of theirs.
    pub const fn reason_code(self) -> u32 {
        match self {
            DegradedCode::InvalidResult | DegradedCode::ServiceError => reason_code::UNKNOWN,
            _ => reason_code::RUNTIME_UNAVAILABLE,
        }
    }

    /// What an operator can do.
    pub const fn hint(self) -> &'static str {
        match self {
            DegradedCode::EngineMissing => {
                "put the engine's library into the plugins folder, or correct the slot's value"
            }
            DegradedCode::EngineDisabled => {
                "enable the plugin (`enabled = true`, and not in `deny`), or select another engine"
            }
            DegradedCode::EngineRefused => {
                "see the load stage that refused it with `engineroom doctor`, mend the library, restart"
            }
            DegradedCode::EngineCrashed => "find the cause, mend the library, restart",
            DegradedCode::EngineQuarantined => {
                "see the reason with `engineroom doctor`, mend the engine, restart the gateway"
            }
            DegradedCode::DurableSemanticsMissing => {
                "the engine must declare both transcript semantics and have commitTurn to serve stored sessions"
            }
            DegradedCode::FenceUnavailable => "nothing to do: the engine is asked again at the next turn",
            DegradedCode::PendingCommit => "see the outbox of the session; the engine serves again when it is settled",
            DegradedCode::Deadline => {
                "raise the hook's deadline in [plugins.deadlines], or mend the engine; then restart"
            }
            DegradedCode::InvalidResult => {
                "the engine breaks the contract: report it to its author; a restart tries again"
            }
            DegradedCode::ServiceError => "see the service's error with `engineroom doctor`; a restart tries again",
            DegradedCode::ThreadsAbandoned => {
                "restart the gateway; give engines that hang `isolation = \"process\"`, or mend them"
            }
        }
    }
}

impl fmt::Display for DegradedCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for DegradedCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// How a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The engine returned an error.
    Error,
    /// The engine panicked; its guard caught it.
    Panic,
    /// The call did not return before its deadline.
    Deadline,
    /// The result breaks the contract.
    InvalidResult,
    /// The engine handed on an error of a host service.
    Service,
    /// The caller cancelled the work. Never the engine's fault.
    Cancelled,
    /// The call was not made: the engine is out already.
    Quarantined,
    /// The call was not made: no thread of the engine was free in time, or the gateway is stopping. Not the engine's fault.
    Busy,
    /// The call was not made: the engine does not have this hook. Not the engine's fault.
    Unsupported,
    /// The process that served the engine is gone.
    Crashed,
}

/// A call that failed, or was not made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("engine \"{engine}\" failed in {hook}: {reason}")]
pub struct HookFailure {
    /// Registered id of the engine.
    pub engine: String,
    /// The hook.
    pub hook: Hook,
    /// How it failed.
    pub kind: FailureKind,
    /// What is wrong, one line.
    pub reason: String,
    /// Why, outermost cause first.
    pub causes: Vec<String>,
    /// The code for the reply's header.
    pub code: DegradedCode,
    /// True when the engine is out for the rest of the process.
    pub quarantined: bool,
}

impl Diagnostic for HookFailure {
    fn code(&self) -> &'static str {
        match self.kind {
            FailureKind::Error => "CE310",
            FailureKind::Panic => "CE311",
            FailureKind::Deadline => "CE312",
            FailureKind::InvalidResult => "CE313",
            FailureKind::Service => "CE314",
            FailureKind::Cancelled => "CE315",
            FailureKind::Quarantined => "CE316",
            FailureKind::Busy => "CE317",
            FailureKind::Unsupported => "CE318",
            FailureKind::Crashed => "CE319",
        }
    }

    fn hint(&self) -> Option<String> {
        match self.kind {
            FailureKind::Cancelled => None,
            FailureKind::Busy => {
                Some("the engine's threads are all busy: its hooks are slow, or too many sessions run".into())
            }
            FailureKind::Unsupported => Some("ask `has` before the call".into()),
            _ => Some(self.code.hint().into()),
        }
    }
}

/// A candidate that a lease passed over, or moved down from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Passed {
    /// Registered id of the engine.
    pub engine: String,
    /// Why.
    pub code: DegradedCode,
    /// Why, in words.
    pub reason: String,
}

/// What an engine requires of its host and the host has not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnmetRequirement {
    /// The engine.
    pub engine: String,
    /// `agent-run`, `manual-compact` or `subagent-spawn`.
    pub operation: &'static str,
    /// Id of the host.
    pub host_id: String,
    /// Label of the host.
    pub host: String,
    /// Missing capabilities.
    pub missing: Vec<&'static str>,
    /// What the engine requires.
    pub required: Vec<&'static str>,
    /// What the host has.
    pub provided: Vec<&'static str>,
    /// The engine's own message.
    pub message: Option<String>,
}

impl fmt::Display for UnmetRequirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let UnmetRequirement { engine, operation, host, missing, required, provided, message, .. } = self;
        let list = |names: &[&str]| if names.is_empty() { "(none)".to_owned() } else { names.join(", ") };
        write!(f, "context engine \"{engine}\" cannot run {operation} on {host}: missing {}; ", list(missing))?;
        write!(f, "it requires {}, the host has {}", list(required), list(provided))?;
        message.as_ref().map_or(Ok(()), |message| write!(f, " ({message})"))
    }
}

/// A request that no engine may serve.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SlotError {
    /// `on_failure = "strict"`, and no listed engine can serve.
    #[error("no engine of the slot can serve and its policy is strict: {}", list(passed))]
    Strict {
        /// Why each of them cannot.
        passed: Vec<Passed>,
    },
    /// The executing host lacks what the engine requires; nothing was started.
    #[error("{0}")]
    HostRequirement(Box<UnmetRequirement>),
    /// Even the last candidate failed; only a defect of the gateway, or a service that is down, leads here.
    #[error("the last candidate \"{engine}\" failed: {reason}")]
    Exhausted {
        /// The engine.
        engine: String,
        /// Why.
        reason: String,
    },
}

fn list(passed: &[Passed]) -> String {
    passed.iter().map(|p| format!("{} ({}: {})", p.engine, p.code, p.reason)).collect::<Vec<_>>().join("; ")
}

impl SlotError {
    /// The status for an HTTP reply: 409 for host requirements, else 503.
    pub fn http_status(&self) -> u16 {
        match self {
            SlotError::HostRequirement { .. } => 409,
            SlotError::Strict { .. } | SlotError::Exhausted { .. } => 503,
        }
    }
}

impl Diagnostic for SlotError {
    fn code(&self) -> &'static str {
        match self {
            SlotError::Strict { .. } => "CE301",
            SlotError::HostRequirement { .. } => "CE302",
            SlotError::Exhausted { .. } => "CE303",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            SlotError::Strict { passed } => Some(match passed.first() {
                Some(first) => format!("{}; or set on_failure = \"fallback\"", first.code.hint()),
                None => "list an engine in [plugins.slots] contextEngine".into(),
            }),
            SlotError::HostRequirement { .. } => {
                Some("use a host (model provider) that has these capabilities, or select another engine".into())
            }
            SlotError::Exhausted { .. } => Some("see `engineroom doctor` and the log".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_degraded_code_has_its_own_name_and_a_closed_reason() {
        let names: std::collections::BTreeSet<_> = DegradedCode::ALL.iter().map(|c| c.as_str()).collect();
        assert_eq!(names.len(), DegradedCode::ALL.len());
        for code in DegradedCode::ALL {
            assert!((1..=reason_code::UNKNOWN).contains(&code.reason_code()), "{code}");
        }
    }

    #[test]
    fn a_missing_capability_is_a_conflict_that_shows_the_engines_own_message() {
        let error = SlotError::HostRequirement(Box::new(UnmetRequirement {
            engine: "lossless".into(),
            operation: "agent-run",
            host_id: "cli:agent".into(),
            host: "CLI backend".into(),
            missing: vec!["assemble-before-prompt"],
            required: vec!["assemble-before-prompt"],
            provided: vec!["bootstrap"],
            message: Some("needs the embedded host".into()),
        }));
        assert_eq!(error.http_status(), 409);
        let text = error.to_string();
        assert!(
            text.contains("lossless") && text.contains("agent-run") && text.contains("assemble-before-prompt"),
            "{text}"
        );
        assert!(text.ends_with("(needs the embedded host)"), "{text}");
    }
}
