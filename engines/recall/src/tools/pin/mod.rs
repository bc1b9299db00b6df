//! `recall_pin`: what stays in view for good.
//!
//! Only words of this conversation can be pinned, and never those of a tool's result: so nothing that was read somewhere becomes
//! a standing instruction because a model was talked into it. What is pinned are the words as they were said, wherever the model
//! wrote them a little differently.

mod answers;

use super::args::Wrong;
use super::{Answer, Desk, no_such, number, ordinal, parameter, quote};
use crate::index::Ordinal;
use crate::pins::{Kind, Pin, PinId};
use crate::session::Stored;
use crate::text::time::minute;
pub(crate) use answers::read;
use engine_abi::wire::role;
use engine_abi::{CursorRequest, Page, wire};
use regex::{Regex, RegexBuilder};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Longest text that can be pinned, in bytes.
const TEXT_MAX: usize = 600;
/// Most bytes of quoted text in a list.
const LIST_BYTES: usize = 8_000;
/// Entries that are looked at between two looks at the clock.
const CHUNK: Ordinal = 256;

pub(super) fn parameters() -> Value {
    json!({
        "type": "object",
        "properties": {
            "action": {"type": "string", "enum": ["add", "remove", "list"]},
            "text": parameter("string", "To add: the user's own words, copied."),
            "number": parameter("integer", "To add: the message that says it."),
            "kind": {
                "type": "string", "enum": ["instruction", "preference", "constraint", "task"],
                "description": "What is added.",
            },
            "id": parameter("integer", "To remove: the pin, as list shows it."),
        },
        "required": ["action"],
    })
}

pub(super) fn pin(desk: Desk<'_>) -> Answer {
    let says = |names: &[&str]| desk.args.text(names).is_some();
    match desk.args.text(&["action"]).map(|action| action.to_lowercase()).as_deref() {
        Some("add" | "pin" | "keep") => add(desk),
        Some("remove" | "delete" | "unpin") => Ok(remove(desk)),
        Some("list" | "show") => Ok(list(&desk)),
        None if says(&["text", "number"]) => add(desk),
        None => Ok(list(&desk)),
        Some(_) => Ok(Err("`action` must be add, remove or list".to_owned())),
    }
}

/// Words that were said, and where.
struct Said {
    ordinal: Ordinal,
    entry_id: u64,
    time_ms: i64,
    text: String,
}

fn add(desk: Desk<'_>) -> Answer {
    let asked = (|| Ok((kind(&desk)?, desk.args.number(&["number", "message"])?, desk.args.text(&["text"]))))();
    let (kind, at, text) = match asked {
        Ok(asked) => asked,
        Err(wrong) => return Ok(Err(wrong)),
    };
    let said = match (at, text) {
        (None, None) => Err("give `text`, the user's own words, or `number`, the message that says it".to_owned()),
        (Some(at), text) => in_message(&desk, at, text.as_deref())?,
        (None, Some(text)) => anywhere(&desk, &text)?,
    };
    let said = match said {
        Ok(said) => said,
        Err(wrong) => return Ok(Err(wrong)),
    };
    let id = desk.session.pins.pin(kind, said.ordinal, said.entry_id, said.time_ms, &said.text);
    desk.session.shown.pins_changed();
    let mut out = String::new();
    if let Some(pin) = desk.session.pins.all().iter().find(|pin| pin.id == id) {
        answers::pinned(&mut out, id, pin.kind, pin.ordinal, &pin.text);
    }
    Ok(Ok(out))
}

fn kind(desk: &Desk<'_>) -> Result<Kind, Wrong> {
    match desk.args.text(&["kind"]).map(|kind| kind.to_lowercase()) {
        None => Ok(Kind::Instruction),
        Some(word) => {
            answers::kind(&word).ok_or_else(|| "`kind` must be instruction, preference, constraint or task".to_owned())
        }
    }
}

/// A message by its number, whole or a part of it.
fn in_message(desk: &Desk<'_>, at: u64, text: Option<&str>) -> engine_abi::Result<Result<Said, Wrong>> {
    let Some(ordinal) = ordinal(desk.session, at) else { return Ok(Err(no_such(desk.session))) };
    let value = desk.session.texts(desk.context, None).value(ordinal)?;
    let Some(stored) = value.as_deref().and_then(Stored::decode) else {
        return Ok(Err(format!("{at} cannot be read")));
    };
    let head = stored.head();
    if !may_be_pinned(head.role) {
        return Ok(Err(format!("{at} is not the user's: what a tool gave cannot be pinned")));
    }
    let words = match text {
        None => stored.text.trim(),
        Some(text) => match pattern(text).as_ref().and_then(|pattern| pattern.find(stored.text)) {
            Some(found) => found.as_str(),
            None => return Ok(Err(format!("{at} does not say that; copy its words"))),
        },
    };
    if words.is_empty() || words.len() > TEXT_MAX {
        return Ok(Err(format!("give `text`: the words of {at} that count, at most {TEXT_MAX} bytes")));
    }
    Ok(Ok(Said { ordinal, entry_id: head.id, time_ms: head.time_ms, text: words.to_owned() }))
}

