//! Who serves the context engine slot: registration with owners, the one resolver, the quarantine latch, guarded calls.
//!
//! A turn takes a [`Lease`] once and calls its engine through [`EngineRef::segment`]. No other room holds an engine.

mod engine;
mod facts;
mod failure;
mod hook;
mod lease;
mod segment;
mod services;

pub use engine::*;
pub use facts::*;
pub use failure::*;
pub use hook::Hook;
pub use lease::*;
pub use segment::*;
pub use services::*;
