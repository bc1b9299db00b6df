//! The end of a call on its way: the engine's status, and what it pushed. The gateway takes it in through the same checks as a
//! push over the border.

use super::lean::Lean;
use crate::slot::call::receive::{Bad, REASON_MAX, REQUIREMENTS_MAX, TEXT_MAX};
use crate::slot::call::sink::{HITS_MAX, Output, RawItem, Sink, TOOLS_MAX};
use crate::slot::engine::{EngineInfo, HostRequirement, Operation};
use crate::slot::facts::{AssembleOutput, BootstrapOutput, CompactOutput, MaintainOutput, ToolOutput};
use crate::slot::few::{few, light};
use crate::slot::services::MemoryHit;
use engine_abi::wire::{SpanV1, operation, status};
use serde::{Deserialize, Deserializer, Serialize};
use std::borrow::Cow;

/// Most items that are read at all: a span takes three bytes on the lane and many times that in memory, so a frame must not be
/// believed as far as it is long. The history's own bound is checked when they are taken in.
const ITEMS_MAX: usize = 1 << 20;

/// See the module.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Reply<'a> {
    pub status: u32,
    /// Of a factory: the hooks that its table has, by bit; or why its table cannot be used.
    pub made: Option<Result<u32, String>>,
    output: Pushed,
    #[serde(borrow, deserialize_with = "light_items")]
    items: Vec<Item<'a>>,
    // One more than may be, so that it is refused with the words that a push over the border gets.
    #[serde(deserialize_with = "few::<{ TOOLS_MAX + 1 }, _, _>")]
    tools: Vec<(Cow<'a, str>, Cow<'a, str>, String)>,
    hits: Cow<'a, [MemoryHit]>,
    /// The reason of a failure, and whether it is the error of a service of this call.
    fail: Option<(Cow<'a, str>, bool)>,
    invalid: Option<Cow<'a, str>>,
    /// Pushes and service calls after a deadline, since the last reply.
    pub late_pushes: u32,
    pub late_service_calls: u32,
}

fn light_items<'de: 'a, 'a, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Item<'a>>, D::Error> {
    light(deserializer, ITEMS_MAX, |item| match item {
        Item::Span(..) => 1,
        Item::Message(message) => message.weight(),
    })
}

#[derive(Debug, Serialize, Deserialize)]
enum Item<'a> {
    Span(u64, u64),
    #[serde(borrow)]
    Message(Lean<'a>),
}

#[derive(Debug, Default, Serialize, Deserialize)]
enum Pushed {
    #[default]
    None,
    Info(Info),
    Bootstrap(BootstrapOutput),
    Maintain(MaintainOutput),
    Ingest(u64),
    Commit(u32),
    Assemble(AssembleOutput),
    Compact(CompactOutput),
    PrepareSubagent(u64),
    Tool(ToolOutput),
    MemoryPrompt(String),
}

#[derive(Debug, Serialize, Deserialize)]
struct Info {
    id: String,
    name: String,
    version: Option<String>,
    owns_compaction: bool,
    background_maintenance: bool,
    accepted_host_params: u32,
    transcript_semantics: u32,
    #[serde(deserialize_with = "few::<{ REQUIREMENTS_MAX + 1 }, _, _>")]
    host_requirements: Vec<(u32, u32, Option<String>)>,
}

impl From<EngineInfo> for Info {
    fn from(info: EngineInfo) -> Info {
        let code = |operation| match operation {
            Operation::AgentRun => operation::AGENT_RUN,
            Operation::ManualCompact => operation::MANUAL_COMPACT,
            Operation::SubagentSpawn => operation::SUBAGENT_SPAWN,
        };
        Info {
            id: info.id,
            name: info.name,
            version: info.version,
            owns_compaction: info.owns_compaction,
            background_maintenance: info.background_maintenance,
            accepted_host_params: info.accepted_host_params,
            transcript_semantics: info.transcript_semantics,
            host_requirements: info
                .host_requirements
                .into_iter()
                .map(|one| (code(one.operation), one.required_capabilities, one.unsupported_message))
                .collect(),
        }
    }
}

