//! Questions on branches that are thrown away: the prompt of a turn that never was.
//!
//! A question is appended to the session in memory alone, as the user message of a turn would be, the engine assembles for it as
//! before any model call, and the entry is taken back. Nothing is admitted, stored, committed or compacted, and the engine is
//! called as by a look ([`context`](crate::turn::context)): its services read, and refuse to write. So the session and what
//! engines were told of it are the same afterwards; [`Player::standing`] is for those who do not take that on trust.

use super::player::Player;
use super::{ReplayError, Watch};
use crate::model::Messages;
use crate::slot::LeaseRequest;
use crate::transcript::{Message, SessionRecord};
use crate::turn::TurnError;
use crate::turn::context::Branch;
use crate::turn::house::House;
use crate::turn::run::TurnRun;
use crate::turn::session::Session;
use crate::turn::written::Written;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio_util::sync::CancellationToken;

/// A question.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// What the user says.
    pub message: Message,
    /// When, in ms since the epoch; `None`: now.
    pub time_ms: Option<i64>,
    /// System and developer messages of the request.
    pub system: Vec<Value>,
    /// Tokens that the engine's answer may cost, the question and `system` not counted: the `token_budget` that it is told.
    pub budget: u64,
}

/// What the model would have been sent for a question.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Engine whose answer it is.
    pub engine: String,
    /// Closed code, when it is not the selected one.
    pub degraded: Option<String>,
    /// Hooks that failed: `engine`, `hook`, `code`, `reason`.
    pub failures: Vec<Value>,
    /// The messages, system first.
    pub messages: Messages,
    /// Place of the question among them. The engine's volatile block stands at its head.
    pub question_at: usize,
    /// Tokens of what the engine gave, as the host counts them: history, new messages, additions.
    pub tokens: u64,
    /// The same as the engine estimated them.
    pub engine_estimate: u64,
    /// The engine gave more than the budget. What was too much is not in `messages`: the host trimmed it, as its ladder does.
    pub over_budget: bool,
}

/// How a session stands, and what engines were told so far. Questions change nothing of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// Entries of the active branch, as stored.
    pub stored: usize,
    /// Entries of the active branch in memory.
    pub entries: usize,
    /// The session's record: head, numbers and times.
    record: SessionRecord,
    /// Calls of the engines' hooks, `assemble` left out, by `ENGINE HOOK`.
    pub told: BTreeMap<String, u64>,
}

impl Player {
    /// What the next turn would do before its model call: waits for what follows the last turn, hands turns over that wait, and
    /// has the engine take the session up as far as it missed something of it.
    ///
    /// # Errors
    ///
    /// [`ReplayError::Ask`] when no engine may serve, or the store failed.
    pub async fn take_up(&self, key: &str) -> Result<(), ReplayError> {
        self.quiet().await;
        take_up(&self.turns.house, key).await.map_err(|source| ReplayError::Ask { session: key.to_owned(), source })?;
        self.quiet().await;
        self.barrier().await
    }

    /// What the model would be sent if this were asked now. A hook that fails is told in the answer, which is then that of the
    /// next engine of the chain.
    ///
    /// # Errors
    ///
    /// [`ReplayError::Ask`] when there is no such session, no engine may serve, or looking alone tells nothing.
    pub async fn ask(&self, key: &str, question: Question) -> Result<Asked, ReplayError> {
        self.turns.house.clock.set(question.time_ms);
        let asked = ask(&self.turns.house, key, question, &self.question_id).await;
        self.turns.house.clock.set(None);
        asked.map_err(|source| ReplayError::Ask { session: key.to_owned(), source })
    }

    /// How a session stands, and what engines were told.
    ///
    /// # Errors
    ///
    /// [`ReplayError::Ask`] when there is no such session, or the store failed.
    pub async fn standing(&self, key: &str) -> Result<Standing, ReplayError> {
        self.barrier().await?;
        let stored = self.branch(key.to_owned()).await?.len();
        let session = self.turns.house.open(key, false).await;
        let session = session.map_err(|source| ReplayError::Ask { session: key.to_owned(), source })?;
        let (entries, record) = {
            let state = session.state();
            (state.entries().len(), state.record().clone())
        };
        let mut told = BTreeMap::new();
        for (engine, report) in self.engines() {
            for (hook, stats) in report.hooks.as_object().into_iter().flatten().filter(|(hook, _)| *hook != "assemble")
            {
                told.insert(format!("{engine} {hook}"), stats["count"].as_u64().unwrap_or(0));
            }
        }
        Ok(Standing { stored, entries, record, told })
    }
}

/// For those who only want the turns to be played.
impl Watch for () {}

async fn take_up(house: &Arc<House>, key: &str) -> Result<(), TurnError> {
    let lane = house.lanes.enter_for(key, &CancellationToken::new()).await?;
    let session = house.open(key, false).await?;
    let lease = house.slot.lease(&LeaseRequest::turn(agent_of(&session), true)).map_err(TurnError::Slot)?;
    TurnRun::operation(house.clone(), session, lease, Some(lane)).take_up_session().await
}

async fn ask(house: &Arc<House>, key: &str, question: Question, id: &AtomicU64) -> Result<Asked, TurnError> {
    let lane = house.lanes.enter_for(key, &CancellationToken::new()).await?;
    let session = house.open(key, false).await?;
    let lease = house.slot.lease(&LeaseRequest::turn(agent_of(&session), true)).map_err(TurnError::Slot)?;
    let mut run = TurnRun::operation(house.clone(), session.clone(), lease, Some(lane));
    run.system_tokens = session.agent.system_tokens(&question.system);
    run.system = question.system;
    let branch = Branch::grow(house, &session, question.message, id)?;
    run.admitted.first = branch.question();
    let limit = question.budget + run.fixed_tokens() + branch.tokens();
    let assembled = run.look(limit).await?;
    if run.notes.token_budget != Some(question.budget) {
        return Err(TurnError::internal(format!("the engine was told a budget of {:?}", run.notes.token_budget)));
    }
    let mut prompt = assembled.prompt;
    let turn: u64 = prompt.items().iter().filter(|item| item.current_turn).map(|item| item.tokens).sum();
    let tokens = prompt.tokens().saturating_sub(run.fixed_tokens() + turn);
    let over_budget = tokens > question.budget;
    if over_budget {
        prompt.trim(limit, &run.agent.counter);
    }
    let question_at = prompt.turn_at().ok_or_else(|| TurnError::internal("the question is not in its own prompt"))?;
    Ok(Asked {
        engine: run.lease.engine().id().to_owned(),
        degraded: run.degraded_code(),
        failures: std::mem::take(&mut run.notes.failures),
        messages: prompt.write(&mut Written::default()),
        question_at,
        tokens,
        engine_estimate: run.notes.engine_estimate,
        over_budget,
    })
}

fn agent_of(session: &Session) -> String {
    session.state().record().agent.clone()
}
