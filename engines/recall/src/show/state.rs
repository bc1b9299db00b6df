//! What is remembered of the prompts before, so that the next one begins with the same bytes.

use super::log::{Item, Line};
use crate::index::Ordinal;
use engine_abi::wire::{entry_flags, role};
use engine_abi::{Head, Message};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;

/// What one session's prompts look like. Entries are named by host ids.
///
/// It can be lost: the next assembly then makes a valid one from the history alone.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct State {
    /// First entry of the tail; 0 when all of the history is shown.
    pub from: u64,
    /// The message of the person that began the turn which the tail begins inside of; 0 when it begins with a turn.
    pub lead: u64,
    /// Entries before this one stay folded even where they would fit: somebody asked for a compaction.
    pub held: u64,
    /// Stubs of entries up to this one stay, for the same reason.
    pub pressed: u64,
    /// Entries of the tail that are shown shorter, by the id of their first.
    pub stubs: BTreeMap<u64, Stub>,
    /// The compacted log, oldest first; without gaps.
    pub log: Vec<Item>,
    /// The block of pins, as it is shown.
    pub pinned: Option<Block>,
    /// Model whose tokens were counted.
    pub model: String,
    /// Pins were added or removed by the tool since the block was written.
    pub repin: bool,
    /// Gists that a model wrote and that no prompt shows yet, by the first entry of their item.
    pub written: BTreeMap<u64, Written>,
    /// Entries that the client has edited away: first and last ordinal of each stretch, rising.
    pub away: Vec<(Ordinal, Ordinal)>,
    /// The passages of the current turn.
    #[serde(skip)]
    pub passages: Option<Passages>,
    /// The current turn.
    #[serde(skip)]
    pub turn: Option<Turn>,
    /// What the last prompt's part of the engine cost, the passages not counted.
    #[serde(skip)]
    pub shown_tokens: u64,
}

/// Lines that a model wrote for an item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Written {
    /// Number of the first entry that it was given: what was picked from older ones stays.
    pub from: u32,
    /// The lines.
    pub lines: Vec<Line>,
}

/// The current turn, as it was at its first model call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    /// Names it, by its prompt.
    pub name: u64,
    /// Tokens that it had.
    pub began: u64,
}

/// A text with what it costs as a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Block {
    /// The whole message.
    pub text: String,
    /// Tokens of the message.
    pub tokens: u64,
}

/// The passages that one turn is shown.
#[derive(Clone, Debug)]
pub(crate) struct Passages {
    /// Names the turn, by its prompt.
    pub turn: u64,
    /// The block; `None` when nothing was worth showing.
    pub text: Option<String>,
    /// Tokens of the block as the host sends it.
    pub tokens: u64,
}

/// Neighbouring entries that are shown shorter than they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stub {
    /// The last entry that it stands for.
    pub last: u64,
    /// How many entries it stands for.
    pub entries: u32,
    /// What is shown instead.
    pub messages: Vec<Said>,
    /// Tokens of all messages.
    pub tokens: u64,
}

/// A message that stands for an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Said {
    /// A code of [`role`].
    pub role: u32,
    /// Its text.
    pub text: String,
    /// For a tool result, the call that it answers.
    pub call_id: Option<String>,
    /// For the model, id, name and arguments of its calls.
    pub calls: Vec<[String; 3]>,
}

impl Said {
    /// The message for the host.
    pub(crate) fn message(&self) -> Message {
        match (self.role, &self.call_id) {
            (role::TOOL, Some(id)) => Message::tool(id, &self.text),
            (role::USER, _) => Message::user(&self.text),
            _ => self
                .calls
                .iter()
                .fold(Message::assistant(&self.text), |message, [id, name, json]| message.with_call(id, name, json)),
        }
    }
}

/// Where the tail of a prompt lies in the history of this call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tail {
    /// Place of its first entry.
    pub from: usize,
    /// Place of the message that leads it in, when it begins inside a turn.
    pub lead: Option<usize>,
}

impl State {
    /// Takes note of the current turn, which costs `tokens` by now; true when it has grown since its first model call. It grows by
    /// calls of tools and their results: an engine is not shown them, but the budget feels them.
    pub(crate) fn is_in_loop(&mut self, turn: u64, tokens: u64) -> bool {
        let known = self.turn.filter(|known| known.name == turn);
        let known = *self.turn.insert(known.unwrap_or(Turn { name: turn, began: tokens }));
        tokens > known.began
    }

