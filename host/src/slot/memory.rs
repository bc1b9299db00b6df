//! The memory slot: which provider serves an agent, and its guarded calls.
//!
//! A provider has an [`EngineCore`](super::core::EngineCore) like an engine: a latch, threads of its own, deadlines, counters. What differs is what
//! follows a failure: there is no next candidate, and no turn fails. Whoever asks is told that there is no memory now.

use super::call::frame::GRACE;
use super::call::input::HookInput;
use super::call::sink::Output;
use super::core::Factory;
use super::engine::EngineRef;
use super::facts::SessionFacts;
use super::failure::{DegradedCode, HookFailure};
use super::hook::Hook;
use super::instance::InstanceKey;
use super::latch::{Quarantine, announce};
use super::remote::WorkerStatus;
use super::segment::{Segment, SegmentContext};
use super::services::{HostServices, MemoryHit, MemoryPromptArgs};
use super::slot::{Known, MAIN_AGENT, Slot};
use super::start::refused_code;
use super::stats::HookStatus;
use super::status::{EngineState, EngineStatus, LibraryStatus, blank, library, of_engine};
use crate::config::Config;
use crate::ledger::{Crash, Sort, Verdicts};
use crate::plugins::{EngineOutcome, MemoryRegistration, OutcomeState, PluginReport};
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

/// The slot's value that means: no provider.
const NONE: &str = "none";

/// What the slot knows of memory providers.
pub(crate) struct MemorySlot {
    selected: Option<String>,
    /// Agents with a choice of their own.
    agents: BTreeMap<String, Option<String>>,
    known: RwLock<BTreeMap<String, Known>>,
    owners: Mutex<BTreeMap<String, String>>,
}

/// What an agent's memory slot comes to.
#[derive(Debug, Clone)]
pub enum MemoryChoice {
    /// Nothing is selected.
    None,
    /// The provider that serves.
    Ready(MemoryRef),
    /// A provider is selected and cannot serve: there is no memory.
    Out(MemoryOut),
}

/// A selected provider that cannot serve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryOut {
    /// Its id.
    pub provider: String,
    /// Closed code: `memory-missing`, `memory-disabled`, `memory-refused`, `memory-crashed`, `memory-quarantined`.
    pub code: &'static str,
    /// Why, in words.
    pub reason: String,
}

/// A provider with the instance of one agent and workspace. Cheap to clone.
#[derive(Debug, Clone)]
pub struct MemoryRef(EngineRef);

impl MemorySlot {
    pub(crate) fn new(config: &Config) -> MemorySlot {
        let value = |id: &String| (id != NONE).then(|| id.clone());
        let agents = config.agents.iter();
        MemorySlot {
            selected: config.plugins.slots.memory.as_ref().and_then(value),
            agents: agents
                .filter_map(|(agent, own)| Some((agent.clone(), own.slots.memory.as_ref().map(value)?)))
                .collect(),
            known: RwLock::default(),
            owners: Mutex::default(),
        }
    }

    fn of(&self, agent: &str) -> Option<&str> {
        self.agents.get(agent).unwrap_or(&self.selected).as_deref()
    }

    /// Every id that is listed.
    pub(crate) fn wanted(&self) -> BTreeSet<String> {
        self.agents.values().flatten().chain(&self.selected).cloned().collect()
    }

    /// The agents for which an instance is made at the start.
    pub(crate) fn listed(&self) -> BTreeSet<String> {
        let mut agents: BTreeSet<String> =
            self.agents.iter().filter(|(_, own)| own.is_some()).map(|(agent, _)| agent.clone()).collect();
        if self.of(MAIN_AGENT).is_some() {
            agents.insert(MAIN_AGENT.to_owned());
        }
        agents
    }

    /// Gives an id to an owner, who may say it again.
    pub(crate) fn claim(&self, id: &str, owner: &str) -> Result<(), String> {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let known: &String = owners.entry(id.to_owned()).or_insert_with(|| owner.to_owned());
        if known == owner {
            return Ok(());
        }
        Err(format!("the memory provider id \"{id}\" is already registered by {known}"))
    }

