//! One session: its active branch, what an engine is shown of it, and how far an engine was given it.

use crate::compaction::{Projection, View};
use crate::model::TokenCounter;
use crate::slot::EntryRef;
use crate::transcript::{Branch, CompactionBody, Entry, EntryBody, EntryId, Message, SessionRecord};
use std::collections::HashMap;
use std::sync::Arc;

/// When the first entry was said; each later one a second after it.
const BEGINNING_MS: i64 = 1_700_000_000_000;

/// See the module.
pub(in crate::check) struct Session {
    pub(in crate::check) record: SessionRecord,
    pub(in crate::check) branch: Branch,
    projection: Projection,
    /// The current turn's first entry, or 0.
    pub(in crate::check) fence: EntryId,
    /// Last entry that the engine was given by a commit or its cursor.
    pub(in crate::check) handed: EntryId,
    /// True once the running compaction was left to the host.
    pub(in crate::check) delegated: bool,
    /// Last entry that the cursor gave in the running hook.
    pub(in crate::check) read_up_to: EntryId,
}

impl Session {
    pub(super) fn new(row: u64, key: &str) -> Session {
        Session {
            record: SessionRecord {
                row,
                key: key.to_owned(),
                session_id: format!("00000000-0000-7000-8000-{row:012}"),
                agent: "main".into(),
                head: 0,
                generation: 1,
                created_ms: BEGINNING_MS,
                updated_ms: BEGINNING_MS,
                entries: 0,
            },
            branch: Branch::default(),
            projection: Projection::default(),
            fence: 0,
            handed: 0,
            delegated: false,
            read_up_to: 0,
        }
    }

    fn push(&mut self, id: EntryId, body: EntryBody, tokens: u32, digest: u128) {
        let entry = Entry {
            id,
            parent: self.branch.head(),
            session: self.record.row,
            time_ms: BEGINNING_MS + i64::try_from(id).unwrap_or(0) * 1_000,
            flags: 0,
            tokens,
            digest,
            body,
        };
        // A child of the head with a new id is always taken.
        let _ = self.branch.push(Arc::new(entry));
        self.record.head = self.branch.head();
        self.record.entries += 1;
    }

    /// Appends a message.
    pub(in crate::check) fn say(&mut self, id: EntryId, message: Message, counter: &TokenCounter) {
        let (tokens, digest) = (counter.message(&message), message.digest());
        self.push(id, EntryBody::Message(Arc::new(message)), tokens, digest);
    }

    /// Puts a summary in the place of what is older than `first_kept`.
    pub(in crate::check) fn boundary(&mut self, id: EntryId, summary: &str, first_kept: EntryId) {
        let body = CompactionBody {
            summary: summary.to_owned(),
            first_kept,
            tokens_before: 0,
            tokens_after: 0,
            trigger: "manual".into(),
            by: "check".into(),
        };
        self.push(id, EntryBody::Compaction(body), 0, 0);
    }

    /// The client goes back behind `keep`, and another branch begins there.
    pub(in crate::check) fn edit(&mut self, keep: EntryId) {
        self.edit_away(keep);
        self.handed = self.handed.min(keep);
    }

    /// Takes back what stands behind `keep` and was not handed over to anybody.
    pub(in crate::check) fn edit_away(&mut self, keep: EntryId) {
        let _ = self.branch.branch_at(keep);
        self.record.head = self.branch.head();
    }

    /// What an engine is shown, and how many of its entries stand before the current turn.
    pub(in crate::check) fn view(&mut self, counter: &TokenCounter) -> (Arc<View>, usize) {
        self.projection.sync(self.branch.entries(), &HashMap::new(), counter);
        let view = self.projection.view();
        let len = if self.fence == 0 { view.len() } else { view.index_from(self.fence) };
        (view, len)
    }

    /// Message entries from `first` on.
    pub(in crate::check) fn from(&self, first: EntryId) -> Vec<EntryRef> {
        self.branch.entries().iter().filter(|entry| entry.id >= first).filter_map(|entry| EntryRef::of(entry)).collect()
    }
}
