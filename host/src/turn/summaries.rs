//! Summaries that were written once are not asked for again.
//!
//! A request for a summary names everything that the answer depends on, so its hash is the key under which the answer is kept
//! with the session, until the history is compacted for good: a compaction that was cancelled, or a gateway that fell over,
//! goes on where it was. A request that runs goes on when nobody waits for it any more, and whoever asks the same meanwhile
//! waits for the same answer. Of requests that nobody waits for only a few go on, so that clients that come and go cannot
//! keep the model busy for nobody.

use super::house::House;
use crate::compaction::{Summarizer, SummaryPrompt};
use crate::model::ModelError;
use crate::transcript::{EngineOp, EngineScope, SessionRow, Submission, Write};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Under which name the gateway keeps what is its own in a session's scope of the engines' store; no engine can have it.
pub(super) const OWNER: &str = "engineroom:compaction";
const PREFIX: &[u8] = b"part/";
/// How long a request may go on that nobody waits for.
const ALONE: Duration = Duration::from_secs(300);

type Answer = Result<String, ModelError>;

/// Most requests that nobody waits for.
const UNATTENDED: usize = 16;

/// Answers that are remembered for conversations of which nothing is stored.
const REMEMBERED: usize = 256;

type Key = (SessionRow, u128);

/// The requests that run, and what was answered to those of ephemeral turns: a client that sends its whole conversation with every
/// request sends the same old part each time.
#[derive(Default)]
pub(super) struct Summaries {
    running: Mutex<HashMap<Key, Running>>,
    remembered: Mutex<VecDeque<(u128, Arc<str>)>>,
}

/// A request that runs.
struct Running {
    answer: Shared<BoxFuture<'static, Answer>>,
    /// Who waits for it.
    waiters: Arc<AtomicUsize>,
    cancel: CancellationToken,
}

/// Somebody waits for a request.
struct Waits<'a> {
    summaries: &'a Summaries,
    key: Key,
    waiters: Arc<AtomicUsize>,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let mut running = self.summaries.running();
        if self.waiters.fetch_sub(1, Relaxed) > 1 {
            return;
        }
        // Another request for the same may stand in its place by now.
        let own = running.get(&self.key).is_some_and(|own| Arc::ptr_eq(&own.waiters, &self.waiters));
        let unattended = running.values().filter(|other| other.waiters.load(Relaxed) == 0).count();
        if own
            && unattended > UNATTENDED
            && let Some(own) = running.remove(&self.key)
        {
            // Whoever asks the same from here on asks anew.
            own.cancel.cancel();
        }
    }
}

impl Summaries {
    fn running(&self) -> MutexGuard<'_, HashMap<Key, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, key: u128, text: &str) {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.len() >= REMEMBERED {
            remembered.pop_front();
        }
        remembered.push_back((key, text.into()));
    }

    fn remembered(&self, key: u128) -> Option<String> {
        let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.iter().rev().find(|(known, _)| *known == key).map(|(_, text)| text.to_string())
    }
}

/// The write that forgets the answers of a session: they stand in its summary now.
pub(super) fn forget(session: SessionRow) -> Write {
    Write::EngineBatch {
        engine: OWNER.into(),
        scope: EngineScope::Session(session),
        ops: vec![EngineOp::DeletePrefix(PREFIX.to_vec())],
    }
}

/// A summarizer that keeps what it was told.
pub(super) struct Kept {
    pub(super) house: Arc<House>,
    pub(super) session: SessionRow,
    /// False for a session of which nothing is stored.
    pub(super) stored: bool,
    /// Its context window, as far as it is known.
    pub(super) window: u64,
    /// The model's name: another one writes other summaries.
    pub(super) model: String,
    pub(super) inner: Arc<dyn Summarizer>,
}

impl Summarizer for Kept {
    fn summarize<'a>(&'a self, prompt: SummaryPrompt) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            let key = self.key(&prompt);
            if let Some(known) = self.known(key).await {
                return Ok(known);
            }
            let summaries = &self.house.summaries;
            let (answer, _waits) = {
                let mut running = summaries.running();
                let own = running.entry((self.session, key)).or_insert_with(|| {
                    let cancel = CancellationToken::new();
                    Running { answer: self.ask(key, prompt, cancel.clone()), waiters: Arc::default(), cancel }
                });
                own.waiters.fetch_add(1, Relaxed);
                (own.answer.clone(), Waits { summaries, key: (self.session, key), waiters: own.waiters.clone() })
            };
            answer.await
        })
    }

    fn available(&self) -> bool {
        self.inner.available()
    }

    fn window(&self) -> u64 {
        self.inner.window().min(self.window)
    }
}

impl Kept {
    fn key(&self, prompt: &SummaryPrompt) -> u128 {
        let mut hash = xxhash_rust::xxh3::Xxh3::new();
        for text in [&self.model, &prompt.system, &prompt.user] {
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        }
        hash.update(&prompt.max_tokens.to_le_bytes());
        hash.digest128()
    }

    async fn known(&self, key: u128) -> Option<String> {
        if !self.stored {
            return self.house.summaries.remembered(key);
        }
        let (store, session) = (self.house.store.clone(), self.session);
        let read = move || store.engine_get(OWNER, EngineScope::Session(session), &name(key));
        let found = tokio::task::spawn_blocking(read).await.ok()?.ok()??;
        String::from_utf8(found).ok()
    }

    /// Starts a request that goes on whatever becomes of this future.
    fn ask(&self, key: u128, prompt: SummaryPrompt, cancel: CancellationToken) -> Shared<BoxFuture<'static, Answer>> {
        let (house, inner, session, stored) = (self.house.clone(), self.inner.clone(), self.session, self.stored);
        let task = self.house.runtime.spawn(async move {
            let outcome = tokio::select! {
                biased;
                outcome = tokio::time::timeout(ALONE, inner.summarize(prompt)) => outcome.unwrap_or_else(|_| Err(late())),
                () = house.stop.cancelled() => Err(ModelError::Cancelled),
                () = cancel.cancelled() => Err(ModelError::Cancelled),
            };
            if let (Ok(text), false) = (outcome.as_ref(), stored) {
                house.summaries.remember(key, text);
            } else if let Ok(text) = outcome.as_ref() {
                let put = EngineOp::Put(name(key), text.clone().into_bytes());
                let write =
                    Write::EngineBatch { engine: OWNER.into(), scope: EngineScope::Session(session), ops: vec![put] };
                let lease = Some((session, house.store.lease()));
                // Whoever waits has the answer in hand; the next one finds it, or asks again.
                drop(house.store.submit(Submission { lease, writes: vec![write] }));
            }
            // One that was given up is out already, and may have a successor.
            let mut running = house.summaries.running();
            if !cancel.is_cancelled() {
                running.remove(&(session, key));
            }
            drop(running);
            outcome
        });
        task.map(|joined| joined.unwrap_or_else(|error| Err(ModelError::Protocol(error.to_string())))).boxed().shared()
    }
}

fn late() -> ModelError {
    let after_ms = u64::try_from(ALONE.as_millis()).unwrap_or(u64::MAX);
    ModelError::Timeout { phase: crate::model::Phase::FirstByte, after_ms }
}

fn name(key: u128) -> Vec<u8> {
    [PREFIX, &key.to_be_bytes()].concat()
}
