//! Service calls in the host's own types: what every one of them is checked for, whoever brings it. The wire's tables come
//! here, and so does the gateway's side of a worker.

use super::frame::Frame;
use super::host_table::{GRANT_MEMORY_APPEND, GRANT_SESSIONS};
use super::receive::{Bad, LIST_MAX, TEXT_MAX};
use super::sink::HITS_MAX;
use crate::slot::facts::*;
use crate::slot::few::{few, light};
use crate::slot::hook::Hook;
use crate::slot::services::*;
use crate::transcript::{EngineOp, Message, Role};
use engine_abi::wire::{host_params, service};
use serde::{Deserialize, Deserializer, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Most bytes that the services keep alive for one call.
const LENT_MAX: usize = 512 * 1024 * 1024;
/// Longest key, in bytes.
pub(crate) const KEY_MAX: usize = 1_024;
/// Most operations of a batch.
pub(crate) const BATCH_MAX: usize = 100_000;
/// Most bytes of the keys and values of a batch: it is one transaction, and others wait for it.
pub(crate) const BATCH_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Most pairs of a scan.
const SCAN_MAX: u64 = 10_000;
/// Most keys of one page of sessions.
const SESSIONS_MAX: u64 = 1_000;

/// What a service can be asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    CountTokens,
    Complete,
    Delegate,
    Read,
    Rewrite,
    ListSessions,
    MemoryPrompt,
    MemorySearch,
    MemoryAppend,
    StoreGet,
    StoreScan,
    StoreBatch,
}

