//! Host services as methods of [`Host`] and [`Context`]. Each may be absent.
#![allow(unsafe_code, reason = "calls the host's service tables and reads what they lend for the duration of the call")]

use crate::asked::{CursorRequest, LlmReply, LlmRequest, MemoryHit, Page, Tokens};
use crate::codes::{CitationsMode, CursorReset};
use crate::context::{Context, Host};
use crate::error::ServiceError;
use crate::raw;
use crate::request::CompactRequest;
use crate::results::{Compaction, Maintained};
use crate::view::{Entry, Message};
use crate::wire::{self, Bytes, Str, StrList, cursor_outcome, service, status};
use abi_stable::StableAbi;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A service: its id, and the layout that was last found good, so that the check costs once.
struct Service {
    id: &'static str,
    good: AtomicPtr<u8>,
}

impl Service {
    const fn new(id: &'static str) -> Service {
        Service { id, good: AtomicPtr::new(std::ptr::null_mut()) }
    }
}

static TOKENS: Service = Service::new(service::TOKENS);
static LLM: Service = Service::new(service::LLM);
static COMPACTION: Service = Service::new(service::COMPACTION);
static TRANSCRIPT: Service = Service::new(service::TRANSCRIPT);
static SESSIONS: Service = Service::new(service::SESSIONS);
static MEMORY: Service = Service::new(service::MEMORY);
static STORE: Service = Service::new(service::STORE);

