//! The start of a child: all or nothing.

use super::super::clock::now_ms;
use super::super::house::House;
use super::super::lanes::LaneGuard;
use super::super::run::TurnRun;
use super::super::session::Session;
use super::super::{TurnError, TurnReply};
use super::child::Child;
use super::fork::History;
use super::{SpawnMode, SpawnRequest, SubagentError, SubagentReport, durable, keep, may_be_child, run, stored};
use crate::observe::{broken, failpoint};
use crate::slot::{HookFailure, Lease, LeaseRequest, Operation, SubagentSpawn};
use crate::transcript::{SubagentBudgets, SubagentRecord, SubagentState, Submission, Write};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// A child that runs.
pub(in super::super) struct Spawned {
    /// What is known of it now.
    pub(in super::super) report: SubagentReport,
    /// What became of it; only where somebody wants to wait.
    pub(in super::super) outcome: Option<oneshot::Receiver<SubagentReport>>,
}

/// Starts a child of a session. With `lane`, the caller holds the session's lane no longer than this takes; without, a turn of
/// that session is running tools and holds it.
///
/// When it fails, nothing was started: what the engine prepared was rolled back.
pub(in super::super) async fn spawn(
    house: &Arc<House>,
    parent: Arc<Session>,
    lane: Option<LaneGuard>,
    ask: SpawnRequest,
) -> Result<Spawned, TurnError> {
    ask.check()?;
    let plan = plan(house, &parent, &ask).await?;
    let Plan { record, lease, history } = plan;
    let child = Child::new(record);
    // From here on a sweep leaves it alone.
    if let Err(running) = house.subagents.add_within(&child, house.config.subagents.max_children) {
        return Err(TurnError::Subagent(SubagentError::TooMany { running }));
    }
    let started = Start { house, parent, lane, child: &child, ask: &ask }.run(lease, history).await;
    if let Err(error) = &started {
        house.subagents.remove(&child.key);
        child.done.cancel();
        house.count_subagent(&child.record(), "refused");
        tracing::warn!(%error, child = &*child.key, "a subagent was not started");
    }
    started
}

/// What is decided before anything is started.
struct Plan {
    record: SubagentRecord,
    lease: Lease,
    /// What a fork takes over.
    history: Option<History>,
}

