//! A small host for an author's tests: runs the hooks of an engine ([`Engine`]) or of a memory provider ([`Memory`]) through
//! its function table, in the test's own process.
//!
//! ```
//! # use engine_abi::*;
//! # struct Mine;
//! # #[hooks]
//! # impl ContextEngine for Mine {
//! #     type Config = serde::de::IgnoredAny;
//! #     fn create(_: Self::Config, _: &Factory) -> Result<Self> { Ok(Mine) }
//! #     fn info(&self) -> Info { Info::new("mine", "Mine") }
//! #     fn ingest(&self, _: &Context, _: &Entry) -> Result<bool> { Ok(true) }
//! #     fn assemble(&self, _: &Context, request: &AssembleRequest) -> Result<Assembly> {
//! #         Ok(Assembly::new().keep(request.history().heads()))
//! #     }
//! #     fn compact(&self, c: &Context, request: &CompactRequest) -> Result<Compaction> { Ok(c.delegate_compaction(request)?) }
//! # }
//! use engine_abi::testing::{Engine, Line};
//!
//! let engine = Engine::new::<Mine>("{}").unwrap();
//! let history = [Line::user(1, "hello"), Line::assistant(2, "good morning")];
//! assert_eq!(engine.assemble(&history, Some(1000)).unwrap().ids(&history), [1, 2]);
//! ```
//!
//! Tokens are a quarter of the bytes. There is no model, no memory and one session; the store lives as long as the
//! engine.
#![allow(unsafe_code, reason = "plays the host: lends pointers to an engine's functions and reads what they push")]

mod frame;
mod memory;
mod services;

use crate::wire::{self, CallV1, EntryPointV1, FactoryV1, FrameV1, InstanceV1, Str, status};
pub use frame::{Assembled, Compacted, Failure, InfoSeen, Piece};
use frame::{Frame, SINK};
pub use memory::{Folders, Memory};
pub use services::logged;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// One entry of a made-up history. An entry of the person starts a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Id; must rise along the history.
    pub id: u64,
    /// A code from [`wire::role`].
    pub role: u32,
    /// Bits from [`wire::entry_flags`].
    pub flags: u32,
    /// Tokens.
    pub tokens: u32,
    /// Text.
    pub text: String,
}

impl Line {
    /// Of the person.
    #[must_use]
    pub fn user(id: u64, text: &str) -> Line {
        Line { flags: wire::entry_flags::TURN_START, ..Line::of(id, wire::role::USER, text) }
    }

    /// Of the model.
    #[must_use]
    pub fn assistant(id: u64, text: &str) -> Line {
        Line::of(id, wire::role::ASSISTANT, text)
    }

    /// Of a tool.
    #[must_use]
    pub fn tool(id: u64, text: &str) -> Line {
        Line::of(id, wire::role::TOOL, text)
    }

    /// The same with another number of tokens.
    #[must_use]
    pub fn with_tokens(self, tokens: u32) -> Line {
        Line { tokens, ..self }
    }

    fn of(id: u64, role: u32, text: &str) -> Line {
        let tokens = u32::try_from(text.len() / 4 + 1).unwrap_or(u32::MAX);
        Line { id, role, flags: 0, tokens, text: text.to_owned() }
    }

    fn entry(&self) -> wire::EntryV1 {
        wire::EntryV1 {
            head: wire::EntryHeadV1 {
                id: self.id,
                time_ms: 0,
                tokens: self.tokens,
                role: self.role,
                flags: self.flags,
                text_bytes: u32::try_from(self.text.len()).unwrap_or(u32::MAX),
            },
            message: wire::MessageV1 {
                role: self.role,
                reserved: 0,
                text: Str::new(&self.text),
                tool_call_id: Str::NONE,
                name: Str::NONE,
                tool_calls: std::ptr::null(),
                tool_calls_len: 0,
            },
        }
    }
}

/// What all calls of one engine share.
#[derive(Default)]
struct Shared {
    store: Mutex<Stored>,
}

/// Values by scope (true for the engine's own) and key.
type Stored = BTreeMap<(bool, Vec<u8>), Vec<u8>>;

