//! The self-test of an engine in the disposable child: built with its configuration, checked, each hook called once on a
//! canned conversation, disposed. The calls are the same guarded calls as in the gateway.

use super::facts::*;
use super::failure::{FailureKind, HookFailure};
use super::hook::Hook;
use super::pairs::Pairs;
use super::segment::{Segment, SegmentContext};
use super::services::*;
use super::single::Single;
use super::slot::MAIN_AGENT;
use crate::plugins::{Cause, Stage, StageFailure};
use crate::transcript::{Message, Role, ToolCall, ToolFunction};
use crate::worker::{SelfTest, Subject};
use engine_abi::wire::{EntryHeadV1, entry_flags, service, session_end, subagent_end, trigger};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Runs the self-test of one engine or memory provider. Errors that an engine hands on from a host service do not count: most services of the
/// child are only stand-ins.
///
/// # Errors
///
/// The first failure, under the stage that it belongs to.
pub fn selftest(test: &SelfTest<'_>) -> Result<(), StageFailure> {
    let steps: &[(Hook, Step)] = match test.subject {
        Subject::Engine(_) => &STEPS,
        Subject::Memory(_) => &MEMORY_STEPS,
    };
    let bench = Single::here(test.subject, test.deadlines, test.state_dir, false);
    let engine = bench.engine();
    let canned = Arc::new(Canned::default());
    let context = |facts: SessionFacts| SegmentContext::new(facts, Arc::clone(&canned) as Arc<dyn HostServices>);

    (test.progress)(Stage::Factory, Hook::Factory.name());
    engine.segment_blocking(context(session()), |_| ()).map_err(|failure| staged(&failure))?;
    let history = conversation();
    for &(hook, step) in steps {
        (test.progress)(Stage::Contract, hook.name());
        let history = history.clone();
        let outcome = engine.segment_blocking(context(session()), move |segment| step(segment, &history));
        match outcome.and_then(|inner| inner) {
            Ok(()) => {}
            Err(failure) if failure.kind == FailureKind::Service => {}
            Err(failure) => return Err(staged(&failure)),
        }
    }
    (test.progress)(Stage::Contract, Hook::Dispose.name());
    bench.dispose().map_err(|failure| staged(&failure))
}

type Step = fn(&mut Segment, &Conversation) -> Result<(), HookFailure>;

/// Each hook of a stored turn in its order, then those of an ephemeral one and the rest. What an engine has not is passed.
const STEPS: [(Hook, Step); 12] = [
    (Hook::Bootstrap, |s, _| s.bootstrap().map(drop)),
    (Hook::Maintain, |s, _| s.maintain(trigger::BOOTSTRAP, false).map(drop)),
    (Hook::Assemble, |s, c| s.assemble(&c.assemble()).map(drop)),
    (Hook::CommitTurn, |s, c| s.commit_turn(&c.commit()).map(drop)),
    (Hook::Compact, |s, c| s.compact(&c.compact()).map(drop)),
    (Hook::Ingest, |s, c| c.turn().iter().try_for_each(|entry| s.ingest(entry).map(drop))),
    (Hook::IngestBatch, |s, c| s.ingest_batch(&c.turn()).map(drop)),
    (Hook::AfterTurn, |s, c| s.after_turn(&c.entries(), c.before, None).map(drop)),
    (Hook::PrepareSubagentSpawn, |s, _| {
        let spawn = SubagentSpawn {
            parent_session_key: KEY.into(),
            child_session_key: format!("{KEY}:child"),
            ..SubagentSpawn::default()
        };
        match s.prepare_subagent_spawn(&spawn)? {
            Some(handle) => s.rollback_subagent_spawn(handle).map(drop),
            None => Ok(()),
        }
    }),
    (Hook::OnSubagentEnded, |s, _| s.on_subagent_ended(&format!("{KEY}:child"), subagent_end::COMPLETED).map(drop)),
    (Hook::Tools, |s, _| s.tools().map(drop)),
    (Hook::OnSessionEnded, |s, _| s.on_session_ended(session_end::DELETED).map(drop)),
];

