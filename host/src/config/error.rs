//! What can be wrong with a configuration, said so that it can be put right.

use crate::diagnostic::{Diagnostic, Report};
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;

/// Where a value or a mistake stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In the file; both count from 1, the column in characters.
    File {
        /// Line.
        line: usize,
        /// Column.
        column: usize,
    },
    /// In this environment variable.
    Env(String),
    /// On the command line, in this flag.
    Flag(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::File { line, column } => write!(f, "{line}:{column}"),
            Place::Env(name) => write!(f, "env {name}"),
            Place::Flag(name) => write!(f, "flag {name}"),
        }
    }
}

/// One mistake in a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Stable code.
    pub code: &'static str,
    /// Where it stands.
    pub place: Place,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
}

impl Problem {
    /// A key that no section of this name has.
    pub const UNKNOWN_KEY: &'static str = "CE110";
    /// A value of another type than the key takes.
    pub const WRONG_TYPE: &'static str = "CE111";
    /// A value that the key does not take.
    pub const WRONG_VALUE: &'static str = "CE112";
    /// An address that is not loopback, without a token.
    pub const OPEN_DOOR: &'static str = "CE113";
    /// A key that another one needs.
    pub const MISSING_KEY: &'static str = "CE114";
}

impl Serialize for Place {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file that was asked for does not exist.
    #[error("there is no configuration file {}", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is not TOML.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Column in characters, from 1.
        column: usize,
        /// What the parser says.
        message: String,
    },
    /// The file is TOML, or a variable or flag is set, but what it says is wrong; all mistakes together.
    #[error("{}", summary(path, problems))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// At least one.
        problems: Vec<Problem>,
    },
    /// The variable that holds a secret is not set.
    #[error("the environment variable {name}, named by {key}, is not set or blank")]
    SecretMissing {
        /// The variable.
        name: String,
        /// The key that names it.
        key: String,
    },
    /// The file that holds a secret cannot be used.
    #[error("the file {}, named by {key}, cannot be used: {reason}", path.display())]
    SecretFile {
        /// The file.
        path: PathBuf,
        /// The key that names it.
        key: String,
        /// Why not.
        reason: String,
        /// What mends it.
        hint: String,
    },
    /// A token that can be guessed.
    #[error("the token of [{section}] is too weak: {reason}")]
    WeakToken {
        /// The section that names it.
        section: String,
        /// Why.
        reason: String,
        /// What makes a good one.
        make: &'static str,
    },
    /// Two tokens are the same, so that nobody could say whose it is.
    #[error("[{}] and [{}] have the same token", sections[0], sections[1])]
    SameToken {
        /// Their sections.
        sections: [String; 2],
    },
}

fn located(path: &std::path::Path, problem: &Problem) -> String {
    match &problem.place {
        place @ Place::File { .. } => format!("{}:{place}: {}", path.display(), problem.message),
        place => format!("{place}: {}", problem.message),
    }
}

fn summary(path: &std::path::Path, problems: &[Problem]) -> String {
    match problems {
        [one] => located(path, one),
        many => format!("{} mistakes in the configuration {}", many.len(), path.display()),
    }
}

impl Diagnostic for ConfigError {
    fn code(&self) -> &'static str {
        match self {
            ConfigError::Missing { .. } => "CE101",
            ConfigError::Unreadable { .. } => "CE102",
            ConfigError::Syntax { .. } => "CE103",
            ConfigError::Invalid { problems, .. } => match problems.as_slice() {
                [one] => one.code,
                _ => "CE104",
            },
            ConfigError::SecretMissing { .. } => "CE105",
            ConfigError::SecretFile { .. } => "CE106",
            ConfigError::WeakToken { .. } => "CE107",
            ConfigError::SameToken { .. } => "CE108",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            ConfigError::Missing { .. } => {
                Some("check the path after --config; without --config, ./plugins.toml is read if it is there".into())
            }
            ConfigError::Unreadable { .. } => Some("check the file's owner and mode, and that it is UTF-8".into()),
            ConfigError::Syntax { .. } => Some("the file is TOML: https://toml.io".into()),
            ConfigError::Invalid { problems, .. } => match problems.as_slice() {
                [one] => one.hint.clone(),
                _ => None,
            },
            ConfigError::SecretMissing { name, key } => {
                // A named token has no other key to fall back to: what is removed is all of it.
                let remove = match key.strip_suffix(".env").filter(|section| section.starts_with("gateway.tokens.")) {
                    Some(section) => format!("[{section}]"),
                    None => key.clone(),
                };
                Some(format!("set {name} in the environment of this process, or remove {remove}"))
            }
            ConfigError::SecretFile { hint, .. } => Some(hint.clone()),
            ConfigError::WeakToken { make, .. } => Some(format!("`{make}` makes a good one")),
            ConfigError::SameToken { .. } => Some("give each of them a token of its own".into()),
        }
    }

    fn report(&self) -> Report {
        let mut causes = Vec::new();
        match self {
            ConfigError::Invalid { path, problems } if problems.len() > 1 => {
                for problem in problems {
                    let mut line = format!("[{}] {}", problem.code, located(path, problem));
                    if let Some(hint) = &problem.hint {
                        line.push_str("; ");
                        line.push_str(hint);
                    }
                    causes.push(line);
                }
            }
            ConfigError::Unreadable { source, .. } => causes.push(source.to_string()),
            _ => {}
        }
        Report { code: self.code(), message: self.to_string(), causes, hint: self.hint() }
    }
}
