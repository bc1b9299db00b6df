//! The host's side of a running call: the sinks, the bodies, the clock. Every function first makes sure that the call may
//! still change something, checks what it is given while it takes it, and never unwinds.
#![allow(unsafe_code, reason = "these functions are called by engines with raw pointers")]

use super::ask::Relay;
use super::frame::{CallState, Frame};
pub(crate) use super::handle::frame;
use super::receive;
use super::sink::{HITS_MAX, Output};
use crate::observe::broken;
use crate::slot::engine::{EngineInfo, HostRequirement, Operation};
use crate::slot::facts::*;
use crate::slot::hook::Hook;
use crate::slot::services::MemoryHit;
use engine_abi::wire::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// The sinks of every call.
pub(crate) static SINK: SinkV1 = SinkV1 {
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

/// What a hook gets for one call.
pub(crate) fn call(frame: &Frame, host: *const HostV1) -> CallV1 {
    CallV1 { frame: frame.handle.pointer(), sink: &raw const SINK, host, entry, cancelled, remaining_ms }
}

/// Runs a host callback so that nothing unwinds into the engine.
pub(crate) fn guard(what: &'static str, body: impl FnOnce() -> u32) -> u32 {
    let _serving = crate::ledger::serving();
    if broken("ledger.service") {
        // A defect of the host in the middle of a service.
        std::process::abort();
    }
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        tracing::error!(callback = what, "a host callback panicked; the engine was told that it failed");
        status::ERROR
    })
}

/// A push: refused when late or foreign to the running hook, marked when it breaks the contract.
fn push(pointer: *const FrameV1, hooks: &[Hook], take: impl FnOnce(&mut CallState) -> Result<(), receive::Bad>) -> u32 {
    guard("sink", || {
        let Some(frame) = frame(pointer) else { return status::INVALID };
        if frame.expired() {
            frame.core.stats.late_pushes.fetch_add(1, Relaxed);
            return status::EXPIRED;
        }
        let mut state = frame.state();
        if !hooks.contains(&state.hook) {
            return status::INVALID;
        }
        match take(&mut state) {
            Ok(()) => status::OK,
            Err(bad) => {
                state.sink.invalid.get_or_insert(bad);
                status::INVALID
            }
        }
    })
}

extern "C" fn fail(pointer: *const FrameV1, message: Str, service_token: u64) -> u32 {
    guard("fail", || {
        let Some(frame) = frame(pointer) else { return status::INVALID };
        if frame.expired() {
            frame.core.stats.late_pushes.fetch_add(1, Relaxed);
            return status::EXPIRED;
        }
        // SAFETY: lent for the duration of this push.
        let reason = unsafe { receive::reason(message) };
        frame.state().sink.fail = Some((reason, service_token));
        status::OK
    })
}

/// The reason of a failed factory: the same sink under the factory's own pointer.
pub(crate) const FACTORY_FAIL: extern "C" fn(*const FrameV1, Str, u64) -> u32 = fail;

extern "C" fn info(pointer: *const FrameV1, info: *const InfoV1) -> u32 {
    push(pointer, &[Hook::Info], |state| {
        // SAFETY: lent for the duration of this push.
        let (info, mut faults) = unsafe { read_info(receive::one(info, "info")?) };
        faults.extend(state.sink.owed(Output::Info(info)).err());
        if faults.is_empty() { Ok(()) } else { Err(faults.join("; ")) }
    })
}

