//! What belongs to one agent: its model, how that model's tokens are counted, and how its history is compacted and pruned.
//!
//! Every session has an agent, `main` unless its key names another (`agent:NAME:…`). A turn asks the session's room and never
//! the gateway's configuration, so that an override counts everywhere or nowhere.

use crate::compaction::{ModelSummarizer, NoModel, Summarizer};
use crate::config::{CompactionConfig, Config, PruningConfig};
use crate::model::{Model, ModelInfo, Models, TokenCounter};
use crate::observe::broken;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Texts whose token count is remembered (system prompts, tool schemas).
const COUNTED_TEXTS: usize = 512;

/// Names of models without tools that are remembered.
const TOOLLESS: usize = 256;

/// The room of one agent.
pub(super) struct AgentRoom {
    pub(super) model: Arc<dyn Model>,
    /// What is known of it; asked once.
    pub(super) info: ModelInfo,
    pub(super) counter: TokenCounter,
    pub(super) compaction: CompactionConfig,
    pub(super) pruning: PruningConfig,
    /// Name of the store that holds the sessions: says nothing of where it is, and is the same for all of them.
    pub(super) store: String,
    /// The workspace, where the configuration names one.
    pub(super) workspace: Option<String>,
    counted: Mutex<HashMap<u128, u64>>,
    /// Models that take no tools, by the name that they were asked by, with what was said.
    toolless: Arc<Mutex<HashMap<String, String>>>,
}

/// The rooms of all agents.
pub(super) struct AgentRooms {
    /// Every agent that the configuration says nothing of.
    default: Arc<AgentRoom>,
    named: HashMap<String, Arc<AgentRoom>>,
}

impl AgentRooms {
    pub(super) fn new(config: &Config, models: &Models) -> AgentRooms {
        // What a provider taught of a model's tokens holds for every agent that uses it.
        let mut counters: Vec<(Arc<dyn Model>, TokenCounter)> = Vec::new();
        let folder = config.gateway.state_dir.as_os_str().as_encoded_bytes();
        let store = uuid::Uuid::from_u128(xxhash_rust::xxh3::xxh3_128(folder)).to_string();
        let mut room = |agent: Option<&str>| {
            let own = agent.filter(|_| !broken("9.35"));
            let model = own.map_or(models.default_model(), |agent| models.of(agent)).clone();
            let counter = match counters.iter().find(|(known, _)| Arc::ptr_eq(known, &model)) {
                Some((_, counter)) => counter.clone(),
                None => {
                    let counter = TokenCounter::for_model(&model.info().resolved);
                    counters.push((model.clone(), counter.clone()));
                    counter
                }
            };
            Arc::new(AgentRoom {
                counter,
                info: model.info(),
                model,
                compaction: own.map_or(&config.compaction, |agent| config.compaction_of(agent)).clone(),
                pruning: agent.map_or(&config.pruning, |agent| config.pruning_of(agent)).clone(),
                store: store.clone(),
                // An agent without an entry has none; that of `main` is looked up like any other's.
                workspace: agent
                    .and_then(|agent| config.agents.get(agent)?.workspace_dir.as_deref())
                    .map(|folder| folder.display().to_string()),
                counted: Mutex::default(),
                toolless: Arc::default(),
            })
        };
        let default = room(None);
        let named = config.agents.keys().map(|id| (id.clone(), room(Some(id)))).collect();
        AgentRooms { default, named }
    }

    pub(super) fn of(&self, agent: &str) -> Arc<AgentRoom> {
        self.named.get(agent).unwrap_or(&self.default).clone()
    }
}

impl AgentRoom {
    /// The same room with another model in the place of its own, of which everything else holds as well.
    pub(super) fn with_model(&self, model: Arc<dyn Model>) -> AgentRoom {
        AgentRoom {
            model,
            info: self.info.clone(),
            counter: self.counter.clone(),
            compaction: self.compaction.clone(),
            store: self.store.clone(),
            workspace: self.workspace.clone(),
            pruning: self.pruning.clone(),
            counted: Mutex::default(),
            toolless: self.toolless.clone(),
        }
    }

    /// What the model of this name said when it was offered tools that it does not take; `None` while nothing is known.
    pub(super) fn takes_no_tools(&self, name: &str) -> Option<String> {
        self.toolless.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Remembers that the model of this name takes no tools.
    pub(super) fn note_toolless(&self, name: String, said: String) {
        let mut toolless = self.toolless.lock().unwrap_or_else(PoisonError::into_inner);
        // Names come from clients.
        if toolless.len() < TOOLLESS {
            toolless.insert(name, said);
        }
    }

    /// Who writes summaries: the model, under the name that the session asked for last, or nobody.
    pub(super) fn summarizer(&self, model_name: Option<String>) -> Box<dyn Summarizer> {
        if self.info.has_llm {
            Box::new(ModelSummarizer::new(self.model.clone(), model_name))
        } else {
            Box::new(NoModel)
        }
    }

    /// Tokens that are kept free for the answer: what the client asks for, or the model's most; never more than half of the
    /// window, respectively a quarter.
    pub(super) fn reserve(&self, params: &Map<String, Value>) -> u64 {
        let info = &self.info;
        let asked = ["max_completion_tokens", "max_tokens"].iter().find_map(|name| params.get(*name)?.as_u64());
        match asked {
            Some(tokens) => tokens.min(info.context_window / 2),
            None if broken("8.81") => info.max_output_tokens,
            None => info.max_output_tokens.min(info.context_window / 4),
        }
    }

    /// Tokens of the system messages as sent; remembered, since they are the same from turn to turn.
    pub(super) fn system_tokens(&self, system: &[Value]) -> u64 {
        system.iter().map(|message| self.remembered(message, |message, counter| counter.json_message(message))).sum()
    }

    /// Tokens of the tool schemas.
    pub(super) fn tool_tokens(&self, params: &Map<String, Value>) -> u64 {
        ["tools", "functions", "response_format"]
            .iter()
            .filter_map(|name| params.get(*name))
            .map(|value| self.remembered(value, |value, counter| counter.value(value)))
            .sum()
    }

    fn remembered(&self, value: &Value, count: impl FnOnce(&Value, &TokenCounter) -> u64) -> u64 {
        let key = xxhash_rust::xxh3::xxh3_128(value.to_string().as_bytes());
        if let Some(tokens) = self.counted.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return *tokens;
        }
        let tokens = count(value, &self.counter);
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.len() >= COUNTED_TEXTS {
            counted.clear();
        }
        counted.insert(key, tokens);
        tokens
    }
}
