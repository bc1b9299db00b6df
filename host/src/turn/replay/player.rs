//! Plays recordings as live turns: the same rooms, the same code, a scratch store, and a model that knows the answers.

use super::model::RecordedModel;
use super::recording::Step;
use super::{EngineReport, Recording, ReplayError, TurnReport};
use crate::config::Config;
use crate::model::{Messages, ModelInfo, OFFLINE_MODEL, TokenCounter};
use crate::slot::Slot;
use crate::transcript::{self, Entry, Message, Store, StoreError, Submission};
use crate::turn::{HistoryMode, TurnRequest, Turns, factory_services};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

/// Longest wait for what follows the last turn.
const PATIENCE: Duration = Duration::from_secs(600);
/// Longest wait for engines to be disposed.
const DISPOSE: Duration = Duration::from_secs(10);

/// How to replay.
#[derive(Debug, Clone, Default)]
pub struct ReplayOptions {
    /// Engine, or a chain of them; empty means the configured chain.
    pub chain: Vec<String>,
    /// Tokens that a prompt may cost; `None` means the configured window, less what is kept free for the answer.
    pub budget: Option<u64>,
}

/// A prompt of a played conversation, as the model would have been sent it.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// Messages of the recording that were said until then, those of the request included.
    pub said: usize,
    /// The messages.
    pub messages: &'a Messages,
}

/// Who looks on while a recording is played.
pub trait Watch: Send {
    /// A turn begins.
    fn turn(&mut self) {}

    /// The model was called; in the loop of a turn's tools, each call by itself.
    fn call(&mut self, _call: Call<'_>) {}
}

/// A gateway without a network, over a store that is gone afterwards: recordings are played into its sessions.
pub struct Player {
    pub(super) turns: Turns,
    pub(super) slot: Arc<Slot>,
    pub(super) store: Arc<dyn Store>,
    model: Arc<RecordedModel>,
    info: ModelInfo,
    counter: TokenCounter,
    /// Entry id of questions.
    pub(super) question_id: AtomicU64,
    /// Gone when the replay is over.
    scratch: tempfile::TempDir,
}

/// What is left of a [`Player`].
#[derive(Debug, Clone, PartialEq)]
pub struct Closed {
    /// Engine that was asked for: the first of the chain.
    pub engine: String,
    /// Engines that were to take part, or did, by id.
    pub engines: BTreeMap<String, EngineReport>,
    /// Calls that never came back: when not 0, the process must end without destructors.
    pub abandoned: usize,
}

impl Player {
    /// Starts the engines over an empty store. Nothing of the configured state folder is touched.
    ///
    /// # Errors
    ///
    /// [`ReplayError::Scratch`] when there is no place for the store.
    pub async fn open(config: &Config, options: &ReplayOptions) -> Result<Player, ReplayError> {
        let scratch = tempfile::Builder::new()
            .prefix("engineroom-replay-")
            .tempdir()
            .map_err(|error| ReplayError::Scratch(error.to_string()))?;
        let mut config = config.clone();
        config.gateway.state_dir = scratch.path().to_owned();
        // A memory is of the world outside of the recording: it would be read as it is today, and written to.
        // The calls of a recording were answered in it.
        config.tools.max_calls = 0;
        config.plugins.slots.memory = None;
        config.agents.values_mut().for_each(|agent| agent.slots.memory = None);
        if !options.chain.is_empty() {
            config.plugins.slots.context_engine.clone_from(&options.chain);
        }
        let info = info_of(&config, options.budget);
        let model = Arc::new(RecordedModel::new(info.clone()));
        let config = Arc::new(config);
        let runtime = tokio::runtime::Handle::current();
        let (opening, answers) = (Arc::clone(&config), Arc::clone(&model));
        // Loading libraries and opening the store block.
        let opened = tokio::task::spawn_blocking(move || {
            let store = transcript::open(&opening.gateway.state_dir)?;
            let slot = Slot::new(&opening, runtime);
            slot.start(&factory_services(Arc::clone(&store), &*answers));
            Ok::<_, StoreError>((store, slot))
        });
        let (store, slot) = opened
            .await
            .map_err(|error| ReplayError::Scratch(error.to_string()))?
            .map_err(|error| ReplayError::Scratch(error.to_string()))?;
        let turns = Turns::new(config, Arc::clone(&store), model.clone(), Arc::clone(&slot));
        let counter = TokenCounter::for_model(&info.resolved);
        Ok(Player { turns, slot, store, model, info, counter, question_id: AtomicU64::new(0), scratch })
    }

