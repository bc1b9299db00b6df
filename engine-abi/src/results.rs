//! What a hook gives back, and how it is pushed to the host.

use crate::codes::{MaintenanceMode, Operation, PromptAuthority};
use crate::view::{Head, Message};
use crate::wire::{self, CallV1, NONE_U64, Str, status};
use crate::{Error, Result};

/// Turns the answer of a sink into a result.
pub(crate) fn pushed(answer: u32) -> Result<()> {
    if answer == status::OK { Ok(()) } else { Err(Error::sink(answer)) }
}

/// Who an engine is and what it needs.
#[derive(Clone, Debug)]
pub struct Info {
    id: String,
    name: String,
    version: Option<String>,
    owns_compaction: bool,
    maintenance: MaintenanceMode,
    accepted: u32,
    requirements: Vec<(Operation, u32, Option<String>)>,
}

impl Info {
    /// An engine that leaves compaction to the host, maintains in the foreground and accepts every host parameter.
    pub fn new(id: impl Into<String>, name: impl Into<String>) -> Info {
        Info {
            id: id.into(),
            name: name.into(),
            version: None,
            owns_compaction: false,
            maintenance: MaintenanceMode::Foreground,
            accepted: wire::host_params::ALL,
            requirements: Vec::new(),
        }
    }

    /// Its version.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Info {
        self.version = Some(version.into());
        self
    }

    /// The engine compacts by itself: the host's automatic compaction and its precheck are off.
    #[must_use]
    pub fn owns_compaction(mut self) -> Info {
        self.owns_compaction = true;
        self
    }

    /// `maintain` is queued and never delays a reply.
    #[must_use]
    pub fn background_maintenance(mut self) -> Info {
        self.maintenance = MaintenanceMode::Background;
        self
    }

    /// The host parameters that it wants, bits of [`crate::wire::host_params`]; 0 for none of them.
    #[must_use]
    pub fn accepts(mut self, host_params: u32) -> Info {
        self.accepted = host_params;
        self
    }

    /// What `operation` needs of the host, bits of [`crate::wire::capability`]; the host refuses the operation where it
    /// has them not, with `message`.
    #[must_use]
    pub fn requires(mut self, operation: Operation, capabilities: u32, message: Option<&str>) -> Info {
        self.requirements.push((operation, capabilities, message.map(str::to_owned)));
        self
    }

    pub(crate) fn push(&self, call: &CallV1, sink: &wire::SinkV1, transcript_semantics: u32) -> Result<()> {
        let requirements: Vec<wire::HostRequirementV1> = self
            .requirements
            .iter()
            .map(|(operation, capabilities, message)| wire::HostRequirementV1 {
                operation: operation.code(),
                required_capabilities: *capabilities,
                unsupported_message: Str::opt(message.as_deref()),
            })
            .collect();
        pushed((sink.info)(
            call.frame,
            &wire::InfoV1 {
                id: Str::new(&self.id),
                name: Str::new(&self.name),
                version: Str::opt(self.version.as_deref()),
                owns_compaction: self.owns_compaction.into(),
                turn_maintenance_mode: self.maintenance.code(),
                accepted_host_params: self.accepted,
                transcript_semantics,
                host_requirements: requirements.as_ptr(),
                host_requirements_len: requirements.len(),
            },
        ))
    }
}

/// What the model shall see: entries of the history and new messages, in the order in which they are added.
///
/// The host appends the current turn, unless its id was placed here. Tool calls and their results must stay together.
#[derive(Clone, Debug, Default)]
pub struct Assembly {
    pieces: Vec<Piece>,
    tokens: u64,
    estimated_tokens: Option<u64>,
    system_prompt: Option<String>,
    volatile_prompt: Option<String>,
    authority: PromptAuthority,
    thread: Option<(Option<String>, Option<String>)>,
}

#[derive(Clone, Debug)]
enum Piece {
    Span(wire::SpanV1),
    Message(Message),
}

impl Assembly {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Assembly {
        Assembly::default()
    }

    /// Adds neighbouring rows of the history, and their tokens to the estimate. Nothing when `heads` is empty.
    #[must_use]
    pub fn keep(mut self, heads: &[Head]) -> Assembly {
        self.tokens += heads.iter().map(|head| u64::from(head.tokens)).sum::<u64>();
        match heads {
            [] => self,
            [only] => self.span(only.id, only.id),
            [first, .., last] => self.span(first.id, last.id),
        }
    }

