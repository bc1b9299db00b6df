//! An engine to measure: where its library is, how it is configured and isolated.

use engineroom::config::{Config, EntryConfig, Isolation};
use engineroom::slot::{HostServices, NoServices, Slot};
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The engine that is built into the gateway.
pub const LEGACY: &str = "legacy";

/// How long an engine that was only tried may take to go.
const DISPOSE: Duration = Duration::from_secs(5);

/// An engine.
#[derive(Debug, Clone)]
pub struct Engine {
    /// The id that it is registered under, which is also that of its plugin.
    pub id: String,
    /// Libraries to find it in; none for [`LEGACY`].
    pub libraries: Vec<PathBuf>,
    /// Where it runs.
    pub isolation: Isolation,
    /// `[plugins.entries.ID.config]`.
    pub config: Map<String, Value>,
}

impl Engine {
    /// `legacy`.
    pub fn legacy() -> Engine {
        Engine { id: LEGACY.into(), libraries: Vec::new(), isolation: Isolation::InProcess, config: Map::new() }
    }

    /// Starts the engine once, as a gateway would, and lets it go. Blocks.
    ///
    /// # Errors
    ///
    /// Why it could not serve: nobody offers it, a library is refused, its configuration does not fit. With what to do.
    pub fn try_out(&self, runtime: tokio::runtime::Handle) -> Result<(), String> {
        if self.id == LEGACY {
            return Ok(());
        }
        let folder = tempfile::tempdir().map_err(|error| format!("cannot make a folder to try engines in: {error}"))?;
        let mut config = self.gateway(folder.path());
        config.gateway.state_dir = folder.path().join("state");
        let slot = Slot::new(&config, runtime);
        let services: Arc<dyn HostServices> = Arc::new(NoServices);
        slot.start(&services);
        let status = serde_json::to_value(slot.status()).map_err(|error| error.to_string())?;
        slot.dispose_all(DISPOSE);
        match why_not(&status, &self.id) {
            Some(reason) => {
                let of = match self.libraries.as_slice() {
                    [one] => format!(" of {}", one.display()),
                    _ => String::new(),
                };
                Err(format!("the engine {}{of} cannot be measured: {reason}", self.id))
            }
            None => Ok(()),
        }
    }

    /// The configuration of a gateway with this engine and no other. `folder` is an existing folder in which nothing is found;
    /// it takes no model, no memory and no plugin from elsewhere.
    pub fn gateway(&self, folder: &Path) -> Config {
        let mut config = Config::defaults(folder.join("plugins.toml"));
        config.plugins.slots.context_engine = vec![self.id.clone()];
        config.plugins.isolation = self.isolation;
        config.plugins.enabled = !self.libraries.is_empty();
        config.plugins.links.clone_from(&self.libraries);
        if config.plugins.enabled {
            let entry =
                EntryConfig { config: self.config.clone(), isolation: self.isolation, ..EntryConfig::default() };
            config.plugins.entries.insert(self.id.clone(), entry);
        }
        config
    }
}

/// Why an engine does not serve, of a slot's status: the reason, its causes, and what to do.
fn why_not(status: &Value, id: &str) -> Option<String> {
    let Some(engine) = status["engines"].as_array().into_iter().flatten().find(|engine| engine["id"] == id) else {
        return Some("nobody knows it".into());
    };
    if engine["state"] == "ready" {
        return None;
    }
    let out = &engine["quarantine"];
    let reason = [&out["reason"], &engine["reason"], &engine["code"]].into_iter().find_map(Value::as_str);
    let causes = out["causes"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let hint = out["hint"].as_str().map(|hint| format!("\n  {hint}"));
    let told: Vec<&str> = reason.into_iter().chain(causes).collect();
    Some(format!("{}{}", told.join(": "), hint.unwrap_or_default()))
}

/// File name of the library of an engine that is built in this workspace.
pub fn library_name(id: &str) -> String {
    format!("{}{}{}", std::env::consts::DLL_PREFIX, id.replace('-', "_"), std::env::consts::DLL_SUFFIX)
}

/// Reads `KEY=VALUE` settings: each a line of TOML, so `KEY` may be dotted and texts are quoted. A value that is no TOML is a
/// text.
///
/// # Errors
///
/// One sentence that names the setting.
pub fn settings(given: &[String]) -> Result<Map<String, Value>, String> {
    let mut lines = String::new();
    for setting in given {
        let (key, value) = setting.split_once('=').ok_or_else(|| format!("\"{setting}\" is not KEY=VALUE"))?;
        let line = format!("{} = {}\n", key.trim(), value.trim());
        match line.parse::<toml_edit::DocumentMut>() {
            Ok(_) => lines.push_str(&line),
            Err(_) => lines.push_str(&format!("{} = {}\n", key.trim(), toml_edit::Value::from(value.trim()))),
        }
    }
    toml_edit::de::from_str(&lines).map_err(|error| format!("the settings are no TOML: {}", error.message()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn settings_are_lines_of_toml() {
        let given = ["a=1", "b.c = true", "b.d=[0.5]", "e=\"x y\"", "f=plain words"].map(str::to_owned);
        let expected = json!({"a": 1, "b": {"c": true, "d": [0.5]}, "e": "x y", "f": "plain words"});
        assert_eq!(Value::Object(settings(&given).unwrap()), expected);
        assert!(settings(&["a".to_owned()]).unwrap_err().contains("\"a\""));
        assert!(settings(&["a=1".to_owned(), "a=2".to_owned()]).is_err());
    }

    #[test]
    fn a_library_is_named_as_cargo_names_it() {
        assert!(library_name("two-words").contains("two_words"));
    }
}
