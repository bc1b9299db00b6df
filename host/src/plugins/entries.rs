//! What `[plugins.entries]` says without any effect: an operator who pins, confines or grants must not believe in words that
//! nobody reads.

use super::needs::{Need, needs};
use super::report::PluginReport;
use super::select::nearest;
use crate::config::{Config, EntryConfig, Isolation, LimitsConfig};
use serde::Serialize;

/// The service that depends on the model.
const LLM: &str = "llm.complete";

/// Something in an entry that has no effect, or another one than it seems to have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EntryRemark {
    /// The plugin id that the entry is for.
    pub entry: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: String,
}

/// Compares the entries with the files that were found.
pub fn entry_remarks(config: &Config, reports: &[PluginReport]) -> Vec<EntryRemark> {
    let mut remarks = Vec::new();
    for (id, entry) in &config.plugins.entries {
        let mut remark = |message: String, hint: String| {
            remarks.push(EntryRemark { entry: id.clone(), message, hint });
        };
        let owner = reports.iter().find(|report| report.plugin_id.as_ref() == Some(id));
        if owner.is_none() {
            let message =
                format!("no library has the plugin id {id:?}: nothing of plugins.entries.{id} has any effect");
            remark(message, meant(id, reports));
        }
        if entry.limits != LimitsConfig::default() {
            // Without a library only what is written counts; else where it was found to run.
            let apart = match owner.and_then(|report| report.placement.as_ref()) {
                Some(placement) => placement.is_apart(),
                None => config.plugins.asked_of(entry) != Isolation::InProcess,
            };
            if !apart {
                let message = format!(
                    "plugins.entries.{id}.limits bound the probe only: the plugin runs in-process, where nothing is bounded"
                );
                remark(message, format!("set plugins.entries.{id}.isolation = \"process\", or remove the limits"));
            }
        }
        of_paths(config, id, entry, &mut remark);
        if let Some(manifest) = owner.and_then(|report| report.manifest.as_ref()) {
            of_needs(config, id, entry, &manifest.config_schema, &mut remark);
        }
    }
    remarks
}

/// Settings that do nothing without a grant or a service.
fn of_needs(
    config: &Config,
    id: &str,
    entry: &EntryConfig,
    schema: &serde_json::Value,
    remark: &mut impl FnMut(String, String),
) {
    for found in needs(schema, &entry.config) {
        let (key, setting) = (&found.key, format!("plugins.entries.{id}.config.{} = {}", found.key, found.value));
        match found.need {
            Need::Grant(grant) if !entry.grants.iter().any(|given| given == grant) => {
                let all: Vec<&str> = entry.grants.iter().map(String::as_str).chain([grant]).collect();
                let hint = format!("set grants = {all:?} in [plugins.entries.{id}], or take {key} out");
                remark(format!("{setting} has no effect without the grant \"{grant}\""), hint);
            }
            Need::Service(LLM) => {
                let gateway = (!config.model.completes()).then(|| "the gateway's model".to_owned());
                let agents = config.agents.iter().filter_map(|(agent, own)| {
                    let lacks = own.model.as_ref().is_some_and(|model| !model.completes());
                    lacks.then(|| format!("the model of agent {agent}"))
                });
                let lacking: Vec<String> = gateway.into_iter().chain(agents).collect();
                if !lacking.is_empty() {
                    let what = lacking.join(" and ");
                    let message =
                        format!("{setting} has no effect with {what}: it has no {LLM}, which the setting needs");
                    remark(
                        message,
                        format!("use a model of an endpoint ([model] provider = \"openai\"), or take {key} out"),
                    );
                }
            }
            Need::Grant(_) | Need::Service(_) => {}
        }
    }
}

/// What the worker is given to read.
fn of_paths(config: &Config, id: &str, entry: &EntryConfig, remark: &mut impl FnMut(String, String)) {
    for path in &entry.limits.read {
        let shown = path.display();
        if !path.exists() {
            let message = format!("plugins.entries.{id}.limits.read names {shown}, which does not exist");
            remark(message, "correct it; what appears there later can be read after a restart".into());
        } else if let Some((what, kept)) = config.of_the_gateway(path) {
            let message =
                format!("plugins.entries.{id}.limits.read holds {shown}, with which the engine can read {what}");
            remark(message, format!("name folders without {}", kept.display()));
        }
    }
}

fn meant(id: &str, reports: &[PluginReport]) -> String {
    let of_engine = |report: &&PluginReport| {
        report
            .manifest
            .as_ref()
            .is_some_and(|manifest| manifest.engines.iter().chain(&manifest.memory).any(|one| one == id))
    };
    if let Some(owner) = reports.iter().find(of_engine).and_then(|report| report.plugin_id.as_deref()) {
        return format!("entries go by the plugin's id, which is \"{owner}\" for the engine {id}");
    }
    let mut known: Vec<&str> = reports.iter().filter_map(|report| report.plugin_id.as_deref()).collect();
    known.sort_unstable();
    known.dedup();
    match nearest(id, &known) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None if known.is_empty() => {
            "no plugin was found; put its library into the plugins folder, or remove the entry".into()
        }
        None => format!("put its library into the plugins folder, or remove the entry; found: {}", known.join(", ")),
    }
}
