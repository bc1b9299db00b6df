//! The one compaction pipeline: for `/compact`, for a history that grew past its threshold, for a prompt that would not fit.
//!
//! The engine answers first; one that delegates comes back through the host's service. When an engine that does not own
//! compaction did nothing although something must be done, the built-in compaction runs. Before and after are measured by the
//! host, whatever an engine says.

use super::builtin::{Builtin, Measured};
use super::hosts::Keeper;
use super::house::House;
use super::maintenance::Params;
use super::run::TurnRun;
use super::{CompactReport, TurnError};
use crate::slot::{CompactArgs, CompactOutput, FailureKind, HookFailure, LeaseRequest, MaintainOutput, Operation};
use engine_abi::wire::{compaction_target, force_reason, trigger};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One compaction.
pub(super) struct Ask {
    /// A code from [`trigger`].
    pub(super) trigger: u32,
    /// It must be done whatever an engine's own threshold says.
    pub(super) force: bool,
    pub(super) attempt: u32,
    pub(super) max_attempts: u32,
    /// Tokens that the history should fit in afterwards.
    pub(super) budget: u64,
    pub(super) focus: Option<String>,
}

fn force_reason(ask: &Ask) -> u32 {
    match ask.trigger {
        _ if !ask.force => force_reason::NONE,
        trigger::MANUAL => force_reason::MANUAL,
        _ => force_reason::PREFLIGHT_REQUIRED,
    }
}

impl TurnRun {
    /// Compacts through the engine that serves. A failure fails this call only: its engine is out, history is as it was.
    pub(super) async fn compact(&mut self, ask: Ask) -> Result<Measured, TurnError> {
        let (asked_by, engine) = (ask.trigger, self.lease.engine().id().to_owned());
        let outcome = self.compact_with(ask).await;
        // A person's request is counted at the door that it came through.
        if let Some(metrics) = self.house.metrics.as_ref().filter(|_| asked_by != trigger::MANUAL) {
            let word = match &outcome {
                Ok(measured) if measured.compacted => "compacted",
                Ok(_) => "nothing",
                Err(_) => "failed",
            };
            metrics.compaction(&engine, super::builtin::trigger_name(asked_by), word);
        }
        outcome
    }

    async fn compact_with(&mut self, ask: Ask) -> Result<Measured, TurnError> {
        let since = Instant::now();
        let deadline = since + Duration::from_millis(self.agent.compaction.timeout_ms);
        let engine = self.lease.engine().clone();
        let owns = engine.info().owns_compaction;
        let before = self.session.state().projected_tokens();
        let first = self.admitted.first;
        self.services.set_fence(first);
        self.services.set_trigger(ask.trigger);
        let facts = self.session_facts(Some(ask.budget), Some(before));
        let args = {
            let state = self.session.state();
            let view = state.view();
            let len = if first == 0 { view.len() } else { state.turn_start(first) };
            CompactArgs {
                view,
                len,
                force: ask.force,
                target: compaction_target::BUDGET,
                trigger: ask.trigger,
                attempt: ask.attempt,
                max_attempts: ask.max_attempts,
                custom_instructions: ask.focus.clone(),
                token_budget: Some(ask.budget),
                current_token_count: Some(before),
                force_reason: force_reason(&ask),
            }
        };
        let answer = self.segment(facts, true, move |segment| segment.compact(&args)).await;
        let mut measured = match answer {
            Ok(output) => self.measure(output, owns, ask.trigger, engine.id(), before),
            Err(failure) => {
                self.cancel.check()?;
                if failure.kind == FailureKind::Cancelled {
                    return Err(TurnError::Cancelled);
                }
                // The next call is the next candidate's. When there is none, the lease says so there.
                let _ = self.move_down(&failure);
                self.timed("compact", since);
                return Err(TurnError::Compaction { reason: failure.to_string() });
            }
        };
        if !measured.compacted && !owns && ask.force && ask.trigger != trigger::MANUAL {
            let builtin = Builtin {
                token_budget: ask.budget,
                force: true,
                focus: ask.focus,
                must_keep_from: (first != 0).then_some(first),
                trigger: ask.trigger,
                by: "builtin".into(),
                deadline,
            };
            let work = self.house.compact_builtin(&self.session, builtin);
            measured = self.cancel.unless_fired(work).await??;
        }
        if measured.compacted {
            self.note_step(super::builtin::trigger_name(ask.trigger), measured.before, measured.after);
            let facts = self.session_facts(None, Some(measured.after));
            if let Err(failure) =
                self.segment(facts, false, |segment| segment.maintain(trigger::COMPACTION, false)).await
            {
                self.cancel.check()?;
                let _ = self.move_down(&failure);
            }
            self.follow_rewrite();
        }
        self.timed("compact", since);
        Ok(measured)
    }

