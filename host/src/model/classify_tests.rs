//! Recorded error answers, one row each.

use super::*;
use serde_json::json;

fn of(status: u16, body: &Value) -> ModelError {
    classify(status, body.to_string().as_bytes(), None)
}

#[test]
fn every_known_wording_of_too_long_is_an_overflow_with_its_limit() {
    let rows: Vec<(&str, u16, Value, Option<u64>)> = vec![
        (
            "openai",
            400,
            json!({"error": {"message": "This model's maximum context length is 8192 tokens. However, your messages resulted in 10345 tokens. Please reduce the length of the messages.", "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}}),
            Some(8192),
        ),
        (
            "openai, newer models",
            400,
            json!({"error": {"message": "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300123 tokens. Please reduce the length of the messages.", "type": "invalid_request_error", "param": "messages", "code": "context_length_exceeded"}}),
            Some(272_000),
        ),
        (
            "anthropic",
            400,
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 210345 tokens > 200000 maximum"}}),
            Some(200_000),
        ),
        (
            "anthropic, with the answer",
            400,
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again"}}),
            Some(200_000),
        ),
        (
            "anthropic, body size",
            413,
            json!({"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}),
            None,
        ),
        (
            "llama.cpp",
            400,
            json!({"error": {"code": 400, "message": "the request exceeds the available context size. try increasing the context size or enable context shift", "type": "exceed_context_size_error", "n_prompt_tokens": 5500, "n_ctx": 4096}}),
            Some(4096),
        ),
        (
            "llama.cpp, newer",
            400,
            json!({"error": {"code": 400, "message": "request (5500 tokens) exceeds the available context size (4096 tokens), try increasing it", "type": "exceed_context_size_error"}}),
            Some(4096),
        ),
        (
            "vllm",
            400,
            json!({"object": "error", "message": "This model's maximum context length is 4096 tokens. However, you requested 5044 tokens (4944 in the messages, 100 in the completion). Please reduce the length of the messages or completion.", "type": "BadRequestError", "param": null, "code": 400}),
            Some(4096),
        ),
        (
            "vllm, engine",
            400,
            json!({"error": {"message": "The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure that `max_model_len` is no smaller than the number of text tokens.", "type": "BadRequestError", "param": null, "code": 400}}),
            Some(4096),
        ),
        (
            "ollama",
            400,
            json!({"error": {"message": "the input length exceeds the context length", "type": "invalid_request_error", "param": null, "code": null}}),
            None,
        ),
        (
            "ollama, server failure",
            500,
            json!({"error": "prompt too long; exceeded max context length by 812 tokens"}),
            None,
        ),
        (
            "lm studio",
            400,
            json!({"error": "Trying to keep the first 6021 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input"}),
            Some(4096),
        ),
        (
            "lm studio, n_keep",
            400,
            json!({"error": "The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 6021>= n_ctx: 4096). Try to load the model with a larger context length, or provide a shorter input."}),
            Some(4096),
        ),
        (
            "openrouter",
            400,
            json!({"error": {"message": "This endpoint's maximum context length is 131072 tokens. However, you requested about 140312 tokens (140312 of text input). Please reduce the length of either one, or use the \"middle-out\" transform to compress your prompt automatically.", "code": 400, "metadata": {"provider_name": null}}, "user_id": "u"}),
            Some(131_072),
        ),
        (
            "openrouter, wrapped",
            400,
            json!({"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 201001 tokens > 200000 maximum\"}}", "provider_name": "Anthropic"}}}),
            Some(200_000),
        ),
        (
            "gemini",
            400,
            json!([{"error": {"code": 400, "message": "The input token count (1196265) exceeds the maximum number of tokens allowed (1048576).", "status": "INVALID_ARGUMENT"}}]),
            Some(1_048_576),
        ),
        (
            "mistral",
            400,
            json!({"object": "error", "message": "Prompt contains 40211 tokens and 0 draft tokens, too large for model with 32768 maximum context length", "type": "invalid_request_error", "code": 3051}),
            Some(32_768),
        ),
        (
            "xai",
            400,
            json!({"code": "Client specified an invalid argument", "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens."}),
            Some(131_072),
        ),
        (
            "text generation inference",
            422,
            json!({"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 100 `max_new_tokens`", "error_type": "validation"}),
            Some(4096),
        ),
    ];
    for (name, status, body, expected) in rows {
        match of(status, &body) {
            ModelError::Overflow { limit, .. } => assert_eq!(limit, expected, "{name}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn what_only_looks_like_an_overflow_is_none() {
    let tpm = json!({"error": {"message": "Request too large for gpt-4o in organization org-x on tokens per min (TPM): Limit 30000, Requested 51203. The input or output tokens must be reduced in order to run successfully.", "type": "tokens", "param": null, "code": "rate_limit_exceeded"}});
    assert!(matches!(of(429, &tpm), ModelError::RateLimit { exhausted: false, .. }));
    let output = json!({"error": {"message": "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000.", "type": "invalid_request_error", "param": "max_tokens", "code": "invalid_value"}});
    assert!(matches!(of(400, &output), ModelError::BadRequest { .. }));
}

#[test]
fn every_known_wording_of_a_model_without_tools_is_told_from_other_refusals() {
    let rows = [
        (
            "ollama",
            400,
            json!({"error": {"message": "registry.ollama.ai/library/gemma3:12b does not support tools", "type": "api_error", "param": null, "code": null}}),
        ),
        (
            "ollama, its own form",
            400,
            json!({"error": "registry.ollama.ai/library/deepseek-r1:8b does not support tools"}),
        ),
        (
            "openrouter",
            404,
            json!({"error": {"message": "No endpoints found that support tool use. To learn more about provider routing, visit: https://openrouter.ai/docs/provider-routing", "code": 404}}),
        ),
        (
            "vllm",
            400,
            json!({"object": "error", "message": "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set", "type": "BadRequestError", "param": null, "code": 400}),
        ),
        (
            "llama.cpp",
            500,
            json!({"error": {"code": 500, "message": "tools param requires --jinja flag", "type": "server_error"}}),
        ),
        (
            "llama.cpp, older",
            500,
            json!({"error": {"code": 500, "message": "Unsupported param: tools", "type": "server_error"}}),
        ),
        (
            "azure",
            404,
            json!({"error": {"message": "Unrecognized request argument supplied: tools", "type": "invalid_request_error", "param": null, "code": null}}),
        ),
        (
            "deepinfra, through a router",
            405,
            json!({"status": "failure", "message": "deepinfra error: Tool calling is not supported for model: mistralai/Mistral-Small-24B-Instruct-2501", "error": {"message": "deepinfra error: Tool calling is not supported for model: mistralai/Mistral-Small-24B-Instruct-2501", "type": "APIError", "code": "405"}}),
        ),
    ];
    for (name, status, body) in rows {
        let error = of(status, &body);
        assert!(matches!(error, ModelError::NoTools { .. }), "{name}: {error:?}");
        assert!(!error.transient(), "{name}: asking the same again does not help");
        assert_eq!(error.http_status(), 400, "{name}");
    }
    let other = json!({"error": {"message": "Invalid schema for function 'find': None is not of type 'object'", "type": "invalid_request_error", "param": "tools[0].function.parameters", "code": "invalid_function_parameters"}});
    assert!(matches!(of(400, &other), ModelError::BadRequest { .. }));
}

#[test]
fn whoever_offered_tools_is_told_how_to_stop_it() {
    use crate::diagnostic::Diagnostic;
    let said = ProviderSaid { status: 400, message: "m does not support tools".into(), body: Value::Null };
    let hint = |by: &[&str]| {
        let by = by.iter().map(|who| (*who).to_owned()).collect();
        ModelError::NoTools { said: Box::new(said.clone()), by }.hint().unwrap()
    };
    assert!(
        hint(&["recall"]).contains("[plugins.entries.recall.config]") && hint(&["recall"]).contains("tools = false")
    );
    assert!(hint(&["the gateway"]).contains("[memory] tools = []"));
    let clients = hint(&["the client"]);
    assert!(
        clients.contains("the client send its request without tools") && !clients.contains("[plugins"),
        "{clients}"
    );
}

#[test]
fn the_other_kinds_are_told_apart() {
    let quota = json!({"error": {"message": "You exceeded your current quota, please check your plan and billing details.", "type": "insufficient_quota", "param": null, "code": "insufficient_quota"}});
    assert!(matches!(of(429, &quota), ModelError::RateLimit { exhausted: true, .. }));
    let key = json!({"error": {"message": "Incorrect API key provided", "type": "invalid_request_error", "code": "invalid_api_key"}});
    assert!(matches!(of(401, &key), ModelError::Auth { .. }));
    assert!(matches!(of(403, &json!({})), ModelError::Auth { .. }));
    let overloaded = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let error = of(529, &overloaded);
    assert!(matches!(error, ModelError::Unavailable { .. }));
    assert_eq!(error.http_status(), 503);
    assert!(matches!(of(200, &overloaded), ModelError::Unavailable { .. }), "inside a stream");
    let missing = json!({"error": {"message": "The model `nope` does not exist", "type": "invalid_request_error", "param": null, "code": "model_not_found"}});
    let error = of(404, &missing);
    assert_eq!(error.http_status(), 404);
    assert_eq!(error.body(), Some(&missing), "the provider's own words are kept");
}

#[test]
fn an_error_inside_a_stream_names_its_own_status() {
    let body = json!({"error": {"code": 429, "message": "Rate limited"}});
    assert!(matches!(of(200, &body), ModelError::RateLimit { .. }));
    let body = json!({"error": {"code": "502", "message": "Upstream failed"}});
    assert_eq!(of(200, &body).said().map(|said| said.status), Some(502));
}

#[test]
fn retry_after_is_read_in_seconds_only() {
    let wait = |value| classify(429, b"{}", Some(value)).retry_after();
    assert_eq!(wait("2"), Some(Duration::from_secs(2)));
    assert_eq!(wait("0.5"), Some(Duration::from_millis(500)));
    assert_eq!(wait("Wed, 21 Oct 2026 07:28:00 GMT"), None);
    assert_eq!(wait("-1"), None);
    assert_eq!(wait("1e400"), None);
}

#[test]
fn a_body_that_is_no_json_is_kept_short() {
    let page = "x".repeat(100_000);
    let error = classify(502, page.as_bytes(), None);
    assert!(error.to_string().len() < 7_000, "{}", error.to_string().len());
    assert!(matches!(error, ModelError::Unavailable { .. }));
}
