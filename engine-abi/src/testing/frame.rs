//! The frame of a call, the sinks that fill it, and the few services behind it.

use super::services::host;
use super::{Line, Shared, frame_of};
use crate::MemoryHit;
use crate::raw;
use crate::wire::*;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::Arc;

/// A hook failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// A code from [`crate::wire::status`].
    pub status: u32,
    /// The reason that was pushed.
    pub reason: String,
    /// The host service whose error it is, or 0.
    pub service_token: u64,
}

impl Failure {
    pub(super) fn missing(hook: &str) -> Failure {
        Failure { status: status::OK, reason: format!("{hook} pushed no result"), service_token: 0 }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {}: {}", self.status, self.reason)
    }
}

impl std::error::Error for Failure {}

/// What `info` pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfoSeen {
    /// `id`.
    pub id: String,
    /// `name`.
    pub name: String,
    /// `ownsCompaction`.
    pub owns_compaction: bool,
    /// Bits from [`crate::wire::semantics`].
    pub transcript_semantics: u32,
}

/// One piece of an assembly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Entries from one id to another, both included.
    Span(u64, u64),
    /// A new message: role and text.
    Message(u32, String),
}

/// What `assemble` pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembled {
    /// Entries and messages, in order.
    pub pieces: Vec<Piece>,
    /// `estimatedTokens`.
    pub estimated_tokens: u64,
    /// `systemPromptAddition`.
    pub system_prompt_addition: Option<String>,
    /// `volatilePromptAddition`.
    pub volatile_prompt_addition: Option<String>,
    /// Of each piece that is a message, in order: the calls that it makes, and the call that it answers.
    pub calls: Vec<(Vec<[String; 3]>, Option<String>)>,
}

impl Assembled {
    /// Ids of the entries of `history` that the model would see, in the order in which it would see them.
    #[must_use]
    pub fn ids(&self, history: &[Line]) -> Vec<u64> {
        let spans = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Span(first, last) => Some(*first..=*last),
            Piece::Message(..) => None,
        });
        spans.flat_map(|span| history.iter().map(|line| line.id).filter(move |id| span.contains(id))).collect()
    }
}

/// What `compact` pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// `ok`.
    pub ok: bool,
    /// `compacted`.
    pub compacted: bool,
    /// `reason`.
    pub reason: Option<String>,
    /// `summary`.
    pub summary: Option<String>,
    /// `firstKeptEntryId`, or 0.
    pub first_kept_entry_id: u64,
    /// `tokensBefore` and `tokensAfter`.
    pub tokens: (Option<u64>, Option<u64>),
}

/// What a call has pushed so far.
#[derive(Clone, Default)]
pub(super) struct Out {
    failure: Option<(String, u64)>,
    pub(super) info: Option<InfoSeen>,
    pub(super) pieces: Vec<Piece>,
    pub(super) calls: Vec<(Vec<[String; 3]>, Option<String>)>,
    pub(super) assembled: Option<Assembled>,
    pub(super) compacted: Option<Compacted>,
    pub(super) ingested: Option<u64>,
    pub(super) committed: Option<u32>,
    pub(super) imported: Option<u64>,
    pub(super) prepared: Option<u64>,
    pub(super) tools: Vec<(String, String, String)>,
    pub(super) said: Option<(String, bool)>,
    pub(super) section: Option<String>,
    pub(super) hits: Vec<MemoryHit>,
}

/// Id of the session that there is when no other is named.
pub(super) const SESSION_ID: &str = "session";
/// Its key.
pub(super) const SESSION_KEY: &str = "test:session";

/// Time of a call, unless a test says otherwise.
const A_MINUTE_MS: i64 = 60_000;

/// Entries as the wire has them, with what they point to.
pub(super) struct Lent {
    pub(super) entries: Vec<EntryV1>,
    lines: Vec<(Line, Box<[ToolCallV1]>)>,
}

impl Lent {
    pub(super) fn of(lines: &[Line]) -> Lent {
        // The texts and the calls are on the heap, so moving the lines does not move them.
        let lend = |line: Line| {
            let calls = line.lend_calls();
            (line, calls)
        };
        let lines: Vec<_> = lines.iter().cloned().map(lend).collect();
        Lent { entries: lines.iter().map(|(line, calls)| line.entry(calls)).collect(), lines }
    }
}

