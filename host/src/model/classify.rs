//! From a provider's error answer to the kind of failure.
//!
//! Providers agree on the shape of an error only roughly, and on its wording not at all; the tests keep recorded answers.

use super::ModelError;
use memchr::memmem;
use regex::Regex;
use serde_json::Value;
use std::sync::LazyLock;
use std::time::Duration;

/// An error answer as it came.
#[derive(Debug, Clone, PartialEq)]
pub struct ProviderSaid {
    /// HTTP status; for an error inside a stream the status that the error names, else 200.
    pub status: u16,
    /// The sentence for people.
    pub message: String,
    /// The whole body; a string when it was not JSON.
    pub body: Value,
}

impl std::fmt::Display for ProviderSaid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} (status {})", self.message, self.status)
    }
}

/// Codes and types that say "too long" outright.
const OVERFLOW_CODES: [&str; 4] =
    ["context_length_exceeded", "exceed_context_size_error", "context_window_exceeded", "string_above_max_length"];

/// Wordings of "too long", in lower case. Each stands alone: none occurs in another kind of error.
const OVERFLOW_WORDS: [&str; 20] = [
    "maximum context length",
    "maximum prompt length",
    "context length exceeded",
    "exceeds the context length",
    "exceeds maximum context length",
    "exceeded max context length",
    "longer than the maximum model length",
    "exceeds the available context size",
    "context size exceeded",
    "exceeds the context window",
    "exceed context limit",
    "prompt is too long",
    "input is too long",
    "context the overflows",
    "greater than the context length",
    "not enough context length",
    "exceeds the maximum number of tokens allowed",
    "input tokens exceed the configured limit",
    "tokens + `max_new_tokens` must be",
    "reduce the length of the messages",
];

/// Wordings of "no tools here", in lower case, whatever the status: Ollama, OpenRouter, vLLM, llama.cpp (500), OpenAI and Azure,
/// Groq, DeepInfra, Mistral.
const NO_TOOLS_WORDS: [&str; 11] = [
    "does not support tools",
    "no endpoints found that support tool use",
    "tool choice requires --enable-auto-tool-choice",
    "tools param requires --jinja",
    "unsupported param: tools",
    "'tools' is not supported with this model",
    "unrecognized request argument supplied: tools",
    "`tool calling` is not supported",
    "tool calling is not supported",
    "does not support function calling",
    "function calling is not enabled for this model",
];

/// Makes an error of an answer with a status that is not 2xx, or of an `error` object inside a 200.
///
/// `retry_after` is the header's value, in seconds or as a date.
pub fn classify(status: u16, body: &[u8], retry_after: Option<&str>) -> ModelError {
    let body = serde_json::from_slice(body).unwrap_or_else(|_| Value::String(shorten(&String::from_utf8_lossy(body))));
    classify_value(status, body, retry_after)
}

/// As [`classify`], of a body that is read already.
pub(super) fn classify_value(status: u16, body: Value, retry_after: Option<&str>) -> ModelError {
    let said = Box::new(ProviderSaid { status: status_of(status, &body), message: message_of(status, &body), body });
    // What the provider behind a router said is kept as text inside the body, so wordings are looked for in all of it.
    let whole = said.body.to_string().to_ascii_lowercase();
    let has = |words: &str| memmem::find(whole.as_bytes(), words.as_bytes()).is_some();
    match said.status {
        401 | 403 => ModelError::Auth { said },
        429 => rate_limit(said, retry_after, has("insufficient_quota") || has("exceeded your current quota")),
        status => {
            let code = code_of(&said.body);
            if OVERFLOW_CODES.iter().any(|known| code == *known) || OVERFLOW_WORDS.iter().any(|words| has(words)) {
                ModelError::Overflow { limit: limit_in(&said), said }
            } else if status != 200 && NO_TOOLS_WORDS.iter().any(|words| has(words)) {
                ModelError::NoTools { said, by: Vec::new() }
            } else if code == "rate_limit_exceeded" || code == "rate_limit_error" {
                rate_limit(said, retry_after, false)
            } else if code == "invalid_api_key" || code == "authentication_error" {
                ModelError::Auth { said }
            } else if status == 408 || status >= 500 || code == "overloaded_error" || code == "server_error" {
                ModelError::Unavailable { message: said.to_string(), said: Some(said) }
            } else if status == 413 {
                ModelError::Overflow { limit: None, said }
            } else if (300..400).contains(&status) || (200..300).contains(&status) {
                // A redirect, or an error without a kind inside a stream.
                ModelError::Unavailable { message: said.to_string(), said: Some(said) }
            } else {
                ModelError::BadRequest { said }
            }
        }
    }
}

