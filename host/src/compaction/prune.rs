//! Pruning: old tool results become shorter when the provider's prompt cache is cold anyway, and results that are larger than
//! their share of the window are cut as soon as they are seen.
//!
//! What a shortened text then says is frozen: stored, and shown byte for byte from then on, so that a prefix changes only in
//! the turn that pruned. The transcript keeps all of it. It runs whichever engine is active, before the engine sees anything.

use super::projection::with_text;
use super::view::View;
use crate::config::PruningConfig;
use crate::model::TokenCounter;
use crate::transcript::{Content, EntryId, Message, Role};
use engine_abi::wire::{EntryHeadV1, entry_flags};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Shorter results are not looked at.
const LEAST_CHARS: usize = 64;
/// Characters that a token stands for where a rule speaks of a window in characters.
const CHARS_PER_TOKEN: u64 = 4;
/// Largest share of the window that one result may have, in percent.
const RESULT_SHARE: u64 = 30;
/// Most characters of one result by the size of the window in tokens.
const RESULT_CHARS: [(u64, usize); 3] = [(200_000, 64_000), (100_000, 32_000), (0, 16_000)];
/// Most characters that are kept of the end of a result that tells of an error.
const ERROR_TAIL: usize = 4_000;

/// Marks of what was done, in the shortened texts.
const TRIMMED: &str = "characters of this tool result left out";
const CUT_OFF: &str = "more characters of this result cut off; ask for less at a time";
const NO_MEDIA: &str = "[image or file of an earlier turn left out]";

/// What happened to a message that is shown shorter than it is stored.
pub fn pruned_because(message: &Message) -> &'static str {
    let text = message.text();
    if text.ends_with(NO_MEDIA) {
        "an image or file of an earlier turn, left out"
    } else if text.contains(CUT_OFF) {
        "a result larger than its share of the window, cut off"
    } else if text.contains(TRIMMED) {
        "an old tool result, its middle left out"
    } else {
        "an old tool result, cleared"
    }
}

/// What may still be shortened. All work is on what became prunable since the last run, never on the whole view.
#[derive(Debug, Default, Clone)]
pub(super) struct Pruner {
    /// Rows with a result that nobody has held against its share of the window yet.
    unseen: VecDeque<(usize, usize)>,
    /// Rows with an untouched result.
    whole: VecDeque<usize>,
    /// Rows that are not cleared, with their size in characters.
    clearable: VecDeque<(usize, usize)>,
    /// Sum of those sizes.
    chars: usize,
    /// Rows with images or files.
    media: VecDeque<usize>,
}

/// The state of a projection that a run works on.
pub(super) struct Work<'a> {
    pub view: &'a mut View,
    /// Tokens of the view.
    pub tokens: &'a mut u64,
    /// Window of the model, in tokens.
    pub window: u64,
    /// First row of the oldest turn whose images stay.
    pub media_from: usize,
    pub config: &'a PruningConfig,
    pub counter: &'a TokenCounter,
    /// What is frozen.
    pub frozen: BTreeMap<EntryId, String>,
}

impl Pruner {
    /// A row was added.
    pub(super) fn added(&mut self, row: usize, body: &Message, flags: u32) {
        let whole = flags & entry_flags::PRUNED == 0;
        if body.has_media() {
            self.media.push_back(row);
            return;
        }
        if body.role != Role::Tool {
            return;
        }
        let chars = body.text().chars().count();
        if chars > LEAST_CHARS {
            if whole {
                self.unseen.push_back((row, chars));
                self.whole.push_back(row);
            }
            self.clearable.push_back((row, chars));
            self.chars += chars;
        }
    }

    /// Rows from `from` on are gone.
    pub(super) fn truncate(&mut self, from: usize) {
        while self.whole.pop_back_if(|row| *row >= from).is_some() {}
        while self.unseen.pop_back_if(|(row, _)| *row >= from).is_some() {}
        while self.media.pop_back_if(|row| *row >= from).is_some() {}
        while let Some((_, chars)) = self.clearable.pop_back_if(|(row, _)| *row >= from) {
            self.chars -= chars;
        }
    }

    /// Rows below `from` are gone, the others move down by `by`.
    pub(super) fn shift(&mut self, from: usize, by: usize) {
        while self.whole.pop_front_if(|row| *row < from).is_some() {}
        while self.unseen.pop_front_if(|(row, _)| *row < from).is_some() {}
        while self.media.pop_front_if(|row| *row < from).is_some() {}
        while let Some((_, chars)) = self.clearable.pop_front_if(|(row, _)| *row < from) {
            self.chars -= chars;
        }
        self.whole.iter_mut().for_each(|row| *row -= by);
        self.unseen.iter_mut().for_each(|(row, _)| *row -= by);
        self.media.iter_mut().for_each(|row| *row -= by);
        self.clearable.iter_mut().for_each(|(row, _)| *row -= by);
    }

