//! The transcript, read from where the session stands.

use super::Session;
use engine_abi::*;

/// Bytes of entries after which a long catch-up is made durable, so that one that ends early goes on from there.
/// Tests have catch-ups of several batches, too.
const BATCH_BYTES: usize = if cfg!(test) { 1 << 10 } else { 4 << 20 };

impl Session {
    /// Takes in what the transcript has and this session has not: behind what the host knows to be handed over, or from the first
    /// entry when what was stored is lost. Gives how many entries were new.
    pub(crate) fn catch_up(&mut self, context: &Context) -> Result<u64> {
        let imported = self.read_transcript(context, self.unread(), u64::MAX)?;
        self.disk.from_start = false;
        self.is_checked = false;
        self.inherit(context)?;
        self.store(context)?;
        Ok(imported)
    }

    /// Takes in an accepted turn.
    pub(crate) fn commit(&mut self, context: &Context, turn: &CommitTurn) -> Result<Committed> {
        let before = turn.admission().effective_parent_id();
        let is_next = |session: &Session| session.is_kept(before) && !session.has_gap;
        if before != 0 && !is_next(self) {
            // Turns that another engine served, entries that another engine rewrote, or all that was stored is lost: what lies
            // before this turn comes before it. A compaction of the host may stand there, too, and then nothing is new.
            let first = turn.entries().first().map_or(0, Entry::id);
            let place = self.unread();
            let is_whole = place.cursor.is_none();
            self.read_transcript(context, place, first)?;
            if !is_whole && !is_next(self) {
                self.read_transcript(context, CursorRequest::default(), first)?;
            }
            self.has_gap = false;
            self.store(context)?;
        }
        let last = turn.entries().last().map_or(0, Entry::id);
        let committed = context.commit_once(turn, |entry| {
            let new = self.take_in(context, entry)?;
            if entry.id() == last {
                self.save(context)?;
            }
            Ok(new)
        })?;
        if committed == Committed::Committed {
            self.saved();
        }
        Ok(committed)
    }

    /// Where the transcript has what this session has not.
    fn unread(&self) -> CursorRequest {
        if self.disk.from_start { CursorRequest::default() } else { CursorRequest::after_handed_over() }
    }

    /// Takes in entries with ids below `end`, page by page.
    fn read_transcript(&mut self, context: &Context, request: CursorRequest, end: u64) -> Result<u64> {
        if !context.offers(wire::service::TRANSCRIPT) {
            return Ok(0);
        }
        // What the tool did is known, unless all is lost.
        self.replay = self.disk.from_start.then(Default::default);
        let imported = self.read_pages(context, request, end);
        self.learn_waiting();
        self.replay = None;
        if imported.is_ok() {
            self.disk.end_partial(context);
        }
        imported
    }

    /// What was read may be made durable before an entry: between turns, unless one is very large.
    fn may_pause(&self, next: &Entry) -> bool {
        self.replay.as_ref().is_none_or(|replay| replay.is_over(next)) || self.disk.batch_bytes >= 4 * BATCH_BYTES
    }

    fn read_pages(&mut self, context: &Context, mut request: CursorRequest, end: u64) -> Result<u64> {
        let mut imported = 0;
        loop {
            context.check()?;
            match context.read_transcript(&request)? {
                Page::Entries { entries, cursor, has_more, required_bytes } => {
                    for entry in entries.iter().take_while(|entry| entry.id() < end) {
                        if self.disk.batch_bytes >= BATCH_BYTES && self.may_pause(entry) {
                            self.learn_waiting();
                            self.disk.begin_partial(context);
                            self.store(context)?;
                            context.check()?;
                        }
                        imported += u64::from(self.take_in(context, entry)?);
                    }
                    if !has_more || entries.last().is_some_and(|last| last.id() >= end) {
                        return Ok(imported);
                    }
                    if entries.is_empty() && request.max_bytes != 0 {
                        return Err(Error::new("an entry of the transcript is larger than any page"));
                    }
                    request.cursor = cursor;
                    // One entry that is larger than the usual page.
                    request.max_bytes = required_bytes.unwrap_or(0);
                }
                // The branch was rewritten: what is known already is not taken in twice.
                Page::Reset { cursor, .. } => request.cursor = cursor,
                _ => return Ok(imported),
            }
        }
    }
}
