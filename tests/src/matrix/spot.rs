//! The hooks: when each is called, who waits for it, and what makes the gateway call it.

use serde_json::{Value, json};

/// When a hook is called, as the client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// At the start of the gateway.
    Start,
    /// Before the reply, which another engine can still make.
    Before,
    /// For a request of its own, which fails with it.
    Own,
    /// Before a reply that the turn goes on to make, whatever comes of it.
    Aside,
    /// After the reply.
    After,
    /// At the stop of the gateway.
    Stop,
}

/// What makes the gateway call the hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// A turn of a new session.
    Turn,
    /// A turn of a session from before.
    OldSession,
    /// A turn that nothing is stored of.
    Ephemeral,
    /// A compaction on demand.
    Compact,
    /// A child that is waited for.
    Child,
    /// A child that is too old before it can start.
    LateChild,
    /// SIGTERM.
    Stop,
}

/// A hook.
#[derive(Debug)]
pub struct Spot {
    /// As the engine's configuration spells it.
    pub hook: &'static str,
    /// As documents spell it.
    pub spelled: &'static str,
    /// When it is called.
    pub when: When,
    /// By what.
    pub trigger: Trigger,
    /// True when it must give a result.
    pub owes: bool,
    /// True for hooks of the memory provider.
    pub memory: bool,
    /// The optional hooks that the engine has.
    pub hooks: &'static [&'static str],
}

const fn spot(hook: &'static str, spelled: &'static str, when: When, trigger: Trigger) -> Spot {
    Spot { hook, spelled, when, trigger, owes: false, memory: false, hooks: &[] }
}

const fn owing(hook: &'static str, spelled: &'static str, when: When, trigger: Trigger) -> Spot {
    Spot { owes: true, ..spot(hook, spelled, when, trigger) }
}

const SUBAGENTS: &[&str] = &["bootstrap", "prepare_subagent_spawn", "rollback_subagent_spawn", "on_subagent_ended"];
const TOOLS: &[&str] = &["tools", "call_tool"];

/// All of them.
pub static SPOTS: &[Spot] = &[
    owing("factory", "factory", When::Start, Trigger::Turn),
    owing("info", "info", When::Start, Trigger::Turn),
    Spot { hooks: &["bootstrap"], ..owing("bootstrap", "bootstrap", When::Before, Trigger::OldSession) },
    Spot { hooks: TOOLS, ..spot("tools", "tools", When::Before, Trigger::Turn) },
    owing("assemble", "assemble", When::Before, Trigger::Turn),
    Spot { hooks: TOOLS, ..owing("call_tool", "callTool", When::Before, Trigger::Turn) },
    owing("commit_turn", "commitTurn", When::After, Trigger::Turn),
    Spot { hooks: &["maintain"], ..owing("maintain", "maintain", When::After, Trigger::Turn) },
    owing("ingest", "ingest", When::After, Trigger::Ephemeral),
    Spot { hooks: &["ingest_batch"], ..owing("ingest_batch", "ingestBatch", When::After, Trigger::Ephemeral) },
    Spot { hooks: &["after_turn"], ..spot("after_turn", "afterTurn", When::After, Trigger::Ephemeral) },
    Spot {
        hooks: &["on_session_ended"],
        ..spot("on_session_ended", "onSessionEnded", When::After, Trigger::Ephemeral)
    },
    owing("compact", "compact", When::Own, Trigger::Compact),
    Spot { hooks: SUBAGENTS, ..spot("prepare_subagent_spawn", "prepareSubagentSpawn", When::Own, Trigger::Child) },
    Spot {
        hooks: SUBAGENTS,
        ..spot("rollback_subagent_spawn", "rollbackSubagentSpawn", When::Aside, Trigger::LateChild)
    },
    Spot { hooks: SUBAGENTS, ..spot("on_subagent_ended", "onSubagentEnded", When::After, Trigger::Child) },
    spot("dispose", "dispose", When::Stop, Trigger::Stop),
    Spot { memory: true, ..owing("memory_factory", "factory", When::Start, Trigger::Turn) },
    Spot { memory: true, ..owing("memory_info", "info", When::Start, Trigger::Turn) },
    Spot { memory: true, ..spot("memory_prompt", "memoryPrompt", When::Aside, Trigger::Turn) },
    Spot { memory: true, ..spot("memory_search", "memorySearch", When::Aside, Trigger::Turn) },
    Spot { memory: true, ..spot("memory_append", "memoryAppend", When::Aside, Trigger::Turn) },
    Spot { memory: true, ..spot("memory_dispose", "dispose", When::Stop, Trigger::Stop) },
];

impl Spot {
    /// What the engine is told beside its mode.
    pub fn config(&self) -> Value {
        let mut config = json!({"hooks": self.hooks});
        if self.trigger == Trigger::Compact {
            config["owns_compaction"] = true.into();
        }
        if self.trigger == Trigger::LateChild {
            config["prepare_ms"] = 300.into();
        }
        config
    }

    /// What the engine `recorder` does, where another engine is needed that asks the memory.
    pub fn deed(&self) -> Option<&'static str> {
        match self.hook {
            "memory_search" => Some("memory-search:me"),
            "memory_append" => Some("memory-append:The spare key is under the mat."),
            _ => None,
        }
    }
}