    /// True when a result waits to be held against its share of the window.
    pub(super) fn has_unseen(&self) -> bool {
        !self.unseen.is_empty()
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
        let nothing = self.clearable.is_empty() && self.media.is_empty();
        if !config.enabled || nothing || (tokens as f64) < window as f64 * config.soft_trim_ratio {
            return false;
        }
        let assistant = Role::Assistant.code();
        let last = last_call_ms.or_else(|| view.heads.iter().rev().find(|h| h.role == assistant).map(|h| h.time_ms));
        let ttl = i64::try_from(config.ttl_ms).unwrap_or(i64::MAX);
        last.is_none_or(|last| now_ms.saturating_sub(last) >= ttl)
    }

    /// Cuts results that are larger than their share of the window, whatever the cache says: they were never sent.
    pub(super) fn guard(&mut self, work: &mut Work<'_>) {
        let most = match work.config.max_result_chars {
            0 => result_chars(work.window),
            chars => chars,
        };
        while let Some((row, chars)) = self.unseen.pop_front() {
            if work.config.enabled && chars > most {
                let text = cut_off(&work.view.bodies[row].text(), most);
                self.resize(row, text.chars().count());
                work.freeze(row, text);
            }
        }
    }

    /// Shortens what is old.
    pub(super) fn run(&mut self, work: &mut Work<'_>) {
        let protected = protected_from(&work.view.heads, work.config.keep_last_assistants);
        let first_user = work.view.heads.iter().position(|head| head.role == Role::User.code());
        let first_user = first_user.unwrap_or(work.view.len());
        while let Some(row) = self.media.pop_front_if(|row| *row < protected.min(work.media_from)) {
            let text = words(&work.view.bodies[row]);
            let separator = if text.is_empty() { "" } else { "\n" };
            work.freeze(row, format!("{text}{separator}{NO_MEDIA}"));
        }
        let soft = &work.config.soft_trim;
        let mut before_user = Vec::new();
        while let Some(row) = self.whole.pop_front_if(|row| *row < protected) {
            if row < first_user {
                before_user.push(row);
                continue;
            }
            if !work.may_prune(row) {
                continue;
            }
            let text = work.view.bodies[row].text();
            if text.chars().nth(soft.max_chars).is_some() {
                let text = trimmed(&text, soft.head_chars, soft.tail_chars);
                self.resize(row, text.chars().count());
                work.freeze(row, text);
            }
        }
        before_user.into_iter().rev().for_each(|row| self.whole.push_front(row));
        let enough = self.prunable(first_user, protected) >= work.config.min_prunable_tool_chars;
        if work.config.hard_clear.enabled && enough {
            self.clear(work, first_user, protected);
        }
    }

    /// Clears results, oldest first, until enough of the window is free.
    fn clear(&mut self, work: &mut Work<'_>, first_user: usize, protected: usize) {
        let mut before_user = Vec::new();
        while *work.tokens as f64 >= work.window as f64 * work.config.hard_clear_ratio {
            let Some((row, chars)) = self.clearable.pop_front_if(|(row, _)| *row < protected) else { break };
            if row < first_user {
                before_user.push((row, chars));
                continue;
            }
            self.chars -= chars;
            if work.may_prune(row) {
                work.freeze(row, work.config.hard_clear.placeholder.clone());
            }
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

impl Work<'_> {
    fn freeze(&mut self, row: usize, text: String) {
        let body = with_text(&self.view.bodies[row], &text);
        let head = &mut self.view.heads[row];
        let now = self.counter.message(&body);
        *self.tokens = (*self.tokens + u64::from(now)).saturating_sub(u64::from(head.tokens));
        head.tokens = now;
        head.flags = (head.flags | entry_flags::PRUNED) & !entry_flags::MEDIA;
        head.text_bytes = u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.view.bodies[row] = Arc::new(body);
        // What is shortened twice in one run is frozen once, as it is shown at the end.
        self.frozen.insert(head.id, text);
    }

    /// True when results of this row's tool may be pruned.
    fn may_prune(&self, row: usize) -> bool {
        let tools = &self.config.tools;
        if tools.allow.is_empty() && tools.deny.is_empty() {
            return true;
        }
        let name = tool_name(self.view, row).unwrap_or_default().to_lowercase();
        let named = |patterns: &[String]| patterns.iter().any(|pattern| matches(&pattern.to_lowercase(), &name));
        !named(&tools.deny) && (tools.allow.is_empty() || named(&tools.allow))
    }
}

/// The text of a message that holds more than text.
fn words(message: &Message) -> String {
    let Content::Parts(parts) = &message.content else { return message.text().into_owned() };
    let texts = parts.iter().filter_map(|part| part.get("text").and_then(serde_json::Value::as_str));
    texts.collect::<Vec<_>>().join("\n")
}

/// The tool that row `row` is a result of.
fn tool_name(view: &View, row: usize) -> Option<&str> {
    let result = &view.bodies[row];
    if let Some(name) = &result.name {
        return Some(name);
    }
    let caller = view.bodies[..row].iter().rev().find(|body| body.role != Role::Tool)?;
    let call = caller.tool_calls.iter().find(|call| Some(&call.id) == result.tool_call_id.as_ref())?;
    Some(&call.function.name)
}

/// A name against a pattern in which `*` stands for anything.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(head) else { return false };
    let mut pieces = rest.split('*').peekable();
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return left.ends_with(piece);
        }
        let Some(at) = left.find(piece) else { return false };
        left = &left[at + piece.len()..];
    }
    true
}

