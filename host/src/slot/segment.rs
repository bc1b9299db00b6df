//! A segment of a turn: the hooks that share one hand-off, each of them guarded and its result checked.

use super::call::arena::Arena;
use super::call::frame::Frame;
use super::call::guarded::{Limits, Setup, guarded};
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
use engine_abi::wire::*;
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
        hook: Hook,
        view: Option<(Arc<View>, usize)>,
        invoke: impl FnOnce(*const u8, &CallV1, &SessionV1, u32) -> u32,
    ) -> Result<Option<Sink>, HookFailure> {
        let params = lend::params(hook, self.instance.info.accepted_host_params);
        let setup = Setup { hook, params, session: Arc::clone(&self.session), view, limits: self.limits };
        let returned = lend::with_session(&self.session, params, |session| {
            guarded(&self.frame, setup, |call| invoke(self.instance.pointer, call, session, params))
        })?;
        if returned.is_none() {
            self.instance.mark_absent(hook);
        }
        Ok(returned)
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
        let Some(bootstrap) = self.instance.table.bootstrap.filter(|_| self.has(hook)) else {
            if broken("8.30") {
                return self.owes(hook);
            }
            return Ok(BootstrapOutput::default());
        };
        let returned = self
            .call(hook, None, |instance, call, session, _| bootstrap(instance, call, &BootstrapArgsV1 { session }))?;
        match returned.map(|sink| sink.output) {
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
        let Some(maintain) = self.instance.table.maintain.filter(|_| self.has(hook)) else {
            return Ok(MaintainOutput::default());
        };
        let returned = self.call(hook, None, |instance, call, session, _| {
            let args = MaintainArgsV1 { session, reason, allow_deferred_compaction: u32::from(deferred) };
            maintain(instance, call, &raw const args)
        })?;
        match returned.map(|sink| sink.output) {
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
        let Some(ingest) = self.instance.table.ingest else { return self.missing(hook) };
        match self.ingest_through(hook, ingest, std::slice::from_ref(entry))? {
            Some(count) => Ok(count > 0),
            None => self.missing(hook),
        }
    }

    /// `ingestBatch`: how many were taken.
    pub fn ingest_batch(&mut self, entries: &[EntryRef]) -> Result<Option<u64>, HookFailure> {
        let hook = Hook::IngestBatch;
        let Some(ingest) = self.instance.table.ingest_batch.filter(|_| self.has(hook)) else { return Ok(None) };
        self.ingest_through(hook, ingest, entries)
    }

    fn ingest_through(
        &self,
        hook: Hook,
        ingest: extern "C" fn(*const u8, *const CallV1, *const IngestArgsV1) -> u32,
        entries: &[EntryRef],
    ) -> Result<Option<u64>, HookFailure> {
        let mut arena = Arena::default();
        let entries = arena.entries(entries);
        let returned = self.call(hook, None, |instance, call, session, _| {
            ingest(instance, call, &IngestArgsV1 { session, entries })
        })?;
        match returned.map(|sink| sink.output) {
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
        let hook = Hook::AfterTurn;
        let Some(after_turn) = self.instance.table.after_turn.filter(|_| self.has(hook)) else { return Ok(false) };
        let mut arena = Arena::default();
        let entries = arena.entries(entries);
        let returned = self.call(hook, None, |instance, call, session, _| {
            let args = AfterTurnArgsV1 {
                session,
                entries,
                pre_prompt_message_count: pre_prompt as u64,
                auto_compaction_summary: Str::opt(auto_compaction_summary),
            };
            after_turn(instance, call, &raw const args)
        })?;
        Ok(self.done(hook, returned))
    }

    /// A hook that pushes nothing.
    fn done(&self, hook: Hook, returned: Option<Sink>) -> bool {
        if returned.is_some() {
            self.succeeded(hook);
        }
        returned.is_some()
    }

    /// `commitTurn`.
    pub fn commit_turn(&mut self, input: &CommitInput) -> Result<Option<CommitStatus>, HookFailure> {
        let hook = Hook::CommitTurn;
        let Some(commit) = self.instance.table.commit_turn.filter(|_| self.has(hook)) else { return Ok(None) };
        let mut arena = Arena::default();
        let entries = arena.entries(&input.entries);
        let returned = self.call(hook, None, |instance, call, session, _| {
            let args = CommitTurnArgsV1 {
                session,
                advancement_key: Str::new(&input.advancement_key),
                logical_turn_id: Str::new(&input.logical_turn_id),
                admission: lend::anchor(&input.admission),
                terminal: lend::anchor(&input.terminal),
                entries,
            };
            commit(instance, call, &raw const args)
        })?;
        match returned.map(|sink| sink.output) {
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
        let Some(assemble) = self.instance.table.assemble else { return self.missing(hook) };
        let len = input.len.min(input.view.heads.len());
        let tools: Vec<Str> = input.available_tools.iter().map(|name| Str::new(name)).collect();
        let mut arena = Arena::default();
        let message = || Arc::new(Message::text_of(Role::User, ""));
        let blank = broken("8.36").then(|| PromptInput { entry_id: 0, tokens: 0, message: message() });
        let prompt = input.prompt.as_ref().or(blank.as_ref()).map(|prompt| PromptV1 {
            entry_id: prompt.entry_id,
            tokens: prompt.tokens,
            message: arena.borrowed(&prompt.message),
        });
        let mut shown = 0;
        let returned = self.call(hook, Some((Arc::clone(&input.view), len)), |instance, call, session, params| {
            let prompt = prompt.as_ref().filter(|_| params & host_params::PROMPT != 0);
            shown = prompt.map_or(0, |prompt| prompt.entry_id);
            let args = AssembleArgsV1 {
                session,
                entries: input.view.heads.as_ptr(),
                entries_len: len,
                prompt: prompt.map_or(std::ptr::null(), std::ptr::from_ref),
                system_tokens: input.system_tokens,
                available_tools: StrList::new(&tools),
                model: Str::opt(input.model.as_deref()),
                citations_mode: input.citations_mode,
                reserved: 0,
            };
            assemble(instance, call, &raw const args)
        })?;
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
            prompt: shown,
            prompt_message: input.prompt.as_ref().map(|prompt| &*prompt.message),
        };
        output.items = check::assembled(sink.items, &against).map_err(|bad| self.invalid(hook, bad))?;
        self.succeeded(hook);
        Ok(output)
    }

    /// `compact`; the result is checked. The budget and the token count of `args`, where given, replace those of the session.
    pub fn compact(&mut self, args: &CompactArgs) -> Result<CompactOutput, HookFailure> {
        let hook = Hook::Compact;
        let Some(compact) = self.instance.table.compact else { return self.missing(hook) };
        let len = args.len.min(args.view.heads.len());
        let before = (self.session.token_budget, self.session.current_token_count);
        let facts = self.session_mut();
        facts.token_budget = args.token_budget.or(facts.token_budget);
        facts.current_token_count = args.current_token_count.or(facts.current_token_count);
        let returned = self.call(hook, Some((Arc::clone(&args.view), len)), |instance, call, session, _| {
            let args = CompactArgsV1 {
                session,
                entries: args.view.heads.as_ptr(),
                entries_len: len,
                force: u32::from(args.force),
                target: args.target,
                trigger: args.trigger,
                attempt: args.attempt,
                max_attempts: args.max_attempts,
                force_reason: args.force_reason,
                custom_instructions: Str::opt(args.custom_instructions.as_deref()),
            };
            compact(instance, call, &raw const args)
        });
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
        let Some(prepare) = self.instance.table.prepare_subagent_spawn.filter(|_| self.has(hook)) else {
            return Ok(None);
        };
        let returned = self.call(hook, None, |instance, call, _, _| {
            let args = PrepareSubagentArgsV1 {
                parent_session_key: Str::new(&spawn.parent_session_key),
                child_session_key: Str::new(&spawn.child_session_key),
                parent_session_id: Str::opt(spawn.parent_session_id.as_deref()),
                child_session_id: Str::opt(spawn.child_session_id.as_deref()),
                context_mode: if spawn.fork { context_mode::FORK } else { context_mode::ISOLATED },
                reserved: 0,
                ttl_ms: spawn.ttl.map_or(NONE_U64, |ttl| u64::try_from(ttl.as_millis()).unwrap_or(NONE_U64 - 1)),
            };
            prepare(instance, call, &raw const args)
        })?;
        match returned.map(|sink| sink.output) {
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
        let hook = Hook::RollbackSubagentSpawn;
        let Some(rollback) = self.instance.table.rollback_subagent_spawn.filter(|_| self.has(hook)) else {
            return Ok(false);
        };
        let returned = self.call(hook, None, |instance, call, _, _| rollback(instance, call, handle))?;
        Ok(self.done(hook, returned))
    }

    /// `onSubagentEnded`; `reason` is a code from [`subagent_end`].
    pub fn on_subagent_ended(&mut self, child_session_key: &str, reason: u32) -> Result<bool, HookFailure> {
        let hook = Hook::OnSubagentEnded;
        let Some(ended) = self.instance.table.on_subagent_ended.filter(|_| self.has(hook)) else { return Ok(false) };
        let text = |path: Option<std::path::PathBuf>| path.map(|path| path.to_string_lossy().into_owned());
        let agent_dir = text(self.frame.core.agent_dir(&self.session.agent));
        let returned = self.call(hook, None, |instance, call, _, _| {
            let args = SubagentEndedArgsV1 {
                child_session_key: Str::new(child_session_key),
                agent_dir: Str::opt(agent_dir.as_deref()),
                workspace_dir: Str::opt(self.session.cwd.as_deref()),
                reason,
                reserved: 0,
            };
            ended(instance, call, &raw const args)
        })?;
        Ok(self.done(hook, returned))
    }

    /// `onSessionEnded`; `reason` is a code from [`session_end`].
    pub fn on_session_ended(&mut self, reason: u32) -> Result<bool, HookFailure> {
        let hook = Hook::OnSessionEnded;
        let Some(ended) = self.instance.table.on_session_ended.filter(|_| self.has(hook)) else { return Ok(false) };
        let returned = self.call(hook, None, |instance, call, session, _| {
            ended(instance, call, &SessionEndedArgsV1 { session, reason, reserved: 0 })
        })?;
        Ok(self.done(hook, returned))
    }

    /// `tools`; empty when the engine has none.
    pub fn tools(&mut self) -> Result<Vec<Tool>, HookFailure> {
        let hook = Hook::Tools;
        let Some(tools) = self.instance.table.tools.filter(|_| self.has(hook)) else { return Ok(Vec::new()) };
        let returned =
            self.call(hook, None, |instance, call, session, _| tools(instance, call, &ToolsArgsV1 { session }))?;
        let Some(sink) = returned else { return Ok(Vec::new()) };
        self.succeeded(hook);
        Ok(sink.tools)
    }

    /// `callTool`; `Ok(None)` when the engine has no such hook.
    pub fn call_tool(&mut self, call_id: &str, name: &str, arguments: &str) -> Result<Option<ToolOutput>, HookFailure> {
        let hook = Hook::CallTool;
        let Some(call_tool) = self.instance.table.call_tool.filter(|_| self.has(hook)) else { return Ok(None) };
        let returned = self.call(hook, None, |instance, call, session, _| {
            let args = CallToolArgsV1 {
                session,
                call_id: Str::new(call_id),
                name: Str::new(name),
                arguments: Str::new(arguments),
            };
            call_tool(instance, call, &raw const args)
        })?;
        match returned.map(|sink| sink.output) {
            None => Ok(None),
            Some(Output::Tool(output)) => {
                self.succeeded(hook);
                Ok(Some(output))
            }
            Some(_) => self.owes(hook),
        }
    }
}
