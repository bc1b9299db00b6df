//! Hooks that do not come back: the session is free, the late call changes nothing, the engine is out.

use super::fake::*;
use super::scene::*;
use crate::slot::*;
use engine_abi::wire::{status, *};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

/// Waits for what another thread does soon.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..2_000 {
        if holds() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("never: {what}");
}

fn fake_status(slot: &Slot) -> EngineStatus {
    slot.status().engines.into_iter().find(|engine| engine.id == "fake").unwrap()
}

async fn assemble(lease: &Lease) -> Result<AssembleOutput, HookFailure> {
    let input = conversation();
    lease.engine().segment(context(), move |segment| segment.assemble(&input)).await.and_then(|inner| inner)
}

/// A hook that sleeps until it is released, and then pushes and asks.
struct Sleeper {
    fake: Fake,
    entered: mpsc::Receiver<()>,
    release: mpsc::Sender<()>,
    answers: mpsc::Receiver<[u32; 4]>,
}

fn sleeper(hook: Hook) -> Sleeper {
    let (release, gate) = mpsc::channel::<()>();
    let (tell, answers) = mpsc::channel();
    let (enter, entered) = mpsc::channel();
    let (gate, tell, enter) = (Mutex::new(gate), Mutex::new(tell), Mutex::new(enter));
    let sleeps = move |called: &Called<'_>| {
        let _ = enter.lock().unwrap().send(());
        let _ = gate.lock().unwrap().recv();
        let late = [
            called.span(10, 40),
            called.assembled(),
            called.store_get().0,
            (called.sink().fail)(called.call.frame, Str::new("late"), 0),
        ];
        let _ = tell.lock().unwrap().send(late);
        status::OK
    };
    Sleeper { fake: Fake::new().on(hook, sleeps), entered, release, answers }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sleeping_hook_is_abandoned_the_session_is_free_and_its_late_calls_change_nothing() {
    let Sleeper { fake, release, answers, .. } = sleeper(Hook::Assemble);
    let (bench, _) = hurried(fake, Hook::Assemble);
    let mut lease = lease(&bench.slot);
    let failure = assemble(&lease).await.unwrap_err();
    assert_eq!(
        (failure.kind, failure.code, failure.quarantined),
        (FailureKind::Deadline, DegradedCode::Deadline, true)
    );
    lease.fail(&failure).unwrap();
    assert!(assemble(&lease).await.is_ok(), "the session is free: legacy serves the same turn");
    let later = super::scene::lease(&bench.slot).degraded().unwrap();
    assert_eq!(later.code, DegradedCode::EngineQuarantined, "later turns find it quarantined");
    assert_eq!(bench.slot.abandoned(), 1);
    let status = fake_status(&bench.slot);
    assert_eq!((status.abandoned, status.abandoned_live), (1, 1));
    assert!(status.quarantine.unwrap().hint.contains("assemble_ms"));

    release.send(()).unwrap();
    assert_eq!(answers.recv().unwrap(), [status::EXPIRED; 4]);
    eventually("the abandoned call comes back", || fake_status(&bench.slot).abandoned_live == 0);
    let status = fake_status(&bench.slot);
    assert_eq!((status.late_pushes, status.late_service_calls), (3, 1));
    assert_eq!(status.abandoned, 1, "it counts for the end of the process, however late it returned");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spinning_hook_is_told_to_stop_and_abandoned_when_it_does_not() {
    let told = Arc::new(AtomicBool::new(false));
    let end = Arc::new(AtomicBool::new(false));
    let (saw, stop) = (Arc::clone(&told), Arc::clone(&end));
    let spins = move |called: &Called<'_>| {
        while !stop.load(Ordering::Relaxed) {
            if called.cancelled() {
                saw.store(true, Ordering::Relaxed);
            }
            std::hint::spin_loop();
        }
        status::OK
    };
    let (bench, _) = hurried(Fake::new().on(Hook::Assemble, spins), Hook::Assemble);
    let failure = assemble(&lease(&bench.slot)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Deadline);
    assert!(told.load(Ordering::Relaxed), "the cancel signal was raised at the deadline");
    end.store(true, Ordering::Relaxed);
    eventually("it comes back", || fake_status(&bench.slot).abandoned_live == 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_heeds_the_signal_at_its_deadline_keeps_its_thread_but_not_its_engine() {
    let heeds = |called: &Called<'_>| {
        while !called.cancelled() {
            std::thread::yield_now();
        }
        called.fail("out of time", 0);
        status::CANCELLED
    };
    let (bench, _) = hurried(Fake::new().on(Hook::Assemble, heeds), Hook::Assemble);
    let failure = assemble(&lease(&bench.slot)).await.unwrap_err();
    assert_eq!((failure.kind, failure.quarantined), (FailureKind::Deadline, true));
    assert_eq!(bench.slot.abandoned(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_with_an_abandoned_call_inside_is_never_disposed() {
    let Sleeper { fake, release, .. } = sleeper(Hook::Assemble);
    let (bench, fake) = hurried(fake, Hook::Assemble);
    assemble(&lease(&bench.slot)).await.unwrap_err();
    assert!(!bench.slot.dispose_all(Duration::from_secs(60)), "the process must end without destructors");
    assert_eq!(fake.disposed.load(Ordering::SeqCst), 0);
    release.send(()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dispose_that_hangs_does_not_hold_up_the_end() {
    let Sleeper { fake, release, .. } = sleeper(Hook::Dispose);
    let (bench, _) = serving(fake);
    assert!(!bench.slot.dispose_all(Duration::from_millis(SHORT)));
    assert_eq!(bench.slot.abandoned(), 1);
    release.send(()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_factory_that_hangs_does_not_hold_up_the_start() {
    let Sleeper { fake, release, .. } = sleeper(Hook::Factory);
    let (bench, _) = hurried(fake, Hook::Factory);
    assert_eq!(lease(&bench.slot).engine().id(), "legacy");
    let record = fake_status(&bench.slot).quarantine.unwrap();
    assert_eq!((record.at.as_str(), record.code), ("factory", DegradedCode::EngineRefused));
    release.send(()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_deadline_after_a_long_one_in_the_same_segment_is_seen() {
    let Sleeper { fake, release, .. } = sleeper(Hook::Assemble);
    let (bench, _) = hurried(fake, Hook::Assemble);
    let input = conversation();
    let work = move |segment: &mut Segment| segment.bootstrap().and_then(|_| segment.assemble(&input));
    let failure = lease(&bench.slot).engine().segment(context(), work).await.unwrap_err();
    assert_eq!((failure.kind, failure.hook), (FailureKind::Deadline, Hook::Assemble));
    release.send(()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_caps_of_a_segment_shortens_its_deadlines() {
    let Sleeper { fake, release, .. } = sleeper(Hook::Assemble);
    let (bench, _) = serving(fake);
    let context = SegmentContext { deadline: Some(Duration::from_millis(SHORT)), ..context() };
    let input = conversation();
    let failure = lease(&bench.slot).engine().segment(context, move |s| s.assemble(&input)).await.unwrap_err();
    assert!(failure.reason.contains(&format!("{SHORT} ms")), "{failure}");
    release.send(()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_segment_whose_caller_is_gone_stays_watched() {
    let Sleeper { fake, entered, release, .. } = sleeper(Hook::Assemble);
    let (bench, _) = hurried(fake, Hook::Assemble);
    let lease = lease(&bench.slot);
    let task = tokio::spawn(async move { assemble(&lease).await.is_err() });
    entered.recv().unwrap();
    task.abort();
    eventually("the hook is abandoned", || bench.slot.abandoned() == 1);
    assert!(fake_status(&bench.slot).quarantine.is_some());
    release.send(()).unwrap();
}

#[test]
fn a_runtime_that_ends_takes_its_watches_with_it() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let Sleeper { fake, entered, release, .. } = sleeper(Hook::Assemble);
    let (bench, _) = {
        let _inside = runtime.enter();
        serving(fake)
    };
    let lease = lease(&bench.slot);
    runtime.spawn(async move { assemble(&lease).await.is_err() });
    entered.recv().unwrap();
    // The task is dropped while it waits; what it leaves behind is dropped at once, too, and that is the end of it.
    runtime.shutdown_timeout(Duration::from_secs(60));
    assert_eq!(bench.slot.abandoned(), 0);
    release.send(()).unwrap();
}

#[test]
fn a_blocking_caller_is_freed_as_well() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let Sleeper { fake, release, .. } = sleeper(Hook::Assemble);
    let (bench, _) = {
        let _inside = runtime.enter();
        hurried(fake, Hook::Assemble)
    };
    let input = conversation();
    let failure = lease(&bench.slot).engine().segment_blocking(context(), move |s| s.assemble(&input)).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Deadline);
    release.send(()).unwrap();
}

/// A slot with three engines of which each hangs in `assemble` until the sender is dropped, and a cap of two threads.
fn hanging_three() -> (Bench, mpsc::Sender<()>) {
    let (release, gate) = mpsc::channel::<()>();
    let gate = Arc::new(Mutex::new(gate));
    let bench = bench(&["one", "two", "three"], |config| {
        config.plugins.abandoned_threads_max = 2;
        config.plugins.deadlines.insert(Hook::Assemble.key().into(), SHORT);
    });
    for id in ["one", "two", "three"] {
        let gate = Arc::clone(&gate);
        let hangs = move |_: &Called<'_>| {
            let _ = gate.lock().unwrap().recv();
            status::OK
        };
        let (_, factory) = Fake { id, ..Fake::new() }.on(Hook::Assemble, hangs).factory();
        bench.slot.register("plug", id, factory, "{}").unwrap();
    }
    bench.slot.start(&none());
    (bench, release)
}

#[tokio::test(flavor = "multi_thread")]
async fn past_the_cap_of_lost_threads_no_engine_is_called_and_legacy_serves_until_they_come_back() {
    let (bench, release) = hanging_three();
    for id in ["one", "two"] {
        assert_eq!(bench.slot.abandoned_threads().restart, None);
        let lease = lease(&bench.slot);
        assert_eq!(lease.engine().id(), id);
        assert!(assemble(&lease).await.is_err());
    }
    let status = bench.slot.abandoned_threads();
    assert_eq!((status.live, status.most), (2, 2));
    assert!(status.restart.is_some());

    let lease = lease(&bench.slot);
    assert_eq!(lease.engine().id(), "legacy", "the third is well and is not called all the same");
    let three = lease.passed().iter().find(|passed| passed.engine == "three").unwrap();
    assert_eq!(three.code, DegradedCode::ThreadsAbandoned);
    assert!(three.reason.contains("restart"), "{}", three.reason);
    assert!(assemble(&lease).await.is_ok(), "the gateway goes on serving");
    let row = bench.slot.status().engines.into_iter().find(|engine| engine.id == "three").unwrap();
    assert!(row.quarantine.is_none(), "it is not its fault");
    drop(release);
    eventually("the threads come back", || bench.slot.abandoned_threads().live == 0);
    assert_eq!(super::scene::lease(&bench.slot).engine().id(), "three");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_is_kept_for_longer_than_its_call_leads_nowhere() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keeps = Arc::clone(&kept);
    let assembles = move |called: &Called<'_>| {
        keeps.lock().unwrap().push((called.call.frame.addr(), called.call.sink.addr(), called.call.host.addr()));
        called.assembled()
    };
    let (bench, _) = serving(Fake::new().on(Hook::Assemble, assembles));
    for _ in 0..3 {
        assert!(assemble(&lease(&bench.slot)).await.is_ok());
    }
    let kept = kept.lock().unwrap().clone();
    assert_eq!(
        kept.iter().map(|(frame, ..)| frame).collect::<std::collections::BTreeSet<_>>().len(),
        3,
        "never the same"
    );
    for (frame, sink, host) in kept {
        let frame = std::ptr::without_provenance::<FrameV1>(frame);
        // The segment's thread may still hold it for a moment.
        let (sink, host) = (sink as *const SinkV1, host as *const HostV1);
        // SAFETY: the host's sinks and tables live for ever.
        let (sink, host_table) = unsafe { (&*sink, &*host) };
        eventually("the frame is gone", || (sink.fail)(frame, Str::new("late"), 0) == status::INVALID);
        assert_eq!((host_table.last_error)(frame, std::ptr::null_mut()), 0);
        (host_table.log)(host, frame, log_level::INFO, Str::new("late"), Str::new("a line of nobody"));
    }
    assert_eq!(fake_status(&bench.slot).late_service_calls, 0);
}
