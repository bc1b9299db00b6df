//! Who serves: chain, policy, durability, host requirements, registration, the built-in engine.

use super::fake::*;
use super::scene::*;
use crate::config::{EntryConfig, OnFailure};
use crate::plugins::{Cause, EngineOutcome, OutcomeState, Registration, Stage};
use crate::slot::*;
use crate::worker::SelfTest;
use engine_abi::wire::{status, *};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

fn started(bench: &Bench, engines: Vec<(&str, Fake)>) {
    for (id, fake) in engines {
        bench.slot.register("plug", id, fake.factory().1, "{}").unwrap();
    }
    bench.slot.start(&none());
}

fn failure(engine: &EngineRef) -> HookFailure {
    HookFailure {
        engine: engine.id().to_owned(),
        hook: Hook::Assemble,
        kind: FailureKind::Error,
        reason: "told to".into(),
        causes: Vec::new(),
        code: DegradedCode::EngineQuarantined,
        quarantined: true,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_walks_its_chain_down_and_ends_at_legacy() {
    let bench = bench(&["first", "second"], |_| ());
    started(&bench, vec![("first", Fake::new()), ("second", Fake::new())]);
    let mut lease = lease(&bench.slot);
    assert_eq!((lease.engine().id(), lease.degraded()), ("first", None));
    for (next, passed) in [("second", 1), ("legacy", 2)] {
        let failure = failure(lease.engine());
        lease.fail(&failure).unwrap();
        assert_eq!((lease.engine().id(), lease.passed().len()), (next, passed));
    }
    let last = failure(lease.engine());
    assert!(matches!(lease.fail(&last), Err(SlotError::Exhausted { .. })));
    assert_eq!(lease.engine().id(), "legacy", "it stays where it is");
    let reasons = lease.reasons();
    assert_eq!((&reasons["selected"], &reasons["served"]), (&"first".into(), &"legacy".into()));
    assert_eq!(reasons["passed"][1]["engine"], "second");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reason_that_is_no_failure_goes_straight_to_legacy_for_this_turn() {
    let bench = bench(&["first", "second"], |_| ());
    started(&bench, vec![("first", Fake::new()), ("second", Fake::new())]);
    let mut turn = lease(&bench.slot);
    turn.serve_legacy(DegradedCode::FenceUnavailable, "the admitted row was rewritten").unwrap();
    assert_eq!(turn.engine().id(), "legacy");
    assert_eq!(turn.degraded().unwrap().code, DegradedCode::FenceUnavailable);
    assert_eq!(lease(&bench.slot).engine().id(), "first", "and it is asked again next turn");
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_refuses_when_no_listed_engine_can_serve_and_legacy_serves_only_if_listed() {
    let strict = |config: &mut crate::config::Config| {
        config.plugins.context_engine_policy.on_failure = OnFailure::Strict;
    };
    let alone = bench(&["first"], strict);
    started(&alone, vec![("first", Fake::new())]);
    let mut turn = lease(&alone.slot);
    let failed = failure(turn.engine());
    let error = turn.fail(&failed).unwrap_err();
    assert_eq!(error.http_status(), 503);
    assert!(error.to_string().contains("first") && error.to_string().contains("told to"), "{error}");

    let missing = bench(&["nowhere"], strict);
    missing.slot.start(&none());
    let error = missing.slot.lease(&LeaseRequest::turn("main", true)).unwrap_err();
    assert!(matches!(&error, SlotError::Strict { passed } if passed[0].code == DegradedCode::EngineMissing), "{error}");
    assert_eq!(missing.slot.effective("main"), "none");
    assert_eq!(missing.slot.status().degraded.unwrap().code, DegradedCode::EngineMissing);

    let listed = bench(&["nowhere", "legacy"], strict);
    listed.slot.start(&none());
    assert_eq!(lease(&listed.slot).engine().id(), "legacy");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_engine_is_quarantined_with_the_nearest_id() {
    let bench = bench(&["legasy"], |_| ());
    bench.slot.start(&none());
    let lease = lease(&bench.slot);
    assert_eq!(lease.engine().id(), "legacy");
    assert_eq!(lease.degraded().unwrap().code, DegradedCode::EngineMissing);
    let status = bench.slot.status();
    let row = status.engines.iter().find(|engine| engine.id == "legasy").unwrap();
    assert_eq!((row.state, row.listed), (EngineState::Quarantined, true));
    assert!(row.quarantine.as_ref().unwrap().hint.contains("legacy"), "{row:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_file_that_is_named_after_the_engine_is_engine_refused() {
    let bench = bench(&["broken"], |_| ());
    std::fs::write(bench.slot.config.plugins.dir.join("broken.so"), "not a library").unwrap();
    bench.slot.start(&none());
    let lease = lease(&bench.slot);
    assert_eq!((lease.engine().id(), lease.degraded().unwrap().code), ("legacy", DegradedCode::EngineRefused));
    let record = bench.slot.status().engines.into_iter().find(|e| e.id == "broken").unwrap().quarantine.unwrap();
    assert_eq!((record.at.as_str(), &record.diagnostic[..3]), ("inspect", "CE2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disabled_engine_is_passed_over_without_a_quarantine() {
    let bench = bench(&["off"], |config| {
        config.plugins.entries.insert("off".into(), EntryConfig { enabled: false, ..EntryConfig::default() });
    });
    // What the loader reports of a plugin that is switched off.
    bench.slot.settle(EngineOutcome {
        kind: crate::plugins::Kind::Engine,
        engine_id: "off".into(),
        plugin_id: Some("off".into()),
        file: None,
        state: OutcomeState::Disabled { reason: "enabled = false".into() },
        failure: None,
    });
    let lease = lease(&bench.slot);
    assert_eq!((lease.engine().id(), lease.degraded().unwrap().code), ("legacy", DegradedCode::EngineDisabled));
    let row = bench.slot.status().engines.into_iter().find(|engine| engine.id == "off").unwrap();
    assert_eq!((row.state, row.quarantine), (EngineState::Declared, None));
    assert_eq!(bench.slot.status().chain, ["off"], "the slot's value is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_turn_passes_an_engine_without_durable_semantics_over_and_an_ephemeral_one_does_not() {
    let bench = bench(&["loose", "second"], |_| ());
    let loose = Fake { semantics: semantics::CURRENT_TURN_FENCE_V1, ..Fake::new() };
    started(&bench, vec![("loose", loose), ("second", Fake::new())]);
    let stored = lease(&bench.slot);
    assert_eq!(stored.engine().id(), "second");
    assert_eq!(stored.degraded().unwrap().code, DegradedCode::DurableSemanticsMissing);
    let ephemeral = bench.slot.lease(&LeaseRequest::turn("main", false)).unwrap();
    assert_eq!((ephemeral.engine().id(), ephemeral.degraded()), ("loose", None));
    let row = bench.slot.status().engines.into_iter().find(|engine| engine.id == "loose").unwrap();
    assert_eq!((row.state, row.durable), (EngineState::Ready, false));
    assert!(row.warnings[0].contains("durable-semantics-missing"), "it is loud: {:?}", row.warnings);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_commit_turn_both_semantics_are_not_enough() {
    let bench = bench(&["loose"], |_| ());
    started(&bench, vec![("loose", Fake { without: &[Hook::CommitTurn], ..Fake::new() })]);
    assert_eq!(lease(&bench.slot).degraded().unwrap().code, DegradedCode::DurableSemanticsMissing);
}

#[tokio::test(flavor = "multi_thread")]
async fn host_requirements_fail_closed_for_the_engine_that_would_serve_and_drop_a_later_one() {
    let needy = || Fake { requires: capability::THREAD_BOOTSTRAP_PROJECTION, ..Fake::new() };
    let first = bench(&["needy", "second"], |_| ());
    started(&first, vec![("needy", needy()), ("second", Fake::new())]);
    let error = first.slot.lease(&LeaseRequest::turn("main", true)).unwrap_err();
    assert_eq!(error.http_status(), 409);
    let text = error.to_string();
    for part in ["needy", "agent-run", "thread-bootstrap-projection", "not here"] {
        assert!(text.contains(part), "{text}");
    }
    let compact = LeaseRequest::turn("main", true).operation(Operation::ManualCompact);
    assert_eq!(first.slot.lease(&compact).unwrap().engine().id(), "needy", "only the operation it speaks of");
    assert!(first.slot.status().engines.iter().all(|engine| engine.quarantine.is_none()));

    let later = bench(&["second", "needy"], |_| ());
    started(&later, vec![("needy", needy()), ("second", Fake::new())]);
    let mut turn = lease(&later.slot);
    assert!(turn.reasons()["leftOut"][0]["reason"].as_str().unwrap().contains("thread-bootstrap-projection"));
    let failed = failure(turn.engine());
    turn.fail(&failed).unwrap();
    assert_eq!(turn.engine().id(), "legacy");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_may_have_a_chain_of_its_own() {
    let bench = bench(&["first"], |config| {
        let mut agent = crate::config::AgentConfig::default();
        agent.slots.context_engine = vec!["second".into()];
        config.agents.insert("support".into(), agent);
    });
    started(&bench, vec![("first", Fake::new()), ("second", Fake::new())]);
    assert_eq!((bench.slot.effective("main"), bench.slot.effective("support")), ("first".into(), "second".into()));
    assert_eq!(bench.slot.status().agents["support"].chain, ["second"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn registration_keeps_owners_apart() {
    let bench = bench(&["fake"], |_| ());
    let (first, second) = (Fake::new().factory().1, Fake::new().factory().1);
    bench.slot.register("one", "fake", first, "{}").unwrap();
    assert!(
        matches!(bench.slot.register("two", "fake", second, "{}"), Err(RegisterError::Taken { owner, .. }) if owner == "one")
    );
    assert!(matches!(bench.slot.register("one", "legacy", first, "{}"), Err(RegisterError::Reserved { .. })));
    assert!(matches!(bench.slot.register("one", "  ", first, "{}"), Err(RegisterError::BlankId)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_contract_check_lists_all_problems_and_disposes_what_was_built() {
    let bench = bench(&["fake"], |_| ());
    let fake = Fake { id: " ", name: "", without: &[Hook::Ingest, Hook::Compact], ..Fake::new() };
    let (fake, factory) = fake.factory();
    bench.slot.register("plug", "fake", factory, "{}").unwrap();
    bench.slot.start(&none());
    let record = bench.slot.status().engines.into_iter().find(|e| e.id == "fake").unwrap().quarantine.unwrap();
    assert_eq!((record.at.as_str(), record.code), ("contract check", DegradedCode::EngineRefused));
    for problem in ["info.id", "info.name", "ingest() is missing", "compact() is missing"] {
        assert!(record.reason.contains(problem), "{}", record.reason);
    }
    assert_eq!(fake.disposed.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_factory_that_fails_refuses_the_engine_with_its_reason() {
    let bench = bench(&["fake"], |_| ());
    started(&bench, vec![("fake", Fake::new().on(Hook::Factory, |called| called.fail("no model file", 0)))]);
    let degraded = lease(&bench.slot).degraded().unwrap();
    assert_eq!(degraded.code, DegradedCode::EngineRefused);
    assert!(degraded.reason.contains("factory") && degraded.reason.contains("no model file"), "{degraded:?}");
}

/// Why the only engine of the chain was refused by the contract check.
fn refused(fake: Fake) -> (String, usize) {
    let bench = bench(&["fake"], |_| ());
    let (fake, factory) = fake.factory();
    bench.slot.register("plug", "fake", factory, "{}").unwrap();
    bench.slot.start(&none());
    let record = bench.slot.status().engines.into_iter().find(|e| e.id == "fake").unwrap().quarantine.unwrap();
    (record.reason, fake.disposed.load(std::sync::atomic::Ordering::SeqCst))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_missing_member_is_named() {
    for (hook, name) in [(Hook::Ingest, "ingest()"), (Hook::Assemble, "assemble()"), (Hook::Compact, "compact()")] {
        let without: &'static [Hook] = Box::leak(Box::new([hook]));
        let (reason, _) = refused(Fake { without, ..Fake::new() });
        assert_eq!(reason, format!("the contract check failed: {name} is missing"));
    }
    for (fake, name) in [(Fake { id: "", ..Fake::new() }, "info.id"), (Fake { name: " ", ..Fake::new() }, "info.name")]
    {
        let (reason, _) = refused(fake);
        assert_eq!(reason, format!("the contract check failed: {name} is missing or blank"));
    }
    let (reason, _) = refused(Fake::new().on(Hook::Info, |_| status::OK));
    assert_eq!(reason, "the contract check failed: info() gave nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn several_missing_members_are_named_together() {
    let (reason, _) = refused(Fake { without: &[Hook::Ingest, Hook::Compact], ..Fake::new() });
    assert_eq!(reason, "the contract check failed: ingest() is missing, compact() is missing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_built_engine_is_disposed_once() {
    let (_, disposed) = refused(Fake { without: &[Hook::Assemble], ..Fake::new() });
    assert_eq!(disposed, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_id_that_an_engine_gives_itself_may_differ_from_the_registered_one() {
    let bench = bench(&["mine"], |_| ());
    started(&bench, vec![("mine", Fake { id: "its-own", ..Fake::new() })]);
    let lease = lease(&bench.slot);
    assert_eq!((lease.engine().id(), lease.engine().info().id.as_str()), ("mine", "its-own"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unset_a_blank_and_a_none_slot_is_legacy() {
    for chain in [&[][..], &[""], &["  "], &["none"], &["legacy"]] {
        let bench = bench(chain, |_| ());
        bench.slot.start(&none());
        let lease = lease(&bench.slot);
        assert_eq!((lease.engine().id(), lease.selected(), lease.degraded()), ("legacy", "legacy", None), "{chain:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_built_in_engine_may_be_registered_again_and_stays_the_first() {
    let bench = bench(&[], |_| ());
    let again = Fake { id: "another", ..Fake::new() }.factory().1;
    bench.slot.register(CORE, LEGACY, again, "{}").unwrap();
    bench.slot.start(&none());
    assert_eq!(lease(&bench.slot).engine().info().id, "legacy");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_registration_by_the_same_owner_changes_nothing() {
    let bench = bench(&["fake"], |_| ());
    bench.slot.register("one", "fake", Fake { name: "First", ..Fake::new() }.factory().1, "{}").unwrap();
    bench.slot.register("one", "fake", Fake { name: "Second", ..Fake::new() }.factory().1, "{}").unwrap();
    bench.slot.start(&none());
    assert_eq!(lease(&bench.slot).engine().info().name, "First");
}

#[tokio::test(flavor = "multi_thread")]
async fn legacy_answers_neutrally_for_the_hooks_that_it_has_not() {
    let bench = bench(&[], |_| ());
    bench.slot.start(&none());
    let lease = lease(&bench.slot);
    let (bootstrap, maintain, after) = lease
        .engine()
        .segment(context(), |segment| {
            (segment.bootstrap(), segment.maintain(trigger::TURN, false), segment.after_turn(&[], 0, None))
        })
        .await
        .unwrap();
    assert_eq!(bootstrap.unwrap(), BootstrapOutput::default());
    assert_eq!(maintain.unwrap(), MaintainOutput::default());
    assert!(!after.unwrap(), "it has no afterTurn");
}

/// Offers a compaction and keeps what it was asked.
#[derive(Default)]
struct Compacts(Mutex<Option<(usize, bool, Option<u64>)>>);

impl HostServices for Compacts {
    fn available(&self, id: &str) -> bool {
        id == service::COMPACTION
    }

    fn delegate_compaction(&self, scope: &CallScope<'_>, args: CompactArgs) -> Result<CompactOutput, ServiceError> {
        assert_eq!((scope.engine_id, scope.hook), ("legacy", Hook::Compact));
        *self.0.lock().unwrap() = Some((args.len, args.force, args.token_budget));
        Ok(CompactOutput {
            ok: true,
            compacted: true,
            summary: Some("in short".into()),
            first_kept: Some(40),
            tokens_before: Some(20),
            tokens_after: Some(7),
            ..CompactOutput::default()
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn legacy_shows_everything_commits_at_once_and_leaves_compaction_to_the_host() {
    let bench = bench(&[], |_| ());
    bench.slot.start(&none());
    let lease = lease(&bench.slot);
    let legacy = lease.engine();
    assert_eq!((legacy.id(), legacy.durable(), legacy.info().owns_compaction), ("legacy", true, false));
    let input = conversation();
    let here = std::thread::current().id();
    let (output, thread) = legacy
        .segment(context(), move |segment| (segment.assemble(&input), std::thread::current().id()))
        .await
        .unwrap();
    let output = output.unwrap();
    assert_eq!(output.items, [Item::Span { start: 0, end: 4 }]);
    assert_eq!((output.system_prompt_addition, output.volatile_prompt_addition), (None, None));
    assert_eq!(thread, here, "it runs inline");
    assert!(legacy.segment(context(), Segment::tools).await.unwrap().unwrap().is_empty());
    let commit = CommitInput {
        advancement_key: "k".into(),
        logical_turn_id: "t".into(),
        admission: Anchor::default(),
        terminal: Anchor::default(),
        entries: Vec::new(),
    };
    let status = legacy.segment(context(), move |segment| segment.commit_turn(&commit)).await.unwrap().unwrap();
    assert!(status.is_some());

    let services = Arc::new(Compacts::default());
    let context = SegmentContext { blocking: true, ..context_with(Arc::clone(&services) as Arc<dyn HostServices>) };
    let args = CompactArgs { force: true, ..compact_args() };
    let output = legacy.segment(context, move |segment| segment.compact(&args)).await.unwrap().unwrap();
    assert_eq!(
        (output.first_kept, output.tokens_after, output.summary.as_deref()),
        (Some(40), Some(7), Some("in short"))
    );
    assert_eq!(*services.0.lock().unwrap(), Some((4, true, Some(1_000))));
}

#[tokio::test(flavor = "multi_thread")]
async fn legacy_cannot_be_quarantined() {
    let bench = bench(&[], |_| ());
    let lease = lease(&bench.slot);
    // The host offers no compaction here, so the delegation fails.
    for _ in 0..4 {
        let result = lease.engine().segment(context(), |segment| segment.compact(&compact_args())).await.unwrap();
        assert_eq!(result.unwrap_err().kind, FailureKind::Service);
    }
    assert!(lease.engine().in_service());
}

fn self_tested(fake: Fake) -> Result<Vec<(Stage, String)>, crate::plugins::StageFailure> {
    let folder = tempfile::tempdir().unwrap();
    let registration = Registration {
        engine_id: "fake".into(),
        plugin_id: "plug".into(),
        factory: fake.factory().1,
        config_json: "{}".into(),
        staged: folder.path().into(),
        extensions: None,
    };
    let steps = Mutex::new(Vec::new());
    let deadlines = BTreeMap::from([("tools".to_owned(), SHORT)]);
    selftest(&SelfTest {
        subject: crate::worker::Subject::Engine(&registration),
        state_dir: folder.path(),
        deadlines: &deadlines,
        progress: &|stage, hook| steps.lock().unwrap().push((stage, hook.to_owned())),
    })?;
    Ok(steps.into_inner().unwrap())
}

#[test]
fn the_self_test_tells_each_step_before_it_is_taken() {
    let steps = self_tested(Fake::new()).unwrap();
    assert_eq!(steps.first(), Some(&(Stage::Factory, "factory".into())));
    assert_eq!(steps.last(), Some(&(Stage::Contract, "dispose".into())));
    assert!(steps.contains(&(Stage::Contract, "commitTurn".into())));
}

#[test]
fn the_self_test_finds_a_hook_that_fails_and_one_that_hangs_and_forgives_a_service() {
    let error = self_tested(Fake::new().on(Hook::CommitTurn, |called| called.fail("oh", 0))).unwrap_err();
    assert_eq!((error.code, error.stage), (Cause::SelfTest.code(), Stage::Contract));
    assert!(error.message.contains("commitTurn") && error.message.contains("oh"), "{error}");
    let hangs = |_: &Called<'_>| -> u32 {
        loop {
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
    };
    let error = self_tested(Fake::new().on(Hook::Tools, hangs)).unwrap_err();
    assert_eq!(error.code, Cause::SelfTestDeadline.code());
    let error = self_tested(Fake { name: "", ..Fake::new() }).unwrap_err();
    assert_eq!(error.code, Cause::BlankInfo.code());
    let hands_on = |called: &Called<'_>| {
        let (_, token) = called.store_get();
        called.fail("no such key", token)
    };
    self_tested(Fake::new().on(Hook::Ingest, hands_on)).unwrap();
}
