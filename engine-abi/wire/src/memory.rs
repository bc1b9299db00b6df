//! Memory providers: registered through the same door as engines, selected by the memory slot.

use crate::{CallV1, FactoryContextV1, MemoryPromptArgsV1, Str};
use abi_stable::StableAbi;

/// Makes instances of a memory provider.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct MemoryFactoryV1 {
    /// Passed to `create` untouched.
    pub tag: *const u8,
    /// Makes one instance; on `OK` it has written `out`. On failure it pushes the reason with `context.fail`.
    pub create: extern "C" fn(tag: *const u8, context: *const FactoryContextV1, out: *mut MemoryInstanceV1) -> u32,
}

/// One instance of a memory provider.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct MemoryInstanceV1 {
    /// The table; lives as long as the library, that is for ever.
    pub table: *const MemoryProviderV1,
    /// Opaque to the host.
    pub instance: *const u8,
}

impl MemoryInstanceV1 {
    /// No instance.
    pub const NONE: MemoryInstanceV1 = MemoryInstanceV1 { table: std::ptr::null(), instance: std::ptr::null() };
}

/// The table of a memory provider. `info` and `search` are required; it follows the thread and deadline rules of
/// engines.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct MemoryProviderV1 {
    /// Pushes `info`; of it only `id`, `name` and `version` count. Called once, after the factory.
    pub info: Option<extern "C" fn(instance: *const u8, call: *const CallV1) -> u32>,
    /// The memory section of the system prompt; pushes `memory_prompt`, or nothing.
    pub prompt_section:
        Option<extern "C" fn(instance: *const u8, call: *const CallV1, args: *const MemoryPromptArgsV1) -> u32>,
    /// Search: pushes at most `limit` hits through `memory_hits`, best first.
    pub search: Option<extern "C" fn(instance: *const u8, call: *const CallV1, query: Str, limit: u64) -> u32>,
    /// Keeps `text`; durable when it returns `OK`.
    pub append: Option<extern "C" fn(instance: *const u8, call: *const CallV1, text: Str) -> u32>,
    /// The last call; frees the instance. No other call is running or follows.
    pub dispose: Option<extern "C" fn(instance: *const u8, call: *const CallV1) -> u32>,
}
