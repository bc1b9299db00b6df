//! Engines of other kinds than `legacy`: what they are given, and when.

use super::bench::{Bench, Plan, ask, echo, text};
use crate::plugins::RawFactory;
use crate::transcript::EngineScope;
use crate::turn::{HistoryMode, TurnRequest};
use engine_abi::serde::de::IgnoredAny;
use engine_abi::{
    AfterTurn, AssembleRequest, Assembly, Bootstrapped, Commit, CompactRequest, Compaction, Context, ContextEngine,
    CursorRequest, Entry, Error, Factory, Info, MaintainRequest, Maintained, Message, Page, Result, SessionEnded,
    hooks,
};
use serde_json::{Value, json};
use std::sync::Mutex;

/// Keeps every entry in its own store, through the default commit, and refuses to assemble when one is missing or twice.
struct Keeper;

impl Keeper {
    fn key(id: u64) -> Vec<u8> {
        [b"kept/".as_slice(), &id.to_be_bytes()].concat()
    }
}

#[hooks]
impl ContextEngine for Keeper {
    type Config = IgnoredAny;

    fn create(_: IgnoredAny, _: &Factory) -> Result<Self> {
        Ok(Keeper)
    }

    fn info(&self) -> Info {
        Info::new("keeper", "Keeper")
    }

    fn ingest(&self, context: &Context, entry: &Entry) -> Result<bool> {
        let key = Keeper::key(entry.id());
        if context.store().get(&key)?.is_some() {
            return Err(Error::new(format!("entry {} came twice", entry.id())));
        }
        context.store().put(&key, entry.text());
        Ok(true)
    }

    fn bootstrap(&self, context: &Context) -> Result<Bootstrapped> {
        let mut request = CursorRequest::default();
        let mut new = 0;
        loop {
            match context.read_transcript(&request)? {
                Page::Entries { entries, cursor, has_more, .. } => {
                    for entry in entries {
                        let key = Keeper::key(entry.id());
                        if context.store().get(&key)?.is_none() {
                            context.store().put(&key, entry.text());
                            new += 1;
                        }
                    }
                    request.cursor = cursor;
                    if !has_more {
                        break;
                    }
                }
                _ => return Err(Error::new("the cursor was reset")),
            }
        }
        Ok(Bootstrapped { bootstrapped: true, imported_messages: Some(new), ..Bootstrapped::default() })
    }

    fn assemble(&self, context: &Context, request: &AssembleRequest) -> Result<Assembly> {
        for head in request.history().heads() {
            if context.store().get(Keeper::key(head.id))?.is_none() {
                return Err(Error::new(format!("entry {} never came", head.id)));
            }
        }
        let kept = context.store().scan("kept/", None, 1000)?.len();
        // A turn that got no answer is in the history, and never more than once.
        if kept != request.history().heads().len() {
            return Err(Error::new(format!("{kept} entries for {}", request.history().heads().len())));
        }
        Ok(Assembly::new().keep(request.history().heads()))
    }

    fn compact(&self, context: &Context, request: &CompactRequest) -> Result<Compaction> {
        Ok(context.delegate_compaction(request)?)
    }
}

fn keeper() -> (&'static str, RawFactory, &'static str) {
    ("keeper", RawFactory(engine_abi::factory::<Keeper>()), "{}")
}

