//! What an engine found while it watched, summed over the turns of this process.

use super::shown::{Amount, Comparison};
use serde::Serialize;
use std::time::Duration;

/// Sums of one engine.
#[derive(Debug, Clone, Default)]
pub(super) struct Stats {
    compared: u64,
    same: u64,
    pub(super) gave_way: u64,
    pub(super) failed: u64,
    pub(super) moved: u64,
    pub(super) out: u64,
    both: Amount,
    only_first: Amount,
    only_shadow: Amount,
    took: Duration,
}

/// What an engine found while it watched, since the gateway started.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShadowStatus {
    /// Turns for which it assembled.
    pub compared: u64,
    /// Of these: the model would have seen the same history.
    pub same: u64,
    /// Turns at which it gave way to the next before it had assembled; it was fed with them later.
    pub gave_way: u64,
    /// Turns at which a hook of it failed.
    pub failed: u64,
    /// Turns whose history was compacted or rewritten before it was watched: it was fed, and nothing was compared.
    pub moved: u64,
    /// Turns that it missed because it was out.
    pub out: u64,
    /// Entries that both showed.
    pub both_entries: u64,
    /// Their tokens.
    pub both_tokens: u64,
    /// Entries that only the engine that served showed.
    pub only_first_entries: u64,
    /// Their tokens.
    pub only_first_tokens: u64,
    /// Entries that only this one would have shown.
    pub only_shadow_entries: u64,
    /// Their tokens.
    pub only_shadow_tokens: u64,
    /// Mean time from its first hook to the comparison, in microseconds.
    pub mean_us: f64,
}

impl Stats {
    pub(super) fn compared(&mut self, found: &Comparison, took: Duration) {
        self.compared += 1;
        self.same += u64::from(found.is_same());
        add(&mut self.both, found.both);
        add(&mut self.only_first, found.only_first);
        add(&mut self.only_shadow, found.only_shadow);
        self.took += took;
    }

    pub(super) fn status(&self) -> ShadowStatus {
        ShadowStatus {
            compared: self.compared,
            same: self.same,
            gave_way: self.gave_way,
            failed: self.failed,
            moved: self.moved,
            out: self.out,
            both_entries: self.both.entries,
            both_tokens: self.both.tokens,
            only_first_entries: self.only_first.entries,
            only_first_tokens: self.only_first.tokens,
            only_shadow_entries: self.only_shadow.entries,
            only_shadow_tokens: self.only_shadow.tokens,
            mean_us: if self.compared == 0 { 0.0 } else { self.took.as_secs_f64() * 1e6 / self.compared as f64 },
        }
    }
}

fn add(sum: &mut Amount, more: Amount) {
    sum.entries += more.entries;
    sum.tokens += more.tokens;
}
