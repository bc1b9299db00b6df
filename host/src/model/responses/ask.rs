//! From chat completions to a request of the Responses dialect.

use super::super::{ModelError, ModelRequest};
use bytes::Bytes;
use serde_json::{Map, Value, json};

/// Parameters of chat completions that the other dialect does not have; sent, they would be refused.
const UNKNOWN: [&str; 12] = [
    "stream_options",
    "stop",
    "seed",
    "n",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "functions",
    "function_call",
    "modalities",
    "prediction",
];

/// The body of the request.
pub(super) fn body(request: &ModelRequest, model: Option<&str>) -> Result<Bytes, ModelError> {
    let mut body = Map::new();
    let asked = request.params.get("model").and_then(Value::as_str);
    if let Some(model) = model.or(asked) {
        body.insert("model".into(), model.into());
    }
    let instructions = instructions(&request.messages);
    if !instructions.is_empty() {
        body.insert("instructions".into(), instructions.into());
    }
    body.insert("input".into(), input(&request.messages).into());
    if let Some(previous) = &request.host.previous {
        body.insert("previous_response_id".into(), previous.as_str().into());
    }
    body.insert("store".into(), request.host.keep.into());
    if request.stream {
        body.insert("stream".into(), true.into());
    }
    for (name, value) in &request.params {
        parameter(&mut body, name, value);
    }
    let bytes = serde_json::to_vec(&body)
        .map_err(|cause| ModelError::Protocol(format!("the request cannot be written: {cause}")))?;
    Ok(bytes.into())
}

fn parameter(body: &mut Map<String, Value>, name: &str, value: &Value) {
    match name {
        "tools" => {
            let tools = value.as_array().into_iter().flatten().map(tool).collect();
            body.insert("tools".into(), Value::Array(tools));
        }
        "tool_choice" => {
            let choice = match value.get("function") {
                Some(function) => json!({"type": "function", "name": function["name"]}),
                None => value.clone(),
            };
            body.insert("tool_choice".into(), choice);
        }
        "max_tokens" | "max_completion_tokens" => {
            body.insert("max_output_tokens".into(), value.clone());
        }
        "reasoning_effort" => member(body, "reasoning", "effort", value.clone()),
        "verbosity" => member(body, "text", "verbosity", value.clone()),
        "response_format" => member(body, "text", "format", format(value)),
        _ if UNKNOWN.contains(&name) || body.contains_key(name) => {}
        // What this gateway does not know, the provider may.
        _ => {
            body.insert(name.to_owned(), value.clone());
        }
    }
}

/// Sets a member of an object of the body.
fn member(body: &mut Map<String, Value>, object: &str, name: &str, value: Value) {
    if let Value::Object(members) = body.entry(object.to_owned()).or_insert_with(|| json!({})) {
        members.insert(name.to_owned(), value);
    }
}

/// A tool: here the function's fields stand beside its type.
fn tool(tool: &Value) -> Value {
    let Some(Value::Object(function)) = tool.get("function") else { return tool.clone() };
    let mut flat = Map::new();
    flat.insert("type".into(), "function".into());
    flat.extend(function.clone());
    // Absent means strict in this dialect, and lax in the other.
    flat.entry("strict".to_owned()).or_insert(Value::Bool(false));
    Value::Object(flat)
}

fn format(format: &Value) -> Value {
    let Some(Value::Object(schema)) = format.get("json_schema") else { return format.clone() };
    let mut flat = Map::new();
    flat.insert("type".into(), "json_schema".into());
    flat.extend(schema.clone());
    Value::Object(flat)
}

/// The system and developer prompts. The provider does not keep them from call to call, so they go with each.
fn instructions(messages: &[Value]) -> String {
    let system = |message: &&Value| matches!(message["role"].as_str(), Some("system" | "developer"));
    messages.iter().filter(system).map(text).collect::<Vec<_>>().join("\n\n")
}

/// Everything else, as items.
fn input(messages: &[Value]) -> Vec<Value> {
    let mut items = Vec::with_capacity(messages.len());
    for message in messages {
        match message["role"].as_str() {
            Some("user") => items.push(json!({"role": "user", "content": content(&message["content"])})),
            Some("assistant") => assistant(message, &mut items),
            Some("tool") => items.push(json!({
                "type": "function_call_output", "call_id": message["tool_call_id"], "output": text(message),
            })),
            _ => {}
        }
    }
    items
}

fn assistant(message: &Value, items: &mut Vec<Value>) {
    let said = text(message);
    if !said.is_empty() {
        items.push(json!({"role": "assistant", "content": said}));
    }
    for call in message["tool_calls"].as_array().into_iter().flatten() {
        items.push(json!({
            "type": "function_call", "call_id": call["id"], "name": call["function"]["name"],
            "arguments": call["function"]["arguments"],
        }));
    }
}

/// The text of a message, parts of other kinds left out.
fn text(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

/// The content of a user message.
fn content(content: &Value) -> Value {
    match content {
        Value::Array(parts) => parts.iter().map(part).collect(),
        Value::Null => "".into(),
        other => other.clone(),
    }
}

fn part(part: &Value) -> Value {
    match part["type"].as_str() {
        Some("text") => json!({"type": "input_text", "text": part["text"]}),
        Some("image_url") => {
            let image = &part["image_url"];
            let url = if image.is_string() { image } else { &image["url"] };
            let detail = image["detail"].as_str().unwrap_or("auto");
            json!({"type": "input_image", "image_url": url, "detail": detail})
        }
        Some("file") => {
            let mut file = Map::new();
            file.insert("type".into(), "input_file".into());
            file.extend(part["file"].as_object().cloned().unwrap_or_default());
            Value::Object(file)
        }
        // Audio has the same shape in both; what is not known may be known to the provider.
        _ => part.clone(),
    }
}
