//! One logical turn: admit → prepare → prompt → model → settle, with the overflow ladder.
//!
//! ```text
//!  request ─► lane (one at a time per session) ─► open session ─► lease
//!      │                                                           │
//!      ▼                                                           ▼
//!  admit: row ids, write queued ─► prepare: drain, bootstrap, assemble ─► prompt: precheck, ladder
//!                                         ▲ next candidate │ compaction          │
//!                                         └────────────────┴────────────── model ┤
//!                                                                                ▼
//!  reply ◄── durable ◄── settle: answer, outbox, turn record ─► commitTurn, maintain ─► lane free
//! ```
//!
//! Engines are called through [`crate::slot`] only. A turn runs in a task of its own, so that it settles whatever becomes of the
//! client. A warm turn costs what is new.

mod admit;
mod agents;
mod builtin;
mod cache;
mod catch_up;
mod clock;
mod compact;
mod context;
mod converse;
mod drive;
mod ended;
mod error;
mod factory;
mod fence;
#[doc(hidden)]
pub mod fuzzing;
mod hosts;
mod house;
mod incoming;
mod ladder;
mod lanes;
mod llm;
mod maintenance;
mod memory;
mod offer;
mod outbox;
mod outlet;
mod precheck;
mod prepare;
mod prompt;
mod recover;
mod repair;
pub mod replay;
mod replay_answer;
mod request;
mod rewrite;
mod run;
mod services;
mod session;
mod settings;
mod settle;
mod shadow;
mod subagents;
mod summaries;
mod tools;
mod turns;
mod written;

#[cfg(test)]
mod tests;

pub use catch_up::CatchUpStatus;
pub use compact::{Successor, former_ids};
pub use context::{ContextAsk, ContextEntry, ContextReport, EntryState, Sum, Totals};
pub use ended::{EndReport, ToldEngine};
pub use error::TurnError;
pub use maintenance::{LastRun, MaintenanceState, MaintenanceStatus};
pub use repair::{RepairAction, RepairOutcome, RepairReport, RepairRequest, RepairRow};
pub use request::{CompactReport, HistoryMode, TurnBody, TurnFacts, TurnReply, TurnRequest, TurnStream};
pub use subagents::{SpawnBudgets, SpawnMode, SpawnRequest, SubagentError, SubagentReport};

pub use shadow::ShadowStatus;
pub use turns::{TurnRow, TurnTokens, TurnsPage};

use house::House;
use incoming::Incoming;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::model::{Model, Models, TokenCounter};
use crate::observe::{Metrics, broken};
use crate::slot::{HostServices, Slot};
use crate::transcript::Store;

/// The services that a factory may call: the engine's own store and token counting.
pub fn factory_services(store: Arc<dyn Store>, model: &dyn Model) -> Arc<dyn HostServices> {
    Arc::new(factory::FactoryServices::new(store, TokenCounter::for_model(&model.info().resolved)))
}

/// What tells one request from another, whichever way its answer is to come.
fn digest(request: &TurnRequest) -> String {
    let mut hasher = xxhash_rust::xxh3::Xxh3::new();
    hasher.update(serde_json::json!(request.messages).to_string().as_bytes());
    for (name, value) in request.params.iter().filter(|(name, _)| *name != "stream_options") {
        hasher.update(name.as_bytes());
        hasher.update(value.to_string().as_bytes());
    }
    format!("{:032x}", hasher.digest128())
}

/// Runs what its caller may give up: the token fires when the future is dropped.
async fn wanted<T, F: Future<Output = T>>(work: impl FnOnce(CancellationToken) -> F) -> T {
    let client = CancellationToken::new();
    let interest = client.clone().drop_guard();
    let done = work(client).await;
    interest.disarm();
    done
}

/// Runs turns. Cheap to clone.
#[derive(Clone)]
pub struct Turns {
    house: Arc<House>,
}

impl Turns {
    /// Turns over these rooms, with one model for all agents. Must be made inside the runtime that they shall run on.
    pub fn new(config: Arc<Config>, store: Arc<dyn Store>, model: Arc<dyn Model>, slot: Arc<Slot>) -> Turns {
        Turns::over(config, store, Models::from(model), slot, None)
    }

    /// The same with the models of agents, and with what happens counted in `metrics`.
    pub fn counted(
        config: Arc<Config>,
        store: Arc<dyn Store>,
        models: Models,
        slot: Arc<Slot>,
        metrics: Arc<Metrics>,
    ) -> Turns {
        Turns::over(config, store, models, slot, Some(metrics))
    }

