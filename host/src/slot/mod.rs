//! Who serves the context engine slot: registration with owners, the one resolver, the quarantine latch, guarded calls.
//!
//! A turn takes a [`Lease`] once and calls its engine through [`EngineRef::segment`]. No other room holds an engine.
//!
//! ```text
//! turn ── lease ──► Slot: chain → candidates        status ◄── /api/engines, doctor, metrics
//!   │                  │
//!   └─ segment ──► hand-off ──► a thread of the engine: Segment ── guarded call ──► table of the engine
//!        ▲             │                                              │    ▲
//!        └── watches ──┴── Frame: deadline, sink, arena, services ◄───┘    └── border: sinks, bodies, services
//! ```
//!
//! - `slot`, `lease`, `registry`, `start`, `status`: which engine serves, and what became of the others.
//! - `core`, `instance`, `instances`, `pool`, `latch`, `stats`: one registered engine. `abandoned`: threads that never came back, of all.
//! - `memory`: the memory slot: its providers are called, guarded and latched like engines.
//! - `handoff`, `segment`, `call/`: one call, its border and its clock. All `unsafe` of the room is in `call/` and `instance`.
//! - `remote/`: the same call in a worker process, and what runs there.
//! - `check`: what a result must keep to. `single`: one engine without a slot, for `selftest`, the same calls in the disposable
//!   child, and for the conformance kit.

mod abandoned;
mod call;
mod check;
mod core;
mod engine;
mod facts;
mod failure;
mod few;
#[doc(hidden)]
pub mod fuzzing;
mod handoff;
mod hook;
mod host;
mod instance;
mod instances;
mod latch;
mod lease;
mod memory;
mod pairs;
mod pool;
mod registry;
mod remote;
mod segment;
mod selftest;
mod services;
mod single;
#[allow(clippy::module_inception, reason = "the type of the same name is what the room is about")]
mod slot;
mod start;
mod stats;
mod status;
#[cfg(test)]
mod tests;
mod trace;

pub use abandoned::AbandonedStatus;
pub use call::border::exit_now;
pub(crate) use core::state_root;
pub use engine::{EngineInfo, EngineRef, HostRequirement, Operation};
pub use facts::*;
pub use failure::*;
pub use hook::Hook;
pub use host::ExecutionHost;
pub use latch::Quarantine;
pub use lease::*;
pub use memory::{MemoryChoice, MemoryOut, MemoryRef, MemorySlotStatus, MemoryValue, ProviderStatus};
pub(crate) use pairs::Pairs;
pub use registry::RegisterError;
pub use remote::{WorkerStatus, worker_side};
pub use segment::{Background, Segment, SegmentContext};
pub use selftest::selftest;
pub use services::*;
pub(crate) use single::Single;
pub use slot::{CORE, LEGACY, MAIN_AGENT, Slot};
pub use stats::{EstimateStatus, HookStatus};
pub use status::*;
#[cfg(test)]
pub(crate) use tests::engine_named;
pub use trace::{HookCall, HookTrace};
