//! The tool loop: tools that the gateway runs itself, beside the client's.
//!
//! ```text
//!  model ─► calls ─┬─ client's ──────────────► reply, the client runs them and comes back
//!                  └─ engine's, gateway's ──► stored ─► run (bounded) ─► results stored ─► assemble ─► model
//! ```
//!
//! - [`offer`]: what the model is offered in a turn: the client's tools, then the gateway's, then those of the serving engine.
//! - [`calls`]: runs the calls of one message; a call that cannot be run is answered with an error that the model can read.
//! - [`steps`]: calls and results as entries of the transcript, durable before anything follows from them.
//! - [`relay`]: one stream to the client over several calls of the model.
//!
//! A tool that is no engine's implements [`GatewayTool`] and is named in [`gateway_tools`].

mod calls;
mod memory;
mod offer;
mod relay;
mod steps;

pub(super) use offer::Toolbox;
pub(super) use relay::Relay;

use super::house::House;
use super::run::TurnRun;
use super::session::Session;
use crate::slot::{CancelFlag, Lease, Tool, ToolOutput};
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A tool of the gateway's own.
pub(super) trait GatewayTool: Send + Sync {
    /// What the model is offered. The name keeps to `[a-zA-Z0-9_-]{1,64}`, the parameters are a JSON Schema of type object.
    fn definition(&self) -> Tool;

    /// Runs one call and says what the model shall read. Calls of one message run at the same time. Dropped when the turn is
    /// cancelled, and when the deadline is over: the model then reads that it took too long.
    fn call(&self, run: ToolRun) -> BoxFuture<'static, ToolOutput>;

    /// Deadline of one call; `None` for `[tools] timeout_ms`.
    fn deadline(&self) -> Option<Duration> {
        None
    }

    /// True when a call enters hooks of an engine for the turn's session: then it begins when the engine's own tools are done,
    /// since an engine is never entered twice at once for one session.
    fn calls_engine(&self) -> bool {
        false
    }
}

/// One call of a [`GatewayTool`], with what it may need of its turn.
#[allow(dead_code, reason = "what a tool may need; not each of them needs all")]
pub(super) struct ToolRun {
    pub(super) house: Arc<House>,
    /// The session of the turn.
    pub(super) session: Arc<Session>,
    /// The turn's lease as it stands: its engine serves.
    pub(super) lease: Lease,
    /// Id of the turn.
    pub(super) turn_id: String,
    /// Id that the model gave the call.
    pub(super) call_id: String,
    /// Arguments that the model gave; nothing but their being an object is checked.
    pub(super) arguments: Map<String, Value>,
    /// Model that the request named.
    pub(super) model: Option<String>,
    /// When the call must be over.
    pub(super) deadline: Instant,
    /// Raised when the turn is cancelled.
    pub(super) cancel: CancelFlag,
}

/// The gateway's own tools for a turn. A room that brings one adds it here.
fn gateway_tools(run: &TurnRun) -> Vec<Arc<dyn GatewayTool>> {
    memory::memory_tools(run).into_iter().chain(super::subagents::tool(run)).collect()
}

/// What a model reads of a call that went wrong.
fn error_text(reason: impl std::fmt::Display) -> ToolOutput {
    ToolOutput { text: format!("error: {reason}"), is_error: true }
}
