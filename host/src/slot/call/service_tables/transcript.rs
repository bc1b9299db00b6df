//! The transcript cursor, rewriting, the list of sessions.
#![allow(unsafe_code, reason = "these functions are called by engines with raw pointers")]

use super::{serve, write};
use crate::slot::call::ask::{Answer, Deed, Request};
use crate::slot::call::receive::{self, Bad};
use crate::slot::services::{CursorRequest, Replacement};
use engine_abi::wire::*;

pub(super) static TRANSCRIPT: TranscriptV1 = TranscriptV1 { read, rewrite };
pub(super) static SESSIONS: SessionsV1 = SessionsV1 { list };

extern "C" fn read(frame: *const FrameV1, request: *const CursorRequestV1, out: *mut CursorPageV1) -> u32 {
    serve(
        frame,
        Deed::Read,
        || {
            // SAFETY: lent for the duration of this call.
            let request = unsafe {
                let request = receive::one(request, "the request")?;
                CursorRequest {
                    session_key: receive::owned(request.session_key, "sessionKey")?,
                    cursor: receive::owned(request.cursor, "cursor")?,
                    max_messages: usize::try_from(request.max_messages).unwrap_or(usize::MAX),
                    max_bytes: request.max_bytes,
                }
            };
            Ok(Request::Read(request))
        },
        |answer, arena| {
            let Answer::Page(page) = answer else { return };
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

extern "C" fn rewrite(
    frame: *const FrameV1,
    replacements: *const ReplacementV1,
    len: usize,
    out: *mut MaintainResultV1,
) -> u32 {
    serve(
        frame,
        Deed::Rewrite,
        || {
            // SAFETY: lent for the duration of this call, with the messages in it.
            let list = unsafe { receive::list(replacements, len, receive::LIST_MAX, "replacements") }?;
            let replacement = |r: &ReplacementV1| {
                // SAFETY: as above.
                Ok(Replacement { entry_id: r.entry_id, message: unsafe { receive::message(&r.message) }? })
            };
            Ok(Request::Rewrite(list.iter().map(replacement).collect::<Result<_, Bad>>()?))
        },
        |answer, arena| {
            let Answer::Rewritten(output) = answer else { return };
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
        Deed::ListSessions,
        // SAFETY: lent for the duration of this call.
        || Ok(Request::ListSessions { after: unsafe { receive::text(after, "after") }?, limit }),
        |answer, arena| {
            let Answer::Keys(keys) = answer else { return };
            let (ptr, len) = arena.texts(keys);
            // SAFETY: lent for the duration of this call.
            unsafe { write(out, StrList { ptr, len }) };
        },
    )
}
