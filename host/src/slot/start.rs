//! Start and stop: the listed libraries are loaded, first instances made; at the end every instance is disposed.

use super::call::host_table::log_line;
use super::core::{EngineCore, Factory, state_root};
use super::engine::EngineRef;
use super::facts::SessionFacts;
use super::failure::{DegradedCode, FailureKind};
use super::handoff;
use super::instance::InstanceKey;
use super::latch::{Quarantine, announce, now_ms};
use super::pool::Pool;
use super::remote;
use super::segment::SegmentContext;
use super::services::{HostServices, NoServices};
use super::slot::{Known, LEGACY, MAIN_AGENT, Slot};
use crate::observe::broken;
use crate::plugins::{
    self, Apart, Cause, EngineOutcome, Kind, OutcomeState, RegistrarPort, Registration, StageFailure, Wanted,
};
use engine_abi::wire::HostV1;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, Weak};
use std::time::{Duration, Instant};

/// How long the start of a process may take, beside the steps of loading.
pub(super) const WORKER_START: Duration = Duration::from_secs(10);
/// How long a worker that was asked to end may take at least.
const WORKER_STOP: Duration = Duration::from_millis(500);

/// The slot as a registering library meets it.
struct Registrar(Weak<Slot>);

impl RegistrarPort for Registrar {
    fn register(&self, kind: Kind, id: &str, plugin_id: &str) -> Result<(), String> {
        let slot = self.0.upgrade().ok_or_else(|| "the gateway is stopping".to_owned())?;
        match kind {
            Kind::Engine => slot.claim(id, plugin_id).map_err(|error| error.to_string()),
            Kind::Memory => slot.memory.claim(id, plugin_id),
        }
    }

    fn log(&self, plugin_id: &str, level: u32, target: &str, message: &str) {
        log_line(plugin_id, "", "register", level, target, message);
    }

    fn host_table(&self, plugin_id: &str) -> *const HostV1 {
        match self.0.upgrade() {
            Some(slot) => slot.host_table(plugin_id, &slot.grants_of(plugin_id)).pointer(),
            None => super::call::host_table::HostTable::leak(plugin_id, &[], false).pointer(),
        }
    }
}

impl Slot {
    /// Loads the libraries that the slots list and makes the first instances, whose factories may call `services`. Never
    /// fails: what fails is quarantined and told. Blocks, at most for the configured deadlines.
    pub fn start(&self, services: &Arc<dyn HostServices>) {
        let wanted: Vec<Wanted> = {
            let known = self.known();
            let engines = self.wanted().into_iter().filter(|id| !known.contains_key(id)).map(Wanted::engine);
            engines.chain(self.memory.wanted().into_iter().map(Wanted::memory)).collect()
        };
        let registrar: Arc<dyn RegistrarPort> = Arc::new(Registrar(self.weak()));
        let loaded = plugins::load(&self.config, &wanted, &self.verdicts, &registrar);
        self.abandoned_by_loader.fetch_add(loaded.abandoned, Ordering::Relaxed);
        self.abandoned_threads.more(loaded.abandoned);
        for registration in &loaded.registrations {
            self.take(registration);
        }
        for registration in &loaded.memory {
            self.take_memory(registration);
        }
        *self.reports.write().unwrap_or_else(PoisonError::into_inner) = loaded.reports;
        let mut failed = self.start_workers(loaded.apart);
        for mut outcome in loaded.engines {
            let own =
                failed.iter().position(|(wanted, _)| wanted.kind == outcome.kind && wanted.id == outcome.engine_id);
            if let Some(at) = own {
                outcome.failure = Some(failed.swap_remove(at).1);
                outcome.state = OutcomeState::Refused;
            }
            match outcome.kind {
                Kind::Engine => self.settle(outcome),
                Kind::Memory => self.settle_memory(outcome),
            }
        }
        // At once, so that a factory that hangs does not hold up the others.
        let (listed, memory) = (self.listed(), self.memory.listed());
        std::thread::scope(|scope| {
            for (id, agent) in &listed {
                scope.spawn(move || self.make_instance(id, agent, Arc::clone(services)));
            }
            for agent in &memory {
                scope.spawn(move || self.make_memory(agent, Arc::clone(services)));
            }
        });
    }

