//! A segment of a turn: the hooks that share one hand-off, each of them guarded and its result checked.

use super::call::frame::Frame;
use super::call::guarded::{Limits, Setup, guarded};
use super::call::input::HookInput;
use super::call::lend;
use super::call::sink::{Output, Sink};
use super::check::{self, Against};
use super::facts::*;
use super::failure::{FailureKind, HookFailure};
use super::hook::Hook;
use super::instance::Instance;
use super::services::HostServices;
use super::trace::HookTrace;
use crate::observe::broken;
use crate::transcript::{Message, Role};
use engine_abi::wire::host_params;
#[cfg(doc)]
use engine_abi::wire::{session_end, subagent_end, trigger};
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
    /// Set for optional work that nobody waits for.
    pub background: Option<Background>,
    /// Where the calls are noted.
    pub trace: HookTrace,
    /// Only a look: a hook that fails is neither counted nor latched, but for one that does not come back.
    pub look: bool,
}

/// How long optional work may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Background {
    /// Instead of the hook's own deadline.
    pub deadline: Duration,
    /// How long a hook may go on once it was told to give way; its deadline is at most that far away then.
    pub give_way: Duration,
}

impl SegmentContext {
    /// A context without cancel, override or long waits.
    pub fn new(session: SessionFacts, services: Arc<dyn HostServices>) -> SegmentContext {
        SegmentContext {
            session,
            services,
            cancel: CancelFlag::new(),
            deadline: None,
            blocking: false,
            background: None,
            trace: HookTrace::default(),
            look: false,
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits { instead: self.background.map(|background| background.deadline), cap: self.deadline }
    }
}

/// The hooks of an engine, guarded. `Ok(None)` and `Ok(false)` say that the engine does not have the hook.
///
/// Every hook fails with a [`HookFailure`]: of the engine, or because the call could not be made.
pub struct Segment {
    pub(super) instance: Arc<Instance>,
    frame: Arc<Frame>,
    session: Arc<SessionFacts>,
    limits: Limits,
}

impl Segment {
    pub(crate) fn new(instance: Arc<Instance>, frame: Arc<Frame>, context: SegmentContext) -> Segment {
        let limits = context.limits();
        Segment { instance, frame, session: Arc::new(context.session), limits }
    }

    /// The session's facts; what is changed here, later hooks of the segment see (`token_budget`, `current_token_count`).
    pub fn session_mut(&mut self) -> &mut SessionFacts {
        Arc::make_mut(&mut self.session)
    }

    /// True when the engine has the hook.
    pub fn has(&self, hook: Hook) -> bool {
        self.instance.has(hook)
    }

    /// One guarded call with the session cut down to what it gets.
    pub(super) fn call(
        &self,
        view: Option<(Arc<View>, usize)>,
        input: HookInput<'_>,
    ) -> Result<Option<Sink>, HookFailure> {
        let hook = input.hook();
        let params = self.params(hook);
        let setup = Setup { hook, params, session: Arc::clone(&self.session), view, limits: self.limits };
        let returned = guarded(&self.frame, setup, |call| {
            self.instance.backend.invoke(&self.frame, call, &self.session, params, &input)
        })?;
        if returned.is_none() {
            self.instance.mark_absent(hook);
        }
        Ok(returned)
    }

    /// The host parameters that the engine gets in this hook.
    fn params(&self, hook: Hook) -> u32 {
        lend::params(hook, self.instance.info.accepted_host_params)
    }

    pub(super) fn invalid(&self, hook: Hook, reason: String) -> HookFailure {
        self.frame.trace.invalid(hook);
        self.frame.failed(hook, FailureKind::InvalidResult, reason)
    }

    fn owes<T>(&self, hook: Hook) -> Result<T, HookFailure> {
        Err(self.invalid(hook, "it returned without the result that it owes".into()))
    }

    /// A required hook that says that it is not there.
    pub(super) fn missing<T>(&self, hook: Hook) -> Result<T, HookFailure> {
        Err(self.invalid(hook, "it says that it is not implemented, but it is required".into()))
    }

    pub(super) fn succeeded(&self, hook: Hook) {
        self.frame.core.stats.succeeded(hook);
    }

