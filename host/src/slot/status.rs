//! What `/api/engines`, `doctor` and the metrics show of the slot.

use super::abandoned::AbandonedStatus;
use super::core::{BETWEEN_CALLS, EngineCore};
use super::engine::{EngineInfo, Operation, durable};
use super::failure::{DegradedCode, SlotError, UnmetRequirement};
use super::hook::Hook;
use super::host::ExecutionHost;
use super::latch::Quarantine;
use super::lease::{Degraded, LeaseRequest};
use super::memory::MemorySlotStatus;
use super::remote::WorkerStatus;
use super::slot::{CORE, Known, MAIN_AGENT, Slot};
use super::stats::{EstimateStatus, HookStatus};
use crate::ledger::{Crash, Previous, Sort, Verdicts};
use crate::plugins::{Kind, Placement, PluginReport};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};

/// The whole slot.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SlotStatus {
    /// "fallback" or "strict".
    pub on_failure: &'static str,
    /// The chain as the operator wrote it.
    pub chain: Vec<String>,
    /// Engine that serves stored turns now; "none" when the policy refuses them.
    pub effective: String,
    /// Why it is not the first of the chain.
    pub degraded: Option<Degraded>,
    /// Engine that watches, whatever its state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shadow: Option<String>,
    /// Agents with a chain of their own.
    pub agents: BTreeMap<String, AgentStatus>,
    /// Every engine that is registered or listed, by id.
    pub engines: Vec<EngineStatus>,
    /// The memory slot.
    pub memory: MemorySlotStatus,
    /// How the last process ended, where its crash ledger was there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_end: Option<Previous>,
    /// Every file that was found.
    pub plugins: Vec<PluginReport>,
    /// Calls that were ever abandoned: when not 0, the process ends without destructors.
    pub abandoned: usize,
    /// Threads of such calls that have not come back.
    pub abandoned_threads: AbandonedStatus,
    /// The host that `[model]` selects.
    pub host: ExecutionHost,
    /// Operations that are refused, since the executing host lacks what the engine requires.
    pub refused: Vec<RefusedOperation>,
}

/// An operation that is refused, for the sessions of one agent.
#[derive(Debug, Clone, Serialize)]
pub struct RefusedOperation {
    /// The agent.
    pub agent: String,
    /// What is required, and what the host has.
    #[serde(flatten)]
    pub requirement: UnmetRequirement,
}

/// An agent with a chain of its own.
#[derive(Debug, Clone, Serialize)]
pub struct AgentStatus {
    /// Its chain.
    pub chain: Vec<String>,
    /// Engine that serves its stored turns now.
    pub effective: String,
}

/// State of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EngineState {
    /// Registered, without an instance; or its plugin is switched off.
    Declared,
    /// Loaded, contract checked.
    Ready,
    /// Missing, refused, or failed; final for this process.
    Quarantined,
    /// It ended an earlier process; out until it is released.
    Crashed,
}

impl EngineState {
    /// The state of what is out since the start.
    pub(super) fn of(record: &Quarantine) -> EngineState {
        if record.is_crash() { EngineState::Crashed } else { EngineState::Quarantined }
    }
}

/// One engine.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EngineStatus {
    /// Registered id.
    pub id: String,
    /// Its owner: `core`, the plugin's id, or empty when nothing registered it.
    pub owner: String,
    /// State.
    pub state: EngineState,
    /// Code of the state, when it is not ready.
    pub code: Option<DegradedCode>,
    /// Why it is not ready, in words.
    pub reason: Option<String>,
    /// True when some chain lists it.
    pub listed: bool,
    /// True when it serves stored turns of the main agent now.
    pub effective: bool,
    /// True when it can serve stored turns.
    pub durable: bool,
    /// `info`.
    pub info: Option<EngineInfo>,
    /// Hooks that it has.
    pub has: Vec<Hook>,
    /// Why it is out.
    pub quarantine: Option<Quarantine>,
    /// What the crash ledger holds against it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crash: Option<Crash>,
    /// Things worth knowing that stop nothing.
    pub warnings: Vec<String>,
    /// Library, when it comes from one.
    pub library: Option<LibraryStatus>,
    /// Its worker, when a process of its own serves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerStatus>,
    /// Instances.
    pub instances: usize,
    /// Instances that were disposed to make room for those of other agents.
    pub instances_disposed: u64,
    /// Threads that may take its work.
    pub threads: usize,
    /// Calls that were abandoned.
    pub abandoned: u64,
    /// Abandoned calls that have not come back.
    pub abandoned_live: u64,
    /// Pushes after a deadline.
    pub late_pushes: u64,
    /// Service calls after a deadline.
    pub late_service_calls: u64,
    /// Calls that failed with an error of a host service.
    pub service_errors: u64,
    /// Answers over their budget.
    pub over_budget: u64,
    /// `estimatedTokens` beside the host's count.
    pub estimates: Option<EstimateStatus>,
    /// Calls by hook.
    pub hooks: BTreeMap<&'static str, HookStatus>,
}

