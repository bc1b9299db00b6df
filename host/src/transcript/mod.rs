//! Entries, branches, cursor, outbox; the store trait with its backends. What was acknowledged is on disk.
//!
//! ```text
//!  turn ──► HotSessions ──► HotSession { record, branch, frozen, extra }     warm: memory only
//!   │            │ first sight of a session, or evicted
//!   │            ▼
//!   │          Store (trait) ── reads ──► pool of read-only connections ─┐
//!   └─ writes ──► submit ──► queue ──► one writer, group commit ─────────┴─► transcript.db
//! ```
//!
//! - [`Store`] is what a backend promises; [`sqlite`] is the one that is always there.
//! - [`Branch`] is the active branch of a session in memory, [`HotSessions`] the bounded cache of them.
//! - [`reconcile`] compares what a client sent with what is stored.
//! - [`OutboxRow`] is a turn that an engine was not given yet.
//! - [`cursor`] gives pages of the active branch to engines, behind the fence of the current turn.

mod branch;
pub mod cursor;
mod hot;
mod message;
mod outbox;
pub mod reconcile;
mod session;
pub mod sqlite;
mod store;
mod subagent;

pub use branch::Branch;
pub use hot::{Extra, HotGuard, HotHandle, HotSession, HotSessions};
pub use message::*;
pub use session::agent_of_key;
pub use sqlite::{CheckReport, Salvaged, Shrunk, check, open, open_existing, salvage, shrink};
pub use store::*;
pub use subagent::*;
