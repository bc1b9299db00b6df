//! The trait that an author writes.

use crate::codes::Committed;
use crate::context::{Context, Factory};
use crate::request::{
    AfterTurn, AssembleRequest, CommitTurn, CompactRequest, MaintainRequest, SessionEnded, SubagentEnded,
    SubagentSpawn, ToolRequest,
};
use crate::results::{Assembly, Bootstrapped, Compaction, Info, Maintained, Tool, ToolReply};
use crate::view::Entry;
use crate::{Error, Result};

/// How an engine takes in accepted turns. Decides whether stored sessions reach it: without durable turns the next
/// durable engine of the slot's chain serves them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Commit {
    /// Durable: `commit_turn`, which by default ingests each entry and records the turn, in one batch of the engine's
    /// store.
    Ingest,
    /// Durable: the engine keeps nothing, so every commit is done at once.
    Stateless,
    /// Not durable.
    Never,
}

/// The optional hooks that an engine or a memory provider has. Written by the attribute [`crate::hooks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hooks(u32);

const NAMES: [&str; 14] = [
    "bootstrap",
    "maintain",
    "ingest_batch",
    "after_turn",
    "commit_turn",
    "prepare_subagent_spawn",
    "rollback_subagent_spawn",
    "on_subagent_ended",
    "on_session_ended",
    "tools",
    "call_tool",
    "dispose",
    "prompt_section",
    "append",
];

impl Hooks {
    /// The hooks among `names`; other names are the required ones and helpers.
    #[must_use]
    pub const fn of(names: &[&str]) -> Hooks {
        let mut bits = 0;
        let mut i = 0;
        while i < names.len() {
            bits |= bit(names[i]);
            i += 1;
        }
        Hooks(bits)
    }

    pub(crate) const fn has(self, name: &str) -> bool {
        self.0 & bit(name) != 0
    }
}

const fn bit(name: &str) -> u32 {
    let mut i = 0;
    while i < NAMES.len() {
        if equal(NAMES[i], name) {
            return 1 << i;
        }
        i += 1;
    }
    0
}

const fn equal(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

/// A context engine. Put [`crate::hooks`] on the `impl`.
///
/// One instance serves all sessions of one agent and workspace. It is entered from several threads at once for
/// different sessions, never twice at once for one session. Each hook has a deadline; long work asks [`Context::check`]
/// now and then. A hook that returns an error, panics or misses its deadline quarantines the engine for the rest of the
/// process.
///
/// Writes to [`Context::store`] are kept in the call and go to the store in one atomic batch when the hook returns
/// `Ok`.
pub trait ContextEngine: Sized + Send + Sync + 'static {
    /// The engine's configuration: `[plugins.entries.ID.config]` of `plugins.toml`.
    type Config: serde::de::DeserializeOwned;

    /// Written by the attribute [`crate::hooks`].
    const HOOKS: Hooks;

    /// How accepted turns are taken in.
    const COMMIT: Commit = Commit::Ingest;

    /// Makes an instance.
    fn create(config: Self::Config, factory: &Factory) -> Result<Self>;

    /// Who this engine is. Called once, after [`ContextEngine::create`].
    fn info(&self) -> Info;

    /// Takes in one entry; true when it was new. Called live, in replay and for catching up, in order.
    fn ingest(&self, context: &Context, entry: &Entry) -> Result<bool>;

    /// What the model shall see, within the session's token budget.
    fn assemble(&self, context: &Context, request: &AssembleRequest) -> Result<Assembly>;

    /// Makes the context smaller. [`Context::delegate_compaction`] leaves it to the host.
    fn compact(&self, context: &Context, request: &CompactRequest) -> Result<Compaction>;

    /// First sight of a session in this process, and after turns that another engine served: catch up through the
    /// transcript. By default an engine that commits by [`Commit::Ingest`] ingests what it was not given yet.
    fn bootstrap(&self, context: &Context) -> Result<Bootstrapped> {
        match Self::COMMIT {
            Commit::Ingest => context.catch_up(|entry| self.ingest(context, entry)),
            Commit::Stateless | Commit::Never => Err(Error::unsupported()),
        }
    }

    /// House-keeping, after bootstrap, a turn or a compaction.
    fn maintain(&self, context: &Context, request: &MaintainRequest) -> Result<Maintained> {
        let _ = (context, request);
        Err(Error::unsupported())
    }

    /// Takes in several entries; gives how many were new.
    fn ingest_batch(&self, context: &Context, entries: &[Entry]) -> Result<u64> {
        let mut new = 0;
        for entry in entries {
            new += u64::from(self.ingest(context, entry)?);
        }
        Ok(new)
    }

    /// The end of a turn that is not stored, or of an engine without durable turns.
    fn after_turn(&self, context: &Context, turn: &AfterTurn) -> Result<()> {
        let _ = (context, turn);
        Err(Error::unsupported())
    }

    /// Takes in an accepted turn, once per advancement key. Write your own only to do better than the default.
    fn commit_turn(&self, context: &Context, turn: &CommitTurn) -> Result<Committed> {
        match Self::COMMIT {
            Commit::Stateless => Ok(Committed::Committed),
            Commit::Never => Err(Error::unsupported()),
            Commit::Ingest => context.commit_once(turn, |entry| self.ingest(context, entry)),
        }
    }

    /// A subagent is about to start. `Some` handle comes back in [`ContextEngine::rollback_subagent_spawn`] when it
    /// fails to; 0 is no handle.
    fn prepare_subagent_spawn(&self, context: &Context, spawn: &SubagentSpawn) -> Result<Option<u64>> {
        let _ = (context, spawn);
        Err(Error::unsupported())
    }

    /// Undoes a preparation, at most once per handle.
    fn rollback_subagent_spawn(&self, context: &Context, handle: u64) -> Result<()> {
        let _ = (context, handle);
        Err(Error::unsupported())
    }

    /// A subagent ended.
    fn on_subagent_ended(&self, context: &Context, ended: &SubagentEnded) -> Result<()> {
        let _ = (context, ended);
        Err(Error::unsupported())
    }

    /// A session ended.
    fn on_session_ended(&self, context: &Context, ended: &SessionEnded) -> Result<()> {
        let _ = (context, ended);
        Err(Error::unsupported())
    }

    /// Tools for the model.
    fn tools(&self, context: &Context) -> Result<Vec<Tool>> {
        let _ = context;
        Err(Error::unsupported())
    }

    /// The model calls one of the tools.
    fn call_tool(&self, context: &Context, request: &ToolRequest) -> Result<ToolReply> {
        let _ = (context, request);
        Err(Error::unsupported())
    }

    /// The last call: write what is still to be written. The instance is dropped after it.
    fn dispose(&self, context: &Context) -> Result<()> {
        let _ = context;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_optional_hooks_count() {
        let hooks = Hooks::of(&["create", "info", "tools", "my_helper", "call_tool"]);
        assert!(hooks.has("tools") && hooks.has("call_tool"));
        assert!(NAMES.iter().filter(|name| hooks.has(name)).count() == 2);
        assert!(!hooks.has("ingest"));
    }
}
