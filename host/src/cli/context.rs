//! What every command stands on: the configuration, the output, and the way to a gateway.

use super::args::Common;
use super::door::Door;
use super::error::CliError;
use super::out::Out;
use super::running::{self, Running};
use crate::api::{self, Api};
use crate::config::{self, Config, Loaded, Overrides, SlotsConfig, Source};
use crate::gateway::Gateway;
use crate::slot::MAIN_AGENT;
use crate::transcript;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The ground of a command.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) out: Out,
    loaded: Loaded,
    running: Option<Running>,
    threads_left_behind: AtomicBool,
}

impl Context {
    /// Reads the configuration, and looks for a running gateway.
    pub(super) fn load(common: &Common, overrides: &Overrides, out: Out) -> Result<Context, CliError> {
        let loaded = config::load(common.config.as_deref(), overrides)?;
        let running = running::find(&loaded.config.gateway.state_dir);
        Ok(Context { out, loaded, running, threads_left_behind: AtomicBool::new(false) })
    }

    pub(super) fn config(&self) -> &Config {
        &self.loaded.config
    }

    pub(super) fn loaded(&self) -> &Loaded {
        &self.loaded
    }

    /// The gateway that ran when the command began.
    pub(super) fn running(&self) -> Option<Running> {
        self.running.clone()
    }

    /// The way to the running gateway, if one runs.
    pub(super) fn remote(&self) -> Result<Option<Door>, CliError> {
        match &self.running {
            Some(running) => Ok(Some(Door::remote(running.clone(), self.config().gateway.token()?))),
            None => Ok(None),
        }
    }

    /// The way to a gateway: the running one, else one in this process that does not listen.
    pub(super) async fn open(&self) -> Result<House<'_>, CliError> {
        match self.remote()? {
            Some(door) => Ok(House { door, gateway: None, context: self }),
            None => self.start(self.config().clone()).await,
        }
    }

    /// The way to what is stored. Where no gateway runs, no library is loaded for it, and nothing is made: `None` when nothing
    /// is stored yet.
    pub(super) async fn open_store(&self) -> Result<Option<House<'_>>, CliError> {
        if let Some(door) = self.remote()? {
            return Ok(Some(House { door, gateway: None, context: self }));
        }
        let folder = self.config().gateway.state_dir.clone();
        let there = tokio::task::spawn_blocking(move || {
            transcript::open_existing(&folder).map(|store| store.inspect(|store| store.close()).is_some())
        });
        let failed = |error| CliError::Start { what: "the store", source: std::io::Error::other(error) };
        if !there.await.map_err(failed)?.map_err(|error| CliError::of(&error))? {
            return Ok(None);
        }
        let mut config = self.config().clone();
        config.plugins.enabled = false;
        config.plugins.slots = SlotsConfig::default();
        for agent in config.agents.values_mut() {
            agent.slots = SlotsConfig::default();
        }
        self.start(config).await.map(Some)
    }

    async fn start(&self, mut config: Config) -> Result<House<'_>, CliError> {
        let token = config.gateway.own_token()?;
        // Nobody but this command comes in, so nobody else's token is asked for.
        config.gateway.tokens.retain(|name, _| token.as_ref().is_some_and(|own| own.name.as_ref() == Some(name)));
        let token = token.map(|token| token.secret);
        let gateway = Gateway::start(config).await.map_err(|error| CliError::of(&error))?;
        let gateway = Arc::new(gateway);
        let doors = match Api::new(Arc::clone(&gateway)) {
            Ok(doors) => doors,
            Err(error) => {
                gateway.shutdown().await;
                return Err(CliError::of(&error));
            }
        };
        let door = Door::local(api::router(doors), token);
        Ok(House { door, gateway: Some(gateway), context: self })
    }

    /// The model to name in a request for a session.
    pub(super) fn model_name(&self, given: Option<String>, session: Option<&str>) -> String {
        let agent = session.map_or(MAIN_AGENT, transcript::agent_of_key);
        let model = self.config().model_of(agent);
        given.or_else(|| model.model.clone()).unwrap_or_else(|| model.provider.clone())
    }

    /// The variable or flag that sets a key in place of the file, if there is one.
    pub(super) fn stronger(&self, key: &str) -> Option<String> {
        let origin = self.loaded.origins.iter().find(|origin| origin.key == key)?;
        matches!(origin.source, Source::Env(_) | Source::Flag(_)).then(|| origin.source.to_string())
    }

    /// An abandoned call of an engine is still inside this process: it must end without destructors.
    pub(super) fn leave_threads_behind(&self) {
        self.threads_left_behind.store(true, Ordering::Relaxed);
    }

    pub(super) fn threads_left_behind(&self) -> bool {
        self.threads_left_behind.load(Ordering::Relaxed)
    }
}

/// How long a command waits, when it has said everything, for what its engine does beside turns.
const OPTIONAL_PATIENCE: Duration = Duration::from_secs(5);

/// A way to a gateway, and the gateway itself when it is in this process.
pub(super) struct House<'c> {
    pub(super) door: Door,
    gateway: Option<Arc<Gateway>>,
    context: &'c Context,
}

impl House<'_> {
    /// Ends the gateway of this process in good order; a running one goes on.
    pub(super) async fn close(self) {
        if let Some(gateway) = &self.gateway {
            // Nobody else does it in a process that ends with its one command.
            gateway.turns.settle(OPTIONAL_PATIENCE).await;
        }
        if let Some(gateway) = &self.gateway
            && gateway.shutdown().await.exit_now
        {
            self.context.leave_threads_behind();
        }
    }
}
