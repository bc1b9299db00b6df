//! `plugins install`: a library from a path, an archive, an address or npm into the plugins folder, or linked where it lies.
//! Everything is checked before anything is changed.

use super::args::InstallArgs;
use super::context::Context;
use super::edited::{self, AtNextStart};
use super::error::{CliError, Verdict};
use super::out::{Tone, short};
use super::plugins::{blocking, chain};
use crate::config::edit::Change;
use crate::config::{Config, Isolation, TrustPolicy};
use crate::plugins::install::{self, Examined, InstallError, Installed, Source};
use crate::plugins::{Cause, PluginReport, PluginState, SignatureReport, discover};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

pub(super) async fn run(context: &Context, args: &InstallArgs) -> Result<Verdict, CliError> {
    if args.link {
        return link(context, args).await;
    }
    let source = Source::parse(&args.source, args.sha256.as_deref()).map_err(refused)?;
    if let Source::File(path) = &source
        && let Some(report) = in_folder(context, path).await?
    {
        return pin(context, args, report).await;
    }
    let sign = !context.config().plugins.trust_keys.is_empty();
    let parcel = source.take(args.sha256.as_deref(), sign).await.map_err(refused)?;
    let examined = examined(context, parcel).await?;
    let (config, dry_run) = (context.config().clone(), args.dry_run);
    let (installed, examined) =
        blocking(move || (install::put(&config, &examined, &source, dry_run), examined)).await?;
    told(context, &installed.map_err(refused)?, &examined).await
}

/// An error of the installation.
pub(super) fn refused(error: InstallError) -> CliError {
    CliError::of(&error)
}

/// Takes a library through all that can be tried before it is in its place.
pub(super) async fn examined(context: &Context, parcel: install::Parcel) -> Result<Examined, CliError> {
    let config = context.config().clone();
    let bar = context.out.progress(1);
    bar.set_message(format!("trying {}", parcel.name));
    let examined = blocking(move || install::examine(&config, parcel)).await?.map_err(refused);
    bar.finish_and_clear();
    examined
}

/// What is known of a file, when it lies in the plugins folder.
async fn in_folder(context: &Context, path: &Path) -> Result<Option<PluginReport>, CliError> {
    let (plugins, path) = (context.config().plugins.clone(), path.to_owned());
    let found = move || {
        let path = path.canonicalize().ok()?;
        let mut reports = discover(&plugins).into_iter();
        reports.find(|report| {
            report.file.starts_with(&plugins.dir) && report.file.canonicalize().is_ok_and(|it| it == path)
        })
    };
    blocking(found).await
}

/// A file that lies there already is pinned as it is.
async fn pin(context: &Context, args: &InstallArgs, report: PluginReport) -> Result<Verdict, CliError> {
    // That it is not pinned yet, or is another file than the one that was, is what this is about.
    let acceptable = [Cause::HashDiffers.code(), Cause::NotPinned.code()];
    if let Some(failure) = report.failure.filter(|failure| !acceptable.contains(&failure.code)) {
        return Err(refused(InstallError::Refused { name: report.file.display().to_string(), failure }));
    }
    let source = Source::File(report.file.clone());
    let parcel = source.take(args.sha256.as_deref(), false).await.map_err(refused)?;
    let examined = examined(context, parcel).await?;
    let (config, file, dry_run) = (context.config().clone(), report.file, args.dry_run);
    let pinned = blocking(move || (install::pin_in_place(&config, &examined, &file, dry_run), examined)).await?;
    told(context, &pinned.0.map_err(refused)?, &pinned.1).await
}

