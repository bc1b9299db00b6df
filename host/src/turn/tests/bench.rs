//! The bench: a house with a scripted model.

use crate::config::Config;
use crate::model::{Model, ModelError, ModelInfo, ModelReply, ModelRequest};
use crate::plugins::RawFactory;
use crate::slot::{Hook, Slot};
use crate::transcript::{self, SessionRecord, Store, TurnRecord};
use crate::turn::{HistoryMode, TurnBody, TurnError, TurnReply, TurnRequest, Turns, factory_services};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// What the model does with a request.
type Script = Box<dyn Fn(&ModelRequest, usize) -> Result<ModelReply, ModelError> + Send + Sync>;

/// A model that answers as it is told and keeps what it was asked.
pub(super) struct Scripted {
    script: Script,
    window: u64,
    requests: Mutex<Vec<ModelRequest>>,
}

impl Scripted {
    pub(super) fn requests(&self) -> Vec<ModelRequest> {
        self.requests.lock().unwrap().clone()
    }

    pub(super) fn calls(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    /// Texts of the messages of the last request, with their roles.
    pub(super) fn last_prompt(&self) -> Vec<(String, String)> {
        let requests = self.requests.lock().unwrap();
        requests.last().unwrap().messages.iter().map(said).collect()
    }
}

fn said(message: &Value) -> (String, String) {
    let content = match &message["content"] {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    (message["role"].as_str().unwrap().to_owned(), content)
}

impl Model for Scripted {
    fn info(&self) -> ModelInfo {
        ModelInfo {
            provider: "scripted".into(),
            requested: None,
            resolved: "gpt-4o".into(),
            family: None,
            context_window: self.window,
            max_output_tokens: 100,
            has_llm: false,
        }
    }

    fn call(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelReply, ModelError>> {
        let number = {
            let mut requests = self.requests.lock().unwrap();
            requests.push(request.clone());
            requests.len() - 1
        };
        Box::pin(async move { (self.script)(&request, number) })
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Value>, ModelError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// A whole answer.
pub(super) fn full(text: &str) -> Value {
    message(json!({"role": "assistant", "content": text}), "stop")
}

pub(super) fn message(message: Value, finish: &str) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 7, "model": "gpt-4o",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
    })
}

pub(super) fn chunk(delta: Value, finish: Value) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "gpt-4o",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    })
}

/// Answers "re: …" with the last user message, streamed in words when it is asked to.
pub(super) fn echo(request: &ModelRequest, _: usize) -> Result<ModelReply, ModelError> {
    let last = request.messages.iter().rev().find(|message| message["role"] == "user").map(|m| said(m).1).unwrap();
    let text = format!("re: {last}");
    if !request.stream {
        return Ok(ModelReply::Full(full(&text)));
    }
    let words: Vec<_> =
        text.split_inclusive(' ').map(|word| Ok(chunk(json!({"content": word}), Value::Null))).collect();
    let end = std::iter::once(Ok(chunk(json!({}), json!("stop"))));
    Ok(ModelReply::Stream(Box::pin(futures_util::stream::iter(words.into_iter().chain(end)))))
}

/// A house of the tests. The folder goes when it is dropped.
pub(super) struct Bench {
    pub(super) turns: Turns,
    pub(super) store: Arc<dyn Store>,
    pub(super) model: Arc<Scripted>,
    pub(super) slot: Arc<Slot>,
    config: Arc<Config>,
    folder: tempfile::TempDir,
}

/// How a bench differs from the ordinary.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) window: Option<u64>,
    pub(super) chain: Vec<&'static str>,
    pub(super) engines: Vec<(&'static str, RawFactory, &'static str)>,
    pub(super) strict: bool,
    /// A hook with a deadline that it soon misses; those of others are longer than any test waits for.
    pub(super) hurried: Option<Hook>,
    pub(super) queue: Option<usize>,
    /// The model is offered the tool that spawns children.
    pub(super) child_tool: bool,
}

