//! The built-in engine, through the public contract.