    /// Starts the workers, all at once, and registers what each of them serves. Gives what failed.
    fn start_workers(&self, apart: Vec<Apart>) -> Vec<(Wanted, StageFailure)> {
        std::thread::scope(|scope| {
            let starting: Vec<_> = apart
                .into_iter()
                .map(|one| {
                    let wanted = one.wanted.clone();
                    (wanted, scope.spawn(move || self.start_worker(one)))
                })
                .collect();
            let lost = || Err(StageFailure::new(Cause::WorkerStart, "the thread that started the worker failed"));
            starting
                .into_iter()
                .filter_map(|(wanted, thread)| Some((wanted, thread.join().unwrap_or_else(|_| lost()).err()?)))
                .collect()
        })
    }

    fn start_worker(&self, one: Apart) -> Result<(), StageFailure> {
        let Wanted { kind, id } = one.wanted.clone();
        let plugin = &one.plugin_id;
        let claimed = match kind {
            Kind::Engine => self.claim(&id, plugin).map_err(|error| error.to_string()),
            Kind::Memory => self.memory.claim(&id, plugin),
        };
        claimed.map_err(|why| StageFailure::new(Cause::ForeignId, why))?;
        if broken("latches") {
            self.apart.lock().unwrap_or_else(PoisonError::into_inner).push(one.clone());
        }
        let core = self.make_worker(one, None)?;
        match kind {
            Kind::Engine => self.known_mut().entry(id).or_insert(Known::Engine(core)),
            Kind::Memory => self.memory.known_mut().entry(id).or_insert(Known::Engine(core)),
        };
        Ok(())
    }

    /// Starts a worker and makes what it serves; `threads` of an earlier one are taken over, since they never end.
    fn make_worker(&self, one: Apart, threads: Option<Pool>) -> Result<Arc<EngineCore>, StageFailure> {
        let Apart { wanted, plugin_id: plugin, load } = one;
        let Wanted { kind, id } = &wanted;
        let grants = self.grants_of(&plugin);
        let config_json = load.config_json.to_string();
        let remote = remote::start(remote::Start {
            // Three steps of loading, each with its own deadline, and the start of a process.
            deadline: Duration::from_millis(load.deadline_ms.saturating_mul(3)) + WORKER_START,
            state_root: state_root(&self.config.gateway.state_dir, *kind, id),
            grants: grants.clone(),
            llm: self.offers_llm(),
            subject: wanted.clone(),
            load,
        })?;
        let mut core = self.core_of(&plugin, id, Factory::Worker(Arc::clone(&remote)), &config_json, &grants, false);
        if let (Some(core), Some(threads)) = (Arc::get_mut(&mut core), threads) {
            core.pool = threads;
        }
        remote.watch(&core);
        Ok(core)
    }

    fn take(&self, registration: &Registration) {
        let (plugin, id) = (&registration.plugin_id, &registration.engine_id);
        let grants = self.grants_of(plugin);
        let added = self.add(plugin, id, registration.factory, &registration.config_json, &grants, false);
        if let Err(error) = added {
            tracing::error!(engine = %id, plugin = %plugin, "{error}");
        }
    }

    /// Grants of a plugin's entry.
    pub(super) fn grants_of(&self, plugin: &str) -> Vec<String> {
        self.config.plugins.entries.get(plugin).map(|entry| entry.grants.clone()).unwrap_or_default()
    }

