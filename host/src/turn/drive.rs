//! A turn from its lane to its reply.

use super::admit::{Admission, Admitted};
use super::clock::now_ms;
use super::house::House;
use super::incoming::Incoming;
use super::ladder::Pressure;
use super::replay_answer::{self, chunks_of, stored_answer};
use super::run::{Cancel, Notes, TurnRun};
use super::services::TurnServices;
use super::settle::Envelope;
use super::{TurnBody, TurnError, TurnReply, TurnRequest, TurnStream};
use crate::model::{
    Accumulator, ModelError, ModelReply, ModelRequest, ModelStream, Reply, reply_of, usage_only, wants_usage,
};
use crate::slot::LeaseRequest;
use futures_util::{Stream, StreamExt};
use serde_json::Value;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::DropGuard;

/// Chunks that a slow client may be behind.
const CHUNKS: usize = 64;
/// How long a client may not read before it counts as gone.
const CLIENT_PATIENCE: Duration = Duration::from_secs(120);

/// Where the reply goes.
pub(super) type Head = oneshot::Sender<Result<TurnReply, TurnError>>;

/// Runs a turn to its end, whatever becomes of the caller.
pub(super) async fn drive(house: Arc<House>, request: TurnRequest, incoming: Incoming, head: Head) {
    let mut stream = request.stream;
    match begin(&house, request, incoming).await {
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
async fn begin(house: &Arc<House>, request: TurnRequest, incoming: Incoming) -> Result<Begun, TurnError> {
    let cancel = Cancel::new(request.cancel.clone(), house.stop.clone());
    let started_ms = now_ms();
    let (lane, session) = match &request.session_key {
        None => (None, house.ephemeral()),
        Some(key) => {
            let waiting = house.metrics.as_ref().map(|metrics| metrics.waiting());
            let lane = cancel.unless_fired(house.lanes.enter(key)).await??;
            drop(waiting);
            (Some(lane), house.open(key, true).await?)
        }
    };
    let mut resume = None;
    if let Some(key) = &request.idempotency_key {
        match stored_answer(house, &session, key).await? {
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
    cancel.check()?;
    let mut run = TurnRun {
        services: TurnServices::new(house.clone(), session.clone()),
        system_tokens: session.agent.system_tokens(&incoming.system),
        tool_tokens: session.agent.tool_tokens(&request.params),
        house: house.clone(),
        agent: session.agent.clone(),
        session,
        lease,
        cancel,
        lane,
        admitted: Admitted::default(),
        system: incoming.system,
        params: request.params,
        heartbeat: request.heartbeat,
        idempotency_key: request.idempotency_key,
        notes: Notes::default(),
        started_ms,
        pressure: Pressure::default(),
        overflowed: false,
        settled: false,
        background: None,
    };
    let admission = Admission {
        messages: incoming.messages,
        times_ms: request.times_ms,
        full: incoming.full,
        heartbeat: run.heartbeat,
        idempotency_key: run.idempotency_key.clone(),
        resume,
        engine: run.lease.engine().id().to_owned(),
    };
    run.admitted = house.admit(&run.session, admission)?;
    Ok(Begun::Run(Box::new(run)))
}

/// Prompt, model, reply, and what follows it.
async fn answer(mut run: TurnRun, stream: bool, head: Head) {
    let outcome = match run.call_model(stream).await {
        Ok(ModelReply::Full(body)) => give_full(&mut run, body, stream, head).await,
        Ok(ModelReply::Stream(chunks)) => give_stream(&mut run, chunks, stream, head).await,
        Err(error) => Err((error, Some(head))),
    };
    match outcome {
        Ok(()) => run.hand_over().await,
        Err((error, head)) => {
            run.store_unanswered(&error);
            if let Some(head) = head {
                reply(head, Err(error));
            }
        }
    }
}

/// A turn that failed, with the head of the reply when it was not given yet.
type Failed = (TurnError, Option<Head>);

impl TurnRun {
    /// Assembles, checks, calls the model; shortens and tries again when the provider says that the prompt is too long.
    async fn call_model(&mut self, stream: bool) -> Result<ModelReply, TurnError> {
        loop {
            let prompt = self.fitting_prompt().await?;
            self.notes.prompt_tokens = prompt.tokens();
            let messages = {
                let mut state = self.session.state();
                prompt.write(&mut state.extra.written)
            };
            let request = ModelRequest { params: self.params.clone(), messages, stream, ..ModelRequest::default() };
            drop(prompt);
            let since = Instant::now();
            let model = self.agent.model.clone();
            let outcome = self.cancel.unless_fired(model.call(request)).await?;
            self.timed("model", since);
            match outcome {
                Ok(reply) => {
                    self.model_answered();
                    return Ok(reply);
                }
                Err(error) => self.recover(error).await?,
            }
        }
    }
}

/// A whole answer: it leaves when it is durable.
async fn give_full(run: &mut TurnRun, body: Value, stream: bool, head: Head) -> Result<(), Failed> {
    let parsed = match reply_of(&body) {
        Ok(parsed) => parsed,
        Err(error) => return Err((TurnError::Model(error), Some(head))),
    };
    let envelope = Envelope { body: run.idempotency_key.is_some().then(|| body.clone()), outcome: "answered" };
    if let Err(error) = run.store_answer(parsed, envelope).await {
        return Err((error, Some(head)));
    }
    let body = if stream { stream_of(chunks_of(&body)) } else { TurnBody::Full(body) };
    reply(head, Ok(reply_with(run, body)));
    Ok(())
}

/// A streamed answer: each chunk leaves as it comes, once the admission is durable; the end leaves after the answer is.
async fn give_stream(run: &mut TurnRun, mut chunks: ModelStream, stream: bool, head: Head) -> Result<(), Failed> {
    let mut accumulator = Accumulator::new();
    if !stream {
        // Asked for a whole answer, and got pieces.
        while let Some(chunk) = match run.cancel.unless_fired(chunks.next()).await {
            Ok(next) => next,
            Err(error) => return Err((error, Some(head))),
        } {
            match chunk {
                Ok(chunk) => accumulator.push(&chunk),
                Err(error) => return Err((TurnError::Model(error), Some(head))),
            }
        }
        let parsed = accumulator.finish();
        let body = replay_answer::completion(&parsed, &run.admitted.turn_id, run.started_ms / 1000);
        let envelope = Envelope { body: Some(body.clone()), outcome: "answered" };
        if let Err(error) = run.store_answer(parsed, envelope).await {
            return Err((error, Some(head)));
        }
        reply(head, Ok(reply_with(run, TurnBody::Full(body))));
        return Ok(());
    }
    if let Err(error) = run.admission_durable().await {
        return Err((error, Some(head)));
    }
    let (sender, receiver) = mpsc::channel(CHUNKS);
    reply(head, Ok(reply_with(run, TurnBody::Stream(Box::pin(Receiving(receiver))))));
    let since = Instant::now();
    let ended = pump(run, &mut chunks, &mut accumulator, &sender).await;
    drop(chunks);
    run.timed("stream", since);
    let parsed = accumulator.finish();
    match ended {
        Ended::Whole => {}
        Ended::Gone if keepable(&parsed) => {
            let envelope = Envelope { body: None, outcome: "interrupted" };
            return run.store_answer(parsed, envelope).await.map_err(|error| (error, None));
        }
        Ended::Gone => return Err((TurnError::Cancelled, None)),
        Ended::Failed(error) => {
            offer(&sender, Err(TurnError::Model(error.clone()))).await;
            return Err((TurnError::Model(error), None));
        }
    }
    match run.store_answer(parsed, Envelope { body: None, outcome: "answered" }).await {
        Ok(()) => Ok(()),
        Err(TurnError::Store(error)) => {
            offer(&sender, Err(TurnError::Store(error.clone()))).await;
            Err((TurnError::Store(error), None))
        }
        Err(error) => {
            // An end without an error would be an acknowledgement.
            offer(&sender, Err(TurnError::internal(error.to_string()))).await;
            Err((error, None))
        }
    }
}

/// How a stream ended.
enum Ended {
    Whole,
    /// The client went away, or the gateway stops.
    Gone,
    Failed(ModelError),
}

async fn pump(
    run: &TurnRun,
    chunks: &mut ModelStream,
    accumulator: &mut Accumulator,
    sender: &mpsc::Sender<Result<Value, TurnError>>,
) -> Ended {
    let usage_wanted = wants_usage(&run.params);
    loop {
        let next = tokio::select! {
            biased;
            next = chunks.next() => next,
            () = run.cancel.fired() => return Ended::Gone,
            () = sender.closed() => return Ended::Gone,
        };
        match next {
            None => return Ended::Whole,
            Some(Err(error)) => return Ended::Failed(error),
            Some(Ok(chunk)) => {
                accumulator.push(&chunk);
                if !usage_wanted && usage_only(&chunk) {
                    continue;
                }
                if !offer(sender, Ok(chunk)).await {
                    return Ended::Gone;
                }
            }
        }
    }
}

/// Gives a chunk to the client; false when it is gone.
async fn offer(sender: &mpsc::Sender<Result<Value, TurnError>>, chunk: Result<Value, TurnError>) -> bool {
    sender.send_timeout(chunk, CLIENT_PATIENCE).await.is_ok()
}

/// Worth keeping when nobody heard the end: text, and no half tool call.
fn keepable(parsed: &Reply) -> bool {
    parsed.message.tool_calls.is_empty() && !parsed.message.text().trim().is_empty()
}

fn reply_with(run: &TurnRun, body: TurnBody) -> TurnReply {
    let facts = run.facts();
    TurnReply { engine: facts.engine.clone(), degraded: facts.degraded.clone(), facts, body }
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

struct Receiving(mpsc::Receiver<Result<Value, TurnError>>);

impl Stream for Receiving {
    type Item = Result<Value, TurnError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}

/// A stream that tells the turn when its reader is gone.
pub(super) fn with_interest(stream: TurnStream, interest: DropGuard) -> TurnStream {
    Box::pin(stream.map(move |chunk| {
        let _held = &interest;
        chunk
    }))
}
