//! The transcript cursor: pages of the active branch's messages, oldest first, for engines that catch up.
//!
//! A cursor is opaque to its holder. It names a position and nothing else: the session that it belongs to, the generation of
//! the transcript, and the last entry that was read with its place on the branch. Everything is checked when it comes back, and
//! what does not hold resets it to the beginning, with the reason.
//!
//! While the hooks before a model call run for an admitted turn, the turn's own entries are fenced: pages end before the
//! admitted user entry, and a cursor that has crossed it is refused.

use super::{Branch, Entry, EntryBody, EntryId, Message, Role, SessionRecord};
use crate::diagnostic::Diagnostic;
use std::io::Write as _;
use std::sync::Arc;

/// Messages in a page when the reader names no limit.
pub const DEFAULT_MESSAGES: usize = 1_000;
/// Most messages in a page.
pub const MAX_MESSAGES: usize = 10_000;
/// Bytes in a page when the reader names no limit.
pub const DEFAULT_BYTES: usize = 1_000_000;
/// Most bytes in a page.
pub const MAX_BYTES: usize = 64 << 20;

/// What a reader asks for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Request<'a> {
    /// Where to go on; `None` for the oldest entry.
    pub cursor: Option<&'a str>,
    /// Most messages; 0 for [`DEFAULT_MESSAGES`], more than [`MAX_MESSAGES`] counts as that.
    pub max_messages: usize,
    /// Most bytes of the messages as JSON; 0 for [`DEFAULT_BYTES`], more than [`MAX_BYTES`] counts as that.
    pub max_bytes: usize,
    /// The admitted user entry of the running turn.
    pub fence: Option<EntryId>,
}

/// Why a cursor was reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetReason {
    /// It is no cursor.
    InvalidCursor,
    /// It belongs to another session.
    ScopeMismatch,
    /// The transcript was rewritten since.
    GenerationMismatch,
    /// The entry that it stands on is not on the active branch.
    AnchorMissing,
    /// The entry that it stands on has another place on the branch.
    AnchorMoved,
}

impl ResetReason {
    /// The wire code.
    pub fn code(self) -> u32 {
        use engine_abi::wire::cursor_reset as code;
        match self {
            ResetReason::InvalidCursor => code::INVALID_CURSOR,
            ResetReason::ScopeMismatch => code::SCOPE_MISMATCH,
            ResetReason::GenerationMismatch => code::GENERATION_MISMATCH,
            ResetReason::AnchorMissing => code::ANCHOR_MISSING,
            ResetReason::AnchorMoved => code::ANCHOR_MOVED,
        }
    }
}

/// A page.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// Where the next page starts.
    pub cursor: String,
    /// The message entries.
    pub entries: Vec<Arc<Entry>>,
    /// True when more follows, up to the fence.
    pub has_more: bool,
    /// Size of the messages as JSON, in bytes.
    pub serialized_bytes: usize,
    /// When the first message alone is larger than the limit: its size; the page is empty then, and the cursor stands still.
    pub required_bytes: Option<usize>,
}

/// What a read gives.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// A page.
    Page(Page),
    /// The cursor does not hold any more; go on from the one that is given.
    Reset {
        /// A cursor at the oldest entry.
        cursor: String,
        /// Why.
        reason: ResetReason,
    },
}

/// The fence cannot be honoured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FenceError {
    /// The cursor stands at or past the fence.
    #[error("the cursor has crossed the fence of the current turn at entry {fence}")]
    Crossed {
        /// The admitted user entry.
        fence: EntryId,
    },
    /// The admitted entry is not on the active branch.
    #[error("the admitted entry {fence} of the current turn is not on the active branch")]
    Missing {
        /// The admitted user entry.
        fence: EntryId,
    },
    /// The admitted entry is no user message.
    #[error("the admitted entry {fence} of the current turn is no user message")]
    NotUser {
        /// The entry.
        fence: EntryId,
    },
}

impl Diagnostic for FenceError {
    fn code(&self) -> &'static str {
        match self {
            FenceError::Crossed { .. } => "CE420",
            FenceError::Missing { .. } => "CE421",
            FenceError::NotUser { .. } => "CE422",
        }
    }
}

/// The cursor that stands behind `entry`, which is on `branch`: a page from it begins with the entry after that. 0 and entries
/// that are not on the branch give the beginning.
pub fn behind(record: &SessionRecord, branch: &Branch, entry: EntryId) -> String {
    match branch.position(entry) {
        Some(at) => Anchor { entry, place: at as u64 + 1 }.cursor(record),
        None => Anchor::START.cursor(record),
    }
}

