//! Preparation: what an earlier turn left is handed over, the session is taken up, and the engine assembles.

use super::TurnError;
use super::outbox::commit_input;
use super::prompt::Prompt;
use super::run::TurnRun;
use super::session::message_of;
use crate::slot::{
    AssembleInput, CommitInput, DegradedCode, EngineRef, FailureKind, Hook, HookFailure, PromptAuthority, PromptInput,
};
use engine_abi::wire::{citations_mode, trigger};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// An assembled prompt, not yet checked against the window.
pub(super) struct Assembled {
    pub(super) prompt: Prompt,
    /// Tokens that count in the precheck.
    pub(super) counted: u64,
}

/// Why a candidate did not assemble.
enum Setback {
    /// A hook failed.
    Failed(HookFailure),
    /// The lease was moved down already.
    PassedOver,
    /// The turn ends.
    Over(TurnError),
}

impl TurnRun {
    /// Has the history assembled for a prompt of at most `limit` tokens. A hook that fails costs its engine the turn: the next
    /// candidate goes on.
    pub(super) async fn assemble(&mut self, limit: u64) -> Result<Assembled, TurnError> {
        loop {
            self.cancel.check()?;
            let engine = self.lease.engine().clone();
            match self.assemble_with(&engine, limit).await {
                Ok(assembled) => return Ok(assembled),
                Err(Setback::PassedOver) => {}
                Err(Setback::Over(error)) => return Err(error),
                Err(Setback::Failed(failure)) => self.set_back(&failure)?,
            }
        }
    }

    /// Goes on after a failed hook.
    fn set_back(&mut self, failure: &HookFailure) -> Result<(), TurnError> {
        self.cancel.check()?;
        if failure.kind == FailureKind::Service && self.services.take_fence_crossed() {
            self.note_failure(failure);
            return self
                .lease
                .serve_legacy(DegradedCode::FenceUnavailable, failure.reason.clone())
                .map_err(TurnError::Slot);
        }
        self.move_down(failure)
    }

    async fn assemble_with(&mut self, engine: &EngineRef, limit: u64) -> Result<Assembled, Setback> {
        self.follow_rewrite();
        self.services.set_fence(self.admitted.first);
        let ephemeral = self.session.state().extra.ephemeral;
        if !ephemeral {
            self.drain(engine).await?;
        }
        self.take_up(engine).await?;
        self.offer_tools(engine).await.map_err(Setback::Failed)?;
        self.assemble_now(engine, limit).await
    }

    /// Hands over accepted turns that this engine has not taken yet, oldest first.
    async fn drain(&mut self, engine: &EngineRef) -> Result<(), Setback> {
        let inputs = self.ready_inputs(engine.id()).await.map_err(Setback::Over)?;
        if inputs.is_empty() {
            return Ok(());
        }
        let since = Instant::now();
        let outcome = self.commit(inputs, false).await;
        self.timed("drain", since);
        match outcome {
            Ok(true) => Ok(()),
            Ok(false) => self.pending("the engine did not take the turns that wait for it".into()),
            Err(failure) if failure.quarantined || failure.kind == FailureKind::Cancelled => {
                Err(Setback::Failed(failure))
            }
            Err(failure) => {
                self.note_failure(&failure);
                self.pending(failure.reason)
            }
        }
    }

    /// Passes the engine over for this turn: it is behind.
    fn pending(&mut self, reason: String) -> Result<(), Setback> {
        self.lease
            .pass_over(DegradedCode::PendingCommit, reason)
            .map_err(|error| Setback::Over(TurnError::Slot(error)))?;
        Err(Setback::PassedOver)
    }

    /// The inputs of `commitTurn` for the ready rows of an engine. A row whose range is not there any more is blocked.
    pub(super) async fn ready_inputs(&self, engine: &str) -> Result<Vec<CommitInput>, TurnError> {
        let rows: Vec<_> = {
            let state = self.session.state();
            let ready = crate::transcript::OutboxState::Ready;
            state.extra.outbox.iter().filter(|row| row.engine == engine && row.state == ready).cloned().collect()
        };
        let mut inputs = Vec::with_capacity(rows.len());
        for row in rows {
            if let Some(input) = commit_input(&self.house, &self.session, row).await? {
                inputs.push(input);
            }
        }
        Ok(inputs)
    }

