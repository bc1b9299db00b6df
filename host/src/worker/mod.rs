//! The processes that the gateway starts for libraries: the disposable child that tries one out, and the worker that one
//! lives in.
//!
//! **The probe.** A library runs code as soon as it is opened, and the system's loader dies of damaged files. So a child of
//! the same program does everything first: open, layout, register, build the engines and memory providers with their
//! configuration, call each hook once. It has a process group of its own, an empty scratch folder, an empty environment and
//! a deadline; it tells its parent each step before it takes it, so that the parent knows where it died.
//!
//! **The worker.** [`mod@start`] runs the same program for one engine or memory provider and gives a [`Worker`]: a process with
//! *lanes*, each a socket pair of its own on which strictly one request is answered after the other, and one control socket
//! on which neither side ever waits. Whatever happens, the process is ended and taken from the system's table, and how it
//! ended is told once (`Death`). What is said over a lane is no business of this room: it knows processes and bytes.
//!
//! ```text
//! gateway                                        worker
//!   hook thread ── LaneGuard ══ lane n ══ ChildLane ── thread n (8 MiB of stack, never ends)
//!   worker monitor (one for all) ══ control ══ control thread;   pidfd and stderr are watched as well
//! ```
//!
//! What either may do while it runs a library is in [`sandbox`].

mod budget;
mod child;
mod control;
mod cpu;
mod death;
mod ending;
pub(crate) mod errand;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod lane;
mod monitor;
mod parent;
mod protocol;
mod sandbox;
mod serve;
mod spawner;
mod start;
mod stderr;
#[cfg(test)]
mod tests;
mod wire;
#[cfg(test)]
mod worker_tests;

pub use child::{SelfTest, Subject, run_child};
pub(crate) use death::MEMORY_LIMIT;
pub(crate) use ending::signal_name;
pub use frame::{CONTROL_MAX, FRAME_MAX, FrameError, decode};
pub(crate) use lane::LaneGuard;
pub use parent::{ProbeCommand, use_command, use_worker_command};
pub(crate) use parent::{ProbeOutcome, probe, send};
pub(crate) use protocol::ProbeRequest;
pub use sandbox::{Lack, SandboxReport, support as sandbox_support};
pub use serve::{ChildLane, EVERY_CALL, Opening, Serve, Teller, run_worker};
pub(crate) use start::{Steps, Worker, WorkerSpec, start};
pub use wire::{LaneError, pair as lane_pair};

/// First argument that makes the program a probe's child.
pub const PROBE_ARGUMENT: &str = "__probe";
/// First argument that makes the program a worker.
pub const WORKER_ARGUMENT: &str = "__worker";
