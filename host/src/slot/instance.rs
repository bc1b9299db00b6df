//! From a factory to an instance: private folder, guarded factory, `info`, contract check.
#![allow(unsafe_code, reason = "reads the table behind the pointer that a factory gave")]

use super::call::frame::Frame;
use super::call::guarded::{Limits, Setup, guarded};
use super::call::sink::Output;
use super::call::{border, lend, receive};
use super::core::{EngineCore, Factory};
use super::engine::EngineInfo;
use super::facts::SessionFacts;
use super::failure::{FailureKind, HookFailure};
use super::hook::Hook;
use crate::observe::broken;
use crate::plugins::{RawFactory, RawMemoryFactory};
use engine_abi::wire::{EngineV1, FactoryContextV1, InstanceV1, MemoryInstanceV1, MemoryProviderV1, Str, host_params};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// For whom an instance is made.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct InstanceKey {
    pub(crate) agent: String,
    pub(crate) workspace: Option<PathBuf>,
}

/// One instance of an engine.
pub(crate) struct Instance {
    pub(crate) table: EngineV1,
    /// The table of a memory provider; of `table` it then has `info` and `dispose` alone.
    pub(crate) memory: Option<MemoryProviderV1>,
    pub(crate) pointer: *const u8,
    pub(crate) info: Arc<EngineInfo>,
    /// Hooks whose pointer is set but that said that they are not there, by bit; shared by all instances of the engine.
    absent: Arc<AtomicU32>,
    /// Segments that are inside, given-up ones included.
    pub(crate) inside: AtomicUsize,
    pub(crate) disposed: AtomicBool,
}

// SAFETY: the contract: an instance is entered from several threads at once; its pointer is opaque to the host, and its table
// lives as long as the library, which is never unloaded.
unsafe impl Send for Instance {}
// SAFETY: as above.
unsafe impl Sync for Instance {}

