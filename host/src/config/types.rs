//! The configuration as the other rooms see it: plain values, defaults filled in, paths absolute.

use super::limits::LimitsConfig;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Config {
    /// The file it was read from, absolute.
    pub path: PathBuf,
    /// `[gateway]`.
    pub gateway: GatewayConfig,
    /// `[api]`.
    pub api: ApiConfig,
    /// `[model]`.
    pub model: ModelConfig,
    /// `[plugins]`.
    pub plugins: PluginsConfig,
    /// `[compaction]`.
    pub compaction: CompactionConfig,
    /// `[pruning]`.
    pub pruning: PruningConfig,
    /// `[tools]`.
    pub tools: ToolsConfig,
    /// `[memory]`.
    pub memory: MemoryConfig,
    /// `[subagents]`.
    pub subagents: SubagentsConfig,
    /// `[agents.ID]`.
    pub agents: BTreeMap<String, AgentConfig>,
}

/// `[gateway]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GatewayConfig {
    /// Address to listen on.
    pub listen: std::net::SocketAddr,
    /// Names by which clients may address it, beside loopback names and the address; empty on an address like 0.0.0.0: any.
    pub hosts: Vec<String>,
    /// State folder, absolute.
    pub state_dir: PathBuf,
    /// Environment variable that holds the token; a token is required for any address that is not loopback.
    pub auth_token_env: Option<String>,
    /// File that holds it instead, absolute.
    pub auth_token_file: Option<PathBuf>,
    /// `[gateway.tokens.NAME]`: further tokens, for clients that may use some agents only.
    pub tokens: BTreeMap<String, TokenConfig>,
    /// Agents that session keys may name where no token is configured; `"*"` stands for all.
    pub open_agents: Vec<String>,
    /// Most agents beside those that the configuration names: each has a folder and an instance of every engine.
    pub unknown_agents: usize,
    /// Most bytes of memory for hot sessions.
    pub hot_sessions_bytes: u64,
    /// Most requests that wait for one session, beside the running one.
    pub queue_per_session: usize,
    /// Most requests that wait for sessions in all.
    pub queue_total: usize,
    /// Longest wait of one request for its session, in ms.
    pub queue_timeout_ms: u64,
    /// How long a stop waits for running turns, in ms.
    pub drain_ms: u64,
}

/// `[gateway.tokens.NAME]`: where the token comes from, and whom it lets use. The token itself is in no configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct TokenConfig {
    /// Environment variable that holds it.
    pub env: Option<String>,
    /// File that holds it, absolute.
    pub file: Option<PathBuf>,
    /// Agents that session keys may name with it; `"*"` stands for all.
    pub agents: Vec<String>,
}

/// `[api]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ApiConfig {
    /// Where a session's key may come from: "header", and "user" for the body's `user` field.
    pub session_from: Vec<String>,
    /// Largest request body in bytes.
    pub max_body_bytes: usize,
    /// Most bytes of all bodies that are being read.
    pub max_bodies_bytes: usize,
    /// Largest head of a request, in bytes; also of what a connection buffers.
    pub max_header_bytes: usize,
    /// Most headers of a request.
    pub max_headers: usize,
    /// Most connections.
    pub max_connections: usize,
    /// Most requests in work, beside those for `/healthz` and `/readyz`.
    pub max_requests: usize,
    /// Longest wait for the head of a request, from its first byte on, and for the beginning of its body, in ms.
    pub header_timeout_ms: u64,
    /// Longest wait for a whole body, in ms.
    pub body_timeout_ms: u64,
    /// How long a connection without a request is kept, in ms.
    pub idle_timeout_ms: u64,
    /// How long a reader may not read, in ms.
    pub write_timeout_ms: u64,
    /// Slowest mean rate of a body behind `header_timeout_ms`, and of a reader behind `write_timeout_ms`.
    pub min_bytes_per_second: u64,
}

/// `[model]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelConfig {
    /// "offline", "openai", "thread" or "cli".
    pub provider: String,
    /// Base URL up to and including `/v1`.
    pub base_url: Option<String>,
    /// Name of the model; for `openai` and `thread`, absent means: what the request names.
    pub model: Option<String>,
    /// Environment variable that holds the key.
    pub api_key_env: Option<String>,
    /// Context window in tokens.
    pub context_window: u64,
    /// Tokens kept free for the answer.
    pub max_output_tokens: u64,
    /// Deadline of one model call up to its first byte, and between bytes, in ms. For `cli`: of a whole run of the command.
    pub timeout_ms: u64,
    /// Most tries of a call that failed before its first byte. A command is run once.
    pub max_attempts: u32,
    /// `cli`: the program and its arguments. `{session}` stands for the id of the session's thread, `{system}` for the system
    /// prompt. A program that is written with a slash is absolute here.
    pub command: Vec<String>,
    /// `cli`: the same for a session that the command has seen before; empty: as `command`.
    pub resume_command: Vec<String>,
    /// `cli`: environment variables that the command gets beside those that every program needs.
    pub env: Vec<String>,
}

