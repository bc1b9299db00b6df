//! `plugins.toml`: read with provenance, edit while keeping comments.
//!
//! This room knows the shape of the file and nothing of what it configures.
//! A value comes from the default, the file, an environment variable (`ENGINEROOM_SECTION_KEY`) or a flag, the later winning.

mod apart;
mod duration;
pub mod edit;
mod error;
mod given;
mod limits;
mod provenance;
mod read;
pub(crate) mod secret;
mod settings;
#[cfg(test)]
mod tests;
mod types;

pub use error::{ConfigError, Place, Problem};
pub use limits::{LimitsConfig, SandboxMode};
pub use provenance::{Origin, Source};
pub(crate) use secret::telling;
pub use secret::{Secret, Token};
pub use settings::DEADLINE_NAMES;
pub use types::*;

use read::Reader;
use settings::{AGENTS, DEADLINES, SETTINGS, TOKENS};
use std::path::{Path, PathBuf};

/// Name of the file that is read from the working folder when no other is named.
pub const DEFAULT_FILE: &str = "plugins.toml";
/// Where a package puts it: the last place that is looked at.
const SYSTEM_FOLDER: &str = "/etc/engineroom";

/// Values from the command line, the strongest source.
#[derive(Debug, Clone, Default)]
pub struct Overrides(Vec<(String, String, String)>);

impl Overrides {
    /// `flag` (as typed, `--listen`) sets the dotted key `key` to `value`. Lists are separated by commas, relative paths start
    /// at the working folder.
    pub fn set(&mut self, flag: &str, key: &str, value: impl Into<String>) {
        self.0.push((flag.to_owned(), key.to_owned(), value.into()));
    }
}

/// A configuration with what is worth knowing about it.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The values.
    pub config: Config,
    /// Where each value came from: fixed keys in the order of the sections, then entries and agents.
    pub origins: Vec<Origin>,
    /// Remarks for the operator; none of them is an error.
    pub notes: Vec<String>,
    /// False when there is no file and every value is a default, a variable or a flag.
    pub from_file: bool,
}

/// Reads the configuration.
///
/// `path` is what `--config` names; without it `plugins.toml` of the working folder is read, else that of the user's
/// configuration folder, else that of the system's. When there is none the defaults count, with a note. Mistakes are collected
/// and returned together.
pub fn load(path: Option<&Path>, overrides: &Overrides) -> Result<Loaded, ConfigError> {
    let working = std::env::current_dir().unwrap_or_default();
    let env = |name: &str| std::env::var(name).ok();
    let found = path.is_none().then(|| elsewhere(&env, &working, Path::new(SYSTEM_FOLDER))).flatten();
    load_from(path.or(found.as_deref()), overrides, &env, &working)
}

/// The file that counts where the working folder has none.
fn elsewhere(env: &dyn Fn(&str) -> Option<String>, working: &Path, system: &Path) -> Option<PathBuf> {
    if working.join(DEFAULT_FILE).exists() {
        return None;
    }
    let user = user_folder(env, "XDG_CONFIG_HOME", ".config");
    [user, Some(system.to_path_buf())]
        .into_iter()
        .flatten()
        .map(|dir| dir.join(DEFAULT_FILE))
        .find(|file| file.is_file())
}

