//! The named checks: what each looks at, what the contract says about it, and how to mend what it finds.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a finding of a check means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    /// The engine breaks the contract: a gateway would put it out of service, or a session would lose something.
    Failure,
    /// The contract lets it pass, and it hurts those who use the engine.
    Warning,
}

macro_rules! checks {
    ($($name:ident = $id:literal, $level:literal, $weight:ident, $what:literal, $says:literal, $mend:literal;)*) => {
        /// A named check.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Check {
            $(#[doc = $what] $name,)*
        }

        impl Check {
            /// All checks, in the order in which they are shown.
            pub const ALL: &'static [Check] = &[$(Check::$name),*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $(Check::$name => $id),* }
            }

            /// Its level, 1 to 5.
            pub const fn level(self) -> u8 {
                match self { $(Check::$name => $level),* }
            }

            /// What a finding means.
            pub const fn weight(self) -> Weight {
                match self { $(Check::$name => Weight::$weight),* }
            }

            /// What it looks at.
            pub const fn what(self) -> &'static str {
                match self { $(Check::$name => $what),* }
            }

            /// What the contract says.
            pub const fn says(self) -> &'static str {
                match self { $(Check::$name => $says),* }
            }

            /// How to mend what it finds.
            pub const fn mend(self) -> &'static str {
                match self { $(Check::$name => $mend),* }
            }
        }
    };
}