impl ModelConfig {
    /// True when others than a turn may ask it for a completion, too: the offline model has nothing to say, and what stands
    /// behind a command is nobody's to ask.
    pub fn completes(&self) -> bool {
        !matches!(self.provider.as_str(), "offline" | "cli")
    }
}

/// `[plugins]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PluginsConfig {
    /// The drop folder, absolute.
    pub dir: PathBuf,
    /// False switches all plugins off.
    pub enabled: bool,
    /// When not empty: only these plugin ids.
    pub allow: Vec<String>,
    /// Never these plugin ids.
    pub deny: Vec<String>,
    /// Files or folders outside `dir`, absolute.
    pub links: Vec<PathBuf>,
    /// True when the file is generated by someone else and the verbs must not write it.
    pub managed: bool,
    /// Where plugins run whose entry does not say so.
    pub isolation: Isolation,
    /// `[plugins.slots]`.
    pub slots: SlotsConfig,
    /// `[plugins.policy.contextEngine]`.
    pub context_engine_policy: SlotPolicy,
    /// Most instances of one engine that are kept while no turn uses them; one per agent and workspace.
    pub instances_per_engine: usize,
    /// From so many threads on that never came back from an engine's call, no engine is called in-process.
    pub abandoned_threads_max: usize,
    /// False switches off the crash ledger: crashes of in-process engines go unseen, and none is held against them.
    pub crash_ledger: bool,
    /// `[plugins.deadlines]`, keyed by hook name in snake case; ms.
    pub deadlines: BTreeMap<String, u64>,
    /// `[plugins.trust] policy`.
    pub trust_policy: TrustPolicy,
    /// `[plugins.trust] keys`: public keys of minisign.
    pub trust_keys: Vec<String>,
    /// `[plugins.entries.ID]`.
    pub entries: BTreeMap<String, EntryConfig>,
}

/// `[plugins.slots]`.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct SlotsConfig {
    /// Chain of engine ids, first choice first, as written. Empty means the default, `legacy`.
    pub context_engine: Vec<String>,
    /// Memory provider id; `None` is "none", for an agent: as the gateway's. An agent's own "none" is kept as written.
    pub memory: Option<String>,
}

/// `on_failure` of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// The next in the chain serves, at last `legacy`.
    Fallback,
    /// Refuse when no listed engine can serve.
    Strict,
}

/// `[plugins.policy.SLOT]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SlotPolicy {
    /// What happens when no engine of the chain can serve.
    pub on_failure: OnFailure,
    /// Engine id that watches; in no chain.
    pub shadow: Option<String>,
}

/// `[plugins.trust] policy`, from the loosest to the tightest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TrustPolicy {
    /// Any file that keeps the rules of place, owner and mode.
    Any,
    /// Only files whose hash is pinned.
    Pinned,
    /// Only files with a good signature.
    Signed,
}

/// `isolation` of `[plugins]` and of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Isolation {
    /// In the gateway.
    InProcess,
    /// In a worker.
    Process,
    /// In the gateway what came with it, was pinned or is signed; in a worker everything else.
    Auto,
}

/// `[plugins.entries.ID]`.
#[derive(Clone, PartialEq, Serialize)]
pub struct EntryConfig {
    /// False switches this plugin off.
    pub enabled: bool,
    /// Where it runs; `Auto`: as `plugins.isolation` says.
    pub isolation: Isolation,
    /// The engine's own configuration.
    pub config: serde_json::Map<String, serde_json::Value>,
    /// `[plugins.entries.ID.limits]`, for the processes that run the library apart from the gateway.
    pub limits: LimitsConfig,
    /// Expected SHA-256 of the library, lower-case hex (`sha256 = "…"`).
    pub sha256: Option<String>,
    /// Capabilities that the operator grants (`grants = ["sessions", "memory-append", "llm-model-override"]`).
    pub grants: Vec<String>,
}

impl std::fmt::Debug for EntryConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // An engine's author may have asked for a key in `config`; whatever prints a configuration must not print it.
        let config = super::provenance::redacted("config", &serde_json::Value::Object(self.config.clone()));
        f.debug_struct("EntryConfig")
            .field("enabled", &self.enabled)
            .field("isolation", &self.isolation)
            .field("config", &config)
            .field("limits", &self.limits)
            .field("sha256", &self.sha256)
            .field("grants", &self.grants)
            .finish()
    }
}

