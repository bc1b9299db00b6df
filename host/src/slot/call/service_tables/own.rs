//! The memory slot, and the engine's own store.
#![allow(unsafe_code, reason = "these functions are called by engines with raw pointers")]

use super::{invalid, refused, serve, write};
use crate::slot::call::host_table::GRANT_MEMORY_APPEND;
use crate::slot::call::receive::{self, Bad};
use crate::slot::call::sink::HITS_MAX;
use crate::slot::services::{MemoryPromptArgs, ServiceError, ServiceStatus, StoreOp};
use crate::transcript::EngineOp;
use engine_abi::wire::{self, *};

pub(super) static MEMORY: MemoryV1 = MemoryV1 { prompt_addition, search, append: None };
pub(super) static MEMORY_APPEND: MemoryV1 = MemoryV1 { prompt_addition, search, append: Some(append) };
pub(super) static STORE: StoreV1 = StoreV1 { get, scan, batch };

/// Longest key, in bytes.
const KEY_MAX: usize = 1_024;
/// Most operations of a batch.
const BATCH_MAX: usize = 100_000;
/// Most bytes of the keys and values of a batch: it is one transaction, and others wait for it.
const BATCH_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Most pairs of a scan.
const SCAN_MAX: u64 = 10_000;

extern "C" fn prompt_addition(frame: *const FrameV1, args: *const MemoryPromptArgsV1, out: *mut Str) -> u32 {
    serve(
        frame,
        service::MEMORY,
        |asked| {
            // SAFETY: lent for the duration of this call.
            let args = unsafe {
                receive::one(args, "the arguments").and_then(|args| {
                    Ok(MemoryPromptArgs {
                        available_tools: receive::texts(args.available_tools, "availableTools")?,
                        citations_mode: args.citations_mode,
                        sandboxed: receive::flag(args.sandboxed, "sandboxed")?,
                    })
                })
            }
            .map_err(invalid)?;
            asked.frame.services.memory_prompt(&asked.scope(), args)
        },
        |text, arena| {
            let text = arena.opt(text);
            // SAFETY: lent for the duration of this call.
            unsafe { write(out, text) };
        },
    )
}

extern "C" fn search(frame: *const FrameV1, query: Str, limit: u64, out: *mut MemoryHitsV1) -> u32 {
    serve(
        frame,
        service::MEMORY,
        |asked| {
            // SAFETY: lent for the duration of this call.
            let query = unsafe { receive::required(query, "the query") }.map_err(invalid)?;
            asked.frame.services.memory_search(&asked.scope(), &query, limit.min(HITS_MAX as u64) as usize)
        },
        |hits, arena| {
            let (ptr, len) = arena.hits(hits);
            // SAFETY: lent for the duration of this call.
            unsafe { write(out, MemoryHitsV1 { ptr, len }) };
        },
    )
}

extern "C" fn append(frame: *const FrameV1, text: Str) -> u32 {
    serve(
        frame,
        service::MEMORY,
        |asked| {
            if !asked.scope().granted(GRANT_MEMORY_APPEND) {
                return Err(refused("appending to the memory is not granted (grants = [\"memory-append\"])"));
            }
            // SAFETY: lent for the duration of this call.
            let text = unsafe { receive::required(text, "the text") }.map_err(invalid)?;
            asked.frame.services.memory_append(&asked.scope(), &text)
        },
        |(), _| (),
    )
}

/// # Safety
///
/// `key` is lent.
unsafe fn store_key<'a>(key: Bytes) -> Result<&'a [u8], Bad> {
    // SAFETY: by the caller's promise.
    match unsafe { receive::bytes(key, KEY_MAX, "the key") }? {
        Some(key) if !key.is_empty() => Ok(key),
        _ => Err("the key is empty".into()),
    }
}

extern "C" fn get(frame: *const FrameV1, engine_scope: u32, key: Bytes, out: *mut Bytes) -> u32 {
    serve(
        frame,
        service::STORE,
        |asked| {
            // SAFETY: lent for the duration of this call.
            let key = unsafe { store_key(key) }.map_err(invalid)?;
            let scope = receive::flag(engine_scope, "the scope").map_err(invalid)?;
            let value = asked.frame.services.store_get(&asked.scope(), scope, key)?;
            value.ok_or_else(|| ServiceError::new(ServiceStatus::NotFound, "no such key"))
        },
        |value, arena| {
            let value = arena.bytes(value);
            // SAFETY: lent for the duration of this call.
            unsafe { write(out, value) };
        },
    )
}

extern "C" fn scan(
    frame: *const FrameV1,
    engine_scope: u32,
    prefix: Bytes,
    after: Bytes,
    limit: u64,
    out: *mut StorePairsV1,
) -> u32 {
    serve(
        frame,
        service::STORE,
        |asked| {
            // SAFETY: lent for the duration of this call.
            let (prefix, after) = unsafe {
                (
                    receive::bytes(prefix, KEY_MAX, "the prefix").map_err(invalid)?.unwrap_or(&[]),
                    receive::bytes(after, KEY_MAX, "the key").map_err(invalid)?,
                )
            };
            let scope = receive::flag(engine_scope, "the scope").map_err(invalid)?;
            asked.frame.services.store_scan(&asked.scope(), scope, prefix, after, limit.min(SCAN_MAX) as usize)
        },
        |pairs, arena| {
            let (ptr, len) = arena.pairs(pairs);
            // SAFETY: lent for the duration of this call.
            unsafe { write(out, StorePairsV1 { ptr, len }) };
        },
    )
}

extern "C" fn batch(frame: *const FrameV1, ops: *const StoreOpV1, len: usize) -> u32 {
    serve(
        frame,
        service::STORE,
        |asked| {
            // SAFETY: lent for the duration of this call.
            let ops = unsafe {
                receive::list(ops, len, BATCH_MAX, "the batch")
                    .and_then(|ops| {
                        let bytes = ops.iter().fold(0usize, |all, op| all.saturating_add(op.key.len + op.value.len));
                        if bytes > BATCH_BYTES_MAX { Err(format!("the batch has {bytes} bytes")) } else { Ok(ops) }
                    })
                    .and_then(|ops| ops.iter().map(|op| store_op(op)).collect::<Result<Vec<_>, Bad>>())
                    .map_err(invalid)?
            };
            if ops.is_empty() {
                return Ok(());
            }
            asked.frame.services.store_batch(&asked.scope(), ops)
        },
        |(), _| (),
    )
}

/// # Safety
///
/// The key and the value of `op` are lent.
unsafe fn store_op(op: &StoreOpV1) -> Result<StoreOp, Bad> {
    // SAFETY: by the caller's promise.
    let (key, value) = unsafe {
        (store_key(op.key)?.to_vec(), receive::bytes(op.value, receive::TEXT_MAX, "the value")?.map(<[u8]>::to_vec))
    };
    let present = |value: Option<Vec<u8>>| value.ok_or_else(|| "the value is absent".to_owned());
    Ok(StoreOp {
        engine_scope: receive::flag(op.engine_scope, "the scope")?,
        op: match op.op {
            wire::store_op::PUT => EngineOp::Put(key, present(value)?),
            wire::store_op::DELETE => EngineOp::Delete(key),
            wire::store_op::REQUIRE_ABSENT => EngineOp::RequireAbsent(key),
            wire::store_op::REQUIRE_EQUAL => EngineOp::RequireEqual(key, present(value)?),
            wire::store_op::DELETE_PREFIX => EngineOp::DeletePrefix(key),
            other => return Err(format!("unknown operation {other}")),
        },
    })
}