    /// Tokens of the window.
    pub fn window(&self) -> u64 {
        self.info.context_window
    }

    /// Counts as the host does.
    pub fn counter(&self) -> &TokenCounter {
        &self.counter
    }

    /// Plays a recording to the end of a session, which may hold others already.
    ///
    /// # Errors
    ///
    /// [`ReplayError::Turn`] when a turn failed for good: a failed hook does not, since the next engine of the chain goes on.
    pub async fn play(
        &self,
        key: &str,
        recording: &Recording,
        watch: &mut dyn Watch,
    ) -> Result<Vec<TurnReport>, ReplayError> {
        let mut turns = Vec::new();
        let mut stored = 0;
        for step in recording.steps() {
            watch.turn();
            self.quiet().await;
            stored += step.sent.len();
            let time_ms = step.sent.last().and_then(|recorded| recorded.time_ms);
            self.turns.house.clock.set(time_ms);
            self.model.expect(step.answer.map(|answer| answer.message.clone()));
            let outcome = self.turns.run(request(key, recording, &step)).await;
            let calls = self.model.take_calls();
            let shown = calls.last().map(shown);
            if step.asks() {
                calls.iter().for_each(|messages| watch.call(Call { said: stored, messages }));
            }
            if let Err(source) = outcome {
                // At the end of the recording the model has no answer, and that is no failure.
                if step.answer.is_some() || shown.is_none() {
                    return Err(ReplayError::Turn { name: recording.name.clone(), turn: turns.len() + 1, source });
                }
            }
            if step.answer.is_none() && !step.asks() {
                break;
            }
            let mut report = TurnReport {
                turn: turns.len() + 1,
                time_ms,
                answered: step.answer.is_some(),
                engine: String::new(),
                degraded: None,
                stored,
                shown: shown.unwrap_or(0),
                tokens: 0,
                budget: 0,
                engine_estimate: 0,
                steps: Vec::new(),
                failures: Vec::new(),
            };
            if !report.answered {
                self.barrier().await?;
            }
            self.add_notes(key, &mut report).await?;
            turns.push(report);
            stored += 1;
        }
        self.turns.house.clock.set(None);
        Ok(turns)
    }