impl Default for EntryConfig {
    fn default() -> Self {
        EntryConfig {
            enabled: true,
            isolation: Isolation::Auto,
            config: serde_json::Map::new(),
            limits: LimitsConfig::default(),
            sha256: None,
            grants: Vec::new(),
        }
    }
}

/// `[compaction]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CompactionConfig {
    /// False stops proactive compaction; manual and overflow stay.
    pub enabled: bool,
    /// Tail kept verbatim, in tokens.
    pub keep_recent_tokens: u64,
    /// Tokens kept free; at most a quarter of the window is used.
    pub reserve_tokens: u64,
    /// Safety deadline of one compaction, in ms.
    pub timeout_ms: u64,
    /// Largest summary in characters.
    pub max_summary_chars: usize,
}

/// `[pruning]`. Keys that OpenClaw's `contextPruning` has are spelled as there.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PruningConfig {
    /// False switches pruning off.
    pub enabled: bool,
    /// Time since the last model call after which old tool results are trimmed, in ms.
    pub ttl_ms: u64,
    /// Newest assistant messages that are protected, with everything behind the oldest of them.
    pub keep_last_assistants: usize,
    /// Completed turns whose images and files stay.
    pub keep_media_turns: usize,
    /// Share of the window from which on anything is pruned.
    pub soft_trim_ratio: f64,
    /// Share of the window down to which results are cleared.
    pub hard_clear_ratio: f64,
    /// Clearing needs at least this many characters to win.
    pub min_prunable_tool_chars: usize,
    /// Most characters of one result; 0 follows the window.
    pub max_result_chars: usize,
    /// `softTrim`.
    pub soft_trim: SoftTrimConfig,
    /// `hardClear`.
    pub hard_clear: HardClearConfig,
    /// `tools`.
    pub tools: PrunedToolsConfig,
}

/// `[pruning.softTrim]`: characters.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SoftTrimConfig {
    /// Longer results are trimmed.
    pub max_chars: usize,
    /// Kept of the beginning.
    pub head_chars: usize,
    /// Kept of the end.
    pub tail_chars: usize,
}

/// `[pruning.hardClear]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HardClearConfig {
    /// False leaves it at trimming.
    pub enabled: bool,
    /// What a cleared result says.
    pub placeholder: String,
}

/// `[pruning.tools]`: names in which `*` stands for anything.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct PrunedToolsConfig {
    /// When not empty: only results of these tools are pruned.
    pub allow: Vec<String>,
    /// Never results of these.
    pub deny: Vec<String>,
}

impl Default for PruningConfig {
    fn default() -> Self {
        PruningConfig {
            enabled: true,
            ttl_ms: 300_000,
            keep_last_assistants: 3,
            keep_media_turns: 3,
            soft_trim_ratio: 0.3,
            hard_clear_ratio: 0.5,
            min_prunable_tool_chars: 50_000,
            max_result_chars: 0,
            soft_trim: SoftTrimConfig { max_chars: 4_000, head_chars: 1_500, tail_chars: 1_500 },
            hard_clear: HardClearConfig { enabled: true, placeholder: "[Old tool result content cleared]".into() },
            tools: PrunedToolsConfig::default(),
        }
    }
}

/// `[tools]`: those that the gateway runs itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolsConfig {
    /// Most calls in one turn; 0 offers none to the model.
    pub max_calls: u32,
    /// Deadline of one call of the gateway's own tools, in ms. Those of engines have that of `callTool`.
    pub timeout_ms: u64,
}

/// `citations` of `[memory]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Citations {
    /// As the provider thinks best.
    Auto,
    /// The model says where it knows something from.
    On,
    /// It does not.
    Off,
}

/// A tool of the memory that the model may be offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryTool {
    /// `memory_search`.
    Search,
    /// `memory_append`.
    Append,
}

/// `[memory]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemoryConfig {
    /// Whether the model names its sources.
    pub citations: Citations,
    /// Most tokens of the memory section; at most a quarter of the window is used.
    pub section_tokens: u64,
    /// Tools that the gateway offers to the model; none by default.
    pub tools: Vec<MemoryTool>,
}

/// `[subagents]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SubagentsConfig {
    /// False refuses every spawn.
    pub enabled: bool,
    /// True offers the model the tool `spawn_subagent`.
    pub tool: bool,
    /// Deepest child: 1 lets only sessions spawn that are no children themselves.
    pub max_depth: u32,
    /// Most children of one session that run at once.
    pub max_children: usize,
    /// Life of a child whose spawn names none, in ms.
    pub ttl_ms: u64,
    /// Largest history, in tokens, that a fork takes over; beyond it the child begins isolated.
    pub fork_max_tokens: u64,
    /// Most model calls of a child whose spawn names no budget; 0 is no bound, here and below.
    pub max_turns: u64,
    /// Most tool calls.
    pub max_tool_calls: u64,
    /// Most tokens of all model calls.
    pub max_tokens: u64,
    /// Longest time from start to answer, in ms.
    pub time_ms: u64,
}

