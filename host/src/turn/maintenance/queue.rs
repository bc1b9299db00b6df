//! The queue: at most one run and one merged rerun per session and engine.

use super::run::Ended;
use super::status::{LastRun, MaintenanceState, MaintenanceStatus};
use crate::observe::broken;
use crate::slot::{Background, Lease};
use crate::sync::{Mutex, MutexGuard};
use crate::turn::clock::now_ms;
use crate::turn::house::House;
use crate::turn::lanes::{LaneGuard, Lanes};
use crate::turn::session::Session;
use serde_json::{Map, Value};
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Deadline of a background run when the configuration names none.
const DEADLINE_MS: u64 = 300_000;
/// How long a run that is in the way of a turn may go on when the configuration names nothing.
const GIVE_WAY_MS: u64 = 2_000;
/// Runs of one engine at once: its threads are for turns first.
const RUNS_PER_ENGINE: usize = 4;
/// Most sessions that wait.
const JOBS: usize = 4_096;
/// Sessions whose last run is remembered.
const REMEMBERED: usize = 1_024;

/// What is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::turn) enum Kind {
    /// `maintain` after an accepted turn.
    Maintain,
    /// A compaction that was put off.
    Compact,
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Kind::Maintain => "maintain",
            Kind::Compact => "compact",
        }
    }
}

/// Everything that a run needs; kept alive until it is over.
#[derive(Debug, Clone)]
pub(in crate::turn) struct Params {
    /// The engine that serves; holding the lease holds its instance.
    pub(in crate::turn) lease: Lease,
    /// Tokens that the history should fit in, when that is known.
    pub(in crate::turn) token_budget: Option<u64>,
    /// Tokens that it costs now, as the host measured it.
    pub(in crate::turn) current_tokens: Option<u64>,
    /// The turn was a heartbeat.
    pub(in crate::turn) heartbeat: bool,
    /// Tokens of the system prompt and of the tool schemas of the turn.
    pub(in crate::turn) fixed_tokens: (u64, u64),
    /// What the client asked for beside its messages.
    pub(in crate::turn) params: Map<String, Value>,
}

/// What a job has to do: each kind once, with the latest parameters.
#[derive(Debug, Clone, Default)]
pub(super) struct Wanted {
    pub(super) maintain: Option<Params>,
    pub(super) compact: Option<Params>,
}

impl Wanted {
    pub(super) fn set(&mut self, kind: Kind, params: Params) {
        match kind {
            Kind::Maintain => self.maintain = Some(params),
            Kind::Compact => self.compact = Some(params),
        }
    }

    /// What is to be done next: the compaction comes first.
    pub(super) fn take(&mut self) -> Option<(Kind, Params)> {
        let compact = self.compact.take().map(|params| (Kind::Compact, params));
        compact.or_else(|| self.maintain.take().map(|params| (Kind::Maintain, params)))
    }

    /// Takes up again what was not done; what was wanted since is newer.
    fn restore(&mut self, undone: Wanted) {
        self.maintain = self.maintain.take().or(undone.maintain);
        self.compact = self.compact.take().or(undone.compact);
    }

    fn is_empty(&self) -> bool {
        self.maintain.is_none() && self.compact.is_none()
    }

    fn kinds(&self) -> Vec<&'static str> {
        let kinds = [(&self.compact, Kind::Compact), (&self.maintain, Kind::Maintain)];
        kinds.iter().filter(|(wanted, _)| wanted.is_some()).map(|(_, kind)| kind.name()).collect()
    }
}

/// Why nothing was queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(in crate::turn) enum Refused {
    /// The gateway stops.
    #[error("the gateway is stopping")]
    Draining,
    /// Nothing of the session is stored.
    #[error("the session is ephemeral")]
    Ephemeral,
    /// Too many sessions wait.
    #[error("{JOBS} sessions wait already")]
    Full,
}

/// A session and the engine that the work is for.
type Id = (Arc<str>, String);

struct Job {
    wanted: Wanted,
    /// What runs, since when.
    running: Option<(Vec<&'static str>, i64)>,
    /// What waited was given up by a stop.
    dropped: bool,
    queued_ms: i64,
}

#[derive(Default)]
struct Inner {
    draining: bool,
    jobs: HashMap<Id, Job>,
    last: HashMap<Id, LastRun>,
    /// The ids of `last`, oldest first.
    order: VecDeque<Id>,
    permits: HashMap<String, Arc<Semaphore>>,
}

impl Inner {
    fn remember(&mut self, id: &Id, last: LastRun) {
        if self.last.insert(id.clone(), last).is_none() {
            self.order.push_back(id.clone());
            if self.order.len() > REMEMBERED
                && let Some(oldest) = self.order.pop_front()
            {
                self.last.remove(&oldest);
            }
        }
    }
}

/// What the queue works in: the gateway's house, and in a test whatever looks at it closely.
pub(super) trait Surroundings: Send + Sync + Sized + 'static {
    /// The queue itself.
    fn queue(&self) -> &Maintenance;

