//! A small host for an author's tests, in the test's own process: no gateway, no network, no file. It runs the hooks of an
//! engine ([`Engine`]) or of a memory provider ([`Memory`]) through its function table, as the gateway does.
//!
//! # Play a session, and look at what the model would see
//!
//! [`Engine::play`] is a session that is played turn by turn. Take an engine that keeps what the person asks it to keep, and shows
//! it with the newest turns that fit:
//!
//! ```
//! use engine_abi::testing::{Engine, World};
//! use engine_abi::*;
//!
//! struct Keeper;
//!
//! #[hooks]
//! impl ContextEngine for Keeper {
//!     type Config = serde_json::Value;
//!
//!     fn create(_: Self::Config, _: &Factory) -> Result<Self> {
//!         Ok(Keeper)
//!     }
//!     fn info(&self) -> Info {
//!         Info::new("keeper", "Keeper")
//!     }
//!     fn ingest(&self, context: &Context, entry: &Entry) -> Result<bool> {
//!         if let Some(wish) = entry.text().strip_prefix("Remember: ") {
//!             context.store().put(format!("wish/{:020}", entry.id()), wish);
//!         }
//!         Ok(true)
//!     }
//!     fn assemble(&self, context: &Context, request: &AssembleRequest) -> Result<Assembly> {
//!         let (history, budget) = (request.history(), context.session().token_budget().unwrap_or(u64::MAX));
//!         let wishes = context.store().scan("wish/", None, 100)?;
//!         let wishes: Vec<_> = wishes.iter().map(|(_, wish)| String::from_utf8_lossy(wish)).collect();
//!         let shown = Assembly::new().keep(&history.heads()[history.newest_turns(budget)..]);
//!         Ok(if wishes.is_empty() { shown } else { shown.system_prompt(wishes.join("\n")) })
//!     }
//!     fn compact(&self, context: &Context, request: &CompactRequest) -> Result<Compaction> {
//!         Ok(context.delegate_compaction(request)?)
//!     }
//! }
//!
//! # fn main() -> std::result::Result<(), engine_abi::testing::Failure> {
//! // A world is what outlives an engine: its store, the transcripts of sessions, the clock, and the model if there is one.
//! let world = World::default();
//! let engine = Engine::within::<Keeper>("{}", &world)?;
//!
//! // One whole turn: what the person says, and what the model answers. Its answer is what the model was shown.
//! let mut play = engine.play("agent:main:desk").with_budget(200);
//! play.turn("Remember: the pilot is called Marisol.", "I will.")?;
//! play.small_talk(40)?;
//!
//! // What would the model see of the next question? The turn is long gone, the wish is there, and all of it fits.
//! let shown = play.ask("What is the pilot called?")?;
//! assert!(shown.contains("the pilot is called Marisol."));
//! assert!(!shown.texts().contains(&"I will."));
//! assert_eq!(shown.texts().last(), Some(&"What is the pilot called?"));
//! assert!(shown.tokens() <= 200);
//!
//! // A restart: another instance in the same world.
//! drop(engine);
//! let engine = Engine::within::<Keeper>("{}", &world)?;
//! let mut play = engine.play("agent:main:desk").with_budget(200);
//! assert!(play.ask("And now?")?.contains("Marisol"));
//!
//! // The engine's store is lost; the transcript is the host's, and the engine takes it in anew.
//! world.forget("agent:main:desk");
//! let mut play = engine.play("agent:main:desk").with_budget(200);
//! assert!(play.ask("And now?")?.contains("Marisol"));
//!
//! // The end of a session takes its scope of the store with it.
//! play.delete()?;
//! assert_eq!(engine.stored_keys(), 0);
//! # Ok(())
//! # }
//! ```
//!
//! # When the host fails
//!
//! - [`World::plan_batches`] lets batches of the store fail, with or without being written.
//! - [`World::set_model`] is the model that `llm.complete` asks; it may fail, and let time pass with [`World::advance`].
//! - [`Play::cancelled_after`] cancels every call after so many checks; [`Talk::deadline`] lets them expire.
//! - [`World::tamper`] changes a value of the store past the engine.
//!
//! # One hook at a time
//!
//! [`Engine::talk`] has every hook of a session by itself, with entries ([`Line`]) that the test makes up:
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
//! Tokens are a quarter of the bytes. What this host does not have, the gateway may: memory for engines, and rewriting a transcript.
#![allow(unsafe_code, reason = "plays the host: lends pointers to an engine's functions and reads what they push")]

mod frame;
mod memory;
mod model;
mod play;
mod services;
mod talk;
mod transcript;
mod world;