    /// Adds every entry with `first <= id <= last`; both must be entries of the history, or both the current turn.
    #[must_use]
    pub fn span(mut self, first: u64, last: u64) -> Assembly {
        self.pieces.push(Piece::Span(wire::SpanV1 { first, last }));
        self
    }

    /// Adds a new message.
    #[must_use]
    pub fn message(mut self, message: Message) -> Assembly {
        self.pieces.push(Piece::Message(message));
        self
    }

    /// What the whole costs, when the engine knows it better than the sum of what [`Assembly::keep`] added.
    #[must_use]
    pub fn estimated_tokens(mut self, tokens: u64) -> Assembly {
        self.estimated_tokens = Some(tokens);
        self
    }

    /// Prepends to the system prompt. Changing it from turn to turn spoils the provider's prompt cache.
    #[must_use]
    pub fn system_prompt(mut self, text: impl Into<String>) -> Assembly {
        self.system_prompt = Some(text.into());
        self
    }

    /// Puts a block at the head of the current user message as sent. It may change every turn; it is never stored.
    #[must_use]
    pub fn volatile_prompt(mut self, text: impl Into<String>) -> Assembly {
        self.volatile_prompt = Some(text.into());
        self
    }

    /// `promptAuthority`.
    #[must_use]
    pub fn authority(mut self, authority: PromptAuthority) -> Assembly {
        self.authority = authority;
        self
    }

    /// `contextProjection` with mode `thread_bootstrap`: inject once per epoch into a persistent backend thread.
    #[must_use]
    pub fn thread_bootstrap(mut self, epoch: Option<&str>, fingerprint: Option<&str>) -> Assembly {
        self.thread = Some((epoch.map(str::to_owned), fingerprint.map(str::to_owned)));
        self
    }

    pub(crate) fn push(&self, call: &CallV1, sink: &wire::SinkV1) -> Result<()> {
        let mut spans: Vec<wire::SpanV1> = Vec::with_capacity(self.pieces.len());
        let flush = |spans: &mut Vec<wire::SpanV1>| {
            let answer =
                if spans.is_empty() { status::OK } else { (sink.spans)(call.frame, spans.as_ptr(), spans.len()) };
            spans.clear();
            pushed(answer)
        };
        for piece in &self.pieces {
            match piece {
                Piece::Span(span) => spans.push(*span),
                Piece::Message(message) => {
                    flush(&mut spans)?;
                    pushed(message.lend(|message| (sink.message)(call.frame, message)))?;
                }
            }
        }
        flush(&mut spans)?;
        let (epoch, fingerprint) = self.thread.as_ref().map_or((None, None), |(a, b)| (a.as_deref(), b.as_deref()));
        pushed((sink.assemble)(
            call.frame,
            &wire::AssembleResultV1 {
                estimated_tokens: self.estimated_tokens.unwrap_or(self.tokens),
                system_prompt_addition: Str::opt(self.system_prompt.as_deref()),
                volatile_prompt_addition: Str::opt(self.volatile_prompt.as_deref()),
                prompt_authority: self.authority.code(),
                projection_mode: match self.thread {
                    None => wire::projection_mode::PER_TURN,
                    Some(_) => wire::projection_mode::THREAD_BOOTSTRAP,
                },
                projection_epoch: Str::opt(epoch),
                projection_fingerprint: Str::opt(fingerprint),
            },
        ))
    }
}

/// What `compact` did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Compaction {
    /// The call did what it could.
    pub ok: bool,
    /// The context is smaller now.
    pub compacted: bool,
    /// Why not, or a remark.
    pub reason: Option<String>,
    /// The summary.
    pub summary: Option<String>,
    /// The first entry that stays.
    pub first_kept_entry_id: Option<u64>,
    /// Tokens before.
    pub tokens_before: Option<u64>,
    /// Tokens after.
    pub tokens_after: Option<u64>,
    /// Details, JSON text.
    pub details_json: Option<String>,
    /// Id of a successor session.
    pub successor_session_id: Option<String>,
    /// Where the successor lives.
    pub successor: Option<Successor>,
}

/// The place of a successor session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Successor {
    /// Agent.
    pub agent_id: Option<String>,
    /// Id of the session.
    pub session_id: Option<String>,
    /// Key of the session.
    pub session_key: Option<String>,
    /// Name of the store.
    pub store: Option<String>,
    /// Thread.
    pub thread_id: Option<String>,
}

impl Compaction {
    /// There was nothing to do. Unsafe for an engine that does not own compaction: it should delegate.
    pub fn nothing(reason: impl Into<String>) -> Compaction {
        Compaction { ok: true, reason: Some(reason.into()), ..Compaction::default() }
    }

