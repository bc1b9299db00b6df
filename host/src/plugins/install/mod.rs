//! From somewhere into the plugins folder.
//!
//! ```text
//!  a path, an archive, an address, npm ── take ──► Parcel ── examine ──► Examined ── put ──► file, signature, pin
//!                                                   the way of a library up to its probe,     whole or not at all
//!                                                   in a folder of its own: nothing changed
//! ```
//!
//! A running gateway is told nothing: it goes on with the copies that it staged, and the next start takes what lies there.

mod archive;
mod error;
mod examine;
mod fetch;
mod npm;
mod put;
#[cfg(test)]
mod tests;

pub use error::InstallError;
pub use examine::{Examined, examine};
pub use put::{Installed, Previous, pin_in_place, put, unpin};

use super::read::{self, sha256_hex};
use super::signature;
use std::path::{Path, PathBuf};

/// Where a library is taken from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A library or an archive on this machine, absolute.
    File(PathBuf),
    /// A download.
    Url {
        /// Its address.
        url: String,
        /// SHA-256 of what must come.
        sha256: String,
    },
    /// A package of npm's registry.
    Npm(String),
}

/// A library on its way.
#[derive(Debug, Clone)]
pub struct Parcel {
    /// Name of its file.
    pub name: String,
    /// The library.
    pub bytes: Vec<u8>,
    /// The file of its signature, when one came with it.
    pub signature: Option<Vec<u8>>,
    /// SHA-256 of the archive that it came in.
    pub archive_sha256: Option<String>,
}

/// System and processor by Rust's names, as folders in archives are called.
pub fn platform() -> String {
    format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH)
}

impl Source {
    /// Understands what was typed, or noted in the lock. `sha256` belongs to a download.
    ///
    /// # Errors
    /// An address without a hash, a hash that is none, a name that npm does not know.
    pub fn parse(text: &str, sha256: Option<&str>) -> Result<Source, InstallError> {
        let sha256 = sha256.map(hash).transpose()?;
        if let Some(spec) = text.strip_prefix("npm:") {
            return match npm::is_name(spec) {
                true => Ok(Source::Npm(spec.to_owned())),
                false => Err(InstallError::NpmName { spec: spec.to_owned() }),
            };
        }
        if text.contains("://") {
            let url = fetch::address(text)?.to_string();
            return match sha256 {
                Some(sha256) => Ok(Source::Url { url, sha256 }),
                None => Err(InstallError::NoHash { url }),
            };
        }
        let path = std::path::absolute(text).unwrap_or_else(|_| text.into());
        Ok(Source::File(path))
    }

    /// As the lock notes it.
    pub fn written(&self) -> String {
        match self {
            Source::File(path) => path.display().to_string(),
            Source::Url { url, .. } => url.clone(),
            Source::Npm(spec) => format!("npm:{spec}"),
        }
    }

    /// Fetches the library. `sha256` is held against what is read, for a source that names none itself; with `sign` the
    /// signature of a download is asked for, too.
    ///
    /// # Errors
    /// When it is not there, is not what was expected, or holds no library for this machine.
    pub async fn take(&self, sha256: Option<&str>, sign: bool) -> Result<Parcel, InstallError> {
        let given = sha256.map(hash).transpose()?;
        match self {
            Source::File(path) => {
                let path = path.clone();
                let read = tokio::task::spawn_blocking(move || from_file(&path, given.as_deref()));
                read.await.unwrap_or_else(|error| Err(unreadable(Path::new(""), std::io::Error::other(error))))
            }
            Source::Url { url, sha256 } => {
                let address = fetch::address(url)?;
                let bytes = fetch::file(&address).await?;
                let name = fetch::file_name(&address);
                let mut parcel = opened(&name, bytes, Some(sha256), url)?;
                if sign && parcel.archive_sha256.is_none() {
                    let mut beside = address.clone();
                    beside.set_path(&format!("{}.minisig", address.path()));
                    parcel.signature = fetch::download(&beside, signature::MAX_BYTES, true).await?;
                }
                Ok(parcel)
            }
            Source::Npm(spec) => {
                let folder = tempfile::tempdir().map_err(|source| unreadable(Path::new("a scratch folder"), source))?;
                let bytes = npm::pack(spec, folder.path()).await?;
                opened(&format!("npm:{spec}"), bytes, given.as_deref(), &self.written())
            }
        }
    }
}

/// A file of this machine, with the signature beside it.
pub(super) fn from_file(path: &Path, sha256: Option<&str>) -> Result<Parcel, InstallError> {
    if path.is_dir() {
        return Err(InstallError::Folder { path: path.to_owned(), libraries: libraries_in(path) });
    }
    if !path.exists() {
        return Err(InstallError::NoFile { path: path.to_owned(), near: nearest_file(path) });
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut parcel = opened(&name, read_bounded(path)?, sha256, &path.display().to_string())?;
    if parcel.archive_sha256.is_none() {
        let beside = signature::signature_path(path);
        match std::fs::metadata(&beside) {
            Ok(found) if found.is_file() && found.len() <= signature::MAX_BYTES => {
                parcel.signature = Some(std::fs::read(&beside).map_err(|source| unreadable(&beside, source))?);
            }
            _ => {}
        }
    }
    Ok(parcel)
}

/// What was read: a library, or an archive with one. `from` is told when the hash is another one.
fn opened(name: &str, bytes: Vec<u8>, sha256: Option<&str>, from: &str) -> Result<Parcel, InstallError> {
    let found = sha256_hex(&bytes);
    if let Some(expected) = sha256.filter(|expected| **expected != *found) {
        let expected = expected.to_owned();
        return Err(InstallError::OtherHash { what: from.to_owned(), expected, found });
    }
    match archive::is_archive(&bytes) {
        true => Ok(Parcel { archive_sha256: Some(found), ..archive::open(name, &bytes)? }),
        false => Ok(Parcel { name: name.to_owned(), bytes, signature: None, archive_sha256: None }),
    }
}

/// A whole file, which is no larger than any engine should be. Links are followed: the operator named it.
pub(super) fn read_bounded(path: &Path) -> Result<Vec<u8>, InstallError> {
    let real = path.canonicalize().map_err(|source| unreadable(path, source))?;
    let name = path.display().to_string();
    read::read(&real).map(|library| library.bytes).map_err(|failure| InstallError::Refused { name, failure })
}

pub(super) fn unreadable(path: &Path, source: std::io::Error) -> InstallError {
    InstallError::Unreadable { path: path.to_owned(), source }
}

fn hash(text: &str) -> Result<String, InstallError> {
    let hex = text.trim().strip_prefix("sha256:").unwrap_or(text.trim()).to_ascii_lowercase();
    match hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        true => Ok(hex),
        false => Err(InstallError::BadHash { given: text.to_owned() }),
    }
}

/// True for a file name that a library can have.
pub(super) fn is_library_name(path: &Path) -> bool {
    super::discover::is_library_name(path)
}

/// Names of the libraries that lie right in a folder, a few of them.
fn libraries_in(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut names: Vec<String> =
        files.filter(|path| is_library_name(path)).map(|path| path.display().to_string()).collect();
    names.sort();
    names.truncate(5);
    names
}

/// The file beside it that was probably meant.
fn nearest_file(path: &Path) -> Option<String> {
    let folder = path.parent()?;
    let wanted = path.file_name()?.to_str()?;
    let files = std::fs::read_dir(folder).ok()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let files: Vec<String> = files.collect();
    let known: Vec<&str> = files.iter().map(String::as_str).collect();
    super::select::nearest(wanted, &known).map(|near| folder.join(near).display().to_string())
}
