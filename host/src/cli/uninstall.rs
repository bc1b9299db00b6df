//! `plugins uninstall`: a plugin's library goes, and every slot that names something of it is reset.

use super::context::Context;
use super::error::{CliError, Verdict};
use super::plugins::{blocking, nearest};
use crate::config::edit;
use crate::diagnostic::{Diagnostic, Report};
use crate::plugins::{Kind, PluginReport, Wanted, discover};
use serde_json::json;
use std::path::{Path, PathBuf};

/// What an uninstall takes away.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    files: Vec<PathBuf>,
    engines: Vec<String>,
    memory: Vec<String>,
}

pub(super) async fn run(context: &Context, id: &str) -> Result<Verdict, CliError> {
    let plugins = context.config().plugins.clone();
    let (reports, folder) = blocking(move || (discover(&plugins), plugins.dir)).await?;
    let plan = plan(&reports, &folder, id)?;
    // The slots first: a file that is gone from a slot's value, and still there, does no harm; the reverse is a warning at every
    // start.
    let path = &context.config().path;
    let edited = match edit::reset_slots(path, &plan.engines, &plan.memory) {
        Ok(edited) => edited,
        Err(error) => {
            if let (Some(change), false) = (error.change(), context.out.is_json()) {
                context.out.piece(change);
            }
            return Err(error.into());
        }
    };
    for file in &plan.files {
        std::fs::remove_file(file).map_err(|error| CliError::Reported(not_removed(file, &error)))?;
    }
    if context.out.is_json() {
        context.out.document(&json!({"removed": plan.files, "slots": edited}));
        return Ok(Verdict::Well);
    }
    if edited.changed {
        context.out.piece(&edited.change);
    }
    for file in &plan.files {
        context.out.line(&format!("removed {}", file.display()));
    }
    for key in ["plugins.slots.contextEngine", "plugins.slots.memory"] {
        if let Some(winner) = context.stronger(key) {
            context.out.warn(&format!("{winner} overrides the file, and may still name what is gone"));
        }
    }
    let running = context.running().map_or("", |_| "; the running gateway goes on with its copy until it restarts");
    context.out.aside(&format!("its configuration and its state folder are left as they are{running}"));
    Ok(Verdict::Well)
}

/// What belongs to the plugin. What another file offers as well stays in the slots.
fn plan(reports: &[PluginReport], folder: &Path, id: &str) -> Result<Plan, CliError> {
    let is_its = |report: &&PluginReport| report.plugin_id.as_deref() == Some(id);
    let (its, others): (Vec<&PluginReport>, Vec<&PluginReport>) = reports.iter().partition(is_its);
    if its.is_empty() {
        let known = reports.iter().filter_map(|report| report.plugin_id.as_deref());
        return Err(CliError::Unknown { what: "plugin", name: id.to_owned(), near: nearest(id, known) });
    }
    if let Some(linked) = its.iter().find(|report| !report.file.starts_with(folder)) {
        let file = linked.file.display();
        return Err(CliError::Usage(format!("{file} is linked, not installed: take its path out of plugins.links")));
    }
    let gone = |kind: Kind, ids: fn(&PluginReport) -> &[String]| -> Vec<String> {
        let all = its.iter().flat_map(|report| ids(report));
        let stays = |id: &String| others.iter().any(|other| other.offers(&Wanted { kind, id: id.clone() }));
        all.filter(|id| !stays(id)).cloned().collect()
    };
    Ok(Plan {
        engines: gone(Kind::Engine, PluginReport::engines),
        memory: gone(Kind::Memory, PluginReport::memory),
        files: its.iter().map(|report| report.file.clone()).collect(),
    })
}

#[derive(Debug, thiserror::Error)]
#[error("{file} cannot be removed: {why}")]
struct NotRemoved {
    file: String,
    why: String,
}

impl Diagnostic for NotRemoved {
    fn code(&self) -> &'static str {
        "CE830"
    }

    fn hint(&self) -> Option<String> {
        Some("the slots are reset already; remove the file by hand, or give this user the right to".into())
    }
}

fn not_removed(file: &Path, error: &std::io::Error) -> Report {
    NotRemoved { file: file.display().to_string(), why: error.to_string() }.report()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(file: &str, plugin: &str) -> PluginReport {
        let mut report = PluginReport::new(file.into());
        report.plugin_id = Some(plugin.into());
        report
    }

    #[test]
    fn only_what_lies_in_the_folder_is_removed() {
        let reports = [report("/p/libnotes.so", "notes"), report("/elsewhere/libown.so", "own")];
        let planned = plan(&reports, Path::new("/p"), "notes").unwrap();
        assert_eq!(planned.files, [PathBuf::from("/p/libnotes.so")]);
        assert!(matches!(plan(&reports, Path::new("/p"), "own"), Err(CliError::Usage(why)) if why.contains("linked")));
        match plan(&reports, Path::new("/p"), "note") {
            Err(CliError::Unknown { near: Some(near), .. }) => assert_eq!(near, "notes"),
            other => panic!("{other:?}"),
        }
    }
}
