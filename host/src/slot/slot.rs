//! The slot: the engines that are known, the chain of each agent, and the one resolver.

use super::abandoned::{Abandoned, AbandonedStatus};
use super::call::host_table::HostTable;
use super::core::{Deadlines, EngineCore, Factory, Registered};
use super::engine::{EngineInfo, EngineRef, not_durable};
use super::failure::{DegradedCode, Passed, SlotError};
use super::host::ExecutionHost;
use super::instance::InstanceKey;
use super::latch::Quarantine;
use super::lease::{Lease, LeaseRequest};
use super::memory::MemorySlot;
use super::registry::{Owners, RegisterError};
use super::services::NoServices;
use crate::config::{Config, OnFailure};
use crate::ledger::Verdicts;
use crate::observe::broken;
use crate::plugins::{Apart, PluginReport, RawFactory};
use engine_abi::wire::capability;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, Weak};

/// Id of the built-in engine.
pub const LEGACY: &str = "legacy";
/// Owner of what is linked statically.
pub const CORE: &str = "core";
/// Agent of sessions whose key names none.
pub const MAIN_AGENT: &str = "main";

/// What the slot knows of an id.
#[derive(Debug, Clone)]
pub(crate) enum Known {
    /// Registered.
    Engine(Arc<EngineCore>),
    /// Its plugin is switched off.
    Disabled { plugin: String, reason: String },
    /// Missing, or refused at a load stage.
    Out(Arc<Quarantine>),
}

/// Who serves the context engine slot.
pub struct Slot {
    pub(crate) config: Config,
    pub(crate) chain: Vec<String>,
    pub(crate) agents: BTreeMap<String, Vec<String>>,
    pub(crate) host: Arc<ExecutionHost>,
    /// The same for agents with a model of their own: what it offers depends on the model.
    agent_hosts: BTreeMap<String, Arc<ExecutionHost>>,
    pub(crate) deadlines: Deadlines,
    pub(crate) known: RwLock<BTreeMap<String, Known>>,
    /// Memory providers by id; a namespace of its own.
    pub(crate) memory: MemorySlot,
    owners: Mutex<Owners>,
    tables: Mutex<BTreeMap<String, HostTable>>,
    pub(crate) reports: RwLock<Vec<PluginReport>>,
    /// Threads that the loader has given up.
    pub(crate) abandoned_by_loader: std::sync::atomic::AtomicUsize,
    /// Threads that were given up and have not come back, the loader's included.
    pub(crate) abandoned_threads: Arc<Abandoned>,
    /// How each worker was started; kept only where a test may start them again.
    pub(crate) apart: Mutex<Vec<Apart>>,
    /// What is held against engines, and how the last process ended.
    pub(crate) verdicts: Verdicts,
    me: Weak<Slot>,
    runtime: tokio::runtime::Handle,
}

impl Slot {
    /// A slot that knows `legacy`.
    ///
    /// `runtime` keeps watch over hooks whose caller has gone.
    pub fn new(config: &Config, runtime: tokio::runtime::Handle) -> Arc<Slot> {
        Slot::judged(config, runtime, Verdicts::default())
    }

    /// The same with what the crash ledger holds against engines: some are out, and others are served from workers this time.
    pub fn judged(config: &Config, runtime: tokio::runtime::Handle, verdicts: Verdicts) -> Arc<Slot> {
        let slot = Arc::new_cyclic(|me| Slot {
            chain: chain(&config.plugins.slots.context_engine),
            agents: config
                .agents
                .iter()
                .filter(|(_, agent)| !agent.slots.context_engine.is_empty())
                .map(|(id, agent)| (id.clone(), chain(&agent.slots.context_engine)))
                .collect(),
            host: Arc::new(ExecutionHost::of(&config.model)),
            agent_hosts: config
                .agents
                .iter()
                .filter_map(|(id, agent)| Some((id.clone(), Arc::new(ExecutionHost::of(agent.model.as_ref()?)))))
                .collect(),
            deadlines: Deadlines::from_config(config),
            known: RwLock::default(),
            memory: MemorySlot::new(config),
            owners: Mutex::default(),
            tables: Mutex::default(),
            reports: RwLock::default(),
            abandoned_by_loader: std::sync::atomic::AtomicUsize::new(0),
            abandoned_threads: Arc::new(Abandoned::new(config.plugins.abandoned_threads_max)),
            apart: Mutex::default(),
            verdicts,
            me: Weak::clone(me),
            runtime,
            config: config.clone(),
        });
        // The first claim of this id, so nothing can stand in its way; and its factory cannot fail.
        let _ = slot.add(CORE, LEGACY, RawFactory(crate::legacy::factory()), "{}", &[], true);
        slot.make_instance(LEGACY, MAIN_AGENT, Arc::new(NoServices));
        slot
    }

    /// Registers an engine that is linked statically, for tests and benches: guarded and handed off like any other.
    ///
    /// # Errors
    ///
    /// [`RegisterError`].
    pub fn register(&self, owner: &str, id: &str, factory: RawFactory, config_json: &str) -> Result<(), RegisterError> {
        self.add(owner, id, factory, config_json, &[], false)
    }

