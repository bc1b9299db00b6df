//! The provider `cli`: a configured command answers, one process a turn.
//!
//! The prompt comes on its standard input, the reply is what it writes on its standard output, and a good exit status says that
//! the reply is whole. The command keeps its own history, under the id that `{session}` in its arguments stands for; so it gets
//! the user's words and nothing else. It gets a small environment, never the gateway's keys, and a process group of its own,
//! which is ended whole when the turn is.

mod output;
mod process;

use super::{Model, ModelError, ModelInfo, ModelReply, ModelRequest, family_of};
use crate::config::ModelConfig;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use process::{Run, Start};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub use process::end_commands;

/// Variables of the gateway's own environment that every program needs.
const KEPT: [&str; 10] = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"];

/// The provider `cli`.
#[derive(Debug)]
pub struct CommandModel {
    command: Vec<String>,
    resume_command: Vec<String>,
    env: Vec<String>,
    timeout: Duration,
    info: ModelInfo,
}

impl CommandModel {
    /// Runs nothing.
    ///
    /// # Errors
    /// [`ModelError::Config`] without a command.
    pub fn new(config: &ModelConfig) -> Result<CommandModel, ModelError> {
        let Some(program) = config.command.first() else {
            return Err(ModelError::Config("command is missing".into()));
        };
        let named = || Path::new(program).file_name().map(|name| name.to_string_lossy().into_owned());
        let resolved = config.model.clone().or_else(named).unwrap_or_else(|| program.clone());
        Ok(CommandModel {
            command: config.command.clone(),
            resume_command: config.resume_command.clone(),
            env: config.env.clone(),
            timeout: Duration::from_millis(config.timeout_ms.max(1)),
            info: ModelInfo {
                provider: "cli".into(),
                requested: config.model.clone(),
                family: family_of(&resolved),
                resolved,
                context_window: config.context_window,
                max_output_tokens: config.max_output_tokens,
                has_llm: false,
            },
        })
    }

    fn start(&self, request: &ModelRequest) -> Result<Run, ModelError> {
        let resumed = request.host.resumed && !self.resume_command.is_empty();
        let words = if resumed { &self.resume_command } else { &self.command };
        let session = request.host.session.as_deref().unwrap_or_default();
        let system = said(&request.messages, |role| matches!(role, "system" | "developer"));
        let prompt = said(&request.messages, |role| role == "user");
        let fill = |word: &String| word.replace("{session}", session).replace("{system}", &system);
        let (program, args) = words.split_first().ok_or_else(|| ModelError::Config("command is missing".into()))?;
        let env = KEPT.iter().copied().chain(self.env.iter().map(String::as_str));
        Run::start(Start {
            program,
            args: args.iter().map(fill).collect(),
            env: env.filter_map(|name| Some((name.to_owned(), std::env::var_os(name)?))).collect(),
            folder: request.host.workspace.as_deref(),
            input: prompt.into_bytes(),
            timeout: self.timeout,
        })
    }

    async fn answer(&self, request: ModelRequest) -> Result<ModelReply, ModelError> {
        let mut run = self.start(&request)?;
        let shape = Shape::new(self.info.resolved.clone());
        if !request.stream {
            let mut text = String::new();
            while let Some(piece) = run.next().await {
                text.push_str(&piece?);
            }
            return Ok(ModelReply::Full(shape.full(&text)));
        }
        // There is always a first piece: a run without any text is an error.
        let first = run.next().await.unwrap_or_else(|| Ok(String::new()))?;
        let head = shape.chunk(json!({"role": "assistant", "content": first}), Value::Null);
        let rest = stream::unfold(Some((run, shape)), |running| async move {
            let (mut run, shape) = running?;
            match run.next().await {
                Some(Ok(piece)) => Some((Ok(shape.chunk(json!({"content": piece}), Value::Null)), Some((run, shape)))),
                Some(Err(error)) => Some((Err(error), None)),
                None => Some((Ok(shape.chunk(json!({}), json!("stop"))), None)),
            }
        });
        let head = stream::once(std::future::ready(Ok(head)));
        Ok(ModelReply::Stream(Box::pin(StreamExt::chain(head, rest))))
    }

    /// The programs that are run, each found where it will be looked for.
    fn find(&self) -> Result<(), ModelError> {
        for words in [&self.command, &self.resume_command] {
            if let Some(program) = words.first() {
                find_program(program, std::env::var_os("PATH").as_deref())?;
            }
        }
        Ok(())
    }
}

impl Model for CommandModel {
    fn info(&self) -> ModelInfo {
        self.info.clone()
    }

    fn call(&self, request: ModelRequest) -> BoxFuture<'_, Result<ModelReply, ModelError>> {
        self.answer(request).boxed()
    }

    fn models(&self) -> BoxFuture<'_, Result<Vec<Value>, ModelError>> {
        let listed = self
            .find()
            .map(|()| vec![json!({"id": self.info.resolved, "object": "model", "created": 0, "owned_by": "cli"})]);
        std::future::ready(listed).boxed()
    }
}

/// Where a program is.
fn find_program(program: &str, search: Option<&std::ffi::OsStr>) -> Result<PathBuf, ModelError> {
    let runs = |path: &Path| path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok();
    if program.contains('/') {
        let path = PathBuf::from(program);
        let why = if path.exists() { "cannot be executed" } else { "does not exist" };
        return if runs(&path) { Ok(path) } else { Err(ModelError::command(program, why)) };
    }
    let folders = search.map(std::env::split_paths).into_iter().flatten();
    let found = folders.map(|folder| folder.join(program)).find(|path| runs(path));
    found.ok_or_else(|| ModelError::command(program, "is in no folder of the search path (PATH)"))
}

/// The texts of the messages of some roles, one after the other.
fn said(messages: &[Value], wanted: impl Fn(&str) -> bool) -> String {
    let texts = messages.iter().filter(|message| message["role"].as_str().is_some_and(&wanted)).map(text_of);
    texts.collect::<Vec<_>>().join("\n\n")
}

fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

/// The answer in the OpenAI dialect.
struct Shape {
    id: String,
    created: u64,
    model: String,
}

impl Shape {
    fn new(model: String) -> Shape {
        Shape {
            id: format!("chatcmpl-cli-{}", uuid::Uuid::now_v7().simple()),
            created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            model,
        }
    }

    fn object(&self, kind: &str, choice: Value) -> Value {
        let mut object = Map::new();
        object.insert("id".into(), self.id.as_str().into());
        object.insert("object".into(), kind.into());
        object.insert("created".into(), self.created.into());
        object.insert("model".into(), self.model.as_str().into());
        object.insert("choices".into(), json!([choice]));
        Value::Object(object)
    }

    fn full(&self, text: &str) -> Value {
        let message = json!({"role": "assistant", "content": text});
        self.object("chat.completion", json!({"index": 0, "message": message, "finish_reason": "stop"}))
    }

    fn chunk(&self, delta: Value, finish: Value) -> Value {
        self.object("chat.completion.chunk", json!({"index": 0, "delta": delta, "finish_reason": finish}))
    }
}

#[cfg(test)]
mod tests;
