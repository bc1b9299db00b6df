//! What the host offers to a running hook.

use super::session::Session;
use super::{Fault, Scope, World, held};
use crate::slot::{
    CallScope, CompactArgs, CompactOutput, CursorPage, CursorRequest, EntryRef, Hook, HostServices, LlmRequest,
    LlmResponse, MaintainOutput, MemoryHit, MemoryPromptArgs, Replacement, ServiceError, ServiceStatus, StoreOp,
    StorePairs, TokenCount,
};
use crate::transcript::{EntryId, cursor};
use engine_abi::wire::{cursor_outcome, cursor_place, cursor_reset, entry_flags, service};
use std::time::{Duration, Instant};

/// Most entries of a page of the transcript.
const PAGE: usize = 16;
/// Bytes of what the model makes of a request.
const ANSWER: usize = 400;

fn refused(why: impl Into<String>) -> ServiceError {
    ServiceError::new(ServiceStatus::Refused, why)
}

/// Whose scope a session's keys are in.
fn key_of(scope: &CallScope<'_>) -> String {
    scope.session.session_key.clone().unwrap_or_else(|| scope.session.session_id.clone())
}

impl World {
    fn scope(&self, scope: &CallScope<'_>, engine_scope: bool) -> Scope {
        if engine_scope { Scope::Engine } else { Scope::Session(key_of(scope)) }
    }

    /// Serves one call of `own`'s service.
    fn serve<T>(&self, own: Option<Fault>, work: impl FnOnce() -> Result<T, ServiceError>) -> Result<T, ServiceError> {
        self.faults.begin(own)?;
        let served = work();
        self.faults.end();
        served
    }

    fn page(&self, session: &mut Session, hook: Hook, request: &CursorRequest) -> Result<CursorPage, ServiceError> {
        let fenced = matches!(hook, Hook::Bootstrap | Hook::Maintain | Hook::Compact | Hook::Assemble);
        let fence = (session.fence != 0 && fenced).then_some(session.fence);
        if self.faults.resets() {
            return Ok(CursorPage {
                outcome: cursor_outcome::RESET,
                reset_reason: cursor_reset::GENERATION_MISMATCH,
                cursor: Some(cursor::behind(&session.record, &session.branch, 0)),
                ..CursorPage::default()
            });
        }
        let handed_over = request.cursor.as_deref() == Some(cursor_place::HANDED_OVER);
        let behind = handed_over.then(|| {
            let last = session.handed.min(fence.unwrap_or(EntryId::MAX).saturating_sub(1));
            let last = session.branch.entries().iter().rev().find(|entry| entry.id <= last).map_or(0, |entry| entry.id);
            cursor::behind(&session.record, &session.branch, last)
        });
        let ask = cursor::Request {
            cursor: behind.as_deref().or(request.cursor.as_deref()),
            // Few, so that a reader has to turn pages.
            max_messages: request.max_messages.clamp(1, PAGE),
            max_bytes: usize::try_from(request.max_bytes).unwrap_or(usize::MAX),
            fence,
        };
        match cursor::read(&session.record, &session.branch, &ask) {
            Ok(cursor::Outcome::Page(page)) => {
                let entries: Vec<_> = page.entries.iter().filter_map(|entry| EntryRef::of(entry)).collect();
                let last = entries.last().map_or(0, |entry| entry.head.id);
                session.read_up_to = session.read_up_to.max(last);
                Ok(CursorPage {
                    outcome: cursor_outcome::PAGE,
                    reset_reason: cursor_reset::NONE,
                    has_more: page.has_more,
                    cursor: Some(page.cursor),
                    entries,
                    serialized_bytes: page.serialized_bytes as u64,
                    required_bytes: page.required_bytes.unwrap_or(0) as u64,
                })
            }
            Ok(cursor::Outcome::Reset { cursor, reason }) => Ok(CursorPage {
                outcome: cursor_outcome::RESET,
                reset_reason: reason.code(),
                cursor: Some(cursor),
                ..CursorPage::default()
            }),
            Err(error) => Err(refused(error.to_string())),
        }
    }

