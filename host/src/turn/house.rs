//! What all turns share.

use super::TurnError;
use super::agents::{AgentRoom, AgentRooms};
use super::catch_up::CatchUps;
use super::clock::Clock;
use super::lanes::Lanes;
use super::maintenance::Maintenance;
use super::session::Memory;
use super::shadow::Shadows;
use super::summaries::Summaries;
use crate::config::Config;
use crate::memory::MemoryRoom;
use crate::model::Models;
use crate::observe::{Metrics, failpoint};
use crate::slot::Slot;
use crate::transcript::{HotSessions, SessionRow, Store, StoreError, SubagentRecord};
use std::collections::HashSet;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// How long a cancelled turn may take to settle when the gateway stops.
const SETTLE_PATIENCE: Duration = Duration::from_secs(2);
/// How often marks that wait for a next turn are written without one.
const FLUSH_EVERY: Duration = Duration::from_secs(2);

/// The rooms that a turn needs, and what turns share in memory.
pub(super) struct House {
    pub(super) config: Arc<Config>,
    pub(super) store: Arc<dyn Store>,
    pub(super) slot: Arc<Slot>,
    /// The memory slot.
    pub(super) memory: Arc<MemoryRoom>,
    agents: AgentRooms,
    /// The engine that only watches.
    pub(super) shadows: Arc<Shadows>,
    pub(super) runtime: tokio::runtime::Handle,
    pub(super) lanes: Arc<Lanes>,
    pub(super) hot: HotSessions<Memory>,
    /// Sessions with marks that wait for a next turn.
    waiting: Mutex<HashSet<Arc<str>>>,
    /// Engines that read what they missed.
    pub(super) catch_ups: CatchUps,
    /// Optional work after turns.
    pub(super) maintenance: Maintenance,
    /// Summaries that are being written.
    pub(super) summaries: Summaries,
    pub(super) tasks: TaskTracker,
    /// Fires when the gateway stops and its patience is over.
    pub(super) stop: CancellationToken,
    /// Where turns are counted, when they are.
    pub(super) metrics: Option<Arc<Metrics>>,
    /// Times of what is said.
    pub(super) clock: Clock,
    /// Children that run.
    pub(super) subagents: super::subagents::Subagents,
}

impl House {
    pub(super) fn new(
        config: Arc<Config>,
        store: Arc<dyn Store>,
        models: &Models,
        slot: Arc<Slot>,
        metrics: Option<Arc<Metrics>>,
        runtime: tokio::runtime::Handle,
    ) -> Arc<House> {
        let provider_services = super::factory_services(store.clone(), &**models.default_model());
        Arc::new(House {
            lanes: Lanes::new(
                config.gateway.queue_per_session,
                config.gateway.queue_total,
                Duration::from_millis(config.gateway.queue_timeout_ms),
            ),
            hot: HotSessions::new(config.gateway.hot_sessions_bytes, {
                let store = store.clone();
                move |record| Memory::new(store.clone(), record, false)
            }),
            waiting: Mutex::default(),
            catch_ups: CatchUps::default(),
            maintenance: Maintenance::new(&config),
            summaries: Summaries::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            clock: Clock::wall(),
            subagents: super::subagents::Subagents::default(),
            metrics,
            memory: Arc::new(MemoryRoom::new(slot.clone(), provider_services, config.memory.clone())),
            agents: AgentRooms::new(&config, models),
            shadows: Arc::new(Shadows::new(&config)),
            config,
            store,
            slot,
            runtime,
        })
    }

    /// The room of an agent: its own where the configuration has one, else the gateway's.
    pub(super) fn agent(&self, name: &str) -> Arc<AgentRoom> {
        self.agents.of(name)
    }

    /// A child began, ended, or was refused.
    pub(super) fn count_subagent(&self, record: &SubagentRecord, outcome: &'static str) {
        if let Some(metrics) = &self.metrics {
            metrics.subagent(if record.fork { "fork" } else { "isolated" }, outcome);
        }
    }

    /// Spawns a turn, unless the gateway stops.
    pub(super) fn spawn_turn(&self, turn: impl Future<Output = ()> + Send + 'static) -> Result<(), TurnError> {
        if self.tasks.is_closed() {
            return Err(TurnError::Draining);
        }
        self.tasks.spawn_on(turn, &self.runtime);
        Ok(())
    }

    /// Runs an operation to its end, whether or not the caller waits for it.
    pub(super) async fn finish<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, TurnError>> + Send + 'static,
    ) -> Result<T, TurnError> {
        if self.tasks.is_closed() {
            return Err(TurnError::Draining);
        }
        self.tasks
            .spawn_on(work, &self.runtime)
            .await
            .unwrap_or_else(|error| Err(TurnError::internal(error.to_string())))
    }

    /// True when no turn runs and no optional work runs or waits.
    pub(super) fn is_quiet(&self) -> bool {
        self.tasks.is_empty() && self.maintenance.numbers() == (0, 0)
    }

    /// Runs what blocks off the async threads.
    pub(super) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, TurnError> + Send + 'static,
    ) -> Result<T, TurnError> {
        self.runtime.spawn_blocking(work).await.unwrap_or_else(|error| Err(TurnError::internal(error.to_string())))
    }

    /// Why a submission of a session failed. What stands on an earlier one that failed is refused for what it lacks; then the
    /// first error is the one to tell.
    pub(super) fn cause(&self, row: SessionRow, error: StoreError) -> StoreError {
        match error {
            StoreError::Invalid(_) | StoreError::NotFound(_) => self.store.take_failed(row).unwrap_or(error),
            error => error,
        }
    }

    /// Writes, now and then, what waits for a next turn.
    pub(super) fn start_flushing(self: &Arc<House>) {
        let house = Arc::downgrade(self);
        let stop = self.stop.clone();
        self.runtime.spawn(async move {
            let mut tick = tokio::time::interval(FLUSH_EVERY);
            loop {
                tokio::select! {
                    () = stop.cancelled() => return,
                    _ = tick.tick() => {}
                }
                let Some(house) = house.upgrade() else { return };
                house.flush();
            }
        });
    }

    /// A session has marks that wait for its next turn.
    pub(super) fn note_waiting(&self, key: &Arc<str>) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone());
    }

    /// Writes the marks of sessions that had no next turn yet.
    fn flush(&self) {
        failpoint::pass("turn.flush");
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        for key in waiting {
            // One that is not in memory any more wrote them when it left.
            if let Some(handle) = self.hot.warm(&key) {
                handle.lock().extra.flush();
            }
        }
    }

    pub(super) async fn drain(&self, patience: Duration) -> bool {
        self.tasks.close();
        self.maintenance.cancel_all();
        self.shadows.stop();
        let quiet = tokio::time::timeout(patience, self.tasks.wait()).await.is_ok();
        self.stop.cancel();
        if !quiet {
            // They see the cancel and settle with what is there.
            let _ = tokio::time::timeout(SETTLE_PATIENCE, self.tasks.wait()).await;
        }
        self.maintenance.ended().await;
        self.shadows.ended().await;
        self.flush();
        quiet
    }
}
