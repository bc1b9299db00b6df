//! Seccomp: which system calls are refused.
//!
//! A list of what is refused, not of what is allowed: libraries of the system change which calls they make, and an engine that
//! dies of an update of its C library would be no gain. What is newer than the list is unknown to the engine as well.
//!
//! - **`EPERM`**: the operation exists and is not for an engine. Runtimes try such things and can do without.
//! - **`ENOSYS`**: calls whose arguments a filter cannot look into, and for which every library has an older way whose
//!   arguments it can: `clone3`, `openat2`, `io_uring`.
//! - **The process is killed**: calls in the manner of another processor (32 bit, x32). No library makes them; they are the
//!   known way around a filter.

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};
use std::collections::BTreeMap;

/// The newest call that was looked at (`mseal`). From 424 on all processors have the same numbers.
const NEWEST: u32 = 462;
/// Begins the numbers of x32.
const X32: u32 = 0x4000_0000;

/// Refused whatever the arguments.
const NEVER: &[c_long] = &[
    // Other programs and other processes.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_kcmp,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_pidfd_getfd,
    libc::SYS_tkill,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    // Out of its process group it would outlive its end.
    libc::SYS_setpgid,
    libc::SYS_setsid,
    // Limits and rights.
    libc::SYS_setrlimit,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    libc::SYS_capset,
    // Namespaces and mounts.
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    457, // statmount
    458, // listmount
    // Files by other names than paths, which landlock does not see.
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    // What describes a file can be changed by its owner wherever it lies: landlock does not see it.
    libc::SYS_fchmodat,
    452, // fchmodat2
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    libc::SYS_mknodat,
    // Watches tell the names of other sessions' files.
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    // Memory that no limit counts, and that other processes can reach.
    libc::SYS_memfd_create,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semctl,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_msgget,
    libc::SYS_msgctl,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    // Parts of the kernel with a history.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_userfaultfd,
    // The machine.
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_quotactl,
    443, // quotactl_fd
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_vhangup,
    libc::SYS_lookup_dcookie,
];

/// The same, for calls that newer processors do not have.
#[cfg(target_arch = "x86_64")]
const NEVER_HERE: &[c_long] = &[
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_mknod,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_inotify_init,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
];
#[cfg(not(target_arch = "x86_64"))]
const NEVER_HERE: &[c_long] = &[];

/// Libraries have an older way for each.
const UNKNOWN: &[c_long] = &[
    libc::SYS_clone3,
    libc::SYS_openat2,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    447, // memfd_secret
];

/// `prctl` for what concerns the calling thread alone. All else is refused, above all the signal at the parent's death.
const OWN_OPTIONS: &[i32] = &[
    libc::PR_GET_PDEATHSIG,
    libc::PR_GET_DUMPABLE,
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_GET_SECCOMP,
    libc::PR_CAPBSET_READ,
    libc::PR_SET_TIMERSLACK,
    libc::PR_GET_TIMERSLACK,
    libc::PR_SET_NO_NEW_PRIVS,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_SET_THP_DISABLE,
    libc::PR_GET_THP_DISABLE,
    51, // PR_SVE_GET_VL
    54, // PR_PAC_RESET_KEYS
    56, // PR_GET_TAGGED_ADDR_CTRL
    libc::PR_SET_VMA,
];

/// Not in `libc`: makes a descriptor send its signals to somebody.
const FIOSETOWN: u64 = 0x8901;
const SIOCSPGRP: u64 = 0x8902;
/// Types the user's words.
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541C;

/// Puts the filters in force. `landlock`: the level of the rules for files, whose gaps are closed here.
pub(super) fn restrict(network: bool, landlock: u32) -> Result<(), String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let filters = [
        guard(arch)?,
        compile(UNKNOWN.iter().map(|number| (*number, Vec::new())).collect(), libc::ENOSYS, arch)?,
        compile(refused(network, landlock)?, libc::EPERM, arch)?,
    ];
    filters.iter().try_for_each(|filter| seccompiler::apply_filter(filter)).map_err(|error| error.to_string())
}

