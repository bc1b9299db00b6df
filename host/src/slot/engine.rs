//! The slot and an engine as a turn holds it.

use super::*;
use crate::config::Config;
use engine_abi::wire;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// `info` of an engine; read once.
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
    /// Bits of [`wire::host_params`].
    pub accepted_host_params: u32,
    /// Bits of [`wire::semantics`].
    pub transcript_semantics: u32,
    /// `hostRequirements`.
    pub host_requirements: Vec<HostRequirement>,
}

/// One host requirement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HostRequirement {
    /// Operation.
    pub operation: Operation,
    /// Bits of [`wire::capability`].
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

/// The one that knows who serves.
#[derive(Debug)]
pub struct Slot {}

/// Everything that `/api/engines` and `doctor` show.
#[derive(Debug, Clone, Serialize)]
pub struct SlotStatus {}

impl Slot {
    /// A slot with `legacy` only.
    pub fn new(cfg: &Config, runtime: tokio::runtime::Handle) -> Arc<Slot> {
        let _ = (cfg, runtime);
        Arc::new(Slot {})
    }

    /// Loads the listed engines and makes the first instances. Never fails: what fails is quarantined. Blocks.
    pub fn start(self: &Arc<Slot>, cfg: &Config) {
        let _ = cfg;
    }

    /// The ordered candidates for one logical turn or operation.
    ///
    /// # Errors
    ///
    /// [`SlotError::HostRequirement`], and [`SlotError::Strict`] under that policy.
    pub fn lease(self: &Arc<Slot>, request: &LeaseRequest) -> Result<Lease, SlotError> {
        let _ = request;
        Err(SlotError::Strict { passed: Vec::new() })
    }

    /// Everything for `/api/engines` and `doctor`.
    pub fn status(&self) -> SlotStatus {
        SlotStatus {}
    }

    /// Id of the engine that serves stored turns of this agent now.
    pub fn effective(&self, agent: &str) -> String {
        let _ = agent;
        "legacy".into()
    }

    /// Disposes every instance that has no live abandoned call. False when a call was ever abandoned: then the process must
    /// end with [`exit_now`].
    pub fn dispose_all(&self, deadline: Duration) -> bool {
        let _ = deadline;
        true
    }

    /// Calls that were ever abandoned.
    pub fn abandoned(&self) -> usize {
        0
    }

    /// Libraries in the folder that differ from what runs: a restart is due.
    pub fn restart_due(&self) -> Vec<String> {
        Vec::new()
    }
}

/// An engine with the instance of one agent and workspace, as a lease holds it. Cheap to clone.
#[derive(Debug, Clone)]
pub struct EngineRef {
    id: String,
    info: Arc<EngineInfo>,
}

impl EngineRef {
    /// Registered id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// `info`.
    pub fn info(&self) -> &EngineInfo {
        &self.info
    }

    /// True when the engine has the hook.
    pub fn has(&self, hook: Hook) -> bool {
        let _ = hook;
        false
    }

    /// True when the engine serves stored turns: both transcript semantics and `commitTurn`.
    pub fn durable(&self) -> bool {
        self.info.transcript_semantics & wire::semantics::DURABLE == wire::semantics::DURABLE
            && self.has(Hook::CommitTurn)
    }

    /// Keeps the engine's estimate of an assembled prompt beside the host's count.
    pub fn record_estimate(&self, estimated: u64, counted: u64) {
        let _ = (estimated, counted);
    }

    /// One hand-off: runs `work` on a thread of the engine. Each hook in it is guarded: latch read before, deadline armed,
    /// cancel signal, results checked. When a hook does not come back, the future ends soon after the deadline with
    /// [`FailureKind::Deadline`], `work` is abandoned with everything it captured, and the session is free.
    ///
    /// What must survive an abandoned hook (which of the earlier hooks were done) belongs into something shared.
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
        let mut segment = Segment::stub(self.id.clone(), context);
        Ok(work(&mut segment))
    }
}
