//! The state of one running turn.

use super::admit::Admitted;
use super::agents::AgentRoom;
use super::clock::now_ms;
use super::compact::Notice;
use super::hosts::HostRun;
use super::house::House;
use super::ladder::Pressure;
use super::lanes::LaneGuard;
use super::precheck::Precheck;
use super::services::{Manner, TurnServices};
use super::session::Session;
use super::settings::settings;
use super::shadow::Shown;
use super::tools::Toolbox;
use super::{TurnError, TurnFacts};
use crate::observe::broken;
use crate::slot::{
    Background, CancelFlag, DegradedCode, HookFailure, HookTrace, Lease, Segment, SegmentContext, SessionFacts,
};
use crate::transcript::EntryId;
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Who may stop a turn before its answer is there: the client that went away, or the gateway that stops.
pub(super) struct Cancel {
    client: CancellationToken,
    stop: CancellationToken,
    /// The same for engines.
    flag: CancelFlag,
}

impl Cancel {
    pub(super) fn new(client: CancellationToken, stop: CancellationToken) -> Cancel {
        let client = if broken("8.52") { CancellationToken::new() } else { client };
        Cancel { client, stop, flag: CancelFlag::new() }
    }

    /// Completes when the turn shall stop.
    pub(super) async fn fired(&self) {
        tokio::select! {
            () = self.client.cancelled() => {}
            () = self.stop.cancelled() => {}
            // Optional work is told to give way through it.
            () = self.flag.cancelled() => {}
        }
        self.flag.cancel();
    }

    /// From here on the client has what it came for; only a stop of the gateway counts.
    pub(super) fn only_stop(&mut self) {
        self.client = CancellationToken::new();
        self.flag = CancelFlag::new();
    }

    /// Who else may stop it.
    pub(super) fn wanted_by(&mut self, client: CancellationToken) {
        self.client = client;
    }

    /// What raises it.
    pub(super) fn flag(&self) -> CancelFlag {
        self.flag.clone()
    }

    pub(super) fn check(&self) -> Result<(), TurnError> {
        if self.client.is_cancelled() || self.stop.is_cancelled() || self.flag.is_cancelled() {
            self.flag.cancel();
            return Err(TurnError::Cancelled);
        }
        Ok(())
    }

    /// `work`, or nothing as soon as the turn shall stop; `work` is dropped then.
    pub(super) async fn unless_fired<T>(&self, work: impl Future<Output = T>) -> Result<T, TurnError> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.fired() => Err(TurnError::Cancelled),
        }
    }
}

