//! The disposable child that tries a library out before the gateway loads it.
//!
//! A library runs code as soon as it is opened, and the system's loader dies of damaged files. So a child of the same
//! program does everything first: open, layout, register, build the engines and memory providers with their configuration, call each hook once.
//! It has a process group of its own, an empty scratch folder, an empty environment and a deadline; it tells its parent
//! each step before it takes it, so that the parent knows where it died.
//!
//! What it may do while it runs a library is in [`sandbox`].

mod child;
mod parent;
mod protocol;
mod sandbox;
mod spawner;
#[cfg(test)]
mod tests;

pub use child::{SelfTest, Subject, run_child};
pub use parent::{ProbeCommand, use_command};
pub(crate) use parent::{ProbeOutcome, probe};
pub(crate) use protocol::ProbeRequest;
pub use sandbox::{Lack, SandboxReport, support as sandbox_support};

/// First argument that makes the program a probe's child.
pub const PROBE_ARGUMENT: &str = "__probe";
