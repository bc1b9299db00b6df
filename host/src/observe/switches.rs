//! Switches that break one behaviour on purpose, so that it can be shown that its test notices (`docs/conformance.md`).

use std::collections::HashSet;
use std::sync::LazyLock;

/// The variable that names the lines to break: `8.24` is line 24 of the checklist, several are separated by commas.
const VARIABLE: &str = "ENGINEROOM_BREAK";

/// True when the behaviour behind this line of the conformance table shall be broken. Never in an optimised build: there the
/// switch and what hangs on it are compiled away.
#[inline]
pub fn broken(line: &str) -> bool {
    cfg!(debug_assertions) && named(line)
}

fn named(line: &str) -> bool {
    static LINES: LazyLock<HashSet<String>> = LazyLock::new(|| {
        let value = std::env::var(VARIABLE).unwrap_or_default();
        value.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
    });
    !LINES.is_empty() && LINES.contains(line)
}