    /// `bootstrap`; the default when the engine has none.
    pub fn bootstrap(&mut self) -> Result<BootstrapOutput, HookFailure> {
        let hook = Hook::Bootstrap;
        if !self.has(hook) {
            if broken("8.30") {
                return self.owes(hook);
            }
            return Ok(BootstrapOutput::default());
        }
        match self.call(None, HookInput::Bootstrap)?.map(|sink| sink.output) {
            None => Ok(BootstrapOutput::default()),
            Some(Output::Bootstrap(output)) => {
                self.succeeded(hook);
                Ok(output)
            }
            Some(_) => self.owes(hook),
        }
    }

    /// `maintain`; the default when the engine has none. `reason` is `BOOTSTRAP`, `TURN` or `COMPACTION` of
    /// [`trigger`]; `deferred` is true only in a background run.
    pub fn maintain(&mut self, reason: u32, deferred: bool) -> Result<MaintainOutput, HookFailure> {
        let hook = Hook::Maintain;
        if !self.has(hook) {
            return Ok(MaintainOutput::default());
        }
        match self.call(None, HookInput::Maintain { reason, deferred })?.map(|sink| sink.output) {
            None => Ok(MaintainOutput::default()),
            Some(Output::Maintain(output)) => {
                self.succeeded(hook);
                Ok(output)
            }
            Some(_) => self.owes(hook),
        }
    }

    /// `ingest` of one entry; false says duplicate or nothing to do.
    pub fn ingest(&mut self, entry: &EntryRef) -> Result<bool, HookFailure> {
        let hook = Hook::Ingest;
        match self.ingest_through(HookInput::Ingest(std::slice::from_ref(entry)))? {
            Some(count) => Ok(count > 0),
            None => self.missing(hook),
        }
    }

    /// `ingestBatch`: how many were taken.
    pub fn ingest_batch(&mut self, entries: &[EntryRef]) -> Result<Option<u64>, HookFailure> {
        if !self.has(Hook::IngestBatch) {
            return Ok(None);
        }
        self.ingest_through(HookInput::IngestBatch(entries))
    }

    fn ingest_through(&self, input: HookInput<'_>) -> Result<Option<u64>, HookFailure> {
        let hook = input.hook();
        match self.call(None, input)?.map(|sink| sink.output) {
            None => Ok(None),
            Some(Output::Ingest(count)) => {
                self.succeeded(hook);
                Ok(Some(count))
            }
            Some(_) => self.owes(hook),
        }
    }

    /// `afterTurn` with the whole snapshot, of which the first `pre_prompt` were there before the prompt.
    pub fn after_turn(
        &mut self,
        entries: &[EntryRef],
        pre_prompt: usize,
        auto_compaction_summary: Option<&str>,
    ) -> Result<bool, HookFailure> {
        self.done(HookInput::AfterTurn { entries, pre_prompt, auto_compaction_summary })
    }

    /// An optional hook that pushes nothing; false when the engine does not have it.
    pub(super) fn done(&self, input: HookInput<'_>) -> Result<bool, HookFailure> {
        let hook = input.hook();
        if !self.has(hook) {
            return Ok(false);
        }
        let returned = self.call(None, input)?;
        if returned.is_some() {
            self.succeeded(hook);
        }
        Ok(returned.is_some())
    }

    /// `commitTurn`.
    pub fn commit_turn(&mut self, input: &CommitInput) -> Result<Option<CommitStatus>, HookFailure> {
        let hook = Hook::CommitTurn;
        if !self.has(hook) {
            return Ok(None);
        }
        match self.call(None, HookInput::CommitTurn(input))?.map(|sink| sink.output) {
            None => Ok(None),
            Some(Output::Commit(status)) => {
                let status = check::committed(status).map_err(|bad| self.invalid(hook, bad))?;
                self.succeeded(hook);
                Ok(Some(status))
            }
            Some(_) => self.owes(hook),
        }
    }

    /// `assemble`; the result is checked. `input.len` is at most the length of the view.
    pub fn assemble(&mut self, input: &AssembleInput) -> Result<AssembleOutput, HookFailure> {
        let hook = Hook::Assemble;
        let len = input.len.min(input.view.heads.len());
        let message = || Arc::new(Message::text_of(Role::User, ""));
        let blank = broken("8.36").then(|| PromptInput { entry_id: 0, tokens: 0, message: message() });
        let prompt = input.prompt.as_ref().or(blank.as_ref());
        let prompt = prompt.filter(|_| self.params(hook) & host_params::PROMPT != 0);
        let view = Some((Arc::clone(&input.view), len));
        let returned = self.call(view, HookInput::Assemble { input, len, prompt })?;
        let Some(sink) = returned else { return self.missing(hook) };
        let Output::Assemble(mut output) = sink.output else {
            if broken("8.50") || broken("9.13") {
                return Ok(AssembleOutput::default());
            }
            return self.owes(hook);
        };
        let against = Against {
            view: &input.view,
            len,
            prompt: prompt.map_or(0, |prompt| prompt.entry_id),
            prompt_message: input.prompt.as_ref().map(|prompt| &*prompt.message),
        };
        output.items = check::assembled(sink.items, &against).map_err(|bad| self.invalid(hook, bad))?;
        self.succeeded(hook);
        Ok(output)
    }

