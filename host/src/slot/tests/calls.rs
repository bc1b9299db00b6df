//! What a call gets, and what its failure does.

use super::fake::*;
use super::scene::*;
use crate::slot::*;
use engine_abi::wire::{status, *};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

async fn assemble(lease: &Lease) -> Result<AssembleOutput, HookFailure> {
    assemble_in(lease, context()).await
}

async fn assemble_in(lease: &Lease, context: SegmentContext) -> Result<AssembleOutput, HookFailure> {
    let input = conversation();
    lease.engine().segment(context, move |segment| segment.assemble(&input)).await.and_then(|inner| inner)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_quarantines_for_good_and_the_same_turn_goes_on_with_the_next() {
    let (bench, _) = serving(Fake::new().on(Hook::Assemble, |called| called.fail("no luck", 0)));
    let mut lease = lease(&bench.slot);
    assert_eq!(lease.engine().id(), "fake");
    let failure = assemble(&lease).await.unwrap_err();
    assert_eq!((failure.kind, failure.quarantined), (FailureKind::Error, true));
    assert_eq!(failure.reason, "no luck");
    lease.fail(&failure).unwrap();
    assert_eq!(lease.engine().id(), "legacy");
    assert!(assemble(&lease).await.is_ok());
    let degraded = lease.degraded().unwrap();
    assert_eq!((degraded.code, degraded.engine.as_str()), (DegradedCode::EngineQuarantined, "fake"));
    // Later turns do not ask it, and its first failure is what they are told.
    let later = super::scene::lease(&bench.slot);
    assert_eq!(later.engine().id(), "legacy");
    assert_eq!(later.degraded().unwrap().code, DegradedCode::EngineQuarantined);
    assert!(later.degraded().unwrap().reason.contains("no luck"));
    let record = bench.slot.status().engines.into_iter().find(|e| e.id == "fake").unwrap().quarantine.unwrap();
    assert_eq!((record.at.as_str(), record.serves.as_str(), record.owner.as_str()), ("assemble", "legacy", "plug"));
    assert!(record.when_ms > 0 && !record.hint.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guarded_panic_is_told_as_one() {
    let panics = |called: &Called<'_>| {
        called.fail("index out of bounds", 0);
        status::PANIC
    };
    let (bench, _) = serving(Fake::new().on(Hook::Assemble, panics));
    let failure = assemble(&lease(&bench.slot)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Panic);
    assert!(failure.reason.contains("index out of bounds"), "{failure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_that_the_sdk_words_is_said_once() {
    let panics = |called: &Called<'_>| {
        called.fail("panicked: out of bounds", 0);
        status::PANIC
    };
    let (bench, _) = serving(Fake::new().on(Hook::Assemble, panics));
    let failure = assemble(&lease(&bench.slot)).await.unwrap_err();
    assert_eq!(failure.reason, "it panicked: out of bounds");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_latch_is_read_before_every_call_also_in_the_middle_of_a_segment() {
    let (bench, _) = serving(Fake::new().on(Hook::Bootstrap, |called| called.fail("once", 0)));
    let lease = lease(&bench.slot);
    let input = conversation();
    let (first, second) = lease
        .engine()
        .segment(context(), move |segment| (segment.bootstrap(), segment.assemble(&input)))
        .await
        .unwrap();
    assert_eq!(first.unwrap_err().kind, FailureKind::Error);
    let second = second.unwrap_err();
    assert_eq!(second.kind, FailureKind::Quarantined);
    assert!(second.reason.contains("bootstrap") && second.reason.contains("once"), "{second}");
    assert_eq!(assemble(&lease).await.unwrap_err().kind, FailureKind::Quarantined, "and before the next segment");
}

#[tokio::test(flavor = "multi_thread")]
async fn compact_fails_closed_and_so_does_its_quarantine_for_everybody() {
    let (bench, _) = serving(Fake::new().on(Hook::Compact, |called| called.fail("full", 0)));
    let lease = lease(&bench.slot);
    let failure = lease.engine().segment(context(), |segment| segment.compact(&compact_args())).await.unwrap();
    let failure = failure.unwrap_err();
    assert!(failure.hook.fails_closed() && failure.quarantined);
    assert_eq!(super::scene::lease(&bench.slot).engine().id(), "legacy", "one latch for compaction and turns");
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_work_is_not_the_engines_fault() {
    let cancelled = CancelFlag::new();
    let flag = cancelled.clone();
    let stops = move |called: &Called<'_>| {
        flag.cancel();
        assert!(called.cancelled());
        called.fail("stopped as told", 0);
        status::CANCELLED
    };
    let (bench, _) = serving(Fake::new().on(Hook::Assemble, stops));
    let lease = lease(&bench.slot);
    let with_cancel = || SegmentContext { cancel: cancelled.clone(), ..context() };
    let failure = assemble_in(&lease, with_cancel()).await.unwrap_err();
    assert_eq!((failure.kind, failure.quarantined), (FailureKind::Cancelled, false));
    // A signal that is raised already prevents the call.
    let failure = assemble_in(&lease, with_cancel()).await.unwrap_err();
    assert_eq!((failure.kind, failure.quarantined), (FailureKind::Cancelled, false));
    assert!(lease.engine().in_service());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_that_is_raised_already_keeps_the_engine_from_being_entered() {
    let entered = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&entered);
    let (bench, _) = serving(Fake::new().on(Hook::Assemble, move |called| {
        counts.fetch_add(1, Ordering::SeqCst);
        called.assembled()
    }));
    let cancel = CancelFlag::new();
    cancel.cancel();
    let lease = lease(&bench.slot);
    let failure = assemble_in(&lease, SegmentContext { cancel, ..context() }).await.unwrap_err();
    assert_eq!((failure.kind, failure.quarantined), (FailureKind::Cancelled, false));
    assert_eq!(entered.load(Ordering::SeqCst), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_first_failure_nobody_enters_the_engine_again() {
    let entered = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&entered);
    let (bench, _) = serving(Fake::new().on(Hook::Bootstrap, move |called| {
        counts.fetch_add(1, Ordering::SeqCst);
        called.fail("no luck", 0)
    }));
    let before = lease(&bench.slot);
    for round in 0..4 {
        let outcome = before.engine().segment(context(), Segment::bootstrap).await;
        let failure = outcome.and_then(|inner| inner).unwrap_err();
        assert_eq!(failure.kind == FailureKind::Quarantined, round > 0, "{failure}");
    }
    assert_eq!(entered.load(Ordering::SeqCst), 1);
    // However many fail at once, one failure is on record and one engine serves instead.
    let leases: Vec<Lease> = (0..8).map(|_| lease(&bench.slot)).collect();
    assert!(leases.iter().all(|lease| lease.engine().id() == "legacy" && lease.degraded().is_some()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_without_a_prompt_gives_the_engine_none() {
    let saw = Arc::new(Mutex::new(None));
    let told = Arc::clone(&saw);
    let (bench, _) = serving(Fake::new().on(Hook::Assemble, move |called| {
        *told.lock().unwrap() = Some(called.assemble_args().prompt.is_null());
        called.assembled()
    }));
    let input = AssembleInput { prompt: None, ..conversation() };
    let lease = lease(&bench.slot);
    lease.engine().segment(context(), move |segment| segment.assemble(&input)).await.unwrap().unwrap();
    assert_eq!(*saw.lock().unwrap(), Some(true));
}

#[tokio::test(flavor = "multi_thread")]
async fn to_claim_a_cancellation_that_nobody_asked_for_is_a_failure() {
    let (bench, _) = serving(Fake::new().on(Hook::Assemble, |_| status::CANCELLED));
    let failure = assemble(&lease(&bench.slot)).await.unwrap_err();
    assert_eq!((failure.kind, failure.quarantined), (FailureKind::Error, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_accepts_nothing_sees_nothing_and_one_without_declaration_sees_all() {
    for (accepts, sees) in [(0, false), (host_params::ALL, true)] {
        let saw = Arc::new(Mutex::new(None));
        let told = Arc::clone(&saw);
        let looks = move |called: &Called<'_>| {
            let (session, args) = (called.session(), called.assemble_args());
            let (answer, _) = called.store_get();
            *told.lock().unwrap() = Some((
                !session.session_key.is_none(),
                !session.settings.is_null(),
                !args.prompt.is_null(),
                answer != status::REFUSED,
            ));
            called.assembled()
        };
        let mut fake = Fake::new().on(Hook::Assemble, looks);
        fake.accepts = accepts;
        let (bench, _) = serving(fake);
        assemble(&lease(&bench.slot)).await.unwrap();
        assert_eq!(*saw.lock().unwrap(), Some((sees, sees, sees, sees)), "accepts {accepts:#b}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn compact_sees_its_cancel_signal_even_if_it_declares_none() {
    let seen = Arc::new(AtomicU32::new(0));
    let cancel = CancelFlag::new();
    let (told, flag) = (Arc::clone(&seen), cancel.clone());
    let looks = move |called: &Called<'_>| {
        flag.cancel();
        told.store(u32::from(called.cancelled()), Ordering::SeqCst);
        compacted(called, 0)
    };
    let mut fake = Fake::new().on(Hook::Compact, looks);
    fake.accepts = 0;
    let (bench, _) = serving(fake);
    let context = SegmentContext { cancel, ..context() };
    let result = lease(&bench.slot).engine().segment(context, |s| s.compact(&compact_args())).await.unwrap();
    assert!(result.is_ok());
    assert_eq!(seen.load(Ordering::SeqCst), 1);
}

struct BrokenStore;

impl HostServices for BrokenStore {
    fn available(&self, _: &str) -> bool {
        true
    }

    fn store_get(&self, _: &CallScope<'_>, _: bool, _: &[u8]) -> Result<Option<Vec<u8>>, ServiceError> {
        Err(ServiceError::new(ServiceStatus::Failed, "the disk is full"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_error_that_is_handed_on_is_forgiven_twice_and_latches_the_third_time() {
    let hands_on = |called: &Called<'_>| {
        let (_, token) = called.store_get();
        called.fail("the disk is full", token)
    };
    let (bench, _) = serving(Fake::new().on(Hook::Assemble, hands_on));
    for _ in 0..2 {
        let failure = assemble_in(&lease(&bench.slot), context_with(Arc::new(BrokenStore))).await.unwrap_err();
        assert_eq!((failure.kind, failure.quarantined), (FailureKind::Service, false));
        assert_eq!(failure.code, DegradedCode::ServiceError);
    }
    let failure = assemble_in(&lease(&bench.slot), context_with(Arc::new(BrokenStore))).await.unwrap_err();
    assert_eq!((failure.kind, failure.quarantined), (FailureKind::Service, true));
    assert_eq!(lease(&bench.slot).engine().id(), "legacy");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_the_host_never_gave_excuses_nothing() {
    let (bench, _) = serving(Fake::new().on(Hook::Assemble, |called| called.fail("not me", 99_999_999)));
    let failure = assemble(&lease(&bench.slot)).await.unwrap_err();
    assert_eq!((failure.kind, failure.quarantined), (FailureKind::Error, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_whose_pointer_is_set_may_say_that_it_is_not_there() {
    let (bench, _) = serving(Fake::new().on(Hook::AfterTurn, |_| status::UNSUPPORTED));
    let engine = lease(&bench.slot).engine().clone();
    assert!(engine.has(Hook::AfterTurn));
    assert!(!engine.segment(context(), |s| s.after_turn(&[], 0, None)).await.unwrap().unwrap());
    assert!(!engine.has(Hook::AfterTurn), "and is not asked again");
    assert!(engine.in_service());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_required_hook_cannot_say_so() {
    let (bench, _) = serving(Fake::new().on(Hook::Assemble, |_| status::UNSUPPORTED));
    assert_eq!(assemble(&lease(&bench.slot)).await.unwrap_err().kind, FailureKind::InvalidResult);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_lent_on_demand_with_their_tool_calls_and_end_with_the_history() {
    let read = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&read);
    let reads = move |called: &Called<'_>| {
        for index in 0..6 {
            // SAFETY: an all-zero row is a valid place to be written to.
            let mut entry: EntryV1 = unsafe { std::mem::zeroed() };
            let answer = (called.call.entry)(called.call.frame, index, &raw mut entry);
            let seen =
                (answer == status::OK).then(|| (entry.head.id, text(entry.message.text), entry.message.tool_calls_len));
            told.lock().unwrap().push(seen);
        }
        called.assembled()
    };
    let (bench, _) = serving(Fake::new().on(Hook::Assemble, reads));
    assemble(&lease(&bench.slot)).await.unwrap();
    let read = read.lock().unwrap();
    assert_eq!(read[0], Some((10, "a".into(), 0)));
    assert_eq!(read[1], Some((20, String::new(), 1)));
    assert_eq!(read[3], Some((40, "b".into(), 0)));
    assert_eq!(&read[4..], [None, None], "the current turn is not part of the history");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_instance_serves_an_agent_and_another_agent_has_its_own() {
    let (bench, fake) = serving(Fake::new());
    for agent in ["main", "support", "support", "main"] {
        let lease = bench.slot.lease(&LeaseRequest::turn(agent, true)).unwrap();
        assemble(&lease).await.unwrap();
    }
    assert_eq!(fake.created.load(Ordering::SeqCst), 2);
    assert!(bench.slot.dispose_all(std::time::Duration::from_secs(60)));
    assert_eq!(fake.disposed.load(Ordering::SeqCst), 2);
    let after = assemble(&lease(&bench.slot)).await.unwrap_err();
    assert_eq!((after.kind, after.quarantined), (FailureKind::Busy, false), "no call follows dispose");
}

#[tokio::test(flavor = "multi_thread")]
async fn hooks_of_a_segment_share_one_thread_named_after_the_engine() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = |seen: &Arc<Mutex<Vec<_>>>| {
        let seen = Arc::clone(seen);
        move || seen.lock().unwrap().push(std::thread::current().name().map(str::to_owned))
    };
    let (first, second) = (note(&seen), note(&seen));
    let fake = Fake::new()
        .on(Hook::AfterTurn, move |_| {
            first();
            status::OK
        })
        .on(Hook::Tools, move |_| {
            second();
            status::OK
        });
    let (bench, _) = serving(fake);
    let work = |segment: &mut Segment| segment.after_turn(&[], 0, None).and_then(|_| segment.tools());
    lease(&bench.slot).engine().segment(context(), work).await.unwrap().unwrap();
    let seen = seen.lock().unwrap();
    assert!(seen[0].as_ref().unwrap().starts_with("er-fake-"), "{seen:?}");
    assert_eq!(seen[0], seen[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_tells_times_counts_and_estimates() {
    let (bench, _) = serving(Fake::new());
    let lease = lease(&bench.slot);
    assemble(&lease).await.unwrap();
    lease.engine().record_estimate(200, 100);
    let status = serde_json::to_value(bench.slot.status()).unwrap();
    let fake = status["engines"].as_array().unwrap().iter().find(|engine| engine["id"] == "fake").unwrap();
    assert_eq!((&fake["state"], &fake["effective"], &fake["owner"]), (&"ready".into(), &true.into(), &"plug".into()));
    assert_eq!(fake["hooks"]["assemble"]["count"], 1);
    assert!(fake["hooks"]["factory"]["max_us"].as_f64().unwrap() > 0.0);
    assert!(fake["warnings"][0].as_str().unwrap().contains("estimatedTokens"), "{fake:#}");
    assert_eq!(fake["info"]["transcriptSemantics"][1], "atomic-idempotent-v1");
    assert_eq!(status["effective"], "fake");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_callback_that_panics_does_not_unwind_into_the_engine() {
    struct Panics;
    impl HostServices for Panics {
        fn available(&self, _: &str) -> bool {
            panic!("a defect of the host")
        }
    }
    let got = Arc::new(AtomicUsize::new(usize::MAX));
    let told = Arc::clone(&got);
    let asks = move |called: &Called<'_>| {
        told.store(called.store_get().0 as usize, Ordering::SeqCst);
        called.assembled()
    };
    let (bench, _) = serving(Fake::new().on(Hook::Assemble, asks));
    assemble_in(&lease(&bench.slot), context_with(Arc::new(Panics))).await.unwrap();
    assert_eq!(got.load(Ordering::SeqCst), status::ERROR as usize);
}
