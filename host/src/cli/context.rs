//! What every command stands on: the configuration, the output, and the way to a gateway.

use super::args::Common;
use super::door::Door;
use super::error::CliError;
use super::out::Out;
use super::running::{self, Running};
use crate::config::{self, Config, Loaded, Overrides, Source};
use std::sync::atomic::{AtomicBool, Ordering};

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

    /// The model to name in a request.
    pub(super) fn model_name(&self, given: Option<String>) -> String {
        given.or_else(|| self.config().model.model.clone()).unwrap_or_else(|| self.config().model.provider.clone())
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
