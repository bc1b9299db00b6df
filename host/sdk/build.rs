//! Packs what an author's project is made of (see `src/lib.rs`).
//!
//! Which packages belong to it is asked of cargo itself, for a project that is like an author's: so the list is never kept by
//! hand, the lock is the one that this workspace is built with, and the sources are those that this very build uses. Cargo is
//! asked offline; everything is on this machine already, because the gateway depends on `engine-abi`, too.

#[path = "build/own.rs"]
mod own;
#[path = "build/vendor.rs"]
mod vendor;

use serde_json::Value;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Name of the project in the lock; `src/lib.rs` says the same.
const PROJECT: &str = "engineroom-project";

/// Files of the archive by their path.
type Files = BTreeMap<String, Vec<u8>>;

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")?).join("../..");
    let out = PathBuf::from(variable("OUT_DIR")?);
    for path in ["host/sdk/build.rs", "host/sdk/build", "Cargo.toml", "Cargo.lock", "LICENSE-MIT", "LICENSE-APACHE"] {
        println!("cargo::rerun-if-changed={}", root.join(path).display());
    }

    let mut files = Files::new();
    own::collect(&root, &mut files)?;
    let project = out.join("project");
    write_project(&project, &root, &files)?;
    let metadata = metadata(&root, &project)?;
    // Cargo has left in it what such a project needs.
    let lock = std::fs::read_to_string(project.join("Cargo.lock"))?;
    vendor::collect(&metadata, &lock, &mut files)?;
    std::fs::write(out.join("project.lock"), lock)?;
    std::fs::remove_dir_all(&project)?;
    std::fs::write(out.join("sdk.tar.gz"), pack(&files)?)?;
    Ok(())
}

fn variable(name: &str) -> Result<String, Box<dyn Error>> {
    std::env::var(name).map_err(|error| format!("{name}: {error}").into())
}

/// A project that depends on what an author's depends on.
fn write_project(folder: &Path, root: &Path, files: &Files) -> Result<(), Box<dyn Error>> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)?;
    }
    for (path, bytes) in files {
        write(&folder.join(path), bytes)?;
    }
    let manifest = format!(
        "[package]\nname = \"{PROJECT}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[workspace]\nexclude = [\"sdk\"]\n\n\
         [dependencies]\nengine-abi = {{ path = \"sdk/engine-abi\" }}\nserde = {{ version = \"1\", features = [\"derive\"] }}\n"
    );
    write(&folder.join("Cargo.toml"), manifest.as_bytes())?;
    write(&folder.join("src/lib.rs"), b"")?;
    std::fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, bytes)
}

/// What cargo knows of the project's packages on the platform that the gateway is built for. Run in the workspace, so that a
/// source that somebody has replaced is replaced here, too.
fn metadata(root: &Path, project: &Path) -> Result<Value, Box<dyn Error>> {
    let output = Command::new(variable("CARGO")?)
        .current_dir(root)
        .args(["metadata", "--offline", "--format-version", "1", "--filter-platform", &variable("TARGET")?])
        .arg("--manifest-path")
        .arg(project.join("Cargo.toml"))
        .output()?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// The archive. The same files give the same bytes.
fn pack(files: &Files) -> Result<Vec<u8>, Box<dyn Error>> {
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let mut archive = tar::Builder::new(gzip);
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, path, bytes.as_slice())?;
    }
    Ok(archive.into_inner()?.finish()?)
}
