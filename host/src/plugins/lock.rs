//! `plugins.lock` in the plugins folder: the hash of every file that was installed, and where it came from. A file that has
//! another hash is not the one that was installed.
//!
//! It lies with the files that it speaks of, so that both move together, and so that a configuration that nobody may write
//! keeps nobody from installing. Whoever can write to the folder can write the lock: it notices files that changed, and is no
//! wall against the folder's owner. `plugins.entries.ID.sha256` and signatures are.

use super::cause::Cause;
use super::read::Facts;
use super::report::StageFailure;
use super::trust::Identity;
use crate::config::edit::replace;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Name of the lock in the plugins folder.
pub const LOCK_FILE: &str = "plugins.lock";
/// The format that is written, and the only one that is read.
const VERSION: i64 = 1;
/// Largest lock that is read.
const MAX_BYTES: u64 = 4 * 1024 * 1024;
const HEAD: &str =
    "# What `engineroom plugins install` put into this folder, and from where. A file with another hash is refused.\n";

/// What was installed under one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// Plugin id.
    pub plugin: String,
    /// SHA-256 of the library, lower-case hex.
    pub sha256: String,
    /// The plugin's own version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where it was taken from: a path, an address, `npm:NAME`. Absent for a file that was pinned where it lay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// SHA-256 of what was downloaded, when that was an archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archive_sha256: Option<String>,
    /// When, RFC 3339 in UTC.
    pub installed: String,
}

/// The pins of a folder, by the file's path in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pins {
    /// By name; one in a subfolder is written with a slash.
    pub files: BTreeMap<String, Pin>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: i64,
    #[serde(default)]
    files: BTreeMap<String, Pin>,
}

impl Pins {
    /// Reads the lock of a plugins folder; without one nothing is pinned.
    ///
    /// # Errors
    /// [`Cause::LockUnreadable`]: then nobody can say which files changed.
    pub fn read(dir: &Path) -> Result<Pins, StageFailure> {
        let path = dir.join(LOCK_FILE);
        let failed = |message: String| StageFailure::new(Cause::LockUnreadable, message);
        let unreadable = |error: std::io::Error| failed(format!("cannot read {}", path.display())).because(error);
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits();
        let file = match OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Pins::default()),
            Err(error) => return Err(unreadable(error)),
        };
        let metadata = file.metadata().map_err(unreadable)?;
        if !metadata.is_file() || metadata.len() > MAX_BYTES {
            return Err(failed(format!("{} is no lock of plugins", path.display())));
        }
        Identity::of_process()
            .check_own(&path, &Facts::of(&metadata))
            .map_err(|(message, hint)| failed(message).hint(hint))?;
        let mut text = String::new();
        file.take(MAX_BYTES).read_to_string(&mut text).map_err(unreadable)?;
        Pins::parse(&text).map_err(|why| failed(format!("{}: {why}", path.display())))
    }

    fn parse(text: &str) -> Result<Pins, String> {
        let document: toml_edit::DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
            format!("it is not TOML: {}", error.message().trim().replace('\n', ", "))
        })?;
        // The format first: another one may look different in everything else.
        match document.get("version").and_then(toml_edit::Item::as_integer) {
            Some(VERSION) => {}
            Some(other) => return Err(format!("it has format {other}; this program knows format {VERSION}")),
            None => return Err("it does not say which format it has".into()),
        }
        let written: Written =
            toml_edit::de::from_document(document).map_err(|error| error.to_string().trim().replace('\n', ", "))?;
        let wrong = written.files.iter().find(|(_, pin)| !is_hash(&pin.sha256));
        if let Some((name, pin)) = wrong {
            return Err(format!("the hash of {name} is {:?}, which is none", pin.sha256));
        }
        Ok(Pins { files: written.files })
    }

    /// Writes the lock, whole or not at all.
    ///
    /// # Errors
    /// When the folder or the lock cannot be written.
    pub fn write(&self, dir: &Path) -> std::io::Result<()> {
        let written = Written { version: VERSION, files: self.files.clone() };
        let text = toml_edit::ser::to_string_pretty(&written).map_err(std::io::Error::other)?;
        replace(&dir.join(LOCK_FILE), format!("{HEAD}{text}").as_bytes())
    }

    /// The pin that a file is held against: that of its name, else that of its plugin, which may lie under another name now.
    pub fn of(&self, name: Option<&str>, plugin: &str) -> Option<&Pin> {
        let own = name.and_then(|name| self.files.get(name));
        own.or_else(|| self.files.values().find(|pin| pin.plugin == plugin))
    }

    /// The pins of a plugin, with the names of their files.
    pub fn of_plugin<'p>(&'p self, plugin: &'p str) -> impl Iterator<Item = (&'p String, &'p Pin)> {
        self.files.iter().filter(move |(_, pin)| pin.plugin == plugin)
    }
}

