//! The checks of results that the contract promises. What passes here, the turn may use without looking again.
//!
//! The projection keeps tool pairs whole and ids rising, so an answer of spans needs no scan of its entries: only where a
//! span begins or ends can a pair be split, and ids are found by binary search.

use super::call::sink::RawItem;
use super::facts::{Item, View};
use crate::observe::broken;
use crate::transcript::{Message, Role};
use engine_abi::wire::{EntryHeadV1, commit_status, role};

/// What an assembled prompt is checked against.
pub(crate) struct Against<'a> {
    /// The projection; its entries from `len` on are the current turn.
    pub(crate) view: &'a View,
    /// Number of entries that the engine was shown.
    pub(crate) len: usize,
    /// Id by which the engine may place the current turn, or 0.
    pub(crate) prompt: u64,
    /// The current turn's message, where the projection does not hold it.
    pub(crate) prompt_message: Option<&'a Message>,
}

/// Checks what `assemble` pushed and resolves ids to places in the view.
pub(crate) fn assembled(raw: Vec<RawItem>, against: &Against<'_>) -> Result<Vec<Item>, String> {
    let mut items = Vec::with_capacity(raw.len());
    let mut next = 0;
    let mut placed = false;
    for raw in raw {
        match raw {
            RawItem::Message(message) => items.push(Item::Message(message)),
            RawItem::Span(span) => {
                if span.first > span.last {
                    return Err(format!("the span {}..={} runs backwards", span.first, span.last));
                }
                let heads = &against.view.heads[..against.len];
                let reaches_turn = against.prompt != 0 && span.last == against.prompt;
                if !(reaches_turn && span.first == against.prompt) {
                    let start = find(heads, span.first)?;
                    let end = if reaches_turn { against.len } else { find(heads, span.last)? + 1 };
                    if start < next || placed {
                        let (first, last) = (span.first, span.last);
                        return Err(format!("the span {first}..={last} goes back behind what was already given"));
                    }
                    next = end;
                    items.push(Item::Span { start, end });
                }
                if reaches_turn {
                    if placed {
                        return Err(format!("the current turn {} is shown more than once", against.prompt));
                    }
                    placed = true;
                    items.push(Item::CurrentTurn);
                }
            }
        }
    }
    pairs_whole(&items, against)?;
    Ok(items)
}

fn find(heads: &[EntryHeadV1], id: u64) -> Result<usize, String> {
    heads
        .binary_search_by_key(&id, |head| head.id)
        .map_err(|_| format!("the entry {id} is not in the history that the engine was shown"))
}

/// True when a boundary before entry `at` would split a tool call from its results.
fn splits(view: &View, at: usize) -> bool {
    view.heads.get(at).is_some_and(|head| head.role == role::TOOL)
}

/// No tool call without its result and no result without its call, the current turn included.
fn pairs_whole(items: &[Item], against: &Against<'_>) -> Result<(), String> {
    let (view, len) = (against.view, against.len);
    let placed = items.iter().any(|item| matches!(item, Item::CurrentTurn));
    let turn = [Item::CurrentTurn];
    let all = items.iter().chain(turn.iter().take(usize::from(!placed)));
    // Where the piece before ended: `Some(n)` when entry `n` follows it in the transcript.
    let mut open_end: Option<usize> = None;
    let mut clean = true;
    for item in all {
        let (start, end) = match item {
            Item::Span { start, end } => (*start, Some(*end)),
            Item::CurrentTurn => {
                if view.heads.len() == len && against.prompt_message.is_some_and(|m| m.role == Role::Tool) {
                    clean = false;
                }
                (len, None)
            }
            Item::Message(message) => {
                if message.role == Role::Tool || !message.tool_calls.is_empty() {
                    clean = false;
                }
                // A message between a call and its results splits them.
                if open_end.is_some_and(|end| splits(view, end)) {
                    clean = false;
                }
                open_end = None;
                continue;
            }
        };
        if open_end != Some(start) && (splits(view, start) || open_end.is_some_and(|end| splits(view, end))) {
            clean = false;
        }
        open_end = end;
    }
    if open_end.is_some_and(|end| splits(view, end)) {
        clean = false;
    }
    if clean || broken("8.51") { Ok(()) } else { pairs_by_id(items, against, placed) }
}

/// The slow way, for answers that touch tool messages at their edges: every call and result by id, in order.
fn pairs_by_id(items: &[Item], against: &Against<'_>, placed: bool) -> Result<(), String> {
    let mut open = Open::default();
    let current = |open: &mut Open| {
        let rows = against.view.heads.len();
        match against.prompt_message {
            Some(message) if rows == against.len => open.next(message),
            _ => against.view.sent(against.len..rows).try_for_each(|sent| open.next(sent.message)),
        }
    };
    for item in items {
        match item {
            Item::Span { start, end } => {
                against.view.sent(*start..*end).try_for_each(|sent| open.next(sent.message))?;
            }
            Item::Message(message) => open.next(message)?,
            Item::CurrentTurn => current(&mut open)?,
        }
    }
    if !placed {
        current(&mut open)?;
    }
    open.closed()
}

/// Calls that still wait for their results.
#[derive(Default)]
struct Open(Vec<String>);

impl Open {
    fn next(&mut self, message: &Message) -> Result<(), String> {
        if message.role == Role::Tool {
            let id = message.tool_call_id.as_deref().unwrap_or("");
            let Some(at) = self.0.iter().position(|open| open == id) else {
                return Err(format!("the tool result for \"{id}\" is shown without its call"));
            };
            self.0.swap_remove(at);
            return Ok(());
        }
        self.closed()?;
        self.0.extend(message.tool_calls.iter().map(|call| call.id.clone()));
        Ok(())
    }

    fn closed(&self) -> Result<(), String> {
        match self.0.first() {
            Some(id) => Err(format!("the tool call \"{id}\" is shown without its result")),
            None => Ok(()),
        }
    }
}

/// Checks the status of `commitTurn`.
pub(crate) fn committed(status: u32) -> Result<super::facts::CommitStatus, String> {
    match status {
        commit_status::COMMITTED => Ok(super::facts::CommitStatus::Committed),
        commit_status::DUPLICATE => Ok(super::facts::CommitStatus::Duplicate),
        other => Err(format!("commitTurn has the unknown status {other}")),
    }
}

/// Checks that the first kept entry of a compaction is one that the engine was shown.
pub(crate) fn first_kept(id: u64, view: &View) -> Result<(), String> {
    find(&view.heads, id).map(|_| ()).map_err(|why| format!("firstKeptEntryId: {why}"))
}
