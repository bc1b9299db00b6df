//! The host as a registering library sees it in the probe: it hears what the library says, and has no services.

use super::{Kind, RegistrarPort};
use engine_abi::wire::{ExtensionV1, FrameV1, HostV1, Str};
use std::io::Write;

/// Every id is free; log lines go to standard error, which the probe's parent keeps.
#[derive(Debug, Default)]
pub(crate) struct QuietPort;

impl RegistrarPort for QuietPort {
    fn register(&self, _: Kind, _: &str, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn log(&self, plugin_id: &str, _: u32, target: &str, message: &str) {
        let _ = writeln!(std::io::stderr(), "{plugin_id} {target}: {message}");
    }

    fn host_table(&self, _: &str) -> *const HostV1 {
        static HOST: Host = Host(HostV1 { log, service, last_error, private: std::ptr::null() });
        &raw const HOST.0
    }
}

struct Host(HostV1);

// SAFETY: function pointers and a null pointer, none of which is ever written.
unsafe impl Sync for Host {}

extern "C" fn log(_: *const HostV1, _: *const FrameV1, _: u32, target: Str, message: Str) {
    let bytes = |text: Str| -> &[u8] {
        if text.ptr.is_null() {
            return b"";
        }
        // SAFETY: the caller lends `len` bytes at `ptr` for the time of the call.
        unsafe { std::slice::from_raw_parts(text.ptr, text.len.min(4096)) }
    };
    let line = [bytes(target), b": ", bytes(message), b"\n"].concat();
    let _ = std::io::stderr().write_all(&line);
}

extern "C" fn service(_: *const HostV1, _: Str) -> ExtensionV1 {
    ExtensionV1::NONE
}

extern "C" fn last_error(_: *const FrameV1, _: *mut Str) -> u64 {
    0
}
