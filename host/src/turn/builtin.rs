//! The built-in compaction as a turn runs it: planned and summarised below, measured and written here.

use super::TurnError;
use super::compact::{NO_PROGRESS, Successor};
use super::house::House;
use super::session::Session;
use super::summaries::{Kept, forget};
use crate::compaction::{self, CompactInput, CompactionError, Outcome, summary_message};
use crate::observe::{broken, failpoint};
use crate::slot::CompactOutput;
use crate::transcript::{CompactionBody, Entry, EntryBody, EntryId, Submission};
use engine_abi::wire::trigger;
use std::sync::Arc;
use std::time::Instant;

/// What the built-in compaction is asked for.
pub(super) struct Builtin {
    /// Tokens that the history should fit in afterwards; 0 when no number is known.
    pub(super) token_budget: u64,
    /// It must be done whatever the thresholds say.
    pub(super) force: bool,
    /// Focus text of the operator.
    pub(super) focus: Option<String>,
    /// Entry from which on everything stays: the current turn.
    pub(super) must_keep_from: Option<EntryId>,
    /// A code from [`trigger`].
    pub(super) trigger: u32,
    /// Engine that asked, or "builtin".
    pub(super) by: String,
    /// Tokens of the last prompt as the host counted them; 0 when there is none to compare.
    pub(super) counted: u64,
    /// The same as the provider, or the engine, counts them.
    pub(super) current: Option<u64>,
    /// The safety deadline.
    pub(super) deadline: Instant,
}

impl Builtin {
    /// A number of tokens of the provider's in those of the host: where the provider counts more, less may stay.
    fn scaled(&self, tokens: u64) -> u64 {
        match self.current {
            Some(current) if self.counted > 0 && current > self.counted && !broken("8.85") => {
                u64::try_from(u128::from(tokens) * u128::from(self.counted) / u128::from(current)).unwrap_or(tokens)
            }
            _ => tokens,
        }
    }
}

/// What a compaction did, as the host measured it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Measured {
    /// The call did what it could.
    pub(super) ok: bool,
    pub(super) compacted: bool,
    /// `compacted` is an owning engine's word, which only its next assembly can prove.
    pub(super) claimed: bool,
    /// It will be done in the background.
    pub(super) deferred: bool,
    pub(super) reason: Option<String>,
    pub(super) summary: Option<String>,
    pub(super) first_kept: Option<EntryId>,
    pub(super) before: u64,
    pub(super) after: u64,
    /// Who wrote the summary: "model" or "extract".
    pub(super) method: Option<&'static str>,
    pub(super) successor: Option<Successor>,
}

impl Measured {
    /// The same for the engine that delegated.
    pub(super) fn to_output(&self) -> CompactOutput {
        CompactOutput {
            ok: self.ok,
            compacted: self.compacted,
            reason: self.reason.clone(),
            summary: self.summary.clone(),
            first_kept: self.first_kept,
            tokens_before: Some(self.before),
            tokens_after: Some(self.after),
            ..CompactOutput::default()
        }
    }

    pub(super) fn nothing(reason: impl Into<String>, tokens: u64) -> Measured {
        Measured { ok: true, reason: Some(reason.into()), before: tokens, after: tokens, ..Measured::default() }
    }
}

/// The name of a trigger as compaction entries keep it.
pub(super) fn trigger_name(code: u32) -> &'static str {
    match code {
        trigger::OVERFLOW => "overflow",
        trigger::MANUAL => "manual",
        trigger::TIMEOUT_RECOVERY => "timeout_recovery",
        trigger::CLI_BUDGET => "cli_budget",
        _ => "budget",
    }
}

