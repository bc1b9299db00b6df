//! What the pin tool did, learned again from the transcript when what was stored is lost.
//!
//! All else that is pinned comes of what the person says. What the tool pinned and removed stands in its answers. While a turn
//! runs, the tool acts before the turn's messages are handed over and learned from; here they wait in the same way until the
//! answers of their turn are read. So the pins, with their numbers, become what they were.

#[cfg(test)]
mod tests;

use super::{Session, Stored};
use crate::index::Ordinal;
use crate::pins::{Found, Words, whole};
use crate::tools;
use engine_abi::wire::role;
use engine_abi::*;

/// Entries that are looked at between two looks at the clock.
const CHUNK: Ordinal = 256;

/// Messages of the person whose turn is not over.
#[derive(Default)]
pub(super) struct Replay {
    waiting: Vec<(Ordinal, u64, i64, String)>,
    /// Something was answered to them.
    is_answered: bool,
}

impl Replay {
    /// The turn is over when this entry is next.
    pub(super) fn is_over(&self, next: &Entry) -> bool {
        next.head().role == role::USER && self.is_answered
    }
}

impl Session {
    /// Takes note of an entry at its place.
    pub(super) fn relive(&mut self, context: &Context, ordinal: Ordinal, entry: &Entry) -> Result<()> {
        let head = entry.head();
        if head.role == role::USER {
            if self.replay.as_ref().is_some_and(|replay| replay.is_over(entry)) {
                self.learn_waiting();
            }
            if let Some(replay) = &mut self.replay {
                replay.waiting.push((ordinal, head.id, head.time_ms, entry.text().to_owned()));
            }
            return Ok(());
        }
        if let Some(replay) = &mut self.replay {
            replay.is_answered = true;
        }
        let is_pin = head.role == role::TOOL && self.open.asked(entry).is_some_and(|(_, name)| name == tools::PIN);
        for did in if is_pin { tools::pin::read(entry.text()) } else { Vec::new() } {
            let Some(pinned) = did.pinned else {
                self.pins.remove_said(did.id, &did.text);
                continue;
            };
            // Nothing is pinned that nobody said, whatever an answer says.
            if let Some(at) = self.said_in(context, pinned.ordinal, ordinal, &did.text)? {
                let row = self.rows[at as usize];
                self.pins.pin_as(did.id, pinned.kind, (at, row.id, row.time_ms), &did.text);
            }
        }
        Ok(())
    }

    /// Learns from the messages whose answers are read.
    pub(super) fn learn_waiting(&mut self) {
        let Some(replay) = self.replay.as_mut().map(std::mem::take) else { return };
        for (ordinal, id, time_ms, text) in replay.waiting {
            self.pins.change(|pins| pins.learn(ordinal, id, time_ms, Role::User, &text));
        }
    }

    /// The message that says a text: the one that is named, else the newest before `end`.
    fn said_in(&self, context: &Context, named: Option<Ordinal>, end: Ordinal, text: &str) -> Result<Option<Ordinal>> {
        let texts = self.texts(context, None);
        if let Some(named) = named.filter(|named| *named < end)
            && let Some(value) = texts.value(named)?
            && Stored::decode(&value).is_some_and(|stored| says(&stored, text))
        {
            return Ok(Some(named));
        }
        let mut end = end;
        while end > 0 {
            context.check()?;
            let start = end.saturating_sub(CHUNK);
            let mut found = None;
            texts.each(start..end, |ordinal, stored| {
                if says(stored, text) {
                    found = Some(ordinal);
                }
            })?;
            if found.is_some() {
                return Ok(found);
            }
            end = start;
        }
        Ok(None)
    }
}

/// The person says it, in whole sentences.
fn says(stored: &Stored<'_>, text: &str) -> bool {
    let found = || Words::of(text).map(|words| words.find(stored.text));
    let is_whole = || matches!(found(), Some(Found::Own(place)) if stored.text[place.clone()].trim() == text);
    stored.head().role == role::USER && stored.text.contains(text) && (whole(stored.text) == Some(text) || is_whole())
}