    pub(crate) fn add(
        &self,
        owner: &str,
        id: &str,
        factory: RawFactory,
        config_json: &str,
        grants: &[String],
        inline: bool,
    ) -> Result<(), RegisterError> {
        self.claim(id, owner)?;
        let core = self.core_of(owner, id, Factory::Engine(factory), config_json, grants, inline);
        // The first registration stays: a refresh by the same owner is off.
        if broken("8.3") {
            self.known_mut().remove(id);
        }
        self.known_mut().entry(id.to_owned()).or_insert(Known::Engine(core));
        Ok(())
    }

    pub(crate) fn core_of(
        &self,
        owner: &str,
        id: &str,
        factory: Factory,
        config_json: &str,
        grants: &[String],
        inline: bool,
    ) -> Arc<EngineCore> {
        let registered = Registered {
            id: id.to_owned(),
            owner: owner.to_owned(),
            factory,
            config_json: config_json.to_owned(),
            grants: grants.to_vec(),
            host: self.host_table(owner, grants),
            core: inline,
            instances: self.config.plugins.instances_per_engine,
            abandoned: Arc::clone(&self.abandoned_threads),
        };
        let me = Weak::clone(&self.me);
        let successor =
            Box::new(move |id: &str| me.upgrade().map_or_else(|| LEGACY.to_owned(), |slot| slot.successor(id)));
        let runtime = Some(self.runtime.clone());
        let state_dir = &self.config.gateway.state_dir;
        EngineCore::new(registered, &self.deadlines, state_dir, runtime, successor)
    }

    pub(crate) fn weak(&self) -> Weak<Slot> {
        Weak::clone(&self.me)
    }

