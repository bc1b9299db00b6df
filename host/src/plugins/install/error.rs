//! Why something was not installed.

use crate::diagnostic::{Diagnostic, Report};
use crate::plugins::StageFailure;
use std::path::PathBuf;
use std::time::Duration;

/// Why something was not installed; nothing was changed then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InstallError {
    /// The file itself is the reason: the stage that refused it says why.
    #[error("{name} was not accepted: {}: {failure}", failure.stage)]
    Refused {
        /// The file, as it was named.
        name: String,
        /// The stage's failure.
        failure: StageFailure,
    },
    /// What was told of it already.
    #[error("{}", .0.message)]
    Told(Report),
    /// There is no such file.
    #[error("there is no file {}", path.display())]
    NoFile {
        /// The path.
        path: PathBuf,
        /// What was probably meant.
        near: Option<String>,
    },
    /// A folder was to be copied.
    #[error("{} is a folder", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Libraries in it.
        libraries: Vec<String>,
    },
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A download without its hash.
    #[error("the hash of what is to be downloaded from {url} is not given")]
    NoHash {
        /// The address.
        url: String,
    },
    /// The hash is not one.
    #[error("{given:?} is no SHA-256")]
    BadHash {
        /// As given.
        given: String,
    },
    /// An address that is not asked.
    #[error("{url} is not asked: {why}")]
    Address {
        /// The address.
        url: String,
        /// Why not.
        why: &'static str,
    },
    /// The download failed.
    #[error("cannot download {url}: {why}")]
    Download {
        /// The address.
        url: String,
        /// Why.
        why: String,
    },
    /// What came has another hash.
    #[error("{what} has another hash than the one that was given")]
    OtherHash {
        /// What was read.
        what: String,
        /// The hash that was given.
        expected: String,
        /// The hash that was found.
        found: String,
    },
    /// An archive that is damaged, hostile or too large.
    #[error("the archive {name} cannot be used: {why}")]
    Archive {
        /// Its name.
        name: String,
        /// Why.
        why: String,
    },
    /// An archive without a library for this machine.
    #[error("{name} holds no engine for {platform}")]
    NoLibrary {
        /// Name of the archive.
        name: String,
        /// System and processor.
        platform: String,
        /// What was found in it, each with why it is none.
        found: Vec<String>,
    },
    /// An archive with several libraries for this machine.
    #[error("{name} holds several engines for this machine")]
    Several {
        /// Name of the archive.
        name: String,
        /// Their paths in it.
        found: Vec<String>,
    },
    /// A name that npm's registry cannot have.
    #[error("{spec:?} is no package of npm's registry")]
    NpmName {
        /// As given.
        spec: String,
    },
    /// npm is not there.
    #[error("npm cannot be run")]
    NoNpm {
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// npm did not bring the package.
    #[error("npm did not bring {spec}: {why}")]
    Npm {
        /// What was asked for.
        spec: String,
        /// Its last words.
        why: String,
    },
    /// Something else is in its place.
    #[error("{what}")]
    Taken {
        /// What is in the way.
        what: String,
        /// What to do.
        hint: String,
    },
    /// The folder cannot be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Another command is at work in the folder.
    #[error("another command has been changing {} for {} s", dir.display(), waited.as_secs())]
    Busy {
        /// The plugins folder.
        dir: PathBuf,
        /// How long it was waited for.
        waited: Duration,
    },
    /// Nobody noted where a file came from.
    #[error("nothing is noted about where {what} came from")]
    NoSource {
        /// The plugin.
        what: String,
    },
    /// A source that always gives the same.
    #[error("{source_text} always gives the same file")]
    FixedSource {
        /// The source.
        source_text: String,
    },
}