/// `[agents.ID]`.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct AgentConfig {
    /// `[agents.ID.slots]`; an empty chain means: as the gateway's.
    pub slots: SlotsConfig,
    /// Workspace folder.
    pub workspace_dir: Option<PathBuf>,
    /// `[agents.ID.model]` over `[model]`; `None` when the agent says nothing of its own.
    pub model: Option<ModelConfig>,
    /// `[agents.ID.compaction]` over `[compaction]`; `None` when the agent says nothing of its own.
    pub compaction: Option<CompactionConfig>,
    /// `[agents.ID.pruning]` over `[pruning]`; `None` when the agent says nothing of its own.
    pub pruning: Option<PruningConfig>,
}

impl Config {
    /// The model of an agent.
    pub fn model_of(&self, agent: &str) -> &ModelConfig {
        self.agents.get(agent).and_then(|agent| agent.model.as_ref()).unwrap_or(&self.model)
    }

    /// How the history of an agent's sessions is compacted.
    pub fn compaction_of(&self, agent: &str) -> &CompactionConfig {
        self.agents.get(agent).and_then(|agent| agent.compaction.as_ref()).unwrap_or(&self.compaction)
    }

    /// How old tool results of an agent's sessions are pruned.
    pub fn pruning_of(&self, agent: &str) -> &PruningConfig {
        self.agents.get(agent).and_then(|agent| agent.pruning.as_ref()).unwrap_or(&self.pruning)
    }

    /// Every default, for a file at `path` (which need not exist): loopback, offline model, `legacy`.
    pub fn defaults(path: PathBuf) -> Config {
        let base = path.parent().map(PathBuf::from).unwrap_or_default();
        Config {
            gateway: GatewayConfig {
                listen: std::net::SocketAddr::from(([127, 0, 0, 1], 7421)),
                hosts: Vec::new(),
                state_dir: base.join("state"),
                auth_token_env: None,
                auth_token_file: None,
                tokens: BTreeMap::new(),
                open_agents: vec!["*".into()],
                unknown_agents: 32,
                hot_sessions_bytes: 64 * 1024 * 1024,
                queue_per_session: 32,
                queue_total: 128,
                queue_timeout_ms: 600_000,
                drain_ms: 10_000,
            },
            api: ApiConfig {
                session_from: vec!["header".into()],
                max_body_bytes: 64 * 1024 * 1024,
                max_bodies_bytes: 512 * 1024 * 1024,
                max_header_bytes: 64 * 1024,
                max_headers: 100,
                max_connections: 512,
                max_requests: 256,
                header_timeout_ms: 30_000,
                body_timeout_ms: 120_000,
                idle_timeout_ms: 60_000,
                write_timeout_ms: 60_000,
                min_bytes_per_second: 1_024,
            },
            model: ModelConfig {
                provider: "offline".into(),
                base_url: None,
                model: None,
                api_key_env: None,
                context_window: 128_000,
                max_output_tokens: 4_096,
                timeout_ms: 120_000,
                max_attempts: 3,
                command: Vec::new(),
                resume_command: Vec::new(),
                env: Vec::new(),
            },
            plugins: PluginsConfig {
                dir: base.join("plugins"),
                enabled: true,
                allow: Vec::new(),
                deny: Vec::new(),
                links: Vec::new(),
                managed: false,
                isolation: Isolation::Auto,
                slots: SlotsConfig::default(),
                context_engine_policy: SlotPolicy { on_failure: OnFailure::Fallback, shadow: None },
                instances_per_engine: 64,
                abandoned_threads_max: 64,
                crash_ledger: true,
                deadlines: BTreeMap::new(),
                trust_policy: TrustPolicy::Any,
                trust_keys: Vec::new(),
                entries: BTreeMap::new(),
            },
            compaction: CompactionConfig {
                enabled: true,
                keep_recent_tokens: 20_000,
                reserve_tokens: 20_000,
                timeout_ms: 180_000,
                max_summary_chars: 16_000,
            },
            pruning: PruningConfig::default(),
            tools: ToolsConfig { max_calls: 32, timeout_ms: 120_000 },
            memory: MemoryConfig { citations: Citations::Auto, section_tokens: 4_000, tools: Vec::new() },
            subagents: SubagentsConfig {
                enabled: true,
                tool: false,
                max_depth: 2,
                max_children: 8,
                ttl_ms: 3_600_000,
                fork_max_tokens: 100_000,
                max_turns: 32,
                max_tool_calls: 64,
                max_tokens: 0,
                time_ms: 600_000,
            },
            agents: BTreeMap::new(),
            path,
        }
    }
}
