//! A message as the transcript keeps it: the OpenAI shape, unknown fields included, so that nothing a client said is lost.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Role of a stored message. System and developer prompts are parameters of a turn, never entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The person.
    User,
    /// The model.
    Assistant,
    /// The result of a tool call.
    Tool,
}

impl Role {
    /// The wire code.
    pub fn code(self) -> u32 {
        match self {
            Role::User => engine_abi::wire::role::USER,
            Role::Assistant => engine_abi::wire::role::ASSISTANT,
            Role::Tool => engine_abi::wire::role::TOOL,
        }
    }

    /// The name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }
}

/// Content of a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, Default)]
#[serde(untagged)]
pub enum Content {
    /// `null` or absent.
    #[default]
    Null,
    /// Plain text.
    Text(String),
    /// OpenAI content parts, kept as they came.
    Parts(Vec<Value>),
}

/// A tool call of an assistant message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Id of the call.
    pub id: String,
    /// "function".
    #[serde(rename = "type", default = "function_type")]
    pub kind: String,
    /// What is called.
    pub function: ToolFunction,
    /// Every other field, as it came: providers hang their own data here and want it back.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

fn function_type() -> String {
    "function".into()
}

/// What a tool call calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFunction {
    /// Name of the tool.
    pub name: String,
    /// Arguments, JSON text as the model wrote it.
    #[serde(default)]
    pub arguments: String,
}

/// A message. Serialises to the OpenAI shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    #[serde(default)]
    pub content: Content,
    /// Tool calls of an assistant message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Id of the call that a tool message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// `name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Every other field, as it came.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl Message {
    /// A plain text message.
    pub fn text_of(role: Role, text: impl Into<String>) -> Message {
        Message {
            role,
            content: Content::Text(text.into()),
            tool_calls: Vec::new(),
            tool_call_id: None,
            name: None,
            extra: Map::new(),
        }
    }

    /// The text as an engine sees it: text parts joined by newlines, other parts as `[image]`, `[audio]`, `[file]`, `[TYPE]`.
    pub fn text(&self) -> Cow<'_, str> {
        match &self.content {
            Content::Null => Cow::Borrowed(""),
            Content::Text(text) => Cow::Borrowed(text),
            Content::Parts(parts) => {
                let mut out = String::new();
                for part in parts {
                    if !out.is_empty() {
                        out.push('\n');
                    }
                    match part.get("type").and_then(Value::as_str) {
                        Some("text" | "input_text" | "output_text") => {
                            out.push_str(part.get("text").and_then(Value::as_str).unwrap_or(""));
                        }
                        Some("image_url" | "input_image" | "image") => out.push_str("[image]"),
                        Some("input_audio" | "audio") => out.push_str("[audio]"),
                        Some("file" | "input_file") => out.push_str("[file]"),
                        Some(other) => {
                            out.push('[');
                            out.push_str(other);
                            out.push(']');
                        }
                        None => out.push_str("[part]"),
                    }
                }
                Cow::Owned(out)
            }
        }
    }

    /// True when the content holds more than text.
    pub fn has_media(&self) -> bool {
        match &self.content {
            Content::Parts(parts) => parts.iter().any(|part| {
                !matches!(part.get("type").and_then(Value::as_str), Some("text" | "input_text" | "output_text"))
            }),
            _ => false,
        }
    }

    /// Identity for comparing a client's history with the stored branch: role, text and call ids (never used between host and
    /// engine). Parts that are not text count by their JSON.
    pub fn digest(&self) -> u128 {
        let mut hash = xxhash_rust::xxh3::Xxh3::new();
        hash.update(self.role.name().as_bytes());
        hash.update(&[0]);
        match &self.content {
            Content::Parts(parts) if self.has_media() => {
                for part in parts {
                    hash.update(part.to_string().as_bytes());
                    hash.update(&[1]);
                }
            }
            _ => hash.update(self.text().as_bytes()),
        }
        hash.update(&[0]);
        for call in &self.tool_calls {
            hash.update(call.id.as_bytes());
            hash.update(&[2]);
        }
        if let Some(id) = &self.tool_call_id {
            hash.update(&[3]);
            hash.update(id.as_bytes());
        }
        hash.digest128()
    }

    /// Rough size in memory, in bytes, for the bound of the hot sessions.
    pub fn weight(&self) -> usize {
        let content = match &self.content {
            Content::Null => 0,
            Content::Text(text) => text.len(),
            Content::Parts(parts) => parts.iter().map(|part| part.to_string().len() + 64).sum(),
        };
        let calls: usize =
            self.tool_calls.iter().map(|c| 96 + c.id.len() + c.function.name.len() + c.function.arguments.len()).sum();
        content + calls + 160
    }
}
