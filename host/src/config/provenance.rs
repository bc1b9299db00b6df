//! Where each value of the configuration came from.

use super::error::Place;
use serde::Serialize;
use serde_json::Value;
use std::fmt;

/// Where a value came from, weakest first: a later source wins over an earlier one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Built in.
    Default,
    /// This line of the file.
    File {
        /// Line, from 1.
        line: usize,
    },
    /// This environment variable.
    Env(String),
    /// This flag of the command line.
    Flag(String),
}

impl From<&Place> for Source {
    fn from(place: &Place) -> Source {
        match place {
            Place::File { line, .. } => Source::File { line: *line },
            Place::Env(name) => Source::Env(name.clone()),
            Place::Flag(name) => Source::Flag(name.clone()),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Default => f.write_str("default"),
            Source::File { line } => write!(f, "file:{line}"),
            Source::Env(name) => write!(f, "env {name}"),
            Source::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

impl Serialize for Source {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One value of the configuration, as it counts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Origin {
    /// Dotted key, as the file spells it: `gateway.listen`.
    pub key: String,
    /// The value in effect; secrets within an engine's configuration are replaced by `"***"`.
    pub value: Value,
    /// Where it came from.
    pub source: Source,
}

/// Replaces what looks like a secret. The gateway's own secrets never stand in the file, but an engine's author may have
/// asked for one in `config`.
pub(crate) fn redacted(key: &str, value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            // What stands below a telling name is no less secret than what stands at it.
            let under = super::secret::telling(key);
            Value::Object(map.iter().map(|(k, v)| (k.clone(), redacted(if under { key } else { k }, v))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(|item| redacted(key, item)).collect()),
        Value::String(text) if super::secret::telling(key) => {
            Value::String(if text.is_empty() { String::new() } else { "***".into() })
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn secrets_of_an_engine_are_hidden_and_names_of_variables_are_not() {
        let shown = redacted(
            "config",
            &json!({"api_key": "k", "nested": {"Token": "t", "max_tokens": 5}, "api_key_env": "NAME", "text": "x"}),
        );
        assert_eq!(
            shown,
            json!({"api_key": "***", "nested": {"Token": "***", "max_tokens": 5}, "api_key_env": "NAME", "text": "x"})
        );
    }
}
