//! The database written anew, without what was deleted.
//!
//! Deleted rows are overwritten at once (`secure_delete`). What stays until it is overwritten by chance: pages that were free
//! before this was so, and copies that SQLite leaves in the unused part of a page when it moves a row within it. A new file has
//! neither, and is as small as what it holds.

use super::evidence::{Found, Mark, beside, look};
use super::{backend, disk_bytes, lock, purge, schema};
use crate::transcript::StoreError;
use rusqlite::Connection;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What writing the database anew came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shrunk {
    /// The database.
    pub path: PathBuf,
    /// Its size before, with its log.
    pub before: u64,
    /// Its size now.
    pub bytes: u64,
}

/// Writes the database of a state folder anew and puts the new file in its place; `None` where there is none. Takes the
/// folder's lock, and needs as much room again as the database takes.
///
/// # Errors
///
/// As [`open`](super::open), [`StoreError::Locked`] while a gateway runs among them; the database is as it was then.
pub fn shrink(state_dir: &Path) -> Result<Option<Shrunk>, StoreError> {
    if !lock::folder_is_there(state_dir)? {
        return Ok(None);
    }
    let _lock = lock::FolderLock::take(state_dir)?;
    let path = lock::database_path(state_dir);
    if look(&path)? == Found::Nothing {
        return Ok(None);
    }
    let failed = |error: std::io::Error| lock::open_error(&path, &error);
    let before = disk_bytes(&path);
    let work = tempfile::Builder::new().prefix("transcript.shrink-").tempdir_in(state_dir).map_err(failed)?;
    let new = work.path().join("transcript.db");
    lock::prepare_file(&new)?;
    let mut conn = schema::open_writer(&path)?;
    finish_deleting(&mut conn)?;
    let target = new.to_str().ok_or_else(|| lock::open_error(&new, &"its path is no UTF-8"))?;
    conn.execute("VACUUM INTO ?1", [target]).map_err(backend)?;
    StoreError::at("store.shrink.written")?;
    std::fs::File::open(&new).and_then(|file| file.sync_all()).map_err(failed)?;
    // The last connection takes the log along: it must not be taken for one of the new file.
    Mark::Closing.write(&path).map_err(failed)?;
    conn.close().map_err(|(_, error)| backend(error))?;
    for suffix in ["-wal", "-shm"] {
        match std::fs::metadata(beside(&path, suffix)) {
            Ok(left) if left.len() > 0 => return Err(StoreError::Busy("another program reads it".into())),
            _ => {}
        }
    }
    StoreError::at("store.shrink.closed")?;
    std::fs::rename(&new, &path).map_err(failed)?;
    lock::sync_folder(state_dir)?;
    Mark::Closed.write(&path).map_err(failed)?;
    Ok(Some(Shrunk { before, bytes: disk_bytes(&path), path }))
}

/// What deleted sessions left must not be taken over.
fn finish_deleting(conn: &mut Connection) -> Result<(), StoreError> {
    for session in purge::resume(conn)? {
        loop {
            let part = conn.transaction().map_err(backend)?;
            let last = purge::part(&part, session, purge::What::Session)?;
            part.commit().map_err(backend)?;
            if last {
                break;
            }
        }
    }
    Ok(())
}
