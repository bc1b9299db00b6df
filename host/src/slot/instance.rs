//! From a factory to an instance: private folder, guarded factory, `info`, contract check.
#![allow(unsafe_code, reason = "reads the table behind the pointer that a factory gave")]

use super::call::frame::Frame;
use super::call::guarded::{Limits, Outcome, Setup, guarded};
use super::call::input::HookInput;
use super::call::invoke::Local;
use super::call::sink::Output;
use super::call::{border, lend, receive};
use super::core::{EngineCore, Factory};
use super::engine::EngineInfo;
use super::facts::SessionFacts;
use super::failure::{FailureKind, HookFailure};
use super::hook::Hook;
use super::remote::RemoteInstance;
use crate::observe::broken;
use crate::plugins::{Kind, RawFactory, RawMemoryFactory};
use crate::sync::{AtomicBool, AtomicUsize};
use engine_abi::wire::{CallV1, EngineV1, FactoryContextV1, InstanceV1, MemoryInstanceV1, Str, host_params, status};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// For whom an instance is made.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct InstanceKey {
    pub(crate) agent: String,
    pub(crate) workspace: Option<PathBuf>,
}

/// One instance of an engine.
pub(crate) struct Instance {
    pub(crate) backend: Backend,
    pub(crate) info: Arc<EngineInfo>,
    /// Hooks whose pointer is set but that said that they are not there, by bit; shared by all instances of the engine.
    absent: Arc<AtomicU32>,
    /// Segments that are inside, given-up ones included.
    pub(crate) inside: AtomicUsize,
    pub(crate) disposed: AtomicBool,
}

/// Where an instance lives.
pub(crate) enum Backend {
    /// In this process.
    Local(Local),
    /// In a worker.
    Remote(RemoteInstance),
}

impl Backend {
    /// True when the engine has the hook.
    fn has(&self, hook: Hook) -> bool {
        match self {
            Backend::Local(local) => local.has(hook),
            Backend::Remote(remote) => remote.has(hook),
        }
    }

    /// Makes one call on this thread.
    pub(crate) fn invoke(
        &self,
        frame: &Frame,
        call: &CallV1,
        facts: &SessionFacts,
        params: u32,
        input: &HookInput<'_>,
    ) -> Outcome {
        match self {
            Backend::Local(local) => Outcome::Returned(local.invoke(call, facts, params, input)),
            Backend::Remote(remote) => remote.invoke(frame, facts, params, input),
        }
    }
}

impl Instance {
    /// An instance that no call is inside of.
    pub(crate) fn new(backend: Backend, info: EngineInfo, absent: Arc<AtomicU32>) -> Instance {
        Instance {
            backend,
            info: Arc::new(info),
            absent,
            inside: AtomicUsize::new(0),
            disposed: AtomicBool::new(false),
        }
    }

    /// True when the engine has the hook.
    pub(crate) fn has(&self, hook: Hook) -> bool {
        self.backend.has(hook) && self.absent.load(Ordering::Relaxed) & (1 << hook.index()) == 0
    }

    /// The hook answered that it is not there.
    pub(crate) fn mark_absent(&self, hook: Hook) {
        self.absent.fetch_or(1 << hook.index(), Ordering::Relaxed);
    }

    /// Disposes it, on this thread, unless that was done or a call (perhaps a given-up one) is still inside.
    pub(crate) fn dispose(&self, frame: &Frame, cap: Option<Duration>) -> Result<(), HookFailure> {
        if self.inside.load(Ordering::Acquire) != 0 || self.disposed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        if !self.backend.has(Hook::Dispose) {
            return Ok(());
        }
        let session = Arc::<SessionFacts>::default();
        let setup = Setup {
            hook: Hook::Dispose,
            params: 0,
            session: Arc::clone(&session),
            view: None,
            limits: Limits::cap(cap),
        };
        guarded(frame, setup, |call| self.backend.invoke(frame, call, &session, 0, &HookInput::Dispose)).map(drop)
    }
}

/// Makes an instance on this thread, guarded by `frame`.
pub(crate) fn make(core: &EngineCore, key: &InstanceKey, frame: &Frame) -> Result<Instance, HookFailure> {
    let state_dir = core.state_dir(&key.agent);
    // The last resort keeps no state, and must not depend on a folder that can be made.
    if !core.inline {
        std::fs::create_dir_all(&state_dir).map_err(|error| {
            let reason = format!("its state folder {} cannot be made", state_dir.display());
            core.failed(Hook::Factory, FailureKind::Error, reason, vec![error.to_string()])
        })?;
    }
    let backend = create(core, key, &state_dir, frame)?;
    let mut problems = Vec::new();
    let info = match backend.has(Hook::Info) {
        false => {
            problems.push("info() is missing".to_owned());
            EngineInfo::default()
        }
        true => {
            let session = session(key);
            let setup = Setup {
                hook: Hook::Info,
                params: 0,
                session: Arc::clone(&session),
                view: None,
                limits: Limits::default(),
            };
            let ask = |call: &CallV1| backend.invoke(frame, call, &session, 0, &HookInput::Info);
            match guarded(frame, setup, ask)?.map(|sink| sink.output) {
                Some(Output::Info(mut info)) => {
                    if core.kind() == Kind::Memory {
                        // Of a memory provider only these count, whatever it says beside them.
                        let EngineInfo { id, name, version, .. } = info;
                        info = EngineInfo {
                            id,
                            name,
                            version,
                            accepted_host_params: host_params::ALL,
                            ..EngineInfo::default()
                        };
                    }
                    if info.id.trim().is_empty() {
                        problems.push("info.id is missing or blank".to_owned());
                    }
                    if broken("8.16") && info.id != core.id {
                        problems.push("info.id is another".to_owned());
                    }
                    if info.name.trim().is_empty() {
                        problems.push("info.name is missing or blank".to_owned());
                    }
                    info
                }
                _ => {
                    problems.push("info() gave nothing".to_owned());
                    EngineInfo::default()
                }
            }
        }
    };
    let required: &[(&str, Hook)] = match core.kind() {
        Kind::Memory => &[("search()", Hook::MemorySearch)],
        Kind::Engine => &[("ingest()", Hook::Ingest), ("assemble()", Hook::Assemble), ("compact()", Hook::Compact)],
    };
    for &(name, hook) in required {
        let there = backend.has(hook);
        let only_first = broken("8.19") && !problems.is_empty();
        if !there && !only_first {
            let name = if broken("8.18") { "a hook" } else { name };
            problems.push(format!("{name} is missing"));
        }
    }
    let instance = Instance::new(backend, info, Arc::clone(&core.absent));
    if problems.is_empty() {
        return Ok(instance);
    }
    // The half-built engine gets its last call; whatever that gives, the contract check is what failed.
    if !broken("8.20") {
        let _ = instance.dispose(frame, None);
    }
    Err(core.breaks_contract(&problems))
}

