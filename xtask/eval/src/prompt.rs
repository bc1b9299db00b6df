//! A prompt as the model would get it, read again: which texts stand in it, and where its raw tail begins.
//!
//! Only the messages themselves count here, never what an engine says of them.

use engineroom::model::{Messages, TokenCounter};
use engineroom::transcript::{Message, Role};
use std::borrow::Cow;

/// Begins and ends the block in which the host puts what an engine adds to the current user message.
const BLOCK: (&str, &str) = ("<engine-context>\n", "\n</engine-context>");

/// One message.
#[derive(Debug, Clone, PartialEq)]
enum Part {
    /// A system or developer prompt, or something else that no conversation holds.
    Other(String),
    /// A message of the conversation, or one that an engine made.
    Message(Message),
}

/// A prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    parts: Vec<Part>,
    /// Place of the current user message.
    current: Option<usize>,
    /// What stands in the engine's block there, as the engine gave it.
    volatile: Option<String>,
    /// The whole block as it is sent.
    block: Option<String>,
}

/// The newest messages of a history that stand in a prompt as messages of their own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tail {
    /// How many.
    pub messages: usize,
    /// What they cost, as the host counts.
    pub tokens: u64,
}

impl Rendered {
    /// Reads a prompt whose current user message, with the engine's block at its head, stands at `current`.
    pub fn of(messages: &Messages, current: usize) -> Rendered {
        Rendered::read(messages, Some(current))
    }

    /// Reads a prompt of a played conversation: the current user message is the last one of a user, since only calls and their
    /// results can follow it.
    pub fn of_call(messages: &Messages) -> Rendered {
        let current = messages.iter().rposition(|message| message["role"] == "user");
        Rendered::read(messages, current)
    }

    fn read(messages: &Messages, current: Option<usize>) -> Rendered {
        let part = |value: &serde_json::Value| match serde_json::from_value::<Message>(value.clone()) {
            Ok(message) => Part::Message(message),
            Err(_) => Part::Other(match &value["content"] {
                serde_json::Value::String(text) => text.clone(),
                serde_json::Value::Array(parts) => {
                    parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
                }
                _ => String::new(),
            }),
        };
        let parts: Vec<Part> = messages.iter().map(part).collect();
        let text = match current.and_then(|at| parts.get(at)) {
            Some(Part::Message(message)) => message.text(),
            _ => Cow::Borrowed(""),
        };
        let block = block_of(&text);
        let volatile = block.map(|block| unescape(&block[BLOCK.0.len()..block.len() - BLOCK.1.len()]));
        let block = block.map(str::to_owned);
        Rendered { current, volatile, block, parts }
    }

    /// What the engine put into the block of the current user message, as it gave it.
    pub fn volatile(&self) -> Option<&str> {
        self.volatile.as_deref()
    }

    /// What that block costs as it is sent.
    pub fn volatile_tokens(&self, counter: &TokenCounter) -> u64 {
        self.block.as_ref().map_or(0, |block| counter.text(block))
    }

    /// Everything that is said in it but the current user message itself: each message's text, and the engine's block.
    pub fn texts(&self) -> Vec<Cow<'_, str>> {
        let texts = self.parts.iter().enumerate().filter(|(at, _)| Some(*at) != self.current);
        let texts = texts.map(|(_, part)| match part {
            Part::Message(message) => message.text(),
            Part::Other(text) => Cow::Borrowed(text.as_str()),
        });
        texts.chain(self.volatile.as_deref().map(Cow::Borrowed)).collect()
    }

    /// The tail: how many of the newest messages of `history`, without a gap, stand in it as messages of their own, in their
    /// order. What an engine made may stand between them.
    pub fn tail(&self, history: &[&Message], counter: &TokenCounter) -> Tail {
        let mut tail = Tail::default();
        let mut before = self.parts.len();
        for said in history.iter().rev() {
            let stands = |at: &usize| match &self.parts[*at] {
                Part::Message(message) => Some(*at) != self.current && is_same(message, said),
                Part::Other(_) => false,
            };
            let Some(at) = (0..before).rev().find(stands) else { break };
            before = at;
            tail.messages += 1;
            tail.tokens += u64::from(counter.message(said));
        }
        tail
    }
}

/// True for a message that says the same in the same role.
fn is_same(shown: &Message, said: &Message) -> bool {
    let calls = |message: &Message| message.tool_calls.iter().map(|call| call.id.clone()).collect::<Vec<_>>();
    shown.role == said.role
        && shown.text() == said.text()
        && (said.role != Role::Tool || shown.tool_call_id == said.tool_call_id)
        && (said.tool_calls.is_empty() && shown.tool_calls.is_empty() || calls(shown) == calls(said))
}

/// The engine's block at the head of a message.
fn block_of(text: &str) -> Option<&str> {
    let inside = text.strip_prefix(BLOCK.0)?;
    // The host escapes what the engine gave, so the first end is the end.
    let end = inside.find(BLOCK.1)?;
    text.get(..BLOCK.0.len() + end + BLOCK.1.len())
}