    /// Done: everything before `first_kept_entry_id` is now `summary`.
    pub fn done(
        summary: impl Into<String>,
        first_kept_entry_id: u64,
        tokens_before: u64,
        tokens_after: u64,
    ) -> Compaction {
        Compaction {
            ok: true,
            compacted: true,
            summary: Some(summary.into()),
            first_kept_entry_id: Some(first_kept_entry_id),
            tokens_before: Some(tokens_before),
            tokens_after: Some(tokens_after),
            ..Compaction::default()
        }
    }

    /// Queued for the background: accepted, not done. Only for an owning engine, and never at preflight or overflow.
    #[must_use]
    pub fn deferred() -> Compaction {
        Compaction { ok: true, reason: Some("deferred_background".to_owned()), ..Compaction::default() }
    }

    pub(crate) fn push(&self, call: &CallV1, sink: &wire::SinkV1) -> Result<()> {
        let target = self.successor.as_ref().map(|place| wire::SessionTargetV1 {
            agent_id: Str::opt(place.agent_id.as_deref()),
            session_id: Str::opt(place.session_id.as_deref()),
            session_key: Str::opt(place.session_key.as_deref()),
            store: Str::opt(place.store.as_deref()),
            thread_id: Str::opt(place.thread_id.as_deref()),
        });
        pushed((sink.compact)(
            call.frame,
            &wire::CompactResultV1 {
                ok: self.ok.into(),
                compacted: self.compacted.into(),
                reason: Str::opt(self.reason.as_deref()),
                summary: Str::opt(self.summary.as_deref()),
                first_kept_entry_id: self.first_kept_entry_id.unwrap_or(0),
                tokens_before: self.tokens_before.unwrap_or(NONE_U64),
                tokens_after: self.tokens_after.unwrap_or(NONE_U64),
                details_json: Str::opt(self.details_json.as_deref()),
                successor_session_id: Str::opt(self.successor_session_id.as_deref()),
                successor_target: target.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
            },
        ))
    }
}

/// What `bootstrap` did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bootstrapped {
    /// The engine took up the session.
    pub bootstrapped: bool,
    /// How many messages it took over.
    pub imported_messages: Option<u64>,
    /// Why not, or a remark.
    pub reason: Option<String>,
}

impl Bootstrapped {
    pub(crate) fn push(&self, call: &CallV1, sink: &wire::SinkV1) -> Result<()> {
        pushed((sink.bootstrap)(
            call.frame,
            &wire::BootstrapResultV1 {
                bootstrapped: self.bootstrapped.into(),
                reserved: 0,
                imported_messages: self.imported_messages.unwrap_or(NONE_U64),
                reason: Str::opt(self.reason.as_deref()),
            },
        ))
    }
}

/// What `maintain` or a rewrite did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maintained {
    /// Something changed.
    pub changed: bool,
    /// Bytes saved.
    pub bytes_freed: u64,
    /// Entries rewritten.
    pub rewritten_entries: u64,
    /// Why not, or a remark.
    pub reason: Option<String>,
}

impl Maintained {
    pub(crate) fn push(&self, call: &CallV1, sink: &wire::SinkV1) -> Result<()> {
        pushed((sink.maintain)(
            call.frame,
            &wire::MaintainResultV1 {
                changed: self.changed.into(),
                reserved: 0,
                bytes_freed: self.bytes_freed,
                rewritten_entries: self.rewritten_entries,
                reason: Str::opt(self.reason.as_deref()),
            },
        ))
    }
}

/// A tool that the engine gives to the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Name, `[a-zA-Z0-9_-]{1,64}`.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters_json: String,
}

impl Tool {
    pub(crate) fn push(&self, call: &CallV1, sink: &wire::SinkV1) -> Result<()> {
        pushed((sink.tool)(
            call.frame,
            &wire::ToolV1 {
                name: Str::new(&self.name),
                description: Str::new(&self.description),
                parameters_json: Str::new(&self.parameters_json),
            },
        ))
    }
}

/// What a tool says to the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolReply {
    /// The text.
    pub text: String,
    /// The call failed in a way that the model should read about.
    pub is_error: bool,
}

impl ToolReply {
    pub(crate) fn push(&self, call: &CallV1, sink: &wire::SinkV1) -> Result<()> {
        let result = wire::ToolResultV1 { text: Str::new(&self.text), is_error: self.is_error.into(), reserved: 0 };
        pushed((sink.tool_result)(call.frame, &result))
    }
}