pub(super) struct Frame {
    pub(super) shared: Arc<Shared>,
    entries: Vec<EntryV1>,
    /// What the entries point to.
    _lines: Vec<(Line, Box<[ToolCallV1]>)>,
    session: SessionV1,
    /// Id of the session, whose scope of the store is the call's, and its key.
    pub(super) names: (String, String),
    /// The current turn begins with this entry; 0 for none.
    pub(super) fence: Cell<u64>,
    /// Last entry that was given through the cursor.
    pub(super) read_up_to: Cell<u64>,
    /// When the call ends at the latest, by the clock of the world.
    pub(super) deadline_ms: Cell<i64>,
    /// Checks of the cancel signal before it fires.
    pub(super) checks: Cell<u64>,
    /// Pages that were lent.
    pub(super) pages: RefCell<Vec<Lent>>,
    /// Lists of texts that were lent.
    pub(super) lists: RefCell<Vec<Box<[Str]>>>,
    out: RefCell<Out>,
    pub(super) error: RefCell<Option<String>>,
    lent: RefCell<Vec<Box<[u8]>>>,
    pub(super) pairs: RefCell<Vec<Box<[StorePairV1]>>>,
}

impl Frame {
    pub(super) fn new(shared: &Arc<Shared>, lines: &[Line], token_budget: Option<u64>) -> Frame {
        Frame::of(shared, lines, token_budget, (SESSION_ID, SESSION_KEY))
    }

    /// A frame of a session with this id and key.
    pub(super) fn of(
        shared: &Arc<Shared>,
        lines: &[Line],
        token_budget: Option<u64>,
        (id, key): (&str, &str),
    ) -> Frame {
        let names = (id.to_owned(), key.to_owned());
        let Lent { entries, lines } = Lent::of(lines);
        Frame {
            shared: Arc::clone(shared),
            entries,
            _lines: lines,
            session: SessionV1 {
                // The names are on the heap, so moving the frame does not move them.
                session_id: Str::new(&names.0),
                session_key: Str::new(&names.1),
                token_budget: token_budget.unwrap_or(NONE_U64),
                ..crate::Session::NONE.0
            },
            names,
            fence: Cell::new(0),
            read_up_to: Cell::new(0),
            deadline_ms: Cell::new(shared.elapsed_ms().saturating_add(A_MINUTE_MS)),
            checks: Cell::new(u64::MAX),
            pages: RefCell::default(),
            lists: RefCell::default(),
            out: RefCell::default(),
            error: RefCell::default(),
            lent: RefCell::default(),
            pairs: RefCell::default(),
        }
    }

    /// Nothing of this call's turn is stored.
    pub(super) fn ephemeral(mut self, ephemeral: bool) -> Frame {
        self.session.ephemeral = ephemeral.into();
        self
    }

    /// Milliseconds until the deadline.
    pub(super) fn remaining_ms(&self) -> u64 {
        u64::try_from(self.deadline_ms.get() - self.shared.elapsed_ms()).unwrap_or(0)
    }

    pub(super) fn as_wire(&self) -> *const FrameV1 {
        std::ptr::from_ref(self).cast()
    }

    pub(super) fn call(&self) -> CallV1 {
        CallV1 {
            frame: self.as_wire(),
            sink: &raw const SINK,
            host: host(self.shared.model().is_some()),
            entry: entry_at,
            cancelled,
            remaining_ms,
        }
    }

    pub(super) fn session(&self) -> *const SessionV1 {
        &raw const self.session
    }

    pub(super) fn heads(&self) -> Vec<EntryHeadV1> {
        self.entries.iter().map(|entry| entry.head).collect()
    }

    pub(super) fn list(&self) -> EntryList {
        EntryList { ptr: self.entries.as_ptr(), len: self.entries.len() }
    }

    pub(super) fn out(&self) -> Out {
        self.out.borrow().clone()
    }

