//! What a person or a program sees of optional work.

use serde::Serialize;

/// Where the work for one session and engine stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MaintenanceState {
    /// Nothing is wanted.
    Idle,
    /// It waits for its engine, or for the session.
    Queued,
    /// It runs.
    Running,
}

/// The work for one session and engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MaintenanceStatus {
    /// Key of the session.
    pub session: String,
    /// Registered id of the engine.
    pub engine: String,
    /// Where it stands.
    pub state: MaintenanceState,
    /// What is wanted or runs: `maintain`, `compact`, or both; empty when idle.
    pub kinds: Vec<&'static str>,
    /// When it was queued, or began to run; ms since the epoch. `None` when idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_ms: Option<i64>,
    /// True when a run will follow the one that runs now.
    pub rerun: bool,
    /// The last run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<LastRun>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LastRun {
    /// `succeeded`, `failed`, `gave-way` (it is queued again), `cancelled` (by a stop, or refused) or `skipped`.
    pub outcome: &'static str,
    /// Why, or what the engine said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it ended, ms since the epoch.
    pub ended_ms: i64,
    /// How long it ran, in ms.
    pub duration_ms: u64,
    /// `changed`, as the engine reported it.
    pub changed: bool,
    /// `bytesFreed`, as the engine reported it.
    pub bytes_freed: u64,
    /// `rewrittenEntries`, as the engine reported it.
    pub rewritten_entries: u64,
}
