//! `run`: the main job from a fresh checkout.

use crate::{Outcome, built, cargo, done, root};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Engines and memory providers that come with the gateway: package and library name.
const BUNDLED: &[(&str, &str)] = &[("engine-window", "window"), ("engine-notes", "notes"), ("engine-recall", "recall")];

/// Builds the gateway and the bundled engines, puts the engines into `plugins/`, and starts the gateway.
pub(crate) fn run(args: &[String]) -> Outcome {
    let gateway = prepare()?;
    let mut command = Command::new(gateway);
    command.current_dir(root()).arg("gateway").args(args);
    replace_process(&mut command)
}

/// Builds and installs; gives the path of the gateway. The engines come first: the gateway is told their hashes, so that it runs
/// them in its own process without being asked to.
pub(crate) fn prepare() -> Result<PathBuf, String> {
    let mut build = cargo();
    build.args(["build", "--release"]);
    for (package, _) in BUNDLED {
        build.args(["--package", package]);
    }
    done(&mut build)?;
    let plugins = root().join("plugins");
    std::fs::create_dir_all(&plugins).map_err(|e| format!("{}: {e}", plugins.display()))?;
    let mut hashes = Vec::new();
    for (_, library) in BUNDLED {
        let name = format!("{}{library}{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
        let installed = plugins.join(&name);
        install(&built("release").join(&name), &installed)?;
        hashes.push(sha256(&installed)?);
    }
    let mut build = cargo();
    build.args(["build", "--release", "--package", "engineroom"]).env("ENGINEROOM_BUNDLED", hashes.join(","));
    done(&mut build)?;
    Ok(built("release").join("engineroom"))
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
