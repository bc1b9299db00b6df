//! The tool loop's own entries: what the model called, and what came back.

use crate::transcript::{EntryId, Message, StoreError, Submission, stored_flags};
use crate::turn::TurnError;
use crate::turn::run::TurnRun;
use crate::turn::settle::STORE_PATIENCE;

impl TurnRun {
    /// Stores a message of the model with calls that the gateway runs, and waits until it is durable, and the admission with
    /// it: a tool run cannot be taken back. `shown`: the client gets calls of it, too.
    pub(in crate::turn) async fn store_calls(&mut self, message: Message, shown: bool) -> Result<EntryId, TurnError> {
        self.store_step(vec![message], if shown { 0 } else { stored_flags::INTERNAL }).await
    }

    /// Stores results, and waits until they are durable: the model's next words rest on them.
    pub(in crate::turn) async fn store_results(&mut self, results: Vec<Message>) -> Result<EntryId, TurnError> {
        self.store_step(results, stored_flags::INTERNAL).await
    }

    /// Gives the last entry.
    async fn store_step(&mut self, messages: Vec<Message>, flags: u32) -> Result<EntryId, TurnError> {
        let mut last = 0;
        let ack = {
            let mut state = self.session.state();
            let mut writes = std::mem::take(&mut state.extra.deferred);
            for message in messages {
                let now = self.house.clock.now_ms();
                let mut entry = self.house.entry(&self.agent, &mut state, message, now, self.heartbeat);
                entry.flags |= flags;
                last = entry.id;
                state.append(entry, &mut writes)?;
                writes.extend(self.host.keep(&mut state, last));
            }
            writes.extend(self.host.keep(&mut state, last));
            state.sync(&self.agent.counter);
            if state.extra.ephemeral {
                return Ok(last);
            }
            let lease = Some((state.record().row, self.house.store.lease()));
            TurnError::at("turn.step.before_queue")?;
            self.house.store.submit(Submission { lease, writes })
        };
        TurnError::at("turn.step.queued")?;
        self.admission_durable().await?;
        tokio::time::timeout(STORE_PATIENCE, ack.durable()).await.unwrap_or(Err(StoreError::Deadline))?;
        Ok(last)
    }
}