/// The newest message that says it: in the turn that runs, else of the user, else of the assistant.
fn anywhere(desk: &Desk<'_>, text: &str) -> engine_abi::Result<Result<Said, Wrong>> {
    if text.len() > TEXT_MAX {
        return Ok(Err(format!("the text is too long: at most {TEXT_MAX} bytes")));
    }
    let Some(pattern) = pattern(text) else { return Ok(Err("the text has no words".to_owned())) };
    if let Some(said) = now(desk, &pattern)? {
        return Ok(Ok(said));
    }
    let session = &*desk.session;
    let texts = session.texts(desk.context, None);
    for role in [role::USER, role::ASSISTANT] {
        let mut end = Ordinal::try_from(session.rows.len()).unwrap_or(Ordinal::MAX);
        while end > 0 {
            desk.context.check()?;
            let start = end.saturating_sub(CHUNK);
            let mut newest = None;
            texts.each(start..end, |ordinal, stored| {
                let head = stored.head();
                if head.role == role
                    && let Some(found) = pattern.find(stored.text)
                {
                    let text = found.as_str().to_owned();
                    newest = Some(Said { ordinal, entry_id: head.id, time_ms: head.time_ms, text });
                }
            })?;
            if let Some(said) = newest {
                return Ok(Ok(said));
            }
            end = start;
        }
    }
    Ok(
        Err("nobody said that in this conversation: copy the user's words, or give the number of the message"
            .to_owned()),
    )
}

/// The user's message of the turn that runs, which is not handed over yet.
fn now(desk: &Desk<'_>, pattern: &Regex) -> engine_abi::Result<Option<Said>> {
    if desk.context.session().ephemeral() || !desk.context.offers(wire::service::TRANSCRIPT) {
        return Ok(None);
    }
    let mut said = None;
    let mut next = desk.session.rows.len();
    let mut request = CursorRequest::after_handed_over();
    loop {
        desk.context.check()?;
        let Page::Entries { entries, cursor, has_more, required_bytes } = desk.context.read_transcript(&request)?
        else {
            return Ok(said);
        };
        for entry in entries.iter().filter(|entry| desk.session.ordinal(entry.id()).is_none()) {
            let head = entry.head();
            if head.role == role::USER
                && let (Some(found), Ok(ordinal)) = (pattern.find(entry.text()), Ordinal::try_from(next))
            {
                let text = found.as_str().to_owned();
                said = Some(Said { ordinal, entry_id: head.id, time_ms: head.time_ms, text });
            }
            next += 1;
        }
        if !has_more || (entries.is_empty() && request.max_bytes != 0) {
            return Ok(said);
        }
        request.cursor = cursor;
        request.max_bytes = required_bytes.unwrap_or(0);
    }
}

fn may_be_pinned(role_code: u32) -> bool {
    matches!(role_code, role::USER | role::ASSISTANT)
}

/// Finds the words of a text however they are spaced and cased; `None` when it has none.
fn pattern(text: &str) -> Option<Regex> {
    let edge = |letter: char| !letter.is_alphanumeric();
    let words: Vec<String> = text.trim_matches(edge).split_whitespace().map(regex::escape).collect();
    if words.is_empty() {
        return None;
    }
    // A closing sign goes with a sentence.
    let pattern = format!(r"{}[.!?。！？]?", words.join(r"\s+"));
    RegexBuilder::new(&pattern).case_insensitive(true).build().ok()
}

fn remove(desk: Desk<'_>) -> Result<String, Wrong> {
    let id = desk.args.number(&["id", "pin", "pin_id"])?;
    let message = desk.args.number(&["number", "message"])?;
    let text = desk.args.text(&["text"]);
    let pins = desk.session.pins.all();
    let is_meant = |pin: &Pin| match (id, message, &text) {
        (Some(id), ..) => u64::from(pin.id) == id,
        (None, Some(message), _) => number(pin.ordinal) == message,
        (None, None, Some(text)) => {
            pattern(text).is_some_and(|pattern| pattern.is_match(&pin.text)) || pin.text.trim() == text.trim()
        }
        (None, None, None) => false,
    };
    let meant: Vec<PinId> = pins.iter().filter(|pin| is_meant(pin)).map(|pin| pin.id).collect();
    if meant.is_empty() {
        return Err("there is no such pin: give `id` as recall_pin with action list shows it".to_owned());
    }
    desk.session.shown.pins_changed();
    let mut out = String::new();
    for id in meant {
        if let Some(pin) = desk.session.pins.remove(id) {
            answers::removed(&mut out, &pin);
        }
    }
    Ok(out)
}

fn list(desk: &Desk<'_>) -> Result<String, Wrong> {
    let page = desk.args.number(&["page"])?.unwrap_or(1).max(1);
    let mut out = String::new();
    let (mut at, mut bytes) = (1, 0);
    for pin in desk.session.pins.all() {
        bytes += pin.text.len();
        if bytes > LIST_BYTES {
            bytes = pin.text.len();
            at += 1;
        }
        if at < page {
            continue;
        }
        if at > page {
            let _ = writeln!(out, "There are more: ask again with page {at}.");
            break;
        }
        let kind = answers::word(pin.kind);
        let _ = write!(out, "id {} · {kind} · said in {}", pin.id, number(pin.ordinal));
        let time = minute(pin.time_ms);
        if !time.is_empty() {
            let _ = write!(out, " · {time}");
        }
        out.push('\n');
        quote::quote(&mut out, &pin.text);
    }
    if out.is_empty() {
        out.push_str("Nothing is pinned.\n");
    }
    Ok(out)
}
