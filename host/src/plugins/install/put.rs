//! The last step: the file under its name, its signature beside it, its pin in the lock.

use super::examine::Examined;
use super::{InstallError, Source};
use crate::config::{Config, PluginsConfig};
use crate::plugins::trust::Identity;
use crate::plugins::{
    Cause, Pin, Pins, PluginReport, StageFailure, Wanted, discover, pin_name, read::Facts, signature_path, trust::shell,
};
use serde::Serialize;
use std::fs::{File, TryLockError};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long another command is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// What was installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Installed {
    /// The file.
    pub file: PathBuf,
    /// Plugin id.
    pub plugin: String,
    /// Engines that it offers.
    pub engines: Vec<String>,
    /// Memory providers that it offers.
    pub memory: Vec<String>,
    /// The plugin's own version.
    pub version: Option<String>,
    /// SHA-256 of the library.
    pub sha256: String,
    /// Where it was taken from; `None` when it was pinned where it lay.
    pub source: Option<String>,
    /// What lay there before.
    pub previous: Option<Previous>,
    /// False when everything was as it should be already.
    pub changed: bool,
    /// True when it was only looked at.
    pub dry_run: bool,
}

/// What lay in the place of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Previous {
    /// Its hash.
    pub sha256: String,
    /// Its plugin's version.
    pub version: Option<String>,
}

/// Puts a library into the plugins folder and pins it. Blocks.
///
/// # Errors
/// When something else has its name or its ids, or the folder cannot be written; nothing was changed then.
pub fn put(config: &Config, examined: &Examined, source: &Source, dry_run: bool) -> Result<Installed, InstallError> {
    let dir = &config.plugins.dir;
    let write = |path: &Path, source| InstallError::Write { path: path.to_owned(), source };
    let _guard = match (dry_run, dir.is_dir()) {
        (true, _) => None,
        (false, true) => Some(guard(dir)?),
        (false, false) => {
            std::fs::DirBuilder::new().recursive(true).mode(0o755).create(dir).map_err(|source| write(dir, source))?;
            Some(guard(dir)?)
        }
    };
    own_folder(dir, &examined.parcel.name)?;
    let mut pins = pins(dir, &examined.parcel.name)?;
    let reports = discover(&config.plugins);
    let file = place(&config.plugins, examined, &reports)?;
    let was = reports.iter().find(|report| report.file == file);
    let previous = was.and_then(|report| {
        let version = report.manifest.as_ref().and_then(|manifest| manifest.version.clone());
        Some(Previous { sha256: report.sha256.clone()?, version })
    });
    let name = pin_name(dir, &file).ok_or_else(|| write(&file, std::io::ErrorKind::InvalidFilename.into()))?;
    let pin = pin_of(examined, Some(source.written()));
    let same_file = previous.as_ref().is_some_and(|previous| previous.sha256 == examined.sha256);
    let same_signature = std::fs::read(signature_path(&file)).ok() == examined.parcel.signature;
    let same_pin =
        pins.files.get(&name).is_some_and(|old| Pin { installed: pin.installed.clone(), ..old.clone() } == pin);
    let changed = !(same_file && same_signature && same_pin && was.is_some_and(|report| report.failure.is_none()));
    if changed && !dry_run {
        // The signature first: a library without it is refused where one is asked for, and a signature without its library
        // means nothing.
        let beside = signature_path(&file);
        match &examined.parcel.signature {
            Some(signature) => replace(&beside, signature, 0o644).map_err(|source| write(&beside, source))?,
            None => match std::fs::remove_file(&beside) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(write(&beside, error)),
                _ => {}
            },
        }
        replace(&file, &examined.parcel.bytes, 0o755).map_err(|source| write(&file, source))?;
        pins.files.retain(|other, old| *other == name || old.plugin != pin.plugin);
        pins.files.insert(name, pin.clone());
        pins.write(dir).map_err(|source| write(&crate::plugins::lock_path(dir), source))?;
    }
    Ok(installed(examined, file, pin.source, previous, changed, dry_run))
}

/// Pins a file that lies in the plugins folder already.
///
/// # Errors
/// As [`put`].
pub fn pin_in_place(
    config: &Config,
    examined: &Examined,
    file: &Path,
    dry_run: bool,
) -> Result<Installed, InstallError> {
    let dir = &config.plugins.dir;
    let write = |path: &Path, source| InstallError::Write { path: path.to_owned(), source };
    let _guard = if dry_run { None } else { Some(guard(dir)?) };
    own_folder(dir, &examined.parcel.name)?;
    let mut pins = pins(dir, &examined.parcel.name)?;
    let name = pin_name(dir, file).ok_or_else(|| write(file, std::io::ErrorKind::InvalidFilename.into()))?;
    let old = pins.files.get(&name).cloned();
    let changed =
        old.as_ref().is_none_or(|old| old.sha256 != examined.sha256 || old.plugin != examined.manifest.plugin_id);
    let previous = old.map(|old| Previous { sha256: old.sha256, version: old.version });
    let pin = pin_of(examined, None);
    if changed && !dry_run {
        pins.files.insert(name, pin);
        pins.write(dir).map_err(|source| write(&crate::plugins::lock_path(dir), source))?;
    }
    Ok(installed(examined, file.to_owned(), None, previous, changed, dry_run))
}

/// Takes the pins of files that are gone out of the lock.
///
/// # Errors
/// When the lock cannot be read or written.
pub fn unpin(dir: &Path, files: &[PathBuf]) -> Result<(), InstallError> {
    let names: Vec<String> = files.iter().filter_map(|file| pin_name(dir, file)).collect();
    let lock = crate::plugins::lock_path(dir);
    if !lock.exists() {
        return Ok(());
    }
    let _guard = guard(dir)?;
    let mut pins = pins(dir, crate::plugins::LOCK_FILE)?;
    let before = pins.files.len();
    pins.files.retain(|name, _| !names.contains(name));
    if pins.files.len() == before {
        return Ok(());
    }
    pins.write(dir).map_err(|source| InstallError::Write { path: lock, source })
}

