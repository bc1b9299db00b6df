//! Replay: a recorded conversation goes through an engine as live turns do, without a model, and the report tells what the
//! model would have seen.
//!
//! [`read`] takes the file, [`replay`] plays it. Nothing here prepares a prompt: each step is a request to
//! [`Turns`](super::Turns) over a scratch store, with a model that gives the recorded answer.

mod locomo;
mod model;
mod openai;
mod player;
mod recording;
mod report;

#[cfg(test)]
mod tests;

pub use player::{Progress, ReplayOptions, replay};
pub use recording::{Format, Recorded, Recording, ReplayError, read};
pub use report::{CompactionReport, ConversationReport, EngineReport, ReplayReport, Shown, TurnReport};
