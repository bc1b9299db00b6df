//! The whole way: survey (discover, inspect, trust), select, and for each wanted library stage, probe, load, layout, register.

use super::cause::{Cause, Stage};
use super::entries::entry_remarks;
use super::load::{Kind, LoadRequest, MemoryRegistration, RegistrarPort, Registration, Wanted, bring_in};
use super::report::{PluginReport, PluginState, StageFailure};
use super::select::{EngineOutcome, Offer, OutcomeState, select};
use super::survey::{Item, survey};
use super::{Manifest, RESERVED_ENGINE, schema, stage};
use crate::config::Config;
use crate::ledger::Verdicts;
use crate::observe::broken;
use crate::worker::{self, ProbeOutcome, ProbeRequest};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Folder of the probes in the state folder; it is emptied at each start.
const SCRATCH: &str = "probe";
/// Default of `plugins.deadlines.probe_ms`.
const PROBE_MS: u64 = 10_000;
/// Default of `plugins.deadlines.register_ms`, which also bounds the opening of a library and its entry.
const REGISTER_MS: u64 = 5_000;

/// What came of a start.
#[derive(Debug, Default)]
pub struct LoadResult {
    /// Every file that was found, and folders that could not be read.
    pub reports: Vec<PluginReport>,
    /// Engines of the loaded libraries; among them may be some that no slot lists.
    pub registrations: Vec<Registration>,
    /// Memory providers of the loaded libraries that a slot lists.
    pub memory: Vec<MemoryRegistration>,
    /// What passed its probe and runs in a worker: nothing of it was loaded here, and starting the worker is left to the slot.
    pub apart: Vec<Apart>,
    /// One per wanted engine and memory provider, in the order of the slots; `legacy` left out.
    pub engines: Vec<EngineOutcome>,
    /// Threads that still run code of a library. Unless 0, the process must end without running exit handlers.
    pub abandoned: usize,
}

/// A wanted engine or memory provider that runs in a worker.
#[derive(Debug, Clone)]
pub struct Apart {
    /// Which one.
    pub wanted: Wanted,
    /// The plugin that offers it.
    pub plugin_id: String,
    /// How its worker loads it; `wanted` there is this one alone.
    pub(crate) load: LoadRequest,
}

/// Takes every library that offers something of `wanted` all the way to its registration. Blocks, at most for the
/// deadlines of the configuration. Never fails: what fails is in the result.
///
/// To be called once per process, which owns the state folder: copies and scratch folders of earlier ones are removed.
/// What `verdicts` hold against an engine keeps it out of this process.
pub fn load(config: &Config, wanted: &[Wanted], verdicts: &Verdicts, registrar: &Arc<dyn RegistrarPort>) -> LoadResult {
    let _ = std::fs::remove_dir_all(config.gateway.state_dir.join(SCRATCH));
    let mut rehearsal = rehearse(config, wanted, verdicts);
    let mut result = LoadResult::default();
    for ready in &mut rehearsal.ready {
        bring_in_one(ready, &mut rehearsal.items[ready.at].report, registrar, &mut result);
    }
    rehearsal.finish(&mut result);
    for remark in entry_remarks(config, &result.reports) {
        tracing::warn!(entry = remark.entry, hint = remark.hint, "{}", remark.message);
    }
    let staged = result.reports.iter().filter(|report| report.staged.is_some());
    stage::sweep(&config.gateway.state_dir, &staged.filter_map(|report| report.sha256.clone()).collect());
    result
}

/// Does the same up to the probe, and loads nothing: an engine that passes is told as registered. May be done beside a
/// running gateway.
pub fn check(config: &Config, wanted: &[Wanted]) -> LoadResult {
    tried(config, wanted).0
}

/// The same, with how what passed is loaded: each wanted one by itself.
pub(crate) fn tried(config: &Config, wanted: &[Wanted]) -> (LoadResult, Vec<(Wanted, LoadRequest)>) {
    let mut rehearsal = rehearse(config, wanted, &Verdicts::default());
    for ready in &rehearsal.ready {
        close(ready, &mut rehearsal.items[ready.at].report, || PluginState::Declared { reason: "only checked".into() });
    }
    let mut passed = Vec::new();
    for ready in &rehearsal.ready {
        let rest = ready.rest();
        let alone = |one: &Wanted| (one.clone(), LoadRequest { wanted: vec![one.clone()], ..rest.clone() });
        passed.extend(rest.wanted.iter().map(alone));
    }
    let mut result = LoadResult::default();
    rehearsal.finish(&mut result);
    (result, passed)
}

/// Does the schema of a plugin let a key through that nobody can know?
pub(crate) fn takes_unknown_keys(manifest: &Manifest) -> bool {
    let unknown = serde_json::Map::from_iter([("engineroom-check-unknown-key".to_owned(), true.into())]);
    schema::check_config(manifest, &unknown).is_ok()
}

/// All that is done before code runs in this process.
struct Rehearsal {
    items: Vec<Item>,
    offers: Vec<(Wanted, Offer)>,
    ready: Vec<Ready>,
}

