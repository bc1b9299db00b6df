//! The transcript cursor, rewriting, the list of sessions.
#![allow(unsafe_code, reason = "these functions are called by engines with raw pointers")]

use super::{invalid, refused, serve, write};
use crate::slot::call::host_table::GRANT_SESSIONS;
use crate::slot::call::receive::{self, Bad};
use crate::slot::hook::Hook;
use crate::slot::services::{CursorRequest, Replacement};
use engine_abi::wire::*;

pub(super) static TRANSCRIPT: TranscriptV1 = TranscriptV1 { read, rewrite };
pub(super) static SESSIONS: SessionsV1 = SessionsV1 { list };

/// Most keys of one page of sessions.
const LIST_MAX: u64 = 1_000;

extern "C" fn read(frame: *const FrameV1, request: *const CursorRequestV1, out: *mut CursorPageV1) -> u32 {
    serve(
        frame,
        service::TRANSCRIPT,
        |asked| {
            // SAFETY: lent for the duration of this call.
            let request = unsafe { cursor_request(request) }.map_err(invalid)?;
            let other = request.session_key.is_some() && request.session_key != asked.session.session_key;
            if other && !asked.scope().granted(GRANT_SESSIONS) {
                return Err(refused("other sessions are not granted (grants = [\"sessions\"])"));
            }
            let page = asked.frame.services.read_transcript(&asked.scope(), request)?;
            let read = page.entries.last().filter(|_| asked.hook == Hook::Bootstrap && !other);
            if read.is_some_and(|entry| asked.frame.reaches(entry.head.id)) {
                asked.frame.core.advanced(asked.frame);
            }
            Ok(page)
        },
        |page, arena| {
            let wire = CursorPageV1 {
                outcome: page.outcome,
                reset_reason: page.reset_reason,
                has_more: u32::from(page.has_more),
                reserved: 0,
                cursor: arena.opt(page.cursor),
                entries: arena.entries(&page.entries),
                serialized_bytes: page.serialized_bytes,
                required_bytes: page.required_bytes,
            };
            // SAFETY: lent for the duration of this call.
            unsafe { write(out, wire) };
        },
    )
}

/// # Safety
///
/// `request` and what it points to are lent.
unsafe fn cursor_request(request: *const CursorRequestV1) -> Result<CursorRequest, Bad> {
    // SAFETY: by the caller's promise.
    unsafe {
        let request = receive::one(request, "the request")?;
        let or = |value: u64, default: u64, most: u64| if value == 0 { default } else { value.min(most) };
        Ok(CursorRequest {
            session_key: receive::owned(request.session_key, "sessionKey")?,
            cursor: receive::owned(request.cursor, "cursor")?,
            max_messages: or(request.max_messages, 1_000, 10_000) as usize,
            max_bytes: or(request.max_bytes, 1_000_000, 64 * 1024 * 1024),
        })
    }
}

extern "C" fn rewrite(
    frame: *const FrameV1,
    replacements: *const ReplacementV1,
    len: usize,
    out: *mut MaintainResultV1,
) -> u32 {
    serve(
        frame,
        service::TRANSCRIPT,
        |asked| {
            if matches!(asked.hook, Hook::Bootstrap | Hook::Assemble) {
                return Err(refused("the transcript cannot be rewritten during bootstrap and assemble"));
            }
            // SAFETY: lent for the duration of this call.
            let replacements = unsafe {
                receive::list(replacements, len, receive::LIST_MAX, "replacements")
                    .and_then(|list| {
                        list.iter()
                            .map(|r| Ok(Replacement { entry_id: r.entry_id, message: receive::message(&r.message)? }))
                            .collect::<Result<Vec<_>, Bad>>()
                    })
                    .map_err(invalid)?
            };
            asked.frame.services.rewrite(&asked.scope(), replacements)
        },
        |output, arena| {
            let wire = MaintainResultV1 {
                changed: u32::from(output.changed),
                reserved: 0,
                bytes_freed: output.bytes_freed,
                rewritten_entries: output.rewritten_entries,
                reason: arena.opt(output.reason),
            };
            // SAFETY: lent for the duration of this call.
            unsafe { write(out, wire) };
        },
    )
}

extern "C" fn list(frame: *const FrameV1, after: Str, limit: u64, out: *mut StrList) -> u32 {
    serve(
        frame,
        service::SESSIONS,
        |asked| {
            if !asked.scope().granted(GRANT_SESSIONS) {
                return Err(refused("the list of sessions is not granted (grants = [\"sessions\"])"));
            }
            // SAFETY: lent for the duration of this call.
            let after = unsafe { receive::text(after, "after") }.map_err(invalid)?;
            asked.frame.services.list_sessions(&asked.scope(), after, limit.min(LIST_MAX) as usize)
        },
        |keys, arena| {
            let (ptr, len) = arena.texts(keys);
            // SAFETY: lent for the duration of this call.
            unsafe { write(out, StrList { ptr, len }) };
        },
    )
}
