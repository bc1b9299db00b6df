//! What of a stored message is shown: the first stage of the projection.

use crate::transcript::{Message, Role, ToolCall};
use std::borrow::Cow;
use std::sync::Arc;

/// What becomes of a stored message.
pub(super) enum Shown {
    /// It is shown; `changed` tells that its tokens must be counted again.
    As { message: Arc<Message>, changed: bool },
    /// It is left out: a blank turn that providers reject.
    Dropped,
}

/// Drops blank user turns (kept when they carry media) and blank assistant rows without tool calls, and takes away calls that
/// nothing could answer: without an id or a name.
pub(super) fn shown(message: &Arc<Message>) -> Shown {
    match message.role {
        Role::User if is_blank(message) => Shown::Dropped,
        Role::Assistant => {
            let good = |call: &ToolCall| !call.id.trim().is_empty() && !call.function.name.trim().is_empty();
            let cleaned = if message.tool_calls.iter().all(good) {
                Cow::Borrowed(message)
            } else {
                let mut copy = Message::clone(message);
                copy.tool_calls.retain(good);
                Cow::Owned(Arc::new(copy))
            };
            if cleaned.tool_calls.is_empty() && is_blank(&cleaned) && !says_otherwise(&cleaned) {
                return Shown::Dropped;
            }
            let changed = matches!(cleaned, Cow::Owned(_));
            Shown::As { message: cleaned.into_owned(), changed }
        }
        Role::User | Role::Tool => Shown::As { message: Arc::clone(message), changed: false },
    }
}

fn is_blank(message: &Message) -> bool {
    !message.has_media() && message.text().trim().is_empty()
}

/// Some providers put what the model said beside the content.
fn says_otherwise(message: &Message) -> bool {
    ["refusal", "audio", "function_call"]
        .iter()
        .any(|key| message.extra.get(*key).is_some_and(|value| !value.is_null()))
}
