//! A turn from its lane to its reply.

use super::admit::{Admission, Admitted};
use super::cache::CallShape;
use super::clock::now_ms;
use super::hosts::{HostRun, Keeper};
use super::house::House;
use super::incoming::Incoming;
use super::ladder::Pressure;
use super::outlet::{Head, Outlet};
use super::replay_answer::{self, chunks_of, stored_answer};
use super::run::{Cancel, Notes, TurnRun, warn_of_passed};
use super::services::{Manner, TurnServices};
use super::subagents;
use super::tools::Toolbox;
use super::{TurnBody, TurnError, TurnReply, TurnRequest, TurnStream};
use crate::model::{ModelError, ModelReply, ModelRequest};
use crate::observe::failpoint;
use crate::slot::LeaseRequest;
use futures_util::StreamExt;
use serde_json::Value;
use std::sync::Arc;
use std::time::Instant;
use tokio_util::sync::DropGuard;

/// Runs a turn to its end, whatever becomes of the caller.
pub(super) async fn drive(
    house: Arc<House>,
    request: TurnRequest,
    asked: Option<String>,
    incoming: Incoming,
    head: Head,
) {
    let mut stream = request.stream;
    match begin(&house, request, asked, incoming).await {
        Err(error) => reply(head, Err(error)),
        Ok(Begun::Stored(answer)) => reply(head, Ok(replayed(answer, &mut stream))),
        Ok(Begun::Run(run)) => answer(*run, stream, head).await,
    }
}

/// What the beginning of a turn came to.
enum Begun {
    /// The same request was answered before.
    Stored(replay_answer::Stored),
    Run(Box<TurnRun>),
}

/// Lane, session, lease, admission: everything before the first hook.
/// `asked`: the digest of a request with an idempotency key.
async fn begin(
    house: &Arc<House>,
    request: TurnRequest,
    asked: Option<String>,
    incoming: Incoming,
) -> Result<Begun, TurnError> {
    let cancel = Cancel::new(request.cancel.clone(), house.stop.clone());
    let started_ms = now_ms();
    let (lane, session) = match &request.session_key {
        None => (None, house.ephemeral()),
        Some(key) => {
            let waiting = house.metrics.as_ref().map(|metrics| metrics.waiting());
            let lane = cancel.unless_fired(house.lanes.enter(key)).await??;
            drop(waiting);
            house.shadows.give_way(key);
            subagents::open_to(house, key, request.idempotency_key.as_deref()).await?;
            (Some(lane), house.open(key, true).await?)
        }
    };
    TurnError::at("turn.lane.entered")?;
    let mut resume = None;
    if let Some(key) = &request.idempotency_key {
        match stored_answer(house, &session, key, asked.as_deref()).await? {
            Some(replay_answer::Known::Answered(stored)) => return Ok(Begun::Stored(*stored)),
            Some(replay_answer::Known::Unanswered(entry)) => resume = Some(entry),
            None => {}
        }
    }
    let (agent, ephemeral) = {
        let mut state = session.state();
        state.extra.model_name = request.params.get("model").and_then(Value::as_str).map(str::to_owned);
        (state.record().agent.clone(), state.extra.ephemeral)
    };
    let lease = house.slot.lease(&LeaseRequest::turn(agent, !ephemeral)).map_err(TurnError::Slot)?;
    warn_of_passed(&lease, session.key.as_deref());
    cancel.check()?;
    TurnError::at("turn.leased")?;
    let child = session.key.as_deref().and_then(|key| house.subagents.live(key));
    let mut run = TurnRun {
        services: TurnServices::new(house.clone(), session.clone()),
        system_tokens: session.agent.system_tokens(&incoming.system),
        tool_tokens: session.agent.tool_tokens(&request.params),
        memory_tokens: 0,
        house: house.clone(),
        agent: child.as_ref().map_or_else(|| session.agent.clone(), |child| child.room(&session.agent)),
        session,
        lease,
        cancel,
        lane,
        admitted: Admitted::default(),
        system: incoming.system,
        params: request.params,
        heartbeat: request.heartbeat,
        idempotency_key: request.idempotency_key,
        asked,
        notes: Notes { subagent: child.as_ref().map(|child| child.facts()), ..Notes::default() },
        host: HostRun::default(),
        started_ms,
        pressure: Pressure::default(),
        tools: Toolbox::default(),
        overflowed: false,
        aborted: false,
        settled: false,
        background: None,
        manner: Manner::Serve,
        view_until: 0,
        shown: None,
    };
    run.session.state().extra.fixed_tokens = (run.system_tokens, run.tool_tokens);
    let admission = Admission {
        messages: incoming.messages,
        times_ms: request.times_ms,
        full: incoming.full,
        heartbeat: run.heartbeat,
        idempotency_key: run.idempotency_key.clone(),
        asked: run.asked.clone(),
        resume,
        engine: run.lease.engine().id().to_owned(),
        whole: !request.stream && Keeper::of(&run.agent.info).is_none(),
    };
    run.admitted = house.admit(&run.session, admission)?;
    TurnError::at("turn.admit.after")?;
    if let Some(child) = child {
        // Whoever spawned it waits for this moment: from here on it runs, whatever happens.
        run.admission_durable().await?;
        TurnError::at("subagent.admitted")?;
        child.admitted();
    }
    Ok(Begun::Run(Box::new(run)))
}

