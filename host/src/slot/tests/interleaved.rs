//! The room's promises under many interleavings of its threads: the real code, on the primitives of [`crate::sync`].

use super::fake::*;
use super::scene::*;
use crate::slot::abandoned::Abandoned;
use crate::slot::call::frame::{Frame, Tick};
use crate::slot::call::host_table::HostTable;
use crate::slot::core::{Deadlines, EngineCore, Factory, Registered};
use crate::slot::instance::InstanceKey;
use crate::slot::latch::{Latch, Quarantine};
use crate::slot::pool::Pool;
use crate::slot::*;
use crate::sync::{explore, mpsc, point, thread};
use engine_abi::wire::status;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// An engine with deadlines that no scene waits for. Its instances keep no state, so one folder is enough for all scenes.
pub fn core(id: &str, fake: Fake, instances: usize, folder: &Path) -> Arc<EngineCore> {
    let registered = Registered {
        id: id.to_owned(),
        owner: "plug".into(),
        factory: Factory::Engine(fake.factory().1),
        config_json: "{}".into(),
        grants: Vec::new(),
        host: HostTable::leak("plug", &[], false),
        core: id == LEGACY,
        instances,
        abandoned: Arc::new(Abandoned::new(usize::MAX)),
    };
    let configured: BTreeMap<String, u64> = Hook::ALL.iter().map(|hook| (hook.key().to_owned(), 3_600_000)).collect();
    let deadlines = Deadlines::new(&configured, Duration::from_secs(3600));
    EngineCore::new(registered, &deadlines, folder, None, Box::new(|_| "legacy".into()))
}

pub fn engine(core: &Arc<EngineCore>, agent: &str) -> EngineRef {
    let key = InstanceKey { agent: agent.to_owned(), workspace: None };
    EngineRef::new(Arc::clone(core), key, Arc::default())
}

fn record(reason: usize) -> Quarantine {
    Quarantine {
        kind: crate::plugins::Kind::Engine,
        engine: "e".into(),
        owner: "p".into(),
        at: "assemble".into(),
        code: DegradedCode::EngineQuarantined,
        diagnostic: "CE310",
        reason: reason.to_string(),
        causes: Vec::new(),
        when_ms: 0,
        hint: "restart".into(),
        serves: "legacy".into(),
    }
}

#[test]
fn the_first_failure_wins_whoever_comes_when() {
    explore(500, || {
        let latch = Arc::new(Latch::default());
        let threads: Vec<_> = (0..3)
            .map(|number| {
                let latch = Arc::clone(&latch);
                thread(move || {
                    let won = latch.set(record(number));
                    let first = latch.get().map(|record| record.reason.clone());
                    point();
                    let later = latch.get().map(|record| record.reason.clone());
                    assert!(first.is_some() && first == later, "what stands there once stands there for good");
                    assert_eq!(won, first == Some(number.to_string()), "who is told to be first is");
                    won
                })
            })
            .collect();
        let won = threads.into_iter().map(|thread| thread.join().unwrap()).filter(|won| *won).count();
        assert_eq!(won, 1, "exactly one is first");
    });
}

