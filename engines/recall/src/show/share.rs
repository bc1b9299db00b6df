//! How a budget is divided.
//!
//! Measured on LoCoMo, raw passages that were picked well tell more per token than anything else at small budgets, so in plain
//! dialogue they get three quarters, up to a size beyond which more passages hardly add evidence. In a session of tool loops the
//! same prefix is sent again with every call, and the tail holds what the loop works on: there the passages, which change with
//! every turn, get a tenth. Between the two the share moves with the mean number of tool results in a turn, and a turn whose own
//! loop has begun counts as one of loops, whatever was before it.

use crate::config::{Auto, Config, Share};
use engine_abi::Head;
use engine_abi::wire::role;

/// Largest budget that is counted with.
const MOST: u64 = u32::MAX as u64;
/// Most tokens of passages, whatever the budget. On LoCoMo, 6,144 tokens of passages hold over 95 % of the evidence.
const MOST_RETRIEVED: u64 = 8_000;
/// Share of the passages in plain dialogue.
const RETRIEVED_IN_DIALOGUE: f64 = 0.75;
/// Share of the passages in a session of tool loops.
const RETRIEVED_IN_LOOPS: f64 = 0.10;
/// Tool results per turn from which a session counts as one of tool loops.
const LOOPS: f64 = 1.0;
/// How many of the newest turns tell what kind of session it is.
const TELLING_TURNS: usize = 32;
/// Budgets up to here have no log.
const NO_LOG: u64 = 8_192;
/// In a loop the log keeps what it had when the turn began, up to this part of what is left.
const LOG_IN_LOOPS: u64 = 5;
/// Below this budget pins get a smaller share, down to none: passages tell more there.
const ALL_PINS: u64 = 4_096;
/// How full the tail is after a batch, as a share of what it may grow to.
const LOW_WATER: f64 = 0.6;
/// Where the tail may not grow beyond its least, it grows by this share of the budget before a batch.
const SLACK: f64 = 1.0 / 32.0;
/// Below this budget it does not: providers cache no prefix below 1,024 tokens, and a quarter of this is that.
const CACHED: u64 = 4_096;

/// What each part of a prompt may cost, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shares {
    /// All parts together.
    pub budget: u64,
    /// Passages of older turns.
    pub retrieved: u64,
    /// Least for the newest turns, as far as there are any.
    pub least_tail: u64,
    /// Most for the log.
    pub log: u64,
    /// Most for the pins.
    pub pinned: u64,
}

impl Shares {
    /// Divides `budget` for a session with this history.
    pub(crate) fn of(config: &Config, budget: u64, heads: &[Head]) -> Shares {
        let budget = budget.min(MOST);
        let retrieved = match config.retrieved_share {
            Share::Fixed(share) => share,
            Share::Named(Auto::Auto) => {
                let loops = (tools_per_turn(heads) / LOOPS).min(1.0);
                (RETRIEVED_IN_DIALOGUE + (RETRIEVED_IN_LOOPS - RETRIEVED_IN_DIALOGUE) * loops)
                    .min(1.0 - config.tail_share)
            }
        };
        Shares {
            budget,
            retrieved: part(budget, retrieved).min(MOST_RETRIEVED),
            least_tail: part(budget, config.tail_share).max(1),
            log: log(config, budget),
            pinned: pinned(config, budget),
        }
    }

    /// The same within a turn of so many tokens, which the budget has off already. A loop of tool calls leaves less and less
    /// beside it, and what the person asked for once and for all is the last to go: pins keep what they had when the turn
    /// began, up to half of what is left. The log, which would be written anew each time that its share has shrunk, does so up to
    /// a part of it.
    pub(crate) fn in_turn(self, config: &Config, turn: u64, is_loop: bool) -> Shares {
        let whole = self.budget.saturating_add(turn).min(MOST);
        let began = pinned(config, whole);
        let retrieved = match config.retrieved_share {
            Share::Named(Auto::Auto) if is_loop => self.retrieved.min(part(self.budget, RETRIEVED_IN_LOOPS)),
            _ => self.retrieved,
        };
        let log = if is_loop { log(config, whole).min(self.budget / LOG_IN_LOOPS) } else { 0 };
        Shares { pinned: self.pinned.max(began.min(self.budget / 2)), log: self.log.max(log), retrieved, ..self }
    }

    /// Most that the tail may grow to, beside `pinned` and `log` tokens that stand before it.
    pub(crate) fn most_tail(&self, pinned: u64, log: u64) -> u64 {
        let left = self.budget.saturating_sub(self.retrieved + pinned + log);
        let slack = if self.budget < CACHED { 0 } else { part(self.budget, SLACK) };
        let least = (self.least_tail + slack).min(self.budget.saturating_sub(pinned + log));
        left.max(least)
    }

    /// What a batch shrinks the tail to.
    pub(crate) fn low_tail(&self, pinned: u64, log: u64) -> u64 {
        part(self.most_tail(pinned, log), LOW_WATER).max(self.least_tail)
    }
}

/// Most for the log of this budget.
fn log(config: &Config, budget: u64) -> u64 {
    part(budget.saturating_sub(NO_LOG), config.log_share)
}

/// Most for the pins of this budget.
fn pinned(config: &Config, budget: u64) -> u64 {
    part(budget, config.pinned_share) * budget.min(ALL_PINS) / ALL_PINS
}

/// `share` of `tokens`, rounded up.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "budgets have at most 32 bits, and shares are from 0 to 1"
)]
pub(crate) fn part(tokens: u64, share: f64) -> u64 {
    (tokens.min(MOST) as f64 * share).ceil() as u64
}

/// Mean number of tool results in the newest turns.
fn tools_per_turn(heads: &[Head]) -> f64 {
    let (mut turns, mut tools) = (0u32, 0u32);
    for head in heads.iter().rev() {
        tools += u32::from(head.role == role::TOOL);
        if head.starts_turn() {
            turns += 1;
            if turns as usize == TELLING_TURNS {
                break;
            }
        }
    }
    f64::from(tools) / f64::from(turns.max(1))
}