/// [`load`] with its surroundings handed in: the environment and the working folder.
pub fn load_from(
    path: Option<&Path>,
    overrides: &Overrides,
    env: &dyn Fn(&str) -> Option<String>,
    working: &Path,
) -> Result<Loaded, ConfigError> {
    let file = working.join(path.unwrap_or(Path::new(DEFAULT_FILE)));
    let mut notes = Vec::new();
    let text = match std::fs::read_to_string(&file) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => match path {
            Some(_) => return Err(ConfigError::Missing { path: file }),
            None => {
                notes.push(nothing_configured(env, working));
                None
            }
        },
        Err(source) => return Err(ConfigError::Unreadable { path: file, source }),
    };
    let from_file = text.is_some();
    let text = text.unwrap_or_default();
    let document = toml_edit::Document::parse(text.as_str()).map_err(|error| {
        let Place::File { line, column } = read::position(&text, error.span().map_or(0, |span| span.start)) else {
            return ConfigError::Syntax { path: file.clone(), line: 1, column: 1, message: error.message().into() };
        };
        // The parser's message may have several lines; the first says what, the rest what it would have liked.
        let message = error.message().trim().replace('\n', ", ");
        ConfigError::Syntax { path: file.clone(), line, column, message }
    })?;

    let base = file.parent().map(Path::to_path_buf).unwrap_or_default();
    let mut config = Config::defaults(file.clone());
    let user = default_state_dir(env);
    let homeless = user.is_none();
    if let Some(dir) = user {
        config.gateway.state_dir = dir;
    }
    let mut reader = Reader::new(config, &text, &base);
    reader.file(document.as_table());
    reader.environment(env, working);
    for (flag, key, value) in &overrides.0 {
        reader.flag(key, value, flag, working);
    }
    reader.agents();
    check_whole(&mut reader);
    let Reader { config, places, problems, .. } = reader;
    if homeless && !places.contains_key("gateway.state_dir") {
        notes.push("no home folder is known, so the state folder is beside the configuration".into());
    }
    if !problems.is_empty() {
        return Err(ConfigError::Invalid { path: file, problems });
    }
    let origins = origins(&config, &places);
    Ok(Loaded { config, origins, notes, from_file })
}

/// Rules over more than one key.
fn check_whole(reader: &mut Reader<'_>) {
    let gateway = &reader.config.gateway;
    if !gateway.listen.ip().is_loopback() && !gateway.has_token() {
        let place = reader.places.get("gateway.listen").cloned().unwrap_or_else(|| reader.place(None));
        reader.problem(
            Problem::OPEN_DOOR,
            place,
            format!(
                "gateway.listen is {}, which is not loopback, and no token is configured",
                gateway.listen
            ),
            Some("name the token's variable in gateway.auth_token_env or its file in gateway.auth_token_file, or listen on 127.0.0.1".into()),
        );
    }
    check_tokens(reader);
    check_shadow(reader);
    apart::check_limits(reader);
    let gateway = reader.config.model.clone();
    check_model(reader, "", &gateway);
    check_host(reader, "", &gateway);
    let own = reader.config.agents.iter().filter_map(|(id, agent)| Some((id.clone(), agent.model.clone()?)));
    for (id, model) in own.collect::<Vec<_>>() {
        // One that only inherits the mistake is not told of it again.
        if (model.max_output_tokens, model.context_window) != (gateway.max_output_tokens, gateway.context_window) {
            check_model(reader, &format!("{AGENTS}.{id}."), &model);
        }
        if host_key(&model) != host_key(&gateway) || model.provider != gateway.provider {
            check_host(reader, &format!("{AGENTS}.{id}."), &model);
        }
    }
}

/// Each token comes from one place, and a named one says whom it is for.
fn check_tokens(reader: &mut Reader<'_>) {
    let gateway = reader.config.gateway.clone();
    if gateway.auth_token_env.is_some() && gateway.auth_token_file.is_some() {
        let place = reader.places.get("gateway.auth_token_file").cloned().unwrap_or_else(|| reader.place(None));
        let message = "gateway.auth_token_env and gateway.auth_token_file are both set".into();
        reader.problem(Problem::WRONG_VALUE, place, message, Some("the token comes from one place: remove one".into()));
    }
    for (name, token) in &gateway.tokens {
        let section = format!("{TOKENS}.{name}");
        let place = |field: &str| reader.places.get(&format!("{section}.{field}")).cloned();
        let place = ["file", "env", "agents"].iter().find_map(|field| place(field));
        let place = place.unwrap_or_else(|| reader.place(None));
        let source = match (&token.env, &token.file) {
            (Some(_), Some(_)) => Some((Problem::WRONG_VALUE, format!("{section} has both env and file"))),
            (None, None) => Some((Problem::MISSING_KEY, format!("{section} has neither env nor file"))),
            _ => None,
        };
        if let Some((code, message)) = source {
            let hint = "name the variable in env, or the file in file".to_owned();
            reader.problem(code, place.clone(), message, Some(hint));
        }
        if token.agents.is_empty() {
            let hint = "list the agents that it may use, or write agents = [\"*\"]".to_owned();
            let (code, place, what) = match reader.places.get(&format!("{section}.agents")).cloned() {
                Some(place) => (Problem::WRONG_VALUE, place, "names no agent"),
                None => (Problem::MISSING_KEY, place, "is missing"),
            };
            reader.problem(code, place, format!("{section}.agents {what}"), Some(hint));
        }
    }
}

