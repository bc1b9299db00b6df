//! What the model sees.
//!
//! ```text
//!  pins │ log │ tail: newest turns, older results as stubs │ passages of older turns, current user message, its loop
//!  ◄──────────── the same bytes until a batch ────────────► ◄──── the same within a turn ────►
//! ```
//!
//! All of the history is shown while it fits. When it no longer does, a batch is made: the tail is shrunk to a low-water mark,
//! whole turns go into one new item of the log, older results of tools become stubs, the pins are written anew. Until the next
//! batch the prompt only grows at its end, so a provider's cache keeps what it has. What is folded is found again by the
//! passages and by the tools.
//!
//! | file | concept |
//! |---|---|
//! | [`share`] | how a budget is divided |
//! | [`state`] | what is remembered from prompt to prompt, and held against the history |
//! | [`mod@fold`] | where the tail begins |
//! | [`stub`] | entries that are shown shorter |
//! | [`log`], [`tell`], [`gist`] | the compacted log, how a batch writes it, and its lines |
//! | [`pinned`] | the block of pins |
//! | [`press`] | a compaction that was asked for |
//! | [`mod@write`] | lines of the log that a model writes in the background |
//! | [`passages`] | what is retrieved for a turn |
//! | [`quote`], [`count`] | frames around what is quoted; what texts cost |

mod count;
mod fold;
mod gist;
mod log;
mod passages;
mod pinned;
mod press;
mod quote;
mod share;
mod state;
mod stub;
mod tell;
#[cfg(test)]
mod tests;
mod write;

use crate::config::Config;
use crate::session::Session;
use count::Counter;
use engine_abi::*;
use fold::{Aim, fold, tokens};
pub(crate) use press::compact;
use share::Shares;
pub(crate) use state::State;
use state::{Part, Tail, id_at};
use stub::Stubber;
pub(crate) use write::{Writer, drafts, publish_later};

/// `assemble`.
pub(crate) fn assemble(
    config: &Config,
    session: &mut Session,
    context: &Context,
    request: &AssembleRequest,
) -> Result<Assembly> {
    let budget = context.session().token_budget().unwrap_or(u64::MAX);
    let mut state = std::mem::take(&mut *session.shown);
    let history = request.history();
    let running = request.prompt().map_or(0, |prompt| prompt.tokens());
    let turn = request.prompt().map(passages::turn);
    let is_loop = turn.is_some_and(|turn| state.is_in_loop(turn, running));
    let shares = Shares::of(config, budget, history.heads()).in_turn(config, running, is_loop);
    if state.passages.as_ref().is_some_and(|passages| Some(passages.turn) != turn) {
        state.passages = None;
    }
    let mut show = Show { is_loop, ..Show::new(config, session, context, history, shares, &mut state) };
    let answer = show.assemble(request);
    *session.shown = state;
    answer
}

/// One look at a history, with what is remembered of the looks before.
pub(crate) struct Show<'a> {
    pub session: &'a Session,
    pub context: &'a Context,
    pub history: History<'a>,
    pub shares: Shares,
    pub state: &'a mut State,
    /// What a compaction was asked to keep.
    pub focus: Option<String>,
    /// The model has the tool that shows an entry in full.
    pub expands: bool,
    /// A batch was made in this look.
    pub folded: bool,
    /// The current turn is in a loop of tool calls.
    pub is_loop: bool,
}