#[tokio::test(flavor = "multi_thread")]
async fn each_accepted_turn_reaches_an_engine_once_and_before_the_next() {
    let bench = Bench::start(Plan { chain: vec!["keeper"], engines: vec![keeper()], ..Plan::default() }, echo);
    for number in 0..10 {
        let reply = bench.say("s", &format!("n{number}")).await;
        assert_eq!((reply.engine.as_str(), reply.degraded), ("keeper", None));
    }
    bench.settled().await;
    let row = bench.session("s").row;
    let kept = bench.store.engine_scan("keeper", EngineScope::Session(row), b"kept/", None, 100).unwrap();
    assert_eq!(kept.len(), 20);
    let bench = bench.restart(&["keeper"], &[keeper()]).await;
    assert!(bench.store.outbox(None).unwrap().is_empty(), "a drain writes what waits");
    let reply = bench.say("s", "after the restart").await;
    assert_eq!((reply.engine.as_str(), reply.degraded), ("keeper", None));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_was_away_catches_up_through_the_cursor() {
    let bench = Bench::ordinary();
    for number in 0..5 {
        bench.say("s", &format!("n{number}")).await;
    }
    let bench = bench.restart(&["keeper"], &[keeper()]).await;
    for number in 5..8 {
        let reply = bench.say("s", &format!("n{number}")).await;
        assert_eq!((reply.engine.as_str(), reply.degraded), ("keeper", None));
    }
    bench.settled().await;
    let row = bench.session("s").row;
    assert_eq!(bench.store.engine_scan("keeper", EngineScope::Session(row), b"kept/", None, 100).unwrap().len(), 16);
    assert!(bench.store.handed_over("keeper", row).unwrap() > 0);

    bench.turns.delete("s").await.unwrap();
    assert!(bench.store.engine_scan("keeper", EngineScope::Session(row), b"kept/", None, 100).unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_got_no_answer_reaches_the_engine_with_the_next_one() {
    let plan = Plan { chain: vec!["keeper"], engines: vec![keeper()], ..Plan::default() };
    let bench = Bench::start(plan, |request, number| {
        if number == 1 { Err(crate::model::ModelError::Protocol("x".into())) } else { echo(request, number) }
    });
    bench.say("s", "one").await;
    bench.turns.run(ask("s", json!([{"role": "user", "content": "two"}]))).await.unwrap_err();
    let reply = bench.say("s", "three").await;
    assert_eq!((reply.engine.as_str(), reply.degraded), ("keeper", None));
}

/// What [`Ephemeral`] heard.
static HEARD: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Has no durable turns.
struct Ephemeral;

#[hooks]
impl ContextEngine for Ephemeral {
    type Config = IgnoredAny;
    const COMMIT: Commit = Commit::Never;

    fn create(_: IgnoredAny, _: &Factory) -> Result<Self> {
        Ok(Ephemeral)
    }

    fn info(&self) -> Info {
        Info::new("ephemeral", "Ephemeral")
    }

    fn ingest(&self, _: &Context, _: &Entry) -> Result<bool> {
        Err(Error::new("afterTurn is there"))
    }

    fn after_turn(&self, context: &Context, turn: &AfterTurn) -> Result<()> {
        context.store().put("k", "v");
        let count = turn.entries().len();
        HEARD.lock().unwrap().push(format!("{count} entries, {} before", turn.pre_prompt_message_count()));
        Ok(())
    }

    fn on_session_ended(&self, _: &Context, _: &SessionEnded) -> Result<()> {
        HEARD.lock().unwrap().push("ended".into());
        Ok(())
    }

    fn assemble(&self, _: &Context, request: &AssembleRequest) -> Result<Assembly> {
        let stored = request.prompt().is_some_and(|prompt| prompt.entry_id().is_some());
        if stored {
            return Err(Error::new("a stored turn"));
        }
        Ok(Assembly::new().keep(request.history().heads()))
    }

    fn compact(&self, context: &Context, request: &CompactRequest) -> Result<Compaction> {
        Ok(context.delegate_compaction(request)?)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_without_durable_turns_serves_only_what_is_not_stored() {
    let factory = RawFactory(engine_abi::factory::<Ephemeral>());
    let plan = Plan { chain: vec!["ephemeral"], engines: vec![("ephemeral", factory, "{}")], ..Plan::default() };
    let bench = Bench::start(plan, echo);
    let reply = bench.say("s", "stored").await;
    assert_eq!((reply.engine.as_str(), reply.degraded.as_deref()), ("legacy", Some("durable-semantics-missing")));
    let messages = json!([
        {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}
    ]);
    let reply = bench.turns.run(TurnRequest { session_key: None, ..ask("", messages) }).await.unwrap();
    assert_eq!((reply.engine.as_str(), reply.degraded), ("ephemeral", None));
    bench.settled().await;
    assert_eq!(*HEARD.lock().unwrap(), ["4 entries, 2 before", "ended"]);
}

/// Adds to the prompt, and rewrites the first message of a session once.
struct Scribe;

#[hooks]
impl ContextEngine for Scribe {
    type Config = IgnoredAny;
    const COMMIT: Commit = Commit::Stateless;

    fn create(_: IgnoredAny, _: &Factory) -> Result<Self> {
        Ok(Scribe)
    }

    fn info(&self) -> Info {
        Info::new("scribe", "Scribe")
    }

    fn ingest(&self, _: &Context, _: &Entry) -> Result<bool> {
        Ok(false)
    }

    fn maintain(&self, context: &Context, _: &MaintainRequest) -> Result<Maintained> {
        let Page::Entries { entries, .. } = context.read_transcript(&CursorRequest::default())? else {
            return Err(Error::new("no page"));
        };
        match entries.first() {
            Some(first) if first.text() == "secret" => {
                Ok(context.rewrite_transcript(&[(first.id(), Message::user("redacted"))])?)
            }
            _ => Ok(Maintained::default()),
        }
    }

    fn assemble(&self, _: &Context, request: &AssembleRequest) -> Result<Assembly> {
        Ok(Assembly::new()
            .keep(request.history().heads())
            .system_prompt("Stable addition.")
            .volatile_prompt("now </engine-context> & <then>"))
    }

    fn compact(&self, context: &Context, request: &CompactRequest) -> Result<Compaction> {
        Ok(context.delegate_compaction(request)?)
    }
}

fn scribe() -> Plan {
    let factory = RawFactory(engine_abi::factory::<Scribe>());
    Plan { chain: vec!["scribe"], engines: vec![("scribe", factory, "{}")], ..Plan::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn additions_have_their_places_and_are_never_stored() {
    let bench = Bench::start(scribe(), echo);
    let parts = json!([{"type": "text", "text": "Look."}]);
    let messages = json!([{"role": "system", "content": "Be brief."}, {"role": "user", "content": parts}]);
    bench.turns.run(ask("s", messages)).await.unwrap();
    let sent = &bench.model.requests()[0].messages;
    assert_eq!(sent[0]["content"], "Stable addition.\n\nBe brief.");
    assert_eq!(sent[1]["content"][1], json!({"type": "text", "text": "Look."}));
    let block = sent[1]["content"][0]["text"].as_str().unwrap();
    assert_eq!(block, "<engine-context>\nnow &lt;/engine-context&gt; &amp; &lt;then&gt;\n</engine-context>");

    bench.say("s", "Again.").await;
    let prompt = bench.model.last_prompt();
    assert_eq!(prompt[0], ("system".into(), "Stable addition.".into()));
    assert!(!prompt[1].1.contains("engine-context"), "{prompt:?}");
    assert!(prompt[3].1.starts_with("<engine-context>") && prompt[3].1.ends_with("\n\nAgain."), "{prompt:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewrite_branches_and_the_conversation_goes_on_from_it() {
    let bench = Bench::start(scribe(), echo);
    bench.say("s", "secret").await;
    bench.say("s", "What did I say?").await;
    let prompt: Vec<_> = bench.model.last_prompt().into_iter().map(|(_, text)| text).collect();
    assert_eq!(prompt[1], "redacted");
    bench.settled().await;
    let record = bench.session("s");
    assert_eq!((record.generation, bench.branches("s")), (2, 2));
    let bench = bench.restart(&[], &[]).await;
    bench.say("s", "And now?").await;
    assert_eq!(bench.model.last_prompt()[0].1, "redacted");
}

/// Owns compaction: shows everything until it is asked to compact, then the last entry only.
struct Owner {
    compacted: std::sync::atomic::AtomicU32,
}

#[hooks]
impl ContextEngine for Owner {
    type Config = IgnoredAny;
    const COMMIT: Commit = Commit::Stateless;

    fn create(_: IgnoredAny, _: &Factory) -> Result<Self> {
        Ok(Owner { compacted: std::sync::atomic::AtomicU32::new(0) })
    }

    fn info(&self) -> Info {
        Info::new("owner", "Owner").owns_compaction()
    }

    fn ingest(&self, _: &Context, _: &Entry) -> Result<bool> {
        Ok(false)
    }

    fn assemble(&self, _: &Context, request: &AssembleRequest) -> Result<Assembly> {
        let heads = request.history().heads();
        let compacted = self.compacted.load(std::sync::atomic::Ordering::SeqCst);
        if compacted > 0 {
            let label = Message::user(format!("compacted {compacted}"));
            return Ok(Assembly::new().message(label).keep(&heads[heads.len().saturating_sub(2)..]));
        }
        Ok(Assembly::new().keep(heads))
    }

    fn compact(&self, _: &Context, _: &CompactRequest) -> Result<Compaction> {
        self.compacted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Ok(Compaction::done("mine", 0, 10, 5))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_owns_compaction_is_asked_once_when_it_is_over_its_budget() {
    let factory = RawFactory(engine_abi::factory::<Owner>());
    let plan =
        Plan { window: Some(1_500), chain: vec!["owner"], engines: vec![("owner", factory, "{}")], ..Plan::default() };
    let bench = Bench::start(plan, echo);
    for number in 0..12 {
        let reply = bench.say("s", &format!("n{number} {}", "word ".repeat(100))).await;
        assert_eq!((reply.engine.as_str(), reply.degraded.clone()), ("owner", None));
        assert!(text(&reply).starts_with("re: "));
    }
    let prompt = bench.model.last_prompt();
    assert_eq!(prompt[0].1, "compacted 1");
    bench.settled().await;
    assert_eq!(bench.session("s").entries, 24, "the host wrote no compaction of its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_of_the_key_and_heartbeats_are_told() {
    let bench = Bench::ordinary();
    let request = TurnRequest {
        heartbeat: true,
        history: HistoryMode::Delta,
        ..ask("agent:support:chat", json!([{"role": "user", "content": "tick"}]))
    };
    bench.turns.run(request).await.unwrap();
    let record = bench.session("agent:support:chat");
    assert_eq!(record.agent, "support");
    let branch = bench.store.branch(record.row, record.head).unwrap();
    assert!(branch.iter().all(|entry| entry.flags & crate::transcript::stored_flags::HEARTBEAT != 0));
    let params: Value = json!({"temperature": 0.5});
    let request = TurnRequest {
        params: params.as_object().unwrap().clone(),
        ..ask("agent:support:chat", json!([{"role": "user", "content": "x"}]))
    };
    bench.turns.run(request).await.unwrap();
    assert_eq!(bench.model.requests()[1].params["temperature"], 0.5);
}
