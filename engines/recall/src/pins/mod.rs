//! Standing instructions, preferences, constraints and open tasks, found by rules in what the person says.
//!
//! [`Pins::learn`] is told of every entry in order. Only what the person says can become a pin: words of the model, of tools, and
//! whatever the person quotes or pastes never do, since an instruction in them would be somebody else's. A pin quotes the
//! person's own sentence whole. Saying it again confirms it, taking it back or saying that it is done drops it, and a tool can
//! add and remove pins. Nothing here reads a clock or a random number: the same entries give the same pins.
//!
//! | file | concept |
//! |---|---|
//! | [`sentences`] | from a message to its sentences, without what is quoted, pasted or code |
//! | [`tokens`] | words, folded for comparison |
//! | [`lexicon`] | phrases of six languages and what they hint at |
//! | [`own`] | which words of a message may be pinned by the tool |
//! | [`judge`] | from the hints of a sentence to a verdict |
//! | [`subject`] | what a sentence is about: duplicates, what is taken back, what is done |

mod judge;
mod lexicon;
mod own;
mod sentences;
mod subject;
#[cfg(test)]
mod tests;
mod tokens;

use engine_abi::Role;
use judge::Remark;
pub(crate) use own::{Found, Words, whole};
use serde::{Deserialize, Serialize};
use subject::Subject;

/// Number of a pin in its session, from 1. The model names a pin by it.
pub(crate) type PinId = u32;

/// Most pins of a session that were found by rules; the weakest makes room.
const MAX_FOUND: usize = 400;
/// Most open tasks that were found by rules; the oldest makes room.
const MAX_TASKS: usize = 24;
/// Longest sentence in bytes that rules pin. What is longer is a passage and not a rule.
const MAX_BYTES: usize = 600;
/// Strength cannot grow beyond this.
const MAX_STRENGTH: u8 = 20;

/// What a pin is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// What the assistant is to do or to leave, always.
    Instruction,
    /// What the person likes, or is.
    Preference,
    /// What must hold of the work.
    Constraint,
    /// What is still to be done.
    Task,
}

/// A sentence that reads like a pin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// What it would be.
    pub kind: Kind,
    /// First byte of the sentence in the text.
    pub start: usize,
    /// First byte after it.
    pub end: usize,
    /// How sure the rules are: 1 weak, 2 plain, 3 outspoken.
    pub strength: u8,
}

/// A pin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pin {
    /// Its number; never used again.
    pub id: PinId,
    /// What it is.
    pub kind: Kind,
    /// The person's own words.
    pub text: String,
    /// Ordinal of the entry that said it.
    pub ordinal: u32,
    /// Host id of that entry.
    pub entry_id: u64,
    /// When it was said, in ms since the epoch.
    pub time_ms: i64,
    /// From the rules, one more each time that it is confirmed.
    pub strength: u8,
    /// Pinned by the tool: no rule drops it.
    pub explicit: bool,
    /// What it is about, for comparisons.
    subject: Subject,
}

/// The pins of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pins {
    /// By rising id, which is the order in which they were said.
    pins: Vec<Pin>,
    /// Id of the newest pin that there ever was.
    last: PinId,
}

impl Pins {
    /// Learns from the next entry; true when the pins changed.
    pub(crate) fn learn(&mut self, ordinal: u32, entry_id: u64, time_ms: i64, role: Role, text: &str) -> bool {
        if role != Role::User {
            return false;
        }
        let mut changed = false;
        judge::remarks(text, |remark| {
            changed |= match remark {
                Remark::Pin(candidate) => {
                    let said = &text[candidate.start..candidate.end];
                    self.take(candidate, said, (ordinal, entry_id, time_ms))
                }
                Remark::TakenBack { start, end, instead } => {
                    let said = &text[start..end];
                    self.take_back(&Subject::of(said))
                        || instead.is_some_and(|candidate| self.take(candidate, said, (ordinal, entry_id, time_ms)))
                }
                Remark::Done { start, end } => self.close(&Subject::of(&text[start..end])),
                Remark::Recalled { start, end } => self.confirm(&Subject::of(&text[start..end])),
            };
        });
        changed
    }

