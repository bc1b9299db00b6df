//! What a hook is asked: the arguments of each, as views.
#![allow(unsafe_code, reason = "views read what the host lent for the duration of the call")]

use crate::codes::{CitationsMode, CompactionTarget, ForceReason, SessionEnd, SubagentContext, SubagentEnd, Trigger};
use crate::raw::{self, view};
use crate::view::{Body, Entry, History};
use crate::wire::{self, CallV1};
use std::ops::Deref;

view! {
    /// The current user turn.
    Prompt(PromptV1) {
        /// Tokens of the whole current turn as it will be sent.
        number tokens;
    }
}

impl Prompt {
    /// Id of its entry; `None` when nothing is stored. An engine may place the turn itself by this id, exactly once.
    #[must_use]
    pub fn entry_id(&self) -> Option<u64> {
        (self.0.entry_id != 0).then_some(self.0.entry_id)
    }
}

impl Deref for Prompt {
    type Target = Body;
    fn deref(&self) -> &Body {
        // SAFETY: `Body` is a transparent wrapper of `MessageV1`.
        unsafe { &*(&raw const self.0.message).cast::<Body>() }
    }
}

/// Declares the arguments of a hook that carry a projected history.
macro_rules! with_history {
    ($name:ident) => {
        impl $name<'_> {
            /// The projected history.
            #[must_use]
            pub fn history(&self) -> History<'_> {
                // SAFETY: the host lent the array for the call.
                let heads = unsafe { raw::slice(self.args.0.entries, self.args.0.entries_len) };
                History::new(heads, self.call)
            }
        }
    };
}

view! {
    /// The plain fields of [`AssembleRequest`].
    AssembleArgs(AssembleArgsV1) {
        /// Tokens of the system and developer prompts, for information: the budget has them off already.
        number system_tokens;
        /// Model that will be called.
        opt_text model;
        /// `citationsMode`.
        code citations_mode as CitationsMode;
    }
}

/// What `assemble` is asked: the history before the current turn, and the current turn.
///
/// The budget is [`crate::Session::token_budget`], system prompt and current turn taken off.
pub struct AssembleRequest<'a> {
    args: &'a AssembleArgs,
    call: &'a CallV1,
}

with_history!(AssembleRequest);

impl<'a> AssembleRequest<'a> {
    /// # Safety
    ///
    /// Both come from the host and are valid for `'a`.
    pub(crate) unsafe fn new(args: *const wire::AssembleArgsV1, call: &'a CallV1) -> Self {
        // SAFETY: the caller's promise; the wrapper is transparent.
        AssembleRequest { args: unsafe { &*args.cast() }, call }
    }

    /// The current turn; absent when the engine does not accept `prompt` or the turn has none.
    #[must_use]
    pub fn prompt(&self) -> Option<&Prompt> {
        // SAFETY: null or lent for the call; the wrapper is transparent.
        unsafe { self.args.0.prompt.cast::<Prompt>().as_ref() }
    }

    /// Names of the tools that the model will be offered.
    pub fn available_tools(&self) -> impl Iterator<Item = &str> {
        let list = self.args.0.available_tools;
        // SAFETY: the host lent the list and its texts for the call.
        unsafe { raw::slice(list.ptr, list.len) }.iter().filter_map(|name| unsafe { raw::text(*name) })
    }
}

impl Deref for AssembleRequest<'_> {
    type Target = AssembleArgs;
    fn deref(&self) -> &AssembleArgs {
        self.args
    }
}

view! {
    /// The plain fields of [`CompactRequest`].
    CompactArgs(CompactArgsV1) {
        /// True when it must be done whatever the engine's own threshold says.
        flag force;
        /// Why it is forced.
        opt_code force_reason as ForceReason;
        /// How far.
        code target as CompactionTarget;
        /// Why.
        code trigger as Trigger;
        /// Attempt number, from 1.
        number attempt;
        /// Most attempts, at overflow.
        number max_attempts;
        /// Focus text of the operator; data, not instructions to obey.
        opt_text custom_instructions;
    }
}

/// What `compact` is asked.
pub struct CompactRequest<'a> {
    pub(crate) args: &'a CompactArgs,
    call: &'a CallV1,
}