impl Info {
    fn read(self) -> Result<EngineInfo, Bad> {
        if self.host_requirements.len() > REQUIREMENTS_MAX {
            return Err("hostRequirements has too many elements".into());
        }
        let requirement = |(code, required_capabilities, unsupported_message)| {
            let operation = Operation::from_code(code)
                .ok_or_else(|| format!("hostRequirements has the unknown operation {code}"))?;
            Ok(HostRequirement { operation, required_capabilities, unsupported_message })
        };
        Ok(EngineInfo {
            id: self.id,
            name: self.name,
            version: self.version,
            owns_compaction: self.owns_compaction,
            background_maintenance: self.background_maintenance,
            accepted_host_params: self.accepted_host_params,
            transcript_semantics: self.transcript_semantics,
            host_requirements: self.host_requirements.into_iter().map(requirement).collect::<Result<_, Bad>>()?,
        })
    }
}

impl<'a> Reply<'a> {
    /// The answer to what is no call.
    pub(super) fn not_understood() -> Reply<'static> {
        let why = "the worker could not read the call";
        Reply {
            status: status::ERROR,
            made: Some(Err(why.into())),
            fail: Some((why.into(), false)),
            ..Reply::default()
        }
    }

    /// What a sink holds. `tokens` are those of the service errors of the call.
    pub(super) fn of(status: u32, output: Output, sink: &'a Sink, tokens: &[u64]) -> Reply<'a> {
        Reply {
            status,
            output: Pushed::from(output),
            items: sink
                .items
                .iter()
                .map(|item| match item {
                    RawItem::Span(span) => Item::Span(span.first, span.last),
                    RawItem::Message(message) => Item::Message(Lean::of(message)),
                })
                .collect(),
            tools: sink
                .tools
                .iter()
                .map(|tool| {
                    (Cow::Borrowed(&*tool.name), Cow::Borrowed(&*tool.description), tool.parameters.to_string())
                })
                .collect(),
            hits: Cow::Borrowed(&sink.hits),
            fail: sink
                .fail
                .as_ref()
                .map(|(reason, token)| (Cow::Borrowed(&**reason), *token != 0 && tokens.contains(token))),
            invalid: sink.invalid.as_deref().map(Cow::Borrowed),
            ..Reply::default()
        }
    }

    /// Takes the pushes into the sink of a call whose history has `entries` entries. `token` gives the mark of an error of a
    /// service. What breaks the contract ends in the sink's `invalid`, like a push that is refused.
    pub(super) fn push_into(self, sink: &mut Sink, entries: usize, token: impl FnOnce() -> u64) {
        if let Some((reason, service)) = self.fail {
            sink.fail = Some((cut(&reason), if service { token() } else { 0 }));
        }
        sink.invalid = self.invalid.map(|bad| cut(&bad));
        let pushes = (self.items, self.tools, self.hits, self.output);
        if let Err(bad) = take(pushes, sink, entries) {
            sink.invalid.get_or_insert(bad);
        }
    }
}

type Pushes<'a> = (Vec<Item<'a>>, Vec<(Cow<'a, str>, Cow<'a, str>, String)>, Cow<'a, [MemoryHit]>, Pushed);

fn take((items, tools, hits, output): Pushes<'_>, sink: &mut Sink, entries: usize) -> Result<(), Bad> {
    sink.room_for_spans(items.len(), entries)?;
    sink.items.reserve(items.len());
    for item in items {
        match item {
            Item::Span(first, last) => sink.spans(&[SpanV1 { first, last }], entries)?,
            Item::Message(message) => sink.message(message.message()?)?,
        }
    }
    if tools.len() > TOOLS_MAX {
        return Err(format!("more than {TOOLS_MAX} tools"));
    }
    for (name, description, parameters) in tools {
        for text in [&*name, &*description, &*parameters] {
            within(Some(text))?;
        }
        sink.tool(name.into_owned(), description.into_owned(), &parameters)?;
    }
    if hits.len() > HITS_MAX {
        return Err(format!("more than {HITS_MAX} hits"));
    }
    for hit in hits.into_owned() {
        within(Some(&hit.id))?;
        within(Some(&hit.text))?;
        sink.hit(hit)?;
    }
    output.texts().into_iter().try_for_each(within)?;
    match output.read()? {
        Output::None => Ok(()),
        output => sink.owed(output),
    }
}