/// Undoes what the host does to the block's text: `<`, `>` and `&` stand there as `&lt;`, `&gt;` and `&amp;`.
fn unescape(text: &str) -> String {
    const ESCAPES: [(&str, char); 3] = [("&lt;", '<'), ("&gt;", '>'), ("&amp;", '&')];
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        match ESCAPES.iter().find(|(escape, _)| rest.starts_with(escape)) {
            Some((escape, letter)) => {
                out.push(*letter);
                rest = &rest[escape.len()..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn messages(values: Vec<Value>) -> Messages {
        Messages::from(values)
    }

    fn said(role: Role, text: &str) -> Message {
        Message::text_of(role, text)
    }

    #[test]
    fn the_block_is_read_as_the_engine_gave_it_and_the_question_is_no_text_of_the_prompt() {
        let question =
            "<engine-context>\nif a &lt; b &amp;&amp; c &gt; d: &amp;lt; 5 & 6\n</engine-context>\n\nWhat is <a>?";
        let prompt = Rendered::of(
            &messages(vec![
                json!({"role": "system", "content": "S &lt;"}),
                json!({"role": "user", "content": "U &amp;"}),
                json!({"role": "user", "content": question}),
            ]),
            2,
        );
        assert_eq!(prompt.volatile(), Some("if a < b && c > d: &lt; 5 & 6"));
        // Outside of the block nothing is escaped, so nothing is undone.
        assert_eq!(prompt.texts(), ["S &lt;", "U &amp;", "if a < b && c > d: &lt; 5 & 6"]);
        let counter = TokenCounter::for_model("offline");
        assert_eq!(prompt.volatile_tokens(&counter), counter.text(question.split("\n\n").next().unwrap()));
    }

    #[test]
    fn only_the_current_message_has_a_block() {
        let pasted = "<engine-context>\na &lt; b\n</engine-context>\n\nhm";
        let values = vec![json!({"role": "user", "content": pasted}), json!({"role": "user", "content": "and?"})];
        let prompt = Rendered::of(&messages(values), 1);
        assert_eq!((prompt.volatile(), prompt.texts()), (None, vec![Cow::Borrowed(pasted)]));
        let open = vec![json!({"role": "user", "content": "<engine-context>\nnever closed"})];
        assert_eq!(Rendered::of(&messages(open), 0).volatile(), None);
    }

    #[test]
    fn a_block_in_content_parts_is_found_too() {
        let content =
            json!([{"type": "text", "text": "<engine-context>\nx\n</engine-context>"}, {"type": "text", "text": "?"}]);
        let prompt = Rendered::of_call(&messages(vec![
            json!({"role": "user", "content": content}),
            json!({"role": "assistant", "content": null, "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}),
            json!({"role": "tool", "tool_call_id": "c", "content": "r"}),
        ]));
        assert_eq!(prompt.volatile(), Some("x"));
        assert_eq!(prompt.texts(), ["", "r", "x"]);
    }

    fn tail(shown: &[(&str, &str)], history: &[Message]) -> usize {
        let values = shown.iter().map(|(role, text)| json!({"role": role, "content": text}));
        let values: Vec<_> = values.chain([json!({"role": "user", "content": "d"})]).collect();
        let current = values.len() - 1;
        let history: Vec<&Message> = history.iter().collect();
        Rendered::of(&messages(values), current).tail(&history, &TokenCounter::for_model("offline")).messages
    }

    #[test]
    fn the_tail_is_the_newest_messages_without_a_gap() {
        let (user, assistant) = (Role::User, Role::Assistant);
        let history = [said(user, "a"), said(assistant, "b"), said(user, "c"), said(assistant, "d")];
        assert_eq!(tail(&[("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d")], &history), 4);
        assert_eq!(tail(&[("user", "c"), ("assistant", "d")], &history), 2);
        // The second is missing: what is older is retrieved, not tail.
        assert_eq!(tail(&[("user", "a"), ("user", "c"), ("assistant", "d")], &history), 2);
        // What an engine made in between does not end it.
        assert_eq!(tail(&[("user", "c"), ("user", "made"), ("assistant", "d")], &history), 2);
        assert_eq!(tail(&[("user", "c"), ("user", "d")], &history), 0, "another role");
        assert_eq!(tail(&[("assistant", "d"), ("user", "c")], &history), 1, "another order");
        assert_eq!(tail(&[("user", "c"), ("assistant", "d…")], &history), 0, "cut short");
        assert_eq!(tail(&[], &history), 0, "the question is no part of the tail");
    }

    #[test]
    fn the_tail_costs_what_the_host_counts_for_it() {
        let history = [said(Role::User, "one two"), said(Role::Assistant, "three")];
        let counter = TokenCounter::for_model("offline");
        let values = vec![json!({"role": "assistant", "content": "three"}), json!({"role": "user", "content": "?"})];
        let tail = Rendered::of(&messages(values), 1).tail(&history.iter().collect::<Vec<_>>(), &counter);
        assert_eq!(tail, Tail { messages: 1, tokens: u64::from(counter.message(&history[1])) });
    }

    #[test]
    fn calls_and_results_are_the_same_by_their_ids() {
        let call = |id: &str| -> Message {
            serde_json::from_value(json!({"role": "assistant", "content": null, "tool_calls": [
                {"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}]}))
            .unwrap()
        };
        assert!(is_same(&call("a"), &call("a")) && !is_same(&call("a"), &call("b")));
        assert!(!is_same(&call("a"), &said(Role::Assistant, "")));
        let result = |id: &str| Message { tool_call_id: Some(id.into()), ..said(Role::Tool, "r") };
        assert!(is_same(&result("a"), &result("a")) && !is_same(&result("a"), &result("b")));
    }
}
