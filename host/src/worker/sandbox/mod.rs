//! What a process that runs a library apart from the gateway may do: the probe, and the worker after it.
//!
//! All of it is in force before the library is opened, on the first thread, so that constructors run inside and every later
//! thread inherits it. Four layers, each of which the system may lack:
//!
//! 1. **Descriptors and limits** ([`limits`]): nothing that the gateway has open; memory, files, descriptors, no core.
//! 2. **Files** ([`files`], landlock): its own folder, its own library and the system's libraries. Nothing else can be
//!    opened, made, removed or run.
//! 3. **Rights**: no capability of the superuser is left, and none can come back.
//! 4. **System calls** ([`calls`], seccomp): no other process, no other program, no network, no mount, no tracing.
//!
//! What the system lacks is in the report. It stops nothing unless the entry asks for all (`sandbox = "required"`).

#[cfg(target_os = "linux")]
mod calls;
#[cfg(target_os = "linux")]
mod files;
mod limits;
mod report;
#[cfg(test)]
mod tests;

pub use report::{Lack, SandboxReport, support};

use crate::config::{LimitsConfig, SandboxMode};
use crate::plugins::{Cause, LoadRequest, StageFailure};
use serde::{Deserialize, Serialize};
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

/// What one process may do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Policy {
    /// The private copy of the library.
    pub library: PathBuf,
    /// The folder that it may change.
    pub state: PathBuf,
    /// What the entry says.
    pub limits: LimitsConfig,
    /// Descriptors that stay open, beside the first three.
    pub keep: Vec<RawFd>,
}

impl Policy {
    /// For one library with its entry's limits.
    pub(super) fn of(load: &LoadRequest, state: &Path, keep: Vec<RawFd>) -> Policy {
        Policy { library: load.staged.clone(), state: state.to_owned(), limits: load.limits.clone(), keep }
    }
}

/// Why the process must not go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SandboxError {
    /// The entry asks for all, and something is missing.
    #[error("the entry asks for a whole sandbox, and this system lacks: {}", report::told(.0))]
    Lacking(Vec<Lack>),
    /// Something that the system has did not work.
    #[error("{0}: {1}")]
    Failed(&'static str, std::io::Error),
}

impl SandboxError {
    /// For the report about the library.
    pub(crate) fn into_failure(self) -> StageFailure {
        let failure = StageFailure::new(Cause::NoSandbox, "the sandbox cannot be entered").because(&self);
        match self {
            SandboxError::Lacking(lacks) => match lacks.first() {
                Some(lack) => failure.hint(format!("{}; or set sandbox = \"best-effort\"", lack.remedy())),
                None => failure,
            },
            SandboxError::Failed(..) => failure,
        }
    }
}

/// Puts the calling thread, and all that it starts, under the policy. There is no way back.
///
/// To be called on the first thread, while there is no other.
pub(crate) fn enter(policy: &Policy) -> Result<SandboxReport, SandboxError> {
    let mut report = SandboxReport::default();
    let failed = |what: &'static str| move |error: std::io::Error| SandboxError::Failed(what, error);
    limits::close_others(&policy.keep);
    limits::offer_to_oom_killer();
    limits::set(&policy.limits, &mut report);
    lock(policy, &mut report).map_err(failed("the sandbox"))?;
    if policy.limits.sandbox == SandboxMode::Required && !report.lacks.is_empty() {
        return Err(SandboxError::Lacking(report.lacks));
    }
    Ok(report)
}

#[cfg(target_os = "linux")]
fn lock(policy: &Policy, report: &mut SandboxReport) -> std::io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    report.landlock = files::restrict(policy)?;
    if report.landlock == 0 {
        report.lacks.push(Lack::Files);
    }
    // After the files were looked up, which the superuser's rights may have been needed for.
    if limits::drop_capabilities().is_err() {
        report.lacks.push(Lack::Capabilities);
    }
    match calls::restrict(policy.limits.network, report.landlock) {
        Ok(()) => report.seccomp = true,
        Err(why) => {
            tracing::debug!("no filter of system calls: {why}");
            report.lacks.push(Lack::Calls);
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
#[allow(clippy::unnecessary_wraps, reason = "the other systems can fail")]
fn lock(_: &Policy, report: &mut SandboxReport) -> std::io::Result<()> {
    report.lacks.extend([Lack::Files, Lack::Calls]);
    Ok(())
}