/// Reads one page. Costs what the page holds.
///
/// # Errors
/// [`FenceError`] when a fence is given that cannot be honoured.
pub fn read(record: &SessionRecord, branch: &Branch, request: &Request<'_>) -> Result<Outcome, FenceError> {
    let end = match request.fence {
        Some(fence) => fence_position(branch, fence)?,
        None => branch.len(),
    };
    let anchor = match request.cursor.map(|cursor| Anchor::parse(cursor, record, branch)) {
        None => Anchor::START,
        Some(Ok(anchor)) => anchor,
        Some(Err(reason)) => {
            return Ok(Outcome::Reset { cursor: Anchor::START.cursor(record), reason });
        }
    };
    let start = usize::try_from(anchor.place).unwrap_or(usize::MAX);
    if let Some(fence) = request.fence.filter(|_| start > end) {
        return Err(FenceError::Crossed { fence });
    }
    Ok(Outcome::Page(page(record, branch.entries().get(start..end).unwrap_or(&[]), anchor, request)))
}

fn fence_position(branch: &Branch, fence: EntryId) -> Result<usize, FenceError> {
    let at = branch.position(fence).ok_or(FenceError::Missing { fence })?;
    match branch.get(fence).map(|entry| &entry.body) {
        Some(EntryBody::Message(message)) if message.role == Role::User => Ok(at),
        _ => Err(FenceError::NotUser { fence }),
    }
}

fn page(record: &SessionRecord, readable: &[Arc<Entry>], mut anchor: Anchor, request: &Request<'_>) -> Page {
    let max_messages = limit(request.max_messages, DEFAULT_MESSAGES, MAX_MESSAGES);
    let max_bytes = limit(request.max_bytes, DEFAULT_BYTES, MAX_BYTES);
    let start = anchor.place;
    let mut page =
        Page { cursor: String::new(), entries: Vec::new(), has_more: false, serialized_bytes: 0, required_bytes: None };
    for (place, entry) in (start + 1..).zip(readable) {
        if let EntryBody::Message(message) = &entry.body {
            let bytes = serialized_len(message);
            let full = page.entries.len() >= max_messages || page.serialized_bytes + bytes > max_bytes;
            if full {
                page.has_more = true;
                if page.entries.is_empty() {
                    page.required_bytes = Some(bytes);
                }
                break;
            }
            page.serialized_bytes += bytes;
            page.entries.push(Arc::clone(entry));
        }
        anchor = Anchor { entry: entry.id, place };
    }
    page.cursor = anchor.cursor(record);
    page
}

fn limit(asked: usize, default: usize, most: usize) -> usize {
    if asked == 0 { default } else { asked.min(most) }
}

/// Length of a message as JSON, without building it.
pub fn serialized_len(message: &Message) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Neither writing to a counter nor a message's own serialisation can fail.
    let _ = serde_json::to_writer(&mut count, message).and_then(|()| count.flush().map_err(serde_json::Error::io));
    count.0
}

/// The last entry that was read, and the number of entries of the branch up to and with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Anchor {
    entry: EntryId,
    place: u64,
}

impl Anchor {
    const START: Anchor = Anchor { entry: 0, place: 0 };

    fn cursor(self, record: &SessionRecord) -> String {
        format!("c1.{:x}.{:x}.{:x}.{:x}", scope(record), record.generation, self.entry, self.place)
    }

    fn parse(cursor: &str, record: &SessionRecord, branch: &Branch) -> Result<Anchor, ResetReason> {
        let mut fields = cursor.split('.');
        if fields.next() != Some("c1") {
            return Err(ResetReason::InvalidCursor);
        }
        let mut number = || {
            let field = fields.next().ok_or(ResetReason::InvalidCursor)?;
            u64::from_str_radix(field, 16).map_err(|_| ResetReason::InvalidCursor)
        };
        let (of, generation, entry, place) = (number()?, number()?, number()?, number()?);
        if fields.next().is_some() || (entry == 0) != (place == 0) {
            return Err(ResetReason::InvalidCursor);
        }
        if of != scope(record) {
            return Err(ResetReason::ScopeMismatch);
        }
        if generation != record.generation {
            return Err(ResetReason::GenerationMismatch);
        }
        match branch.position(entry) {
            _ if entry == 0 => Ok(Anchor::START),
            None => Err(ResetReason::AnchorMissing),
            Some(at) if at as u64 + 1 != place => Err(ResetReason::AnchorMoved),
            Some(_) => Ok(Anchor { entry, place }),
        }
    }
}

fn scope(record: &SessionRecord) -> u64 {
    xxhash_rust::xxh3::xxh3_64(record.session_id.as_bytes())
}

#[cfg(test)]
#[path = "cursor_tests.rs"]
mod tests;
