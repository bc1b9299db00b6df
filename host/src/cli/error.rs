//! Why a command did not do what it was asked.

use crate::config::ConfigError;
use crate::config::edit::EditError;
use crate::diagnostic::{Diagnostic, Report};
use std::io::ErrorKind;

/// How a command ended; the process's exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All is well.
    Well = 0,
    /// Something is degraded or failed.
    Degraded = 1,
    /// Wrong usage or configuration.
    Wrong = 2,
}

impl Verdict {
    /// The exit code.
    pub fn code(self) -> u8 {
        self as u8
    }
}

/// Errors of the command line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CliError {
    /// The configuration is wrong.
    #[error("{0}")]
    Config(ConfigError),
    /// The configuration could not be changed.
    #[error("{0}")]
    Edit(EditError),
    /// The runtime or a signal handler could not be set up.
    #[error("cannot start: {what}")]
    Start {
        /// What failed.
        what: &'static str,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: std::net::SocketAddr,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The running gateway does not answer.
    #[error("the gateway at {address} (pid {pid}) does not answer")]
    Unreachable {
        /// Its address.
        address: String,
        /// Its process.
        pid: u32,
        /// Why.
        reason: String,
    },
    /// An answer broke off.
    #[error("the answer broke off before its end")]
    Broken {
        /// Why, as far as known.
        reason: String,
    },
    /// The gateway refused a request; what it said.
    #[error("{message}")]
    Refused {
        /// HTTP status.
        status: u16,
        /// The gateway's own code, or the one of this error.
        code: String,
        /// The gateway's words.
        message: String,
        /// Its causes.
        causes: Vec<String>,
        /// Its hint.
        hint: Option<String>,
    },
    /// A file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {path}")]
    Write {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Nothing has the name that was asked for.
    #[error("there is no {what} \"{name}\"")]
    Unknown {
        /// A kind of thing.
        what: &'static str,
        /// Its name.
        name: String,
        /// The nearest known name.
        near: Option<String>,
    },
    /// A slot was to name what no library offers.
    #[error("no library offers the {what} \"{name}\"")]
    NotOffered {
        /// A kind of thing.
        what: &'static str,
        /// Its id.
        name: String,
        /// What to do instead.
        hint: String,
    },
    /// What was given makes no sense.
    #[error("{0}")]
    Usage(String),
    /// Another room says why.
    #[error("{}", .0.message)]
    Reported(Report),
}

/// What was handed over is wrong: a configuration, a recording, a library to check.
fn is_wrong_input(code: &str) -> bool {
    code.starts_with("CE1") || ["CE380", "CE382", "CE660"].contains(&code) || WRONG_USAGE.contains(&code)
}

/// Of the installation, and of a folder for an author: what makes no sense, however often it is tried.
const WRONG_USAGE: [&str; 11] =
    ["CE831", "CE832", "CE833", "CE834", "CE839", "CE840", "CE842", "CE845", "CE880", "CE881", "CE882"];

impl CliError {
    /// An error of another room.
    pub fn of(error: &(impl Diagnostic + Sized)) -> CliError {
        CliError::Reported(error.report())
    }

    /// The exit code that it stands for.
    pub fn verdict(&self) -> Verdict {
        match self {
            CliError::Config(_) | CliError::Edit(_) | CliError::Usage(_) | CliError::Read { .. } => Verdict::Wrong,
            CliError::NotOffered { .. } => Verdict::Wrong,
            CliError::Unknown { what: "plugin" | "engine, memory provider or plugin" | "check", .. } => Verdict::Wrong,
            CliError::Reported(report) if is_wrong_input(report.code) => Verdict::Wrong,
            _ => Verdict::Degraded,
        }
    }

    /// The error as the terminal and `--json` show it. Codes of a remote gateway stay what they are.
    pub fn shown(&self) -> (String, Report) {
        let report = self.report();
        let code = match self {
            CliError::Refused { code, .. } => code.clone(),
            _ => report.code.to_owned(),
        };
        (code, report)
    }
}

impl Diagnostic for CliError {
    fn code(&self) -> &'static str {
        match self {
            CliError::Config(error) => error.code(),
            CliError::Edit(error) => error.code(),
            CliError::Start { .. } => "CE801",
            CliError::Unreachable { .. } => "CE802",
            CliError::Broken { .. } => "CE803",
            CliError::Refused { .. } => "CE804",
            CliError::Read { .. } => "CE805",
            CliError::Unknown { .. } => "CE806",
            CliError::Usage(_) => "CE807",
            CliError::Listen { .. } => "CE808",
            CliError::Write { .. } => "CE818",
            CliError::NotOffered { .. } => "CE809",
            CliError::Reported(report) => report.code,
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            CliError::Unreachable { .. } => {
                Some("it may hang or be stopping: look at its log, or end it; then this command works alone".into())
            }
            CliError::Start { source, .. } => match source.kind() {
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                    Some("free space on the disk of the state folder, and start again".into())
                }
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                    Some("make the state folder writable for this user, and start again".into())
                }
                _ => None,
            },
            CliError::Listen { .. } => {
                Some("another program may listen there: change gateway.listen, or use --listen 127.0.0.1:0".into())
            }
            CliError::Broken { .. } => Some("look at the gateway's log; the same request may be repeated".into()),
            CliError::Refused { hint, .. } => hint.clone(),
            CliError::NotOffered { hint, .. } => Some(hint.clone()),
            CliError::Unknown { near: Some(near), .. } => Some(format!("did you mean \"{near}\"?")),
            CliError::Unknown { what: "session", .. } => Some("`engineroom sessions list` shows them".into()),
            CliError::Unknown { what: "plugin", .. } => Some("`engineroom plugins list` shows them".into()),
            CliError::Read { .. } => {
                Some("check the path and who may read it; `-` is standard input where a text is expected".into())
            }
            CliError::Unknown { what: "check", .. } => Some("`engineroom plugins check --list` shows them".into()),
            CliError::Usage(_) => Some("`engineroom help` shows the commands".into()),
            _ => None,
        }
    }

    fn report(&self) -> Report {
        match self {
            CliError::Config(error) => error.report(),
            CliError::Edit(error) => error.report(),
            CliError::Reported(report) => report.clone(),
            CliError::Refused { causes, message, hint, .. } => {
                Report { code: self.code(), message: message.clone(), causes: causes.clone(), hint: hint.clone() }
            }
            CliError::Broken { reason } | CliError::Unreachable { reason, .. } => {
                Report { code: self.code(), message: self.to_string(), causes: vec![reason.clone()], hint: self.hint() }
            }
            other => {
                let mut causes = Vec::new();
                let mut next = std::error::Error::source(other);
                while let Some(cause) = next {
                    causes.push(cause.to_string());
                    next = cause.source();
                }
                Report { code: self.code(), message: self.to_string(), causes, hint: self.hint() }
            }
        }
    }
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> CliError {
        CliError::Config(error)
    }
}

impl From<EditError> for CliError {
    fn from(error: EditError) -> CliError {
        CliError::Edit(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_a_full_disk_prevents_says_what_to_do() {
        let error = CliError::Start { what: "the announcement", source: ErrorKind::StorageFull.into() };
        assert_eq!(error.code(), "CE801");
        assert!(error.hint().is_some_and(|hint| hint.contains("free space")), "{error:?}");
    }
}