    /// Waits for what follows a turn, so that a replay shows the same every time however fast it runs.
    pub(super) async fn quiet(&self) {
        let until = Instant::now() + PATIENCE;
        let mut looks = 0u32;
        while !self.turns.house.is_quiet() && Instant::now() < until {
            looks += 1;
            if looks < 200 {
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }

    /// What the turn itself noted: it stands in its record.
    async fn add_notes(&self, key: &str, report: &mut TurnReport) -> Result<(), ReplayError> {
        let (store, key) = (Arc::clone(&self.store), key.to_owned());
        let record = self
            .blocking(move || {
                let Some(session) = store.session(&key)? else { return Ok(None) };
                Ok(store.turns(session.row, 1)?.pop())
            })
            .await?;
        let Some(record) = record else { return Ok(()) };
        report.engine = record.engine;
        report.degraded = record.degraded;
        let notes = &record.detail["notes"];
        let list = |name: &str| notes[name].as_array().cloned().unwrap_or_default();
        report.tokens = notes["prompt_tokens"].as_u64().unwrap_or(0);
        report.budget = notes["prompt_limit"].as_u64().unwrap_or(0);
        report.engine_estimate = notes["engine_estimate"].as_u64().unwrap_or(0);
        report.steps = list("ladder");
        report.failures = list("failures");
        Ok(())
    }

    /// Waits for what follows the last turns; no turn comes any more.
    pub(super) async fn settled(&self) -> Result<(), ReplayError> {
        self.turns.drain(PATIENCE).await;
        self.barrier().await
    }

    /// The active branch of a session as it is stored; empty when there is no such session.
    pub(super) async fn branch(&self, key: String) -> Result<Vec<Arc<Entry>>, ReplayError> {
        let store = Arc::clone(&self.store);
        self.blocking(move || match store.session(&key)? {
            Some(session) => store.branch(session.row, session.head),
            None => Ok(Vec::new()),
        })
        .await
    }

    /// The engines as they stand now.
    pub fn engines(&self) -> BTreeMap<String, EngineReport> {
        engines(&serde_json::to_value(self.slot.status()).unwrap_or_default())
    }

    /// Ends the engines, and removes the store.
    pub async fn close(self) -> Closed {
        self.turns.drain(PATIENCE).await;
        let status = serde_json::to_value(self.slot.status()).unwrap_or_default();
        let engine = status["chain"][0].as_str().unwrap_or("legacy").to_owned();
        let slot = Arc::clone(&self.slot);
        let store = Arc::clone(&self.store);
        let _ = tokio::task::spawn_blocking(move || {
            slot.dispose_all(DISPOSE);
            store.close();
        })
        .await;
        let abandoned = self.slot.abandoned();
        if let Err(error) = self.scratch.close() {
            tracing::warn!(%error, "the scratch store of the replay could not be removed");
        }
        Closed { engine, engines: engines(&status), abandoned }
    }

    /// Waits for every write that was queued: a turn without an answer does not wait for its own.
    pub(super) async fn barrier(&self) -> Result<(), ReplayError> {
        let queued = self.store.submit(Submission { lease: None, writes: Vec::new() });
        queued.durable().await.map_err(|error| ReplayError::Scratch(error.to_string()))
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, ReplayError> {
        tokio::task::spawn_blocking(work)
            .await
            .map_err(|error| ReplayError::Scratch(error.to_string()))?
            .map_err(|error| ReplayError::Scratch(error.to_string()))
    }
}

/// The model as the configuration has it, so that tokens and budgets are those of a live turn; with a budget, the window is
/// that, and nothing is kept free.
fn info_of(config: &Config, budget: Option<u64>) -> ModelInfo {
    let model = &config.model;
    let name = match model.provider.as_str() {
        "offline" => OFFLINE_MODEL.to_owned(),
        _ => model.model.clone().unwrap_or_default(),
    };
    ModelInfo {
        provider: "replay".into(),
        requested: Some(name.clone()),
        resolved: name,
        family: None,
        context_window: budget.unwrap_or(model.context_window),
        max_output_tokens: if budget.is_some() { 0 } else { model.max_output_tokens },
        has_llm: false,
    }
}

fn request(key: &str, recording: &Recording, step: &Step<'_>) -> TurnRequest {
    let json = |message: &Message| serde_json::to_value(message).unwrap_or_default();
    let said = step.sent.iter().map(|recorded| json(&recorded.message));
    let times_ms = step.sent.iter().map(|recorded| recorded.time_ms).collect();
    TurnRequest {
        session_key: Some(key.to_owned()),
        history: HistoryMode::Delta,
        messages: recording.system.iter().cloned().chain(said).collect(),
        times_ms,
        ..TurnRequest::default()
    }
}

/// Messages of a prompt, system prompts not counted.
fn shown(messages: &Messages) -> usize {
    let is_system = |message: &Value| matches!(message["role"].as_str(), Some("system" | "developer"));
    messages.iter().filter(|message| !is_system(message)).count()
}

/// The engines that somebody wants or that were called.
fn engines(status: &Value) -> BTreeMap<String, EngineReport> {
    let engines = status["engines"].as_array().map_or(&[][..], Vec::as_slice);
    let text = |value: &Value| value.as_str().map(str::to_owned);
    engines
        .iter()
        .filter(|engine| engine["listed"] == true || engine["hooks"].get("assemble").is_some())
        .filter_map(|engine| {
            let report = EngineReport {
                state: text(&engine["state"])?,
                code: text(&engine["code"]),
                reason: text(&engine["reason"]),
                hooks: engine["hooks"].clone(),
            };
            Some((text(&engine["id"])?, report))
        })
        .collect()
}
