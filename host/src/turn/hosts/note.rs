//! What a host that keeps the conversation was told, as the gateway remembers it.

use super::super::TurnError;
use super::super::run::TurnRun;
use super::super::session::State;
use crate::model::Reply;
use crate::transcript::{EngineOp, EngineScope, EntryId, Write};
use serde::{Deserialize, Serialize};

/// Owner of the note in the session's part of the store, which goes with the session. No engine can have this id.
pub(in crate::turn) const OWNER: &str = "engineroom:host";
const KEY: &[u8] = b"conversation";

/// How far a host has the conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::turn) struct HostNote {
    /// The host, and for a thread its endpoint and model: elsewhere nobody knows the id.
    pub(super) host: String,
    /// Of the response to continue, or of the command's own thread.
    pub(super) id: String,
    /// The host's last answer: it has everything up to here.
    pub(super) until: EntryId,
    /// Engine whose projection was injected.
    pub(super) engine: String,
    /// `epoch` and `fingerprint` of that projection.
    pub(super) epoch: Option<String>,
    pub(super) fingerprint: Option<String>,
    /// Generation of the transcript, and compactions on its branch, when it was injected.
    pub(super) generation: u64,
    pub(super) compactions: usize,
    /// Tokens that the host has.
    pub(super) tokens: u64,
}

/// The host's part of a running turn.
#[derive(Debug, Default)]
pub(in crate::turn) struct HostRun {
    /// What will hold once the host has answered.
    pub(super) pending: Option<HostNote>,
    /// What will hold once that answer is stored.
    answered: Option<HostNote>,
    /// The last call continued a thread: what the provider counted is not what was sent.
    pub(in crate::turn) continued: bool,
}

impl HostRun {
    /// The host has answered a call. An answer that is not whole is forgotten: nobody can say what the host has then.
    pub(in crate::turn) fn answered(&mut self, reply: &Reply, whole: bool) {
        self.answered = None;
        let Some(mut note) = self.pending.take().filter(|_| whole && reply.finish_reason.is_some()) else { return };
        if note.id.is_empty() {
            let Some(id) = &reply.id else { return };
            note.id.clone_from(id);
        }
        if let Some(usage) = &reply.usage
            && let Some(prompt) = usage.prompt_tokens
        {
            note.tokens = prompt + usage.completion_tokens.unwrap_or(0);
        }
        self.answered = Some(note);
    }

    /// The answer is stored as something else than what the host said.
    pub(in crate::turn) fn forget(&mut self) {
        self.answered = None;
    }

    /// The answer is stored as `entry`, in the same write as what this gives.
    pub(in crate::turn) fn keep(&mut self, state: &mut State<'_>, entry: EntryId) -> Option<Write> {
        let note = self.answered.take()?;
        if state.extra.ephemeral { None } else { note.keep(state, entry) }
    }
}

impl HostNote {
    /// Remembers that the host has everything up to its answer, `until`.
    fn keep(mut self, state: &mut State<'_>, until: EntryId) -> Option<Write> {
        self.until = until;
        let value = serde_json::to_vec(&self).ok()?;
        let scope = EngineScope::Session(state.record().row);
        state.extra.host_note = Some(Some(self));
        Some(Write::EngineBatch { engine: OWNER.into(), scope, ops: vec![EngineOp::Put(KEY.into(), value)] })
    }
}

impl TurnRun {
    /// What the host has of this session; read from the store on first sight.
    pub(super) async fn host_note(&self) -> Result<Option<HostNote>, TurnError> {
        let (row, known) = {
            let state = self.session.state();
            if state.extra.ephemeral {
                return Ok(None);
            }
            (state.record().row, state.extra.host_note.clone())
        };
        if let Some(known) = known {
            return Ok(known);
        }
        let house = self.house.clone();
        let bytes =
            self.house.blocking(move || Ok(house.store.engine_get(OWNER, EngineScope::Session(row), KEY)?)).await?;
        // A note of a later version says nothing here; then everything is told again.
        let note = bytes.and_then(|bytes| serde_json::from_slice::<HostNote>(&bytes).ok());
        self.session.state().extra.host_note = Some(note.clone());
        Ok(note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Usage, reply_of};
    use serde_json::json;

    fn note(id: &str) -> HostNote {
        HostNote {
            host: "h".into(),
            id: id.into(),
            until: 0,
            engine: "e".into(),
            epoch: Some("1".into()),
            fingerprint: None,
            generation: 0,
            compactions: 0,
            tokens: 40,
        }
    }

    fn reply(finish: Option<&str>) -> Reply {
        let choice = json!({"message": {"content": "x"}, "finish_reason": finish});
        reply_of(&json!({"id": "resp_1", "choices": [choice]})).unwrap()
    }

    fn run() -> HostRun {
        HostRun { pending: Some(note("")), ..HostRun::default() }
    }

    #[test]
    fn only_a_whole_answer_is_noted_and_only_once() {
        let mut whole = run();
        whole.answered(&reply(Some("stop")), true);
        assert_eq!(whole.answered.as_ref().unwrap().id, "resp_1");
        whole.answered(&reply(Some("stop")), true);
        assert_eq!(whole.answered, None, "a call that promised nothing leaves nothing");
        for (finish, is_whole) in [(Some("stop"), false), (None, true)] {
            let mut cut = run();
            cut.answered(&reply(finish), is_whole);
            assert_eq!(cut.answered, None);
        }
    }

    #[test]
    fn what_the_provider_counted_is_what_the_host_has() {
        let mut answer = reply(Some("stop"));
        let mut run = HostRun { pending: Some(note("kept")), ..HostRun::default() };
        run.answered(&answer, true);
        assert_eq!(run.answered, Some(note("kept")));
        answer.usage = Some(Usage { prompt_tokens: Some(70), completion_tokens: Some(5), ..Usage::default() });
        run.pending = Some(note("kept"));
        run.answered(&answer, true);
        assert_eq!(run.answered.unwrap().tokens, 75);
    }
}
