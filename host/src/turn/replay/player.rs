//! Plays recordings as live turns: the same rooms, the same code, a scratch store, and a model that knows the answers.

use super::model::RecordedModel;
use super::recording::Step;
use super::{
    CompactionReport, ConversationReport, EngineReport, Recording, ReplayError, ReplayReport, Shown, TurnReport,
};
use crate::config::Config;
use crate::model::{ModelInfo, OFFLINE_MODEL, TokenCounter};
use crate::slot::Slot;
use crate::transcript::{self, EntryBody, Message, Role, Store, StoreError, Submission};
use crate::turn::{HistoryMode, TurnRequest, Turns, factory_services};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
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

/// How far a replay is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress<'a> {
    /// Conversation.
    pub name: &'a str,
    /// Turns played of all conversations.
    pub done: usize,
    /// Turns of all conversations.
    pub total: usize,
}

/// Replays conversations, one session each, through the engines that `options` or else `config` name. `progress` is called
/// before each turn. Nothing of the configured state folder is touched.
///
/// # Errors
///
/// [`ReplayError::Scratch`] when there is no place for the scratch store, [`ReplayError::Turn`] when a turn failed for good:
/// a failed hook does not, since the next engine of the chain goes on.
pub async fn replay(
    config: &Config,
    recordings: &[Recording],
    options: &ReplayOptions,
    progress: &mut (dyn FnMut(Progress<'_>) + Send),
) -> Result<ReplayReport, ReplayError> {
    let player = Player::open(config, options).await?;
    let total = recordings.iter().map(|recording| recording.steps().len()).sum();
    let mut done = 0;
    let mut played = Vec::with_capacity(recordings.len());
    for (number, recording) in recordings.iter().enumerate() {
        let key = format!("agent:main:replay:{}", number + 1);
        let mut before_turn = || {
            progress(Progress { name: &recording.name, done, total });
            done += 1;
        };
        played.push((key.clone(), player.play(&key, recording, &mut before_turn).await?));
    }
    player.finish(recordings, played).await
}

struct Player {
    turns: Turns,
    slot: Arc<Slot>,
    store: Arc<dyn Store>,
    model: Arc<RecordedModel>,
    info: ModelInfo,
    counter: TokenCounter,
    /// Gone when the replay is over.
    scratch: tempfile::TempDir,
}

impl Player {
    async fn open(config: &Config, options: &ReplayOptions) -> Result<Player, ReplayError> {
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
        Ok(Player { turns, slot, store, model, info, counter, scratch })
    }

    async fn play(
        &self,
        key: &str,
        recording: &Recording,
        before_turn: &mut (dyn FnMut() + Send),
    ) -> Result<Vec<TurnReport>, ReplayError> {
        let mut turns = Vec::new();
        let mut stored = 0;
        for step in recording.steps() {
            before_turn();
            self.quiet().await;
            stored += step.sent.len();
            let time_ms = step.sent.last().and_then(|recorded| recorded.time_ms);
            self.turns.house.clock.set(time_ms);
            self.model.expect(step.answer.map(|answer| answer.message.clone()));
            let outcome = self.turns.run(request(key, recording, &step)).await;
            let shown = self.model.take_shown();
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
    async fn quiet(&self) {
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

    /// Waits for what follows the last turns, and reads what is left in the store.
    async fn finish(
        self,
        recordings: &[Recording],
        played: Vec<(String, Vec<TurnReport>)>,
    ) -> Result<ReplayReport, ReplayError> {
        self.turns.drain(PATIENCE).await;
        self.barrier().await?;
        let mut conversations = Vec::with_capacity(played.len());
        for (recording, (key, turns)) in recordings.iter().zip(played) {
            conversations.push(self.conversation(recording, key, turns).await?);
        }
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
        Ok(ReplayReport {
            engine,
            window: self.info.context_window,
            estimated: self.counter.estimated(),
            conversations,
            engines: engines(&status),
            abandoned,
        })
    }

    async fn conversation(
        &self,
        recording: &Recording,
        key: String,
        turns: Vec<TurnReport>,
    ) -> Result<ConversationReport, ReplayError> {
        let store = Arc::clone(&self.store);
        let branch = self
            .blocking(move || match store.session(&key)? {
                Some(session) => store.branch(session.row, session.head),
                None => Ok(Vec::new()),
            })
            .await?;
        let mut answers = 0;
        let mut compactions = Vec::new();
        for entry in &branch {
            match &entry.body {
                EntryBody::Message(message) => answers += usize::from(message.role == Role::Assistant),
                EntryBody::Compaction(body) => compactions.push(CompactionReport {
                    after_turn: turn_of(recording, answers),
                    trigger: body.trigger.clone(),
                    by: body.by.clone(),
                    tokens_before: body.tokens_before,
                    tokens_after: body.tokens_after,
                    first_kept: body.first_kept,
                    summary_chars: body.summary.chars().count(),
                }),
            }
        }
        Ok(ConversationReport {
            name: recording.name.clone(),
            messages: recording.messages.len(),
            entries: branch.len(),
            tokens: recording.messages.iter().map(|recorded| u64::from(self.counter.message(&recorded.message))).sum(),
            shown: Shown::of(&turns),
            turns,
            compactions,
        })
    }

    /// Waits for every write that was queued: a turn without an answer does not wait for its own.
    async fn barrier(&self) -> Result<(), ReplayError> {
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

/// Number of the turn that gave the `answers`th assistant message of the conversation.
fn turn_of(recording: &Recording, answers: usize) -> usize {
    let mut seen = 0;
    for (turn, step) in recording.steps().iter().enumerate() {
        let unasked = step.sent.iter().filter(|recorded| recorded.message.role == Role::Assistant).count();
        seen += unasked + usize::from(step.answer.is_some());
        if seen > answers {
            return turn;
        }
    }
    recording.steps().iter().filter(|step| step.answer.is_some()).count()
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
