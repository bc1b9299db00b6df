//! Children of sessions as the store keeps them: from before the first step of a start until nothing is left to do.

use super::SessionRow;
use serde::{Deserialize, Serialize};

/// How far a child is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubagentState {
    /// It is being started. Found like this by a later process, it never ran.
    Preparing,
    /// Its task is admitted.
    Running,
    /// It ended; its engine may not have been told yet.
    Ending,
    /// It ended, and everything that follows an end is done.
    Ended,
}

/// Why a child ended: the reasons of `onSubagentEnded`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SubagentEnd {
    /// It answered its task.
    Completed,
    /// Somebody ended it, or its parent was deleted or reset.
    Deleted,
    /// Its time to live was over.
    Swept,
    /// The host let it go without an answer: it failed, its budget was used up, or it never started.
    Released,
}

impl SubagentEnd {
    /// The wire code.
    pub fn code(self) -> u32 {
        use engine_abi::wire::subagent_end;
        match self {
            SubagentEnd::Completed => subagent_end::COMPLETED,
            SubagentEnd::Deleted => subagent_end::DELETED,
            SubagentEnd::Swept => subagent_end::SWEPT,
            SubagentEnd::Released => subagent_end::RELEASED,
        }
    }

    /// The name in documents.
    pub fn name(self) -> &'static str {
        match self {
            SubagentEnd::Completed => "completed",
            SubagentEnd::Deleted => "deleted",
            SubagentEnd::Swept => "swept",
            SubagentEnd::Released => "released",
        }
    }
}

/// What a child may use up; 0 is no bound.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubagentBudgets {
    /// Model calls.
    pub max_turns: u64,
    /// Tool calls of the model.
    pub max_tool_calls: u64,
    /// Tokens of all model calls, prompts and answers.
    pub max_tokens: u64,
    /// Milliseconds from its start to its answer.
    pub time_ms: u64,
}

/// What a child has used up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubagentUsage {
    /// Model calls.
    pub turns: u64,
    /// Tool calls of the model.
    pub tool_calls: u64,
    /// Tokens of all model calls.
    pub tokens: u64,
    /// Milliseconds from its start to its end.
    pub time_ms: u64,
}

/// A child of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SubagentRecord {
    /// Key of its session; unique for ever.
    pub child: String,
    /// Key of its parent's session.
    pub parent: String,
    /// Row of its session.
    pub row: SessionRow,
    /// Public id of its session.
    pub session_id: String,
    /// Its agent.
    pub agent: String,
    /// 1 for the child of a session that is no child itself.
    pub depth: u32,
    /// It began with its parent's history.
    pub fork: bool,
    /// Its start left the engine's preparation out.
    pub light: bool,
    /// Name for people.
    pub label: Option<String>,
    /// What it is to do.
    pub task: String,
    /// System prompt of its task.
    pub system: Option<String>,
    /// Model that its task names.
    pub model: Option<String>,
    /// What is worth saying about its start.
    pub note: Option<String>,
    /// Registered id of the engine that prepared it, and that is told of its end.
    pub engine: String,
    /// How far it is.
    pub state: SubagentState,
    /// Why it ended.
    pub reason: Option<SubagentEnd>,
    /// The same in words, where the reason does not say all.
    pub cause: Option<String>,
    /// Its answer.
    pub result: Option<String>,
    /// The engine was told of the end, or needs not be.
    pub told: bool,
    /// The parent has the result, or is to have none.
    pub delivered: bool,
    /// Its session was deleted.
    pub gone: bool,
    /// What it may use up.
    pub budgets: SubagentBudgets,
    /// What it used up.
    pub usage: SubagentUsage,
    /// How often its task was begun: more than once when a process ended in the middle.
    pub attempts: u32,
    /// Ms since the epoch.
    pub created_ms: i64,
    /// When its time to live is over, ms since the epoch.
    pub expires_ms: i64,
    /// When it ended, ms since the epoch, or 0.
    pub ended_ms: i64,
}

impl SubagentRecord {
    /// Takes over what `before`, an older or a newer writing of the same child, knows more: a child never goes back, and what was
    /// done stays done. So several may write, each with what it knows.
    pub fn merge(&mut self, before: SubagentRecord) {
        self.told |= before.told;
        self.delivered |= before.delivered;
        self.gone |= before.gone;
        if before.state > self.state {
            self.state = before.state;
            self.reason = before.reason;
            self.cause = before.cause;
            self.result = before.result;
            self.usage = before.usage;
            self.ended_ms = before.ended_ms;
        }
    }

    /// True while something is left to do that does not wait for a time.
    pub fn open(&self) -> bool {
        self.state != SubagentState::Ended || !self.told
    }

    /// When its session is to be deleted; `None` when that was done.
    pub fn due_ms(&self) -> Option<i64> {
        (!self.gone).then_some(self.expires_ms)
    }

    /// True while its parent has not got what became of it.
    pub fn waiting(&self) -> bool {
        matches!(self.state, SubagentState::Ending | SubagentState::Ended) && !self.delivered
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A child that runs.
    pub(crate) fn child(parent: &str, name: &str) -> SubagentRecord {
        SubagentRecord {
            child: format!("agent:main:subagent:{name}"),
            parent: parent.into(),
            row: 7,
            session_id: "id".into(),
            agent: "main".into(),
            depth: 1,
            fork: false,
            light: false,
            label: None,
            task: "look".into(),
            system: None,
            model: None,
            note: None,
            engine: "window".into(),
            state: SubagentState::Running,
            reason: None,
            cause: None,
            result: None,
            told: false,
            delivered: false,
            gone: false,
            budgets: SubagentBudgets::default(),
            usage: SubagentUsage::default(),
            attempts: 1,
            created_ms: 1,
            expires_ms: 100,
            ended_ms: 0,
        }
    }

    #[test]
    fn a_child_never_goes_back_whoever_writes_last() {
        let ended = SubagentRecord {
            state: SubagentState::Ended,
            reason: Some(SubagentEnd::Completed),
            result: Some("well".into()),
            told: true,
            ended_ms: 9,
            ..child("p", "a")
        };
        let mut late = SubagentRecord { delivered: true, ..child("p", "a") };
        late.merge(ended.clone());
        assert_eq!(late, SubagentRecord { delivered: true, ..ended.clone() });
        // Also the other way round.
        let mut last = ended.clone();
        last.merge(SubagentRecord { gone: true, ..child("p", "a") });
        assert_eq!(last, SubagentRecord { gone: true, ..ended });
    }

    #[test]
    fn something_is_left_to_do_until_everybody_was_told_and_nothing_is_stored() {
        let mut record = child("p", "a");
        assert!(record.open() && !record.waiting() && record.due_ms() == Some(100));
        record.state = SubagentState::Ending;
        assert!(record.open() && record.waiting());
        record.state = SubagentState::Ended;
        assert!(record.open(), "its engine was not told");
        record.told = true;
        assert!(!record.open() && record.waiting());
        record.delivered = true;
        record.gone = true;
        assert!(!record.open() && !record.waiting() && record.due_ms().is_none());
    }
}