fn rehearse(config: &Config, wanted: &[Wanted], verdicts: &Verdicts) -> Rehearsal {
    let mut seen = BTreeSet::new();
    let is_core = |wanted: &Wanted| wanted.kind == Kind::Engine && wanted.id == RESERVED_ENGINE;
    let mut wanted: Vec<Wanted> = wanted.iter().filter(|one| !is_core(one) && seen.insert(*one)).cloned().collect();
    if broken("8.10") || broken("9.11") {
        let found = survey(&config.plugins, &wanted);
        wanted.extend(found.iter().flat_map(|item| item.report.engines()).map(Wanted::engine));
    }
    let mut items = survey(&config.plugins, &wanted);
    for report in items.iter_mut().map(|item| &mut item.report) {
        let why = report.plugin_id.as_deref().and_then(|plugin| verdicts.to_worker(plugin));
        if let Some(why) = why {
            report.placement = report.placement.take().map(|placement| placement.suspected(why));
        }
    }
    let offers = select(&mut items, &wanted);
    let mut ready: Vec<Ready> = Vec::new();
    for (at, item) in items.iter_mut().enumerate() {
        let served = offers.iter().filter(|(_, offer)| matches!(offer, Offer::By(by) if *by == at));
        let served: Vec<Wanted> = served.map(|(wanted, _)| wanted.clone()).collect();
        // A library that claims an id together with another one is refused as a whole.
        if !served.is_empty() && item.report.failure.is_none() {
            match prepare(config, item, served) {
                Ok(load) => {
                    // In a worker it can do the gateway no harm.
                    let failed = if item.report.is_apart() { BTreeMap::new() } else { crashed(&load, verdicts) };
                    ready.push(Ready { at, load, failed });
                }
                Err(failure) => item.report.refuse(failure),
            }
        }
        item.library = None;
    }
    probe_all(config, &mut items, &mut ready);
    Rehearsal { items, offers, ready }
}

impl Rehearsal {
    fn finish(self, result: &mut LoadResult) {
        let Rehearsal { items, offers, ready } = self;
        result.engines = offers.into_iter().map(|(wanted, offer)| outcome(&items, &ready, &wanted, offer)).collect();
        result.reports = items.into_iter().map(|item| item.report).collect();
    }
}

/// A library that is staged.
struct Ready {
    /// Number of its item.
    at: usize,
    load: LoadRequest,
    /// What was wanted and failed, each with its first failure.
    failed: BTreeMap<Wanted, StageFailure>,
}

impl Ready {
    fn fail(&mut self, failures: Vec<(Wanted, StageFailure)>) {
        for (wanted, failure) in failures {
            self.failed.entry(wanted).or_insert(failure);
        }
    }

    /// The same for what has not failed.
    fn rest(&self) -> LoadRequest {
        let good = |wanted: &&Wanted| !self.failed.contains_key(*wanted);
        LoadRequest { wanted: self.load.wanted.iter().filter(good).cloned().collect(), ..self.load.clone() }
    }

    fn all_failed(&self) -> bool {
        self.load.wanted.iter().all(|wanted| self.failed.contains_key(wanted))
    }
}

/// What must not run in this process, since it ended an earlier one.
fn crashed(load: &LoadRequest, verdicts: &Verdicts) -> BTreeMap<Wanted, StageFailure> {
    let failure = |wanted: &Wanted| {
        let crash = verdicts.crashed(wanted.sort(), &wanted.id, &load.plugin_id)?;
        Some((wanted.clone(), StageFailure::new(Cause::Crashed, crash.said()).hint(crash.hint())))
    };
    load.wanted.iter().filter_map(failure).collect()
}

fn deadline(config: &Config, key: &str, default: u64) -> u64 {
    config.plugins.deadlines.get(key).copied().unwrap_or(default)
}

/// Nothing is said about the plugin's configuration, neither by its author nor by the operator.
fn bare(config: &Config, manifest: &Manifest) -> bool {
    manifest.config_schema == serde_json::json!({}) && !config.plugins.entries.contains_key(&manifest.plugin_id)
}

/// Configuration, stage.
fn prepare(config: &Config, item: &mut Item, wanted: Vec<Wanted>) -> Result<LoadRequest, StageFailure> {
    let report = &mut item.report;
    let (Some(library), Some(manifest)) = (item.library.take(), report.manifest.clone()) else {
        return Err(StageFailure::new(Cause::InspectFault, "the library was not inspected"));
    };
    let default = crate::config::EntryConfig::default();
    let entry = config.plugins.entries.get(&manifest.plugin_id).unwrap_or(&default);
    report.timed(Stage::Inspect, |_| schema::check_config(&manifest, &entry.config))?;
    let staged = report.timed(Stage::Stage, |_| {
        stage::stage(&config.gateway.state_dir, &manifest.plugin_id, &library.sha256, &library.bytes)
    })?;
    report.staged = Some(staged.clone());
    Ok(LoadRequest {
        staged,
        door: manifest.door,
        config_json: if broken("8.2") && bare(config, &manifest) {
            "null".into()
        } else {
            serde_json::Value::Object(entry.config.clone()).to_string().into()
        },
        plugin_id: manifest.plugin_id,
        engines: manifest.engines,
        memory: manifest.memory,
        wanted,
        limits: entry.limits.clone(),
        deadline_ms: deadline(config, "register", REGISTER_MS),
    })
}

