//! Rows of the outbox of durable turns: what was admitted and accepted, and which engine was not given it yet.
//!
//! ```text
//!  admitted ──► accepted ──► ready ──► commitTurn: committed, duplicate ──► gone
//!     │            └───────────┴──► blocked: a closed reason, never offered again by itself
//!     └──► gone: the turn failed, was stopped, or the process ended before it was accepted
//! ```

use super::{EntryId, SessionRow};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// State of an outbox row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutboxState {
    /// The user entry was admitted; the turn is not accepted.
    Admitted,
    /// The turn is accepted, in one write with its answer; its range was not read yet.
    Accepted,
    /// The range was read, is closed and within its limits: offered to `commitTurn`.
    Ready,
    /// Cannot be offered; the reason stands beside it. Only the operator ends this.
    Blocked,
}

impl OutboxState {
    /// True for a turn that is accepted and waits to be offered.
    pub fn waits(self) -> bool {
        matches!(self, OutboxState::Accepted | OutboxState::Ready)
    }
}

/// Why a row cannot be offered. Closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockedReason {
    /// The session, its agent or the admitted entry is not the one that the turn was admitted to.
    TargetChanged,
    /// An entry of the range is not in the transcript any more.
    RangeMissing,
    /// The last entry does not descend from the admitted one.
    NotDescendant,
    /// More entries or bytes than a range may have.
    TooLarge,
}

impl BlockedReason {
    /// All reasons.
    pub const ALL: [BlockedReason; 4] = [
        BlockedReason::TargetChanged,
        BlockedReason::RangeMissing,
        BlockedReason::NotDescendant,
        BlockedReason::TooLarge,
    ];

    /// The code as documents and the store spell it.
    pub const fn as_str(self) -> &'static str {
        match self {
            BlockedReason::TargetChanged => "target-changed",
            BlockedReason::RangeMissing => "range-missing",
            BlockedReason::NotDescendant => "not-descendant",
            BlockedReason::TooLarge => "too-large",
        }
    }

    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            BlockedReason::TargetChanged => "target changed after admission",
            BlockedReason::RangeMissing => "an entry of the turn is not in the transcript any more",
            BlockedReason::NotDescendant => "the answer does not descend from the admitted entry",
            BlockedReason::TooLarge => "the turn is larger than a range may be: 20,000 entries, 8 MiB",
        }
    }

    /// The reason of a code.
    pub fn of(code: &str) -> Option<BlockedReason> {
        BlockedReason::ALL.into_iter().find(|reason| reason.as_str() == code)
    }
}

/// What was true when a turn was accepted. Replayed to the engine when the turn is offered, however much later.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AcceptedFacts {
    /// Model that the request named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested: Option<String>,
    /// Model that answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Its provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Its family.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// Its window, in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// Most tokens of its answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// Tokens that the engine could use in the last assembly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<u64>,
    /// The turn was a heartbeat.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub heartbeat: bool,
    /// Generation of the transcript.
    pub generation: u64,
    /// Idempotency key of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// A row of the outbox.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OutboxRow {
    /// Key of the advancement: the id of the logical turn; unique for an engine.
    pub key: String,
    /// Registered id of the engine that it is for.
    pub engine: String,
    /// Session.
    pub session: SessionRow,
    /// Public id of the session when the turn was admitted.
    pub session_id: String,
    /// First entry of the range: the admitted user entry.
    pub first: EntryId,
    /// Last entry of the range. While the row is admitted: the last entry that a client was given an answer up to, such as
    /// calls of its own tools; 0 when it was given none.
    pub last: EntryId,
    /// Place of the first entry among the messages of its branch, from 0; `None` when it is not known.
    pub position: Option<u64>,
    /// Generation of the transcript at the admission.
    pub generation: u64,
    /// State.
    pub state: OutboxState,
    /// Why it is blocked.
    pub reason: Option<BlockedReason>,
    /// How often it was offered in vain.
    pub attempts: u32,
    /// When it was offered last, in ms since the epoch; 0 for never.
    pub attempted_ms: i64,
    /// Last error.
    pub last_error: Option<String>,
    /// What was true when the turn was accepted.
    pub facts: Option<AcceptedFacts>,
    /// Created, ms since the epoch.
    pub created_ms: i64,
}

