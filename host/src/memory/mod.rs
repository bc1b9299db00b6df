//! The memory slot, as a turn uses it: the section of the system prompt, search, append.
//!
//! Which provider serves is the slot's decision, and so is what becomes of one that fails. This room makes of it what a turn
//! can live with: whatever happens to a provider, there is an answer, at worst that there is no memory. A failure is told once,
//! loudly, by the slot's latch; later turns meet a provider that is out, which is the same as none.
//!
//! ```text
//! turn ── prepare ──► MemoryRoom ──► slot ──► provider          (before assemble, beside what the turn does meanwhile)
//!   │                     │
//!   └── MemorySnapshot ◄──┘   `legacy`: the host puts it at the head; other engines ask for it with the same arguments
//! ```

mod section;

use crate::config::{Citations, MemoryConfig};
use crate::diagnostic::Diagnostic;
use crate::slot::{
    DegradedCode, FailureKind, HookFailure, HostServices, MemoryChoice, MemoryHit, MemoryPromptArgs, Slot,
};
use engine_abi::wire::citations_mode;
use std::collections::BTreeSet;
use std::sync::Arc;

pub use section::fitted;

/// Longest text that is appended at once, in bytes.
const APPEND_MAX: usize = 1024 * 1024;

/// The memory section of a run, prepared before `assemble`. An engine that asks for it must name the same arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemorySnapshot {
    /// What it was prepared for.
    pub args: MemoryPromptArgs,
    /// The section; `None` when there is nothing to add.
    pub section: Option<String>,
    /// The provider that gave it.
    pub provider: Option<String>,
    /// Why the selected provider gave nothing: a closed code and words.
    pub degraded: Option<(&'static str, String)>,
}

impl MemorySnapshot {
    /// True when an engine asks with the arguments that the snapshot was prepared for. Tools are a set.
    pub fn answers(&self, args: &MemoryPromptArgs) -> bool {
        fn set(tools: &[String]) -> BTreeSet<&str> {
            tools.iter().map(String::as_str).collect()
        }
        self.args.citations_mode == args.citations_mode
            && self.args.sandboxed == args.sandboxed
            && (self.args.available_tools == args.available_tools
                || set(&self.args.available_tools) == set(&args.available_tools))
    }
}

/// Why the memory did not do what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// No provider is selected.
    #[error("no memory provider is selected")]
    NoProvider,
    /// The selected provider cannot serve.
    #[error("the memory provider \"{provider}\" is out ({code}): {reason}")]
    Out {
        /// Its id.
        provider: String,
        /// Closed code.
        code: &'static str,
        /// Why.
        reason: String,
    },
    /// The provider keeps nothing.
    #[error("the memory provider \"{provider}\" does not keep anything")]
    ReadOnly {
        /// Its id.
        provider: String,
    },
    /// The text is empty or too long.
    #[error("{0}")]
    Text(String),
    /// The call failed.
    #[error("the memory provider \"{provider}\" failed: {failure}")]
    Failed {
        /// Its id.
        provider: String,
        /// How.
        failure: Box<HookFailure>,
    },
}

impl Diagnostic for MemoryError {
    fn code(&self) -> &'static str {
        match self {
            MemoryError::NoProvider => "CE340",
            MemoryError::Out { .. } => "CE341",
            MemoryError::ReadOnly { .. } => "CE342",
            MemoryError::Text(_) => "CE343",
            MemoryError::Failed { .. } => "CE344",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            MemoryError::NoProvider => Some("name one in [plugins.slots] memory".into()),
            MemoryError::Out { .. } | MemoryError::Failed { .. } => {
                Some("see the reason with `engineroom doctor`, mend the provider, restart the gateway".into())
            }
            MemoryError::ReadOnly { .. } => Some("select a provider that keeps what it is given".into()),
            MemoryError::Text(_) => None,
        }
    }
}

/// The memory of all agents.
pub struct MemoryRoom {
    slot: Arc<Slot>,
    /// What providers may call.
    services: Arc<dyn HostServices>,
    config: MemoryConfig,
}

impl MemoryRoom {
    /// The room over this slot; providers may call `services`.
    pub fn new(slot: Arc<Slot>, services: Arc<dyn HostServices>, config: MemoryConfig) -> MemoryRoom {
        MemoryRoom { slot, services, config }
    }

    /// The arguments of a run whose model is offered these tools.
    pub fn args(&self, available_tools: &[String]) -> MemoryPromptArgs {
        let citations_mode = self.citations_mode();
        MemoryPromptArgs { available_tools: available_tools.to_vec(), citations_mode, sandboxed: false }
    }

    /// A code from [`citations_mode`].
    pub fn citations_mode(&self) -> u32 {
        match self.config.citations {
            Citations::Auto => citations_mode::AUTO,
            Citations::On => citations_mode::ON,
            Citations::Off => citations_mode::OFF,
        }
    }

    /// True when asking for the section makes a call: a provider is selected and serves.
    pub fn serves(&self, agent: &str) -> bool {
        matches!(self.slot.memory(agent), MemoryChoice::Ready(_))
    }

