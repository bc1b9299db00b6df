//! What the chaos engine does: its modes, and for each what kind of thing it is.

use super::spot::Spot;

/// Deadline of the hook in cases that are about time, in ms. Everything else gets a deadline that no busy machine misses.
pub const SHORT: u64 = 400;
/// The host's grace after a deadline, in ms.
const GRACE: u64 = 100;

/// What kind of thing a mode does. The rules say what comes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nature {
    /// Nothing that concerns the host.
    Calm,
    /// The hook returns an error or panics.
    Error,
    /// The hook does not return in time.
    Late,
    /// The hook returns something that breaks the contract.
    Invalid,
    /// The hook returns without a result; only those that owe one break the contract.
    Owing,
    /// The hook hands on an error of the host's own.
    Service,
    /// The process that runs the hook ends inside of it.
    Ends,
    /// That process ends some time after the hook.
    EndsLater,
    /// That process lives, but lacks what it needs to go on: what becomes of it cannot be foretold.
    Starves,
}

/// A mode with its settings.
#[derive(Debug)]
pub struct Case {
    /// Its name in the table.
    pub name: &'static str,
    /// The engine's mode.
    pub mode: &'static str,
    /// Its `ms`; 0 for the mode's own.
    pub ms: u64,
    /// What kind of thing it is.
    pub nature: Nature,
    /// The hooks that it is for; empty for all.
    pub hooks: &'static [&'static str],
    /// In-process, nothing can be told apart from a kill by another: the crash ledger says `unexplained`.
    pub traceless: bool,
}

const fn case(mode: &'static str, nature: Nature) -> Case {
    Case { name: mode, mode, ms: 0, nature, hooks: &[], traceless: false }
}

const fn timed(name: &'static str, mode: &'static str, ms: u64, nature: Nature) -> Case {
    Case { name, ms, ..case(mode, nature) }
}

const fn result(mode: &'static str, hooks: &'static [&'static str]) -> Case {
    Case { hooks, ..case(mode, Nature::Invalid) }
}

/// All of them.
pub static CASES: &[Case] = &[
    case("none", Nature::Calm),
    // Errors and panics.
    case("error", Nature::Error),
    case("panic", Nature::Error),
    case("panic-string", Nature::Error),
    case("panic-box", Nature::Error),
    case("panic-bomb", Nature::Error),
    case("panic-resume", Nature::Error),
    case("panic-twice", Nature::Ends),
    case("panic-in-thread", Nature::Calm),
    Case { hooks: &["dispose"], ..case("panic-in-drop", Nature::Error) },
    case("service-error", Nature::Service),
    case("status-unknown", Nature::Error),
    case("reason-not-utf8", Nature::Error),
    case("huge-reason", Nature::Error),
    case("no-result", Nature::Owing),
    case("wrong-result", Nature::Calm),
    case("wrong-thread", Nature::Calm),
    // Time.
    timed("slow-under", "slow", 100, Nature::Calm),
    timed("slow-over", "slow", SHORT + GRACE / 2, Nature::Late),
    timed("return-late", "hang-sleep", SHORT + GRACE + 700, Nature::Late),
    case("hang-sleep", Nature::Late),
    case("hang-spin", Nature::Late),
    case("deadlock", Nature::Late),
    case("cancelled", Nature::Late),
    timed("late-store", "late-store", SHORT + GRACE + 200, Nature::Late),
    timed("late-rewrite", "late-rewrite", SHORT + GRACE + 200, Nature::Late),
    timed("late-llm", "late-llm", SHORT + GRACE + 200, Nature::Late),
    // The process.
    case("abort", Nature::Ends),
    case("exit", Nature::Ends),
    case("exit-fast", Nature::Ends),
    Case { traceless: true, ..case("exit-raw", Nature::Ends) },
    case("segfault", Nature::Ends),
    case("stack-overflow", Nature::Ends),
    case("memory", Nature::Ends),
    case("crash-later", Nature::EndsLater),
    case("fds", Nature::Starves),
    case("close-fds", Nature::Starves),
    case("fork", Nature::Calm),
    case("stdout", Nature::Calm),
    case("block-signals", Nature::Calm),
    // Services.
    case("service-foreign", Nature::Calm),
    case("service-recursive", Nature::Calm),
    case("service-stale", Nature::Calm),
    // Results of certain hooks.
    result("span-out-of-range", &["assemble"]),
    result("span-reversed", &["assemble"]),
    result("spans-out-of-order", &["assemble"]),
    result("span-twice", &["assemble"]),
    result("unknown-id", &["assemble"]),
    result("role-unknown", &["assemble"]),
    result("call-without-result", &["assemble"]),
    result("result-without-call", &["assemble"]),
    result("current-turn-twice", &["assemble"]),
    result("addition-not-utf8", &["assemble"]),
    result("authority-unknown", &["assemble"]),
    result("huge-spans", &["assemble"]),
    result("huge-messages", &["assemble"]),
    result("commit-status", &["commit_turn"]),
    result("kept-unknown", &["compact"]),
    result("info-codes", &["info"]),
    result("huge-tools", &["tools"]),
    result("huge-hits", &["memory_search"]),
    result("too-many-hits", &["memory_search"]),
    result("flag-unknown", &["info", "bootstrap", "maintain", "compact", "call_tool"]),
    result("text-not-utf8", TEXTS),
    result("huge-text", TEXTS),
];

/// Hooks whose result has a text that must be one.
const TEXTS: &[&str] =
    &["info", "bootstrap", "maintain", "assemble", "compact", "tools", "call_tool", "memory_prompt", "memory_search"];

impl Case {
    /// True when the hook has what the mode is about.
    pub fn fits(&self, spot: &Spot) -> bool {
        self.hooks.is_empty() || self.hooks.contains(&spot.hook)
    }

    /// True when the case is about the hook's deadline.
    pub fn is_timed(&self) -> bool {
        self.nature == Nature::Late
    }
}
