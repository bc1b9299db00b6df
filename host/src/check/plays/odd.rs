//! Sessions that nobody thinks of, and services that fail. Everything comes from the seed.

use super::compacting;
use super::script::{Turn, answer, calls, odd_turn, result, turns, user};
use super::talk::{AMPLE, KEY, QUESTION, TIGHT, Talk, lived, same};
use super::{Lab, Step};
use crate::check::blame::Finding;
use crate::check::catalogue::Check;
use crate::check::world::{Fault, World};
use crate::slot::{CommitStatus, FailureKind, HookFailure};

/// Odd turns, edits, compactions and restarts in any order.
pub(super) fn fuzz(lab: &Lab) -> Step<()> {
    for round in 0..lab.rounds() {
        let mut random = fastrand::Rng::with_seed(lab.request.seed.wrapping_add(u64::from(round)));
        let folder = lab.folder(&format!("round-{round}"))?;
        let mut bench = lab.bench(&folder)?;
        let world = World::new();
        let mut again = false;
        for number in 0..random.usize(4..16) {
            let mut talk = Talk::new(lab, &bench, &world, KEY, AMPLE);
            let told = |finding: Finding| {
                let found = format!("round {round}, turn {}: {}", number + 1, finding.found);
                Finding { found, ..finding }
            };
            talk.budget = [AMPLE, 20_000, 2_000, 200][random.usize(..4)];
            let turn = odd_turn(&mut random, number);
            match random.u32(..10) {
                0 => talk.pass(&turn),
                1 => {
                    talk.turn(&turn).map_err(told)?;
                    let keep =
                        talk.session().branch.entries().get(random.usize(..number + 1)).map_or(0, |entry| entry.id);
                    talk.session().edit(keep);
                }
                2 => {
                    talk.turn(&turn).map_err(told)?;
                    compacting::ask(&talk, 10_000).map_err(told)?;
                }
                3 => again = true,
                _ => drop(talk.turn(&turn).map_err(told)?),
            }
            if std::mem::take(&mut again) {
                bench.dispose()?;
                bench = lab.bench(&folder)?;
            }
        }
        bench.dispose()?;
    }
    Ok(())
}

/// Hardly anything is left for the history.
pub(super) fn tiny(lab: &Lab) -> Step<()> {
    let bench = lab.bench(&lab.folder("state")?)?;
    let world = World::new();
    for budget in [0, 1, 2, 17] {
        let mut talk = Talk::new(lab, &bench, &world, &format!("agent:main:tiny:{budget}"), AMPLE);
        for (at, turn) in turns(&mut lab.random(), 6).iter().enumerate() {
            talk.budget = if at < 3 { AMPLE } else { budget };
            talk.turn(turn)?;
        }
        compacting::ask(&talk, 500)?;
        talk.turn(&vec![user("And?"), answer("Well.")])?;
    }
    Ok(bench.dispose()?)
}

/// Megabytes in one entry, one line or many, and a storm of tools.
pub(super) fn huge(lab: &Lab) -> Step<()> {
    let bench = lab.bench(&lab.folder("state")?)?;
    let world = World::new();
    let mut talk = Talk::new(lab, &bench, &world, "agent:main:huge", 20_000);
    let ids: Vec<String> = (0..60).map(|at| format!("storm_{at}")).collect();
    let mut storm: Turn = vec![user("All of it."), calls(&ids, &format!("{{\"text\": \"{}\"}}", "x".repeat(2_000)))];
    storm.extend(ids.iter().map(|id| result(id, &"row;".repeat(2_000))));
    storm.push(answer("Done."));
    // Eight rounds make two megabytes.
    let size = usize::try_from(lab.rounds().min(8)).unwrap_or(1) * 256 * 1024;
    let big: [Turn; 4] = [
        vec![user(&"The quick brown fox. ".repeat(size / 21)), answer("Long.")],
        vec![user("Again."), answer(&"段落。".repeat(size / 9))],
        vec![user(&"z".repeat(size)), answer("One word.")],
        storm,
    ];
    for turn in big.iter().chain(&turns(&mut lab.random(), 3)) {
        talk.turn(turn)?;
    }
    Ok(bench.dispose()?)
}

/// True for an error that costs the call and no more.
fn forgiven(failure: &HookFailure) -> bool {
    matches!(failure.kind, FailureKind::Service | FailureKind::Cancelled)
}

