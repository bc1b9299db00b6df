//! `plugins release`: what a crash holds against an engine is forgotten from the next start on.

use super::context::Context;
use super::error::{CliError, Verdict};
use super::plugins::{blocking, nearest};
use crate::ledger::{self, Crash, Sort};
use crate::plugins::{PluginReport, discover};
use serde_json::{Value, json};
use std::collections::BTreeSet;

pub(super) async fn run(context: &Context, id: &str) -> Result<Verdict, CliError> {
    let (folder, wanted) = (context.config().gateway.state_dir.clone(), id.to_owned());
    let plugins = context.config().plugins.clone();
    let release = move || {
        let reports = discover(&plugins);
        let plugin = reports.iter().find(|report| ids(report).any(|known| known == wanted));
        ledger::release(&folder, &wanted, plugin.and_then(|report| report.plugin_id.as_deref()))
    };
    let released = blocking(release)
        .await?
        .map_err(|source| CliError::Start { what: "the release: the state folder cannot be written", source })?;
    let running = context.remote()?;
    let status = match &running {
        Some(door) => Some(door.get("/api/engines").await?),
        None => None,
    };
    if released.is_empty() {
        return nothing_held(context, id, status.as_ref()).await;
    }
    let out = context.out;
    if out.is_json() {
        out.document(&json!({"released": released, "from": "the next start", "gateway_running": running.is_some()}));
        return Ok(Verdict::Well);
    }
    for crash in &released {
        out.line(&format!("released {}: {}", name(crash), crash.said()));
    }
    out.aside(match (&running, context.config().plugins.crash_ledger) {
        (_, false) => "plugins.crash_ledger is false, so nothing was held against it anyway",
        (Some(_), true) => "it counts from the next start on: restart the gateway when it suits",
        (None, true) => "the next gateway loads it again",
    });
    Ok(Verdict::Well)
}

fn name(crash: &Crash) -> String {
    let what = match crash.kind {
        Sort::Engine => "engine",
        Sort::Memory => "memory provider",
        Sort::Library => "library of plugin",
    };
    format!("{what} {} ({})", crash.id, crash.verdict)
}

/// Says what is so instead: quarantined, released before, or all well. An error for an id that nobody has.
async fn nothing_held(context: &Context, id: &str, status: Option<&Value>) -> Result<Verdict, CliError> {
    let (state, said) = match status {
        Some(status) => match in_gateway(status, id) {
            Ok(state) => (Some(state.clone()), words(id, &state)),
            Err(near) => return Err(unknown(id, near)),
        },
        None => {
            let plugins = context.config().plugins.clone();
            let reports = blocking(move || discover(&plugins)).await?;
            let known: BTreeSet<&str> = reports.iter().flat_map(ids).collect();
            if !known.contains(id) {
                return Err(unknown(id, nearest(id, known.into_iter())));
            }
            (None, format!("nothing is held against {id}: the next gateway loads it"))
        }
    };
    let out = context.out;
    if out.is_json() {
        out.document(&json!({"released": [], "state": state, "said": said, "gateway_running": status.is_some()}));
    } else {
        out.line(&said);
    }
    Ok(Verdict::Well)
}

fn words(id: &str, state: &str) -> String {
    match state {
        "quarantined" => {
            format!("{id} is quarantined, which ends with the process: a restart of the gateway is enough")
        }
        "crashed" => format!("{id} is released already: restart the gateway"),
        _ => format!("nothing is held against {id}: it is {state}"),
    }
}

fn unknown(id: &str, near: Option<String>) -> CliError {
    CliError::Unknown { what: "engine, memory provider or plugin", name: id.to_owned(), near }
}

fn ids(report: &PluginReport) -> impl Iterator<Item = &str> {
    let own = report.engines().iter().chain(report.memory()).map(String::as_str);
    own.chain(report.plugin_id.as_deref())
}

/// The state of an id in the running gateway: of an engine, a provider, or a plugin. The nearest name when it knows none.
fn in_gateway(status: &Value, id: &str) -> Result<String, Option<String>> {
    let list = |pointer: &str| status.pointer(pointer).and_then(Value::as_array).cloned().unwrap_or_default();
    let rows = [("/engines", "id"), ("/memory/providers", "id"), ("/plugins", "plugin_id")];
    let all: Vec<(String, String)> = rows
        .iter()
        .flat_map(|(pointer, key)| list(pointer).into_iter().map(move |row| (row, *key)))
        .filter_map(|(row, key)| Some((row.get(key)?.as_str()?.to_owned(), row.get("state")?.as_str()?.to_owned())))
        .collect();
    match all.iter().find(|(known, _)| known == id) {
        Some((_, state)) => Ok(state.clone()),
        None => Err(nearest(id, all.iter().map(|(known, _)| known.as_str()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_is_merely_quarantined_needs_no_more_than_a_restart() {
        let status = json!({
            "engines": [{"id": "window", "state": "quarantined"}, {"id": "legacy", "state": "ready"}],
            "memory": {"providers": [{"id": "notes", "state": "crashed"}]},
            "plugins": [{"plugin_id": "engine-window", "state": "loaded"}, {"plugin_id": null, "state": "refused"}],
        });
        let said = |id: &str| words(id, &in_gateway(&status, id).unwrap());
        assert!(said("window").contains("a restart of the gateway is enough"));
        assert!(said("notes").contains("released already"));
        assert!(said("engine-window").contains("loaded"));
        assert_eq!(in_gateway(&status, "windw").unwrap_err().as_deref(), Some("window"));
        assert_eq!(in_gateway(&json!({}), "x").unwrap_err(), None);
    }
}