impl Host {
    fn table<T: StableAbi>(&self, service: &'static Service) -> Result<&'static T, ServiceError> {
        let answer = self.look_up(service.id);
        if !answer.layout.is_null() && answer.layout.cast_mut() == service.good.load(Ordering::Acquire) {
            // SAFETY: the layout was checked for this service before; service tables live for ever.
            return unsafe { answer.table.cast::<T>().as_ref() }.ok_or_else(|| self.absent(service.id));
        }
        // SAFETY: the answer is the host's to this service's id.
        match unsafe { crate::host::check_extension::<T>(answer) } {
            Ok(Some(table)) => {
                service.good.store(answer.layout.cast_mut(), Ordering::Release);
                Ok(table)
            }
            Ok(None) => Err(self.absent(service.id)),
            Err(error) => {
                let message = format!("the host's table has another layout: {error}");
                Err(ServiceError { service: service.id, status: status::UNSUPPORTED, message, token: 0 })
            }
        }
    }

    fn look_up(&self, id: &str) -> wire::ExtensionV1 {
        // SAFETY: the host's table lives as long as the library is used.
        unsafe { ((*self.host).service)(self.host, Str::new(id)) }
    }

    /// The error of a service that is not there: the host's own, with its token, so that it is not held against the engine.
    fn absent(&self, service: &'static str) -> ServiceError {
        let mut absent = ServiceError::absent(service);
        let mut message = Str::NONE;
        // SAFETY: the host's table is valid; it writes a text that stays valid until the hook returns.
        let (token, text) = unsafe { (((*self.host).last_error)(self.frame, &raw mut message), raw::text(message)) };
        if let Some(text) = text.filter(|_| token != 0) {
            absent.message = text.to_owned();
        }
        absent.token = token;
        absent
    }

    /// True when the host offers the service with this id.
    #[must_use]
    pub fn offers(&self, id: &str) -> bool {
        !self.look_up(id).table.is_null()
    }

    /// Tokens of `text` with the tokenizer of the model in use.
    ///
    /// # Errors
    ///
    /// When the call is over.
    pub fn count_tokens(&self, text: &str) -> Result<Tokens, ServiceError> {
        let table: &wire::TokensV1 = self.table(&TOKENS)?;
        let (mut count, mut estimated) = (0, 0);
        self.answer(TOKENS.id, (table.count)(self.frame, Str::new(text), &raw mut count, &raw mut estimated))?;
        Ok(Tokens { count, estimated: estimated != 0 })
    }

    /// One completion by a model (`llm.complete`). Blocks; ends early when the call is cancelled. Absent with the
    /// offline model.
    ///
    /// # Errors
    ///
    /// When no model is there, or the model fails.
    pub fn complete(&self, request: &LlmRequest) -> Result<LlmReply, ServiceError> {
        let table: &wire::LlmV1 = self.table(&LLM)?;
        let mut out = MaybeUninit::<wire::LlmResponseV1>::uninit();
        let answer = lend_all(&request.messages, &mut Vec::new(), &mut |messages| {
            let wire_request = wire::LlmRequestV1 {
                messages: messages.as_ptr(),
                messages_len: messages.len(),
                system_prompt: Str::opt(request.system_prompt.as_deref()),
                model: Str::opt(request.model.as_deref()),
                purpose: Str::opt(request.purpose.as_deref()),
                reasoning: Str::opt(request.reasoning.as_deref()),
                response_format_json: Str::opt(request.response_format_json.as_deref()),
                max_tokens: request.max_tokens.unwrap_or(wire::NONE_U64),
                temperature: request.temperature.unwrap_or(-1.0),
            };
            (table.complete)(self.frame, &wire_request, out.as_mut_ptr())
        });
        self.answer(LLM.id, answer)?;
        // SAFETY: on `OK` the host has written `out`; its texts are valid until the hook returns and are copied here.
        let out = unsafe { out.assume_init() };
        // SAFETY: as above.
        let owned = |text: Str| unsafe { raw::text(text) }.map(str::to_owned);
        Ok(LlmReply {
            text: owned(out.text).unwrap_or_default(),
            provider: owned(out.provider),
            model: owned(out.model),
            response_model: owned(out.response_model),
            stop_reason: owned(out.stop_reason),
            agent_id: owned(out.agent_id),
            input_tokens: raw::number(out.input_tokens),
            output_tokens: raw::number(out.output_tokens),
            cache_read_tokens: raw::number(out.cache_read_tokens),
            cache_write_tokens: raw::number(out.cache_write_tokens),
            total_tokens: raw::number(out.total_tokens),
            cost_usd: (out.cost_usd >= 0.0).then_some(out.cost_usd),
        })
    }

    /// A page of a transcript, oldest first, along the active branch. The current turn is fenced off during `bootstrap`
    /// and `assemble`. Another session than the call's only where the plugin's entry grants it.
    ///
    /// # Errors
    ///
    /// When the transcript cannot be read, or the cursor is at or past the fence.
    pub fn read_transcript(&self, from: &CursorRequest) -> Result<Page<'_>, ServiceError> {
        let table: &wire::TranscriptV1 = self.table(&TRANSCRIPT)?;
        let request = wire::CursorRequestV1 {
            session_key: Str::opt(from.session_key.as_deref()),
            cursor: Str::opt(from.cursor.as_deref()),
            max_messages: from.max_messages,
            max_bytes: from.max_bytes,
        };
        let mut out = MaybeUninit::<wire::CursorPageV1>::uninit();
        self.answer(TRANSCRIPT.id, (table.read)(self.frame, &request, out.as_mut_ptr()))?;
        // SAFETY: on `OK` the host has written `out`; what it lends is valid until the hook returns, longer than
        // `self`.
        let out = unsafe { out.assume_init() };
        // SAFETY: as above.
        let (cursor, entries) = unsafe { (raw::text(out.cursor).map(str::to_owned), Entry::list(out.entries)) };
        Ok(match out.outcome {
            cursor_outcome::PAGE => Page::Entries {
                entries,
                cursor,
                has_more: out.has_more != 0,
                required_bytes: (out.required_bytes != 0).then_some(out.required_bytes),
            },
            cursor_outcome::RESET => {
                Page::Reset { cursor, reason: CursorReset::from_code(out.reset_reason).unwrap_or_default() }
            }
            cursor_outcome::MISSING => Page::Missing,
            _ => Page::Unavailable,
        })
    }

