//! The fence of the current turn: while an engine prepares it, reads of the transcript end before the admitted entry.
//!
//! A fence is as good as the entry that it stands on. Where that entry is gone, was rewritten, or lies behind the engine's own
//! cursor already, the engine could see a part of the turn that it is to be asked about: `legacy` serves then, which reads no
//! cursor, and the engine is asked again at the next turn.

use super::TurnError;
use super::run::TurnRun;
use super::session::is_role;
use crate::observe::broken;
use crate::slot::{DegradedCode, EngineRef, LEGACY};
use crate::transcript::Role;

impl TurnRun {
    /// Sets the fence for what an engine reads next. False when it cannot be honoured: the lease was moved to `legacy`.
    pub(super) fn hold_fence(&mut self, engine: &EngineRef) -> Result<bool, TurnError> {
        self.follow_rewrite();
        self.services.set_fence(self.admitted.first);
        if engine.id() == LEGACY {
            return Ok(true);
        }
        match self.fence_fault() {
            Some(fault) if !broken("8.40") => {
                self.pass_over(DegradedCode::FenceUnavailable, fault.to_owned())?;
                Ok(false)
            }
            _ => Ok(true),
        }
    }

    /// Why the admitted entry is no fence.
    fn fence_fault(&self) -> Option<&'static str> {
        let state = self.session.state();
        if state.extra.ephemeral || self.admitted.first == 0 {
            return None;
        }
        if broken("8.41") || broken("9.5") {
            // The receipt of a fresh turn is on its way; to wait for it here would pass every first turn over.
            let is_fresh = state.branch().get(self.admitted.first).is_some_and(|entry| entry.parent == 0);
            return (is_fresh && self.idempotency_key.is_some()).then_some("there is no receipt yet");
        }
        if state.admitted_row(&self.admitted.logical_id).is_none() {
            return Some("the admission of the current turn is not in the outbox");
        }
        match state.branch().get(self.admitted.first) {
            None => Some("the admitted entry of the current turn was rewritten or is not on the active branch"),
            Some(entry) if !is_role(entry, Role::User) => Some("the current turn begins with no user message"),
            Some(_) => None,
        }
    }
}
