//! A batch: where the tail begins, and what of it is shown shorter.
//!
//! From the newest entry backwards, atoms are taken: a message, or a message of the model with calls and all their results. The
//! newest are taken as they are; older results become stubs. Whole turns are taken while they fit what the batch shrinks the
//! tail to. A turn that does not fit is taken when else there would be less than the least tail and it fits the budget; else
//! its newest atoms are, behind the message that began it.

use super::share::part;
use super::state::{Stub, Tail, id_at};
use super::stub::Stubber;
use engine_abi::wire::{entry_flags, role};
use engine_abi::{Head, Result};
use std::collections::BTreeMap;

/// Most stubs of one prompt: the host counts and checks each new message with every call.
const MOST_STUBS: usize = 64;
/// Share of the target that stays as it is.
const AS_IT_IS: f64 = 0.5;
/// Share of the target up to which a turn that was begun stays as it is.
const WHOLE_TURN: f64 = 0.85;
/// Most of the target for the message that leads in a turn which is shown in part.
const LEAD: u64 = 4;

/// What a batch may cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aim {
    /// Nothing before this place is shown.
    pub floor: usize,
    /// Least tokens of newest turns, as far as there are any.
    pub least: u64,
    /// Tokens that the tail shall have at most.
    pub target: u64,
    /// Tokens that it may have at most.
    pub most: u64,
    /// Stubs of entries up to this one are used again wherever they stand.
    pub pressed: u64,
    /// Everything from the floor on fits as it is.
    pub as_it_is: bool,
}

/// A new tail.
pub(crate) struct Folded {
    /// Where it begins.
    pub tail: Tail,
    /// What of it is shown shorter.
    pub stubs: BTreeMap<u64, Stub>,
}

/// How an atom is shown.
struct Form {
    start: usize,
    stub: Option<Stub>,
    tokens: u64,
}

/// Which atoms stay as they are.
#[derive(PartialEq)]
enum Zone {
    /// The newest.
    Newest,
    /// The rest of a turn that was begun.
    RestOfTurn,
    /// Results become stubs.
    Older,
}

/// Chooses a tail. Stubs that were made before are used again.
pub(crate) fn fold(stubber: &Stubber<'_>, known: &BTreeMap<u64, Stub>, aim: Aim) -> Result<Folded> {
    let mut walk = Walk::new(stubber, known, aim);
    walk.run()?;
    walk.end()
}

struct Walk<'a, 'b> {
    stubber: &'b Stubber<'a>,
    heads: &'a [Head],
    known: &'b BTreeMap<u64, Stub>,
    aim: Aim,
    /// Newest first.
    forms: Vec<Form>,
    tokens: u64,
    stubs: usize,
    /// Places of results that are shown as they are, newest first.
    results: Vec<usize>,
    zone: Zone,
    /// How many forms are whole turns, and what they cost.
    whole: (usize, u64),
    /// Where a turn was begun that only fits the whole budget.
    begun: Option<(usize, u64)>,
}

impl<'a, 'b> Walk<'a, 'b> {
    fn new(stubber: &'b Stubber<'a>, known: &'b BTreeMap<u64, Stub>, aim: Aim) -> Walk<'a, 'b> {
        Walk {
            stubber,
            heads: stubber.history.heads(),
            known,
            aim,
            forms: Vec::new(),
            tokens: 0,
            stubs: 0,
            results: Vec::new(),
            zone: Zone::Newest,
            whole: (0, 0),
            begun: None,
        }
    }

    /// Takes atoms until no more fit.
    fn run(&mut self) -> Result<()> {
        let mut at = self.heads.len();
        while at > self.aim.floor {
            self.stubber.counter.0.check()?;
            let start = atom(self.heads, at, self.aim.floor);
            let form = self.form(start, at)?;
            let fits = |walk: &Self| walk.tokens + form.tokens <= walk.limit();
            if !(fits(self) || (self.reach() && fits(self))) {
                break;
            }
            if form.stub.is_some() && self.stubs == MOST_STUBS {
                break;
            }
            if form.stub.is_none() {
                self.results.extend((start..at).rev().filter(|at| self.heads[*at].role == role::TOOL));
            }
            at = start;
            self.take(form);
            if self.is_start(start) {
                self.whole = (self.forms.len(), self.tokens);
                if self.begun.take().is_some() {
                    break;
                }
            }
        }
        if let Some((forms, tokens)) = self.begun.take() {
            self.forms.truncate(forms);
            self.tokens = tokens;
        }
        Ok(())
    }

    /// What may be used now.
    fn limit(&self) -> u64 {
        if self.begun.is_some() { self.aim.most } else { self.aim.target }
    }

    /// One more turn may use the whole budget, when there would be less than the least tail without it.
    fn reach(&mut self) -> bool {
        let short = self.whole.1 < self.aim.least && self.begun.is_none();
        if short {
            self.begun = Some((self.forms.len(), self.tokens));
        }
        short
    }

