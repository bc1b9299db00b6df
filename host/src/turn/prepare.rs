//! Preparation: what an earlier turn left is handed over, the session is taken up, and the engine assembles.

use super::TurnError;
use super::memory;
use super::offer::{Offer, ROWS_PER_CALL, replayed};
use super::prompt::{Prompt, addition_tokens};
use super::run::TurnRun;
use super::services::Manner;
use super::session::message_of;
use super::shadow::Shown;
use crate::compaction::press_turn;
use crate::observe::{broken, failpoint};
use crate::slot::{
    AssembleInput, DegradedCode, EngineRef, FailureKind, Hook, HookFailure, Item, LEGACY, LeaseRequest,
    PromptAuthority, PromptInput, View,
};
use engine_abi::wire::trigger;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// An assembled prompt, not yet checked against the window.
pub(super) struct Assembled {
    pub(super) prompt: Prompt,
    /// Tokens of the whole history with what is fixed, when the engine says that its view may overflow.
    pub(super) unwindowed: Option<u64>,
    /// The history that was chosen from.
    pub(super) view: Arc<View>,
    /// What the engine gave.
    pub(super) given: Vec<Item>,
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
        if self.overflowed && broken("8.42") {
            let agent = self.session.state().record().agent.clone();
            self.lease = self.house.slot.lease(&LeaseRequest::turn(agent, true)).map_err(TurnError::Slot)?;
        }
        loop {
            self.cancel.check()?;
            let engine = self.lease.engine().clone();
            match self.assemble_with(&engine, limit).await {
                Ok(assembled) => return Ok(assembled),
                Err(Setback::PassedOver) => {}
                Err(Setback::Over(error)) => return Err(error),
                Err(Setback::Failed(failure)) if broken("8.49") && self.notes.model_calls > 0 => {
                    return Err(TurnError::internal(failure.reason));
                }
                Err(Setback::Failed(failure)) => self.set_back(&failure)?,
            }
        }
    }

    /// Goes on after a failed hook.
    fn set_back(&mut self, failure: &HookFailure) -> Result<(), TurnError> {
        self.cancel.check()?;
        if broken("8.45") && failure.kind == FailureKind::Service && !failure.quarantined {
            return Ok(());
        }
        if failure.kind == FailureKind::Service && self.services.take_fence_crossed() {
            self.note_failure(failure);
            return self.pass_over(DegradedCode::FenceUnavailable, failure.reason.clone());
        }
        self.move_down(failure)
    }

    /// As [`Self::assemble`] for a host that cannot assemble before the prompt: the session is taken up, and that is all.
    pub(super) async fn take_up_session(&mut self) -> Result<(), TurnError> {
        loop {
            self.cancel.check()?;
            let engine = self.lease.engine().clone();
            match self.prepare_with(&engine).await {
                Ok(()) => return Ok(()),
                Err(Setback::PassedOver) => {}
                Err(Setback::Over(error)) => return Err(error),
                Err(Setback::Failed(failure)) => self.set_back(&failure)?,
            }
        }
    }

    /// Everything before the assembly.
    async fn prepare_with(&mut self, engine: &EngineRef) -> Result<(), Setback> {
        if !self.hold_fence(engine).map_err(Setback::Over)? {
            return Err(Setback::PassedOver);
        }
        self.open_tools();
        if !engine.has(Hook::Tools) {
            // The memory section is on its way while earlier turns are handed over and the session is taken up. What tools an
            // engine has is known only after that.
            self.services.memory().begin(&tool_names(self.tools.params(&self.params)));
        }
        let ephemeral = self.session.state().extra.ephemeral;
        if !ephemeral {
            self.drain(engine).await?;
        }
        self.take_up(engine).await?;
        // The maintenance that follows a bootstrap may rewrite what lies before the turn, or the turn itself.
        if !self.hold_fence(engine).map_err(Setback::Over)? {
            return Err(Setback::PassedOver);
        }
        Ok(())
    }

    async fn assemble_with(&mut self, engine: &EngineRef, limit: u64) -> Result<Assembled, Setback> {
        self.prepare_with(engine).await?;
        self.offer_tools(engine).await.map_err(Setback::Failed)?;
        self.assemble_now(engine, limit).await
    }

    /// Hands over accepted turns that this engine has not taken yet, oldest first.
    async fn drain(&mut self, engine: &EngineRef) -> Result<(), Setback> {
        let since = Instant::now();
        let mut offered = false;
        loop {
            let offers = self.offers(engine.id(), ROWS_PER_CALL).await.map_err(Setback::Over)?;
            if offers.is_empty() {
                if offered {
                    self.timed("drain", since);
                }
                return Ok(());
            }
            offered = true;
            match self.commit(offers, false).await {
                Ok(true) => self.cancel.check().map_err(Setback::Over)?,
                Ok(false) => return self.pending("it did not take the turns that wait for it"),
                Err(failure) if failure.quarantined || failure.kind == FailureKind::Cancelled => {
                    return Err(Setback::Failed(failure));
                }
                Err(_) if broken("8.62") => return Ok(()),
                Err(failure) => {
                    self.note_failure(&failure);
                    return self.pending(&failure.reason);
                }
            }
        }
    }

    /// Passes the engine over for this turn: it is behind.
    fn pending(&mut self, reason: &str) -> Result<(), Setback> {
        self.pass_over(DegradedCode::PendingCommit, format!("an earlier turn could not be handed over: {reason}"))
            .map_err(Setback::Over)?;
        Err(Setback::PassedOver)
    }

    /// Offers turns to `commitTurn`, then `maintain` when it is wanted: one hand-off. What was taken stays taken, whatever
    /// happens to the rest: the first that fails stops those behind it. True when all of them were.
    pub(super) async fn commit(&mut self, offers: Vec<Offer>, maintain: bool) -> Result<bool, HookFailure> {
        let done = Arc::new(AtomicUsize::new(0));
        let keys: Vec<_> = offers.iter().map(|offer| offer.input.logical_turn_id.clone()).collect();
        let engine = self.lease.engine().id().to_owned();
        let now = self.session_facts(None, None);
        let taken = done.clone();
        failpoint::pass("turn.commit.before");
        let outcome = self
            .segment(now.clone(), false, move |segment| {
                if maintain && broken("8.66") {
                    segment.maintain(trigger::TURN, false)?;
                }
                for offer in &offers {
                    *segment.session_mut() = replayed(now.clone(), offer.facts.as_ref());
                    match segment.commit_turn(&offer.input) {
                        Err(failure) => {
                            if maintain && broken("8.67") {
                                let _ = segment.maintain(trigger::TURN, false);
                            }
                            return Err(failure);
                        }
                        Ok(None) => return Ok(false),
                        Ok(Some(_)) => taken.fetch_add(1, Ordering::AcqRel),
                    };
                    failpoint::pass("turn.commit.between");
                }
                *segment.session_mut() = now;
                if maintain && !broken("8.66") {
                    failpoint::pass("turn.maintain.before");
                    segment.maintain(trigger::TURN, false)?;
                    failpoint::pass("turn.maintain.after");
                }
                Ok(true)
            })
            .await;
        failpoint::pass("turn.commit.after");
        let taken = done.load(Ordering::Acquire);
        let now_ms = self.house.clock.now_ms();
        let mut state = self.session.state();
        for key in keys.iter().take(taken) {
            state.settle_row(&engine, key);
        }
        if let (Err(failure), Some(key)) = (&outcome, keys.get(taken))
            && failure.hook == Hook::CommitTurn
            && failure.kind != FailureKind::Cancelled
        {
            state.blame_row(&engine, key, &failure.reason, now_ms);
        }
        outcome
    }

    /// `bootstrap` and `maintain` on first sight of the session, and when turns passed the engine by.
    async fn take_up(&mut self, engine: &EngineRef) -> Result<(), Setback> {
        let due = {
            let state = self.session.state();
            let before = state.before_turn(self.admitted.first);
            before != 0 && state.extra.seen.get(engine.id()).is_none_or(|seen| *seen < before)
        };
        if !due {
            return Ok(());
        }
        failpoint::pass("turn.bootstrap.before");
        let read = self.bootstrap().await.map_err(Setback::Failed)?;
        failpoint::pass("turn.bootstrap.after");
        if read != 0 {
            self.session.state().covered(engine.id(), read);
        }
        // A rewrite may have given everything before the turn new ids.
        let mut state = self.session.state();
        let before = state.before_turn(self.admitted.first);
        state.extra.seen.insert(engine.id().to_owned(), before);
        Ok(())
    }

    /// `assemble` of this engine, and nothing before or after it.
    pub(super) async fn assemble_only(
        &mut self,
        engine: &EngineRef,
        limit: u64,
    ) -> Result<Result<Assembled, HookFailure>, TurnError> {
        match self.assemble_now(engine, limit).await {
            Ok(assembled) => Ok(Ok(assembled)),
            Err(Setback::Failed(failure)) => Ok(Err(failure)),
            Err(Setback::Over(error)) => Err(error),
            Err(Setback::PassedOver) => Err(TurnError::internal("an assembly alone passed its engine over")),
        }
    }

    async fn assemble_now(&mut self, engine: &EngineRef, limit: u64) -> Result<Assembled, Setback> {
        failpoint::pass("turn.assemble.before");
        let available_tools = tool_names(self.tools.params(&self.params));
        let memory = self.memory_section(engine, &available_tools).await;
        let since = Instant::now();
        let fixed = self.system_tokens + self.tool_tokens;
        let room = limit.saturating_sub(self.fixed_tokens());
        let (view, len, prompt, turn, current, projected) = {
            let mut state = self.session.state();
            let window = self.agent.info.context_window;
            let now = self.house.clock.now_ms();
            let (view, projected) = if self.manner == Manner::Serve {
                state.prune(now, window, &self.agent.pruning);
                (state.view(), state.projected_tokens())
            } else {
                state.pruned_copy(now, window, &self.agent.pruning, self.view_until)
            };
            let len = match self.admitted.first {
                _ if broken("8.47") && self.notes.model_calls > 0 => view.len(),
                0 => view.len(),
                first => state.turn_start(first),
            };
            let turn = press_turn(view.items(len..view.len(), len), room, &self.agent.counter);
            let current: u64 = turn.iter().map(|item| item.tokens).sum();
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
            (view, len, prompt, turn, current, projected)
        };
        let budget = room.saturating_sub(current).max(1);
        let unwindowed = self.fixed_tokens() + projected;
        let facts = self.session_facts(Some(budget), Some(unwindowed));
        let input = AssembleInput {
            view: view.clone(),
            len,
            prompt,
            system_tokens: self.system_tokens + self.memory_tokens,
            available_tools,
            model: Some(self.agent.info.resolved.clone()),
            citations_mode: self.house.memory.citations_mode(),
        };
        let mut output =
            self.segment(facts, false, move |segment| segment.assemble(&input)).await.map_err(Setback::Failed)?;
        if memory.is_some() {
            output.system_prompt_addition = memory;
        }
        let prompt = Prompt::build(&self.system, fixed, &view, turn, &output, &self.agent.counter);
        let history: u64 = prompt.items().iter().filter(|item| !item.current_turn).map(|item| item.tokens).sum();
        if self.manner == Manner::Serve && self.house.shadows.watches() {
            self.shown = Some(Shown::of(&view, &output.items, &prompt, limit, fixed));
        }
        if self.manner != Manner::Look {
            engine.record_estimate(output.estimated_tokens, history);
        }
        self.notes.engine_estimate = output.estimated_tokens;
        self.notes.prompt_limit = limit;
        self.notes.token_budget = Some(budget);
        let may_overflow = !matches!(output.prompt_authority, PromptAuthority::Assembled) || broken("8.53");
        let unwindowed = may_overflow.then_some(unwindowed);
        self.timed("assemble", since);
        Ok(Assembled { prompt, unwindowed, view, given: output.items })
    }

    /// Waits for the memory section of this run. For `legacy`, which adds nothing of its own, the host puts it at the head of the
    /// system prompt, and it is given here; another engine asks for it.
    pub(super) async fn memory_section(&mut self, engine: &EngineRef, available_tools: &[String]) -> Option<String> {
        let since = Instant::now();
        let snapshot = self.services.memory().ready(available_tools).await;
        let tokens = snapshot.section.as_ref().map_or(0, |section| addition_tokens(section, &self.agent.counter));
        self.notes.memory = memory::note(&snapshot, tokens);
        if self.notes.memory.is_some() {
            self.timed("memory", since);
        }
        let section = snapshot.section.filter(|_| engine.id() == LEGACY);
        self.memory_tokens = if section.is_some() { tokens } else { 0 };
        section
    }
}

/// Names of the tools that the model will be offered.
fn tool_names(params: &serde_json::Map<String, Value>) -> Vec<String> {
    let Some(tools) = params.get("tools").and_then(Value::as_array) else { return Vec::new() };
    tools
        .iter()
        .filter_map(|tool| {
            tool.pointer("/function/name")
                .or_else(|| tool.pointer("/custom/name"))
                .or_else(|| tool.get("name"))
                .and_then(Value::as_str)
        })
        .map(str::to_owned)
        .collect()
}