    /// Replaces entries of the active branch (`rewriteTranscriptEntries`); roles stay. Refused during `bootstrap` and
    /// `assemble`.
    ///
    /// # Errors
    ///
    /// When it is refused, or an entry is not a message of the active branch.
    pub fn rewrite_transcript(&self, replacements: &[(u64, Message)]) -> Result<Maintained, ServiceError> {
        let table: &wire::TranscriptV1 = self.table(&TRANSCRIPT)?;
        let mut out = MaybeUninit::<wire::MaintainResultV1>::uninit();
        let (ids, messages): (Vec<u64>, Vec<Message>) = replacements.iter().cloned().unzip();
        let answer = lend_all(&messages, &mut Vec::new(), &mut |messages| {
            let list: Vec<wire::ReplacementV1> = ids
                .iter()
                .zip(messages)
                .map(|(entry_id, message)| wire::ReplacementV1 { entry_id: *entry_id, message: *message })
                .collect();
            (table.rewrite)(self.frame, list.as_ptr(), list.len(), out.as_mut_ptr())
        });
        self.answer(TRANSCRIPT.id, answer)?;
        // SAFETY: on `OK` the host has written `out`; its text is valid until the hook returns and is copied here.
        let out = unsafe { out.assume_init() };
        Ok(Maintained {
            changed: out.changed != 0,
            bytes_freed: out.bytes_freed,
            rewritten_entries: out.rewritten_entries,
            // SAFETY: as above.
            reason: unsafe { raw::text(out.reason) }.map(str::to_owned),
        })
    }

    /// Keys of the agent's sessions, newest use first. Only where the plugin's entry grants it.
    ///
    /// # Errors
    ///
    /// When it is not granted.
    pub fn sessions(&self, after: Option<&str>, limit: u64) -> Result<Vec<String>, ServiceError> {
        let table: &wire::SessionsV1 = self.table(&SESSIONS)?;
        let mut out = StrList::NONE;
        self.answer(SESSIONS.id, (table.list)(self.frame, Str::opt(after), limit, &raw mut out))?;
        // SAFETY: what the host lent is valid until the hook returns and is copied here.
        Ok(unsafe {
            raw::slice(out.ptr, out.len).iter().filter_map(|key| raw::text(*key)).map(str::to_owned).collect()
        })
    }

    /// The memory section of the system prompt (`buildMemorySystemPromptAddition`). The arguments must equal what was
    /// prepared for this run: the tools and the citations mode of the assemble request.
    ///
    /// # Errors
    ///
    /// When the arguments differ.
    pub fn memory_prompt(
        &self,
        tools: &[&str],
        citations: CitationsMode,
        sandboxed: bool,
    ) -> Result<Option<String>, ServiceError> {
        let table: &wire::MemoryV1 = self.table(&MEMORY)?;
        let tools: Vec<Str> = tools.iter().map(|name| Str::new(name)).collect();
        let args = wire::MemoryPromptArgsV1 {
            available_tools: StrList::new(&tools),
            citations_mode: citations.code(),
            sandboxed: sandboxed.into(),
        };
        let mut out = Str::NONE;
        self.answer(MEMORY.id, (table.prompt_addition)(self.frame, &args, &raw mut out))?;
        // SAFETY: the text is valid until the hook returns and is copied here.
        Ok(unsafe { raw::text(out) }.map(str::to_owned))
    }

    /// Searches the memory, best first. Without a memory provider nothing is found.
    ///
    /// # Errors
    ///
    /// When the provider fails in this very search. Mostly an engine goes on without hits then.
    pub fn search_memory(&self, query: &str, limit: u64) -> Result<Vec<MemoryHit>, ServiceError> {
        let table: &wire::MemoryV1 = self.table(&MEMORY)?;
        let mut out = wire::MemoryHitsV1 { ptr: std::ptr::null(), len: 0 };
        self.answer(MEMORY.id, (table.search)(self.frame, Str::new(query), limit, &raw mut out))?;
        // SAFETY: what the host lent is valid until the hook returns and is copied here.
        let (hits, owned) =
            unsafe { (raw::slice(out.ptr, out.len), |text: Str| raw::text(text).unwrap_or_default().to_owned()) };
        Ok(hits
            .iter()
            .map(|hit| MemoryHit {
                id: owned(hit.id),
                text: owned(hit.text),
                score: hit.score,
                time_ms: raw::time(hit.time_ms),
            })
            .collect())
    }

    /// Adds `text` to the memory. Only where the plugin's entry grants it.
    ///
    /// # Errors
    ///
    /// When it is not granted, when there is no provider or it does not take anything, or when it fails.
    pub fn append_memory(&self, text: &str) -> Result<(), ServiceError> {
        let table: &wire::MemoryV1 = self.table(&MEMORY)?;
        let append = table.append.ok_or_else(|| {
            // Asked for by a name of its own, so that the host knows what is missing.
            self.look_up("engineroom.memory/1 append");
            self.absent(MEMORY.id)
        })?;
        self.answer(MEMORY.id, append(self.frame, Str::new(text)))
    }
}