    fn over(
        config: Arc<Config>,
        store: Arc<dyn Store>,
        models: Models,
        slot: Arc<Slot>,
        metrics: Option<Arc<Metrics>>,
    ) -> Turns {
        let house = House::new(config, store, &models, slot, metrics, tokio::runtime::Handle::current());
        house.start_flushing();
        house.start_recovery();
        Turns { house }
    }

    /// Runs one turn. For a streamed reply it returns with the first byte of the model; the turn is over when the stream ends.
    ///
    /// # Errors
    ///
    /// Whatever ended the turn before its first byte. An admitted message is kept; the turn record says that it has no answer.
    pub async fn run(&self, mut request: TurnRequest) -> Result<TurnReply, TurnError> {
        let asked = request.idempotency_key.is_some().then(|| digest(&request));
        let incoming = Incoming::read(std::mem::take(&mut request.messages), request.history)?;
        // The caller's interest: whoever drops this future, or the stream of the reply, cancels.
        let interest = request.cancel.clone().drop_guard();
        let (head, answer) = tokio::sync::oneshot::channel();
        self.house.spawn_turn(drive::drive(self.house.clone(), request, asked, incoming, head))?;
        let mut reply =
            answer.await.unwrap_or_else(|_| Err(TurnError::internal("the turn ended without an answer")))?;
        match reply.body {
            TurnBody::Full(_) => {
                interest.disarm();
            }
            TurnBody::Stream(stream) => reply.body = TurnBody::Stream(drive::with_interest(stream, interest)),
        }
        Ok(reply)
    }

    /// Compacts a session now. `focus` is a text of the operator: what the summary should look after.
    ///
    /// # Errors
    ///
    /// [`TurnError::NoSession`]; [`TurnError::Compaction`] when the engine's `compact` failed, and history is as it was.
    pub async fn compact(&self, key: &str, focus: Option<String>) -> Result<CompactReport, TurnError> {
        let (house, key) = (self.house.clone(), key.to_owned());
        // Whoever drops this future does not want it any more.
        let client = CancellationToken::new();
        let interest = if broken("9.14") { CancellationToken::new() } else { client.clone() }.drop_guard();
        let report = self.house.finish(async move { compact::manual(&house, &key, focus, client).await }).await;
        interest.disarm();
        report
    }

    /// What the model would see now, entry by entry. It changes nothing, unless the engine shall take the session up first.
    ///
    /// # Errors
    ///
    /// [`TurnError::NoSession`], that no engine may serve, [`TurnError::Look`] when looking alone tells nothing, or
    /// [`TurnError::Invalid`] for an empty question.
    pub async fn context(&self, key: &str, ask: ContextAsk) -> Result<ContextReport, TurnError> {
        let house = self.house.clone();
        let key = key.to_owned();
        wanted(|client| self.house.finish(async move { context::report(&house, &key, ask, &client).await })).await
    }

    /// The turns of a session, newest first, older than the turn `before` when one is given.
    ///
    /// # Errors
    ///
    /// [`TurnError::NoSession`], or that the store failed.
    pub async fn turns(&self, key: &str, before: Option<String>, limit: usize) -> Result<TurnsPage, TurnError> {
        turns::page(&self.house, key, before, limit).await
    }

    /// What an engine found while it watched; `None` when it never did and does not.
    pub fn shadow(&self, engine: &str) -> Option<ShadowStatus> {
        self.house.shadows.status(engine)
    }

    /// Deletes a session with everything that hangs on it; every engine that knows of it is told first.
    ///
    /// # Errors
    ///
    /// [`TurnError::NoSession`], or that the store failed.
    pub async fn delete(&self, key: &str) -> Result<EndReport, TurnError> {
        let house = self.house.clone();
        let key = key.to_owned();
        let end = ended::End::Deleted;
        wanted(|client| self.house.finish(async move { ended::end(&house, &key, end, &client).await })).await
    }

    /// Begins a session anew under its key: engines that know of it are told and what they kept of it is dropped, the history
    /// stays in the tree as another branch.
    ///
    /// # Errors
    ///
    /// [`TurnError::NoSession`], or that the store failed.
    pub async fn reset(&self, key: &str) -> Result<EndReport, TurnError> {
        let house = self.house.clone();
        let key = key.to_owned();
        let end = ended::End::Reset;
        wanted(|client| self.house.finish(async move { ended::end(&house, &key, end, &client).await })).await
    }