/// Prompt, model, reply, and what follows it.
async fn answer(mut run: TurnRun, stream: bool, head: Head) {
    let mut outlet = Outlet::new(stream, head);
    match run.converse(&mut outlet).await {
        Ok(()) => {
            failpoint::pass("turn.reply.before_end");
            // The end of the reply acknowledges the turn.
            outlet.acknowledge();
            failpoint::pass("turn.reply.after_end");
            run.hand_over().await;
            failpoint::pass("turn.lane.before_free");
        }
        Err(error) => {
            failpoint::pass("turn.unanswered.before");
            run.store_unanswered(&error);
            outlet.fail(error).await;
        }
    }
}

impl TurnRun {
    /// Assembles, checks, calls the model; shortens and tries again when the provider says that the prompt is too long.
    pub(super) async fn call_model(&mut self, stream: bool) -> Result<ModelReply, TurnError> {
        loop {
            let outcome = match Keeper::of(&self.agent.info) {
                Some(keeper) => self.call_keeper(keeper, stream).await?,
                None => self.call_embedded(stream).await?,
            };
            match outcome {
                Ok(reply) => {
                    self.model_answered();
                    return Ok(reply);
                }
                Err(error) => self.recover(error).await?,
            }
        }
    }

    /// Tells the model everything.
    async fn call_embedded(&mut self, stream: bool) -> Result<Result<ModelReply, ModelError>, TurnError> {
        let prompt = self.fitting_prompt().await?;
        self.notes.prompt_tokens = prompt.tokens();
        let params = self.tools.params(&self.params).clone();
        let messages = {
            let mut state = self.session.state();
            let memory = &mut state.extra;
            let messages = prompt.write(&mut memory.written);
            memory.watch.call(CallShape::of(&params, stream), &memory.written);
            messages
        };
        let request = ModelRequest { params, messages, stream, ..ModelRequest::default() };
        drop(prompt);
        TurnError::at("turn.model.before")?;
        let since = Instant::now();
        let model = self.agent.model.clone();
        let outcome = self.cancel.unless_fired(model.call(request)).await?;
        TurnError::at("turn.model.after")?;
        self.timed("model", since);
        Ok(outcome)
    }
}

fn replayed(stored: replay_answer::Stored, stream: &mut bool) -> TurnReply {
    let body = if *stream { stream_of(chunks_of(&stored.body)) } else { TurnBody::Full(stored.body) };
    let facts = stored.facts;
    TurnReply { engine: facts.engine.clone(), degraded: facts.degraded.clone(), facts, body }
}

fn stream_of(chunks: Vec<Value>) -> TurnBody {
    TurnBody::Stream(Box::pin(futures_util::stream::iter(chunks.into_iter().map(Ok))))
}

/// The caller may be gone; then nobody hears it.
fn reply(head: Head, reply: Result<TurnReply, TurnError>) {
    drop(head.send(reply));
}

/// A stream that tells the turn when its reader is gone.
pub(super) fn with_interest(stream: TurnStream, interest: DropGuard) -> TurnStream {
    Box::pin(stream.map(move |chunk| {
        let _held = &interest;
        chunk
    }))
}
