//! Packages of npm's registry, brought by the operator's own npm: his registry, his proxy and his tokens hold.
//!
//! A package carries the library as `lib/<system>-<processor>/lib<name>.so`, by Rust's names: `lib/linux-x86_64/libwindow.so`,
//! `lib/macos-aarch64/libwindow.dylib`. Nothing in it is run.

use super::error::InstallError;
use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// How long npm may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// True for `NAME`, `NAME@VERSION`, `@SCOPE/NAME` and `@SCOPE/NAME@VERSION`; not for a path, an address or a flag.
pub(super) fn is_name(spec: &str) -> bool {
    let part = |text: &str| {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
        !text.is_empty() && !text.starts_with(['-', '.', '_']) && text.len() <= 214 && text.chars().all(plain)
    };
    let version =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-._~^<>=*+|".contains(c));
    let (scope, rest) = match spec.strip_prefix('@') {
        Some(scoped) => match scoped.split_once('/') {
            Some((scope, rest)) => (Some(scope), rest),
            None => return false,
        },
        None => (None, spec),
    };
    let (name, wanted) = match rest.split_once('@') {
        Some((name, wanted)) => (name, Some(wanted)),
        None => (rest, None),
    };
    scope.is_none_or(part) && part(name) && wanted.is_none_or(version)
}

/// Brings the package's archive.
pub(super) async fn pack(spec: &str, folder: &Path) -> Result<Vec<u8>, InstallError> {
    pack_with("npm".as_ref(), spec, folder).await
}

/// The same with a program of that name.
pub(super) async fn pack_with(program: &OsStr, spec: &str, folder: &Path) -> Result<Vec<u8>, InstallError> {
    if !is_name(spec) {
        return Err(InstallError::NpmName { spec: spec.to_owned() });
    }
    let npm = |why: String| InstallError::Npm { spec: spec.to_owned(), why };
    // In a folder of its own, so that no project's settings there count; those of the user do.
    let mut command = Command::new(program);
    command.args(["pack", "--ignore-scripts", "--silent", "--"]).arg(spec).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let child = command.spawn().map_err(|source| InstallError::NoNpm { source })?;
    let output = match tokio::time::timeout(PATIENCE, child.wait_with_output()).await {
        Ok(output) => output.map_err(|error| npm(error.to_string()))?,
        Err(_) => return Err(npm(format!("it took longer than {} s", PATIENCE.as_secs()))),
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let said = if said.trim().is_empty() { String::from_utf8_lossy(&output.stdout).into_owned() } else { said };
        let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        let last = lines.iter().take(4).copied().collect::<Vec<_>>().join("; ");
        return Err(npm(match last.is_empty() {
            true => output.status.to_string(),
            false => crate::plugins::one_line(&last),
        }));
    }
    let brought = std::fs::read_dir(folder).map_err(|error| npm(error.to_string()))?.flatten();
    let brought = brought.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|ext| ext == "tgz"));
    let Some(path) = brought else { return Err(npm("it left no archive".into())) };
    super::read_bounded(&path)
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn names_of_the_registry_pass_and_nothing_else_does() {
        for good in ["window", "window@1.2.3", "@acme/window", "@acme/window@^2", "a.b-c_d", "w@latest", "w@>=1"] {
            assert!(is_name(good), "{good}");
        }
        for wrong in [
            "",
            "-g",
            "--registry=x",
            "./here",
            "../up",
            "/abs",
            "a/b",
            "git+ssh://x",
            "https://x/y.tgz",
            "file:x",
            "@a",
            "a@",
            "a b",
            "a@file:x",
            "@/x",
        ] {
            assert!(!is_name(wrong), "{wrong}");
        }
    }
}
