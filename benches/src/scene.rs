//! What the benches of single hooks call with.

use engine_abi::wire::{EntryHeadV1, entry_flags, role};
use engineroom::slot::{NoServices, SegmentContext, SessionFacts};
use std::sync::Arc;

/// A session whose context may have 8,000 tokens, without services.
pub fn context() -> SegmentContext {
    let facts = SessionFacts { session_id: "bench".into(), token_budget: Some(8_000), ..SessionFacts::default() };
    SegmentContext::new(facts, Arc::new(NoServices))
}

/// One row of a history: users and assistants in turn, 40 tokens each.
pub fn head(id: u64) -> EntryHeadV1 {
    let user = id % 2 == 1;
    EntryHeadV1 {
        id,
        time_ms: 0,
        tokens: 40,
        role: if user { role::USER } else { role::ASSISTANT },
        flags: if user { entry_flags::TURN_START } else { 0 },
        text_bytes: 160,
    }
}