/// One instance of an engine, with its host. Disposed when it is dropped.
pub struct Engine {
    instance: InstanceV1,
    shared: Arc<Shared>,
}

impl Engine {
    /// An instance of `E`, from its configuration as JSON.
    ///
    /// # Errors
    ///
    /// What the factory said.
    pub fn new<E: crate::ContextEngine>(config_json: &str) -> Result<Engine, Failure> {
        Engine::make(&crate::factory::<E>(), config_json)
    }

    /// An instance of the first engine that a library registers.
    ///
    /// # Errors
    ///
    /// What `register` or the factory said.
    ///
    /// # Panics
    ///
    /// When the library registers no engine.
    pub fn from_entry(entry: &EntryPointV1, config_json: &str) -> Result<Engine, Failure> {
        let registered = frame::register(entry)?;
        Engine::make(&registered.engines[0].1, config_json)
    }

    fn make(factory: &FactoryV1, config_json: &str) -> Result<Engine, Failure> {
        let shared = Arc::new(Shared::default());
        let frame = Frame::new(&shared, &[], None);
        let context = wire::FactoryContextV1 {
            host: services::host(),
            frame: frame.as_wire(),
            engine_id: Str::new("test"),
            config_json: Str::new(config_json),
            agent_dir: Str::NONE,
            workspace_dir: Str::NONE,
            state_dir: Str::new(""),
            fail: SINK.fail,
        };
        let mut instance = InstanceV1::NONE;
        frame.result((factory.create)(factory.tag, &raw const context, &raw mut instance))?;
        Ok(Engine { instance, shared })
    }

    /// The engine's function table.
    #[must_use]
    pub fn table(&self) -> &wire::EngineV1 {
        // SAFETY: a table lives for ever.
        unsafe { &*self.instance.table }
    }

    /// `info`.
    ///
    /// # Errors
    ///
    /// What the hook said.
    pub fn info(&self) -> Result<InfoSeen, Failure> {
        let frame = Frame::new(&self.shared, &[], None);
        let answer = self.table().info.map_or(status::UNSUPPORTED, |hook| hook(self.instance.instance, &frame.call()));
        frame.result(answer)?;
        frame.out().info.ok_or_else(|| Failure::missing("info"))
    }

    /// `assemble`, with `history` before the current turn.
    ///
    /// # Errors
    ///
    /// What the hook said, or that it pushed no result.
    pub fn assemble(&self, history: &[Line], token_budget: Option<u64>) -> Result<Assembled, Failure> {
        let frame = Frame::new(&self.shared, history, token_budget);
        let heads = frame.heads();
        let args = wire::AssembleArgsV1 {
            session: frame.session(),
            entries: heads.as_ptr(),
            entries_len: heads.len(),
            prompt: std::ptr::null(),
            system_tokens: 0,
            available_tools: wire::StrList::NONE,
            model: Str::NONE,
            citations_mode: wire::citations_mode::AUTO,
            reserved: 0,
        };
        self.run(&frame, self.table().assemble, &args)?;
        let out = frame.out();
        out.assembled
            .map(|result| Assembled { pieces: out.pieces, ..result })
            .ok_or_else(|| Failure::missing("assemble"))
    }

    /// `compact` of the whole `history`, forced.
    ///
    /// # Errors
    ///
    /// What the hook said, or that it pushed no result.
    pub fn compact(&self, history: &[Line], token_budget: Option<u64>) -> Result<Compacted, Failure> {
        let frame = Frame::new(&self.shared, history, token_budget);
        let heads = frame.heads();
        let args = wire::CompactArgsV1 {
            session: frame.session(),
            entries: heads.as_ptr(),
            entries_len: heads.len(),
            force: 1,
            target: wire::compaction_target::BUDGET,
            trigger: wire::trigger::MANUAL,
            attempt: 1,
            max_attempts: 1,
            force_reason: wire::force_reason::MANUAL,
            custom_instructions: Str::NONE,
        };
        self.run(&frame, self.table().compact, &args)?;
        frame.out().compacted.ok_or_else(|| Failure::missing("compact"))
    }