fn session(key: &InstanceKey) -> Arc<SessionFacts> {
    Arc::new(SessionFacts { agent: key.agent.clone(), ..SessionFacts::default() })
}

/// Has the factory make an instance, guarded.
fn create(core: &EngineCore, key: &InstanceKey, state_dir: &Path, frame: &Frame) -> Result<Backend, HookFailure> {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let (agent_dir, state) = (core.agent_dir(&key.agent).map(|dir| path(&dir)), path(state_dir));
    let workspace = key.workspace.as_deref().filter(|_| !broken("8.1")).map(path);
    let params = lend::has_params(Hook::Factory);
    let session = session(key);
    let setup =
        Setup { hook: Hook::Factory, params, session: Arc::clone(&session), view: None, limits: Limits::default() };
    let order = Order { agent_dir: agent_dir.as_deref(), workspace_dir: workspace.as_deref(), state_dir: &state };
    let mut made = Err("the factory was not called".to_owned());
    let returned = guarded(frame, setup, |call| {
        let (outcome, backend) = match &core.factory {
            Factory::Worker(remote) => {
                let (outcome, instance) = remote.create(frame, &session, params, &order);
                (outcome, instance.map(Backend::Remote))
            }
            Factory::Engine(_) | Factory::Memory(_) => {
                let (status, local) = call_factory(core, call, &order);
                (Outcome::Returned(status), local.map(Backend::Local))
            }
        };
        made = backend;
        outcome
    })?;
    if returned.is_none() {
        let reason = "the factory says that it is not implemented".to_owned();
        return Err(core.failed(Hook::Factory, FailureKind::Error, reason, Vec::new()));
    }
    made.map_err(|bad| core.failed(Hook::Factory, FailureKind::InvalidResult, bad, Vec::new()))
}

/// What a factory is told of the instance, beside the engine's id and configuration.
pub(crate) struct Order<'a> {
    pub(crate) agent_dir: Option<&'a str>,
    pub(crate) workspace_dir: Option<&'a str>,
    pub(crate) state_dir: &'a str,
}

/// Calls the factory of this process. Beside its status: what it made, which counts only when the status is `OK`.
pub(crate) fn call_factory(core: &EngineCore, call: &CallV1, order: &Order<'_>) -> (u32, Result<Local, String>) {
    let mut engine = InstanceV1::NONE;
    let mut memory = MemoryInstanceV1::NONE;
    let context = FactoryContextV1 {
        host: call.host,
        frame: call.frame,
        engine_id: Str::new(&core.id),
        config_json: Str::new(&core.config_json),
        agent_dir: Str::opt(order.agent_dir),
        workspace_dir: Str::opt(order.workspace_dir),
        state_dir: Str::new(order.state_dir),
        fail: border::FACTORY_FAIL,
    };
    // The library may hold on to these only until its factory returns, and this thread waits for that however long it takes.
    let (engine_out, memory_out) = (&raw mut engine, &raw mut memory);
    let status = match &core.factory {
        Factory::Engine(RawFactory(factory)) => (factory.create)(factory.tag, &raw const context, engine_out),
        Factory::Memory(RawMemoryFactory(factory)) => (factory.create)(factory.tag, &raw const context, memory_out),
        Factory::Worker(_) => return (status::UNSUPPORTED, Err("a worker's factory is not in this process".into())),
    };
    if status != status::OK {
        return (status, Err("the factory made nothing".into()));
    }
    // SAFETY: a factory that returned OK wrote a table that lives as long as the library; null and misaligned are refused.
    let tables = unsafe {
        match &core.factory {
            Factory::Engine(_) | Factory::Worker(_) => {
                receive::one(engine.table, "the engine's table").map(|table| (*table, None))
            }
            Factory::Memory(_) => receive::one(memory.table, "the provider's table").map(|provider| {
                (EngineV1 { info: provider.info, dispose: provider.dispose, ..NO_HOOKS }, Some(*provider))
            }),
        }
    };
    let made = tables.map(|(table, provider)| {
        let pointer = if provider.is_some() { memory.instance } else { engine.instance };
        Local { table, memory: provider, pointer }
    });
    (status, made)
}

const NO_HOOKS: EngineV1 = EngineV1 {
    info: None,
    bootstrap: None,
    maintain: None,
    ingest: None,
    ingest_batch: None,
    after_turn: None,
    commit_turn: None,
    assemble: None,
    compact: None,
    prepare_subagent_spawn: None,
    rollback_subagent_spawn: None,
    on_subagent_ended: None,
    on_session_ended: None,
    tools: None,
    call_tool: None,
    dispose: None,
};
