//! Comparing the history that a client sent with the active branch, by role, text and call ids.
//!
//! ```text
//!  stored   U1 A1 U2 A2          client sends      kind         the turn goes on from
//!                                U1 A1 U2 A2 U3    Append       A2, with U3
//!                                U1 A1 U2' ...     Branch       A1, with U2' …
//!                                U1 A1             Branch       A1, with nothing
//!                                U1 A1 U2          Regenerate   U2: the new answer becomes a sibling of A2
//!                                U1 A1 U2 A2       Same         U2, likewise
//!  stored   U1 A1 U2             U1 A1 U2          Same         U2: it is answered now
//! ```
//!
//! Compaction entries, and messages that were made inside the gateway and that no client has seen, are skipped. Compactions
//! behind the last kept message stay on the new branch; the gateway's own messages that led to a dropped answer do not. An answer
//! that took several steps, or whose calls the gateway ran in part, is compared as the client got it.

use super::{Content, Entry, EntryBody, EntryId, Message, Role, stored_flags};
use std::sync::Arc;

/// What stands between the texts of several steps of one answer, as a client gets it.
pub const BETWEEN: &str = "\n\n";

/// How a client's history relates to the active branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The branch, and more behind it.
    Append,
    /// Shorter by more than the last reply, or different from some message on.
    Branch,
    /// The branch without its last reply: a new one is wanted.
    Regenerate,
    /// The whole branch: a new reply is wanted, or, with an idempotency key, it is a retry.
    Same,
}

/// Result of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reconciled {
    /// How they relate.
    pub kind: Kind,
    /// Number of messages of the client that the turn finds on the branch.
    pub keep: usize,
    /// Entry behind which the turn goes on; 0 for the root. The head of the branch when nothing is dropped.
    pub branch_at: EntryId,
    /// First message of the client that is new.
    pub append_from: usize,
}

/// True when the client shows the whole history: an assistant or tool message, or two or more user messages. One user message
/// alone is a delta. `messages` holds no system or developer prompts.
pub fn is_full_history(messages: &[Message]) -> bool {
    messages.len() > 1 || messages.iter().any(|message| message.role != Role::User)
}

/// Compares `client`, without system and developer prompts, with `branch`, root first. Costs one digest per message of the
/// client.
pub fn reconcile(branch: &[Arc<Entry>], client: &[Message]) -> Reconciled {
    let mut shown = branch.iter().enumerate().filter(|(_, entry)| is_shown(entry));
    let mut keep = 0;
    // Where the first stored message stands that the client does not have.
    let mut dropped = None;
    for (at, entry) in shown.by_ref() {
        match client.get(keep) {
            Some(message) if is_same(branch, at, message) => keep += 1,
            _ => {
                dropped = Some((at, entry));
                break;
            }
        }
    }
    let head = branch.last().map_or(0, |entry| entry.id);
    let Some((dropped_at, first_dropped)) = dropped else {
        if keep < client.len() {
            return Reconciled { kind: Kind::Append, keep, branch_at: head, append_from: keep };
        }
        return same(branch, keep);
    };
    let behind = behind_last_shown(branch.get(..dropped_at).unwrap_or(&[]));
    let rest_is_reply = !is_user(first_dropped) && shown.all(|(_, entry)| !is_user(entry));
    let asks = client.last().is_some_and(|message| message.role != Role::Assistant);
    let kind = if keep == client.len() && rest_is_reply && asks { Kind::Regenerate } else { Kind::Branch };
    Reconciled { kind, keep, branch_at: behind, append_from: keep }
}

/// The client has all of the branch: what is behind its last user message or tool result is to be made anew.
fn same(branch: &[Arc<Entry>], shown: usize) -> Reconciled {
    let mut end = branch.len();
    let mut keep = shown;
    while let Some(entry) = end.checked_sub(1).and_then(|last| branch.get(last)) {
        if is_shown(entry) {
            if role(entry) != Some(Role::Assistant) {
                break;
            }
            keep -= 1;
        }
        end -= 1;
    }
    // Compactions behind the message that is answered stay.
    let rest = branch.get(end..).unwrap_or(&[]);
    let stay = rest.iter().take_while(|entry| matches!(entry.body, EntryBody::Compaction(_))).count();
    let branch_at = (end + stay).checked_sub(1).and_then(|last| branch.get(last)).map_or(0, |entry| entry.id);
    Reconciled { kind: Kind::Same, keep, branch_at, append_from: shown }
}

/// True when the client's message is the entry, as it is or as the client got it.
fn is_same(branch: &[Arc<Entry>], at: usize, message: &Message) -> bool {
    let digest = message.digest();
    branch.get(at).is_some_and(|entry| entry.digest == digest) || told(branch, at).is_some_and(|told| told == digest)
}

/// Digest of an answer as the client got it, when that is not what is stored: the texts of the gateway's own steps before it
/// lead it, and the calls that the gateway ran are not in it.
fn told(branch: &[Arc<Entry>], at: usize) -> Option<u128> {
    let EntryBody::Message(message) = &branch.get(at)?.body else { return None };
    if message.role != Role::Assistant {
        return None;
    }
    let before = branch.get(..at)?.iter().rev().take_while(|entry| !is_shown(entry)).filter_map(text_of_assistant);
    let mut texts: Vec<String> = before.filter(|text| !text.is_empty()).collect();
    texts.reverse();
    let ran: Vec<&str> = branch
        .get(at + 1..)?
        .iter()
        .take_while(|entry| !is_shown(entry))
        .filter_map(|entry| match &entry.body {
            EntryBody::Message(message) => message.tool_call_id.as_deref(),
            EntryBody::Compaction(_) => None,
        })
        .collect();
    let hidden = message.tool_calls.iter().any(|call| ran.contains(&call.id.as_str()));
    if texts.is_empty() && !hidden {
        return None;
    }
    let mut told = Message::clone(message);
    told.tool_calls.retain(|call| !ran.contains(&call.id.as_str()));
    if !texts.is_empty() {
        texts.extend(Some(message.text().into_owned()).filter(|text| !text.is_empty()));
        told.content = Content::Text(texts.join(BETWEEN));
    }
    Some(told.digest())
}

fn text_of_assistant(entry: &Arc<Entry>) -> Option<String> {
    match &entry.body {
        EntryBody::Message(message) if message.role == Role::Assistant => Some(message.text().into_owned()),
        _ => None,
    }
}

/// The entry to go on behind when everything after `kept` is dropped: the last message that the client knows, or the last of
/// the compactions, and of the results of calls that the gateway ran, directly behind it.
fn behind_last_shown(kept: &[Arc<Entry>]) -> EntryId {
    let shown = kept.iter().rposition(|entry| is_shown(entry)).map_or(0, |at| at + 1);
    let rest = kept.get(shown..).unwrap_or(&[]);
    let belongs = |entry: &&Arc<Entry>| matches!(role(entry), None | Some(Role::Tool));
    let stay = rest.iter().take_while(belongs).count();
    (shown + stay).checked_sub(1).and_then(|last| kept.get(last)).map_or(0, |entry| entry.id)
}

fn is_shown(entry: &Entry) -> bool {
    matches!(entry.body, EntryBody::Message(_)) && entry.flags & stored_flags::INTERNAL == 0
}

fn role(entry: &Entry) -> Option<Role> {
    match &entry.body {
        EntryBody::Message(message) => Some(message.role),
        EntryBody::Compaction(_) => None,
    }
}

fn is_user(entry: &Entry) -> bool {
    role(entry) == Some(Role::User)
}

#[cfg(test)]
#[path = "reconcile_tests.rs"]
mod tests;