checks! {
    // Level 1: it loads and answers.
    File = "file", 1, Failure,
        "The file is a shared library for this machine, with a manifest that can be read.",
        "a library carries its manifest in a section of its own, which is read without running code",
        "export the engine with `export_engine!` (Rust) or `ENGINEROOM_MANIFEST` (C), as a `cdylib` for this machine's architecture";
    PanicMode = "panic-mode", 1, Failure,
        "The library is built with unwinding panics.",
        "an engine built with panic = \"abort\" is refused, since its panics would end the gateway",
        "remove `panic = \"abort\"` from the profile that builds it";
    Trust = "trust", 1, Failure,
        "Owner, mode and folder of the file would let a gateway load it.",
        "nobody but the gateway's user and root may write to a library or its folder",
        "do what the message says, or move the file to a folder that only you can write to";
    ConfigDefaults = "config-defaults", 1, Failure,
        "The configuration that the check was given, empty unless it was, fits the schema of the manifest.",
        "an engine's configuration is checked against the schema in its manifest before the library is loaded",
        "give every key a default, or pass what it needs with --with KEY=VALUE";
    ConfigUnknown = "config-unknown-keys", 1, Warning,
        "The schema refuses keys that the engine does not know.",
        "a schema says what an operator may write; what it lets through, nobody checks",
        "set `\"additionalProperties\": false` in the schema, so that a misspelt key is told to the operator";
    Probe = "probe", 1, Failure,
        "A child process survives opening the library, building the engine and calling each hook once.",
        "a library is tried out in a disposable child first; one that ends or hangs its child is refused",
        "find what ends the process: see where it was and what it wrote";
    Load = "load", 1, Failure,
        "The system's loader opens the library.",
        "a library is opened with RTLD_NOW | RTLD_LOCAL, so every symbol must be found at once",
        "link everything that it needs, statically where possible";
    Layout = "layout", 1, Failure,
        "Entry and layout of types are those of this contract.",
        "types that cross the border have the layout of the contract's version",
        "build it against the engine-abi of this release";
    Register = "register", 1, Failure,
        "The library registers the ids that its manifest announces.",
        "a library registers each engine and memory provider under the id that its manifest names",
        "register what the manifest names, and nothing of another plugin";
    Factory = "factory", 1, Failure,
        "The engine is built with its configuration.",
        "a factory makes an instance from the configuration alone, within its deadline",
        "see the reason; do slow or doubtful work at the first call that needs it";
    Info = "info", 1, Failure,
        "`info` has what it must have, and the required hooks are there.",
        "`info` names the engine; `ingest`, `assemble` and `compact` are required",
        "fill in `id` and `name`, use the codes of the contract, and implement the required hooks";
    SelfTest = "self-test", 1, Failure,
        "Each hook answers once on a short conversation.",
        "every hook that an engine has must be callable from the first moment",
        "see the hook and its reason";
    Worker = "worker", 1, Failure,
        "The engine starts and answers in a worker, as what is not trusted like the gateway itself does.",
        "a worker runs in a sandbox: its own folder, no network, no other process",
        "keep files in the state folder that the factory is given, and reach the world through host services";

    // Level 2: results on ordinary sessions.
    Lives = "lives", 2, Failure,
        "The process lives on.",
        "an engine that ends its process by a signal or an exit is out until it is released",
        "never call exit or abort; find the memory error (valgrind, sanitizers)";
    Panics = "panics", 2, Failure,
        "No hook panics.",
        "a panic is caught by the guard and quarantines the engine",
        "return an error, or better a result; see the message of the panic";
    HookErrors = "hook-errors", 2, Failure,
        "No hook fails on an ordinary session.",
        "an error of a hook quarantines the engine for the rest of the process, unless it is a host service's, handed on with its token",
        "answer what can be answered; hand on errors of host services as they are (`?` in Rust)";
    Owes = "owed-results", 2, Failure,
        "Every hook that says it is done has pushed its result.",
        "a hook that returns OK owes its result to the sink",
        "push the result before returning OK, or return UNSUPPORTED for a hook that is not there";
    Spans = "spans", 2, Failure,
        "`assemble` names entries that it was shown, in their order, each once.",
        "spans of entry ids resolve to the projection: none runs backwards, goes back, or names an unknown id",
        "push spans oldest first, with ids from the rows of this call";
    ToolPairs = "tool-pairs", 2, Failure,
        "No tool call is shown without its result, and no result without its call.",
        "tool calls and their results go together",
        "cut at entries that start a turn (flag TURN_START), never between a call and its results";
    CurrentTurn = "current-turn", 2, Failure,
        "The current turn is shown exactly once.",
        "the host appends the current turn, unless the engine placed it by its id; then exactly once",
        "place the id of the current turn at most once, last, or leave it to the host";
    Texts = "texts", 2, Failure,
        "Every text that the engine gives is UTF-8.",
        "texts that cross the border are UTF-8 and are checked while they are received",
        "cut strings at character boundaries";
    Codes = "codes", 2, Failure,
        "Roles and codes are those of the contract.",
        "a code that is not in its list is an invalid result",
        "use the constants of the contract";
    CommitStatus = "commit-status", 2, Failure,
        "`commitTurn` answers `committed` or `duplicate`.",
        "any other status is invalid",
        "answer COMMITTED, or DUPLICATE for a key that was committed before";
    CommitOnce = "commit-once", 2, Failure,
        "A turn that is committed twice under one key counts once.",
        "turns come at least once: the same advancementKey again must change nothing",
        "record the key in the batch that takes the turn in, and answer `duplicate` when it is there";
    Tools = "tools", 2, Failure,
        "Tools have names, an object for parameters, and answer any arguments.",
        "names are [a-zA-Z0-9_-]{1,64} and given once; parameters are a JSON Schema of an object; a call that cannot be done is answered, not failed",
        "answer a tool call that makes no sense with an error for the model to read";
    Budget = "budget", 2, Warning,
        "What is shown fits the token budget.",
        "over budget is not invalid: it costs a compaction or a trim, and is counted",
        "count the tokens of the rows, add your own messages by the token service, and stop before the budget";
    Estimate = "estimate", 2, Warning,
        "`estimatedTokens` is within 25 % of the host's count.",
        "the estimate is recorded beside the host's own count; more than 25 % off is a warning",
        "add up the tokens of the rows that are kept, and count your own texts with the token service";
    CompactResult = "compact-result", 2, Failure,
        "What `compact` gives can be read: a first kept entry that was shown, details that are JSON.",
        "`firstKeptEntryId` names an entry of the history",
        "give the id of a row of this call";
    CompactTruth = "compact-truth", 2, Failure,
        "What `compact` claims is true of what is shown next.",
        "no report says what was not measured: a compaction that made nothing smaller is recorded as no progress",
        "say `compacted` only when the next assembly is smaller, with the numbers that it will have";
    CompactNoOp = "compact-no-op", 2, Warning,
        "An engine that does not own compaction does something when `compact` is called.",
        "a no-op `compact` on a non-owning engine is unsafe: after an overflow nothing makes the prompt smaller",
        "delegate: `context.delegate_compaction(request)`, one call";
    Ephemeral = "ephemeral", 2, Failure,
        "A turn without a session is served, and nothing of it stays.",
        "ephemeral turns use afterTurn, ingestBatch or ingest, end with onSessionEnded, and are not stored",
        "keep what belongs to a session in the session's scope of the store, and drop the rest in onSessionEnded";

    // Level 3: durability and restarts.
    Durable = "durable", 3, Warning,
        "The engine can serve stored sessions.",
        "without both transcript semantics and commitTurn every turn of a stored session passes the engine over, and another one serves",
        "in Rust set `COMMIT` to `Commit::Ingest`, or `Commit::Stateless` if it keeps nothing; in C declare both semantics and implement commitTurn";
    Restart = "restart", 3, Failure,
        "After dispose and a new start the engine shows the same.",
        "what an engine knows of a session lives in the store or the transcript, never in memory alone",
        "read the store at the first call of a session";
    CatchUp = "catch-up", 3, Failure,
        "An engine that meets a long session for the first time shows what one shows that was there all the time.",
        "an engine that was absent catches up through the cursor at bootstrap and has lost nothing",
        "implement `bootstrap` (the SDK's default does so for `Commit::Ingest`) and read to the last page";
    Switch = "switch", 3, Failure,
        "Turns that another engine served reach the engine before its next assembly, each once.",
        "the cursor's place `handed-over` begins behind what the engine was given already",
        "start `bootstrap` at `handed-over`, and take in each entry once, by its id";
    Kill = "kill", 3, Failure,
        "Killed at any moment of a commit or a bootstrap, the engine loses and doubles nothing.",
        "a turn that was not settled is offered again under its key; a batch of the store is whole or not at all",
        "write all of a turn, and its key, in one batch";
    Branch = "branch", 3, Failure,
        "After an edit of the history nothing of the abandoned branch is shown.",
        "the projection is the truth: ids that are not in it are not part of the conversation any more",
        "show only what belongs to ids of this call's history; follow the cursor's resets";
    Deleted = "deleted", 3, Failure,
        "When a session is deleted or reset, nothing of it stays with the engine.",
        "onSessionEnded tells an engine to forget; the host drops the session's scope of the store",
        "keep nothing of a session outside its scope, or remove it in onSessionEnded";

    // Level 4: stability and threads.
    StablePrefix = "stable-prefix", 4, Warning,
        "From call to call the prompt goes on where it ended, so that provider caches hold.",
        "the cached prefix breaks when anything at the head changes; what changes every turn belongs into volatilePromptAddition",
        "move the start of the window in steps, and put changing text into the volatile addition";
    Deterministic = "deterministic", 4, Warning,
        "Two fresh instances answer the same history alike.",
        "another process must be able to go on with a session",
        "do not let answers depend on addresses, the clock, random numbers or the order of hash maps";
    SessionsApart = "sessions-apart", 4, Failure,
        "Many sessions at once, from many threads, see only their own.",
        "one instance serves all sessions of an agent, from many threads at once",
        "key everything by the session of the call, and guard what is shared";
    Deadlines = "deadlines", 4, Failure,
        "Every hook returns before its deadline, on long sessions too.",
        "a call that does not return in time is given up, and the engine is out",
        "work in proportion to what is new; ask the context now and then how much time is left";
    Cancel = "cancel", 4, Warning,
        "A hook that is told to stop returns soon.",
        "a cancel signal asks a hook to return; background maintenance has little time to give way",
        "ask for the cancel signal in loops and before slow work (`context.check()?`)";
    Threads = "threads", 4, Warning,
        "Threads of the engine do not grow with its calls.",
        "hooks run on the host's threads; what an engine starts it must end",
        "use a bounded pool, or do the work inside the hook";
    Memory = "memory", 4, Warning,
        "Memory does not grow with repeated calls.",
        "an instance lives as long as the gateway",
        "free what a call allocated, and bound caches";
    Dispose = "dispose", 4, Failure,
        "`dispose` returns while sessions are known and threads were busy.",
        "dispose has a deadline; at shutdown nothing waits longer",
        "do not join threads that wait for something";

    // Level 5: fuzzed sessions and failing services.
    Fuzz = "fuzz", 5, Failure,
        "Odd sessions, made from the seed, are served validly.",
        "the history holds whatever clients said: empty texts, storms of tools, any script, edits",
        "run the check again with the seed that it printed";
    TinyBudgets = "tiny-budgets", 5, Failure,
        "Budgets of next to nothing are survived.",
        "the budget is what is left, which may be 0",
        "show what fits, or nothing; never subtract without looking";
    HugeEntries = "huge-entries", 5, Failure,
        "Entries of several megabytes are survived.",
        "an entry is as large as its client made it",
        "cut long texts before they are worked on";
    StoreFaults = "store-faults", 5, Failure,
        "A commit whose batch failed is not said to be committed, and is taken in when it comes again.",
        "`committed` settles the turn: it is never offered again",
        "answer only after the batch was written, and keep nothing of a turn whose batch failed";
    ServiceFaults = "service-faults", 5, Failure,
        "Errors of host services are handed on or survived: no model, calls that come too late, a cursor that is reset.",
        "an error that carries its service's token costs the call, not the engine's place; a reset cursor starts again",
        "hand the error on as it is, or go on without; on a reset forget what was read and read again";
}

