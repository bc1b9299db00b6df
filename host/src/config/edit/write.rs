//! From a change of the text to a changed file: whole, or not at all.

use super::text::Text;
use super::{EditError, Edited};
use crate::config::{ConfigError, Overrides, Problem, load_from};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

/// Changes the text of the file and writes it, unless it is only to be shown.
pub(super) fn edit(
    path: &Path,
    dry_run: bool,
    change: impl FnOnce(&mut Text) -> Result<(), String>,
) -> Result<Edited, EditError> {
    let before = match std::fs::read_to_string(path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(source) => return Err(EditError::Config(ConfigError::Unreadable { path: path.into(), source })),
    };
    let created = before.is_none();
    let before = before.unwrap_or_default();
    if !created {
        judge(path)?;
    }
    let shape = |key: String| EditError::Shape { path: path.into(), key };
    let mut text = Text::new(before.clone());
    let managed = text.boolean(&["plugins", "managed"]);
    change(&mut text).map_err(shape)?;
    let after = text.into_string();
    let mut edited = Edited { path: path.into(), change: String::new(), changed: false, created: false, dry_run };
    if after == before {
        return Ok(edited);
    }
    // What cannot be read any more is never written, whatever led to it.
    if toml_edit::Document::parse(after.as_str()).is_err() {
        return Err(shape("the key".into()));
    }
    edited.change = difference(&before, &after);
    edited.changed = true;
    edited.created = created;
    if managed == Some(true) {
        return Err(EditError::Managed { path: path.into(), change: edited.change });
    }
    if dry_run {
        return Ok(edited);
    }
    match replace(path, after.as_bytes()) {
        Ok(()) => Ok(edited),
        Err(source) => Err(EditError::NotWritable { path: path.into(), change: edited.change, source }),
    }
}

/// Refuses to build on a file that is wrong. The file alone is judged, without variables and flags; so a door that is open only
/// for want of them is none of our business here: `gateway` refuses it.
fn judge(path: &Path) -> Result<(), EditError> {
    let folder = std::env::current_dir().unwrap_or_default();
    match load_from(Some(path), &Overrides::default(), &|_| None, &folder) {
        Ok(_) => Ok(()),
        Err(ConfigError::Invalid { problems, .. })
            if problems.iter().all(|problem| problem.code == Problem::OPEN_DOOR) =>
        {
            Ok(())
        }
        Err(error) => Err(EditError::Config(error)),
    }
}

/// The lines that went and came, in their order.
fn difference(before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let mut shown = String::new();
    for hunk in similar::capture_diff_slices(similar::Algorithm::Myers, &old, &new) {
        if hunk.tag() == similar::DiffTag::Equal {
            continue;
        }
        let gone = old.iter().take(hunk.old_range().end).skip(hunk.old_range().start);
        let come = new.iter().take(hunk.new_range().end).skip(hunk.new_range().start);
        gone.for_each(|line| shown.push_str(&format!("-{line}\n")));
        come.for_each(|line| shown.push_str(&format!("+{line}\n")));
    }
    shown
}

/// Replaces a file whole or not at all; its mode and owner stay, and a link keeps pointing where it points.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::{Error, ErrorKind};
    let target = match std::fs::canonicalize(path) {
        Ok(target) => target,
        Err(error) if error.kind() == ErrorKind::NotFound => std::path::absolute(path)?,
        Err(error) => return Err(error),
    };
    let folder = target.parent().ok_or_else(|| Error::from(ErrorKind::InvalidInput))?;
    let old = match std::fs::metadata(&target) {
        Ok(meta) => Some(meta),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    if let Some(old) = &old {
        // A rename needs no right on the file itself, so the file's own mode is asked first.
        if old.permissions().readonly() {
            return Err(Error::new(ErrorKind::PermissionDenied, "the file is read-only"));
        }
        rustix::fs::access(&target, rustix::fs::Access::WRITE_OK)?;
    }
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let mut temp = tempfile::Builder::new().prefix(&format!(".{name}.")).tempfile_in(folder)?;
    temp.write_all(bytes)?;
    match &old {
        Some(old) => {
            let new = temp.as_file().metadata()?;
            if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
                std::os::unix::fs::fchown(temp.as_file(), Some(old.uid()), Some(old.gid()))?;
            }
            temp.as_file().set_permissions(std::fs::Permissions::from_mode(old.mode() & 0o7777))?;
        }
        None => temp.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?,
    }
    temp.as_file().sync_all()?;
    temp.persist(&target).map_err(|failed| failed.error)?;
    std::fs::File::open(folder)?.sync_all()
}
