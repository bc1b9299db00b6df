//! What the gateway offers to a running hook: the host's side of `runtimeContext`. Reading transcripts is in `reading`.

mod reading;

use super::builtin::{Builtin, Measured};
use super::catch_up::CatchUp;
use super::house::House;
use super::llm;
use super::memory::{TurnMemory, service_error};
use super::rewrite::{rewrite, unchanged};
use super::session::Session;
use crate::observe::broken;
use crate::slot::{
    CallScope, CompactArgs, CompactOutput, CursorPage, CursorRequest, Hook, HostServices, LlmRequest, LlmResponse,
    MaintainOutput, MemoryHit, MemoryPromptArgs, Replacement, ServiceError, ServiceStatus, StoreOp, TokenCount,
};
use crate::transcript::{EngineScope, EntryId, StoreError, Submission, Write};
use engine_abi::wire::service;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

/// What a hook keeps of its time, at most, when a service takes longer: so that it can still answer.
const REST: Duration = Duration::from_millis(250);
/// How often a waiting service looks at its cancel signal.
const CANCEL_POLL: Duration = Duration::from_millis(25);

/// The services of one turn or operation.
pub(super) struct TurnServices {
    house: Arc<House>,
    session: Arc<Session>,
    /// First entry of the current turn, or 0: reads of `bootstrap`, of the maintenance after it, and of `assemble` end before it.
    fence: AtomicU64,
    /// The engine showed a cursor at or past the fence.
    fence_crossed: AtomicBool,
    /// The branch in memory is not the stored one yet: it must not be written.
    head_pending: AtomicBool,
    /// Last entry that was given through the cursor.
    read_up_to: AtomicU64,
    /// The catch-up that runs.
    catch_up: Mutex<Option<Arc<CatchUp>>>,
    /// The session's scope of an engine's store was written.
    touched_scope: AtomicBool,
    /// What the built-in compaction did for a hook that delegated.
    delegated: Mutex<Option<Measured>>,
    /// What asked for the compaction that runs.
    trigger: AtomicU64,
    /// Tokens of the last prompt, to hold what an engine says against; 0 when there is none.
    counted: AtomicU64,
    /// The memory of the run.
    memory: TurnMemory,
    /// What of all this is not offered.
    manner: Manner,
    /// Something was refused because of the manner.
    refused: AtomicBool,
}

/// How an engine is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// As the engine of a turn, or of an operation.
    Serve,
    /// It only watches: what it does must not be felt by the session, nor cost anything.
    Watch,
    /// It is only looked at: as watching, and it may keep nothing.
    Look,
}

impl TurnServices {
    pub(super) fn new(house: Arc<House>, session: Arc<Session>) -> Arc<TurnServices> {
        TurnServices::in_manner(house, session, Manner::Serve)
    }

    pub(super) fn in_manner(house: Arc<House>, session: Arc<Session>, manner: Manner) -> Arc<TurnServices> {
        let name = session.state().record().agent.clone();
        let memory = TurnMemory::new(&house, name, session.agent.clone());
        Arc::new(TurnServices {
            house,
            session,
            fence: AtomicU64::new(0),
            fence_crossed: AtomicBool::new(false),
            head_pending: AtomicBool::new(false),
            read_up_to: AtomicU64::new(0),
            catch_up: Mutex::default(),
            touched_scope: AtomicBool::new(false),
            delegated: Mutex::new(None),
            trigger: AtomicU64::new(u64::from(engine_abi::wire::trigger::BUDGET)),
            counted: AtomicU64::new(0),
            memory,
            manner,
            refused: AtomicBool::new(false),
        })
    }

    /// True, once, when a hook asked for something that its manner of being called does not allow.
    pub(super) fn take_refused(&self) -> bool {
        self.refused.swap(false, Ordering::AcqRel)
    }

    /// Refuses what only an engine that serves may do.
    fn only_serving(&self, what: &str) -> Result<(), ServiceError> {
        match self.manner {
            Manner::Serve => Ok(()),
            Manner::Watch => self.refuse(format!("{what} is not offered to an engine that only watches")),
            Manner::Look => self.refuse(format!("{what} is not offered while an engine is only looked at")),
        }
    }