/// True when the running system has such filters, and this program knows its processor.
#[allow(unsafe_code, reason = "asks the system whether it knows an action")]
pub(super) fn possible() -> bool {
    let action: u32 = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the call reads the four bytes of `action`, which live.
    let known = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action) } == 0;
    known && TargetArch::try_from(std::env::consts::ARCH).is_ok()
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn compile(rules: Rules, errno: i32, arch: TargetArch) -> Result<BpfProgram, String> {
    let refuse = SeccompAction::Errno(errno.cast_unsigned());
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)
        .and_then(BpfProgram::try_from)
        .map_err(|error| error.to_string())
}

/// Numbers of another processor kill, numbers that nobody looked at are unknown.
fn guard(arch: TargetArch) -> Result<BpfProgram, String> {
    // Values of the kernel's AUDIT_ARCH_*.
    let arch = match arch {
        TargetArch::x86_64 => 0xC000_003E,
        TargetArch::aarch64 => 0xC000_00B7,
        _ => return Err("no filter for this processor".into()),
    };
    const LOAD: u16 = 0x20;
    const IF_EQUAL: u16 = 0x15;
    const IF_AT_LEAST: u16 = 0x35;
    const IF_GREATER: u16 = 0x25;
    const ANSWER: u16 = 0x06;
    let step = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let unknown = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    Ok(vec![
        step(LOAD, 0, 0, 4),
        step(IF_EQUAL, 0, 4, arch),
        step(LOAD, 0, 0, 0),
        step(IF_AT_LEAST, 2, 0, X32),
        step(IF_GREATER, 2, 0, NEWEST),
        step(ANSWER, 0, 0, SeccompAction::Allow.into()),
        step(ANSWER, 0, 0, SeccompAction::KillProcess.into()),
        step(ANSWER, 0, 0, unknown.into()),
    ])
}

/// One condition: number of the argument, how it is compared, with what. Numbers of 32 bits are compared as such: the kernel
/// looks at no more of them, so a filter that did could be led past.
fn when(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, String> {
    let conditions: Result<Vec<_>, _> = conditions
        .iter()
        .map(|(argument, compare, value)| {
            SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, compare.clone(), *value)
        })
        .collect();
    conditions.and_then(SeccompRule::new).map_err(|error| error.to_string())
}

/// An argument that is a pointer and is there.
fn given(argument: u8) -> Result<SeccompRule, String> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)
        .and_then(|condition| SeccompRule::new(vec![condition]))
        .map_err(|error| error.to_string())
}

fn word(value: i32) -> u64 {
    u64::from(value.cast_unsigned())
}

