//! Reading what an engine points to. Every text is checked for UTF-8, every size against a cap, every code against its list.
#![allow(unsafe_code, reason = "follows pointers that an engine lends for the duration of a push or a service call")]

use crate::transcript::{Content, Message, Role, ToolCall, ToolFunction};
use engine_abi::wire::{Bytes, MessageV1, NONE_U64, Str, StrList, role};
use serde_json::Map;

/// Largest single text or value, in bytes.
pub(crate) const TEXT_MAX: usize = 16 * 1024 * 1024;
/// Most elements of a list, beside the lists that have a cap of their own.
pub(crate) const LIST_MAX: usize = 65_536;
/// Most tool calls of one message.
pub(crate) const CALLS_MAX: usize = 1_024;
/// Longest reason of a failure, in bytes; what is longer is cut.
pub(crate) const REASON_MAX: usize = 4_096;
/// Most host requirements of an engine.
pub(crate) const REQUIREMENTS_MAX: usize = 16;

/// Why something that an engine pushed or passed cannot be taken.
pub(crate) type Bad = String;

/// Bytes that an engine lends; `None` when absent.
///
/// # Safety
///
/// `bytes` is absent, or points to `len` readable bytes that live for `'a`: the contract's promise for every argument.
pub(crate) unsafe fn bytes<'a>(bytes: Bytes, cap: usize, what: &str) -> Result<Option<&'a [u8]>, Bad> {
    if bytes.ptr.is_null() {
        return Ok(None);
    }
    if bytes.len > cap {
        return Err(format!("{what} has {} bytes, at most {cap} are allowed", bytes.len));
    }
    if bytes.len == 0 {
        // The pointer of an empty value need not be readable.
        return Ok(Some(&[]));
    }
    // SAFETY: not null and not larger than the cap; readable by the caller's promise.
    Ok(Some(unsafe { std::slice::from_raw_parts(bytes.ptr, bytes.len) }))
}

/// Text that an engine lends; `None` when absent.
///
/// # Safety
///
/// As [`bytes()`].
pub(crate) unsafe fn text<'a>(text: Str, what: &str) -> Result<Option<&'a str>, Bad> {
    // SAFETY: the caller's promise is the same.
    let Some(bytes) = (unsafe { bytes(Bytes { ptr: text.ptr, len: text.len }, TEXT_MAX, what) })? else {
        return Ok(None);
    };
    std::str::from_utf8(bytes).map(Some).map_err(|error| format!("{what} is not UTF-8: {error}"))
}

/// Owned text; `None` when absent.
///
/// # Safety
///
/// As [`bytes()`].
pub(crate) unsafe fn owned(value: Str, what: &str) -> Result<Option<String>, Bad> {
    // SAFETY: the caller's promise is the same.
    Ok(unsafe { text(value, what) }?.map(str::to_owned))
}

/// Owned text that may not be absent.
///
/// # Safety
///
/// As [`bytes()`].
pub(crate) unsafe fn required(value: Str, what: &str) -> Result<String, Bad> {
    // SAFETY: the caller's promise is the same.
    unsafe { owned(value, what) }?.ok_or_else(|| format!("{what} is absent"))
}

/// A reason for people: never refused, only mended and cut.
///
/// # Safety
///
/// As [`bytes()`].
pub(crate) unsafe fn reason(value: Str) -> String {
    let value = Bytes { ptr: value.ptr, len: value.len.min(REASON_MAX) };
    // SAFETY: the caller's promise is the same; the length was only made smaller.
    match unsafe { bytes(value, REASON_MAX, "reason") } {
        Ok(Some(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    }
}

/// A list that an engine lends. An empty one may have any pointer.
///
/// # Safety
///
/// `ptr` points to `len` readable, aligned values of `T` that live for `'a`.
pub(crate) unsafe fn list<'a, T>(ptr: *const T, len: usize, cap: usize, what: &str) -> Result<&'a [T], Bad> {
    if len == 0 {
        return Ok(&[]);
    }
    if len > cap {
        return Err(format!("{what} has {len} elements, at most {cap} are allowed"));
    }
    if ptr.is_null() || !ptr.is_aligned() {
        return Err(format!("{what} points nowhere"));
    }
    // SAFETY: not null, aligned, not larger than the cap; readable by the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(ptr, len) })
}

/// One value that an engine lends.
///
/// # Safety
///
/// As [`list`].
pub(crate) unsafe fn one<'a, T>(ptr: *const T, what: &str) -> Result<&'a T, Bad> {
    // SAFETY: the caller's promise is the same.
    match unsafe { list(ptr, 1, 1, what) }? {
        [value] => Ok(value),
        _ => Err(format!("{what} points nowhere")),
    }
}

/// A list of texts; empty when absent.
///
/// # Safety
///
/// As [`list`], for the list and each text in it.
pub(crate) unsafe fn texts(texts: StrList, what: &str) -> Result<Vec<String>, Bad> {
    if texts.ptr.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: the caller's promise is the same.
    unsafe { list(texts.ptr, texts.len, LIST_MAX, what) }?
        .iter()
        // SAFETY: each text is lent like the list.
        .map(|text| unsafe { required(*text, what) })
        .collect()
}

/// A message of an engine.
///
/// # Safety
///
/// As [`list`], for everything that `message` points to.
pub(crate) unsafe fn message(message: &MessageV1) -> Result<Message, Bad> {
    let role = match message.role {
        role::USER => Role::User,
        role::ASSISTANT => Role::Assistant,
        role::TOOL => Role::Tool,
        other => return Err(format!("a message has the unknown role {other}")),
    };
    // SAFETY: by the caller's promise; absent texts are allowed.
    let (text, tool_call_id, name, calls) = unsafe {
        (
            owned(message.text, "a message's text")?,
            owned(message.tool_call_id, "a message's toolCallId")?,
            owned(message.name, "a message's name")?,
            list(message.tool_calls, message.tool_calls_len, CALLS_MAX, "a message's tool calls")?,
        )
    };
    let tool_calls = calls
        .iter()
        .map(|call| {
            // SAFETY: each call's texts are lent like the list.
            unsafe {
                Ok(ToolCall {
                    id: required(call.id, "a tool call's id")?,
                    kind: "function".into(),
                    function: ToolFunction {
                        name: required(call.name, "a tool call's name")?,
                        arguments: owned(call.arguments, "a tool call's arguments")?.unwrap_or_default(),
                    },
                    extra: serde_json::Map::new(),
                })
            }
        })
        .collect::<Result<Vec<_>, Bad>>()?;
    let message = Message {
        role,
        content: text.map_or(Content::Null, Content::Text),
        tool_calls,
        tool_call_id,
        name,
        extra: Map::new(),
    };
    super::ask::message(&message)?;
    Ok(message)
}

/// A number that may be absent.
pub(crate) fn number(value: u64) -> Option<u64> {
    (value != NONE_U64).then_some(value)
}

/// A flag that must be 0 or 1.
pub(crate) fn flag(value: u32, what: &str) -> Result<bool, Bad> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(format!("{what} is {other}, not 0 or 1")),
    }
}