    /// `ingest`; true when the entry was new.
    ///
    /// # Errors
    ///
    /// What the hook said, or that it pushed no result.
    pub fn ingest(&self, line: &Line) -> Result<bool, Failure> {
        let frame = Frame::new(&self.shared, std::slice::from_ref(line), None);
        let args = wire::IngestArgsV1 { session: frame.session(), entries: frame.list() };
        self.run(&frame, self.table().ingest, &args)?;
        frame.out().ingested.map(|count| count > 0).ok_or_else(|| Failure::missing("ingest"))
    }

    /// `ingest` of one entry `times` times through one prepared call: what a bare call through the table costs, for benches.
    ///
    /// # Errors
    ///
    /// The first status that is not [`status::OK`], or that the engine has no such hook.
    pub fn ingest_times(&self, line: &Line, times: usize) -> Result<(), Failure> {
        let frame = Frame::new(&self.shared, std::slice::from_ref(line), None);
        let args = wire::IngestArgsV1 { session: frame.session(), entries: frame.list() };
        let ingest = self.table().ingest.ok_or_else(|| Failure::missing("ingest"))?;
        let call = frame.call();
        for _ in 0..times {
            let answer = ingest(self.instance.instance, &raw const call, &raw const args);
            if answer != status::OK {
                return frame.result(answer);
            }
        }
        Ok(())
    }

    /// `commitTurn`; a code from [`wire::commit_status`].
    ///
    /// # Errors
    ///
    /// What the hook said, or that it pushed no result.
    pub fn commit(&self, advancement_key: &str, turn: &[Line]) -> Result<u32, Failure> {
        let frame = Frame::new(&self.shared, turn, None);
        let anchor = |line: Option<&Line>| wire::AnchorV1 {
            entry_id: line.map_or(0, |line| line.id),
            raw_seq: line.map_or(0, |line| line.id),
            effective_parent_id: 0,
            active_message_position: 0,
            generation: 1,
            idempotency_key: Str::NONE,
        };
        let args = wire::CommitTurnArgsV1 {
            session: frame.session(),
            advancement_key: Str::new(advancement_key),
            logical_turn_id: Str::new("turn"),
            admission: anchor(turn.first()),
            terminal: anchor(turn.last()),
            entries: frame.list(),
        };
        self.run(&frame, self.table().commit_turn, &args)?;
        frame.out().committed.ok_or_else(|| Failure::missing("commitTurn"))
    }

    /// `dispose`; what it said. Done by the drop otherwise.
    ///
    /// # Errors
    ///
    /// What the hook said.
    pub fn dispose(mut self) -> Result<(), Failure> {
        self.end()
    }

    /// Number of keys in the engine's store, both scopes together.
    #[must_use]
    pub fn stored_keys(&self) -> usize {
        self.shared.store.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn run<A>(
        &self,
        frame: &Frame,
        hook: Option<extern "C" fn(*const u8, *const CallV1, *const A) -> u32>,
        args: &A,
    ) -> Result<(), Failure> {
        let answer = hook.map_or(status::UNSUPPORTED, |hook| hook(self.instance.instance, &frame.call(), args));
        frame.result(answer)
    }

    fn end(&mut self) -> Result<(), Failure> {
        let instance = std::mem::replace(&mut self.instance, InstanceV1::NONE);
        if instance.table.is_null() {
            return Ok(());
        }
        let frame = Frame::new(&self.shared, &[], None);
        // SAFETY: a table lives for ever.
        let dispose = unsafe { &*instance.table }.dispose;
        frame.result(dispose.map_or(status::OK, |dispose| dispose(instance.instance, &frame.call())))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // A test that cares about it calls `dispose`.
        let _ = self.end();
    }
}

// SAFETY: an instance may be entered from any thread; everything else in here is shared behind locks.
unsafe impl Send for Engine {}
// SAFETY: as above.
unsafe impl Sync for Engine {}

/// The frame that a function of the host was called with.
///
/// # Safety
///
/// `frame` is one of [`Frame::as_wire`], still alive.
unsafe fn frame_of<'a>(frame: *const FrameV1) -> &'a Frame {
    // SAFETY: the caller's promise.
    unsafe { &*frame.cast::<Frame>() }
}
