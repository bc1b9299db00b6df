//! Engines and memory providers that a worker serves: the same hooks, the same services, the same rules, in another process.
//!
//! ```text
//! gateway                                               worker
//!   Segment ─ guarded ─► Remote ══ lane: call ══════════► Side ─ a frame of its own ─► table of the engine
//!     latch, deadline,     ▲ │ ◄══ ask, answer ═══════════ LaneRelay ◄─ services, bodies ─┘
//!     judge, checks        │ └─ Frame::ask: grants, fences, limits
//!                          └═════ reply: status and what was pushed ══╛
//! ```
//!
//! - `protocol`, `lean`, `reply`: what is said. Whatever comes from a worker is checked like what comes over the border.
//! - `history`: the rows of a session cross once, then only what changed; bodies cross when they are read.
//! - `gateway`: the gateway's side of a call. `side`: the worker's.
//!
//! The thread that runs a hook drives its lane itself and serves the engine's service calls while it waits, so a call costs one
//! round trip and no thread more. Nothing is decided in the worker: its frame only keeps an engine from waiting for what the
//! gateway would refuse anyway.

pub mod fuzzing;
mod gateway;
mod history;
pub(super) mod lean;
mod protocol;
mod reply;
mod side;
#[cfg(test)]
mod tests;

pub use gateway::WorkerStatus;
pub(crate) use gateway::{Remote, RemoteInstance, Start, start};
pub use side::worker_side;
