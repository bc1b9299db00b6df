//! What a handler asks the system: where the thread stood, the time, and what lies on its stack.

/// Where a thread stood when the signal came: program counter and stack pointer. Zeroes where the processor is not known.
///
/// # Safety
///
/// `context` is null or what the system gave the handler.
pub(super) unsafe fn stood(context: *const libc::c_void) -> (u64, u64) {
    if context.is_null() {
        return (0, 0);
    }
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    {
        // SAFETY: by the caller's promise.
        let registers = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        (registers[libc::REG_RIP as usize] as u64, registers[libc::REG_RSP as usize] as u64)
    }
    #[cfg(all(target_os = "linux", target_arch = "aarch64"))]
    {
        // SAFETY: by the caller's promise.
        let machine = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
        (machine.pc, machine.sp)
    }
    #[cfg(all(target_os = "macos", target_arch = "aarch64"))]
    {
        // SAFETY: by the caller's promise.
        let state = unsafe { &(*(*context.cast::<libc::ucontext_t>()).uc_mcontext).__ss };
        (state.__pc, state.__sp)
    }
    #[cfg(not(any(
        all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")),
        all(target_os = "macos", target_arch = "aarch64")
    )))]
    {
        (0, 0)
    }
}

/// Milliseconds since the Unix epoch, without a lock.
pub(super) fn now_ms() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes to `now`; may be called in a handler.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut now) };
    (now.tv_sec as u64).saturating_mul(1000).saturating_add(now.tv_nsec as u64 / 1_000_000)
}

/// How much of a stack is looked through for a caller.
#[cfg(target_os = "linux")]
const STACK_BYTES: u64 = 256 * 1024;

/// The range of the nearest return address on the stack that lies in one, 0 for none: who called the code that failed. `range`
/// gives the number of the range of an address. Memory is read by way of the system, which refuses what is not there.
#[cfg(target_os = "linux")]
pub(super) fn caller(stack: u64, range: &dyn Fn(u64) -> u64) -> u64 {
    let mut words = [0_u64; 64];
    let size = std::mem::size_of_val(&words) as u64;
    let mut from = stack & !7;
    let end = from.saturating_add(STACK_BYTES);
    while from != 0 && from < end {
        // Up to a multiple of the size, so that no piece lies on two pages.
        let wanted = (size - from % size) as usize;
        let Some(count) = read(from, words.as_mut_ptr().cast(), wanted) else { return 0 };
        for word in &words[..count / 8] {
            let found = range(*word);
            if found != 0 && follows_a_call(*word) {
                return found;
            }
        }
        if count < wanted {
            return 0;
        }
        from += count as u64;
    }
    0
}

#[cfg(not(target_os = "linux"))]
pub(super) fn caller(_: u64, _: &dyn Fn(u64) -> u64) -> u64 {
    0
}

/// Reads this process's memory by way of the system.
#[cfg(target_os = "linux")]
fn read(from: u64, into: *mut libc::c_void, len: usize) -> Option<usize> {
    let local = libc::iovec { iov_base: into, iov_len: len };
    let remote = libc::iovec { iov_base: from as *mut libc::c_void, iov_len: len };
    // SAFETY: `into` has room for `len` bytes; the system checks the other address. A plain system call.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(read).ok().filter(|read| *read > 0)
}

/// True when the instruction before this address is a call: other words that look like addresses of code are only pointers.
#[cfg(target_os = "linux")]
fn follows_a_call(address: u64) -> bool {
    const BEFORE: usize = 8;
    let mut bytes = [0_u8; BEFORE];
    let Some(BEFORE) = read(address.wrapping_sub(BEFORE as u64), bytes.as_mut_ptr().cast(), BEFORE) else {
        return false;
    };
    is_call(&bytes)
}

/// The same of the eight bytes before an address.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn is_call(bytes: &[u8; 8]) -> bool {
    // `call rel32`, or `call r/m64` of two to seven bytes.
    let indirect = |len: usize| bytes[8 - len] == 0xff && bytes[9 - len] & 0x38 == 0x10;
    bytes[3] == 0xe8 || [2, 3, 4, 6, 7].into_iter().any(indirect)
}

#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
fn is_call(bytes: &[u8; 8]) -> bool {
    let word = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
    word & 0xfc00_0000 == 0x9400_0000 || word & 0xffff_fc1f == 0xd63f_0000
}

#[cfg(all(target_os = "linux", not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn is_call(_: &[u8; 8]) -> bool {
    true
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[inline(never)]
    fn nested(range: &dyn Fn(u64) -> u64) -> u64 {
        let here = 0_u64;
        caller(std::ptr::from_ref(std::hint::black_box(&here)) as u64, range)
    }

    #[test]
    fn a_caller_is_found_on_the_stack_by_its_return_address() {
        // The code of this test itself, a few kilobytes of it.
        let own = a_caller_is_found_on_the_stack_by_its_return_address as fn() as usize as u64;
        let near = move |address: u64| u64::from(address > own && address < own + 4096) * 7;
        assert_eq!(nested(&near), 7);
        assert_eq!(nested(&|_| 0), 0);
    }

    #[test]
    fn memory_that_is_not_there_is_no_stack() {
        assert_eq!(caller(8, &|_| 1), 0);
        assert_eq!(caller(0, &|_| 1), 0);
        assert_eq!(caller(u64::MAX - 100, &|_| 1), 0);
    }

    #[test]
    fn only_what_follows_a_call_is_a_return_address() {
        let code = follows_a_call as fn(u64) -> bool as usize as u64;
        // The first instruction of a function follows no call into it, mostly padding; the data of this test is no code.
        let data = [0x11_u8; 32];
        assert!(!follows_a_call(data.as_ptr() as u64 + 16));
        assert!(!follows_a_call(4), "nothing is mapped there ({code:x})");
    }
}
