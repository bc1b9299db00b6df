//! The built-in compaction, and the projection of history.
//!
//! [`Projection`] turns the stored branch into the [`View`] that engines choose from; [`compact()`] replaces its older part by a
//! summary; [`trim_to_fit`] is what is left when nothing else made a prompt fit, and
//! [`press_turn`] keeps a running turn from taking all of the window. Nothing here knows which engine is active,
//! and nothing here writes: what is to be stored is handed back to the caller.

mod boundary;
mod compact;
mod pairing;
mod plan;
mod projection;
mod prune;
mod running;
mod sanitize;
mod summary;
mod trim;
mod view;

pub use boundary::summary_message;
pub use compact::{CompactInput, CompactionError, Outcome, compact, compact_at, cut};
pub use pairing::close_open_calls;
pub use plan::{CutPlan, plan, plan_at, reason};
pub use projection::{Projection, ProjectionPolicy};
pub use prune::pruned_because;
pub use running::press_turn;
pub use summary::{ModelSummarizer, NoModel, Summarizer, SummaryPrompt};
pub use trim::{LONG_RESULT_CHARS, trim_to_fit};
pub use view::{Attached, PromptItem, Sent, View, pairs_whole};

#[cfg(test)]
mod tests;
