//! The room from its face: fake engines on the bare wire, everything else real.
#![allow(unsafe_code, reason = "fake engines stand on the wire's raw pointers")]

mod calls;
mod fake;
mod late;
mod leases;
mod logical_turn;
mod results;
mod scene;
