//! Every key with a fixed place: its section, how it is read, where it goes. One line a key.

use super::given::{Given, Raw, Wrong};
use super::types::{Citations, Config, Isolation, MemoryTool, OnFailure, TrustPolicy};
use serde_json::{Value, json};

/// A key with a fixed place.
pub(super) struct Setting {
    /// Dotted key, as the file spells it.
    pub(super) key: &'static str,
    /// Reads a value into its place.
    pub(super) apply: fn(&mut Config, Given<'_>) -> Result<(), Wrong>,
    /// The value in effect.
    pub(super) show: fn(&Config) -> Value,
}

/// The environment variable that overrides a key: `gateway.listen` is `ENGINEROOM_GATEWAY_LISTEN`,
/// `plugins.slots.contextEngine` is `ENGINEROOM_PLUGINS_SLOTS_CONTEXT_ENGINE`.
pub(super) fn variable(key: &str) -> String {
    let mut name = String::from("ENGINEROOM_");
    for c in key.chars() {
        match c {
            '.' => name.push('_'),
            c if c.is_ascii_uppercase() => {
                name.push('_');
                name.push(c);
            }
            c => name.push(c.to_ascii_uppercase()),
        }
    }
    name
}

macro_rules! setting {
    ($key:literal, $($field:ident).+, $reader:ident $(, $argument:expr)?) => {
        Setting {
            key: $key,
            apply: |config, given| {
                config.$($field).+ = given.$reader($($argument)?)?;
                Ok(())
            },
            show: |config| json!(config.$($field).+),
        }
    };
}

/// Providers by name. The design names more; what is not here yet is not accepted, so that nobody believes it works.
const PROVIDERS: [(&str, &str); 4] =
    [("offline", "offline"), ("openai", "openai"), ("thread", "thread"), ("cli", "cli")];
const ON_FAILURE: [(&str, OnFailure); 2] = [("fallback", OnFailure::Fallback), ("strict", OnFailure::Strict)];
const TRUST: [(&str, TrustPolicy); 3] =
    [("any", TrustPolicy::Any), ("pinned", TrustPolicy::Pinned), ("signed", TrustPolicy::Signed)];

/// Where a plugin runs.
pub(super) const ISOLATION: [(&str, Isolation); 3] =
    [("auto", Isolation::Auto), ("in-process", Isolation::InProcess), ("process", Isolation::Process)];

const CITATIONS: [(&str, Citations); 3] = [("auto", Citations::Auto), ("on", Citations::On), ("off", Citations::Off)];

const MEMORY_TOOLS: [(&str, MemoryTool); 2] = [("search", MemoryTool::Search), ("append", MemoryTool::Append)];

/// All of them, in the order in which `doctor` shows them.
pub(super) const SETTINGS: &[Setting] = &[
    setting!("gateway.listen", gateway.listen, address),
    setting!("gateway.hosts", gateway.hosts, host_names),
    setting!("gateway.state_dir", gateway.state_dir, path),
    setting!("gateway.auth_token_env", gateway.auth_token_env, variable),
    setting!("gateway.auth_token_file", gateway.auth_token_file, maybe_path),
    setting!("gateway.open_agents", gateway.open_agents, list),
    setting!("gateway.unknown_agents", gateway.unknown_agents, number, 0),
    setting!("gateway.hot_sessions_bytes", gateway.hot_sessions_bytes, number, 0),
    setting!("gateway.queue_per_session", gateway.queue_per_session, number, 0),
    setting!("gateway.queue_total", gateway.queue_total, number, 0),
    setting!("gateway.queue_timeout_ms", gateway.queue_timeout_ms, millis),
    setting!("gateway.drain_ms", gateway.drain_ms, millis),
    setting!("api.session_from", api.session_from, list_of, &["header", "user"]),
    setting!("api.max_body_bytes", api.max_body_bytes, number, 1024),
    setting!("api.max_bodies_bytes", api.max_bodies_bytes, number, 1024),
    setting!("api.max_header_bytes", api.max_header_bytes, number, 8192),
    setting!("api.max_headers", api.max_headers, number, 16),
    setting!("api.max_connections", api.max_connections, number, 1),
    setting!("api.max_requests", api.max_requests, number, 1),
    setting!("api.header_timeout_ms", api.header_timeout_ms, millis),
    setting!("api.body_timeout_ms", api.body_timeout_ms, millis),
    setting!("api.idle_timeout_ms", api.idle_timeout_ms, millis),
    setting!("api.write_timeout_ms", api.write_timeout_ms, millis),
    setting!("api.min_bytes_per_second", api.min_bytes_per_second, number, 1),
    Setting {
        key: "model.provider",
        apply: |config, given| {
            config.model.provider = given.one_of(&PROVIDERS)?.to_owned();
            Ok(())
        },
        show: |config| json!(config.model.provider),
    },
    setting!("model.base_url", model.base_url, url),
    setting!("model.model", model.model, maybe_text),
    setting!("model.api_key_env", model.api_key_env, variable),
    setting!("model.context_window", model.context_window, number, 512),
    setting!("model.max_output_tokens", model.max_output_tokens, number, 1),
    setting!("model.timeout_ms", model.timeout_ms, millis),
    setting!("model.max_attempts", model.max_attempts, number, 1),
    setting!("model.command", model.command, command),
    setting!("model.resume_command", model.resume_command, command),
    setting!("model.env", model.env, variables),
    setting!("plugins.dir", plugins.dir, path),
    setting!("plugins.enabled", plugins.enabled, boolean),
    setting!("plugins.allow", plugins.allow, list),
    setting!("plugins.deny", plugins.deny, list),
    setting!("plugins.links", plugins.links, paths),
    setting!("plugins.managed", plugins.managed, boolean),
    setting!("plugins.isolation", plugins.isolation, one_of, &ISOLATION),
    setting!("plugins.instances_per_engine", plugins.instances_per_engine, number, 1),
    setting!("plugins.abandoned_threads_max", plugins.abandoned_threads_max, number, 1),
    setting!("plugins.crash_ledger", plugins.crash_ledger, boolean),
    setting!("plugins.slots.contextEngine", plugins.slots.context_engine, chain),
    setting!("plugins.slots.memory", plugins.slots.memory, provider),
    setting!("plugins.policy.contextEngine.on_failure", plugins.context_engine_policy.on_failure, one_of, &ON_FAILURE),
    setting!("plugins.policy.contextEngine.shadow", plugins.context_engine_policy.shadow, maybe_text),
    Setting {
        key: "plugins.trust.policy",
        apply: |config, given| {
            let policy = given.one_of(&TRUST)?;
            // Whoever can start the gateway with other words than the file's need not be whom the file's owner trusts.
            if matches!(given.raw, Raw::Text(_)) && policy < config.plugins.trust_policy {
                let written = json!(config.plugins.trust_policy);
                let message = format!("can only be tightened by a variable or a flag, and is {written} already");
                return Err(Wrong::Hinted(message, "change plugins.trust.policy in the file".into()));
            }
            config.plugins.trust_policy = policy;
            Ok(())
        },
        show: |config| json!(config.plugins.trust_policy),
    },
    setting!("plugins.trust.keys", plugins.trust_keys, public_keys),
    setting!("compaction.enabled", compaction.enabled, boolean),
    setting!("compaction.keep_recent_tokens", compaction.keep_recent_tokens, number, 0),
    setting!("compaction.reserve_tokens", compaction.reserve_tokens, number, 0),
    setting!("compaction.timeout_ms", compaction.timeout_ms, millis),
    setting!("compaction.max_summary_chars", compaction.max_summary_chars, number, 200),
    setting!("pruning.enabled", pruning.enabled, boolean),
    setting!("pruning.ttl", pruning.ttl_ms, span, 0),
    setting!("pruning.keepLastAssistants", pruning.keep_last_assistants, number, 0),
    setting!("pruning.keepMediaTurns", pruning.keep_media_turns, number, 0),
    setting!("pruning.softTrimRatio", pruning.soft_trim_ratio, share),
    setting!("pruning.hardClearRatio", pruning.hard_clear_ratio, share),
    setting!("pruning.minPrunableToolChars", pruning.min_prunable_tool_chars, number, 0),
    setting!("pruning.maxResultChars", pruning.max_result_chars, number, 0),
    setting!("pruning.softTrim.maxChars", pruning.soft_trim.max_chars, number, 1),
    setting!("pruning.softTrim.headChars", pruning.soft_trim.head_chars, number, 0),
    setting!("pruning.softTrim.tailChars", pruning.soft_trim.tail_chars, number, 0),
    setting!("pruning.hardClear.enabled", pruning.hard_clear.enabled, boolean),
    setting!("pruning.hardClear.placeholder", pruning.hard_clear.placeholder, text),
    setting!("pruning.tools.allow", pruning.tools.allow, list),
    setting!("pruning.tools.deny", pruning.tools.deny, list),
    setting!("tools.max_calls", tools.max_calls, number, 0),
    setting!("tools.timeout_ms", tools.timeout_ms, millis),
    setting!("memory.citations", memory.citations, one_of, &CITATIONS),
    setting!("memory.section_tokens", memory.section_tokens, number, 0),
    setting!("memory.tools", memory.tools, each_of, &MEMORY_TOOLS),
    setting!("subagents.enabled", subagents.enabled, boolean),
    setting!("subagents.tool", subagents.tool, boolean),
    setting!("subagents.max_depth", subagents.max_depth, number, 1),
    setting!("subagents.max_children", subagents.max_children, number, 1),
    setting!("subagents.ttl", subagents.ttl_ms, span, 1),
    setting!("subagents.fork_max_tokens", subagents.fork_max_tokens, number, 0),
    setting!("subagents.max_turns", subagents.max_turns, number, 0),
    setting!("subagents.max_tool_calls", subagents.max_tool_calls, number, 0),
    setting!("subagents.max_tokens", subagents.max_tokens, number, 0),
    setting!("subagents.time", subagents.time_ms, span, 0),
];

/// What has a deadline of its own: every hook of an engine or a memory provider, and the two stages that run a library's code
/// before any hook. `bootstrap_max` caps a catch-up that goes on reading; `background_maintain` is that of optional work, which
/// must be over `give_way` after a turn wants the session.
pub const DEADLINE_NAMES: &[&str] = &[
    "probe",
    "register",
    "factory",
    "info",
    "bootstrap",
    "bootstrap_max",
    "maintain",
    "background_maintain",
    "give_way",
    "ingest",
    "ingest_batch",
    "after_turn",
    "commit_turn",
    "assemble",
    "compact",
    "prepare_subagent_spawn",
    "rollback_subagent_spawn",
    "on_subagent_ended",
    "on_session_ended",
    "tools",
    "call_tool",
    "memory_prompt",
    "memory_search",
    "memory_append",
    "dispose",
];

/// The section of deadlines: `NAME_ms` for each of [`DEADLINE_NAMES`].
pub(super) const DEADLINES: &str = "plugins.deadlines";
/// The table of plugins, keyed by plugin id.
pub(super) const ENTRIES: &str = "plugins.entries";
/// The table of tokens, keyed by name.
pub(super) const TOKENS: &str = "gateway.tokens";
/// Keys of `[gateway.tokens.NAME]`.
pub(super) const TOKEN_KEYS: [&str; 3] = ["env", "file", "agents"];
/// The table of agents, keyed by agent id.
pub(super) const AGENTS: &str = "agents";

/// Keys of `[plugins.entries.ID]`.
pub(super) const ENTRY_KEYS: [&str; 6] = ["enabled", "isolation", "config", "limits", "sha256", "grants"];
/// Capabilities that an operator can grant.
pub(super) const GRANTS: [&str; 3] = ["sessions", "memory-append", "llm-model-override"];
/// Keys of `[agents.ID]`.
pub(super) const AGENT_KEYS: [&str; 5] = ["slots", "workspace_dir", "model", "compaction", "pruning"];
/// Sections that an agent may have of its own, over those of the gateway.
pub(super) const AGENT_SECTIONS: [&str; 3] = ["model", "compaction", "pruning"];
/// Keys of `[agents.ID.slots]`.
pub(super) const SLOT_KEYS: [&str; 2] = ["contextEngine", "memory"];

/// The known keys right below a section ("" is the root of the file).
pub(super) fn children(section: &str) -> Vec<String> {
    let prefix = if section.is_empty() { String::new() } else { format!("{section}.") };
    let mut out: Vec<String> = Vec::new();
    let fixed = SETTINGS.iter().map(|setting| setting.key).chain([DEADLINES, ENTRIES, AGENTS, TOKENS]);
    for key in fixed {
        if let Some(rest) = key.strip_prefix(&prefix) {
            let child = rest.split('.').next().unwrap_or(rest);
            if !out.iter().any(|seen| seen == child) {
                out.push(child.to_owned());
            }
        }
    }
    if section == DEADLINES {
        out.extend(DEADLINE_NAMES.iter().map(|name| format!("{name}_ms")));
    }
    out
}

/// True for a table that holds settings or further sections.
pub(super) fn is_section(key: &str) -> bool {
    key == DEADLINES || SETTINGS.iter().any(|s| s.key.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_spell_sections_and_camel_case_with_underscores() {
        assert_eq!(variable("gateway.listen"), "ENGINEROOM_GATEWAY_LISTEN");
        assert_eq!(variable("plugins.slots.contextEngine"), "ENGINEROOM_PLUGINS_SLOTS_CONTEXT_ENGINE");
    }

    #[test]
    fn every_key_has_its_own_variable() {
        let mut names: Vec<String> = SETTINGS.iter().map(|setting| variable(setting.key)).collect();
        names.sort();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn sections_know_their_children() {
        assert_eq!(children("pruning.softTrim"), ["maxChars", "headChars", "tailChars"]);
        assert!(children("plugins").contains(&"entries".to_owned()));
        assert!(children("").contains(&"agents".to_owned()));
        assert!(is_section("plugins.policy") && is_section("plugins.deadlines") && !is_section("plugins.dir"));
    }
}
