//! The test host and the few services behind it: log, tokens, compaction, store.

use super::frame::owned;
use super::frame_of;
use crate::host::extension;
use crate::raw;
use crate::wire::{self, *};
use std::sync::PoisonError;

/// A static may not hold a pointer without a promise.
#[repr(transparent)]
struct Shareable(HostV1);
// SAFETY: its only pointer is null.
unsafe impl Sync for Shareable {}

static HOST: Shareable = Shareable(HostV1 { log, service, last_error, private: std::ptr::null() });

/// The one host of all tests.
pub(super) fn host() -> *const HostV1 {
    &raw const HOST.0
}

extern "C" fn log(_: *const HostV1, _: *const FrameV1, level: u32, target: Str, message: Str) {
    // SAFETY: the engine lends the texts for the call.
    let (target, message) = unsafe { (owned(target).unwrap_or_default(), owned(message).unwrap_or_default()) };
    LOG.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{level} {target}: {message}"));
}

static LOG: std::sync::Mutex<Vec<String>> = std::sync::Mutex::new(Vec::new());

/// Lines that any engine of this process has logged, as `level target: message`.
#[must_use]
pub fn logged() -> Vec<String> {
    LOG.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

extern "C" fn service(_: *const HostV1, id: Str) -> ExtensionV1 {
    // SAFETY: the engine lends the text for the call.
    match unsafe { owned(id) }.as_deref() {
        Some(wire::service::TOKENS) => extension(&TOKENS),
        Some(wire::service::COMPACTION) => extension(&COMPACTION),
        Some(wire::service::STORE) => extension(&STORE),
        _ => ExtensionV1::NONE,
    }
}

/// The token of every error of this host.
const TOKEN: u64 = 7;

extern "C" fn last_error(frame: *const FrameV1, message: *mut Str) -> u64 {
    // SAFETY: the frame of the running call.
    let frame = unsafe { frame_of(frame) };
    let Some(reason) = frame.error.borrow().clone() else { return 0 };
    let lent = frame.lend(reason.as_bytes());
    // SAFETY: `message` is the engine's.
    unsafe { message.write(Str { ptr: lent.ptr, len: lent.len }) };
    TOKEN
}

static TOKENS: TokensV1 = TokensV1 { count };
extern "C" fn count(_: *const FrameV1, text: Str, tokens: *mut u64, estimated: *mut u32) -> u32 {
    // SAFETY: both places are the engine's.
    unsafe {
        tokens.write(text.len as u64 / 4 + 1);
        estimated.write(1);
    }
    status::OK
}

static COMPACTION: CompactionV1 = CompactionV1 { delegate };
extern "C" fn delegate(_: *const FrameV1, args: *const CompactArgsV1, out: *mut CompactResultV1) -> u32 {
    // SAFETY: the engine hands the arguments of its `compact` on.
    let heads = unsafe { raw::slice((*args).entries, (*args).entries_len) };
    let result = CompactResultV1 {
        ok: 1,
        compacted: u32::from(heads.len() > 1),
        reason: Str::NONE,
        summary: Str::new("a summary by the host"),
        first_kept_entry_id: heads.last().map_or(0, |head| head.id),
        tokens_before: NONE_U64,
        tokens_after: NONE_U64,
        details_json: Str::NONE,
        successor_session_id: Str::NONE,
        successor_target: std::ptr::null(),
    };
    // SAFETY: `out` is the engine's.
    unsafe { out.write(result) };
    status::OK
}

static STORE: StoreV1 = StoreV1 { get, scan, batch };

/// # Safety
///
/// `bytes` is lent for the call.
unsafe fn bytes<'a>(bytes: Bytes) -> &'a [u8] {
    // SAFETY: the caller's promise.
    unsafe { raw::slice(bytes.ptr, bytes.len) }
}

extern "C" fn get(frame: *const FrameV1, engine_scope: u32, key: Bytes, out: *mut Bytes) -> u32 {
    // SAFETY: the frame of the running call; the engine lends the key.
    let (frame, key) = unsafe { (frame_of(frame), bytes(key).to_vec()) };
    let store = frame.shared.store.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(value) = store.get(&(engine_scope == 1, key)) else { return status::NOT_FOUND };
    // SAFETY: `out` is the engine's.
    unsafe { out.write(frame.lend(value)) };
    status::OK
}

extern "C" fn scan(
    frame: *const FrameV1,
    engine_scope: u32,
    prefix: Bytes,
    after: Bytes,
    limit: u64,
    out: *mut StorePairsV1,
) -> u32 {
    // SAFETY: the frame of the running call; the engine lends the keys.
    let (frame, prefix, after_key) = unsafe { (frame_of(frame), bytes(prefix), bytes(after)) };
    let store = frame.shared.store.lock().unwrap_or_else(PoisonError::into_inner);
    let pairs: Box<[StorePairV1]> = store
        .iter()
        .filter(|((scope, key), _)| *scope == (engine_scope == 1) && key.starts_with(prefix))
        .filter(|((_, key), _)| after.ptr.is_null() || key.as_slice() > after_key)
        .take(usize::try_from(limit).unwrap_or(usize::MAX))
        .map(|((_, key), value)| StorePairV1 { key: frame.lend(key), value: frame.lend(value) })
        .collect();
    // SAFETY: `out` is the engine's; the pairs are kept below.
    unsafe { out.write(StorePairsV1 { ptr: pairs.as_ptr(), len: pairs.len() }) };
    frame.pairs.borrow_mut().push(pairs);
    status::OK
}

extern "C" fn batch(frame: *const FrameV1, ops: *const StoreOpV1, len: usize) -> u32 {
    // SAFETY: the frame of the running call; the engine lends the operations.
    let (frame, ops) = unsafe { (frame_of(frame), raw::slice(ops, len)) };
    let mut store = frame.shared.store.lock().unwrap_or_else(PoisonError::into_inner);
    let mut next = store.clone();
    for op in ops {
        // SAFETY: as above.
        let (key, value) = unsafe { ((op.engine_scope == 1, bytes(op.key).to_vec()), bytes(op.value).to_vec()) };
        let holds = match op.op {
            store_op::PUT => {
                next.insert(key, value);
                true
            }
            store_op::DELETE => {
                next.remove(&key);
                true
            }
            store_op::REQUIRE_ABSENT => !store.contains_key(&key),
            store_op::REQUIRE_EQUAL => store.get(&key) == Some(&value),
            store_op::DELETE_PREFIX => {
                next.retain(|(scope, other), _| *scope != key.0 || !other.starts_with(&key.1));
                true
            }
            _ => return frame.fail(status::INVALID, "unknown operation"),
        };
        if !holds {
            return frame.fail(status::REFUSED, "a condition of the batch does not hold");
        }
    }
    *store = next;
    status::OK
}
