//! Changes to `plugins.toml` that leave everything else in it as it is, byte by byte.

mod chain;
#[cfg(test)]
mod corpus;
mod error;
mod items;
#[cfg(test)]
mod tests;
mod text;
mod write;

pub use error::EditError;
pub(crate) use write::replace;

use std::path::{Path, PathBuf};
use text::Text;
use toml_edit::{Item, Value};

/// What an edit did.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Edited {
    /// The file, as it was named (a link stays a link).
    pub path: PathBuf,
    /// The lines that went and came, `-` and `+`; empty when the file already said so.
    pub change: String,
    /// False when the file already said so and was left alone.
    pub changed: bool,
    /// True when the file did not exist before.
    pub created: bool,
    /// True when the change was only worked out, and nothing was written.
    pub dry_run: bool,
}

/// One thing to change.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a> {
    /// `plugins.slots.contextEngine`: an engine id or, with several, a chain.
    Select(&'a [String]),
    /// `plugins.slots.memory`: a provider id, or "none".
    SelectMemory(&'a str),
    /// What is gone leaves every slot, the agents' too: a chain goes on without it, an empty one becomes `legacy`, the memory
    /// slot becomes "none", and nobody watches any more.
    ResetSlots {
        /// Engine ids.
        engines: &'a [String],
        /// Memory provider ids.
        memory: &'a [String],
    },
    /// `plugins.entries.ID.enabled`. A plugin of which nothing is said is enabled.
    Enable(&'a str, bool),
    /// A path of `plugins.links` more.
    Link(&'a Path),
    /// Every path of `plugins.links` that leads to this one less. Relative ones start at the file's folder.
    Unlink(&'a Path),
    /// `plugins.entries.ID` with all that stands in it.
    Forget(&'a str),
}

/// Makes changes, all of them or none. The file is made when there is none and something is to be written.
pub fn edit(path: &Path, changes: &[Change<'_>], dry_run: bool) -> Result<Edited, EditError> {
    write::edit(path, dry_run, |text| changes.iter().try_for_each(|change| apply(text, path, *change)))
}

const CHAIN: [&str; 3] = ["plugins", "slots", "contextEngine"];
const MEMORY: [&str; 3] = ["plugins", "slots", "memory"];
const SHADOW: [&str; 4] = ["plugins", "policy", "contextEngine", "shadow"];
const LINKS: [&str; 2] = ["plugins", "links"];

fn apply(text: &mut Text, file: &Path, change: Change<'_>) -> Result<(), String> {
    match change {
        Change::Select(ids) => put_chain(text, &CHAIN, ids),
        Change::SelectMemory(id) => put_string(text, &MEMORY, id),
        Change::ResetSlots { engines, memory } => reset_slots(text, engines, memory),
        Change::Enable(plugin, enabled) => {
            let key = ["plugins", "entries", plugin, "enabled"];
            match text.boolean(&key) {
                Some(said) if said == enabled => Ok(()),
                None if enabled => Ok(()),
                _ => text.set(&key, if enabled { "true" } else { "false" }),
            }
        }
        Change::Link(path) => match link_number(text, file, path) {
            Some(_) => Ok(()),
            None => text.push(&LINKS, &Value::from(path.to_string_lossy().as_ref()).to_string()),
        },
        Change::Unlink(path) => {
            while let Some(number) = link_number(text, file, path) {
                text.take_out(&LINKS, number)?;
            }
            Ok(())
        }
        Change::Forget(plugin) => text.remove(&["plugins", "entries", plugin]),
    }
}

fn put_chain(text: &mut Text, key: &[&str], ids: &[String]) -> Result<(), String> {
    match text.written(key).map(|old| chain::instead_of(old, ids)) {
        Some(None) => Ok(()),
        Some(Some(new)) => text.set(key, &new),
        None => text.set(key, &chain::fresh(ids)),
    }
}

fn put_string(text: &mut Text, key: &[&str], value: &str) -> Result<(), String> {
    match text.at(key, |item| item.as_str() == Some(value)) {
        Some(true) => Ok(()),
        _ => text.set(key, &Value::from(value).to_string()),
    }
}

fn reset_slots(text: &mut Text, engines: &[String], memory: &[String]) -> Result<(), String> {
    let shadow = text.at(&SHADOW, |item| item.as_str().map(|id| id.trim().to_owned())).flatten();
    if shadow.is_some_and(|shadow| engines.contains(&shadow)) {
        text.remove(&SHADOW)?;
    }
    without(text, &CHAIN, engines, "legacy")?;
    without(text, &MEMORY, memory, "none")?;
    for agent in text.keys(&["agents"]) {
        without(text, &["agents", &agent, "slots", "contextEngine"], engines, "legacy")?;
        without(text, &["agents", &agent, "slots", "memory"], memory, "none")?;
    }
    Ok(())
}

/// Takes the ids that are gone out of a slot's value; `default` when nothing is left of it.
fn without(text: &mut Text, key: &[&str], gone: &[String], default: &str) -> Result<(), String> {
    let Some(written) = text.written(key) else { return Ok(()) };
    let ids = chain::ids(written);
    let mut left: Vec<String> = ids.iter().filter(|id| !gone.iter().any(|gone| gone == id.trim())).cloned().collect();
    if left.len() == ids.len() {
        return Ok(());
    }
    if left.is_empty() {
        left.push(default.to_owned());
    }
    put_chain(text, key, &left)
}

/// The number of the link that leads to `path`.
fn link_number(text: &Text, file: &Path, path: &Path) -> Option<usize> {
    let base = std::path::absolute(file).ok()?;
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let wanted = real(path);
    let leads_there = |item: &Value| {
        let link = item.as_str().map(str::trim).filter(|link| !link.is_empty());
        link.and_then(|link| Some(real(&base.parent()?.join(link)) == wanted)).unwrap_or(false)
    };
    text.at(&LINKS, |item: &Item| item.as_array()?.iter().position(leads_there)).flatten()
}