impl OutboxRow {
    /// True for an admitted row of a turn that goes on when its client comes back.
    pub fn is_open(&self) -> bool {
        self.state == OutboxState::Admitted && self.last != 0
    }

    /// Blocks it.
    pub fn block(&mut self, reason: BlockedReason) {
        self.state = OutboxState::Blocked;
        self.reason = Some(reason);
        self.last_error = Some(reason.words().to_owned());
    }
}

/// How many rows an engine has in a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OutboxCount {
    /// Engine.
    pub engine: String,
    /// State.
    pub state: OutboxState,
    /// Rows.
    pub rows: u64,
    /// Key of the session with the oldest of them.
    pub session_key: String,
    /// When the oldest of them was admitted, in ms since the epoch.
    pub oldest_ms: i64,
}

/// The rows of one engine, for an operator.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutboxSummary {
    /// Turns that are not accepted yet.
    pub open: u64,
    /// Accepted turns that wait to be offered.
    pub waiting: u64,
    /// When the oldest of those was admitted, in ms since the epoch.
    pub waiting_since_ms: Option<i64>,
    /// Accepted turns that cannot be offered.
    pub blocked: u64,
    /// Key of a session with one of those.
    pub blocked_session: Option<String>,
}

impl OutboxSummary {
    /// By engine.
    pub fn by_engine(counts: &[OutboxCount]) -> BTreeMap<String, OutboxSummary> {
        let mut all: BTreeMap<String, OutboxSummary> = BTreeMap::new();
        for count in counts {
            let summary = all.entry(count.engine.clone()).or_default();
            match count.state {
                OutboxState::Admitted => summary.open += count.rows,
                OutboxState::Accepted | OutboxState::Ready => {
                    summary.waiting += count.rows;
                    let since = summary.waiting_since_ms.map_or(count.oldest_ms, |since| since.min(count.oldest_ms));
                    summary.waiting_since_ms = Some(since);
                }
                OutboxState::Blocked => {
                    summary.blocked += count.rows;
                    summary.blocked_session = Some(count.session_key.clone());
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_adds_up_what_waits_and_names_a_session_of_what_is_blocked() {
        let count = |state, rows, oldest_ms| OutboxCount {
            engine: "e".into(),
            state,
            rows,
            session_key: format!("{state:?}"),
            oldest_ms,
        };
        let counts = [
            count(OutboxState::Ready, 2, 9),
            count(OutboxState::Accepted, 1, 4),
            count(OutboxState::Admitted, 5, 1),
            count(OutboxState::Blocked, 3, 2),
        ];
        let expected = OutboxSummary {
            open: 5,
            waiting: 3,
            waiting_since_ms: Some(4),
            blocked: 3,
            blocked_session: Some("Blocked".into()),
        };
        assert_eq!(OutboxSummary::by_engine(&counts), BTreeMap::from([("e".to_owned(), expected)]));
    }

    #[test]
    fn reasons_are_read_as_they_are_written() {
        for reason in BlockedReason::ALL {
            assert_eq!(BlockedReason::of(reason.as_str()), Some(reason));
            assert_eq!(serde_json::to_value(reason).unwrap(), reason.as_str());
        }
        assert_eq!(BlockedReason::of("tired"), None);
    }

    #[test]
    fn facts_of_an_ordinary_turn_are_small_and_survive() {
        let facts =
            AcceptedFacts { model: Some("m".into()), budget: Some(7), generation: 1, ..AcceptedFacts::default() };
        let text = serde_json::to_string(&facts).unwrap();
        assert_eq!(text, r#"{"model":"m","budget":7,"generation":1}"#);
        assert_eq!(serde_json::from_str::<AcceptedFacts>(&text).unwrap(), facts);
        assert_eq!(serde_json::from_str::<AcceptedFacts>("{}").unwrap(), AcceptedFacts::default());
    }
}