/// What happened on the way, for the turn record.
#[derive(Debug, Default, Serialize)]
pub(super) struct Notes {
    /// What it is a child of, when the session is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) subagent: Option<Value>,
    /// Hooks that failed, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) failures: Vec<Value>,
    /// Calls that the gateway ran, and tools that it did not offer, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tools: Vec<Value>,
    /// The model takes no tools, and none of the gateway's and its engines' were offered in the end: what the provider said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tools_withheld: Option<String>,
    /// Calls of the model, when there was more than one.
    #[serde(skip_serializing_if = "is_one")]
    pub(super) model_calls: u32,
    /// The engine that the headers named, when another one made the last model call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) headers_named: Option<String>,
    /// Steps that shortened the prompt.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) ladder: Vec<Value>,
    /// Compactions, with what came of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) compactions: Vec<Notice>,
    /// The last precheck.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) precheck: Option<Precheck>,
    /// The hooks that were called, with their times.
    pub(super) hooks: HookTrace,
    /// The memory section of the prompt: its provider and tokens, or why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) memory: Option<Value>,
    /// Time of each part in microseconds, in the order in which they ran.
    pub(super) timings: Vec<(&'static str, u64)>,
    /// Tokens of the last prompt, as the host counted them.
    pub(super) prompt_tokens: u64,
    /// Tokens of the same history, as the engine estimated them.
    pub(super) engine_estimate: u64,
    /// Tokens that the prompt may cost.
    pub(super) prompt_limit: u64,
    /// Tokens of them that the engine could use in the last assembly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) token_budget: Option<u64>,
    /// How a host that keeps the conversation was told of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thread: Option<Value>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_one(calls: &u32) -> bool {
    *calls <= 1
}

/// One logical turn while it runs, from its lease on.
pub(super) struct TurnRun {
    pub(super) house: Arc<House>,
    pub(super) session: Arc<Session>,
    /// The room of the session's agent: model, token counter, compaction and pruning.
    pub(super) agent: Arc<AgentRoom>,
    pub(super) services: Arc<TurnServices>,
    pub(super) lease: Lease,
    pub(super) cancel: Cancel,
    /// Held until the turn is settled; `None` for an ephemeral turn.
    #[expect(dead_code, reason = "held, not read")]
    pub(super) lane: Option<LaneGuard>,
    pub(super) admitted: Admitted,
    pub(super) system: Vec<Value>,
    pub(super) params: Map<String, Value>,
    pub(super) heartbeat: bool,
    pub(super) idempotency_key: Option<String>,
    /// Digest of the request that came with it.
    pub(super) asked: Option<String>,
    pub(super) notes: Notes,
    /// What a host that keeps the conversation has of it.
    pub(super) host: HostRun,
    pub(super) started_ms: i64,
    /// The tools of the turn, when the gateway runs some.
    pub(super) tools: Toolbox,
    /// Tokens of the system prompt and of the tool schemas.
    pub(super) system_tokens: u64,
    pub(super) tool_tokens: u64,
    /// Tokens of the memory section, where the host itself puts it into the prompt.
    pub(super) memory_tokens: u64,
    /// What was tried to get a prompt through since the last good model call.
    pub(super) pressure: Pressure,
    /// A provider said that the prompt is too long.
    pub(super) overflowed: bool,
    /// The turn stopped half-way: nothing of it is handed over, and no maintenance follows.
    pub(super) aborted: bool,
    /// Everything is stored: memory and store agree.
    pub(super) settled: bool,
    /// Set when nobody waits for it.
    pub(super) background: Option<Background>,
    /// How the engine is called.
    pub(super) manner: Manner,
    /// The last row of the history and of the current turn that is shown, when it is not the last one; else 0.
    pub(super) view_until: EntryId,
    /// What the engine showed last, when another one watches.
    pub(super) shown: Option<Shown>,
}

impl Drop for TurnRun {
    fn drop(&mut self) {
        if !self.settled
            && let Some(key) = &self.session.key
        {
            // The turn broke off in the middle: what is in memory may be ahead of the store, so the next one reads it anew.
            self.house.hot.forget(key);
        }
    }
}

impl TurnRun {
    /// An operation on a session that is no turn: nothing is admitted.
    pub(super) fn operation(
        house: Arc<House>,
        session: Arc<Session>,
        lease: Lease,
        lane: Option<LaneGuard>,
    ) -> TurnRun {
        let watches = house.shadows.only_watches(lease.engine().id());
        let manner = if watches { Manner::Watch } else { Manner::Serve };
        let services = TurnServices::in_manner(house.clone(), session.clone(), manner);
        let cancel = Cancel::new(CancellationToken::new(), house.stop.clone());
        TurnRun {
            house,
            agent: session.agent.clone(),
            session,
            services,
            lease,
            cancel,
            lane,
            admitted: Admitted::default(),
            system: Vec::new(),
            params: Map::new(),
            heartbeat: false,
            idempotency_key: None,
            asked: None,
            notes: Notes::default(),
            host: HostRun::default(),
            started_ms: now_ms(),
            tools: Toolbox::default(),
            system_tokens: 0,
            tool_tokens: 0,
            memory_tokens: 0,
            pressure: Pressure::default(),
            overflowed: false,
            aborted: false,
            settled: true,
            background: None,
            manner,
            view_until: 0,
            shown: None,
        }
    }

    /// From here on the engine is called in this manner.
    pub(super) fn call_as(&mut self, manner: Manner) {
        self.manner = manner;
        self.services = TurnServices::in_manner(self.house.clone(), self.session.clone(), manner);
        self.services.set_fence(self.admitted.first);
    }

    /// Tokens of every prompt of the turn beside the history: system prompt, memory section, tool schemas.
    pub(super) fn fixed_tokens(&self) -> u64 {
        self.system_tokens + self.memory_tokens + self.tool_tokens
    }

    /// Facts for the client.
    pub(super) fn facts(&self) -> TurnFacts {
        TurnFacts {
            turn_id: self.admitted.turn_id.clone(),
            session_key: self.session.key.as_ref().map(|key| key.to_string()),
            session_id: self.session.state().record().session_id.clone(),
            engine: self.lease.engine().id().to_owned(),
            degraded: self.degraded_code(),
            replayed: false,
        }
    }

    pub(super) fn degraded_code(&self) -> Option<String> {
        self.lease.degraded().map(|degraded| degraded.code.as_str().to_owned())
    }

    /// Notes how long a part took.
    pub(super) fn timed(&mut self, part: &'static str, since: Instant) {
        self.notes.timings.push((part, u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)));
    }

    /// What an engine is told about the session and the run.
    pub(super) fn session_facts(&self, token_budget: Option<u64>, current_tokens: Option<u64>) -> SessionFacts {
        session_facts(
            &self.session,
            &self.lease,
            Run { heartbeat: self.heartbeat, overflowed: self.overflowed, params: &self.params },
            token_budget,
            current_tokens,
        )
    }

