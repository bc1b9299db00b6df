//! The corpora, and every input that once broke something, as plain tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_fuzz::{Counting, TARGETS};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn files(folder: &Path) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = listed.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

#[test]
fn every_corpus_and_every_former_crash_passes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut failed = Vec::new();
    for target in TARGETS {
        let corpus = files(&root.join("corpus").join(target.name));
        assert!(!corpus.is_empty(), "{} has no corpus", target.name);
        for path in corpus.into_iter().chain(files(&root.join("crashes").join(target.name))) {
            let data = std::fs::read(&path).unwrap();
            if catch_unwind(AssertUnwindSafe(|| target.check(&data))).is_err() {
                failed.push(path);
            }
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn every_folder_belongs_to_a_target() {
    for kind in ["corpus", "crashes"] {
        for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(kind)).into_iter().flatten().flatten()
        {
            let name = entry.file_name();
            let known = TARGETS.iter().any(|target| name == *target.name);
            assert!(known || !entry.path().is_dir(), "{kind}/{} belongs to no target", name.display());
        }
    }
}
