//! From a prompt to the passages that belong to it.
//!
//! ```text
//!  text ─► query ─► scan of all passages ─► candidates ─► features ─► score ─► worth ─► block
//!          words     BM25, vectors           a few 100     linear model        knapsack   whole texts, dates
//! ```
//!
//! | file | concept |
//! |---|---|
//! | [`mod@query`] | what a question asks for |
//! | [`score`] | how well each passage answers |
//! | [`pack`] | which passages share a budget |
//! | [`near`] | which passages say again what another one says |
//! | [`block`] | the block of quotes as the model reads it |

mod block;
mod near;
mod pack;
mod query;
mod score;

use crate::index::{Index, Ordinal};
use query::Query;
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
    /// The model has the tool that reads on at a number.
    pub expands: bool,
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

/// Longest text that is looked at to find out what is asked for, in bytes: of a longer one, its two ends.
const TEXT_MAX: usize = 4_000;

/// The best passages, best first, without those that have nothing to do with what is looked for: whoever asks is told that there
/// are none. A prompt's passages have no such floor, since what stands around an answer helps there.
pub(crate) fn search(index: &Index, ask: &Ask<'_>, limit: usize) -> Vec<Hit> {
    let query = query(index, ask);
    let related = score::related(index, &query);
    let ranked = scored(index, ask, &query);
    let has_words = |one: &&score::Scored| index.passages[one.passage as usize].words > 0;
    let found = ranked.iter().filter(has_words).filter(|one| related[one.passage as usize]);
    found.take(limit).map(|one| hit(index, one)).collect()
}

/// A passage as others know it.
fn hit(index: &Index, one: &score::Scored) -> Hit {
    let passage = &index.passages[one.passage as usize];
    let ordinal = index.entries[passage.entry as usize].ordinal;
    Hit { ordinal, bytes: passage.start..passage.end, score: one.score }
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
    let items = pack::by_worth(index, &ranked(index, ask));
    let mut taken: Vec<usize> = Vec::new();
    let mut near = near::Near::of(index, texts);
    // What lines cost is estimated; what the block costs is counted, and the estimate put right.
    let mut room = budget.checked_sub(count(block::intro(ask.expands)) + pack::DATE)?;
    let mut best: Option<String> = None;
    for _ in 0..ROUNDS {
        let before = taken.len();
        pack::fill(&items, &mut taken, room, &mut near);
        if taken.len() == before {
            break;
        }
        loop {
            let mut passages: Vec<u32> = taken.iter().map(|at| items[*at].passage).collect();
            passages.sort_unstable();
            let block = block::render(index, texts, &passages, ask.expands);
            let cost = count(&block);
            if cost <= budget {
                room = budget - cost;
                best = Some(block);
                break;
            }
            // The least worthy go, as many as the excess needs.
            let mut excess = cost - budget;
            while excess > 0 && taken.len() > before {
                let last = taken.pop()?;
                excess = excess.saturating_sub(items[last].cost);
            }
            if taken.len() == before {
                return best;
            }
        }
    }
    best
}

/// How often the room that an estimate left is filled again.
const ROUNDS: usize = 2;

/// The passages that answer best, best first.
fn ranked(index: &Index, ask: &Ask<'_>) -> Vec<score::Scored> {
    scored(index, ask, &query(index, ask))
}

/// What is asked for.
fn query(index: &Index, ask: &Ask<'_>) -> Query {
    Query::of(index, &ends(ask.text), ask.name, ask.now_ms)
}

fn scored(index: &Index, ask: &Ask<'_>, query: &Query) -> Vec<score::Scored> {
    let allowed = |entry: u32| (ask.allowed)(index.entries[entry as usize].ordinal);
    score::ranked(index, query, &allowed)
}

/// The text, or the two ends of a long one: what is asked for stands before or behind what was pasted.
fn ends(text: &str) -> Cow<'_, str> {
    if text.len() <= TEXT_MAX {
        return Cow::Borrowed(text);
    }
    let head = text.floor_char_boundary(TEXT_MAX / 2);
    let tail = text.ceil_char_boundary(text.len() - TEXT_MAX / 2);
    Cow::Owned([&text[..head], "\n", &text[tail..]].concat())
}

#[cfg(test)]
mod tests;