    /// Keeps why a listed engine did not come.
    pub(super) fn settle(&self, outcome: EngineOutcome) {
        let id = outcome.engine_id.clone();
        let code = match &outcome.state {
            OutcomeState::Registered => return,
            OutcomeState::Disabled { reason } => {
                let plugin = outcome.plugin_id.clone().unwrap_or_default();
                tracing::warn!(engine = %id, plugin = %plugin, "the selected engine \"{id}\" is switched off: {reason}");
                if broken("8.13") {
                    return self.settle(EngineOutcome { state: OutcomeState::Refused, ..outcome });
                }
                self.known_mut().entry(id).or_insert(Known::Disabled { plugin, reason: reason.clone() });
                return;
            }
            OutcomeState::Missing if broken("8.12") || broken("9.9") => return,
            OutcomeState::Missing => DegradedCode::EngineMissing,
            OutcomeState::Refused => refused_code(&outcome),
        };
        let record = Quarantine { serves: self.successor(&id), ..self.refused_record(&outcome, code) };
        announce(&record);
        self.known_mut().insert(id, Known::Out(Arc::new(record)));
    }

    /// The record of what did not come; one that crashed earlier is told with the hook in which it did.
    pub(super) fn refused_record(&self, outcome: &EngineOutcome, code: DegradedCode) -> Quarantine {
        let mut record = refused(outcome, code);
        let wanted = Wanted { kind: outcome.kind, id: outcome.engine_id.clone() };
        if code == DegradedCode::EngineCrashed
            && let Some(crash) = self.verdicts.crashed(wanted.sort(), &wanted.id, &record.owner)
        {
            record.at.clone_from(&crash.at);
            record.when_ms = i64::try_from(crash.when_ms).unwrap_or(record.when_ms);
        }
        record
    }

    /// Every engine of a chain with the agent whose instance is made first.
    fn listed(&self) -> Vec<(String, String)> {
        let main = self.chain.iter().map(|id| (id.clone(), MAIN_AGENT.to_owned()));
        let agents = self.agents.iter().flat_map(|(agent, ids)| ids.iter().map(|id| (id.clone(), agent.clone())));
        let shadow =
            self.config.plugins.context_engine_policy.shadow.iter().map(|id| (id.clone(), MAIN_AGENT.to_owned()));
        main.chain(agents).chain(shadow).filter(|(id, _)| id != LEGACY).collect()
    }

    /// Makes an instance. A failure is latched where it happens.
    pub(crate) fn make_instance(&self, id: &str, agent: &str, services: Arc<dyn HostServices>) {
        let core = match self.known().get(id) {
            Some(Known::Engine(core)) => Arc::clone(core),
            _ => return,
        };
        let key = InstanceKey { agent: agent.to_owned(), workspace: self.workspace_of(agent) };
        let engine = EngineRef::new(core, key, Arc::default());
        let facts = SessionFacts { agent: agent.to_owned(), ..SessionFacts::default() };
        if let Err(failure) = engine.segment_blocking(SegmentContext::new(facts, services), |_| ()) {
            tracing::debug!(engine = %id, agent, "no instance: {failure}");
        }
    }

