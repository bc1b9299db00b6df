//! What is known of one session, and how it is stored and made again.
//!
//! ```text
//!  commit, cursor ─► take_in ─► rows, index, pins ─► save ─► one batch of the store's scope of the session
//!                                     ▲                                   │
//!  history of a prompt ─► reconcile ──┘            load ◄─────────────────┘  first use, or the store knows better
//! ```
//!
//! Memory claims nothing that the store refused. Each batch names the state that it starts from and the one that it makes
//! ([`disk`]); a batch whose outcome is not known leaves a mark, and the next use of the session asks the store what is true.
//! Entries that are only known from the history of a prompt are loose: they are found and shown, but not stored, and make room
//! when the host hands something else over.
//!
//! | file | concept |
//! |---|---|
//! | [`stored`] | an entry as a value of the store |
//! | [`kept`] | a value that is stored whole when it changed |
//! | [`disk`] | keys, the state of the scope, loading |
//! | [`catch_up`] | the transcript, read from where this session stands |
//! | [`reader`] | texts of entries, from the history or the store |
//! | [`sessions`] | the sessions of one instance, and the bound on their memory |
//! | [`replay`] | what the pin tool did, learned again from the transcript |
//! | [`fork`] | what a subagent is given of its parent |
//! | [`others`] | the agent's other sessions, for the tools |

mod catch_up;
mod disk;
pub(crate) mod fork;
mod kept;
pub(crate) mod others;
mod reader;
mod replay;
mod sessions;
mod stored;
#[cfg(test)]
mod tests;

use crate::index::{Index, NewEntry, Ordinal};
use crate::pins::Pins;
use crate::show;
use disk::Disk;
use engine_abi::wire::entry_flags;
use engine_abi::*;
pub(crate) use kept::Kept;
pub(crate) use reader::Reader;
pub(crate) use sessions::Sessions;
use std::collections::VecDeque;
use stored::OpenCalls;
pub(crate) use stored::Stored;

/// What is known of one session.
#[derive(Default)]
pub(crate) struct Session {
    /// The entries by ordinal, in the order of arrival. Ids rise along it, except where the host handed a turn over later than
    /// one that followed it: find an entry by [`Session::ordinal`].
    pub rows: Vec<Head>,
    /// The index over them.
    pub index: Index,
    /// What is pinned.
    pub pins: Kept<Pins>,
    /// What [`show`] remembers of the prompts before.
    pub shown: Kept<show::State>,
    /// Ordinals by rising id, where the rows themselves are not in that order.
    by_id: Option<Vec<Ordinal>>,
    /// How many rows, from the first, are in the store or in the batch of this call.
    kept: usize,
    /// Values of the rows behind them.
    loose: VecDeque<Vec<u8>>,
    /// The calls that the next tool results answer.
    open: OpenCalls,
    /// How memory stands to the store.
    disk: Disk,
    /// The history of a prompt was held against the rows since the session was taken up.
    is_checked: bool,
    /// The transcript is read from its first entry, since what was stored is lost.
    replay: Option<replay::Replay>,
    /// The history has entries before known ones that are not known: another engine rewrote them.
    has_gap: bool,
}

impl Session {
    /// Takes in an entry that the host hands over; true when it is new. [`Session::save`] puts it into the call's batch.
    pub(crate) fn take_in(&mut self, context: &Context, entry: &Entry) -> Result<bool> {
        if context.session().ephemeral() {
            // Nothing of such a turn stays, and nothing of the session is asked for after it.
            return Ok(true);
        }
        if let Some(next) = self.rows.get(self.kept) {
            // The head is all that the index knows beside the text.
            if next == entry.head()
                && let Some(value) = self.loose.pop_front()
            {
                self.disk.put_entry(context, self.kept, &value);
                self.kept += 1;
                self.learn(context, self.kept - 1, entry)?;
                return Ok(true);
            }
            if !self.is_kept(entry.id()) {
                self.drop_loose(context)?;
            }
        }
        if self.ordinal(entry.id()).is_some() {
            return Ok(false);
        }
        let stored = stored::of_entry(entry, &self.open);
        let value = stored.encode()?;
        self.disk.put_entry(context, self.rows.len(), &value);
        self.add(&value)?;
        self.kept = self.rows.len();
        self.learn(context, self.kept - 1, entry)?;
        Ok(true)
    }

    /// Takes in entries that the host hands over without a turn, and stores them; gives how many were new.
    pub(crate) fn take_in_all(&mut self, context: &Context, entries: &[Entry]) -> Result<u64> {
        let mut new = 0;
        for entry in entries {
            new += u64::from(self.take_in(context, entry)?);
        }
        self.store(context)?;
        Ok(new)
    }

    /// Takes note of entries of a prompt's history that were never handed over: a look at a session that was not taken up, or an
    /// ephemeral turn. They are not stored. Costs what is new.
    pub(crate) fn reconcile(&mut self, context: &Context, history: History<'_>) -> Result<()> {
        let heads = history.heads();
        let is_other = |row: &Head| {
            let at = heads.binary_search_by_key(&row.id, |head| head.id);
            at.is_ok_and(|at| heads[at] != *row)
        };
        if self.rows[self.kept..].iter().any(is_other) {
            // The id of an entry that was taken back before it was handed over is given again.
            self.drop_loose(context)?;
        }
        let is_known = |head: &Head| self.ordinal(head.id).is_some() || head.has(entry_flags::SUMMARY);
        let new = heads.len() - heads.iter().rev().take_while(|head| !is_known(head)).count();
        if !self.is_checked {
            // Once, since it costs as much as the history is long; the next commit reads what is missing.
            self.has_gap = !heads[..new].iter().all(is_known);
            self.is_checked = true;
        }
        for at in new..heads.len() {
            context.check()?;
            let entry = history.entry(at)?;
            let value = stored::of_entry(&entry, &self.open).encode()?;
            self.add(&value)?;
            self.loose.push_back(value);
            if context.session().ephemeral() {
                self.learn(context, self.rows.len() - 1, &entry)?;
            }
        }
        Ok(())
    }