impl Diagnostic for InstallError {
    fn code(&self) -> &'static str {
        match self {
            InstallError::Refused { failure, .. } => failure.code,
            InstallError::Told(report) => report.code,
            InstallError::NoFile { .. } => "CE831",
            InstallError::Folder { .. } => "CE832",
            InstallError::NoHash { .. } | InstallError::BadHash { .. } => "CE833",
            InstallError::Address { .. } => "CE834",
            InstallError::Download { .. } => "CE835",
            InstallError::OtherHash { .. } => "CE836",
            InstallError::Archive { .. } => "CE837",
            InstallError::NoLibrary { .. } => "CE838",
            InstallError::Several { .. } => "CE839",
            InstallError::NpmName { .. } => "CE840",
            InstallError::NoNpm { .. } | InstallError::Npm { .. } => "CE841",
            InstallError::Taken { .. } => "CE842",
            InstallError::Write { .. } | InstallError::Unreadable { .. } => "CE843",
            InstallError::Busy { .. } => "CE844",
            InstallError::NoSource { .. } | InstallError::FixedSource { .. } => "CE845",
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            InstallError::Refused { failure, .. } => failure.hint.clone(),
            InstallError::Told(report) => return report.hint.clone(),
            InstallError::NoFile { near: Some(near), .. } => format!("did you mean {near}?"),
            InstallError::NoFile { .. } => {
                "name a library, an archive, https://… or npm:NAME; cargo puts a library into target/release/lib….so"
                    .into()
            }
            InstallError::Folder { path, libraries } => {
                let link = format!("`engineroom plugins install -l {}` links it", path.display());
                match libraries.as_slice() {
                    [] => format!("name a library; {link}"),
                    some => format!("name one of its libraries ({}); {link}", some.join(", ")),
                }
            }
            InstallError::NoHash { .. } => {
                "add --sha256 HEX, from a place that you trust more than the download; sha256sum FILE prints it".into()
            }
            InstallError::BadHash { .. } => "give its 64 hexadecimal digits; sha256sum FILE prints them".into(),
            InstallError::Address { .. } => "use https, or download it by hand and install the file".into(),
            InstallError::Download { .. } => {
                "check the address and the connection; or download it by hand and install the file".into()
            }
            InstallError::OtherHash { .. } => {
                "do not use it; compare the hash with the one that its author gives, and the address".into()
            }
            InstallError::Archive { .. } => "get it again; or unpack it yourself and install the library in it".into(),
            InstallError::NoLibrary { platform, .. } => {
                format!("get the build for {platform}; libraries of several systems lie in lib/{platform}/")
            }
            InstallError::Several { .. } => "unpack it, and install the one that you want".into(),
            InstallError::NpmName { .. } => "write npm:NAME or npm:NAME@VERSION".into(),
            InstallError::NoNpm { .. } => {
                "install Node.js, which brings npm; or download the package by hand and install its archive".into()
            }
            InstallError::Npm { .. } => "see npm's words; `npm view NAME` shows whether the package is there".into(),
            InstallError::Taken { hint, .. } => hint.clone(),
            InstallError::Write { .. } => {
                "give this user the right to write there, or run it as the folder's owner".into()
            }
            InstallError::Unreadable { .. } => "give this user the right to read it".into(),
            InstallError::Busy { .. } => "wait for it, or end it".into(),
            InstallError::NoSource { .. } => "`engineroom plugins install FILE` takes the new one".into(),
            InstallError::FixedSource { .. } => {
                "`engineroom plugins install URL --sha256 HEX` takes the new one, by its own hash".into()
            }
        })
    }

    fn report(&self) -> Report {
        let causes = match self {
            InstallError::Refused { failure, .. } => failure.causes.clone(),
            InstallError::Told(report) => report.causes.clone(),
            InstallError::OtherHash { expected, found, .. } => {
                vec![format!("given: {expected}"), format!("found: {found}")]
            }
            InstallError::NoLibrary { found, .. } | InstallError::Several { found, .. } => found.clone(),
            other => {
                let mut causes = Vec::new();
                let mut next = std::error::Error::source(other);
                while let Some(cause) = next {
                    causes.push(cause.to_string());
                    next = cause.source();
                }
                causes
            }
        };
        Report { code: self.code(), message: self.to_string(), causes, hint: self.hint() }
    }
}