    fn refuse(&self, message: String) -> Result<(), ServiceError> {
        self.refused.store(true, Ordering::Release);
        Err(refused(message))
    }

    /// The memory section as it was prepared last.
    pub(super) fn memory_section(&self) -> Option<String> {
        self.memory.prepared()
    }

    pub(super) fn set_fence(&self, first: EntryId) {
        self.fence.store(first, Ordering::Release);
    }

    /// First entry of the current turn; a rewrite may have moved it. 0 when there is none.
    pub(super) fn fence(&self) -> EntryId {
        self.fence.load(Ordering::Acquire)
    }

    /// A regeneration moves the head back only with its answer.
    pub(super) fn set_head_pending(&self, pending: bool) {
        self.head_pending.store(pending, Ordering::Release);
    }

    /// What the engine reads is noted in `catch_up` until it is taken away again.
    pub(super) fn set_catch_up(&self, catch_up: Option<Arc<CatchUp>>) {
        *self.catch_up.lock().unwrap_or_else(PoisonError::into_inner) = catch_up;
    }

    /// The memory of the run.
    pub(super) fn memory(&self) -> &TurnMemory {
        &self.memory
    }

    /// True, once, when the engine showed a cursor at or past the fence.
    pub(super) fn take_fence_crossed(&self) -> bool {
        self.fence_crossed.swap(false, Ordering::AcqRel)
    }

    /// The last entry that the engine read through the cursor since the last call, or 0.
    pub(super) fn take_read_up_to(&self) -> EntryId {
        self.read_up_to.swap(0, Ordering::AcqRel)
    }

    /// True when the session's scope of an engine's store was written.
    pub(super) fn touched_scope(&self) -> bool {
        self.touched_scope.load(Ordering::Acquire)
    }

