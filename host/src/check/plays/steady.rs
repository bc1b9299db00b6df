//! The same again, many at once, long ones, and ends.

use super::compacting;
use super::script::{answer, turns, user};
use super::talk::{AMPLE, Shown, TIGHT, Talk, same};
use super::{Lab, Step};
use crate::check::blame::Finding;
use crate::check::catalogue::Check;
use crate::check::world::{Fault, World};
use crate::slot::{Background, CancelFlag, CompactArgs, FailureKind, Hook, HookFailure, Segment};
use engine_abi::wire::trigger;
use std::time::{Duration, Instant};

/// Turns of a long session.
const LONG: usize = 200;
/// Calls between two looks at the process.
const CALLS: usize = 40;
/// Growth that counts, in KiB.
const GROWTH_KIB: u64 = 12 * 1024;
/// Threads that count.
const GROWTH_THREADS: u64 = 12;
/// How long a hook may go on that was told to stop.
const STOPS: Duration = Duration::from_millis(1_500);

/// Everything fits, so nothing at the head has to change.
pub(super) fn prefix(lab: &Lab) -> Step<()> {
    let bench = lab.bench(&lab.folder("state")?)?;
    let world = World::new();
    let mut talk = Talk::new(lab, &bench, &world, "agent:main:prefix", AMPLE);
    let mut last: Option<Shown> = None;
    let mut breaks = Vec::new();
    let script = turns(&mut lab.random(), 16);
    for (at, turn) in script.iter().enumerate() {
        let shown = talk.turn(turn)?;
        if let Some(last) = last.replace(shown.clone()) {
            let goes_on = shown.pieces.starts_with(&last.pieces) && shown.system == last.system;
            if !goes_on {
                let cut = Shown { pieces: shown.pieces.iter().take(last.pieces.len()).cloned().collect(), ..shown };
                breaks.push((at + 1, last.difference(&cut)));
            }
        }
    }
    if breaks.len() * 4 > script.len()
        && let Some((turn, how)) = breaks.first()
    {
        let how = how.clone().unwrap_or_default();
        let found = format!(
            "{} of {} prompts do not go on with the one before, first at turn {turn}: {how}",
            breaks.len(),
            script.len()
        );
        lab.found(Finding::new(Check::StablePrefix, found));
    }
    Ok(bench.dispose()?)
}

/// Two instances, one history.
pub(super) fn twice(lab: &Lab) -> Step<()> {
    let script = turns(&mut lab.random(), 14);
    let mut runs = Vec::new();
    for name in ["one", "two"] {
        let bench = lab.bench(&lab.folder(name)?)?;
        let world = World::new();
        let mut talk = Talk::new(lab, &bench, &world, "agent:main:twice", AMPLE);
        let mut prompts = Vec::new();
        for (at, turn) in script.iter().enumerate() {
            talk.budget = if at < 7 { AMPLE } else { TIGHT };
            prompts.push(talk.turn(turn)?);
        }
        bench.dispose()?;
        runs.push(prompts);
    }
    let pairs = runs.first().into_iter().flatten().zip(runs.last().into_iter().flatten());
    for (at, (one, two)) in pairs.enumerate() {
        let what = format!("at turn {} two instances show different prompts", at + 1);
        if let Err(finding) = same(Check::Deterministic, &what, one, two) {
            lab.found(finding);
            break;
        }
    }
    Ok(())
}

/// Sessions from many threads, each with a word of its own.
pub(super) fn crowd(lab: &Lab) -> Step<()> {
    let bench = lab.bench(&lab.folder("state")?)?;
    let world = World::new();
    let word = |thread: usize| format!("codeword{thread}x");
    let threads = 8;
    let one = |thread: usize| -> Step<()> {
        for number in 0..2 {
            let key = format!("agent:main:crowd:{thread}:{number}");
            let mut talk = Talk::new(lab, &bench, &world, &key, if number == 0 { AMPLE } else { TIGHT });
            for at in 0..5 {
                let said = user(&format!("Turn {at}: mine is {}, and nobody else's.", word(thread)));
                let shown = talk.turn(&vec![said, answer(&format!("Yes, {}.", word(thread)))])?;
                if let Some(other) = (0..threads).find(|other| *other != thread && shown.holds(&word(*other))) {
                    let found = format!("words of session {other} are shown in session {thread}");
                    return Err(Finding::new(Check::SessionsApart, found));
                }
                if !shown.holds(&word(thread)) {
                    return Err(Finding::new(Check::SessionsApart, "a session's own words are not shown"));
                }
            }
        }
        Ok(())
    };
    let found = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || one(thread))).collect();
        let lost = || Err(Finding::new(Check::SessionsApart, "a thread of the check was lost"));
        let all: Vec<Step<()>> = running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| lost())).collect();
        // The first that failed put the others out.
        let failed =
            |word: &str| all.iter().filter_map(|one| one.as_ref().err()).find(|one| !one.found.contains(word)).cloned();
        failed("it is out since").or_else(|| all.iter().find_map(|one| one.clone().err()))
    });
    match found {
        Some(finding) => Err(finding),
        None => Ok(bench.dispose()?),
    }
}

