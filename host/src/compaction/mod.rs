//! The built-in compaction, and the projection of history.
//!
//! Nothing here knows which engine is active, and nothing here writes: what is to be stored is handed back to the caller.

mod plan;
mod view;

pub use plan::{CutPlan, plan, reason};
pub use view::{Attached, PromptItem, Sent, View, pairs_whole};
