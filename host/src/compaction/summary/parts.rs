//! Notes about a source of any length, by a model with a window.
//!
//! A source that fits is one request, which brings the former notes up to date. A longer one is cut into parts that know nothing
//! of each other, so they are summarised at once, and a part has the same text in every attempt: whoever keeps the answers by
//! their requests never asks twice. The notes of the parts are then merged, in as many rounds as the window asks for.

use super::prompt::{Block, blocks, merge_prompt, overhead, prompt};
use super::text::{cleaned, has_content, shortened, without_host_sections};
use super::{Summarizer, SummaryPrompt};
use crate::compaction::View;
use crate::compaction::trim::middle_cut;
use crate::model::{ModelError, TokenCounter};
use crate::observe::broken;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, TryStreamExt, stream};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// Requests that run at once.
const AT_ONCE: usize = 8;
/// A window below this is too small to summarise in.
const LEAST_WINDOW: u64 = 1_000;
/// How often the window is believed to be smaller than it was said to be.
const SHRINKS: usize = 7;

/// What the notes are about.
pub(crate) struct Subject {
    pub view: Arc<View>,
    pub range: Range<usize>,
    /// Notes of the compaction before.
    pub former: Option<String>,
    /// Focus of the operator.
    pub focus: Option<String>,
    /// Most tokens of the notes.
    pub most: u64,
}

/// Why a request gave nothing that can be used.
enum Failed {
    /// The provider says that the request is too long; the window, where it tells.
    TooLong(Option<u64>),
    Other(String),
}

/// Writes the notes; the error says why there are none.
pub(crate) async fn notes(
    subject: &Subject,
    summarizer: &dyn Summarizer,
    counter: &TokenCounter,
) -> Result<String, String> {
    let source = {
        let (view, range, counter) = (Arc::clone(&subject.view), subject.range.clone(), counter.clone());
        // A long history takes milliseconds to write out.
        let read = tokio::task::spawn_blocking(move || blocks(&view, range, &counter));
        read.await.map_err(|error| error.to_string())?
    };
    if source.is_empty() {
        return Err("there was nothing to write about".into());
    }
    let fixed = overhead(subject.focus.as_deref(), counter);
    let mut window = counter.budget(summarizer.window());
    for _ in 0..SHRINKS {
        if window < LEAST_WINDOW.max(fixed * 2) {
            return Err(format!("a window of {window} tokens is too small to write a summary in"));
        }
        match within(subject, &source, Window::of(window, fixed, subject.most), summarizer, counter).await {
            Ok(notes) => return Ok(notes),
            Err(Failed::Other(reason)) => return Err(reason),
            Err(Failed::TooLong(told)) => {
                let told = told.map(|told| counter.budget(told)).filter(|told| *told < window);
                window = told.unwrap_or(window / 2);
            }
        }
    }
    Err("the model takes no request that is long enough to be worth it".into())
}

/// How a window is shared out.
#[derive(Clone, Copy)]
struct Window {
    /// For the source, with former notes.
    room: u64,
    /// For the answer.
    answer: u64,
}

impl Window {
    fn of(window: u64, fixed: u64, most: u64) -> Window {
        // A power of two, so that small differences of the budget leave the requests, and with them what is kept of them, as they are.
        let answer = most.min(window / 6).max(48);
        let answer = if answer.is_power_of_two() { answer } else { answer.next_power_of_two() / 2 };
        // Counts of pieces add up to a little less than the count of the whole.
        let room = window.saturating_sub(answer + fixed) * 9 / 10;
        Window { room: if broken("9.22") { window * 4 } else { room }, answer }
    }
}