/// An engine serves or watches, not both: else one session would be entered twice at once.
fn check_shadow(reader: &mut Reader<'_>) {
    const KEY: &str = "plugins.policy.contextEngine.shadow";
    let config = &reader.config;
    let Some(shadow) = config.plugins.context_engine_policy.shadow.clone() else { return };
    let agents = config.agents.iter().map(|(id, agent)| (format!("{AGENTS}.{id}.slots.contextEngine"), &agent.slots));
    let main = ("plugins.slots.contextEngine".to_owned(), &config.plugins.slots);
    // Without a word the gateway's chain is `legacy`; an agent's is the gateway's.
    let unsaid = config.plugins.slots.context_engine.is_empty() && shadow == "legacy";
    let by_default = |chain: &[String]| unsaid && chain.is_empty();
    let mut chains = std::iter::once(main).chain(agents);
    let Some((chain, _)) =
        chains.find(|(_, slots)| slots.context_engine.contains(&shadow) || by_default(&slots.context_engine))
    else {
        return;
    };
    let place = reader.places.get(KEY).cloned().unwrap_or_else(|| reader.place(None));
    let message = format!("{KEY} is {shadow:?}, which {chain} lists: an engine serves or watches");
    reader.problem(Problem::WRONG_VALUE, place, message, Some("take it out of one of them".into()));
}

/// `front`: what stands before `model` in the dotted keys.
fn check_model(reader: &mut Reader<'_>, front: &str, model: &ModelConfig) {
    if model.max_output_tokens < model.context_window {
        return;
    }
    let keys = [format!("{front}model.max_output_tokens"), format!("{front}model.context_window")];
    let place = keys.iter().find_map(|key| reader.places.get(key)).cloned().unwrap_or_else(|| reader.place(None));
    let message = format!(
        "{} ({}) must be smaller than {} ({})",
        keys[0], model.max_output_tokens, keys[1], model.context_window
    );
    reader.problem(Problem::WRONG_VALUE, place, message, None);
}

/// The key that a provider needs and the section lacks, with what to do.
fn host_key(model: &ModelConfig) -> Option<(&'static str, &'static str)> {
    match model.provider.as_str() {
        "cli" if model.command.is_empty() => {
            Some(("command", "write command = [\"PROGRAM\", \"ARGUMENT\"]; the turn comes on its standard input"))
        }
        "thread" if model.base_url.is_none() => {
            Some(("base_url", "write the address of the Responses endpoint, up to and including /v1"))
        }
        _ => None,
    }
}

/// `front`: as in [`check_model`].
fn check_host(reader: &mut Reader<'_>, front: &str, model: &ModelConfig) {
    let Some((missing, hint)) = host_key(model) else { return };
    let keys = [format!("{front}model.provider"), "model.provider".to_owned()];
    let place = keys.iter().find_map(|key| reader.places.get(key)).cloned().unwrap_or_else(|| reader.place(None));
    let message = format!("{front}model.{missing} is missing, which provider \"{}\" needs", model.provider);
    reader.problem(Problem::MISSING_KEY, place, message, Some(hint.into()));
}

/// The user's state folder: `$XDG_STATE_HOME/engineroom` or `~/.local/state/engineroom`; on macOS
/// `~/Library/Application Support/engineroom`.
fn default_state_dir(env: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    user_folder(env, "XDG_STATE_HOME", ".local/state")
}

