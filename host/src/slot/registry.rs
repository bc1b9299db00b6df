//! Registration: which id belongs to whom.

use super::slot::{CORE, LEGACY};
use crate::diagnostic::Diagnostic;
use crate::observe::broken;
use std::collections::BTreeMap;

/// Why an engine cannot be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The id is blank.
    #[error("the registration has no id")]
    BlankId,
    /// The owner is blank.
    #[error("the registration of \"{id}\" has no owner")]
    BlankOwner {
        /// The id.
        id: String,
    },
    /// The id is the core's own.
    #[error("the engine id \"{id}\" is reserved by {CORE}")]
    Reserved {
        /// The id.
        id: String,
    },
    /// Another owner has the id.
    #[error("the engine id \"{id}\" is already registered by {owner}")]
    Taken {
        /// The id.
        id: String,
        /// Its owner.
        owner: String,
    },
}

impl Diagnostic for RegisterError {
    fn code(&self) -> &'static str {
        match self {
            RegisterError::BlankId => "CE320",
            RegisterError::BlankOwner { .. } => "CE321",
            RegisterError::Reserved { .. } => "CE322",
            RegisterError::Taken { .. } => "CE323",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            RegisterError::Taken { owner, .. } => Some(format!("disable {owner}, or the plugin that came second")),
            RegisterError::Reserved { .. } => Some("the engine's author must choose another id".into()),
            _ => None,
        }
    }
}

/// Owner of each id.
#[derive(Debug, Default)]
pub(crate) struct Owners(BTreeMap<String, String>);

impl Owners {
    /// Gives `id` to `owner`. The same owner may say it again, which changes nothing.
    pub(crate) fn claim(&mut self, id: &str, owner: &str) -> Result<(), RegisterError> {
        if id.trim().is_empty() && !broken("8.6") {
            return Err(RegisterError::BlankId);
        }
        if owner.trim().is_empty() && !broken("8.6") {
            return Err(RegisterError::BlankOwner { id: id.to_owned() });
        }
        if id == LEGACY && owner != CORE && !broken("8.5") {
            return Err(RegisterError::Reserved { id: id.to_owned() });
        }
        match self.0.get(id) {
            Some(known) if known != owner && !broken("8.4") || broken("8.8") => {
                Err(RegisterError::Taken { id: id.to_owned(), owner: known.clone() })
            }
            Some(_) => Ok(()),
            None => {
                self.0.insert(id.to_owned(), owner.to_owned());
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legacy_belongs_to_the_core_even_before_it_is_registered() {
        let mut owners = Owners::default();
        assert_eq!(owners.claim("legacy", "window"), Err(RegisterError::Reserved { id: "legacy".into() }));
        assert_eq!(owners.claim("legacy", CORE), Ok(()));
    }

    #[test]
    fn an_id_of_another_owner_is_refused_and_names_the_owner() {
        let mut owners = Owners::default();
        owners.claim("window", "first").unwrap();
        owners.claim("window", "first").unwrap();
        let error = owners.claim("window", "second").unwrap_err();
        assert_eq!(error.to_string(), "the engine id \"window\" is already registered by first");
    }

    #[test]
    fn blank_ids_and_owners_are_refused() {
        let mut owners = Owners::default();
        assert_eq!(owners.claim(" ", "p"), Err(RegisterError::BlankId));
        assert_eq!(owners.claim("e", ""), Err(RegisterError::BlankOwner { id: "e".into() }));
    }
}
