//! A segment of a turn: the hooks that share one hand-off.

use super::*;
use std::sync::Arc;
use std::time::Duration;

/// What the hooks of a segment get.
#[derive(Clone)]
pub struct SegmentContext {
    /// The session.
    pub session: SessionFacts,
    /// The services that the hooks may call.
    pub services: Arc<dyn HostServices>,
    /// The caller's cancel signal.
    pub cancel: CancelFlag,
    /// Caps the deadline of every hook of the segment.
    pub deadline: Option<Duration>,
    /// True when a hook may wait for a service for long (`compact`): then `legacy` leaves the async thread, too.
    pub blocking: bool,
}

impl SegmentContext {
    /// A context without cancel, override or long waits.
    pub fn new(session: SessionFacts, services: Arc<dyn HostServices>) -> SegmentContext {
        SegmentContext { session, services, cancel: CancelFlag::new(), deadline: None, blocking: false }
    }
}

/// The hooks of an engine, guarded. `Ok(None)` and `Ok(false)` say that the engine does not have the hook.
pub struct Segment {
    engine: String,
    context: SegmentContext,
}

impl Segment {
    pub(crate) fn stub(engine: String, context: SegmentContext) -> Segment {
        Segment { engine, context }
    }

    fn absent<T>(&self, hook: Hook) -> Result<T, HookFailure> {
        let _ = &self.context;
        Err(HookFailure {
            engine: self.engine.clone(),
            hook,
            kind: FailureKind::Unsupported,
            reason: "no such hook".into(),
            causes: Vec::new(),
            code: DegradedCode::EngineQuarantined,
            quarantined: false,
        })
    }

    /// The session's facts; what is changed here, later hooks of the segment see (`token_budget`, `current_token_count`).
    pub fn session_mut(&mut self) -> &mut SessionFacts {
        &mut self.context.session
    }

    /// `bootstrap`; the default when the engine has none.
    pub fn bootstrap(&mut self) -> Result<BootstrapOutput, HookFailure> {
        Ok(BootstrapOutput::default())
    }

    /// `maintain`; the default when the engine has none. `reason` is `BOOTSTRAP`, `TURN` or `COMPACTION` of
    /// [`engine_abi::wire::trigger`]; `deferred` is true only in a background run.
    pub fn maintain(&mut self, reason: u32, deferred: bool) -> Result<MaintainOutput, HookFailure> {
        let _ = (reason, deferred);
        Ok(MaintainOutput::default())
    }

    /// `ingest` of one entry; false says duplicate or nothing to do.
    pub fn ingest(&mut self, entry: &EntryRef) -> Result<bool, HookFailure> {
        let _ = entry;
        self.absent(Hook::Ingest)
    }

    /// `ingestBatch`: how many were taken.
    pub fn ingest_batch(&mut self, entries: &[EntryRef]) -> Result<Option<u64>, HookFailure> {
        let _ = entries;
        Ok(None)
    }

    /// `afterTurn` with the whole snapshot, of which the first `pre_prompt` were there before the prompt.
    pub fn after_turn(
        &mut self,
        entries: &[EntryRef],
        pre_prompt: usize,
        auto_compaction_summary: Option<&str>,
    ) -> Result<bool, HookFailure> {
        let _ = (entries, pre_prompt, auto_compaction_summary);
        Ok(false)
    }

    /// `commitTurn`.
    pub fn commit_turn(&mut self, input: &CommitInput) -> Result<Option<CommitStatus>, HookFailure> {
        let _ = input;
        Ok(None)
    }

    /// `assemble`; the result is checked.
    pub fn assemble(&mut self, input: &AssembleInput) -> Result<AssembleOutput, HookFailure> {
        let _ = input;
        self.absent(Hook::Assemble)
    }

    /// `compact`; the result is checked. The budget and the token count of `args` replace those of the session.
    pub fn compact(&mut self, args: &CompactArgs) -> Result<CompactOutput, HookFailure> {
        let _ = args;
        self.absent(Hook::Compact)
    }

    /// `prepareSubagentSpawn`: a handle for the rollback, when there is something to roll back.
    pub fn prepare_subagent_spawn(&mut self, spawn: &SubagentSpawn) -> Result<Option<u64>, HookFailure> {
        let _ = spawn;
        Ok(None)
    }

    /// Undoes a preparation; at most once per handle.
    pub fn rollback_subagent_spawn(&mut self, handle: u64) -> Result<(), HookFailure> {
        let _ = handle;
        Ok(())
    }

    /// `onSubagentEnded`; `reason` is a code from [`engine_abi::wire::subagent_end`].
    pub fn on_subagent_ended(&mut self, child_session_key: &str, reason: u32) -> Result<bool, HookFailure> {
        let _ = (child_session_key, reason);
        Ok(false)
    }

    /// `onSessionEnded`; `reason` is a code from [`engine_abi::wire::session_end`].
    pub fn on_session_ended(&mut self, reason: u32) -> Result<bool, HookFailure> {
        let _ = reason;
        Ok(false)
    }

    /// `tools`; empty when the engine has none.
    pub fn tools(&mut self) -> Result<Vec<Tool>, HookFailure> {
        Ok(Vec::new())
    }

    /// `callTool`.
    pub fn call_tool(&mut self, call_id: &str, name: &str, arguments: &str) -> Result<ToolOutput, HookFailure> {
        let _ = (call_id, name, arguments);
        self.absent(Hook::CallTool)
    }
}
