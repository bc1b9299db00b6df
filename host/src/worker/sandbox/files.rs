//! Landlock: which files can be opened, made and removed.
//!
//! It does not cover what only looks at a file or changes its description: `stat`, `readlink`, `chmod`, `utime`, extended
//! attributes, watches. [`super::calls`] refuses those that change or watch; that a path exists, and how large it is, can be
//! seen.

use super::Policy;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope, make_bitflags,
};
use std::path::{Path, PathBuf};

/// The newest level that was tried out.
const TRIED: ABI = ABI::V7;

/// Libraries of the system. Those that are not there are passed over.
const LIBRARIES: &[&str] = &[
    "/lib",
    "/lib64",
    "/lib32",
    "/usr/lib",
    "/usr/lib64",
    "/usr/lib32",
    "/usr/local/lib",
    "/usr/local/lib64",
    "/nix/store",
    "/gnu/store",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
];

/// What the runtimes of languages read: random numbers, the time zone, how many processors there are.
const RUNTIMES: &[&str] = &[
    "/dev/urandom",
    "/dev/random",
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/possible",
];

/// What names of hosts and certificates are looked up in.
const NETWORK: &[&str] = &[
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/protocols",
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
];

/// Opening a library asks for reading alone; nothing may be run, so no folder has that right.
const READ: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir});

/// Links, sockets, pipes and devices are no part of an engine's state: they could lead out of its folder.
const CHANGE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
    ReadFile | ReadDir | WriteFile | Truncate | MakeReg | MakeDir | RemoveFile | RemoveDir | Refer
});

/// Puts the rules in force and gives the level; 0 where the system has no landlock.
pub(super) fn restrict(policy: &Policy) -> std::io::Result<u32> {
    if level() == 0 {
        return Ok(0);
    }
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(TRIED))
        .and_then(|rules| rules.scope(Scope::from_all(TRIED)))
        .map_err(other)?;
    if !policy.limits.network {
        rules = rules.handle_access(AccessNet::from_all(TRIED)).map_err(other)?;
    }
    let mut rules = rules.create().map_err(other)?;
    let libraries = LIBRARIES.iter().chain(RUNTIMES).map(PathBuf::from);
    for path in libraries.chain(named_by("LD_LIBRARY_PATH")).chain(policy.limits.read.iter().cloned()) {
        rules = allow_if_there(rules, &path, READ)?;
    }
    if policy.limits.network {
        for path in NETWORK {
            rules = allow_if_there(rules, Path::new(path), READ)?;
        }
    }
    rules = allow_if_there(rules, Path::new("/dev/null"), AccessFs::ReadFile | AccessFs::WriteFile)?;
    for path in &policy.limits.write {
        // A rule needs the folder. What cannot be made is no folder that could be written to.
        let _ = std::fs::create_dir_all(path);
        rules = allow_if_there(rules, path, CHANGE)?;
    }
    rules = allow(rules, &policy.library, READ)?;
    rules = allow(rules, &policy.state, CHANGE)?;
    let status = rules.restrict_self().map_err(other)?;
    Ok(match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, _) => 0,
        (_, LandlockStatus::Available { effective_abi, .. }) => effective_abi as u32,
        _ => 0,
    })
}

/// The level that the running system has; 0: none.
#[allow(unsafe_code, reason = "asks the system for a number")]
pub(super) fn level() -> u32 {
    /// `LANDLOCK_CREATE_RULESET_VERSION`.
    const VERSION: libc::c_long = 1;
    // SAFETY: with this flag the call reads no memory and makes nothing; it gives a number.
    let level = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0, VERSION) };
    u32::try_from(level).unwrap_or(0)
}

/// Absolute folders of a search path that the gateway hands on.
fn named_by(variable: &str) -> Vec<PathBuf> {
    let value = std::env::var_os(variable).unwrap_or_default();
    std::env::split_paths(&value).filter(|path| path.is_absolute() && path.parent().is_some()).collect()
}

fn allow_if_there(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> std::io::Result<RulesetCreated> {
    if path.exists() { allow(rules, path, access) } else { Ok(rules) }
}

fn allow(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> std::io::Result<RulesetCreated> {
    // A right that only folders can have is no right of a file.
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(TRIED) };
    let opened = PathFd::new(path).map_err(|error| std::io::Error::other(format!("{}: {error}", path.display())))?;
    rules.add_rule(PathBeneath::new(opened, access)).map_err(other)
}

fn other(error: impl std::error::Error + Send + Sync + 'static) -> std::io::Error {
    std::io::Error::other(error)
}
