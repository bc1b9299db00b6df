//! A compaction that was asked for: by a person, by a program, or by the host because a prompt did not fit.
//!
//! The engine folds by itself before each prompt, so there is often nothing left to do, and the answer says so. What is done is one
//! fold to a stop target, bounded in what it reads; it stays done, also where more would fit. What the host measures as progress
//! is the next prompt, so only a prompt that gets smaller counts as compacted.

use super::Show;
use super::fold::Aim;
use super::share::Shares;
use super::state::{Tail, id_at};
use super::tell::TOLD;
use crate::config::Config;
use crate::session::Session;
use engine_abi::{CompactRequest, Compaction, Context, Result, Trigger};

/// Nothing is left that could be folded.
const NO_CANDIDATE: &str = "no_candidate";
/// What could be folded is not longer than what would stand for it.
const NO_PROGRESS: &str = "no_progress";
/// Below so many tokens nothing is folded by hand without a line in the log: no provider caches a prompt that is so short, so
/// nothing is won.
const LITTLE: u64 = 512;
/// Part of the target that the tail gets whatever stands before it.
const LEFT_TO_TAIL: u64 = 4;
/// Nobody needs it.
const BELOW_THRESHOLD: &str = "below_threshold";

/// `compact`.
pub(crate) fn compact(
    config: &Config,
    session: &mut Session,
    context: &Context,
    request: &CompactRequest,
) -> Result<Compaction> {
    let budget = context.session().token_budget().unwrap_or(u64::MAX);
    let history = request.history();
    if history.heads().is_empty() {
        return Ok(Compaction::nothing(NO_CANDIDATE));
    }
    let shares = Shares::of(config, budget, history.heads());
    let mut state = std::mem::take(&mut *session.shown);
    let focus = request.custom_instructions().map(str::to_owned);
    let mut show = Show { focus, ..Show::new(config, session, context, history, shares, &mut state) };
    let answer = show.compact(request);
    *session.shown = state;
    answer
}

impl Show<'_> {
    fn compact(&mut self, request: &CompactRequest) -> Result<Compaction> {
        let heads = self.history.heads();
        let was = self.state.clone();
        let (tail, _) = self.state.tail(heads);
        let before = self.shown(tail);
        if !request.force() && before <= self.shares.budget {
            return Ok(Compaction::nothing(BELOW_THRESHOLD));
        }
        let (folded, after) = self.press(request, before)?;
        let same = folded == tail && self.state.stubs == was.stubs;
        // A person who asks for less would lose what nothing stands for then.
        let untold = request.trigger() == Trigger::Manual
            && self.state.stubs == was.stubs
            && !self.state.log.iter().any(|item| !item.lines.is_empty())
            && before < LITTLE;
        if same || untold || after >= before {
            *self.state = was;
            return Ok(Compaction::nothing(if same || untold { NO_CANDIDATE } else { NO_PROGRESS }));
        }
        self.state.held = self.state.from;
        self.state.pressed = heads.last().map_or(0, |last| last.id);
        self.state.passages = None;
        let last = heads.len() - 1;
        let first_kept = heads[folded.lead.unwrap_or(folded.from).min(last)].id;
        let mut done = Compaction::done(self.summary(folded)?, first_kept, before, after);
        done.details_json =
            Some(serde_json::json!({"foldedEntries": folded.from, "shortened": self.state.stubs.len()}).to_string());
        Ok(done)
    }

    /// One fold to the stop target; gives the tail and what is shown then.
    fn press(&mut self, request: &CompactRequest, before: u64) -> Result<(Tail, u64)> {
        let budget = self.shares.budget;
        let pinned = self.pin()? + self.summary_tokens();
        let low = self.shares.low_tail(pinned, self.shares.log);
        let target = match request.trigger() {
            // A person wants it small: what is being talked about stays, and not more than half of what there was.
            Trigger::Manual => (before / 2).min(budget / 4),
            // The prompt must become smaller, whatever the engine thinks of its budget.
            _ => low.min(before / 4 * 3),
        };
        let log: u64 = self.state.log.iter().map(|item| item.tokens).sum();
        let told = self.most_of_item().min(before / TOLD) + log;
        let beside = pinned + told.min(self.shares.log);
        let target = target.saturating_sub(beside).max(target / LEFT_TO_TAIL).max(1);
        let least = self.shares.least_tail.min(target);
        let pressed = self.state.pressed;
        let floor = self.floor();
        let tail = self.fold_to(Aim { floor, least, target, most: target, pressed, as_it_is: false })?;
        Ok((tail, self.shown(tail)))
    }

    /// What the next prompt shows in the place of what is folded: the log, word for word, or where it has none, that it has none.
    fn summary(&self, tail: Tail) -> Result<String> {
        let heads = self.history.heads();
        if !self.state.log.is_empty() {
            let items: Vec<String> = self.state.log.iter().map(|item| item.text(self.expands)).collect();
            return Ok(items.join("\n\n"));
        }
        if tail.from == 0 {
            return Ok("Older results of tools are shown as stubs.".to_owned());
        }
        let number = |at: usize| self.stubber().number(id_at(heads, at)).unwrap_or(0);
        let found = if self.expands { "passages and recall_search find them" } else { "passages find them" };
        Ok(format!(
            "Entries {} to {} are no longer shown, and no log stands for them; {found}.",
            number(0),
            number(tail.from - 1)
        ))
    }
}
