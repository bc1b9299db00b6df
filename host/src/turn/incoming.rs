//! What a client sent, read once: parameters of the turn on one side, messages of the conversation on the other.

use super::{HistoryMode, TurnError};
use crate::observe::broken;
use crate::transcript::reconcile::is_full_history;
use crate::transcript::{Content, Message, Role};
use serde_json::Value;

/// The messages of a request.
pub(super) struct Incoming {
    /// System and developer messages, as they came. They are parameters of the turn, never entries.
    pub(super) system: Vec<Value>,
    /// The conversation, oldest first.
    pub(super) messages: Vec<Message>,
    /// True when `messages` is all that the client knows of the conversation, false when it is only what is new.
    pub(super) full: bool,
}

impl Incoming {
    /// Reads `messages`.
    pub(super) fn read(messages: Vec<Value>, history: HistoryMode) -> Result<Incoming, TurnError> {
        let mut system = Vec::new();
        let mut conversation = Vec::with_capacity(messages.len());
        for (index, value) in messages.into_iter().enumerate() {
            let role = value.get("role").and_then(Value::as_str).map(str::to_owned);
            let Some(role) = role.as_deref() else {
                return Err(TurnError::invalid("a message needs a role", format!("messages[{index}].role")));
            };
            match role {
                "developer" if broken("8.46") => {
                    let text = value.get("content").and_then(Value::as_str).unwrap_or_default();
                    conversation.push(Message::text_of(Role::User, text));
                }
                "system" | "developer" => system.push(value),
                "user" | "assistant" | "tool" => {
                    let message: Message = serde_json::from_value(value).map_err(|error| {
                        TurnError::invalid(format!("this message is malformed: {error}"), format!("messages[{index}]"))
                    })?;
                    if message.role == Role::Tool && message.tool_call_id.is_none() {
                        return Err(TurnError::invalid(
                            "a tool message names the call that it answers",
                            format!("messages[{index}].tool_call_id"),
                        ));
                    }
                    let says_nothing = matches!(message.content, Content::Null) && message.role != Role::Assistant;
                    if says_nothing {
                        return Err(TurnError::invalid(
                            format!("a {role} message needs content"),
                            format!("messages[{index}].content"),
                        ));
                    }
                    conversation.push(message);
                }
                other => {
                    return Err(TurnError::invalid(
                        format!("unknown role \"{other}\"; known are system, developer, user, assistant, tool"),
                        format!("messages[{index}].role"),
                    ));
                }
            }
        }
        if conversation.is_empty() {
            return Err(TurnError::invalid("there is no message to answer", "messages"));
        }
        let full = match history {
            HistoryMode::Full => true,
            HistoryMode::Delta => false,
            HistoryMode::Auto => looks_full(&conversation),
        };
        Ok(Incoming { system, messages: conversation, full })
    }
}

/// The rule of `auto`. Tool results without the call that they answer cannot be a whole conversation, so they are a delta.
fn looks_full(messages: &[Message]) -> bool {
    !messages.iter().all(|message| message.role == Role::Tool) && is_full_history(messages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(messages: Value, history: HistoryMode) -> Result<Incoming, TurnError> {
        Incoming::read(messages.as_array().unwrap().clone(), history)
    }

    #[test]
    fn system_and_developer_messages_are_parameters() {
        let incoming = read(
            json!([{"role": "system", "content": "a"}, {"role": "user", "content": "b"}, {"role": "developer", "content": "c"}]),
            HistoryMode::Auto,
        )
        .unwrap();
        assert_eq!(incoming.system.len(), 2);
        assert_eq!(incoming.messages.len(), 1);
        assert!(!incoming.full);
    }

    #[test]
    fn auto_tells_a_whole_history_from_a_delta() {
        let user = json!({"role": "user", "content": "x"});
        let assistant = json!({"role": "assistant", "content": "y"});
        let tool = json!({"role": "tool", "tool_call_id": "c", "content": "z"});
        for (messages, full) in [
            (json!([user]), false),
            (json!([user, user]), true),
            (json!([user, assistant, user]), true),
            (json!([user, assistant]), true),
            (json!([user, tool]), true),
            (json!([tool]), false),
            (json!([tool, tool]), false),
        ] {
            assert_eq!(read(messages.clone(), HistoryMode::Auto).unwrap().full, full, "{messages}");
        }
        assert!(read(json!([user]), HistoryMode::Full).unwrap().full);
        assert!(!read(json!([user, assistant, user]), HistoryMode::Delta).unwrap().full);
    }

    #[test]
    fn what_makes_no_sense_is_named_with_its_place() {
        for (messages, place) in [
            (json!([{"content": "x"}]), "messages[0].role"),
            (json!([{"role": "user", "content": "x"}, {"role": "narrator", "content": "x"}]), "messages[1].role"),
            (json!([{"role": "tool", "content": "x"}]), "messages[0].tool_call_id"),
            (json!([{"role": "user", "content": 7}]), "messages[0]"),
            (json!([{"role": "user"}]), "messages[0].content"),
            (json!([{"role": "tool", "tool_call_id": "c", "content": null}]), "messages[0].content"),
            (json!([{"role": "system", "content": "x"}]), "messages"),
            (json!([]), "messages"),
        ] {
            match read(messages.clone(), HistoryMode::Auto) {
                Err(TurnError::Invalid { param: Some(param), .. }) => assert_eq!(param, place, "{messages}"),
                _ => panic!("{messages} was taken"),
            }
        }
    }
}
