//! The index over the passages of a session: postings for words, a vector each, and what the finder needs to know of an entry.
//!
//! A passage is an entry, or a part of one that is long. Entries are added in the order of their ordinals and never removed;
//! which of them count is asked at each search, since a session may have left branches behind.

/// Number of an entry in its session, from 0, in the order of arrival. The model is shown this number plus one.
pub(crate) type Ordinal = u32;

/// An entry as it is indexed.
pub(crate) struct NewEntry<'a> {
    /// Its number; greater than all before.
    pub ordinal: Ordinal,
    /// A code of [`engine_abi::wire::role`].
    pub role: u32,
    /// When it was said, in ms since the epoch.
    pub time_ms: i64,
    /// Tokens of the whole message as the host counts them.
    pub tokens: u32,
    /// A turn starts here.
    pub starts_turn: bool,
    /// Name of who said it, where participants have names; of the tool for tool results.
    pub name: Option<&'a str>,
    /// Its text: of an assistant's tool calls, names and arguments follow the words.
    pub text: &'a str,
}

/// The index of one session.
#[derive(Default)]
pub(crate) struct Index {}

impl Index {
    /// Adds an entry.
    pub(crate) fn add(&mut self, entry: &NewEntry<'_>) {
        let _ = entry;
    }
}