/// Says what was installed, what the next start makes of it, and what to do next.
async fn told(context: &Context, installed: &Installed, examined: &Examined) -> Result<Verdict, CliError> {
    let plugins = context.config().plugins.clone();
    let file = installed.file.clone();
    let report = blocking(move || discover(&plugins).into_iter().find(|report| report.file == file)).await?;
    let report = report.filter(|_| !installed.dry_run);
    let next = next_steps(context.config(), &installed.engines, &installed.memory);
    if context.out.is_json() {
        let mut document = serde_json::to_value(installed).unwrap_or_default();
        document["signature"] = serde_json::to_value(&examined.signature).unwrap_or_default();
        document["open"] = serde_json::to_value(&examined.open).unwrap_or_default();
        document["next"] = json!(next);
        document["gateway_running"] = context.running().is_some().into();
        document["placement"] = report.map(|report| json!(report.placement)).unwrap_or_default();
        context.out.document(&document);
        return Ok(Verdict::Well);
    }
    let out = context.out;
    let version =
        |version: Option<&String>| version.map_or(String::new(), |version| format!(" {}", short(version, 40)));
    let what = match (installed.dry_run, installed.changed, &installed.source) {
        (_, false, _) => "is there already:",
        (true, true, Some(_)) => "would be installed:",
        (true, true, None) => "would be pinned:",
        (false, true, Some(_)) => "installed:",
        (false, true, None) => "pinned:",
    };
    out.line(&format!(
        "{} {what} {}{}",
        out.paint(Tone::Strong, &installed.plugin),
        installed.file.display(),
        version(installed.version.as_ref()),
    ));
    out.line(&format!("sha256       {}", installed.sha256));
    if let Some(previous) = installed.previous.as_ref().filter(|previous| previous.sha256 != installed.sha256) {
        out.line(&format!("before       {}{}", previous.sha256, version(previous.version.as_ref())));
    }
    if let Some(signature) = &examined.signature {
        out.line(&format!("signature    {}", signed(signature)));
    }
    for failure in &examined.open {
        out.warn(&format!(
            "as the configuration is now, it will not serve: [{}] {failure}; {}",
            failure.code, failure.hint
        ));
    }
    if let Some(report) = &report {
        at_next_start(context, report);
    }
    if !installed.dry_run
        && installed.changed
        && let Some(running) = context.running()
    {
        out.aside(&format!(
            "the running gateway (pid {}) goes on with what it has: restart it when it suits",
            running.pid
        ));
    }
    next.iter().for_each(|step| out.aside(&format!("next: {step}")));
    Ok(Verdict::Well)
}

/// A signature in words.
pub(super) fn signed(signature: &SignatureReport) -> String {
    match signature {
        SignatureReport::Good { key, comment } => format!("good, by {key} ({})", short(comment, 200)),
        SignatureReport::OtherKey => "by a key that plugins.trust.keys does not list".into(),
        SignatureReport::Unchecked => "not checked: plugins.trust.keys lists no key".into(),
    }
}

/// Where it will run, or why it will not.
fn at_next_start(context: &Context, report: &PluginReport) {
    let out = context.out;
    match (&report.failure, &report.state, &report.placement) {
        (Some(failure), ..) => {
            out.warn(&format!("the next start will refuse it: [{}] {failure}; {}", failure.code, failure.hint));
        }
        (None, PluginState::Declared { reason }, _) if !reason.starts_with("not listed") => {
            out.warn(&format!("it will not be loaded: {reason}"));
        }
        (None, _, Some(placement)) => {
            out.line(&format!("at the next start, when a slot lists it: {placement}"));
            if placement.isolation == Isolation::InProcess && !placement.bundled {
                let id = report.plugin_id.as_deref().unwrap_or_default();
                out.aside(&format!(
                    "in-process it has the gateway's rights; `isolation = \"process\"` in [plugins.entries.{id}] confines it to a worker"
                ));
            }
        }
        _ => {}
    }
}

/// What remains to be done until it serves.
fn next_steps(config: &Config, engines: &[String], memory: &[String]) -> Vec<String> {
    let selected = chain(config);
    let mut steps = Vec::new();
    if !engines.is_empty() && !engines.iter().any(|id| selected.contains(id)) {
        let select: Vec<String> = engines.iter().map(|id| format!("`engineroom plugins select {id}`")).collect();
        steps.push(select.join(" or "));
    }
    let provider = config.plugins.slots.memory.as_ref();
    if !memory.is_empty() && !memory.iter().any(|id| Some(id) == provider) {
        let select: Vec<String> =
            memory.iter().map(|id| format!("`engineroom plugins select --memory {id}`")).collect();
        steps.push(select.join(" or "));
    }
    steps
}

