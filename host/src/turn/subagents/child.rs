//! A child that runs in this process.

use super::super::agents::AgentRoom;
use super::budget::{Meter, budgeted};
use crate::transcript::{SubagentEnd, SubagentRecord};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// See the module.
pub(in super::super) struct Child {
    pub(super) key: Arc<str>,
    pub(super) parent: Arc<str>,
    record: Mutex<SubagentRecord>,
    meter: Arc<Meter>,
    started: Instant,
    /// Ends its turn.
    pub(super) cancel: CancellationToken,
    /// Why it is ended, when somebody ends it.
    why: OnceLock<(SubagentEnd, String)>,
    /// Fires when everything that follows its end is done.
    pub(super) done: CancellationToken,
    /// Told when the task is admitted and on disk.
    admitted: Mutex<Option<oneshot::Sender<()>>>,
}

impl Child {
    pub(super) fn new(record: SubagentRecord) -> Arc<Child> {
        Arc::new(Child {
            key: Arc::from(record.child.as_str()),
            parent: Arc::from(record.parent.as_str()),
            meter: Meter::new(record.budgets, record.usage),
            record: Mutex::new(record),
            started: Instant::now(),
            cancel: CancellationToken::new(),
            why: OnceLock::new(),
            done: CancellationToken::new(),
            admitted: Mutex::default(),
        })
    }

    /// What is known of it now.
    pub(super) fn record(&self) -> SubagentRecord {
        let mut record = self.lock().clone();
        record.usage = self.meter.usage(record.usage.time_ms.max(self.elapsed_ms()));
        record
    }

    /// Changes what is known of it, and gives it.
    pub(super) fn change(&self, change: impl FnOnce(&mut SubagentRecord)) -> SubagentRecord {
        change(&mut self.lock());
        self.record()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, SubagentRecord> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// How long it may still run, and what is said when it does not: its time budget, or its life.
    pub(super) fn time_left(&self, now_ms: i64) -> (Duration, SubagentEnd, String) {
        let record = self.lock();
        let life = Duration::from_millis(u64::try_from(record.expires_ms - now_ms).unwrap_or(0));
        let budget = Duration::from_millis(record.budgets.time_ms).saturating_sub(self.started.elapsed());
        if record.budgets.time_ms != 0 && budget < life {
            let cause = format!("the budget is used up: time: {} ms", record.budgets.time_ms);
            return (budget, SubagentEnd::Released, cause);
        }
        (life, SubagentEnd::Swept, "its time to live was over".into())
    }

    /// Ends it. The first who does says why.
    pub(super) fn stop(&self, reason: SubagentEnd, cause: impl Into<String>) {
        let _ = self.why.set((reason, cause.into()));
        self.cancel.cancel();
    }

    /// Why somebody ended it.
    pub(super) fn stopped(&self) -> Option<(SubagentEnd, String)> {
        self.why.get().cloned()
    }

    /// Who wants to know when the task is admitted.
    pub(super) fn when_admitted(&self) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        *self.admitted.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender);
        receiver
    }

    /// The task is admitted and on disk.
    pub(in super::super) fn admitted(&self) {
        if let Some(sender) = self.admitted.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // Nobody waits when its task is begun again after a restart.
            let _ = sender.send(());
        }
    }

    /// The room of its agent, with its budget between its turn and the model.
    pub(in super::super) fn room(&self, agent: &AgentRoom) -> Arc<AgentRoom> {
        let model = budgeted(agent.model.clone(), agent.counter.clone(), Arc::clone(&self.meter));
        Arc::new(agent.with_model(model))
    }

    /// What a turn record says of it.
    pub(in super::super) fn facts(&self) -> serde_json::Value {
        let record = self.lock();
        serde_json::json!({
            "parent": record.parent,
            "depth": record.depth,
            "mode": if record.fork { "fork" } else { "isolated" },
            "label": record.label,
            "attempt": record.attempts,
        })
    }
}