/// A long session is met, and asked about again and again.
pub(super) fn long(lab: &Lab) -> Step<()> {
    let bench = lab.bench(&lab.folder("state")?)?;
    let world = World::new();
    let mut talk = Talk::new(lab, &bench, &world, "agent:main:long", TIGHT);
    for turn in turns(&mut lab.random(), LONG) {
        talk.pass(&turn);
    }
    let mut seen = Vec::new();
    for _ in 0..3 {
        for _ in 0..CALLS {
            talk.look("And now?")?;
        }
        seen.push((lab.status(&bench, "VmRSS"), lab.status(&bench, "Threads")));
    }
    // The first part warms up what stays.
    if let [_, (Some(rss), Some(threads)), (Some(rss_after), Some(threads_after))] = seen.as_slice() {
        if rss_after.saturating_sub(*rss) > GROWTH_KIB {
            let found = format!("{CALLS} calls of assemble took {} KiB that they did not give back", rss_after - rss);
            lab.found(Finding::new(Check::Memory, found));
        }
        if threads_after.saturating_sub(*threads) > GROWTH_THREADS {
            let found = format!("{CALLS} calls of assemble left {} threads behind", threads_after - threads);
            lab.found(Finding::new(Check::Threads, found));
        }
    } else {
        lab.skip(Check::Memory, "this system does not tell how much memory a process uses");
        lab.skip(Check::Threads, "this system does not tell how many threads a process has");
    }
    Ok(bench.dispose()?)
}

type Told = fn(&mut Segment, &CompactArgs) -> Result<(), HookFailure>;

/// Hooks that may take long are told to stop, while the model takes its time.
pub(super) fn cancel(lab: &Lab) -> Step<()> {
    let hooks: [(Hook, Told); 3] = [
        (Hook::Maintain, |segment, _| segment.maintain(trigger::TURN, true).map(drop)),
        (Hook::Compact, |segment, args| segment.compact(args).map(drop)),
        (Hook::Bootstrap, |segment, _| segment.bootstrap().map(drop)),
    ];
    for (hook, told) in hooks {
        let bench = lab.bench(&lab.folder(hook.key())?)?;
        let world = World::new();
        let mut talk = Talk::new(lab, &bench, &world, "agent:main:cancel", TIGHT);
        if talk.fleeting && hook != Hook::Compact {
            continue;
        }
        for turn in turns(&mut lab.random(), 12) {
            match hook {
                Hook::Bootstrap => talk.pass(&turn),
                _ => drop(talk.turn(&turn)?),
            }
        }
        world.faults.set(Some(Fault::Slow));
        let (view, len) = talk.session().view(&world.counter);
        let args = compacting::args(view, len, TIGHT, 5_000);
        let mut context = talk.context();
        let flag = CancelFlag::new();
        context.cancel = flag.clone();
        if hook == Hook::Maintain {
            context.background =
                Some(Background { deadline: Duration::from_secs(8), give_way: Duration::from_secs(8) });
        }
        lab.doing(&format!("in {hook}, told to stop"));
        let began = Instant::now();
        let outcome = std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(Duration::from_millis(100));
                flag.cancel();
            });
            bench.engine().segment_blocking(context, move |segment| told(segment, &args)).and_then(|inner| inner)
        });
        let took = began.elapsed();
        world.faults.calm();
        let late = matches!(&outcome, Err(failure) if failure.kind == FailureKind::Deadline);
        if late || took > STOPS {
            let found =
                format!("{hook} went on for {} ms after it was told to stop", took.as_millis().saturating_sub(100));
            lab.found(Finding::new(Check::Cancel, found));
            return Ok(());
        }
        match outcome {
            Ok(()) => bench.dispose()?,
            // It ended with an error since it was told to stop: that is what was asked of it.
            Err(failure) if matches!(failure.kind, FailureKind::Cancelled | FailureKind::Service) => {}
            Err(failure) => return Err(failure.into()),
        }
    }
    Ok(())
}

/// The end of a process: sessions are known, turns are open, threads were busy.
pub(super) fn dispose(lab: &Lab) -> Step<()> {
    let bench = lab.bench(&lab.folder("state")?)?;
    let world = World::new();
    for number in 0..6 {
        let mut talk = Talk::new(lab, &bench, &world, &format!("agent:main:dispose:{number}"), AMPLE);
        for turn in turns(&mut lab.random(), 3) {
            talk.turn(&turn)?;
        }
        talk.admit(&user("This is never answered."));
        talk.assemble()?;
    }
    lab.doing("in dispose");
    let began = Instant::now();
    let disposed = bench.dispose();
    let took = began.elapsed();
    match disposed {
        Ok(()) if took < Duration::from_secs(5) => Ok(()),
        Ok(()) => Err(Finding::new(Check::Dispose, format!("dispose took {} ms", took.as_millis()))),
        Err(failure) if matches!(failure.kind, FailureKind::Deadline | FailureKind::Error) => {
            Err(Finding::new(Check::Dispose, failure.reason))
        }
        Err(failure) => Err(failure.into()),
    }
}
