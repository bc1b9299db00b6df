//! Wires the rooms from the configuration; starts, drains, stops.
//!
//! ```text
//!  start:  store ─► model ─► slot (libraries, off the async threads) ─► turns
//!  stop:   nothing new ─► drain ─► dispose engines ─► close the store
//! ```

use crate::config::Config;
use crate::diagnostic::Diagnostic;
use crate::ledger::{self, Ledger, Verdict, Verdicts};
use crate::model::{Model, Models, ModelsError};
use crate::observe::{Metrics, failpoint};
use crate::slot::{Hook, Slot};
use crate::transcript::{self, Store, StoreError};
use crate::turn::{self, Turns};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long engines may take to let go.
const DISPOSE_PATIENCE: Duration = Duration::from_secs(5);

/// A running gateway: the rooms, wired.
pub struct Gateway {
    /// The configuration that it was started with.
    pub config: Arc<Config>,
    /// The transcript.
    pub store: Arc<dyn Store>,
    /// The model of `[model]`; agents may have their own.
    pub model: Arc<dyn Model>,
    /// Who serves.
    pub slot: Arc<Slot>,
    ledger: Option<Ledger>,
    /// Runs turns.
    pub turns: Turns,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// When it was started.
    pub started: Instant,
    /// How long the start took.
    pub start_took: Duration,
}

/// Why a gateway does not start. What lies in the plugins folder never stops it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// The store cannot be opened.
    #[error("the transcript cannot be opened")]
    Store(#[source] StoreError),
    /// The model is not configured rightly.
    #[error(transparent)]
    Model(ModelsError),
    /// The system gives no thread.
    #[error("a thread could not be started: {0}")]
    Thread(String),
}

impl Diagnostic for GatewayError {
    fn code(&self) -> &'static str {
        match self {
            GatewayError::Store(error) => error.code(),
            GatewayError::Model(error) => error.source.code(),
            GatewayError::Thread(_) => "CE690",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            GatewayError::Store(error) => error.hint(),
            GatewayError::Model(error) => error.source.hint(),
            GatewayError::Thread(_) => Some("raise the limit of threads and processes of this user".into()),
        }
    }
}

/// How a gateway stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// Every turn ended by itself.
    pub drained: bool,
    /// A call of an engine never came back: end the process with [`crate::slot::exit_now`], since its library may hold locks
    /// that the ordinary way out waits for.
    pub exit_now: bool,
}

impl Gateway {
    /// Opens the store, takes the model, loads the engines that the slots list, and is ready for turns. Call it on the runtime
    /// that turns shall run on.
    ///
    /// # Errors
    ///
    /// [`GatewayError`]. An engine that cannot be loaded is no error: it is out, with its reason in [`Slot::status`].
    pub async fn start(config: Config) -> Result<Gateway, GatewayError> {
        let models = Models::from_config(&config).map_err(GatewayError::Model)?;
        Gateway::start_with(config, models).await
    }

    /// The same with models that are given, whatever the configuration names.
    ///
    /// # Errors
    ///
    /// As [`Gateway::start`].
    pub async fn start_with(config: Config, models: impl Into<Models>) -> Result<Gateway, GatewayError> {
        let started = Instant::now();
        let metrics = Arc::new(Metrics::new());
        let models = models.into().metered(&metrics);
        let model = models.default_model().clone();
        let config = Arc::new(config);
        let runtime = tokio::runtime::Handle::current();
        let (store, slot, ledger) = {
            let (config, model) = (config.clone(), model.clone());
            // A thread of its own: libraries are loaded, and children started, where nothing else waits.
            off_thread(move || {
                let store = transcript::open(&config.gateway.state_dir).map_err(GatewayError::Store)?;
                failpoint::pass("gateway.store_opened");
                // The store has the lock of the folder from here on, so the ledger in it is that of a process that is gone.
                let (verdicts, ledger) = begin_ledger(&config);
                let slot = Slot::judged(&config, runtime, verdicts);
                slot.start(&turn::factory_services(store.clone(), &*model));
                Ok((store, slot, ledger))
            })
            .await??
        };
        let turns = Turns::counted(config.clone(), store.clone(), models, slot.clone(), metrics.clone());
        failpoint::pass("gateway.started");
        let start_took = started.elapsed();
        metrics.started(start_took);
        Ok(Gateway { config, store, model, slot, ledger, turns, metrics, started, start_took })
    }

    /// A stop was asked for. Whoever ends the process before [`Gateway::shutdown`] has returned had lost patience, and no engine
    /// is accused of that.
    pub fn stopping(&self) {
        if let Some(ledger) = &self.ledger {
            ledger.stopping();
        }
    }

    /// Admits nothing more, waits for running turns as long as `[gateway] drain_ms` says, lets the engines go, closes the store.
    /// Always comes back.
    pub async fn shutdown(&self) -> Stopped {
        self.stopping();
        let drained = self.turns.drain(Duration::from_millis(self.config.gateway.drain_ms)).await;
        failpoint::pass("gateway.drained");
        // Turns that were cancelled have asked their commands to end; none may outlive the gateway.
        crate::model::end_commands();
        let (slot, store) = (self.slot.clone(), self.store.clone());
        let clean = off_thread(move || {
            let clean = slot.dispose_all(DISPOSE_PATIENCE);
            failpoint::pass("gateway.before_close");
            store.close();
            clean
        })
        .await
        .unwrap_or(false);
        // Whatever a call that was left behind does from here on, the end is in good order.
        if let Some(ledger) = &self.ledger {
            ledger.close();
        }
        Stopped { drained, exit_now: !clean }
    }
}

/// Judges how the last process ended, and begins to write down who is called in this one.
fn begin_ledger(config: &Config) -> (Verdicts, Option<Ledger>) {
    let folder = &config.gateway.state_dir;
    if !config.plugins.crash_ledger {
        ledger::forget(folder);
        return (Verdicts::default(), None);
    }
    let hooks: Vec<&str> = Hook::ALL.into_iter().map(Hook::name).collect();
    let (verdicts, ledger) = ledger::begin(folder, &hooks, config.plugins.enabled);
    if let Some(previous) = verdicts.previous() {
        let cause = previous.cause.as_deref().unwrap_or("an unknown cause");
        match previous.verdict {
            Verdict::Well => {}
            // The engines are told of by name where they are.
            Verdict::Crashed | Verdict::Unexplained => {
                tracing::warn!(cause, "the last gateway process ended while an engine was called");
            }
            Verdict::Outside | Verdict::Host | Verdict::Reboot | Verdict::Unknown => {
                tracing::warn!(cause, verdict = ?previous.verdict, "the last gateway process did not end in good order; no engine is accused");
            }
        }
    }
    (verdicts, ledger)
}

/// Runs what blocks on a thread of its own.
async fn off_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, GatewayError> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::Builder::new()
        .name("engineroom-wiring".into())
        .spawn(move || drop(sender.send(work())))
        .map_err(|error| GatewayError::Thread(error.to_string()))?;
    receiver.await.map_err(|_| GatewayError::Thread("it ended without a result".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_cannot_be_used_is_said_once() {
        let source = crate::model::ModelError::Config("base_url is missing".into());
        let report = GatewayError::Model(ModelsError { agent: None, source }).report();
        assert_eq!(report.message, "the model cannot be used");
        assert_eq!(report.causes.len(), 1, "{:?}", report.causes);
    }
}