async fn plan(house: &Arc<House>, parent: &Arc<Session>, ask: &SpawnRequest) -> Result<Plan, TurnError> {
    let config = &house.config.subagents;
    let key = parent.key.as_deref().unwrap_or_default().to_owned();
    if !config.enabled {
        return Err(TurnError::Subagent(SubagentError::Disabled));
    }
    let above = if may_be_child(&key) { stored(house, &key).await? } else { None };
    let depth = above.as_ref().map_or(0, |above| above.depth);
    if let Some((above, reason)) = above.as_ref().and_then(|above| Some((above, above.reason?))) {
        let child = above.child.clone();
        return Err(TurnError::Subagent(SubagentError::Closed { child, state: reason.name() }));
    }
    if depth >= config.max_depth {
        return Err(TurnError::Subagent(SubagentError::TooDeep { depth, max: config.max_depth }));
    }
    let (own, named) = {
        let state = parent.state();
        (state.record().agent.clone(), state.extra.model_name.clone())
    };
    let agent = ask.agent.clone().unwrap_or_else(|| own.clone());
    if agent != own && !house.config.agents.contains_key(&agent) {
        return Err(TurnError::invalid(format!("there is no agent \"{agent}\""), "agent"));
    }
    if agent != own && ask.mode == SpawnMode::Fork {
        return Err(TurnError::invalid("only a subagent of the same agent can be a fork", "mode"));
    }
    // Both operations, and nothing is started when the host cannot do one of them.
    let lease = |operation| house.slot.lease(&LeaseRequest::turn(agent.clone(), true).operation(operation));
    let prepared_by = lease(Operation::SubagentSpawn).map_err(TurnError::Slot)?;
    lease(Operation::AgentRun).map_err(TurnError::Slot)?;
    let mut note = None;
    let mut history = (ask.mode == SpawnMode::Fork).then(|| History::of(parent));
    if let Some(tokens) = history.as_ref().map(History::tokens).filter(|tokens| *tokens > config.fork_max_tokens) {
        let most = config.fork_max_tokens;
        note = Some(format!("isolated: the history has {tokens} tokens, and a fork takes over {most} at most"));
        history = None;
    }
    let now = now_ms();
    let ttl = ask.ttl_ms.unwrap_or(config.ttl_ms);
    let budgets = &ask.budgets;
    let child = format!("agent:{agent}:subagent:{}", uuid::Uuid::now_v7());
    let record = SubagentRecord {
        child,
        parent: key,
        row: 0,
        session_id: String::new(),
        agent,
        depth: depth + 1,
        fork: history.is_some(),
        light: ask.light_context && history.is_none(),
        label: ask.label.clone().filter(|label| !label.trim().is_empty()),
        task: ask.task.clone(),
        system: ask.system.clone(),
        model: ask.model.clone().or(named),
        note,
        engine: prepared_by.engine().id().to_owned(),
        state: SubagentState::Preparing,
        reason: None,
        cause: None,
        result: None,
        told: false,
        delivered: false,
        gone: false,
        budgets: SubagentBudgets {
            max_turns: budgets.max_turns.unwrap_or(config.max_turns),
            max_tool_calls: budgets.max_tool_calls.unwrap_or(config.max_tool_calls),
            max_tokens: budgets.max_tokens.unwrap_or(config.max_tokens),
            time_ms: budgets.time_ms.unwrap_or(config.time_ms),
        },
        usage: Default::default(),
        attempts: 1,
        created_ms: now,
        expires_ms: now.saturating_add(i64::try_from(ttl).unwrap_or(i64::MAX)),
        ended_ms: 0,
    };
    Ok(Plan { record, lease: prepared_by, history })
}

/// One start.
struct Start<'a> {
    house: &'a Arc<House>,
    parent: Arc<Session>,
    lane: Option<LaneGuard>,
    child: &'a Arc<Child>,
    ask: &'a SpawnRequest,
}

