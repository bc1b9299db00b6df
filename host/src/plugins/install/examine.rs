//! The way of a library up to its probe, taken before anything is changed: in a folder of its own, as the next start would.

use super::{InstallError, Parcel};
use crate::config::{Config, TrustPolicy};
use crate::plugins::inspect;
use crate::plugins::read::sha256_hex;
use crate::plugins::{
    Cause, Manifest, PluginReport, SignatureReport, StageFailure, Wanted, check, discover, signature_path,
};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A library that may be installed.
#[derive(Debug, Clone)]
pub struct Examined {
    /// The library.
    pub parcel: Parcel,
    /// SHA-256 of the library.
    pub sha256: String,
    /// What it says it is.
    pub manifest: Manifest,
    /// What its signature says.
    pub signature: Option<SignatureReport>,
    /// What keeps it, or something of it, from being loaded as the configuration is now, and is no fault of the file.
    pub open: Vec<StageFailure>,
    /// What the probe noted.
    pub notes: Vec<String>,
}

/// Failures that the operator's configuration mends, not another file.
const MENDED_BY_CONFIGURATION: [Cause; 2] = [Cause::BadConfig, Cause::FactoryError];

/// Takes a library through inspect, trust, stage and probe. Blocks, at most for the deadlines of the configuration.
///
/// # Errors
/// [`InstallError::Refused`] with the failure of the stage; [`InstallError::Write`] when there is no place to try it.
pub fn examine(config: &Config, parcel: Parcel) -> Result<Examined, InstallError> {
    let parcel = named(parcel)?;
    let scratch = scratch(&config.plugins.dir)?;
    let refused = |failure: StageFailure| InstallError::Refused {
        name: parcel.name.clone(),
        failure: without_scratch(failure, scratch.path()),
    };
    let (trial, file) = trial(config, &parcel, scratch.path())?;
    let report = discover(&trial.plugins).into_iter().next();
    let Some(report) = report else {
        return Err(refused(StageFailure::new(Cause::InspectFault, "the library was not found where it was put")));
    };
    if let Some(failure) = report.failure {
        return Err(refused(failure));
    }
    let (Some(manifest), Some(sha256)) = (report.manifest, report.sha256) else {
        return Err(refused(StageFailure::new(Cause::InspectFault, "the library was not inspected")));
    };
    debug_assert_eq!(sha256, sha256_hex(&parcel.bytes), "{}", file.display());
    let signature = report.vouched.and_then(|vouched| vouched.signature);
    let wanted: Vec<Wanted> = wanted(&manifest);
    let tried = check(&trial, &wanted);
    let mut open = Vec::new();
    for failure in tried.engines.into_iter().filter_map(|outcome| outcome.failure) {
        if !MENDED_BY_CONFIGURATION.iter().any(|cause| cause.code() == failure.code) {
            return Err(refused(failure));
        }
        let failure = without_scratch(failure, scratch.path());
        if !open.contains(&failure) {
            open.push(failure);
        }
    }
    let notes = tried.reports.into_iter().flat_map(|report: PluginReport| report.notes).collect();
    Ok(Examined { parcel, sha256, manifest, signature, open, notes })
}

/// A library whose name is none of a library, as a download's may be, is named after its plugin.
fn named(mut parcel: Parcel) -> Result<Parcel, InstallError> {
    if super::is_library_name(Path::new(&parcel.name)) {
        return Ok(parcel);
    }
    match inspect::inspect(&parcel.bytes) {
        Ok(manifest) => {
            let (before, behind) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
            parcel.name = format!("{before}{}{behind}", manifest.plugin_id);
            Ok(parcel)
        }
        Err(failure) => Err(InstallError::Refused { name: parcel.name, failure }),
    }
}

/// Everything that a library offers.
fn wanted(manifest: &Manifest) -> Vec<Wanted> {
    let engines = manifest.engines.iter().map(Wanted::engine);
    engines.chain(manifest.memory.iter().map(Wanted::memory)).collect()
}

/// A house in which nothing but this library lies.
fn trial(config: &Config, parcel: &Parcel, scratch: &Path) -> Result<(Config, PathBuf), InstallError> {
    let (dir, state) = (scratch.join("plugins"), scratch.join("state"));
    let mut trial = config.clone();
    trial.gateway.state_dir.clone_from(&state);
    let plugins = &mut trial.plugins;
    (plugins.enabled, plugins.links, plugins.allow, plugins.deny) = (true, Vec::new(), Vec::new(), Vec::new());
    plugins.dir.clone_from(&dir);
    plugins.entries.values_mut().for_each(|entry| entry.enabled = true);
    // To install is to pin.
    if plugins.trust_policy == TrustPolicy::Pinned {
        plugins.trust_policy = TrustPolicy::Any;
    }
    let file = dir.join(&parcel.name);
    let written = || {
        for folder in [&dir, &state] {
            std::fs::create_dir(folder)?;
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700))?;
        }
        write(&file, &parcel.bytes, 0o700)?;
        match &parcel.signature {
            Some(signature) => write(&signature_path(&file), signature, 0o600),
            None => Ok(()),
        }
    };
    written().map_err(|source| InstallError::Write { path: scratch.to_owned(), source })?;
    Ok((trial, file))
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> std::io::Result<()> {
    std::fs::write(path, bytes)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

/// A folder beside the plugins folder's files, where libraries may be mapped if they may be there; hidden, so that nobody takes
/// what lies in it for a plugin.
fn scratch(dir: &Path) -> Result<tempfile::TempDir, InstallError> {
    let place = dir.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/"));
    tempfile::Builder::new()
        .prefix(".engineroom-install-")
        .tempdir_in(place)
        .map_err(|source| InstallError::Write { path: place.to_owned(), source })
}

/// A failure told without the folder in which the library was tried.
fn without_scratch(mut failure: StageFailure, scratch: &Path) -> StageFailure {
    let plugins = format!("{}/", scratch.join("plugins").display());
    let plain = |text: &mut String| *text = text.replace(&plugins, "");
    plain(&mut failure.message);
    plain(&mut failure.hint);
    failure.causes.iter_mut().for_each(plain);
    failure
}