/// Links a library, or a folder of them, where it lies.
async fn link(context: &Context, args: &InstallArgs) -> Result<Verdict, CliError> {
    let usage = |text: String| Err(CliError::Usage(text));
    if args.sha256.is_some() {
        return usage("a linked file is its builder's and may change, so no hash is held against it".into());
    }
    if args.source.contains("://") || args.source.starts_with("npm:") {
        return usage("only a file or a folder of this machine can be linked; without -l it is installed".into());
    }
    let typed = std::path::absolute(&args.source).unwrap_or_else(|_| args.source.as_str().into());
    let Ok(path) = typed.canonicalize() else {
        // Told as a file that is to be copied would be.
        return Source::File(typed).take(None, false).await.map(|_| Verdict::Well).map_err(refused);
    };
    let dir = &context.config().plugins.dir;
    if dir.canonicalize().is_ok_and(|dir| path.starts_with(dir)) {
        let (path, dir) = (path.display(), dir.display());
        return usage(format!("{path} lies in {dir} already; `engineroom plugins install {path}` pins it"));
    }
    let good = linkable(context, &path).await?;
    for report in &good {
        not_twice(context, report).await?;
    }
    let mut tried = Vec::new();
    for report in &good {
        let parcel = Source::File(report.file.clone()).take(None, false).await.map_err(refused)?;
        tried.push(examined(context, parcel).await?);
    }
    let edited = edited::change(context, &[Change::Link(&path)], args.dry_run)?;
    let offered = |ids: fn(&Examined) -> &[String]| -> Vec<String> { tried.iter().flat_map(ids).cloned().collect() };
    let engines = offered(|one| &one.manifest.engines);
    let memory = offered(|one| &one.manifest.memory);
    let next = next_steps(context.config(), &engines, &memory);
    if context.out.is_json() {
        let open: Vec<Value> = tried.iter().flat_map(|one| &one.open).map(|failure| json!(failure)).collect();
        context.out.document(&json!({
            "linked": path, "edit": edited, "engines": engines, "memory": memory, "open": open, "next": next,
            "gateway_running": context.running().is_some(),
        }));
        return Ok(Verdict::Well);
    }
    edited::tell(context, &edited, AtNextStart::Taken);
    edited::overridden(context, &["plugins.links"]);
    for one in &tried {
        context.out.line(&format!("plugin {} in {}", one.manifest.plugin_id, one.parcel.name));
        for failure in &one.open {
            context.out.warn(&format!(
                "as the configuration is now, it will not serve: [{}] {failure}; {}",
                failure.code, failure.hint
            ));
        }
    }
    context.out.aside("a linked file is not pinned: each start takes what lies there then, in a worker unless its entry says otherwise");
    next.iter().for_each(|step| context.out.aside(&format!("next: {step}")));
    Ok(Verdict::Well)
}

/// The libraries at a path that a start would take as linked ones.
async fn linkable(context: &Context, path: &Path) -> Result<Vec<PluginReport>, CliError> {
    let read = |source| CliError::Read { path: path.display().to_string(), source };
    let empty = tempfile::tempdir().map_err(read)?;
    let mut config = context.config().plugins.clone();
    config.dir = empty.path().to_path_buf();
    config.links = vec![path.to_owned()];
    // Whether it is switched off has nothing to do with whether it is one.
    (config.enabled, config.allow, config.deny) = (true, Vec::new(), Vec::new());
    config.entries.values_mut().for_each(|entry| entry.enabled = true);
    let needs_pin = config.trust_policy == TrustPolicy::Pinned;
    let (good, bad): (Vec<PluginReport>, Vec<PluginReport>) =
        blocking(move || discover(&config)).await?.into_iter().partition(|report| report.failure.is_none());
    for report in bad.iter().filter(|_| !good.is_empty()) {
        if let Some(failure) = &report.failure {
            context.out.warn(&format!("{} will be refused: [{}] {failure}", report.file.display(), failure.code));
        }
    }
    if !good.is_empty() {
        return Ok(good);
    }
    match bad.into_iter().find_map(|report| Some((report.file, report.failure?))) {
        Some((file, mut failure)) => {
            if needs_pin && failure.code == Cause::NotPinned.code() {
                failure =
                    failure.because("plugins.trust.policy is \"pinned\", and linked files are not pinned by a link");
            }
            Err(refused(InstallError::Refused { name: file.display().to_string(), failure }))
        }
        None => Err(CliError::Usage(format!(
            "{} holds no library (lib….so, or .dylib on macOS), neither in itself nor right below",
            path.display()
        ))),
    }
}

/// A plugin is installed or linked, not both.
async fn not_twice(context: &Context, new: &PluginReport) -> Result<(), CliError> {
    let plugins = context.config().plugins.clone();
    let (id, file) = (new.plugin_id.clone(), new.file.canonicalize().ok());
    let other = move || -> Option<PathBuf> {
        let mut reports = discover(&plugins).into_iter();
        let same = reports.find(|report| report.plugin_id == id && report.file.canonicalize().ok() != file)?;
        Some(same.file)
    };
    let Some(other) = blocking(other).await? else { return Ok(()) };
    let id = new.plugin_id.as_deref().unwrap_or_default();
    Err(refused(InstallError::Taken {
        what: format!("the plugin {id} is there already: {}", other.display()),
        hint: format!(
            "`engineroom plugins uninstall {id}` first (its entry and its state may stay), then link this one"
        ),
    }))
}
