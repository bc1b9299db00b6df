//! The memory of one run: its section is prepared beside whatever else the turn does before it assembles.

use super::agents::AgentRoom;
use super::house::House;
use crate::memory::{MemoryError, MemoryRoom, MemorySnapshot};
use crate::slot::{MemoryPromptArgs, ServiceError, ServiceStatus};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinHandle;

/// See the module.
pub(super) struct TurnMemory {
    room: Arc<MemoryRoom>,
    /// Name of the session's agent.
    name: String,
    agent: Arc<AgentRoom>,
    runtime: tokio::runtime::Handle,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What the engine may ask for.
    snapshot: Option<MemorySnapshot>,
    /// The next one on its way.
    running: Option<(MemoryPromptArgs, JoinHandle<MemorySnapshot>)>,
}

impl TurnMemory {
    pub(super) fn new(house: &House, name: String, agent: Arc<AgentRoom>) -> TurnMemory {
        TurnMemory { room: house.memory.clone(), name, agent, runtime: house.runtime.clone(), state: Mutex::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to prepare the section of a run with these tools, unless that was done.
    pub(super) fn begin(&self, available_tools: &[String]) {
        let args = self.room.args(available_tools);
        let mut state = self.state();
        if state.snapshot.as_ref().is_some_and(|snapshot| snapshot.answers(&args)) || !self.room.serves(&self.name) {
            return;
        }
        if let Some((running, task)) = &state.running {
            if *running == args {
                return;
            }
            task.abort();
        }
        let task = self.runtime.spawn(prepare(self.room.clone(), self.name.clone(), self.agent.clone(), args.clone()));
        state.running = Some((args, task));
    }

    /// The snapshot of a run with these tools; prepared once, whatever number of assemblies follows. Waits for the provider no
    /// longer than its call may take.
    pub(super) async fn ready(&self, available_tools: &[String]) -> MemorySnapshot {
        let args = self.room.args(available_tools);
        self.begin(available_tools);
        let running = {
            let mut state = self.state();
            if let Some(snapshot) = state.snapshot.as_ref().filter(|snapshot| snapshot.answers(&args)) {
                return snapshot.clone();
            }
            state.running.take()
        };
        let prepared = match running {
            Some((prepared_for, task)) if prepared_for == args => task.await.ok(),
            _ => None,
        };
        let snapshot = match prepared {
            Some(snapshot) => snapshot,
            // No provider serves: this asks nobody.
            None => prepare(self.room.clone(), self.name.clone(), self.agent.clone(), args).await,
        };
        self.state().snapshot = Some(snapshot.clone());
        snapshot
    }

    /// `buildMemorySystemPromptAddition`.
    pub(super) fn section(&self, args: &MemoryPromptArgs) -> Result<Option<String>, ServiceError> {
        let refused = |message: &str| Err(ServiceError::new(ServiceStatus::Invalid, message));
        match &self.state().snapshot {
            Some(snapshot) if snapshot.answers(args) => Ok(snapshot.section.clone()),
            Some(_) => refused("prepared memory prompt section does not match the current run"),
            None => refused("no memory prompt section is prepared for this call: it is there during assemble"),
        }
    }

    /// What was prepared last.
    pub(super) fn snapshot(&self) -> Option<MemorySnapshot> {
        self.state().snapshot.clone()
    }

    /// Takes what was prepared for another run of the same turn.
    pub(super) fn adopt(&self, snapshot: MemorySnapshot) {
        self.state().snapshot = Some(snapshot);
    }

    /// The section as it was prepared last.
    pub(super) fn prepared(&self) -> Option<String> {
        self.state().snapshot.as_ref()?.section.clone()
    }

    pub(super) fn room(&self) -> (Arc<MemoryRoom>, String) {
        (self.room.clone(), self.name.clone())
    }
}

impl Drop for TurnMemory {
    fn drop(&mut self) {
        // A turn that ended before it assembled needs no section.
        if let Some((_, task)) = self.state().running.take() {
            task.abort();
        }
    }
}

async fn prepare(room: Arc<MemoryRoom>, name: String, agent: Arc<AgentRoom>, args: MemoryPromptArgs) -> MemorySnapshot {
    room.prepare(&name, args, agent.info.context_window, &|text| agent.counter.text(text)).await
}

/// What the turn record keeps of the memory; `None` when none is selected.
pub(super) fn note(snapshot: &MemorySnapshot, tokens: u64) -> Option<Value> {
    match (&snapshot.provider, &snapshot.degraded) {
        (Some(provider), _) => Some(json!({"provider": provider, "tokens": tokens})),
        (None, Some((code, reason))) => Some(json!({"code": code, "reason": reason})),
        (None, None) => None,
    }
}

/// The error of a service that an engine asked.
pub(super) fn service_error(error: MemoryError) -> ServiceError {
    let status = match error {
        MemoryError::NoProvider | MemoryError::Out { .. } | MemoryError::ReadOnly { .. } => ServiceStatus::Unavailable,
        MemoryError::Text(_) => ServiceStatus::Invalid,
        _ => ServiceStatus::Failed,
    };
    ServiceError::new(status, error.to_string())
}
