//! Pruning: old tool results become shorter when the provider's prompt cache is cold anyway.
//!
//! A result is shortened twice at most, and what it then says is frozen: stored, and shown byte for byte from then on, so that
//! a prefix changes only in the turn that pruned. The transcript keeps all of it.

use super::projection::with_text;
use super::view::View;
use crate::config::PruningConfig;
use crate::model::TokenCounter;
use crate::transcript::{EntryId, Message, Role};
use engine_abi::wire::{EntryHeadV1, entry_flags};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Results longer than this many characters are trimmed.
const SOFT_ABOVE: usize = 4_000;
/// Characters kept of either end.
const SOFT_KEEP: usize = 1_500;
/// Clearing needs at least this many characters to win.
const HARD_MIN_CHARS: usize = 50_000;
/// Newest assistant rows that stay as they are, with everything behind the oldest of them.
const PROTECTED_ANSWERS: usize = 3;
/// What a cleared result says.
const CLEARED: &str = "[Old tool result content cleared]";

/// Tool results that may still be shortened. All work is on what became prunable since the last run, never on the whole view.
#[derive(Debug, Default, Clone)]
pub(super) struct Pruner {
    /// Rows with a long, untouched result.
    long: VecDeque<usize>,
    /// Rows that are not cleared, with their size in characters.
    clearable: VecDeque<(usize, usize)>,
    /// Sum of those sizes.
    chars: usize,
}

impl Pruner {
    /// A row with a tool result was added.
    pub(super) fn tool(&mut self, row: usize, body: &Message, flags: u32) {
        if body.has_media() {
            return;
        }
        let chars = body.text().chars().count();
        if chars > SOFT_ABOVE && flags & entry_flags::PRUNED == 0 {
            self.long.push_back(row);
        }
        if chars > CLEARED.len() {
            self.clearable.push_back((row, chars));
            self.chars += chars;
        }
    }

    /// Rows from `from` on are gone.
    pub(super) fn truncate(&mut self, from: usize) {
        while self.long.back().is_some_and(|&row| row >= from) {
            self.long.pop_back();
        }
        while let Some((_, chars)) = self.clearable.pop_back_if(|(row, _)| *row >= from) {
            self.chars -= chars;
        }
    }

    /// Rows below `from` are gone, the others move down by `by`.
    pub(super) fn shift(&mut self, from: usize, by: usize) {
        while self.long.front().is_some_and(|&row| row < from) {
            self.long.pop_front();
        }
        while let Some((_, chars)) = self.clearable.pop_front_if(|(row, _)| *row < from) {
            self.chars -= chars;
        }
        self.long.iter_mut().for_each(|row| *row -= by);
        self.clearable.iter_mut().for_each(|(row, _)| *row -= by);
    }

    /// True when the cache is cold, the view is large enough to care, and there is something to shorten.
    pub(super) fn due(
        &self,
        view: &View,
        tokens: u64,
        now_ms: i64,
        last_call_ms: Option<i64>,
        window: u64,
        config: &PruningConfig,
    ) -> bool {
        if !config.enabled || self.clearable.is_empty() || tokens.saturating_mul(10) < window.saturating_mul(3) {
            return false;
        }
        let assistant = Role::Assistant.code();
        let last = last_call_ms.or_else(|| view.heads.iter().rev().find(|h| h.role == assistant).map(|h| h.time_ms));
        let ttl = i64::try_from(config.ttl_ms).unwrap_or(i64::MAX);
        last.is_none_or(|last| now_ms.saturating_sub(last) >= ttl)
    }

