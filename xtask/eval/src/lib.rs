//! Measures context engines without a model: recorded conversations go through the gateway's own path, and what the model would
//! have been sent is looked at. `docs/evaluation.md` says what each number means.
//!
//! ```text
//!  data: conversations, questions ─► evaluate: play, ask ─► prompt, evidence, prefix ─► score, report ─► table, plot, JSON
//!  generate: agent sessions ───────► evaluate::play ──────► prompt, prefix
//! ```

pub mod cli;
pub mod data;
pub mod engine;
pub mod evaluate;
pub mod evidence;
pub mod generate;
pub mod plot;
pub mod prefix;
pub mod prompt;
pub mod report;
pub mod score;
pub mod stats;
pub mod table;
