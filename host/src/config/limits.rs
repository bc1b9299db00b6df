//! `[plugins.entries.ID.limits]`: what a process that an engine has for itself may use.

use super::given::{Given, Wrong};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Keys of the section.
pub(super) const LIMIT_KEYS: [&str; 8] =
    ["memory_mb", "cpu_seconds", "open_files", "file_mb", "network", "read", "write", "sandbox"];

const SANDBOX: [(&str, SandboxMode); 2] =
    [("best-effort", SandboxMode::BestEffort), ("required", SandboxMode::Required)];

/// `sandbox`: what happens where the system cannot contain all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// As much as the system can; `doctor` says what is missing.
    BestEffort,
    /// All of it, else the engine is refused.
    Required,
}

/// Limits of the processes that run an engine's code apart from the gateway: its worker, and the probe before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitsConfig {
    /// Memory that it may write to, in MiB. Its stacks count, its code does not.
    pub memory_mb: u64,
    /// Processor time of one call, in seconds; `None` is no limit beside the call's deadline. What counts is the worker's whole
    /// time while the call runs: all its threads, and the calls that run beside it. Read every 20 ms, on Linux.
    pub cpu_seconds: Option<u64>,
    /// Most open descriptors.
    pub open_files: u64,
    /// Largest file, in MiB.
    pub file_mb: u64,
    /// True lets it use the network.
    pub network: bool,
    /// Files and folders that it may read, beside its own and the system's libraries; absolute.
    pub read: Vec<PathBuf>,
    /// Folders that it may also write to; absolute.
    pub write: Vec<PathBuf>,
    /// What happens where the system cannot contain all.
    pub sandbox: SandboxMode,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        LimitsConfig {
            memory_mb: 1024,
            cpu_seconds: None,
            open_files: 256,
            file_mb: 1024,
            network: false,
            read: Vec::new(),
            write: Vec::new(),
            sandbox: SandboxMode::BestEffort,
        }
    }
}

impl LimitsConfig {
    /// Takes one value; `None` when there is no such key. The least values are those with which a worker still starts.
    pub(super) fn take(&mut self, name: &str, given: Given<'_>) -> Option<Result<(), Wrong>> {
        Some(match name {
            "memory_mb" => given.number(64).map(|value| self.memory_mb = value),
            "cpu_seconds" => given.number(1).map(|value| self.cpu_seconds = Some(value)),
            "open_files" => given.number(32).map(|value| self.open_files = value),
            "file_mb" => given.number(1).map(|value| self.file_mb = value),
            "network" => given.boolean().map(|value| self.network = value),
            "read" => given.paths().map(|value| self.read = value),
            "write" => given.paths().map(|value| self.write = value),
            "sandbox" => given.one_of(&SANDBOX).map(|value| self.sandbox = value),
            _ => return None,
        })
    }
}
