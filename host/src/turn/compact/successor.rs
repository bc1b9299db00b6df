//! A session that goes on under another id: an engine that compacts may move the conversation to a successor.
//!
//! The key, the agent, the entries and everything that hangs on them stay where they are; only the session's id changes, and
//! the old one is kept beside it. So the history stays readable, and whatever knows the key goes on. An engine can move the
//! session that it compacts, and no other.

use crate::observe::broken;
use crate::slot::CompactOutput;
use crate::transcript::{EngineOp, EngineScope, SessionRow, Store, StoreError, Submission, Write};
use crate::turn::TurnError;
use crate::turn::run::TurnRun;
use crate::turn::settle::STORE_PATIENCE;
use crate::turn::summaries::OWNER;
use serde::Serialize;

/// Longest id, in bytes.
const LONGEST: usize = 200;
/// Former ids of a session: `former/` and when it ended, in the gateway's own part of the session's scope.
const FORMER: &[u8] = b"former/";
/// Most former ids that are told.
const MOST: usize = 1_000;

/// The ids that a session had before, oldest first.
///
/// # Errors
///
/// Those of the store.
pub fn former_ids(store: &dyn Store, session: SessionRow) -> Result<Vec<String>, StoreError> {
    let found = store.engine_scan(OWNER, EngineScope::Session(session), FORMER, None, MOST)?;
    Ok(found.into_iter().map(|(_, id)| String::from_utf8_lossy(&id).into_owned()).collect())
}

/// A session's move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Successor {
    /// The id that it had.
    pub from: String,
    /// The id that it has now.
    pub to: String,
}

impl TurnRun {
    /// The id that the engine wants the session to go on under, when it names one and may.
    pub(super) async fn successor(&self, output: &CompactOutput) -> Result<Option<String>, TurnError> {
        if !output.ok || !output.compacted {
            return Ok(None);
        }
        let (record, ephemeral) = {
            let state = self.session.state();
            (state.record().clone(), state.extra.ephemeral)
        };
        let target = output.successor_target.as_ref();
        let named = [output.successor_session_id.as_deref(), target.and_then(|target| target.session_id.as_deref())];
        let mut named = named.into_iter().flatten();
        let Some(id) = named.next() else { return Ok(None) };
        let foreign = |what: &str| {
            let reason = format!("foreign_successor: the engine named a successor of another {what}");
            Err(TurnError::Compaction { reason })
        };
        let differs = |named: Option<&String>, own: &str| named.is_some_and(|named| named != own) && !broken("8.85");
        if named.any(|other| other != id) {
            return foreign("id beside it");
        }
        if let Some(target) = target {
            if differs(target.agent_id.as_ref(), &record.agent) {
                return foreign("agent");
            }
            if differs(target.session_key.as_ref(), &record.key) {
                return foreign("session key");
            }
            if target.store.is_some() && target.store != self.session_facts(None, None).store {
                return foreign("store");
            }
        }
        if id == record.session_id {
            return Ok(None);
        }
        let usable = !id.trim().is_empty() && id.len() <= LONGEST && id.chars().all(|letter| !letter.is_control());
        if ephemeral || !usable {
            return foreign("kind: it has no id that a session can have");
        }
        let (store, wanted) = (self.house.store.clone(), id.to_owned());
        let taken = self.house.blocking(move || Ok(store.session_by_id(&wanted)?)).await?;
        if taken.is_some() {
            return foreign("session, which exists");
        }
        Ok(Some(id.to_owned()))
    }

    /// Moves the session, durably, before anything else follows the compaction.
    pub(super) async fn move_to(&self, to: String) -> Result<Successor, TurnError> {
        TurnError::at("compact.successor.before")?;
        let now = self.house.clock.now_ms();
        let (ack, successor) = {
            let mut state = self.session.state();
            let row = state.record().row;
            let successor = Successor { from: state.record().session_id.clone(), to };
            let mut writes = Vec::new();
            state.rename(successor.to.clone(), &mut writes);
            state.retarget_rows(&successor.to, &mut writes);
            let name = [FORMER, &now.to_be_bytes()].concat();
            writes.push(Write::EngineBatch {
                engine: OWNER.into(),
                scope: EngineScope::Session(row),
                ops: vec![EngineOp::Put(name, successor.from.clone().into_bytes())],
            });
            let lease = Some((row, self.house.store.lease()));
            (self.house.store.submit(Submission { lease, writes }), successor)
        };
        tokio::time::timeout(STORE_PATIENCE, ack.durable()).await.unwrap_or(Err(StoreError::Deadline))?;
        TurnError::at("compact.successor.after")?;
        tracing::info!(
            session = self.session.key.as_deref(),
            from = successor.from,
            to = successor.to,
            "the session goes on under a new id"
        );
        Ok(successor)
    }
}
