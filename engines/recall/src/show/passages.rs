//! The passages of older turns that one turn is shown at the head of the current user message.
//!
//! They are looked for once for each turn and stay as they are through its model calls, so that a loop of tool calls sends the same
//! prefix again. They are made anew when they no longer fit, or when something was folded that was shown before. Those of plain
//! dialogue take most of a budget; when a loop begins behind them they are halved until they are what a loop gets, so that each of
//! a few calls sends the rest of the prompt anew and all others only what they add.

use super::Show;
use super::count::Counter;
use super::fold::tokens;
use super::state::{Passages, Tail};
use crate::find::{Ask, recalled};
use crate::index::Ordinal;
use engine_abi::{AssembleRequest, Prompt, Result};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A smaller room is not worth a search.
const LEAST_ROOM: u64 = 48;
/// Where all of the history would fit, passages take no more than this part of what is folded.
const OF_FOLDED: u64 = 4;
/// Part of the room that passages take when those of the calls before no longer fit.
const SHRUNK: (u64, u64) = (3, 4);
/// How often a block that came out too large is made again, smaller.
const TRIES: u32 = 4;

impl Show<'_> {
    /// The block of at most `room` tokens, with its tokens.
    pub(super) fn passages(
        &mut self,
        request: &AssembleRequest,
        tail: Tail,
        room: u64,
    ) -> Result<Option<(String, u64)>> {
        let Some(prompt) = request.prompt() else { return Ok(None) };
        if self.is_whole(tail) || self.history.heads().is_empty() {
            self.state.passages = None;
            return Ok(None);
        }
        let turn = turn(prompt);
        let mut room = match &self.state.passages {
            // Where nothing was worth showing, what was folded since may be.
            Some(known) if known.tokens <= room && !(known.text.is_none() && self.folded) => {
                return Ok(known.text.clone().map(|text| (text, known.tokens)));
            }
            // Its loop has left too little room. What fits into a part of it stays for some calls more.
            Some(known) => {
                let most =
                    if self.is_loop { self.shares.retrieved.max(known.tokens / 2) } else { self.shares.retrieved };
                (room / SHRUNK.1 * SHRUNK.0).min(most)
            }
            None => room.min(self.shares.retrieved),
        };
        let heads = self.history.heads();
        if tokens(heads) <= self.shares.budget {
            // Somebody asked for less than would fit: the passages must not bring it all back.
            room = room.min(tokens(&heads[..tail.from]) / OF_FOLDED);
        }
        let found = if room < LEAST_ROOM { None } else { self.find(request, tail, room)? };
        let (text, tokens) = found.clone().map_or((None, 0), |(text, tokens)| (Some(text), tokens));
        self.state.passages = Some(Passages { turn, text, tokens });
        Ok(found)
    }

    fn find(&self, request: &AssembleRequest, tail: Tail, room: u64) -> Result<Option<(String, u64)>> {
        let Some(prompt) = request.prompt() else { return Ok(None) };
        let counter = Counter(self.context);
        let heads = self.history.heads();
        let shown = self.raw_places(tail);
        let first = heads.first().map_or(0, |head| head.id);
        let summarised = heads.first().is_some_and(|head| head.has(engine_abi::wire::entry_flags::SUMMARY));
        // Mostly every entry is in the history, at the place of its number.
        let place = |id: u64, near: usize| match heads.get(near) {
            Some(head) if head.id == id => Ok(near),
            _ => heads.binary_search_by_key(&id, |head| head.id),
        };
        let texts = self.session.texts(self.context, Some(self.history));
        // What stands in the prompt already.
        let pinned = self.pinned_in_whole(&texts);
        let allowed = |ordinal: Ordinal| {
            if pinned.binary_search(&ordinal).is_ok() {
                return false;
            }
            let Some(row) = self.session.rows.get(ordinal as usize) else { return false };
            match place(row.id, ordinal as usize) {
                Ok(at) => !shown.iter().any(|range| range.contains(&at)),
                Err(_) => summarised && row.id < first,
            }
        };
        let ask = Ask {
            text: prompt.text(),
            name: prompt.name(),
            now_ms: self.now(),
            allowed: &allowed,
            expands: self.expands,
        };
        let frame = counter.block("")?;
        let count = |text: &str| counter.block(text).unwrap_or(u64::MAX / 4).saturating_sub(frame);
        let mut budget = room.saturating_sub(frame);
        for _ in 0..TRIES {
            let Some(text) = recalled(&self.session.index, &ask, &texts, budget, &count) else { return Ok(None) };
            let tokens = counter.block(&text)?;
            if tokens <= room {
                return Ok(Some((text, tokens)));
            }
            budget = budget.saturating_sub(tokens - room + 8);
        }
        Ok(None)
    }

    /// Places of the entries that the tail shows as they are.
    fn raw_places(&self, tail: Tail) -> Vec<std::ops::Range<usize>> {
        let mut places = Vec::new();
        self.state.parts(self.history.heads(), tail, |part| {
            if let super::Part::Raw(range) = part {
                places.push(range);
            }
        });
        places
    }

    /// The conversation's own time: now, when it goes on now; in one that is played back, the time of its newest entry.
    fn now(&self) -> i64 {
        const GOES_ON: i64 = 30 * 24 * 3_600_000;
        let newest = self.history.heads().iter().rev().map(|head| head.time_ms).find(|time| *time > 0).unwrap_or(0);
        let clock = jiff::Timestamp::now().as_millisecond();
        if newest > 0 && (newest..newest + GOES_ON).contains(&clock) { clock } else { newest }
    }
}

/// What names a turn: its prompt. An id alone does not, since one that was taken back is given again.
pub(super) fn turn(prompt: &Prompt) -> u64 {
    let mut hasher = DefaultHasher::new();
    (prompt.entry_id(), prompt.text()).hash(&mut hasher);
    hasher.finish()
}
