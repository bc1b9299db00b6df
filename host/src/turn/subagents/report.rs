//! What is asked of a spawn, and what is said of a child.

use super::super::TurnError;
use crate::transcript::{SubagentBudgets, SubagentEnd, SubagentRecord, SubagentState, SubagentUsage};
use serde::Serialize;

/// How a child begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SpawnMode {
    /// With its task only.
    #[default]
    Isolated,
    /// With the history of its parent up to the turn that is open.
    Fork,
}

/// Bounds that a spawn names; what is absent is the configuration's, 0 is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpawnBudgets {
    /// Model calls.
    pub max_turns: Option<u64>,
    /// Tool calls of the model.
    pub max_tool_calls: Option<u64>,
    /// Tokens of all model calls.
    pub max_tokens: Option<u64>,
    /// Milliseconds from start to answer.
    pub time_ms: Option<u64>,
}

/// A spawn.
#[derive(Debug, Clone, Default)]
pub struct SpawnRequest {
    /// What the child is to do: its first user message.
    pub task: String,
    /// How it begins.
    pub mode: SpawnMode,
    /// With [`SpawnMode::Isolated`]: the engine prepares nothing.
    pub light_context: bool,
    /// Life of the child in ms; `None` for the configured one.
    pub ttl_ms: Option<u64>,
    /// Another agent than the parent's.
    pub agent: Option<String>,
    /// Name for people.
    pub label: Option<String>,
    /// System prompt of the task.
    pub system: Option<String>,
    /// Model to name; `None` for the one that the parent's last request named.
    pub model: Option<String>,
    /// Bounds.
    pub budgets: SpawnBudgets,
    /// Answer when the child has ended, not when it has begun.
    pub wait: bool,
}

impl SpawnRequest {
    pub(super) fn check(&self) -> Result<(), TurnError> {
        if self.task.trim().is_empty() {
            return Err(TurnError::invalid("a subagent needs a task", "task"));
        }
        if self.ttl_ms == Some(0) {
            return Err(TurnError::invalid("a time to live of 0 lets nothing live", "ttlMs"));
        }
        Ok(())
    }
}

/// What is known of a child.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubagentReport {
    /// Key of its session.
    pub child: String,
    /// Key of its parent's session.
    pub parent: String,
    /// Public id of its session.
    pub session_id: String,
    /// Its agent.
    pub agent: String,
    /// 1 for the child of a session that is no child itself.
    pub depth: u32,
    /// How it began.
    pub mode: SpawnMode,
    /// The engine's preparation was left out.
    pub light_context: bool,
    /// Name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// What it was to do.
    pub task: String,
    /// "preparing", "running", or why it ended: "completed", "deleted", "swept", "released".
    pub state: &'static str,
    /// Why it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<SubagentEnd>,
    /// The same in words, where the reason does not say all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// What is worth saying about its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Registered id of the engine that prepared it.
    pub engine: String,
    /// What it may use up; 0 is no bound.
    pub budgets: SubagentBudgets,
    /// What it used up.
    pub usage: SubagentUsage,
    /// Its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// The parent has the result.
    pub delivered: bool,
    /// Its session was deleted.
    pub gone: bool,
    /// Ms since the epoch.
    pub created_ms: i64,
    /// When its time to live is over, ms since the epoch.
    pub expires_ms: i64,
    /// When it ended, ms since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_ms: Option<i64>,
}

impl From<SubagentRecord> for SubagentReport {
    fn from(record: SubagentRecord) -> SubagentReport {
        let state = match (record.state, record.reason) {
            (SubagentState::Preparing, _) => "preparing",
            (SubagentState::Running, _) => "running",
            (_, reason) => reason.map_or("ended", SubagentEnd::name),
        };
        SubagentReport {
            child: record.child,
            parent: record.parent,
            session_id: record.session_id,
            agent: record.agent,
            depth: record.depth,
            mode: if record.fork { SpawnMode::Fork } else { SpawnMode::Isolated },
            light_context: record.light,
            label: record.label,
            task: record.task,
            state,
            reason: record.reason,
            cause: record.cause,
            note: record.note,
            engine: record.engine,
            budgets: record.budgets,
            usage: record.usage,
            result: record.result,
            delivered: record.delivered,
            gone: record.gone,
            created_ms: record.created_ms,
            expires_ms: record.expires_ms,
            ended_ms: (record.ended_ms != 0).then_some(record.ended_ms),
        }
    }
}
