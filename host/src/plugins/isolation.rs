//! Where a library runs: in the gateway's own process or in a worker. What the entry says counts; where it says `auto`, the
//! libraries that came with this program run in-process, and everything else in a worker.

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

fn is_bundled(sha256: &str) -> bool {
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
    /// The placement of the library with that hash.
    pub(super) fn of(plugin_id: &str, sha256: &str, config: &PluginsConfig) -> Placement {
        let entry = config.entries.get(plugin_id).map_or(Isolation::Auto, |entry| entry.isolation);
        Placement::decide(plugin_id, is_bundled(sha256), (entry, config.isolation))
    }

    /// `asked`: by the entry, and for all plugins.
    fn decide(plugin_id: &str, bundled: bool, asked: (Isolation, Isolation)) -> Placement {
        let (asked, by) = match asked {
            (Isolation::Auto, general) => (general, "plugins.isolation says so"),
            (own, _) => (own, "its entry says so"),
        };
        let (isolation, reason) = match asked {
            Isolation::InProcess | Isolation::Process => (asked, by.to_owned()),
            Isolation::Auto if bundled => (Isolation::InProcess, "bundled".to_owned()),
            Isolation::Auto => (
                Isolation::Process,
                format!(
                    "not bundled; set plugins.entries.{plugin_id}.isolation = \"in-process\" once you trust it like the \
                     gateway itself"
                ),
            ),
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

    fn decided(bundled: bool, asked: Isolation) -> (bool, String) {
        let placement = Placement::decide("w", bundled, (asked, Isolation::Auto));
        (placement.is_apart(), placement.to_string())
    }

    #[test]
    fn what_the_entry_says_counts_for_bundled_libraries_too() {
        for bundled in [true, false] {
            assert!(!decided(bundled, Isolation::InProcess).0);
            assert!(decided(bundled, Isolation::Process).0);
        }
    }

    #[test]
    fn what_is_said_of_all_plugins_counts_where_the_entry_says_nothing() {
        let placed = |own, general| Placement::decide("w", true, (own, general));
        let general = placed(Isolation::Auto, Isolation::Process);
        assert_eq!(general.to_string(), "worker (plugins.isolation says so)");
        let own = placed(Isolation::InProcess, Isolation::Process);
        assert_eq!(own.to_string(), "in-process (its entry says so)");
    }

    #[test]
    fn auto_trusts_what_came_with_the_program_and_nothing_else() {
        assert_eq!(decided(true, Isolation::Auto), (false, "in-process (bundled)".into()));
        let (apart, told) = decided(false, Isolation::Auto);
        assert!(
            apart && told.starts_with("worker (not bundled") && told.contains("plugins.entries.w.isolation"),
            "{told}"
        );
    }
}
