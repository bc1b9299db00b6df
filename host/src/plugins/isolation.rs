//! Where a library runs: in the gateway's own process or in a worker. What the entry says counts; where it says `auto`, the
//! libraries that came with this program, that were pinned, or that are signed by a trusted key run in-process, and everything
//! else in a worker.

use super::report::PluginReport;
use crate::config::{Isolation, PluginsConfig};
use serde::Serialize;
use std::sync::OnceLock;

/// SHA-256 of the libraries that came with this program.
static BUNDLED: OnceLock<Vec<String>> = OnceLock::new();

/// Tells which libraries came with this program: their SHA-256, lower-case hex, separated by commas. Counts once, and only for
/// what is loaded afterwards. A program that does not call it knows none.
pub fn bundled_are(hashes: &str) {
    let hashes = hashes.split(',').map(|hash| hash.trim().to_ascii_lowercase());
    let mut hashes: Vec<String> = hashes.filter(|hash| hash.len() == 64).collect();
    hashes.sort_unstable();
    hashes.dedup();
    let _ = BUNDLED.set(hashes);
}

/// How many bundled libraries this program knows.
pub fn bundled_known() -> usize {
    BUNDLED.get().map_or(0, Vec::len)
}

pub(super) fn is_bundled(sha256: &str) -> bool {
    BUNDLED.get().is_some_and(|hashes| hashes.iter().any(|hash| hash == sha256))
}

/// Where a library runs, and why there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Placement {
    /// `in-process` or `process`, never `auto`.
    pub isolation: Isolation,
    /// True when the library came with this program.
    pub bundled: bool,
    /// Why, in a few words; with what to do, where something can be done.
    pub reason: String,
}

/// Begins the reason of a worker that is one for this once.
const THIS_TIME: &str = "this time, since ";

impl Placement {
    /// The placement of a library. `trusted`: why it is, when it did not come with this program. `pin`: how that is brought about.
    pub(super) fn of(
        plugin_id: &str,
        sha256: &str,
        config: &PluginsConfig,
        trusted: Option<&'static str>,
        pin: &str,
    ) -> Placement {
        let entry = config.entries.get(plugin_id).map_or(Isolation::Auto, |entry| entry.isolation);
        Placement::decide((is_bundled(sha256), trusted), (entry, config.isolation), pin)
    }

    /// `asked`: by the entry, and for all plugins.
    fn decide((bundled, trusted): (bool, Option<&'static str>), asked: (Isolation, Isolation), pin: &str) -> Placement {
        let (asked, by) = match asked {
            (Isolation::Auto, general) => (general, "plugins.isolation says so"),
            (own, _) => (own, "its entry says so"),
        };
        let (isolation, reason) = match asked {
            Isolation::InProcess | Isolation::Process => (asked, by.to_owned()),
            Isolation::Auto if bundled => (Isolation::InProcess, "bundled".to_owned()),
            Isolation::Auto => match trusted {
                Some(why) => (Isolation::InProcess, why.to_owned()),
                None => (
                    Isolation::Process,
                    format!("not bundled, pinned or signed; once you trust it like the gateway itself: {pin}"),
                ),
            },
        };
        Placement { isolation, bundled, reason }
    }

    /// The placement of a library that was called while the last process ended without a cause.
    pub(super) fn suspected(self, why: &str) -> Placement {
        match self.is_apart() {
            true => self,
            false => Placement { isolation: Isolation::Process, reason: format!("{THIS_TIME}{why}"), ..self },
        }
    }

    /// True when a worker was chosen, and not only for this once.
    pub fn is_apart_by_choice(&self) -> bool {
        self.is_apart() && !self.reason.starts_with(THIS_TIME)
    }

    /// True for a worker.
    pub fn is_apart(&self) -> bool {
        self.isolation == Isolation::Process
    }
}

impl std::fmt::Display for Placement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = if self.is_apart() { "worker" } else { "in-process" };
        write!(f, "{place} ({})", self.reason)
    }
}

impl PluginReport {
    /// True when it was decided that the library runs in a worker.
    pub fn is_apart(&self) -> bool {
        self.placement.as_ref().is_some_and(Placement::is_apart)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(vouched: (bool, Option<&'static str>), own: Isolation, general: Isolation) -> String {
        Placement::decide(vouched, (own, general), "do this").to_string()
    }

    #[test]
    fn what_the_entry_says_counts_whatever_vouches_for_the_library() {
        for vouched in [(true, None), (false, None), (false, Some("pinned"))] {
            let told = |own| placed(vouched, own, Isolation::Auto);
            assert_eq!(told(Isolation::InProcess), "in-process (its entry says so)");
            assert_eq!(told(Isolation::Process), "worker (its entry says so)");
        }
    }

    #[test]
    fn what_is_said_of_all_plugins_counts_where_the_entry_says_nothing() {
        let told = |own| placed((true, None), own, Isolation::Process);
        assert_eq!(told(Isolation::Auto), "worker (plugins.isolation says so)");
        assert_eq!(told(Isolation::InProcess), "in-process (its entry says so)");
    }

    #[test]
    fn auto_trusts_what_is_bundled_pinned_or_signed_and_nothing_else() {
        let told = |vouched| placed(vouched, Isolation::Auto, Isolation::Auto);
        assert_eq!(told((true, None)), "in-process (bundled)");
        assert_eq!(told((false, Some("pinned"))), "in-process (pinned)");
        assert_eq!(told((false, Some("signed"))), "in-process (signed)");
        let apart = told((false, None));
        assert!(apart.starts_with("worker (not bundled, pinned or signed") && apart.ends_with("do this)"), "{apart}");
    }
}
