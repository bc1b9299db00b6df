//! One logical turn and its lease.

use super::fake::*;
use super::scene::*;
use crate::slot::*;
use engine_abi::wire::semantics;
use std::sync::atomic::Ordering;
use std::time::Duration;

async fn assemble(lease: &Lease) -> Result<AssembleOutput, HookFailure> {
    let input = conversation();
    lease.engine().segment(context(), move |segment| segment.assemble(&input)).await.and_then(|done| done)
}

/// 8.40
#[tokio::test(flavor = "multi_thread")]
async fn what_an_engine_lacks_for_durable_turns_is_named_and_it_is_asked_again() {
    let undeclared = [
        (Fake { semantics: semantics::ATOMIC_IDEMPOTENT_V1, ..Fake::new() }, "before-current-turn-entry-v1"),
        (Fake { semantics: semantics::CURRENT_TURN_FENCE_V1, ..Fake::new() }, "atomic-idempotent-v1"),
        (Fake { without: &[Hook::CommitTurn], ..Fake::new() }, "no commitTurn"),
    ];
    for (fake, named) in undeclared {
        let (bench, _) = serving(fake);
        for turn in ["this turn", "the next"] {
            let degraded = lease(&bench.slot).degraded();
            let degraded = degraded.unwrap_or_else(|| panic!("{named}: {turn} was served by the engine"));
            assert_eq!(degraded.code, DegradedCode::DurableSemanticsMissing, "{turn}");
            assert!(degraded.reason.contains(named), "{turn}: {degraded:?}");
        }
        let row = bench.slot.status().engines.into_iter().find(|engine| engine.id == "fake").unwrap();
        assert_eq!((row.state, row.quarantine), (EngineState::Ready, None), "{named}: it may serve what is not stored");
        assert_eq!(bench.slot.status().chain, ["fake"], "{named}: the slot stays");
    }
}

/// 8.43
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_outlives_its_engines_is_refused() {
    let (bench, fake) = serving(Fake::new());
    let lease = lease(&bench.slot);
    assemble(&lease).await.unwrap();
    assert!(bench.slot.dispose_all(Duration::from_secs(60)));
    assert_eq!(fake.disposed.load(Ordering::SeqCst), 1);
    let refused = assemble(&lease).await.expect_err("the engine was called after its end");
    assert_eq!((refused.kind, refused.quarantined), (FailureKind::Busy, false));
    assert_eq!(refused.reason, "the gateway is stopping");
}

/// 8.44
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_past_an_engine_that_failed_is_usable_and_says_why() {
    let (bench, _) = serving(Fake::new().on(Hook::Assemble, |called| called.fail("the index is gone", 0)));
    assemble(&lease(&bench.slot)).await.unwrap_err();
    let lease = lease(&bench.slot);
    assert_eq!(lease.engine().id(), "legacy");
    assemble(&lease).await.unwrap();
    let degraded = lease.degraded().unwrap();
    assert_eq!((degraded.code, degraded.engine.as_str()), (DegradedCode::EngineQuarantined, "fake"));
    assert!(degraded.reason.contains("assemble") && degraded.reason.contains("the index is gone"), "{degraded:?}");
}
