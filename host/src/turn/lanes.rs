//! One turn at a time per session: others wait in order, within a bound, and the lane is free again on every path.

use super::TurnError;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, OwnedMutexGuard};

/// The lanes of all sessions. A lane exists only while somebody uses it.
pub(super) struct Lanes {
    lanes: Mutex<HashMap<Arc<str>, Lane>>,
    /// Most requests that wait behind the running one.
    bound: usize,
    /// Longest wait for a turn's place.
    patience: Duration,
}

struct Lane {
    gate: Arc<tokio::sync::Mutex<()>>,
    arrivals: Arc<Notify>,
    users: usize,
}

impl Lanes {
    pub(super) fn new(bound: usize, patience: Duration) -> Arc<Lanes> {
        Arc::new(Lanes { lanes: Mutex::default(), bound, patience })
    }

    /// Waits for this session's turn. Dropping the future gives the place in the queue back.
    pub(super) async fn enter(self: &Arc<Lanes>, key: &str) -> Result<LaneGuard, TurnError> {
        let (ticket, gate) = self.take_ticket(key)?;
        let held = tokio::time::timeout(self.patience, gate.lock_owned())
            .await
            .map_err(|_| TurnError::QueueTimeout { seconds: self.patience.as_secs() })?;
        Ok(LaneGuard { _held: held, ticket })
    }

    fn take_ticket(self: &Arc<Lanes>, key: &str) -> Result<(Ticket, Arc<tokio::sync::Mutex<()>>), TurnError> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let key: Arc<str> = match lanes.get_key_value(key) {
            Some((known, _)) => known.clone(),
            None => Arc::from(key),
        };
        let lane = lanes.entry(key.clone()).or_insert_with(|| Lane {
            gate: Arc::default(),
            arrivals: Arc::new(Notify::new()),
            users: 0,
        });
        if lane.users > self.bound {
            return Err(TurnError::QueueFull { waiting: self.bound });
        }
        lane.users += 1;
        lane.arrivals.notify_waiters();
        let ticket = Ticket { lanes: self.clone(), key, arrivals: lane.arrivals.clone() };
        Ok((ticket, lane.gate.clone()))
    }

    /// Sessions with a running or waiting turn.
    #[cfg(test)]
    pub(super) fn busy(&self) -> usize {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

/// A place in the queue of a session; given back when dropped.
struct Ticket {
    lanes: Arc<Lanes>,
    key: Arc<str>,
    arrivals: Arc<Notify>,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut lanes = self.lanes.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lane) = lanes.get_mut(&self.key) {
            lane.users -= 1;
            if lane.users == 0 {
                lanes.remove(&self.key);
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
        let waiting = {
            let lanes = self.ticket.lanes.lanes.lock().unwrap_or_else(PoisonError::into_inner);
            lanes.get(&self.ticket.key).is_some_and(|lane| lane.users > 1)
        };
        if !waiting {
            arrival.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lanes(bound: usize) -> Arc<Lanes> {
        Lanes::new(bound, Duration::from_secs(30))
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
        let lanes = Lanes::new(1, Duration::ZERO);
        let _running = lanes.enter("s").await.unwrap();
        assert!(matches!(lanes.enter("s").await, Err(TurnError::QueueTimeout { seconds: 0 })));
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
