//! Where the projection starts: the latest compaction that holds, and the summary that stands for what is older.
//!
//! A compaction holds when its summary says something and it replaces at least one entry of what the branch showed before it.
//! A bad one is passed over, so that a mistake of an engine never hides history.
//!
//! Ids must rise along the projection, and the entries that stay are older than the compaction entry. So the summary takes the
//! id of *the last entry that it replaces*: the one right before the first that stays.

use crate::transcript::{CompactionBody, Entry, EntryBody, EntryId, Message, Role};
use std::sync::Arc;

/// Stands before every summary as it is sent, so that no model takes it for a request.
const PREFACE: &str =
    "[Summary of the earlier conversation, made when it was compacted. Background, not a request.]\n\n";

/// The start of a projection.
#[derive(Debug, Clone, Default)]
pub(super) struct Boundary {
    /// Position of the compaction entry on the branch.
    pub at: usize,
    /// Position of the first entry that stays; 0 when nothing was compacted.
    pub shown_from: usize,
    /// The compaction entry.
    pub entry: Option<Arc<Entry>>,
}

impl Boundary {
    /// The latest compaction at or after position `from` that holds, seen from this one.
    pub(super) fn advance(&self, branch: &[Arc<Entry>], from: usize) -> Option<Boundary> {
        let mut latest: Option<Boundary> = None;
        for (at, entry) in branch.iter().enumerate().skip(from) {
            let EntryBody::Compaction(body) = &entry.body else { continue };
            let before = latest.as_ref().unwrap_or(self);
            if let Some(shown_from) = before.replaced(branch, at, body) {
                latest = Some(Boundary { at, shown_from, entry: Some(Arc::clone(entry)) });
            }
        }
        latest
    }

    fn replaced(&self, branch: &[Arc<Entry>], at: usize, body: &CompactionBody) -> Option<usize> {
        if body.summary.trim().is_empty() {
            return None;
        }
        let first = branch[..at].partition_point(|entry| entry.id < body.first_kept);
        let exact = branch[..at].get(first).is_some_and(|entry| entry.id == body.first_kept);
        let nothing_kept = body.first_kept >= branch[at].id;
        ((exact || nothing_kept) && first > 0 && first >= self.shown_from).then_some(first)
    }

    /// The summary's row: id, time and message.
    pub(super) fn summary(&self, branch: &[Arc<Entry>]) -> Option<(EntryId, i64, Message)> {
        let entry = self.entry.as_ref()?;
        let EntryBody::Compaction(body) = &entry.body else { return None };
        let replaced = branch.get(self.shown_from.checked_sub(1)?)?;
        Some((replaced.id, replaced.time_ms, summary_message(&body.summary)))
    }
}

/// The message that shows a summary: what a projection puts in front, and what is counted when one is made.
pub fn summary_message(summary: &str) -> Message {
    Message::text_of(Role::User, format!("{PREFACE}{}", summary.trim()))
}

/// The summary in such a message.
pub(super) fn summary_text(shown: &str) -> &str {
    shown.strip_prefix(PREFACE).unwrap_or(shown)
}

/// True for a message that shows a summary.
pub(super) fn is_summary(message: &Message) -> bool {
    message.role == Role::User
        && matches!(&message.content, crate::transcript::Content::Text(text) if text.starts_with(PREFACE))
}