impl Instance {
    /// True when the engine has the hook.
    pub(crate) fn has(&self, hook: Hook) -> bool {
        let table = &self.table;
        let pointer = match hook {
            Hook::Factory => true,
            Hook::Info => table.info.is_some(),
            Hook::Bootstrap => table.bootstrap.is_some(),
            Hook::Maintain => table.maintain.is_some(),
            Hook::Ingest => table.ingest.is_some(),
            Hook::IngestBatch => table.ingest_batch.is_some(),
            Hook::AfterTurn => table.after_turn.is_some(),
            Hook::CommitTurn => table.commit_turn.is_some(),
            Hook::Assemble => table.assemble.is_some(),
            Hook::Compact => table.compact.is_some(),
            Hook::PrepareSubagentSpawn => table.prepare_subagent_spawn.is_some(),
            Hook::RollbackSubagentSpawn => table.rollback_subagent_spawn.is_some(),
            Hook::OnSubagentEnded => table.on_subagent_ended.is_some(),
            Hook::OnSessionEnded => table.on_session_ended.is_some(),
            Hook::Tools => table.tools.is_some(),
            Hook::CallTool => table.call_tool.is_some(),
            Hook::MemoryPrompt => self.memory.is_some_and(|memory| memory.prompt_section.is_some()),
            Hook::MemorySearch => self.memory.is_some_and(|memory| memory.search.is_some()),
            Hook::MemoryAppend => self.memory.is_some_and(|memory| memory.append.is_some()),
            Hook::Dispose => table.dispose.is_some(),
        };
        pointer && self.absent.load(Ordering::Relaxed) & (1 << hook.index()) == 0
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
        let Some(dispose) = self.table.dispose else { return Ok(()) };
        let setup =
            Setup { hook: Hook::Dispose, params: 0, session: Arc::default(), view: None, limits: Limits::cap(cap) };
        guarded(frame, setup, |call| dispose(self.pointer, call)).map(drop)
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
    let Created { table, memory, pointer } = create(core, key, &state_dir, frame)?;
    let mut problems = Vec::new();
    let info = match table.info {
        None => {
            problems.push("info() is missing".to_owned());
            EngineInfo::default()
        }
        Some(info) => {
            let setup =
                Setup { hook: Hook::Info, params: 0, session: session(key), view: None, limits: Limits::default() };
            match guarded(frame, setup, |call| info(pointer, call))?.map(|sink| sink.output) {
                Some(Output::Info(mut info)) => {
                    if memory.is_some() {
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
    let required: &[(&str, bool)] = match &memory {
        Some(memory) => &[("search()", memory.search.is_some())],
        None => &[
            ("ingest()", table.ingest.is_some()),
            ("assemble()", table.assemble.is_some()),
            ("compact()", table.compact.is_some()),
        ],
    };
    for &(name, there) in required {
        let only_first = broken("8.19") && !problems.is_empty();
        if !there && !only_first {
            let name = if broken("8.18") { "a hook" } else { name };
            problems.push(format!("{name} is missing"));
        }
    }
    let instance = Instance {
        table,
        memory,
        pointer,
        info: Arc::new(info),
        absent: Arc::clone(&core.absent),
        inside: AtomicUsize::new(0),
        disposed: AtomicBool::new(false),
    };
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

/// What a factory gave.
struct Created {
    table: EngineV1,
    memory: Option<MemoryProviderV1>,
    pointer: *const u8,
}

fn create(core: &EngineCore, key: &InstanceKey, state_dir: &Path, frame: &Frame) -> Result<Created, HookFailure> {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let (agent_dir, state) = (core.agent_dir(&key.agent).map(|dir| path(&dir)), path(state_dir));
    let workspace = key.workspace.as_deref().filter(|_| !broken("8.1")).map(path);
    let mut engine = InstanceV1::NONE;
    let mut memory = MemoryInstanceV1::NONE;
    // The library may hold on to these only until its factory returns, and this thread waits for that however long it takes.
    let (engine_out, memory_out) = (&raw mut engine, &raw mut memory);
    let params = lend::has_params(Hook::Factory);
    let setup = Setup { hook: Hook::Factory, params, session: session(key), view: None, limits: Limits::default() };
    let made = guarded(frame, setup, |call| {
        let context = FactoryContextV1 {
            host: call.host,
            frame: call.frame,
            engine_id: Str::new(&core.id),
            config_json: Str::new(&core.config_json),
            agent_dir: Str::opt(agent_dir.as_deref()),
            workspace_dir: Str::opt(workspace.as_deref()),
            state_dir: Str::new(&state),
            fail: border::FACTORY_FAIL,
        };
        match core.factory {
            Factory::Engine(RawFactory(factory)) => (factory.create)(factory.tag, &raw const context, engine_out),
            Factory::Memory(RawMemoryFactory(factory)) => (factory.create)(factory.tag, &raw const context, memory_out),
        }
    })?;
    if made.is_none() {
        let reason = "the factory says that it is not implemented".to_owned();
        return Err(core.failed(Hook::Factory, FailureKind::Error, reason, Vec::new()));
    }
    // SAFETY: a factory that returned OK wrote a table that lives as long as the library; null and misaligned are refused.
    let tables = unsafe {
        match core.factory {
            Factory::Engine(_) => receive::one(engine.table, "the engine's table").map(|table| (*table, None)),
            Factory::Memory(_) => receive::one(memory.table, "the provider's table").map(|provider| {
                (EngineV1 { info: provider.info, dispose: provider.dispose, ..NO_HOOKS }, Some(*provider))
            }),
        }
    };
    match tables {
        Ok((table, None)) => Ok(Created { table, memory: None, pointer: engine.instance }),
        Ok((table, provider)) => Ok(Created { table, memory: provider, pointer: memory.instance }),
        Err(bad) => Err(core.failed(Hook::Factory, FailureKind::InvalidResult, bad, Vec::new())),
    }
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
