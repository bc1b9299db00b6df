//! What the gateway tells of a compaction: in the log when it begins and ends, in the metrics, and in the record of the turn, with
//! the host's own numbers, whichever engine did it.

use crate::turn::builtin::{Measured, trigger_name};
use crate::turn::run::TurnRun;
use serde::Serialize;
use std::time::Instant;

/// One compaction, as the record of the turn keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::turn) struct Notice {
    trigger: &'static str,
    engine: String,
    attempt: u32,
    max_attempts: u32,
    force: bool,
    /// `compacted`, `claimed` (an owning engine says so, and nothing was assembled since), `no_progress`, `nothing`, `deferred`,
    /// `failed` or `cancelled`.
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Tokens before and after, as the host counted them: of the history, or, for an engine that keeps its own view, of the
    /// prompt that was assembled of it.
    before: u64,
    after: u64,
    /// Who wrote the summary: `model` or `extract`.
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'static str>,
    /// Id of the session that the conversation goes on in.
    #[serde(skip_serializing_if = "Option::is_none")]
    successor: Option<String>,
    micros: u64,
}

/// A compaction that has begun.
pub(super) struct Begun {
    since: Instant,
    trigger: u32,
    engine: String,
    attempt: u32,
    max_attempts: u32,
    force: bool,
}

impl TurnRun {
    pub(super) fn begin_compaction(&self, ask: &super::Ask, before: u64) -> Begun {
        let engine = self.lease.engine().id().to_owned();
        tracing::info!(
            engine,
            session = self.session.key.as_deref(),
            trigger = trigger_name(ask.trigger),
            attempt = ask.attempt,
            before,
            "compaction begins"
        );
        Begun {
            since: Instant::now(),
            trigger: ask.trigger,
            engine,
            attempt: ask.attempt,
            max_attempts: ask.max_attempts,
            force: ask.force,
        }
    }

    pub(super) fn end_compaction(&mut self, begun: Begun, outcome: &'static str, measured: &Measured) {
        self.timed("compact", begun.since);
        let notice = Notice {
            trigger: trigger_name(begun.trigger),
            engine: begun.engine,
            attempt: begun.attempt,
            max_attempts: begun.max_attempts,
            force: begun.force,
            outcome,
            reason: measured.reason.clone(),
            before: measured.before,
            after: measured.after,
            method: measured.method,
            successor: measured.successor.as_ref().map(|successor| successor.to.clone()),
            micros: u64::try_from(begun.since.elapsed().as_micros()).unwrap_or(u64::MAX),
        };
        if outcome != CLAIMED {
            self.announce(&notice);
        }
        self.notes.compactions.push(notice);
    }

    fn announce(&self, notice: &Notice) {
        tracing::info!(
            engine = notice.engine,
            session = self.session.key.as_deref(),
            trigger = notice.trigger,
            outcome = notice.outcome,
            reason = notice.reason,
            before = notice.before,
            after = notice.after,
            successor = notice.successor,
            "compaction ended"
        );
        if let Some(metrics) = &self.house.metrics {
            metrics.compaction(&notice.engine, notice.trigger, notice.outcome);
        }
    }

    /// Holds an owning engine's word against what it assembled since: `before` and `after` are the tokens of the prompt. True
    /// when the engine made any progress; the outcome is told only now.
    pub(in crate::turn) fn prove_compaction(&mut self, before: u64, after: u64) -> bool {
        let Some(notice) = self.notes.compactions.last_mut().filter(|notice| notice.outcome == CLAIMED) else {
            return false;
        };
        let progress = after < before || crate::observe::broken("9.21");
        (notice.before, notice.after) = (before, after);
        notice.outcome = if progress { "compacted" } else { NO_PROGRESS };
        if !progress {
            notice.reason = Some(NO_PROGRESS.into());
        }
        let notice = notice.clone();
        self.announce(&notice);
        progress
    }
}

/// The outcome of an owning engine's compaction until something was assembled.
pub(super) const CLAIMED: &str = "claimed";
/// An engine says that it compacted, and nothing became smaller.
pub(in crate::turn) const NO_PROGRESS: &str = "no_progress";
