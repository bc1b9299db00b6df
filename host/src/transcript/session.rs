//! New session records, and what a session's key says.

use super::{SessionRecord, SessionRow};

/// Agent that a session key names: `agent:ID:…` gives `ID`, everything else `main`.
pub fn agent_of_key(key: &str) -> &str {
    let mut parts = key.splitn(3, ':');
    match (parts.next(), parts.next(), parts.next()) {
        (Some("agent"), Some(id), Some(_)) if !id.trim().is_empty() => id,
        _ => "main",
    }
}

impl SessionRecord {
    /// A record for a session that is not stored yet: empty, generation 1, with a fresh public id (UUID v7).
    /// `row` comes from [`super::Store::next_session`].
    pub fn new(row: SessionRow, key: impl Into<String>, now_ms: i64) -> SessionRecord {
        let key = key.into();
        let agent = agent_of_key(&key).to_owned();
        SessionRecord {
            row,
            key,
            session_id: uuid::Uuid::now_v7().to_string(),
            agent,
            head: 0,
            generation: 1,
            created_ms: now_ms,
            updated_ms: now_ms,
            entries: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::agent_of_key;

    #[test]
    fn only_keys_of_the_agent_form_name_an_agent() {
        assert_eq!(agent_of_key("agent:support:main"), "support");
        assert_eq!(agent_of_key("agent:support:direct:42"), "support");
        for other in ["agent:support", "agent::main", "agent: :main", "alice", "", "cron:agent:x:y"] {
            assert_eq!(agent_of_key(other), "main", "{other}");
        }
    }
}