#[test]
fn a_lease_only_moves_down_while_engines_fail_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    explore(500, move || {
        let names = ["first", "second", "third", LEGACY];
        let cores: Vec<_> = names.iter().map(|id| core(id, Fake::new(), 4, &path)).collect();
        let mut lease = Lease::empty("first", false);
        cores.iter().for_each(|core| lease.push(engine(core, "main")));
        let failing: Vec<_> = cores[..3]
            .iter()
            .map(|core| {
                let core = Arc::clone(core);
                thread(move || drop(core.failed(Hook::Ingest, FailureKind::Error, "beside".into(), Vec::new())))
            })
            .collect();
        let turns: Vec<_> = (0..2)
            .map(|turn| {
                let (mut lease, cores) = (lease.clone(), cores.clone());
                thread(move || {
                    let place = |lease: &Lease| names.iter().position(|name| *name == lease.engine().id()).unwrap();
                    let mut at = place(&lease);
                    for step in 0..names.len() {
                        // What was out before the step began must not be what the lease moves to.
                        let out: Vec<bool> = cores.iter().map(|core| core.latch.get().is_some()).collect();
                        let moved = match (turn + step) % 3 {
                            0 => {
                                let failure =
                                    cores[at].failed(Hook::Assemble, FailureKind::Error, "here".into(), Vec::new());
                                lease.fail(&failure)
                            }
                            1 => lease.pass_over(DegradedCode::PendingCommit, "pending"),
                            _ => lease.serve_legacy(DegradedCode::FenceUnavailable, "no fence"),
                        };
                        let now = place(&lease);
                        match moved {
                            Ok(()) if now == at => assert_eq!(names[at], LEGACY, "only legacy stays, asked for legacy"),
                            Ok(()) => assert!(now > at && !out[now], "{now} after {at}, out: {out:?}"),
                            Err(_) => assert_eq!(now, at, "it stays where it is"),
                        }
                        assert!(lease.passed().len() <= now, "none is passed over twice");
                        at = now;
                    }
                })
            })
            .collect();
        failing.into_iter().chain(turns).for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn an_engine_that_is_known_to_be_out_gets_no_further_call() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    explore(150, move || {
        // Set by whoever was told that the engine is out; a call that is made after that must not come to its hook.
        let told = Arc::new(AtomicBool::new(false));
        let late = Arc::new(AtomicUsize::new(0));
        let begun = AtomicUsize::new(0);
        let fake = Fake::new().on(Hook::Assemble, move |called| {
            point();
            if begun.fetch_add(1, SeqCst) == 2 {
                return called.fail("the third", 0);
            }
            called.span(10, 40);
            point();
            called.assembled();
            status::OK
        });
        let core = core("fake", fake, 4, &path);
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let (engine, told, late) = (engine(&core, "main"), Arc::clone(&told), Arc::clone(&late));
                thread(move || {
                    for _ in 0..3 {
                        let (known, late, input) = (Arc::clone(&told), Arc::clone(&late), conversation());
                        let work = move |segment: &mut Segment| {
                            let known = known.load(SeqCst);
                            let result = segment.assemble(&input);
                            let called = !matches!(&result, Err(failure) if failure.kind == FailureKind::Quarantined);
                            late.fetch_add(usize::from(known && called), SeqCst);
                            result
                        };
                        let failed = engine.segment_blocking(context(), work).and_then(|inner| inner).err();
                        if failed.is_some_and(|failure| failure.quarantined) {
                            told.store(true, SeqCst);
                        }
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(told.load(SeqCst) && core.latch.get().is_some());
        assert_eq!(late.load(SeqCst), 0, "a hook was called although it was known that its engine is out");
    });
}

#[test]
fn an_instance_is_never_disposed_while_a_call_is_inside_and_never_entered_after() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    explore(150, move || {
        let wrong = Arc::new(AtomicUsize::new(0));
        let core = core("fake", Fake::new(), 1, &path);
        let threads: Vec<_> = (0..3)
            .map(|number: usize| {
                let (core, wrong) = (Arc::clone(&core), Arc::clone(&wrong));
                thread(move || {
                    for round in 0..2 {
                        let engine = engine(&core, &((number + round) % 2).to_string());
                        let wrong = Arc::clone(&wrong);
                        let work = move |segment: &mut Segment| {
                            let instance = Arc::clone(&segment.instance);
                            for _ in 0..2 {
                                let gone = instance.disposed.load(SeqCst) || instance.inside.load(SeqCst) == 0;
                                wrong.fetch_add(usize::from(gone), SeqCst);
                            }
                        };
                        engine.segment_blocking(context(), work).unwrap();
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(wrong.load(SeqCst), 0, "a call was inside of an instance that was disposed");
        assert!(core.instances.all().len() <= 2, "no more stay than may, but for those in use at the end");
    });
}

#[test]
fn a_call_is_either_given_up_or_it_returned_and_never_both() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    explore(1_000, move || {
        let core = core("fake", Fake::new(), 1, &path);
        let frame = Frame::new(Arc::clone(&core), none(), CancelFlag::new());
        let now = Instant::now();
        let (deadline, long_after) = (now + Duration::from_millis(1), now + Duration::from_secs(60));
        let calls = {
            let frame = Arc::clone(&frame);
            thread(move || {
                if !frame.start() {
                    return (false, 0, false);
                }
                let mut returned = 0;
                for _ in 0..2 {
                    if !frame.arm(Hook::Assemble, now, deadline) {
                        assert!(frame.abandoned(), "a call is refused only after one was given up");
                        return (true, returned, true);
                    }
                    point();
                    match frame.disarm() {
                        Some(_) => returned += 1,
                        None => assert!(frame.abandoned() && frame.expired(), "it was given up, for good"),
                    }
                }
                (true, returned, false)
            })
        };
        let (mut given_up, mut withdrawn) = (0, false);
        for _ in 0..4 {
            match frame.tick(long_after, long_after, Duration::from_millis(1)) {
                Tick::Wait(_) => {}
                Tick::Abandoned(hook, _) => {
                    assert_eq!(hook, Hook::Assemble);
                    given_up += 1;
                }
                Tick::Withdrawn => withdrawn = true,
            }
        }
        let (started, returned, refused) = calls.join().unwrap();
        let ends = (started, withdrawn, returned, given_up, refused);
        let possible = [
            (false, true, 0, 0, false),
            (true, false, 2, 0, false),
            (true, false, 1, 1, false),
            (true, false, 0, 1, true),
        ];
        assert!(possible.contains(&ends), "{ends:?}");
    });
}

#[test]
fn all_work_of_a_pool_is_done_once_whatever_its_threads_do() {
    explore(300, || {
        let pool = Pool::new("busy");
        let (done, ends) = mpsc::channel();
        let done = Arc::new(done);
        let threads: Vec<_> = (0..2)
            .map(|giver: usize| {
                let (pool, done) = (pool.clone(), Arc::clone(&done));
                thread(move || {
                    for number in 0..3 {
                        let done = Arc::clone(&done);
                        pool.submit(move || {
                            point();
                            done.send(giver * 3 + number).unwrap();
                        })
                        .unwrap();
                    }
                    pool.give_up();
                    pool.came_back();
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let mut all: Vec<usize> = (0..6).map(|_| ends.recv_timeout(Duration::ZERO).unwrap()).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3, 4, 5]);
        // Its threads are idle now, or on their way there: they must be woken.
        for number in 0..3 {
            let done = Arc::clone(&done);
            pool.submit(move || done.send(number).unwrap()).unwrap();
            assert_eq!(ends.recv_timeout(Duration::ZERO), Ok(number));
        }
    });
}