/// The user's folder of a kind for this program: what the variable names, else one below the home folder.
fn user_folder(env: &dyn Fn(&str) -> Option<String>, variable: &str, below_home: &str) -> Option<PathBuf> {
    let folder = |name: &str| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || folder("HOME");
    if cfg!(target_os = "macos") {
        return Some(home()?.join("Library/Application Support/engineroom"));
    }
    Some(folder(variable).or_else(|| Some(home()?.join(below_home)))?.join("engineroom"))
}

/// What it means that there is no file, and what to do for an engine.
fn nothing_configured(env: &dyn Fn(&str) -> Option<String>, working: &Path) -> String {
    let everywhere = user_folder(env, "XDG_CONFIG_HOME", ".config")
        .map(|folder| format!("; {} counts wherever a command is started", folder.join(DEFAULT_FILE).display()))
        .unwrap_or_default();
    format!(
        "no {DEFAULT_FILE} in {}: the defaults count, the model is the offline one, and legacy serves. For an engine put its \
         library into the folder that [plugins] dir names and its id into [plugins.slots] contextEngine{everywhere}",
        working.display()
    )
}

fn origins(config: &Config, places: &std::collections::BTreeMap<String, Place>) -> Vec<Origin> {
    let source = |key: &str| places.get(key).map_or(Source::Default, Source::from);
    let mut out: Vec<Origin> = SETTINGS
        .iter()
        .map(|setting| {
            let value = match setting.key {
                // Not written is the default, `legacy`; shown as what it means.
                "plugins.slots.contextEngine" if config.plugins.slots.context_engine.is_empty() => "legacy".into(),
                _ => (setting.show)(config),
            };
            Origin { key: setting.key.into(), value, source: source(setting.key) }
        })
        .collect();
    for (name, ms) in &config.plugins.deadlines {
        let key = format!("{DEADLINES}.{name}_ms");
        out.push(Origin { source: source(&key), value: (*ms).into(), key });
    }
    for (key, place) in places {
        let value = if let Some(rest) = key.strip_prefix("plugins.entries.") {
            entry_value(config, rest)
        } else if let Some(rest) = key.strip_prefix("gateway.tokens.") {
            token_value(config, rest)
        } else if let Some(rest) = key.strip_prefix("agents.") {
            agent_value(config, rest)
        } else {
            continue;
        };
        out.push(Origin { key: key.clone(), value, source: Source::from(place) });
    }
    out
}

/// Where a token comes from and whom it is for: never the token.
fn token_value(config: &Config, rest: &str) -> serde_json::Value {
    let found = rest.rsplit_once('.').and_then(|(name, field)| Some((config.gateway.tokens.get(name)?, field)));
    let Some((token, field)) = found else { return serde_json::Value::Null };
    serde_json::to_value(token).ok().and_then(|whole| whole.get(field).cloned()).unwrap_or_default()
}

fn entry_value(config: &Config, rest: &str) -> serde_json::Value {
    let found = rest.rsplit_once('.').and_then(|(id, field)| Some((config.plugins.entries.get(id)?, field)));
    let Some((entry, field)) = found else { return serde_json::Value::Null };
    let whole = serde_json::to_value(entry).unwrap_or_default();
    provenance::redacted(field, whole.get(field).unwrap_or(&serde_json::Value::Null))
}

fn agent_value(config: &Config, rest: &str) -> serde_json::Value {
    // An id may hold dots itself.
    let known = config.agents.iter().filter_map(|(id, agent)| {
        let key = rest.strip_prefix(id.as_str())?.strip_prefix('.')?;
        Some((id, agent, key))
    });
    let Some((id, agent, key)) = known.max_by_key(|(id, ..)| id.len()) else { return serde_json::Value::Null };
    match key {
        "slots.contextEngine" => serde_json::json!(agent.slots.context_engine),
        "slots.memory" => serde_json::json!(agent.slots.memory),
        "workspace_dir" => serde_json::json!(agent.workspace_dir),
        key => match SETTINGS.iter().find(|setting| setting.key == key) {
            Some(setting) => (setting.show)(&read::as_agent(config, id)),
            None => serde_json::Value::Null,
        },
    }
}
