//! What a replay tells.

use crate::transcript::EntryId;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The whole replay.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplayReport {
    /// Engine that was asked for: the first of the chain.
    pub engine: String,
    /// Window of the replay in tokens.
    pub window: u64,
    /// True when token counts are estimates.
    pub estimated: bool,
    /// The conversations, in the order of the file.
    pub conversations: Vec<ConversationReport>,
    /// Engines that were to take part, or did, by id.
    pub engines: BTreeMap<String, EngineReport>,
    /// Calls that never came back: when not 0, the process must end without destructors.
    pub abandoned: usize,
}

/// One engine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EngineReport {
    /// "ready", "quarantined" or "declared".
    pub state: String,
    /// Closed code of a state that is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Why it is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its hooks that were called: calls, failures, and times in microseconds (minimum, mean, p50, p99, maximum).
    pub hooks: Value,
}

/// One conversation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConversationReport {
    /// Its name.
    pub name: String,
    /// Messages of the recording, system prompts not counted.
    pub messages: usize,
    /// Entries in the transcript at the end, compactions included.
    pub entries: usize,
    /// Tokens of all messages as they would be sent without an engine.
    pub tokens: u64,
    /// What happened, turn by turn.
    pub turns: Vec<TurnReport>,
    /// Compactions, oldest first.
    pub compactions: Vec<CompactionReport>,
    /// Numbers over all turns.
    pub shown: Shown,
}

/// What the model would have seen, over all turns.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Shown {
    /// Tokens of the largest prompt.
    pub tokens_max: u64,
    /// Tokens of the prompts on average.
    pub tokens_mean: f64,
    /// Tokens of all prompts together: what the replay would have cost.
    pub tokens_total: u64,
    /// Prompts that were larger than what they may cost.
    pub over_budget: usize,
    /// Turns that another engine than the selected one served.
    pub degraded: usize,
}

/// One turn.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TurnReport {
    /// Number, from 1.
    pub turn: usize,
    /// Time of its messages, in ms since the epoch; absent where the recording tells none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<i64>,
    /// False for a request at the end of the recording, which has no answer: the prompt was made, and nothing was committed.
    pub answered: bool,
    /// Engine that served.
    pub engine: String,
    /// Why it was not the selected one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// Messages in the transcript up to and with the request.
    pub stored: usize,
    /// Messages that the model would have seen, system prompts not counted.
    pub shown: usize,
    /// Tokens of the whole prompt, as the host counted them.
    pub tokens: u64,
    /// Tokens that the prompt may cost.
    pub budget: u64,
    /// Tokens of the history as the engine estimated them.
    pub engine_estimate: u64,
    /// Steps that shortened the prompt in this turn, with tokens before and after.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Value>,
    /// Hooks that failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Value>,
}

/// One compaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CompactionReport {
    /// Turn after which it was made, from 1; 0 when it was made before the first answer.
    pub after_turn: usize,
    /// What asked for it.
    pub trigger: String,
    /// Who made it: an engine, or "builtin".
    pub by: String,
    /// Tokens of the history before.
    pub tokens_before: u64,
    /// Tokens of the history after.
    pub tokens_after: u64,
    /// First entry that stayed word for word.
    pub first_kept: EntryId,
    /// Length of the summary in characters.
    pub summary_chars: usize,
}

impl Shown {
    pub(super) fn of(turns: &[TurnReport]) -> Shown {
        let total: u64 = turns.iter().map(|turn| turn.tokens).sum();
        Shown {
            tokens_max: turns.iter().map(|turn| turn.tokens).max().unwrap_or(0),
            tokens_mean: if turns.is_empty() { 0.0 } else { total as f64 / turns.len() as f64 },
            tokens_total: total,
            over_budget: turns.iter().filter(|turn| turn.tokens > turn.budget).count(),
            degraded: turns.iter().filter(|turn| turn.degraded.is_some()).count(),
        }
    }
}
