//! What comes from a worker is checked like what comes over the border, and everything reads back as it was written.

use super::protocol::{Call, Input, RETURNED, ToGateway, ToWorker, Wanted, decode, encode};
use super::reply::Reply;
use crate::slot::call::ask::{Answer, BATCH_MAX, Request};
use crate::slot::call::input::HookInput;
use crate::slot::call::receive::LIST_MAX;
use crate::slot::call::sink::{HITS_MAX, Output, RawItem, Sink};
use crate::slot::engine::EngineInfo;
use crate::slot::facts::*;
use crate::slot::hook::Hook;
use crate::slot::services::*;
use crate::transcript::{EngineOp, Message, Role, ToolCall, ToolFunction};
use engine_abi::wire::{EntryHeadV1, SpanV1, status};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// What the gateway makes of a reply with this sink, for a history of `entries` entries.
fn received(mut pushed: Sink, entries: usize) -> Sink {
    let output = std::mem::take(&mut pushed.output);
    let mut bytes = Vec::new();
    encode(&ToGateway::Returned(Reply::of(status::OK, output, &pushed, &[7])), &mut bytes).unwrap();
    assert_eq!(bytes[0], RETURNED);
    let Ok(ToGateway::Returned(reply)) = decode(&bytes) else { panic!("no reply") };
    let mut sink = Sink::default();
    reply.push_into(&mut sink, entries, || 42);
    sink
}

fn user(text: &str) -> Message {
    Message::text_of(Role::User, text)
}

#[test]
fn what_was_pushed_in_good_order_arrives_as_it_was() {
    let mut pushed = Sink::default();
    pushed.spans(&[SpanV1 { first: 1, last: 2 }], 3).unwrap();
    pushed.message(user("hello")).unwrap();
    pushed.owed(Output::Assemble(AssembleOutput { estimated_tokens: 9, ..AssembleOutput::default() })).unwrap();
    let items = pushed.items.clone();
    let sink = received(pushed, 3);
    assert_eq!((sink.items, sink.messages, sink.invalid), (items, 1, None));
    assert!(matches!(sink.output, Output::Assemble(output) if output.estimated_tokens == 9));
}

#[test]
fn only_an_error_of_the_calls_own_services_is_one() {
    let fail = |token| received(Sink { fail: Some(("no".into(), token)), ..Sink::default() }, 0).fail;
    assert_eq!(fail(7), Some(("no".into(), 42)));
    assert_eq!(fail(8), Some(("no".into(), 0)));
    let long = Sink { fail: Some(("é".repeat(5_000), 0)), ..Sink::default() };
    assert!(received(long, 0).fail.unwrap().0.len() <= 4_096);
}

/// A worker whose own checks do not hold: the sink is filled past them.
#[test]
fn what_breaks_the_contract_is_refused_here_too() {
    let spans = vec![RawItem::Span(SpanV1 { first: 1, last: 1 }); 65_536 + 10];
    let mut result = user("x");
    result.tool_call_id = Some("c".into());
    let hit = MemoryHit { id: "a".into(), text: "b".into(), score: f64::NAN, time_ms: None };
    let tool = |name: &str| Tool { name: name.into(), description: String::new(), parameters: serde_json::json!({}) };
    let info = EngineInfo { accepted_host_params: u32::MAX, ..EngineInfo::default() };
    let details = CompactOutput { details_json: Some("{".into()), ..CompactOutput::default() };
    let cases = [
        (Sink { items: spans, ..Sink::default() }, "more spans"),
        (Sink { items: vec![RawItem::Message(Arc::new(result))], ..Sink::default() }, "answers a tool call"),
        (Sink { hits: vec![hit.clone()], ..Sink::default() }, "no number"),
        (Sink { hits: vec![MemoryHit { score: 1.0, ..hit }; HITS_MAX + 1], ..Sink::default() }, "more than 100 hits"),
        (Sink { tools: vec![tool("a b")], ..Sink::default() }, "a tool's name"),
        (Sink { tools: vec![tool("a"), tool("a")], ..Sink::default() }, "given twice"),
        (Sink { output: Output::Info(info), ..Sink::default() }, "unknown bits"),
        (Sink { output: Output::Compact(details), ..Sink::default() }, "not JSON"),
    ];
    for (pushed, expected) in cases {
        let bad = received(pushed, 3).invalid.unwrap_or_default();
        assert!(bad.contains(expected), "{bad:?} for {expected:?}");
    }
}

