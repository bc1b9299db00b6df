//! What the limits of a worker must not say. An engine gets a worker so that it cannot touch what it must not; an entry that
//! hands it just that, or that asks for a sandbox where there is none, is a mistake.

use super::error::Problem;
use super::limits::SandboxMode;
use super::read::Reader;
use super::settings::ENTRIES;
use super::types::{Config, EntryConfig, Isolation, PluginsConfig};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Files of the state folder that are the gateway's alone; the folders of engines and agents are not among them.
const OWN: [&str; 6] =
    ["transcript.db", "transcript.db-wal", "transcript.db-shm", "gateway.lock", "crash-ledger", "staged"];

impl PluginsConfig {
    /// Where the entry wants its plugin: what it says itself, else what is said of all.
    pub fn asked_of(&self, entry: &EntryConfig) -> Isolation {
        match entry.isolation {
            Isolation::Auto => self.isolation,
            own => own,
        }
    }
}

impl Config {
    /// What a worker would have in its hands that could read or write below `path`: a few words, and the path of it.
    pub fn of_the_gateway(&self, path: &Path) -> Option<(&'static str, PathBuf)> {
        let (gateway, path) = (&self.gateway, real(path));
        let own = OWN.iter().map(|name| ("the gateway's own state", gateway.state_dir.join(name)));
        let tokens =
            gateway.auth_token_file.iter().chain(gateway.tokens.values().filter_map(|token| token.file.as_ref()));
        // Links may be a folder, or a library; either is loaded from.
        let links = self.plugins.links.iter().map(|link| ("a linked plugin", link.clone()));
        let mut kept = [
            ("the state folder", gateway.state_dir.clone()),
            ("the plugins folder", self.plugins.dir.clone()),
            ("the configuration", self.path.clone()),
        ]
        .into_iter()
        .chain(links)
        .chain(tokens.map(|file| ("a token", file.clone())))
        .chain(own);
        kept.find(|(what, kept)| {
            let kept = real(kept);
            // Below the state folder are folders that an engine may well have.
            kept.starts_with(&path) || (*what != "the state folder" && path.starts_with(&kept))
        })
    }
}

/// The path without links and `..`, as far as it exists.
fn real(path: &Path) -> PathBuf {
    let mut rest: Vec<OsString> = Vec::new();
    let mut here = path.to_owned();
    loop {
        if let Ok(found) = std::fs::canonicalize(&here) {
            here = found;
            break;
        }
        match here.components().next_back() {
            Some(Component::Normal(name)) => rest.push(name.to_owned()),
            Some(Component::ParentDir) => rest.push("..".into()),
            _ => break,
        }
        here.pop();
    }
    for name in rest.into_iter().rev() {
        if name == ".." {
            here.pop();
        } else {
            here.push(name);
        }
    }
    here
}

/// Looks at every entry, when all sources are read.
pub(super) fn check_limits(reader: &mut Reader<'_>) {
    let mut found = Vec::new();
    let config = &reader.config;
    for (id, entry) in &config.plugins.entries {
        let section = format!("{ENTRIES}.{id}.limits");
        if entry.limits.sandbox == SandboxMode::Required && config.plugins.asked_of(entry) == Isolation::InProcess {
            let by = match entry.isolation {
                Isolation::Auto => "plugins.isolation".to_owned(),
                _ => format!("{ENTRIES}.{id}.isolation"),
            };
            found.push((
                format!("{section}.sandbox"),
                format!("{section}.sandbox is \"required\", and {by} is \"in-process\", where there is no sandbox"),
                format!("write isolation = \"process\" in [{ENTRIES}.{id}], or remove sandbox"),
            ));
        }
        for path in &entry.limits.write {
            if let Some((what, kept)) = config.of_the_gateway(path) {
                found.push((
                    format!("{section}.write"),
                    format!(
                        "{section}.write holds {:?}, with which the engine could change {what} ({})",
                        path.display().to_string(),
                        kept.display()
                    ),
                    "give it a folder of its own; to its state folder it may write without being told".into(),
                ));
            }
        }
    }
    for (key, message, hint) in found {
        let place = reader.limit_places.get(&key).cloned().unwrap_or_else(|| reader.place(None));
        reader.problem(Problem::WRONG_VALUE, place, message, Some(hint));
    }
}
