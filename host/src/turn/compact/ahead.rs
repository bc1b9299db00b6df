//! Compaction ahead of need: after a turn, in the queue of optional work, so that no turn waits for it.

use super::Ask;
use crate::compaction::reason;
use crate::slot::{DegradedCode, FailureKind, Hook, HookFailure, MaintainOutput};
use crate::turn::TurnError;
use crate::turn::hosts::Keeper;
use crate::turn::maintenance::{Kind, Params};
use crate::turn::run::TurnRun;
use engine_abi::wire::{compaction_target, trigger};

/// Why a compaction that was put off will not run.
const NOT_SCHEDULED: &str = "deferred_compaction_not_scheduled";
/// An engine accepts a compaction and does it later.
pub(super) const DEFERRED: &str = "deferred_background";

impl TurnRun {
    /// Queues a compaction when the history grew past its threshold, so that the next turn need not wait for one. An engine that
    /// owns compaction is asked only when it can do it in the background.
    pub(in crate::turn) fn compact_ahead(&self) {
        let Some(budget) = self.compaction_is_due() else { return };
        let params = self.maintenance_params(Some(budget));
        if let Err(refused) = self.house.maintenance.queue(&self.house, &self.session, Kind::Compact, params) {
            self.not_scheduled(&refused.to_string());
        }
    }

    fn not_scheduled(&self, why: &str) {
        let engine = self.lease.engine().id();
        tracing::warn!(engine, session = self.session.key.as_deref(), reason = why, "{NOT_SCHEDULED}");
        if let Some(metrics) = &self.house.metrics {
            metrics.compaction(engine, "budget", NOT_SCHEDULED);
        }
    }

    /// Tokens that the history should fit in, when it is past its threshold.
    fn compaction_is_due(&self) -> Option<u64> {
        let config = &self.agent.compaction;
        let engine = self.lease.engine();
        let owns = engine.info().owns_compaction;
        // A command's history is measured before its turn.
        let on_command = Keeper::of(&self.agent.info) == Some(Keeper::Command);
        if !config.enabled || on_command || (owns && !self.can_defer()) {
            return None;
        }
        let window = self.window();
        let fixed = self.fixed_tokens();
        let reserve = config.reserve_tokens.min(window / 4);
        let threshold = self.agent.counter.budget(window.saturating_sub(reserve));
        let state = self.session.state();
        let projected = state.projected_tokens();
        // An engine with a view of its own is measured by what it showed.
        let tokens = if owns { self.notes.prompt_tokens } else { fixed + projected };
        (tokens > threshold && projected > state.extra.compaction_floor).then(|| threshold.saturating_sub(fixed).max(1))
    }

    /// True for an engine that can take a compaction and carry it out later.
    fn can_defer(&self) -> bool {
        let engine = self.lease.engine();
        let info = engine.info();
        info.owns_compaction && info.background_maintenance && engine.has(Hook::Maintain)
    }

    /// A run of the queue: nobody waits for it, and it gives way to turns.
    pub(in crate::turn) async fn compact_deferred(&mut self, params: &Params) -> Result<MaintainOutput, HookFailure> {
        self.keep_open_turn();
        let tokens = self.session.state().projected_tokens();
        if tokens <= self.session.state().extra.compaction_floor {
            return Ok(told(false, "nothing was gained last time, and little came since"));
        }
        let owns = self.lease.engine().info().owns_compaction;
        let budget = params.token_budget.unwrap_or(tokens);
        if !owns && tokens <= budget {
            // A turn that could not wait compacted it meanwhile.
            return Ok(told(false, reason::BELOW_THRESHOLD));
        }
        let ask = Ask {
            trigger: trigger::BUDGET,
            force: false,
            target: compaction_target::THRESHOLD,
            attempt: 1,
            max_attempts: 1,
            budget,
            current: params.current_tokens,
            focus: None,
            may_defer: owns,
        };
        let before = if owns { self.shown_tokens().await } else { None };
        match self.compact(ask).await {
            Ok(measured) if measured.deferred => {
                // Instance, services and budget go with the parameters, and stay until that run is over.
                let queued = self.house.maintenance.queue(&self.house, &self.session, Kind::Maintain, params.clone());
                Ok(match queued {
                    Ok(()) => told(false, DEFERRED),
                    Err(refused) => {
                        self.not_scheduled(&refused.to_string());
                        told(false, NOT_SCHEDULED)
                    }
                })
            }
            Ok(measured) => {
                let progress = match before {
                    Some(before) if measured.claimed => {
                        let after = self.shown_tokens().await.unwrap_or(before);
                        self.prove_compaction(before, after)
                    }
                    _ => measured.compacted,
                };
                self.note_progress(progress);
                let reason = if progress {
                    format!("{} tokens before, {} after", measured.before, measured.after)
                } else {
                    measured.reason.unwrap_or_else(|| super::NO_PROGRESS.into())
                };
                Ok(told(progress, reason))
            }
            Err(error) => {
                let cancelled = matches!(error, TurnError::Cancelled);
                if !cancelled {
                    self.note_progress(false);
                }
                Err(HookFailure {
                    engine: self.lease.engine().id().to_owned(),
                    hook: Hook::Compact,
                    kind: if cancelled { FailureKind::Cancelled } else { FailureKind::Error },
                    reason: error.to_string(),
                    causes: Vec::new(),
                    code: DegradedCode::ServiceError,
                    quarantined: false,
                })
            }
        }
    }

    /// What the engine shows of the session now, as the host counts it; `None` when it does not assemble.
    pub(super) async fn shown_tokens(&mut self) -> Option<u64> {
        let limit = self.prompt_limit();
        match self.assemble(limit).await {
            Ok(assembled) => Some(assembled.prompt.tokens()),
            Err(error) => {
                tracing::debug!(%error, "nothing could be assembled to measure a compaction by");
                None
            }
        }
    }

    /// An operation between two requests of one turn leaves that turn alone: the client runs its tools.
    pub(super) fn keep_open_turn(&mut self) {
        let state = self.session.state();
        let open = crate::transcript::OutboxState::Admitted;
        let first = state.extra.outbox.iter().filter(|row| row.state == open).map(|row| row.first).max();
        drop(state);
        if let Some(first) = first {
            self.admitted.first = first;
        }
    }
}

fn told(changed: bool, reason: impl Into<String>) -> MaintainOutput {
    MaintainOutput { changed, reason: Some(reason.into()), ..MaintainOutput::default() }
}
