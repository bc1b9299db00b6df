//! The client's side of a reply: a head once, then chunks, or one body.
//!
//! The head leaves with the first chunk, after the admission is durable. The end of a stream without an error is the
//! acknowledgement, so it is one only after [`Outlet::acknowledge`]: a stream whose turn broke off, by a panic for one, ends
//! with an error.

use super::run::TurnRun;
use super::{TurnBody, TurnError, TurnReply};
use futures_util::Stream;
use serde_json::Value;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Chunks that a slow client may be behind.
const CHUNKS: usize = 64;
/// How long a client may not read before it counts as gone.
const CLIENT_PATIENCE: Duration = Duration::from_secs(120);

/// Where the reply goes.
pub(super) type Head = oneshot::Sender<Result<TurnReply, TurnError>>;
type Sender = mpsc::Sender<Result<Value, TurnError>>;

/// A reply on its way.
pub(super) struct Outlet {
    /// The client wants chunks.
    pub(super) stream: bool,
    /// Until it is given.
    head: Option<Head>,
    sender: Option<Sender>,
    /// The end of the stream may be heard as one.
    whole: Arc<AtomicBool>,
    /// Engine that the head named.
    named: Option<String>,
}

impl Outlet {
    pub(super) fn new(stream: bool, head: Head) -> Outlet {
        Outlet { stream, head: Some(head), sender: None, whole: Arc::default(), named: None }
    }

    /// Gives the head of a stream; only the first call does. Waits for the admission first.
    pub(super) async fn open(&mut self, run: &mut TurnRun) -> Result<(), TurnError> {
        if self.head.is_none() {
            return Ok(());
        }
        run.admission_durable().await?;
        let (sender, receiver) = mpsc::channel(CHUNKS);
        self.sender = Some(sender);
        let reply = reply_with(run, TurnBody::Stream(Box::pin(Receiving(receiver, self.whole.clone()))));
        self.named = Some(reply.engine.clone());
        self.say(Ok(reply));
        Ok(())
    }

    /// Gives the whole reply.
    pub(super) fn full(&mut self, run: &TurnRun, body: Value) {
        self.say(Ok(reply_with(run, TurnBody::Full(body))));
    }

    /// Gives a chunk; false when the client is gone.
    pub(super) async fn chunk(&self, chunk: Value) -> bool {
        match &self.sender {
            Some(sender) => sender.send_timeout(Ok(chunk), CLIENT_PATIENCE).await.is_ok(),
            None => true,
        }
    }

    /// Completes when the client of a stream is gone.
    pub(super) async fn gone(&self) {
        match &self.sender {
            Some(sender) => sender.closed().await,
            None => std::future::pending().await,
        }
    }

    /// The engine that the head named, when it is not `serving`.
    pub(super) fn named_other_than(&self, serving: &str) -> Option<&str> {
        self.named.as_deref().filter(|named| *named != serving)
    }

    /// Ends the reply: the turn is durable.
    pub(super) fn acknowledge(self) {
        self.whole.store(true, Ordering::Release);
    }

    /// Ends the reply with an error: in the head while it is not given, else as the last item of the stream.
    pub(super) async fn fail(mut self, error: TurnError) {
        match self.sender.take() {
            // An end without an error would be an acknowledgement.
            Some(sender) => {
                drop(sender.send_timeout(Err(error), CLIENT_PATIENCE).await);
                // Said once.
                self.whole.store(true, Ordering::Release);
            }
            None => self.say(Err(error)),
        }
    }

    /// The caller may be gone; then nobody hears it.
    fn say(&mut self, reply: Result<TurnReply, TurnError>) {
        if let Some(head) = self.head.take() {
            drop(head.send(reply));
        }
    }
}

fn reply_with(run: &TurnRun, body: TurnBody) -> TurnReply {
    let facts = run.facts();
    TurnReply { engine: facts.engine.clone(), degraded: facts.degraded.clone(), facts, body }
}

struct Receiving(mpsc::Receiver<Result<Value, TurnError>>, Arc<AtomicBool>);

impl Stream for Receiving {
    type Item = Result<Value, TurnError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.0.poll_recv(cx) {
            Poll::Ready(None) if !self.1.swap(true, Ordering::AcqRel) => {
                Poll::Ready(Some(Err(TurnError::internal("the turn broke off before it was acknowledged"))))
            }
            other => other,
        }
    }
}
