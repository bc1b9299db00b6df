//! The transcript cursor of the test host: pages of what a [`super::World`] was told. A cursor is the id of the last entry read.

use super::frame::{Lent, owned};
use super::{Line, frame_of};
use crate::wire::*;

pub(super) static TRANSCRIPT: TranscriptV1 = TranscriptV1 { read, rewrite };
pub(super) static SESSIONS: SessionsV1 = SessionsV1 { list };

/// Entries of a page when the reader names no limit: few, so that tests turn pages.
const PAGE: usize = 16;
/// Bytes of a page when the reader names no limit.
const PAGE_BYTES: usize = 16 * 1024;

extern "C" fn read(frame: *const FrameV1, request: *const CursorRequestV1, out: *mut CursorPageV1) -> u32 {
    // SAFETY: the frame of the running call; the engine lends the request.
    let (frame, request) = unsafe { (frame_of(frame), &*request) };
    // SAFETY: as above.
    let (key, cursor) = unsafe { (owned(request.session_key), owned(request.cursor)) };
    let own = key.as_deref().is_none_or(|key| key == frame.names.1);
    if !own && !frame.shared.may_read_others() {
        return frame.fail(status::REFUSED, "another session needs the grant sessions");
    }
    let mut page = CursorPageV1 {
        outcome: cursor_outcome::PAGE,
        reset_reason: cursor_reset::NONE,
        has_more: 0,
        reserved: 0,
        cursor: Str::NONE,
        entries: EntryList { ptr: std::ptr::null(), len: 0 },
        serialized_bytes: 0,
        required_bytes: 0,
    };
    let transcripts = frame.shared.transcripts();
    let after = match cursor.as_deref() {
        None => Some(0),
        Some(cursor_place::HANDED_OVER) => Some(frame.shared.handed(&frame.names.0)),
        Some(cursor) => cursor.parse().ok(),
    };
    match (transcripts.get(key.as_deref().unwrap_or(&frame.names.1)), after) {
        (None, _) => page.outcome = cursor_outcome::MISSING,
        (Some(_), None) => {
            page.outcome = cursor_outcome::RESET;
            page.reset_reason = cursor_reset::INVALID_CURSOR;
        }
        (Some(lines), Some(after)) => {
            let fence = frame.fence.get();
            let readable = |line: &&Line| line.id > after && (!own || fence == 0 || line.id < fence);
            let left: Vec<&Line> = lines.iter().filter(readable).collect();
            let most = usize::try_from(request.max_messages).ok().filter(|most| *most != 0).unwrap_or(PAGE);
            let most_bytes = usize::try_from(request.max_bytes).ok().filter(|most| *most != 0).unwrap_or(PAGE_BYTES);
            let mut bytes = 0;
            let fits = |line: &&&Line| {
                bytes += line.text.len();
                bytes <= most_bytes
            };
            let given: Vec<Line> = left.iter().take(most).take_while(fits).map(|line| (*line).clone()).collect();
            page.has_more = u32::from(given.len() < left.len());
            if let (true, Some(first)) = (given.is_empty(), left.first()) {
                page.required_bytes = first.text.len() as u64;
            }
            let last = given.last().map_or(after, |line| line.id);
            if own {
                frame.read_up_to.set(frame.read_up_to.get().max(last));
            }
            let lent = frame.lend(last.to_string().as_bytes());
            page.cursor = Str { ptr: lent.ptr, len: lent.len };
            let lent = Lent::of(&given);
            page.entries = EntryList { ptr: lent.entries.as_ptr(), len: lent.entries.len() };
            frame.pages.borrow_mut().push(lent);
        }
    }
    // SAFETY: `out` is the engine's.
    unsafe { out.write(page) };
    status::OK
}

extern "C" fn rewrite(frame: *const FrameV1, _: *const ReplacementV1, _: usize, _: *mut MaintainResultV1) -> u32 {
    // SAFETY: the frame of the running call.
    unsafe { frame_of(frame) }.fail(status::REFUSED, "the test host rewrites nothing")
}

extern "C" fn list(frame: *const FrameV1, after: Str, limit: u64, out: *mut StrList) -> u32 {
    // SAFETY: the frame of the running call; the engine lends the text.
    let (frame, after) = unsafe { (frame_of(frame), owned(after)) };
    if !frame.shared.may_read_others() {
        return frame.fail(status::REFUSED, "the list of sessions needs the grant sessions");
    }
    let transcripts = frame.shared.transcripts();
    let behind = transcripts.keys().filter(|key| after.as_ref().is_none_or(|after| *key > after));
    let keys = behind.take(usize::try_from(limit).unwrap_or(usize::MAX)).map(|key| {
        let lent = frame.lend(key.as_bytes());
        Str { ptr: lent.ptr, len: lent.len }
    });
    let keys: Box<[Str]> = keys.collect();
    // SAFETY: `out` is the engine's; the keys are kept below.
    unsafe { out.write(StrList::new(&keys)) };
    frame.lists.borrow_mut().push(keys);
    status::OK
}
