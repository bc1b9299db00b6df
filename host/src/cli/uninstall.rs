//! `plugins uninstall`: a plugin's library goes, and every slot that names something of it is reset.

use super::args::{Leftover, UninstallArgs};
use super::context::Context;
use super::edited::{self, AtNextStart};
use super::error::{CliError, Verdict};
use super::plugins::{blocking, nearest};
use crate::config::edit::{Change, Edited};
use crate::diagnostic::{Diagnostic, Report};
use crate::plugins::{Kind, PluginReport, Wanted, discover, install, signature_path};
use crate::slot::state_root;
use serde_json::json;
use std::path::{Path, PathBuf};

/// What an uninstall takes away.
#[derive(Debug, Default, PartialEq, Eq)]
struct Plan {
    /// Installed: they go.
    files: Vec<PathBuf>,
    /// Linked: their links go.
    links: Vec<PathBuf>,
    engines: Vec<String>,
    memory: Vec<String>,
}

pub(super) async fn run(context: &Context, args: &UninstallArgs) -> Result<Verdict, CliError> {
    let plugins = context.config().plugins.clone();
    let (reports, folder) = blocking(move || (discover(&plugins), plugins.dir)).await?;
    let plan = plan(&reports, &folder, &context.config().plugins.links, &args.id)?;
    let kept = state_folders(&context.config().gateway.state_dir, &plan);
    let state = leftover(context, args, &kept)?;
    let mut changes = vec![Change::ResetSlots { engines: &plan.engines, memory: &plan.memory }];
    changes.extend(plan.links.iter().map(|link| Change::Unlink(link)));
    if args.entry == Leftover::Delete {
        changes.push(Change::Forget(&args.id));
    }
    // The configuration first: a file that is gone from a slot's value, and still there, does no harm; the reverse is a warning
    // at every start. Where nothing of it is said, no file is made.
    let edited = match context.loaded().from_file {
        true => Some(edited::change(context, &changes, args.dry_run)?),
        false => None,
    };
    let gone = if state == Leftover::Delete { kept.clone() } else { Vec::new() };
    if !args.dry_run {
        for file in &plan.files {
            std::fs::remove_file(file).map_err(|error| CliError::Reported(not_removed(file, &error)))?;
        }
        for beside in plan.files.iter().map(|file| signature_path(file)).filter(|beside| beside.exists()) {
            std::fs::remove_file(&beside).map_err(|error| CliError::Reported(not_removed(&beside, &error)))?;
        }
        let (folder, files) = (context.config().plugins.dir.clone(), plan.files.clone());
        blocking(move || install::unpin(&folder, &files)).await?.map_err(|error| CliError::of(&error))?;
        for folder in &gone {
            std::fs::remove_dir_all(folder).map_err(|error| CliError::Reported(not_removed(folder, &error)))?;
        }
    }
    if context.out.is_json() {
        context.out.document(&json!({
            "removed": plan.files, "unlinked": plan.links, "slots": edited, "state": if gone.is_empty() { "kept" } else { "deleted" },
            "state_folders": kept, "dry_run": args.dry_run,
        }));
        return Ok(Verdict::Well);
    }
    told(context, args, &plan, edited.as_ref(), (&kept, &gone));
    Ok(Verdict::Well)
}

fn told(
    context: &Context,
    args: &UninstallArgs,
    plan: &Plan,
    edited: Option<&Edited>,
    (kept, gone): (&[PathBuf], &[PathBuf]),
) {
    let out = context.out;
    if let Some(edited) = edited.filter(|edited| edited.changed) {
        edited::tell(context, edited, AtNextStart::ToldApart);
    }
    let done = if args.dry_run { "would remove" } else { "removed" };
    for path in plan.files.iter().chain(gone) {
        out.line(&format!("{done} {}", path.display()));
    }
    for link in &plan.links {
        out.line(&format!("{} is linked no more; the file itself stays", link.display()));
    }
    edited::overridden(context, &["plugins.slots.contextEngine", "plugins.slots.memory"]);
    if gone.is_empty() && !kept.is_empty() {
        let folders: Vec<String> = kept.iter().map(|folder| folder.display().to_string()).collect();
        out.aside(&format!("what it kept stays in {} (`--state delete` removes it)", folders.join(", ")));
    }
    let plugins = &context.config().plugins;
    if args.entry == Leftover::Keep && plugins.entries.contains_key(&args.id) {
        out.aside(&format!("[plugins.entries.{}] stays (`--entry delete` removes it)", args.id));
    }
    if let Some(running) = context.running() {
        out.aside(&format!("the running gateway (pid {}) goes on with its copy until it restarts", running.pid));
    }
}