/// Probes all libraries at once: a hanging one must not make the others wait.
fn probe_all(config: &Config, items: &mut [Item], ready: &mut [Ready]) {
    let scratch = &config.gateway.state_dir.join(SCRATCH);
    let limit = Duration::from_millis(deadline(config, "probe", PROBE_MS));
    let request = |ready: &Ready| ProbeRequest {
        version: env!("CARGO_PKG_VERSION").into(),
        parent: std::process::id(),
        state_dir: PathBuf::new(),
        load: ready.rest(),
        deadlines: config.plugins.deadlines.clone(),
    };
    type Probed = (Result<ProbeOutcome, StageFailure>, Duration);
    let one = |ready: &Ready| -> Probed {
        let start = std::time::Instant::now();
        let result = match std::fs::DirBuilder::new().recursive(true).mode(0o700).create(scratch) {
            Ok(()) => worker::probe(request(ready), scratch, limit),
            Err(error) => {
                let message = format!("cannot make the folder {}", scratch.display());
                Err(StageFailure::new(Cause::ProbeStart, message).because(error))
            }
        };
        (result, start.elapsed())
    };
    // What is held out of this process is not tried out either.
    let mut ready: Vec<&mut Ready> = ready.iter_mut().filter(|ready| !ready.all_failed()).collect();
    let probed: Vec<Probed> = std::thread::scope(|scope| {
        let one = &one;
        let running: Vec<_> = ready.iter().map(|ready| scope.spawn(move || one(ready))).collect();
        let lost = || Err(StageFailure::new(Cause::ProbeStart, "the thread that ran the probe failed"));
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| (lost(), Duration::ZERO))).collect()
    });
    for (ready, (result, time)) in ready.iter_mut().zip(probed) {
        let report = &mut items[ready.at].report;
        report.took(Stage::Probe, time);
        match result {
            Ok(outcome) => {
                report.notes.extend(outcome.notes.into_iter().map(|note| format!("probe: {note}")));
                ready.fail(outcome.failed);
                report.sandbox = outcome.sandbox;
            }
            Err(failure) => {
                let wanted = ready.load.wanted.clone();
                ready.fail(wanted.into_iter().map(|one| (one, failure.clone())).collect());
            }
        }
    }
}

/// Loads one library, unless nothing of what is wanted of it is left.
fn bring_in_one(
    ready: &mut Ready,
    report: &mut PluginReport,
    registrar: &Arc<dyn RegistrarPort>,
    result: &mut LoadResult,
) {
    if !ready.all_failed() && report.is_apart() {
        let good = ready.load.wanted.iter().filter(|wanted| !ready.failed.contains_key(wanted));
        result.apart.extend(good.map(|wanted| Apart {
            wanted: wanted.clone(),
            plugin_id: ready.load.plugin_id.clone(),
            load: LoadRequest { wanted: vec![wanted.clone()], ..ready.load.clone() },
        }));
    } else if !ready.all_failed() {
        let loaded = bring_in(&ready.load, registrar, &|_| ());
        for (stage, time) in loaded.timings {
            report.took(stage, time);
        }
        report.notes.extend(loaded.notes);
        result.abandoned += usize::from(loaded.abandoned);
        ready.fail(loaded.refused);
        // What failed in the probe stays out, even if it registers well here.
        let good = |wanted: &Wanted| !ready.failed.contains_key(wanted);
        let engines = loaded.registrations.into_iter().filter(|one| good(&Wanted::engine(&one.engine_id)));
        result.registrations.extend(engines);
        // A provider that no slot lists was not tried out, and no call of it is ever made.
        let listed = |wanted: &Wanted| ready.load.wanted.contains(wanted) && good(wanted);
        let memory = loaded.memory.into_iter().filter(|one| listed(&Wanted::memory(&one.provider_id)));
        result.memory.extend(memory);
    }
    close(ready, report, || PluginState::Loaded);
}

/// Writes down how a library ended: refused when all that is wanted of it failed, else as `good` says.
fn close(ready: &Ready, report: &mut PluginReport, good: impl FnOnce() -> PluginState) {
    let first = ready.load.wanted.iter().find_map(|wanted| ready.failed.get(wanted)).cloned();
    match first {
        Some(failure) if ready.all_failed() => report.refuse(failure),
        first => {
            report.state = good();
            report.failure = first;
        }
    }
}

fn outcome(items: &[Item], ready: &[Ready], wanted: &Wanted, offer: Offer) -> EngineOutcome {
    let at = match offer {
        Offer::None(outcome) => return *outcome,
        Offer::By(at) => at,
    };
    let report = &items[at].report;
    let failure = match ready.iter().find(|ready| ready.at == at) {
        Some(ready) => ready.failed.get(wanted).cloned(),
        None => report.failure.clone(),
    };
    let state = if failure.is_some() { OutcomeState::Refused } else { OutcomeState::Registered };
    EngineOutcome { failure, ..EngineOutcome::of(report, wanted, state) }
}
