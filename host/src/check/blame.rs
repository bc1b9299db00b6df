//! Which check a failed call belongs to, so that one fault is told once and by its name.

use super::catalogue::Check;
use crate::slot::{FailureKind, Hook, HookFailure};
use serde::{Deserialize, Serialize};

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Finding {
    /// The check that it belongs to.
    pub check: Check,
    /// What.
    pub found: String,
    /// It is that two prompts differ, which says nothing of an engine that never shows the same twice.
    #[serde(default)]
    pub compared: bool,
}

impl Finding {
    pub(super) fn new(check: Check, found: impl Into<String>) -> Finding {
        Finding { check, found: found.into(), compared: false }
    }
}

impl From<HookFailure> for Finding {
    fn from(failure: HookFailure) -> Finding {
        let because = failure.causes.iter().map(|cause| format!(" ({cause})")).collect::<String>();
        Finding::new(check_of(&failure), format!("{}: {}{because}", failure.hook, failure.reason))
    }
}

fn check_of(failure: &HookFailure) -> Check {
    match (failure.kind, failure.hook) {
        (FailureKind::Crashed, _) => Check::Lives,
        (FailureKind::Panic, _) => Check::Panics,
        (_, Hook::Dispose) => Check::Dispose,
        (FailureKind::Deadline, _) => Check::Deadlines,
        (FailureKind::InvalidResult, hook) => of_result(hook, &failure.reason),
        (_, Hook::Factory) => Check::Factory,
        (_, Hook::Info) => Check::Info,
        _ => Check::HookErrors,
    }
}

/// The check that refused a result; the words are those of the slot's own checks.
fn of_result(hook: Hook, reason: &str) -> Check {
    let says = |words: &[&str]| words.iter().any(|words| reason.contains(words));
    match hook {
        Hook::Factory => Check::Factory,
        Hook::Info => Check::Info,
        Hook::CommitTurn if says(&["unknown status"]) => Check::CommitStatus,
        _ if says(&["without the result that it owes", "says that it is not implemented"]) => Check::Owes,
        _ if says(&["UTF-8"]) => Check::Texts,
        _ if says(&["unknown role", "unknown code"]) => Check::Codes,
        Hook::Compact => Check::CompactResult,
        Hook::Tools | Hook::CallTool => Check::Tools,
        _ if says(&["the tool call", "the tool result"]) => Check::ToolPairs,
        _ if says(&["the current turn"]) => Check::CurrentTurn,
        _ => Check::Spans,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slot::DegradedCode;

    fn blamed(hook: Hook, kind: FailureKind, reason: &str) -> Check {
        let failure = HookFailure {
            engine: "e".into(),
            hook,
            kind,
            reason: reason.into(),
            causes: Vec::new(),
            code: DegradedCode::InvalidResult,
            quarantined: true,
        };
        Finding::from(failure).check
    }

    #[test]
    fn each_kind_of_failure_has_its_check() {
        assert_eq!(blamed(Hook::Assemble, FailureKind::Panic, "boo"), Check::Panics);
        assert_eq!(blamed(Hook::Assemble, FailureKind::Deadline, "late"), Check::Deadlines);
        assert_eq!(blamed(Hook::Assemble, FailureKind::Service, "no model"), Check::HookErrors);
        assert_eq!(blamed(Hook::Factory, FailureKind::Error, "no"), Check::Factory);
        let invalid = FailureKind::InvalidResult;
        assert_eq!(blamed(Hook::Assemble, invalid, "the span 3..=2 runs backwards"), Check::Spans);
        assert_eq!(blamed(Hook::Assemble, invalid, "the current turn 7 is shown more than once"), Check::CurrentTurn);
        assert_eq!(blamed(Hook::CommitTurn, invalid, "commitTurn has the unknown status 9"), Check::CommitStatus);
        assert_eq!(blamed(Hook::Assemble, invalid, "text is not UTF-8: x"), Check::Texts);
        assert_eq!(blamed(Hook::Compact, invalid, "firstKeptEntryId: the entry 9 is not in it"), Check::CompactResult);
    }
}