impl Context {
    /// Leaves a compaction to the host (`delegateCompactionToRuntime`). Only inside `compact`.
    ///
    /// # Errors
    ///
    /// When the built-in compaction fails; history is as it was then.
    pub fn delegate_compaction(&self, request: &CompactRequest) -> Result<Compaction, ServiceError> {
        let table: &wire::CompactionV1 = self.table(&COMPACTION)?;
        let mut out = MaybeUninit::<wire::CompactResultV1>::uninit();
        self.answer(COMPACTION.id, (table.delegate)(self.frame, &request.args.0, out.as_mut_ptr()))?;
        // SAFETY: on `OK` the host has written `out`; its texts are valid until the hook returns and are copied here.
        let out = unsafe { out.assume_init() };
        // SAFETY: as above.
        let owned = |text: Str| unsafe { raw::text(text) }.map(str::to_owned);
        // SAFETY: null, or lent until the hook returns.
        let successor = unsafe { out.successor_target.as_ref() };
        Ok(Compaction {
            ok: out.ok != 0,
            compacted: out.compacted != 0,
            reason: owned(out.reason),
            summary: owned(out.summary),
            first_kept_entry_id: (out.first_kept_entry_id != 0).then_some(out.first_kept_entry_id),
            tokens_before: raw::number(out.tokens_before),
            tokens_after: raw::number(out.tokens_after),
            details_json: owned(out.details_json),
            successor_session_id: owned(out.successor_session_id),
            successor: successor.map(|place| crate::Successor {
                agent_id: owned(place.agent_id),
                session_id: owned(place.session_id),
                session_key: owned(place.session_key),
                store: owned(place.store),
                thread_id: owned(place.thread_id),
            }),
        })
    }

    pub(crate) fn store_get(&self, engine_scope: bool, key: &[u8]) -> Result<Option<Vec<u8>>, ServiceError> {
        let table: &wire::StoreV1 = self.table(&STORE)?;
        let mut out = Bytes::NONE;
        match (table.get)(self.frame, engine_scope.into(), Bytes::new(key), &raw mut out) {
            status::NOT_FOUND => Ok(None),
            answer => {
                self.answer(STORE.id, answer)?;
                // SAFETY: the bytes are valid until the hook returns and are copied here.
                Ok(Some(unsafe { raw::slice(out.ptr, out.len) }.to_vec()))
            }
        }
    }

    pub(crate) fn store_scan(
        &self,
        engine_scope: bool,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<crate::Pair>, ServiceError> {
        let table: &wire::StoreV1 = self.table(&STORE)?;
        let mut out = wire::StorePairsV1 { ptr: std::ptr::null(), len: 0 };
        let after = after.map_or(Bytes::NONE, Bytes::new);
        let (scope, limit) = (engine_scope.into(), limit as u64);
        self.answer(STORE.id, (table.scan)(self.frame, scope, Bytes::new(prefix), after, limit, &raw mut out))?;
        // SAFETY: what the host lent is valid until the hook returns and is copied here.
        let (pairs, owned) =
            unsafe { (raw::slice(out.ptr, out.len), |bytes: Bytes| raw::slice(bytes.ptr, bytes.len).to_vec()) };
        Ok(pairs.iter().map(|pair| (owned(pair.key), owned(pair.value))).collect())
    }

    /// Sends the collected writes as one batch.
    pub(crate) fn flush(&self) -> Result<(), ServiceError> {
        self.writes.borrow_mut().flush(|ops| {
            let table: &wire::StoreV1 = self.table(&STORE)?;
            self.answer(STORE.id, (table.batch)(self.frame, ops.as_ptr(), ops.len()))
        })
    }
}

/// Lends all of `messages` at once: each is lent inside the lending of the one before.
fn lend_all(
    messages: &[Message],
    lent: &mut Vec<wire::MessageV1>,
    take: &mut dyn FnMut(&[wire::MessageV1]) -> u32,
) -> u32 {
    match messages {
        [] => take(lent),
        [first, rest @ ..] => first.lend(|message| {
            lent.push(*message);
            lend_all(rest, lent, take)
        }),
    }
}
