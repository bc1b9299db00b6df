//! From an assembly to a prompt that fits: precheck, one compaction, trimming; and what follows a model call that failed.
//!
//! ```text
//!  assemble ─► precheck ─ fits ────────────────────────────────► prompt ─► model ─ answers ─► counters start again
//!                 │                                                ▲          │
//!                 ├ compact ─► assemble again ─► trim what is left ┤          ├ too long: at most 3 times, by force
//!                 └ tool results alone suffice ─► trim ────────────┘          └ timed out, window full: at most twice
//! ```
//!
//! The caller asks [`TurnRun::fitting_prompt`] before every model call, tool loops included, gives every failure to
//! [`TurnRun::recover`], and says [`TurnRun::model_answered`] when the model did.

use super::TurnError;
use super::compact::Ask;
use super::prepare::Assembled;
use super::prompt::Prompt;
use super::run::TurnRun;
use crate::model::ModelError;
use engine_abi::wire::trigger;

/// Most attempts to get a prompt past a provider that says it is too long.
pub(super) const OVERFLOW_ATTEMPTS: u32 = 3;
/// Most compactions after a model that timed out with a nearly full window.
const TIMEOUT_ATTEMPTS: u32 = 2;
/// A window counts as nearly full above this share, in percent.
const NEARLY_FULL: u64 = 65;

/// How hard it is to get a prompt through: what was tried since the last good model call.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    /// What a prompt may cost since the provider said no; `None` while the configured window is believed.
    limit: Option<u64>,
    /// The window that the provider named, less the reserve.
    told: Option<u64>,
    overflows: u32,
    timeouts: u32,
    /// The history was compacted for this call already.
    compacted: bool,
}

impl TurnRun {
    /// Tokens that a prompt may cost.
    pub(super) fn prompt_limit(&self) -> u64 {
        self.pressure.limit.unwrap_or_else(|| self.window_less(self.agent.reserve(&self.params)))
    }

    fn window_less(&self, reserve: u64) -> u64 {
        self.agent.counter.budget(self.agent.info.context_window.saturating_sub(reserve))
    }

    /// A prompt of at most [`TurnRun::prompt_limit`] tokens. Where the history is too long it is compacted once, and what is then
    /// still too much is trimmed.
    pub(super) async fn fitting_prompt(&mut self) -> Result<Prompt, TurnError> {
        let limit = self.prompt_limit();
        let mut assembled = self.assemble(limit).await?;
        let tokens = self.session.state().projected_tokens();
        let worth_it = tokens > self.session.state().extra.compaction_floor;
        if assembled.counted > limit && !self.pressure.compacted && worth_it {
            self.pressure.compacted = true;
            match self.compact(self.ask(trigger::BUDGET, 1)).await {
                Ok(measured) => self.note_progress(measured.compacted),
                Err(TurnError::Cancelled) => return Err(TurnError::Cancelled),
                // The ladder goes on: what cannot be compacted is trimmed.
                Err(error) => tracing::warn!(%error, "the history was not compacted before the prompt"),
            }
            assembled = self.assemble(limit).await?;
        }
        Ok(self.trimmed(assembled, limit))
    }

    fn trimmed(&mut self, mut assembled: Assembled, limit: u64) -> Prompt {
        let before = assembled.prompt.tokens();
        if before > limit {
            self.lease.engine().record_over_budget();
            assembled.prompt.trim(limit, &self.agent.counter);
            self.note_step("trim", before, assembled.prompt.tokens());
        }
        assembled.prompt
    }

    /// The model answered: whatever was tried to get the prompt through is settled.
    pub(super) fn model_answered(&mut self) {
        self.pressure.overflows = 0;
        self.pressure.timeouts = 0;
        self.pressure.compacted = false;
    }

    /// After a model call that failed. `Ok` says that the history was shortened or the limit lowered: assemble and call again.
    pub(super) async fn recover(&mut self, error: ModelError) -> Result<(), TurnError> {
        match error {
            ModelError::Overflow { limit, .. } => {
                self.overflowed = true;
                if self.pressure.overflows >= OVERFLOW_ATTEMPTS {
                    return Err(TurnError::Overflow { attempts: self.pressure.overflows + 1, last: error });
                }
                self.pressure.overflows += 1;
                let counted = self.notes.prompt_tokens;
                self.pressure.told = limit.map(|told| told.saturating_sub(self.agent.reserve(&self.params)));
                let shorter = counted / 4 * 3;
                let told = self.pressure.told.filter(|told| *told < counted).unwrap_or(shorter);
                self.pressure.limit = Some(told.min(shorter.max(1)));
                self.shorten(trigger::OVERFLOW, self.pressure.overflows).await.map(|_| ())
            }
            ModelError::Timeout { .. } if self.nearly_full() && self.pressure.timeouts < TIMEOUT_ATTEMPTS => {
                self.pressure.timeouts += 1;
                match self.shorten(trigger::TIMEOUT_RECOVERY, self.pressure.timeouts).await? {
                    true => Ok(()),
                    // The same prompt would only time out again.
                    false => Err(TurnError::Model(error)),
                }
            }
            error => Err(TurnError::Model(error)),
        }
    }

    fn nearly_full(&self) -> bool {
        self.notes.prompt_tokens.saturating_mul(100) > self.window_less(0).saturating_mul(NEARLY_FULL)
    }

    /// Compacts by force, so that the next assembly has less to choose from. False when nothing came of it.
    async fn shorten(&mut self, trigger: u32, attempt: u32) -> Result<bool, TurnError> {
        self.pressure.compacted = true;
        match self.compact(self.ask(trigger, attempt)).await {
            Ok(measured) => Ok(measured.compacted),
            Err(TurnError::Cancelled) => Err(TurnError::Cancelled),
            Err(error) => {
                tracing::warn!(%error, attempt, "the history was not compacted after a model call that failed");
                Ok(false)
            }
        }
    }

    pub(super) fn ask(&self, trigger: u32, attempt: u32) -> Ask {
        let current = {
            let state = self.session.state();
            let view = state.view();
            let start = state.turn_start(self.admitted.first);
            view.tokens(start..view.len())
        };
        Ask {
            trigger,
            force: true,
            attempt,
            max_attempts: match trigger {
                trigger::OVERFLOW => OVERFLOW_ATTEMPTS,
                trigger::TIMEOUT_RECOVERY => TIMEOUT_ATTEMPTS,
                _ => 1,
            },
            budget: self.prompt_limit().saturating_sub(self.system_tokens + self.tool_tokens + current).max(1),
            focus: None,
        }
    }
}
