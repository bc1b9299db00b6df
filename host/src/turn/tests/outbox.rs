//! The outbox of durable turns: what is offered again, in which order, and what never is.

use super::bench::{Bench, Plan, ask, echo, full};
use crate::plugins::RawFactory;
use crate::slot::EngineRef;
use crate::transcript::{BlockedReason, EntryId, OutboxRow, OutboxState, Submission, Write};
use crate::turn::{RepairAction, RepairOutcome, RepairRequest};
use engine_abi::*;
use serde::de::IgnoredAny;
use serde_json::json;
use std::sync::Mutex;

/// What the engines below were given: "session: text, text".
static GIVEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Writes down what it is given.
struct Listener;

#[hooks]
impl ContextEngine for Listener {
    type Config = IgnoredAny;

    fn create(_: IgnoredAny, _: &Factory) -> Result<Self> {
        Ok(Listener)
    }

    fn info(&self) -> Info {
        Info::new("listener", "Listener")
    }

    fn ingest(&self, _: &Context, _: &Entry) -> Result<bool> {
        Ok(true)
    }

    fn commit_turn(&self, context: &Context, turn: &CommitTurn) -> Result<Committed> {
        let texts: Vec<&str> = turn.entries().iter().map(|entry| entry.text()).collect();
        let key = context.session().key().unwrap_or_default();
        GIVEN.lock().unwrap().push(format!("{key}: {}", texts.join(", ")));
        context.commit_once(turn, |_| Ok(true))
    }

    fn assemble(&self, _: &Context, request: &AssembleRequest) -> Result<Assembly> {
        Ok(Assembly::new().keep(request.history().heads()))
    }

    fn compact(&self, context: &Context, request: &CompactRequest) -> Result<Compaction> {
        Ok(context.delegate_compaction(request)?)
    }
}

fn listener() -> (&'static str, RawFactory, &'static str) {
    ("listener", RawFactory(engine_abi::factory::<Listener>()), "{}")
}

/// What was given of these sessions since the last time.
fn given(sessions: &[&str]) -> Vec<String> {
    let mut all = GIVEN.lock().unwrap();
    let ours = |line: &String| sessions.iter().any(|key| line.starts_with(&format!("{key}: ")));
    let (found, others) = all.drain(..).partition(ours);
    *all = others;
    found
}

/// A session whose turns were served by `legacy`, with its entries.
async fn told(bench: &Bench, key: &str, texts: &[&str]) -> Vec<EntryId> {
    for text in texts {
        bench.say(key, text).await;
    }
    bench.settled().await;
    let record = bench.session(key);
    bench.store.branch(record.row, record.head).unwrap().iter().map(|entry| entry.id).collect()
}

/// A row for the listener, as an earlier process left it.
fn left(bench: &Bench, key: &str, turn: &str, first: EntryId, last: EntryId) -> OutboxRow {
    let record = bench.session(key);
    OutboxRow {
        key: turn.into(),
        engine: "listener".into(),
        session: record.row,
        session_id: record.session_id,
        first,
        last,
        position: None,
        generation: record.generation,
        state: OutboxState::Accepted,
        reason: None,
        attempts: 0,
        attempted_ms: 0,
        last_error: None,
        facts: None,
        created_ms: 1,
    }
}