impl House {
    /// Runs the built-in compaction on a session and writes its boundary. Any failure leaves history as it was.
    pub(super) async fn compact_builtin(
        self: &Arc<House>,
        session: &Session,
        ask: Builtin,
    ) -> Result<Measured, CompactionError> {
        let config = &session.agent.compaction;
        let (input, tokens, name, row, stored, window) = {
            let state = session.state();
            let view = state.view();
            let until = ask.must_keep_from.map_or(view.len(), |first| state.turn_start(first));
            let input = CompactInput {
                view,
                until,
                token_budget: ask.scaled(ask.token_budget),
                force: ask.force,
                keep_recent_tokens: ask.scaled(config.keep_recent_tokens),
                custom_instructions: ask.focus.clone(),
                max_summary_chars: config.max_summary_chars,
                must_keep_from: ask.must_keep_from,
                planned: state.extra.planned_cut,
                // Where somebody waits for an answer, a poorer summary is better than a history cut without one; where nobody
                // does, the model will be there again.
                may_extract: ask.force && ask.trigger != trigger::MANUAL,
                deadline: ask.deadline,
            };
            let stored = !state.extra.ephemeral && state.is_stored();
            let window = state.window(session.agent.info.context_window);
            let name = state.extra.model_name.clone();
            (input, state.projected_tokens(), name, state.record().row, stored, window)
        };
        let cut = match compaction::cut(&input)? {
            Ok(cut) => cut,
            Err(reason) => return Ok(Measured::nothing(reason, tokens)),
        };
        session.state().extra.planned_cut = Some(cut.first_kept);
        let summarizer = Kept {
            house: self.clone(),
            session: row,
            stored,
            window,
            // What the configuration names is what is called, whatever a request said.
            model: match session.agent.info.resolved.as_str() {
                "" => name.clone().unwrap_or_default(),
                configured => configured.to_owned(),
            },
            inner: Arc::from(session.agent.summarizer(name)),
        };
        failpoint::pass("compact.summary.before");
        let outcome = compaction::compact_at(input, cut, &summarizer, &session.agent.counter).await?;
        failpoint::pass("compact.summary.after");
        session.state().extra.planned_cut = None;
        match outcome {
            Outcome::Nothing { reason } => Ok(Measured::nothing(reason, tokens)),
            Outcome::Compacted { summary, first_kept, method, .. } => {
                let written = self.write_boundary(session, summary, first_kept, ask.trigger, &ask.by);
                Ok(Measured { method: Some(method), ..written })
            }
        }
    }

    /// Appends a compaction boundary to the active branch, if the history is smaller with it.
    pub(super) fn write_boundary(
        &self,
        session: &Session,
        summary: String,
        first_kept: EntryId,
        trigger: u32,
        by: &str,
    ) -> Measured {
        let mut state = session.state();
        let before = state.projected_tokens();
        let expected = {
            let view = state.view();
            let Some(kept) = view.index_of(first_kept) else {
                return Measured::nothing("the first kept entry is not in the history", before);
            };
            view.tokens(kept..view.len()) + u64::from(session.agent.counter.message(&summary_message(&summary)))
        };
        if expected >= before {
            return Measured::nothing(NO_PROGRESS, before);
        }
        let body = CompactionBody {
            summary: summary.clone(),
            first_kept,
            tokens_before: before,
            tokens_after: expected,
            trigger: trigger_name(trigger).into(),
            by: by.to_owned(),
        };
        let entry = Entry {
            id: state.next_entry(&*self.store),
            parent: state.branch().head(),
            session: state.record().row,
            time_ms: self.clock.now_ms(),
            flags: 0,
            tokens: session.agent.counter.text(&summary).try_into().unwrap_or(u32::MAX),
            digest: 0,
            body: EntryBody::Compaction(body),
        };
        let id = entry.id;
        failpoint::pass("compact.boundary.before");
        let mut writes = Vec::new();
        if let Err(error) = state.append(entry, &mut writes) {
            return Measured::nothing(error.to_string(), before);
        }
        if !state.extra.ephemeral {
            let lease = Some((state.record().row, self.store.lease()));
            writes.push(forget(state.record().row));
            // Nobody is told before a later submission of this session is durable, and those are applied in order.
            drop(self.store.submit(Submission { lease, writes }));
        }
        failpoint::pass("compact.boundary.queued");
        state.add_boundary(id);
        state.sync(&session.agent.counter);
        Measured {
            ok: true,
            compacted: true,
            summary: Some(summary),
            first_kept: Some(first_kept),
            before,
            after: state.projected_tokens(),
            ..Measured::default()
        }
    }
}

impl From<CompactionError> for TurnError {
    fn from(error: CompactionError) -> TurnError {
        TurnError::Compaction { reason: error.to_string() }
    }
}
