//! Admission: the client's messages find their place in the tree, get their row ids, and are queued to the one writer.

use super::TurnError;
use super::agents::AgentRoom;
use super::house::House;
use super::offer::close_row;
use super::session::{Session, State, is_role};
use super::subagents;
use crate::observe::failpoint;
use crate::transcript::reconcile::reconcile;
use crate::transcript::{
    Ack, Entry, EntryBody, EntryId, Message, OutboxRow, OutboxState, Role, Submission, TurnRecord, Write, stored_flags,
};
use std::sync::Arc;
use std::time::Duration;

/// How long an admission waits for the answer to share its sync. A model that takes longer has it written meanwhile.
const SHARE_SYNC: Duration = Duration::from_millis(2);

/// What is asked to be admitted.
pub(super) struct Admission {
    pub(super) messages: Vec<Message>,
    /// When each of them was said; where it tells nothing: now.
    pub(super) times_ms: Vec<Option<i64>>,
    /// `messages` is the whole conversation.
    pub(super) full: bool,
    pub(super) heartbeat: bool,
    pub(super) idempotency_key: Option<String>,
    /// Digest of the request that came with it.
    pub(super) asked: Option<String>,
    /// An earlier request with the same key admitted this entry, and it was never answered.
    pub(super) resume: Option<EntryId>,
    /// Engine that is to serve.
    pub(super) engine: String,
    /// Nothing leaves the house before the answer does, so the admission may share its sync.
    pub(super) whole: bool,
}

/// A turn that has its place.
#[derive(Debug, Default)]
pub(super) struct Admitted {
    /// Id of this request's turn record (UUID v7).
    pub(super) turn_id: String,
    /// Id of the logical turn: key of its outbox row, the same while a client runs tools.
    pub(super) logical_id: String,
    /// First entry of the current turn: the last user entry. 0 when there is none.
    pub(super) first: EntryId,
    /// Receipt of the admission, if something was written.
    pub(super) ack: Option<Ack>,
    /// The head moves back only with the answer: without one, the old branch stays the active one.
    pub(super) head_pending: bool,
}

impl House {
    /// Admits messages to a session. From here on they have row ids, and reads at or past the current turn are fenced.
    pub(super) fn admit(&self, session: &Session, admission: Admission) -> Result<Admitted, TurnError> {
        TurnError::at("turn.admit.before")?;
        let mut state = session.state();
        let turn_id = uuid::Uuid::now_v7().to_string();
        let (branch_at, append_from) = place(&state, &admission)?;
        refuse_answers_to_nobody(&state, branch_at, &admission.messages[append_from..])?;
        let mut writes = std::mem::take(&mut state.extra.deferred);
        // How far each open turn came is looked up before the branch changes under it.
        let open = open_turns(&state);
        let times = admission.times_ms.into_iter().chain(std::iter::repeat(None));
        let new = admission.messages.into_iter().zip(times).skip(append_from);
        let mut heard = subagents::notes_behind(&state, branch_at);
        let mut moved = Vec::new();
        state.cut_behind(branch_at, &mut moved)?;
        let mut head_pending = !moved.is_empty();
        let now = self.clock.now_ms();
        let mut first_new = None;
        for (message, time_ms) in new {
            if head_pending {
                writes.append(&mut moved);
                head_pending = false;
            }
            if first_new.is_none() && message.role == Role::User {
                let heard = std::mem::take(&mut heard);
                subagents::place_notes(self, &session.agent, &mut state, heard, now, &mut writes)?;
            }
            let entry = self.entry(&session.agent, &mut state, message, time_ms.unwrap_or(now), admission.heartbeat);
            first_new.get_or_insert(entry.id);
            state.append(entry, &mut writes)?;
        }
        state.sync(&session.agent.counter);
        let first = state.last_user().or(first_new).unwrap_or(0);
        let mut admitted = Admitted { logical_id: turn_id.clone(), turn_id, first, ack: None, head_pending };
        if state.extra.ephemeral {
            return Ok(admitted);
        }
        let mut known = None;
        for turn in open {
            if turn.row.first == first {
                // A client that ran tools comes back, or one that got no answer tries again: the same logical turn.
                admitted.logical_id = turn.row.key.clone();
                known = Some(turn.row);
            } else {
                close(&mut state, turn, &mut writes);
            }
        }
        let row = match known {
            // Where and when it was admitted stays.
            Some(row) if row.engine == admission.engine => row,
            Some(row) => {
                state.drop_row(&row.engine, &row.key, &mut writes);
                OutboxRow { engine: admission.engine, ..row }
            }
            None => OutboxRow {
                key: admitted.logical_id.clone(),
                engine: admission.engine,
                session: state.record().row,
                session_id: state.record().session_id.clone(),
                first,
                last: 0,
                position: state.message_position(first),
                generation: state.record().generation,
                state: OutboxState::Admitted,
                reason: None,
                attempts: 0,
                attempted_ms: 0,
                last_error: None,
                facts: None,
                created_ms: now,
            },
        };
        state.put_row(row, &mut writes);
        if let Some(key) = admission.idempotency_key {
            // A retry after a crash must find what was admitted.
            writes.push(Write::Turn(TurnRecord {
                turn_id: admitted.turn_id.clone(),
                session: state.record().row,
                admitted: first,
                terminal: 0,
                idempotency_key: Some(key),
                engine: String::new(),
                degraded: None,
                detail: serde_json::json!({"outcome": "admitted", "request": admission.asked}),
                started_ms: now,
                ended_ms: 0,
            }));
        }
        let lease = Some((state.record().row, self.store.lease()));
        let submission = Submission { lease, writes };
        TurnError::at("turn.admit.before_queue")?;
        admitted.ack = Some(match admission.whole {
            true => self.store.submit_soon(submission, SHARE_SYNC),
            false => self.store.submit(submission),
        });
        failpoint::pass("turn.admit.queued");
        Ok(admitted)
    }