    /// Disposes every instance that no call is inside of, and refuses further calls. Takes at most `limit` and a short grace.
    /// False when a call was ever abandoned: then the process must end with [`super::exit_now`].
    pub fn dispose_all(&self, limit: Duration) -> bool {
        let engines: Vec<Arc<EngineCore>> = self.engines();
        for core in &engines {
            core.closing.store(true, Ordering::Release);
        }
        let until = Instant::now() + limit;
        let waiting: Vec<_> = engines
            .iter()
            .flat_map(|core| core.instances.all().into_iter().map(move |instance| (core, instance)))
            .filter_map(|(core, instance)| handoff::dispose(core, instance, until))
            .collect();
        for wait in waiting {
            // That one is out was told when it happened; there is nothing to dispose then.
            if let Err(failure) = wait.finish()
                && failure.kind != FailureKind::Quarantined
            {
                tracing::warn!("{failure}");
            }
        }
        // Those that were let go to make room may still be on their way.
        while engines.iter().any(|core| !core.instances.quiet()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let until = until.max(Instant::now() + WORKER_STOP);
        std::thread::scope(|scope| {
            for remote in engines.iter().filter_map(|core| core.remote()) {
                scope.spawn(move || remote.stop(until));
            }
        });
        self.abandoned() == 0
    }

    /// Lets every quarantined engine and memory provider in again, as a restart would, in a build and a process that are told to
    /// test that (`ENGINEROOM_BREAK=latches`): so that one process can be seen failing again and again. False elsewhere.
    pub fn reset_latches(&self) -> bool {
        let allowed = broken("latches");
        if allowed {
            self.restart_workers();
            self.engines().iter().for_each(|core| core.latch.open());
        }
        allowed
    }

    /// The workers of quarantined engines have ended; new ones take their places.
    fn restart_workers(&self) {
        let apart = self.apart.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let engines = self.engines();
        std::thread::scope(|scope| {
            for one in apart.into_iter().filter(|one| one.wanted.kind == Kind::Engine) {
                let out = |core: &&Arc<EngineCore>| core.id == one.wanted.id && core.latch.get().is_some();
                let Some(old) = engines.iter().filter(|core| core.kind() == Kind::Engine).find(out) else { continue };
                scope.spawn(move || {
                    let id = one.wanted.id.clone();
                    if let Some(remote) = old.remote() {
                        remote.stop(Instant::now() + WORKER_START);
                    }
                    match self.make_worker(one, Some(old.pool.clone())) {
                        Ok(core) => drop(self.known_mut().insert(id.clone(), Known::Engine(core))),
                        Err(failure) => tracing::error!(engine = %id, "no new worker: {failure:?}"),
                    }
                    self.make_instance(&id, MAIN_AGENT, Arc::new(NoServices));
                });
            }
        });
    }

    /// All registered engines and memory providers.
    pub(crate) fn engines(&self) -> Vec<Arc<EngineCore>> {
        let engine = |known: &Known| match known {
            Known::Engine(core) => Some(Arc::clone(core)),
            _ => None,
        };
        let mut all: Vec<_> = self.known().values().filter_map(engine).collect();
        all.extend(self.memory.known().values().filter_map(engine));
        all
    }

    /// Calls that were ever abandoned, those of the loader included.
    pub fn abandoned(&self) -> usize {
        let hooks: u64 = self.engines().iter().map(|core| core.stats.abandoned.load(Ordering::Relaxed)).sum();
        usize::try_from(hooks).unwrap_or(usize::MAX) + self.abandoned_by_loader.load(Ordering::Relaxed)
    }

    /// Files that differ from what this process started with: a restart is due. Reads only what looks different; blocks.
    pub fn restart_due(&self) -> Vec<String> {
        let reports = self.reports.read().unwrap_or_else(PoisonError::into_inner);
        plugins::changes(&self.config.plugins, &reports)
            .into_iter()
            .map(|change| change.file.display().to_string())
            .collect()
    }
}

/// The code of what a stage refused.
pub(super) fn refused_code(outcome: &EngineOutcome) -> DegradedCode {
    let crashed = outcome.failure.as_ref().is_some_and(|failure| failure.code == Cause::Crashed.code());
    if crashed { DegradedCode::EngineCrashed } else { DegradedCode::EngineRefused }
}

/// Why something that is listed did not come.
fn refused(outcome: &EngineOutcome, code: DegradedCode) -> Quarantine {
    let failure = outcome.failure.as_ref();
    Quarantine {
        kind: outcome.kind,
        engine: outcome.engine_id.clone(),
        owner: outcome.plugin_id.clone().unwrap_or_default(),
        at: failure.map_or("discover", |failure| failure.stage.as_str()).to_owned(),
        code,
        diagnostic: failure.map_or("CE304", |failure| failure.code),
        reason: failure.map_or_else(|| code.as_str().to_owned(), |failure| failure.message.clone()),
        causes: failure.map(|failure| failure.causes.clone()).unwrap_or_default(),
        when_ms: now_ms(),
        hint: failure.map_or_else(|| code.hint().to_owned(), |failure| failure.hint.clone()),
        serves: "none".into(),
    }
}
