//! One turn at a time per session: others wait in order, within a bound, and the lane is free again on every path.
//!
//! Optional work enters a lane that nobody uses, and is told as soon as somebody wants it.

use super::TurnError;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, OwnedMutexGuard};
use tokio_util::sync::CancellationToken;

/// The lanes of all sessions. A lane exists only while somebody uses it.
pub(super) struct Lanes {
    lanes: Mutex<HashMap<Arc<str>, Lane>>,
    /// Most requests that wait behind the running one.
    bound: usize,
    /// Most requests that wait in all.
    total: usize,
    waiting: AtomicUsize,
    /// Longest wait for a turn's place.
    patience: Duration,
}

struct Lane {
    gate: Arc<tokio::sync::Mutex<()>>,
    arrivals: Arc<Notify>,
    /// The last user left.
    left: Arc<Notify>,
    users: usize,
    /// Optional work that is in the lane or waits for it to be free.
    idlers: usize,
}

impl Lanes {
    pub(super) fn new(bound: usize, total: usize, patience: Duration) -> Arc<Lanes> {
        Arc::new(Lanes { lanes: Mutex::default(), bound, total, waiting: AtomicUsize::new(0), patience })
    }

    /// Waits for this session's turn. Dropping the future gives the place in the queue back.
    pub(super) async fn enter(self: &Arc<Lanes>, key: &str) -> Result<LaneGuard, TurnError> {
        let (ticket, gate) = self.take_ticket(key)?;
        if let Ok(held) = gate.clone().try_lock_owned() {
            return Ok(LaneGuard { _held: held, ticket });
        }
        let _waits = Waits::new(self)?;
        let held = tokio::time::timeout(self.patience, gate.lock_owned())
            .await
            .map_err(|_| TurnError::QueueTimeout { seconds: self.patience.as_secs() })?;
        Ok(LaneGuard { _held: held, ticket })
    }

    /// The same for a caller who may go away while it waits: its place in the queue goes with it.
    pub(super) async fn enter_for(
        self: &Arc<Lanes>,
        key: &str,
        client: &CancellationToken,
    ) -> Result<LaneGuard, TurnError> {
        tokio::select! {
            biased;
            () = client.cancelled() => Err(TurnError::Cancelled),
            lane = self.enter(key) => lane,
        }
    }

    /// Waits, as long as it takes, until nobody uses or wants this session. Takes no place in the queue. Dropping the future is
    /// enough to leave.
    pub(super) async fn enter_idle(self: &Arc<Lanes>, key: &str) -> LaneGuard {
        loop {
            let (ticket, gate, left) = self.take_idle_ticket(key);
            ticket.unused(&left).await;
            // Behind other optional work of the session, if there is any.
            let held = gate.lock_owned().await;
            if !ticket.is_wanted() {
                return LaneGuard { _held: held, ticket };
            }
        }
    }

    fn take_idle_ticket(self: &Arc<Lanes>, key: &str) -> (Ticket, Arc<tokio::sync::Mutex<()>>, Arc<Notify>) {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let (key, lane) = lane_of(&mut lanes, key);
        lane.idlers += 1;
        let ticket = Ticket { lanes: self.clone(), key, arrivals: lane.arrivals.clone(), idle: true };
        (ticket, lane.gate.clone(), lane.left.clone())
    }