/// What an engine says of itself, with everything that is wrong in it: an author mends all of it at once.
///
/// # Safety
///
/// What `info` points to is lent.
unsafe fn read_info(info: &InfoV1) -> (EngineInfo, Vec<receive::Bad>) {
    let mut faults = Vec::new();
    fn note<T: Default>(faults: &mut Vec<receive::Bad>, read: Result<T, receive::Bad>) -> T {
        read.unwrap_or_else(|bad| {
            faults.push(bad);
            T::default()
        })
    }
    // SAFETY: by the caller's promise.
    let (id, name, version, requirements) = unsafe {
        (
            receive::owned(info.id, "info.id"),
            receive::owned(info.name, "info.name"),
            receive::owned(info.version, "info.version"),
            receive::list(
                info.host_requirements,
                info.host_requirements_len,
                receive::REQUIREMENTS_MAX,
                "hostRequirements",
            ),
        )
    };
    let background = match info.turn_maintenance_mode {
        maintenance_mode::FOREGROUND => Ok(false),
        maintenance_mode::BACKGROUND => Ok(true),
        other => Err(format!("info.turnMaintenanceMode has the unknown code {other}")),
    };
    let read = EngineInfo {
        id: note(&mut faults, id).unwrap_or_default(),
        name: note(&mut faults, name).unwrap_or_default(),
        version: note(&mut faults, version),
        owns_compaction: note(&mut faults, receive::flag(info.owns_compaction, "info.ownsCompaction")),
        background_maintenance: note(&mut faults, background),
        accepted_host_params: info.accepted_host_params,
        transcript_semantics: info.transcript_semantics,
        host_requirements: note(&mut faults, requirements)
            .iter()
            // SAFETY: by the caller's promise.
            .filter_map(|lent| match unsafe { requirement(lent) } {
                Ok(requirement) => Some(requirement),
                Err(bad) => {
                    faults.push(bad);
                    None
                }
            })
            .collect(),
    };
    (read, faults)
}

/// # Safety
///
/// The texts of `requirement` are lent.
unsafe fn requirement(requirement: &HostRequirementV1) -> Result<HostRequirement, receive::Bad> {
    Ok(HostRequirement {
        operation: Operation::from_code(requirement.operation)
            .ok_or_else(|| format!("hostRequirements has the unknown operation {}", requirement.operation))?,
        required_capabilities: requirement.required_capabilities,
        // SAFETY: by the caller's promise.
        unsupported_message: unsafe { receive::owned(requirement.unsupported_message, "unsupportedMessage")? },
    })
}

extern "C" fn bootstrap(pointer: *const FrameV1, result: *const BootstrapResultV1) -> u32 {
    push(pointer, &[Hook::Bootstrap], |state| {
        // SAFETY: lent for the duration of this push.
        let output = unsafe {
            let result = receive::one(result, "the result")?;
            BootstrapOutput {
                bootstrapped: receive::flag(result.bootstrapped, "bootstrapped")?,
                imported_messages: receive::number(result.imported_messages),
                reason: receive::owned(result.reason, "reason")?,
            }
        };
        state.sink.owed(Output::Bootstrap(output))
    })
}

extern "C" fn maintain(pointer: *const FrameV1, result: *const MaintainResultV1) -> u32 {
    push(pointer, &[Hook::Maintain], |state| {
        // SAFETY: lent for the duration of this push.
        let output = unsafe {
            let result = receive::one(result, "the result")?;
            MaintainOutput {
                changed: receive::flag(result.changed, "changed")?,
                bytes_freed: result.bytes_freed,
                rewritten_entries: result.rewritten_entries,
                reason: receive::owned(result.reason, "reason")?,
            }
        };
        state.sink.owed(Output::Maintain(output))
    })
}

extern "C" fn ingest(pointer: *const FrameV1, result: *const IngestResultV1) -> u32 {
    push(pointer, &[Hook::Ingest, Hook::IngestBatch], |state| {
        // SAFETY: lent for the duration of this push.
        let count = unsafe { receive::one(result, "the result")? }.ingested_count;
        state.sink.owed(Output::Ingest(count))
    })
}

extern "C" fn commit(pointer: *const FrameV1, result: *const CommitResultV1) -> u32 {
    push(pointer, &[Hook::CommitTurn], |state| {
        // SAFETY: lent for the duration of this push.
        let status = unsafe { receive::one(result, "the result")? }.status;
        state.sink.owed(Output::Commit(status))
    })
}

extern "C" fn spans(pointer: *const FrameV1, spans: *const SpanV1, len: usize) -> u32 {
    push(pointer, &[Hook::Assemble], |state| {
        let entries = state.view.as_ref().map_or(0, |(_, len)| *len);
        state.sink.room_for_spans(len, entries)?;
        // SAFETY: lent for the duration of this push.
        let spans = unsafe { receive::list(spans, len, entries + 1, "the list of spans")? };
        state.sink.spans(spans, entries)
    })
}

extern "C" fn message(pointer: *const FrameV1, message: *const MessageV1) -> u32 {
    push(pointer, &[Hook::Assemble], |state| {
        // SAFETY: lent for the duration of this push.
        let message = unsafe { receive::message(receive::one(message, "the message")?)? };
        state.sink.message(message)
    })
}

