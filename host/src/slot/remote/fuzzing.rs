//! Doors for `fuzz/`: what is said on a lane. Not for anything else.

use super::history::{HeldRows, Rows};
use super::lean::{Head, Lean};
use super::protocol::{Call, Input, ToGateway, ToWorker, Wanted, decode, encode};
use super::reply::Reply;
use crate::slot::call::ask::Request;
use crate::slot::call::input::HookInput;
use crate::slot::call::sink::{Output, Sink};
use crate::slot::engine::EngineInfo;
use crate::slot::facts::{AssembleOutput, EntryRef, SessionFacts, Tool};
use crate::slot::services::{MemoryHit, ServiceError, ServiceStatus};
use crate::transcript::{Message, Role};
use engine_abi::wire::{EntryHeadV1, SpanV1};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// Entries of the history of the call that a reply belongs to.
const ENTRIES: usize = 8;

/// Reads what a worker says and takes in what it pushed, as the gateway does; written anew where it was understood.
pub fn from_worker(frame: &[u8]) -> Option<Vec<u8>> {
    let said: ToGateway<'_> = decode(frame).ok()?;
    let mut again = Vec::new();
    encode(&said, &mut again).ok()?;
    if let ToGateway::Returned(reply) = said {
        let mut sink = Sink::default();
        reply.push_into(&mut sink, ENTRIES, || 1);
    }
    Some(again)
}

/// Reads what the gateway says, as the worker does.
pub fn to_worker(frame: &[u8]) -> Option<Vec<u8>> {
    let said: ToWorker<'_> = decode(frame).ok()?;
    let mut again = Vec::new();
    encode(&said, &mut again).ok()?;
    if let ToWorker::Whole(rows) = &said {
        HeldRows::default().apply(rows);
    }
    if let ToWorker::Call(mut call) = said {
        let rows = Input::rows(&mut call.input);
        rows.as_ref().and_then(|rows| HeldRows::default().apply(rows));
    }
    Some(again)
}

/// Something to begin with, of either side; a worker's first.
pub fn examples() -> [Vec<Vec<u8>>; 2] {
    let user = |text: &str| Message::text_of(Role::User, text);
    let mut pushed = Sink::default();
    // What is refused is an example, too.
    let _ = pushed.spans(&[SpanV1 { first: 1, last: 2 }], ENTRIES);
    let _ = pushed.message(user("a message of the engine's own"));
    let hit = MemoryHit { id: "id".into(), text: "text".into(), score: 0.5, time_ms: Some(1) };
    let tool =
        Tool { name: "look".into(), description: "at it".into(), parameters: serde_json::json!({"type": "object"}) };
    let searched = Sink { hits: vec![hit], tools: vec![tool], fail: Some(("no".into(), 7)), ..Sink::default() };
    let assembled = Output::Assemble(AssembleOutput { estimated_tokens: 9, ..AssembleOutput::default() });
    let from_worker = [
        ToGateway::Ask(Request::StoreGet { engine_scope: true, key: b"key" }),
        ToGateway::Bodies(Wanted { index: 1, count: 2, back: true }),
        ToGateway::Stale,
        ToGateway::Returned(Reply::of(0, assembled, &pushed, &[])),
        ToGateway::Returned(Reply::of(1, Output::Info(EngineInfo::default()), &searched, &[7])),
    ];
    let head = EntryHeadV1 { id: 5, time_ms: 1, tokens: 3, role: 1, flags: 4, text_bytes: 2 };
    let entry = EntryRef { head, message: Arc::new(user("hi")) };
    let facts = SessionFacts { session_id: "s".into(), ..SessionFacts::default() };
    let input = Input::of(&HookInput::Ingest(std::slice::from_ref(&entry)), None);
    let call = Call {
        number: 3,
        left: Duration::from_millis(7),
        params: 1,
        instance: 2,
        session: Cow::Borrowed(&facts),
        input,
    };
    let to_worker = [
        ToWorker::Call(call),
        ToWorker::Bodies(vec![Lean::of(&entry.message)]),
        ToWorker::Whole(Rows { session: "s", version: 1, heads: vec![Head::from(&head)], ..Rows::default() }),
        ToWorker::Answer { left: Duration::ZERO, answer: Err(ServiceError::new(ServiceStatus::Refused, "no")) },
    ];
    fn written<T: serde::Serialize>(messages: &[T]) -> Vec<Vec<u8>> {
        let each = messages.iter().map(|message| {
            let mut bytes = Vec::new();
            // What cannot be written is an empty example.
            let _ = encode(message, &mut bytes);
            bytes
        });
        each.collect()
    }
    [written(&from_worker), written(&to_worker)]
}
