//! Descriptors, resource limits, and the superuser's rights.

use super::{Lack, SandboxReport};
use crate::config::LimitsConfig;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::os::fd::RawFd;

const MIB: u64 = 1024 * 1024;

/// Closes what the process has open beside the first three and `keep`. Whatever the gateway opened without the flag that
/// closes it in children ends here.
#[allow(unsafe_code, reason = "closes descriptors by their numbers")]
pub(super) fn close_others(keep: &[RawFd]) {
    let mut kept: Vec<RawFd> = keep.iter().copied().filter(|fd| *fd > 2).collect();
    kept.sort_unstable();
    kept.dedup();
    let mut first = 3;
    for end in kept.into_iter().chain([RawFd::MAX]) {
        if first < end {
            close_between(first, end - 1);
        }
        first = end.saturating_add(1);
    }
}

#[allow(unsafe_code, reason = "closes descriptors by their numbers")]
fn close_between(first: RawFd, last: RawFd) {
    #[cfg(target_os = "linux")]
    {
        let (first, last) = (i64::from(first), i64::from(last));
        // SAFETY: the call takes three numbers. Nobody in this young process owns a descriptor that is not kept.
        if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0 {
            return;
        }
    }
    let most = getrlimit(Resource::Nofile).current.map_or(65_536, |most| most.min(65_536));
    for fd in first..=last.min(RawFd::try_from(most).unwrap_or(RawFd::MAX)) {
        // SAFETY: as above; a number that is not open is refused.
        unsafe { libc::close(fd) };
    }
}

/// When memory runs out, this process goes before the gateway.
pub(super) fn offer_to_oom_killer() {
    #[cfg(target_os = "linux")]
    let _ = std::fs::write("/proc/self/oom_score_adj", "500");
}

/// Sets the limits, soft and hard.
///
/// Memory is limited by what can be written to (`RLIMIT_DATA`), not by addresses (`RLIMIT_AS`): allocators reserve addresses
/// far beyond what they use, 64 MiB for each thread, so a limit of addresses would stop engines that use little. Processes are
/// limited by the filter of system calls; the system's own limit counts those of the user, the gateway's threads among them,
/// so it only bounds the number of threads, generously.
pub(super) fn set(limits: &LimitsConfig, report: &mut SandboxReport) {
    let wanted = [
        (Resource::Core, 0, None),
        (Resource::Data, limits.memory_mb.saturating_mul(MIB), Some(Lack::Memory)),
        (Resource::Nofile, limits.open_files, Some(Lack::Descriptors)),
        (Resource::Fsize, limits.file_mb.saturating_mul(MIB), Some(Lack::FileSize)),
    ];
    for (resource, limit, lack) in wanted {
        if at_most(resource, limit).is_err() {
            report.lacks.extend(lack);
        }
    }
    if let Some(tasks) = tasks_of_the_system() {
        let _ = at_most(Resource::Nproc, tasks + 4096);
    }
}

/// A hard limit that is lower already stays.
fn at_most(resource: Resource, limit: u64) -> rustix::io::Result<()> {
    let limit = Some(getrlimit(resource).maximum.map_or(limit, |hard| hard.min(limit)));
    setrlimit(resource, Rlimit { current: limit, maximum: limit })
}

/// Threads of all processes.
fn tasks_of_the_system() -> Option<u64> {
    let load = std::fs::read_to_string("/proc/loadavg").ok()?;
    load.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

/// Gives up what a gateway that runs as root can do more than others: to raise limits, to read any file, to trace.
#[cfg(target_os = "linux")]
pub(super) fn drop_capabilities() -> rustix::io::Result<()> {
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}
