//! The folder of the notes: which files there are, and what is in them. Nothing outside of it is ever read.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Most notes; the newest names count when there are more.
pub(crate) const FILES_MAX: usize = 10_000;
/// Largest note in bytes; what is longer is read up to here.
pub(crate) const FILE_MAX: u64 = 1024 * 1024;
/// Deepest folder in the folder.
const DEPTH_MAX: usize = 8;

/// A note as the folder lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Path below the folder, with `/`.
    pub(crate) name: String,
    /// Where it really is.
    pub(crate) real: PathBuf,
    /// Time and size, by which a change is noticed.
    pub(crate) stamp: Stamp,
}

/// Time and size of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Nanoseconds since the epoch.
    nanos: i128,
    size: u64,
}

impl Stamp {
    fn of(metadata: &fs::Metadata) -> Stamp {
        let since = metadata.modified().map_or(0, |time| match time.duration_since(UNIX_EPOCH) {
            Ok(after) => i128::try_from(after.as_nanos()).unwrap_or(i128::MAX),
            Err(before) => -i128::try_from(before.duration().as_nanos()).unwrap_or(i128::MAX),
        });
        Stamp { nanos: since, size: metadata.len() }
    }

    /// Milliseconds since the epoch.
    pub(crate) fn time_ms(&self) -> i64 {
        i64::try_from(self.nanos / 1_000_000).unwrap_or(i64::MAX)
    }

    /// True when a change right after `read` could carry the same stamp: clocks of file systems are coarse.
    pub(crate) fn is_fresh(&self, read: SystemTime) -> bool {
        const COARSE: i128 = 2_000_000_000;
        let read = read.duration_since(UNIX_EPOCH).map_or(0, |since| i128::try_from(since.as_nanos()).unwrap_or(0));
        (read - self.nanos).abs() < COARSE
    }
}

/// All notes below `root`, by name. A folder that does not exist holds none.
pub(crate) fn list(root: &Path) -> io::Result<Vec<Listed>> {
    let real = match fs::canonicalize(root) {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    let mut open = vec![(real.clone(), String::new(), 0)];
    while let Some((folder, prefix, depth)) = open.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            // The folder itself must be readable; what is in it may come and go.
            Err(error) if depth == 0 => return Err(error),
            Err(_) => continue,
        };
        for entry in entries.flatten() {
            let (Ok(kind), Some(name)) = (entry.file_type(), entry.file_name().to_str().map(str::to_owned)) else {
                continue;
            };
            if name.starts_with('.') {
                continue;
            }
            let (path, name) = (entry.path(), format!("{prefix}{name}"));
            // A link to a folder could lead around in a circle, so only folders themselves are entered.
            if kind.is_dir() && depth < DEPTH_MAX {
                open.push((path, format!("{name}/"), depth + 1));
            } else if is_note(&path) {
                let listed = match kind.is_file() {
                    // Below folders that were entered as such, so inside.
                    true => {
                        entry.metadata().ok().map(|metadata| Listed { name, real: path, stamp: Stamp::of(&metadata) })
                    }
                    false => linked(&real, &path, name),
                };
                found.extend(listed);
            }
        }
    }
    // Dated names sort by their date, so the newest stay.
    found.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let surplus = found.len().saturating_sub(FILES_MAX);
    found.drain(..surplus);
    Ok(found)
}

fn is_note(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("md") || extension == "markdown")
}

/// The note behind a link, when it is a file inside of `root`, all links followed.
fn linked(root: &Path, path: &Path, name: String) -> Option<Listed> {
    let real = fs::canonicalize(path).ok().filter(|real| real.starts_with(root))?;
    let metadata = fs::metadata(&real).ok().filter(fs::Metadata::is_file)?;
    Some(Listed { name, real, stamp: Stamp::of(&metadata) })
}

/// Up to `most` bytes of a file as text; what is not UTF-8 is marked.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn names(root: &Path) -> Vec<String> {
        list(root).unwrap().into_iter().map(|listed| listed.name).collect()
    }

    #[test]
    fn notes_are_markdown_files_below_the_folder() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("trips/2026")).unwrap();
        for name in ["b.md", "a.MD", "trips/rome.md", "trips/2026/oslo.markdown", "picture.png", ".hidden.md"] {
            fs::write(root.path().join(name), "text").unwrap();
        }
        assert_eq!(names(root.path()), ["a.MD", "b.md", "trips/2026/oslo.markdown", "trips/rome.md"]);
        assert!(names(&root.path().join("not there")).is_empty());
    }

    #[test]
    fn a_link_out_of_the_folder_is_not_followed() {
        let outside = tempfile::tempdir().unwrap();
        let root = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("secret.md"), "secret").unwrap();
        fs::write(root.path().join("real.md"), "text").unwrap();
        symlink(outside.path().join("secret.md"), root.path().join("link.md")).unwrap();
        symlink(outside.path(), root.path().join("folder")).unwrap();
        symlink("real.md", root.path().join("alias.md")).unwrap();
        symlink("gone.md", root.path().join("broken.md")).unwrap();
        symlink(".", root.path().join("circle")).unwrap();
        assert_eq!(names(root.path()), ["alias.md", "real.md"]);
    }

    #[test]
    fn a_long_file_is_read_up_to_its_bound_and_bad_bytes_are_marked() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a.md");
        fs::write(&path, b"ab\xffcd").unwrap();
        assert_eq!(read(&path, 100).unwrap(), "ab\u{fffd}cd");
        assert_eq!(read(&path, 2).unwrap(), "ab");
    }
}
