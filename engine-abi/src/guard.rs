//! The guard around everything that the host calls: no panic of an engine leaves it.
//!
//! It is compiled into the engine, since only the copy of the standard library that started a panic can catch it.
#![allow(unsafe_code, reason = "calls the host's log, which lives as long as the library")]

use crate::wire::{FrameV1, HostV1, Str, log_level, status};
use crate::{Error, Result};
use std::any::Any;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The host, once the library is registered. Its log may be called from any thread, for ever.
static HOST: AtomicPtr<HostV1> = AtomicPtr::new(std::ptr::null_mut());

thread_local! {
    /// The call that runs on this thread, so that log lines and panics are filed under it. Without a destructor.
    static FRAME: Cell<*const FrameV1> = const { Cell::new(std::ptr::null()) };
}

/// Runs `work`; a failure is told through `fail` and becomes a status.
pub(crate) fn guarded(frame: *const FrameV1, work: impl FnOnce() -> Result<()>, fail: impl FnOnce(&str, u64)) -> u32 {
    let before = FRAME.replace(frame);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    let answer = match outcome {
        Ok(Ok(())) => status::OK,
        Ok(Err(error)) => {
            if error.status() != status::UNSUPPORTED {
                fail(error.message(), error.service_token());
            }
            error.status()
        }
        Err(payload) => {
            fail(&contained(payload), 0);
            status::PANIC
        }
    };
    FRAME.set(before);
    answer
}

/// Runs `work` and gives the message of its panic, if it panics.
pub(crate) fn quietly(work: impl FnOnce()) -> Result<()> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| Error::panic(contained(payload)))
}

/// The message of a panic. The payload is forgotten: its drop is the engine's code and may panic again.
fn contained(payload: Box<dyn Any + Send>) -> String {
    let payload = ManuallyDrop::new(payload);
    format!("panicked: {}", message(&**payload))
}

fn message(payload: &(dyn Any + Send)) -> &str {
    match (payload.downcast_ref::<&'static str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "with a payload that is no text",
    }
}

/// Connects this library's panics and `tracing` events with the host's log. Once per library.
pub(crate) fn connect(host: *const HostV1) {
    static ONCE: Once = Once::new();
    HOST.store(host.cast_mut(), Ordering::Release);
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(forward_panic));
        crate::log::install();
    });
}

fn forward_panic(info: &PanicHookInfo<'_>) {
    let text = match info.location() {
        Some(place) => format!("panicked at {}:{}: {}", place.file(), place.line(), message_of(info)),
        None => format!("panicked: {}", message_of(info)),
    };
    log(log_level::ERROR, "panic", &text);
}

fn message_of<'a>(info: &'a PanicHookInfo<'_>) -> &'a str {
    info.payload_as_str().unwrap_or("a payload that is no text")
}

/// Writes a line to the host's log, filed under the call of this thread, if there is one.
pub(crate) fn log(level: u32, target: &str, text: &str) {
    let host = HOST.load(Ordering::Acquire);
    if !host.is_null() {
        // A thread that is being torn down has no call.
        let frame = FRAME.try_with(Cell::get).unwrap_or(std::ptr::null());
        // SAFETY: the host promised at registration that its table and its log live for ever.
        unsafe { ((*host).log)(host, frame, level, Str::new(target), Str::new(text)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("a payload that panics when it is dropped");
        }
    }

    fn run(work: impl FnOnce() -> Result<()>) -> (u32, String, u64) {
        let mut told = (String::new(), 0);
        let answer = guarded(std::ptr::null(), work, |text, token| told = (text.to_owned(), token));
        (answer, told.0, told.1)
    }

    #[test]
    fn failures_become_a_status_and_a_reason() {
        assert_eq!(run(|| Ok(())), (status::OK, String::new(), 0));
        assert_eq!(run(|| Err(Error::new("no"))), (status::ERROR, "no".into(), 0));
        assert_eq!(run(|| Err(Error::unsupported())), (status::UNSUPPORTED, String::new(), 0));
        assert_eq!(run(|| panic!("at {}", 7)), (status::PANIC, "panicked: at 7".into(), 0));
        assert_eq!(run(|| panic!("plain")), (status::PANIC, "panicked: plain".into(), 0));
    }

    #[test]
    fn a_payload_that_panics_when_dropped_is_contained() {
        let (answer, text, _) = run(|| std::panic::panic_any(Bomb));
        assert_eq!((answer, text.as_str()), (status::PANIC, "panicked: with a payload that is no text"));
    }
}
