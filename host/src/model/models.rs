//! The models of the gateway: the one of `[model]`, and those of agents that have a section of their own.

use super::{Model, ModelError, from_config, metered};
use crate::config::{Config, ModelConfig};
use crate::observe::Metrics;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One model for each distinct section.
#[derive(Clone)]
pub struct Models {
    default: Arc<dyn Model>,
    /// By agent; only those with a section of their own.
    agents: BTreeMap<String, Arc<dyn Model>>,
}

/// Why a model cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", .agent.as_ref().map_or("the model cannot be used".into(), |agent| format!("the model of the agent {agent} cannot be used")))]
pub struct ModelsError {
    /// Agent whose section it is; `None` for `[model]`.
    pub agent: Option<String>,
    /// Why.
    #[source]
    pub source: ModelError,
}

impl From<Arc<dyn Model>> for Models {
    /// One model for everybody.
    fn from(default: Arc<dyn Model>) -> Models {
        Models { default, agents: BTreeMap::new() }
    }
}

impl Models {
    /// The models that the configuration names. Opens no connection.
    ///
    /// # Errors
    /// [`ModelsError`] with the section that is wrong.
    pub fn from_config(config: &Config) -> Result<Models, ModelsError> {
        let default = from_config(&config.model).map_err(|source| ModelsError { agent: None, source })?;
        Models::from(default).with_agents(config)
    }

    /// The same with a model of each agent that has a section of its own. Equal sections share one model, and with it the
    /// connections.
    ///
    /// # Errors
    /// [`ModelsError`] with the agent whose section is wrong.
    pub fn with_agents(mut self, config: &Config) -> Result<Models, ModelsError> {
        let mut made: Vec<(&ModelConfig, Arc<dyn Model>)> = vec![(&config.model, self.default.clone())];
        for (id, agent) in &config.agents {
            let Some(section) = &agent.model else { continue };
            let model = match made.iter().find(|(known, _)| *known == section) {
                Some((_, model)) => model.clone(),
                None => {
                    let model =
                        from_config(section).map_err(|source| ModelsError { agent: Some(id.clone()), source })?;
                    made.push((section, model.clone()));
                    model
                }
            };
            self.agents.insert(id.clone(), model);
        }
        Ok(self)
    }

    /// The same models, counted.
    pub fn metered(self, metrics: &Arc<Metrics>) -> Models {
        let mut made: Vec<(Arc<dyn Model>, Arc<dyn Model>)> = Vec::new();
        let mut counted = |model: Arc<dyn Model>| match made.iter().find(|(known, _)| Arc::ptr_eq(known, &model)) {
            Some((_, counted)) => counted.clone(),
            None => {
                let counted = metered(model.clone(), metrics.clone());
                made.push((model, counted.clone()));
                counted
            }
        };
        let default = counted(self.default);
        let agents = self.agents.into_iter().map(|(id, model)| (id, counted(model))).collect();
        Models { default, agents }
    }

    /// The gateway's model.
    pub fn default_model(&self) -> &Arc<dyn Model> {
        &self.default
    }

    /// The model of an agent.
    pub fn of(&self, agent: &str) -> &Arc<dyn Model> {
        self.agents.get(agent).unwrap_or(&self.default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::AgentConfig;

    #[test]
    fn equal_sections_share_one_model_and_an_agent_without_one_has_the_gateways() {
        let mut config = Config::defaults("/x/plugins.toml".into());
        let small = ModelConfig { context_window: 8_000, ..config.model.clone() };
        for (id, model) in
            [("a", Some(small.clone())), ("b", Some(small)), ("c", Some(config.model.clone())), ("d", None)]
        {
            config.agents.insert(id.into(), AgentConfig { model, ..AgentConfig::default() });
        }
        let models = Models::from_config(&config).unwrap().metered(&Arc::new(Metrics::new()));
        assert_eq!(models.of("a").info().context_window, 8_000);
        assert!(Arc::ptr_eq(models.of("a"), models.of("b")));
        for other in ["c", "d", "main"] {
            assert!(Arc::ptr_eq(models.of(other), models.default_model()), "{other}");
        }
    }

    #[test]
    fn a_section_that_cannot_be_used_is_named_by_its_agent() {
        let mut config = Config::defaults("/x/plugins.toml".into());
        let bad = ModelConfig { provider: "openai".into(), ..config.model.clone() };
        config.agents.insert("support".into(), AgentConfig { model: Some(bad), ..AgentConfig::default() });
        let error = Models::from_config(&config).err().unwrap();
        assert!(error.to_string().contains("support"), "{error}");
    }
}
