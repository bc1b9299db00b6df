//! Both dialects side by side.

use super::answer::{Chunks, Step, completion, is_error};
use super::*;
use crate::model::{Accumulator, HostCall, classify, reply_of};
use serde_json::json;

fn body(request: &ModelRequest) -> Value {
    serde_json::from_slice(&ask::body(request, Some("m")).unwrap()).unwrap()
}

#[test]
fn a_conversation_becomes_items() {
    let messages = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": [{"type": "text", "text": "And kind."}]},
        {"role": "user", "content": [{"type": "text", "text": "Look"}, {"type": "image_url", "image_url": {"url": "data:x"}}]},
        {"role": "assistant", "content": "I look.", "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "a cat"},
    ]);
    let host = HostCall { previous: Some("resp_1".into()), keep: true, ..HostCall::default() };
    let request =
        ModelRequest { messages: messages.as_array().unwrap().clone().into(), host, ..ModelRequest::default() };
    assert_eq!(
        body(&request),
        json!({"model": "m", "instructions": "Be brief.\n\nAnd kind.", "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Look"},
                {"type": "input_image", "image_url": "data:x", "detail": "auto"}]},
            {"role": "assistant", "content": "I look."},
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "a cat"},
        ], "previous_response_id": "resp_1", "store": true})
    );
}

#[test]
fn parameters_get_their_other_names_and_strangers_are_passed_on() {
    let params = json!({
        "model": "asked", "max_completion_tokens": 7, "temperature": 0.5, "seed": 1, "stream_options": {"include_usage": true},
        "reasoning_effort": "low", "x_unknown": [1], "store": true, "tool_choice": {"type": "function", "function": {"name": "f"}},
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {}}},
        "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}},
            {"type": "web_search"}],
    });
    let params = params.as_object().unwrap().clone();
    let sent = body(&ModelRequest { params, stream: true, ..ModelRequest::default() });
    assert_eq!(
        sent,
        json!({"model": "m", "input": [], "store": false, "stream": true, "max_output_tokens": 7, "temperature": 0.5,
            "reasoning": {"effort": "low"}, "x_unknown": [1], "tool_choice": {"type": "function", "name": "f"},
            "text": {"format": {"type": "json_schema", "name": "s", "schema": {}}},
            "tools": [{"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": false},
                {"type": "web_search"}]})
    );
}

fn answer() -> Value {
    json!({"id": "resp_2", "created_at": 5, "model": "big", "status": "completed", "error": null, "output": [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{\"x\":1}"},
    ], "usage": {"input_tokens": 100, "output_tokens": 9, "total_tokens": 109, "input_tokens_details": {"cached_tokens": 64}}})
}

#[test]
fn an_answer_becomes_a_completion_with_the_response_s_id() {
    assert!(!is_error(&answer()));
    let full = completion(answer()).unwrap();
    let reply = reply_of(&full).unwrap();
    assert_eq!((reply.id.as_deref(), reply.finish_reason.as_deref()), (Some("resp_2"), Some("tool_calls")));
    assert_eq!(reply.message.text(), "Hello");
    assert_eq!(reply.message.tool_calls[0].function.arguments, "{\"x\":1}");
    let usage = reply.usage.unwrap();
    assert_eq!((usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens), (Some(100), Some(9), Some(64)));
    let mut cut = answer();
    cut["status"] = "incomplete".into();
    cut["incomplete_details"] = json!({"reason": "max_output_tokens"});
    assert_eq!(reply_of(&completion(cut).unwrap()).unwrap().finish_reason.as_deref(), Some("length"));
    assert!(is_error(&json!({"status": "failed", "error": {"code": "server_error", "message": "m"}})));
    assert!(matches!(completion(json!({"id": "x"})), Err(ModelError::Protocol(_))));
}

/// The reply of a run of events.
fn run(events: &[Value]) -> Result<(crate::model::Reply, usize), ModelError> {
    let (mut chunks, mut all, mut number) = (Chunks::default(), Accumulator::new(), 0);
    for event in events {
        let made = match chunks.take(event.clone())? {
            Step::Chunks(made) | Step::Last(made) => made,
        };
        number += made.len();
        made.iter().for_each(|chunk| all.push(chunk));
    }
    Ok((all.finish(), number))
}

#[test]
fn events_and_the_whole_answer_say_the_same() {
    let created = json!({"type": "response.created", "response": {"id": "resp_2", "model": "big", "created_at": 5.0, "output": []}});
    let events = [
        created.clone(),
        json!({"type": "response.in_progress", "response": {}}),
        json!({"type": "response.reasoning_summary_text.delta", "delta": "Hm."}),
        json!({"type": "response.output_text.delta", "output_index": 1, "delta": "Hel"}),
        json!({"type": "response.output_text.delta", "output_index": 1, "delta": "lo"}),
        json!({"type": "response.output_item.added", "output_index": 2,
            "item": {"type": "function_call", "call_id": "c1", "name": "look", "arguments": ""}}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{\"x\""}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 2, "delta": ":1}"}),
        json!({"type": "response.output_item.done", "output_index": 2,
            "item": {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{\"x\":1}"}}),
        json!({"type": "response.completed", "response": answer()}),
    ];
    let whole = reply_of(&completion(answer()).unwrap()).unwrap();
    let (pieces, number) = run(&events).unwrap();
    assert_eq!(pieces, whole);
    assert_eq!(number, 8, "what says nothing gives no chunk");
    // An endpoint that sends nothing but the end.
    let (late, _) = run(&[created, json!({"type": "response.completed", "response": answer()})]).unwrap();
    assert_eq!(late, whole);
}

#[test]
fn an_error_among_the_events_is_of_its_kind() {
    let long = json!({"code": "context_length_exceeded", "message": "Your input exceeds the context window."});
    let failed = json!({"type": "response.failed", "response": {"id": "r", "status": "failed", "error": long}});
    assert!(run(&[failed]).unwrap_err().is_overflow());
    let top = json!({"type": "error", "code": "rate_limit_exceeded", "message": "slow down", "param": null});
    assert!(matches!(run(&[top]), Err(ModelError::RateLimit { .. })));
}

#[test]
fn a_forgotten_response_is_told_from_other_refusals() {
    let refused = |body: Value| classify(400, body.to_string().as_bytes(), None);
    let gone = [
        json!({"error": {"message": "Previous response with id 'resp_1' not found.", "code": "previous_response_not_found"}}),
        json!({"error": {"message": "not found", "param": "previous_response_id"}}),
        json!({"error": {"message": "Response with id 'resp_1' not found.", "param": "response_id"}}),
    ];
    for body in gone {
        assert!(matches!(lost(refused(body.clone()), Some("resp_1")), ModelError::ThreadLost { .. }), "{body}");
        assert!(matches!(lost(refused(body), None), ModelError::BadRequest { .. }), "nothing was to be continued");
    }
    let other = refused(json!({"error": {"message": "bad tools"}}));
    assert!(matches!(lost(other, Some("resp_1")), ModelError::BadRequest { .. }));
}