/// The same for a memory provider. Nothing is appended: its configuration may name a folder of the operator, and what is kept
/// there is kept for good.
const MEMORY_STEPS: [(Hook, Step); 2] = [
    (Hook::MemoryPrompt, |s, _| {
        let args = MemoryPromptArgs { available_tools: vec!["clock".into()], ..MemoryPromptArgs::default() };
        s.memory_prompt(&args).map(drop)
    }),
    (Hook::MemorySearch, |s, _| s.memory_search("What is my name?", 5).map(drop)),
];

/// The stage and code of a failure.
fn staged(failure: &HookFailure) -> StageFailure {
    let cause = match (failure.hook, failure.kind) {
        (Hook::Factory, FailureKind::Panic) => Cause::FactoryPanic,
        (Hook::Factory, FailureKind::Deadline) => Cause::FactoryDeadline,
        (Hook::Factory, FailureKind::InvalidResult) => Cause::FactoryNothing,
        (Hook::Factory, _) => Cause::FactoryError,
        (Hook::Info, FailureKind::InvalidResult) if failure.reason.contains("() is missing") => Cause::HookMissing,
        (Hook::Info, FailureKind::InvalidResult) if failure.reason.contains("blank") => Cause::BlankInfo,
        (Hook::Info, FailureKind::InvalidResult) => Cause::BadInfo,
        (Hook::Info, _) => Cause::InfoFailed,
        (_, FailureKind::Deadline) => Cause::SelfTestDeadline,
        _ => Cause::SelfTest,
    };
    let staged = StageFailure::new(cause, format!("{}: {}", failure.hook, failure.reason));
    failure.causes.iter().fold(staged, StageFailure::because)
}

const KEY: &str = "selftest";

fn session() -> SessionFacts {
    SessionFacts {
        session_id: "00000000-0000-7000-8000-000000000000".into(),
        session_key: Some(KEY.into()),
        agent: MAIN_AGENT.into(),
        store: Some(KEY.into()),
        settings: Some(RuntimeSettings::default()),
        token_budget: Some(8_000),
        current_token_count: Some(120),
        ..SessionFacts::default()
    }
}

/// A short conversation with a tool pair; its last user message is the current turn.
#[derive(Clone)]
struct Conversation {
    view: Arc<View>,
    before: usize,
}

fn conversation() -> Conversation {
    let mut call = Message::text_of(Role::Assistant, "");
    call.tool_calls = vec![ToolCall {
        id: "call_1".into(),
        kind: "function".into(),
        function: ToolFunction { name: "clock".into(), arguments: "{}".into() },
        extra: serde_json::Map::new(),
    }];
    let mut result = Message::text_of(Role::Tool, "12:00");
    result.tool_call_id = Some("call_1".into());
    let messages = [
        Message::text_of(Role::User, "What time is it?"),
        call,
        result,
        Message::text_of(Role::Assistant, "It is twelve."),
        Message::text_of(Role::User, "My name is Ada. Remember it."),
        Message::text_of(Role::Assistant, "I will, Ada."),
        Message::text_of(Role::User, "What is my name?"),
    ];
    let before = messages.len() - 1;
    let mut view = View::default();
    for (number, message) in (1u64..).zip(messages) {
        let text_bytes = u32::try_from(message.text().len()).unwrap_or(u32::MAX);
        let flags = match message.role {
            Role::User => entry_flags::TURN_START,
            _ if !message.tool_calls.is_empty() => entry_flags::TOOL_CALLS,
            _ => 0,
        };
        view.heads.push(EntryHeadV1 {
            id: number,
            time_ms: 1_700_000_000_000 + i64::try_from(number).unwrap_or(0) * 1_000,
            tokens: 8 + text_bytes / 4,
            role: message.role.code(),
            flags,
            text_bytes,
        });
        view.bodies.push(Arc::new(message));
    }
    Conversation { view: Arc::new(view), before }
}

impl Conversation {
    fn entries(&self) -> Vec<EntryRef> {
        let rows = self.view.heads.iter().zip(&self.view.bodies);
        rows.map(|(head, body)| EntryRef { head: *head, message: Arc::clone(body) }).collect()
    }

