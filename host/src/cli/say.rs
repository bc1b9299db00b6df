//! One request for an answer, and the answer as it arrives. `turn` and `chat` share it.

use super::door::{Door, Streamed};
use super::error::CliError;
use super::sse::Event;
use serde::Serialize;
use serde_json::{Value, json};

/// What is asked.
#[derive(Debug, Clone, Default)]
pub struct Ask {
    /// Session; `None` stores nothing.
    pub session: Option<String>,
    /// Model to name.
    pub model: String,
    /// System prompt.
    pub system: Option<String>,
    /// The message.
    pub text: String,
    /// Makes a repeated request a retry.
    pub idempotency_key: Option<String>,
}

/// What came back.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Said {
    /// Session.
    pub session: Option<String>,
    /// Engine that served.
    pub engine: Option<String>,
    /// Why it is not the selected one; closed code.
    pub degraded: Option<String>,
    /// Model that answered.
    pub model: Option<String>,
    /// The whole text.
    pub text: String,
    /// Tool calls that the model made; the command line cannot run them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<Value>,
    /// Why the model stopped.
    pub finish_reason: Option<String>,
    /// Token usage, as the provider gave it.
    pub usage: Option<Value>,
    /// What the gateway remarked during the stream.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// Asks, and hands each piece of the answer to `piece` when it arrives. The result is there when the turn is acknowledged.
///
/// # Errors
/// What the gateway refused, or [`CliError::Broken`] when the answer has no end.
pub async fn say(door: &Door, ask: &Ask, piece: &mut dyn FnMut(&str)) -> Result<Said, CliError> {
    let mut headers: Vec<(&str, &str)> = Vec::new();
    if let Some(session) = &ask.session {
        headers.extend([("x-engineroom-session", session.as_str()), ("x-engineroom-history", "delta")]);
    }
    if let Some(key) = &ask.idempotency_key {
        headers.push(("idempotency-key", key));
    }
    let mut messages = Vec::new();
    if let Some(system) = &ask.system {
        messages.push(json!({"role": "system", "content": system}));
    }
    messages.push(json!({"role": "user", "content": ask.text}));
    let body = json!({
        "model": ask.model, "messages": messages, "stream": true, "stream_options": {"include_usage": true},
    });
    let stream = door.stream("/v1/chat/completions", &headers, &body).await?;
    collect(stream, ask.session.clone(), piece).await
}

async fn collect(mut stream: Streamed, session: Option<String>, piece: &mut dyn FnMut(&str)) -> Result<Said, CliError> {
    let mut said = Said {
        session,
        engine: stream.header("x-engineroom-engine").map(str::to_owned),
        degraded: stream.header("x-engineroom-degraded").map(str::to_owned),
        ..Said::default()
    };
    while let Some(event) = stream.next().await? {
        match event {
            Event::Chunk(chunk) => said.take(&chunk, piece),
            Event::Comment(text) if !text.is_empty() => said.remarks.push(text),
            Event::Comment(_) | Event::Strange(_) | Event::Done => {}
        }
    }
    Ok(said)
}

impl Said {
    fn take(&mut self, chunk: &Value, piece: &mut dyn FnMut(&str)) {
        if let Some(model) = chunk.get("model").and_then(Value::as_str) {
            self.model = Some(model.to_owned());
        }
        if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
            self.usage = Some(usage.clone());
        }
        let Some(choice) = chunk.pointer("/choices/0") else { return };
        if let Some(reason) = choice.get("finish_reason").and_then(Value::as_str) {
            self.finish_reason = Some(reason.to_owned());
        }
        let delta = choice.get("delta").unwrap_or(&Value::Null);
        if let Some(text) = delta.get("content").and_then(Value::as_str).filter(|text| !text.is_empty()) {
            self.text.push_str(text);
            piece(text);
        }
        for call in delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
            self.tool_call(call);
        }
    }

    /// Tool calls come in pieces: the arguments are glued together by index.
    fn tool_call(&mut self, piece: &Value) {
        let index = piece.get("index").and_then(Value::as_u64).unwrap_or(0);
        let known = self.tool_calls.iter_mut().find(|call| call.get("index").and_then(Value::as_u64) == Some(index));
        let Some(known) = known else {
            self.tool_calls.push(piece.clone());
            return;
        };
        let more = piece.pointer("/function/arguments").and_then(Value::as_str).unwrap_or_default();
        if let Some(Value::String(arguments)) = known.pointer_mut("/function/arguments") {
            arguments.push_str(more);
        }
    }

    /// Who served, as one line.
    pub fn served(&self) -> String {
        let engine = self.engine.as_deref().unwrap_or("unknown");
        match &self.degraded {
            Some(code) => {
                format!("served by {engine}, since the selected engine cannot: {code} (`engineroom doctor` says why)")
            }
            None => format!("served by {engine}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(delta: Value) -> Value {
        json!({"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": null}]})
    }

    #[test]
    fn pieces_become_one_answer() {
        let mut said = Said::default();
        let mut heard = Vec::new();
        let mut piece = |text: &str| heard.push(text.to_owned());
        for delta in [json!({"role": "assistant", "content": ""}), json!({"content": "Hel"}), json!({"content": "lo"})]
        {
            said.take(&chunk(delta), &mut piece);
        }
        said.take(&json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}), &mut piece);
        said.take(&json!({"choices": [], "usage": {"total_tokens": 3}}), &mut piece);
        assert_eq!(heard, ["Hel", "lo"]);
        assert_eq!((said.text.as_str(), said.finish_reason.as_deref()), ("Hello", Some("stop")));
        assert_eq!((said.model.as_deref(), &said.usage), (Some("m"), &Some(json!({"total_tokens": 3}))));
    }

    #[test]
    fn tool_calls_are_glued_together() {
        let mut said = Said::default();
        let first = json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{\"a\""}}]});
        said.take(&chunk(first), &mut |_| {});
        said.take(&chunk(json!({"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]})), &mut |_| {});
        assert_eq!(said.tool_calls.len(), 1);
        assert_eq!(said.tool_calls[0]["function"]["arguments"], "{\"a\":1}");
    }

    #[test]
    fn a_degraded_answer_names_who_served_and_why() {
        let said = Said { engine: Some("legacy".into()), degraded: Some("deadline".into()), ..Said::default() };
        assert!(said.served().contains("legacy") && said.served().contains("deadline"));
    }
}
