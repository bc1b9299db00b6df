//! The shape of the report of what the model would see now.

use crate::transcript::EntryId;
use serde::Serialize;
use serde_json::Value;

/// What the model would see now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContextReport {
    /// Key of the session.
    pub session: String,
    /// Engine that would serve.
    pub engine: String,
    /// Engine that is selected.
    pub selected: String,
    /// Closed degraded code, when it is not the selected engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub degraded: Option<String>,
    /// Candidates that would be passed over, in order: `engine`, `code`, `reason`.
    pub passed: Vec<Value>,
    /// Model in use.
    pub model: String,
    /// Its context window in tokens.
    pub context_window: u64,
    /// Tokens that the prompt may cost: the window less the reserve for the answer.
    pub budget: u64,
    /// Tokens of what would be sent: entries, additions, and the system prompt and tools of the last request as far as this
    /// process saw one.
    pub tokens: u64,
    /// What the engine thinks that the history in it costs.
    pub engine_estimate: u64,
    /// True when token counts are a bound.
    pub estimated: bool,
    /// The engine has taken the session up in this process: what it gave is what the next turn would get.
    pub taken_up: bool,
    /// Turns that wait to be handed over to the engine.
    pub waiting_turns: usize,
    /// The prompt is over its budget: the next turn would compact first. What is shown here is what trimming alone would leave.
    pub would_compact: bool,
    /// Sums by state.
    pub totals: Totals,
    /// What an engine would put before the system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt_addition: Option<String>,
    /// What an engine would put at the head of the current user message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volatile_prompt_addition: Option<String>,
    /// The memory section that was prepared for the assembly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_section: Option<String>,
    /// The question that was asked as the next user message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// What is worth knowing of how this was found.
    pub notes: Vec<String>,
    /// Every entry of the active branch and every message that was made: first what the model would see, in the order of the
    /// prompt, then what it would not, oldest first.
    pub entries: Vec<ContextEntry>,
}

/// Number and tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Sum {
    /// How many.
    pub entries: u64,
    /// Their tokens.
    pub tokens: u64,
}

impl Sum {
    fn add(&mut self, tokens: u64) {
        self.entries += 1;
        self.tokens += tokens;
    }
}

/// Sums by state. Each entry is in one of the five; `shown` is the first three together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// What the model would see.
    pub shown: Sum,
    /// Shown as it is stored.
    pub kept: Sum,
    /// Shown shorter; the tokens are those of the short form.
    pub pruned: Sum,
    /// Messages that an engine or the host made, summaries included.
    pub made: Sum,
    /// Not shown: a summary stands for it.
    pub summarised: Sum,
    /// Not shown.
    pub dropped: Sum,
    /// Spans that the engine gave.
    pub spans: u64,
    /// Tokens of what the engine adds to the system prompt and to the user message.
    pub additions: u64,
    /// Tokens of the system prompt of the last request; 0 when this process saw none.
    pub system_prompt: u64,
    /// Tokens of the tools of the last request; 0 when this process saw none.
    pub tools: u64,
}

impl Totals {
    pub(super) fn count(&mut self, entry: &ContextEntry) {
        let sum = match entry.state {
            EntryState::Kept => &mut self.kept,
            EntryState::Pruned => &mut self.pruned,
            EntryState::Made | EntryState::Summary => &mut self.made,
            EntryState::Summarised => &mut self.summarised,
            EntryState::Dropped => &mut self.dropped,
        };
        sum.add(entry.tokens);
        if entry.shown {
            self.shown.add(entry.tokens);
        }
    }
}

/// What becomes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryState {
    /// Shown as it is stored.
    Kept,
    /// Shown shorter than it is stored.
    Pruned,
    /// Shown: the summary of a compaction.
    Summary,
    /// Shown: made by an engine or by the host.
    Made,
    /// Not shown: a summary stands for it.
    Summarised,
    /// Not shown.
    Dropped,
}

/// One entry of a [`ContextReport`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContextEntry {
    /// Entry id in the store; absent for a message that was made, and for a question that was only asked here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<EntryId>,
    /// Place among the messages of the active branch, from 1: engines that number what they show, as `recall` does, count like
    /// this. Absent where there is no id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// Role.
    pub role: &'static str,
    /// What becomes of it.
    pub state: EntryState,
    /// Tokens as it would be sent; of what is not shown: as it is stored.
    pub tokens: u64,
    /// Tokens as it is stored, where that is another number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored_tokens: Option<u64>,
    /// Number, from 1, of the span of the engine's answer that it is shown by; absent for what no span shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span: Option<usize>,
    /// True when the model would see it.
    pub shown: bool,
    /// Who decided: an engine by its id, or "host".
    pub by: String,
    /// Why.
    pub why: String,
    /// Its text, whole; of a message without one, which tools it calls.
    pub text: String,
}