    /// The lanes of the sessions.
    fn lanes(&self) -> &Arc<Lanes>;

    /// Sets off a job.
    fn spawn(&self, job: impl Future<Output = ()> + Send + 'static);

    /// Does what is wanted, as far as it comes.
    fn run(
        self: &Arc<Self>,
        key: &str,
        wanted: Wanted,
        lane: LaneGuard,
        stop: &CancellationToken,
    ) -> impl Future<Output = Ended> + Send;

    /// Counts how a run ended and how long it took; nothing has run when there is no time.
    fn count(&self, engine: &str, outcome: &str, ms: Option<u64>);
}

impl Surroundings for House {
    fn queue(&self) -> &Maintenance {
        &self.maintenance
    }

    fn lanes(&self) -> &Arc<Lanes> {
        &self.lanes
    }

    fn spawn(&self, job: impl Future<Output = ()> + Send + 'static) {
        drop(self.runtime.spawn(job));
    }

    async fn run(self: &Arc<Self>, key: &str, wanted: Wanted, lane: LaneGuard, stop: &CancellationToken) -> Ended {
        super::run::run(self, key, wanted, lane, stop).await
    }

    fn count(&self, engine: &str, outcome: &str, ms: Option<u64>) {
        if let Some(metrics) = &self.metrics {
            metrics.maintenance(engine, outcome);
            if let Some(ms) = ms {
                metrics.maintenance_time(Duration::from_millis(ms));
            }
        }
    }
}

/// The queue of one gateway.
pub(in crate::turn) struct Maintenance {
    inner: Mutex<Inner>,
    pub(super) tasks: TaskTracker,
    stop: CancellationToken,
    /// How long a run may take.
    pub(super) limits: Background,
}

impl Maintenance {
    /// An empty queue with the deadlines of `[plugins.deadlines]`.
    pub(in crate::turn) fn new(config: &crate::config::Config) -> Maintenance {
        let ms = |name: &str, default| {
            Duration::from_millis(config.plugins.deadlines.get(name).copied().unwrap_or(default).max(1))
        };
        Maintenance {
            inner: Mutex::default(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            limits: Background {
                deadline: ms(if broken("8.79") { "" } else { "background_maintain" }, DEADLINE_MS),
                give_way: if broken("9.2") || broken("9.32") {
                    Duration::from_secs(3600)
                } else {
                    ms("give_way", GIVE_WAY_MS)
                },
            },
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues work for a session and the engine of `params.lease`. It runs when nobody uses the session. Wanted again before it
    /// runs, or while it runs, it runs once more at most, with the latest parameters. Comes back at once.
    ///
    /// # Errors
    ///
    /// Why it will not run; it is noted as cancelled with that reason.
    pub(in crate::turn) fn queue(
        &self,
        house: &Arc<House>,
        session: &Session,
        kind: Kind,
        params: Params,
    ) -> Result<(), Refused> {
        let Some(key) = session.key.clone() else { return Err(Refused::Ephemeral) };
        self.enqueue(house, key, kind, params)
    }

    pub(super) fn enqueue<S: Surroundings>(
        &self,
        house: &Arc<S>,
        key: Arc<str>,
        kind: Kind,
        params: Params,
    ) -> Result<(), Refused> {
        let mut id: Id = (key, params.lease.engine().id().to_owned());
        if broken("8.72") || broken("9.4") {
            id.1 = format!("{}#{:?}", id.1, std::time::Instant::now());
        }
        let mut inner = self.inner();
        let refused = match inner.jobs.len() {
            _ if inner.draining && !broken("8.74") => Some(Refused::Draining),
            waiting if waiting >= JOBS && !inner.jobs.contains_key(&id) => Some(Refused::Full),
            _ => None,
        };
        if let Some(refused) = refused {
            if !broken("8.75") {
                inner.remember(&id, cancelled(refused.to_string()));
            }
            drop(inner);
            tracing::info!(
                engine = id.1,
                session = &*id.0,
                kind = kind.name(),
                "maintenance was not queued: {refused}"
            );
            house.count(&id.1, "cancelled", None);
            return Err(refused);
        }
        let mut new = false;
        let job = inner.jobs.entry(id.clone()).or_insert_with(|| {
            new = true;
            Job { wanted: Wanted::default(), running: None, dropped: false, queued_ms: now_ms() }
        });
        job.wanted.set(kind, params);
        if new {
            // Under the lock, so that a stop finds it either in the tracker or refused.
            house.spawn(self.tasks.track_future(work(house.clone(), id)));
        }
        Ok(())
    }

    /// How many sessions wait, and how many runs there are.
    pub(in crate::turn) fn numbers(&self) -> (usize, usize) {
        let inner = self.inner();
        let running = inner.jobs.values().filter(|job| job.running.is_some()).count();
        (inner.jobs.len() - running, running)
    }

    /// Where the work stands for each session and engine for which `wanted` says true, as far as it is remembered.
    pub(in crate::turn) fn status(&self, wanted: impl Fn(&str, &str) -> bool) -> Vec<MaintenanceStatus> {
        let inner = self.inner();
        let idle = inner.last.keys().filter(|id| !inner.jobs.contains_key(*id));
        let mut found: Vec<MaintenanceStatus> = inner
            .jobs
            .keys()
            .chain(idle)
            .filter(|(session, engine)| wanted(session, engine))
            .map(|id| status_of(&inner, id))
            .collect();
        found.sort_by(|a, b| (&a.session, &a.engine).cmp(&(&b.session, &b.engine)));
        found
    }

    /// Refuses what comes, forgets what waits, cancels what runs.
    pub(in crate::turn) fn cancel_all(&self) {
        let mut inner = self.inner();
        if std::mem::replace(&mut inner.draining, true) {
            return;
        }
        let waiting: Vec<Id> = inner
            .jobs
            .iter_mut()
            .filter_map(|(id, job)| {
                job.dropped = !std::mem::take(&mut job.wanted).is_empty();
                job.dropped.then(|| id.clone())
            })
            .collect();
        for id in &waiting {
            inner.remember(id, cancelled(SHUTDOWN.into()));
        }
        drop(inner);
        self.tasks.close();
        if !broken("8.78") {
            self.stop.cancel();
        }
    }

    /// Waits until nothing of it is left, no longer than a run may take to give way.
    pub(in crate::turn) async fn ended(&self) {
        let patience = self.limits.give_way + Duration::from_secs(1);
        if broken("8.73") {
            return;
        }
        if tokio::time::timeout(patience, self.tasks.wait()).await.is_err() {
            tracing::warn!("maintenance did not end when it was cancelled");
        }
    }
}

/// Why a stop cancels.
pub(super) const SHUTDOWN: &str = "cancelled during shutdown";

fn cancelled(reason: String) -> LastRun {
    LastRun {
        outcome: "cancelled",
        reason: Some(reason),
        ended_ms: now_ms(),
        duration_ms: 0,
        changed: false,
        bytes_freed: 0,
        rewritten_entries: 0,
    }
}

fn status_of(inner: &Inner, id: &Id) -> MaintenanceStatus {
    let job = inner.jobs.get(id);
    let (state, kinds, since_ms) = match job {
        None => (MaintenanceState::Idle, Vec::new(), None),
        Some(Job { running: Some((kinds, since)), .. }) => (MaintenanceState::Running, kinds.clone(), Some(*since)),
        Some(job) => (MaintenanceState::Queued, job.wanted.kinds(), Some(job.queued_ms)),
    };
    MaintenanceStatus {
        session: id.0.to_string(),
        engine: id.1.clone(),
        state,
        kinds,
        since_ms,
        rerun: job.is_some_and(|job| job.running.is_some() && !job.wanted.is_empty()),
        last: inner.last.get(id).cloned(),
    }
}

/// A job that is worked on; should the work break off, the next one for it begins anew.
struct Working<'a> {
    queue: &'a Maintenance,
    id: &'a Id,
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.queue.inner().jobs.remove(self.id);
        }
    }
}

/// Works on a job until nothing is wanted any more.
async fn work<S: Surroundings>(house: Arc<S>, id: Id) {
    let queue = house.queue();
    let _working = Working { queue, id: &id };
    let permits = {
        let mut inner = queue.inner();
        let new = || Arc::new(Semaphore::new(RUNS_PER_ENGINE));
        inner.permits.entry(id.1.clone()).or_insert_with(new).clone()
    };
    loop {
        let place = async {
            let permit = permits.clone().acquire_owned().await;
            (permit, house.lanes().enter_idle(&id.0).await)
        };
        let place = tokio::select! {
            biased;
            () = queue.stop.cancelled() => None,
            place = place => Some(place),
        };
        let wanted = {
            let mut inner = queue.inner();
            let Some(job) = inner.jobs.get_mut(&id) else { return };
            let wanted = std::mem::take(&mut job.wanted);
            if place.is_none() || wanted.is_empty() {
                inner.jobs.remove(&id);
                return;
            }
            job.running = Some((wanted.kinds(), now_ms()));
            wanted
        };
        let Some((permit, lane)) = place else { return };
        let ended = house.run(&id.0, wanted, lane, &queue.stop).await;
        drop(permit);
        house.count(&id.1, ended.last.outcome, Some(ended.last.duration_ms));
        let Ended { last, undone } = ended;
        let mut inner = queue.inner();
        let draining = inner.draining;
        let Some(job) = inner.jobs.get_mut(&id) else { return };
        job.running = None;
        job.queued_ms = now_ms();
        // What will not run any more must not be hidden behind a run that went well, or be called queued again.
        let lost = draining && (job.dropped || !undone.is_empty());
        if !draining {
            job.wanted.restore(undone);
        }
        let over = job.wanted.is_empty();
        if over {
            inner.jobs.remove(&id);
        }
        inner
            .remember(&id, if lost { LastRun { ended_ms: last.ended_ms, ..cancelled(SHUTDOWN.into()) } } else { last });
        if over {
            return;
        }
    }
}