    /// Pins a text by the tool's will; no rule drops it. Gives its number, which is an old one when that text is pinned already.
    pub(crate) fn pin(&mut self, kind: Kind, ordinal: u32, entry_id: u64, time_ms: i64, text: &str) -> PinId {
        let text = text.trim();
        if let Some(known) = self.pins.iter_mut().find(|pin| pin.text == text) {
            known.explicit = true;
            return known.id;
        }
        let subject = Subject::of(text);
        self.add(Pin {
            id: 0,
            kind,
            text: text.to_owned(),
            ordinal,
            entry_id,
            time_ms,
            strength: 3,
            explicit: true,
            subject,
        })
    }

    /// The pin that says a text already, in these words or others.
    pub(crate) fn says(&self, text: &str) -> Option<&Pin> {
        let subject = Subject::of(text);
        let same = |pin: &&Pin| pin.text == text.trim() || !subject.is_empty() && pin.subject.repeats(&subject);
        self.pins.iter().find(same)
    }

    /// Drops the pins of messages that `is_away` says are gone; true when there were some.
    pub(crate) fn drop_away(&mut self, is_away: impl Fn(u32) -> bool) -> bool {
        let before = self.pins.len();
        self.pins.retain(|pin| !is_away(pin.ordinal));
        self.pins.len() != before
    }

    /// Pins a text as the tool once did, under the number that it had then where that is free.
    pub(crate) fn pin_as(&mut self, id: PinId, kind: Kind, said: (u32, u64, i64), text: &str) {
        let (ordinal, entry_id, time_ms) = said;
        let last = self.last;
        if self.pin(kind, ordinal, entry_id, time_ms, text) == last + 1
            && let Some(pin) = self.pins.pop()
        {
            let free = self.pins.binary_search_by_key(&id, |pin| pin.id);
            let id = if id > 0 && free.is_err() { id } else { pin.id };
            let at = self.pins.partition_point(|pin| pin.id < id);
            self.pins.insert(at, Pin { id, ..pin });
            self.last = last.max(id);
        }
    }

    /// Removes a pin as the tool once did: the one with this text, and this number if there are several.
    pub(crate) fn remove_said(&mut self, id: PinId, text: &str) -> bool {
        let same = |pin: &&Pin| pin.text == text;
        let meant = self.pins.iter().filter(same).find(|pin| pin.id == id).or_else(|| self.pins.iter().find(same));
        meant.map(|pin| pin.id).is_some_and(|id| self.remove(id).is_some())
    }

    /// Removes a pin for good; it comes back only when the person says it anew.
    pub(crate) fn remove(&mut self, id: PinId) -> Option<Pin> {
        let at = self.pins.binary_search_by_key(&id, |pin| pin.id).ok()?;
        Some(self.pins.remove(at))
    }

    /// Moves every pin to the entry of another session that `place` names, by ordinal and host id; drops those that it does not.
    pub(crate) fn carry(&mut self, place: impl Fn(&Pin) -> Option<(u32, u64)>) {
        self.pins.retain_mut(|pin| match place(pin) {
            Some((ordinal, entry_id)) => {
                (pin.ordinal, pin.entry_id) = (ordinal, entry_id);
                true
            }
            None => false,
        });
    }

    /// All pins, oldest first.
    pub(crate) fn all(&self) -> &[Pin] {
        &self.pins
    }

    /// The pins that fit into `budget` tokens, oldest first; `cost` tells what one costs as it is shown.
    ///
    /// When not all fit, the explicit ones go first, then the stronger, then the older. What is chosen depends on the pins alone,
    /// so the text made of it changes only when they do.
    pub(crate) fn choose(&self, budget: u64, cost: &dyn Fn(&Pin) -> u32) -> Vec<&Pin> {
        let mut order: Vec<&Pin> = self.pins.iter().collect();
        order.sort_by_key(|pin| (!pin.explicit, std::cmp::Reverse(pin.strength), pin.id));
        let mut left = budget;
        order.retain(|pin| {
            let tokens = u64::from(cost(pin));
            let fits = tokens <= left;
            if fits {
                left -= tokens;
            }
            fits
        });
        order.sort_by_key(|pin| pin.id);
        order
    }
}

