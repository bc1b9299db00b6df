//! Loads an engine as the gateway does, calls each of its hooks and lets it go: what `tests/valgrind.rs` looks at.
//! `hooks CONFIG GATEWAY ENGINE`: the gateway's binary is the probe.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a driver of a test: it says what it saw, and stops when it cannot go on"
)]

use engine_abi::wire::{EntryHeadV1, entry_flags, role, trigger};
use engineroom::compaction::View;
use engineroom::config::{Overrides, load};
use engineroom::slot::{
    Anchor, AssembleInput, CommitInput, CompactArgs, EntryRef, HookFailure, LeaseRequest, NoServices, PromptInput,
    Segment, SegmentContext, SessionFacts, Slot,
};
use engineroom::transcript::{Message, Role};
use engineroom::worker::{ProbeCommand, use_command};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [config, gateway, engine] = &args[..] else { panic!("hooks CONFIG GATEWAY ENGINE") };
    use_command(ProbeCommand::new(PathBuf::from(gateway)));
    let config = load(Some(config.as_ref()), &Overrides::default()).expect("the configuration").config;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    let slot = Slot::new(&config, runtime.handle().clone());
    slot.start(&(Arc::new(NoServices) as _));
    let lease = slot.lease(&LeaseRequest::turn("main", true)).expect("a lease");
    assert_eq!(lease.engine().id(), engine, "{}", lease.reasons());
    for (name, hook) in HOOKS {
        let outcome = lease.engine().segment_blocking(context(), hook).and_then(|inner| inner);
        println!("{name}: {}", outcome.map_or_else(|failure| failure.to_string(), |()| "ok".into()));
    }
    // A call that was given up comes back, pushes, and is told that it is too late; only then there is anything to look at.
    while slot.status().engines.iter().any(|engine| engine.abandoned_live > 0) {
        std::thread::sleep(Duration::from_millis(20));
    }
    println!("disposed: {}", slot.dispose_all(Duration::from_secs(60)));
    drop((lease, slot));
    runtime.shutdown_timeout(Duration::from_secs(10));
}

type Hook = fn(&mut Segment) -> Result<(), HookFailure>;

const HOOKS: [(&str, Hook); 10] = [
    ("bootstrap", |segment| segment.bootstrap().map(drop)),
    ("maintain", |segment| segment.maintain(trigger::BOOTSTRAP, false).map(drop)),
    ("ingest", |segment| segment.ingest(&entries()[0]).map(drop)),
    ("ingestBatch", |segment| segment.ingest_batch(&entries()).map(drop)),
    ("assemble", |segment| segment.assemble(&assembling()).map(drop)),
    ("compact", |segment| segment.compact(&compacting()).map(drop)),
    ("afterTurn", |segment| segment.after_turn(&entries(), 2, None).map(drop)),
    ("commitTurn", |segment| segment.commit_turn(&committing()).map(drop)),
    ("tools", |segment| segment.tools().map(drop)),
    // Once more: what a first call kept, a second one finds.
    ("assemble again", |segment| segment.assemble(&assembling()).map(drop)),
];

fn context() -> SegmentContext {
    let facts = SessionFacts {
        session_id: "session".into(),
        session_key: Some("key".into()),
        agent: "main".into(),
        token_budget: Some(1_000),
        ..SessionFacts::default()
    };
    SegmentContext::new(facts, Arc::new(NoServices))
}

fn entries() -> Vec<EntryRef> {
    let said = [(Role::User, "Where does the Aurora berth?"), (Role::Assistant, "At quay nine."), (Role::User, "Now?")];
    let entry = |(number, (role, text)): (u64, (Role, &str))| {
        let user = role == Role::User;
        let head = EntryHeadV1 {
            id: number * 10,
            time_ms: 1,
            tokens: 5,
            role: if user { role::USER } else { role::ASSISTANT },
            flags: if user { entry_flags::TURN_START } else { 0 },
            text_bytes: u32::try_from(text.len()).expect("a short text"),
        };
        EntryRef { head, message: Arc::new(Message::text_of(role, text)) }
    };
    (1..).zip(said).map(entry).collect()
}

fn view() -> Arc<View> {
    let mut view = View::default();
    for entry in entries() {
        view.heads.push(entry.head);
        view.bodies.push(entry.message);
    }
    Arc::new(view)
}

fn assembling() -> AssembleInput {
    AssembleInput {
        view: view(),
        len: 2,
        prompt: Some(PromptInput { entry_id: 30, tokens: 5, message: Arc::new(Message::text_of(Role::User, "Now?")) }),
        system_tokens: 0,
        available_tools: vec!["look".into()],
        model: Some("model".into()),
        citations_mode: 0,
    }
}

fn compacting() -> CompactArgs {
    CompactArgs {
        view: view(),
        len: 3,
        force: true,
        target: 0,
        trigger: trigger::MANUAL,
        attempt: 1,
        max_attempts: 1,
        force_reason: 0,
        custom_instructions: Some("the harbour".into()),
        token_budget: Some(1_000),
        current_token_count: Some(15),
    }
}

fn committing() -> CommitInput {
    CommitInput {
        advancement_key: "key".into(),
        logical_turn_id: "turn".into(),
        admission: Anchor::default(),
        terminal: Anchor::default(),
        entries: entries(),
    }
}
