//! A shadow: an engine that watches the slot. It is fed like the one that serves and assembles for the same turns with the same
//! budget, and nobody is sent what it gives; so an operator can try an engine without risk.
//!
//! ```text
//!  turn ─ answer stored (with the shadow's own outbox row) ─ hand over ─ lane free ─► next turn: gives way ┐
//!                                                                  │                                       ▼ cancel
//!                                                                  └► watch: earlier rows ─ bootstrap ─ assemble ─ commitTurn
//!                                                                                                 │
//!                                                                     turn record, metrics ◄── compare with what was shown
//! ```
//!
//! It runs off the reply's path and off the lane: no turn waits for it. A turn that wants the session cancels it; what it did not
//! take stays in its outbox, or is read through the cursor, and is taken before the next turn is watched. Its latch is its own,
//! and nothing that it does is felt by the session: no tools, no compaction, no rewriting, no `maintain`, no `llm.complete`.

mod shown;
mod stats;
mod watch;

pub(super) use shown::Shown;
pub use stats::ShadowStatus;

use super::house::House;
use super::run::TurnRun;
use super::session::State;
use crate::config::Config;
use crate::slot::LEGACY;
use crate::transcript::{EntryId, OutboxRow, Write};
use serde_json::{Map, Value};
use stats::Stats;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Most turns of a session that wait for a shadow; further ones reach it through the cursor.
const ROWS: usize = 64;
/// How long a stop waits for shadows that were told to give way.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