    /// One hand-off to the engine that serves, cancelled when the turn is. `blocking` is for `compact`, which may wait for a
    /// model, within the one safety deadline of compactions.
    pub(super) async fn segment<T: Send + 'static>(
        &self,
        facts: SessionFacts,
        blocking: bool,
        work: impl FnOnce(&mut Segment) -> Result<T, HookFailure> + Send + 'static,
    ) -> Result<T, HookFailure> {
        let mut context = SegmentContext::new(facts, self.services.clone());
        context.cancel = self.cancel.flag.clone();
        context.blocking = blocking;
        context.background = self.background;
        context.look = self.manner == Manner::Look;
        context.trace = self.notes.hooks.clone();
        if blocking && !broken("8.86") {
            context.deadline = Some(Duration::from_millis(self.agent.compaction.timeout_ms));
        }
        let engine = self.lease.engine().clone();
        let call = engine.segment(context, work);
        tokio::pin!(call);
        // A cancelled call is waited for, until its deadline at most: the session is not entered twice at once.
        let outcome = tokio::select! {
            biased;
            outcome = &mut call => outcome,
            () = self.cancel.fired() => call.await,
        };
        outcome.and_then(|done| done)
    }

    /// Moves down to the next candidate after a failed hook.
    pub(super) fn move_down(&mut self, failure: &HookFailure) -> Result<(), TurnError> {
        self.note_failure(failure);
        tracing::warn!(
            engine = failure.engine,
            hook = failure.hook.name(),
            reason = failure.reason,
            session = self.session.key.as_deref(),
            "a hook failed; the turn goes on with the next candidate"
        );
        self.lease.fail(failure).map_err(TurnError::Slot)
    }

    /// Passes the engine over for the rest of this logical turn, for a reason that is not its failure. Loud, once a turn: the
    /// slot stays as it is, and the engine is asked again next turn.
    pub(super) fn pass_over(&mut self, code: DegradedCode, reason: String) -> Result<(), TurnError> {
        let engine = self.lease.engine().id().to_owned();
        let legacy_only = code == DegradedCode::FenceUnavailable;
        let moved = match legacy_only {
            true => self.lease.serve_legacy(code, reason.clone()),
            false => self.lease.pass_over(code, reason.clone()),
        };
        tracing::warn!(
            engine,
            code = code.as_str(),
            reason,
            session = self.session.key.as_deref(),
            "the engine is passed over for this logical turn; it is asked again at the next one"
        );
        moved.map_err(TurnError::Slot)
    }

    pub(super) fn note_failure(&mut self, failure: &HookFailure) {
        self.notes.failures.push(json!({
            "engine": failure.engine,
            "hook": failure.hook.name(),
            "code": failure.code.as_str(),
            "reason": failure.reason,
        }));
    }

    /// Notes a step that made the prompt shorter.
    pub(super) fn note_step(&mut self, step: &str, before: u64, after: u64) {
        self.notes.ladder.push(json!({"step": step, "before": before, "after": after}));
    }
}

/// Tells, once a logical turn, which engines a stored session's turn passes over because they cannot take durable turns.
pub(super) fn warn_of_passed(lease: &Lease, session: Option<&str>) {
    for passed in lease.passed().iter().filter(|passed| passed.code == DegradedCode::DurableSemanticsMissing) {
        tracing::warn!(
            engine = passed.engine,
            code = passed.code.as_str(),
            reason = passed.reason,
            session,
            "the engine is passed over for this logical turn; the slot stays as it is, and it is asked again at the next one"
        );
    }
}

/// The run, as far as engines are told about it.
pub(super) struct Run<'a> {
    pub(super) heartbeat: bool,
    pub(super) overflowed: bool,
    pub(super) params: &'a Map<String, Value>,
}

/// The facts of a session for its engine.
pub(super) fn session_facts(
    session: &Session,
    lease: &Lease,
    run: Run<'_>,
    token_budget: Option<u64>,
    current_tokens: Option<u64>,
) -> SessionFacts {
    let state = session.state();
    SessionFacts {
        session_id: state.record().session_id.clone(),
        session_key: session.key.as_ref().map(|key| key.to_string()),
        agent: state.record().agent.clone(),
        cwd: session.agent.workspace.clone(),
        store: (!state.extra.ephemeral).then(|| session.agent.store.clone()),
        thread_id: None,
        ephemeral: state.extra.ephemeral,
        heartbeat: run.heartbeat,
        settings: Some(settings(&session.agent.info, lease, &run, token_budget)),
        prompt_cache: state.extra.cache.clone(),
        token_budget,
        current_token_count: current_tokens,
    }
}
