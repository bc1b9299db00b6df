//! Who asks, and which sessions are theirs.
//!
//! A session's key may name an agent (`agent:NAME:…`), and with it the model, the engines, the memory and the history of that
//! agent. So a client's token says which agents it may name. There is one way from a text to a [`SessionKey`], and it checks.

use super::ApiError;
use crate::config::Token;
use crate::transcript::agent_of_key;
use std::sync::Arc;

/// Longest session key, in bytes.
pub(super) const LONGEST_KEY: usize = 512;
/// Stands for every agent.
const EVERY: &str = "*";

/// Whoever sent a request.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    agents: Arc<[String]>,
}

impl Caller {
    /// Who may use these agents.
    pub(super) fn new(agents: &[String]) -> Caller {
        Caller { agents: agents.into() }
    }

    /// Whoever carries this token.
    pub(super) fn of(token: &Token) -> Caller {
        Caller::new(&token.agents)
    }

    /// Nobody in particular: may use no agent.
    pub(super) fn nobody() -> Caller {
        Caller::new(&[])
    }

    /// True for who may use every agent: the operator, who also sees what belongs to no session.
    pub(super) fn unlimited(&self) -> bool {
        self.agents.iter().any(|agent| agent == EVERY)
    }

    /// True when sessions of this agent are theirs.
    pub(super) fn may_use(&self, agent: &str) -> bool {
        self.agents.iter().any(|known| known == EVERY || known == agent)
    }

    /// The key of a session that they may use. `param` is where it stood.
    ///
    /// # Errors
    /// [`ApiError::Invalid`] for what is no key, [`ApiError::Agent`] for one of an agent that is not theirs.
    pub(super) fn session(&self, key: String, param: &str) -> Result<SessionKey, ApiError> {
        usable(&key, param)?;
        self.agent(agent_of_key(&key))?;
        Ok(SessionKey(key))
    }

    /// That sessions of this agent are theirs.
    ///
    /// # Errors
    /// [`ApiError::Agent`].
    pub(super) fn agent(&self, agent: &str) -> Result<(), ApiError> {
        if self.may_use(agent) { Ok(()) } else { Err(ApiError::Agent { agent: agent.to_owned() }) }
    }
}

/// That a text can be a key: bounded, and nothing in it that a header, a log line or a file name could trip over.
///
/// # Errors
/// [`ApiError::Invalid`].
pub(super) fn usable(text: &str, name: &str) -> Result<(), ApiError> {
    if text.len() > LONGEST_KEY {
        return Err(ApiError::invalid(format!("{name} is longer than {LONGEST_KEY} bytes"), name));
    }
    if text.chars().any(char::is_control) {
        return Err(ApiError::invalid(format!("{name} holds a control character"), name));
    }
    Ok(())
}

/// A key that its caller may use. Only [`Caller::session`] makes one.
#[derive(Debug, Clone)]
pub(super) struct SessionKey(String);

impl SessionKey {
    pub(super) fn into_string(self) -> String {
        self.0
    }

    /// The agent that it names.
    pub(super) fn agent(&self) -> &str {
        agent_of_key(&self.0)
    }
}

impl std::ops::Deref for SessionKey {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(agents: &[&str]) -> Caller {
        Caller::new(&agents.iter().map(|&agent| agent.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_key_is_of_the_agent_that_it_names_and_else_of_main() {
        let support = caller(&["support"]);
        for mine in ["agent:support:x", "agent:support:", "agent:support:agent:main:x"] {
            assert!(support.session(mine.into(), "k").is_ok(), "{mine}");
        }
        for other in
            ["x", "agent:main:x", "agent:support", "agent: support:x", "AGENT:support:x", "agent:supports:x", ""]
        {
            let refused = support.session(other.into(), "k").unwrap_err();
            assert_eq!(refused.status(), 403, "{other}");
        }
        assert!(caller(&["*"]).session("agent:any:x".into(), "k").is_ok());
        assert!(Caller::nobody().session("x".into(), "k").is_err());
    }

    #[test]
    fn what_is_no_key_is_refused_whoever_asks() {
        for wrong in ["a\0b", "a\nb", "a\u{7f}", "a\u{85}", &"x".repeat(LONGEST_KEY + 1)] {
            assert_eq!(caller(&["*"]).session(wrong.into(), "k").unwrap_err().status(), 400, "{wrong:?}");
        }
    }
}
