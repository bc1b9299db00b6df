//! Writes the folder: beside its place first, then by one rename, so that it is there whole or not at all.

use super::ScaffoldError;
use super::template::Kit;
use std::io::ErrorKind;
use std::path::Path;

/// Makes `folder` with the files of the kit.
pub(super) fn folder(folder: &Path, name: &str, kit: &Kit) -> Result<(), ScaffoldError> {
    let at = |path: &Path| {
        let path = path.to_path_buf();
        move |source| ScaffoldError::Write { path, source }
    };
    if !is_free(folder) {
        return Err(ScaffoldError::Occupied { folder: folder.to_path_buf() });
    }
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(above).map_err(at(above))?;
    let beside = tempfile::Builder::new().prefix(".engineroom-new-").tempdir_in(above).map_err(at(above))?;
    // A folder in the temporary one, since that is for its owner alone.
    let made = beside.path().join(name);
    std::fs::create_dir(&made).map_err(at(&made))?;
    for (path, text) in &kit.files {
        let file = made.join(path);
        let written = file.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| std::fs::write(&file, text));
        written.map_err(at(&folder.join(path)))?;
    }
    if kit.with_sdk {
        unpack(&made)?;
    }
    match std::fs::rename(&made, folder) {
        // Something came into the folder meanwhile.
        Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::NotADirectory) => {
            Err(ScaffoldError::Occupied { folder: folder.to_path_buf() })
        }
        other => other.map_err(at(folder)),
    }
}

/// True when nothing is there, or an empty folder.
fn is_free(folder: &Path) -> bool {
    match std::fs::symlink_metadata(folder) {
        Err(_) => true,
        Ok(there) => there.is_dir() && std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none()),
    }
}

/// The sources that this binary carries. Their times are now: cargo tells by them what is new.
fn unpack(into: &Path) -> Result<(), ScaffoldError> {
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(engineroom_sdk::ARCHIVE));
    archive.set_preserve_mtime(false);
    archive.unpack(into).map_err(|source| match source.kind() {
        ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::UnexpectedEof => {
            ScaffoldError::Archive { source }
        }
        _ => ScaffoldError::Write { path: into.join("sdk"), source },
    })
}