impl<'a> Show<'a> {
    fn new(
        config: &Config,
        session: &'a Session,
        context: &'a Context,
        history: History<'a>,
        shares: Shares,
        state: &'a mut State,
    ) -> Show<'a> {
        Show {
            session,
            context,
            history,
            shares,
            state,
            focus: None,
            expands: config.tools,
            folded: false,
            is_loop: false,
        }
    }

    fn assemble(&mut self, request: &AssembleRequest) -> Result<Assembly> {
        self.recount(request.model().unwrap_or_default())?;
        let tail = self.settle()?;
        let shown = self.shown(tail);
        self.state.shown_tokens = shown;
        let mut assembly = Assembly::new();
        if self.shows_summary(tail) {
            assembly = assembly.keep(&self.history.heads()[..1]);
        }
        if let Some(block) = &self.state.pinned {
            assembly = assembly.message(Message::user(&block.text));
        }
        for item in &self.state.log {
            assembly = assembly.message(Message::user(item.text(self.expands)));
        }
        let heads = self.history.heads();
        let mut pieces = Some(assembly);
        self.state.parts(heads, tail, |part| {
            pieces = pieces.take().map(|pieces| match part {
                Part::Raw(range) => pieces.keep(&heads[range]),
                Part::Short(stub) => stub.messages.iter().fold(pieces, |all, said| all.message(said.message())),
            });
        });
        let mut assembly = pieces.unwrap_or_default();
        if let Some((text, _)) = self.passages(request, tail, self.shares.budget.saturating_sub(shown))? {
            assembly = assembly.volatile_prompt(text);
        }
        // Of what stands before the current turn: there the host counts, and passages stand in the current message.
        Ok(assembly.estimated_tokens(shown))
    }

    /// The tail that this prompt has, after a batch where one is due.
    pub(crate) fn settle(&mut self) -> Result<Tail> {
        let heads = self.history.heads();
        let (tail, moved) = self.state.tail(heads);
        let floor = self.floor();
        if self.is_whole(tail) {
            if tokens(heads) <= self.shares.budget {
                return Ok(tail);
            }
            return self.batch(floor);
        }
        let cost = self.state.cost(heads, tail);
        let (pinned, log) = self.before(tail);
        let used = pinned + log + cost;
        // What this turn was shown already stays, unless it takes too much of what is left.
        let passages = self.state.passages.as_ref().map_or(0, |passages| passages.tokens);
        let passages = if passages <= self.shares.budget / MOST_FROZEN { passages } else { 0 };
        let over =
            cost > self.shares.most_tail(pinned, log) || used + passages > self.shares.budget || log > self.log_limit();
        // What a loop does not need now, it will: the tail grows again with the next turn.
        if over || moved || (!self.is_loop && self.has_room(tail, floor, cost)) {
            return self.batch(floor);
        }
        if self.state.repin {
            self.pin()?;
            if self.shown(tail) > self.shares.budget {
                return self.batch(floor);
            }
        }
        Ok(tail)
    }

    /// Tokens of what stands at the head, and of the log.
    fn before(&self, tail: Tail) -> (u64, u64) {
        let pinned = self.state.pinned.as_ref().map_or(0, |block| block.tokens);
        let summary = if self.shows_summary(tail) { self.summary_tokens() } else { 0 };
        (pinned + summary, self.state.log.iter().map(|item| item.tokens).sum())
    }

    /// Tokens of a summary that another engine's compaction left at the head of the history, where that is short enough to stay.
    fn summary_tokens(&self) -> u64 {
        let summary = self.history.heads().first().filter(|head| head.has(wire::entry_flags::SUMMARY));
        summary.map(|head| u64::from(head.tokens)).filter(|tokens| *tokens <= self.shares.budget / 8).unwrap_or(0)
    }

    /// True when that summary stands before everything else, the tail not reaching it.
    fn shows_summary(&self, tail: Tail) -> bool {
        tail.from > 0 && tail.lead != Some(0) && self.summary_tokens() > 0
    }

    /// Tokens of everything but the passages.
    pub(crate) fn shown(&self, tail: Tail) -> u64 {
        let (pinned, log) = self.before(tail);
        pinned + log + self.state.cost(self.history.heads(), tail)
    }

    /// First place that may be shown: a compaction that was asked for stays done.
    pub(crate) fn floor(&self) -> usize {
        self.history.heads().partition_point(|head| head.id < self.state.held)
    }

    /// True when all of the history is shown as it is.
    pub(crate) fn is_whole(&self, tail: Tail) -> bool {
        tail.from == 0 && self.state.stubs.is_empty()
    }

    /// The log may outgrow its share when the budget shrinks; some of that is borne until the next batch.
    fn log_limit(&self) -> u64 {
        self.shares.log + self.shares.log / 4
    }

    /// True when so much more fits than is shown that it is worth to begin anew.
    fn has_room(&self, tail: Tail, floor: usize, cost: u64) -> bool {
        let heads = self.history.heads();
        let (pinned, log) = self.before(tail);
        let stubbed = self.state.stubs.range(self.state.pressed.saturating_add(1)..).next().is_some();
        if tail.from <= floor && !stubbed {
            return false;
        }
        let left = self.shares.budget.saturating_sub(pinned + self.shares.log.max(log));
        if tokens(&heads[floor..]) <= left - left / 8 {
            return true;
        }
        let low = self.shares.low_tail(pinned, log);
        if cost == 0 {
            return true;
        }
        if cost >= self.shares.least_tail.max(low / 2) {
            return false;
        }
        let first = tail.lead.unwrap_or_else(|| {
            let before = heads[floor..tail.from].iter().rposition(Head::starts_turn);
            before.map_or(floor, |at| floor + at)
        });
        let more = tokens(&heads[first.max(floor)..]);
        more <= low - low / 8 || (cost < self.shares.least_tail && more <= left)
    }

    /// Folds down to the low-water mark; where everything from the floor on fits, shows that.
    pub(crate) fn batch(&mut self, floor: usize) -> Result<Tail> {
        let heads = self.history.heads();
        if floor == 0 && self.state.pressed == 0 && tokens(heads) <= self.shares.budget {
            let State { model, turn, away, .. } = std::mem::take(self.state);
            *self.state = State { model, turn, away, ..State::default() };
            return Ok(Tail { from: 0, lead: None });
        }
        let pinned = self.pin()? + self.summary_tokens();
        let left = self.shares.budget.saturating_sub(pinned);
        let log = self.shares.log.min(left);
        let most = left - log;
        let as_it_is = tokens(&heads[floor..]) <= most - most / 8;
        let target = if as_it_is { most } else { self.shares.low_tail(pinned, log).min(most) };
        let least = self.shares.least_tail.min(most);
        self.fold_to(Aim { floor, least, target, most, pressed: self.state.pressed, as_it_is })
    }

    /// Folds to what `aim` says.
    pub(crate) fn fold_to(&mut self, aim: Aim) -> Result<Tail> {
        self.folded = true;
        let heads = self.history.heads();
        let folded = fold(&self.stubber(), &self.state.stubs, aim)?;
        let Tail { from, lead } = folded.tail;
        self.state.from = id_at(heads, from);
        self.state.lead = lead.map_or(0, |lead| heads[lead].id);
        self.state.stubs = folded.stubs;
        let kept = self.state.log.iter().take_while(|item| item.last < self.state.from).count();
        self.state.log.truncate(kept);
        self.tell(from)?;
        Ok(folded.tail)
    }

    fn stubber(&self) -> Stubber<'a> {
        let counter = Counter(self.context);
        Stubber { session: self.session, history: self.history, expands: self.expands, counter }
    }

    /// What was counted for another model is counted anew.
    pub(crate) fn recount(&mut self, model: &str) -> Result<()> {
        if self.state.model == model {
            return Ok(());
        }
        let counter = Counter(self.context);
        model.clone_into(&mut self.state.model);
        for stub in self.state.stubs.values_mut() {
            stub.tokens = 0;
            for said in &stub.messages {
                stub.tokens += counter.said(said)?;
            }
        }
        for item in &mut self.state.log {
            item.tokens = counter.plain(&item.text(self.expands))?;
        }
        if let Some(block) = &mut self.state.pinned {
            block.tokens = counter.plain(&block.text)?;
        }
        self.state.passages = None;
        Ok(())
    }
}

/// Passages that a turn was shown stay, also when its loop leaves less room, up to this part of the budget.
const MOST_FROZEN: u64 = 4;