    pub(super) fn result(&self, answer: u32) -> Result<(), Failure> {
        if answer == status::OK {
            return Ok(());
        }
        let (reason, service_token) = self.out.borrow().failure.clone().unwrap_or_default();
        Err(Failure { status: answer, reason, service_token })
    }

    pub(super) fn fail(&self, answer: u32, reason: &str) -> u32 {
        *self.error.borrow_mut() = Some(reason.to_owned());
        answer
    }

    /// Keeps bytes alive until the call is over.
    pub(super) fn lend(&self, bytes: &[u8]) -> Bytes {
        let kept: Box<[u8]> = bytes.into();
        let lent = Bytes::new(&kept);
        self.lent.borrow_mut().push(kept);
        lent
    }
}

/// What a library registered, by id.
#[derive(Default)]
pub(super) struct Registered {
    pub(super) engines: Vec<(String, FactoryV1)>,
    pub(super) memory: Vec<(String, MemoryFactoryV1)>,
}

/// Runs `register` of an entry and gives what it registered.
pub(super) fn register(entry: &EntryPointV1) -> Result<Registered, Failure> {
    #[derive(Default)]
    struct Desk {
        registered: RefCell<Registered>,
        reason: RefCell<String>,
    }
    extern "C" fn engine(context: *const u8, id: Str, factory: *const FactoryV1) -> u32 {
        // SAFETY: `context` is the desk below; the engine lends the rest for the call.
        let (desk, id, factory) = unsafe { (&*context.cast::<Desk>(), owned(id), *factory) };
        desk.registered.borrow_mut().engines.push((id.unwrap_or_default(), factory));
        status::OK
    }
    extern "C" fn memory(context: *const u8, id: Str, factory: *const MemoryFactoryV1) -> u32 {
        // SAFETY: as above.
        let (desk, id, factory) = unsafe { (&*context.cast::<Desk>(), owned(id), *factory) };
        desk.registered.borrow_mut().memory.push((id.unwrap_or_default(), factory));
        status::OK
    }
    extern "C" fn fail(context: *const u8, message: Str) -> u32 {
        // SAFETY: as above.
        let (desk, message) = unsafe { (&*context.cast::<Desk>(), owned(message)) };
        *desk.reason.borrow_mut() = message.unwrap_or_default();
        status::OK
    }
    let desk = Desk::default();
    let registrar = RegistrarV1 {
        context: std::ptr::from_ref(&desk).cast(),
        host: host(false),
        register_engine: engine,
        register_memory: memory,
        fail,
    };
    match (entry.register)(&raw const registrar) {
        status::OK => Ok(desk.registered.take()),
        status => Err(Failure { status, reason: desk.reason.take(), service_token: 0 }),
    }
}