/// The folders in which the engines and providers of a plugin keep things, as far as they are there.
fn state_folders(state_dir: &Path, plan: &Plan) -> Vec<PathBuf> {
    let engines = plan.engines.iter().map(|id| state_root(state_dir, Kind::Engine, id));
    let memory = plan.memory.iter().map(|id| state_root(state_dir, Kind::Memory, id));
    engines.chain(memory).filter(|folder| folder.exists()).collect()
}

/// What becomes of what it kept: as was said, else as the terminal answers, else it stays.
fn leftover(context: &Context, args: &UninstallArgs, kept: &[PathBuf]) -> Result<Leftover, CliError> {
    if kept.is_empty() {
        return Ok(Leftover::Keep);
    }
    let wanted = match args.state {
        Some(said) => said,
        None if args.dry_run || context.out.is_json() => Leftover::Keep,
        None => {
            let folders: Vec<String> = kept.iter().map(|folder| folder.display().to_string()).collect();
            let question = format!("Delete what it kept in {}, too? [y/N] ", folders.join(", "));
            if context.out.asked(&question) { Leftover::Delete } else { Leftover::Keep }
        }
    };
    match context.running() {
        Some(running) if wanted == Leftover::Delete && !args.dry_run => Err(CliError::Usage(format!(
            "the running gateway (pid {}) may be using what it kept: stop it first, or keep it (`--state keep`)",
            running.pid
        ))),
        _ => Ok(wanted),
    }
}

/// What belongs to the plugin. What another file offers as well stays in the slots.
fn plan(reports: &[PluginReport], folder: &Path, links: &[PathBuf], id: &str) -> Result<Plan, CliError> {
    let is_its = |report: &&PluginReport| report.plugin_id.as_deref() == Some(id);
    let (its, others): (Vec<&PluginReport>, Vec<&PluginReport>) = reports.iter().partition(is_its);
    if its.is_empty() {
        let known = reports.iter().filter_map(|report| report.plugin_id.as_deref());
        return Err(CliError::Unknown { what: "plugin", name: id.to_owned(), near: nearest(id, known) });
    }
    let (installed, linked): (Vec<&PluginReport>, Vec<&PluginReport>) =
        its.iter().partition(|report| report.file.starts_with(folder));
    // A linked folder is no plugin's own: others may lie in it.
    let in_folder = linked.iter().find(|report| !links.contains(&report.file));
    if let Some(linked) = in_folder {
        return Err(CliError::Usage(format!(
            "{} lies in a linked folder: take the file out of there, or the folder out of plugins.links",
            linked.file.display()
        )));
    }
    let gone = |kind: Kind, ids: fn(&PluginReport) -> &[String]| -> Vec<String> {
        let all = its.iter().flat_map(|report| ids(report));
        let stays = |id: &String| others.iter().any(|other| other.offers(&Wanted { kind, id: id.clone() }));
        all.filter(|id| !stays(id)).cloned().collect()
    };
    Ok(Plan {
        engines: gone(Kind::Engine, PluginReport::engines),
        memory: gone(Kind::Memory, PluginReport::memory),
        files: installed.iter().map(|report| report.file.clone()).collect(),
        links: linked.iter().map(|report| report.file.clone()).collect(),
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
        Some("the slots are reset already; remove it by hand, or give this user the right to".into())
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
    fn what_lies_in_the_folder_goes_and_what_is_linked_is_linked_no_more() {
        let reports = [report("/p/libnotes.so", "notes"), report("/elsewhere/libown.so", "own")];
        let links = [PathBuf::from("/elsewhere/libown.so")];
        let planned = |id: &str, links: &[PathBuf]| plan(&reports, Path::new("/p"), links, id);
        let notes = planned("notes", &links).unwrap();
        assert_eq!((notes.files, notes.links), (vec![PathBuf::from("/p/libnotes.so")], vec![]));
        let own = planned("own", &links).unwrap();
        assert_eq!((own.files, own.links), (vec![], links.to_vec()));
        let folder = planned("own", &["/elsewhere".into()]);
        assert!(matches!(folder, Err(CliError::Usage(why)) if why.contains("linked folder")));
        match planned("note", &links) {
            Err(CliError::Unknown { near: Some(near), .. }) => assert_eq!(near, "notes"),
            other => panic!("{other:?}"),
        }
    }
}
