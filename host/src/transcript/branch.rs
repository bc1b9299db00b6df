//! The active branch of a session in memory, root first.

use super::{Entry, EntryBody, EntryId};
use std::sync::Arc;

/// Bytes that an entry costs beside its message: the entry itself, its counts, its pointer.
const ENTRY_OVERHEAD: usize = 128;

/// A branch: each entry is the child of the one before it, so ids rise along it. Appending costs what is new.
#[derive(Debug, Clone, Default)]
pub struct Branch {
    entries: Vec<Arc<Entry>>,
    bytes: usize,
}

impl Branch {
    /// A branch from the entries that a store gave, root first.
    pub fn from_entries(entries: Vec<Arc<Entry>>) -> Branch {
        let bytes = entries.iter().map(|entry| weight(entry)).sum();
        Branch { entries, bytes }
    }

    /// The entries, root first.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True without entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Last entry, or 0.
    pub fn head(&self) -> EntryId {
        self.entries.last().map_or(0, |entry| entry.id)
    }

    /// Where an entry stands; a binary search.
    pub fn position(&self, id: EntryId) -> Option<usize> {
        self.entries.binary_search_by_key(&id, |entry| entry.id).ok()
    }

    /// An entry by id.
    pub fn get(&self, id: EntryId) -> Option<&Arc<Entry>> {
        self.position(id).and_then(|at| self.entries.get(at))
    }

    /// Rough size in memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends a child of the head. False, and nothing changes, when it is no child of the head.
    #[must_use]
    pub fn push(&mut self, entry: Arc<Entry>) -> bool {
        if entry.parent != self.head() || entry.id <= entry.parent {
            return false;
        }
        self.bytes += weight(&entry);
        self.entries.push(entry);
        true
    }

    /// Makes `id` the head, so that the next entry starts a sibling branch behind it; 0 empties the branch. What is dropped
    /// stays in the store. False, and nothing changes, when the branch does not hold `id`.
    #[must_use]
    pub fn branch_at(&mut self, id: EntryId) -> bool {
        let keep = match (id, self.position(id)) {
            (0, _) => 0,
            (_, Some(at)) => at + 1,
            (_, None) => return false,
        };
        self.bytes -= self.entries.drain(keep..).map(|entry| weight(&entry)).sum::<usize>();
        true
    }
}

fn weight(entry: &Entry) -> usize {
    ENTRY_OVERHEAD
        + match &entry.body {
            EntryBody::Message(message) => message.weight(),
            EntryBody::Compaction(compaction) => compaction.summary.len(),
        }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::transcript::{Message, Role};

    /// A message entry of session 1.
    pub(crate) fn entry(id: EntryId, parent: EntryId, role: Role, text: &str) -> Arc<Entry> {
        let message = Message::text_of(role, text);
        let digest = message.digest();
        let body = EntryBody::Message(Arc::new(message));
        Arc::new(Entry { id, parent, session: 1, time_ms: id as i64, flags: 0, tokens: 1, digest, body })
    }

    #[test]
    fn only_children_of_the_head_are_appended() {
        let mut branch = Branch::default();
        assert!(!branch.push(entry(3, 2, Role::User, "no root")));
        assert!(branch.push(entry(3, 0, Role::User, "a")));
        assert!(branch.push(entry(9, 3, Role::Assistant, "b")));
        assert!(!branch.push(entry(10, 3, Role::Assistant, "sibling")));
        assert_eq!((branch.head(), branch.len()), (9, 2));
        assert_eq!(branch.position(9), Some(1));
        assert_eq!(branch.position(4), None);
        assert_eq!(branch.get(3).unwrap().parent, 0);
    }

    #[test]
    fn branching_keeps_the_size_true() {
        let mut branch = Branch::default();
        assert!(branch.push(entry(1, 0, Role::User, "a")));
        let one = branch.bytes();
        assert!(branch.push(entry(2, 1, Role::Assistant, &"b".repeat(1000))));
        assert!(branch.bytes() > one + 1000);
        assert!(!branch.branch_at(7));
        assert_eq!(branch.len(), 2);
        assert!(branch.branch_at(1));
        assert_eq!((branch.head(), branch.bytes()), (1, one));
        assert!(branch.branch_at(0));
        assert_eq!((branch.head(), branch.bytes()), (0, 0));
    }
}