    /// Offers turns to `commitTurn`, then `maintain` when it is wanted: one hand-off. What was taken stays taken, whatever
    /// happens to the rest. True when all of them were.
    pub(super) async fn commit(&mut self, inputs: Vec<CommitInput>, maintain: bool) -> Result<bool, HookFailure> {
        let done = Arc::new(AtomicUsize::new(0));
        let keys: Vec<_> = inputs.iter().map(|input| input.advancement_key.clone()).collect();
        let engine = self.lease.engine().id().to_owned();
        let facts = self.session_facts(None, None);
        let taken = done.clone();
        let outcome = self
            .segment(facts, false, move |segment| {
                for input in &inputs {
                    if segment.commit_turn(input)?.is_none() {
                        return Ok(false);
                    }
                    taken.fetch_add(1, Ordering::AcqRel);
                }
                if maintain {
                    segment.maintain(trigger::TURN, false)?;
                }
                Ok(true)
            })
            .await;
        let taken = done.load(Ordering::Acquire);
        let mut state = self.session.state();
        for key in keys.iter().take(taken) {
            state.settle_row(&engine, key);
        }
        if let (Err(failure), Some(key)) = (&outcome, keys.get(taken))
            && failure.hook == Hook::CommitTurn
        {
            state.blame_row(key, &failure.reason);
        }
        outcome
    }

    /// `bootstrap` and `maintain` on first sight of the session, and when turns passed the engine by.
    async fn take_up(&mut self, engine: &EngineRef) -> Result<(), Setback> {
        let due = {
            let state = self.session.state();
            let before = match self.admitted.first {
                0 => state.last_message(),
                first => state.message_before(first),
            };
            before != 0 && state.extra.seen.get(engine.id()).is_none_or(|seen| *seen < before)
        };
        if !due {
            return Ok(());
        }
        let read = self.bootstrap().await.map_err(Setback::Failed)?;
        if read != 0 {
            self.session.state().covered(engine.id(), read);
        }
        // A rewrite may have given everything before the turn new ids.
        let before = match self.admitted.first {
            0 => self.session.state().last_message(),
            first => self.session.state().message_before(first),
        };
        self.session.state().extra.seen.insert(engine.id().to_owned(), before);
        Ok(())
    }

    async fn assemble_now(&mut self, engine: &EngineRef, limit: u64) -> Result<Assembled, Setback> {
        let since = Instant::now();
        let fixed = self.system_tokens + self.tool_tokens;
        let (view, len, prompt, current, projected) = {
            let mut state = self.session.state();
            let window = self.agent.info.context_window;
            state.prune(self.house.clock.now_ms(), window, &self.agent.pruning);
            let view = state.view();
            let len = match self.admitted.first {
                0 => view.len(),
                first => state.turn_start(first),
            };
            let current = view.tokens(len..view.len());
            let message = state
                .branch()
                .get(self.admitted.first)
                .and_then(|entry| message_of(entry).cloned())
                .or_else(|| view.bodies.get(len).cloned());
            let prompt = message.map(|message| PromptInput {
                entry_id: if state.extra.ephemeral { 0 } else { self.admitted.first },
                tokens: current,
                message,
            });
            (view, len, prompt, current, state.projected_tokens())
        };
        let budget = limit.saturating_sub(fixed + current).max(1);
        let unwindowed = fixed + projected;
        let facts = self.session_facts(Some(budget), Some(unwindowed));
        let available_tools = tool_names(self.tools.params(&self.params));
        self.services.prepare_memory(&available_tools);
        let input = AssembleInput {
            view: view.clone(),
            len,
            prompt,
            system_tokens: self.system_tokens,
            available_tools,
            model: Some(self.agent.info.resolved.clone()),
            citations_mode: citations_mode::AUTO,
        };
        let output =
            self.segment(facts, false, move |segment| segment.assemble(&input)).await.map_err(Setback::Failed)?;
        let prompt = Prompt::build(&self.system, fixed, &view, len, &output, &self.agent.counter);
        let history: u64 = prompt.items().iter().filter(|item| !item.current_turn).map(|item| item.tokens).sum();
        engine.record_estimate(output.estimated_tokens, history);
        self.notes.engine_estimate = output.estimated_tokens;
        self.notes.prompt_limit = limit;
        let counted = match output.prompt_authority {
            PromptAuthority::Assembled => prompt.tokens(),
            PromptAuthority::PreassemblyMayOverflow => prompt.tokens().max(unwindowed),
        };
        self.timed("assemble", since);
        Ok(Assembled { prompt, counted })
    }
}

/// Names of the tools that the model will be offered.
fn tool_names(params: &serde_json::Map<String, Value>) -> Vec<String> {
    let Some(tools) = params.get("tools").and_then(Value::as_array) else { return Vec::new() };
    tools
        .iter()
        .filter_map(|tool| tool.pointer("/function/name").or_else(|| tool.get("name")).and_then(Value::as_str))
        .map(str::to_owned)
        .collect()
}
