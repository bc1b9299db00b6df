//! What came of a run, for programs; `junit` for those of continuous integration.

use super::catalogue::{self, Check, LEVELS, Weight};
use crate::plugins::StageFailure;
use serde::{Serialize, Serializer};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// How one check ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
pub enum Status {
    /// Nothing was found.
    Pass,
    /// Something that the contract lets pass, and that hurts.
    Warn {
        /// What.
        found: String,
    },
    /// The engine breaks the contract.
    Fail {
        /// How.
        found: String,
    },
    /// It could not be told, since another check failed before.
    Unreached {
        /// That check.
        because: Check,
    },
    /// It does not apply.
    Skipped {
        /// Why.
        why: String,
    },
}

impl Status {
    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Status::Pass => "pass",
            Status::Warn { .. } => "warn",
            Status::Fail { .. } => "fail",
            Status::Unreached { .. } => "unreached",
            Status::Skipped { .. } => "skipped",
        }
    }

    /// What was found, or why there is nothing.
    pub fn text(&self) -> Option<String> {
        match self {
            Status::Pass => None,
            Status::Warn { found } | Status::Fail { found } => Some(found.clone()),
            Status::Unreached { because } => Some(format!("another check failed before: {because}")),
            Status::Skipped { why } => Some(why.clone()),
        }
    }

    pub(super) fn found(check: Check, found: impl Into<String>) -> Status {
        match check.weight() {
            Weight::Failure => Status::Fail { found: found.into() },
            Weight::Warning => Status::Warn { found: found.into() },
        }
    }
}

/// Where an engine ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// In the process of the check.
    InProcess,
    /// In a worker.
    Process,
}

impl Place {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Place::InProcess => "in-process",
            Place::Process => "process",
        }
    }
}

/// One check of one engine in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Which check.
    pub check: Check,
    /// Engine or memory provider; `None` for what is about the file.
    pub engine: Option<String>,
    /// Where it ran; `None` where that makes no difference.
    pub isolation: Option<Place>,
    /// How it ended.
    pub status: Status,
    /// How long the child took that told.
    pub took: Duration,
    /// Stable code of the stage that refused the library.
    pub code: Option<&'static str>,
    /// What stands behind it, outermost cause first.
    pub causes: Vec<String>,
    /// What to do, where a stage knows it more exactly than the check.
    pub hint: Option<String>,
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Shown<'a> {
            check: Check,
            level: u8,
            engine: Option<&'a str>,
            isolation: Option<Place>,
            #[serde(flatten)]
            status: &'a Status,
            took_ms: u64,
            #[serde(skip_serializing_if = "Option::is_none")]
            code: Option<&'static str>,
            #[serde(skip_serializing_if = "<[String]>::is_empty")]
            causes: &'a [String],
            #[serde(skip_serializing_if = "Option::is_none")]
            hint: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            says: Option<&'static str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            mend: Option<&'static str>,
        }
        let explain = matches!(self.status, Status::Warn { .. } | Status::Fail { .. });
        Shown {
            check: self.check,
            level: self.check.level(),
            engine: self.engine.as_deref(),
            isolation: self.isolation,
            status: &self.status,
            took_ms: u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
            code: self.code,
            causes: &self.causes,
            hint: self.hint.as_deref(),
            says: explain.then(|| self.check.says()),
            mend: explain.then(|| self.check.mend()),
        }
        .serialize(serializer)
    }
}

impl Outcome {
    pub(super) fn new(check: Check, status: Status) -> Outcome {
        Outcome {
            check,
            engine: None,
            isolation: None,
            status,
            took: Duration::ZERO,
            code: None,
            causes: Vec::new(),
            hint: None,
        }
    }

    /// What a stage refused.
    pub(super) fn refused(check: Check, failure: &StageFailure) -> Outcome {
        let status = Status::found(check, failure.message.clone());
        let (causes, hint) = (failure.causes.clone(), Some(failure.hint.clone()));
        Outcome { code: Some(failure.code), causes, hint, ..Outcome::new(check, status) }
    }

    pub(super) fn of(mut self, engine: &str) -> Outcome {
        self.engine = Some(engine.to_owned());
        self
    }

    /// True for a failure.
    pub fn failed(&self) -> bool {
        matches!(self.status, Status::Fail { .. })
    }
}

/// What came of a run.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The file.
    pub file: PathBuf,
    /// The plugin, as soon as its manifest was read.
    pub plugin: Option<String>,
    /// SHA-256 of the file.
    pub sha256: Option<String>,
    /// What it offers, as far as it was checked.
    pub engines: Vec<String>,
    /// The seed of the sessions: the same seed plays the same.
    pub seed: u64,
    /// Rounds of the fuzzed sessions.
    pub rounds: u32,
    /// Highest level that was asked for.
    pub level: u8,
    /// Highest level without a failure below it, 0 for none. `None` when single checks were asked for.
    pub level_reached: Option<u8>,
    /// How many failed.
    pub failures: usize,
    /// How many warned.
    pub warnings: usize,
    /// What to do next.
    pub next: String,
    /// Every check.
    pub checks: Vec<Outcome>,
}