    fn turn(&self) -> Vec<EntryRef> {
        self.entries().split_off(self.before)
    }

    fn assemble(&self) -> AssembleInput {
        let prompt = self.turn().first().map(|entry| PromptInput {
            entry_id: entry.head.id,
            tokens: u64::from(entry.head.tokens),
            message: Arc::clone(&entry.message),
        });
        AssembleInput {
            view: Arc::clone(&self.view),
            len: self.before,
            prompt,
            system_tokens: 0,
            available_tools: vec!["clock".into()],
            model: Some("selftest".into()),
            citations_mode: 0,
        }
    }

    fn commit(&self) -> CommitInput {
        let entries = self.turn();
        let anchor = |entry: Option<&EntryRef>| Anchor {
            entry_id: entry.map_or(0, |entry| entry.head.id),
            raw_seq: entry.map_or(0, |entry| entry.head.id),
            ..Anchor::default()
        };
        CommitInput {
            advancement_key: format!("{KEY}:1"),
            logical_turn_id: format!("{KEY}:turn"),
            admission: anchor(entries.first()),
            terminal: anchor(entries.last()),
            entries,
        }
    }

    fn compact(&self) -> CompactArgs {
        CompactArgs {
            view: Arc::clone(&self.view),
            len: self.before,
            force: false,
            target: 0,
            trigger: trigger::MANUAL,
            attempt: 1,
            max_attempts: 1,
            force_reason: 0,
            custom_instructions: None,
            token_budget: Some(8_000),
            current_token_count: Some(120),
        }
    }
}

/// Stand-ins for the services: rough token counts, a store in memory, an empty transcript, a compaction that does nothing.
#[derive(Default)]
struct Canned {
    /// By scope: true for the engine's own.
    store: Mutex<Pairs<bool>>,
}

impl Canned {
    fn store(&self) -> MutexGuard<'_, Pairs<bool>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HostServices for Canned {
    fn available(&self, id: &str) -> bool {
        matches!(id, service::TOKENS | service::STORE | service::TRANSCRIPT | service::COMPACTION | service::MEMORY)
    }

    fn count_tokens(&self, _: &CallScope<'_>, text: &str) -> Result<TokenCount, ServiceError> {
        Ok(TokenCount { tokens: text.len().div_ceil(4) as u64, estimated: true })
    }

    fn delegate_compaction(&self, _: &CallScope<'_>, args: CompactArgs) -> Result<CompactOutput, ServiceError> {
        Ok(CompactOutput {
            ok: true,
            reason: Some("nothing to compact".into()),
            tokens_before: args.current_token_count,
            ..CompactOutput::default()
        })
    }

    fn read_transcript(&self, _: &CallScope<'_>, _: CursorRequest) -> Result<CursorPage, ServiceError> {
        Ok(CursorPage { cursor: Some("0".into()), ..CursorPage::default() })
    }

    fn rewrite(&self, _: &CallScope<'_>, _: Vec<Replacement>) -> Result<MaintainOutput, ServiceError> {
        Ok(MaintainOutput { reason: Some("no changed matching message entries".into()), ..MaintainOutput::default() })
    }

    fn memory_prompt(&self, _: &CallScope<'_>, _: MemoryPromptArgs) -> Result<Option<String>, ServiceError> {
        Ok(None)
    }

    fn memory_search(&self, _: &CallScope<'_>, _: &str, _: usize) -> Result<Vec<MemoryHit>, ServiceError> {
        Ok(Vec::new())
    }

    fn store_get(&self, _: &CallScope<'_>, own: bool, key: &[u8]) -> Result<Option<Vec<u8>>, ServiceError> {
        Ok(self.store().get(&own, key))
    }

    fn store_scan(
        &self,
        _: &CallScope<'_>,
        own: bool,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<StorePairs, ServiceError> {
        Ok(self.store().scan(&own, prefix, after, limit))
    }

    fn store_batch(&self, _: &CallScope<'_>, ops: Vec<StoreOp>) -> Result<(), ServiceError> {
        self.store().batch(|own| own, ops)
    }
}