/// The shadows that run, and what they found.
pub(super) struct Shadows {
    /// The engine that watches; `None` when the slot has none.
    engine: Option<String>,
    running: Mutex<HashMap<Arc<str>, Running>>,
    /// Runs so far.
    runs: AtomicU64,
    stats: Mutex<BTreeMap<String, Stats>>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// The newest run of a session. An older one that did not end yet is waited for by it.
struct Running {
    number: u64,
    cancel: CancellationToken,
    over: CancellationToken,
}

/// A turn to be watched.
pub(super) struct Watched {
    session: Arc<super::session::Session>,
    key: Arc<str>,
    turn_id: String,
    logical_id: String,
    /// First entry of the turn.
    first: EntryId,
    /// Engine that served.
    served: String,
    shown: Shown,
    params: Map<String, Value>,
    heartbeat: bool,
    fixed_tokens: (u64, u64),
    memory: Option<crate::memory::MemorySnapshot>,
}

impl Shadows {
    pub(super) fn new(config: &Config) -> Shadows {
        Shadows {
            engine: config.plugins.context_engine_policy.shadow.clone().filter(|_| config.plugins.enabled),
            running: Mutex::default(),
            runs: AtomicU64::new(0),
            stats: Mutex::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    /// True when the slot has a shadow.
    pub(super) fn watches(&self) -> bool {
        self.engine.is_some()
    }

    /// True for the engine that only watches. `legacy` may watch, and serves all the same.
    pub(super) fn only_watches(&self, engine: &str) -> bool {
        engine != LEGACY && self.engine.as_deref() == Some(engine)
    }

    fn running(&self) -> MutexGuard<'_, HashMap<Arc<str>, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A turn wants the session: whatever watches it stops. Comes back at once.
    pub(super) fn give_way(&self, key: &str) {
        if let Some(running) = self.running().get(key) {
            running.cancel.cancel();
        }
    }

    /// The same, and waits until nothing of a shadow is inside the session: at most for the deadline of its hook.
    pub(super) async fn gone(&self, key: &str) {
        let over = {
            let running = self.running();
            let Some(running) = running.get(key) else { return };
            running.cancel.cancel();
            running.over.clone()
        };
        over.cancelled().await;
    }

    /// Watches a turn, after whatever watches the session still.
    pub(super) fn start(self: &Arc<Shadows>, house: &Arc<House>, turn: Watched) {
        if self.stop.is_cancelled() {
            return;
        }
        let number = self.runs.fetch_add(1, Ordering::Relaxed);
        let (cancel, over) = (self.stop.child_token(), CancellationToken::new());
        let before = {
            let mut running = self.running();
            let this = Running { number, cancel: cancel.clone(), over: over.clone() };
            running.insert(turn.key.clone(), this)
        };
        if let Some(before) = &before {
            before.cancel.cancel();
        }
        let (shadows, house) = (self.clone(), house.clone());
        let runtime = house.runtime.clone();
        self.tasks.spawn_on(
            async move {
                // Whatever happens in it, who waits for it is told.
                let guard = over.drop_guard();
                if let Some(before) = before {
                    before.over.cancelled().await;
                }
                let key = turn.key.clone();
                watch::watch(&house, &shadows, turn, cancel).await;
                let mut running = shadows.running();
                // A newer run may have taken the place; it waits for this one.
                if running.get(&key).is_some_and(|newest| newest.number == number) {
                    running.remove(&key);
                }
                drop(running);
                drop(guard);
            },
            &runtime,
        );
    }

    /// Starts no more, and tells all that run to give way.
    pub(super) fn stop(&self) {
        self.tasks.close();
        self.stop.cancel();
    }

    /// Waits, not for long, until none runs.
    pub(super) async fn ended(&self) {
        if tokio::time::timeout(STOP_PATIENCE, self.tasks.wait()).await.is_err() {
            tracing::warn!("a shadow engine did not give way when the gateway stopped");
        }
    }

    /// What an engine found while it watched; `None` when it never did and does not.
    pub(super) fn status(&self, engine: &str) -> Option<ShadowStatus> {
        let found = self.stats.lock().unwrap_or_else(PoisonError::into_inner).get(engine).map(Stats::status);
        found.or_else(|| (self.engine.as_deref() == Some(engine)).then(ShadowStatus::default))
    }

    fn count(&self, engine: &str, count: impl FnOnce(&mut Stats)) {
        count(self.stats.lock().unwrap_or_else(PoisonError::into_inner).entry(engine.to_owned()).or_default());
    }
}

impl TurnRun {
    /// The row of a turn that is accepted, for the shadow: it takes the turn over as the engine that served does.
    pub(super) fn row_for_shadow(&self, state: &mut State<'_>, row: &OutboxRow, writes: &mut Vec<Write>) {
        // A host that keeps the conversation asks no engine for it: there is nothing to watch.
        if self.shown.is_none() {
            return;
        }
        let Some(engine) = self.house.slot.shadow(&state.record().agent).and_then(Result::ok) else { return };
        let waiting = state.extra.outbox.iter().filter(|row| row.engine == engine.id()).count();
        if waiting < ROWS && engine.id() != row.engine {
            state.put_row(OutboxRow { engine: engine.id().to_owned(), ..row.clone() }, writes);
        }
    }

    /// The turn as a shadow watches it, once it is accepted.
    pub(super) fn watched(&mut self) -> Option<Watched> {
        let shown = self.shown.take()?;
        let key = self.session.key.clone()?;
        let accepted = {
            let state = self.session.state();
            let open = state.admitted_row(&self.admitted.logical_id).is_some();
            !open && !self.aborted
        };
        accepted.then(|| Watched {
            session: self.session.clone(),
            key,
            turn_id: self.admitted.turn_id.clone(),
            logical_id: self.admitted.logical_id.clone(),
            first: self.admitted.first,
            served: self.lease.engine().id().to_owned(),
            shown,
            params: self.params.clone(),
            heartbeat: self.heartbeat,
            fixed_tokens: (self.system_tokens, self.tool_tokens),
            memory: self.services.memory().snapshot(),
        })
    }

    /// Has the shadow watch the turn. One that waits for the lane makes it give way when its turn begins; whoever else wants the
    /// session does not.
    pub(super) fn start_shadow(&self, turn: Watched) {
        self.house.shadows.start(&self.house, turn);
    }
}
