//! Doors for `fuzz/`: files that a crash left behind. Not for anything else.

use super::format::{Old, blank};
use super::table::DOCUMENT;
use super::{LEDGER, Verdicts};

/// Names of the ledger and of the document with the verdicts, in the state folder.
pub const FILES: [&str; 2] = [LEDGER, DOCUMENT];

/// A ledger in which nothing has run.
pub fn fresh() -> Vec<u8> {
    blank(1, 1, "boot", &["dlopen", "assemble", "commitTurn"])
}

/// What a ledger says, in words; `None` when it is none.
pub fn told(bytes: &[u8]) -> Option<String> {
    Old::read(bytes).ok().map(|old| format!("{old:?}"))
}

/// The ids of what is held.
pub fn held(verdicts: &Verdicts) -> Vec<String> {
    verdicts.crashes.iter().map(|crash| crash.id.clone()).collect()
}
