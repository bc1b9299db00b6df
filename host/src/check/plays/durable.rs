//! Restarts, absence, kills, edits and ends.

use super::script::{answer, turns, user};
use super::talk::{AMPLE, KEY, QUESTION, Shown, TIGHT, Talk, lived, same};
use super::{Lab, Step, file_with};
use crate::check::blame::Finding;
use crate::check::catalogue::Check;
use crate::check::world::World;
use crate::slot::{FailureKind, Single};
use engine_abi::wire::session_end;
use rustix::process::{Pid, Signal, kill_process};

/// A word that is said nowhere else.
const MARK: &str = "xylotomography";

/// True when the engine takes no durable turns, which is told of the check.
fn passed_over(lab: &Lab, bench: &Single, check: Check) -> bool {
    let durable = bench.engine().durable();
    if !durable {
        lab.skip(check, "the engine takes no durable turns");
    }
    !durable
}

/// Disposed and started anew, over the same store and the same files.
pub(super) fn restart(lab: &Lab) -> Step<()> {
    let folder = lab.folder("state")?;
    let bench = lab.bench(&folder)?;
    if let Some(found) = bench.engine().not_durable() {
        lab.found(Finding::new(Check::Durable, format!("no stored session is ever served by it: {found}")));
        lab.skip(Check::Restart, "the engine takes no durable turns");
        return Ok(());
    }
    for budget in [AMPLE, TIGHT] {
        let bench = lab.bench(&folder)?;
        let world = World::new();
        let mut talk = Talk::new(lab, &bench, &world, &format!("{KEY}:{budget}"), budget);
        for turn in turns(&mut lab.random(), 10) {
            talk.turn(&turn)?;
        }
        let before = talk.look(QUESTION)?;
        bench.dispose()?;
        let again = lab.bench(&folder)?;
        let after = talk.with(&again).look(QUESTION)?;
        again.dispose()?;
        same(Check::Restart, "before and after a restart it shows different prompts", &before, &renumbered(after, 1))?;
    }
    Ok(bench.dispose()?)
}

/// The question was asked once more: its entry has a later id.
fn renumbered(mut shown: Shown, by: u64) -> Shown {
    if let Some(id) = shown.pieces.last_mut().and_then(|piece| piece.id.as_mut()) {
        *id -= by;
    }
    shown
}

/// A session that no engine was told of, met for the first time.
pub(super) fn catch_up(lab: &Lab) -> Step<()> {
    let script = turns(&mut lab.random(), 40);
    for (budget, name) in [(AMPLE, "ample"), (TIGHT, "tight")] {
        let bench = lab.bench(&lab.folder(name)?)?;
        if passed_over(lab, &bench, Check::CatchUp) {
            return Ok(());
        }
        let world = World::new();
        let mut talk = Talk::new(lab, &bench, &world, KEY, budget);
        script.iter().for_each(|turn| talk.pass(turn));
        let absent = talk.look(QUESTION)?;
        bench.dispose()?;
        let there = lived(lab, &format!("{name}-there"), budget, &script)?;
        same(Check::CatchUp, "there all the time and caught up, it shows different prompts", &there, &absent)?;
    }
    Ok(())
}

/// Another engine serves in between; twice.
pub(super) fn switch(lab: &Lab) -> Step<()> {
    let script = turns(&mut lab.random(), 18);
    let bench = lab.bench(&lab.folder("state")?)?;
    if passed_over(lab, &bench, Check::Switch) {
        return Ok(());
    }
    let world = World::new();
    for (number, part) in script.chunks(3).enumerate() {
        let mut talk = Talk::new(lab, &bench, &world, KEY, AMPLE);
        match number % 2 {
            0 => part.iter().try_for_each(|turn| talk.turn(turn).map(drop))?,
            _ => part.iter().for_each(|turn| talk.pass(turn)),
        }
    }
    let switched = Talk::new(lab, &bench, &world, KEY, AMPLE).look(QUESTION)?;
    bench.dispose()?;
    let there = lived(lab, "there", AMPLE, &script)?;
    same(
        Check::Switch,
        "there all the time and back after others served, it shows different prompts",
        &there,
        &switched,
    )
}

