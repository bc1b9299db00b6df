//! The standard library's.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, mpsc};

/// Starts a thread that nobody joins.
pub(crate) fn spawn<R: Send + 'static>(
    name: String,
    stack: usize,
    work: impl FnOnce() -> R + Send + 'static,
) -> std::io::Result<()> {
    std::thread::Builder::new().name(name).stack_size(stack).spawn(work).map(drop)
}