/// One service call with its arguments; texts and keys are borrowed where the service borrows them as well. A list from a worker
/// is read to one more than it may have, so that the service's own words refuse it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request<'a> {
    CountTokens { text: &'a str },
    Complete(LlmRequest),
    Delegate(Delegated),
    Read(CursorRequest),
    Rewrite(#[serde(deserialize_with = "replacements")] Vec<Replacement>),
    ListSessions { after: Option<&'a str>, limit: u64 },
    MemoryPrompt(MemoryPromptArgs),
    MemorySearch { query: &'a str, limit: u64 },
    MemoryAppend { text: &'a str },
    StoreGet { engine_scope: bool, key: &'a [u8] },
    StoreScan { engine_scope: bool, prefix: &'a [u8], after: Option<&'a [u8]>, limit: u64 },
    StoreBatch(#[serde(deserialize_with = "few::<{ BATCH_MAX + 1 }, _, _>")] Vec<StoreOp>),
}

fn replacements<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Replacement>, D::Error> {
    light(deserializer, LIST_MAX + 1, |one: &Replacement| 1 + one.message.tool_calls.len())
}

/// What an engine says of a compaction that it delegates. The history is the host's own and never the engine's to say.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Delegated {
    pub(crate) force: bool,
    pub(crate) target: u32,
    pub(crate) trigger: u32,
    pub(crate) attempt: u32,
    pub(crate) max_attempts: u32,
    pub(crate) force_reason: u32,
    pub(crate) custom_instructions: Option<String>,
    pub(crate) token_budget: Option<u64>,
    pub(crate) current_token_count: Option<u64>,
}

/// What a service gave.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Tokens(TokenCount),
    Completed(Box<LlmResponse>),
    Compacted(Box<CompactOutput>),
    Page(Box<CursorPage>),
    Rewritten(MaintainOutput),
    Keys(Vec<String>),
    Section(Option<String>),
    Hits(Vec<MemoryHit>),
    Value(Vec<u8>),
    Pairs(StorePairs),
    Done,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The call is over: nothing that it does counts any more.
    Expired,
    /// An error of the service, or of its arguments.
    Error(ServiceError),
}

/// Who answers the calls of a frame instead of its services: in a worker, the gateway.
pub(crate) trait Relay: Send + Sync {
    /// Has the gateway make the call, with all its checks.
    fn ask(&self, frame: &Frame, request: &Request<'_>) -> Result<Answer, ServiceError>;

    /// The body of entry number `index` of the running call's history; the wire's status when there is none.
    fn body(&self, frame: &Frame, index: usize) -> Result<Arc<Message>, u32>;
}

/// A token that marks an error as the host's own.
pub(crate) fn fresh_token() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

impl Deed {
    /// The service that does it.
    pub(crate) const fn service(self) -> &'static str {
        match self {
            Deed::CountTokens => service::TOKENS,
            Deed::Complete => service::LLM,
            Deed::Delegate => service::COMPACTION,
            Deed::Read | Deed::Rewrite => service::TRANSCRIPT,
            Deed::ListSessions => service::SESSIONS,
            Deed::MemoryPrompt | Deed::MemorySearch | Deed::MemoryAppend => service::MEMORY,
            Deed::StoreGet | Deed::StoreScan | Deed::StoreBatch => service::STORE,
        }
    }
}

impl Request<'_> {
    /// What is asked for.
    pub(crate) const fn deed(&self) -> Deed {
        match self {
            Request::CountTokens { .. } => Deed::CountTokens,
            Request::Complete(_) => Deed::Complete,
            Request::Delegate(_) => Deed::Delegate,
            Request::Read(_) => Deed::Read,
            Request::Rewrite(_) => Deed::Rewrite,
            Request::ListSessions { .. } => Deed::ListSessions,
            Request::MemoryPrompt(_) => Deed::MemoryPrompt,
            Request::MemorySearch { .. } => Deed::MemorySearch,
            Request::MemoryAppend { .. } => Deed::MemoryAppend,
            Request::StoreGet { .. } => Deed::StoreGet,
            Request::StoreScan { .. } => Deed::StoreScan,
            Request::StoreBatch(_) => Deed::StoreBatch,
        }
    }

    /// What the arguments must keep to. Sizes are compared here as well as at the border: not every caller comes through it.
    fn check(&self) -> Result<(), Bad> {
        match self {
            Request::CountTokens { text } | Request::MemoryAppend { text } => within(text.len(), TEXT_MAX, "the text"),
            Request::MemorySearch { query, .. } => within(query.len(), TEXT_MAX, "the query"),
            Request::ListSessions { after, .. } => within(after.map_or(0, str::len), TEXT_MAX, "after"),
            Request::Read(request) => {
                optional(request.session_key.as_ref(), "sessionKey")?;
                optional(request.cursor.as_ref(), "cursor")
            }
            Request::Complete(request) => complete(request),
            Request::Delegate(args) => optional(args.custom_instructions.as_ref(), "customInstructions"),
            Request::Rewrite(replacements) => {
                count(replacements.len(), LIST_MAX, "replacements")?;
                replacements.iter().try_for_each(|replacement| message(&replacement.message))
            }
            Request::MemoryPrompt(args) => {
                count(args.available_tools.len(), LIST_MAX, "availableTools")?;
                args.available_tools.iter().try_for_each(|name| within(name.len(), TEXT_MAX, "availableTools"))
            }
            Request::StoreGet { key, .. } => store_key(key),
            Request::StoreScan { prefix, after, .. } => {
                within(prefix.len(), KEY_MAX, "the prefix")?;
                within(after.map_or(0, <[u8]>::len), KEY_MAX, "the key")
            }
            Request::StoreBatch(ops) => batch(ops),
        }
    }
}

fn within(bytes: usize, cap: usize, what: &str) -> Result<(), Bad> {
    if bytes > cap { Err(format!("{what} has {bytes} bytes, at most {cap} are allowed")) } else { Ok(()) }
}

fn count(elements: usize, cap: usize, what: &str) -> Result<(), Bad> {
    if elements > cap { Err(format!("{what} has {elements} elements, at most {cap} are allowed")) } else { Ok(()) }
}

fn optional(text: Option<&String>, what: &str) -> Result<(), Bad> {
    within(text.map_or(0, String::len), TEXT_MAX, what)
}

fn store_key(key: &[u8]) -> Result<(), Bad> {
    if key.is_empty() { Err("the key is empty".into()) } else { within(key.len(), KEY_MAX, "the key") }
}

fn complete(request: &LlmRequest) -> Result<(), Bad> {
    count(request.messages.len(), LIST_MAX, "messages")?;
    if request.messages.is_empty() {
        return Err("messages is empty".into());
    }
    for one in &request.messages {
        if one.role == Role::Tool {
            return Err("messages may be of the user or the assistant".into());
        }
        message(one)?;
    }
    optional(request.system_prompt.as_ref(), "systemPrompt")?;
    optional(request.model.as_ref(), "model")?;
    optional(request.purpose.as_ref(), "purpose")?;
    optional(request.reasoning.as_ref(), "reasoning")?;
    optional(request.response_format_json.as_ref(), "responseFormat")
}

fn batch(ops: &[StoreOp]) -> Result<(), Bad> {
    count(ops.len(), BATCH_MAX, "the batch")?;
    let mut bytes = 0usize;
    for StoreOp { op, .. } in ops {
        let (key, value) = match op {
            EngineOp::Put(key, value) | EngineOp::RequireEqual(key, value) => (key, value.len()),
            EngineOp::Delete(key) | EngineOp::RequireAbsent(key) | EngineOp::DeletePrefix(key) => (key, 0),
        };
        store_key(key)?;
        within(value, TEXT_MAX, "the value")?;
        bytes = bytes.saturating_add(key.len() + value);
    }
    if bytes > BATCH_BYTES_MAX { Err(format!("the batch has {bytes} bytes")) } else { Ok(()) }
}

/// What a message of an engine must keep to.
pub(crate) fn message(message: &Message) -> Result<(), Bad> {
    let role = message.role;
    if let crate::transcript::Content::Text(text) = &message.content {
        within(text.len(), TEXT_MAX, "a message's text")?;
    }
    optional(message.tool_call_id.as_ref(), "a message's toolCallId")?;
    optional(message.name.as_ref(), "a message's name")?;
    count(message.tool_calls.len(), super::receive::CALLS_MAX, "a message's tool calls")?;
    for call in &message.tool_calls {
        within(call.id.len(), TEXT_MAX, "a tool call's id")?;
        within(call.function.name.len(), TEXT_MAX, "a tool call's name")?;
        within(call.function.arguments.len(), TEXT_MAX, "a tool call's arguments")?;
    }
    if !message.tool_calls.is_empty() && role != Role::Assistant {
        return Err(format!("a {} message has tool calls", role.name()));
    }
    match (role, &message.tool_call_id) {
        (Role::Tool, None) => Err("a tool message names no call that it answers".into()),
        (Role::User | Role::Assistant, Some(_)) => Err(format!("a {} message answers a tool call", role.name())),
        _ => Ok(()),
    }
}

fn invalid(bad: Bad) -> ServiceError {
    ServiceError::new(ServiceStatus::Invalid, bad)
}

fn refused(why: &str) -> ServiceError {
    ServiceError::new(ServiceStatus::Refused, why)
}

/// What a service call knows of its hook.
struct Asked<'a> {
    frame: &'a Frame,
    hook: Hook,
    session: Arc<SessionFacts>,
    deadline: Instant,
}

impl Frame {
    /// One service call of the running hook. `request` reads the arguments, once it is known that the call may be made at all.
    pub(crate) fn ask<'a>(
        &self,
        deed: Deed,
        request: impl FnOnce() -> Result<Request<'a>, Bad>,
    ) -> Result<Answer, Refusal> {
        let (hook, params, session, lent) = {
            let state = self.state();
            (state.hook, state.params, Arc::clone(&state.session), state.arena.weight())
        };
        let Some(deadline) = self.deadline().filter(|_| !self.expired()) else {
            self.core.stats.late_service_calls.fetch_add(1, Relaxed);
            return Err(Refusal::Expired);
        };
        let ask = || {
            if lent > LENT_MAX {
                return Err(refused("the call has been lent too much; return and go on in another"));
            }
            if let Some(relay) = self.relay() {
                return relay.ask(self, &request().map_err(invalid)?);
            }
            if params & host_params::RUNTIME_CONTEXT == 0 {
                return Err(refused("the engine does not accept runtimeContext"));
            }
            if !self.services.available(deed.service()) {
                return Err(ServiceError::unavailable(deed.service()));
            }
            let asked = Asked { frame: self, hook, session, deadline };
            asked.allowed(deed)?;
            let request = request().map_err(invalid)?;
            request.check().map_err(invalid)?;
            asked.make(request)
        };
        ask().map_err(Refusal::Error)
    }
}

impl Asked<'_> {
    fn scope(&self) -> CallScope<'_> {
        CallScope {
            engine_id: self.frame.core.store_name(),
            owner: &self.frame.core.owner,
            hook: self.hook,
            deadline: self.deadline,
            cancel: &self.frame.cancel,
            session: &self.session,
            grants: &self.frame.core.grants,
        }
    }

    /// What the hook and the grants allow, before the arguments are read.
    fn allowed(&self, deed: Deed) -> Result<(), ServiceError> {
        match deed {
            Deed::Delegate if self.hook != Hook::Compact => {
                Err(refused("compaction can be delegated only inside compact"))
            }
            Deed::Rewrite if matches!(self.hook, Hook::Bootstrap | Hook::Assemble) => {
                Err(refused("the transcript cannot be rewritten during bootstrap and assemble"))
            }
            Deed::ListSessions if !self.scope().granted(GRANT_SESSIONS) => {
                Err(refused("the list of sessions is not granted (grants = [\"sessions\"])"))
            }
            Deed::MemoryAppend if !self.scope().granted(GRANT_MEMORY_APPEND) => {
                Err(refused("appending to the memory is not granted (grants = [\"memory-append\"])"))
            }
            _ => Ok(()),
        }
    }

    fn make(&self, request: Request<'_>) -> Result<Answer, ServiceError> {
        let (services, scope) = (&self.frame.services, &self.scope());
        Ok(match request {
            Request::CountTokens { text } => Answer::Tokens(services.count_tokens(scope, text)?),
            Request::Complete(request) => Answer::Completed(Box::new(services.llm_complete(scope, request)?)),
            Request::Delegate(args) => {
                let args = self.delegated(args)?;
                Answer::Compacted(Box::new(services.delegate_compaction(scope, args)?))
            }
            Request::Read(request) => Answer::Page(Box::new(self.read(request)?)),
            Request::Rewrite(replacements) => Answer::Rewritten(services.rewrite(scope, replacements)?),
            Request::ListSessions { after, limit } => {
                Answer::Keys(services.list_sessions(scope, after, limit.min(SESSIONS_MAX) as usize)?)
            }
            Request::MemoryPrompt(args) => Answer::Section(services.memory_prompt(scope, args)?),
            Request::MemorySearch { query, limit } => {
                Answer::Hits(services.memory_search(scope, query, limit.min(HITS_MAX as u64) as usize)?)
            }
            Request::MemoryAppend { text } => {
                services.memory_append(scope, text)?;
                Answer::Done
            }
            Request::StoreGet { engine_scope, key } => {
                let value = services.store_get(scope, engine_scope, key)?;
                Answer::Value(value.ok_or_else(|| ServiceError::new(ServiceStatus::NotFound, "no such key"))?)
            }
            Request::StoreScan { engine_scope, prefix, after, limit } => {
                let limit = limit.min(SCAN_MAX) as usize;
                Answer::Pairs(services.store_scan(scope, engine_scope, prefix, after, limit)?)
            }
            Request::StoreBatch(ops) if ops.is_empty() => Answer::Done,
            Request::StoreBatch(ops) => {
                services.store_batch(scope, ops)?;
                Answer::Done
            }
        })
    }

    /// The engine's arguments over the host's own history.
    fn delegated(&self, args: Delegated) -> Result<CompactArgs, ServiceError> {
        let Some((view, len)) = self.frame.state().view.clone() else {
            return Err(refused("this compact has no history"));
        };
        Ok(CompactArgs {
            view,
            len,
            force: args.force,
            target: args.target,
            trigger: args.trigger,
            attempt: args.attempt,
            max_attempts: args.max_attempts,
            force_reason: args.force_reason,
            custom_instructions: args.custom_instructions,
            token_budget: args.token_budget.or(self.session.token_budget),
            current_token_count: args.current_token_count.or(self.session.current_token_count),
        })
    }

    /// A page of the transcript. One of the call's own session that goes further than any before it is progress of a
    /// `bootstrap`.
    fn read(&self, mut request: CursorRequest) -> Result<CursorPage, ServiceError> {
        let other = request.session_key.is_some() && request.session_key != self.session.session_key;
        if other && !self.scope().granted(GRANT_SESSIONS) {
            return Err(refused("other sessions are not granted (grants = [\"sessions\"])"));
        }
        request.max_messages = if request.max_messages == 0 { 1_000 } else { request.max_messages.min(10_000) };
        request.max_bytes = if request.max_bytes == 0 { 1_000_000 } else { request.max_bytes.min(64 * 1024 * 1024) };
        let page = self.frame.services.read_transcript(&self.scope(), request)?;
        let read = page.entries.last().filter(|_| self.hook == Hook::Bootstrap && !other);
        if read.is_some_and(|entry| self.frame.reaches(entry.head.id)) {
            self.frame.core.advanced(self.frame);
        }
        Ok(page)
    }
}