fn installed(
    examined: &Examined,
    file: PathBuf,
    source: Option<String>,
    previous: Option<Previous>,
    changed: bool,
    dry_run: bool,
) -> Installed {
    let manifest = &examined.manifest;
    Installed {
        file,
        plugin: manifest.plugin_id.clone(),
        engines: manifest.engines.clone(),
        memory: manifest.memory.clone(),
        version: manifest.version.clone(),
        sha256: examined.sha256.clone(),
        source,
        previous,
        changed,
        dry_run,
    }
}

fn pin_of(examined: &Examined, source: Option<String>) -> Pin {
    Pin {
        plugin: examined.manifest.plugin_id.clone(),
        sha256: examined.sha256.clone(),
        version: examined.manifest.version.clone(),
        source,
        archive_sha256: examined.parcel.archive_sha256.clone(),
        installed: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
    }
}

/// Where it goes: in the place of the same plugin's file, else under its own name.
fn place(config: &PluginsConfig, examined: &Examined, reports: &[PluginReport]) -> Result<PathBuf, InstallError> {
    let manifest = &examined.manifest;
    let id = &manifest.plugin_id;
    let taken = |what: String, hint: String| Err(InstallError::Taken { what, hint });
    let (own, others): (Vec<&PluginReport>, Vec<&PluginReport>) =
        reports.iter().partition(|report| report.plugin_id.as_ref() == Some(id));
    if let Some(linked) = own.iter().find(|report| !report.file.starts_with(&config.dir)) {
        let what = format!("the plugin {id} is linked from {}", linked.file.display());
        return taken(what, format!("`engineroom plugins uninstall {id}` ends that; then install the copy"));
    }
    let engines = manifest.engines.iter().map(Wanted::engine);
    for wanted in engines.chain(manifest.memory.iter().map(Wanted::memory)) {
        if let Some(other) = others.iter().find(|report| report.offers(&wanted)) {
            let plugin = other.plugin_id.as_deref().unwrap_or_default();
            let what = format!("the plugin {plugin} ({}) offers the {wanted} already", other.file.display());
            return taken(
                what,
                format!("`engineroom plugins uninstall {plugin}` first, if this one is to take its place"),
            );
        }
    }
    let file = match own.as_slice() {
        [] => config.dir.join(&examined.parcel.name),
        [one] => return Ok(one.file.clone()),
        many => {
            let files: Vec<String> = many.iter().map(|report| report.file.display().to_string()).collect();
            return taken(format!("{} hold the plugin {id}", files.join(" and ")), "remove all of them but one".into());
        }
    };
    // A file that is no plugin may be anything: nobody's to overwrite. One that was installed under this name, and was spoiled
    // since, is mended.
    let pinned = Pins::read(&config.dir).is_ok_and(|pins| {
        pin_name(&config.dir, &file).is_some_and(|name| pins.files.get(&name).is_some_and(|pin| pin.plugin == *id))
    });
    if !pinned && std::fs::symlink_metadata(&file).is_ok() {
        let known = others.iter().find(|report| report.file == file);
        let what = match known.and_then(|report| report.plugin_id.as_deref()) {
            Some(plugin) => format!("{} is the file of the plugin {plugin}", file.display()),
            None => format!("{} is there already, and is not the plugin {id}", file.display()),
        };
        return taken(what, format!("move it away (mv {} …), or install the library under another name", shell(&file)));
    }
    Ok(file)
}

/// The plugins folder is the gateway's own; else what is put there would be refused.
fn own_folder(dir: &Path, name: &str) -> Result<(), InstallError> {
    let Ok(metadata) = std::fs::metadata(dir) else { return Ok(()) };
    let own = Identity::of_process().check_own(dir, &Facts::of(&metadata));
    own.map_err(|(message, hint)| InstallError::Refused {
        name: name.to_owned(),
        failure: StageFailure::new(Cause::LooseFolder, format!("the folder {message}")).hint(hint),
    })
}

fn pins(dir: &Path, name: &str) -> Result<Pins, InstallError> {
    Pins::read(dir).map_err(|failure| InstallError::Refused { name: name.to_owned(), failure })
}

/// Keeps other commands out of the folder until it is dropped.
fn guard(dir: &Path) -> Result<File, InstallError> {
    let write = |source| InstallError::Write { path: dir.to_owned(), source };
    let folder = File::open(dir).map_err(write)?;
    let start = Instant::now();
    loop {
        match folder.try_lock() {
            Ok(()) => return Ok(folder),
            Err(TryLockError::WouldBlock) if start.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(50));
            }
            Err(TryLockError::WouldBlock) => {
                return Err(InstallError::Busy { dir: dir.to_owned(), waited: start.elapsed() });
            }
            Err(TryLockError::Error(error)) => return Err(write(error)),
        }
    }
}

/// A file under its name, whole or not at all.
fn replace(path: &Path, bytes: &[u8], mode: u32) -> std::io::Result<()> {
    let folder = path.parent().ok_or(std::io::ErrorKind::InvalidInput)?;
    let mut temp = tempfile::Builder::new().prefix(".new-").tempfile_in(folder)?;
    temp.write_all(bytes)?;
    temp.as_file().set_permissions(std::fs::Permissions::from_mode(mode))?;
    temp.as_file().sync_all()?;
    temp.persist(path).map_err(|failed| failed.error)?;
    File::open(folder)?.sync_all()
}