#[test]
fn more_spans_than_any_history_has_are_not_even_read() {
    let spans = vec![RawItem::Span(SpanV1 { first: 1, last: 1 }); (1 << 20) + 1];
    let mut bytes = Vec::new();
    let pushed = Sink { items: spans, ..Sink::default() };
    encode(&ToGateway::Returned(Reply::of(status::OK, Output::None, &pushed, &[])), &mut bytes).unwrap();
    assert!(decode::<ToGateway<'_>>(&bytes).is_err());
}

#[test]
fn a_call_reads_back() {
    let entry = EntryRef {
        head: EntryHeadV1 { id: 5, time_ms: -1, tokens: 3, role: 1, flags: 4, text_bytes: 2 },
        message: Arc::new(user("hi")),
    };
    let facts = SessionFacts { session_id: "s".into(), ephemeral: true, ..SessionFacts::default() };
    let input = Input::of(&HookInput::Ingest(std::slice::from_ref(&entry)), None);
    let session = Cow::Borrowed(&facts);
    let left = Duration::from_millis(7);
    let mut bytes = Vec::new();
    encode(&ToWorker::Call(Call { number: 3, left, params: 1, instance: 2, session, input }), &mut bytes).unwrap();
    let Ok(ToWorker::Call(call)) = decode(&bytes) else { panic!("no call") };
    assert_eq!((call.number, call.left, call.instance, call.input.hook()), (3, left, 2, Hook::Ingest));
    assert!(call.session.ephemeral);
    let view = Arc::default();
    let same = call.input.lend(&view, |input| match input {
        HookInput::Ingest([one]) => one.head == entry.head && one.message == entry.message,
        _ => false,
    });
    assert_eq!(same, Ok(true));
}

#[test]
fn service_calls_and_their_answers_read_back_and_what_is_left_over_is_refused() {
    let mut bytes = Vec::new();
    let ask = |request| ToGateway::Ask(request);
    encode(&ask(Request::StoreGet { engine_scope: true, key: b"key" }), &mut bytes).unwrap();
    assert!(matches!(decode(&bytes), Ok(ToGateway::Ask(Request::StoreGet { engine_scope: true, key: b"key" }))));
    bytes.push(0);
    assert!(decode::<ToGateway<'_>>(&bytes).is_err());
    encode(&ToGateway::Bodies(Wanted { index: 1, count: 2, back: true }), &mut bytes).unwrap();
    assert!(matches!(decode(&bytes), Ok(ToGateway::Bodies(Wanted { index: 1, count: 2, back: true }))));
    let page = CursorPage { has_more: true, cursor: Some("c".into()), ..CursorPage::default() };
    let refused = ServiceError::new(ServiceStatus::Refused, "no");
    for answer in [Ok(Answer::Page(Box::new(page))), Err(refused)] {
        let was = format!("{answer:?}");
        encode(&ToWorker::Answer { left: Duration::ZERO, answer }, &mut bytes).unwrap();
        let Ok(ToWorker::Answer { answer, .. }) = decode(&bytes) else { panic!("no answer") };
        assert_eq!(format!("{answer:?}"), was);
    }
}

#[test]
fn garbage_is_an_error_and_nothing_worse() {
    for length in 0..64_usize {
        for byte in [0, 1, 3, 7, 0x7f, 0xff] {
            let _ = decode::<ToGateway<'_>>(&vec![byte; length]);
            let _ = decode::<ToWorker<'_>>(&vec![byte; length]);
        }
    }
}

#[test]
fn a_request_is_read_no_further_than_to_what_its_service_takes() {
    let read = |request: Request<'_>| {
        let mut bytes = Vec::new();
        encode(&ToGateway::Ask(request), &mut bytes).unwrap();
        decode::<ToGateway<'_>>(&bytes).is_ok()
    };
    // One more than may be still comes through, so that the service says what is wrong with it.
    let delete = || StoreOp { engine_scope: false, op: EngineOp::Delete(Vec::new()) };
    let batch = |ops: usize| Request::StoreBatch((0..ops).map(|_| delete()).collect());
    assert!(read(batch(BATCH_MAX + 1)) && !read(batch(BATCH_MAX + 2)));

    let calls = |calls: usize| {
        let mut message = Message::text_of(Role::Assistant, "");
        message.tool_calls = vec![
            ToolCall {
                id: String::new(),
                kind: "function".into(),
                function: ToolFunction { name: String::new(), arguments: String::new() },
                extra: serde_json::Map::new(),
            };
            calls
        ];
        message
    };
    let rewrite = |message: &Message| {
        Request::Rewrite((1..=64).map(|entry_id| Replacement { entry_id, message: message.clone() }).collect())
    };
    assert!(read(rewrite(&calls(1_000))) && !read(rewrite(&calls(1_100))));
    let complete = |message: &Message| {
        Request::Complete(LlmRequest { messages: vec![message.clone(); 64], ..LlmRequest::default() })
    };
    assert!(read(complete(&calls(1_000))) && !read(complete(&calls(1_100))));

    let tools = |tools: usize| {
        Request::MemoryPrompt(MemoryPromptArgs {
            available_tools: vec![String::new(); tools],
            citations_mode: 0,
            sandboxed: false,
        })
    };
    assert!(read(tools(LIST_MAX + 1)) && !read(tools(LIST_MAX + 2)));
}
