//! An engine that fails in a hook: the same request still gets its answer, and everybody can see why.

use super::bench::{Bench, Plan, ask, echo, text};
use crate::plugins::RawFactory;
use crate::slot::Hook;
use crate::turn::{ContextAsk, TurnError, TurnRequest};
use engine_abi::{
    AssembleRequest, Assembly, Bootstrapped, Commit, CommitTurn, Committed, CompactRequest, Compaction, Context,
    ContextEngine, Entry, Error, Factory, Info, MaintainRequest, Maintained, Result, hooks,
};
use serde_json::json;

#[derive(engine_abi::serde::Deserialize)]
#[serde(crate = "engine_abi::serde")]
struct Mode {
    hook: String,
    how: String,
}

/// Fails in one hook, in one way.
struct Broken(Mode);

impl Broken {
    fn at(&self, hook: &str) -> Result<()> {
        if self.0.hook != hook {
            return Ok(());
        }
        match self.0.how.as_str() {
            "panic" => panic!("as told"),
            "hang" => loop {
                std::thread::sleep(std::time::Duration::from_millis(20));
            },
            _ => Err(Error::new("as told")),
        }
    }
}

#[hooks]
impl ContextEngine for Broken {
    type Config = Mode;
    const COMMIT: Commit = Commit::Stateless;

    fn create(mode: Mode, _: &Factory) -> Result<Self> {
        Ok(Broken(mode))
    }

    fn info(&self) -> Info {
        Info::new("broken", "Broken")
    }

    fn ingest(&self, _: &Context, _: &Entry) -> Result<bool> {
        Ok(false)
    }

    fn bootstrap(&self, _: &Context) -> Result<Bootstrapped> {
        self.at("bootstrap")?;
        Ok(Bootstrapped::default())
    }

    fn maintain(&self, _: &Context, _: &MaintainRequest) -> Result<Maintained> {
        self.at("maintain")?;
        Ok(Maintained::default())
    }

    fn commit_turn(&self, _: &Context, _: &CommitTurn) -> Result<Committed> {
        self.at("commit_turn")?;
        Ok(Committed::Committed)
    }

    fn assemble(&self, _: &Context, request: &AssembleRequest) -> Result<Assembly> {
        self.at("assemble")?;
        Ok(Assembly::new().keep(request.history().heads()))
    }

    fn compact(&self, context: &Context, request: &CompactRequest) -> Result<Compaction> {
        self.at("compact")?;
        Ok(context.delegate_compaction(request)?)
    }
}

fn broken(config: &'static str) -> Plan {
    let factory = RawFactory(engine_abi::factory::<Broken>());
    Plan {
        chain: vec!["broken"],
        engines: vec![("broken", factory, config)],
        // A hook that does as it should must not fail because the machine is busy.
        hurried: Hook::ALL.into_iter().find(|hook| {
            let (names, hangs) = (format!("\"hook\": \"{}\"", hook.key()), config.contains("\"hang\""));
            hangs && config.contains(&names)
        }),
        ..Plan::default()
    }
}

/// Two turns: where the failure comes before the model, the request itself is answered by `legacy`; where it comes after, the
/// next one is.
async fn survives(config: &'static str, code: &str, before_the_model: bool) {
    let bench = Bench::start(broken(config), echo);
    let first = bench.say("s", "one").await;
    let second = bench.say("s", "two").await;
    let third = bench.say("s", "three").await;
    assert_eq!((text(&first), text(&second), text(&third)), ("re: one".into(), "re: two".into(), "re: three".into()));
    let expected = if before_the_model { ("legacy", Some(code)) } else { ("broken", None) };
    assert_eq!((first.engine.as_str(), first.degraded.as_deref()), expected, "{config}");
    assert_eq!(third.engine, "legacy", "{config}");
    assert!(third.degraded.is_some(), "{config}");
    bench.settled().await;
    assert_eq!(bench.session("s").entries, 6, "{config}");
    assert!(!bench.slot.status().engines.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_fails_in_the_middle_of_a_turn_costs_its_engine_the_turn_and_nobody_else_anything() {
    survives(r#"{"hook": "assemble", "how": "error"}"#, "engine-quarantined", true).await;
    survives(r#"{"hook": "assemble", "how": "panic"}"#, "engine-quarantined", true).await;
    survives(r#"{"hook": "assemble", "how": "hang"}"#, "deadline", true).await;
    survives(r#"{"hook": "commit_turn", "how": "error"}"#, "", false).await;
    survives(r#"{"hook": "commit_turn", "how": "hang"}"#, "", false).await;
    survives(r#"{"hook": "maintain", "how": "panic"}"#, "", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bootstrap_that_fails_is_passed_over_within_the_same_turn() {
    let bench = Bench::start(broken(r#"{"hook": "bootstrap", "how": "error"}"#), echo);
    let messages = json!([
        {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}
    ]);
    let reply = bench.turns.run(ask("s", messages)).await.unwrap();
    assert_eq!((reply.engine.as_str(), reply.degraded.as_deref()), ("legacy", Some("engine-quarantined")));
    assert_eq!(text(&reply), "re: c");
    bench.settled().await;
    let record = &bench.records("s")[0];
    assert_eq!((record.engine.as_str(), record.degraded.as_deref()), ("legacy", Some("engine-quarantined")));
    assert_eq!(record.detail["notes"]["failures"][0]["hook"], "bootstrap");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_that_fails_fails_its_call_and_the_next_one_is_served_by_legacy() {
    let bench = Bench::start(broken(r#"{"hook": "compact", "how": "error"}"#), echo);
    for number in 0..12 {
        bench.say("s", &format!("n{number} {}", "word ".repeat(60))).await;
    }
    let before = bench.turns.context("s", ContextAsk::default()).await.unwrap().tokens;
    let error = bench.turns.compact("s", None).await.unwrap_err();
    assert!(matches!(&error, TurnError::Compaction { reason } if reason.contains("as told")), "{error}");
    assert_eq!(bench.turns.context("s", ContextAsk::default()).await.unwrap().tokens, before, "history is as it was");
    let report = bench.turns.compact("s", None).await.unwrap();
    assert_eq!((report.engine.as_str(), report.degraded.as_deref()), ("legacy", Some("engine-quarantined")));
    assert!(report.compacted, "{report:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strict_slot_refuses_and_the_message_is_kept() {
    let plan = Plan { strict: true, ..broken(r#"{"hook": "assemble", "how": "error"}"#) };
    let bench = Bench::start(plan, echo);
    let request = || ask("s", json!([{"role": "user", "content": "one"}]));
    let error = bench.turns.run(request()).await.unwrap_err();
    assert!(matches!(error, TurnError::Slot(_)) && error.http_status() == 503, "{error}");
    assert_eq!(bench.model.calls(), 0);
    bench.settled().await;
    assert_eq!(bench.session("s").entries, 1);
    // From now on nothing is even admitted.
    bench.turns.run(request()).await.unwrap_err();
    bench.settled().await;
    assert_eq!(bench.session("s").entries, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ephemeral_turn_survives_the_same() {
    let bench = Bench::start(broken(r#"{"hook": "assemble", "how": "panic"}"#), echo);
    let request = TurnRequest { session_key: None, ..ask("", json!([{"role": "user", "content": "one"}])) };
    let reply = bench.turns.run(request).await.unwrap();
    assert_eq!((reply.engine.as_str(), text(&reply)), ("legacy", "re: one".into()));
}
