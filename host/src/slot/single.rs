//! One engine or memory provider by itself, without a slot: in this process or in a worker of its own. What is called through
//! it is guarded, latched and checked as in the gateway.

use super::abandoned::Abandoned;
use super::call::host_table::HostTable;
use super::core::{Deadlines, EngineCore, Factory, Registered, state_root};
use super::engine::EngineRef;
use super::failure::HookFailure;
use super::handoff;
use super::hook::Hook;
use super::instance::InstanceKey;
use super::remote;
use super::slot::MAIN_AGENT;
use super::start::WORKER_START;
use crate::plugins::{LoadRequest, StageFailure, Wanted};
use crate::worker::Subject;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// See the module. It knows one agent and no workspace.
pub(crate) struct Single {
    core: Arc<EngineCore>,
    deadlines: Deadlines,
}

/// Who makes the instance, and for whom.
struct By<'a> {
    id: &'a str,
    owner: &'a str,
    factory: Factory,
    config_json: &'a str,
    llm: bool,
}

impl Single {
    /// Of a library that this process has loaded. `configured` are deadlines of hooks, keyed by hook; ms.
    /// `llm`: it may ask for `llm.complete`.
    pub(crate) fn here(
        subject: Subject<'_>,
        configured: &BTreeMap<String, u64>,
        state_dir: &Path,
        llm: bool,
    ) -> Single {
        let (id, owner, factory, config_json) = match subject {
            Subject::Engine(one) => (&one.engine_id, &one.plugin_id, Factory::Engine(one.factory), &one.config_json),
            Subject::Memory(one) => (&one.provider_id, &one.plugin_id, Factory::Memory(one.factory), &one.config_json),
        };
        let by = By { id, owner, factory, config_json, llm };
        Single::of(by, configured, state_dir)
    }

    /// In a worker, which loads the library.
    ///
    /// # Errors
    ///
    /// Why the worker did not start.
    pub(crate) fn apart(
        load: &LoadRequest,
        wanted: &Wanted,
        configured: &BTreeMap<String, u64>,
        state_dir: &Path,
    ) -> Result<Single, StageFailure> {
        let load = LoadRequest { wanted: vec![wanted.clone()], ..load.clone() };
        let (owner, config_json) = (load.plugin_id.clone(), Arc::clone(&load.config_json));
        let remote = remote::start(remote::Start {
            deadline: Duration::from_millis(load.deadline_ms.saturating_mul(3)) + WORKER_START,
            state_root: state_root(state_dir, wanted.kind, &wanted.id),
            grants: Vec::new(),
            llm: true,
            subject: wanted.clone(),
            load,
        })?;
        let factory = Factory::Worker(Arc::clone(&remote));
        let by = By { id: &wanted.id, owner: &owner, factory, config_json: &config_json, llm: true };
        let bench = Single::of(by, configured, state_dir);
        remote.watch(&bench.core);
        Ok(bench)
    }

    fn of(by: By<'_>, configured: &BTreeMap<String, u64>, state_dir: &Path) -> Single {
        let By { id, owner, factory, config_json, llm } = by;
        let registered = Registered {
            id: id.to_owned(),
            owner: owner.to_owned(),
            factory,
            config_json: config_json.to_owned(),
            grants: Vec::new(),
            host: HostTable::leak(owner, &[], llm),
            core: false,
            instances: 1,
            abandoned: Arc::new(Abandoned::new(usize::MAX)),
        };
        let deadlines = Deadlines::new(configured, Hook::Compact.default_deadline());
        let core = EngineCore::new(registered, &deadlines, state_dir, None, Box::new(|_| "none".into()));
        Single { core, deadlines }
    }

    /// The engine. Its `info` is blank until its first call has made the instance.
    pub(crate) fn engine(&self) -> EngineRef {
        let key = InstanceKey { agent: MAIN_AGENT.into(), workspace: None };
        let info = self.core.info().cloned().unwrap_or_default();
        EngineRef::new(Arc::clone(&self.core), key, info)
    }

    /// The process of its worker, where it has one.
    pub(crate) fn process(&self) -> Option<u32> {
        self.core.remote().map(|remote| remote.status().pid)
    }

    /// Disposes its instance, and ends its worker.
    ///
    /// # Errors
    ///
    /// The failure of `dispose`.
    pub(crate) fn dispose(&self) -> Result<(), HookFailure> {
        let until = Instant::now() + self.deadlines.of(Hook::Dispose);
        let mut result = Ok(());
        for instance in self.core.instances.all() {
            if let Some(disposal) = handoff::dispose(&self.core, instance, until) {
                result = result.and(disposal.finish());
            }
        }
        if let Some(remote) = self.core.remote() {
            self.core.closing.store(true, std::sync::atomic::Ordering::Release);
            remote.stop(until);
        }
        result
    }
}
