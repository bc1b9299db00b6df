//! `plugins update`: what is installed is taken again from where it came.

use super::args::UpdateArgs;
use super::context::Context;
use super::error::{CliError, Verdict};
use super::install::{examined, refused};
use super::out::{Cell, Tone, short};
use super::plugins::{blocking, nearest};
use crate::diagnostic::Diagnostic;
use crate::plugins::install::{self, InstallError, Source};
use crate::plugins::{Pin, Pins, discover};
use serde::Serialize;
use std::path::PathBuf;

/// What became of one plugin.
#[derive(Debug, Serialize)]
struct Row {
    plugin: String,
    file: PathBuf,
    source: Option<String>,
    /// `updated`, `same`, `would update` or `failed`.
    state: &'static str,
    from: Version,
    to: Option<Version>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<crate::diagnostic::Report>,
}

#[derive(Debug, Serialize)]
struct Version {
    sha256: String,
    version: Option<String>,
}

pub(super) async fn run(context: &Context, args: &UpdateArgs) -> Result<Verdict, CliError> {
    let dir = context.config().plugins.dir.clone();
    let pins = blocking(move || Pins::read(&dir))
        .await?
        .map_err(|failure| refused(InstallError::Refused { name: crate::plugins::LOCK_FILE.into(), failure }))?;
    let wanted: Vec<(&String, &Pin)> = match &args.id {
        Some(id) => pins.of_plugin(id).collect(),
        None => pins.files.iter().collect(),
    };
    if let (Some(id), true) = (&args.id, wanted.is_empty()) {
        return Err(not_installed(context, &pins, id).await?);
    }
    let mut rows = Vec::new();
    for (name, pin) in wanted {
        let row = one(context, name, pin, args.dry_run).await;
        match row {
            // Alone it is an error like any other.
            Err(error) if args.id.is_some() => return Err(refused(error)),
            Err(error) => rows.push(Row { error: Some(error.report()), ..row_of(context, name, pin, "failed") }),
            Ok(row) => rows.push(row),
        }
    }
    told(context, args, &rows);
    Ok(if rows.iter().any(|row| row.error.is_some()) { Verdict::Degraded } else { Verdict::Well })
}

/// Nothing of that id is in the lock: it may lie in the folder all the same.
async fn not_installed(context: &Context, pins: &Pins, id: &str) -> Result<CliError, CliError> {
    let plugins = context.config().plugins.clone();
    let wanted = id.to_owned();
    let found = blocking(move || {
        discover(&plugins).into_iter().find(|report| report.plugin_id.as_deref() == Some(wanted.as_str()))
    });
    Ok(match found.await? {
        Some(_) => refused(InstallError::NoSource { what: format!("the plugin {id}") }),
        None => {
            let known = pins.files.values().map(|pin| pin.plugin.as_str());
            CliError::Unknown { what: "plugin", name: id.to_owned(), near: nearest(id, known) }
        }
    })
}

fn row_of(context: &Context, name: &str, pin: &Pin, state: &'static str) -> Row {
    Row {
        plugin: pin.plugin.clone(),
        file: context.config().plugins.dir.join(name),
        source: pin.source.clone(),
        state,
        from: Version { sha256: pin.sha256.clone(), version: pin.version.clone() },
        to: None,
        error: None,
    }
}

async fn one(context: &Context, name: &str, pin: &Pin, dry_run: bool) -> Result<Row, InstallError> {
    let Some(text) = &pin.source else {
        return Err(InstallError::NoSource { what: format!("the plugin {}", pin.plugin) });
    };
    if text.contains("://") {
        return Err(InstallError::FixedSource { source_text: text.clone() });
    }
    let source = Source::parse(text, None)?;
    let parcel = source.take(None, false).await?;
    let internal = |error: CliError| InstallError::Download { url: text.clone(), why: error.to_string() };
    let examined = match examined(context, parcel).await {
        Ok(examined) => examined,
        // As told by the stage that refused it.
        Err(CliError::Reported(report)) => return Err(InstallError::Told(report)),
        Err(error) => return Err(internal(error)),
    };
    if examined.manifest.plugin_id != pin.plugin {
        return Err(InstallError::Taken {
            what: format!("{text} is the plugin {} now, no more {}", examined.manifest.plugin_id, pin.plugin),
            hint: "see whether the source is still the right one; `engineroom plugins install` takes it as what it is"
                .into(),
        });
    }
    let config = context.config().clone();
    let put = blocking(move || install::put(&config, &examined, &source, dry_run)).await.map_err(internal)?;
    let installed = put?;
    let state = match (installed.changed, dry_run) {
        (false, _) => "same",
        (true, true) => "would update",
        (true, false) => "updated",
    };
    let to = Version { sha256: installed.sha256, version: installed.version };
    Ok(Row { to: Some(to), ..row_of(context, name, pin, state) })
}

fn told(context: &Context, args: &UpdateArgs, rows: &[Row]) {
    let out = context.out;
    if out.is_json() {
        out.document(&serde_json::json!({
            "plugins": rows, "dry_run": args.dry_run, "gateway_running": context.running().is_some(),
        }));
        return;
    }
    if rows.is_empty() {
        out.aside("nothing was installed by `plugins install`, so there is nothing to update");
        return;
    }
    let version = |of: &Version| {
        let hash = of.sha256.get(..12).unwrap_or_default();
        of.version.as_ref().map_or(hash.to_owned(), |version| format!("{} ({hash})", short(version, 30)))
    };
    let cells = |row: &Row| -> Vec<Cell> {
        let tone = match row.state {
            "failed" => Tone::Bad,
            "same" => Tone::Dim,
            _ => Tone::Good,
        };
        let why = row.error.as_ref().map_or(String::new(), |report| {
            format!("[{}] {}; {}", report.code, report.message, report.hint.as_deref().unwrap_or_default())
        });
        vec![
            row.plugin.as_str().into(),
            Cell::toned(row.state, tone),
            version(&row.from).into(),
            row.to.as_ref().map_or(String::new(), version).into(),
            short(row.source.as_deref().unwrap_or_default(), 100).into(),
            short(&why, 300).into(),
        ]
    };
    out.table(&["plugin", "state", "was", "is", "source", "why"], &rows.iter().map(cells).collect::<Vec<_>>());
    let updated = rows.iter().any(|row| row.state == "updated");
    match context.running() {
        Some(running) if updated => out.aside(&format!(
            "the running gateway (pid {}) goes on with what it has: restart it when it suits",
            running.pid
        )),
        None if updated => out.aside("the next start takes it"),
        _ => {}
    }
}
