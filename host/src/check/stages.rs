//! Level 1: the way of a library up to its probe, each stage told as a check.

use super::catalogue::Check;
use super::report::{Outcome, Status};
use super::{CheckError, Request};
use crate::config::{Config, EntryConfig};
use crate::plugins::{self, Cause, EngineOutcome, LoadRequest, PluginReport, StageFailure, Wanted};
use crate::slot::Hook;
use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

/// What came of the stages.
pub(super) struct Stages {
    pub plugin: Option<String>,
    pub sha256: Option<String>,
    pub wanted: Vec<Wanted>,
    pub outcomes: Vec<Outcome>,
    /// What passed, and how it is loaded.
    pub ready: Vec<(Wanted, LoadRequest)>,
    pub deadlines: BTreeMap<String, u64>,
}

/// Checks about the file, in the order of the stages that find them.
const OF_FILE: [Check; 7] =
    [Check::File, Check::PanicMode, Check::Trust, Check::ConfigDefaults, Check::Probe, Check::Load, Check::Layout];
/// Checks about one engine, the same way.
const OF_ENGINE: [Check; 4] = [Check::Register, Check::Factory, Check::Info, Check::SelfTest];

/// Takes the file through the stages in a scratch folder. Its own place counts for trust, so it is linked and not copied.
pub(super) fn pass(request: &Request, file: &Path, scratch: &Path) -> Result<Stages, CheckError> {
    std::fs::DirBuilder::new().mode(0o700).create(scratch.join("plugins")).map_err(CheckError::Scratch)?;
    let mut config = Config::defaults(scratch.join("plugins.toml"));
    config.plugins.dir = scratch.join("plugins");
    config.plugins.links = vec![file.to_owned()];
    let found = plugins::discover(&config.plugins).into_iter().find(|report| report.file == file);
    let found = found.unwrap_or_else(|| PluginReport::new(file.to_owned()));
    let mut stages = Stages {
        plugin: found.plugin_id.clone(),
        sha256: found.sha256.clone(),
        wanted: Vec::new(),
        outcomes: Vec::new(),
        ready: Vec::new(),
        deadlines: deadlines(),
    };
    let manifest = match (&found.failure, &found.manifest) {
        (Some(failure), _) => {
            stages.refused(failure, None);
            return Ok(stages);
        }
        (None, None) => {
            let failure = StageFailure::new(Cause::NotALibrary, "the file does not look like a library");
            stages.refused(&failure, None);
            return Ok(stages);
        }
        (None, Some(manifest)) => manifest,
    };
    stages.wanted = wanted(request, manifest)?;
    let unknown = match plugins::takes_unknown_keys(manifest) {
        true => Status::found(Check::ConfigUnknown, "the schema of the manifest accepts any key"),
        false => Status::Pass,
    };
    let entry = EntryConfig { config: request.config.clone(), ..EntryConfig::default() };
    config.plugins.entries.insert(manifest.plugin_id.clone(), entry);
    let (result, ready) = plugins::tried(&config, &stages.wanted);
    // A failure of the whole library is told once.
    let whole = result.engines.iter().filter_map(|outcome| outcome.failure.as_ref());
    let whole = whole.filter(|failure| OF_FILE.contains(&check_of(failure))).min_by_key(|failure| check_of(failure));
    stages.refused_or_passed(whole, &result.engines);
    stages.outcomes.push(Outcome::new(Check::ConfigUnknown, unknown));
    stages.ready = ready;
    Ok(stages)
}

/// Every hook is given so long: what never returns is found, and a machine that is busy is not.
fn deadlines() -> BTreeMap<String, u64> {
    let hooks = Hook::ALL.into_iter().filter(|hook| !matches!(hook, Hook::Factory | Hook::Dispose));
    hooks.map(|hook| (hook.key().to_owned(), 30_000)).collect()
}

fn wanted(request: &Request, manifest: &plugins::Manifest) -> Result<Vec<Wanted>, CheckError> {
    let all = manifest.engines.iter().map(Wanted::engine).chain(manifest.memory.iter().map(Wanted::memory));
    let all: Vec<Wanted> = all.collect();
    if let Some(name) = request.engines.iter().find(|name| all.iter().all(|one| one.id != **name)) {
        let known = all.into_iter().map(|one| one.id).collect();
        return Err(CheckError::Unknown { name: name.clone(), known });
    }
    let asked = |one: &Wanted| request.engines.is_empty() || request.engines.contains(&one.id);
    Ok(all.into_iter().filter(asked).collect())
}

/// The check that a stage's failure belongs to.
fn check_of(failure: &StageFailure) -> Check {
    use plugins::Stage;
    match (failure.stage, failure.code) {
        (_, code) if code == Cause::PanicAbort.code() => Check::PanicMode,
        (_, code) if code == Cause::BadConfig.code() => Check::ConfigDefaults,
        (_, code) if code == Cause::SelfTest.code() || code == Cause::SelfTestDeadline.code() => Check::SelfTest,
        (Stage::Discover | Stage::Inspect | Stage::Stage, _) => Check::File,
        (Stage::Trust, _) => Check::Trust,
        (Stage::Probe, _) => Check::Probe,
        (Stage::Worker, _) => Check::Worker,
        (Stage::Load, _) => Check::Load,
        (Stage::Layout, _) => Check::Layout,
        (Stage::Register, _) => Check::Register,
        (Stage::Factory, _) => Check::Factory,
        (Stage::Contract, _) => Check::Info,
    }
}

impl Stages {
    /// The whole library is refused.
    fn refused(&mut self, failure: &StageFailure, checks: Option<&[Check]>) {
        let failed = check_of(failure);
        for check in checks.unwrap_or(&OF_FILE) {
            self.outcomes.push(match check.cmp(&failed) {
                std::cmp::Ordering::Less => Outcome::new(*check, Status::Pass),
                std::cmp::Ordering::Equal => Outcome::refused(*check, failure),
                std::cmp::Ordering::Greater => Outcome::new(*check, Status::Unreached { because: failed }),
            });
        }
    }

    fn refused_or_passed(&mut self, whole: Option<&StageFailure>, engines: &[EngineOutcome]) {
        match whole {
            Some(failure) => self.refused(failure, None),
            None => self.outcomes.extend(OF_FILE.map(|check| Outcome::new(check, Status::Pass))),
        }
        for outcome in engines {
            let failure = whole.or(outcome.failure.as_ref());
            let failed = failure.map(check_of);
            for check in OF_ENGINE {
                let one = match failed.map(|failed| (failed, check.cmp(&failed))) {
                    Some((failed, std::cmp::Ordering::Greater)) => {
                        Outcome::new(check, Status::Unreached { because: failed })
                    }
                    Some((_, std::cmp::Ordering::Equal)) => {
                        failure.map_or_else(|| Outcome::new(check, Status::Pass), |why| Outcome::refused(check, why))
                    }
                    _ => Outcome::new(check, Status::Pass),
                };
                // A provider and an engine may share an id, and what is said of them goes together then.
                self.outcomes.push(one.of(&outcome.engine_id));
            }
        }
    }
}
