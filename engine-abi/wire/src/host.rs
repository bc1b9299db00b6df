//! What the host gives to a call: its frame, its sinks, its bodies, its services.

use crate::{EntryV1, SinkV1, Str};
use abi_stable::StableAbi;

/// The call's frame. Opaque to an engine; owned by the host, which keeps it alive until the call returns, however late.
#[repr(C)]
#[derive(Debug, StableAbi)]
pub struct FrameV1 {
    private: [u8; 0],
}

/// One call of one hook. Valid until the hook returns.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct CallV1 {
    /// First argument of every function below.
    pub frame: *const FrameV1,
    /// Where results go.
    pub sink: *const SinkV1,
    /// The host.
    pub host: *const HostV1,
    /// Body of entry number `index` of the array that this call was given. The body is borrowed and stays valid until
    /// the hook returns. [`crate::status::NOT_FOUND`] past the end.
    pub entry: extern "C" fn(frame: *const FrameV1, index: usize, out: *mut EntryV1) -> u32,
    /// 1 when the call is cancelled or past its deadline and should return soon. An atomic load: cheap enough for inner
    /// loops.
    pub cancelled: extern "C" fn(frame: *const FrameV1) -> u32,
    /// Milliseconds until the deadline; 0 when it has passed.
    pub remaining_ms: extern "C" fn(frame: *const FrameV1) -> u64,
}

/// A table that was asked for by id. `table` is null when the id is unknown or not granted.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct ExtensionV1 {
    /// The table; its type is what the id says.
    pub table: *const u8,
    /// The table's `&'static abi_stable::type_layout::TypeLayout`, or null from engines that have none (C).
    pub layout: *const u8,
}

impl ExtensionV1 {
    /// No such table.
    pub const NONE: ExtensionV1 = ExtensionV1 { table: std::ptr::null(), layout: std::ptr::null() };
}

/// The host, for every call and for threads of the engine.
#[repr(C)]
#[derive(Clone, Copy, Debug, StableAbi)]
pub struct HostV1 {
    /// A log line. `frame` may be null, from any thread: then it is filed under the engine alone. Never fails.
    pub log: extern "C" fn(host: *const HostV1, frame: *const FrameV1, level: u32, target: Str, message: Str),
    /// A table of [`crate::service`] by its id with version. Each service call takes the frame of the running call.
    pub service: extern "C" fn(host: *const HostV1, id: Str) -> ExtensionV1,
    /// Message and token of the last failed service call of this frame, or of the last service that was asked for during
    /// the call, on its own thread, and is not there. The token marks an error as the host's own when the engine hands it
    /// on. Returns 0 when there was none.
    pub last_error: extern "C" fn(frame: *const FrameV1, message: *mut Str) -> u64,
    /// Belongs to the host.
    pub private: *const u8,
}