    /// A compaction begins: what asked for it, and the tokens of the last prompt as the host counted them, or 0.
    pub(super) fn set_compaction(&self, trigger: u32, counted: u64) {
        self.trigger.store(u64::from(trigger), Ordering::Release);
        self.counted.store(counted, Ordering::Release);
        *self.delegated.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// What the built-in compaction did for the hook that ran last, if it delegated.
    pub(super) fn take_delegated(&self) -> Option<Measured> {
        self.delegated.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The fence for a hook: maintenance and compaction in the middle of a turn do not see it either, since its commit brings it.
    fn fence_for(&self, hook: Hook) -> Option<EntryId> {
        let fence = self.fence();
        let fenced =
            matches!(hook, Hook::Bootstrap | Hook::Maintain | Hook::Compact | Hook::Assemble) && !broken("8.68");
        (fence != 0 && fenced).then_some(fence)
    }

    fn scope_of(&self, engine_scope: bool) -> EngineScope {
        if engine_scope { EngineScope::Engine } else { EngineScope::Session(self.session.state().record().row) }
    }

    /// Counts a completion for an engine.
    fn count_completion(&self, engine: &str, outcome: &Result<LlmResponse, ServiceError>) {
        let Some(metrics) = &self.house.metrics else { return };
        match outcome {
            Ok(response) => {
                metrics.completion(engine, "ok");
                let kinds = [("input", response.input_tokens), ("output", response.output_tokens)];
                for (kind, tokens) in kinds {
                    metrics.completion_tokens(engine, kind, tokens.unwrap_or(0));
                }
            }
            Err(error) => metrics.completion(engine, error.status.word()),
        }
    }

    /// Runs `work` on the runtime while this thread, an engine's, waits for it: no longer than the hook may.
    fn wait<T: Send + 'static>(
        &self,
        scope: &CallScope<'_>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let task = self.house.runtime.spawn(async move {
            // The receiver is gone when the hook's time is over; the result is dropped then.
            let _ = sender.send(work.await);
        });
        let all = scope.deadline.saturating_duration_since(Instant::now());
        let until = scope.deadline - REST.min(all / 4);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match receiver.recv_timeout(left.min(CANCEL_POLL)) {
                Ok(value) => return Ok(value),
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(ServiceError::new(ServiceStatus::Failed, "the service stopped without an answer"));
                }
                Err(mpsc::RecvTimeoutError::Timeout) if scope.cancel.is_cancelled() => {
                    task.abort();
                    return Err(ServiceError::new(ServiceStatus::Cancelled, "the call was cancelled"));
                }
                Err(mpsc::RecvTimeoutError::Timeout) if left.is_zero() => {
                    task.abort();
                    return Err(ServiceError::new(ServiceStatus::Expired, "the time of the call is nearly over"));
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

pub(super) fn refused(message: impl Into<String>) -> ServiceError {
    ServiceError::new(ServiceStatus::Refused, message)
}

pub(super) fn store_error(error: StoreError) -> ServiceError {
    let status = match error {
        StoreError::Requirement => ServiceStatus::Refused,
        // Not `Expired`, which says that nothing was changed: what was queued may still be done.
        StoreError::Deadline => ServiceStatus::Failed,
        StoreError::Closed => ServiceStatus::Unavailable,
        _ => ServiceStatus::Failed,
    };
    ServiceError::new(status, error.to_string())
}

impl HostServices for TurnServices {
    fn available(&self, service_id: &str) -> bool {
        match service_id {
            service::LLM | service::COMPACTION if self.manner != Manner::Serve => {
                self.refused.store(true, Ordering::Release);
                false
            }
            service::TOKENS
            | service::COMPACTION
            | service::TRANSCRIPT
            | service::STORE
            | service::SESSIONS
            | service::MEMORY => true,
            service::LLM => self.session.agent.info.has_llm,
            _ => false,
        }
    }

    fn count_tokens(&self, _scope: &CallScope<'_>, text: &str) -> Result<TokenCount, ServiceError> {
        let counter = &self.session.agent.counter;
        Ok(TokenCount { tokens: counter.text(text), estimated: counter.estimated() })
    }

    fn llm_complete(&self, scope: &CallScope<'_>, request: LlmRequest) -> Result<LlmResponse, ServiceError> {
        self.only_serving("llm.complete")?;
        let info = self.session.agent.model.info();
        if !info.has_llm {
            return Err(ServiceError::unavailable("llm.complete"));
        }
        if request.model.as_ref().is_some_and(|model| *model != info.resolved)
            && !scope.grants.iter().any(|grant| grant == "llm-model-override")
        {
            return Err(refused("another model needs the grant llm-model-override in the plugin's entry"));
        }
        let in_use = self.session.state().extra.model_name.clone();
        let call = llm::complete(self.session.agent.model.clone(), request, scope.session.agent.clone(), in_use);
        let outcome = self.wait(scope, call).and_then(|answer| answer);
        self.count_completion(scope.engine_id, &outcome);
        outcome
    }

    fn delegate_compaction(&self, scope: &CallScope<'_>, args: CompactArgs) -> Result<CompactOutput, ServiceError> {
        self.only_serving("the built-in compaction")?;
        if scope.hook != Hook::Compact {
            return Err(refused("the built-in compaction runs only inside compact"));
        }
        let fence = self.fence.load(Ordering::Acquire);
        let ask = Builtin {
            token_budget: args.token_budget.unwrap_or(0),
            force: args.force,
            focus: args.custom_instructions,
            must_keep_from: (fence != 0).then_some(fence),
            trigger: u32::try_from(self.trigger.load(Ordering::Acquire)).unwrap_or_default(),
            by: scope.engine_id.to_owned(),
            counted: self.counted.load(Ordering::Acquire),
            current: args.current_token_count.or(scope.session.current_token_count),
            deadline: scope.deadline,
        };
        let (house, session) = (self.house.clone(), self.session.clone());
        let tokens = self.session.state().projected_tokens();
        let done = self.wait(scope, async move { house.compact_builtin(&session, ask).await })?;
        // A summary that could not be written is nothing that an engine did: it gets an answer, and no error to be blamed for.
        let measured =
            done.unwrap_or_else(|error| Measured { ok: false, ..Measured::nothing(error.to_string(), tokens) });
        let output = measured.to_output();
        *self.delegated.lock().unwrap_or_else(PoisonError::into_inner) = Some(measured);
        Ok(output)
    }

    fn read_transcript(&self, scope: &CallScope<'_>, request: CursorRequest) -> Result<CursorPage, ServiceError> {
        let own = self.session.key.as_deref();
        match request.session_key.as_deref() {
            Some(key) if Some(key) != own => self.read_other(scope, key, &request),
            _ => self.read_own(scope, &request),
        }
    }

    fn rewrite(&self, scope: &CallScope<'_>, replacements: Vec<Replacement>) -> Result<MaintainOutput, ServiceError> {
        self.only_serving("rewriteTranscriptEntries")?;
        if !matches!(scope.hook, Hook::Maintain | Hook::AfterTurn) {
            return Err(refused("the transcript is rewritten in maintain, which follows every other hook"));
        }
        if self.head_pending.load(Ordering::Acquire) {
            return Ok(unchanged("the last answer is being made anew").output);
        }
        let fence = self.fence();
        let current = (fence != 0).then_some(fence);
        let done = rewrite(&self.house, &self.session, replacements, current, scope.deadline)?;
        if let Some(moved) = done.renamed.get(&fence) {
            self.set_fence(*moved);
        }
        if let Some(moved) = done.renamed.get(&self.read_up_to.load(Ordering::Acquire)) {
            self.read_up_to.fetch_max(*moved, Ordering::AcqRel);
        }
        Ok(done.output)
    }

    fn list_sessions(
        &self,
        scope: &CallScope<'_>,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, ServiceError> {
        self.list(scope, after, limit)
    }

    fn memory_prompt(&self, _scope: &CallScope<'_>, args: MemoryPromptArgs) -> Result<Option<String>, ServiceError> {
        self.memory.section(&args)
    }

    fn memory_search(&self, scope: &CallScope<'_>, query: &str, limit: usize) -> Result<Vec<MemoryHit>, ServiceError> {
        let ((room, agent), query) = (self.memory.room(), query.to_owned());
        self.wait(scope, async move { room.search(&agent, &query, limit).await })?.map_err(service_error)
    }

    fn memory_append(&self, scope: &CallScope<'_>, text: &str) -> Result<(), ServiceError> {
        self.only_serving("appending to the memory")?;
        let ((room, agent), text) = (self.memory.room(), text.to_owned());
        self.wait(scope, async move { room.append(&agent, &text).await })?.map_err(service_error)
    }

    fn store_get(
        &self,
        scope: &CallScope<'_>,
        engine_scope: bool,
        key: &[u8],
    ) -> Result<Option<Vec<u8>>, ServiceError> {
        self.house.store.engine_get(scope.engine_id, self.scope_of(engine_scope), key).map_err(store_error)
    }

    fn store_scan(
        &self,
        scope: &CallScope<'_>,
        engine_scope: bool,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>, ServiceError> {
        self.house
            .store
            .engine_scan(scope.engine_id, self.scope_of(engine_scope), prefix, after, limit)
            .map_err(store_error)
    }

    fn store_batch(&self, scope: &CallScope<'_>, ops: Vec<StoreOp>) -> Result<(), ServiceError> {
        if self.manner == Manner::Look {
            self.only_serving("writing to the store")?;
        }
        let mut writes: Vec<Write> = Vec::new();
        let mut session_scope = false;
        for StoreOp { engine_scope, op } in ops {
            session_scope |= !engine_scope;
            let target = self.scope_of(engine_scope);
            match writes.last_mut() {
                Some(Write::EngineBatch { scope, ops, .. }) if *scope == target => ops.push(op),
                _ => {
                    writes.push(Write::EngineBatch {
                        engine: scope.engine_id.to_owned(),
                        scope: target,
                        ops: vec![op],
                    });
                }
            }
        }
        if writes.is_empty() {
            return Ok(());
        }
        let lease = {
            let state = self.session.state();
            (session_scope && !state.extra.ephemeral && state.is_stored())
                .then(|| (state.record().row, self.house.store.lease()))
        };
        if session_scope {
            self.touched_scope.store(true, Ordering::Release);
        }
        self.house.store.submit(Submission { lease, writes }).durable_blocking(scope.deadline).map_err(store_error)
    }
}