async fn leave(bench: &Bench, rows: Vec<OutboxRow>) {
    let writes = rows.into_iter().map(Write::Outbox).collect();
    bench.store.submit(Submission { lease: None, writes }).durable().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_goes_round_the_sessions_and_oldest_first_in_each() {
    let bench = Bench::ordinary();
    let a = told(&bench, "round-a", &["a1", "a2", "a3"]).await;
    let b = told(&bench, "round-b", &["b1", "b2"]).await;
    let mut rows = Vec::new();
    for (key, ids) in [("round-b", &b), ("round-a", &a)] {
        for (turn, pair) in ids.chunks(2).enumerate().rev() {
            rows.push(left(&bench, key, &format!("{key}-{turn}"), pair[0], pair[1]));
        }
    }
    leave(&bench, rows).await;
    let bench = bench.restart(&["listener"], &[listener()]).await;
    bench.settled().await;
    let expected = [
        "round-a: a1, re: a1",
        "round-b: b1, re: b1",
        "round-a: a2, re: a2",
        "round-b: b2, re: b2",
        "round-a: a3, re: a3",
    ];
    assert_eq!(given(&["round-a", "round-b"]), expected);
    assert!(bench.store.outbox(None).unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_an_engine_that_is_gone_wait_until_it_comes_back() {
    let bench = Bench::ordinary();
    let ids = told(&bench, "gone", &["one", "two"]).await;
    leave(&bench, vec![left(&bench, "gone", "t", ids[0], ids[1])]).await;
    let bench = bench.restart(&["legacy"], &[]).await;
    bench.settled().await;
    bench.say("gone", "three").await;
    bench.settled().await;
    let rows = bench.store.outbox(None).unwrap();
    let waiting: Vec<_> = rows.iter().filter(|row| row.engine == "listener").collect();
    assert_eq!((waiting.len(), waiting[0].attempts), (1, 0), "nobody was asked: {waiting:?}");
    let bench = bench.restart(&["listener"], &[listener()]).await;
    bench.settled().await;
    assert_eq!(given(&["gone"]), ["gone: one, re: one"]);
}

/// What a repair shows of a session: state, reason, outcome.
async fn repaired(
    bench: &Bench,
    key: &str,
    request: RepairRequest,
) -> Vec<(OutboxState, Option<BlockedReason>, RepairOutcome)> {
    let report = bench.turns.repair(key, request).await.unwrap();
    report.rows.iter().map(|row| (row.state, row.reason, row.outcome)).collect()
}

/// 8.58
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_whose_session_is_another_one_now_is_not_committed() {
    let bench = Bench::ordinary();
    let ids = told(&bench, "changed", &["one", "two"]).await;
    let row = OutboxRow { session_id: "the-one-before".into(), ..left(&bench, "changed", "t", ids[0], ids[1]) };
    leave(&bench, vec![row]).await;
    let bench = bench.restart(&["listener"], &[listener()]).await;
    bench.settled().await;
    let shown = repaired(&bench, "changed", RepairRequest::default()).await;
    assert_eq!(shown, [(OutboxState::Blocked, Some(BlockedReason::TargetChanged), RepairOutcome::Listed)]);
    let rows = bench.store.outbox(None).unwrap();
    assert_eq!(rows[0].last_error.as_deref(), Some("target changed after admission"));
    assert_eq!(given(&["changed"]), Vec::<String>::new());
    // Later turns proceed.
    assert_eq!(bench.say("changed", "three").await.engine, "listener");
    bench.settled().await;
    assert_eq!(given(&["changed"]), ["changed: three, re: three"]);
}

/// 8.59
#[tokio::test(flavor = "multi_thread")]
async fn a_range_that_is_gone_or_not_closed_is_blocked_until_the_operator_ends_it() {
    let bench = Bench::ordinary();
    let ids = told(&bench, "stale", &["one", "two"]).await;
    let edit = json!([{"role": "user", "content": "edited"}, {"role": "assistant", "content": "so"},
        {"role": "user", "content": "three"}]);
    bench.turns.run(ask("stale", edit)).await.unwrap();
    bench.settled().await;
    let head = bench.session("stale").head;
    let rows = vec![
        left(&bench, "stale", "missing", ids[0], head + 1_000),
        left(&bench, "stale", "astray", ids[1], head),
        left(&bench, "stale", "elsewhere", ids[2], ids[3]),
    ];
    leave(&bench, rows).await;
    let bench = bench.restart(&["listener"], &[listener()]).await;
    bench.settled().await;
    assert_eq!(given(&["stale"]), ["stale: two, re: two"], "an accepted turn of another branch is an accepted turn");
    let blocked = |reason, outcome| (OutboxState::Blocked, Some(reason), outcome);
    let shown = repaired(&bench, "stale", RepairRequest::default()).await;
    let expected = [
        blocked(BlockedReason::RangeMissing, RepairOutcome::Listed),
        blocked(BlockedReason::NotDescendant, RepairOutcome::Listed),
    ];
    assert_eq!(shown, expected);
    let retry = RepairRequest { action: RepairAction::Retry, ..RepairRequest::default() };
    let dry = RepairRequest { dry_run: true, ..retry.clone() };
    assert!(repaired(&bench, "stale", dry).await.iter().all(|(.., outcome)| *outcome == RepairOutcome::WouldRetry));
    assert!(repaired(&bench, "stale", retry).await.iter().all(|(.., outcome)| *outcome == RepairOutcome::Blocked));
    let one = RepairRequest { action: RepairAction::Drop, turn: Some("astray".into()), ..RepairRequest::default() };
    let outcomes: Vec<_> = repaired(&bench, "stale", one).await.into_iter().map(|(.., outcome)| outcome).collect();
    assert_eq!(outcomes, [RepairOutcome::Kept, RepairOutcome::Dropped]);
    assert_eq!(bench.store.outbox(None).unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repair_hands_over_what_only_waits_when_it_is_asked_to() {
    let bench = Bench::start(Plan { chain: vec!["legacy"], engines: vec![listener()], ..Plan::default() }, echo);
    let ids = told(&bench, "asked", &["one"]).await;
    leave(&bench, vec![left(&bench, "asked", "t", ids[0], ids[1])]).await;
    let bench = bench.restart(&["legacy"], &[]).await;
    bench.settled().await;
    let retry = RepairRequest { action: RepairAction::Retry, waiting: true, ..RepairRequest::default() };
    let shown = repaired(&bench, "asked", retry.clone()).await;
    assert_eq!(shown, [(OutboxState::Ready, None, RepairOutcome::EngineUnavailable)]);
    let kept = repaired(&bench, "asked", RepairRequest { waiting: false, ..retry }).await;
    assert_eq!(kept, [(OutboxState::Ready, None, RepairOutcome::Kept)]);
    let drop = RepairRequest { action: RepairAction::Drop, waiting: true, ..RepairRequest::default() };
    assert_eq!(repaired(&bench, "asked", drop).await[0].2, RepairOutcome::Dropped);
    assert!(bench.store.outbox(None).unwrap().is_empty());
    assert!(bench.slot.engine("main", "listener").filter(EngineRef::durable).is_none());
}

/// Takes in what it is given, and nothing else: what an author writes first.
struct Ingester;

/// What [`Ingester`] took in, in order.
static TAKEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[hooks]
impl ContextEngine for Ingester {
    type Config = IgnoredAny;

    fn create(_: IgnoredAny, _: &Factory) -> Result<Self> {
        Ok(Ingester)
    }

    fn info(&self) -> Info {
        Info::new("ingester", "Ingester")
    }

    fn ingest(&self, context: &Context, entry: &Entry) -> Result<bool> {
        context.store().put(format!("{:020}", entry.id()), entry.text());
        TAKEN.lock().unwrap().push(entry.text().to_owned());
        Ok(true)
    }

    fn assemble(&self, context: &Context, request: &AssembleRequest) -> Result<Assembly> {
        for head in request.history().heads() {
            if context.store().get(format!("{:020}", head.id))?.is_none() {
                return Err(Error::new(format!("entry {} never came", head.id)));
            }
        }
        Ok(Assembly::new().keep(request.history().heads()))
    }

    fn compact(&self, context: &Context, request: &CompactRequest) -> Result<Compaction> {
        Ok(context.delegate_compaction(request)?)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_only_ingests_is_given_everything_once_whoever_served_between() {
    let engines = || [("ingester", RawFactory(engine_abi::factory::<Ingester>()), "{}")];
    let bench = Bench::ordinary();
    let mut expected: Vec<String> = Vec::new();
    let mut bench = bench;
    for (chain, text) in
        [("legacy", "one"), ("ingester", "two"), ("legacy", "three"), ("ingester", "four"), ("ingester", "five")]
    {
        bench = bench.restart(&[chain], &engines()).await;
        let reply = bench.say("taken", text).await;
        assert_eq!((reply.engine.as_str(), reply.degraded), (chain, None), "{text}");
        bench.settled().await;
        expected.extend([text.to_owned(), format!("re: {text}")]);
        if chain == "ingester" {
            assert_eq!(*TAKEN.lock().unwrap(), expected, "by commit or through the cursor, and never by both");
        }
    }
}

/// Reads on from its own cursor at every bootstrap, and hands on what goes wrong.
struct Stubborn;

#[hooks]
impl ContextEngine for Stubborn {
    type Config = IgnoredAny;
    const COMMIT: Commit = Commit::Stateless;

    fn create(_: IgnoredAny, _: &Factory) -> Result<Self> {
        Ok(Stubborn)
    }

    fn info(&self) -> Info {
        Info::new("stubborn", "Stubborn")
    }

    fn ingest(&self, _: &Context, _: &Entry) -> Result<bool> {
        Ok(true)
    }

    fn bootstrap(&self, context: &Context) -> Result<Bootstrapped> {
        let kept = context.store().get("cursor")?.and_then(|bytes| String::from_utf8(bytes).ok());
        let request = CursorRequest { cursor: kept, ..CursorRequest::default() };
        if let Page::Entries { cursor: Some(cursor), .. } = context.read_transcript(&request)? {
            context.store().put("cursor", cursor);
        }
        Ok(Bootstrapped { bootstrapped: true, ..Bootstrapped::default() })
    }

    fn assemble(&self, _: &Context, request: &AssembleRequest) -> Result<Assembly> {
        Ok(Assembly::new().keep(request.history().heads()))
    }

    fn compact(&self, context: &Context, request: &CompactRequest) -> Result<Compaction> {
        Ok(context.delegate_compaction(request)?)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fence_that_cannot_be_honoured_is_served_by_legacy_for_that_turn_only() {
    let engine = ("stubborn", RawFactory(engine_abi::factory::<Stubborn>()), "{}");
    let plan = Plan { chain: vec!["stubborn"], engines: vec![engine], ..Plan::default() };
    let bench = Bench::start(plan, |request, number| {
        let asked = request.messages.iter().any(|message| message["role"] == "user");
        match number {
            1 => Err(crate::model::ModelError::Protocol("x".into())),
            _ if !asked => Ok(crate::model::ModelReply::Full(full("as you say"))),
            _ => echo(request, number),
        }
    });
    let user = |text: &str| json!({"role": "user", "content": text});
    let served = |reply: crate::turn::TurnReply| (reply.engine, reply.degraded);
    bench.say("fence", "one").await;
    // A turn that gets no answer; the next one's bootstrap leaves the engine's cursor behind its entry.
    bench.turns.run(ask("fence", json!([user("two")]))).await.unwrap_err();
    assert_eq!(served(bench.say("fence", "three").await), ("stubborn".into(), None));
    // The client goes back to it: the current turn begins where the engine's cursor has been already.
    let back = json!([user("one"), {"role": "assistant", "content": "re: one"}, user("two")]);
    let reply = bench.turns.run(ask("fence", back)).await.unwrap();
    assert_eq!(served(reply), ("legacy".into(), Some("fence-unavailable".into())));
    bench.settled().await;
    assert_eq!(served(bench.say("fence", "four").await), ("stubborn".into(), None), "asked again, not quarantined");
    // A turn that begins with no user entry has nothing for a fence to stand on.
    let nobody = json!([{"role": "assistant", "content": "by itself"}]);
    let reply = bench.turns.run(ask("nobody", nobody)).await.unwrap();
    assert_eq!(served(reply), ("legacy".into(), Some("fence-unavailable".into())));
}
