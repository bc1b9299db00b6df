//! Engineroom: a gateway that hosts context engines for LLM agents as native shared libraries.
//!
//! Each module is a room with one job and one face; it knows only the rooms below it. `ARCHITECTURE.md` draws the house.

pub mod api;
pub mod check;
pub mod cli;
pub mod compaction;
pub mod config;
pub mod diagnostic;
pub mod gateway;
pub mod ledger;
pub mod legacy;
pub mod memory;
pub mod model;
pub mod observe;
pub mod plugins;
pub mod scaffold;
pub mod slot;
mod sync;
pub mod transcript;
pub mod turn;
pub mod worker;