    pub(crate) fn known(&self) -> RwLockReadGuard<'_, BTreeMap<String, Known>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn known_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Known>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    /// The memory of an agent.
    pub fn memory(&self, agent: &str) -> MemoryChoice {
        let Some(id) = self.memory.of(agent) else { return MemoryChoice::None };
        let out = |code: DegradedCode, reason: String| {
            MemoryChoice::Out(MemoryOut { provider: id.to_owned(), code: code.memory(), reason })
        };
        match self.memory.known().get(id) {
            Some(Known::Engine(core)) => match (core.latch.get(), core.info()) {
                (Some(record), _) => out(record.later_code(), format!("it failed in {}: {}", record.at, record.reason)),
                (None, Some(info)) => {
                    let key = InstanceKey { agent: agent.to_owned(), workspace: self.workspace_of(agent) };
                    MemoryChoice::Ready(MemoryRef(EngineRef::new(Arc::clone(core), key, Arc::clone(info))))
                }
                (None, None) => out(DegradedCode::EngineRefused, "it has no instance yet".into()),
            },
            Some(Known::Disabled { plugin, reason }) => {
                out(DegradedCode::EngineDisabled, format!("its plugin {plugin} is switched off: {reason}"))
            }
            Some(Known::Out(record)) => out(record.code, format!("{}: {}", record.at, record.reason)),
            None => out(DegradedCode::EngineMissing, "no such provider is registered".into()),
        }
    }

    /// Takes in a registered provider.
    pub(super) fn take_memory(&self, registration: &MemoryRegistration) {
        let (plugin, id) = (&registration.plugin_id, &registration.provider_id);
        let grants = self.grants_of(plugin);
        let factory = Factory::Memory(registration.factory);
        let core = self.core_of(plugin, id, factory, &registration.config_json, &grants, false);
        self.memory.known_mut().entry(id.clone()).or_insert(Known::Engine(core));
    }

    /// Keeps why a listed provider did not come.
    pub(super) fn settle_memory(&self, outcome: EngineOutcome) {
        let id = outcome.engine_id.clone();
        let code = match &outcome.state {
            OutcomeState::Registered => return,
            OutcomeState::Disabled { reason } => {
                let plugin = outcome.plugin_id.clone().unwrap_or_default();
                tracing::warn!(
                    provider = %id, plugin = %plugin, code = DegradedCode::EngineDisabled.memory(),
                    "the selected memory provider \"{id}\" is switched off: {reason}; turns go on without memory"
                );
                self.memory.known_mut().entry(id).or_insert(Known::Disabled { plugin, reason: reason.clone() });
                return;
            }
            OutcomeState::Missing => DegradedCode::EngineMissing,
            OutcomeState::Refused => refused_code(&outcome),
        };
        let record = self.refused_record(&outcome, code);
        announce(&record);
        self.memory.known_mut().insert(id, Known::Out(Arc::new(record)));
    }

    /// Makes the instance of an agent's provider. A failure is latched where it happens.
    pub(super) fn make_memory(&self, agent: &str, services: Arc<dyn HostServices>) {
        let Some(id) = self.memory.of(agent) else { return };
        let core = match self.memory.known().get(id) {
            Some(Known::Engine(core)) => Arc::clone(core),
            _ => return,
        };
        let key = InstanceKey { agent: agent.to_owned(), workspace: self.workspace_of(agent) };
        let provider = EngineRef::new(core, key, Arc::default());
        if let Err(failure) = provider.segment_blocking(context(agent, services), |_| ()) {
            tracing::debug!(provider = %id, agent, "no instance: {failure}");
        }
    }
}

fn context(agent: &str, services: Arc<dyn HostServices>) -> SegmentContext {
    let facts = SessionFacts { agent: agent.to_owned(), ..SessionFacts::default() };
    SegmentContext::new(facts, services)
}

impl MemoryRef {
    /// Registered id.
    pub fn id(&self) -> &str {
        self.0.id()
    }

    /// How long a turn waits for the section: as long as the call may take, and no longer for want of a thread.
    pub fn patience(&self) -> Duration {
        self.0.core.deadline(Hook::MemoryPrompt) + GRACE * 2
    }

