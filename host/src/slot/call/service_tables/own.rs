//! The memory slot, and the engine's own store.
#![allow(unsafe_code, reason = "these functions are called by engines with raw pointers")]

use super::{serve, write};
use crate::slot::call::ask::{Answer, BATCH_BYTES_MAX, BATCH_MAX, Deed, KEY_MAX, Request};
use crate::slot::call::receive::{self, Bad};
use crate::slot::services::{MemoryPromptArgs, StoreOp};
use crate::transcript::EngineOp;
use engine_abi::wire::{self, *};

pub(super) static MEMORY: MemoryV1 = MemoryV1 { prompt_addition, search, append: None };
pub(super) static MEMORY_APPEND: MemoryV1 = MemoryV1 { prompt_addition, search, append: Some(append) };
pub(super) static STORE: StoreV1 = StoreV1 { get, scan, batch };

extern "C" fn prompt_addition(frame: *const FrameV1, args: *const MemoryPromptArgsV1, out: *mut Str) -> u32 {
    serve(
        frame,
        Deed::MemoryPrompt,
        || {
            // SAFETY: lent for the duration of this call.
            let args = unsafe {
                let args = receive::one(args, "the arguments")?;
                MemoryPromptArgs {
                    available_tools: receive::texts(args.available_tools, "availableTools")?,
                    citations_mode: args.citations_mode,
                    sandboxed: receive::flag(args.sandboxed, "sandboxed")?,
                }
            };
            Ok(Request::MemoryPrompt(args))
        },
        |answer, arena| {
            let Answer::Section(text) = answer else { return };
            let text = arena.opt(text);
            // SAFETY: lent for the duration of this call.
            unsafe { write(out, text) };
        },
    )
}

extern "C" fn search(frame: *const FrameV1, query: Str, limit: u64, out: *mut MemoryHitsV1) -> u32 {
    serve(
        frame,
        Deed::MemorySearch,
        // SAFETY: lent for the duration of this call.
        || Ok(Request::MemorySearch { query: unsafe { present(query, "the query") }?, limit }),
        |answer, arena| {
            let Answer::Hits(hits) = answer else { return };
            let (ptr, len) = arena.hits(hits);
            // SAFETY: lent for the duration of this call.
            unsafe { write(out, MemoryHitsV1 { ptr, len }) };
        },
    )
}

extern "C" fn append(frame: *const FrameV1, text: Str) -> u32 {
    serve(
        frame,
        Deed::MemoryAppend,
        // SAFETY: lent for the duration of this call.
        || Ok(Request::MemoryAppend { text: unsafe { present(text, "the text") }? }),
        |_, _| (),
    )
}

/// # Safety
///
/// `text` is lent.
unsafe fn present<'a>(text: Str, what: &str) -> Result<&'a str, Bad> {
    // SAFETY: by the caller's promise.
    unsafe { receive::text(text, what) }?.ok_or_else(|| format!("{what} is absent"))
}

extern "C" fn get(frame: *const FrameV1, engine_scope: u32, key: Bytes, out: *mut Bytes) -> u32 {
    serve(
        frame,
        Deed::StoreGet,
        || {
            // SAFETY: lent for the duration of this call.
            let key = unsafe { receive::bytes(key, KEY_MAX, "the key") }?.unwrap_or(&[]);
            Ok(Request::StoreGet { engine_scope: receive::flag(engine_scope, "the scope")?, key })
        },
        |answer, arena| {
            let Answer::Value(value) = answer else { return };
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
        Deed::StoreScan,
        || {
            // SAFETY: lent for the duration of this call.
            let (prefix, after) = unsafe {
                let prefix = receive::bytes(prefix, KEY_MAX, "the prefix")?.unwrap_or(&[]);
                (prefix, receive::bytes(after, KEY_MAX, "the key")?)
            };
            let engine_scope = receive::flag(engine_scope, "the scope")?;
            Ok(Request::StoreScan { engine_scope, prefix, after, limit })
        },
        |answer, arena| {
            let Answer::Pairs(pairs) = answer else { return };
            let (ptr, len) = arena.pairs(pairs);
            // SAFETY: lent for the duration of this call.
            unsafe { write(out, StorePairsV1 { ptr, len }) };
        },
    )
}

extern "C" fn batch(frame: *const FrameV1, ops: *const StoreOpV1, len: usize) -> u32 {
    serve(
        frame,
        Deed::StoreBatch,
        || {
            // SAFETY: lent for the duration of this call.
            let ops = unsafe { receive::list(ops, len, BATCH_MAX, "the batch") }?;
            // Before anything of it is copied.
            let bytes = ops.iter().fold(0usize, |all, op| all.saturating_add(op.key.len).saturating_add(op.value.len));
            if bytes > BATCH_BYTES_MAX {
                return Err(format!("the batch has {bytes} bytes"));
            }
            // SAFETY: lent like the list.
            Ok(Request::StoreBatch(ops.iter().map(|op| unsafe { store_op(op) }).collect::<Result<_, Bad>>()?))
        },
        |_, _| (),
    )
}

/// # Safety
///
/// The key and the value of `op` are lent.
unsafe fn store_op(op: &StoreOpV1) -> Result<StoreOp, Bad> {
    // SAFETY: by the caller's promise.
    let (key, value) = unsafe {
        (
            receive::bytes(op.key, KEY_MAX, "the key")?.unwrap_or(&[]).to_vec(),
            receive::bytes(op.value, receive::TEXT_MAX, "the value")?.map(<[u8]>::to_vec),
        )
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