/// The library of an engine.
#[derive(Debug, Clone, Serialize)]
pub struct LibraryStatus {
    /// Where it was found.
    pub file: PathBuf,
    /// SHA-256 of what was inspected.
    pub sha256: Option<String>,
    /// The private copy that runs.
    pub staged: Option<PathBuf>,
    /// Version of the plugin, as its manifest says.
    pub version: Option<String>,
    /// Where it runs, and why there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
}

impl Slot {
    /// Everything for `/api/engines` and `doctor`.
    pub fn status(&self) -> SlotStatus {
        let (effective, degraded) = match self.lease(&LeaseRequest::turn(MAIN_AGENT, true)) {
            Ok(lease) => (lease.engine().id().to_owned(), lease.degraded()),
            Err(_) => ("none".to_owned(), self.first_reason()),
        };
        let reports = self.reports.read().unwrap_or_else(PoisonError::into_inner).clone();
        let wanted = self.wanted();
        let listed = |id: &str| wanted.iter().any(|known| known == id) || self.chain.iter().any(|known| known == id);
        let known: Vec<(String, Known)> = self.known().iter().map(|(id, known)| (id.clone(), known.clone())).collect();
        let engines = known
            .into_iter()
            .map(|(id, known)| {
                let mut status = match known {
                    Known::Engine(core) => of_engine(&core),
                    Known::Disabled { plugin, reason } => EngineStatus {
                        code: Some(DegradedCode::EngineDisabled),
                        reason: Some(reason),
                        ..blank(&id, &plugin, EngineState::Declared)
                    },
                    Known::Out(record) => EngineStatus {
                        code: Some(record.code),
                        reason: Some(record.reason.clone()),
                        quarantine: Some((*record).clone()),
                        ..blank(&id, &record.owner, EngineState::of(&record))
                    },
                };
                status.listed = listed(&id);
                status.effective = id == effective;
                status.library = library(&reports, &status.owner);
                status.hold(&self.verdicts, Sort::Engine);
                status
            })
            .collect();
        SlotStatus {
            on_failure: if self.strict() { "strict" } else { "fallback" },
            chain: self.chain.clone(),
            effective,
            degraded,
            shadow: self.config.plugins.context_engine_policy.shadow.clone(),
            agents: self
                .agents
                .iter()
                .map(|(agent, chain)| {
                    (agent.clone(), AgentStatus { chain: chain.clone(), effective: self.effective(agent) })
                })
                .collect(),
            engines,
            memory: self.memory_status(&reports),
            previous_end: self.verdicts.previous().cloned(),
            plugins: reports,
            abandoned: self.abandoned(),
            abandoned_threads: self.abandoned_threads(),
            host: self.host().clone(),
            refused: self.refused(),
        }
    }

    fn refused(&self) -> Vec<RefusedOperation> {
        let own = self.config.agents.keys().filter(|agent| *agent != MAIN_AGENT);
        let agents = std::iter::once(MAIN_AGENT).chain(own.map(String::as_str));
        let mut refused = Vec::new();
        for agent in agents {
            for operation in [Operation::AgentRun, Operation::ManualCompact, Operation::SubagentSpawn] {
                let asked = LeaseRequest::turn(agent, true).operation(operation);
                if let Err(SlotError::HostRequirement(requirement)) = self.lease(&asked) {
                    refused.push(RefusedOperation { agent: agent.to_owned(), requirement: *requirement });
                }
            }
        }
        refused
    }

    /// Why the first of the chain cannot serve, when nobody can.
    fn first_reason(&self) -> Option<Degraded> {
        match self.lease(&LeaseRequest::turn(MAIN_AGENT, true)) {
            Err(SlotError::Strict { passed }) => passed.into_iter().next().map(|first| Degraded {
                code: first.code,
                engine: first.engine,
                reason: first.reason,
            }),
            _ => None,
        }
    }
}