    /// True when the provider keeps what it is given.
    pub fn appends(&self) -> bool {
        self.0.has(Hook::MemoryAppend)
    }

    /// The provider's section of the system prompt.
    ///
    /// # Errors
    ///
    /// The failed call; the provider is out then, unless the failure is not its fault.
    pub async fn prompt(
        &self,
        services: &Arc<dyn HostServices>,
        args: MemoryPromptArgs,
    ) -> Result<Option<String>, HookFailure> {
        if !self.0.has(Hook::MemoryPrompt) {
            return Ok(None);
        }
        self.run(services, move |segment| segment.memory_prompt(&args)).await
    }

    /// At most `limit` hits, best first.
    ///
    /// # Errors
    ///
    /// As [`Self::prompt`].
    pub async fn search(
        &self,
        services: &Arc<dyn HostServices>,
        query: String,
        limit: usize,
    ) -> Result<Vec<MemoryHit>, HookFailure> {
        self.run(services, move |segment| segment.memory_search(&query, limit)).await
    }

    /// Keeps `text`. False when the provider does not keep anything.
    ///
    /// # Errors
    ///
    /// As [`Self::prompt`].
    pub async fn append(&self, services: &Arc<dyn HostServices>, text: String) -> Result<bool, HookFailure> {
        self.run(services, move |segment| segment.memory_append(&text)).await
    }

    async fn run<T: Send + 'static>(
        &self,
        services: &Arc<dyn HostServices>,
        work: impl FnOnce(&mut Segment) -> Result<T, HookFailure> + Send + 'static,
    ) -> Result<T, HookFailure> {
        // Whoever drops this future raises the call's cancel signal; the hook stays watched until it returns.
        self.0.segment(context(&self.0.key.agent, Arc::clone(services)), work).await.and_then(|done| done)
    }
}

impl Segment {
    /// A provider's section of the system prompt; `None` when it has nothing to say.
    pub fn memory_prompt(&mut self, args: &MemoryPromptArgs) -> Result<Option<String>, HookFailure> {
        let hook = Hook::MemoryPrompt;
        if !self.has(hook) {
            return Ok(None);
        }
        let Some(sink) = self.call(None, HookInput::MemoryPrompt(args))? else { return Ok(None) };
        self.succeeded(hook);
        Ok(match sink.output {
            Output::MemoryPrompt(text) => Some(text),
            _ => None,
        })
    }

    /// A provider's hits, best first. More than `limit` of them break the contract.
    pub fn memory_search(&mut self, query: &str, limit: usize) -> Result<Vec<MemoryHit>, HookFailure> {
        let hook = Hook::MemorySearch;
        let returned = self.call(None, HookInput::MemorySearch { query, limit: limit as u64 })?;
        let Some(sink) = returned else { return self.missing(hook) };
        if sink.hits.len() > limit {
            return Err(self.invalid(hook, format!("it gave {} hits, at most {limit} were asked for", sink.hits.len())));
        }
        self.succeeded(hook);
        Ok(sink.hits)
    }

    /// Has a provider keep `text`; false when it does not keep anything.
    pub fn memory_append(&mut self, text: &str) -> Result<bool, HookFailure> {
        self.done(HookInput::MemoryAppend { text })
    }
}

/// The memory slot for `/api/engines` and `doctor`.
#[derive(Debug, Clone, Serialize)]
pub struct MemorySlotStatus {
    /// The gateway's value, and what it comes to.
    #[serde(flatten)]
    pub main: MemoryValue,
    /// Agents with a value of their own.
    pub agents: BTreeMap<String, MemoryValue>,
    /// Every provider that is listed, by id.
    pub providers: Vec<ProviderStatus>,
}

/// A value of the memory slot, and what it comes to.
#[derive(Debug, Clone, Serialize)]
pub struct MemoryValue {
    /// The provider as the operator wrote it, or "none".
    pub selected: String,
    /// The provider that serves, or "none".
    pub effective: String,
    /// Why it is not the selected one.
    pub code: Option<&'static str>,
    /// Why, in words.
    pub reason: Option<String>,
}