async fn within(
    subject: &Subject,
    source: &[Block],
    window: Window,
    summarizer: &dyn Summarizer,
    counter: &TokenCounter,
) -> Result<String, Failed> {
    let focus = subject.focus.as_deref();
    let former = subject.former.as_ref().map(|former| {
        let former = shortened(former, window.room / 3, usize::MAX, counter);
        let cost = counter.text(&former);
        (former, cost)
    });
    let parts = parts(source, window.room, counter);
    if let [part] = parts.as_slice() {
        let room_left = window.room.saturating_sub(former.as_ref().map_or(0, |(_, cost)| *cost));
        if former.is_none() || part.cost <= room_left {
            let earlier = former.as_ref().map(|(former, _)| former.as_str());
            return said(summarizer, prompt(&part.text, earlier, focus, window.answer)).await;
        }
    }
    let ask = |part: Block| -> BoxFuture<'_, Result<String, Failed>> {
        Box::pin(async move { said(summarizer, prompt(&part.text, None, focus, window.answer)).await })
    };
    let asked: Vec<_> = parts.into_iter().map(ask).collect();
    let written: Vec<String> = stream::iter(asked).buffered(AT_ONCE).try_collect().await?;
    let mut pieces: Vec<String> = former.into_iter().map(|(former, _)| former).chain(written).collect();
    while pieces.len() > 1 {
        let merge = |group: Vec<String>| -> BoxFuture<'_, Result<String, Failed>> {
            Box::pin(async move {
                match <[String; 1]>::try_from(group) {
                    Ok([alone]) => Ok(alone),
                    Err(group) => said(summarizer, merge_prompt(&group, focus, window.answer)).await,
                }
            })
        };
        let merged: Vec<_> = grouped(pieces, window, counter).into_iter().map(merge).collect();
        pieces = stream::iter(merged).buffered(AT_ONCE).try_collect().await?;
    }
    pieces.pop().ok_or_else(|| Failed::Other("there was nothing to write about".into()))
}

/// One answer, checked.
async fn said(summarizer: &dyn Summarizer, request: SummaryPrompt) -> Result<String, Failed> {
    let text = match summarizer.summarize(request).await {
        Ok(text) => without_host_sections(&cleaned(&text)),
        Err(ModelError::Overflow { limit, .. }) => return Err(Failed::TooLong(limit)),
        Err(error) => return Err(Failed::Other(error.to_string())),
    };
    if !has_content(&text) && !broken("9.24") {
        return Err(Failed::Other("it says nothing".into()));
    }
    Ok(text)
}

/// Joins blocks to parts of at most `room` tokens, from the front, so that a longer history begins with the same parts. A block
/// that is longer alone loses its middle.
fn parts(source: &[Block], room: u64, counter: &TokenCounter) -> Vec<Block> {
    let mut parts: Vec<Block> = Vec::new();
    for block in source {
        let (mut text, mut cost) = (Cow::Borrowed(block.text.as_str()), block.cost);
        while cost > room {
            let chars = text.chars().count();
            let most = chars * usize::try_from(room * 9 / 10).unwrap_or(0) / usize::try_from(cost).unwrap_or(1);
            text = middle_cut(&text, most).into();
            cost = counter.text(&text);
            if most == 0 {
                break;
            }
        }
        match parts.last_mut() {
            Some(part) if part.cost.saturating_add(cost) <= room => {
                part.text.push_str(&text);
                part.cost += cost;
            }
            _ => parts.push(Block { text: text.into_owned(), cost }),
        }
    }
    parts
}

/// Neighbouring notes in groups that fit; each group but the last has two members at least, so every round makes them fewer.
fn grouped(pieces: Vec<String>, window: Window, counter: &TokenCounter) -> Vec<Vec<String>> {
    let mut groups: Vec<(Vec<String>, u64)> = Vec::new();
    for piece in pieces {
        // No piece is longer than a half, whatever a model wrote.
        let piece = shortened(&piece, window.room * 9 / 20, usize::MAX, counter);
        let cost = counter.text(&piece) + 16;
        match groups.last_mut() {
            Some((group, size)) if group.len() < 2 || *size + cost <= window.room => {
                group.push(piece);
                *size += cost;
            }
            _ => groups.push((vec![piece], cost)),
        }
    }
    groups.into_iter().map(|(group, _)| group).collect()
}
