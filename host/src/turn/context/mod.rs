//! What the model would see now: an assembly without a model call, entry by entry.
//!
//! A report is a look, and a look changes nothing:
//!
//! - no turn is handed over, and `bootstrap` and `maintain` are not called: an engine that has not taken the session up yet is
//!   shown as it answers now, and the report says so (`taken_up`, `waiting_turns`);
//! - `assemble` is called as before any model call, with services that read and refuse to write, to rewrite and to ask a model;
//!   a failure is told and neither counted nor latched, but for a call that does not come back: nothing else would keep the
//!   session from being entered twice;
//! - old tool results are pruned on a copy, as the next turn would prune them, and nothing is frozen.
//!
//! A report may be asked for as if a question were the next user message: it is appended to the session in memory alone, as the
//! evaluator's questions are ([`branch`]), and taken back.
//!
//! `take_up` does instead what the next turn would do before its model call, with everything that comes of it.

mod branch;
mod explain;
mod report;

pub(super) use branch::Branch;

pub use report::{ContextEntry, ContextReport, EntryState, Sum, Totals};

use super::TurnError;
use super::hosts::{self, Keeper};
use super::house::House;
use super::prepare::Assembled;
use super::run::TurnRun;
use super::services::Manner;
use super::session::{Session, is_role};
use crate::slot::{EngineRef, FailureKind, Hook, HookFailure, LeaseRequest};
use crate::transcript::{EntryId, Message, OutboxState, Role};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio_util::sync::CancellationToken;

/// How the context is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextAsk {
    /// First do what the next turn would do before its model call.
    pub take_up: bool,
    /// As if this were the next user message. It is not kept.
    pub question: Option<String>,
}

/// Assembles the session as its next turn would find it.
pub(super) async fn report(
    house: &Arc<House>,
    key: &str,
    ask: ContextAsk,
    client: &CancellationToken,
) -> Result<ContextReport, TurnError> {
    let ContextAsk { take_up, question } = ask;
    if question.as_ref().is_some_and(|question| question.trim().is_empty()) {
        return Err(TurnError::invalid("the question is empty", "ask"));
    }
    let lane = house.lanes.enter_for(key, client).await?;
    let session = house.open(key, false).await?;
    let (agent, open, fixed) = {
        let state = session.state();
        (state.record().agent.clone(), open_turn(&state), state.extra.fixed_tokens)
    };
    let lease = house.slot.lease(&LeaseRequest::upkeep(agent)).map_err(TurnError::Slot)?;
    let mut run = TurnRun::operation(house.clone(), session.clone(), lease, Some(lane));
    run.admitted.first = open.unwrap_or(0);
    (run.system_tokens, run.tool_tokens) = fixed;
    let limit = run.prompt_limit();
    let command = Keeper::of(&run.agent.info) == Some(Keeper::Command);
    let branch = match question.as_deref() {
        None => None,
        Some(question) => {
            // Before it is there: what an engine takes up must be the session's own.
            if take_up {
                run.take_up_session().await?;
            }
            let question = Message::text_of(Role::User, question);
            let branch = Branch::grow(house, &session, question, &AtomicU64::new(0))?;
            run.admitted.first = branch.question();
            Some(branch)
        }
    };
    let assembled = match take_up && branch.is_none() {
        true if command => {
            run.take_up_session().await?;
            run.unassembled()
        }
        false if command => run.unassembled(),
        true => run.assemble(limit).await?,
        false => run.look(limit).await?,
    };
    let outlook = run.outlook(&assembled.prompt).await?;
    let mut report = explain::explain(key, &run, assembled, limit, fixed, branch.as_ref().map(Branch::question));
    drop(branch);
    report.asked = question;
    report.notes.extend(outlook);
    if command {
        hosts::on_command(&mut report);
    }
    Ok(report)
}

/// The user message without an answer that is the current turn, when there is one.
fn open_turn(state: &super::session::State<'_>) -> Option<EntryId> {
    let first = state.last_user();
    let mut since = state.entries().iter().rev().take_while(|entry| Some(entry.id) > first);
    first.filter(|_| !since.any(|entry| is_role(entry, Role::Assistant)))
}

/// How far the engine that serves is with the session.
struct Standing {
    taken_up: bool,
    waiting: usize,
}

fn standing(session: &Session, engine: &EngineRef, first: EntryId) -> Standing {
    let takes_up = engine.has(Hook::Bootstrap) || engine.has(Hook::Maintain);
    let engine = engine.id();
    let state = session.state();
    let before = if first == 0 { state.last_message() } else { state.message_before(first) };
    let ready = |state: OutboxState| state == OutboxState::Ready;
    Standing {
        taken_up: !takes_up || before == 0 || state.extra.seen.get(engine).is_some_and(|seen| *seen >= before),
        waiting: state.extra.outbox.iter().filter(|row| row.engine == engine && ready(row.state)).count(),
    }
}

impl TurnRun {
    /// Has the history assembled for a prompt of at most `limit` tokens, and nothing else. Candidates that fail are passed
    /// over as the next turn would.
    pub(super) async fn look(&mut self, limit: u64) -> Result<Assembled, TurnError> {
        self.call_as(Manner::Look);
        loop {
            let engine = self.lease.engine().clone();
            let failure = match self.assemble_only(&engine, limit).await? {
                Ok(assembled) => return Ok(assembled),
                Err(failure) => failure,
            };
            let standing = standing(&self.session, &engine, self.admitted.first);
            if let Some(reason) = untellable(&failure, &standing, self.services.take_refused()) {
                return Err(TurnError::Look { engine: engine.id().to_owned(), reason });
            }
            self.note_failure(&failure);
            self.lease.fail(&failure).map_err(TurnError::Slot)?;
        }
    }
}

/// Why a look that failed says nothing about the next turn, if so.
fn untellable(failure: &HookFailure, standing: &Standing, refused: bool) -> Option<String> {
    if failure.kind == FailureKind::Service && refused {
        return Some(format!("it needs a service that a look does not offer: {}", failure.reason));
    }
    let behind = !standing.taken_up || standing.waiting > 0;
    behind.then(|| format!("it has not taken the session up yet: {}", failure.reason))
}