/// One memory provider.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProviderStatus {
    /// Registered id.
    pub id: String,
    /// The plugin's id, or empty when nothing registered it.
    pub owner: String,
    /// State.
    pub state: EngineState,
    /// Code of the state, when it is not ready.
    pub code: Option<&'static str>,
    /// Why it is not ready, in words.
    pub reason: Option<String>,
    /// `info`: id, name, version.
    pub info: Option<Value>,
    /// Hooks that it has.
    pub has: Vec<Hook>,
    /// Why it is out.
    pub quarantine: Option<Value>,
    /// What the crash ledger holds against it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crash: Option<Crash>,
    /// Things worth knowing that stop nothing.
    pub warnings: Vec<String>,
    /// Its library.
    pub library: Option<LibraryStatus>,
    /// Instances.
    pub instances: usize,
    /// Its worker, when a process of its own serves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerStatus>,
    /// Threads that may take its work.
    pub threads: usize,
    /// Calls that were abandoned.
    pub abandoned: u64,
    /// Abandoned calls that have not come back.
    pub abandoned_live: u64,
    /// Calls by hook.
    pub hooks: BTreeMap<&'static str, HookStatus>,
}

impl Slot {
    pub(super) fn memory_status(&self, reports: &[PluginReport]) -> MemorySlotStatus {
        let value = |agent: &str, selected: Option<&str>| {
            let (effective, code, reason) = match self.memory(agent) {
                MemoryChoice::None => (NONE.to_owned(), None, None),
                MemoryChoice::Ready(provider) => (provider.id().to_owned(), None, None),
                MemoryChoice::Out(out) => (NONE.to_owned(), Some(out.code), Some(out.reason)),
            };
            MemoryValue { selected: selected.unwrap_or(NONE).to_owned(), effective, code, reason }
        };
        // An agent without a value of its own stands for the gateway's.
        let own = &self.memory.agents;
        let bystander = if own.contains_key(MAIN_AGENT) { "" } else { MAIN_AGENT };
        let known: Vec<(String, Known)> =
            self.memory.known().iter().map(|(id, known)| (id.clone(), known.clone())).collect();
        MemorySlotStatus {
            main: value(bystander, self.memory.selected.as_deref()),
            agents: own.iter().map(|(agent, id)| (agent.clone(), value(agent, id.as_deref()))).collect(),
            providers: known.into_iter().map(|(id, known)| provider(&id, &known, reports, &self.verdicts)).collect(),
        }
    }
}

fn provider(id: &str, known: &Known, reports: &[PluginReport], verdicts: &Verdicts) -> ProviderStatus {
    let status = match known {
        Known::Engine(core) => of_engine(core),
        Known::Disabled { plugin, reason } => EngineStatus {
            code: Some(DegradedCode::EngineDisabled),
            reason: Some(reason.clone()),
            ..blank(id, plugin, EngineState::Declared)
        },
        Known::Out(record) => EngineStatus {
            code: Some(record.code),
            reason: Some(record.reason.clone()),
            quarantine: Some((**record).clone()),
            ..blank(id, &record.owner, EngineState::of(record))
        },
    };
    let mut status = status;
    status.library = library(reports, &status.owner);
    status.hold(verdicts, Sort::Memory);
    let code = status.quarantine.as_ref().map(Quarantine::later_code).or(status.code);
    let quarantine = status.quarantine.map(|record| {
        let mut shown = serde_json::to_value(&record).unwrap_or_default();
        shown["code"] = record.code.memory().into();
        shown
    });
    ProviderStatus {
        library: library(reports, &status.owner),
        id: status.id,
        owner: status.owner,
        state: status.state,
        code: code.map(DegradedCode::memory),
        reason: status.reason,
        info: status.info.map(|info| serde_json::json!({"id": info.id, "name": info.name, "version": info.version})),
        has: status.has,
        quarantine,
        crash: status.crash,
        warnings: status.warnings,
        instances: status.instances,
        worker: status.worker,
        threads: status.threads,
        abandoned: status.abandoned,
        abandoned_live: status.abandoned_live,
        hooks: status.hooks,
    }
}