/// Most characters of one result where nothing is configured.
fn result_chars(window: u64) -> usize {
    let share = window.saturating_mul(CHARS_PER_TOKEN) * RESULT_SHARE / 100;
    let fixed = RESULT_CHARS.iter().find(|(from, _)| window >= *from).map_or(usize::MAX, |(_, chars)| *chars);
    fixed.min(usize::try_from(share).unwrap_or(usize::MAX))
}

/// At most `most` characters of a result, with a mark; of one that ends in an error, the end as well.
fn cut_off(text: &str, most: usize) -> String {
    let total = text.chars().count();
    let tail_of = |chars: usize| {
        let from = text.char_indices().nth(total.saturating_sub(chars)).map_or(text.len(), |(at, _)| at);
        &text[from..]
    };
    let tail = tail_of((most * 3 / 10).min(ERROR_TAIL));
    let lower = tail.to_lowercase();
    let tells = ["error", "failed", "panic", "exception", "traceback"].iter().any(|word| lower.contains(word));
    let tail = if tells { tail } else { "" };
    let kept = most.saturating_sub(tail.chars().count());
    let head_end = text.char_indices().nth(kept).map_or(text.len(), |(at, _)| at);
    let left_out = total.saturating_sub(most);
    let separator = if tail.is_empty() { "" } else { "\n" };
    format!("{}\n[… {left_out} {CUT_OFF} …]{separator}{tail}", &text[..head_end])
}

/// Index of the oldest of the newest `answers` assistant rows; 0 when there are fewer.
fn protected_from(heads: &[EntryHeadV1], answers: usize) -> usize {
    let assistant = Role::Assistant.code();
    let mut newest = heads.iter().enumerate().rev().filter(|(_, head)| head.role == assistant);
    match answers {
        0 => heads.len(),
        _ => newest.nth(answers - 1).map_or(0, |(row, _)| row),
    }
}

/// Both ends of a result.
fn trimmed(text: &str, head: usize, tail: usize) -> String {
    let total = text.chars().count();
    let head_end = text.char_indices().nth(head).map_or(text.len(), |(at, _)| at);
    let tail_start = text.char_indices().nth(total.saturating_sub(tail)).map_or(text.len(), |(at, _)| at);
    let left_out = total.saturating_sub(head + tail);
    if left_out == 0 {
        return text.to_owned();
    }
    format!("{}\n[… {left_out} {TRIMMED} …]\n{}", &text[..head_end], &text[tail_start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_with_stars_anywhere() {
        for (pattern, name, expected) in [
            ("read", "read", true),
            ("read", "reader", false),
            ("*", "anything", true),
            ("read*", "read_file", true),
            ("*_file", "read_file", true),
            ("r*_f*e", "read_file", true),
            ("r*x*e", "read_file", false),
            ("*file*", "read_file_again", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} against {name}");
        }
    }

    #[test]
    fn the_share_of_one_result_follows_the_window() {
        assert_eq!(result_chars(1_000), 1_200);
        assert_eq!(result_chars(50_000), 16_000);
        assert_eq!(result_chars(128_000), 32_000);
        assert_eq!(result_chars(1_000_000), 64_000);
    }

    #[test]
    fn what_is_cut_off_keeps_the_end_that_tells_of_an_error() {
        let plain = cut_off(&"x".repeat(5_000), 1_000);
        assert!(
            plain.starts_with("xxx")
                && plain.ends_with("4000 more characters of this result cut off; ask for less at a time …]")
        );
        let failed = cut_off(&format!("{}error: no such file", "x".repeat(5_000)), 1_000);
        assert!(failed.ends_with("error: no such file"), "{failed}");
        assert_eq!(failed.chars().filter(|c| *c == 'x').count() + "error: no such file".len(), 1_000);
    }
}
