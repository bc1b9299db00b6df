//! What a hook pushed, in owned values. Filled by the border, or by what a worker
//! answered, through the same checks; emptied when the hook has returned.

use super::ask;
use super::receive::Bad;
use crate::slot::engine::EngineInfo;
use crate::slot::facts::{AssembleOutput, BootstrapOutput, CompactOutput, MaintainOutput, Tool, ToolOutput};
use crate::slot::services::MemoryHit;
use crate::transcript::Message;
use engine_abi::wire::{SpanV1, capability, host_params, semantics};
use serde_json::Value;
use std::sync::Arc;

/// Most bytes that one call may push.
pub(crate) const BYTES_MAX: usize = 64 * 1024 * 1024;
/// Most messages of its own that one `assemble` may push.
pub(crate) const MESSAGES_MAX: usize = 65_536;
/// Most hits of one memory search.
pub(crate) const HITS_MAX: usize = 100;
/// Most tools of an engine.
pub(crate) const TOOLS_MAX: usize = 256;

/// One push of `assemble`, in order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum RawItem {
    /// Entries by id.
    Span(SpanV1),
    /// A message of the engine's own.
    Message(Arc<Message>),
}

/// The result that a hook owes. Pushed twice counts once, the last.
#[derive(Debug, Default)]
pub(crate) enum Output {
    #[default]
    None,
    Info(EngineInfo),
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

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    pub(crate) output: Output,
    pub(crate) items: Vec<RawItem>,
    /// How many of the items are messages.
    pub(crate) messages: usize,
    pub(crate) tools: Vec<Tool>,
    /// Hits of a memory provider.
    pub(crate) hits: Vec<MemoryHit>,
    /// The reason of a failure, and the token of the host service whose error it is.
    pub(crate) fail: Option<(String, u64)>,
    /// The first push that breaks the contract; the engine may ignore the refusal, the result is invalid all the same.
    pub(crate) invalid: Option<String>,
    /// Bytes taken so far.
    pub(crate) bytes: usize,
}

impl Sink {
    /// Accounts for more bytes.
    fn take(&mut self, more: usize) -> Result<(), Bad> {
        self.bytes = self.bytes.saturating_add(more);
        if self.bytes > BYTES_MAX {
            return Err(format!("the call pushed more than {BYTES_MAX} bytes"));
        }
        Ok(())
    }

    /// May `more` spans follow? They do not overlap, so there are at most as many as entries, and one for the current turn.
    pub(crate) fn room_for_spans(&self, more: usize, entries: usize) -> Result<(), Bad> {
        if self.items.len().saturating_add(more) > entries + 1 + MESSAGES_MAX {
            return Err(format!("more spans than the history's {entries} entries"));
        }
        Ok(())
    }

    /// Takes spans of a history of `entries` entries.
    pub(crate) fn spans(&mut self, spans: &[SpanV1], entries: usize) -> Result<(), Bad> {
        self.room_for_spans(spans.len(), entries)?;
        self.items.extend(spans.iter().map(|span| RawItem::Span(*span)));
        Ok(())
    }

    /// Takes a message of the engine's own.
    pub(crate) fn message(&mut self, message: Message) -> Result<(), Bad> {
        self.take(message.weight())?;
        if self.messages >= MESSAGES_MAX {
            return Err(format!("more than {MESSAGES_MAX} messages"));
        }
        ask::message(&message)?;
        self.messages += 1;
        self.items.push(RawItem::Message(Arc::new(message)));
        Ok(())
    }

    /// Takes a tool; `parameters` is JSON text.
    pub(crate) fn tool(&mut self, name: String, description: String, parameters: &str) -> Result<(), Bad> {
        self.take(name.len() + description.len() + parameters.len())?;
        let name_byte = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if name.is_empty() || name.len() > 64 || !name.bytes().all(name_byte) {
            return Err(format!("a tool's name is {name:?}, not [a-zA-Z0-9_-]{{1,64}}"));
        }
        if self.tools.iter().any(|known| known.name == name) {
            return Err(format!("the tool {name} was given twice"));
        }
        if self.tools.len() >= TOOLS_MAX {
            return Err(format!("more than {TOOLS_MAX} tools"));
        }
        let parameters = match serde_json::from_str(parameters) {
            Ok(Value::Object(object)) => Value::Object(object),
            Ok(_) => return Err(format!("the parameters of tool {name} are no JSON object")),
            Err(error) => return Err(format!("the parameters of tool {name} are not JSON: {error}")),
        };
        self.tools.push(Tool { name, description, parameters });
        Ok(())
    }

    /// May `more` hits follow?
    pub(crate) fn room_for_hits(&self, more: usize) -> Result<(), Bad> {
        if self.hits.len().saturating_add(more) > HITS_MAX {
            return Err(format!("more than {HITS_MAX} hits"));
        }
        Ok(())
    }

    /// Takes a hit of a memory search.
    pub(crate) fn hit(&mut self, hit: MemoryHit) -> Result<(), Bad> {
        self.room_for_hits(1)?;
        self.take(hit.id.len() + hit.text.len())?;
        if !hit.score.is_finite() {
            return Err(format!("the score of hit {:?} is no number", hit.id));
        }
        self.hits.push(hit);
        Ok(())
    }

    /// Takes what the hook owes. What is wrong in an `info` is told all at once, since an author mends all of it at once.
    pub(crate) fn owed(&mut self, output: Output) -> Result<(), Bad> {
        let checked = match &output {
            Output::Info(info) => faults(info),
            Output::Compact(output) => details(output),
            _ => Ok(()),
        };
        if checked.is_ok() || matches!(output, Output::Info(_)) {
            self.output = output;
        }
        checked
    }
}

fn details(output: &CompactOutput) -> Result<(), Bad> {
    if let Some(details) = &output.details_json {
        serde_json::from_str::<&serde_json::value::RawValue>(details)
            .map_err(|error| format!("details is not JSON: {error}"))?;
    }
    Ok(())
}

fn faults(info: &EngineInfo) -> Result<(), Bad> {
    let unknown = |bits: u32, known: u32, what: &str| {
        (bits & !known != 0).then(|| format!("{what} has unknown bits {:#x}", bits & !known))
    };
    let all = (1u32 << capability::NAMES.len()) - 1;
    let own = [
        unknown(info.accepted_host_params, host_params::ALL, "acceptedHostParams"),
        unknown(info.transcript_semantics, semantics::DURABLE, "transcriptSemantics"),
    ];
    let required = info
        .host_requirements
        .iter()
        .map(|requirement| unknown(requirement.required_capabilities, all, "requiredCapabilities"));
    let faults: Vec<Bad> = own.into_iter().chain(required).flatten().collect();
    if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
}
