//! Replay: a recorded conversation goes through an engine as live turns do, without a model, and the report tells what the
//! model would have seen.
//!
//! [`read`] takes the file, [`replay`] plays it. Nothing here prepares a prompt: each step is a request to
//! [`Turns`](super::Turns) over a scratch store, with a model that gives the recorded answer. A [`Player`] does the same by
//! hand: it shows each prompt as it was sent, and asks questions on branches that are thrown away.

mod ask;
mod locomo;
mod model;
mod openai;
mod player;
mod recording;
mod report;
mod whole;

#[cfg(test)]
mod tests;

pub use ask::{Asked, Question, Standing};
pub use player::{Call, Closed, Player, ReplayOptions, Watch};
pub use recording::{Format, Recorded, Recording, ReplayError, read};
pub use report::{CompactionReport, ConversationReport, EngineReport, ReplayReport, Shown, TurnReport};
pub use whole::{Progress, replay};
