//! What differs in a turn from one execution host to another.
//!
//! The embedded host tells the model everything at every call. The others keep the conversation themselves, so a call tells
//! what they have not heard: `thread` continues a response of its provider (and is told everything when the engine's projection
//! begins another epoch), `cli` runs a command that gets the user's words. What such a host was told is noted with the answer,
//! in the same write: so it outlives a restart, and never speaks of an answer that was not stored.

mod command;
mod note;
mod outlook;
mod thread;

pub(super) use note::{HostNote, HostRun, OWNER};
pub(super) use outlook::on_command;

use super::TurnError;
use super::run::TurnRun;
use crate::model::{ModelError, ModelInfo, ModelReply};

/// A host that keeps the conversation itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keeper {
    /// A command.
    Command,
    /// A thread at the provider.
    Thread,
}

impl Keeper {
    /// The host of a model; `None` for the embedded one, which keeps nothing.
    pub(super) fn of(info: &ModelInfo) -> Option<Keeper> {
        match info.provider.as_str() {
            "cli" => Some(Keeper::Command),
            "thread" => Some(Keeper::Thread),
            _ => None,
        }
    }
}

/// What a model call came to, beside what ends the turn.
pub(super) type Outcome = Result<ModelReply, ModelError>;

impl TurnRun {
    /// Makes the session ready as the host needs it, and calls the model with what it has not heard.
    pub(super) async fn call_keeper(&mut self, keeper: Keeper, stream: bool) -> Result<Outcome, TurnError> {
        match keeper {
            Keeper::Command => self.call_command(stream).await,
            Keeper::Thread => self.call_thread(stream).await,
        }
    }
}
