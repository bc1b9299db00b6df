//! From an assembly to a prompt that fits: precheck, one compaction, trimming; and what follows a model call that failed.
//!
//! ```text
//!  assemble ─► precheck ─ fits ────────────────────────────────► prompt ─► model ─ answers ─► counters start again
//!                 │                                                ▲          │
//!                 ├ compact ─► assemble again ─► trim what is left ┤          ├ too long: at most 3 times, by force
//!                 └ tool results alone suffice ─► trim ────────────┘          ├ timed out, window full: at most twice
//!                                                                             └ takes no tools: once more, without ours
//! ```
//!
//! The caller asks [`TurnRun::fitting_prompt`] before every model call, tool loops included, gives every failure to
//! [`TurnRun::recover`], and says [`TurnRun::model_answered`] when the model did.

use super::TurnError;
use super::builtin::Measured;
use super::compact::Ask;
use super::precheck::{Facts, Precheck, precheck};
use super::prepare::Assembled;
use super::prompt::Prompt;
use super::run::TurnRun;
use crate::model::ModelError;
use crate::observe::broken;
use engine_abi::wire::{compaction_target, trigger};

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
    /// The window that the provider named, in the host's count.
    told: Option<u64>,
    overflows: u32,
    timeouts: u32,
    /// The history was compacted for this call already.
    compacted: bool,
    /// Tokens of the last assembly, before anything was trimmed.
    assembled: u64,
    /// What an owning engine says that it compacted is not proven yet: tokens of the assembly before.
    unproven: Option<u64>,
}

impl TurnRun {
    /// Tokens that a prompt may cost.
    pub(super) fn prompt_limit(&self) -> u64 {
        self.pressure.limit.unwrap_or_else(|| self.window_less(self.agent.reserve(&self.params)))
    }

    /// The context window, as far as it is known by now.
    pub(super) fn window(&self) -> u64 {
        self.session.state().window(self.agent.info.context_window)
    }

    fn window_less(&self, reserve: u64) -> u64 {
        self.agent.counter.budget(self.window().saturating_sub(reserve))
    }

    /// A prompt of at most [`TurnRun::prompt_limit`] tokens. Where the history is too long it is compacted once, and what is then
    /// still too much is trimmed.
    ///
    /// # Errors
    ///
    /// [`TurnError::DoesNotFit`] when what cannot be shortened is longer than the window.
    pub(super) async fn fitting_prompt(&mut self) -> Result<Prompt, TurnError> {
        let limit = self.prompt_limit();
        let mut assembled = self.assembled(limit).await?;
        let check = self.precheck(&assembled, limit);
        if broken("9.27") && self.lease.degraded().is_some() {
            return Ok(assembled.prompt);
        }
        let compacts = check.compacts();
        self.notes.precheck = Some(check);
        if compacts && !self.pressure.compacted && self.worth_compacting() {
            self.pressure.compacted = true;
            match self.compact(self.ask(trigger::BUDGET, 1, self.pressure.assembled)).await {
                Ok(measured) => self.took(&measured),
                Err(TurnError::Cancelled) => return Err(TurnError::Cancelled),
                // The ladder goes on: what cannot be compacted is trimmed.
                Err(error) => tracing::warn!(%error, "the history was not compacted before the prompt"),
            }
            assembled = self.assembled(limit).await?;
        }
        self.fitted(assembled, limit)
    }

    /// Assembles, and holds what an owning engine said of its last compaction against it.
    async fn assembled(&mut self, limit: u64) -> Result<Assembled, TurnError> {
        let assembled = self.assemble(limit).await?;
        let tokens = assembled.prompt.tokens();
        if let Some(before) = self.pressure.unproven.take() {
            let progress = self.prove_compaction(before, tokens);
            self.note_progress(progress);
        }
        self.pressure.assembled = tokens;
        Ok(assembled)
    }

    fn precheck(&self, assembled: &Assembled, limit: u64) -> Precheck {
        let uncounted = if broken("8.80") { assembled.prompt.fixed() } else { 0 };
        let tokens = assembled.prompt.tokens() - uncounted;
        let too_long = tokens.max(assembled.unwindowed.unwrap_or(0)) > limit;
        precheck(Facts {
            assembled: tokens,
            unwindowed: assembled.unwindowed,
            window: self.window(),
            limit,
            reducible: if too_long { assembled.prompt.reducible() } else { 0 },
        })
    }

    fn worth_compacting(&self) -> bool {
        let state = self.session.state();
        state.projected_tokens() > state.extra.compaction_floor
    }

    /// What a compaction came to: known at once, or with the next assembly.
    fn took(&mut self, measured: &Measured) {
        if measured.claimed {
            self.pressure.unproven = Some(self.pressure.assembled);
        } else {
            self.note_progress(measured.compacted);
        }
    }

