//! How a batch writes the log: one item for what it folds, more of what earlier batches could not read, and the older items merged
//! when the log has outgrown its share.

use super::Show;
use super::count::Counter;
use super::fold::tokens;
use super::gist::{self, Pass};
use super::log::{Item, Line, Unread};
use super::state::Written;
use engine_abi::Result;
use std::ops::Range;

/// Below this share there is no log: its frame alone would take it.
const LEAST_LOG: u64 = 256;
/// How many items the log holds before its older ones are merged.
pub(super) const ITEMS: u64 = 4;
/// One token of the log tells of this many.
pub(super) const TOLD: u64 = 10;

impl Show<'_> {
    /// Writes what lies between the log and the tail, which begins at place `from`, into the log.
    pub(super) fn tell(&mut self, from: usize) -> Result<()> {
        if self.shares.log < LEAST_LOG {
            self.state.log.clear();
            return Ok(());
        }
        let counter = Counter(self.context);
        self.publish(counter)?;
        self.leave_out_pinned(counter)?;
        let told = self.state.log.last().map_or(0, |item| item.last);
        let first = self.history.heads().partition_point(|head| head.id <= told);
        let mut pass = Pass::default();
        if first < from {
            let item = self.item(first..from, &mut pass)?;
            match self.state.log.last_mut() {
                // There is nothing to quote, or no room for it: the item before names those entries, too.
                Some(before) if item.lines.is_empty() => {
                    before.take_in(&item);
                    before.tokens = counter.plain(&before.text(self.expands))?;
                }
                None if item.lines.is_empty() => {}
                _ => self.state.log.push(item),
            }
        }
        self.read_on(&mut pass)?;
        self.merge(counter)
    }

    /// An item for the entries of `places`; without lines where there is nothing to say.
    fn item(&self, places: Range<usize>, pass: &mut Pass) -> Result<Item> {
        let stubber = self.stubber();
        let counter = stubber.counter;
        let heads = self.history.heads();
        let of_what = tokens(&heads[places.clone()]) / TOLD;
        let mut numbers = heads[places.clone()].iter().filter_map(|head| stubber.number(head.id));
        let oldest = numbers.next().unwrap_or(0);
        let mut item = Item::bare(&heads[places.clone()], (oldest, numbers.next_back().unwrap_or(oldest)));
        let frame = counter.plain(&item.text(self.expands))?;
        let budget = self.most_of_item().min(of_what).saturating_sub(frame);
        let gist = gist::lines(&stubber, places.clone(), budget, self.focus.as_deref(), &self.pinned_words(), pass)?;
        item.lines = gist.lines;
        item.unread = self.unread(places.start..gist.from).into_iter().collect();
        item.tokens = counter.plain(&item.text(self.expands))?;
        Ok(item)
    }

    /// Most tokens of one item: where the log is small, more than its part, since the frame alone would take that.
    pub(super) fn most_of_item(&self) -> u64 {
        (self.shares.log / ITEMS).max(LEAST_LOG.min(self.shares.log))
    }

    /// What the pins show by now stands there, and not in the log, too.
    fn leave_out_pinned(&mut self, counter: Counter<'_>) -> Result<()> {
        let pinned = self.pinned_words();
        for item in &mut self.state.log {
            let before = item.lines.len();
            item.lines.retain(|line| !gist::stands_in(&line.text, &pinned));
            if item.lines.len() != before {
                item.tokens = counter.plain(&item.text(self.expands))?;
            }
        }
        self.join_bare(counter)
    }

    /// The entries of `places` as what is not read yet.
    fn unread(&self, places: Range<usize>) -> Option<Unread> {
        let stubber = self.stubber();
        let (first, last) = match &self.history.heads()[places] {
            [] => return None,
            [only] => (only.id, only.id),
            [first, .., last] => (first.id, last.id),
        };
        let number = |id| stubber.number(id).unwrap_or(0);
        Some(Unread { first, last, numbers: (number(first), number(last)) })
    }

    /// Reads on where earlier batches stopped, as far as this one may.
    fn read_on(&mut self, pass: &mut Pass) -> Result<()> {
        let stubber = self.stubber();
        let heads = self.history.heads();
        for at in (0..self.state.log.len()).rev() {
            while let Some(unread) = self.state.log[at].unread.last().copied() {
                let place = |id: u64| heads.partition_point(|head| head.id < id);
                let places = place(unread.first)..place(unread.last.saturating_add(1));
                if places.is_empty() {
                    // It is no longer in the history.
                    self.state.log[at].unread.pop();
                    continue;
                }
                if pass.is_over() {
                    return Ok(());
                }
                let most = self.shares.log / ITEMS;
                let gist =
                    gist::lines(&stubber, places.clone(), most, self.focus.as_deref(), &self.pinned_words(), pass)?;
                let rest = self.unread(places.start..gist.from);
                let item = &mut self.state.log[at];
                item.unread.pop();
                item.unread.extend(rest);
                item.add(gist.lines, most, &|line| gist::cost(stubber.counter, line).unwrap_or(u64::MAX));
                item.tokens = stubber.counter.plain(&item.text(self.expands))?;
            }
        }
        Ok(())
    }

    /// Merges the older items while the log has outgrown its share; no item stays that quotes nothing.
    fn merge(&mut self, counter: Counter<'_>) -> Result<()> {
        let most = self.shares.log;
        let all = |log: &[Item]| log.iter().map(|item| item.tokens).sum::<u64>();
        if all(&self.state.log) > most {
            let newest = self.state.log.split_off(self.state.log.len().saturating_sub(1));
            let cost = |line: &Line| gist::cost(counter, line).unwrap_or(u64::MAX);
            let lines = (most / 2).saturating_sub(all(&newest));
            if let Some(mut merged) = Item::merged(&self.state.log, lines, &cost) {
                merged.tokens = counter.plain(&merged.text(self.expands))?;
                self.state.log = vec![merged];
            }
            self.state.log.extend(newest);
            while all(&self.state.log) > most {
                let Some(oldest) = self.state.log.first_mut() else { break };
                if oldest.lines.pop().is_none() {
                    self.state.log.clear();
                    break;
                }
                oldest.tokens = counter.plain(&oldest.text(self.expands))?;
                self.join_bare(counter)?;
            }
        }
        self.join_bare(counter)
    }

    /// The oldest item goes into the one behind it when it has no lines.
    fn join_bare(&mut self, counter: Counter<'_>) -> Result<()> {
        if self.state.log.first().is_none_or(|oldest| !oldest.lines.is_empty()) {
            return Ok(());
        }
        let mut bare = self.state.log.remove(0);
        if let Some(next) = self.state.log.first_mut() {
            bare.take_in(next);
            bare.lines = std::mem::take(&mut next.lines);
            bare.by_model = next.by_model;
            bare.tokens = counter.plain(&bare.text(self.expands))?;
            *next = bare;
        }
        Ok(())
    }

    /// Puts in what a model wrote meanwhile. The bytes behind the pins change with a batch anyway.
    fn publish(&mut self, counter: Counter<'_>) -> Result<()> {
        let mut written = std::mem::take(&mut self.state.written);
        for item in &mut self.state.log {
            if let Some(Written { from, lines }) = written.remove(&item.first) {
                item.lines.retain(|line| line.number < from);
                item.lines.extend(lines);
                item.by_model = true;
                item.tokens = counter.plain(&item.text(self.expands))?;
            }
        }
        Ok(())
    }
}