impl Check {
    /// The check of this name.
    pub fn named(name: &str) -> Option<Check> {
        Check::ALL.iter().copied().find(|check| check.name() == name)
    }
}

impl std::fmt::Display for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Check {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Check {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Check, D::Error> {
        let name = String::deserialize(deserializer)?;
        Check::named(&name).ok_or_else(|| serde::de::Error::custom(format!("unknown check {name}")))
    }
}

/// Highest level.
pub const LEVELS: u8 = 5;

/// What a level is about.
pub const fn level(number: u8) -> &'static str {
    match number {
        1 => "loads and answers",
        2 => "keeps the contract on ordinary sessions",
        3 => "survives restarts, absence and edits",
        4 => "is stable, and safe with threads",
        _ => "survives odd sessions and failing services",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_has_a_name_of_its_own_and_words_for_people() {
        let names: std::collections::BTreeSet<_> = Check::ALL.iter().map(|check| check.name()).collect();
        assert_eq!(names.len(), Check::ALL.len());
        for check in Check::ALL {
            assert_eq!(Check::named(check.name()), Some(*check));
            assert!((1..=LEVELS).contains(&check.level()), "{check}");
            assert!(check.what().ends_with('.'), "{check}");
            for words in [check.says(), check.mend()] {
                assert!(!words.ends_with('.') && words.len() > 20, "{check}: {words}");
            }
        }
        assert!(Check::ALL.is_sorted_by_key(|check| check.level()));
    }
}