use crate::wire::{self, CallV1, EntryPointV1, FactoryV1, FrameV1, InstanceV1, Str, status};
pub use frame::{Assembled, Compacted, Failure, InfoSeen, Piece};
use frame::{Frame, SINK};
pub use memory::{Folders, Memory};
pub use model::Asked;
pub use play::{Play, Shown};
pub use services::logged;
pub use talk::{Said, Spawn, Talk};
use world::Shared;
pub use world::{Fault, World};

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
    /// When it was said, in ms since the epoch.
    pub time_ms: i64,
    /// Name of who said it.
    pub name: Option<String>,
    /// Id of the call that a tool's result answers.
    pub answers: Option<String>,
    /// Tool calls of the model: id, name, arguments.
    pub calls: Vec<[String; 3]>,
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

    /// The same, said at another time.
    #[must_use]
    pub fn at(self, time_ms: i64) -> Line {
        Line { time_ms, ..self }
    }

    /// The same, said by somebody with a name.
    #[must_use]
    pub fn named(self, name: &str) -> Line {
        Line { name: Some(name.to_owned()), ..self }
    }

    /// The same with a tool call more.
    #[must_use]
    pub fn calling(mut self, id: &str, name: &str, arguments: &str) -> Line {
        self.calls.push([id, name, arguments].map(str::to_owned));
        self.flags |= wire::entry_flags::TOOL_CALLS;
        self
    }

    /// The same as the result of a tool call.
    #[must_use]
    pub fn answering(self, call_id: &str) -> Line {
        Line { answers: Some(call_id.to_owned()), ..self }
    }

    fn of(id: u64, role: u32, text: &str) -> Line {
        let tokens = u32::try_from(text.len() / 4 + 1).unwrap_or(u32::MAX);
        let text = text.to_owned();
        Line { id, role, flags: 0, tokens, text, time_ms: 0, name: None, answers: None, calls: Vec::new() }
    }

    /// Lends the entry; `calls` are those of the line, as the wire has them.
    fn entry(&self, calls: &[wire::ToolCallV1]) -> wire::EntryV1 {
        wire::EntryV1 {
            head: wire::EntryHeadV1 {
                id: self.id,
                time_ms: self.time_ms,
                tokens: self.tokens,
                role: self.role,
                flags: self.flags,
                text_bytes: u32::try_from(self.text.len()).unwrap_or(u32::MAX),
            },
            message: wire::MessageV1 {
                role: self.role,
                reserved: 0,
                text: Str::new(&self.text),
                tool_call_id: Str::opt(self.answers.as_deref()),
                name: Str::opt(self.name.as_deref()),
                tool_calls: calls.as_ptr(),
                tool_calls_len: calls.len(),
            },
        }
    }

    fn lend_calls(&self) -> Box<[wire::ToolCallV1]> {
        let lend = |[id, name, arguments]: &[String; 3]| wire::ToolCallV1 {
            id: Str::new(id),
            name: Str::new(name),
            arguments: Str::new(arguments),
        };
        self.calls.iter().map(lend).collect()
    }
}

/// One instance of an engine, with its host. Disposed when it is dropped.
pub struct Engine {
    instance: InstanceV1,
    world: World,
}

impl Engine {
    /// An instance of `E`, from its configuration as JSON.
    ///
    /// # Errors
    ///
    /// What the factory said.
    pub fn new<E: crate::ContextEngine>(config_json: &str) -> Result<Engine, Failure> {
        Engine::within::<E>(config_json, &World::default())
    }

    /// The same in a world that outlives it.
    ///
    /// # Errors
    ///
    /// What the factory said.
    pub fn within<E: crate::ContextEngine>(config_json: &str, world: &World) -> Result<Engine, Failure> {
        Engine::make(&crate::factory::<E>(), config_json, world)
    }

    /// The engine with a session of its world.
    #[must_use]
    pub fn talk(&self, session_id: &str, session_key: &str) -> Talk<'_> {
        Talk::new(self, session_id, session_key)
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
        Engine::make(&registered.engines[0].1, config_json, &World::default())
    }

    fn make(factory: &FactoryV1, config_json: &str, world: &World) -> Result<Engine, Failure> {
        let frame = Frame::new(&world.0, &[], None);
        let context = wire::FactoryContextV1 {
            host: services::host(world.0.model().is_some()),
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
        Ok(Engine { instance, world: world.clone() })
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
        let frame = Frame::new(&self.world.0, &[], None);
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
        self.usual().assemble(history, None, token_budget)
    }

    /// `compact` of the whole `history`, forced.
    ///
    /// # Errors
    ///
    /// What the hook said, or that it pushed no result.
    pub fn compact(&self, history: &[Line], token_budget: Option<u64>) -> Result<Compacted, Failure> {
        self.usual().compact(history, token_budget)
    }

    /// `ingest`; true when the entry was new.
    ///
    /// # Errors
    ///
    /// What the hook said, or that it pushed no result.
    pub fn ingest(&self, line: &Line) -> Result<bool, Failure> {
        self.usual().ingest(line)
    }

    /// `ingest` of one entry `times` times through one prepared call: what a bare call through the table costs, for benches.
    ///
    /// # Errors
    ///
    /// The first status that is not [`status::OK`], or that the engine has no such hook.
    pub fn ingest_times(&self, line: &Line, times: usize) -> Result<(), Failure> {
        let frame = Frame::new(&self.world.0, std::slice::from_ref(line), None);
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
        self.usual().commit(advancement_key, turn)
    }

    /// With the session that there is when no other is named.
    fn usual(&self) -> Talk<'_> {
        self.talk(frame::SESSION_ID, frame::SESSION_KEY)
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
        self.world.stored_keys()
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
        let frame = Frame::new(&self.world.0, &[], None);
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
