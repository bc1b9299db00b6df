//! The targets, by what they read.

pub(crate) mod config;
pub(crate) mod ledger;
pub(crate) mod library;
pub(crate) mod path;
pub(crate) mod probe;
pub(crate) mod replay;
pub(crate) mod request;
pub(crate) mod worker;

use std::cell::OnceCell;
use std::path::{Path, PathBuf};

thread_local! {
    /// In memory where the system has such a place: some inputs are files.
    static FOLDER: OnceCell<tempfile::TempDir> = const { OnceCell::new() };
}

/// A folder of this thread.
fn folder() -> PathBuf {
    FOLDER.with(|folder| {
        let place = Path::new("/dev/shm");
        let made = || match place.is_dir() {
            true => tempfile::tempdir_in(place).expect("a folder in memory"),
            false => tempfile::tempdir().expect("a folder"),
        };
        folder.get_or_init(made).path().to_owned()
    })
}