    /// Takes note of what the client has edited away: entries that are known, and stand neither in the history of a prompt nor
    /// behind it. `prompt` is the entry of the current turn. Costs a comparison for each entry.
    pub(crate) fn note_branch(&mut self, history: History<'_>, prompt: Option<u64>) {
        let heads = history.heads();
        // What a compaction of the host has summarised still counts.
        let summary = heads.first().filter(|head| head.has(entry_flags::SUMMARY)).map_or(0, |head| head.id);
        let turn = prompt.unwrap_or(u64::MAX);
        let mut away: Vec<(Ordinal, Ordinal)> = Vec::new();
        let mut at = 0;
        let mut look = |ordinal: Ordinal| {
            let id = self.rows[ordinal as usize].id;
            while heads.get(at).is_some_and(|head| head.id < id) {
                at += 1;
            }
            if heads.get(at).is_some_and(|head| head.id == id) || id < summary || id >= turn {
                return;
            }
            match away.last_mut() {
                Some((_, last)) if *last + 1 == ordinal => *last = ordinal,
                _ => away.push((ordinal, ordinal)),
            }
        };
        match &self.by_id {
            Some(by_id) => by_id.iter().copied().for_each(&mut look),
            None => (0..Ordinal::try_from(self.rows.len()).unwrap_or(Ordinal::MAX)).for_each(&mut look),
        }
        away.sort_unstable();
        self.shown.change(|shown| {
            let changed = shown.away != away;
            shown.away = away;
            changed
        });
        // What nobody says any more is not to be kept in mind, whoever pinned it.
        let mut dropped = false;
        let shown = &*self.shown;
        self.pins.change(|pins| {
            dropped = pins.drop_away(|ordinal| shown.is_away(ordinal));
            dropped
        });
        if dropped {
            self.shown.pins_changed();
        }
    }

    /// The ordinal of the entry with this id.
    pub(crate) fn ordinal(&self, id: u64) -> Option<Ordinal> {
        let Some(by_id) = &self.by_id else {
            let at = self.rows.binary_search_by_key(&id, |row| row.id).ok()?;
            return Ordinal::try_from(at).ok();
        };
        let at = by_id.binary_search_by_key(&id, |ordinal| self.rows[*ordinal as usize].id).ok()?;
        Some(by_id[at])
    }

    /// True for an entry that was handed over, not only seen.
    fn is_kept(&self, id: u64) -> bool {
        self.ordinal(id).is_some_and(|ordinal| (ordinal as usize) < self.kept)
    }

    /// The texts of its entries: from `history` where that has them, else from the store.
    pub(crate) fn texts<'a>(&'a self, context: &'a Context, history: Option<History<'a>>) -> Reader<'a> {
        Reader::new(context, self, history)
    }

    /// How much memory it takes, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let rows = self.rows.capacity() * size_of::<Head>();
        let by_id = self.by_id.as_ref().map_or(0, |by_id| by_id.capacity() * size_of::<Ordinal>());
        rows + by_id + self.index.bytes() + self.loose.iter().map(Vec::capacity).sum::<usize>()
    }

    /// Adds an entry at the end, from its value.
    fn add(&mut self, value: &[u8]) -> Result<()> {
        let stored = Stored::decode(value).ok_or_else(|| Error::new("an entry of the store cannot be read"))?;
        let ordinal = Ordinal::try_from(self.rows.len()).map_err(|_| Error::new("the session is too long"))?;
        let (head, indexed) = (stored.head(), stored.indexed());
        self.index.add(&NewEntry {
            ordinal,
            role: head.role,
            time_ms: head.time_ms,
            tokens: head.tokens,
            name: stored.name,
            text: &indexed,
        });
        self.open.note(ordinal, &stored);
        self.place(head.id, ordinal);
        self.rows.push(head);
        Ok(())
    }

    /// Learns what the person wants for good.
    fn learn(&mut self, context: &Context, at: usize, entry: &Entry) -> Result<()> {
        let head = entry.head();
        if let (Some(role), Ok(ordinal)) = (Role::from_code(head.role), Ordinal::try_from(at)) {
            if self.replay.is_some() {
                return self.relive(context, ordinal, entry);
            }
            self.pins.change(|pins| pins.learn(ordinal, head.id, head.time_ms, role, entry.text()));
        }
        Ok(())
    }

    /// Keeps the order by id, before the row is added.
    fn place(&mut self, id: u64, ordinal: Ordinal) {
        if self.by_id.is_none() && self.rows.last().is_some_and(|last| last.id > id) {
            self.by_id = Some((0..ordinal).collect());
        }
        if let Some(by_id) = &mut self.by_id {
            let at = by_id.partition_point(|known| self.rows[*known as usize].id < id);
            by_id.insert(at, ordinal);
        }
    }
}
