//! The end of a turn: the answer is stored, the turn is acknowledged, the engine takes it over, the lane is free.

use super::TurnError;
use super::clock::now_ms;
use super::maintenance::Kind;
use super::offer::{ROWS_PER_CALL, close_row};
use super::run::TurnRun;
use super::session::State;
use crate::model::{Reply, Usage};
use crate::observe::{broken, failpoint};
use crate::slot::{EntryRef, Hook, HookFailure};
use crate::transcript::{EngineScope, EntryId, OutboxRow, OutboxState, StoreError, Submission, TurnRecord, Write};
use engine_abi::wire::session_end;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Longest wait for the store on the reply's path.
pub(super) const STORE_PATIENCE: Duration = Duration::from_secs(30);

/// What is kept of a reply beside its message, so that a retry gets the same again.
pub(super) struct Envelope {
    /// The whole body as it was given, when there is one.
    pub(super) body: Option<Value>,
    /// "answered" or "interrupted".
    pub(super) outcome: &'static str,
    /// Entry of the message, and the last one behind it, when they are stored already.
    pub(super) stored: Option<(EntryId, EntryId)>,
}

impl TurnRun {
    /// Stores the answer and waits until everything of the turn is durable: at most the admission and this one.
    pub(super) async fn store_answer(&mut self, reply: Reply, envelope: Envelope) -> Result<(), TurnError> {
        let since = Instant::now();
        let open = !reply.message.tool_calls.is_empty();
        self.aborted = envelope.outcome == "interrupted" && !broken("8.57");
        let detail = json!({
            "outcome": if open { "tool_calls" } else { envelope.outcome },
            "logical_turn_id": self.admitted.logical_id,
            "id": reply.id,
            "model": reply.model,
            "finish_reason": reply.finish_reason,
            "usage": reply.usage.as_ref().map(usage_json),
            "body": envelope.body.filter(|_| self.idempotency_key.is_some()),
            "candidates": self.lease.reasons(),
            "notes": self.notes,
        });
        self.follow_rewrite();
        TurnError::at("turn.answer.before")?;
        let ack = {
            let mut state = self.session.state();
            let mut writes = std::mem::take(&mut state.extra.deferred);
            let (id, last) = match envelope.stored {
                Some(stored) => stored,
                None => {
                    let entry = self.house.entry(
                        &self.agent,
                        &mut state,
                        reply.message,
                        self.house.clock.now_ms(),
                        self.heartbeat,
                    );
                    let id = entry.id;
                    state.append(entry, &mut writes)?;
                    (id, id)
                }
            };
            if state.extra.ephemeral {
                drop(state);
                self.settled = true;
                return Ok(());
            }
            writes.extend(self.host.keep(&mut state, id));
            self.accept(&mut state, last, open, &mut writes);
            writes.push(Write::Turn(self.record(&state, id, detail)));
            let lease = Some((state.record().row, self.house.store.lease()));
            TurnError::at("turn.answer.before_queue")?;
            self.house.store.submit(Submission { lease, writes })
        };
        failpoint::pass("turn.answer.queued");
        let admission = self.admitted.ack.take();
        let durable = async move {
            if let Some(admission) = admission {
                admission.durable().await?;
            }
            ack.durable().await
        };
        let outcome = tokio::time::timeout(STORE_PATIENCE, durable).await.unwrap_or(Err(StoreError::Deadline));
        self.notes.timings.push(("commit", u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)));
        outcome.map_err(|error| self.cause(error))?;
        failpoint::pass("turn.answer.durable");
        self.settled = true;
        Ok(())
    }

    /// Waits until the admission is durable: before the first byte leaves.
    pub(super) async fn admission_durable(&mut self) -> Result<(), TurnError> {
        let Some(ack) = self.admitted.ack.take() else { return Ok(()) };
        TurnError::at("turn.admit.before_durable")?;
        let outcome = tokio::time::timeout(STORE_PATIENCE, ack.durable()).await.unwrap_or(Err(StoreError::Deadline));
        outcome.map_err(|error| self.cause(error))?;
        Ok(())
    }

    fn cause(&self, error: StoreError) -> StoreError {
        let row = self.session.state().record().row;
        self.house.cause(row, error)
    }

    /// Waits until everything that was queued before is durable.
    pub(super) async fn barrier(&mut self) -> Result<(), TurnError> {
        let ack = self.house.store.submit(Submission { lease: None, writes: Vec::new() });
        tokio::time::timeout(STORE_PATIENCE, ack.durable()).await.unwrap_or(Err(StoreError::Deadline))?;
        // It was its turn, but it may have failed.
        let row = self.session.state().record().row;
        match self.house.store.take_failed(row) {
            None => Ok(()),
            Some(error) => {
                if let Some(key) = &self.session.key {
                    self.house.hot.forget(key);
                }
                Err(TurnError::Store(error))
            }
        }
    }

    /// Ends a turn without an answer. What was admitted stays, and the record says what became of it.
    pub(super) fn store_unanswered(&mut self, error: &TurnError) {
        let mut state = self.session.state();
        if state.extra.ephemeral {
            return;
        }
        let mut writes = std::mem::take(&mut state.extra.deferred);
        // Nothing to take over: the engine meets the entry through the cursor, with the next turn. A turn of which the client
        // was given calls of its tools goes on when it comes back.
        if let Some(row) = state.admitted_row(&self.admitted.logical_id).filter(|row| !row.is_open()).cloned() {
            if broken("8.69") {
                let (last, facts) = (state.last_message(), self.accepted_facts(&state));
                let row = close_row(&state, row.clone(), last, facts);
                state.put_row(row, &mut writes);
                return drop(self.house.store.submit(Submission { lease: None, writes }));
            }
            state.drop_row(&row.engine, &row.key, &mut writes);
        }
        let outcome = if matches!(error, TurnError::Cancelled) { "cancelled" } else { "unanswered" };
        let detail = json!({
            "outcome": outcome,
            "error": error.to_string(),
            "candidates": self.lease.reasons(),
            "notes": self.notes,
        });
        writes.push(Write::Turn(self.record(&state, 0, detail)));
        let lease = Some((state.record().row, self.house.store.lease()));
        drop(self.house.store.submit(Submission { lease, writes }));
        // A regenerate that failed: the old branch is the active one, and the next turn reads it again. So it does when the store
        // failed, or the gateway itself: what is in memory may be ahead of the store.
        self.settled =
            !self.admitted.head_pending && !matches!(error, TurnError::Store(_) | TurnError::Internal { .. });
    }

    /// The turn is accepted up to `last`, in the same write: its row is closed, for the engine that served. One that stopped
    /// half-way is not handed over; its engine meets the entries through the cursor.
    fn accept(&self, state: &mut State<'_>, last: EntryId, open: bool, writes: &mut Vec<Write>) {
        let Some(known) = state.admitted_row(&self.admitted.logical_id).cloned() else { return };
        let engine = self.lease.engine().id();
        if self.aborted || known.engine != engine {
            state.drop_row(&known.engine, &known.key, writes);
        }
        if self.aborted {
            return;
        }
        let facts = self.accepted_facts(state);
        let row = OutboxRow { engine: engine.to_owned(), ..known };
        let row = if open { OutboxRow { last, facts: Some(facts), ..row } } else { close_row(state, row, last, facts) };
        if !open {
            self.row_for_shadow(state, &row, writes);
        }
        state.put_row(row, writes);
    }

    fn record(&self, state: &super::session::State<'_>, terminal: EntryId, mut detail: Value) -> TurnRecord {
        if let (Some(asked), Some(fields)) = (&self.asked, detail.as_object_mut()) {
            fields.insert("request".into(), asked.as_str().into());
        }
        TurnRecord {
            turn_id: self.admitted.turn_id.clone(),
            session: state.record().row,
            admitted: self.admitted.first,
            terminal,
            idempotency_key: self.idempotency_key.clone(),
            engine: self.lease.engine().id().to_owned(),
            degraded: self.degraded_code(),
            detail,
            started_ms: self.started_ms,
            ended_ms: now_ms(),
        }
    }

    /// What follows an answer, off the reply's path and before the lane is free: the engine takes the turn over, maintains, and
    /// the history is compacted ahead of the next turn. Nothing here can change the reply.
    pub(super) async fn hand_over(&mut self) {
        failpoint::pass("turn.hand_over.before");
        self.session.state().sync(&self.agent.counter);
        // From here on the client may be gone: only a stop of the gateway cancels.
        self.cancel.only_stop();
        self.services.set_fence(0);
        let ephemeral = self.session.state().extra.ephemeral;
        let outcome = if ephemeral { self.hand_over_ephemeral().await } else { self.hand_over_stored().await };
        if let Err(failure) = outcome {
            self.note_failure(&failure);
            tracing::warn!(
                engine = failure.engine,
                hook = failure.hook.name(),
                reason = failure.reason,
                session = self.session.key.as_deref(),
                "the engine did not take the turn over"
            );
        }
        if ephemeral {
            return;
        }
        failpoint::pass("turn.hand_over.after");
        let watched = self.watched();
        let open = self.session.state().extra.outbox.iter().any(|row| row.state == OutboxState::Admitted);
        if !open {
            self.admitted.first = 0;
        }
        self.compact_ahead();
        self.tell_the_rest();
        if let Some(watched) = watched {
            self.start_shadow(watched);
        }
        if let Some(key) = &self.session.key
            && !self.session.state().extra.deferred.is_empty()
        {
            self.house.note_waiting(key);
        }
    }

    /// What was noted after the record of the turn was written: it goes with the next submission of the session.
    fn tell_the_rest(&self) {
        let notes = Write::TurnDetail {
            session: self.session.state().record().row,
            turn_id: self.admitted.turn_id.clone(),
            name: "notes",
            value: json!(self.notes),
        };
        self.session.state().extra.deferred.push(notes);
    }

    async fn hand_over_stored(&mut self) -> Result<(), HookFailure> {
        if self.aborted {
            return Ok(());
        }
        let engine = self.lease.engine().clone();
        let offers = match self.offers(engine.id(), ROWS_PER_CALL).await {
            Ok(offers) => offers,
            Err(error) => {
                tracing::warn!(%error, "the outbox could not be read");
                return Ok(());
            }
        };
        if offers.is_empty() {
            // The client runs tools; the turn goes on.
            return Ok(());
        }
        let maintains = engine.has(Hook::Maintain);
        let background = engine.info().background_maintenance;
        if !self.commit(offers, maintains && (!background || broken("9.3"))).await? {
            return Ok(());
        }
        if maintains && background {
            let params = self.maintenance_params(None);
            // Refused is noted and told there; nothing hangs on it.
            let _ = self.house.maintenance.queue(&self.house, &self.session, Kind::Maintain, params);
        }
        Ok(())
    }

    /// Nothing was stored: `afterTurn`, else `ingestBatch`, else `ingest`; then the session is over.
    async fn hand_over_ephemeral(&mut self) -> Result<(), HookFailure> {
        let facts = self.session_facts(None, None);
        let (entries, before) = {
            let state = self.session.state();
            let entries: Vec<_> = state.entries().iter().filter_map(|entry| EntryRef::of(entry)).collect();
            let before = entries.partition_point(|entry| entry.head.id < self.admitted.first);
            (entries, before)
        };
        let outcome = self
            .segment(facts, false, move |segment| {
                let new = &entries[before..];
                if !segment.after_turn(&entries, before, None)? && segment.ingest_batch(new)?.is_none() {
                    for entry in new {
                        segment.ingest(entry)?;
                    }
                }
                segment.on_session_ended(session_end::EPHEMERAL)?;
                Ok(())
            })
            .await;
        if self.services.touched_scope() {
            let row = self.session.state().record().row;
            let drop_scope = Write::EngineDropScope { engine: None, scope: EngineScope::Session(row) };
            drop(self.house.store.submit(Submission { lease: None, writes: vec![drop_scope] }));
        }
        outcome
    }
}

fn usage_json(usage: &Usage) -> Value {
    json!({
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "cached_tokens": usage.cached_tokens,
    })
}
