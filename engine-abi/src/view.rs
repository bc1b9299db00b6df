//! What a hook reads: views of what the host lends for the call. Nothing is copied, and nothing outlives the hook.
#![allow(unsafe_code, reason = "views read what the host lent for the duration of the call")]

use crate::codes::{CacheRetention, Reason, Role, RuntimeMode, SelectionSource};
use crate::raw::{self, view};
use crate::wire::{self, CallV1, EntryV1, MessageV1};
use crate::{Error, Result};
use std::marker::PhantomData;
use std::ops::Deref;

/// One row of the projected history: id, role, time, flags and tokens of an entry, without its text.
pub type Head = wire::EntryHeadV1;

view! {
    /// A tool call of the model.
    ToolCall(ToolCallV1) {
        /// Its id.
        text id;
        /// Name of the tool.
        text name;
        /// Arguments, JSON text as the model wrote it.
        text arguments;
    }
}

view! {
    /// The body of a message.
    Body(MessageV1) {
        /// Role.
        code role as Role;
        /// Text; images and other parts appear as short placeholders.
        text text;
        /// Id of the answered call, for tool messages.
        opt_text tool_call_id;
        /// The message's name; mostly absent.
        opt_text name;
    }
}

impl Body {
    /// Tool calls of an assistant message.
    #[must_use]
    pub fn tool_calls(&self) -> &[ToolCall] {
        // SAFETY: `ToolCall` is a transparent wrapper, and the host lent the list for the call.
        unsafe { raw::slice(self.0.tool_calls.cast(), self.0.tool_calls_len) }
    }
}

/// An entry with its body. Reads like its [`Body`].
#[repr(transparent)]
pub struct Entry(EntryV1);

impl Entry {
    /// Its row.
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.0.head
    }

    /// Host-given id, stable for ever.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.0.head.id
    }

    /// # Safety
    ///
    /// The list comes from the host and is valid for `'a`.
    pub(crate) unsafe fn list<'a>(list: wire::EntryList) -> &'a [Entry] {
        // SAFETY: `Entry` is a transparent wrapper; the rest is the caller's promise.
        unsafe { raw::slice(list.ptr.cast(), list.len) }
    }
}

impl Deref for Entry {
    type Target = Body;
    fn deref(&self) -> &Body {
        // SAFETY: `Body` is a transparent wrapper of `MessageV1`.
        unsafe { &*(&raw const self.0.message).cast::<Body>() }
    }
}

/// An entry that was read on demand; valid until the hook returns.
pub struct Lent<'a>(Entry, PhantomData<&'a ()>);

impl Deref for Lent<'_> {
    type Target = Entry;
    fn deref(&self) -> &Entry {
        &self.0
    }
}

/// The projected history of a call: rows at hand, bodies on demand.
#[derive(Clone, Copy)]
pub struct History<'a> {
    heads: &'a [Head],
    call: &'a CallV1,
}

impl<'a> History<'a> {
    pub(crate) fn new(heads: &'a [Head], call: &'a CallV1) -> History<'a> {
        History { heads, call }
    }

    /// All rows, oldest first. Their ids rise strictly.
    #[must_use]
    pub fn heads(&self) -> &'a [Head] {
        self.heads
    }

    /// The entry at `index` of [`History::heads`].
    ///
    /// # Errors
    ///
    /// When there is no such entry, or the call is over.
    pub fn entry(&self, index: usize) -> Result<Lent<'a>> {
        let mut out = std::mem::MaybeUninit::<EntryV1>::uninit();
        match (self.call.entry)(self.call.frame, index, out.as_mut_ptr()) {
            // SAFETY: on `OK` the host has written `out`, and what it points to is valid until the hook returns.
            wire::status::OK => Ok(Lent(Entry(unsafe { out.assume_init() }), PhantomData)),
            status => Err(Error::new(format_args!("entry {index} of {} cannot be read ({status})", self.heads.len()))),
        }
    }

    /// Where the newest whole turns begin that cost at most `budget` tokens together; the length when not even one
    /// fits.
    ///
    /// A turn starts at a row with [`Head::starts_turn`] and is never split. Costs what it keeps, not what is there.
    #[must_use]
    pub fn newest_turns(&self, budget: u64) -> usize {
        let (mut start, mut tokens) = (self.heads.len(), 0u64);
        for (index, head) in self.heads.iter().enumerate().rev() {
            tokens += u64::from(head.tokens);
            if tokens > budget {
                return start;
            }
            if head.starts_turn() {
                start = index;
            }
        }
        0
    }
}

view! {
    /// The session of a call. In hooks that are about no session everything is absent.
    Session(SessionV1) {
        /// Id. An ephemeral turn has a throw-away id.
        text id = session_id;
        /// Key; absent when the engine does not accept `sessionKey`, or the turn has none.
        opt_text key = session_key;
        /// Agent of the session.
        opt_text agent_id;
        /// Working folder of the run.
        opt_text cwd;
        /// True when nothing of this turn is stored.
        flag ephemeral;
        /// True during a heartbeat.
        flag heartbeat;
        /// The context budget in tokens.
        opt_number token_budget;
        /// The measured tokens of the context now.
        opt_number current_token_count;
    }
}

impl Session {
    pub(crate) const NONE: Session = Session(wire::SessionV1 {
        session_id: wire::Str::NONE,
        session_key: wire::Str::NONE,
        agent_id: wire::Str::NONE,
        cwd: wire::Str::NONE,
        target: std::ptr::null(),
        settings: std::ptr::null(),
        prompt_cache: std::ptr::null(),
        ephemeral: 0,
        heartbeat: 0,
        token_budget: wire::NONE_U64,
        current_token_count: wire::NONE_U64,
    });