extern "C" fn assemble(pointer: *const FrameV1, result: *const AssembleResultV1) -> u32 {
    push(pointer, &[Hook::Assemble], |state| {
        // SAFETY: lent for the duration of this push.
        let output = unsafe {
            let result = receive::one(result, "the result")?;
            AssembleOutput {
                items: Vec::new(),
                estimated_tokens: result.estimated_tokens,
                system_prompt_addition: receive::owned(result.system_prompt_addition, "systemPromptAddition")?,
                volatile_prompt_addition: receive::owned(result.volatile_prompt_addition, "volatilePromptAddition")?,
                prompt_authority: match result.prompt_authority {
                    prompt_authority::ASSEMBLED => PromptAuthority::Assembled,
                    prompt_authority::PREASSEMBLY_MAY_OVERFLOW => PromptAuthority::PreassemblyMayOverflow,
                    other => return Err(format!("promptAuthority has the unknown code {other}")),
                },
                projection: ContextProjection {
                    thread_bootstrap: match result.projection_mode {
                        projection_mode::PER_TURN => false,
                        projection_mode::THREAD_BOOTSTRAP => true,
                        other => return Err(format!("contextProjection.mode has the unknown code {other}")),
                    },
                    epoch: receive::owned(result.projection_epoch, "contextProjection.epoch")?,
                    fingerprint: receive::owned(result.projection_fingerprint, "contextProjection.fingerprint")?,
                },
            }
        };
        state.sink.owed(Output::Assemble(output))
    })
}

extern "C" fn compact(pointer: *const FrameV1, result: *const CompactResultV1) -> u32 {
    push(pointer, &[Hook::Compact], |state| {
        // SAFETY: lent for the duration of this push.
        let output = unsafe { compact_output(result)? };
        state.sink.owed(Output::Compact(output))
    })
}

/// # Safety
///
/// `result` and what it points to are lent.
unsafe fn compact_output(result: *const CompactResultV1) -> Result<CompactOutput, receive::Bad> {
    // SAFETY: by the caller's promise.
    unsafe {
        let result = receive::one(result, "the result")?;
        let successor_target = if result.successor_target.is_null() {
            None
        } else {
            let target = receive::one(result.successor_target, "sessionTarget")?;
            Some(SuccessorTarget {
                agent_id: receive::owned(target.agent_id, "sessionTarget.agentId")?,
                session_id: receive::owned(target.session_id, "sessionTarget.sessionId")?,
                session_key: receive::owned(target.session_key, "sessionTarget.sessionKey")?,
                store: receive::owned(target.store, "sessionTarget.storePath")?,
                thread_id: receive::owned(target.thread_id, "sessionTarget.threadId")?,
            })
        };
        Ok(CompactOutput {
            ok: receive::flag(result.ok, "ok")?,
            compacted: receive::flag(result.compacted, "compacted")?,
            reason: receive::owned(result.reason, "reason")?,
            summary: receive::owned(result.summary, "summary")?,
            first_kept: (result.first_kept_entry_id != 0).then_some(result.first_kept_entry_id),
            tokens_before: receive::number(result.tokens_before),
            tokens_after: receive::number(result.tokens_after),
            details_json: receive::owned(result.details_json, "details")?,
            successor_session_id: receive::owned(result.successor_session_id, "sessionId")?,
            successor_target,
        })
    }
}

extern "C" fn prepare_subagent(pointer: *const FrameV1, result: *const PrepareSubagentResultV1) -> u32 {
    push(pointer, &[Hook::PrepareSubagentSpawn], |state| {
        // SAFETY: lent for the duration of this push.
        let handle = unsafe { receive::one(result, "the result")? }.rollback_handle;
        state.sink.owed(Output::PrepareSubagent(handle))
    })
}

extern "C" fn tool(pointer: *const FrameV1, tool: *const ToolV1) -> u32 {
    push(pointer, &[Hook::Tools], |state| {
        // SAFETY: lent for the duration of this push.
        let (name, description, parameters) = unsafe {
            let tool = receive::one(tool, "the tool")?;
            (
                receive::required(tool.name, "a tool's name")?,
                receive::owned(tool.description, "a tool's description")?.unwrap_or_default(),
                receive::required(tool.parameters_json, "a tool's parameters")?,
            )
        };
        state.sink.tool(name, description, &parameters)
    })
}

