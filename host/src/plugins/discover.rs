//! Which files there are: the plugins folder, its direct subfolders, linked paths. In the same order each time.

use super::cause::Cause;
use super::report::StageFailure;
use crate::config::PluginsConfig;
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Where a file was found, which decides the rules of place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// In the plugins folder or a linked folder, whose real path this is.
    Folder(PathBuf),
    /// The operator named this very file.
    Link,
}

/// A file that may be a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    /// As found.
    pub path: PathBuf,
    /// All links resolved.
    pub real: PathBuf,
    /// Where it was found.
    pub place: Place,
}

/// Files, and the folders that could not be listed.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub candidates: Vec<Candidate>,
    pub failures: Vec<(PathBuf, StageFailure)>,
}

/// Lists all candidates. A plugins folder that does not exist is an empty one.
pub(super) fn candidates(config: &PluginsConfig) -> Found {
    let mut found = Found::default();
    match config.dir.canonicalize() {
        Ok(root) => found.folder(&config.dir, &root, true),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => found.unreadable(&config.dir, &error),
    }
    for link in &config.links {
        match link.canonicalize() {
            Ok(real) if real.is_dir() => found.folder(link, &real, true),
            Ok(real) => found.push(Candidate { path: link.clone(), real, place: Place::Link }),
            Err(error) if error.kind() == ErrorKind::NotFound => found.failures.push((
                link.clone(),
                StageFailure::new(Cause::LinkMissing, format!("the linked path {} does not exist", link.display())),
            )),
            Err(error) => found.unreadable(link, &error),
        }
    }
    found
}

impl Found {
    /// Files of `dir` first, then those of its subfolders; never deeper. `root` is the real path of `dir`.
    fn folder(&mut self, dir: &Path, root: &Path, with_subfolders: bool) {
        let mut files = Vec::new();
        let mut folders = Vec::new();
        let listing = match std::fs::read_dir(dir) {
            Ok(listing) => listing,
            Err(error) => return self.unreadable(dir, &error),
        };
        for entry in listing {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => return self.unreadable(dir, &error),
            };
            let path = entry.path();
            // Hidden names are half-written copies and editors' files.
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            // A link to a folder is not followed: it could only lead out of the folder or in a circle.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if is_library_name(&path) {
                files.push(path);
            }
        }
        files.sort();
        folders.sort();
        for path in files {
            // A broken link keeps its own path; reading it says what is wrong.
            let real = path.canonicalize().unwrap_or_else(|_| path.clone());
            self.push(Candidate { path, real, place: Place::Folder(root.to_owned()) });
        }
        if with_subfolders {
            for folder in folders {
                self.folder(&folder, root, false);
            }
        }
    }

    fn push(&mut self, candidate: Candidate) {
        if !self.candidates.iter().any(|known| known.real == candidate.real) {
            self.candidates.push(candidate);
        }
    }

    fn unreadable(&mut self, path: &Path, error: &std::io::Error) {
        let message = format!("cannot list {}", path.display());
        self.failures.push((path.to_owned(), StageFailure::new(Cause::FolderUnreadable, message).because(error)));
    }
}

pub(super) fn is_library_name(path: &Path) -> bool {
    path.extension().and_then(OsStr::to_str).is_some_and(|ext| matches!(ext, "so" | "dylib"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn config(base: &Path) -> PluginsConfig {
        Config::defaults(base.join("plugins.toml")).plugins
    }

    fn names(found: &Found) -> Vec<String> {
        found.candidates.iter().map(|c| c.path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_missing_folder_is_an_empty_one() {
        let base = tempfile::tempdir().unwrap();
        let found = candidates(&config(base.path()));
        assert!(found.candidates.is_empty() && found.failures.is_empty());
    }

    #[test]
    fn lists_libraries_in_order_and_one_level_deep() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("plugins");
        std::fs::create_dir_all(dir.join("sub/deeper")).unwrap();
        for name in ["b.so", "a.so", "readme.md", ".half.so", "sub/c.dylib", "sub/deeper/d.so"] {
            std::fs::write(dir.join(name), "x").unwrap();
        }
        assert_eq!(names(&candidates(&config(base.path()))), ["a.so", "b.so", "c.dylib"]);
    }

    #[test]
    fn a_file_that_is_reached_twice_counts_once() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("plugins");
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("a.so"), "x").unwrap();
        std::os::unix::fs::symlink("a.so", dir.join("z.so")).unwrap();
        let mut config = config(base.path());
        config.links = vec![dir.join("a.so")];
        assert_eq!(names(&candidates(&config)), ["a.so"]);
    }

    #[test]
    fn links_name_files_and_folders_and_a_missing_one_is_told() {
        let base = tempfile::tempdir().unwrap();
        let other = base.path().join("other");
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join("x.so"), "x").unwrap();
        std::fs::write(base.path().join("single"), "x").unwrap();
        let mut config = config(base.path());
        config.links = vec![other, base.path().join("single"), base.path().join("gone.so")];
        let found = candidates(&config);
        assert_eq!(names(&found), ["x.so", "single"]);
        assert_eq!(found.candidates[1].place, Place::Link);
        assert_eq!(found.failures[0].1.code, Cause::LinkMissing.code());
    }

    #[test]
    fn a_plugins_path_that_is_no_folder_is_a_report() {
        let base = tempfile::tempdir().unwrap();
        std::fs::write(base.path().join("plugins"), "a file").unwrap();
        let found = candidates(&config(base.path()));
        assert_eq!(found.failures.len(), 1);
        assert_eq!(found.failures[0].1.code, Cause::FolderUnreadable.code());
    }
}