    /// Prepares the section of a run. It never fails: without memory there is no section, and `degraded` says why. Ends within the
    /// deadline of the provider's call. `window` in tokens and `count` are those of the model in use.
    pub async fn prepare(
        &self,
        agent: &str,
        args: MemoryPromptArgs,
        window: u64,
        count: &(dyn Fn(&str) -> u64 + Sync),
    ) -> MemorySnapshot {
        let snapshot = MemorySnapshot { args, ..MemorySnapshot::default() };
        let provider = match self.slot.memory(agent) {
            MemoryChoice::None => return snapshot,
            MemoryChoice::Out(out) => return MemorySnapshot { degraded: Some((out.code, out.reason)), ..snapshot },
            MemoryChoice::Ready(provider) => provider,
        };
        let limit = self.config.section_tokens.min(window / 4);
        let patience = provider.patience();
        let asked = tokio::time::timeout(patience, provider.prompt(&self.services, snapshot.args.clone()));
        let Ok(answer) = asked.await else {
            let reason = format!("it had no thread free for {} ms", patience.as_millis());
            tracing::warn!(provider = provider.id(), reason, "the memory did not answer; the turn goes on without it");
            return MemorySnapshot { degraded: Some((DegradedCode::Deadline.memory(), reason)), ..snapshot };
        };
        match answer {
            Ok(text) => {
                let section = text.and_then(|text| fitted(&text, limit, count));
                MemorySnapshot { section, provider: Some(provider.id().to_owned()), ..snapshot }
            }
            Err(failure) => {
                told(&failure);
                MemorySnapshot { degraded: Some((failure.code.memory(), failure.reason)), ..snapshot }
            }
        }
    }

    /// At most `limit` hits, best first. Nothing is found where there is no memory.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Failed`] when this very search fails.
    pub async fn search(&self, agent: &str, query: &str, limit: usize) -> Result<Vec<MemoryHit>, MemoryError> {
        let MemoryChoice::Ready(provider) = self.slot.memory(agent) else { return Ok(Vec::new()) };
        if limit == 0 || query.trim().is_empty() {
            return Ok(Vec::new());
        }
        let found = provider.search(&self.services, query.to_owned(), limit).await;
        found.map_err(|failure| failed(provider.id(), failure))
    }

    /// Keeps `text`; durable when it returns.
    ///
    /// # Errors
    ///
    /// [`MemoryError`]: what is not kept is always told.
    pub async fn append(&self, agent: &str, text: &str) -> Result<(), MemoryError> {
        if text.trim().is_empty() {
            return Err(MemoryError::Text("there is nothing to keep: the text is empty".into()));
        }
        if text.len() > APPEND_MAX {
            let message = format!("the text has {} bytes, at most {APPEND_MAX} are kept at once", text.len());
            return Err(MemoryError::Text(message));
        }
        let provider = match self.slot.memory(agent) {
            MemoryChoice::None => return Err(MemoryError::NoProvider),
            MemoryChoice::Out(out) => {
                return Err(MemoryError::Out { provider: out.provider, code: out.code, reason: out.reason });
            }
            MemoryChoice::Ready(provider) => provider,
        };
        match provider.append(&self.services, text.to_owned()).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(MemoryError::ReadOnly { provider: provider.id().to_owned() }),
            Err(failure) => Err(failed(provider.id(), failure)),
        }
    }
}

fn failed(provider: &str, failure: HookFailure) -> MemoryError {
    told(&failure);
    MemoryError::Failed { provider: provider.to_owned(), failure: Box::new(failure) }
}

/// Says what the slot has not said: its latch is loud about what takes a provider out, once.
fn told(failure: &HookFailure) {
    let is_quiet = matches!(failure.kind, FailureKind::Cancelled | FailureKind::Quarantined);
    if !failure.quarantined && !is_quiet {
        tracing::warn!(
            provider = failure.engine,
            hook = failure.hook.name(),
            code = failure.code.memory(),
            reason = failure.reason,
            "the memory did not answer; the turn goes on without it"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(tools: &[&str], citations_mode: u32, sandboxed: bool) -> MemoryPromptArgs {
        let available_tools = tools.iter().map(ToString::to_string).collect();
        MemoryPromptArgs { available_tools, citations_mode, sandboxed }
    }

    #[test]
    fn a_snapshot_answers_only_the_arguments_it_was_prepared_for() {
        let snapshot = MemorySnapshot { args: args(&["search", "read"], 0, false), ..MemorySnapshot::default() };
        assert!(snapshot.answers(&args(&["search", "read"], 0, false)));
        assert!(snapshot.answers(&args(&["read", "search"], 0, false)), "tools are a set");
        assert!(!snapshot.answers(&args(&["search"], 0, false)));
        assert!(!snapshot.answers(&args(&["search", "read", "more"], 0, false)));
        assert!(!snapshot.answers(&args(&["search", "read"], 1, false)));
        assert!(!snapshot.answers(&args(&["search", "read"], 0, true)));
    }
}
