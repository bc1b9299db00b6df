//! From an answer of the Responses dialect to chat completions, whole or event by event.

use super::super::ModelError;
use super::super::classify::classify_value;
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// True for an answer that is an error, although its status is good.
pub(super) fn is_error(answer: &Value) -> bool {
    let failed = matches!(answer["status"].as_str(), Some("failed" | "cancelled"));
    failed || answer.get("error").is_some_and(|error| !error.is_null())
}

/// The whole answer as a `chat.completion`. Its id is the response's, by which the next call may continue.
///
/// # Errors
/// [`ModelError::Protocol`] when it is no answer.
pub(super) fn completion(answer: Value) -> Result<Value, ModelError> {
    let Some(output) = answer["output"].as_array() else {
        return Err(ModelError::Protocol("it has no output".into()));
    };
    let (mut text, mut refusal, mut thoughts, mut calls) = (String::new(), String::new(), String::new(), Vec::new());
    for item in output {
        match item["type"].as_str() {
            Some("message") => {
                for part in item["content"].as_array().into_iter().flatten() {
                    match part["type"].as_str() {
                        Some("output_text") => text.push_str(part["text"].as_str().unwrap_or_default()),
                        Some("refusal") => refusal.push_str(part["refusal"].as_str().unwrap_or_default()),
                        _ => {}
                    }
                }
            }
            Some("function_call") => calls.push(json!({
                "id": item["call_id"], "type": "function",
                "function": {"name": item["name"], "arguments": item["arguments"]},
            })),
            Some("reasoning") => {
                for part in item["summary"].as_array().into_iter().flatten() {
                    thoughts.push_str(part["text"].as_str().unwrap_or_default());
                }
            }
            // A tool that the provider ran itself has left its trace in the text.
            _ => {}
        }
    }
    let mut message = Map::new();
    message.insert("role".into(), "assistant".into());
    let silent = text.is_empty() && !calls.is_empty();
    message.insert("content".into(), if silent { Value::Null } else { text.into() });
    if !refusal.is_empty() {
        message.insert("refusal".into(), refusal.into());
    }
    if !thoughts.is_empty() {
        message.insert("reasoning_content".into(), thoughts.into());
    }
    let finish = finish(&answer, !calls.is_empty());
    if !calls.is_empty() {
        message.insert("tool_calls".into(), calls.into());
    }
    let mut full = head(&answer, "chat.completion");
    full.insert("choices".into(), json!([{"index": 0, "message": message, "finish_reason": finish}]));
    if let Some(usage) = usage(&answer["usage"]) {
        full.insert("usage".into(), usage);
    }
    Ok(Value::Object(full))
}

fn head(answer: &Value, object: &str) -> Map<String, Value> {
    let mut head = Map::new();
    head.insert("id".into(), answer["id"].clone());
    head.insert("object".into(), object.into());
    // Some endpoints write it as a float.
    let created = answer["created_at"].as_f64().unwrap_or_default();
    head.insert("created".into(), (created.max(0.0) as u64).into());
    head.insert("model".into(), answer["model"].clone());
    head
}

fn finish(answer: &Value, calls: bool) -> &'static str {
    match (answer["status"].as_str(), answer["incomplete_details"]["reason"].as_str()) {
        (Some("incomplete"), Some("content_filter")) => "content_filter",
        (Some("incomplete"), _) => "length",
        _ if calls => "tool_calls",
        _ => "stop",
    }
}

fn usage(usage: &Value) -> Option<Value> {
    let (input, output) = (usage["input_tokens"].as_u64()?, usage["output_tokens"].as_u64().unwrap_or(0));
    let mut out = json!({
        "prompt_tokens": input, "completion_tokens": output,
        "total_tokens": usage["total_tokens"].as_u64().unwrap_or(input + output),
    });
    if let Some(cached) = usage["input_tokens_details"]["cached_tokens"].as_u64() {
        out["prompt_tokens_details"] = json!({"cached_tokens": cached});
    }
    if let Some(thought) = usage["output_tokens_details"]["reasoning_tokens"].as_u64() {
        out["completion_tokens_details"] = json!({"reasoning_tokens": thought});
    }
    Some(out)
}

