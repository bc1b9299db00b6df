//! `plugins select`: which engines stand in the slot, and which memory provider.

use super::args::SelectArgs;
use super::context::Context;
use super::edited::{self, AtNextStart};
use super::error::{CliError, Verdict};
use super::plugins::{blocking, nearest};
use crate::config::edit::Change;
use crate::plugins::{Kind, PluginReport, PluginState, RESERVED_ENGINE, Wanted, discover};

pub(super) async fn run(context: &Context, args: &SelectArgs) -> Result<Verdict, CliError> {
    // Everything is checked before anything of it is written.
    let chain = if args.chain.is_empty() { Vec::new() } else { checked(&args.chain)? };
    let memory = args.memory.as_deref().map(str::trim);
    if memory == Some("") {
        return Err(CliError::Usage("name a memory provider, or \"none\"".into()));
    }
    let folder = context.config().plugins.clone();
    let reports = blocking(move || discover(&folder)).await?;
    for id in chain.iter().filter(|id| *id != RESERVED_ENGINE) {
        known(context, &reports, &Wanted::engine(id.as_str()), args.missing_ok)?;
    }
    for id in memory.iter().filter(|id| **id != "none") {
        known(context, &reports, &Wanted::memory(*id), args.missing_ok)?;
    }
    let (mut changes, mut keys) = (Vec::new(), Vec::new());
    if !chain.is_empty() {
        changes.push(Change::Select(&chain));
        keys.push("plugins.slots.contextEngine");
    }
    if let Some(provider) = memory {
        changes.push(Change::SelectMemory(provider));
        keys.push("plugins.slots.memory");
    }
    edited::make(context, &changes, &keys, args.dry_run, AtNextStart::Taken)
}

/// Somebody offers it; what keeps it from serving is said.
fn known(context: &Context, reports: &[PluginReport], wanted: &Wanted, missing_ok: bool) -> Result<(), CliError> {
    let Some(report) = reports.iter().find(|report| report.offers(wanted)) else {
        let error = unknown(context, reports, wanted);
        return if missing_ok { said(context, &error) } else { Err(error) };
    };
    let file = report.file.display();
    match (&report.failure, &report.state) {
        (Some(failure), _) => context.out.warn(&format!(
            "{wanted} will not serve as {file} is now: [{}] {}; {}",
            failure.code, failure.message, failure.hint
        )),
        (None, PluginState::Declared { reason }) if !reason.starts_with("not listed") => {
            let plugin = report.plugin_id.as_deref().unwrap_or_default();
            let remedy = match reason.starts_with("disabled") {
                true => format!("`engineroom plugins enable {plugin}`"),
                false => "see [plugins] in the configuration".into(),
            };
            context.out.warn(&format!("{wanted} will not serve, since its plugin is {reason}: {remedy}"));
        }
        _ => {}
    }
    Ok(())
}

fn said(context: &Context, error: &CliError) -> Result<(), CliError> {
    let (_, report) = error.shown();
    context.out.warn(&format!("{}; {}", report.message, report.hint.unwrap_or_default()));
    Ok(())
}

fn unknown(context: &Context, reports: &[PluginReport], wanted: &Wanted) -> CliError {
    let (what, ids): (_, fn(&PluginReport) -> &[String]) = match wanted.kind {
        Kind::Engine => ("engine", PluginReport::engines),
        Kind::Memory => ("memory provider", PluginReport::memory),
    };
    let id = wanted.id.as_str();
    // What has that name, though something else was asked for.
    let other = Wanted { kind: if wanted.kind == Kind::Engine { Kind::Memory } else { Kind::Engine }, id: id.into() };
    let as_other = reports.iter().any(|report| report.offers(&other)).then(|| match other.kind {
        Kind::Memory => format!("\"{id}\" is a memory provider: `engineroom plugins select --memory {id}`"),
        Kind::Engine => format!("\"{id}\" is an engine: `engineroom plugins select {id}`"),
    });
    let of_plugin = || {
        let plugin = reports.iter().find(|report| report.plugin_id.as_deref() == Some(id))?;
        let offers = ids(plugin);
        (!offers.is_empty()).then(|| format!("the plugin {id} offers the {what} {}", offers.join(", ")))
    };
    let known = reports.iter().flat_map(ids).map(String::as_str);
    let near = || nearest(id, known).map(|near| format!("did you mean \"{near}\"?"));
    let hint = as_other.or_else(of_plugin).or_else(near).unwrap_or_else(|| {
        let dir = context.config().plugins.dir.display();
        format!("nothing in {dir} offers it: `engineroom plugins install FILE` first, or select it all the same with --missing-ok")
    });
    CliError::NotOffered { what, name: id.to_owned(), hint }
}

fn checked(chain: &[String]) -> Result<Vec<String>, CliError> {
    let split = chain.iter().flat_map(|item| item.split(',')).map(str::trim);
    let chain: Vec<String> = split.filter(|id| !id.is_empty()).map(str::to_owned).collect();
    for (at, id) in chain.iter().enumerate() {
        if chain.iter().take(at).any(|seen| seen == id) {
            return Err(CliError::Usage(format!("\"{id}\" stands in the chain twice")));
        }
    }
    match chain.as_slice() {
        [] => Err(CliError::Usage("name at least one engine".into())),
        [one] if one == "none" => Ok(vec![RESERVED_ENGINE.to_owned()]),
        many if many.iter().any(|id| id == "none") => {
            Err(CliError::Usage("\"none\" has no place in a chain; write \"legacy\" as the last".into()))
        }
        _ => Ok(chain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(items: &[&str]) -> Vec<String> {
        items.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_chain_is_checked_before_it_is_written() {
        assert_eq!(checked(&strings(&["recall,window", "legacy"])).unwrap(), ["recall", "window", "legacy"]);
        assert_eq!(checked(&strings(&["none"])).unwrap(), ["legacy"]);
        for wrong in [&["a", "a"][..], &[","], &["a", "none"]] {
            assert_eq!(checked(&strings(wrong)).unwrap_err().verdict(), Verdict::Wrong, "{wrong:?}");
        }
    }
}
