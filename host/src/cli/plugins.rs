//! `plugins`: its commands, and what lies in the folder.

use super::args::PluginsCommand;
use super::context::Context;
use super::error::{CliError, Verdict};
use super::out::{Cell, Tone, short};
use crate::config::Config;
use crate::plugins::{PluginReport, PluginState, RESERVED_ENGINE, Wanted, discover};
use serde_json::{Value, json};
use std::path::Path;

pub(super) async fn run(context: &Context, command: PluginsCommand) -> Result<Verdict, CliError> {
    match command {
        PluginsCommand::New(args) => super::new::run(&context.out, args),
        PluginsCommand::List => list(context).await,
        PluginsCommand::Inspect { what } => super::inspect::run(context, &what).await,
        PluginsCommand::Check(args) => super::check::run(context, args).await,
        PluginsCommand::Release { id } => super::release::run(context, &id).await,
        PluginsCommand::Install(args) => super::install::run(context, &args).await,
        PluginsCommand::Update(args) => super::update::run(context, &args).await,
        PluginsCommand::Uninstall(args) => super::uninstall::run(context, &args).await,
        PluginsCommand::Enable(args) => super::enable::run(context, &args, true).await,
        PluginsCommand::Disable(args) => super::enable::run(context, &args, false).await,
        PluginsCommand::Select(args) => super::select::run(context, &args).await,
    }
}

/// What became of each file: in the running gateway, else as far as inspection goes. `true` when a gateway was asked.
pub(super) async fn reports(context: &Context) -> Result<(Vec<Value>, bool), CliError> {
    if let Some(door) = context.remote()? {
        let status = door.get("/api/engines").await?;
        let plugins = status.get("plugins").and_then(Value::as_array).cloned().unwrap_or_default();
        return Ok((plugins, true));
    }
    let config = context.config().plugins.clone();
    let mut reports = blocking(move || discover(&config)).await?;
    let wanted = wanted(context.config());
    for report in &mut reports {
        // Inspection alone does not know the slots.
        if matches!(&report.state, PluginState::Declared { reason } if reason.starts_with("not listed"))
            && report.failure.is_none()
            && wanted.iter().any(|wanted| report.offers(wanted))
        {
            report.wanted = true;
            report.state = PluginState::Declared { reason: "selected; no gateway runs".into() };
        }
    }
    Ok((reports.iter().map(document).collect(), false))
}

/// Everything that some slot lists.
fn wanted(config: &Config) -> Vec<Wanted> {
    let agents = config.agents.values();
    let engines = agents.clone().flat_map(|agent| agent.slots.context_engine.clone());
    let memory = agents.filter_map(|agent| agent.slots.memory.clone()).chain(config.plugins.slots.memory.clone());
    let shadow = config.plugins.context_engine_policy.shadow.clone();
    chain(config)
        .into_iter()
        .chain(engines)
        .chain(shadow)
        .map(Wanted::engine)
        .chain(memory.map(Wanted::memory))
        .collect()
}

pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, CliError> {
    let failed = |error| CliError::Start { what: "a thread", source: std::io::Error::other(error) };
    tokio::task::spawn_blocking(work).await.map_err(failed)
}

pub(super) fn document(report: &PluginReport) -> Value {
    serde_json::to_value(report).unwrap_or_default()
}

async fn list(context: &Context) -> Result<Verdict, CliError> {
    let out = context.out;
    let (plugins, running) = reports(context).await?;
    let chain = chain(context.config());
    if out.is_json() {
        out.document(&json!({"plugins": plugins, "chain": chain, "gateway_running": running}));
        return Ok(Verdict::Well);
    }
    if plugins.is_empty() {
        out.aside(&format!("no libraries in {}", context.config().plugins.dir.display()));
        return Ok(Verdict::Well);
    }
    let memory = context.config().plugins.slots.memory.as_deref();
    let rows: Vec<Vec<Cell>> = plugins.iter().map(|plugin| row(plugin, &chain, memory)).collect();
    out.table(&["plugin", "version", "offers", "state", "isolation", "file", "why"], &rows);
    if !running {
        out.aside("no gateway runs: the files were inspected, and none of them was run");
    }
    Ok(Verdict::Well)
}

/// The chain in effect, `legacy` when nothing is written.
pub(super) fn chain(config: &Config) -> Vec<String> {
    match config.plugins.slots.context_engine.as_slice() {
        [] => vec![RESERVED_ENGINE.to_owned()],
        chain => chain.to_vec(),
    }
}

