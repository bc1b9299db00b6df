//! Is the file that is written to still the one that bears its name? A file that was deleted, moved or replaced takes every
//! write and keeps none of it for the next start: the kernel frees it with its last descriptor.
//!
//! Only names are asked for: to open the database a second time, and to close it, would give up SQLite's locks.

use super::evidence::beside;
use crate::transcript::StoreError;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Device and number of a file.
type File = (u64, u64);

/// The database and its log, by their names and by what was found under them.
#[derive(Debug)]
pub(super) struct Named {
    path: PathBuf,
    log_path: PathBuf,
    database: File,
    /// SQLite makes the log when it first needs one, and keeps that file until the store is closed.
    log: Mutex<Option<File>>,
}

impl Named {
    /// Remembers which file the name stands for now.
    pub(super) fn new(path: &Path) -> Result<Named, StoreError> {
        let database = file(path).map_err(|error| super::lock::open_error(path, &error))?;
        let log_path = beside(path, "-wal");
        let log = Mutex::new(file(&log_path).ok());
        Ok(Named { path: path.to_owned(), log_path, database, log })
    }

    /// Costs two looks at a name.
    ///
    /// # Errors
    ///
    /// [`StoreError::Lost`] while a name stands for nothing, or for another file.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        same(&self.path, self.database)?;
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        match *log {
            Some(known) => same(&self.log_path, known),
            None => {
                *log = file(&self.log_path).ok();
                Ok(())
            }
        }
    }
}

fn file(path: &Path) -> std::io::Result<File> {
    std::fs::metadata(path).map(|meta| (meta.dev(), meta.ino()))
}

fn same(path: &Path, known: File) -> Result<(), StoreError> {
    let lost = |reason: String| Err(StoreError::Lost { path: path.display().to_string(), reason });
    match file(path) {
        Ok(found) if found == known => Ok(()),
        Ok(_) => lost("another file has its name".into()),
        Err(error) => lost(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_moved_deleted_or_replaced_is_lost_until_it_is_back() {
        let dir = tempfile::tempdir().unwrap();
        let (path, aside) = (dir.path().join("t.db"), dir.path().join("aside"));
        std::fs::write(&path, "x").unwrap();
        let named = Named::new(&path).unwrap();
        named.check().unwrap();
        let log = beside(&path, "-wal");
        std::fs::write(&log, "log").unwrap();
        named.check().unwrap();
        for path in [&path, &log] {
            std::fs::rename(path, &aside).unwrap();
            assert!(matches!(named.check(), Err(StoreError::Lost { .. })), "{path:?}");
            std::fs::copy(&aside, path).unwrap();
            assert!(matches!(named.check(), Err(StoreError::Lost { .. })), "{path:?}: a copy is another file");
            std::fs::rename(&aside, path).unwrap();
            named.check().unwrap();
        }
    }
}
