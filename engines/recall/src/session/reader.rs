//! Texts of entries: from the history of the call where that has them, else from the store.

use super::disk::{ENTRIES, entry_key, whole};
use super::{Session, Stored};
use crate::find::Texts;
use crate::index::Ordinal;
use engine_abi::wire::entry_flags;
use engine_abi::{Context, Error, History, Result};
use std::borrow::Cow;
use std::ops::Range;

/// Reads texts of one session within one call.
pub(crate) struct Reader<'a> {
    context: &'a Context,
    session: &'a Session,
    history: Option<History<'a>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(context: &'a Context, session: &'a Session, history: Option<History<'a>>) -> Reader<'a> {
        Reader { context, session, history }
    }

    /// The value of an entry, as [`Stored::decode`] reads it; `None` when there is no such entry.
    pub(crate) fn value(&self, ordinal: Ordinal) -> Result<Option<Cow<'a, [u8]>>> {
        let at = ordinal as usize;
        if at >= self.session.rows.len() {
            return Ok(None);
        }
        match at.checked_sub(self.session.kept) {
            Some(loose) => Ok(self.session.loose.get(loose).map(|value| Cow::Borrowed(value.as_slice()))),
            None => match self.context.store().get(entry_key(ordinal))? {
                Some(value) => Ok(Some(Cow::Owned(whole(self.context, ordinal, value)?))),
                None => Ok(None),
            },
        }
    }

    /// Reads neighbouring entries, in one look at the store.
    ///
    /// # Errors
    ///
    /// When the store cannot be read, or an entry of it.
    pub(crate) fn each(&self, range: Range<Ordinal>, mut each: impl FnMut(Ordinal, &Stored<'_>)) -> Result<()> {
        let kept = Ordinal::try_from(self.session.kept).unwrap_or(Ordinal::MAX);
        let stored = range.start..range.end.min(kept);
        if !stored.is_empty() {
            let after = range.start.checked_sub(1).map(entry_key);
            let after = after.as_ref().map(<[u8; 6]>::as_slice);
            for (ordinal, (key, value)) in stored.zip(self.context.store().scan(ENTRIES, after, range.len())?) {
                let value = whole(self.context, ordinal, value)?;
                match Stored::decode(&value).filter(|_| key == entry_key(ordinal)) {
                    Some(entry) => each(ordinal, &entry),
                    None => return Err(Error::new("an entry of the store cannot be read")),
                }
            }
        }
        for ordinal in range.start.max(kept)..range.end {
            if let Some(entry) =
                self.session.loose.get((ordinal - kept) as usize).and_then(|value| Stored::decode(value))
            {
                each(ordinal, &entry);
            }
        }
        Ok(())
    }

    /// The text in the history. What the host has made shorter there is not what was indexed.
    fn in_history(&self, ordinal: Ordinal) -> Option<String> {
        let history = self.history?;
        // Of calls only the text is measured, and a text that was made shorter must not pass for the whole.
        let row = self.session.rows.get(ordinal as usize).filter(|row| !row.has(entry_flags::TOOL_CALLS))?;
        let heads = history.heads();
        let at = heads.binary_search_by_key(&row.id, |head| head.id).ok()?;
        if heads[at].text_bytes != row.text_bytes {
            return None;
        }
        let entry = history.entry(at).ok()?;
        Some(entry.text().to_owned())
    }
}

impl Texts for Reader<'_> {
    fn text(&self, ordinal: Ordinal) -> Option<Cow<'_, str>> {
        if let Some(text) = self.in_history(ordinal) {
            return Some(Cow::Owned(text));
        }
        match self.value(ordinal).ok()?? {
            Cow::Borrowed(value) => Stored::decode(value).map(|stored| stored.indexed()),
            Cow::Owned(value) => Stored::decode(&value).map(|stored| Cow::Owned(stored.indexed().into_owned())),
        }
    }
}
