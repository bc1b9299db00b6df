//! A session's history, ready for an engine: sanitize → validate → limit, kept up to date at the cost of what is new.

use super::boundary::Boundary;
use super::pairing::{self, Pairing, Place};
use super::prune::{Pruner, Work};
use super::sanitize::{Shown, shown};
use super::view::{Attached, View};
use crate::config::PruningConfig;
use crate::model::TokenCounter;
use crate::observe::broken;
use crate::transcript::{Content, Entry, EntryBody, EntryId, Message, Role, stored_flags};
use engine_abi::wire::{EntryHeadV1, entry_flags};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What a projection may leave out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProjectionPolicy {
    /// Newest user turns that are shown; `None` shows all. Nothing is cut before there are half as many again, so that the
    /// prefix stays the same from one turn to the next and provider caches hold.
    pub turn_limit: Option<usize>,
}

/// The projection of one session's active branch.
///
/// [`Projection::sync`] costs what the branch gained since the last time. After an edit or a regenerated answer it goes back to
/// the last turn that both branches share; after a compaction it starts again at the first entry that stays.
#[derive(Debug, Default, Clone)]
pub struct Projection {
    policy: ProjectionPolicy,
    view: Arc<View>,
    tokens: u64,
    /// Ids of the entries that were read, by position on the branch.
    path: Vec<EntryId>,
    boundary: Boundary,
    pairing: Pairing,
    run: Run,
    pruner: Pruner,
    /// Texts frozen since this projection was made; the store knows them only a moment later.
    frozen: HashMap<EntryId, String>,
    counter: Option<TokenCounter>,
    /// User turns since the boundary, and the rows where those that are still shown start.
    turns: usize,
    starts: std::collections::VecDeque<usize>,
}

/// The user turn that is open at the end of the view.
#[derive(Debug, Default, Clone, Copy)]
struct Run {
    start: Option<usize>,
    answered: bool,
}

impl Projection {
    /// An empty projection.
    pub fn new(policy: ProjectionPolicy) -> Projection {
        Projection { policy, ..Projection::default() }
    }

    /// Brings the projection up to `branch`: the active branch, root first. `frozen` holds the pruned texts that the store
    /// knows; texts that [`Projection::prune`] gave since are known here as well.
    pub fn sync(&mut self, branch: &[Arc<Entry>], frozen: &HashMap<EntryId, String>, counter: &TokenCounter) {
        self.counter = Some(counter.clone());
        let common = self.common(branch);
        if common < self.path.len() {
            self.rewind(branch, common);
        }
        if let Some(boundary) = self.boundary.advance(branch, self.path.len()) {
            self.restart(branch, boundary);
        }
        if self.path.len() == branch.len() {
            return;
        }
        // One clone at most, and only when somebody still holds the last snapshot.
        let mut view = std::mem::take(&mut self.view);
        let rows = Arc::make_mut(&mut view);
        for entry in &branch[self.path.len()..] {
            self.path.push(entry.id);
            if let EntryBody::Message(message) = &entry.body {
                self.add(rows, entry, message, frozen, counter);
            }
        }
        self.view = view;
    }

