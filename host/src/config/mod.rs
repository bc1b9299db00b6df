//! `plugins.toml`: read with provenance, edit while keeping comments.
//!
//! This room knows the shape of the file and nothing of what it configures.

mod types;

pub use types::*;
