//! What was shown of a history, and in what two answers differ.

use crate::compaction::View;
use crate::slot::Item;
use crate::transcript::{EntryId, Role};
use crate::turn::prompt::Prompt;
use serde::Serialize;
use serde_json::{Value, json};
use std::ops::Range;

/// Most spans that are told one by one.
const SPANS: usize = 16;

/// First and last entry of each span.
type Spans = Vec<(EntryId, EntryId)>;

/// What the engine that served showed, kept small: the view itself is let go of.
#[derive(Debug, Clone)]
pub(in crate::turn) struct Shown {
    /// Tokens that the prompt might cost.
    pub(super) limit: u64,
    /// Last row of the view at that time.
    pub(super) until: EntryId,
    /// The history that was chosen from: its first row, and how many there were.
    from: EntryId,
    rows: usize,
    /// First and last entry of each span.
    spans: Spans,
    /// What was made beside.
    made: Amount,
    /// Tokens of the additions.
    additions: u64,
}

/// Number and tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(in crate::turn) struct Amount {
    pub(in crate::turn) entries: u64,
    pub(in crate::turn) tokens: u64,
}

impl Shown {
    /// `fixed`: tokens of the system prompt and of the tools.
    pub(in crate::turn) fn of(view: &View, given: &[Item], prompt: &Prompt, limit: u64, fixed: u64) -> Shown {
        let id = |row: usize| view.heads.get(row).map(|head| head.id);
        let spans = ranges(given).filter_map(|span| Some((id(span.start)?, id(span.end.checked_sub(1)?)?))).collect();
        let (made, additions) = beside(prompt, fixed);
        Shown {
            limit,
            until: view.heads.last().map_or(0, |head| head.id),
            from: view.heads.first().map_or(0, |head| head.id),
            rows: view.len(),
            spans,
            made,
            additions,
        }
    }

    /// True when `view` is the history that was chosen from: it was neither compacted nor rewritten since.
    pub(super) fn is_of(&self, view: &View) -> bool {
        let ends = (view.heads.first().map_or(0, |head| head.id), view.heads.last().map_or(0, |head| head.id));
        view.len() == self.rows && ends == (self.from, self.until)
    }
}

fn ranges(given: &[Item]) -> impl Iterator<Item = Range<usize>> {
    given.iter().filter_map(|item| match item {
        Item::Span { start, end } if start < end => Some(*start..*end),
        _ => None,
    })
}

/// Messages that an engine made, and the tokens of its additions.
fn beside(prompt: &Prompt, fixed: u64) -> (Amount, u64) {
    let mut made = Amount::default();
    let mut items = 0;
    for item in prompt.items() {
        items += item.tokens;
        if item.id.is_none() && !item.current_turn && item.message.role != Role::Tool {
            made.entries += 1;
            made.tokens += item.tokens;
        }
    }
    (made, prompt.tokens().saturating_sub(items + fixed))
}

/// In what the answers of two engines for the same turn differ.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Comparison {
    pub(super) both: Amount,
    pub(super) only_first: Amount,
    pub(super) only_shadow: Amount,
    first_made: Amount,
    shadow_made: Amount,
    additions: (u64, u64),
    /// Of what only one of them showed.
    spans: (Spans, Spans),
}

/// Compares what was shown with what the shadow gave over `view`.
pub(super) fn compare(first: &Shown, view: &View, given: &[Item], prompt: &Prompt, fixed: u64) -> Comparison {
    let shown = first.spans.iter().map(|(from, to)| view.index_from(*from)..view.index_from(to + 1));
    let shown = tidy(shown.collect());
    let watched = tidy(ranges(given).collect());
    let only_first = without(&shown, &watched);
    let only_shadow = without(&watched, &shown);
    let both = without(&shown, &only_first);
    let amount = |rows: &[Range<usize>]| Amount {
        entries: rows.iter().map(|rows| rows.len() as u64).sum(),
        tokens: rows.iter().map(|rows| view.tokens(rows.clone())).sum(),
    };
    let ids = |rows: &[Range<usize>]| -> Spans {
        rows.iter()
            .filter_map(|rows| Some((view.heads.get(rows.start)?.id, view.heads.get(rows.end - 1)?.id)))
            .collect()
    };
    let (shadow_made, additions) = beside(prompt, fixed);
    Comparison {
        both: amount(&both),
        only_first: amount(&only_first),
        only_shadow: amount(&only_shadow),
        first_made: first.made,
        shadow_made,
        additions: (first.additions, additions),
        spans: (ids(&only_first), ids(&only_shadow)),
    }
}

impl Comparison {
    /// True when the model would have seen the same history.
    pub(super) fn is_same(&self) -> bool {
        self.only_first.entries == 0 && self.only_shadow.entries == 0 && self.first_made == self.shadow_made
    }

    /// For the turn record.
    pub(super) fn to_json(&self) -> Value {
        let only = |amount: Amount, spans: &[(EntryId, EntryId)]| {
            json!({
                "entries": amount.entries, "tokens": amount.tokens,
                "spans": spans.iter().take(SPANS).collect::<Vec<_>>(), "more_spans": spans.len().saturating_sub(SPANS),
            })
        };
        json!({
            "same": self.is_same(),
            "both": self.both,
            "only_first": only(self.only_first, &self.spans.0),
            "only_shadow": only(self.only_shadow, &self.spans.1),
            "made": {"first": self.first_made, "shadow": self.shadow_made},
            "additions": {"first": self.additions.0, "shadow": self.additions.1},
        })
    }
}

/// Sorted, without overlaps; an engine may show an entry twice.
fn tidy(mut rows: Vec<Range<usize>>) -> Vec<Range<usize>> {
    rows.sort_by_key(|rows| rows.start);
    let mut out: Vec<Range<usize>> = Vec::with_capacity(rows.len());
    for next in rows.into_iter().filter(|rows| !rows.is_empty()) {
        match out.last_mut() {
            Some(last) if next.start <= last.end => last.end = last.end.max(next.end),
            _ => out.push(next),
        }
    }
    out
}

/// The rows of `these` that are not in `those`; both tidy.
fn without(these: &[Range<usize>], those: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    let mut at = 0;
    for rows in these {
        let mut start = rows.start;
        while those.get(at).is_some_and(|cut| cut.end <= start) {
            at += 1;
        }
        let mut look = at;
        while let Some(cut) = those.get(look).filter(|cut| cut.start < rows.end) {
            if cut.start > start {
                out.push(start..cut.start);
            }
            start = start.max(cut.end);
            look += 1;
        }
        if start < rows.end {
            out.push(start..rows.end);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_one_of_two_has_is_found_in_any_arrangement() {
        // Every pair of subsets of eight rows, against the plain answer.
        let rows_of = |bits: u32| (0..8).filter(move |row| bits >> row & 1 == 1);
        let ranges_of = |bits: u32| tidy(rows_of(bits).map(|row| row..row + 1).collect());
        for these in 0..256_u32 {
            for those in 0..256_u32 {
                let found: Vec<usize> = without(&ranges_of(these), &ranges_of(those)).into_iter().flatten().collect();
                let plain: Vec<usize> = rows_of(these & !those).collect();
                assert_eq!(found, plain, "{these:08b} without {those:08b}");
            }
        }
    }

    #[test]
    fn overlapping_spans_count_once() {
        assert_eq!(tidy(vec![4..6, 0..2, 1..3, 5..5]), [0..3, 4..6]);
    }
}
