//! Pairs of pointer and length, and the transcript as an engine sees it.

use abi_stable::StableAbi;

/// Borrowed UTF-8 text. `ptr` is null when the text is absent; an empty text has a non-null `ptr` and length 0.
///
/// Host to engine: always valid UTF-8. Engine to host: checked by the host while it is received.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct Str {
    /// First byte, or null when absent.
    pub ptr: *const u8,
    /// Length in bytes.
    pub len: usize,
}

impl Str {
    /// The absent text.
    pub const NONE: Str = Str { ptr: std::ptr::null(), len: 0 };

    /// Borrows `text`. The result is valid as long as `text` is.
    pub const fn new(text: &str) -> Str {
        Str { ptr: text.as_ptr(), len: text.len() }
    }

    /// Borrows `text`, or gives [`Str::NONE`].
    pub fn opt(text: Option<&str>) -> Str {
        text.map_or(Str::NONE, Str::new)
    }

    /// True when the text is absent.
    pub const fn is_none(&self) -> bool {
        self.ptr.is_null()
    }
}

/// Borrowed bytes; same rules as [`Str`] without the encoding.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct Bytes {
    /// First byte, or null when absent.
    pub ptr: *const u8,
    /// Length in bytes.
    pub len: usize,
}

impl Bytes {
    /// The absent value.
    pub const NONE: Bytes = Bytes { ptr: std::ptr::null(), len: 0 };

    /// Borrows `bytes`.
    pub const fn new(bytes: &[u8]) -> Bytes {
        Bytes { ptr: bytes.as_ptr(), len: bytes.len() }
    }
}

/// Borrowed list of texts.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct StrList {
    /// First element, or null when the list is absent.
    pub ptr: *const Str,
    /// Number of elements.
    pub len: usize,
}

impl StrList {
    /// The absent list.
    pub const NONE: StrList = StrList { ptr: std::ptr::null(), len: 0 };

    /// Borrows `list`.
    pub const fn new(list: &[Str]) -> StrList {
        StrList { ptr: list.as_ptr(), len: list.len() }
    }
}

/// An unknown or absent number wherever a field says so.
pub const NONE_U64: u64 = u64::MAX;

/// One entry of the projected history, as a row of a flat array: what an engine needs to choose, without the text.
///
/// Entries are in the order of the conversation; `id` rises strictly along the array.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct EntryHeadV1 {
    /// Host-given id, stable for ever, never 0.
    pub id: u64,
    /// Milliseconds since the Unix epoch.
    pub time_ms: i64,
    /// Tokens that the entry costs as it would be sent, framing included.
    pub tokens: u32,
    /// A code from [`crate::role`].
    pub role: u32,
    /// Bits from [`crate::entry_flags`].
    pub flags: u32,
    /// Size of its text in bytes.
    pub text_bytes: u32,
}

impl EntryHeadV1 {
    /// True when all bits of `flags` are set.
    pub const fn has(&self, flags: u32) -> bool {
        self.flags & flags == flags
    }

    /// True when a turn starts with this entry.
    pub const fn starts_turn(&self) -> bool {
        self.has(crate::entry_flags::TURN_START)
    }
}

/// A tool call of an assistant entry or message. All text is borrowed.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct ToolCallV1 {
    /// The call's id.
    pub id: Str,
    /// Name of the tool.
    pub name: Str,
    /// Arguments, JSON text as the model wrote it.
    pub arguments: Str,
}

/// A whole message: the body of an entry, or a new message that an engine adds to the prompt.
///
/// A `tool` message names the call it answers in `tool_call_id`. System and developer roles are not allowed: an engine
/// adds to the system prompt through [`crate::AssembleResultV1::system_prompt_addition`].
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct MessageV1 {
    /// A code from [`crate::role`].
    pub role: u32,
    /// Zero.
    pub reserved: u32,
    /// Text of the message; images and other parts appear as short placeholders.
    pub text: Str,
    /// Id of the answered call, for `tool` messages; else absent.
    pub tool_call_id: Str,
    /// The message's `name`; mostly absent.
    pub name: Str,
    /// Tool calls of an assistant message.
    pub tool_calls: *const ToolCallV1,
    /// Number of tool calls.
    pub tool_calls_len: usize,
}

/// An entry with its body, as it is handed to `ingest`, `ingestBatch`, `commitTurn` and `afterTurn`.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct EntryV1 {
    /// The row.
    pub head: EntryHeadV1,
    /// The body.
    pub message: MessageV1,
}

/// Borrowed list of entries.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct EntryList {
    /// First entry; dangling when `len` is 0.
    pub ptr: *const EntryV1,
    /// Number of entries.
    pub len: usize,
}

/// A closed range of entry ids of the projection: every entry with `first <= id <= last`. Both ends must be entries of
/// it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, StableAbi)]
pub struct SpanV1 {
    /// Id of the first entry.
    pub first: u64,
    /// Id of the last entry.
    pub last: u64,
}

/// Where a session lives (`sessionTarget`).
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct SessionTargetV1 {
    /// Agent of the session.
    pub agent_id: Str,
    /// Id of the session.
    pub session_id: Str,
    /// Key of the session.
    pub session_key: Str,
    /// Name of the store that holds it (`storePath`): opaque, equal for sessions of one store.
    pub store: Str,
    /// Thread of the session, where the channel has threads; else absent.
    pub thread_id: Str,
}

/// A fixed place in the transcript (`TranscriptEntryAnchor`).
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct AnchorV1 {
    /// Entry id.
    pub entry_id: u64,
    /// Number of the row in the store; rises with every append.
    pub raw_seq: u64,
    /// Id of the parent on the active branch, or 0 at the root.
    pub effective_parent_id: u64,
    /// Position among the messages of the active branch, from 0.
    pub active_message_position: u64,
    /// Changes when the transcript is rewritten; cursors of another generation are refused.
    pub generation: u64,
    /// Idempotency key of the request that brought it; mostly absent.
    pub idempotency_key: Str,
}