    fn measure(&self, output: CompactOutput, owns: bool, trigger: u32, engine: &str, before: u64) -> Measured {
        if let Some(delegated) = self.services.take_delegated() {
            return delegated;
        }
        let after = self.session.state().projected_tokens();
        match (output.compacted, output.summary, output.first_kept) {
            (false, _, _) => {
                Measured::nothing(output.reason.unwrap_or_else(|| "the engine had nothing to compact".into()), after)
            }
            // It keeps its own view: the transcript stays as it is, and the host's measure with it.
            (true, summary, first_kept) if owns => {
                Measured { compacted: true, reason: output.reason, summary, first_kept, before, after }
            }
            (true, Some(summary), Some(first_kept)) => {
                self.house.write_boundary(&self.session, summary, first_kept, trigger, engine)
            }
            (true, _, _) => Measured::nothing("the engine says that it compacted, but gave no summary to keep", after),
        }
    }

    /// Compacts after a turn when the history grew past its threshold, so that the next turn need not wait.
    pub(super) async fn compact_ahead(&mut self) -> Result<(), TurnError> {
        let config = self.agent.compaction.clone();
        // A command's history is measured before its turn.
        let on_command = Keeper::of(&self.agent.info) == Some(Keeper::Command);
        if !config.enabled || on_command || self.lease.engine().info().owns_compaction {
            return Ok(());
        }
        let window = self.agent.model.info().context_window;
        let fixed = self.system_tokens + self.tool_tokens;
        let threshold = window - config.reserve_tokens.min(window / 4);
        let tokens = self.session.state().projected_tokens();
        if fixed + tokens <= threshold || tokens <= self.session.state().extra.compaction_floor {
            return Ok(());
        }
        let ask = Ask {
            trigger: trigger::BUDGET,
            force: true,
            attempt: 1,
            max_attempts: 1,
            budget: threshold.saturating_sub(fixed).max(1),
            focus: None,
        };
        let outcome = self.compact(ask).await;
        self.note_progress(outcome.as_ref().is_ok_and(|measured| measured.compacted));
        outcome.map(|_| ())
    }

    /// A compaction that was put off: an owning engine carries it out in `maintain`, with leave to.
    pub(super) async fn compact_deferred(&mut self, params: &Params) -> Result<MaintainOutput, HookFailure> {
        self.maintain_now(params).await
    }

    /// After a compaction that could do nothing, the next one waits until there is something to compact.
    pub(super) fn note_progress(&self, compacted: bool) {
        let mut state = self.session.state();
        let tokens = state.projected_tokens();
        state.extra.compaction_floor = if compacted { 0 } else { tokens + tokens / 10 };
    }
}

/// `/compact`.
pub(super) async fn manual(house: &Arc<House>, key: &str, focus: Option<String>) -> Result<CompactReport, TurnError> {
    let lane = house.lanes.enter(key).await?;
    let session = house.open(key, false).await?;
    let agent = session.state().record().agent.clone();
    let lease = house
        .slot
        .lease(&LeaseRequest::turn(agent, true).operation(Operation::ManualCompact))
        .map_err(TurnError::Slot)?;
    let mut run = TurnRun::operation(house.clone(), session, lease, Some(lane));
    let window = run.agent.model.info().context_window;
    let ask = Ask {
        trigger: trigger::MANUAL,
        force: true,
        attempt: 1,
        max_attempts: 1,
        budget: window - run.agent.compaction.reserve_tokens.min(window / 4),
        focus,
    };
    let engine = run.lease.engine().id().to_owned();
    let degraded = run.degraded_code();
    let measured = run.compact(ask).await?;
    run.barrier().await?;
    Ok(CompactReport {
        ok: true,
        compacted: measured.compacted,
        reason: measured.reason,
        engine,
        degraded,
        tokens_before: measured.before,
        tokens_after: measured.after,
        first_kept_entry_id: measured.first_kept,
        summary: measured.summary,
    })
}
