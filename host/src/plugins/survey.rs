//! Looks at every file: discover, inspect, and the rules of place. Nothing is run.

use super::cause::{Cause, Stage};
use super::discover::{Candidate, candidates};
use super::inspect;
use super::isolation::Placement;
use super::load::Wanted;
use super::lock::Pins;
use super::read::{self, Library, Seen};
use super::report::{PluginReport, PluginState, StageFailure};
use super::trust::{self, Identity};
use crate::config::PluginsConfig;
use serde::Serialize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

/// A file and what is known about it.
pub(super) struct Item {
    pub report: PluginReport,
    /// Its bytes, when something of it is wanted and nothing speaks against it.
    pub library: Option<Library>,
    /// Why it is only declared, if the operator said so.
    pub switched_off: Option<String>,
}

/// What lies in the plugins folder and the linked paths, inspected; nothing is run.
pub fn discover(config: &PluginsConfig) -> Vec<PluginReport> {
    survey(config, &[]).into_iter().map(|item| item.report).collect()
}

/// Surveys all files. Keeps the bytes of those that offer something of `wanted`.
pub(super) fn survey(config: &PluginsConfig, wanted: &[Wanted]) -> Vec<Item> {
    let found = candidates(config);
    let mut items: Vec<Item> = found
        .failures
        .into_iter()
        .map(|(path, failure)| {
            let mut report = PluginReport::new(path);
            report.refuse(failure);
            Item { report, library: None, switched_off: None }
        })
        .collect();
    let who = Identity::of_process();
    let grounds = Grounds { config, pins: Pins::read(&config.dir), wanted, who };
    items.extend(found.candidates.into_iter().map(|candidate| look(&grounds, &candidate)));
    items
}

/// What every file is held against.
struct Grounds<'a> {
    config: &'a PluginsConfig,
    pins: Result<Pins, StageFailure>,
    wanted: &'a [Wanted],
    who: Identity,
}

fn look(grounds: &Grounds<'_>, candidate: &Candidate) -> Item {
    let mut item = Item { report: PluginReport::new(candidate.path.clone()), library: None, switched_off: None };
    // Whatever lies there, the gateway starts: a defect of a parser counts as the file's failure.
    let looked = catch_unwind(AssertUnwindSafe(|| look_into(&mut item, grounds, candidate)));
    let failure = match looked {
        Ok(Ok(())) => return item,
        Ok(Err(failure)) => failure,
        Err(_) => StageFailure::new(Cause::InspectFault, "the file made the inspection itself fail"),
    };
    item.library = None;
    item.report.refuse(failure);
    item
}

fn look_into(item: &mut Item, grounds: &Grounds<'_>, candidate: &Candidate) -> Result<(), StageFailure> {
    let Grounds { config, pins, wanted, who } = grounds;
    let report = &mut item.report;
    let library = report.timed(Stage::Inspect, |report| {
        let library = read::read(&candidate.real)?;
        report.sha256 = Some(library.sha256.clone());
        report.seen = Some(library.seen);
        // Kept even when it is then refused: it says which engines are out for that reason.
        let manifest = report.manifest.insert(inspect::inspect(&library.bytes)?);
        report.plugin_id = Some(manifest.plugin_id.clone());
        let checked = inspect::check_inside(&library.bytes);
        item.switched_off = trust::switched_off(config, &manifest.plugin_id);
        if item.switched_off.is_none() {
            checked?;
            manifest.check()?;
        }
        Ok(library)
    })?;
    if let Some(reason) = &item.switched_off {
        report.state = PluginState::Declared { reason: reason.clone() };
        return Ok(());
    }
    let Some(manifest) = report.manifest.clone() else { return Ok(()) };
    let vouched = report.timed(Stage::Trust, |_| {
        trust::check_place(candidate, &library.facts, *who)?;
        trust::vouch(config, pins, candidate, &manifest, &library)
    })?;
    let id = &manifest.plugin_id;
    let pin = match candidate.path.starts_with(&config.dir) {
        true => format!("`engineroom plugins install {}`", trust::shell(&candidate.path)),
        false => format!("set plugins.entries.{id}.isolation = \"in-process\""),
    };
    report.placement = Some(Placement::of(id, &library.sha256, config, vouched.reason(), &pin));
    report.vouched = Some(vouched);
    if wanted.iter().any(|wanted| report.offers(wanted)) {
        item.library = Some(library);
    }
    Ok(())
}

/// What happened to a file since it was surveyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    /// Its bytes are others.
    Replaced,
    /// It is new.
    Added,
    /// It is gone.
    Removed,
}

/// A file that is not as it was when the gateway started: a restart takes it in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The file.
    pub file: PathBuf,
    /// What happened.
    pub kind: ChangeKind,
}

/// Compares the files with the reports of a start. Reads only what looks different.
pub fn changes(config: &PluginsConfig, reports: &[PluginReport]) -> Vec<Change> {
    let found = candidates(config);
    let mut changes = Vec::new();
    for candidate in &found.candidates {
        let known = reports.iter().find(|report| report.file == candidate.path);
        let kind = match known {
            None => Some(ChangeKind::Added),
            Some(report) => differs(candidate, report).then_some(ChangeKind::Replaced),
        };
        changes.extend(kind.map(|kind| Change { file: candidate.path.clone(), kind }));
    }
    let gone = |report: &&PluginReport| {
        report.sha256.is_some() && !found.candidates.iter().any(|candidate| candidate.path == report.file)
    };
    let removed = reports.iter().filter(gone);
    changes.extend(removed.map(|report| Change { file: report.file.clone(), kind: ChangeKind::Removed }));
    changes
}

fn differs(candidate: &Candidate, report: &PluginReport) -> bool {
    let now = std::fs::symlink_metadata(&candidate.real).ok().map(|metadata| Seen::of(&metadata));
    if now.is_some() && now == report.seen {
        return false;
    }
    read::read(&candidate.real).ok().map(|library| library.sha256) != report.sha256
}