impl Report {
    /// Sums up.
    pub(super) fn finish(mut self, whole: bool) -> Report {
        let count = |word: &str| self.checks.iter().filter(|outcome| outcome.status.word() == word).count();
        (self.failures, self.warnings) = (count("fail"), count("warn"));
        let failed = self.checks.iter().filter(|outcome| outcome.failed()).map(|outcome| outcome.check.level()).min();
        let reached = failed.map_or(self.level, |level| level - 1);
        self.level_reached = whole.then_some(reached);
        self.next = match self.checks.iter().find(|outcome| outcome.failed()) {
            Some(first) => format!("mend \"{}\" first: {}", first.check, first.check.mend()),
            None if whole && reached < LEVELS => {
                format!("go on with --level {}: {}", reached + 1, catalogue::level(reached + 1))
            }
            None if self.warnings > 0 => "it keeps the contract; look at the warnings".into(),
            None => "it keeps the contract".into(),
        };
        self
    }

    /// True without failures.
    pub fn well(&self) -> bool {
        self.failures == 0
    }

    /// The report as JUnit's XML.
    pub fn junit(&self) -> String {
        let skipped = |outcome: &&Outcome| matches!(outcome.status, Status::Unreached { .. } | Status::Skipped { .. });
        let seconds: f64 = self.checks.iter().map(|outcome| outcome.took.as_secs_f64()).sum();
        let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        let name = self.plugin.clone().unwrap_or_else(|| self.file.display().to_string());
        let _ = writeln!(
            xml,
            "<testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\" time=\"{seconds:.3}\">",
            escaped(&format!("engineroom plugins check {name}")),
            self.checks.len(),
            self.failures,
            self.checks.iter().filter(skipped).count(),
        );
        let _ = writeln!(
            xml,
            "  <properties><property name=\"seed\" value=\"{}\"/><property name=\"rounds\" value=\"{}\"/></properties>",
            self.seed, self.rounds
        );
        for outcome in &self.checks {
            let place = outcome.isolation.map(|place| format!(" ({})", place.name())).unwrap_or_default();
            let _ = write!(
                xml,
                "  <testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\"",
                escaped(outcome.engine.as_deref().unwrap_or(&name)),
                escaped(&format!("{}{place}", outcome.check)),
                outcome.took.as_secs_f64()
            );
            let told = escaped(&outcome.status.text().unwrap_or_default());
            let says = format!("the contract says: {}\nmend it: {}", outcome.check.says(), outcome.check.mend());
            let _ = match &outcome.status {
                Status::Pass => writeln!(xml, "/>"),
                Status::Fail { .. } => {
                    let more = escaped(&format!("{}\n{says}", outcome.causes.join("\n")));
                    writeln!(xml, ">\n    <failure message=\"{told}\">{more}</failure>\n  </testcase>")
                }
                Status::Warn { .. } => {
                    writeln!(xml, ">\n    <system-out>warning: {told}\n{}</system-out>\n  </testcase>", escaped(&says))
                }
                Status::Unreached { .. } | Status::Skipped { .. } => {
                    writeln!(xml, ">\n    <skipped message=\"{told}\"/>\n  </testcase>")
                }
            };
        }
        xml.push_str("</testsuite>\n");
        xml
    }
}

/// Text of XML; what XML cannot hold is left out.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(checks: Vec<Outcome>) -> Report {
        Report {
            file: "lib.so".into(),
            plugin: Some("a<b".into()),
            sha256: None,
            engines: Vec::new(),
            seed: 7,
            rounds: 1,
            level: 5,
            level_reached: None,
            failures: 0,
            warnings: 0,
            next: String::new(),
            checks,
        }
        .finish(true)
    }

    #[test]
    fn the_level_is_the_one_below_the_first_failure() {
        assert_eq!(report(vec![Outcome::new(Check::File, Status::Pass)]).level_reached, Some(5));
        let failed = Outcome::new(Check::Restart, Status::found(Check::Restart, "it forgets"));
        let warned = Outcome::new(Check::Budget, Status::found(Check::Budget, "over"));
        let report = report(vec![warned, failed]);
        assert_eq!((report.level_reached, report.failures, report.warnings), (Some(2), 1, 1));
        assert!(report.next.contains("restart"), "{}", report.next);
        assert!(!report.well());
    }

    #[test]
    fn junit_escapes_what_it_tells() {
        let failed = Outcome::new(Check::Spans, Status::found(Check::Spans, "a <b> & \"c\"\u{1}"));
        let skipped = Outcome::new(Check::Fuzz, Status::Unreached { because: Check::Spans });
        let xml = report(vec![failed, skipped]).junit();
        assert!(xml.contains("a &lt;b&gt; &amp; &quot;c&quot;\""), "{xml}");
        assert!(xml.contains("tests=\"2\" failures=\"1\" skipped=\"1\"") && xml.contains("a&lt;b"), "{xml}");
    }
}
