//! The contract between Engineroom and its context engines, and the SDK to write one.
//!
//! A context engine decides what a model sees of a conversation. It is a shared library that the gateway loads; this
//! crate is all that it needs. An author implements [`ContextEngine`] and exports it with [`export_engine!`]:
//!
//! ```
//! use engine_abi::*;
//!
//! /// Shows the model everything and lets the host compact.
//! struct Everything;
//!
//! #[hooks]
//! impl ContextEngine for Everything {
//!     type Config = engine_abi::serde::de::IgnoredAny;
//!     const COMMIT: Commit = Commit::Stateless;
//!
//!     fn create(_: Self::Config, _: &Factory) -> Result<Self> {
//!         Ok(Everything)
//!     }
//!     fn info(&self) -> Info {
//!         Info::new("everything", "Everything")
//!     }
//!     fn ingest(&self, _: &Context, _: &Entry) -> Result<bool> {
//!         Ok(false)
//!     }
//!     fn assemble(&self, _: &Context, request: &AssembleRequest) -> Result<Assembly> {
//!         Ok(Assembly::new().keep(request.history().heads()))
//!     }
//!     fn compact(&self, context: &Context, request: &CompactRequest) -> Result<Compaction> {
//!         Ok(context.delegate_compaction(request)?)
//!     }
//! }
//!
//! export_engine! {
//!     plugin: "everything",
//!     engines: { "everything" => Everything },
//! }
//! # fn main() {}
//! ```
//!
//! The same door takes memory providers ([`MemoryProvider`]), alone or beside engines:
//! `export_engine! { plugin: "notes", memory: { "notes" => Notes } }`.
//!
//! | module | for |
//! |---|---|
//! | the root | authors: the trait, what a hook gets, what it gives back |
//! | [`wire`] | what crosses the border, frozen; authors never need it, other languages do |
//! | `testing` (feature of the same name) | authors: a small host for tests |
//! | [`host`], [`manifest`] | the gateway: reading and checking a library |

mod asked;
mod codes;
mod context;
mod engine;
mod error;
#[doc(hidden)]
pub mod export;
mod guard;
pub mod host;
mod log;
pub mod manifest;
mod memory;
mod memory_table;
mod raw;
mod request;
mod results;
mod services;
mod store;
mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod view;

pub use codes::*;
pub use context::{Context, Factory, FactoryArgs, Host};
pub use engine::{Commit, ContextEngine, Hooks};
pub use engine_abi_macros::hooks;
pub use engine_abi_wire as wire;
// What most engines want beside this crate, so that it stays the only one that they must name.
pub use asked::{CursorRequest, LlmReply, LlmRequest, MemoryHit, Page, Tokens};
pub use error::{Error, Result, ServiceError};
pub use memory::{MemoryProvider, PromptSectionRequest};
pub use memory_table::{memory_factory, memory_table};
pub use request::{
    AfterTurn, Anchor, AssembleArgs, AssembleRequest, CommitTurn, CompactArgs, CompactRequest, MaintainRequest, Prompt,
    SessionEnded, SubagentEnded, SubagentSpawn, ToolRequest,
};
pub use results::{Assembly, Bootstrapped, Compaction, Info, Maintained, Successor, Tool, ToolReply};
pub use store::{Pair, Store};
pub use table::{factory, table};
pub use view::{
    Body, Entry, Head, History, Lent, Message, PromptCache, RuntimeSettings, Session, SessionTarget, ToolCall,
};
pub use {serde, serde_json, tracing};

/// What built a library, as its manifest says.
#[doc(hidden)]
pub const SDK: &str = concat!("engine-abi ", env!("CARGO_PKG_VERSION"));
