//! `[plugins.entries.recall.config]`.

use engine_abi::serde::Deserialize;
use engine_abi::{Error, Result};

/// What an operator may set. Every default is what the README gives figures for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    /// Most of the budget for passages of older turns.
    pub retrieved_share: Share,
    /// Least of the budget for the newest turns word for word.
    pub tail_share: f64,
    /// Most of the budget for the compacted log, counted above the budgets that have none.
    pub log_share: f64,
    /// Most of the budget for what is pinned.
    pub pinned_share: f64,
    /// Who writes the lines of the log.
    pub gists: Gists,
    /// The search tool finds in the agent's other sessions, too. Needs the grant `sessions`.
    pub other_sessions: bool,
    /// The model gets the tools.
    pub tools: bool,
    /// Most memory of all sessions together, in MiB. The least recently used are dropped and come back from the store.
    pub memory_mb: usize,
}

/// A share of the budget, or what the session itself says that it should be.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Share {
    /// A number from 0 to 1.
    Fixed(f64),
    /// The word `auto`.
    Named(Auto),
}

/// The word `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(crate) enum Auto {
    /// By how many tools the session uses.
    #[serde(rename = "auto")]
    Auto,
}

/// Who writes the lines of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Gists {
    /// Sentences are picked out; no model is asked.
    Extract,
    /// In the background the host's model is asked to write them better; where there is none, sentences stay.
    Model,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            retrieved_share: Share::Named(Auto::Auto),
            tail_share: 0.25,
            log_share: 0.15,
            pinned_share: 0.10,
            gists: Gists::Extract,
            other_sessions: false,
            tools: true,
            memory_mb: 512,
        }
    }
}

impl Config {
    /// The configuration, when its shares leave room for each other.
    ///
    /// # Errors
    ///
    /// Names the setting that is out of its bounds; the schema says the same of each alone.
    pub(crate) fn checked(self) -> Result<Config> {
        let retrieved = match self.retrieved_share {
            Share::Fixed(share) => share,
            Share::Named(Auto::Auto) => 0.0,
        };
        let bounds = [
            ("retrieved_share", retrieved, 0.0, 0.75),
            ("tail_share", self.tail_share, 0.25, 0.9),
            ("log_share", self.log_share, 0.0, 0.5),
            ("pinned_share", self.pinned_share, 0.0, 0.1),
        ];
        for (name, share, least, most) in bounds {
            if !(least..=most).contains(&share) {
                return Err(Error::new(format_args!("{name} is {share}; it must be from {least} to {most}")));
            }
        }
        if retrieved + self.tail_share > 1.0 {
            return Err(Error::new("retrieved_share and tail_share together are more than the whole budget"));
        }
        Ok(self)
    }
}
