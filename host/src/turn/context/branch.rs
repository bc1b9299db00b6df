//! A session that is longer by a question, in memory alone.

use crate::transcript::{Entry, EntryBody, EntryId, Message, SessionRecord};
use crate::turn::TurnError;
use crate::turn::house::House;
use crate::turn::session::Session;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A session that is longer by a question; as it was when this is dropped.
pub(in crate::turn) struct Branch {
    session: Arc<Session>,
    /// The session before.
    before: SessionRecord,
    /// Entry of the question.
    question: EntryId,
}

impl Branch {
    /// `id`: that of the last question, or 0.
    ///
    /// # Errors
    ///
    /// That the session could not be grown.
    pub(in crate::turn) fn grow(
        house: &House,
        session: &Arc<Session>,
        message: Message,
        id: &AtomicU64,
    ) -> Result<Branch, TurnError> {
        let counter = &session.agent.counter;
        let mut state = session.state();
        let before = state.record().clone();
        // One id for all of them, so that the same question is the same prompt; behind new entries it needs a new one.
        if id.load(Ordering::Relaxed) <= before.head {
            id.store(house.store.next_entry(), Ordering::Relaxed);
        }
        let entry = Entry {
            id: id.load(Ordering::Relaxed),
            parent: before.head,
            session: before.row,
            time_ms: house.clock.now_ms(),
            flags: 0,
            tokens: counter.message(&message),
            digest: message.digest(),
            body: EntryBody::Message(Arc::new(message)),
        };
        let question = entry.id;
        // What would be written is not.
        state.append(entry, &mut Vec::new())?;
        state.sync(counter);
        drop(state);
        Ok(Branch { session: session.clone(), before, question })
    }

    /// Entry of the question.
    pub(in crate::turn) fn question(&self) -> EntryId {
        self.question
    }

    /// What the question costs.
    pub(in crate::turn) fn tokens(&self) -> u64 {
        let state = self.session.state();
        let view = state.view();
        view.tokens(state.turn_start(self.question)..view.len())
    }
}

impl Drop for Branch {
    fn drop(&mut self) {
        let mut state = self.session.state();
        if let Err(error) = state.take_back(self.before.clone()) {
            tracing::error!(%error, "a question could not be taken back");
        }
        state.sync(&self.session.agent.counter);
    }
}
