//! The command host: it cannot assemble before the prompt, since the command keeps its own history and gets the user's words.
//!
//! An engine's other hooks run as ever: `bootstrap` before, `commitTurn` (or its forerunners) and `maintain` after. The
//! gateway's own history is compacted before the turn when it has outgrown the budget, so that another host can take it over
//! at any time.

use super::super::TurnError;
use super::super::prompt::prepend_system;
use super::super::run::TurnRun;
use super::super::session::{is_role, message_of};
use super::Outcome;
use super::note::HostNote;
use crate::model::{HostCall, ModelRequest};
use crate::transcript::{Message, Role};
use engine_abi::wire::trigger;
use serde_json::json;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Earlier words that are said again. When as many turns failed one after the other, the newest words are tried alone: one of
/// the earlier ones may be what the command dies of, and a session must never be stuck.
const SAID_AGAIN: usize = 3;

impl TurnRun {
    pub(super) async fn call_command(&mut self, stream: bool) -> Result<Outcome, TurnError> {
        self.take_up_session().await?;
        self.shorten_history().await?;
        let said = self.unheard();
        if said.is_empty() {
            return Err(TurnError::invalid("a command takes the user's words, and there are none", "messages"));
        }
        if said.iter().any(|message| message.has_media()) {
            return Err(TurnError::invalid("a command takes text only, no images, sound or files", "messages"));
        }
        // The command has tools of its own, and its engine was not asked for a prompt: only what the host adds itself is there.
        let engine = self.lease.engine().clone();
        let memory = self.memory_section(&engine, &[]).await;
        let counted = self.system_tokens
            + self.memory_tokens
            + said.iter().map(|m| u64::from(self.agent.counter.message(m))).sum::<u64>();
        let host = self.command_call().await?;
        // The command does what cannot be taken back.
        self.admission_durable().await?;
        let mut messages = match &memory {
            Some(section) => prepend_system(&self.system, section),
            None => self.system.clone(),
        };
        messages.extend(said.iter().map(|message| json!({"role": "user", "content": message.text()})));
        self.notes.prompt_tokens = counted;
        self.notes.prompt_limit = self.prompt_limit();
        let request = ModelRequest {
            params: self.params.clone(),
            messages: messages.into(),
            stream,
            host,
            ..ModelRequest::default()
        };
        let since = Instant::now();
        let model = self.agent.model.clone();
        let outcome = self.cancel.unless_fired(model.call(request)).await?;
        self.timed("model", since);
        Ok(outcome)
    }

    /// Has the stored history compacted when it does not fit the budget. A failure ends the turn: the history would only grow.
    async fn shorten_history(&mut self) -> Result<(), TurnError> {
        let limit = self.prompt_limit();
        let (tokens, floor) = {
            let state = self.session.state();
            (state.projected_tokens(), state.extra.compaction_floor)
        };
        if tokens <= limit || tokens <= floor {
            return Ok(());
        }
        self.compact(self.ask(trigger::CLI_BUDGET, 1, tokens)).await?;
        let mut state = self.session.state();
        let left = state.projected_tokens();
        // An engine that keeps its own view leaves the host's as it is; it is not asked again for every turn.
        state.extra.compaction_floor = if left > limit { left + left / 10 } else { 0 };
        Ok(())
    }

    /// What the user said since the last answer: the command has not answered it, whoever was at fault.
    fn unheard(&self) -> Vec<Arc<Message>> {
        let state = self.session.state();
        let entries = state.entries();
        let from = entries.iter().rposition(|entry| is_role(entry, Role::Assistant)).map_or(0, |at| at + 1);
        let said = entries[from..].iter().filter(|entry| is_role(entry, Role::User));
        let mut said: Vec<_> = said.filter_map(|entry| message_of(entry).cloned()).collect();
        if said.len() > SAID_AGAIN + 1 {
            said.drain(..said.len() - 1);
        }
        said
    }

    /// The command's thread and folder.
    async fn command_call(&mut self) -> Result<HostCall, TurnError> {
        let host = self.lease.host().id.clone();
        let note = self.host_note().await?.filter(|note| note.host == host);
        let resumed = note.is_some();
        let note = note.unwrap_or_else(|| HostNote {
            host,
            // Its own, not the session's: a session that is begun anew is a stranger to the command.
            id: uuid::Uuid::now_v7().to_string(),
            until: 0,
            engine: String::new(),
            epoch: None,
            fingerprint: None,
            generation: 0,
            compactions: 0,
            tokens: 0,
        });
        let (agent, ephemeral) = {
            let state = self.session.state();
            (state.record().agent.clone(), state.extra.ephemeral)
        };
        let session = Some(note.id.clone());
        self.notes.thread = Some(json!({"command": note.id, "resumed": resumed}));
        self.host.pending = (!ephemeral).then_some(note);
        Ok(HostCall { session, workspace: self.workspace(&agent), resumed, ..HostCall::default() })
    }

    /// The agent's folder; without one, that of the configuration.
    fn workspace(&self, agent: &str) -> Option<PathBuf> {
        let config = &self.house.config;
        let own = config.agents.get(agent).and_then(|agent| agent.workspace_dir.clone());
        own.or_else(|| config.path.parent().filter(|folder| folder.is_dir()).map(PathBuf::from))
    }
}
