//! What the room tells about a file: how far it came, why not further, how long it took.

use super::cause::{Cause, Stage};
use super::isolation::Placement;
use super::load::{Kind, Wanted};
use super::manifest::Manifest;
use super::read::Seen;
use super::trust::Vouched;
use crate::diagnostic::{Diagnostic, Report};
use crate::worker::SandboxReport;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Why a library stopped at a stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct StageFailure {
    /// The stage.
    pub stage: Stage,
    /// Stable code, `CE2nn`.
    pub code: &'static str,
    /// What went wrong, one line.
    pub message: String,
    /// Why, outermost cause first; also what the probe wrote.
    pub causes: Vec<String>,
    /// What to do.
    pub hint: String,
}

impl StageFailure {
    /// A failure with the cause's own stage, code and hint.
    pub fn new(cause: Cause, message: impl Into<String>) -> StageFailure {
        StageFailure {
            stage: cause.stage(),
            code: cause.code(),
            message: message.into(),
            causes: Vec::new(),
            hint: cause.hint().to_owned(),
        }
    }

    /// Adds a cause. A blank one is left out.
    #[must_use]
    pub fn because(mut self, cause: impl std::fmt::Display) -> StageFailure {
        let text = cause.to_string();
        if !text.trim().is_empty() {
            self.causes.push(text);
        }
        self
    }

    /// Replaces the hint by a more exact one.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> StageFailure {
        self.hint = hint.into();
        self
    }
}

impl Diagnostic for StageFailure {
    fn code(&self) -> &'static str {
        self.code
    }

    fn hint(&self) -> Option<String> {
        Some(self.hint.clone())
    }

    fn report(&self) -> Report {
        Report {
            code: self.code,
            message: format!("{}: {}", self.stage, self.message),
            causes: self.causes.clone(),
            hint: Some(self.hint.clone()),
        }
    }
}

/// How far a file came.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum PluginState {
    /// Inspected, and no line of it was run.
    Declared {
        /// Why not: not listed, disabled, denied.
        reason: String,
    },
    /// In the process, or handed to a worker; its engines are registered.
    Loaded,
    /// A stage failed.
    Refused,
}

/// One file, or one folder that could not be read.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct PluginReport {
    /// Where it was found.
    pub file: PathBuf,
    /// The plugin's id, as soon as the manifest was read.
    pub plugin_id: Option<String>,
    /// SHA-256 of the bytes that were inspected, lower-case hex.
    pub sha256: Option<String>,
    /// The private copy.
    pub staged: Option<PathBuf>,
    /// The manifest.
    pub manifest: Option<Manifest>,
    /// How far it came.
    #[serde(flatten)]
    pub state: PluginState,
    /// True when a slot lists one of its engines or memory providers.
    pub wanted: bool,
    /// Why it came no further.
    pub failure: Option<StageFailure>,
    /// Where it runs, or would run; `None` for a file that was refused or switched off before that mattered.
    pub placement: Option<Placement>,
    /// What vouches for it: a pin, a signature. `None` for a file that was refused or switched off before that was looked at.
    pub vouched: Option<Vouched>,
    /// What confined its probe, and confines its worker.
    pub sandbox: Option<SandboxReport>,
    /// Things worth knowing that stop nothing.
    pub notes: Vec<String>,
    /// Time per stage that ran, in order.
    #[serde(serialize_with = "timings_in_ms")]
    pub timings: Vec<(Stage, Duration)>,
    /// The file as it was when it was read.
    #[serde(skip)]
    pub(super) seen: Option<Seen>,
}

impl PluginReport {
    /// A file that was seen, and nothing more.
    pub fn new(file: PathBuf) -> PluginReport {
        PluginReport {
            file,
            plugin_id: None,
            sha256: None,
            staged: None,
            manifest: None,
            state: PluginState::Declared { reason: "not listed by a slot".into() },
            wanted: false,
            failure: None,
            vouched: None,
            placement: None,
            sandbox: None,
            notes: Vec::new(),
            timings: Vec::new(),
            seen: None,
        }
    }

    /// Marks it refused. The first failure stays.
    pub fn refuse(&mut self, failure: StageFailure) {
        self.state = PluginState::Refused;
        self.failure.get_or_insert(failure);
    }

    /// Engine ids of its manifest.
    pub fn engines(&self) -> &[String] {
        self.manifest.as_ref().map_or(&[], |manifest| &manifest.engines)
    }

    /// Memory provider ids of its manifest.
    pub fn memory(&self) -> &[String] {
        self.manifest.as_ref().map_or(&[], |manifest| &manifest.memory)
    }

    /// Ids of one kind in its manifest.
    pub(super) fn ids(&self, kind: Kind) -> &[String] {
        match kind {
            Kind::Engine => self.engines(),
            Kind::Memory => self.memory(),
        }
    }

    /// True when its manifest names what a slot lists.
    pub fn offers(&self, wanted: &Wanted) -> bool {
        self.ids(wanted.kind).contains(&wanted.id)
    }

    /// Adds to the time of a stage.
    pub(super) fn took(&mut self, stage: Stage, time: Duration) {
        match self.timings.iter_mut().find(|(known, _)| *known == stage) {
            Some((_, sum)) => *sum += time,
            None => self.timings.push((stage, time)),
        }
    }

    /// Runs one stage and keeps its time, whatever comes of it.
    pub(super) fn timed<T>(&mut self, stage: Stage, work: impl FnOnce(&mut Self) -> T) -> T {
        let start = std::time::Instant::now();
        let result = work(self);
        self.took(stage, start.elapsed());
        result
    }
}

fn timings_in_ms<S: serde::Serializer>(timings: &[(Stage, Duration)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(timings.iter().map(|(stage, time)| (stage.as_str(), time.as_secs_f64() * 1e3)))
}

/// A text of a library as one line: no control characters (they could forge lines or steer a terminal), and not endless.
pub(crate) fn one_line(text: &str) -> String {
    const MAX_CHARS: usize = 1000;
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let mut line = words.collect::<Vec<_>>().join(" ");
    if let Some((cut, _)) = line.char_indices().nth(MAX_CHARS) {
        line.truncate(cut);
        line.push('…');
    }
    line
}
