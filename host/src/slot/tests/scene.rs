//! Slots in folders of their own, a short conversation, and what a turn would hand over.

use super::fake::Fake;
use crate::config::Config;
use crate::slot::*;
use crate::transcript::{Message, Role, ToolCall, ToolFunction};
use engine_abi::wire::{EntryHeadV1, entry_flags, trigger};
use std::sync::Arc;

/// A slot in a folder of its own.
pub struct Bench {
    pub slot: Arc<Slot>,
    _folder: tempfile::TempDir,
}

/// A slot whose chain is `chain`, with deadlines that no test waits for.
pub fn bench(chain: &[&str], change: impl FnOnce(&mut Config)) -> Bench {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("plugins")).unwrap();
    let mut config = Config::defaults(folder.path().join("plugins.toml"));
    config.plugins.slots.context_engine = chain.iter().map(|id| (*id).to_owned()).collect();
    config.compaction.timeout_ms = LONG;
    for hook in Hook::ALL {
        config.plugins.deadlines.insert(hook.key().into(), LONG);
    }
    change(&mut config);
    Bench { slot: Slot::new(&config, tokio::runtime::Handle::current()), _folder: folder }
}

/// A deadline that no test waits for.
const LONG: u64 = 60_000;
/// A deadline that a hanging hook misses at once.
pub const SHORT: u64 = 40;

/// A started slot whose only engine is `fake`.
pub fn serving(fake: Fake) -> (Bench, &'static Fake) {
    serving_with(fake, |_| ())
}

/// The same, in which `hook` has a deadline that it soon misses.
pub fn hurried(fake: Fake, hook: Hook) -> (Bench, &'static Fake) {
    serving_with(fake, |config| {
        config.plugins.deadlines.insert(hook.key().into(), SHORT);
    })
}

fn serving_with(fake: Fake, change: impl FnOnce(&mut Config)) -> (Bench, &'static Fake) {
    let bench = bench(&["fake"], change);
    let (fake, factory) = fake.factory();
    bench.slot.register("plug", "fake", factory, "{}").unwrap();
    bench.slot.start(&none());
    (bench, fake)
}

pub fn none() -> Arc<dyn HostServices> {
    Arc::new(NoServices)
}

pub fn context() -> SegmentContext {
    context_with(none())
}

pub fn context_with(services: Arc<dyn HostServices>) -> SegmentContext {
    let session = SessionFacts {
        session_id: "session".into(),
        session_key: Some("key".into()),
        agent: "main".into(),
        settings: Some(RuntimeSettings::default()),
        ..SessionFacts::default()
    };
    SegmentContext::new(session, services)
}

pub fn lease(slot: &Slot) -> Lease {
    slot.lease(&LeaseRequest::turn("main", true)).unwrap()
}

pub fn user(text: &str) -> Message {
    Message::text_of(Role::User, text)
}

pub fn assistant(text: &str) -> Message {
    Message::text_of(Role::Assistant, text)
}

pub fn calls(id: &str) -> Message {
    let mut message = assistant("");
    message.tool_calls = vec![ToolCall {
        id: id.into(),
        kind: "function".into(),
        function: ToolFunction { name: "tool".into(), arguments: "{}".into() },
        extra: serde_json::Map::new(),
    }];
    message
}

pub fn answers(id: &str) -> Message {
    let mut message = Message::text_of(Role::Tool, "result");
    message.tool_call_id = Some(id.into());
    message
}

/// A view with the ids 10, 20, 30 …
pub fn view(messages: Vec<Message>) -> Arc<View> {
    let mut view = View::default();
    for (number, message) in (1u64..).zip(messages) {
        let flags = if message.tool_calls.is_empty() { 0 } else { entry_flags::TOOL_CALLS };
        view.heads.push(EntryHeadV1 {
            id: number * 10,
            time_ms: 0,
            tokens: 5,
            role: message.role.code(),
            flags,
            text_bytes: 0,
        });
        view.bodies.push(Arc::new(message));
    }
    Arc::new(view)
}

/// 10 user, 20 calls, 30 result, 40 assistant; the current turn is 50.
pub fn conversation() -> AssembleInput {
    let messages = vec![user("a"), calls("c1"), answers("c1"), assistant("b"), user("now")];
    let prompt = Arc::new(user("now"));
    AssembleInput {
        view: view(messages),
        len: 4,
        prompt: Some(PromptInput { entry_id: 50, tokens: 5, message: prompt }),
        system_tokens: 0,
        available_tools: vec!["tool".into()],
        model: None,
        citations_mode: 0,
    }
}

pub fn compact_args() -> CompactArgs {
    let input = conversation();
    CompactArgs {
        view: input.view,
        len: input.len,
        force: false,
        target: 0,
        trigger: trigger::MANUAL,
        attempt: 1,
        max_attempts: 1,
        force_reason: 0,
        custom_instructions: None,
        token_budget: Some(1_000),
        current_token_count: Some(20),
    }
}