    /// Gives an id to an owner.
    pub(crate) fn claim(&self, id: &str, owner: &str) -> Result<(), RegisterError> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner).claim(id, owner)
    }

    /// True when some model can be asked. Some agent's is enough: a call for another agent's session is refused when it is made.
    pub(crate) fn offers_llm(&self) -> bool {
        let hosts = std::iter::once(&self.host).chain(self.agent_hosts.values());
        hosts.fold(0, |all, host| all | host.capabilities) & capability::RUNTIME_LLM_COMPLETE != 0
    }

    /// The host's table of an owner; the same for all its engines.
    pub(crate) fn host_table(&self, owner: &str, grants: &[String]) -> HostTable {
        let llm = self.offers_llm();
        let mut tables: MutexGuard<'_, _> = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        *tables.entry(owner.to_owned()).or_insert_with(|| HostTable::leak(owner, grants, llm))
    }

    pub(crate) fn known(&self) -> RwLockReadGuard<'_, BTreeMap<String, Known>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn known_mut(&self) -> std::sync::RwLockWriteGuard<'_, BTreeMap<String, Known>> {
        self.known.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The chain of an agent as the operator wrote it.
    pub(crate) fn chain_of(&self, agent: &str) -> &[String] {
        self.agents.get(agent).unwrap_or(&self.chain)
    }

    pub(crate) fn strict(&self) -> bool {
        self.config.plugins.context_engine_policy.on_failure == OnFailure::Strict
    }

    /// The chain with `legacy` at its end where the policy lets it serve.
    pub(crate) fn candidates_of(&self, agent: &str) -> Vec<&str> {
        let mut ids: Vec<&str> = self.chain_of(agent).iter().map(String::as_str).collect();
        if (!self.strict() || broken("9.7")) && !ids.contains(&LEGACY) {
            ids.push(LEGACY);
        }
        ids
    }

    /// Every id that some chain lists.
    pub(crate) fn wanted(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let shadow = self.config.plugins.context_engine_policy.shadow.iter();
        let all = self.chain.iter().chain(self.agents.values().flatten()).chain(shadow);
        all.filter(|id| *id != LEGACY && seen.insert(id.as_str())).cloned().collect()
    }

    /// What serves the gateway's chain when `id` is out: for the line that tells so.
    pub(crate) fn successor(&self, id: &str) -> String {
        let known = self.known();
        let serves = |candidate: &&str| {
            *candidate != id && matches!(known.get(*candidate), Some(Known::Engine(core)) if core.latch.get().is_none())
        };
        self.candidates_of(MAIN_AGENT).into_iter().find(serves).unwrap_or("none").to_owned()
    }

    /// The ordered candidates for one logical turn or operation.
    ///
    /// # Errors
    ///
    /// [`SlotError::HostRequirement`] when the first engine that could serve requires what the host has not, and
    /// [`SlotError::Strict`] when none can serve and the policy is strict.
    pub fn lease(&self, request: &LeaseRequest) -> Result<Lease, SlotError> {
        let host = request.host.as_ref().unwrap_or_else(|| self.host_of(&request.agent));
        let ids = self.candidates_of(&request.agent);
        let mut lease = Lease::empty(ids.first().copied().unwrap_or(LEGACY), self.strict());
        for id in ids {
            let (core, info) = match self.find(id) {
                Ok(found) => found,
                Err((_, reason)) if broken("9.10") && reason.starts_with("factory") => {
                    return Err(SlotError::Exhausted { engine: id.to_owned(), reason });
                }
                Err((code, reason)) => {
                    lease.skip(Passed { engine: id.to_owned(), code, reason });
                    continue;
                }
            };
            if request.stored
                && !(broken("8.40") || broken("9.6"))
                && let Some(reason) = not_durable(&info, &core)
            {
                let code = DegradedCode::DurableSemanticsMissing;
                lease.skip(Passed { engine: id.to_owned(), code, reason: reason.into() });
                continue;
            }
            if let Some(refusal) = request.operation.and_then(|operation| host.unmet(id, &info, operation)) {
                if lease.is_empty() {
                    return Err(refusal);
                }
                lease.note(id, refusal.to_string());
                continue;
            }
            let workspace = request.workspace.clone().or_else(|| self.workspace_of(&request.agent));
            let key = InstanceKey { agent: request.agent.clone(), workspace };
            lease.push(EngineRef::new(core, key, info).on(host));
        }
        lease.ready()
    }

    pub(crate) fn workspace_of(&self, agent: &str) -> Option<PathBuf> {
        self.config.agents.get(agent).and_then(|agent| agent.workspace_dir.clone())
    }

    /// The engine of an id, or why it cannot serve.
    fn find(&self, id: &str) -> Result<(Arc<EngineCore>, Arc<EngineInfo>), (DegradedCode, String)> {
        let known = self.known();
        match known.get(id) {
            Some(Known::Engine(core)) => match (core.latch.get(), core.info()) {
                (Some(record), _) => {
                    Err((record.later_code(), format!("it failed in {}: {}", record.at, record.reason)))
                }
                (None, Some(info)) => match core.spent() {
                    Some(reason) => Err((DegradedCode::ThreadsAbandoned, reason)),
                    None => Ok((Arc::clone(core), Arc::clone(info))),
                },
                (None, None) => Err((DegradedCode::EngineRefused, "it has no instance yet".into())),
            },
            Some(Known::Disabled { plugin, reason }) => {
                Err((DegradedCode::EngineDisabled, format!("its plugin {plugin} is switched off: {reason}")))
            }
            Some(Known::Out(record)) => Err((record.code, format!("{}: {}", record.at, record.reason))),
            None => Err((DegradedCode::EngineMissing, "no such engine is registered".into())),
        }
    }

    /// The engine that watches this agent's stored turns, or why it cannot; `None` when the slot has no shadow.
    pub fn shadow(&self, agent: &str) -> Option<Result<EngineRef, Passed>> {
        let id = self.config.plugins.context_engine_policy.shadow.as_deref().filter(|_| self.config.plugins.enabled)?;
        let passed = |code, reason: String| Passed { engine: id.to_owned(), code, reason };
        Some(match self.find(id) {
            Err((code, reason)) => Err(passed(code, reason)),
            Ok((core, info)) if not_durable(&info, &core).is_some() => {
                let reason = not_durable(&info, &core).unwrap_or_default();
                Err(passed(DegradedCode::DurableSemanticsMissing, reason.to_owned()))
            }
            Ok(_) => {
                self.engine(agent, id).ok_or_else(|| passed(DegradedCode::EngineRefused, "it left just now".into()))
            }
        })
    }

    /// The engine of one agent by its id, whatever the slot's value: for a replay. `None` when it cannot serve.
    pub fn engine(&self, agent: &str, id: &str) -> Option<EngineRef> {
        let (core, info) = self.find(id).ok()?;
        let key = InstanceKey { agent: agent.to_owned(), workspace: self.workspace_of(agent) };
        Some(EngineRef::new(core, key, info).on(self.host_of(agent)))
    }

    /// Id of the engine that serves stored turns of this agent now; "none" when the policy refuses them.
    pub fn effective(&self, agent: &str) -> String {
        match self.lease(&LeaseRequest::turn(agent, true)) {
            Ok(lease) => lease.engine().id().to_owned(),
            Err(_) => "none".to_owned(),
        }
    }

    /// Threads inside of calls that never came back, and whether a restart is asked for because of them.
    pub fn abandoned_threads(&self) -> AbandonedStatus {
        self.abandoned_threads.status()
    }

    /// The host that executes an agent's runs.
    pub fn host_of(&self, agent: &str) -> &Arc<ExecutionHost> {
        self.agent_hosts.get(agent).unwrap_or(&self.host)
    }

    /// The host that `[model]` selects and its capabilities.
    pub fn host(&self) -> &ExecutionHost {
        &self.host
    }
}

impl std::fmt::Debug for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slot").field("chain", &self.chain).finish_non_exhaustive()
    }
}

/// A slot value as a chain: blank and "none" mean `legacy`, the second mention of an id means nothing.
fn chain(value: &[String]) -> Vec<String> {
    let mut chain: Vec<String> = Vec::new();
    for id in value {
        let id = match id.trim() {
            "" | "none" if !broken("8.11") => LEGACY,
            id => id,
        };
        if !chain.iter().any(|known| known == id) {
            chain.push(id.to_owned());
        }
    }
    if chain.is_empty() {
        chain.push(LEGACY.to_owned());
    }
    chain
}
