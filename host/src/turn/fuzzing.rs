//! Doors for `fuzz/`: the messages of a request. Not for anything else.

use super::{HistoryMode, Incoming};
use crate::transcript::Message;
use serde_json::Value;

/// The system messages and the conversation, as a turn takes them.
pub fn incoming(messages: Vec<Value>, history: HistoryMode) -> Option<(Vec<Value>, Vec<Message>)> {
    let incoming = Incoming::read(messages, history).ok()?;
    Some((incoming.system, incoming.messages))
}
