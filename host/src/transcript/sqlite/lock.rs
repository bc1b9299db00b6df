//! One gateway per state folder: the folder, its modes, and the lock that refuses a second process.

use crate::transcript::StoreError;
use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Name of the lock file in the state folder.
const LOCK_FILE: &str = "gateway.lock";
/// Set on folders such as `/tmp`, where everybody may create files.
const STICKY: u32 = 0o1000;

/// The held lock. The kernel releases it with the last descriptor, however the process ends; the file stays.
#[derive(Debug)]
pub(super) struct FolderLock {
    _file: File,
}

impl FolderLock {
    /// Takes the lock of `folder`, which exists, and leaves this process's pid in the file.
    ///
    /// # Errors
    /// [`StoreError::Locked`] with the pid of the holder, [`StoreError::Open`] when the file cannot be used.
    pub(super) fn take(folder: &Path) -> Result<FolderLock, StoreError> {
        let path = folder.join(LOCK_FILE);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(|error| open_error(&path, &error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StoreError::Locked { folder: folder.display().to_string(), pid: read_pid(&mut file) });
            }
            Err(TryLockError::Error(error)) => return Err(open_error(&path, &error)),
        }
        // A reader that loses the race sees the old pid or none; the lock itself is what counts.
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| file.write_all(format!("{}\n", std::process::id()).as_bytes()));
        written.map_err(|error| open_error(&path, &error))?;
        Ok(FolderLock { _file: file })
    }
}

fn read_pid(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.take(32).read_to_string(&mut text);
    match text.trim() {
        pid if read.is_ok() && !pid.is_empty() && pid.bytes().all(|b| b.is_ascii_digit()) => pid.to_owned(),
        _ => "unknown".to_owned(),
    }
}

/// Whether there is a state folder; that something else is in its place is an error.
pub(super) fn folder_is_there(folder: &Path) -> Result<bool, StoreError> {
    match std::fs::metadata(folder) {
        Ok(meta) if meta.is_dir() => Ok(true),
        Ok(_) => Err(open_error(folder, &"it is not a folder")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(open_error(folder, &error)),
    }
}

/// Creates the state folder with mode 0700, or takes group and others out of an existing one. A folder that everybody may
/// write to (sticky, as `/tmp` is) is refused: it is no private place, and its mode is not ours to change.
pub(super) fn prepare_folder(folder: &Path) -> Result<(), StoreError> {
    let failed = |error: std::io::Error| open_error(folder, &error);
    if !folder.exists() {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        if let Some(parent) = folder.parent().filter(|p| !p.as_os_str().is_empty()) {
            sync_folder(parent)?;
        }
    }
    let meta = std::fs::metadata(folder).map_err(failed)?;
    if !meta.is_dir() {
        return Err(StoreError::Open { path: folder.display().to_string(), reason: "it is not a folder".into() });
    }
    let mode = meta.permissions().mode();
    if mode & STICKY != 0 {
        let reason = "it is a shared folder; name a folder of your own".into();
        return Err(StoreError::Open { path: folder.display().to_string(), reason });
    }
    if mode & 0o077 != 0 {
        std::fs::set_permissions(folder, Permissions::from_mode(0o700)).map_err(failed)?;
    }
    Ok(())
}

/// Creates the database file with mode 0600, which its log and index inherit, and makes its name durable.
pub(super) fn prepare_file(path: &Path) -> Result<(), StoreError> {
    let failed = |error: std::io::Error| open_error(path, &error);
    let existed = path.exists();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(failed)?;
    if existed {
        file.set_permissions(Permissions::from_mode(0o600)).map_err(failed)?;
    } else {
        file.sync_all().map_err(failed)?;
        if let Some(folder) = path.parent() {
            sync_folder(folder)?;
        }
    }
    Ok(())
}

pub(super) fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    File::open(folder).and_then(|f| f.sync_all()).map_err(|error| open_error(folder, &error))
}

pub(super) fn open_error(path: &Path, error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Open { path: path.display().to_string(), reason: error.to_string() }
}

/// Path of the database in a state folder.
pub(super) fn database_path(folder: &Path) -> PathBuf {
    folder.join("transcript.db")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_holder_is_refused_and_told_the_pid() {
        let dir = tempfile::tempdir().unwrap();
        let first = FolderLock::take(dir.path()).unwrap();
        match FolderLock::take(dir.path()) {
            Err(StoreError::Locked { pid, .. }) => assert_eq!(pid, std::process::id().to_string()),
            other => panic!("{other:?}"),
        }
        drop(first);
        FolderLock::take(dir.path()).unwrap();
    }

    #[test]
    fn an_unreadable_pid_is_called_unknown() {
        let dir = tempfile::tempdir().unwrap();
        let held = File::create(dir.path().join(LOCK_FILE)).unwrap();
        held.try_lock().unwrap();
        std::fs::write(dir.path().join(LOCK_FILE), "not a pid").unwrap();
        match FolderLock::take(dir.path()) {
            Err(StoreError::Locked { pid, .. }) => assert_eq!(pid, "unknown"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn folders_are_private_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let open = dir.path().join("a/b");
        prepare_folder(&open).unwrap();
        assert_eq!(std::fs::metadata(&open).unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::set_permissions(&open, Permissions::from_mode(0o755)).unwrap();
        prepare_folder(&open).unwrap();
        assert_eq!(std::fs::metadata(&open).unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::set_permissions(&open, Permissions::from_mode(0o1777)).unwrap();
        assert!(matches!(prepare_folder(&open), Err(StoreError::Open { .. })));
        let file = dir.path().join("file");
        std::fs::write(&file, "x").unwrap();
        assert!(matches!(prepare_folder(&file), Err(StoreError::Open { .. })));
    }
}
