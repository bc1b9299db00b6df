//! What is wrong with the store now, for whoever asks: probes of readiness, `doctor`, and sessions whose memory ran ahead.

use crate::transcript::{SessionRow, StoreError};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most sessions of which a failed write is remembered: beyond that they are all read anew when they are next used.
const MOST: usize = 10_000;

#[derive(Debug, Default)]
struct State {
    /// Why the last commit failed.
    commit: Option<StoreError>,
    /// Damage that was found.
    damage: Option<StoreError>,
    /// The damage is in the structure of the database: writing could make it worse.
    refuses: bool,
    failed: HashMap<SessionRow, StoreError>,
}

/// Shared by the writer, the readers and the check.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    state: Mutex<State>,
}

impl Trouble {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A commit succeeded or failed.
    pub(super) fn committed(&self, error: Option<&StoreError>) {
        let mut state = self.lock();
        match (error, &state.commit) {
            (Some(error), None) => {
                tracing::error!(%error, "the store cannot be written to; what was acknowledged stands");
            }
            (None, Some(_)) => tracing::info!("the store can be written to again"),
            _ => {}
        }
        state.commit = error.cloned();
        drop(state);
        if let Some(error @ StoreError::Damaged { .. }) = error {
            self.broken(error);
        }
    }

    /// A read found damage; that of a row leaves the rest usable.
    pub(super) fn damaged(&self, error: &StoreError) {
        let mut state = self.lock();
        if state.damage.is_none() {
            tracing::error!(%error, "the database is damaged; see `engineroom store check`");
            state.damage = Some(error.clone());
        }
    }

    /// The structure of the database is damaged: nothing is written to it any more.
    pub(super) fn broken(&self, error: &StoreError) {
        self.damaged(error);
        self.lock().refuses = true;
    }

    /// Why nothing may be written, if nothing may.
    pub(super) fn refuses(&self) -> Option<StoreError> {
        let state = self.lock();
        state.damage.clone().filter(|_| state.refuses)
    }

    /// A submission of a session was not written. What was refused for what it says is known to whoever submitted it.
    pub(super) fn failed(&self, session: SessionRow, error: &StoreError) {
        if matches!(error, StoreError::Requirement | StoreError::NotFound(_) | StoreError::StaleLease { .. }) {
            return;
        }
        let mut state = self.lock();
        if state.failed.len() < MOST || state.failed.contains_key(&session) {
            state.failed.entry(session).or_insert_with(|| error.clone());
        }
    }

    /// Why a submission of a session was not written, once.
    pub(super) fn take_failed(&self, session: SessionRow) -> Option<StoreError> {
        let mut state = self.lock();
        let known = state.failed.remove(&session);
        // Where too many failed to be remembered one by one, every session is read anew while that lasts.
        known.or_else(|| state.commit.clone().filter(|_| state.failed.len() >= MOST))
    }

    pub(super) fn health(&self) -> Option<StoreError> {
        let state = self.lock();
        state.damage.clone().or_else(|| state.commit.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_commit_ends_with_the_next_that_succeeds_and_damage_stays() {
        let trouble = Trouble::default();
        trouble.committed(Some(&StoreError::Full("no space".into())));
        assert!(matches!(trouble.health(), Some(StoreError::Full(_))));
        assert!(trouble.refuses().is_none());
        trouble.committed(None);
        assert!(trouble.health().is_none());
        trouble.damaged(&StoreError::Damaged { reason: "a row".into() });
        trouble.committed(None);
        assert!(matches!(trouble.health(), Some(StoreError::Damaged { .. })));
        assert!(trouble.refuses().is_none(), "one damaged row leaves the rest usable");
        trouble.committed(Some(&StoreError::Damaged { reason: "a page".into() }));
        assert!(trouble.refuses().is_some());
    }

    #[test]
    fn a_session_is_told_once_that_a_write_of_it_failed() {
        let trouble = Trouble::default();
        trouble.failed(7, &StoreError::Full("no space".into()));
        trouble.failed(8, &StoreError::Requirement);
        assert!(trouble.take_failed(7).is_some());
        assert!(trouble.take_failed(7).is_none());
        assert!(trouble.take_failed(8).is_none());
    }
}
