//! What the request says, sentence by sentence, and what it asks.

use super::{FOUND, NOTHING};
use serde_json::Value;

/// Longest quote, in characters.
const LONGEST: usize = 400;

/// Who said something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    System,
    Summary,
    User,
    Assistant,
    Tool,
    Context,
}

impl By {
    const ALL: [By; 6] = [By::System, By::Summary, By::User, By::Assistant, By::Tool, By::Context];

    pub(super) fn label(self) -> &'static str {
        match self {
            By::System => "the instructions say",
            By::Summary => "the summary says",
            By::User => "you said",
            By::Assistant => "the assistant said",
            By::Tool => "a tool said",
            By::Context => "the added context says",
        }
    }
}

/// One sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Passage {
    pub(super) by: By,
    pub(super) text: String,
}

/// A request, read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Prompt {
    /// The last words of the user.
    pub(super) question: String,
    /// Everything else, oldest first.
    pub(super) passages: Vec<Passage>,
}

impl Prompt {
    pub(super) fn read(messages: &[Value]) -> Prompt {
        let asked = messages.iter().rposition(|message| role(message) == "user");
        let mut prompt = Prompt::default();
        for (at, message) in messages.iter().enumerate() {
            let text = text(message);
            let by = match role(message) {
                "system" | "developer" => By::System,
                "assistant" => By::Assistant,
                "tool" | "function" => By::Tool,
                _ => By::User,
            };
            let mut rest = text.as_str();
            // A block at the head of a user message is something that was put there, not said.
            while by == By::User
                && let Some((name, inner, after)) = block(rest)
            {
                prompt.add(if name.contains("summary") { By::Summary } else { By::Context }, inner);
                rest = after;
            }
            if Some(at) == asked {
                rest.trim().clone_into(&mut prompt.question);
            } else if by == By::Assistant {
                prompt.add_answer(rest);
            } else {
                prompt.add(by, rest);
            }
        }
        prompt
    }

    fn add(&mut self, by: By, text: &str) {
        for sentence in sentences(text) {
            let passage = Passage { by, text: sentence.to_owned() };
            self.passages.push(passage);
        }
    }

    /// An answer of this model holds quotes: they are what somebody else said, not what it says itself.
    fn add_answer(&mut self, text: &str) {
        if !text.starts_with(FOUND) && !text.starts_with(NOTHING) {
            return self.add(By::Assistant, text);
        }
        for line in text.lines() {
            let quote = By::ALL.into_iter().find_map(|by| {
                let quoted = line.strip_prefix("- ")?.strip_prefix(by.label())?.strip_prefix(": \u{201c}")?;
                Some(Passage { by, text: quoted.strip_suffix('\u{201d}').unwrap_or(quoted).to_owned() })
            });
            self.passages.extend(quote);
        }
    }
}

fn role(message: &Value) -> &str {
    message.get("role").and_then(Value::as_str).unwrap_or("user")
}

fn text(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str)).collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

/// `<name …>inner</name>` at the head of a text, with what comes behind it.
fn block(text: &str) -> Option<(&str, &str, &str)> {
    let body = text.trim_start().strip_prefix('<')?;
    let end = body.find(|c: char| !c.is_alphanumeric() && !matches!(c, '-' | '_'))?;
    let name = &body[..end];
    let (_, inner) = body[end..].split_once('>')?;
    let close = format!("</{name}>");
    let (inner, after) = inner.split_once(close.as_str())?;
    (!name.is_empty()).then_some((name, inner, after))
}

/// The sentences of a text: a line ends one, and so does a full stop, an exclamation or a question mark before white space.
fn sentences(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(in_line).map(str::trim).filter(|sentence| sentence.chars().any(char::is_alphanumeric)).map(
        |sentence| match sentence.char_indices().nth(LONGEST) {
            Some((at, _)) => &sentence[..at],
            None => sentence,
        },
    )
}

fn in_line(line: &str) -> impl Iterator<Item = &str> {
    let mut rest = line;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.char_indices().find_map(|(at, c)| {
            let after = at + c.len_utf8();
            let stops = matches!(c, '.' | '!' | '?' | '…' | '。' | '！' | '？');
            let wide = matches!(c, '。' | '！' | '？');
            (stops && (wide || rest[after..].starts_with(char::is_whitespace))).then_some(after)
        });
        let (sentence, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        Some(sentence)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sentences_end_at_marks_before_space_and_at_lines_but_not_inside_a_name() {
        let all: Vec<_> =
            sentences("Version 1.2 is at https://a.b/c.d! Good? Yes…\n\n---\n- one item\n东京很大。好").collect();
        assert_eq!(all, ["Version 1.2 is at https://a.b/c.d!", "Good?", "Yes…", "- one item", "东京很大。", "好"]);
    }

    #[test]
    fn a_block_before_the_question_is_context() {
        let prompt = Prompt::read(&[json!({"role": "user",
            "content": "<memory source=\"x\">The pilot is Marisol.</memory>\n\nWho is the pilot?"})]);
        assert_eq!(prompt.question, "Who is the pilot?");
        assert_eq!(prompt.passages, [Passage { by: By::Context, text: "The pilot is Marisol.".into() }]);
        assert_eq!(block("<unclosed> text"), None);
        assert_eq!(block("a < b"), None);
    }

    #[test]
    fn the_question_is_the_last_user_message_even_before_tool_results() {
        let prompt = Prompt::read(&[
            json!({"role": "user", "content": [{"type": "text", "text": "How cold is it?"}]}),
            json!({"role": "assistant", "content": null, "tool_calls": []}),
            json!({"role": "tool", "content": "7 degrees"}),
        ]);
        assert_eq!(prompt.question, "How cold is it?");
        assert_eq!(prompt.passages, [Passage { by: By::Tool, text: "7 degrees".into() }]);
    }

    #[test]
    fn quotes_in_an_earlier_answer_keep_their_speaker() {
        let answer = format!("{FOUND}\n- you said: \u{201c}It is blue.\u{201d}");
        let prompt =
            Prompt::read(&[json!({"role": "assistant", "content": answer}), json!({"role": "user", "content": "?"})]);
        assert_eq!(prompt.passages, [Passage { by: By::User, text: "It is blue.".into() }]);
    }
}
