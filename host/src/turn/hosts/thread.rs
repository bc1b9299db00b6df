//! The thread host: the provider keeps the conversation, and is told everything once per epoch of the engine's projection.

use super::super::TurnError;
use super::super::prompt::Prompt;
use super::super::run::TurnRun;
use super::super::session::{is_role, message_of};
use super::Outcome;
use super::note::HostNote;
use crate::model::{HostCall, Messages, ModelError, ModelRequest};
use crate::transcript::{Entry, EntryId, Role};
use serde_json::json;
use std::sync::Arc;
use std::time::Instant;

/// How the provider is told.
pub(super) enum Plan {
    /// Only what came after `from`, behind the response that it has.
    Continue { previous: String, from: EntryId, tokens: u64 },
    /// Everything, in a new thread.
    Inject { why: &'static str },
}

impl TurnRun {
    pub(super) async fn call_thread(&mut self, stream: bool) -> Result<Outcome, TurnError> {
        let prompt = self.fitting_prompt().await?;
        // A thread is told what cannot be taken back.
        self.admission_durable().await?;
        let note = self.host_note().await?;
        let mut plan = match &note {
            Some(note) => self.plan(&prompt, note),
            None => Plan::Inject { why: "first" },
        };
        loop {
            let (request, counted) = self.thread_request(&prompt, &plan, stream);
            self.notes.prompt_tokens = counted;
            let since = Instant::now();
            let model = self.agent.model.clone();
            let outcome = self.cancel.unless_fired(model.call(request)).await?;
            self.timed("model", since);
            match outcome {
                Err(error @ ModelError::ThreadLost { .. }) if matches!(plan, Plan::Continue { .. }) => {
                    tracing::warn!(
                        %error,
                        session = self.session.key.as_deref(),
                        "the provider has forgotten the conversation; it is told everything again"
                    );
                    plan = Plan::Inject { why: "lost" };
                }
                outcome => return Ok(outcome),
            }
        }
    }

    /// Whether the thread that the provider has can go on.
    pub(super) fn plan(&self, prompt: &Prompt, note: &HostNote) -> Plan {
        let inject = |why| Plan::Inject { why };
        let projection = prompt.projection();
        if !projection.thread_bootstrap || projection.epoch.is_none() {
            return inject("per-turn");
        }
        if note.host != self.endpoint() {
            return inject("another-host");
        }
        if note.engine != self.lease.engine().id() {
            return inject("another-engine");
        }
        if note.epoch != projection.epoch {
            return inject("epoch");
        }
        if note.fingerprint != projection.fingerprint {
            return inject("fingerprint");
        }
        // Asks the session itself, so before it is looked at here.
        let limit = self.prompt_limit();
        let state = self.session.state();
        if note.generation != state.record().generation {
            return inject("rewritten");
        }
        if self.overflowed || note.compactions != state.compactions() {
            return inject("compacted");
        }
        let entries = state.entries();
        let at = entries.partition_point(|entry| entry.id < note.until);
        if entries.get(at).is_none_or(|entry| entry.id != note.until) {
            return inject("another-branch");
        }
        if entries[at + 1..].iter().any(|entry| is_role(entry, Role::Assistant)) {
            return inject("answered-elsewhere");
        }
        if !results_are_there(&entries[at], &entries[at + 1..]) {
            return inject("open-calls");
        }
        let tokens = note.tokens + prompt.tokens_after(note.until);
        if tokens > limit {
            return inject("full");
        }
        Plan::Continue { previous: note.id.clone(), from: note.until, tokens }
    }

    fn thread_request(&mut self, prompt: &Prompt, plan: &Plan, stream: bool) -> (ModelRequest, u64) {
        let projection = prompt.projection();
        let (messages, previous, counted) = match plan {
            Plan::Continue { previous, from, tokens } => {
                (Messages::from(prompt.values_after(*from)), Some(previous.clone()), *tokens)
            }
            Plan::Inject { .. } => {
                let mut state = self.session.state();
                (prompt.write(&mut state.extra.written), None, prompt.tokens())
            }
        };
        let (ephemeral, generation, compactions) = {
            let state = self.session.state();
            (state.extra.ephemeral, state.record().generation, state.compactions())
        };
        let keep = !ephemeral && projection.thread_bootstrap && projection.epoch.is_some();
        self.notes.thread = Some(match plan {
            Plan::Continue { previous, .. } => json!({"continued": previous, "epoch": projection.epoch}),
            Plan::Inject { why } => json!({"injected": why, "epoch": projection.epoch}),
        });
        self.host.continued = previous.is_some();
        self.host.pending = keep.then(|| HostNote {
            host: self.endpoint(),
            id: String::new(),
            until: 0,
            engine: self.lease.engine().id().to_owned(),
            epoch: projection.epoch.clone(),
            fingerprint: projection.fingerprint.clone(),
            generation,
            compactions,
            tokens: counted,
        });
        let host = HostCall { previous, keep, ..HostCall::default() };
        (
            ModelRequest {
                params: self.tools.params(&self.params).clone(),
                messages,
                stream,
                host,
                ..ModelRequest::default()
            },
            counted,
        )
    }

    /// Where the thread is: a response's id means nothing at another endpoint.
    fn endpoint(&self) -> String {
        let agent = self.session.state().record().agent.clone();
        let address = self.house.config.model_of(&agent).base_url.clone().unwrap_or_default();
        format!("{} {address} {}", self.lease.host().id, self.agent.info.resolved)
    }
}

/// True when every call of an answer has its result behind it: a provider wants all of them.
fn results_are_there(answer: &Entry, behind: &[Arc<Entry>]) -> bool {
    let Some(message) = message_of(answer) else { return false };
    message.tool_calls.iter().all(|call| {
        let mut results = behind.iter().filter_map(|entry| message_of(entry)?.tool_call_id.as_deref());
        results.any(|id| id == call.id)
    })
}
