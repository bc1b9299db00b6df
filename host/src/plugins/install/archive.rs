//! Archives (`.tar.gz`): the one library in there that is for this machine. Nothing is written to the disk, so no name in an
//! archive can lead anywhere.

use super::error::InstallError;
use super::{Parcel, is_library_name, platform};
use crate::plugins::inspect;
use crate::plugins::read::MAX_BYTES;
use crate::plugins::signature;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Component, Path};

/// Most bytes that an archive may unpack to, whatever is in it.
const MAX_UNPACKED: u64 = 2 * MAX_BYTES;
/// Most files in an archive.
const MAX_FILES: usize = 20_000;

/// True for what begins like a gzip file.
pub(super) fn is_archive(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
}

/// Finds the library for this machine.
pub(super) fn library(name: &str, bytes: &[u8], most: u64) -> Result<Parcel, InstallError> {
    let wrong = |why: String| InstallError::Archive { name: name.to_owned(), why };
    let unreadable = |error: std::io::Error| wrong(error.to_string());
    // Bounded below the reader of the archive, so that a bomb bursts at the bound and not in memory.
    let mut unpacked = flate2::read::MultiGzDecoder::new(bytes).take(most + 1);
    let (mut fitting, mut others, mut signatures) = (Vec::new(), Vec::new(), BTreeMap::new());
    let mut files = 0;
    {
        let mut archive = tar::Archive::new(&mut unpacked);
        for entry in archive.entries().map_err(unreadable)? {
            let mut entry = entry.map_err(unreadable)?;
            files += 1;
            if files > MAX_FILES {
                return Err(wrong(format!("it holds more than {MAX_FILES} files")));
            }
            let path = entry.path().map_err(unreadable)?.into_owned();
            if path.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
                return Err(wrong(format!("the name {:?} in it leads out of it", path.display().to_string())));
            }
            let is_signature = path.extension().is_some_and(|ext| ext == "minisig");
            if !is_library_name(&path) && !is_signature {
                continue;
            }
            let shown = path.display().to_string();
            if !entry.header().entry_type().is_file() {
                others.push(format!("{shown}: not a regular file"));
                continue;
            }
            let limit = if is_signature { signature::MAX_BYTES } else { MAX_BYTES };
            if entry.size() > limit {
                others.push(format!("{shown}: larger than any engine should be"));
                continue;
            }
            let mut content = Vec::new();
            (&mut entry).take(limit + 1).read_to_end(&mut content).map_err(unreadable)?;
            if is_signature {
                signatures.insert(path, content);
                continue;
            }
            match inspect::inspect(&content) {
                Ok(manifest) => fitting.push((path, content, manifest.plugin_id)),
                Err(failure) => others.push(format!("{shown}: {failure}")),
            }
        }
    }
    // The end of the archive may come before that of the file; a bomb behind it is one all the same.
    std::io::copy(&mut unpacked, &mut std::io::sink()).map_err(unreadable)?;
    if unpacked.limit() == 0 {
        return Err(wrong(format!("it unpacks to more than {} MiB", most / 1024 / 1024)));
    }
    // Where builds for several systems lie side by side, the folder says which is meant.
    let in_folder = |path: &Path| path.components().any(|part| part.as_os_str() == platform().as_str());
    if fitting.len() > 1 && fitting.iter().filter(|(path, ..)| in_folder(path)).count() == 1 {
        fitting.retain(|(path, ..)| in_folder(path));
    }
    if fitting.len() > 1 {
        let found = fitting.iter().map(|(path, _, plugin)| format!("{} (plugin {plugin})", path.display())).collect();
        return Err(InstallError::Several { name: name.to_owned(), found });
    }
    let Some((path, bytes, _)) = fitting.pop() else {
        if others.is_empty() {
            others.push("no file in it has the name of a library".into());
        }
        return Err(InstallError::NoLibrary { name: name.to_owned(), platform: platform(), found: others });
    };
    Ok(Parcel {
        name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        bytes,
        signature: signatures.remove(&signature::signature_path(&path)),
        archive_sha256: None,
    })
}

/// The same with the usual bound.
pub(super) fn open(name: &str, bytes: &[u8]) -> Result<Parcel, InstallError> {
    library(name, bytes, MAX_UNPACKED)
}
