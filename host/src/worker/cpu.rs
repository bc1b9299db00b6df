//! How much of the processor another process used.
#![allow(unsafe_code, reason = "the system's clock of another process has no safe face")]

use std::time::Duration;

/// What the process used so far, all its threads together. `None` where the system does not tell: so far that is every
/// system but Linux.
#[cfg(target_os = "linux")]
pub(super) fn used(pid: u32) -> Option<Duration> {
    let mut clock: libc::clockid_t = 0;
    // SAFETY: the pointer is that of a local, which is written in the call.
    if unsafe { libc::clock_getcpuclockid(pid.cast_signed(), &raw mut clock) } != 0 {
        return None;
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: as above.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        return None;
    }
    Some(Duration::new(u64::try_from(time.tv_sec).ok()?, u32::try_from(time.tv_nsec).ok()?))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn used(_: u32) -> Option<Duration> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn the_time_of_a_busy_process_grows_and_a_foreign_number_has_none() {
        let own = std::process::id();
        let before = used(own).unwrap();
        let start = Instant::now();
        while used(own).unwrap() < before + Duration::from_millis(20) {
            assert!(start.elapsed() < Duration::from_secs(60));
        }
        assert_eq!(used(0x40_0001), None);
    }
}
