//! The fuzzer. `ENGINEROOM_FUZZ` names the target; libFuzzer, which is linked beside this, has the `main`. `cargo xtask fuzz`
//! builds and runs it.
#![no_main]
#![allow(unsafe_code, reason = "libFuzzer calls in by its own name, with a pointer and a length")]

use engineroom_fuzz::{Counting, Target};
use std::sync::LazyLock;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static TARGET: LazyLock<&'static Target> = LazyLock::new(|| {
    // A property that is hurt ends the process there and then, so that libFuzzer keeps the input.
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        usual(info);
        std::process::abort();
    }));
    Target::named(&std::env::var("ENGINEROOM_FUZZ").unwrap_or_default())
});

/// One input.
#[unsafe(no_mangle)]
pub extern "C" fn LLVMFuzzerTestOneInput(data: *const u8, size: usize) -> i32 {
    // SAFETY: libFuzzer lends `size` bytes for this call; with none, the pointer may be null.
    let data = if size == 0 { &[] } else { unsafe { std::slice::from_raw_parts(data, size) } };
    TARGET.check(data);
    0
}