/// A whole completion as chunks.
pub(super) fn chunks_of(mut full: Value) -> Vec<Value> {
    let usage = full.as_object_mut().and_then(|full| full.shift_remove("usage"));
    let mut choice = full["choices"][0].take();
    let mut delta = choice["message"].take();
    for (at, call) in delta["tool_calls"].as_array_mut().into_iter().flatten().enumerate() {
        call["index"] = at.into();
    }
    full["object"] = "chat.completion.chunk".into();
    let chunk = |choices: Value| {
        let mut chunk = full.clone();
        chunk["choices"] = choices;
        chunk
    };
    let mut chunks = vec![
        chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}])),
        chunk(json!([{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"].take()}])),
    ];
    if let Some(usage) = usage {
        let mut last = chunk(json!([]));
        last["usage"] = usage;
        chunks.push(last);
    }
    chunks
}

/// What an event came to.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Chunks, perhaps none: more is to come.
    Chunks(Vec<Value>),
    /// The last chunks.
    Last(Vec<Value>),
}

/// Makes chunks of events.
#[derive(Debug, Default)]
pub(super) struct Chunks {
    head: Map<String, Value>,
    /// Tool calls by the index of their output item: index of the call, and whether any of its arguments was given.
    calls: HashMap<u64, (u64, bool)>,
    started: bool,
    said: bool,
}

impl Chunks {
    /// Takes an event.
    ///
    /// # Errors
    /// What the event says went wrong.
    pub(super) fn take(&mut self, event: Value) -> Result<Step, ModelError> {
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        let item = event["output_index"].as_u64().unwrap_or(0);
        let chunks = match event["type"].as_str().unwrap_or_default() {
            "response.created" | "response.in_progress" | "response.queued" => {
                if self.head.is_empty() {
                    self.head = head(&event["response"], "chat.completion.chunk");
                }
                Vec::new()
            }
            "response.output_text.delta" => {
                self.said = true;
                vec![self.chunk(json!({"content": text("delta")}))]
            }
            "response.refusal.delta" => vec![self.chunk(json!({"refusal": text("delta")}))],
            "response.reasoning_summary_text.delta" => vec![self.chunk(json!({"reasoning_content": text("delta")}))],
            "response.output_item.added" if event["item"]["type"] == "function_call" => {
                let index = self.calls.len() as u64;
                self.calls.insert(item, (index, false));
                let call = json!({"index": index, "id": event["item"]["call_id"], "type": "function",
                    "function": {"name": event["item"]["name"], "arguments": ""}});
                vec![self.chunk(json!({"tool_calls": [call]}))]
            }
            "response.function_call_arguments.delta" => self.arguments(item, &text("delta"), true),
            "response.output_item.done" if event["item"]["type"] == "function_call" => {
                let arguments = event["item"]["arguments"].as_str().unwrap_or_default().to_owned();
                self.arguments(item, &arguments, false)
            }
            "response.completed" | "response.incomplete" => return self.last(&event["response"]).map(Step::Last),
            "response.failed" | "response.cancelled" => return Err(failed(&event["response"])),
            "error" => return Err(failed(&event)),
            _ => Vec::new(),
        };
        Ok(Step::Chunks(chunks))
    }

    /// Arguments of a call. The whole comes after its pieces, and counts only when there were none.
    fn arguments(&mut self, item: u64, arguments: &str, piece: bool) -> Vec<Value> {
        let Some((index, given)) = self.calls.get_mut(&item) else { return Vec::new() };
        if arguments.is_empty() || (!piece && *given) {
            return Vec::new();
        }
        *given = true;
        let call = json!({"index": *index, "function": {"arguments": arguments}});
        vec![self.chunk(json!({"tool_calls": [call]}))]
    }

    fn last(&mut self, response: &Value) -> Result<Vec<Value>, ModelError> {
        if self.head.is_empty() {
            self.head = head(response, "chat.completion.chunk");
        }
        let mut chunks = Vec::new();
        if !self.said && self.calls.is_empty() && response["output"].is_array() {
            // An endpoint that tells everything at the end.
            let full = completion(response.clone())?;
            if full["choices"][0]["message"]["tool_calls"].is_array() || full["choices"][0]["message"]["content"] != ""
            {
                return Ok(chunks_of(full));
            }
        }
        let finish = finish(response, !self.calls.is_empty());
        let mut end = self.chunk(json!({}));
        end["choices"][0]["finish_reason"] = finish.into();
        chunks.push(end);
        if let Some(usage) = usage(&response["usage"]) {
            let mut last = self.head.clone();
            last.insert("choices".into(), json!([]));
            last.insert("usage".into(), usage);
            chunks.push(Value::Object(last));
        }
        Ok(chunks)
    }

    fn chunk(&mut self, mut delta: Value) -> Value {
        if !std::mem::replace(&mut self.started, true) {
            delta["role"] = "assistant".into();
        }
        let mut chunk = self.head.clone();
        chunk.insert("choices".into(), json!([{"index": 0, "delta": delta, "finish_reason": null}]));
        Value::Object(chunk)
    }
}

/// The error of a response that failed, or of an event that says so at its top.
fn failed(told: &Value) -> ModelError {
    let error = match &told["error"] {
        Value::Object(error) => Value::Object(error.clone()),
        _ => json!({"code": told["code"], "message": told["message"], "param": told["param"]}),
    };
    classify_value(200, json!({"error": error}), None)
}
