//! The test host and the few services behind it: log, tokens, compaction, store; a model where the world has one.

use super::frame::{Frame, owned};
use super::frame_of;
use super::world::{Fault, Scope};
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
static HOST_WITH_MODEL: Shareable =
    Shareable(HostV1 { log, service: service_or_model, last_error, private: std::ptr::null() });

/// The host of all tests, with or without a model.
pub(super) fn host(has_model: bool) -> *const HostV1 {
    if has_model { &raw const HOST_WITH_MODEL.0 } else { &raw const HOST.0 }
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
        Some(wire::service::TRANSCRIPT) => extension(&super::transcript::TRANSCRIPT),
        Some(wire::service::SESSIONS) => extension(&super::transcript::SESSIONS),
        _ => ExtensionV1::NONE,
    }
}

extern "C" fn service_or_model(host: *const HostV1, id: Str) -> ExtensionV1 {
    // SAFETY: the engine lends the text for the call.
    match unsafe { owned(id) }.as_deref() {
        Some(wire::service::LLM) => extension(&super::model::LLM),
        _ => service(host, id),
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

/// The scope of a call.
fn scope(frame: &Frame, engine_scope: u32) -> Scope {
    (engine_scope == 0).then(|| frame.names.0.clone())
}

extern "C" fn get(frame: *const FrameV1, engine_scope: u32, key: Bytes, out: *mut Bytes) -> u32 {
    // SAFETY: the frame of the running call; the engine lends the key.
    let (frame, key) = unsafe { (frame_of(frame), bytes(key).to_vec()) };
    let store = frame.shared.store();
    let Some(value) = store.get(&(scope(frame, engine_scope), key)) else { return status::NOT_FOUND };
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
    let store = frame.shared.store();
    let scope = scope(frame, engine_scope);
    let from = if after.ptr.is_null() { prefix } else { prefix.max(after_key) };
    let pairs: Box<[StorePairV1]> = store
        .range((scope.clone(), from.to_vec())..)
        .take_while(|((other, key), _)| *other == scope && key.starts_with(prefix))
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
    let fault = frame.shared.next_fault();
    if fault == Some(Fault::Lost) {
        return frame.fail(status::ERROR, "the batch was lost");
    }
    let mut store = frame.shared.store();
    // SAFETY: as above.
    let place = |op: &StoreOpV1| unsafe { (scope(frame, op.engine_scope), bytes(op.key).to_vec()) };
    // Conditions are about what is there before the batch.
    for op in ops {
        let holds = match op.op {
            store_op::REQUIRE_ABSENT => !store.contains_key(&place(op)),
            // SAFETY: as above.
            store_op::REQUIRE_EQUAL => store.get(&place(op)).map(Vec::as_slice) == Some(unsafe { bytes(op.value) }),
            store_op::PUT | store_op::DELETE | store_op::DELETE_PREFIX => true,
            _ => return frame.fail(status::INVALID, "unknown operation"),
        };
        if !holds {
            return frame.fail(status::REFUSED, "a condition of the batch does not hold");
        }
    }
    for op in ops {
        let (scope, key) = place(op);
        match op.op {
            // SAFETY: as above.
            store_op::PUT => drop(store.insert((scope, key), unsafe { bytes(op.value) }.to_vec())),
            store_op::DELETE => drop(store.remove(&(scope, key))),
            store_op::DELETE_PREFIX => store.retain(|(other, name), _| *other != scope || !name.starts_with(&key)),
            _ => {}
        }
    }
    match fault {
        Some(Fault::Unknown) => frame.fail(status::ERROR, "what became of the batch is not known"),
        _ => status::OK,
    }
}
