//! The history that a forked child begins with: its parent's, as projected, up to the turn that is open.
//!
//! The entries are copied, under ids of the child's own, and their bodies are shared in memory. So the child outlives whatever
//! happens to its parent, and what a compaction or a pruning made short stays short.

use super::super::house::House;
use super::super::session::Session;
use crate::compaction::View;
use crate::transcript::{Entry, EntryBody, Role, StoreError, Write, stored_flags};
use engine_abi::wire::entry_flags;
use std::sync::Arc;

/// What a fork takes over.
pub(super) struct History {
    view: Arc<View>,
    end: usize,
}

impl History {
    /// The history of a session now, without a turn that is not answered yet.
    pub(super) fn of(session: &Session) -> History {
        let view = session.state().view();
        let end = closed(&view);
        History { view, end }
    }

    /// Its tokens as sent.
    pub(super) fn tokens(&self) -> u64 {
        self.view.tokens(0..self.end)
    }

    /// Appends it to a child that is empty. The writes go behind `writes`.
    pub(super) fn copy_to(&self, house: &House, child: &Session, writes: &mut Vec<Write>) -> Result<(), StoreError> {
        let mut state = child.state();
        for sent in self.view.sent(0..self.end) {
            let head = &self.view.heads[sent.index];
            let heartbeat = head.flags & entry_flags::HEARTBEAT != 0;
            let entry = Entry {
                id: state.next_entry(&*house.store),
                parent: state.branch().head(),
                session: state.record().row,
                time_ms: head.time_ms,
                flags: if heartbeat { stored_flags::HEARTBEAT } else { 0 },
                tokens: sent.tokens,
                digest: sent.message.digest(),
                body: EntryBody::Message(Arc::clone(sent.message)),
            };
            state.append(entry, writes)?;
        }
        state.sync(&child.agent.counter);
        Ok(())
    }
}

/// Where the last turn begins when it has no answer yet, else the end: an answer is the model's last word, not a tool call.
fn closed(view: &View) -> usize {
    let Some(last) = view.heads.last() else { return 0 };
    let answered = last.role == Role::Assistant.code() && last.flags & entry_flags::TOOL_CALLS == 0;
    if answered || view.is_summary(view.len() - 1) { view.len() } else { view.turn_of(view.len() - 1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transcript::Message;
    use engine_abi::wire::EntryHeadV1;

    fn view(rows: &[(Role, u32)]) -> View {
        let mut view = View::default();
        for (index, (role, flags)) in rows.iter().enumerate() {
            view.heads.push(EntryHeadV1 {
                id: index as u64 + 1,
                time_ms: 0,
                tokens: 1,
                role: role.code(),
                flags: *flags,
                text_bytes: 1,
            });
            view.bodies.push(Arc::new(Message::text_of(*role, "x")));
        }
        view
    }

    #[test]
    fn an_open_turn_is_left_out_and_an_answered_one_is_not() {
        const START: u32 = entry_flags::TURN_START;
        let answered = [(Role::User, START), (Role::Assistant, 0)];
        assert_eq!(closed(&view(&[])), 0);
        assert_eq!(closed(&view(&answered)), 2);
        let asks = [answered.as_slice(), &[(Role::User, START)]].concat();
        assert_eq!(closed(&view(&asks)), 2);
        let calls = [asks.as_slice(), &[(Role::Assistant, entry_flags::TOOL_CALLS)]].concat();
        assert_eq!(closed(&view(&calls)), 2);
        let results = [calls.as_slice(), &[(Role::Tool, 0)]].concat();
        assert_eq!(closed(&view(&results)), 2);
        let done = [results.as_slice(), &[(Role::Assistant, 0)]].concat();
        assert_eq!(closed(&view(&done)), 6);
        assert_eq!(closed(&view(&[(Role::User, entry_flags::SUMMARY)])), 1);
        assert_eq!(closed(&view(&[(Role::User, START)])), 0);
    }
}
