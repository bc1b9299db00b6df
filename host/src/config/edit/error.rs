//! Why an edit was not made.

use crate::config::ConfigError;
use crate::diagnostic::Diagnostic;
use std::path::PathBuf;

/// Why an edit was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The file says that someone else writes it.
    #[error("{} is managed (plugins.managed = true) and was not changed", path.display())]
    Managed {
        /// The file.
        path: PathBuf,
        /// The change to make there where it is generated.
        change: String,
    },
    /// The file or its folder cannot be written.
    #[error("{} cannot be written and was not changed", path.display())]
    NotWritable {
        /// The file.
        path: PathBuf,
        /// The change to make by hand.
        change: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file as it is, or as it would be, is not a good configuration.
    #[error("{0}")]
    Config(ConfigError),
    /// The way to the key is blocked by something that is not a table, or is written in a way that is not understood.
    #[error("{} was not changed: {key} cannot be reached in what is written there", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// Dotted key that was to be changed.
        key: String,
    },
}

impl EditError {
    /// The exact change that was not made, for the operator to make.
    pub fn change(&self) -> Option<&str> {
        match self {
            EditError::Managed { change, .. } | EditError::NotWritable { change, .. } => Some(change),
            _ => None,
        }
    }
}

impl Diagnostic for EditError {
    fn code(&self) -> &'static str {
        match self {
            EditError::Managed { .. } => "CE120",
            EditError::NotWritable { .. } => "CE121",
            EditError::Config(error) => error.code(),
            EditError::Shape { .. } => "CE122",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            EditError::Managed { .. } => Some("make this change where the file is generated".into()),
            EditError::NotWritable { .. } => {
                Some("make this change by hand, or give this user the right to write".into())
            }
            EditError::Config(error) => error.hint(),
            EditError::Shape { key, .. } => {
                let section = key.rsplit_once('.').map_or(key.as_str(), |(section, _)| section);
                Some(format!("make the change by hand, or write the section as a table: [{section}]"))
            }
        }
    }
}
