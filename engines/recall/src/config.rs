//! `[plugins.entries.recall.config]`.

use engine_abi::serde::Deserialize;

/// What an operator may set. Every default is what the README gives figures for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// Most memory of all sessions together, in MiB. The least recently used are dropped and come back from the store.
    pub memory_mb: usize,
    /// The search tool finds in the agent's other sessions, too. Needs the grant `sessions`.
    pub other_sessions: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config { memory_mb: 512, other_sessions: false }
    }
}
