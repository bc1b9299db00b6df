//! Optional work after a turn: `maintain` of engines that want it in the background, and compactions that were put off.
//!
//! ```text
//!  turn ── queue ──► one job per session and engine ── waits for a permit of its engine, then for an unused lane ──► run
//!                        ▲    │ wanted again meanwhile: one merged rerun, with the latest parameters               │
//!                        └────┴──────────── gives way as soon as a turn wants the session ◄───────────────────────┘
//! ```
//!
//! No reply waits for it and no turn is wedged by it: a run that is told to give way has a short patience, after which its
//! engine is given up and out, and the turn goes on with the next candidate. A stop of the gateway cancels all of it.

#[cfg(test)]
mod interleaved;
mod queue;
mod run;
mod status;

pub(super) use queue::{Kind, Maintenance, Params};
pub use status::{LastRun, MaintenanceState, MaintenanceStatus};