    fn take_ticket(self: &Arc<Lanes>, key: &str) -> Result<(Ticket, Arc<tokio::sync::Mutex<()>>), TurnError> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let (key, lane) = lane_of(&mut lanes, key);
        if lane.users > self.bound {
            return Err(TurnError::QueueFull { waiting: self.bound });
        }
        lane.users += 1;
        lane.arrivals.notify_waiters();
        let ticket = Ticket { lanes: self.clone(), key, arrivals: lane.arrivals.clone(), idle: false };
        Ok((ticket, lane.gate.clone()))
    }

    /// Requests that wait.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Sessions with a running or waiting turn.
    #[cfg(test)]
    pub(super) fn busy(&self) -> usize {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// The lane of a session, made when it is not there.
fn lane_of<'a>(lanes: &'a mut HashMap<Arc<str>, Lane>, key: &str) -> (Arc<str>, &'a mut Lane) {
    let key: Arc<str> = match lanes.get_key_value(key) {
        Some((known, _)) => known.clone(),
        None => Arc::from(key),
    };
    let lane = lanes.entry(key.clone()).or_insert_with(|| Lane {
        gate: Arc::default(),
        arrivals: Arc::new(Notify::new()),
        left: Arc::new(Notify::new()),
        users: 0,
        idlers: 0,
    });
    (key, lane)
}

/// A request that waits; counted until it does not.
struct Waits<'a>(&'a Lanes);

impl Waits<'_> {
    fn new(lanes: &Lanes) -> Result<Waits<'_>, TurnError> {
        let before = lanes.waiting.fetch_add(1, Ordering::Relaxed);
        let waits = Waits(lanes);
        if before < lanes.total { Ok(waits) } else { Err(TurnError::QueuesFull { waiting: lanes.total }) }
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A place in the queue of a session; given back when dropped.
struct Ticket {
    lanes: Arc<Lanes>,
    key: Arc<str>,
    arrivals: Arc<Notify>,
    /// Of optional work.
    idle: bool,
}

impl Ticket {
    /// True when somebody else wants the lane; optional work does not count.
    fn is_wanted(&self) -> bool {
        let lanes = self.lanes.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.get(&self.key).is_some_and(|lane| lane.users > usize::from(!self.idle))
    }

