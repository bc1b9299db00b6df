//! `run`: the main job from a fresh checkout.

use crate::{Outcome, built, cargo, done, root};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Engines and memory providers that come with the gateway: package and library name.
pub(crate) const BUNDLED: &[(&str, &str)] =
    &[("engine-window", "window"), ("engine-notes", "notes"), ("engine-recall", "recall")];

/// How the gateway and the bundled engines are built.
#[derive(Clone, Copy)]
pub(crate) enum Build {
    /// As they are used.
    Release,
    /// Quickly, to try what is done with them.
    Dev,
}

impl Build {
    /// The name of cargo's profile, and of the folder with what it builds.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Build::Release => ("release", "release"),
            Build::Dev => ("dev", "debug"),
        }
    }
}

/// File name of a bundled library.
pub(crate) fn library(name: &str) -> String {
    format!("{}{name}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX)
}

/// Builds the gateway and the bundled engines, puts the engines into `plugins/`, and starts the gateway.
pub(crate) fn run(args: &[String]) -> Outcome {
    let gateway = prepare(Build::Release)?;
    let mut command = Command::new(gateway);
    command.current_dir(root()).arg("gateway").args(args);
    replace_process(&mut command)
}

/// Builds and installs; gives the path of the gateway. The engines come first: the gateway is told their hashes, so that it runs
/// them in its own process without being asked to.
pub(crate) fn prepare(build: Build) -> Result<PathBuf, String> {
    let (profile, folder) = build.names();
    let mut build = cargo();
    build.args(["build", "--profile", profile]);
    for (package, _) in BUNDLED {
        build.args(["--package", package]);
    }
    done(&mut build)?;
    let plugins = root().join("plugins");
    std::fs::create_dir_all(&plugins).map_err(|e| format!("{}: {e}", plugins.display()))?;
    let mut hashes = Vec::new();
    for (_, library) in BUNDLED {
        let name = self::library(library);
        let installed = plugins.join(&name);
        install(&built(folder).join(&name), &installed)?;
        hashes.push(sha256(&installed)?);
    }
    let mut build = cargo();
    build.args(["build", "--profile", profile, "--package", "engineroom"]).env("ENGINEROOM_BUNDLED", hashes.join(","));
    done(&mut build)?;
    Ok(built(folder).join("engineroom"))
}

fn sha256(file: &Path) -> Result<String, String> {
    let bytes = std::fs::read(file).map_err(|e| format!("{}: {e}", file.display()))?;
    Ok(Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Copies beside the target and renames, so that a running gateway never sees half a library.
fn install(from: &Path, to: &Path) -> Outcome {
    let half = to.with_extension("new");
    let say = |e: std::io::Error| format!("{} to {}: {e}", from.display(), to.display());
    std::fs::copy(from, &half).map_err(say)?;
    let mut mode = std::fs::metadata(&half).map_err(say)?.permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o644);
    std::fs::set_permissions(&half, mode).map_err(say)?;
    std::fs::rename(&half, to).map_err(say)
}

fn replace_process(command: &mut Command) -> Outcome {
    let error = std::os::unix::process::CommandExt::exec(command);
    Err(format!("{command:?}: {error}"))
}