/// Its process is killed at a service call of a commit, and at one of the bootstrap after it; what was not settled comes again.
pub(super) fn kill(lab: &Lab) -> Step<()> {
    let mut random = lab.random();
    let script = turns(&mut random, 8);
    let there = {
        let bench = lab.bench(&lab.folder("there")?)?;
        if passed_over(lab, &bench, Check::Kill) {
            return Ok(());
        }
        bench.dispose()?;
        lived(lab, "there", AMPLE, &script)?
    };
    for round in 0..lab.rounds() {
        let folder = lab.folder(&format!("round-{round}"))?;
        let world = World::new();
        let mut bench = lab.bench(&folder)?;
        let at = random.usize(..script.len() - 1);
        let (calls, after) = (random.u64(..4), random.bool());
        for (number, turn) in script.iter().enumerate() {
            let mut talk = Talk::new(lab, &bench, &world, KEY, AMPLE);
            if number != at {
                // The one behind it is served by another engine, below.
                if number != at + 1 {
                    talk.turn(turn)?;
                }
                continue;
            }
            // The turn itself is not what is looked at.
            let first = turn.first().map_or(0, |said| talk.admit(said));
            talk.meet()?;
            talk.assemble()?;
            talk.append(turn.get(1..).unwrap_or_default());
            talk.session().fence = 0;
            let pid = bench.process();
            world.faults.at(calls, after, move || end(pid));
            let first_try = talk.commit(talk.accepted(first));
            world.faults.calm();
            match first_try {
                Err(failure) if failure.kind != FailureKind::Crashed => return Err(failure.into()),
                // Fewer calls than that were made: it goes between two hooks.
                Ok(_) => end(pid),
                Err(_) => {}
            }
            let settled = first_try.is_ok();
            drop(talk);
            bench = lab.bench(&folder)?;
            let mut talk = Talk::new(lab, &bench, &world, KEY, AMPLE);
            if !settled {
                // The outbox comes before anything else.
                talk.commit(talk.accepted(first))?;
            }
            // Once more, while it catches up with what another engine served meanwhile.
            script.get(at + 1).into_iter().for_each(|turn| talk.pass(turn));
            let pid = bench.process();
            world.faults.at(random.u64(..4), random.bool(), move || end(pid));
            let met = talk.meet();
            world.faults.calm();
            match met {
                Err(failure) if failure.kind != FailureKind::Crashed => return Err(failure.into()),
                Err(_) => bench = lab.bench(&folder)?,
                Ok(()) => {}
            }
        }
        let shown = Talk::new(lab, &bench, &world, KEY, AMPLE).look(QUESTION)?;
        bench.dispose()?;
        let place = if after { "after" } else { "before" };
        let what = format!(
            "killed {place} service call {} of the commit of turn {}, it shows another prompt",
            calls + 1,
            at + 1
        );
        same(Check::Kill, &what, &there, &shown)?;
    }
    Ok(())
}

fn end(pid: Option<u32>) {
    if let Some(pid) = pid.and_then(|pid| Pid::from_raw(pid.cast_signed())) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// The client goes back and says something else.
pub(super) fn branch(lab: &Lab) -> Step<()> {
    let bench = lab.bench(&lab.folder("state")?)?;
    let world = World::new();
    let mut talk = Talk::new(lab, &bench, &world, KEY, AMPLE);
    let script = turns(&mut lab.random(), 8);
    for turn in script.iter().take(4) {
        talk.turn(turn)?;
    }
    let keep = talk.session().branch.head();
    talk.turn(&vec![user(&format!("Forget it: {MARK}.")), answer(&format!("Never {MARK}."))])?;
    talk.session().edit(keep);
    for turn in script.iter().skip(4) {
        if talk.turn(turn)?.holds(MARK) {
            return Err(Finding::new(Check::Branch, "words of a branch that was left are shown"));
        }
    }
    Ok(bench.dispose()?)
}

/// A session ends, and another begins under its key.
pub(super) fn deleted(lab: &Lab) -> Step<()> {
    let folder = lab.folder("state")?;
    let world = World::new();
    for (reason, name) in [(session_end::DELETED, "deleted"), (session_end::RESET, "reset")] {
        let bench = lab.bench(&folder)?;
        let mut talk = Talk::new(lab, &bench, &world, KEY, AMPLE);
        talk.turn(&vec![user(&format!("Our word is {MARK}.")), answer(&format!("{MARK}, understood."))])?;
        for turn in turns(&mut lab.random(), 3) {
            talk.turn(&turn)?;
        }
        talk.end(reason)?;
        world.delete(KEY);
        let mut next = Talk::new(lab, &bench, &world, KEY, AMPLE);
        if next.turn(&vec![user("What is our word?"), answer("I do not know.")])?.holds(MARK) {
            let found = format!("words of a session that was {name} are shown in the next one");
            return Err(Finding::new(Check::Deleted, found));
        }
        next.end(reason)?;
        world.delete(KEY);
        bench.dispose()?;
        if let Some(place) = world.find(MARK.as_bytes()) {
            return Err(Finding::new(Check::Deleted, format!("words of a session that was {name} stand in {place}")));
        }
        if let Some(file) = file_with(&folder, MARK.as_bytes()) {
            let file = file.strip_prefix(&folder).unwrap_or(&file).display().to_string();
            let found = format!("words of a session that was {name} stand in the file {file}");
            return Err(Finding::new(Check::Deleted, found));
        }
    }
    Ok(())
}