    /// The compaction of the host: the newest turns that take a third of the budget stay.
    fn compacted(&self, session: &mut Session, args: &CompactArgs) -> CompactOutput {
        let (view, len) = session.view(&self.counter);
        let before = view.tokens(0..len);
        let keep = args.token_budget.unwrap_or(before) / 3;
        let starts = (1..len).filter(|at| view.heads[*at].flags & entry_flags::TURN_START != 0);
        let mut starts: Vec<usize> = starts.collect();
        let fits = starts.iter().position(|at| view.tokens(*at..len) <= keep).unwrap_or(starts.len().saturating_sub(1));
        starts.drain(..fits.min(starts.len()));
        let Some(first) = starts.first().map(|at| view.heads[*at].id) else {
            return CompactOutput {
                ok: true,
                reason: Some("nothing to compact".into()),
                tokens_before: Some(before),
                ..CompactOutput::default()
            };
        };
        let summary = format!("The conversation up to entry {first}, in {before} tokens, in one line.");
        session.boundary(self.id(), &summary, first);
        let (view, len) = session.view(&self.counter);
        CompactOutput {
            ok: true,
            compacted: true,
            summary: Some(summary),
            first_kept: Some(first),
            tokens_before: Some(before),
            tokens_after: Some(view.tokens(0..len)),
            ..CompactOutput::default()
        }
    }
}

impl HostServices for World {
    fn available(&self, id: &str) -> bool {
        let known = [service::TOKENS, service::STORE, service::TRANSCRIPT, service::COMPACTION, service::MEMORY];
        known.contains(&id) || id == service::LLM
    }

    fn count_tokens(&self, _: &CallScope<'_>, text: &str) -> Result<TokenCount, ServiceError> {
        let count = || Ok(TokenCount { tokens: self.counter.text(text), estimated: self.counter.estimated() });
        self.serve(Some(Fault::Tokens), count)
    }

    fn llm_complete(&self, scope: &CallScope<'_>, request: LlmRequest) -> Result<LlmResponse, ServiceError> {
        self.serve(Some(Fault::Llm), || {
            if self.faults.slow() {
                // Like a model that takes its time: until the hook is told to stop, or its time is over.
                while !scope.cancel.is_cancelled() && Instant::now() < scope.deadline {
                    std::thread::sleep(Duration::from_millis(5));
                }
                return Err(ServiceError::new(ServiceStatus::Cancelled, "the hook was told to stop"));
            }
            let said: Vec<String> = request.messages.iter().map(|message| message.text().into_owned()).collect();
            let mut text = format!("In short: {}", said.join(" "));
            text.truncate(text.floor_char_boundary(ANSWER));
            Ok(LlmResponse { text, provider: "check".into(), model: "check".into(), ..LlmResponse::default() })
        })
    }

    fn delegate_compaction(&self, scope: &CallScope<'_>, args: CompactArgs) -> Result<CompactOutput, ServiceError> {
        self.serve(Some(Fault::Compaction), || {
            let session = self.of(scope.session);
            let mut session = held(&session);
            session.delegated = true;
            Ok(self.compacted(&mut session, &args))
        })
    }

    fn read_transcript(&self, scope: &CallScope<'_>, request: CursorRequest) -> Result<CursorPage, ServiceError> {
        self.serve(None, || {
            let own = scope.session.session_key.as_deref();
            if own.is_none() || request.session_key.as_deref().is_some_and(|key| Some(key) != own) {
                return Err(refused("another session needs the grant sessions in the plugin's entry"));
            }
            let session = self.of(scope.session);
            self.page(&mut held(&session), scope.hook, &request)
        })
    }

    fn rewrite(&self, _: &CallScope<'_>, _: Vec<Replacement>) -> Result<MaintainOutput, ServiceError> {
        let output = MaintainOutput { reason: Some("the check rewrites nothing".into()), ..MaintainOutput::default() };
        self.serve(None, || Ok(output))
    }

    fn memory_prompt(&self, _: &CallScope<'_>, _: MemoryPromptArgs) -> Result<Option<String>, ServiceError> {
        self.serve(None, || Ok(None))
    }

    fn memory_search(&self, _: &CallScope<'_>, _: &str, _: usize) -> Result<Vec<MemoryHit>, ServiceError> {
        self.serve(None, || Ok(Vec::new()))
    }

    fn store_get(&self, scope: &CallScope<'_>, own: bool, key: &[u8]) -> Result<Option<Vec<u8>>, ServiceError> {
        self.serve(Some(Fault::StoreRead), || Ok(self.store().get(&self.scope(scope, own), key)))
    }

    fn store_scan(
        &self,
        scope: &CallScope<'_>,
        own: bool,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<StorePairs, ServiceError> {
        self.serve(Some(Fault::StoreRead), || Ok(self.store().scan(&self.scope(scope, own), prefix, after, limit)))
    }

    fn store_batch(&self, scope: &CallScope<'_>, ops: Vec<StoreOp>) -> Result<(), ServiceError> {
        self.serve(Some(Fault::Batch), || self.store().batch(|own| self.scope(scope, own), ops))
    }
}
