//! The tools of the benches: percentiles, a loopback model, a bare proxy, a real gateway, a load at a fixed rate.
//!
//! Machines are noisy: what counts is a ratio or a difference within one run, measured in turn, block by block.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a bench that cannot measure must stop and say so"
)]

pub mod kept;
pub mod load;
pub mod model;
pub mod process;
pub mod scene;
pub mod stats;