/// Where and when something was said: ordinal, entry id, time.
type Said = (u32, u64, i64);

impl Pins {
    /// Takes a sentence that reads like a pin; true when something changed.
    fn take(&mut self, candidate: Candidate, text: &str, said: Said) -> bool {
        let subject = Subject::of(text);
        if subject.is_empty() {
            return false;
        }
        if let Some(known) = self
            .pins
            .iter_mut()
            .find(|pin| (pin.explicit || pin.kind == candidate.kind) && pin.subject.repeats(&subject))
        {
            known.strength = known.strength.saturating_add(1).min(MAX_STRENGTH);
            return true;
        }
        if candidate.kind != Kind::Task {
            let (renews, single) = (subject::renews(text), subject::single(text));
            self.pins.retain(|pin| {
                let kept = pin.explicit || pin.kind == Kind::Task;
                let same = single.is_some() && subject::single(&pin.text) == single;
                kept || !(same || subject.replaces(&pin.subject, renews))
            });
        }
        let (ordinal, entry_id, time_ms) = said;
        self.add(Pin {
            id: 0,
            kind: candidate.kind,
            text: text.to_owned(),
            ordinal,
            entry_id,
            time_ms,
            strength: candidate.strength,
            explicit: false,
            subject,
        });
        self.make_room();
        true
    }

    fn add(&mut self, pin: Pin) -> PinId {
        self.last += 1;
        self.pins.push(Pin { id: self.last, ..pin });
        self.last
    }

    /// Drops what was found by rules beyond the most that is kept: the oldest task, the weakest of the others.
    fn make_room(&mut self) {
        let tasks = self.pins.iter().filter(|pin| pin.kind == Kind::Task && !pin.explicit).count();
        if tasks > MAX_TASKS
            && let Some(at) = self.pins.iter().position(|pin| pin.kind == Kind::Task && !pin.explicit)
        {
            self.pins.remove(at);
        }
        let found = self.pins.iter().filter(|pin| !pin.explicit).count();
        if found > MAX_FOUND {
            let weakest =
                (0..self.pins.len()).filter(|at| !self.pins[*at].explicit).min_by_key(|at| self.pins[*at].strength);
            if let Some(at) = weakest {
                self.pins.remove(at);
            }
        }
    }

    /// Drops what a sentence takes back: what shares most with it, if that is half of what the sentence is about or most of what
    /// the pin is about.
    fn take_back(&mut self, about: &Subject) -> bool {
        let best = self.pins.iter().filter(|pin| !pin.explicit).map(|pin| pin.subject.shared(about)).max().unwrap_or(0);
        let meant = |pin: &Pin| {
            let shared = pin.subject.shared(about);
            let enough = shared >= 2 || (shared == 1 && (about.len() == 1 || pin.subject.len() == 1));
            !pin.explicit
                && shared == best
                && enough
                && (shared * 2 >= about.len() || shared * 3 >= pin.subject.len() * 2)
        };
        let before = self.pins.len();
        self.pins.retain(|pin| !meant(pin));
        self.pins.len() != before
    }

    /// Closes the tasks that a sentence says are done.
    fn close(&mut self, about: &Subject) -> bool {
        let before = self.pins.len();
        self.pins.retain(|pin| {
            let shared = pin.subject.shared(about);
            let meant = shared >= 2.min(pin.subject.len()) && shared * 2 >= pin.subject.len();
            pin.explicit || pin.kind != Kind::Task || !meant
        });
        self.pins.len() != before
    }

    /// Strengthens the pin that a sentence refers to.
    fn confirm(&mut self, about: &Subject) -> bool {
        let best = self.pins.iter_mut().max_by_key(|pin| pin.subject.shared(about));
        let Some(pin) = best.filter(|pin| pin.subject.shared(about) * 2 >= pin.subject.len().max(2)) else {
            return false;
        };
        pin.strength = pin.strength.saturating_add(1).min(MAX_STRENGTH);
        true
    }
}