impl EngineStatus {
    /// Adds what the crash ledger holds against it.
    pub(super) fn hold(&mut self, verdicts: &Verdicts, sort: Sort) {
        let Some(crash) = verdicts.held(sort, &self.id, &self.owner) else { return };
        // Of one that is out its record tells all of it.
        if self.state != EngineState::Crashed {
            // Where a worker was chosen for good, a worker is no advice.
            let placement = self.library.as_ref().and_then(|library| library.placement.as_ref());
            let apart = placement.is_some_and(Placement::is_apart_by_choice);
            let hint = if apart { crash.hint_apart() } else { crash.hint() };
            self.warnings.push(format!("{}: {}; {hint}", crash.verdict, crash.said()));
        }
        self.crash = Some(crash.clone());
    }
}

pub(super) fn blank(id: &str, owner: &str, state: EngineState) -> EngineStatus {
    EngineStatus {
        id: id.to_owned(),
        owner: owner.to_owned(),
        state,
        code: None,
        reason: None,
        listed: false,
        effective: false,
        durable: false,
        info: None,
        has: Vec::new(),
        quarantine: None,
        crash: None,
        warnings: Vec::new(),
        library: None,
        worker: None,
        instances: 0,
        instances_disposed: 0,
        threads: 0,
        abandoned: 0,
        abandoned_live: 0,
        late_pushes: 0,
        late_service_calls: 0,
        service_errors: 0,
        over_budget: 0,
        estimates: None,
        hooks: BTreeMap::new(),
    }
}

pub(super) fn of_engine(core: &Arc<EngineCore>) -> EngineStatus {
    let stats = &core.stats;
    let quarantine = core.latch.get().cloned();
    let info = core.info().map(|info| (**info).clone());
    let state = match (&quarantine, &info) {
        (Some(_), _) => EngineState::Quarantined,
        (None, Some(_)) => EngineState::Ready,
        (None, None) => EngineState::Declared,
    };
    let durable = info.as_ref().is_some_and(|info| durable(info, core));
    let estimates = stats.estimates();
    let mut warnings = Vec::new();
    if core.kind() == Kind::Engine && state == EngineState::Ready && !durable {
        warnings.push(
            "stored sessions pass it over (durable-semantics-missing): it declares not both transcript semantics, \
             or has no commitTurn"
                .to_owned(),
        );
    }
    if let Some(estimates) = estimates.as_ref().filter(|estimates| estimates.off > 0) {
        warnings.push(format!(
            "estimatedTokens was off by more than 25 % in {} of {} assembled prompts (last: {} estimated, {} counted)",
            estimates.off, estimates.count, estimates.last_estimated, estimates.last_counted
        ));
    }
    if info.as_ref().is_some_and(|info| info.background_maintenance) && !core.has(Hook::Maintain) {
        warnings.push("it asks for background maintenance but has no maintain".to_owned());
    }
    let late = stats.late_pushes.load(Relaxed) + stats.late_service_calls.load(Relaxed);
    if late > 0 {
        warnings.push(format!("{late} pushes and service calls came after their deadline and changed nothing"));
    }
    EngineStatus {
        code: quarantine.as_ref().map(|record| record.code),
        reason: quarantine.as_ref().map(|record| match record.at.as_str() {
            BETWEEN_CALLS => record.reason.clone(),
            at => format!("{at} failed: {}", record.reason),
        }),
        durable,
        has: Hook::ALL.into_iter().filter(|hook| *hook != Hook::Factory && core.has(*hook)).collect(),
        info,
        quarantine,
        warnings,
        worker: core.remote().map(|remote| remote.status()),
        instances_disposed: core.instances.disposed.load(Relaxed),
        instances: core.instances.all().len(),
        threads: core.pool.threads(),
        abandoned: stats.abandoned.load(Relaxed),
        abandoned_live: stats.abandoned_live.load(Relaxed),
        late_pushes: stats.late_pushes.load(Relaxed),
        late_service_calls: stats.late_service_calls.load(Relaxed),
        service_errors: stats.service_errors(),
        over_budget: stats.over_budget.load(Relaxed),
        estimates,
        hooks: stats.hooks(),
        ..blank(&core.id, &core.owner, state)
    }
}

pub(super) fn library(reports: &[PluginReport], owner: &str) -> Option<LibraryStatus> {
    if owner.is_empty() || owner == CORE {
        return None;
    }
    let report = reports.iter().find(|report| report.plugin_id.as_deref() == Some(owner))?;
    Some(LibraryStatus {
        file: report.file.clone(),
        sha256: report.sha256.clone(),
        staged: report.staged.clone(),
        version: report.manifest.as_ref().and_then(|manifest| manifest.version.clone()),
        placement: report.placement.clone(),
    })
}
