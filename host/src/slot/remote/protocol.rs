//! What gateway and worker say on a lane, and how it is written down. Both are the same program of the same version.

use super::history::Rows;
use super::lean::{self, Entry, Lean};
use super::reply::Reply;
use crate::slot::call::ask::{Answer, Request};
use crate::slot::call::input::HookInput;
use crate::slot::call::receive::Bad;
use crate::slot::facts::*;
use crate::slot::hook::Hook;
use crate::slot::services::{MemoryPromptArgs, ServiceError};
use crate::transcript::Message;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the worker is told before the library is opened.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Setup {
    /// Grants of the plugin's entry.
    pub grants: Vec<String>,
    /// True when some model can be asked.
    pub llm: bool,
}

/// A line of the engine's log, beside calls.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Said {
    pub engine: String,
    pub hook: String,
    pub level: u32,
    pub target: String,
    pub message: String,
}

/// From the gateway.
#[derive(Debug, Serialize, Deserialize)]
#[allow(clippy::large_enum_variant, reason = "one lives at a time, on a stack, for as long as it is written or read")]
pub(super) enum ToWorker<'a> {
    /// Begins a call.
    #[serde(borrow)]
    Call(Call<'a>),
    /// Answers a service call.
    Answer {
        /// Time until the deadline, as it stands now.
        left: Duration,
        answer: Result<Answer, ServiceError>,
    },
    /// Bodies of the running call's history, from that entry on in the direction that was asked for; none where there is none.
    #[serde(borrow)]
    Bodies(Vec<Lean<'a>>),
    /// The whole history, after the worker said that it does not know the one that was built upon.
    #[serde(borrow)]
    Whole(Rows<'a>),
}

/// From the worker.
#[derive(Debug, Serialize, Deserialize)]
#[allow(clippy::large_enum_variant, reason = "one lives at a time, on a stack, for as long as it is written or read")]
pub(super) enum ToGateway<'a> {
    /// A service call.
    #[serde(borrow)]
    Ask(Request<'a>),
    /// Bodies are wanted.
    Bodies(Wanted),
    /// The history that the call builds upon is not known (any more).
    Stale,
    /// The hook is back.
    #[serde(borrow)]
    Returned(Reply<'a>),
}

/// How a reply begins: the number of its variant.
pub(super) const RETURNED: u8 = 3;

/// Which bodies.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Wanted {
    pub index: u32,
    /// At most so many.
    pub count: u32,
    /// From `index` backwards.
    pub back: bool,
}

/// One call.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Call<'a> {
    pub number: u64,
    /// Time until the deadline.
    pub left: Duration,
    pub params: u32,
    pub instance: u32,
    /// The session, cut down to what the engine gets of it.
    pub session: Cow<'a, SessionFacts>,
    #[serde(borrow)]
    pub input: Input<'a>,
}

/// A hook with its arguments.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Input<'a> {
    Create {
        agent_dir: Option<&'a str>,
        workspace_dir: Option<&'a str>,
        state_dir: &'a str,
    },
    Info,
    Bootstrap,
    Maintain {
        reason: u32,
        deferred: bool,
    },
    #[serde(borrow)]
    Ingest(Vec<Entry<'a>>),
    #[serde(borrow)]
    IngestBatch(Vec<Entry<'a>>),
    AfterTurn {
        #[serde(borrow)]
        entries: Vec<Entry<'a>>,
        pre_prompt: u64,
        auto_compaction_summary: Option<&'a str>,
    },
    CommitTurn {
        advancement_key: &'a str,
        logical_turn_id: &'a str,
        admission: Cow<'a, Anchor>,
        terminal: Cow<'a, Anchor>,
        #[serde(borrow)]
        entries: Vec<Entry<'a>>,
    },
    Assemble {
        #[serde(borrow)]
        rows: Rows<'a>,
        prompt: Option<Prompt<'a>>,
        system_tokens: u64,
        available_tools: Cow<'a, [String]>,
        model: Option<&'a str>,
        citations_mode: u32,
    },
    Compact {
        #[serde(borrow)]
        rows: Rows<'a>,
        force: bool,
        target: u32,
        trigger: u32,
        attempt: u32,
        max_attempts: u32,
        force_reason: u32,
        custom_instructions: Option<&'a str>,
    },
    PrepareSubagentSpawn(Cow<'a, SubagentSpawn>),
    RollbackSubagentSpawn {
        handle: u64,
    },
    OnSubagentEnded {
        child_session_key: &'a str,
        agent_dir: Option<&'a str>,
        workspace_dir: Option<&'a str>,
        reason: u32,
    },
    OnSessionEnded {
        reason: u32,
    },
    Tools,
    CallTool {
        call_id: &'a str,
        name: &'a str,
        arguments: &'a str,
    },
    MemoryPrompt(Cow<'a, MemoryPromptArgs>),
    MemorySearch {
        query: &'a str,
        limit: u64,
    },
    MemoryAppend {
        text: &'a str,
    },
    Dispose,
}

/// The current turn.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Prompt<'a> {
    entry_id: u64,
    tokens: u64,
    #[serde(borrow)]
    message: Lean<'a>,
}

impl<'a> Input<'a> {
    /// What is sent of a hook's input; `rows` is what is sent of its history.
    pub(super) fn of(input: &HookInput<'a>, rows: Option<Rows<'a>>) -> Input<'a> {
        let rows = rows.unwrap_or_default();
        match *input {
            HookInput::Info => Input::Info,
            HookInput::Bootstrap => Input::Bootstrap,
            HookInput::Maintain { reason, deferred } => Input::Maintain { reason, deferred },
            HookInput::Ingest(entries) => Input::Ingest(lean::entries(entries)),
            HookInput::IngestBatch(entries) => Input::IngestBatch(lean::entries(entries)),
            HookInput::AfterTurn { entries, pre_prompt, auto_compaction_summary } => Input::AfterTurn {
                entries: lean::entries(entries),
                pre_prompt: pre_prompt as u64,
                auto_compaction_summary,
            },
            HookInput::CommitTurn(input) => Input::CommitTurn {
                advancement_key: &input.advancement_key,
                logical_turn_id: &input.logical_turn_id,
                admission: Cow::Borrowed(&input.admission),
                terminal: Cow::Borrowed(&input.terminal),
                entries: lean::entries(&input.entries),
            },
            HookInput::Assemble { input, prompt, .. } => Input::Assemble {
                rows,
                prompt: prompt.map(|prompt| Prompt {
                    entry_id: prompt.entry_id,
                    tokens: prompt.tokens,
                    message: Lean::of(&prompt.message),
                }),
                system_tokens: input.system_tokens,
                available_tools: Cow::Borrowed(&input.available_tools),
                model: input.model.as_deref(),
                citations_mode: input.citations_mode,
            },
            HookInput::Compact { args, .. } => Input::Compact {
                rows,
                force: args.force,
                target: args.target,
                trigger: args.trigger,
                attempt: args.attempt,
                max_attempts: args.max_attempts,
                force_reason: args.force_reason,
                custom_instructions: args.custom_instructions.as_deref(),
            },
            HookInput::PrepareSubagentSpawn(spawn) => Input::PrepareSubagentSpawn(Cow::Borrowed(spawn)),
            HookInput::RollbackSubagentSpawn { handle } => Input::RollbackSubagentSpawn { handle },
            HookInput::OnSubagentEnded { child_session_key, agent_dir, workspace_dir, reason } => {
                Input::OnSubagentEnded { child_session_key, agent_dir, workspace_dir, reason }
            }
            HookInput::OnSessionEnded { reason } => Input::OnSessionEnded { reason },
            HookInput::Tools => Input::Tools,
            HookInput::CallTool { call_id, name, arguments } => Input::CallTool { call_id, name, arguments },
            HookInput::MemoryPrompt(args) => Input::MemoryPrompt(Cow::Borrowed(args)),
            HookInput::MemorySearch { query, limit } => Input::MemorySearch { query, limit },
            HookInput::MemoryAppend { text } => Input::MemoryAppend { text },
            HookInput::Dispose => Input::Dispose,
        }
    }

    /// The hook.
    pub(super) const fn hook(&self) -> Hook {
        match self {
            Input::Create { .. } => Hook::Factory,
            Input::Info => Hook::Info,
            Input::Bootstrap => Hook::Bootstrap,
            Input::Maintain { .. } => Hook::Maintain,
            Input::Ingest(_) => Hook::Ingest,
            Input::IngestBatch(_) => Hook::IngestBatch,
            Input::AfterTurn { .. } => Hook::AfterTurn,
            Input::CommitTurn { .. } => Hook::CommitTurn,
            Input::Assemble { .. } => Hook::Assemble,
            Input::Compact { .. } => Hook::Compact,
            Input::PrepareSubagentSpawn(_) => Hook::PrepareSubagentSpawn,
            Input::RollbackSubagentSpawn { .. } => Hook::RollbackSubagentSpawn,
            Input::OnSubagentEnded { .. } => Hook::OnSubagentEnded,
            Input::OnSessionEnded { .. } => Hook::OnSessionEnded,
            Input::Tools => Hook::Tools,
            Input::CallTool { .. } => Hook::CallTool,
            Input::MemoryPrompt(_) => Hook::MemoryPrompt,
            Input::MemorySearch { .. } => Hook::MemorySearch,
            Input::MemoryAppend { .. } => Hook::MemoryAppend,
            Input::Dispose => Hook::Dispose,
        }
    }

    /// Takes out the rows of the history.
    pub(super) fn rows(&mut self) -> Option<Rows<'a>> {
        match self {
            Input::Assemble { rows, .. } | Input::Compact { rows, .. } => Some(std::mem::take(rows)),
            _ => None,
        }
    }

    /// Has `call` made with the hook's input over `view`, which is the history that this side holds.
    pub(super) fn lend<R>(self, view: &Arc<View>, call: impl FnOnce(&HookInput<'_>) -> R) -> Result<R, Bad> {
        let len = view.heads.len();
        Ok(match self {
            Input::Create { .. } => return Err("a factory is no hook of an instance".into()),
            Input::Info => call(&HookInput::Info),
            Input::Bootstrap => call(&HookInput::Bootstrap),
            Input::Maintain { reason, deferred } => call(&HookInput::Maintain { reason, deferred }),
            Input::Ingest(entries) => call(&HookInput::Ingest(&lean::owned(entries)?)),
            Input::IngestBatch(entries) => call(&HookInput::IngestBatch(&lean::owned(entries)?)),
            Input::AfterTurn { entries, pre_prompt, auto_compaction_summary } => {
                let entries = &lean::owned(entries)?;
                let pre_prompt = usize::try_from(pre_prompt).unwrap_or(usize::MAX);
                call(&HookInput::AfterTurn { entries, pre_prompt, auto_compaction_summary })
            }
            Input::CommitTurn { advancement_key, logical_turn_id, admission, terminal, entries } => {
                call(&HookInput::CommitTurn(&CommitInput {
                    advancement_key: advancement_key.to_owned(),
                    logical_turn_id: logical_turn_id.to_owned(),
                    admission: admission.into_owned(),
                    terminal: terminal.into_owned(),
                    entries: lean::owned(entries)?,
                }))
            }
            Input::Assemble { rows: _, prompt, system_tokens, available_tools, model, citations_mode } => {
                let prompt = prompt.map(Prompt::owned).transpose()?;
                let input = AssembleInput {
                    view: Arc::clone(view),
                    len,
                    prompt: None,
                    system_tokens,
                    available_tools: available_tools.into_owned(),
                    model: model.map(str::to_owned),
                    citations_mode,
                };
                call(&HookInput::Assemble { input: &input, len, prompt: prompt.as_ref() })
            }
            Input::Compact {
                rows: _,
                force,
                target,
                trigger,
                attempt,
                max_attempts,
                force_reason,
                custom_instructions,
            } => {
                let args = CompactArgs {
                    view: Arc::clone(view),
                    len,
                    force,
                    target,
                    trigger,
                    attempt,
                    max_attempts,
                    force_reason,
                    custom_instructions: custom_instructions.map(str::to_owned),
                    token_budget: None,
                    current_token_count: None,
                };
                call(&HookInput::Compact { args: &args, len })
            }
            Input::PrepareSubagentSpawn(spawn) => call(&HookInput::PrepareSubagentSpawn(&spawn)),
            Input::RollbackSubagentSpawn { handle } => call(&HookInput::RollbackSubagentSpawn { handle }),
            Input::OnSubagentEnded { child_session_key, agent_dir, workspace_dir, reason } => {
                call(&HookInput::OnSubagentEnded { child_session_key, agent_dir, workspace_dir, reason })
            }
            Input::OnSessionEnded { reason } => call(&HookInput::OnSessionEnded { reason }),
            Input::Tools => call(&HookInput::Tools),
            Input::CallTool { call_id, name, arguments } => call(&HookInput::CallTool { call_id, name, arguments }),
            Input::MemoryPrompt(args) => call(&HookInput::MemoryPrompt(&args)),
            Input::MemorySearch { query, limit } => call(&HookInput::MemorySearch { query, limit }),
            Input::MemoryAppend { text } => call(&HookInput::MemoryAppend { text }),
            Input::Dispose => call(&HookInput::Dispose),
        })
    }
}

impl Prompt<'_> {
    fn owned(self) -> Result<PromptInput, Bad> {
        let message: Message = self.message.message()?;
        Ok(PromptInput { entry_id: self.entry_id, tokens: self.tokens, message: Arc::new(message) })
    }
}

/// Time until then.
pub(super) fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

/// A buffer that postcard writes into without asking for each byte.
struct Buffer<'a>(&'a mut Vec<u8>);

impl postcard::ser_flavors::Flavor for Buffer<'_> {
    type Output = ();

    fn try_extend(&mut self, data: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(data);
        Ok(())
    }

    fn try_push(&mut self, data: u8) -> postcard::Result<()> {
        self.0.push(data);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// Puts a message in the place of what `into` holds.
pub(super) fn encode<T: Serialize>(message: &T, into: &mut Vec<u8>) -> postcard::Result<()> {
    into.clear();
    postcard::serialize_with_flavor(message, Buffer(into))
}

/// Reads a message, which must be all that is there.
pub(super) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> postcard::Result<T> {
    match postcard::take_from_bytes(bytes)? {
        (message, []) => Ok(message),
        _ => Err(postcard::Error::SerdeDeCustom),
    }
}