impl Bench {
    pub(super) fn start(
        plan: Plan,
        script: impl Fn(&ModelRequest, usize) -> Result<ModelReply, ModelError> + Send + Sync + 'static,
    ) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::defaults(folder.path().join("plugins.toml"));
        config.plugins.slots.context_engine = plan.chain.iter().map(|id| (*id).to_owned()).collect();
        config.compaction.keep_recent_tokens = 400;
        if let Some(queue) = plan.queue {
            config.gateway.queue_per_session = queue;
        }
        if plan.child_tool {
            (config.subagents.enabled, config.subagents.tool) = (true, true);
        }
        if plan.strict {
            config.plugins.context_engine_policy.on_failure = crate::config::OnFailure::Strict;
        }
        for hook in Hook::ALL {
            let ms = if plan.hurried == Some(hook) { 300 } else { 60_000 };
            config.plugins.deadlines.insert(hook.key().into(), ms);
        }
        let model = Arc::new(Scripted {
            script: Box::new(script),
            window: plan.window.unwrap_or(100_000),
            requests: Mutex::default(),
        });
        Bench::open(folder, Arc::new(config), model, &plan.engines)
    }

    fn open(
        folder: tempfile::TempDir,
        config: Arc<Config>,
        model: Arc<Scripted>,
        engines: &[(&'static str, RawFactory, &'static str)],
    ) -> Bench {
        let store = transcript::open(&config.gateway.state_dir).unwrap();
        let slot = Slot::new(&config, tokio::runtime::Handle::current());
        for (id, factory, engine_config) in engines {
            slot.register("tests", id, *factory, engine_config).unwrap();
        }
        slot.start(&factory_services(store.clone(), &*model));
        let turns = Turns::new(config.clone(), store.clone(), model.clone(), slot.clone());
        Bench { turns, store, model, slot, config, folder }
    }

    /// With the echo.
    pub(super) fn ordinary() -> Bench {
        Bench::start(Plan::default(), echo)
    }

    /// Stops everything, and starts again on the same state.
    pub(super) async fn restart(self, chain: &[&str], engines: &[(&'static str, RawFactory, &'static str)]) -> Bench {
        self.turns.drain(std::time::Duration::from_secs(10)).await;
        self.store.close();
        let Bench { store, model, config, folder, turns, slot } = self;
        let mut config = Config::clone(&config);
        config.plugins.slots.context_engine = chain.iter().map(|id| (*id).to_owned()).collect();
        drop((turns, slot, store));
        Bench::open(folder, Arc::new(config), model, engines)
    }

    /// One user message, as a delta.
    pub(super) async fn say(&self, session: &str, text: &str) -> TurnReply {
        self.turns.run(ask(session, json!([{"role": "user", "content": text}]))).await.unwrap()
    }

    pub(super) fn session(&self, key: &str) -> SessionRecord {
        self.store.session(key).unwrap().unwrap()
    }

    pub(super) fn branches(&self, key: &str) -> usize {
        self.store.heads(self.session(key).row).unwrap().len()
    }

    pub(super) fn records(&self, key: &str) -> Vec<TurnRecord> {
        self.store.turns(self.session(key).row, 1000).unwrap()
    }

    /// Waits until no turn runs and everything that was queued is written.
    pub(super) async fn settled(&self) {
        while !self.turns.house.is_quiet() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        let barrier = transcript::Submission { lease: None, writes: Vec::new() };
        self.store.submit(barrier).durable().await.unwrap();
    }
}

/// A request for a session.
pub(super) fn ask(session: &str, messages: Value) -> TurnRequest {
    TurnRequest {
        session_key: Some(session.into()),
        history: HistoryMode::Auto,
        messages: messages.as_array().unwrap().clone(),
        ..TurnRequest::default()
    }
}

/// The text of a whole reply.
pub(super) fn text(reply: &TurnReply) -> String {
    match &reply.body {
        TurnBody::Full(body) => body["choices"][0]["message"]["content"].as_str().unwrap().to_owned(),
        TurnBody::Stream(_) => panic!("a stream"),
    }
}

/// Reads a stream to its end.
pub(super) async fn read(reply: TurnReply) -> Result<String, TurnError> {
    let TurnBody::Stream(mut stream) = reply.body else { panic!("no stream") };
    let mut text = String::new();
    while let Some(chunk) = stream.next().await {
        text.push_str(chunk?["choices"][0]["delta"]["content"].as_str().unwrap_or_default());
    }
    Ok(text)
}
