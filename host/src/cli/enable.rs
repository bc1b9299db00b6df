//! `plugins enable` and `plugins disable`: whether a plugin may be loaded.

use super::args::EnableArgs;
use super::context::Context;
use super::edited::{self, AtNextStart};
use super::error::{CliError, Verdict};
use super::plugins::{blocking, chain, nearest};
use crate::config::edit::Change;
use crate::plugins::{PluginReport, RESERVED_ENGINE, discover};

pub(super) async fn run(context: &Context, args: &EnableArgs, enabled: bool) -> Result<Verdict, CliError> {
    let plugins = context.config().plugins.clone();
    let reports = blocking(move || discover(&plugins)).await?;
    let id = plugin(context, &reports, &args.id)?;
    let verdict = edited::make(context, &[Change::Enable(&id, enabled)], &[], args.dry_run, AtNextStart::Taken)?;
    if enabled {
        in_the_way(context, &id);
    } else {
        who_serves(context, &reports, &id);
    }
    Ok(verdict)
}

/// The plugin that is meant: by its own id, or by that of something that it offers. One of which only an entry speaks will do.
fn plugin(context: &Context, reports: &[PluginReport], id: &str) -> Result<String, CliError> {
    let ids = || reports.iter().filter_map(|report| report.plugin_id.as_deref());
    if ids().any(|known| known == id) || context.config().plugins.entries.contains_key(id) {
        return Ok(id.to_owned());
    }
    let offers = |report: &&PluginReport| report.engines().iter().chain(report.memory()).any(|one| one == id);
    if let Some(owner) = reports.iter().find(offers).and_then(|report| report.plugin_id.as_deref()) {
        context.out.aside(&format!("{id} is offered by the plugin {owner}"));
        return Ok(owner.to_owned());
    }
    Err(CliError::Unknown { what: "plugin", name: id.to_owned(), near: nearest(id, ids()) })
}

/// What still keeps an enabled plugin out.
fn in_the_way(context: &Context, id: &str) {
    let plugins = &context.config().plugins;
    let listed = |list: &[String]| list.iter().any(|one| one == id);
    let warn = |key: &str, what: &str| context.out.warn(&format!("{id} stays out all the same: {key} {what}"));
    if !plugins.enabled {
        warn("plugins.enabled", "is false");
    }
    if listed(&plugins.deny) {
        warn("plugins.deny", "lists it; take it out there");
    }
    if !plugins.allow.is_empty() && !listed(&plugins.allow) {
        warn("plugins.allow", "does not list it; add it there");
    }
}

/// What a slot that lists something of a disabled plugin comes to.
fn who_serves(context: &Context, reports: &[PluginReport], id: &str) {
    let its = || reports.iter().filter(|report| report.plugin_id.as_deref() == Some(id));
    let engines: Vec<&String> = its().flat_map(PluginReport::engines).collect();
    let selected = chain(context.config());
    if let Some(first) = selected.iter().find(|one| engines.contains(one)) {
        let next = selected.iter().find(|one| !engines.contains(one)).map_or(RESERVED_ENGINE, String::as_str);
        context.out.warn(&format!("{first} is selected: from the next start on {next} serves in its place"));
    }
    let provider = context.config().plugins.slots.memory.as_ref();
    if let Some(provider) = provider.filter(|one| its().any(|report| report.memory().contains(one))) {
        context.out.warn(&format!("{provider} is the selected memory: from the next start on turns go on without one"));
    }
}
