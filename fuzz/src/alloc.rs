//! An allocator that counts what the running thread holds.
#![allow(unsafe_code, reason = "an allocator is unsafe by its trait; it only counts and hands on")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator with a counter. Without it as the global one, nothing is counted.
#[derive(Debug)]
pub struct Counting;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

fn add(size: usize) {
    // A thread that ends may allocate when its counters are gone already.
    let _ = HELD.try_with(|held| {
        held.set(held.get().saturating_add(size));
        let _ = MOST.try_with(|most| most.set(most.get().max(held.get())));
    });
}

fn sub(size: usize) {
    let _ = HELD.try_with(|held| held.set(held.get().saturating_sub(size)));
}

// SAFETY: every call goes to the system's allocator as it came; what is counted beside it allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        sub(layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both live while the bytes are moved.
        add(size);
        sub(layout.size());
        // SAFETY: as the caller promised.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

/// Most bytes that `work` held at once on this thread, beyond what the thread held before.
pub(crate) fn peak(work: impl FnOnce()) -> usize {
    let before = HELD.get();
    MOST.set(before);
    work();
    MOST.get() - before
}