    /// How the atom from `start` to `end` is shown.
    fn form(&self, start: usize, end: usize) -> Result<Form> {
        let raw = tokens(&self.heads[start..end]);
        let known = self.known.get(&self.heads[start].id).filter(|stub| stub.entries as usize == end - start);
        if let Some(stub) = known.filter(|_| self.heads[start].id <= self.aim.pressed) {
            return Ok(Form { start, stub: Some(stub.clone()), tokens: stub.tokens });
        }
        let fits = match self.zone {
            _ if self.aim.as_it_is => true,
            Zone::Newest => self.tokens + raw <= part(self.limit(), 0.9),
            Zone::RestOfTurn => self.tokens + raw <= part(self.aim.target, WHOLE_TURN),
            Zone::Older => false,
        };
        if fits || !self.heads[start].has(entry_flags::TOOL_CALLS) || end - start < 2 {
            return Ok(Form { start, stub: None, tokens: raw });
        }
        let stub = match known {
            Some(stub) => Some(stub.clone()),
            None => self.stubber.results(start..end, &self.results)?,
        };
        let tokens = stub.as_ref().map_or(raw, |stub| stub.tokens);
        Ok(Form { start, stub, tokens })
    }

    fn take(&mut self, form: Form) {
        let (start, stubbed) = (form.start, form.stub.is_some());
        self.tokens += form.tokens;
        self.stubs += usize::from(stubbed);
        self.forms.push(form);
        let enough = self.tokens >= self.aim.least.max(part(self.aim.target, AS_IT_IS));
        self.zone = match self.zone {
            Zone::Newest if !enough => Zone::Newest,
            Zone::Older => Zone::Older,
            Zone::RestOfTurn if stubbed => Zone::Older,
            _ if self.is_start(start) => Zone::Older,
            _ => Zone::RestOfTurn,
        };
    }

    fn is_start(&self, at: usize) -> bool {
        at == 0 || self.heads[at].starts_turn()
    }

    /// Cuts what is not whole.
    fn end(mut self) -> Result<Folded> {
        let (whole, cost) = self.whole;
        let reached = self.forms.last().map_or(self.heads.len(), |form| form.start);
        let mut lead = None;
        if self.forms.len() > whole || (whole == 0 && reached > self.aim.floor) {
            if cost >= self.aim.least && reached > self.aim.floor {
                self.forms.truncate(whole);
            } else {
                lead = self.lead_in(reached, whole)?;
            }
        }
        let from = self.forms.last().map_or(self.heads.len(), |form| form.start);
        let mut stubs: BTreeMap<u64, Stub> =
            self.forms.into_iter().filter_map(|form| Some((self.heads[form.start].id, form.stub?))).collect();
        let tail = Tail { from, lead: lead.as_ref().map(|(place, _)| *place) };
        if let Some((place, Some(stub))) = lead {
            stubs.insert(id_at(self.heads, place), stub);
        }
        Ok(Folded { tail, stubs })
    }

    /// The message that began the turn of which only the newest atoms are taken, and room for it. `reached` is the first place
    /// that was taken, the newest `whole` forms are whole turns.
    fn lead_in(&mut self, reached: usize, whole: usize) -> Result<Option<(usize, Option<Stub>)>> {
        let newest = self.forms.get(..whole).and_then(<[Form]>::last).map_or(self.heads.len(), |form| form.start);
        let Some(lead) = (0..newest).rev().find(|at| self.is_start(*at)).filter(|at| *at < reached) else {
            return Ok(None);
        };
        let for_lead = (self.aim.target / LEAD).max(1);
        let raw = u64::from(self.heads[lead].tokens);
        let stub = if raw <= for_lead { None } else { self.stubber.text(lead, for_lead)? };
        let shown = raw <= for_lead || stub.is_some();
        let cost = if self.heads[lead].role == role::USER && shown {
            stub.as_ref().map_or(raw, |stub| stub.tokens)
        } else {
            0
        };
        while self.tokens + cost > self.aim.target && self.forms.len() > whole {
            self.tokens -= self.forms.pop().map_or(0, |form| form.tokens);
        }
        if self.forms.len() == whole && !self.shorten_newest(lead, whole, cost)? {
            return Ok(None);
        }
        Ok((cost != 0).then_some((lead, stub)))
    }

    /// Where not even the newest atom fits behind its lead, its beginning does. True when something is shown.
    fn shorten_newest(&mut self, lead: usize, whole: usize, lead_cost: u64) -> Result<bool> {
        let end = self.forms.get(..whole).and_then(<[Form]>::last).map_or(self.heads.len(), |form| form.start);
        if whole != 0 || end <= lead + 1 {
            // Behind whole turns nothing need be shown of an older one; of a turn that is its lead alone, that is all.
            return Ok(whole == 0 && lead_cost != 0 && lead_cost <= self.aim.target && end == lead + 1);
        }
        let start = atom(self.heads, end, lead + 1);
        let left = self.aim.target.saturating_sub(lead_cost);
        let Some(stub) = self.stubber.text(start, left)?.filter(|_| end - start == 1) else {
            return Ok(lead_cost != 0 && lead_cost <= self.aim.target);
        };
        self.tokens += stub.tokens;
        self.forms.push(Form { start, tokens: stub.tokens, stub: Some(stub) });
        Ok(true)
    }
}

/// First place of the atom that ends before `end`.
fn atom(heads: &[Head], end: usize, floor: usize) -> usize {
    let mut start = end - 1;
    while start > floor && heads[start].role == role::TOOL {
        start -= 1;
    }
    start
}

/// Tokens of entries as they are.
pub(crate) fn tokens(heads: &[Head]) -> u64 {
    heads.iter().map(|head| u64::from(head.tokens)).sum()
}