/// # Safety
///
/// `text` is lent by the engine under test, which is trusted with its UTF-8 only as far as a test can be.
pub(super) unsafe fn owned(text: Str) -> Option<String> {
    if text.is_none() {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(String::from_utf8_lossy(unsafe { raw::slice(text.ptr, text.len) }).into_owned())
}

extern "C" fn entry_at(frame: *const FrameV1, index: usize, out: *mut EntryV1) -> u32 {
    // SAFETY: the frame of the running call; `out` is the engine's.
    match unsafe { frame_of(frame) }.entries.get(index) {
        Some(entry) => {
            // SAFETY: as above.
            unsafe { out.write(*entry) };
            status::OK
        }
        None => status::NOT_FOUND,
    }
}
extern "C" fn cancelled(frame: *const FrameV1) -> u32 {
    // SAFETY: the frame of the running call.
    let checks = &unsafe { frame_of(frame) }.checks;
    checks.set(checks.get().saturating_sub(1));
    // SAFETY: as above.
    u32::from(checks.get() == 0 || unsafe { frame_of(frame) }.remaining_ms() == 0)
}
extern "C" fn remaining_ms(frame: *const FrameV1) -> u64 {
    // SAFETY: the frame of the running call.
    unsafe { frame_of(frame) }.remaining_ms()
}

/// A sink that stores what was pushed.
macro_rules! sink {
    ($($name:ident($value:ident: $type:ty $(, $more:ident: $more_type:ty)*) |$out:ident| $body:expr;)*) => {$(
        extern "C" fn $name(frame: *const FrameV1, $value: $type $(, $more: $more_type)*) -> u32 {
            // SAFETY: the frame of the running call.
            let $out = &mut *unsafe { frame_of(frame) }.out.borrow_mut();
            // SAFETY: what the engine lends is valid during the push.
            unsafe { $body };
            status::OK
        }
    )*};
}

sink! {
    fail(message: Str, token: u64) |out| out.failure = Some((owned(message).unwrap_or_default(), token));
    info(info: *const InfoV1) |out| out.info = Some(InfoSeen {
        id: owned((*info).id).unwrap_or_default(),
        name: owned((*info).name).unwrap_or_default(),
        owns_compaction: (*info).owns_compaction == 1,
        transcript_semantics: (*info).transcript_semantics,
    });
    ingest(result: *const IngestResultV1) |out| out.ingested = Some((*result).ingested_count);
    commit(result: *const CommitResultV1) |out| out.committed = Some((*result).status);
    spans(spans: *const SpanV1, len: usize) |out| {
        out.pieces.extend(raw::slice(spans, len).iter().map(|span| Piece::Span(span.first, span.last)));
    };
    message(message: *const MessageV1) |out| {
        out.pieces.push(Piece::Message((*message).role, owned((*message).text).unwrap_or_default()));
        let calls = raw::slice((*message).tool_calls, (*message).tool_calls_len).iter();
        let calls = calls.map(|call| [call.id, call.name, call.arguments].map(|text| owned(text).unwrap_or_default()));
        out.calls.push((calls.collect(), owned((*message).tool_call_id)));
    };
    assemble(result: *const AssembleResultV1) |out| out.assembled = Some(Assembled {
        pieces: Vec::new(),
        calls: Vec::new(),
        estimated_tokens: (*result).estimated_tokens,
        system_prompt_addition: owned((*result).system_prompt_addition),
        volatile_prompt_addition: owned((*result).volatile_prompt_addition),
    });
    compact(result: *const CompactResultV1) |out| out.compacted = Some(Compacted {
        ok: (*result).ok == 1,
        compacted: (*result).compacted == 1,
        reason: owned((*result).reason),
        summary: owned((*result).summary),
        first_kept_entry_id: (*result).first_kept_entry_id,
        tokens: (raw::number((*result).tokens_before), raw::number((*result).tokens_after)),
    });
    bootstrap(result: *const BootstrapResultV1) |out| out.imported = Some((*result).imported_messages);
    prepare_subagent(result: *const PrepareSubagentResultV1) |out| out.prepared = Some((*result).rollback_handle);
    tool(tool: *const ToolV1) |out| out.tools.push((
        owned((*tool).name).unwrap_or_default(),
        owned((*tool).description).unwrap_or_default(),
        owned((*tool).parameters_json).unwrap_or_default(),
    ));
    tool_result(result: *const ToolResultV1) |out| {
        out.said = Some((owned((*result).text).unwrap_or_default(), (*result).is_error == 1));
    };
    memory_prompt(text: Str) |out| out.section = owned(text);
    memory_hits(hits: *const MemoryHitV1, len: usize) |out| {
        out.hits.extend(raw::slice(hits, len).iter().map(|hit| MemoryHit {
            id: owned(hit.id).unwrap_or_default(),
            text: owned(hit.text).unwrap_or_default(),
            score: hit.score,
            time_ms: raw::time(hit.time_ms),
        }));
    };
}

/// Sinks of hooks that this host does not call.
macro_rules! ignored {
    ($($name:ident($($type:ty),*);)*) => {
        $(extern "C" fn $name(_: *const FrameV1 $(, _: $type)*) -> u32 { status::OK })*
    };
}

ignored! {
    maintain(*const MaintainResultV1);
}

pub(super) static SINK: SinkV1 = SinkV1 {
    fail,
    info,
    bootstrap,
    maintain,
    ingest,
    commit,
    spans,
    message,
    assemble,
    compact,
    prepare_subagent,
    tool,
    tool_result,
    memory_prompt,
    memory_hits,
};