    /// Where the session lives; absent when the engine does not accept `sessionTarget`.
    #[must_use]
    pub fn target(&self) -> Option<&SessionTarget> {
        // SAFETY: null or lent for the call; the wrapper is transparent.
        unsafe { self.0.target.cast::<SessionTarget>().as_ref() }
    }

    /// Settings of the run; absent when the engine does not accept `runtimeSettings`.
    #[must_use]
    pub fn settings(&self) -> Option<&RuntimeSettings> {
        // SAFETY: null or lent for the call; the wrapper is transparent.
        unsafe { self.0.settings.cast::<RuntimeSettings>().as_ref() }
    }

    /// What is known about the provider's prompt cache.
    #[must_use]
    pub fn prompt_cache(&self) -> Option<&PromptCache> {
        // SAFETY: null or lent for the call; the wrapper is transparent.
        unsafe { self.0.prompt_cache.cast::<PromptCache>().as_ref() }
    }
}

view! {
    /// Where a session lives (`sessionTarget`).
    SessionTarget(SessionTargetV1) {
        /// Agent.
        opt_text agent_id;
        /// Id of the session.
        opt_text session_id;
        /// Key of the session.
        opt_text session_key;
        /// Name of the store, opaque.
        opt_text store;
        /// Thread, where the channel has threads.
        opt_text thread_id;
    }
}

view! {
    /// `runtimeSettings`, schema version 1.
    RuntimeSettings(RuntimeSettingsV1) {
        /// 1.
        number schema_version;
        /// `runtime.mode`.
        code runtime_mode as RuntimeMode;
        /// `runtime.host`.
        opt_text runtime_host;
        /// `runtime.harnessId`.
        opt_text harness_id;
        /// `runtime.runtimeId`.
        opt_text runtime_id;
        /// `model.requested`.
        opt_text model_requested;
        /// `model.resolved`.
        opt_text model_resolved;
        /// `model.provider`.
        opt_text model_provider;
        /// `model.family`.
        opt_text model_family;
        /// `contextEngineSelection.selectedId`.
        opt_text selected_id;
        /// `contextEngineSelection.source`.
        code selection_source as SelectionSource;
        /// `diagnostics.fallbackReason`.
        opt_code fallback_reason as Reason;
        /// `diagnostics.degradedReason`.
        opt_code degraded_reason as Reason;
        /// `executionHost.id`.
        opt_text execution_host_id;
        /// `executionHost.label`.
        opt_text execution_host_label;
        /// `limits.promptTokenBudget`.
        opt_number prompt_token_budget;
        /// `limits.maxOutputTokens`.
        opt_number max_output_tokens;
    }
}

view! {
    /// What the provider told about its prompt cache. Numbers are tokens.
    PromptCache(PromptCacheV1) {
        /// How long it is kept.
        code retention as CacheRetention;
        /// True when the cache broke at the last call.
        flag broke;
        /// `lastCallUsage.input`.
        opt_number input;
        /// `lastCallUsage.output`.
        opt_number output;
        /// `lastCallUsage.cacheRead`.
        opt_number cache_read;
        /// `lastCallUsage.cacheWrite`.
        opt_number cache_write;
        /// `lastCallUsage.total`.
        opt_number total;
        /// `lastCallUsage.contextUsage.promptTokens`.
        opt_number context_prompt_tokens;
        /// `observation.previousCacheRead`.
        opt_number previous_cache_read;
        /// `observation.changes`, JSON text.
        opt_text changes_json;
        /// Last touch, milliseconds since the epoch.
        opt_time last_cache_touch_ms;
        /// When it expires, milliseconds since the epoch.
        opt_time expires_ms;
    }
}

/// A message that is not in the transcript yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    role: Role,
    text: String,
    tool_call_id: Option<String>,
    tool_calls: Vec<[String; 3]>,
}

impl Message {
    /// Of the person.
    pub fn user(text: impl Into<String>) -> Message {
        Message { role: Role::User, text: text.into(), tool_call_id: None, tool_calls: Vec::new() }
    }

    /// Of the model.
    pub fn assistant(text: impl Into<String>) -> Message {
        Message { role: Role::Assistant, ..Message::user(text) }
    }

    /// The result of the tool call `call_id`, which must stand before it.
    pub fn tool(call_id: impl Into<String>, text: impl Into<String>) -> Message {
        Message { role: Role::Tool, tool_call_id: Some(call_id.into()), ..Message::user(text) }
    }

    /// Adds a tool call to an assistant message; its result must follow. `arguments` is JSON text.
    #[must_use]
    pub fn with_call(
        mut self,
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Message {
        self.tool_calls.push([id.into(), name.into(), arguments.into()]);
        self
    }

    /// Lends the message as the wire has it.
    pub(crate) fn lend<T>(&self, take: impl FnOnce(&MessageV1) -> T) -> T {
        let calls: Vec<wire::ToolCallV1> = self
            .tool_calls
            .iter()
            .map(|[id, name, arguments]| wire::ToolCallV1 {
                id: wire::Str::new(id),
                name: wire::Str::new(name),
                arguments: wire::Str::new(arguments),
            })
            .collect();
        take(&MessageV1 {
            role: self.role.code(),
            reserved: 0,
            text: wire::Str::new(&self.text),
            tool_call_id: wire::Str::opt(self.tool_call_id.as_deref()),
            name: wire::Str::NONE,
            tool_calls: calls.as_ptr(),
            tool_calls_len: calls.len(),
        })
    }
}
