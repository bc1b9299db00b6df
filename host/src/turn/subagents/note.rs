//! The result of a child in its parent's transcript: an entry that the parent's next turn sees, once.
//!
//! It is written with the admission of that turn, in one submission with the child's record, so that a crash neither loses it
//! nor writes it twice. No client has seen it, so a client's history is compared without it.

use super::super::agents::AgentRoom;
use super::super::house::House;
use super::super::session::{State, message_of};
use crate::transcript::{Entry, EntryId, Message, Role, StoreError, SubagentRecord, Write, stored_flags};
use std::collections::HashSet;
use std::sync::Arc;

/// `name` of the message, by which a model can tell that no person speaks.
const NAME: &str = "subagent";

/// A child of a session in memory has something to say.
pub(super) fn arrived(house: &House, record: &SubagentRecord) {
    // A session that is not in memory reads it from the store when it is opened.
    if let Some(handle) = house.hot.warm(&record.parent) {
        handle.lock().extra.notes.add(record.clone());
    }
}

/// What the children of a session in memory have to say at its next turn.
#[derive(Default)]
pub(in super::super) struct Notes {
    waiting: Vec<SubagentRecord>,
    /// Children that were heard while the session is in memory: news of them that comes late is none.
    heard: HashSet<String>,
}

impl Notes {
    pub(in super::super) fn add(&mut self, record: SubagentRecord) {
        if !self.heard.contains(&record.child) && !self.waiting.iter().any(|note| note.child == record.child) {
            self.waiting.push(record);
        }
    }

    fn take(&mut self) -> Vec<SubagentRecord> {
        let waiting = std::mem::take(&mut self.waiting);
        self.heard.extend(waiting.iter().map(|record| record.child.clone()));
        waiting
    }
}

/// The notes right behind an entry of the branch: they stay when the branch is cut there.
pub(in super::super) fn notes_behind(state: &State<'_>, entry: EntryId) -> Vec<Arc<Entry>> {
    let at = state.entries().partition_point(|other| other.id <= entry);
    state.entries()[at..].iter().take_while(|entry| is_note(entry)).cloned().collect()
}

/// True for such an entry.
fn is_note(entry: &Entry) -> bool {
    entry.flags & stored_flags::INTERNAL != 0
        && message_of(entry).is_some_and(|message| message.role == Role::User && message.name.as_deref() == Some(NAME))
}

/// Puts what children have to say before the message that is about to be admitted: new results, and those that stood right
/// behind the place where the branch was cut.
pub(in super::super) fn place_notes(
    house: &House,
    agent: &AgentRoom,
    state: &mut State<'_>,
    cut: Vec<Arc<Entry>>,
    now_ms: i64,
    writes: &mut Vec<Write>,
) -> Result<(), StoreError> {
    let again = cut.iter().filter_map(|entry| message_of(entry).map(|message| Message::clone(message)));
    let arrived = state.extra.notes.take();
    let new: Vec<Message> = arrived.iter().map(message).collect();
    for message in again.collect::<Vec<_>>().into_iter().chain(new) {
        let mut entry = house.entry(agent, state, message, now_ms, false);
        entry.flags |= stored_flags::INTERNAL;
        state.append(entry, writes)?;
    }
    StoreError::at("subagent.delivered")?;
    for mut record in arrived {
        record.delivered = true;
        writes.push(Write::Subagent(Box::new(record)));
    }
    Ok(())
}

fn message(record: &SubagentRecord) -> Message {
    let who = match &record.label {
        Some(label) => format!("\"{label}\" ({})", record.child),
        None => record.child.clone(),
    };
    let text = match (&record.result, &record.cause) {
        (Some(result), _) => format!("[Result of the subagent {who}]\n\n{result}"),
        (None, cause) => {
            let reason = record.reason.map_or("released", crate::transcript::SubagentEnd::name);
            let cause = cause.as_deref().map(|cause| format!(": {cause}")).unwrap_or_default();
            format!("[The subagent {who} ended without a result ({reason}{cause})]")
        }
    };
    Message { name: Some(NAME.into()), ..Message::text_of(Role::User, text) }
}
