//! What the probe's parent and child say to each other: one request in a file, then lines on the child's standard output.

use super::errand::Request;
use super::sandbox::SandboxReport;
use crate::plugins::{Cause, LoadRequest, Stage, StageFailure, Wanted};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What the child gets, in a file that only the gateway's user can read (a configuration may hold secrets).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ProbeRequest {
    /// Version of the program: a child of another version would only half understand.
    pub version: String,
    /// Process id of the parent: a child whose parent is gone ends.
    pub parent: u32,
    /// Folder for the engines' state; exists and is empty.
    pub state_dir: PathBuf,
    /// What is loaded.
    pub load: LoadRequest,
    /// Deadlines of hooks as configured, keyed by hook; ms.
    pub deadlines: BTreeMap<String, u64>,
}

/// One line of the child.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "lowercase")]
pub(super) enum Line {
    /// A step begins.
    At {
        stage: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        engine: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hook: Option<String>,
    },
    /// What the library is confined by; nothing of it has run yet.
    Sandbox { report: SandboxReport },
    /// An engine or a memory provider failed, cleanly.
    Failed { wanted: Wanted, failure: Failure },
    /// Something worth knowing.
    Note { text: String },
    /// All is said.
    Done,
}

/// A [`StageFailure`] on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    code: String,
    message: String,
    causes: Vec<String>,
    hint: String,
}

impl From<StageFailure> for Failure {
    fn from(failure: StageFailure) -> Failure {
        let StageFailure { code, message, causes, hint, .. } = failure;
        Failure { code: code.to_owned(), message, causes, hint }
    }
}

impl Failure {
    /// The failure, if its code is known.
    pub(super) fn into_failure(self) -> Option<StageFailure> {
        let cause = Cause::from_code(&self.code)?;
        let failure = StageFailure::new(cause, self.message).hint(self.hint);
        Some(self.causes.into_iter().fold(failure, StageFailure::because))
    }
}

impl Line {
    pub(super) fn at(stage: Stage, engine: Option<&str>, hook: Option<&str>) -> Line {
        Line::At { stage: stage.as_str().to_owned(), engine: engine.map(str::to_owned), hook: hook.map(str::to_owned) }
    }
}

impl Request for ProbeRequest {
    fn version(&self) -> &str {
        &self.version
    }

    fn parent(&self) -> u32 {
        self.parent
    }
}

#[cfg(test)]
mod tests {
    use super::super::errand::{decode, encode};
    use super::super::sandbox::Lack;
    use super::*;

    fn read_back(line: &Line) -> Line {
        let bytes = encode(line);
        let lines: Vec<_> = bytes.split(|byte| *byte == b'\n').filter_map(decode::<Line>).collect();
        assert_eq!(lines.len(), 1);
        lines.into_iter().next().unwrap().unwrap()
    }

    #[test]
    fn lines_read_back() {
        let failure = StageFailure::new(Cause::FactoryError, "no\nluck").because("a").hint("b");
        for line in [
            Line::at(Stage::Load, None, None),
            Line::at(Stage::Contract, Some("w"), Some("assemble")),
            Line::Failed { wanted: Wanted::engine("w"), failure: failure.clone().into() },
            Line::Failed { wanted: Wanted::memory("w"), failure: failure.clone().into() },
            Line::Sandbox { report: SandboxReport { landlock: 7, seccomp: true, lacks: vec![Lack::Memory] } },
            Line::Note { text: "n".into() },
            Line::Done,
        ] {
            assert_eq!(read_back(&line), line);
        }
        assert_eq!(Failure::from(failure.clone()).into_failure(), Some(failure));
    }

    #[test]
    fn what_a_library_prints_is_passed_over_and_garbage_behind_a_mark_is_not() {
        assert!(decode::<Line>(b"hello").is_none());
        assert!(decode::<Line>(b"@engineroom-probe {").unwrap().is_err());
    }
}
