//! The contract between Engineroom and its context engines, and the SDK to write one.

pub use engine_abi_wire as wire;
