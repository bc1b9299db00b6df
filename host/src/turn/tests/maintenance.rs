//! Optional work in the background: merged, refused with a reason, remembered.

use super::bench::{Bench, Plan, echo};
use crate::plugins::RawFactory;
use crate::turn::maintenance::{Kind, MaintenanceState, Params};
use engine_abi::serde::de::IgnoredAny;
use engine_abi::{
    AssembleRequest, Assembly, Commit, CompactRequest, Compaction, Context, ContextEngine, Entry, Factory, Info,
    MaintainRequest, Maintained, Message, Result, hooks,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Notes the budget of every background run, by session.
struct Keeper;

static RUNS: Mutex<Vec<(String, Option<u64>)>> = Mutex::new(Vec::new());

fn runs_of(session: &str) -> Vec<Option<u64>> {
    RUNS.lock().unwrap().iter().filter(|(key, _)| key == session).map(|(_, budget)| *budget).collect()
}

#[hooks]
impl ContextEngine for Keeper {
    type Config = IgnoredAny;
    const COMMIT: Commit = Commit::Stateless;

    fn create(_: IgnoredAny, _: &Factory) -> Result<Self> {
        Ok(Keeper)
    }

    fn info(&self) -> Info {
        Info::new("keeper", "Keeper").background_maintenance()
    }

    fn ingest(&self, _: &Context, _: &Entry) -> Result<bool> {
        Ok(true)
    }

    fn assemble(&self, _: &Context, request: &AssembleRequest) -> Result<Assembly> {
        Ok(Assembly::new().keep(request.history().heads()))
    }

    fn compact(&self, context: &Context, request: &CompactRequest) -> Result<Compaction> {
        Ok(context.delegate_compaction(request)?)
    }

    fn maintain(&self, context: &Context, request: &MaintainRequest) -> Result<Maintained> {
        if request.allow_deferred_compaction() {
            let key = context.session().key().unwrap_or_default().to_owned();
            RUNS.lock().unwrap().push((key, context.session().token_budget()));
        }
        Ok(Maintained { changed: true, bytes_freed: 7, ..Maintained::default() })
    }
}

fn keeper() -> (&'static str, RawFactory, &'static str) {
    ("keeper", RawFactory(engine_abi::factory::<Keeper>()), "{}")
}

fn bench() -> Bench {
    Bench::start(Plan { chain: vec!["keeper"], engines: vec![keeper()], ..Plan::default() }, echo)
}

/// Waits until nothing is queued and nothing runs.
async fn idle(bench: &Bench, session: &str) {
    for _ in 0..2_000 {
        let status = bench.turns.session_maintenance(session);
        if status.first().is_some_and(|status| status.state == MaintenanceState::Idle) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("never idle: {:?}", bench.turns.session_maintenance(session));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wanted_again_before_it_runs_runs_once_with_the_latest_parameters() {
    let bench = bench();
    bench.say("merged", "hello").await;
    idle(&bench, "merged").await;
    let house = &bench.turns.house;
    let session = house.open("merged", false).await.unwrap();
    let lane = house.lanes.enter("merged").await.unwrap();
    let lease = house.slot.lease(&crate::slot::LeaseRequest::turn("main", true)).unwrap();
    for budget in [1, 2, 3] {
        let params = Params {
            lease: lease.clone(),
            token_budget: Some(budget),
            current_tokens: None,
            heartbeat: false,
            fixed_tokens: (0, 0),
            params: serde_json::Map::new(),
        };
        house.maintenance.queue(house, &session, Kind::Maintain, params).unwrap();
    }
    let status = bench.turns.session_maintenance("merged");
    assert_eq!((status.len(), status[0].state), (1, MaintenanceState::Queued));
    assert_eq!(status[0].kinds, ["maintain"]);
    assert_eq!(bench.turns.maintenance_numbers(), (1, 0));
    drop(lane);
    idle(&bench, "merged").await;
    assert_eq!(runs_of("merged"), [None, Some(3)], "the turn's run, and one for all three");
    let last = bench.turns.engine_maintenance("keeper").remove(0).last.unwrap();
    assert_eq!((last.outcome, last.changed, last.bytes_freed), ("succeeded", true, 7));
}

#[tokio::test(flavor = "multi_thread")]
async fn work_that_is_refused_is_noted_as_cancelled_with_the_reason() {
    let bench = bench();
    bench.turns.house.maintenance.cancel_all();
    bench.say("refused", "hello").await;
    bench.settled().await;
    let status = bench.turns.session_maintenance("refused");
    assert_eq!(status.len(), 1, "{status:?}");
    assert_eq!(status[0].state, MaintenanceState::Idle);
    let last = status[0].last.clone().unwrap();
    assert_eq!((last.outcome, last.reason.as_deref()), ("cancelled", Some("the gateway is stopping")));
    assert!(runs_of("refused").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn work_for_a_session_that_is_gone_is_skipped() {
    let bench = bench();
    bench.say("gone", "hello").await;
    idle(&bench, "gone").await;
    let house = bench.turns.house.clone();
    let session = house.open("gone", false).await.unwrap();
    let lane = house.lanes.enter("gone").await.unwrap();
    let lease = house.slot.lease(&crate::slot::LeaseRequest::turn("main", true)).unwrap();
    let params = Params {
        lease,
        token_budget: None,
        current_tokens: None,
        heartbeat: false,
        fixed_tokens: (0, 0),
        params: serde_json::Map::new(),
    };
    house.maintenance.queue(&house, &session, Kind::Maintain, params).unwrap();
    let deleting = tokio::spawn({
        let turns = bench.turns.clone();
        async move { turns.delete("gone").await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop((lane, session));
    deleting.await.unwrap().unwrap();
    idle(&bench, "gone").await;
    assert_eq!(runs_of("gone").len(), 1, "that of the turn");
    let _: Arc<_> = house;
}

/// Takes in entries and nothing else, and has the first one rewritten once.
struct Taker;

static TAKEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[hooks]
impl ContextEngine for Taker {
    type Config = IgnoredAny;

    fn create(_: IgnoredAny, _: &Factory) -> Result<Self> {
        Ok(Taker)
    }

    fn info(&self) -> Info {
        Info::new("taker", "Taker")
    }

    fn ingest(&self, context: &Context, entry: &Entry) -> Result<bool> {
        TAKEN.lock().unwrap().push(entry.text().to_owned());
        if context.store().get("first")?.is_none() {
            context.store().put("first", entry.id().to_string());
        }
        Ok(true)
    }

    fn assemble(&self, _: &Context, request: &AssembleRequest) -> Result<Assembly> {
        Ok(Assembly::new().keep(request.history().heads()))
    }

    fn compact(&self, context: &Context, request: &CompactRequest) -> Result<Compaction> {
        Ok(context.delegate_compaction(request)?)
    }

    fn maintain(&self, context: &Context, _: &MaintainRequest) -> Result<Maintained> {
        let first = context.store().get("first")?.unwrap_or_default();
        let id = String::from_utf8_lossy(&first).parse().unwrap_or(0);
        Ok(context.rewrite_transcript(&[(id, Message::user("redacted"))])?)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_engine_was_given_before_a_rewrite_it_is_not_given_again() {
    let taker = || ("taker", RawFactory(engine_abi::factory::<Taker>()), "{}");
    let bench = Bench::start(Plan { chain: vec!["taker"], engines: vec![taker()], ..Plan::default() }, echo);
    bench.say("taken", "n0").await;
    bench.say("taken", "n1").await;
    bench.settled().await;
    let texts = |bench: &Bench| {
        let record = bench.session("taken");
        let branch = bench.store.branch(record.row, record.head).unwrap();
        branch.iter().map(|entry| format!("{:?}", entry.body)).filter(|body| body.contains("redacted")).count()
    };
    assert_eq!(texts(&bench), 1, "the first message is another one now");
    let bench = bench.restart(&["taker"], &[taker()]).await;
    let reply = bench.say("taken", "n2").await;
    assert_eq!((reply.engine.as_str(), reply.degraded), ("taker", None));
    bench.settled().await;
    let taken = TAKEN.lock().unwrap().clone();
    assert_eq!(taken.len(), 6, "each message once, over the rewrite and the restart: {taken:?}");
}
