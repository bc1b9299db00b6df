//! Which passages share a budget.
//!
//! Each passage has a value, how likely it is the evidence, and a cost in tokens. The best by value per cost are taken, where the
//! cost counts by its root only: a short greeting that shares a word with the question would else come before the long message
//! that answers it.

use super::near::{Near, is_other_occasion};
use super::score::Scored;
use crate::index::{Index, Said};
use std::collections::{HashMap, HashSet};

/// The power of the cost that a value is divided by.
const COST_POWER: f32 = 0.5;

/// What the host counts more for a message with a name than its line costs, which has a number, a colon and an end instead. For one
/// without a name it is the same.
const NAMED: u64 = 2;

/// Tokens of the marks around a part of a text.
const PART: u64 = 3;

/// Tokens of a date's line.
pub(crate) const DATE: u64 = 5;

/// Less room than this is left alone.
const ROOM_MIN: u64 = 10;

/// A passage that may be shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    /// The passage.
    pub passage: u32,
    /// Its day, from the epoch.
    pub day: i64,
    /// What its line costs, about.
    pub cost: u64,
}

/// The passages by value per cost, each text once for each occasion on which it was said.
pub(crate) fn by_worth(index: &Index, scored: &[Scored]) -> Vec<Item> {
    let mut seen: HashMap<(u32, u16), Vec<&Said>> = HashMap::new();
    let mut items: Vec<(f32, Item)> = Vec::with_capacity(scored.len());
    for one in scored {
        let passage = &index.passages[one.passage as usize];
        if passage.words == 0 {
            continue;
        }
        let said = &index.entries[passage.entry as usize];
        let same = seen.entry((passage.likeness, passage.words)).or_default();
        if same.iter().any(|other| !is_other_occasion(index, passage.signs, (said, other))) {
            continue;
        }
        same.push(said);
        let (length, whole) = (u64::from(passage.end - passage.start), u64::from(said.bytes.max(1)));
        let part = if length < whole { PART } else { 0 };
        let spared = if said.name > 0 { NAMED } else { 0 };
        let cost = (u64::from(said.tokens).saturating_sub(spared) * length).div_ceil(whole).max(1) + part;
        // Logarithms: the values of far passages would else be too small to be told apart.
        let worth = one.score - COST_POWER * (cost as f32).ln();
        items.push((worth, Item { passage: one.passage, day: said.time_ms.div_euclid(DAY_MS), cost }));
    }
    items.sort_by(|(a, x), (b, y)| b.total_cmp(a).then(x.passage.cmp(&y.passage)));
    items.into_iter().map(|(_, item)| item).collect()
}

/// Milliseconds of a day.
pub(crate) const DAY_MS: i64 = 86_400_000;

/// Takes items into `taken`, by place in `items`, as long as there is `room`; what repeats one that is taken is not.
pub(crate) fn fill(items: &[Item], taken: &mut Vec<usize>, mut room: u64, near: &mut Near<'_>) {
    let mut days: HashSet<i64> = taken.iter().map(|at| items[*at].day).collect();
    let known: HashSet<usize> = taken.iter().copied().collect();
    for (at, item) in items.iter().enumerate() {
        if room < ROOM_MIN {
            return;
        }
        if known.contains(&at) {
            continue;
        }
        let cost = item.cost + if days.contains(&item.day) { 0 } else { DATE };
        if cost <= room && !near.repeats(item.passage, taken.iter().map(|at| items[*at].passage)) {
            room -= cost;
            days.insert(item.day);
            taken.push(at);
        }
    }
}
