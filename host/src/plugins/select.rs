//! Which library serves a wanted engine, and why none does.

use super::cause::Cause;
use super::load::{Kind, Wanted};
use super::report::{PluginReport, StageFailure};
use super::survey::Item;
use crate::observe::broken;
use serde::Serialize;
use std::path::PathBuf;

/// How similar an id must be to be suggested, from 0 to 1.
const SIMILAR: f64 = 0.5;

/// What became of a wanted engine or memory provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OutcomeState {
    /// Its library is loaded and has registered it.
    Registered,
    /// No library offers it.
    Missing,
    /// Its plugin is switched off, disabled, denied or not allowed.
    Disabled {
        /// Which of these.
        reason: String,
    },
    /// A stage refused its library, or the engine itself.
    Refused,
}

/// A wanted engine or memory provider: one that a slot, an agent or a shadow lists. `legacy` is never among them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EngineOutcome {
    /// Which of the two.
    pub kind: Kind,
    /// Its id.
    pub engine_id: String,
    /// The plugin that offers it, as far as known.
    pub plugin_id: Option<String>,
    /// The file of that plugin.
    pub file: Option<PathBuf>,
    /// What became of it.
    pub state: OutcomeState,
    /// Why, when it is missing or refused.
    pub failure: Option<StageFailure>,
}

/// Who offers what is wanted.
pub(super) enum Offer {
    /// The item of this number.
    By(usize),
    /// Nobody who may.
    None(Box<EngineOutcome>),
}

impl EngineOutcome {
    pub(super) fn of(report: &PluginReport, wanted: &Wanted, state: OutcomeState) -> EngineOutcome {
        EngineOutcome {
            kind: wanted.kind,
            engine_id: wanted.id.clone(),
            plugin_id: report.plugin_id.clone(),
            file: Some(report.file.clone()),
            failure: (state == OutcomeState::Refused).then(|| report.failure.clone()).flatten(),
            state,
        }
    }
}

/// Finds the library for each of `wanted`. Libraries that claim the same id are refused.
pub(super) fn select(items: &mut [Item], wanted: &[Wanted]) -> Vec<(Wanted, Offer)> {
    wanted.iter().map(|wanted| (wanted.clone(), offer(items, wanted))).collect()
}

fn offer(items: &mut [Item], wanted: &Wanted) -> Offer {
    let offers = |item: &Item| item.report.offers(wanted);
    let able: Vec<usize> = (0..items.len()).filter(|&at| items[at].library.is_some() && offers(&items[at])).collect();
    match able[..] {
        [] => {}
        [one, ..] if able.len() == 1 || broken("8.7") => {
            items[one].report.wanted = true;
            return Offer::By(one);
        }
        _ => return Offer::None(Box::new(claimed_twice(items, wanted, &able))),
    }
    // A plugin that the operator switched off explains the absence better than a broken copy of it.
    if let Some(item) = items.iter_mut().find(|item| item.switched_off.is_some() && offers(item)) {
        item.report.wanted = true;
        let reason = item.switched_off.clone().unwrap_or_default();
        return Offer::None(Box::new(EngineOutcome::of(&item.report, wanted, OutcomeState::Disabled { reason })));
    }
    let refused = |item: &&mut Item| item.report.failure.is_some();
    let by_manifest = items.iter_mut().filter(refused).find(|item| offers(item));
    let broken = match by_manifest {
        Some(item) => Some(item),
        None => items
            .iter_mut()
            .filter(refused)
            .find(|item| item.report.manifest.is_none() && is_named_after(&item.report, &wanted.id)),
    };
    if let Some(item) = broken {
        item.report.wanted = true;
        return Offer::None(Box::new(EngineOutcome::of(&item.report, wanted, OutcomeState::Refused)));
    }
    Offer::None(Box::new(missing(items, wanted)))
}

fn claimed_twice(items: &mut [Item], wanted: &Wanted, able: &[usize]) -> EngineOutcome {
    let files: Vec<String> = able.iter().map(|&at| items[at].report.file.display().to_string()).collect();
    let message = format!("{wanted} is claimed by {}", files.join(" and "));
    let failure = StageFailure::new(Cause::ClaimedTwice, message);
    for &at in able {
        items[at].report.wanted = true;
        items[at].report.refuse(failure.clone());
    }
    EngineOutcome {
        kind: wanted.kind,
        engine_id: wanted.id.clone(),
        plugin_id: None,
        file: None,
        state: OutcomeState::Refused,
        failure: Some(failure),
    }
}

fn missing(items: &[Item], wanted: &Wanted) -> EngineOutcome {
    let mut failure = StageFailure::new(Cause::EngineMissing, format!("no library offers the {wanted}"));
    let mut known: Vec<&str> = items.iter().flat_map(|item| item.report.ids(wanted.kind)).map(String::as_str).collect();
    let all = match wanted.kind {
        Kind::Engine => {
            known.push(super::RESERVED_ENGINE);
            "Known engines"
        }
        Kind::Memory => {
            known.push("none");
            "Known memory providers"
        }
    };
    known.sort_unstable();
    known.dedup();
    if let Some(nearest) = nearest(&wanted.id, &known) {
        failure = failure.hint(format!("did you mean `{nearest}`? {all}: {}", known.join(", ")));
    } else {
        let hint = format!("{} {all}: {}", Cause::EngineMissing.hint(), known.join(", "));
        failure = failure.hint(hint);
    }
    let unreadable = items.iter().filter(|item| item.report.manifest.is_none());
    for report in unreadable.map(|item| &item.report) {
        if let Some(why) = &report.failure {
            failure = failure.because(format!("{}: {why}", report.file.display()));
        }
    }
    EngineOutcome {
        kind: wanted.kind,
        engine_id: wanted.id.clone(),
        plugin_id: None,
        file: None,
        state: OutcomeState::Missing,
        failure: Some(failure),
    }
}

pub(super) fn nearest<'a>(id: &str, known: &[&'a str]) -> Option<&'a str> {
    let similarity = |other: &str| strsim::normalized_damerau_levenshtein(&id.to_lowercase(), &other.to_lowercase());
    let best = known.iter().max_by(|a, b| similarity(a).total_cmp(&similarity(b)))?;
    (similarity(best) >= SIMILAR).then_some(*best)
}

/// `libwindow.so`, `window.so` and `libengine_window.so` are probably meant to offer `window`.
fn is_named_after(report: &PluginReport, id: &str) -> bool {
    let plain = |text: &str| text.to_lowercase().replace(['-', '.'], "_");
    let stem = report.file.file_stem().and_then(|stem| stem.to_str()).map(plain).unwrap_or_default();
    let stem = stem.strip_prefix("lib").unwrap_or(&stem);
    let stem = stem.strip_prefix("engine_").unwrap_or(stem);
    !stem.is_empty() && stem == plain(id)
}