fn row(plugin: &Value, chain: &[String], memory: Option<&str>) -> Vec<Cell> {
    let text = |pointer: &str| plugin.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let engines = strings(plugin, "/manifest/engines")
        .map(|id| if chain.iter().any(|listed| listed == id) { format!("{id} (selected)") } else { id.to_owned() });
    let providers = strings(plugin, "/manifest/memory")
        .map(|id| if memory == Some(id) { format!("{id} (memory, selected)") } else { format!("{id} (memory)") });
    let offers: Vec<String> = engines.chain(providers).collect();
    let state = text("/state");
    let tone = match state {
        "loaded" => Tone::Good,
        "refused" => Tone::Bad,
        _ => Tone::Dim,
    };
    let why = match plugin.get("failure").filter(|failure| failure.is_object()) {
        Some(_) => format!("[{}] {}: {}", text("/failure/code"), text("/failure/stage"), text("/failure/message")),
        None => text("/reason").to_owned(),
    };
    let file = Path::new(text("/file")).file_name().map(|name| name.to_string_lossy().into_owned());
    vec![
        short(text("/plugin_id"), 40).into(),
        short(text("/manifest/version"), 20).into(),
        short(&offers.join(", "), 80).into(),
        Cell::toned(state, tone),
        placement(plugin, "").into(),
        short(&file.unwrap_or_default(), 60).into(),
        short(&why, 200).into(),
    ]
}

/// Where a library runs, and why there: of a report (`at` is blank), or of an engine's status (`/library`).
pub(super) fn placement(value: &Value, at: &str) -> String {
    let text = |field: &str| value.pointer(&format!("{at}/placement/{field}")).and_then(Value::as_str);
    let place = match text("isolation") {
        None => return String::new(),
        Some("process") => "worker",
        Some(other) => other,
    };
    short(&format!("{place} ({})", text("reason").unwrap_or_default()), 200)
}

pub(super) fn strings<'v>(value: &'v Value, pointer: &str) -> impl Iterator<Item = &'v str> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

pub(super) fn find(plugins: &[Value], what: &str) -> Result<Value, CliError> {
    let names = |plugin: &Value| -> Vec<String> {
        let file = plugin.get("file").and_then(Value::as_str).map(Path::new);
        let id = plugin.get("plugin_id").and_then(Value::as_str).map(str::to_owned);
        let file_name = file.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let ids = strings(plugin, "/manifest/engines").chain(strings(plugin, "/manifest/memory"));
        id.into_iter().chain(ids.map(str::to_owned)).chain(file_name).collect()
    };
    if let Some(plugin) = plugins.iter().find(|plugin| names(plugin).iter().any(|name| name == what)) {
        return Ok(plugin.clone());
    }
    let all: Vec<String> = plugins.iter().flat_map(names).collect();
    Err(CliError::Unknown {
        what: "plugin",
        name: what.to_owned(),
        near: nearest(what, all.iter().map(String::as_str)),
    })
}

pub(super) fn nearest<'k>(text: &str, known: impl Iterator<Item = &'k str>) -> Option<String> {
    known
        .map(|name| (strsim::jaro_winkler(text, name), name))
        .filter(|(score, _)| *score >= 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_is_found_by_id_engine_or_file_and_a_near_name_is_suggested() {
        let plugins = [json!({"file": "/p/libwindow.so", "plugin_id": "win", "manifest": {"engines": ["window"]}})];
        for name in ["win", "window", "libwindow.so"] {
            assert!(find(&plugins, name).is_ok(), "{name}");
        }
        match find(&plugins, "windw").unwrap_err() {
            CliError::Unknown { near: Some(near), .. } => assert_eq!(near, "window"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn where_a_library_runs_is_told_with_the_reason() {
        let plugin = json!({"placement": {"isolation": "process", "bundled": false, "reason": "not bundled"}});
        assert_eq!(placement(&plugin, ""), "worker (not bundled)");
        assert_eq!(placement(&json!({"library": plugin}), "/library"), "worker (not bundled)");
        assert_eq!(placement(&json!({"placement": null}), ""), "");
    }

    #[test]
    fn a_refused_file_shows_its_stage_and_cause() {
        let row = row(
            &json!({"file": "/p/x.so", "state": "refused",
                    "failure": {"code": "CE210", "stage": "inspect", "message": "is empty"}}),
            &[],
            None,
        );
        assert_eq!(row.last(), Some(&Cell::from("[CE210] inspect: is empty")));
    }
}