    fn fitted(&mut self, mut assembled: Assembled, limit: u64) -> Result<Prompt, TurnError> {
        let before = assembled.prompt.tokens();
        if before > limit {
            self.lease.engine().record_over_budget();
            assembled.prompt.trim(limit, &self.agent.counter);
            self.note_step("trim", before, assembled.prompt.tokens());
            let (tokens, window) = (assembled.prompt.tokens(), self.pressure.told.unwrap_or(self.window_less(0)));
            if tokens > window {
                let fixed = assembled.prompt.fixed();
                return Err(TurnError::DoesNotFit {
                    tokens,
                    window,
                    fixed,
                    system: self.system_tokens,
                    tools: self.tool_tokens,
                });
            }
        }
        Ok(assembled.prompt)
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
            ModelError::Overflow { limit, .. } if !broken("9.23") => {
                self.overflowed = true;
                if self.pressure.overflows >= OVERFLOW_ATTEMPTS {
                    return Err(TurnError::Overflow { attempts: self.pressure.overflows + 1, last: error });
                }
                self.pressure.overflows += 1;
                let counted = self.notes.prompt_tokens;
                let reported = reported_tokens(&error);
                if let Some(reported) = reported {
                    self.agent.counter.calibrate(counted, reported);
                }
                self.pressure.told = limit.map(|told| self.agent.counter.budget(told));
                if let Some(told) = limit {
                    // The next turn need not find it out again.
                    let mut state = self.session.state();
                    state.extra.told_window = Some((state.extra.model_name.clone(), told));
                }
                let shorter = counted / 4 * 3;
                let reserve = self.agent.reserve(&self.params);
                let told = self.pressure.told.map(|told| told.saturating_sub(reserve)).filter(|told| *told < counted);
                self.pressure.limit = Some(told.unwrap_or(shorter).min(shorter.max(1)));
                // What was compacted for this very call a moment ago is not compacted again before it was tried shorter.
                if self.pressure.compacted && self.pressure.overflows == 1 {
                    return Ok(());
                }
                let current = reported.unwrap_or(counted);
                self.shorten(trigger::OVERFLOW, self.pressure.overflows, current).await.map(|_| ())
            }
            ModelError::Timeout { .. } if self.nearly_full() && self.pressure.timeouts < TIMEOUT_ATTEMPTS => {
                self.pressure.timeouts += 1;
                match self.shorten(trigger::TIMEOUT_RECOVERY, self.pressure.timeouts, self.notes.prompt_tokens).await? {
                    true => Ok(()),
                    // The same prompt would only time out again.
                    false => Err(TurnError::Model(error)),
                }
            }
            error => self.without_tools(error).map_err(TurnError::Model),
        }
    }

    fn nearly_full(&self) -> bool {
        self.notes.prompt_tokens.saturating_mul(100) > self.window_less(0).saturating_mul(NEARLY_FULL)
    }

    /// Compacts by force, so that the next assembly has less to choose from. False when nothing came of it.
    async fn shorten(&mut self, trigger: u32, attempt: u32, current: u64) -> Result<bool, TurnError> {
        self.pressure.compacted = true;
        match self.compact(self.ask(trigger, attempt, current)).await {
            Ok(measured) => {
                if measured.compacted {
                    self.took(&measured);
                }
                Ok(measured.compacted)
            }
            Err(TurnError::Cancelled) => Err(TurnError::Cancelled),
            Err(error) => {
                tracing::warn!(%error, attempt, "the history was not compacted after a model call that failed");
                Ok(false)
            }
        }
    }

    pub(super) fn ask(&self, trigger: u32, attempt: u32, current: u64) -> Ask {
        let turn = {
            let state = self.session.state();
            let view = state.view();
            let start = state.turn_start(self.admitted.first);
            view.tokens(start..view.len())
        };
        Ask {
            trigger,
            force: true,
            target: compaction_target::BUDGET,
            attempt,
            max_attempts: match trigger {
                trigger::OVERFLOW => OVERFLOW_ATTEMPTS,
                trigger::TIMEOUT_RECOVERY => TIMEOUT_ATTEMPTS,
                _ => 1,
            },
            budget: self.prompt_limit().saturating_sub(self.fixed_tokens() + turn).max(1),
            current: Some(current),
            focus: None,
            may_defer: false,
        }
    }
}

/// The tokens that the provider counted in a prompt that it refused: a number of tokens above the window that it names.
fn reported_tokens(error: &ModelError) -> Option<u64> {
    let ModelError::Overflow { limit: Some(limit), said } = error else { return None };
    let mut words = said.message.split_whitespace().peekable();
    let mut reported = None;
    while let Some(word) = words.next() {
        let digits: String = word.chars().filter(char::is_ascii_digit).collect();
        let rest = word.trim_matches(|letter: char| letter.is_ascii_digit() || matches!(letter, ',' | '(' | ')' | '_'));
        let of_tokens = words.peek().is_some_and(|next| next.to_ascii_lowercase().starts_with("token"));
        if rest.is_empty()
            && of_tokens
            && let Ok(number) = digits.parse::<u64>()
            && number > *limit
        {
            reported = reported.max(Some(number));
        }
    }
    reported
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ProviderSaid;

    #[test]
    fn what_the_provider_counted_is_read_from_what_it_said() {
        let said = |message: &str| ModelError::Overflow {
            limit: Some(128_000),
            said: Box::new(ProviderSaid { status: 400, message: message.into(), body: serde_json::Value::Null }),
        };
        for (message, expected) in [
            (
                "This model's maximum context length is 128000 tokens. However, your messages resulted in 130123 tokens.",
                Some(130_123),
            ),
            (
                "maximum context length is 128,000 tokens, however you requested 131,072 tokens (130,048 in the messages)",
                Some(131_072),
            ),
            ("prompt is too long: 210000 tokens > 128000 maximum", Some(210_000)),
            ("This model's maximum context length is 128000 tokens.", None),
            ("too long, see request 20261130123456", None),
        ] {
            assert_eq!(reported_tokens(&said(message)), expected, "{message}");
        }
    }
}