    /// Optional work of the session of this key, per engine.
    pub fn session_maintenance(&self, key: &str) -> Vec<MaintenanceStatus> {
        self.house.maintenance.status(|session, _| session == key)
    }

    /// How far an engine has come that reads what it missed of the session of this key.
    pub fn catch_up(&self, key: &str) -> Option<CatchUpStatus> {
        self.house.catch_ups.status(key)
    }

    /// Optional work of this engine, per session.
    pub fn engine_maintenance(&self, engine: &str) -> Vec<MaintenanceStatus> {
        self.house.maintenance.status(|_, id| id == engine)
    }

    /// Sessions that wait for optional work, and runs of it.
    pub fn maintenance_numbers(&self) -> (usize, usize) {
        self.house.maintenance.numbers()
    }

    /// Lists what waits or is blocked in the outbox of a session, and settles it when asked to.
    ///
    /// # Errors
    ///
    /// [`TurnError::NoSession`], or that the store failed.
    pub async fn repair(&self, key: &str, request: RepairRequest) -> Result<RepairReport, TurnError> {
        let house = self.house.clone();
        let key = key.to_owned();
        wanted(|client| self.house.finish(async move { repair::repair(&house, &key, request, &client).await })).await
    }

    /// Starts a child of a session. With [`SpawnRequest::wait`] it answers when the child has ended; a caller that goes away
    /// before does not end it, and the parent hears the result at its next turn.
    ///
    /// # Errors
    ///
    /// [`TurnError::NoSession`], [`TurnError::Subagent`], or that the host lacks what an engine requires: nothing was started.
    pub async fn spawn_subagent(&self, parent: &str, ask: SpawnRequest) -> Result<SubagentReport, TurnError> {
        let (house, key) = (self.house.clone(), parent.to_owned());
        let spawned = wanted(|client| {
            self.house.finish(async move {
                let lane = house.lanes.enter_for(&key, &client).await?;
                let session = house.open(&key, false).await?;
                subagents::spawn(&house, session, Some(lane), ask).await
            })
        })
        .await?;
        match spawned.outcome {
            // Bounded by the child's time to live.
            Some(outcome) => outcome.await.map_err(|_| TurnError::Draining),
            None => Ok(spawned.report),
        }
    }

    /// The children of a session, oldest first.
    ///
    /// # Errors
    ///
    /// [`TurnError::NoSession`], or that the store failed.
    pub async fn subagents(&self, parent: &str) -> Result<Vec<SubagentReport>, TurnError> {
        subagents::list(&self.house, parent).await
    }

    /// Ends a child, if it runs, and deletes its session.
    ///
    /// # Errors
    ///
    /// [`SubagentError::Unknown`], or that the store failed.
    pub async fn end_subagent(&self, parent: &str, child: &str) -> Result<SubagentReport, TurnError> {
        let house = self.house.clone();
        let (parent, child) = (parent.to_owned(), child.to_owned());
        self.house.finish(async move { subagents::end_one(&house, &parent, &child).await }).await
    }

    /// Looks after the children of earlier processes, at once, and after those that grow too old, until the gateway stops. For
    /// the one process that serves; a command that only looks leaves them alone.
    pub fn tend_subagents(&self) {
        subagents::start_sweeping(&self.house);
    }

    /// Requests that wait for their sessions.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.house.lanes.waiting()
    }

    /// Turns and operations that run now.
    pub fn running(&self) -> usize {
        self.house.tasks.len()
    }

    /// Waits until no turn runs and no optional work is left, `patience` at most.
    pub async fn settle(&self, patience: Duration) {
        let settled = async {
            while self.running() > 0 || self.maintenance_numbers() != (0, 0) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let _ = tokio::time::timeout(patience, settled).await;
    }

    /// Takes on no optional work any more and cancels what runs of it. [`Self::drain`] does the same; a gateway whose last
    /// turns still run says so beforehand.
    pub fn end_maintenance(&self) {
        self.house.maintenance.cancel_all();
    }

    /// Admits nothing more, waits for what runs, and cancels what is left at `patience`. True when everything ended by itself.
    pub async fn drain(&self, patience: Duration) -> bool {
        self.house.drain(patience).await
    }
}