/// Batches fail during a commit, which comes again.
pub(super) fn store_faults(lab: &Lab) -> Step<()> {
    let mut random = lab.random();
    let script = turns(&mut random, 6);
    let there = lived(lab, "there", AMPLE, &script)?;
    for round in 0..lab.rounds().min(u32::try_from(script.len()).unwrap_or(1)) {
        let at = usize::try_from(round).unwrap_or(0);
        let bench = lab.bench(&lab.folder(&format!("round-{round}"))?)?;
        let world = World::new();
        let mut talk = Talk::new(lab, &bench, &world, KEY, AMPLE);
        if talk.fleeting {
            lab.skip(Check::StoreFaults, "the engine takes no durable turns");
            return Ok(());
        }
        for (number, turn) in script.iter().enumerate() {
            if number != at {
                talk.turn(turn)?;
                continue;
            }
            let first = turn.first().map_or(0, |said| talk.admit(said));
            talk.meet()?;
            talk.assemble()?;
            talk.append(turn.get(1..).unwrap_or_default());
            talk.session().fence = 0;
            world.faults.set(Some(Fault::Batch));
            let handed = talk.session().handed;
            let failed = talk.commit(talk.accepted(first));
            let met = world.faults.met();
            world.faults.calm();
            if met == 0 {
                // It writes nothing in a commit, so there is nothing to lose.
                failed?;
                continue;
            }
            let found = match failed {
                Ok(Some(CommitStatus::Committed)) => "it said `committed`, and its batch had failed".to_owned(),
                Ok(Some(CommitStatus::Duplicate)) => "it said `duplicate` of a turn whose batch failed".to_owned(),
                Ok(None) => String::new(),
                Err(failure) if forgiven(&failure) => String::new(),
                Err(failure) if failure.kind == FailureKind::Error => {
                    format!("the error of the store lost its token on the way: {}", failure.reason)
                }
                Err(failure) => return Err(failure.into()),
            };
            if !found.is_empty() {
                return Err(Finding::new(Check::StoreFaults, found));
            }
            talk.session().handed = handed;
            talk.commit(talk.accepted(first))?;
        }
        let shown = talk.look(QUESTION)?;
        bench.dispose()?;
        let what = format!("when the batch of turn {} failed first, another prompt is shown later", at + 1);
        same(Check::StoreFaults, &what, &there, &shown)?;
    }
    Ok(())
}

/// Other services fail, each in turn, in every hook of a turn and in a compaction.
pub(super) fn service_faults(lab: &Lab) -> Step<()> {
    let script = turns(&mut lab.random(), 40);
    let own = |what: &str, failure: HookFailure| match failure.kind {
        FailureKind::Error => Finding::new(
            Check::ServiceFaults,
            format!("{what}: {} lost the token of the service's error: {}", failure.hook, failure.reason),
        ),
        FailureKind::Service => Finding::new(Check::ServiceFaults, format!("{what}: {failure}")),
        _ => Finding::from(failure),
    };
    for fault in [Fault::Llm, Fault::Tokens, Fault::Compaction, Fault::StoreRead, Fault::Expired] {
        let what = format!("{fault:?}").to_lowercase();
        let bench = lab.bench(&lab.folder(&what)?)?;
        let world = World::new();
        let mut talk = Talk::new(lab, &bench, &world, KEY, TIGHT);
        for turn in script.iter().take(8) {
            talk.turn(turn)?;
        }
        world.faults.set(Some(fault));
        let tried = [
            talk.call(|segment| segment.bootstrap().map(drop)),
            look(&mut talk),
            forced(&talk),
            talk.call(|segment| segment.maintain(engine_abi::wire::trigger::TURN, false).map(drop)),
        ];
        world.faults.calm();
        for failure in tried.into_iter().filter_map(Result::err) {
            if !forgiven(&failure) && failure.kind != FailureKind::Quarantined {
                return Err(own(&what, failure));
            }
        }
        // It is as it was once the service is back.
        talk.look(QUESTION)?;
        bench.dispose()?;
    }
    reset(lab, &script)
}

fn look(talk: &mut Talk<'_>) -> Result<(), HookFailure> {
    let (view, len) = talk.session().view(&talk.world.counter);
    let input = crate::slot::AssembleInput {
        view,
        len,
        prompt: None,
        system_tokens: 0,
        available_tools: Vec::new(),
        model: None,
        citations_mode: 0,
    };
    talk.call(move |segment| segment.assemble(&input).map(drop))
}

fn forced(talk: &Talk<'_>) -> Result<(), HookFailure> {
    let (view, len) = talk.session().view(&talk.world.counter);
    let args = compacting::args(view, len, talk.budget, 5_000);
    talk.call(move |segment| segment.compact(&args).map(drop))
}

/// The transcript is rewritten while the engine reads it.
fn reset(lab: &Lab, script: &[Turn]) -> Step<()> {
    let mut prompts = Vec::new();
    for fault in [None, Some(Fault::Reset)] {
        let bench = lab.bench(&lab.folder(if fault.is_some() { "reset" } else { "whole" })?)?;
        let world = World::new();
        let mut talk = Talk::new(lab, &bench, &world, KEY, AMPLE);
        if talk.fleeting {
            return Ok(());
        }
        script.iter().for_each(|turn| talk.pass(turn));
        world.faults.set(fault);
        let shown = talk.look(QUESTION);
        world.faults.calm();
        match shown {
            Ok(shown) => prompts.push(shown),
            Err(finding) if fault.is_some() && finding.check == Check::HookErrors => {
                // It may fail once, and begins again when it meets the session the next time.
                prompts.push(talk.with(&bench).look(QUESTION)?);
                if let Some(id) = prompts.last_mut().and_then(|shown| shown.pieces.last_mut()?.id.as_mut()) {
                    *id -= 1;
                }
            }
            Err(finding) => return Err(finding),
        }
        bench.dispose()?;
    }
    match prompts.as_slice() {
        [whole, reset] => {
            same(Check::ServiceFaults, "after a cursor that was reset it shows another prompt", whole, reset)
        }
        _ => Ok(()),
    }
}