    /// The current snapshot.
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&self.view)
    }

    /// Index of the first projected entry with this id or a later one: where the turn that was admitted as `id` starts.
    pub fn turn_start(&self, id: EntryId) -> usize {
        self.view.index_from(id)
    }

    /// Tokens of the whole view as sent; a running sum.
    pub fn tokens(&self) -> u64 {
        self.tokens
    }

    /// Cuts results that are larger than their share of a window of `window` tokens, and shortens what is old when the
    /// provider's cache is cold anyway: at `now_ms`, when the last model call started at `last_call_ms` (`None`: not known, so the
    /// newest answer's time counts).
    ///
    /// Gives the newly frozen texts, which the caller stores; from now on this projection shows them, byte for byte.
    pub fn prune(
        &mut self,
        now_ms: i64,
        last_call_ms: Option<i64>,
        window: u64,
        config: &PruningConfig,
    ) -> Vec<(EntryId, String)> {
        let Some(counter) = self.counter.clone() else { return Vec::new() };
        let due = self.pruner.due(&self.view, self.tokens, now_ms, last_call_ms, window, config);
        if !due && !self.pruner.has_unseen() {
            return Vec::new();
        }
        // The turn that runs, and the completed ones whose images stay.
        let oldest = self.starts.len().checked_sub(config.keep_media_turns + 1);
        let media_from = oldest.and_then(|at| self.starts.get(at)).copied().unwrap_or(0);
        let mut view = std::mem::take(&mut self.view);
        let mut work = Work {
            view: Arc::make_mut(&mut view),
            tokens: &mut self.tokens,
            window,
            media_from,
            config,
            counter: &counter,
            frozen: BTreeMap::new(),
        };
        self.pruner.guard(&mut work);
        if due {
            self.pruner.run(&mut work);
        }
        let pruned: Vec<_> = work.frozen.into_iter().collect();
        self.view = view;
        for (id, text) in &pruned {
            self.frozen.insert(*id, text.clone());
        }
        pruned
    }

    /// Length of the part of `branch` that was read already.
    fn common(&self, branch: &[Arc<Entry>]) -> usize {
        let known = self.path.len();
        if broken("8.48") {
            return known.min(branch.len());
        }
        // An id fixes the whole path before it, so one comparison settles the ordinary case.
        if known <= branch.len() && (known == 0 || branch[known - 1].id == self.path[known - 1]) {
            return known;
        }
        let mut low = 0;
        let mut high = known.min(branch.len());
        while low < high {
            let middle = low.midpoint(high);
            if branch[middle].id == self.path[middle] {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Goes back to the last turn start within the first `common` entries.
    fn rewind(&mut self, branch: &[Arc<Entry>], common: usize) {
        if self.boundary.entry.is_some() && self.boundary.at >= common || self.turns > self.starts.len() {
            // A compaction or a limit was decided by entries that are gone.
            self.boundary = Boundary::default();
            let boundary = self.boundary.advance(&branch[..common], 0).unwrap_or_default();
            return self.restart(branch, boundary);
        }
        let shared = common.checked_sub(1).map_or(0, |last| self.view.index_from(self.path[last] + 1));
        let start = (0..shared).rev().find(|&row| self.view.heads[row].flags & entry_flags::TURN_START != 0);
        let Some((row, position)) =
            start.and_then(|row| Some((row, self.path.binary_search(&self.view.heads[row].id).ok()?)))
        else {
            let boundary = std::mem::take(&mut self.boundary);
            return self.restart(branch, boundary);
        };
        let cut = self.path[position];
        self.path.truncate(position);
        self.pairing.truncate(row);
        self.pruner.truncate(row);
        self.run = Run::default();
        while self.starts.back().is_some_and(|&start| start >= row) {
            self.starts.pop_back();
            self.turns -= 1;
        }
        let mut view = std::mem::take(&mut self.view);
        let rows = Arc::make_mut(&mut view);
        self.tokens -= rows.tokens(row..rows.len());
        rows.heads.truncate(row);
        rows.bodies.truncate(row);
        rows.attached.split_off(&row);
        self.take_back_moved(rows, cut);
        self.view = view;
    }

    /// Results that were moved here from entries at or past `cut` are gone again.
    fn take_back_moved(&mut self, rows: &mut View, cut: EntryId) {
        let Some(counter) = self.counter.clone() else { return };
        let moved: Vec<(usize, String)> = rows
            .attached
            .iter()
            .flat_map(|(&row, list)| list.iter().map(move |result| (row, result)))
            .filter(|(_, result)| !result.synthetic() && result.source >= cut)
            .filter_map(|(row, result)| Some((row, result.message.tool_call_id.clone()?)))
            .collect();
        for (row, call) in moved {
            self.attach_missing(rows, row, &call, &counter);
            self.pairing.reopen(row, &call);
        }
    }

    /// Starts again behind `boundary`.
    fn restart(&mut self, branch: &[Arc<Entry>], boundary: Boundary) {
        self.pairing = Pairing::default();
        self.pruner = Pruner::default();
        self.run = Run::default();
        self.turns = 0;
        self.starts.clear();
        self.tokens = 0;
        self.path.clear();
        self.path.extend(branch[..boundary.shown_from].iter().map(|entry| entry.id));
        let mut view = View::default();
        if let (Some((id, time_ms, message)), Some(counter)) = (boundary.summary(branch), &self.counter) {
            let tokens = counter.message(&message);
            let flags = entry_flags::SUMMARY | estimated(counter);
            self.tokens = u64::from(tokens);
            view.push(head(id, time_ms, tokens, &message, flags), Arc::new(message));
        }
        self.view = Arc::new(view);
        self.boundary = boundary;
    }

    fn add(
        &mut self,
        rows: &mut View,
        entry: &Entry,
        message: &Arc<Message>,
        frozen: &HashMap<EntryId, String>,
        counter: &TokenCounter,
    ) {
        let Shown::As { message, changed } = shown(message) else { return };
        let row = rows.len();
        let mut flags = estimated(counter);
        let mut body = message;
        let mut recount = changed || entry.tokens == 0;
        if body.role == Role::Tool {
            match self.pairing.place(body.tool_call_id.as_deref()) {
                Place::Here => {}
                Place::Dropped => return,
                Place::Behind(owner) => {
                    let tokens = if recount { counter.message(&body) } else { entry.tokens };
                    let change = rows.attach(owner, Attached { message: body, tokens, source: entry.id });
                    self.tokens = self.tokens.saturating_add_signed(change);
                    return;
                }
            }
        } else {
            if let Some((owner, calls)) = self.pairing.close() {
                for call in calls {
                    self.attach_missing(rows, owner, &call, counter);
                }
            }
            self.pairing.calls(row, &body);
        }
        if (body.role == Role::Tool || body.has_media())
            && let Some(text) = self.frozen.get(&entry.id).or_else(|| frozen.get(&entry.id))
        {
            body = Arc::new(with_text(&body, text));
            flags |= entry_flags::PRUNED;
            recount = true;
        }
        self.pruner.added(row, &body, flags);
        if entry.flags & stored_flags::HEARTBEAT != 0 {
            flags |= entry_flags::HEARTBEAT;
        }
        flags |= self.turn_flags(rows, row, entry, &body);
        let tokens = if recount { counter.message(&body) } else { entry.tokens };
        self.tokens += u64::from(tokens);
        let starts_turn = flags & entry_flags::TURN_START != 0;
        rows.push(head(entry.id, entry.time_ms, tokens, &body, flags), body);
        if starts_turn {
            self.turns += 1;
            self.starts.push_back(row);
            self.limit(rows);
        }
    }

    fn attach_missing(&mut self, rows: &mut View, owner: usize, call: &str, counter: &TokenCounter) {
        let message = pairing::missing_result(call);
        let tokens = counter.message(&message);
        let made = Attached { message: Arc::new(message), tokens, source: pairing::NO_SOURCE };
        let change = rows.attach(owner, made);
        self.tokens = self.tokens.saturating_add_signed(change);
    }

    /// Follows the turns: where one starts, and whether the one before was ever answered.
    fn turn_flags(&mut self, rows: &mut View, row: usize, entry: &Entry, body: &Message) -> u32 {
        match body.role {
            Role::Tool => 0,
            Role::Assistant => {
                self.run.answered |= body.tool_calls.is_empty();
                if body.tool_calls.is_empty() { 0 } else { entry_flags::TOOL_CALLS }
            }
            Role::User => {
                // Messages of one request carry one time; they are one turn.
                let same_request = rows.heads.last().is_some_and(|last| {
                    last.role == Role::User.code()
                        && last.flags & entry_flags::SUMMARY == 0
                        && last.time_ms == entry.time_ms
                });
                if same_request {
                    return 0;
                }
                if let Some(start) = self.run.start.filter(|_| !self.run.answered) {
                    rows.heads[start..]
                        .iter_mut()
                        .take_while(|head| head.role == Role::User.code())
                        .for_each(|head| head.flags |= entry_flags::UNANSWERED);
                }
                self.run = Run { start: Some(row), answered: false };
                entry_flags::TURN_START
            }
        }
    }

    /// Cuts the oldest turns when there are half as many again as the limit; a summary in front stays.
    fn limit(&mut self, rows: &mut View) {
        let Some(limit) = self.policy.turn_limit.filter(|&limit| limit > 0) else { return };
        let most = limit + limit.div_ceil(2);
        if self.turns <= most {
            return;
        }
        let keep = limit + (self.turns - limit) % (most - limit + 1);
        if self.starts.len() <= keep {
            return;
        }
        let from = self.starts[self.starts.len() - keep];
        let first = usize::from(rows.is_summary(0));
        let by = from - first;
        self.tokens -= rows.tokens(first..from);
        rows.heads.drain(first..from);
        rows.bodies.drain(first..from);
        let kept = rows.attached.split_off(&from);
        rows.attached = kept.into_iter().map(|(row, list)| (row - by, list)).collect();
        self.pairing.shift(from, by);
        self.pruner.shift(from, by);
        self.run.start = self.run.start.map(|start| start - by);
        self.starts.drain(..self.starts.len() - keep);
        self.starts.iter_mut().for_each(|start| *start -= by);
    }
}

fn estimated(counter: &TokenCounter) -> u32 {
    if counter.estimated() { entry_flags::TOKENS_ESTIMATED } else { 0 }
}

fn head(id: EntryId, time_ms: i64, tokens: u32, body: &Message, flags: u32) -> EntryHeadV1 {
    let media = if body.has_media() { entry_flags::MEDIA } else { 0 };
    let text_bytes = u32::try_from(body.text().len()).unwrap_or(u32::MAX);
    EntryHeadV1 { id, time_ms, tokens, role: body.role.code(), flags: flags | media, text_bytes }
}

/// The same message with another text.
pub(super) fn with_text(message: &Message, text: &str) -> Message {
    Message { content: Content::Text(text.to_owned()), ..message.clone() }
}
