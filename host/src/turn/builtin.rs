//! The built-in compaction as a turn runs it: planned and summarised below, measured and written here.

use super::TurnError;
use super::house::House;
use super::session::Session;
use crate::compaction::{self, CompactInput, CompactionError, Outcome, summary_message};
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
    /// The safety deadline.
    pub(super) deadline: Instant,
}

/// What a compaction did, as the host measured it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Measured {
    pub(super) compacted: bool,
    pub(super) reason: Option<String>,
    pub(super) summary: Option<String>,
    pub(super) first_kept: Option<EntryId>,
    pub(super) before: u64,
    pub(super) after: u64,
}

impl Measured {
    /// The same for the engine that delegated.
    pub(super) fn to_output(&self) -> CompactOutput {
        CompactOutput {
            ok: true,
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
        Measured { reason: Some(reason.into()), before: tokens, after: tokens, ..Measured::default() }
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
        let input = {
            let state = session.state();
            let view = state.view();
            let until = ask.must_keep_from.map_or(view.len(), |first| state.turn_start(first));
            CompactInput {
                view,
                until,
                token_budget: ask.token_budget,
                force: ask.force,
                keep_recent_tokens: session.agent.compaction.keep_recent_tokens,
                custom_instructions: ask.focus,
                max_summary_chars: session.agent.compaction.max_summary_chars,
                must_keep_from: ask.must_keep_from,
                deadline: ask.deadline,
            }
        };
        let tokens = session.state().projected_tokens();
        let name = session.state().extra.model_name.clone();
        match compaction::compact(input, &*session.agent.summarizer(name), &session.agent.counter).await? {
            Outcome::Nothing { reason } => Ok(Measured::nothing(reason, tokens)),
            Outcome::Compacted { summary, first_kept, .. } => {
                Ok(self.write_boundary(session, summary, first_kept, ask.trigger, &ask.by))
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
            return Measured::nothing("the summary would not be smaller than what it stands for", before);
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
        let mut writes = Vec::new();
        if let Err(error) = state.append(entry, &mut writes) {
            return Measured::nothing(error.to_string(), before);
        }
        if !state.extra.ephemeral {
            let lease = Some((state.record().row, self.store.lease()));
            // Nobody is told before a later submission of this session is durable, and those are applied in order.
            drop(self.store.submit(Submission { lease, writes }));
        }
        state.add_boundary(id);
        state.sync(&session.agent.counter);
        Measured {
            compacted: true,
            reason: None,
            summary: Some(summary),
            first_kept: Some(first_kept),
            before,
            after: state.projected_tokens(),
        }
    }
}

impl From<CompactionError> for TurnError {
    fn from(error: CompactionError) -> TurnError {
        TurnError::Compaction { reason: error.to_string() }
    }
}
