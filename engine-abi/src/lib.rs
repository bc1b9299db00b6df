//! The contract between Engineroom and its context engines, and the SDK to write one.

pub mod host;
pub mod manifest;

pub use engine_abi_wire as wire;
