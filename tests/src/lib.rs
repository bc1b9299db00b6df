//! The bench that the whole-system tests share: build once, lay out an operator's folder, start the real gateway, talk to it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "only tests use this crate; a failure here is a failed test"
)]

mod build;
mod chaos;
mod client;
pub mod crash;
mod failpoints;
pub mod fire;
mod gateway;
pub mod matrix;
pub mod model;
mod process;
mod recorder;
mod setup;
mod snapshot;
pub mod soak;
pub mod thread;
mod wait;

pub use build::{Built, built, outer_cargo};
pub use client::{Answer, Client};
pub use failpoints::failpoints;
pub use gateway::Gateway;
pub use model::{MockModel, chunk, respond, stream_head};
pub use process::{lives, process_state, signal};
pub use recorder::Calls;
pub use setup::{Cli, Setup, library_name};
pub use snapshot::{render, snapshot};
pub use thread::ThreadServer;
pub use wait::wait_for;