impl Start<'_> {
    async fn run(mut self, lease: Lease, history: Option<History>) -> Result<Spawned, TurnError> {
        let session = self.house.open(&self.child.key, true).await?;
        let record = {
            let state = session.state();
            let (row, id) = (state.record().row, state.record().session_id.clone());
            drop(state);
            self.child.change(|record| {
                record.row = row;
                record.session_id = id;
            })
        };
        // A turn that runs tools holds the session's lane; of its spawns, one at a time enters the engine.
        let _alone = match &self.lane {
            Some(_) => None,
            None => Some(self.house.lanes.enter(&format!("\0spawn:{}", record.parent)).await?),
        };
        // What the engine prepares must be found again, whatever happens; and what the parent admitted is on disk with it.
        TurnError::at("subagent.record.before")?;
        keep(self.house, record).await?;
        TurnError::at("subagent.record.after")?;
        let at = TurnRun::operation(self.house.clone(), self.parent.clone(), lease, self.lane.take());
        let prepared = match self.prepare(&at).await {
            Ok(handle) => handle,
            // `8.25` broken: a start goes on without its preparation.
            Err(_) if broken("8.25") => None,
            Err(failure) => {
                self.forget(&session).await;
                return Err(TurnError::Subagent(SubagentError::Preparation(failure)));
            }
        };
        failpoint::pass("subagent.prepared");
        match self.start(&session, history).await {
            Ok(spawned) => Ok(spawned),
            Err(error) => {
                if self.house.stop.is_cancelled() {
                    // The next process finds the record, and releases the child.
                    return Err(error);
                }
                if let Some(handle) = prepared {
                    roll_back(&at, handle).await;
                }
                self.forget(&session).await;
                Err(TurnError::Subagent(SubagentError::Start { reason: error.to_string() }))
            }
        }
    }

    /// Has the engine prepare the child; gives the handle of the rollback, if there is something to roll back.
    async fn prepare(&self, at: &TurnRun) -> Result<Option<u64>, HookFailure> {
        let record = self.child.record();
        if record.light {
            return Ok(None);
        }
        let spawn = SubagentSpawn {
            parent_session_key: record.parent,
            child_session_key: record.child,
            parent_session_id: Some(at.session.state().record().session_id.clone()),
            child_session_id: Some(record.session_id),
            fork: record.fork,
            ttl: u64::try_from(record.expires_ms - record.created_ms).ok().map(Duration::from_millis),
        };
        let facts = at.session_facts(None, None);
        at.segment(facts, false, move |segment| segment.prepare_subagent_spawn(&spawn)).await
    }

    /// Makes the child's session, and waits until its task is admitted and on disk.
    async fn start(&self, session: &Arc<Session>, history: Option<History>) -> Result<Spawned, TurnError> {
        if self.child.time_left(now_ms()).0.is_zero() {
            return Err(TurnError::invalid("its time was over before it began", "budgets.timeMs"));
        }
        if let Some(history) = history {
            let mut writes = Vec::new();
            history.copy_to(self.house, session, &mut writes)?;
            drop(history);
            if !writes.is_empty() {
                let lease = Some((session.state().record().row, self.house.store.lease()));
                self.house.store.submit(Submission { lease, writes }).durable().await?;
            }
        }
        TurnError::at("subagent.start.before")?;
        // Goes with the admission: what is admitted runs, and nothing else does.
        let record = self.child.change(|record| record.state = SubagentState::Running);
        session.state().extra.deferred.push(Write::Subagent(Box::new(record.clone())));
        let admitted = self.child.when_admitted();
        let mut head = run::begin(self.house, self.child)?;
        tokio::select! {
            biased;
            Ok(()) = admitted => {}
            reply = &mut head => return Err(never_admitted(reply)),
        }
        let (tell, outcome) = if self.ask.wait {
            let (tell, outcome) = oneshot::channel();
            (Some(tell), Some(outcome))
        } else {
            (None, None)
        };
        run::watch(self.house, self.child, head, tell);
        Ok(Spawned { report: record.into(), outcome })
    }

    /// Nothing of the child stays.
    async fn forget(&self, session: &Session) {
        let (row, exists) = {
            let mut state = session.state();
            state.extra.deferred.clear();
            (state.record().row, state.is_stored())
        };
        let mut writes = vec![Write::SubagentForget(self.child.key.to_string())];
        if exists {
            writes.push(Write::DeleteSession { session: row });
        }
        if durable(self.house, writes).await.is_err() && exists {
            // The session was never written.
            let forget = vec![Write::SubagentForget(self.child.key.to_string())];
            if let Err(error) = durable(self.house, forget).await {
                tracing::warn!(%error, child = &*self.child.key, "a subagent that was not started is not forgotten");
            }
        }
        self.house.hot.forget(&self.child.key);
    }
}

fn never_admitted(reply: Result<Result<TurnReply, TurnError>, oneshot::error::RecvError>) -> TurnError {
    match reply {
        Ok(Err(error)) => error,
        _ => TurnError::internal("its turn ended without being admitted"),
    }
}

/// The engine takes its preparation back. Its errors are the engine's own.
async fn roll_back(at: &TurnRun, handle: u64) {
    let facts = at.session_facts(None, None);
    let done = at.segment(facts, false, move |segment| segment.rollback_subagent_spawn(handle)).await;
    if let Err(failure) = done {
        tracing::warn!(
            engine = failure.engine,
            reason = failure.reason,
            "the preparation of a subagent was not undone"
        );
    }
}
