//! The room from its face: fake engines on the bare wire, everything else real.
#![allow(unsafe_code, reason = "fake engines stand on the wire's raw pointers")]

mod calls;
mod fake;
mod interleaved;
mod late;
mod leases;
mod logical_turn;
mod results;
mod scene;

/// An engine that nobody calls.
pub(crate) fn engine_named(id: &str) -> super::EngineRef {
    interleaved::engine(&interleaved::core(id, fake::Fake::new(), 1, std::path::Path::new("/nonexistent")), "main")
}
