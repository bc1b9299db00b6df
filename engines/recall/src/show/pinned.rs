//! The block of pins: what the person asked to be kept in mind, in their own words, at the head of the prompt.
//!
//! It is written anew with a batch, since what is pinned later still stands in the tail, and when the tool has pinned or removed
//! something.

use super::Show;
use super::count::Counter;
use super::quote::{QUOTED, one_line};
use super::state::Block;
use crate::find::Texts;
use crate::index::Ordinal;
use crate::pins::{Kind, Pin};
use engine_abi::Result;
use std::collections::{BTreeMap, HashSet};

/// Letters of one pin that are shown.
const LETTERS: usize = 400;

/// What the block begins with.
const HEAD: &str = "[recall pins · what the person asked to be kept in mind, quoted; the newest counts]";

impl Show<'_> {
    /// Writes the block anew; gives its tokens.
    pub(crate) fn pin(&mut self) -> Result<u64> {
        self.state.repin = false;
        self.state.pinned = None;
        if self.session.pins.all().is_empty() {
            return Ok(0);
        }
        let counter = Counter(self.context);
        let frame = counter.plain(HEAD)?;
        let cost = |pin: &Pin| {
            // The line break is counted with the line at most once more than it costs.
            counter.text(&line(pin)).map_or(u32::MAX, |tokens| u32::try_from(tokens + 1).unwrap_or(u32::MAX))
        };
        let chosen = self.session.pins.choose(self.shares.pinned.saturating_sub(frame), &cost);
        if chosen.is_empty() {
            return Ok(0);
        }
        let mut text = HEAD.to_owned();
        for pin in chosen {
            text.push('\n');
            text.push_str(&line(pin));
        }
        let tokens = counter.plain(&text)?;
        if tokens > self.shares.pinned {
            return Ok(0);
        }
        self.state.pinned = Some(Block { text, tokens });
        Ok(tokens)
    }
}

impl Show<'_> {
    /// The words of the pins that the block shows.
    pub(super) fn pinned_words(&self) -> Vec<String> {
        let Some(block) = &self.state.pinned else { return Vec::new() };
        let shown: HashSet<&str> = block.text.lines().collect();
        let pins = self.session.pins.all().iter().filter(|pin| shown.contains(line(pin).as_str()));
        pins.map(|pin| one_line(&pin.text, LETTERS)).collect()
    }

    /// The entries of which the block shows every word, rising.
    pub(super) fn pinned_in_whole(&self, texts: &dyn Texts) -> Vec<Ordinal> {
        let Some(block) = &self.state.pinned else { return Vec::new() };
        let shown: HashSet<&str> = block.text.lines().collect();
        let mut said: BTreeMap<Ordinal, Vec<&str>> = BTreeMap::new();
        for pin in self.session.pins.all() {
            if pin.text.chars().count() < LETTERS && shown.contains(line(pin).as_str()) {
                said.entry(pin.ordinal).or_default().push(&pin.text);
            }
        }
        let is_whole = |(ordinal, pins): &(Ordinal, Vec<&str>)| {
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            texts.text(*ordinal).is_some_and(|text| words(&text) == words(&pins.join(" ")))
        };
        said.into_iter().filter(is_whole).map(|(ordinal, _)| ordinal).collect()
    }
}

/// A pin as it is shown.
fn line(pin: &Pin) -> String {
    let open = if pin.kind == Kind::Task { ", open task" } else { "" };
    format!("{QUOTED}id {}, entry {}{open}: {}", pin.id, pin.ordinal + 1, one_line(&pin.text, LETTERS))
}
