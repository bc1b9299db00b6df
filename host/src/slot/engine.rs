//! An engine as a turn holds it, and what it says of itself.

use super::core::EngineCore;
use super::failure::HookFailure;
use super::handoff;
use super::hook::Hook;
use super::host::ExecutionHost;
use super::instance::InstanceKey;
use super::instances::Keep;
use super::segment::{Segment, SegmentContext};
use engine_abi::wire::{capability, host_params, operation, semantics};
use serde::{Serialize, Serializer};
use std::sync::Arc;

/// `info` of an engine; read once per instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EngineInfo {
    /// `id`; may differ from the id that the engine is registered under.
    pub id: String,
    /// `name`.
    pub name: String,
    /// `version`.
    pub version: Option<String>,
    /// `ownsCompaction`.
    pub owns_compaction: bool,
    /// `turnMaintenanceMode`: true for background.
    pub background_maintenance: bool,
    /// Bits of [`host_params`].
    #[serde(serialize_with = "param_names")]
    pub accepted_host_params: u32,
    /// Bits of [`semantics`].
    #[serde(serialize_with = "semantics_names")]
    pub transcript_semantics: u32,
    /// `hostRequirements`.
    pub host_requirements: Vec<HostRequirement>,
}

fn names<S: Serializer>(bits: u32, names: &[&'static str], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(bit_names(bits, names))
}

fn param_names<S: Serializer>(bits: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    names(*bits, &host_params::NAMES, serializer)
}

pub(crate) fn capability_names<S: Serializer>(bits: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    names(*bits, &capability::NAMES, serializer)
}

fn semantics_names<S: Serializer>(bits: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    names(*bits, &["before-current-turn-entry-v1", "atomic-idempotent-v1"], serializer)
}

/// The names of the bits that are set.
pub(crate) fn bit_names(bits: u32, names: &[&'static str]) -> Vec<&'static str> {
    names.iter().enumerate().filter(|(bit, _)| bits & (1 << bit) != 0).map(|(_, name)| *name).collect()
}

/// One host requirement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostRequirement {
    /// Operation.
    pub operation: Operation,
    /// Bits of [`capability`].
    #[serde(serialize_with = "capability_names")]
    pub required_capabilities: u32,
    /// `unsupportedMessage`.
    pub unsupported_message: Option<String>,
}

/// What a lease is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// A turn.
    AgentRun,
    /// `/compact`.
    ManualCompact,
    /// Preparing a subagent.
    SubagentSpawn,
}

impl Operation {
    /// The name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Operation::AgentRun => "agent-run",
            Operation::ManualCompact => "manual-compact",
            Operation::SubagentSpawn => "subagent-spawn",
        }
    }

    pub(crate) const fn from_code(code: u32) -> Option<Operation> {
        match code {
            operation::AGENT_RUN => Some(Operation::AgentRun),
            operation::MANUAL_COMPACT => Some(Operation::ManualCompact),
            operation::SUBAGENT_SPAWN => Some(Operation::SubagentSpawn),
            _ => None,
        }
    }
}

/// An engine with the instance of one agent and workspace, as a lease holds it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct EngineRef {
    pub(crate) core: Arc<EngineCore>,
    pub(crate) key: InstanceKey,
    pub(crate) info: Arc<EngineInfo>,
    host: Arc<ExecutionHost>,
    _keep: Keep,
}

impl EngineRef {
    pub(crate) fn new(core: Arc<EngineCore>, key: InstanceKey, info: Arc<EngineInfo>) -> EngineRef {
        let _keep = core.instances.keep(&key);
        EngineRef { core, key, info, host: Arc::default(), _keep }
    }

    /// The same engine for runs on this host.
    pub(crate) fn on(mut self, host: &Arc<ExecutionHost>) -> EngineRef {
        self.host = Arc::clone(host);
        self
    }

    /// The host that executes the runs of its agent.
    pub fn host(&self) -> &ExecutionHost {
        &self.host
    }

    /// Registered id.
    pub fn id(&self) -> &str {
        &self.core.id
    }

    /// `info`.
    pub fn info(&self) -> &EngineInfo {
        &self.info
    }

    /// True when the engine has the hook. A hook whose pointer is set may still turn out to be absent when it is called.
    pub fn has(&self, hook: Hook) -> bool {
        self.core.has(hook)
    }

    /// True when the engine serves stored turns: both transcript semantics and `commitTurn`.
    pub fn durable(&self) -> bool {
        durable(&self.info, &self.core)
    }

    /// What it lacks to serve stored turns.
    pub fn not_durable(&self) -> Option<&'static str> {
        not_durable(&self.info, &self.core)
    }

    /// True while the engine is not quarantined.
    pub fn in_service(&self) -> bool {
        self.core.latch.get().is_none()
    }

    /// Keeps the engine's estimate of an assembled prompt beside the host's count.
    pub fn record_estimate(&self, estimated: u64, counted: u64) {
        self.core.stats.estimate(estimated, counted);
    }

    /// Counts an answer that was over its budget; no failure, but worth showing.
    pub fn record_over_budget(&self) {
        self.core.stats.over_budget.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    /// One hand-off: runs `work` on a thread of the engine. Each hook in it is guarded: latch read before, deadline armed,
    /// cancel signal, results checked. When a hook does not come back, the future ends soon after the deadline with
    /// [`super::FailureKind::Deadline`], `work` is abandoned with everything it captured, and the session is free.
    ///
    /// What must survive an abandoned hook (which of the earlier hooks were done) belongs into something shared.
    /// Dropping the future raises the context's cancel signal; the hooks stay watched until they return.
    ///
    /// `legacy` runs `work` inline, unless the context says that it may block.
    ///
    /// # Errors
    ///
    /// The failure of the hook that was abandoned, of the factory at first use, or that no call is possible.
    pub async fn segment<T: Send + 'static>(
        &self,
        context: SegmentContext,
        work: impl FnOnce(&mut Segment) -> T + Send + 'static,
    ) -> Result<T, HookFailure> {
        if self.core.inline && !context.blocking {
            return handoff::inline(self, context, work);
        }
        handoff::hand_off(self, context, work).await
    }

    /// The same for a thread that may block; not for async threads.
    ///
    /// # Errors
    ///
    /// As [`Self::segment`].
    pub fn segment_blocking<T: Send + 'static>(
        &self,
        context: SegmentContext,
        work: impl FnOnce(&mut Segment) -> T + Send + 'static,
    ) -> Result<T, HookFailure> {
        if self.core.inline {
            return handoff::inline(self, context, work);
        }
        handoff::hand_off_blocking(self, context, work)
    }
}

/// True when an engine serves stored turns.
pub(crate) fn durable(info: &EngineInfo, core: &EngineCore) -> bool {
    not_durable(info, core).is_none()
}

/// What an engine lacks to serve stored turns.
pub(crate) fn not_durable(info: &EngineInfo, core: &EngineCore) -> Option<&'static str> {
    let declares = |bit: u32| info.transcript_semantics & bit != 0;
    if !declares(semantics::CURRENT_TURN_FENCE_V1) {
        Some("current-turn transcript fencing (before-current-turn-entry-v1) is not declared")
    } else if !declares(semantics::ATOMIC_IDEMPOTENT_V1) {
        Some("atomic idempotent turn advancement (atomic-idempotent-v1) is not declared")
    } else if !core.has(Hook::CommitTurn) {
        Some("both transcript semantics are declared, but there is no commitTurn")
    } else {
        None
    }
}
