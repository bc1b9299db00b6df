//! `recall_expand`: whole messages by their numbers.
//!
//! An answer holds at most [`BYTES`] of quoted text. A longer text comes in parts: each says where it goes on, and the parts
//! together are the text, byte for byte.

use super::{Answer, Desk, elsewhere, heading, listed, no_such, number, ordinal, parameter, quote};
use crate::index::Ordinal;
use crate::session::others::lock;
use crate::session::{Session, Stored};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Most bytes of quoted text in one answer: some 2,000 tokens.
pub(super) const BYTES: usize = 8_000;
/// A message of which less would fit is left for the next call.
const PART_MIN: usize = 400;
/// Most messages of one call.
const MESSAGES_MAX: usize = 100;
/// Most neighbours on each side.
const AROUND_MAX: u64 = 20;
/// Bytes that are shown of the call that a tool result answers.
const CALL_BYTES: usize = 300;

pub(super) fn parameters(other_sessions: bool) -> Value {
    let mut parameters = json!({
        "type": "object",
        "properties": {
            "numbers": {
                "type": "array",
                "items": {"type": ["integer", "string"]},
                "description": "Numbers of messages, or ranges such as \"12-15\".",
            },
            "around": parameter("integer", "Also this many messages before and after each."),
            "offset": parameter("integer", "Where to go on in a long message, as the answer before said."),
        },
        "required": ["numbers"],
    });
    if other_sessions {
        parameters["properties"]["session"] =
            parameter("string", "The other session that the messages are in, as recall_search named it.");
    }
    parameters
}

/// The arguments, with the other names by which models call them.
const KNOWN: [&str; 8] = ["numbers", "number", "ids", "id", "messages", "around", "offset", "session"];

/// What is meant by arguments that are none.
const MEANT: [(&str, &str); 2] = [("context", "`around`"), ("from", "`numbers`, such as [\"12-15\"]")];

pub(super) fn expand(desk: Desk<'_>) -> Answer {
    if let Err(wrong) = desk.args.only(&KNOWN, &MEANT) {
        return Ok(Err(wrong));
    }
    match desk.args.text(&["session"]) {
        None => read(&desk, desk.session, ""),
        Some(session) => match elsewhere::one(&desk, &session)? {
            Ok(other) => {
                let name = elsewhere::shown_key(&session);
                read(&desk, &lock(&other).session, &format!(", session \"{name}\""))
            }
            Err(wrong) => Ok(Err(wrong)),
        },
    }
}

/// Reads messages of a session; `named` is what a further call has to say of it.
fn read(desk: &Desk<'_>, session: &Session, named: &str) -> Answer {
    let wanted = match wanted(desk, session) {
        Ok(wanted) => wanted,
        Err(wrong) => return Ok(Err(wrong)),
    };
    let offset = match desk.args.number(&["offset"]) {
        Ok(offset) => usize::try_from(offset.unwrap_or(0)).unwrap_or(usize::MAX),
        Err(wrong) => return Ok(Err(wrong)),
    };
    let texts = session.texts(desk.context, None);
    let mut out = String::new();
    let mut room = BYTES;
    let mut shown = 0;
    let mut goes_on = None;
    for (at, ordinal) in wanted.iter().enumerate() {
        desk.context.check()?;
        if room < PART_MIN {
            break;
        }
        let value = texts.value(*ordinal)?;
        let Some(stored) = value.as_deref().and_then(Stored::decode) else {
            let _ = writeln!(out, "{} cannot be read", number(*ordinal));
            shown += 1;
            continue;
        };
        let told = stored.told();
        let start = if at == 0 { told.floor_char_boundary(offset) } else { 0 };
        if start != 0 && start >= told.len() {
            let (number, bytes) = (number(*ordinal), told.len());
            return Ok(Err(format!("{number} has {bytes} bytes; the offset must be smaller")));
        }
        if at > 0 && told.len() > room && room < BYTES / 2 {
            break;
        }
        let end = told.floor_char_boundary(start.saturating_add(room));
        heading(&mut out, session, *ordinal, &stored);
        if start > 0 || end < told.len() {
            let _ = write!(out, " · bytes {start} to {end} of {}", told.len());
        }
        out.push('\n');
        if let Some(call) = call(&texts, &stored)? {
            out.push_str("the call was:\n");
            quote::snippet(&mut out, &call, 0, CALL_BYTES);
            out.push_str("the result:\n");
        }
        quote::quote(&mut out, &told[start..end]);
        room -= end - start;
        if end < told.len() {
            goes_on = Some((*ordinal, end));
            break;
        }
        shown += 1;
    }
    if let Some((ordinal, end)) = goes_on {
        let number = number(ordinal);
        let _ = writeln!(out, "{number} goes on: recall_expand with numbers [{number}]{named} and offset {end}.");
        shown += 1;
    }
    if shown < wanted.len() {
        let _ = writeln!(out, "Not shown yet: {}.", listed(&wanted[shown..]));
    }
    Ok(Ok(out))
}

/// The ordinals that are asked for, in order.
fn wanted(desk: &Desk<'_>, session: &Session) -> Result<Vec<Ordinal>, String> {
    let ranges = desk.args.numbers(&["numbers", "number", "ids", "id", "messages"])?;
    if ranges.is_empty() {
        return Err("give `numbers`: the numbers of the messages to read, such as [12] or [\"12-15\"]".to_owned());
    }
    let around = desk.args.number(&["around"])?.unwrap_or(0).min(AROUND_MAX);
    let last = session.rows.len() as u64;
    let mut wanted = BTreeSet::new();
    for range in ranges {
        if *range.start() == 0 || *range.start() > last {
            continue;
        }
        let first = range.start().saturating_sub(around).max(1);
        for number in first..=range.end().saturating_add(around).min(last) {
            wanted.extend(ordinal(session, number));
            if wanted.len() > MESSAGES_MAX {
                return Err(format!("that are more than {MESSAGES_MAX} messages: ask for fewer at once"));
            }
        }
    }
    if wanted.is_empty() {
        return Err(no_such(session));
    }
    Ok(wanted.into_iter().collect())
}

/// The call that a tool result answers.
fn call(texts: &crate::session::Reader<'_>, stored: &Stored<'_>) -> engine_abi::Result<Option<String>> {
    let (Some(asked_in), Some(id)) = (stored.asked_in, stored.call_id) else { return Ok(None) };
    let value = texts.value(asked_in)?;
    let asked = value.as_deref().and_then(Stored::decode);
    Ok(asked.and_then(|asked| {
        let call = asked.calls.iter().find(|call| call.id == id)?;
        Some(format!("{} {}", call.name, call.arguments))
    }))
}