fn rate_limit(said: Box<ProviderSaid>, retry_after: Option<&str>, exhausted: bool) -> ModelError {
    ModelError::RateLimit { retry_after: retry_after.and_then(seconds), exhausted, said }
}

/// Seconds of a `retry-after`. A date is not used: clocks differ, and no model endpoint is known to send one.
fn seconds(value: &str) -> Option<Duration> {
    let seconds = value.trim().parse::<f64>().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// The part of a body that describes the error.
fn error_of(body: &Value) -> &Value {
    // One vendor wraps the object in an array.
    let body = body.get(0).unwrap_or(body);
    body.get("error").filter(|error| !error.is_null()).unwrap_or(body)
}

/// An error inside a 200 names its own status.
fn status_of(status: u16, body: &Value) -> u16 {
    let error = error_of(body);
    let inner = ["code", "status", "status_code"]
        .iter()
        .filter_map(|name| error.get(name))
        .find_map(|code| code.as_u64().or_else(|| code.as_str()?.parse().ok()))
        .and_then(|code| u16::try_from(code).ok())
        .filter(|code| (400..600).contains(code));
    match inner {
        Some(inner) if status < 400 => inner,
        _ => status,
    }
}

fn code_of(body: &Value) -> String {
    let error = error_of(body);
    [error.get("code"), error.get("type"), body.get("type")]
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .find(|code| !matches!(*code, "error" | "invalid_request_error"))
        .unwrap_or("")
        .to_ascii_lowercase()
}

fn message_of(status: u16, body: &Value) -> String {
    let error = error_of(body);
    let text = match error {
        Value::String(text) => Some(text.as_str()),
        other => other.get("message").or_else(|| other.get("detail")).and_then(Value::as_str),
    };
    match text {
        Some(text) if !text.trim().is_empty() => shorten(text.trim()),
        _ => http::StatusCode::from_u16(status)
            .ok()
            .and_then(|status| status.canonical_reason())
            .unwrap_or("an error without a message")
            .to_owned(),
    }
}

/// An error page may be megabytes; its first lines say enough.
fn shorten(text: &str) -> String {
    const MOST: usize = 2_000;
    match text.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// The window that an overflow names, from a field or from its sentence.
fn limit_in(said: &ProviderSaid) -> Option<u64> {
    static LIMIT: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r"(?xi)
            (?: maximum\ (?:context|prompt|model)\ length\ (?:is|of)
              | context\ length\ of\ only
              | configured\ limit\ of
              | context\ size\ \(
              | context\ length\ \(.*n_ctx:
              | max_new_tokens`\ must\ be\ <=
              | tokens\ allowed\ \(
              | >
            ) \s* ([0-9][0-9,_]*)
            | with\ ([0-9][0-9,_]*)\ maximum\ context\ length
            | context\ length\ \(([0-9]+)",
        )
        .ok()
    });
    if let Some(limit) = error_of(&said.body).get("n_ctx").and_then(Value::as_u64) {
        return Some(limit);
    }
    let text = said.body.to_string();
    let found = LIMIT.as_ref()?.captures(&text)?;
    let digits = found.iter().skip(1).flatten().next()?.as_str().replace([',', '_'], "");
    digits.parse().ok().filter(|limit| *limit > 0)
}

#[cfg(test)]
#[path = "classify_tests.rs"]
mod tests;