/// The name under which a file of the folder is pinned.
pub fn pin_name(dir: &Path, file: &Path) -> Option<String> {
    file.strip_prefix(dir).ok()?.to_str().map(str::to_owned)
}

/// Path of the lock of a plugins folder.
pub fn lock_path(dir: &Path) -> PathBuf {
    dir.join(LOCK_FILE)
}

fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn pin(plugin: &str, digit: &str) -> Pin {
        Pin {
            plugin: plugin.into(),
            sha256: digit.repeat(64),
            version: Some("1.2".into()),
            source: Some("/src/lib.so".into()),
            archive_sha256: None,
            installed: "2026-01-02T03:04:05Z".into(),
        }
    }

    #[test]
    fn what_was_written_is_read_and_no_lock_is_no_pins() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Pins::read(dir.path()).unwrap(), Pins::default());
        let files = [("libw.so", pin("w", "a")), ("sub/lib \"odd\".so", pin("odd.id", "b"))];
        let pins = Pins { files: files.map(|(name, pin)| (name.to_owned(), pin)).into() };
        pins.write(dir.path()).unwrap();
        assert_eq!(Pins::read(dir.path()).unwrap(), pins);
        let text = std::fs::read_to_string(lock_path(dir.path())).unwrap();
        assert!(text.starts_with("# What") && text.contains("version = 1"), "{text}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no half-written copy is left");
    }

    #[test]
    fn a_name_counts_before_a_plugin_that_moved() {
        let pins = Pins { files: [("a.so".to_owned(), pin("w", "a")), ("b.so".to_owned(), pin("v", "b"))].into() };
        assert_eq!(pins.of(Some("a.so"), "v").map(|pin| pin.plugin.as_str()), Some("w"));
        assert_eq!(pins.of(Some("c.so"), "v").map(|pin| pin.plugin.as_str()), Some("v"));
        assert_eq!(pins.of(None, "x"), None);
    }

    #[track_caller]
    fn refused(text: &str, words: &str) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(lock_path(dir.path()), text).unwrap();
        let failure = Pins::read(dir.path()).unwrap_err();
        assert_eq!(failure.code, Cause::LockUnreadable.code());
        assert!(failure.message.contains(words) && failure.message.contains(LOCK_FILE), "{}", failure.message);
    }

    #[test]
    fn what_is_not_understood_is_refused_and_a_newer_format_is_named() {
        refused("version = 2\n[[pin]]\nx = 1\n", "format 2");
        refused("version = \n", "not TOML");
        refused("", "which format");
        refused("version = 1\nsecond = 2\n", "second");
        refused("version = 1\n[files.\"a.so\"]\nplugin = \"w\"\nsha256 = \"x\"\ninstalled = \"\"\n", "a.so");
    }

    #[test]
    fn a_lock_that_others_may_write_counts_for_nothing() {
        let dir = tempfile::tempdir().unwrap();
        Pins::default().write(dir.path()).unwrap();
        std::fs::set_permissions(lock_path(dir.path()), std::fs::Permissions::from_mode(0o666)).unwrap();
        let failure = Pins::read(dir.path()).unwrap_err();
        assert!(failure.hint.contains("chmod go-w"), "{}", failure.hint);
        std::fs::remove_file(lock_path(dir.path())).unwrap();
        std::os::unix::fs::symlink("elsewhere", lock_path(dir.path())).unwrap();
        assert_eq!(Pins::read(dir.path()).unwrap_err().code, Cause::LockUnreadable.code());
    }
}
