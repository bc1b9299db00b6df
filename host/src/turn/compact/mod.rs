//! The one compaction pipeline: for `/compact`, for a history that grew past its threshold, for a prompt that would not fit, after
//! a provider that said no, and after a model that timed out on a full window.
//!
//! The engine answers first; one that delegates comes back through the host's service. When an engine that does not own
//! compaction did nothing although something must be done, the built-in compaction runs, under what is left of the one safety
//! deadline. Before and after are measured by the host, whatever an engine says: of one that keeps its own view by what it
//! assembles next.

mod ahead;
mod manual;
mod notice;
mod successor;

pub(super) use manual::manual;
pub(super) use notice::{NO_PROGRESS, Notice};
pub use successor::{Successor, former_ids};

use super::TurnError;
use super::builtin::{Builtin, Measured, trigger_name};
use super::run::TurnRun;
use crate::observe::{broken, failpoint};
use crate::slot::{CompactArgs, CompactOutput, FailureKind};
use ahead::DEFERRED;
use engine_abi::wire::{force_reason, trigger};
use notice::CLAIMED;
use std::time::{Duration, Instant};

/// One compaction.
pub(super) struct Ask {
    /// A code from [`trigger`].
    pub(super) trigger: u32,
    /// It must be done whatever an engine's own threshold says.
    pub(super) force: bool,
    /// A code from [`engine_abi::wire::compaction_target`].
    pub(super) target: u32,
    pub(super) attempt: u32,
    pub(super) max_attempts: u32,
    /// Tokens that the history should fit in afterwards.
    pub(super) budget: u64,
    /// Tokens of the context now: as the provider counted them where it did, else as the host did.
    pub(super) current: Option<u64>,
    pub(super) focus: Option<String>,
    /// Nobody waits for it: an engine may say that it does it later.
    pub(super) may_defer: bool,
}

impl Ask {
    fn force_reason(&self) -> u32 {
        match self.trigger {
            _ if !self.force => force_reason::NONE,
            trigger::MANUAL => force_reason::MANUAL,
            _ => force_reason::PREFLIGHT_REQUIRED,
        }
    }

    /// The host's own compaction stands in for an engine that does not own it and did nothing.
    fn must_be_done(&self) -> bool {
        self.trigger != trigger::MANUAL && !broken("9.16")
    }
}

impl TurnRun {
    /// Compacts through the engine that serves. A failure fails this call only: its engine is out, history is as it was.
    pub(super) async fn compact(&mut self, ask: Ask) -> Result<Measured, TurnError> {
        let before = self.session.state().projected_tokens();
        let begun = self.begin_compaction(&ask, before);
        failpoint::pass("compact.begun");
        let outcome = self.compact_with(&ask, before).await;
        match &outcome {
            Ok(measured) => {
                let word = match measured {
                    Measured { claimed: true, .. } => CLAIMED,
                    Measured { compacted: true, .. } => "compacted",
                    Measured { deferred: true, .. } => "deferred",
                    Measured { reason: Some(reason), .. } if reason == NO_PROGRESS => NO_PROGRESS,
                    _ => "nothing",
                };
                self.end_compaction(begun, word, measured);
            }
            Err(error) => {
                let word = if matches!(error, TurnError::Cancelled) { "cancelled" } else { "failed" };
                self.end_compaction(begun, word, &Measured::nothing(error.to_string(), before));
            }
        }
        failpoint::pass("compact.ended");
        outcome
    }

