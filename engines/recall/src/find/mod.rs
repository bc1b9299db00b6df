//! From a prompt to the passages that belong to it.

use crate::index::{Index, Ordinal};
use std::borrow::Cow;
use std::ops::Range;

/// What is looked for, and where.
pub(crate) struct Ask<'a> {
    /// The words: the current user message, or a tool's query.
    pub text: &'a str,
    /// Name of who asks, where participants have names.
    pub name: Option<&'a str>,
    /// The conversation's own time, in ms since the epoch: dates such as "last Friday" count from here.
    pub now_ms: i64,
    /// True for the entries that may be found: those of the active branch that are not shown otherwise.
    pub allowed: &'a dyn Fn(Ordinal) -> bool,
}

/// A passage that was found.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hit {
    /// Its entry.
    pub ordinal: Ordinal,
    /// Bytes of the entry's text.
    pub bytes: Range<u32>,
    /// Higher is better; comparable only within one answer.
    pub score: f32,
}

/// Where the texts of entries are read: the projected history while a prompt is assembled, else the engine's store.
pub(crate) trait Texts {
    /// The text that was indexed for this entry.
    fn text(&self, ordinal: Ordinal) -> Option<Cow<'_, str>>;
}

/// The best passages, best first.
pub(crate) fn search(index: &Index, ask: &Ask<'_>, limit: usize) -> Vec<Hit> {
    let _ = (index, ask, limit);
    Vec::new()
}

/// The block of passages that stands at the head of the current user message: quoted, dated, numbered, of at most `budget`
/// tokens as `count` counts them; `None` when nothing is worth showing.
pub(crate) fn recalled(
    index: &Index,
    ask: &Ask<'_>,
    texts: &dyn Texts,
    budget: u64,
    count: &dyn Fn(&str) -> u64,
) -> Option<String> {
    let _ = (index, ask, texts, budget, count);
    None
}
