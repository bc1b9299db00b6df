//! What is in force, what the system lacks, and what that means.

use serde::{Deserialize, Serialize};

/// What the sandbox of a process consists of.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxReport {
    /// Level of landlock's interface that is in force; 0: none.
    pub landlock: u32,
    /// True when system calls are filtered.
    pub seccomp: bool,
    /// What is missing.
    pub lacks: Vec<Lack>,
}

/// A layer that the system lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lack {
    /// Landlock.
    Files,
    /// Seccomp filters, for this processor.
    Calls,
    /// The superuser's rights could not be given up.
    Capabilities,
    /// The limit of memory.
    Memory,
    /// The limit of descriptors.
    Descriptors,
    /// The limit of a file's size.
    FileSize,
}

impl Lack {
    /// What is missing.
    pub const fn what(self) -> &'static str {
        match self {
            Lack::Files => "landlock (rules for files)",
            Lack::Calls => "seccomp (a filter of system calls)",
            Lack::Capabilities => "giving up the superuser's rights",
            Lack::Memory => "the limit of memory",
            Lack::Descriptors => "the limit of open files",
            Lack::FileSize => "the limit of a file's size",
        }
    }

    /// What an engine in a worker can do then.
    pub const fn means(self) -> &'static str {
        match self {
            Lack::Files => "it can read and change every file of the gateway's user, the sessions among them",
            Lack::Calls => "it can use the network, start programs, and signal or trace the gateway",
            Lack::Capabilities => "it keeps the rights of the superuser that the gateway runs with",
            Lack::Memory => "it can use up the memory of the machine",
            Lack::Descriptors => "it can open files until the system has none left",
            Lack::FileSize => "one file of its own can fill the disk",
        }
    }

    /// What an operator can do.
    pub const fn remedy(self) -> &'static str {
        match self {
            _ if cfg!(not(target_os = "linux")) => "run the gateway on Linux, or select only engines that you trust",
            Lack::Files => "use a Linux of version 5.13 or newer with landlock switched on (`lsm=landlock,…` at boot)",
            Lack::Calls => "use a kernel with CONFIG_SECCOMP_FILTER, on x86-64 or aarch64",
            Lack::Capabilities => "run the gateway as a user of its own, not as root",
            Lack::Memory | Lack::Descriptors | Lack::FileSize => "see the limits of the gateway's user (ulimit -H -a)",
        }
    }
}

/// What is missing, in a few words.
pub(super) fn told(lacks: &[Lack]) -> String {
    lacks.iter().map(|lack| lack.what()).collect::<Vec<_>>().join(", ")
}

impl std::fmt::Display for SandboxReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.landlock {
            0 => f.write_str("no landlock")?,
            level => write!(f, "landlock {level}")?,
        }
        f.write_str(if self.seccomp { ", seccomp" } else { ", no seccomp" })?;
        f.write_str(", limits")
    }
}

/// What the sandbox of a worker can consist of on this system. Changes nothing.
pub fn support() -> SandboxReport {
    let mut report = SandboxReport::default();
    #[cfg(target_os = "linux")]
    {
        report.landlock = super::files::level();
        report.seccomp = super::calls::possible();
    }
    if report.landlock == 0 {
        report.lacks.push(Lack::Files);
    }
    if !report.seccomp {
        report.lacks.push(Lack::Calls);
    }
    report
}
