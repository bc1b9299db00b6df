//! The last rungs of the ladder: a prompt that fits, whatever came before.
//!
//! In this order, and no further than needed:
//!
//! 1. tool results become shorter, oldest first, in three steps;
//! 2. whole turns of the history go, oldest first; a compaction's summary in front goes last;
//! 3. inside the turn that is being answered, calls go with their results, oldest first; the newest stays longest;
//! 4. other messages of the turn go, until only the user's last words are left;
//! 5. those are shortened in the middle.
//!
//! Tool pairs stay whole in every step.

use super::boundary::is_summary;
use super::projection::with_text;
use super::view::PromptItem;
use crate::model::TokenCounter;
use crate::transcript::{Content, Message, Role};
use std::sync::Arc;

/// A tool result of more characters is long: shortening it is the first thing that is done.
pub const LONG_RESULT_CHARS: usize = 4_000;
/// Characters that a tool result may keep, step by step.
pub(super) const RESULT_STEPS: [usize; 3] = [LONG_RESULT_CHARS, 1_000, 160];

/// Cuts `messages` until they cost at most `budget` tokens. From about 64 tokens on it always succeeds; below that it gives the
/// shortest prompt there is, the user's last words cut to a few characters. Order, ids and the current turn's mark stay.
pub fn trim_to_fit(messages: Vec<PromptItem>, budget: u64, counter: &TokenCounter) -> Vec<PromptItem> {
    let mut prompt = Prompt { total: messages.iter().map(|item| item.tokens).sum(), items: messages, budget, counter };
    for most in RESULT_STEPS {
        if prompt.fits() {
            return prompt.items;
        }
        prompt.shorten_results(most);
    }
    if !prompt.fits() {
        prompt.drop_history();
    }
    if !prompt.fits() {
        prompt.drop_in_turn();
    }
    if !prompt.fits() {
        prompt.shorten_words();
    }
    prompt.items
}

struct Prompt<'a> {
    items: Vec<PromptItem>,
    total: u64,
    budget: u64,
    counter: &'a TokenCounter,
}

impl Prompt<'_> {
    fn fits(&self) -> bool {
        self.total <= self.budget
    }

    fn replace(&mut self, at: usize, message: Message) {
        let tokens = u64::from(self.counter.message(&message));
        let item = &mut self.items[at];
        if tokens < item.tokens {
            self.total -= item.tokens - tokens;
            item.tokens = tokens;
            item.message = Arc::new(message);
        }
    }

    /// Keeps the items for which `keep` answers true.
    fn retain(&mut self, mut keep: impl FnMut(usize) -> bool) {
        let mut at = 0;
        let total = &mut self.total;
        self.items.retain(|item| {
            let kept = keep(at);
            at += 1;
            if !kept {
                *total -= item.tokens;
            }
            kept
        });
    }

    fn shorten_results(&mut self, most: usize) {
        for at in 0..self.items.len() {
            if self.fits() {
                return;
            }
            let message = &self.items[at].message;
            if message.role == Role::Tool && (message.has_media() || message.text().chars().nth(most).is_some()) {
                let short = with_text(message, &middle_cut(&message.text(), most));
                self.replace(at, short);
            }
        }
    }

    /// Drops whole turns before the current one.
    fn drop_history(&mut self) {
        let current = self.current_from();
        let first = usize::from(current > 0 && self.items.first().is_some_and(|item| is_summary(&item.message)));
        let mut end = first;
        let mut left = self.total;
        while end < current && left > self.budget {
            left -= self.items[end].tokens;
            end += 1;
            // A cut only before a user message: at the start of a turn.
            while end < current && self.items[end].message.role != Role::User {
                left -= self.items[end].tokens;
                end += 1;
            }
        }
        self.retain(|at| at < first || at >= end);
        if !self.fits() && first > 0 {
            self.retain(|at| at >= first);
        }
    }

    /// Where the turn that is being answered starts; when nothing is marked, at the last user message.
    fn current_from(&self) -> usize {
        self.items
            .iter()
            .position(|item| item.current_turn)
            .or_else(|| self.items.iter().rposition(|item| item.message.role == Role::User))
            .unwrap_or(self.items.len().saturating_sub(1))
    }

    /// Drops calls with their results, then everything but the user's last words.
    fn drop_in_turn(&mut self) {
        let Some(words) = self.last_words() else { return };
        loop {
            if self.fits() {
                return;
            }
            // One group: an assistant message with the results behind it, or one other message before the last words.
            let Some(start) = (0..self.items.len()).find(|&at| at > words && self.items[at].message.role != Role::User)
            else {
                break;
            };
            let end = (start + 1..self.items.len())
                .find(|&at| self.items[at].message.role != Role::Tool)
                .unwrap_or(self.items.len());
            self.retain(|at| at < start || at >= end);
        }
        let Some(words) = self.last_words() else { return };
        let mut excess = self.total.saturating_sub(self.budget);
        let drop: Vec<bool> = self
            .items
            .iter()
            .enumerate()
            .map(|(at, item)| {
                let goes = at != words && excess > 0;
                if goes {
                    excess = excess.saturating_sub(item.tokens);
                }
                goes
            })
            .collect();
        self.retain(|at| !drop[at]);
    }

    fn last_words(&self) -> Option<usize> {
        self.items.iter().rposition(|item| item.message.role == Role::User)
    }

    /// Cuts the middle out of the user's last words, or of what is there when no user message is.
    fn shorten_words(&mut self) {
        let Some(at) = self.last_words().or_else(|| self.items.len().checked_sub(1)) else { return };
        if self.last_words().is_none() {
            // Nothing of a person is here: the newest message alone, without calls that nothing answers.
            self.retain(|other| other == at);
            let Some(item) = self.items.first() else { return };
            let mut plain = Message::text_of(Role::User, item.message.text().into_owned());
            if item.message.role == Role::Assistant {
                plain.role = Role::Assistant;
            }
            self.replace(0, plain);
        }
        let at = at.min(self.items.len().saturating_sub(1));
        let text = self.items[at].message.text().into_owned();
        // A token is hardly ever more than a few characters; the first try is generous, the next ones close in.
        let mut most = usize::try_from(self.budget).unwrap_or(usize::MAX).saturating_mul(6).min(text.chars().count());
        while !self.fits() {
            let mut short = Message::clone(&self.items[at].message);
            short.content = Content::Text(middle_cut(&text, most));
            // Whatever else a client hung on the message goes before its words do.
            short.extra.clear();
            short.name = None;
            self.replace(at, short);
            if most == 0 {
                return;
            }
            most = most * 3 / 4;
        }
    }
}

/// `text` with at most `most` characters of it left, taken from both ends, with a mark in between.
pub(super) fn middle_cut(text: &str, most: usize) -> String {
    let total = text.chars().count();
    if total <= most {
        return text.to_owned();
    }
    let front = most.div_ceil(2);
    let back = most - front;
    let head_end = text.char_indices().nth(front).map_or(text.len(), |(at, _)| at);
    let tail_start = text.char_indices().nth(total - back).map_or(text.len(), |(at, _)| at);
    format!("{}[… {} characters left out …]{}", &text[..head_end], total - most, &text[tail_start..])
}