    /// Shortens, and gives what is frozen now.
    pub(super) fn run(
        &mut self,
        view: &mut View,
        tokens: &mut u64,
        window: u64,
        counter: &TokenCounter,
    ) -> Vec<(EntryId, String)> {
        let protected = protected_from(&view.heads);
        let first_user = view.heads.iter().position(|head| head.role == Role::User.code()).unwrap_or(view.len());
        let mut frozen = BTreeMap::new();
        let mut before_user = Vec::new();
        while let Some(row) = self.long.pop_front_if(|row| *row < protected) {
            if row < first_user {
                before_user.push(row);
                continue;
            }
            let text = trimmed(&view.bodies[row].text());
            let size = text.chars().count();
            self.resize(row, size);
            freeze(view, row, text, tokens, counter, &mut frozen);
        }
        before_user.into_iter().rev().for_each(|row| self.long.push_front(row));
        if self.prunable(first_user, protected) >= HARD_MIN_CHARS {
            self.clear(view, first_user, protected, tokens, window, counter, &mut frozen);
        }
        frozen.into_iter().collect()
    }

    /// Clears results, oldest first, until half the window is free.
    #[allow(clippy::too_many_arguments, reason = "one step of `run`, with its state")]
    fn clear(
        &mut self,
        view: &mut View,
        first_user: usize,
        protected: usize,
        tokens: &mut u64,
        window: u64,
        counter: &TokenCounter,
        frozen: &mut BTreeMap<EntryId, String>,
    ) {
        let mut before_user = Vec::new();
        while tokens.saturating_mul(2) >= window {
            let Some((row, chars)) = self.clearable.pop_front_if(|(row, _)| *row < protected) else { break };
            if row < first_user {
                before_user.push((row, chars));
                continue;
            }
            self.chars -= chars;
            freeze(view, row, CLEARED.to_owned(), tokens, counter, frozen);
        }
        before_user.into_iter().rev().for_each(|entry| self.clearable.push_front(entry));
    }

    /// Characters of the results that may be cleared: all but those at either protected end.
    fn prunable(&self, first_user: usize, protected: usize) -> usize {
        let newest: usize =
            self.clearable.iter().rev().take_while(|(row, _)| *row >= protected).map(|(_, chars)| chars).sum();
        let oldest: usize =
            self.clearable.iter().take_while(|(row, _)| *row < first_user).map(|(_, chars)| chars).sum();
        self.chars.saturating_sub(newest).saturating_sub(oldest)
    }

    fn resize(&mut self, row: usize, chars: usize) {
        if let Ok(at) = self.clearable.binary_search_by_key(&row, |(row, _)| *row) {
            self.chars = self.chars - self.clearable[at].1 + chars;
            self.clearable[at].1 = chars;
        }
    }
}

/// Index of the oldest protected assistant row; 0 when there are fewer than the protected number.
fn protected_from(heads: &[EntryHeadV1]) -> usize {
    let assistant = Role::Assistant.code();
    let mut answers = heads.iter().enumerate().rev().filter(|(_, head)| head.role == assistant);
    answers.nth(PROTECTED_ANSWERS - 1).map_or(0, |(row, _)| row)
}

fn freeze(
    view: &mut View,
    row: usize,
    text: String,
    tokens: &mut u64,
    counter: &TokenCounter,
    frozen: &mut BTreeMap<EntryId, String>,
) {
    let body = with_text(&view.bodies[row], &text);
    let head = &mut view.heads[row];
    let now = counter.message(&body);
    *tokens = (*tokens + u64::from(now)).saturating_sub(u64::from(head.tokens));
    head.tokens = now;
    head.flags |= entry_flags::PRUNED;
    head.text_bytes = u32::try_from(text.len()).unwrap_or(u32::MAX);
    view.bodies[row] = Arc::new(body);
    // A result that was trimmed and is cleared in the same run is frozen once, as it is shown at the end.
    frozen.insert(head.id, text);
}

fn trimmed(text: &str) -> String {
    let total = text.chars().count();
    let head_end = text.char_indices().nth(SOFT_KEEP).map_or(text.len(), |(at, _)| at);
    let tail_start = text.char_indices().nth(total.saturating_sub(SOFT_KEEP)).map_or(text.len(), |(at, _)| at);
    let left_out = total.saturating_sub(2 * SOFT_KEEP);
    format!("{}\n[… {left_out} characters of this tool result left out …]\n{}", &text[..head_end], &text[tail_start..])
}