    /// `compact`; the result is checked. The budget and the token count of `args`, where given, replace those of the session.
    pub fn compact(&mut self, args: &CompactArgs) -> Result<CompactOutput, HookFailure> {
        let hook = Hook::Compact;
        let len = args.len.min(args.view.heads.len());
        let before = (self.session.token_budget, self.session.current_token_count);
        let facts = self.session_mut();
        facts.token_budget = args.token_budget.or(facts.token_budget);
        facts.current_token_count = args.current_token_count.or(facts.current_token_count);
        let returned = self.call(Some((Arc::clone(&args.view), len)), HookInput::Compact { args, len });
        let facts = self.session_mut();
        (facts.token_budget, facts.current_token_count) = before;
        let Some(sink) = returned? else { return self.missing(hook) };
        let Output::Compact(output) = sink.output else { return self.owes(hook) };
        if let Some(id) = output.first_kept {
            check::first_kept(id, &args.view).map_err(|bad| self.invalid(hook, bad))?;
        }
        self.succeeded(hook);
        Ok(output)
    }

    /// `prepareSubagentSpawn`: a handle for the rollback, when there is something to roll back.
    pub fn prepare_subagent_spawn(&mut self, spawn: &SubagentSpawn) -> Result<Option<u64>, HookFailure> {
        let hook = Hook::PrepareSubagentSpawn;
        if !self.has(hook) {
            return Ok(None);
        }
        match self.call(None, HookInput::PrepareSubagentSpawn(spawn))?.map(|sink| sink.output) {
            None => Ok(None),
            // An engine with nothing to roll back may push nothing.
            Some(Output::None) => {
                self.succeeded(hook);
                Ok(None)
            }
            Some(Output::PrepareSubagent(handle)) => {
                self.succeeded(hook);
                Ok((handle != 0).then_some(handle))
            }
            Some(_) => self.owes(hook),
        }
    }

    /// Undoes a preparation; at most once per handle.
    pub fn rollback_subagent_spawn(&mut self, handle: u64) -> Result<bool, HookFailure> {
        self.done(HookInput::RollbackSubagentSpawn { handle })
    }

    /// `onSubagentEnded`; `reason` is a code from [`subagent_end`].
    pub fn on_subagent_ended(&mut self, child_session_key: &str, reason: u32) -> Result<bool, HookFailure> {
        let text = |path: Option<std::path::PathBuf>| path.map(|path| path.to_string_lossy().into_owned());
        let agent_dir = text(self.frame.core.agent_dir(&self.session.agent));
        self.done(HookInput::OnSubagentEnded {
            child_session_key,
            agent_dir: agent_dir.as_deref(),
            workspace_dir: self.session.cwd.as_deref(),
            reason,
        })
    }

    /// `onSessionEnded`; `reason` is a code from [`session_end`].
    pub fn on_session_ended(&mut self, reason: u32) -> Result<bool, HookFailure> {
        self.done(HookInput::OnSessionEnded { reason })
    }

    /// `tools`; empty when the engine has none.
    pub fn tools(&mut self) -> Result<Vec<Tool>, HookFailure> {
        let hook = Hook::Tools;
        if !self.has(hook) {
            return Ok(Vec::new());
        }
        let Some(sink) = self.call(None, HookInput::Tools)? else { return Ok(Vec::new()) };
        self.succeeded(hook);
        Ok(sink.tools)
    }

    /// `callTool`; `Ok(None)` when the engine has no such hook.
    pub fn call_tool(&mut self, call_id: &str, name: &str, arguments: &str) -> Result<Option<ToolOutput>, HookFailure> {
        let hook = Hook::CallTool;
        if !self.has(hook) {
            return Ok(None);
        }
        match self.call(None, HookInput::CallTool { call_id, name, arguments })?.map(|sink| sink.output) {
            None => Ok(None),
            Some(Output::Tool(output)) => {
                self.succeeded(hook);
                Ok(Some(output))
            }
            Some(_) => self.owes(hook),
        }
    }
}
