//! Compaction on demand.

use super::script::turns;
use super::talk::{TIGHT, Talk, info};
use super::{Lab, Step};
use crate::check::blame::Finding;
use crate::check::catalogue::Check;
use crate::check::world::World;
use crate::slot::{CompactArgs, CompactOutput, View};
use engine_abi::wire::{force_reason, trigger};
use std::sync::Arc;

/// How far a claimed number may be off.
const TOLERANCE: u64 = 4;

/// A session far beyond its budget is compacted, and looked at before and after.
pub(super) fn compact(lab: &Lab) -> Step<()> {
    let bench = lab.bench(&lab.folder("state")?)?;
    let world = World::new();
    let owns = info(&bench).owns_compaction;
    let mut talk = Talk::new(lab, &bench, &world, "agent:main:compact", TIGHT);
    for turn in turns(&mut lab.random(), 16) {
        talk.turn(&turn)?;
    }
    let measured = |talk: &mut Talk<'_>| -> Step<u64> {
        let shown = talk.look("What now?")?;
        let (view, len) = talk.session().view(&talk.world.counter);
        // Of an engine that owns compaction, what it assembles counts; else the history.
        Ok(if owns { shown.history + shown.additions } else { view.tokens(0..len) })
    };
    let before = measured(&mut talk)?;
    let output = ask(&talk, before)?;
    let delegated = std::mem::take(&mut talk.session().delegated);
    if !delegated
        && !owns
        && let (true, Some(summary), Some(first)) = (output.compacted, &output.summary, output.first_kept)
    {
        let id = world.id();
        talk.session().boundary(id, summary, first);
    }
    let after = measured(&mut talk)?;
    if output.compacted && after >= before {
        let what = if owns { "what it shows next costs" } else { "the history costs" };
        let found = format!("it says that it compacted, and {what} {after} tokens after {before}");
        return Err(Finding::new(Check::CompactTruth, found));
    }
    if let (true, false, Some(claimed)) = (output.compacted, delegated, output.tokens_after)
        && claimed.abs_diff(after) * TOLERANCE > after
    {
        let found = format!("it says that {claimed} tokens are left, the host counts {after}");
        return Err(Finding::new(Check::CompactTruth, found));
    }
    if !owns && !output.compacted && !delegated {
        let found = format!("asked to make {before} tokens fit {TIGHT}, it did nothing and did not delegate");
        lab.found(Finding::new(Check::CompactNoOp, found));
    }
    Ok(bench.dispose()?)
}

/// One forced compaction, as `/compact` asks for it.
pub(super) fn ask(talk: &Talk<'_>, before: u64) -> Step<CompactOutput> {
    let (view, len) = talk.session().view(&talk.world.counter);
    let args = args(view, len, talk.budget, before);
    talk.lab.doing("in compact");
    Ok(talk.call(move |segment| segment.compact(&args))?)
}

/// Its parameters.
pub(super) fn args(view: Arc<View>, len: usize, budget: u64, before: u64) -> CompactArgs {
    CompactArgs {
        view,
        len,
        force: true,
        target: 0,
        trigger: trigger::MANUAL,
        attempt: 1,
        max_attempts: 1,
        force_reason: force_reason::MANUAL,
        custom_instructions: None,
        token_budget: Some(budget),
        current_token_count: Some(before),
    }
}