    /// Completes when the lane has no user.
    async fn unused(&self, left: &Notify) {
        loop {
            let gone = left.notified();
            tokio::pin!(gone);
            gone.as_mut().enable();
            if !self.is_wanted() {
                return;
            }
            gone.await;
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut lanes = self.lanes.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lanes.get_mut(&self.key) {
            match self.idle {
                true => lane.idlers -= 1,
                false => lane.users -= 1,
            }
            if lane.users == 0 {
                lane.left.notify_waiters();
                if lane.idlers == 0 {
                    lanes.remove(&self.key);
                }
            }
        }
    }
}

/// The right to run a turn of one session. Fields drop in order: the gate opens before the place is given back.
pub(super) struct LaneGuard {
    _held: OwnedMutexGuard<()>,
    ticket: Ticket,
}

impl LaneGuard {
    /// Completes when another request waits for this session, at once if one does already.
    pub(super) async fn wanted(&self) {
        let arrival = self.ticket.arrivals.notified();
        tokio::pin!(arrival);
        // Registered before the count is read, so that an arrival in between is not missed.
        arrival.as_mut().enable();
        if !self.ticket.is_wanted() {
            arrival.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(bound: usize) -> Arc<Lanes> {
        Lanes::new(bound, 64, Duration::from_secs(30))
    }

    #[tokio::test]
    async fn others_wait_in_the_order_in_which_they_came() {
        let lanes = lanes(8);
        let first = lanes.enter("s").await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for number in 0..4 {
            let (lanes, order) = (lanes.clone(), order.clone());
            waiting.push(tokio::spawn(async move {
                let _lane = lanes.enter("s").await.unwrap();
                order.lock().unwrap().push(number);
            }));
            tokio::task::yield_now().await;
        }
        assert!(order.lock().unwrap().is_empty());
        drop(first);
        for task in waiting {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3]);
        assert_eq!(lanes.busy(), 0);
    }

    #[tokio::test]
    async fn a_full_queue_refuses_at_once_and_other_sessions_are_not_affected() {
        let lanes = lanes(1);
        let running = lanes.enter("s").await.unwrap();
        let waiting = tokio::spawn({
            let lanes = lanes.clone();
            async move { lanes.enter("s").await.map(|_| ()) }
        });
        tokio::task::yield_now().await;
        assert!(matches!(lanes.enter("s").await, Err(TurnError::QueueFull { waiting: 1 })));
        assert!(lanes.enter("other").await.is_ok());
        drop(running);
        waiting.await.unwrap().unwrap();
        assert_eq!(lanes.busy(), 0);
    }

    #[tokio::test]
    async fn all_queues_together_have_a_bound_and_a_free_session_is_not_affected() {
        let lanes = Lanes::new(8, 2, Duration::from_secs(30));
        let running = [lanes.enter("a").await.unwrap(), lanes.enter("b").await.unwrap()];
        let (mut one, mut two) = (Box::pin(lanes.enter("a")), Box::pin(lanes.enter("b")));
        assert!(futures_util::poll!(&mut one).is_pending() && futures_util::poll!(&mut two).is_pending());
        assert!(matches!(lanes.enter("b").await, Err(TurnError::QueuesFull { waiting: 2 })));
        assert!(lanes.enter("c").await.is_ok());
        drop(one);
        let mut three = Box::pin(lanes.enter("b"));
        assert!(futures_util::poll!(&mut three).is_pending(), "the place of the one that gave up is free");
        drop((two, three, running));
        assert_eq!((lanes.busy(), lanes.waiting.load(Ordering::Relaxed)), (0, 0));
    }

    #[tokio::test]
    async fn a_waiter_that_gives_up_leaves_its_place() {
        let lanes = lanes(1);
        let running = lanes.enter("s").await.unwrap();
        {
            let mut gone = Box::pin(lanes.enter("s"));
            assert!(futures_util::poll!(&mut gone).is_pending());
            assert!(matches!(lanes.enter("s").await, Err(TurnError::QueueFull { .. })));
        }
        let next = tokio::spawn({
            let lanes = lanes.clone();
            async move { lanes.enter("s").await.map(|_| ()) }
        });
        tokio::task::yield_now().await;
        drop(running);
        next.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn nobody_waits_for_ever() {
        let lanes = Lanes::new(1, 64, Duration::ZERO);
        let _running = lanes.enter("s").await.unwrap();
        assert!(matches!(lanes.enter("s").await, Err(TurnError::QueueTimeout { seconds: 0 })));
    }

    #[tokio::test]
    async fn optional_work_waits_for_an_unused_lane_and_learns_that_it_is_wanted() {
        let lanes = lanes(0);
        let turn = lanes.enter("s").await.unwrap();
        let mut optional = Box::pin(lanes.enter_idle("s"));
        assert!(futures_util::poll!(&mut optional).is_pending());
        let mut wanted = Box::pin(turn.wanted());
        assert!(futures_util::poll!(&mut wanted).is_pending(), "optional work wants nothing from a turn");
        drop(wanted);
        drop(turn);
        let optional = optional.await;
        let mut wanted = Box::pin(optional.wanted());
        assert!(futures_util::poll!(&mut wanted).is_pending());
        // It takes no place in the queue either: a lane that lets nobody wait has room for a turn.
        let mut next = Box::pin(lanes.enter("s"));
        assert!(futures_util::poll!(&mut next).is_pending());
        wanted.await;
        let mut again = Box::pin(lanes.enter_idle("s"));
        assert!(futures_util::poll!(&mut again).is_pending());
        drop(optional);
        drop(next.await.unwrap());
        drop(again.await);
        assert_eq!(lanes.busy(), 0);
    }

    #[tokio::test]
    async fn the_holder_learns_that_its_lane_is_wanted() {
        let lanes = lanes(1);
        let running = lanes.enter("s").await.unwrap();
        let mut wanted = Box::pin(running.wanted());
        assert!(futures_util::poll!(&mut wanted).is_pending());
        let mut next = Box::pin(lanes.enter("s"));
        assert!(futures_util::poll!(&mut next).is_pending());
        wanted.await;
        running.wanted().await;
    }
}
