//! Where a compaction cuts: what is recent stays word for word, what is older becomes a summary.

use super::view::View;
use crate::transcript::{EntryId, Role};
use engine_abi::wire::entry_flags;

/// A cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutPlan {
    /// Index of the first row that stays.
    pub index: usize,
    /// Its id.
    pub first_kept: EntryId,
    /// True when the cut is inside a turn, at an assistant row: its beginning is summarised with what is older.
    pub split_turn: bool,
    /// Tokens that the summary replaces.
    pub replaced: u64,
    /// Tokens of the history that stays; the turn that is being answered not counted.
    pub kept: u64,
}

/// Why there is no cut. The names are those of the contract's compaction reasons.
pub mod reason {
    /// Everything is recent.
    pub const BELOW_THRESHOLD: &str = "below_threshold";
    /// There is nothing that a summary could stand for.
    pub const NO_COMPACTABLE_ENTRIES: &str = "no_compactable_entries";
    /// What is not recent is a summary already.
    pub const ALREADY_COMPACTED: &str = "already_compacted";
    /// A summary would not be smaller than what it replaces.
    pub const NO_GAIN: &str = "no_gain";
}

/// Finds the cut in the first `until` rows, the history before the turn that is being answered.
///
/// - A cut is at the start of a turn, or, when one turn alone is longer than what may stay, at an assistant row inside it. It
///   is never at a tool result, so a call and its results stay together.
/// - At least `keep_recent_tokens` stay, and whole turns: up to half as many again. Where turns are longer than that, less
///   stays, and at least half; where no turn start serves, the turn is split under the same bounds, as far as its own rows
///   allow.
/// - The row `must_keep_from` and all behind it stay in any case: the latest request that was not answered yet.
pub fn plan(
    view: &View,
    until: usize,
    keep_recent_tokens: u64,
    must_keep_from: Option<EntryId>,
) -> Result<CutPlan, &'static str> {
    let until = until.min(view.len());
    let first = usize::from(view.is_summary(0));
    if until == 0 || view.len() == first {
        return Err(reason::NO_COMPACTABLE_ENTRIES);
    }
    if until == first {
        return Err(reason::ALREADY_COMPACTED);
    }
    let total = view.tokens(first..until);
    // A cut may leave half as much again, so after one there must be more than that, or each call would cut once more.
    if first == 1 && total <= keep_recent_tokens.saturating_add(keep_recent_tokens / 2) {
        return Err(reason::ALREADY_COMPACTED);
    }
    if total <= keep_recent_tokens {
        return Err(reason::BELOW_THRESHOLD);
    }
    let mut index = choose(view, first, until, keep_recent_tokens.max(1));
    if let Some(id) = must_keep_from {
        index = index.min(view.index_from(id));
        // A request is a user row, so this only moves when the caller names a row inside a pair.
        while index > first && view.heads[index.min(view.len() - 1)].role == Role::Tool.code() {
            index -= 1;
        }
    }
    if index <= first {
        return Err(reason::NO_COMPACTABLE_ENTRIES);
    }
    let Some(head) = view.heads.get(index) else { return Err(reason::NO_COMPACTABLE_ENTRIES) };
    Ok(CutPlan {
        index,
        first_kept: head.id,
        split_turn: head.flags & entry_flags::TURN_START == 0 && head.role != Role::User.code(),
        replaced: view.tokens(0..index),
        kept: view.tokens(index..until),
    })
}

/// The cut before the row `id`, where it is clean and still leaves about what should stay: not less than half, and at most twice
/// as much.
pub fn plan_at(
    view: &View,
    until: usize,
    id: EntryId,
    keep_recent_tokens: u64,
    must_keep_from: Option<EntryId>,
) -> Option<CutPlan> {
    let until = until.min(view.len());
    let index = view.index_of(id)?;
    let first = usize::from(view.is_summary(0));
    let head = view.heads.get(index)?;
    let clean = head.role == Role::Assistant.code() || head.flags & entry_flags::TURN_START != 0;
    let kept = view.tokens(index..until);
    let serves = kept >= keep_recent_tokens / 2 && kept <= keep_recent_tokens.saturating_mul(2);
    let allowed = must_keep_from.is_none_or(|id| index <= view.index_from(id));
    (clean && serves && allowed && index > first && index < until).then(|| CutPlan {
        index,
        first_kept: head.id,
        split_turn: head.flags & entry_flags::TURN_START == 0 && head.role != Role::User.code(),
        replaced: view.tokens(0..index),
        kept,
    })
}

/// A row at which a cut would be clean.
struct Candidate {
    index: usize,
    kept: u64,
    turn: bool,
}

fn choose(view: &View, first: usize, until: usize, keep: u64) -> usize {
    let most = keep.saturating_add(keep / 2);
    let mut kept = 0u64;
    let mut candidates: Vec<Candidate> = Vec::new();
    for index in (first + 1..until).rev() {
        let head = &view.heads[index];
        kept += u64::from(head.tokens);
        if head.role != Role::Tool.code() {
            let turn = head.flags & entry_flags::TURN_START != 0;
            if turn || head.role == Role::Assistant.code() {
                candidates.push(Candidate { index, kept, turn });
            }
        }
        // Past this point nothing better can come.
        if kept > most && !candidates.is_empty() {
            break;
        }
    }
    let next_is_clean = view.heads.get(until).is_some_and(|head| head.role != Role::Tool.code());
    let turns = || candidates.iter().filter(|candidate| candidate.turn);
    let enough = |c: &&Candidate| c.kept >= keep && c.kept <= most;
    let half = |c: &&Candidate| c.kept < keep && c.kept >= keep / 2;
    turns()
        .find(enough)
        .or_else(|| turns().rev().find(half))
        .or_else(|| candidates.iter().find(enough))
        .or_else(|| candidates.iter().rev().find(|c| c.kept < keep))
        // One row, or one call with its results, is longer than what may stay: it stays alone when nothing follows it, ...
        .or_else(|| if next_is_clean { None } else { candidates.first() })
        .map(|candidate| candidate.index)
        // ... and else goes into the summary, since the turn that is being answered follows.
        .unwrap_or(if next_is_clean { until } else { first })
}
