//! The running turn, as far as it leaves room for what stands before it.
//!
//! A loop of tool calls grows from call to call, and an engine is only given what is left beside it. So that it is always left
//! something, the turn is shortened before the engine is asked, in batches: when it passes its part of the room, down to a
//! low-water mark, oldest first; in between it only grows at its end, and a provider's cache keeps what it has.
//!
//! What is shown follows from the turn's messages and the room alone: the turn is walked from its beginning, group by group, as it
//! came. A restart gives the same.

use super::projection::with_text;
use super::trim::{RESULT_STEPS, middle_cut};
use super::view::PromptItem;
use crate::model::TokenCounter;
use crate::transcript::Role;
use std::sync::Arc;

/// Part of the room that is left to the engine, whatever the turn has grown to.
const LEFT: u64 = 8;
/// Part of the room that is free again after a batch.
const FREED: u64 = 4;
/// The room is counted in steps of about this part: a provider whose counts differ a little changes no byte.
const STEPS: u32 = 16;

/// Shortens a running turn that would take more than its part of `room` tokens. The person's words stay as they are, and so does
/// what came last, as long as it fits by itself.
pub fn press_turn(items: Vec<PromptItem>, room: u64, counter: &TokenCounter) -> Vec<PromptItem> {
    let room = stepped(room);
    let most = room - room / LEFT;
    if items.iter().map(|item| item.tokens).sum::<u64>() <= most {
        return items;
    }
    let low = most - room / FREED;
    let mut turn = Turn { items: Vec::with_capacity(items.len()), total: 0, counter };
    let mut rest = items.into_iter().peekable();
    while let Some(first) = rest.next() {
        let group = turn.items.len();
        turn.push(first);
        while let Some(result) = rest.next_if(|next| next.message.role == Role::Tool) {
            turn.push(result);
        }
        if turn.total > most {
            turn.press(group, low);
        }
    }
    for chars in RESULT_STEPS {
        turn.shorten(0, chars, most);
    }
    turn.items
}

/// `room` in steps that are a power of two.
fn stepped(room: u64) -> u64 {
    let step = room.checked_ilog2().map_or(1, |log| 1 << log.saturating_sub(STEPS.ilog2()));
    room - room % step
}

struct Turn<'a> {
    items: Vec<PromptItem>,
    total: u64,
    counter: &'a TokenCounter,
}

impl Turn<'_> {
    fn push(&mut self, item: PromptItem) {
        self.total += item.tokens;
        self.items.push(item);
    }

    /// One batch, which leaves the group that begins at `newest` alone. Of the others the newest are shortened last: older ones
    /// go before.
    fn press(&mut self, newest: usize, low: u64) {
        // Places from the end stay what they are when something before them goes.
        for behind in [self.items.len() - self.recent(newest, low / 2), self.items.len() - newest] {
            for chars in RESULT_STEPS {
                self.shorten(behind, chars, low);
            }
            self.drop_groups(behind, low);
        }
    }

    /// Where the newest groups before `newest` begin that cost at most `most` tokens.
    fn recent(&self, newest: usize, most: u64) -> usize {
        let (mut from, mut tokens) = (newest, 0);
        while from > 0 {
            let mut start = from - 1;
            while start > 0 && self.items[start].message.role == Role::Tool {
                start -= 1;
            }
            tokens += self.items[start..from].iter().map(|item| item.tokens).sum::<u64>();
            if tokens > most {
                break;
            }
            from = start;
        }
        from
    }

    /// Cuts results to `chars` characters, oldest first, but for the last `behind` items, until the turn costs at most `low`.
    fn shorten(&mut self, behind: usize, chars: usize, low: u64) {
        for at in 0..self.items.len() - behind {
            if self.total <= low {
                return;
            }
            let message = &self.items[at].message;
            if message.role != Role::Tool || !(message.has_media() || message.text().chars().nth(chars).is_some()) {
                continue;
            }
            let short = with_text(message, &middle_cut(&message.text(), chars));
            let tokens = u64::from(self.counter.message(&short));
            let item = &mut self.items[at];
            if tokens < item.tokens {
                self.total -= item.tokens - tokens;
                item.tokens = tokens;
                item.message = Arc::new(short);
            }
        }
    }

    /// Drops calls with their results, oldest first, but for the last `behind` items, until the turn costs at most `low`. What
    /// began the turn and what a person said in it stay.
    fn drop_groups(&mut self, behind: usize, low: u64) {
        while self.total > low {
            let end = self.items.len() - behind;
            let Some(start) = (1..end).find(|at| self.items[*at].message.role != Role::User) else { return };
            let next = (start + 1..end).find(|at| self.items[*at].message.role != Role::Tool).unwrap_or(end);
            self.total -= self.items.drain(start..next).map(|item| item.tokens).sum::<u64>();
        }
    }
}