fn within(text: Option<&str>) -> Result<(), Bad> {
    match text.map_or(0, str::len) {
        len if len > TEXT_MAX => Err(format!("a text has {len} bytes, at most {TEXT_MAX} are allowed")),
        _ => Ok(()),
    }
}

/// A reason for people: never refused, only cut.
pub(super) fn cut(text: &str) -> String {
    let mut end = text.len().min(REASON_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

impl From<Output> for Pushed {
    fn from(output: Output) -> Pushed {
        match output {
            Output::None => Pushed::None,
            Output::Info(info) => Pushed::Info(info.into()),
            Output::Bootstrap(output) => Pushed::Bootstrap(output),
            Output::Maintain(output) => Pushed::Maintain(output),
            Output::Ingest(count) => Pushed::Ingest(count),
            Output::Commit(status) => Pushed::Commit(status),
            Output::Assemble(output) => Pushed::Assemble(output),
            Output::Compact(output) => Pushed::Compact(output),
            Output::PrepareSubagent(handle) => Pushed::PrepareSubagent(handle),
            Output::Tool(output) => Pushed::Tool(output),
            Output::MemoryPrompt(text) => Pushed::MemoryPrompt(text),
        }
    }
}

impl Pushed {
    fn read(self) -> Result<Output, Bad> {
        Ok(match self {
            Pushed::None => Output::None,
            Pushed::Info(info) => Output::Info(info.read()?),
            Pushed::Bootstrap(output) => Output::Bootstrap(output),
            Pushed::Maintain(output) => Output::Maintain(output),
            Pushed::Ingest(count) => Output::Ingest(count),
            Pushed::Commit(status) => Output::Commit(status),
            Pushed::Assemble(output) => Output::Assemble(output),
            Pushed::Compact(output) => Output::Compact(output),
            Pushed::PrepareSubagent(handle) => Output::PrepareSubagent(handle),
            Pushed::Tool(output) => Output::Tool(output),
            Pushed::MemoryPrompt(text) => Output::MemoryPrompt(text),
        })
    }

    /// Every text in it.
    fn texts(&self) -> Vec<Option<&str>> {
        match self {
            Pushed::Info(info) => {
                let own = [Some(&*info.id), Some(&*info.name), info.version.as_deref()];
                let more = info.host_requirements.iter().map(|(.., message)| message.as_deref());
                own.into_iter().chain(more).collect()
            }
            Pushed::Bootstrap(output) => vec![output.reason.as_deref()],
            Pushed::Maintain(output) => vec![output.reason.as_deref()],
            Pushed::Assemble(output) => vec![
                output.system_prompt_addition.as_deref(),
                output.volatile_prompt_addition.as_deref(),
                output.projection.epoch.as_deref(),
                output.projection.fingerprint.as_deref(),
            ],
            Pushed::Compact(output) => {
                let mut texts = vec![
                    output.reason.as_deref(),
                    output.summary.as_deref(),
                    output.details_json.as_deref(),
                    output.successor_session_id.as_deref(),
                ];
                if let Some(target) = &output.successor_target {
                    texts.extend([
                        target.agent_id.as_deref(),
                        target.session_id.as_deref(),
                        target.session_key.as_deref(),
                        target.store.as_deref(),
                        target.thread_id.as_deref(),
                    ]);
                }
                texts
            }
            Pushed::Tool(output) => vec![Some(&output.text)],
            Pushed::MemoryPrompt(text) => vec![Some(text)],
            Pushed::None | Pushed::Ingest(_) | Pushed::Commit(_) | Pushed::PrepareSubagent(_) => Vec::new(),
        }
    }
}