extern "C" fn tool_result(pointer: *const FrameV1, result: *const ToolResultV1) -> u32 {
    push(pointer, &[Hook::CallTool], |state| {
        // SAFETY: lent for the duration of this push.
        let output = unsafe {
            let result = receive::one(result, "the result")?;
            ToolOutput {
                text: receive::owned(result.text, "the tool's text")?.unwrap_or_default(),
                is_error: receive::flag(result.is_error, "isError")?,
            }
        };
        state.sink.owed(Output::Tool(output))
    })
}

extern "C" fn memory_prompt(pointer: *const FrameV1, text: Str) -> u32 {
    push(pointer, &[Hook::MemoryPrompt], |state| {
        // SAFETY: lent for the duration of this push.
        let text = unsafe { receive::required(text, "the memory section") }?;
        state.sink.owed(Output::MemoryPrompt(text))
    })
}

extern "C" fn memory_hits(pointer: *const FrameV1, hits: *const MemoryHitV1, len: usize) -> u32 {
    push(pointer, &[Hook::MemorySearch], |state| {
        state.sink.room_for_hits(len)?;
        // SAFETY: lent for the duration of this push.
        for hit in unsafe { receive::list(hits, len, HITS_MAX, "the list of hits") }? {
            // SAFETY: as above.
            let (id, text) =
                unsafe { (receive::required(hit.id, "a hit's id")?, receive::required(hit.text, "a hit's text")?) };
            let time_ms = (hit.time_ms >= 0).then_some(hit.time_ms);
            state.sink.hit(MemoryHit { id, text, score: hit.score, time_ms })?;
        }
        Ok(())
    })
}

extern "C" fn entry(pointer: *const FrameV1, index: usize, out: *mut EntryV1) -> u32 {
    guard("entry", || {
        let Some(frame) = frame(pointer) else { return status::INVALID };
        if frame.expired() {
            return status::EXPIRED;
        }
        if out.is_null() || !out.is_aligned() {
            return status::INVALID;
        }
        if let Some(relay) = frame.relay() {
            return match lend_relayed(&frame, relay, index) {
                // SAFETY: not null and aligned; the engine lends it for the duration of this call.
                Ok(entry) => unsafe {
                    out.write(entry);
                    status::OK
                },
                Err(status) => status,
            };
        }
        let mut state = frame.state();
        let CallState { view, arena, .. } = &mut *state;
        let entry = view.as_ref().and_then(|(view, len)| arena.body(view, *len, index));
        let Some(entry) = entry else { return status::NOT_FOUND };
        // SAFETY: not null and aligned; the engine lends it for the duration of this call.
        unsafe { out.write(entry) };
        status::OK
    })
}

/// In a worker the bodies come from the gateway; what was lent once in a call is lent again.
fn lend_relayed(frame: &Frame, relay: &Arc<dyn Relay>, index: usize) -> Result<EntryV1, u32> {
    let head = {
        let state = frame.state();
        if let Some(made) = state.arena.made(index) {
            return Ok(made);
        }
        let shown = state.view.as_ref().filter(|(_, len)| index < *len);
        *shown.and_then(|(view, _)| view.heads.get(index)).ok_or(status::NOT_FOUND)?
    };
    let message = relay.body(frame, index)?;
    Ok(frame.state().arena.lend_body(index, head, &message))
}

extern "C" fn cancelled(pointer: *const FrameV1) -> u32 {
    match frame(pointer).as_deref() {
        Some(frame) => u32::from(frame.stop()),
        None => 1,
    }
}

extern "C" fn remaining_ms(pointer: *const FrameV1) -> u64 {
    let left =
        frame(pointer).as_deref().and_then(Frame::deadline).map(|at| at.saturating_duration_since(Instant::now()));
    u64::try_from(left.unwrap_or(Duration::ZERO).as_millis()).unwrap_or(u64::MAX)
}

/// Ends the process at once, without destructors: an abandoned call may hold any lock, and the static destructors of a library
/// could wait for it for ever.
pub fn exit_now(code: i32) -> ! {
    unsafe extern "C" {
        fn _exit(code: std::ffi::c_int) -> !;
    }
    // SAFETY: `_exit` has no preconditions and does not return.
    unsafe { _exit(code) }
}
