//! What a hook pushed, in owned values. Filled by the border, emptied and checked when the hook has returned.

use crate::slot::engine::EngineInfo;
use crate::slot::facts::{AssembleOutput, BootstrapOutput, CompactOutput, MaintainOutput, Tool, ToolOutput};
use crate::slot::services::MemoryHit;
use crate::transcript::Message;
use engine_abi::wire::SpanV1;
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
    pub(crate) fn take(&mut self, more: usize) -> Result<(), String> {
        self.bytes = self.bytes.saturating_add(more);
        if self.bytes > BYTES_MAX {
            return Err(format!("the call pushed more than {BYTES_MAX} bytes"));
        }
        Ok(())
    }
}