    /// The entry was edited away, as the last prompt knew it.
    pub(crate) fn is_away(&self, ordinal: Ordinal) -> bool {
        let at = self.away.partition_point(|(_, last)| *last < ordinal);
        self.away.get(at).is_some_and(|(first, _)| *first <= ordinal)
    }

    /// Pins were added or removed by the tool: the next prompt shows it, whatever that costs in cached bytes.
    pub(crate) fn pins_changed(&mut self) {
        self.repin = true;
    }

    /// Holds what is remembered against the history of this call, and drops what no longer is so: the history was edited, a
    /// branch was left, or its oldest part is no longer projected. True when the tail no longer begins where it did.
    pub(crate) fn tail(&mut self, heads: &[Head]) -> (Tail, bool) {
        let place = |id: u64| heads.binary_search_by_key(&id, |head| head.id);
        let mut from = heads.partition_point(|head| head.id < self.from);
        let exact = self.from == 0 || heads.get(from).is_none_or(|head| head.id == self.from);
        let mut lead = place(self.lead).ok().filter(|lead| self.lead != 0 && *lead < from);
        let moved =
            !exact || (self.lead != 0 && lead.is_none()) || heads.get(from).is_some_and(|head| head.role == role::TOOL);
        if moved {
            from = next_turn(heads, from);
            lead = None;
            self.from = id_at(heads, from);
            self.lead = 0;
        }
        self.stubs.retain(|id, stub| place(*id).is_ok_and(|at| stub.stands_for(heads, at)));
        let oldest = heads.first().map_or(0, |head| head.id);
        let mut before: Option<u64> = None;
        let valid = self.log.iter().take_while(|item| {
            let holds = item.last < oldest || item.holds(heads, before);
            before = Some(item.last);
            holds && item.last < self.from
        });
        let valid = valid.count();
        self.log.truncate(valid);
        (Tail { from, lead }, moved)
    }

    /// Tokens of the tail.
    pub(crate) fn cost(&self, heads: &[Head], tail: Tail) -> u64 {
        let raw = |range: Range<usize>| heads[range].iter().map(|head| u64::from(head.tokens)).sum::<u64>();
        let mut cost = 0;
        self.parts(heads, tail, |part| {
            cost += match part {
                Part::Raw(range) => raw(range),
                Part::Short(stub) => stub.tokens,
            };
        });
        cost
    }

    /// Hands out the parts of the tail in order.
    pub(crate) fn parts<'a>(&'a self, heads: &[Head], tail: Tail, mut take: impl FnMut(Part<'a>)) {
        if let Some(lead) = tail.lead {
            take(match self.stubs.get(&heads[lead].id) {
                Some(stub) => Part::Short(stub),
                None => Part::Raw(lead..lead + 1),
            });
        }
        let mut next = tail.from;
        let first = id_at(heads, tail.from);
        for (id, stub) in self.stubs.range(first..) {
            let Ok(at) = heads.binary_search_by_key(id, |head| head.id) else { continue };
            if at < next {
                continue;
            }
            if at > next {
                take(Part::Raw(next..at));
            }
            take(Part::Short(stub));
            next = at + stub.entries as usize;
        }
        if next < heads.len() {
            take(Part::Raw(next..heads.len()));
        }
    }
}

/// A part of the tail.
pub(crate) enum Part<'a> {
    /// Entries as they are.
    Raw(Range<usize>),
    /// Entries that are shown shorter.
    Short(&'a Stub),
}

impl Stub {
    /// True when the entries from place `at` on are those that it was made for.
    fn stands_for(&self, heads: &[Head], at: usize) -> bool {
        let entries = self.entries as usize;
        let Some(last) = entries.checked_sub(1).and_then(|more| heads.get(at + more)) else { return false };
        let calls = self.messages.iter().any(|said| !said.calls.is_empty());
        let next_is_result = heads.get(at + entries).is_some_and(|next| next.role == role::TOOL);
        last.id == self.last && heads[at].has(entry_flags::TOOL_CALLS) == calls && !next_is_result
    }
}

/// The first turn that starts at or after place `at`; the end when there is none.
pub(crate) fn next_turn(heads: &[Head], at: usize) -> usize {
    (at..heads.len()).find(|at| heads[*at].starts_turn()).unwrap_or(heads.len())
}

/// Id of the entry at a place; behind the last entry, an id above it and below whatever comes.
pub(crate) fn id_at(heads: &[Head], at: usize) -> u64 {
    heads.get(at).map_or_else(|| heads.last().map_or(0, |last| last.id.saturating_add(1)), |head| head.id)
}
