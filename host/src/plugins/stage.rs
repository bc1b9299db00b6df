//! The private copy: the very bytes that were inspected, under their hash. Only from there is anything ever loaded, so
//! that a file may be replaced in the plugins folder while the gateway runs.

use super::cause::Cause;
use super::read;
use super::report::StageFailure;
use crate::observe::broken;
use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Folder of the copies in the state folder.
const FOLDER: &str = "staged";

/// Writes the copy, or finds a good one. Gives its absolute path.
///
/// There is no sync: a copy that a power cut spoils has another hash at the next start and is written anew.
///
/// # Errors
/// [`Cause::CannotStage`], [`Cause::LooseStage`].
pub(super) fn stage(state_dir: &Path, plugin_id: &str, sha256: &str, bytes: &[u8]) -> Result<PathBuf, StageFailure> {
    let root = state_dir.join(FOLDER);
    let folder = root.join(sha256);
    private_folder(&root)?;
    private_folder(&folder)?;
    let path = folder.join(format!("lib{plugin_id}.{}", std::env::consts::DLL_EXTENSION));
    if !(is_good(&path, sha256) || broken("9.31") && path.exists()) {
        write(&folder, &path, bytes).map_err(|error| {
            StageFailure::new(Cause::CannotStage, format!("cannot write the private copy {}", path.display()))
                .because(error)
        })?;
    }
    std::path::absolute(&path).map_err(|error| {
        StageFailure::new(Cause::CannotStage, format!("the path {} has no absolute form", path.display()))
            .because(error)
    })
}

fn private_folder(path: &Path) -> Result<(), StageFailure> {
    let failed = |error: std::io::Error| {
        StageFailure::new(Cause::CannotStage, format!("cannot make the folder {}", path.display())).because(error)
    };
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
    let metadata = std::fs::symlink_metadata(path).map_err(failed)?;
    let own = metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw();
    if !own || metadata.mode() & 0o022 != 0 {
        let message = format!("{} is not a private folder of the gateway's user", path.display());
        return Err(StageFailure::new(Cause::LooseStage, message));
    }
    Ok(())
}

/// A copy that is there, is nobody else's, and has the right bytes.
fn is_good(path: &Path, sha256: &str) -> bool {
    read::read(path).is_ok_and(|copy| {
        copy.sha256 == sha256
            && copy.facts.uid == rustix::process::geteuid().as_raw()
            && copy.facts.mode & 0o022 == 0
            && copy.facts.links == 1
    })
}

fn write(folder: &Path, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().set_permissions(std::fs::Permissions::from_mode(0o500))?;
    file.persist(path)?;
    Ok(())
}

/// Removes the copies that are not in `used` (by hash), and half-written ones. Names that are no hash stay.
/// A copy that cannot be removed stays as well: it costs space and nothing else.
pub(super) fn sweep(state_dir: &Path, used: &BTreeSet<String>) {
    let Ok(listing) = std::fs::read_dir(state_dir.join(FOLDER)) else { return };
    for entry in listing.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let is_hash = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_hash && !used.contains(&name) {
            let _ = std::fs::remove_dir_all(entry.path());
        } else if is_hash {
            remove_half_written(&entry.path());
        }
    }
}

fn remove_half_written(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(b".new-") {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::read::sha256_hex;

    fn put(state: &Path, bytes: &[u8]) -> PathBuf {
        stage(state, "w", &sha256_hex(bytes), bytes).unwrap()
    }

    #[test]
    fn the_copy_holds_the_bytes_and_is_private() {
        let state = tempfile::tempdir().unwrap();
        let path = put(state.path(), b"bytes");
        assert!(path.is_absolute() && path.ends_with(format!("staged/{}/libw.so", sha256_hex(b"bytes"))));
        assert_eq!(std::fs::read(&path).unwrap(), b"bytes");
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o500, 0o700));
    }

    #[test]
    fn a_good_copy_is_used_again_and_a_bad_one_replaced() {
        let state = tempfile::tempdir().unwrap();
        let path = put(state.path(), b"bytes");
        let inode = |path: &Path| std::fs::metadata(path).unwrap().ino();
        let first = inode(&path);
        assert_eq!(inode(&put(state.path(), b"bytes")), first);

        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        std::fs::write(&path, b"other").unwrap();
        put(state.path(), b"bytes");
        assert_eq!(std::fs::read(&path).unwrap(), b"bytes");
        assert_ne!(inode(&path), first);
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let state = tempfile::tempdir().unwrap();
        let root = state.path().join(FOLDER);
        std::fs::create_dir(&root).unwrap();
        std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o777)).unwrap();
        let failure = stage(state.path(), "w", &sha256_hex(b"x"), b"x").unwrap_err();
        assert_eq!(failure.code, Cause::LooseStage.code());
    }

    #[test]
    fn a_state_folder_that_cannot_be_written_is_a_failure() {
        let state = tempfile::tempdir().unwrap();
        std::fs::write(state.path().join(FOLDER), "a file").unwrap();
        let failure = stage(state.path(), "w", &sha256_hex(b"x"), b"x").unwrap_err();
        assert_eq!(failure.code, Cause::CannotStage.code());
    }

    #[test]
    fn the_sweep_keeps_what_is_used_and_what_is_not_ours() {
        let state = tempfile::tempdir().unwrap();
        let (old, new) = (put(state.path(), b"old"), put(state.path(), b"new"));
        let half = new.with_file_name(".new-abc");
        std::fs::write(&half, "half").unwrap();
        std::fs::write(state.path().join("staged/notes.txt"), "mine").unwrap();
        sweep(state.path(), &BTreeSet::from([sha256_hex(b"new")]));
        assert!(!old.exists() && !half.exists());
        assert!(new.exists() && state.path().join("staged/notes.txt").exists());
    }
}