with_history!(CompactRequest);

impl<'a> CompactRequest<'a> {
    /// # Safety
    ///
    /// Both come from the host and are valid for `'a`.
    pub(crate) unsafe fn new(args: *const wire::CompactArgsV1, call: &'a CallV1) -> Self {
        // SAFETY: the caller's promise; the wrapper is transparent.
        CompactRequest { args: unsafe { &*args.cast() }, call }
    }
}

impl Deref for CompactRequest<'_> {
    type Target = CompactArgs;
    fn deref(&self) -> &CompactArgs {
        self.args
    }
}

view! {
    /// What `maintain` is asked.
    MaintainRequest(MaintainArgsV1) {
        /// Why.
        code reason as Trigger;
        /// True only in a background run: a deferred compaction may be carried out now.
        flag allow_deferred_compaction;
    }
}

view! {
    /// What `afterTurn` gets.
    AfterTurn(AfterTurnArgsV1) {
        /// How many entries were there before the prompt of this turn.
        number pre_prompt_message_count;
        /// Summary of an automatic compaction in this turn.
        opt_text auto_compaction_summary;
    }
}

impl AfterTurn {
    /// The whole snapshot, oldest first.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        // SAFETY: the host lent the list for the call.
        unsafe { Entry::list(self.0.entries) }
    }
}

view! {
    /// What `commitTurn` gets: one accepted turn.
    CommitTurn(CommitTurnArgsV1) {
        /// Key of this advancement: the same turn always comes with the same key.
        text advancement_key;
        /// Id of the logical turn.
        text logical_turn_id;
    }
}

impl CommitTurn {
    /// The closed range from the admitted user entry to the terminal entry.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        // SAFETY: the host lent the list for the call.
        unsafe { Entry::list(self.0.entries) }
    }

    /// Anchor of the admitted user entry.
    #[must_use]
    pub fn admission(&self) -> &Anchor {
        // SAFETY: the wrapper is transparent.
        unsafe { &*(&raw const self.0.admission).cast() }
    }

    /// Anchor of the last entry.
    #[must_use]
    pub fn terminal(&self) -> &Anchor {
        // SAFETY: the wrapper is transparent.
        unsafe { &*(&raw const self.0.terminal).cast() }
    }
}

view! {
    /// A fixed place in the transcript.
    Anchor(AnchorV1) {
        /// Entry id.
        number entry_id;
        /// Number of the row in the store; rises with every append.
        number raw_seq;
        /// Id of the parent on the active branch, or 0 at the root.
        number effective_parent_id;
        /// Position among the messages of the active branch, from 0.
        number active_message_position;
        /// Changes when the transcript is rewritten.
        number generation;
        /// Idempotency key of the request that brought it.
        opt_text idempotency_key;
    }
}

view! {
    /// What `prepareSubagentSpawn` gets.
    SubagentSpawn(PrepareSubagentArgsV1) {
        /// Key of the parent session.
        opt_text parent_session_key;
        /// Key of the child session.
        opt_text child_session_key;
        /// Id of the parent session.
        opt_text parent_session_id;
        /// Id of the child session.
        opt_text child_session_id;
        /// `contextMode`.
        code context_mode as SubagentContext;
        /// Life of the child in milliseconds.
        opt_number ttl_ms;
    }
}

view! {
    /// What `onSubagentEnded` gets.
    SubagentEnded(SubagentEndedArgsV1) {
        /// Key of the child session.
        text child_session_key;
        /// Agent folder.
        opt_text agent_dir;
        /// Workspace folder.
        opt_text workspace_dir;
        /// Why.
        code reason as SubagentEnd;
    }
}

view! {
    /// What `onSessionEnded` gets.
    SessionEnded(SessionEndedArgsV1) {
        /// Why.
        code reason as SessionEnd;
    }
}

view! {
    /// What `callTool` gets.
    ToolRequest(CallToolArgsV1) {
        /// Id of the model's call.
        text call_id;
        /// Name of the tool, as the engine gave it.
        text name;
        /// Arguments, JSON text as the model wrote it; not checked against the schema.
        text arguments;
    }
}