    async fn compact_with(&mut self, ask: &Ask, before: u64) -> Result<Measured, TurnError> {
        let deadline = Instant::now() + Duration::from_millis(self.agent.compaction.timeout_ms);
        let engine = self.lease.engine().clone();
        let owns = engine.info().owns_compaction;
        let first = self.admitted.first;
        self.services.set_fence(first);
        // Counts can only be held against the provider's where both are of one prompt.
        let of_a_prompt = matches!(ask.trigger, trigger::OVERFLOW | trigger::TIMEOUT_RECOVERY);
        let counted = if of_a_prompt { self.notes.prompt_tokens } else { 0 };
        self.services.set_compaction(ask.trigger, counted);
        let current = ask.current.filter(|_| !broken("8.85")).unwrap_or(before);
        let facts = self.session_facts(Some(ask.budget), Some(current));
        let args = {
            let state = self.session.state();
            let view = state.view();
            let len = if first == 0 { view.len() } else { state.turn_start(first) };
            CompactArgs {
                view,
                len,
                force: ask.force,
                target: ask.target,
                trigger: ask.trigger,
                attempt: ask.attempt,
                max_attempts: ask.max_attempts,
                custom_instructions: ask.focus.clone(),
                token_budget: Some(ask.budget),
                current_token_count: Some(current),
                force_reason: ask.force_reason(),
            }
        };
        let answer = self.segment(facts, true, move |segment| segment.compact(&args)).await;
        TurnError::at("compact.engine.after")?;
        let mut measured = match answer {
            Ok(output) => {
                let successor = self.successor(&output).await?;
                let mut measured = self.measure(output, owns, ask, engine.id())?;
                if let Some(to) = successor.filter(|_| measured.compacted) {
                    measured.successor = Some(self.move_to(to).await?);
                }
                measured
            }
            Err(failure) => {
                self.cancel.check()?;
                if failure.kind == FailureKind::Cancelled {
                    return Err(TurnError::Cancelled);
                }
                // The next call is the next candidate's. When there is none, the lease says so there.
                let _ = self.move_down(&failure);
                if broken("8.24") {
                    return Ok(Measured::nothing(failure.to_string(), before));
                }
                return Err(TurnError::Compaction { reason: failure.to_string() });
            }
        };
        if !measured.compacted && !measured.deferred && !owns && ask.must_be_done() {
            measured = self.compact_ourselves(ask, counted, deadline).await?;
        }
        TurnError::at("compact.measured")?;
        if measured.compacted {
            if !measured.claimed {
                self.note_step(trigger_name(ask.trigger), measured.before, measured.after);
            }
            let facts = self.session_facts(None, Some(measured.after));
            if let Err(failure) =
                self.segment(facts, false, |segment| segment.maintain(trigger::COMPACTION, false)).await
            {
                self.cancel.check()?;
                let _ = self.move_down(&failure);
            }
        }
        Ok(measured)
    }

    /// The built-in compaction, in the place of an engine that did nothing.
    async fn compact_ourselves(&self, ask: &Ask, counted: u64, deadline: Instant) -> Result<Measured, TurnError> {
        let first = self.admitted.first;
        let builtin = Builtin {
            token_budget: ask.budget,
            force: ask.force,
            focus: ask.focus.clone(),
            must_keep_from: (first != 0).then_some(first),
            trigger: ask.trigger,
            by: "builtin".into(),
            counted,
            current: ask.current,
            deadline,
        };
        let flag = self.cancel.flag();
        let work = self.house.compact_builtin(&self.session, builtin);
        tokio::select! {
            biased;
            () = flag.cancelled() => Err(TurnError::Cancelled),
            done = self.cancel.unless_fired(work) => Ok(done??),
        }
    }

    /// What became of it, by the host's own measure.
    fn measure(&self, output: CompactOutput, owns: bool, ask: &Ask, engine: &str) -> Result<Measured, TurnError> {
        if let Some(delegated) = self.services.take_delegated() {
            if !delegated.ok {
                return Err(TurnError::Compaction { reason: delegated.reason.unwrap_or_default() });
            }
            return Ok(delegated);
        }
        let now = self.session.state().projected_tokens();
        if !output.compacted {
            let deferred = output.ok && output.reason.as_deref() == Some(DEFERRED);
            let reason = match output.reason {
                Some(_) if deferred && !ask.may_defer => {
                    format!("{DEFERRED} is accepted only for a compaction that nobody waits for")
                }
                Some(reason) => reason,
                None => "the engine had nothing to compact".into(),
            };
            let deferred = deferred && ask.may_defer;
            return Ok(Measured { ok: output.ok, deferred, ..Measured::nothing(reason, now) });
        }
        Ok(match (output.summary, output.first_kept) {
            // It keeps its own view: the transcript stays as it is, and the host's measure with it.
            (summary, first_kept) if owns => Measured {
                ok: output.ok,
                compacted: true,
                claimed: true,
                reason: output.reason,
                summary,
                first_kept,
                before: now,
                after: now,
                ..Measured::default()
            },
            (Some(summary), Some(first_kept)) => {
                self.house.write_boundary(&self.session, summary, first_kept, ask.trigger, engine)
            }
            // It says that it compacted, but gave no boundary: what the model sees is as long as before.
            _ => Measured::nothing(NO_PROGRESS, now),
        })
    }

    /// After a compaction that could do nothing, the next one waits until there is something to compact.
    pub(super) fn note_progress(&self, compacted: bool) {
        let mut state = self.session.state();
        let tokens = state.projected_tokens();
        state.extra.compaction_floor = if compacted { 0 } else { tokens + tokens / 10 };
    }
}
