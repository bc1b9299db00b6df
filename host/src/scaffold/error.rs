//! Why no folder was made.

use crate::diagnostic::Diagnostic;
use std::path::PathBuf;

/// Errors of `plugins new`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScaffoldError {
    /// The name cannot be an id and a package.
    #[error("\"{name}\" cannot be the name of a plugin: {reason}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
        /// A name like it that can be used.
        near: Option<String>,
    },
    /// The template is not there in this language.
    #[error("there is no template \"{template}\" in {lang}")]
    NoTemplate {
        /// The template.
        template: &'static str,
        /// The language.
        lang: &'static str,
        /// Those that are there.
        there: &'static str,
    },
    /// Something is there already.
    #[error("{} is there already and is not an empty folder", .folder.display())]
    Occupied {
        /// The folder.
        folder: PathBuf,
    },
    /// A file cannot be written.
    #[error("cannot write {}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The archive in this binary cannot be read.
    #[error("the sources that this binary carries cannot be read")]
    Archive {
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl Diagnostic for ScaffoldError {
    fn code(&self) -> &'static str {
        match self {
            ScaffoldError::Name { .. } => "CE880",
            ScaffoldError::NoTemplate { .. } => "CE881",
            ScaffoldError::Occupied { .. } => "CE882",
            ScaffoldError::Write { .. } => "CE883",
            ScaffoldError::Archive { .. } => "CE884",
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            ScaffoldError::Name { near: Some(near), .. } => format!("did you mean \"{near}\"?"),
            ScaffoldError::Name { near: None, .. } => {
                "take a name like my-engine: lower-case letters, digits, '-' and '_', a letter first".into()
            }
            ScaffoldError::NoTemplate { there, lang, .. } => format!("in {lang} there is {there}"),
            ScaffoldError::Occupied { .. } => {
                "take another name, or another folder with --path; nothing was changed".into()
            }
            ScaffoldError::Write { .. } => "make the folder above it writable, or choose another with --path".into(),
            ScaffoldError::Archive { .. } => "this copy of the program is damaged: install it anew".into(),
        })
    }
}