    /// A new entry behind the head.
    pub(super) fn entry(
        &self,
        agent: &AgentRoom,
        state: &mut State<'_>,
        message: Message,
        time_ms: i64,
        heartbeat: bool,
    ) -> Entry {
        Entry {
            id: state.next_entry(&*self.store),
            parent: state.branch().head(),
            session: state.record().row,
            time_ms,
            flags: if heartbeat { stored_flags::HEARTBEAT } else { 0 },
            tokens: agent.counter.message(&message),
            digest: message.digest(),
            body: EntryBody::Message(Arc::new(message)),
        }
    }
}

/// Where the turn goes on, and the first message that is new.
fn place(state: &State<'_>, admission: &Admission) -> Result<(EntryId, usize), TurnError> {
    let head = state.branch().head();
    if admission.full {
        let found = reconcile(state.entries(), &admission.messages);
        return Ok((found.branch_at, found.append_from));
    }
    // One that is on another branch by now is new here.
    let Some((resume, at)) = admission.resume.and_then(|resume| Some((resume, state.branch().position(resume)?)))
    else {
        return Ok((head, 0));
    };
    let behind = &state.entries()[at + 1..];
    let own = |entry: &Entry| entry.flags & stored_flags::INTERNAL != 0;
    let answered = behind.iter().any(|entry| is_role(entry, Role::Assistant) && !own(entry));
    if Some(resume) != state.last_user() || answered {
        // Said again it would be there twice, and an answer to it now would be one to something else.
        return Err(TurnError::Superseded);
    }
    // Steps of the gateway's own that led to no answer are taken again.
    let stay = behind.iter().take_while(|entry| !own(entry)).last();
    Ok((stay.map_or(resume, |entry| entry.id), admission.messages.len()))
}

/// Tool results alone, where no user has said anything yet, would be a turn that no prompt can show whole. That is the client's
/// to mend; no engine is asked, since the first that showed such a turn would be held to have broken the contract.
fn refuse_answers_to_nobody(state: &State<'_>, branch_at: EntryId, new: &[Message]) -> Result<(), TurnError> {
    if new.is_empty() || new.iter().any(|message| message.role != Role::Tool) {
        return Ok(());
    }
    let kept = state.branch().position(branch_at).map_or(0, |at| at + 1);
    // From the end: one turn back there is a user's message as a rule.
    if state.entries()[..kept].iter().rev().any(|entry| is_role(entry, Role::User)) {
        return Ok(());
    }
    Err(TurnError::invalid("a tool result answers a call of this conversation, and there is none", "messages"))
}

/// An admitted row with what there is of its turn.
struct OpenTurn {
    row: OutboxRow,
    /// Last entry of the turn, when a client was given an answer in it.
    last: Option<EntryId>,
}

fn open_turns(state: &State<'_>) -> Vec<OpenTurn> {
    let admitted = state.extra.outbox.iter().filter(|row| row.state == OutboxState::Admitted);
    admitted
        .map(|row| {
            let mut entries = state.messages_from(row.first);
            if entries.first().is_some_and(|entry| entry.id != row.first) {
                entries.clear();
            }
            let end =
                entries.iter().skip(1).position(|entry| is_role(entry, Role::User)).map_or(entries.len(), |at| at + 1);
            entries.truncate(end);
            let last = entries.last().map(|entry| entry.id).filter(|_| row.is_open());
            OpenTurn { row: row.clone(), last }
        })
        .collect()
}

/// Closes a turn that nobody goes on with: with what is there, or, when no client was given an answer, by forgetting it; the
/// engine gets the entries through the cursor then.
fn close(state: &mut State<'_>, turn: OpenTurn, writes: &mut Vec<Write>) {
    match turn.last {
        Some(last) => {
            let facts = turn.row.facts.clone().unwrap_or_default();
            let row = close_row(state, turn.row, last, facts);
            state.put_row(row, writes);
        }
        None => state.drop_row(&turn.row.engine, &turn.row.key, writes),
    }
}