fn refused(network: bool, landlock: u32) -> Result<Rules, String> {
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    let mut rules: Rules = NEVER.iter().chain(NEVER_HERE).map(|number| (*number, Vec::new())).collect();
    let own = u64::from(std::process::id());

    // Threads are made, processes are not, and no thread gets a namespace of its own.
    let thread = word(libc::CLONE_THREAD);
    let spaces = [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWCGROUP,
    ];
    let mut clones = vec![when(&[(0, MaskedEq(thread), 0)])?];
    for space in spaces.map(word) {
        clones.push(when(&[(0, MaskedEq(space), space)])?);
    }
    rules.insert(libc::SYS_clone, clones);

    // Signals, priorities and limits of its own process, and of no other.
    for number in [libc::SYS_kill, libc::SYS_tgkill, libc::SYS_rt_sigqueueinfo, libc::SYS_rt_tgsigqueueinfo] {
        rules.insert(number, vec![when(&[(0, Ne, own)])?]);
    }
    for number in
        [libc::SYS_sched_setaffinity, libc::SYS_sched_setscheduler, libc::SYS_sched_setparam, libc::SYS_sched_setattr]
    {
        rules.insert(number, vec![when(&[(0, Ne, 0)])?]);
    }
    for number in [libc::SYS_setpriority, libc::SYS_ioprio_set] {
        // A single thread, and no group or user; PRIO_PROCESS is 0, IOPRIO_WHO_PROCESS is 1.
        let single = u64::from(number == libc::SYS_ioprio_set);
        rules.insert(number, vec![when(&[(0, Ne, single)])?, when(&[(1, Ne, 0)])?]);
    }
    let another = when(&[(0, Ne, 0), (0, Ne, own)])?;
    rules.insert(libc::SYS_prlimit64, vec![given(2)?, another]);
    let own_options: Vec<_> = OWN_OPTIONS.iter().map(|option| (0, Ne, word(*option))).collect();
    rules.insert(libc::SYS_prctl, vec![when(&own_options)?]);
    // Only the question which one it has.
    rules.insert(libc::SYS_personality, vec![when(&[(0, Ne, 0xFFFF_FFFF)])?]);

    // A descriptor that sends its signals to another process, or takes memory of the kernel for its pipe.
    // The same for a lease, which makes others wait for a file.
    let commands = [
        libc::F_SETOWN,
        15, // F_SETOWN_EX
        10, // F_SETSIG
        libc::F_SETLEASE,
        libc::F_NOTIFY,
        libc::F_SETPIPE_SZ,
    ];
    rules.insert(libc::SYS_fcntl, each(commands.map(|command| (1, Eq, word(command))))?);
    let requests = [FIOSETOWN, SIOCSPGRP, TIOCSTI, TIOCLINUX];
    rules.insert(libc::SYS_ioctl, each(requests.map(|request| (1, Eq, request)))?);

    // Shared memory without a file is counted by no limit.
    let (kind, without) = (word(libc::MAP_TYPE), word(libc::MAP_ANONYMOUS));
    rules.insert(libc::SYS_mmap, vec![when(&[(3, MaskedEq(kind | without), word(libc::MAP_SHARED) | without)])?]);

    // The times of a file by its path; by a descriptor they can be set.
    rules.insert(libc::SYS_utimensat, vec![given(1)?]);
    // Root owns the libraries of the system, which can be opened.
    if rustix::process::geteuid().is_root() {
        rules.insert(libc::SYS_fchmod, Vec::new());
    }
    if landlock < 3 {
        cut_by_path(&mut rules)?;
    }
    sockets(network, &mut rules)?;
    Ok(rules)
}

fn each<const N: usize>(conditions: [(u8, SeccompCmpOp, u64); N]) -> Result<Vec<SeccompRule>, String> {
    conditions.into_iter().map(|condition| when(&[condition])).collect()
}

/// What cuts a file without opening it to be written: landlock sees it from its third level on.
fn cut_by_path(rules: &mut Rules) -> Result<(), String> {
    use SeccompCmpOp::MaskedEq;
    rules.insert(libc::SYS_truncate, Vec::new());
    let (mask, cut) = (word(libc::O_ACCMODE | libc::O_TRUNC), word(libc::O_RDONLY | libc::O_TRUNC));
    rules.insert(libc::SYS_openat, vec![when(&[(2, MaskedEq(mask), cut)])?]);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_open, vec![when(&[(1, MaskedEq(mask), cut)])?]);
    Ok(())
}

/// Sockets to other processes of this machine are never made: behind one there may be anything (a bus, an agent that holds
/// keys, a daemon that starts containers). A connected pair inside the process is.
fn sockets(network: bool, rules: &mut Rules) -> Result<(), String> {
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    const KIND: u64 = 0xF;
    let (v4, v6, netlink) = (word(libc::AF_INET), word(libc::AF_INET6), word(libc::AF_NETLINK));
    let raw = word(libc::SOCK_RAW);
    let refused = if network {
        vec![
            when(&[(0, Ne, v4), (0, Ne, v6), (0, Ne, netlink)])?,
            when(&[(0, Eq, v4), (1, MaskedEq(KIND), raw)])?,
            when(&[(0, Eq, v6), (1, MaskedEq(KIND), raw)])?,
            // Looking up a host asks the kernel for the machine's addresses.
            when(&[(0, Eq, netlink), (2, Ne, word(libc::NETLINK_ROUTE))])?,
        ]
    } else {
        Vec::new()
    };
    rules.insert(libc::SYS_socket, refused);
    // A pair that is no stream could be made to send elsewhere.
    let mut pairs = vec![when(&[(0, Ne, word(libc::AF_UNIX))])?];
    for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_RDM, libc::SOCK_SEQPACKET] {
        pairs.push(when(&[(1, MaskedEq(KIND), word(kind))])?);
    }
    rules.insert(libc::SYS_socketpair, pairs);
    Ok(())
}
