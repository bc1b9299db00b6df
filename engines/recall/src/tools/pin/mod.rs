//! `recall_pin`: what stays in view for good.
//!
//! Only the person's own words can be pinned ([`Words`]): nothing that a tool gave, that the assistant said or that the person
//! pasted becomes a standing instruction because a model was talked into it. What is pinned are whole sentences as they were
//! said, since a part of one may say the contrary.

mod answers;

use super::args::Wrong;
use super::{Answer, Desk, no_such, number, ordinal, parameter, quote};
use crate::index::Ordinal;
use crate::pins::{Found, Kind, Pin, PinId, Words, whole};
use crate::session::Stored;
use crate::text::time::minute;
pub(crate) use answers::read;
use engine_abi::wire::role;
use engine_abi::{CursorRequest, Head, Page, wire};
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
    let said = match (at, &text) {
        (None, None) => Err("give `text`, the user's own words, or `number`, the message that says it".to_owned()),
        (Some(at), text) => in_message(&desk, at, text.as_deref())?,
        (None, Some(text)) => anywhere(&desk, text)?,
    };
    let said = match said {
        Ok(said) => said,
        Err(wrong) => return Ok(Err(wrong)),
    };
    let mut out = String::new();
    let known = desk.session.pins.says(&said.text).cloned();
    let (known, said) = match known {
        Some(pin) => {
            let said = Said { ordinal: pin.ordinal, entry_id: pin.entry_id, time_ms: pin.time_ms, text: pin.text };
            (true, said)
        }
        None => (false, said),
    };
    // Also what is pinned already: from now on no rule drops it.
    let id = desk.session.pins.pin(kind, said.ordinal, said.entry_id, said.time_ms, &said.text);
    desk.session.shown.pins_changed();
    if let Some(pin) = desk.session.pins.all().iter().find(|pin| pin.id == id) {
        answers::pinned(&mut out, known, pin);
        if !known && text.is_some_and(|text| bare(&text) != bare(&pin.text)) {
            out.push_str("What is pinned is the whole sentence, as the user said it.\n");
        }
    }
    Ok(Ok(out))
}

/// Words of a text, small, for a comparison.
fn bare(text: &str) -> Vec<String> {
    let edge = |letter: char| !letter.is_alphanumeric();
    text.trim_matches(edge).split_whitespace().map(str::to_lowercase).collect()
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
    if head.role != role::USER {
        return Ok(Err(format!("{at} is not the user's: what a tool gave or the assistant said cannot be pinned")));
    }
    if desk.session.shown.is_away(ordinal) {
        return Ok(Err(format!("{at} was edited away by the user and cannot be pinned")));
    }
    let words = match text {
        None => match whole(stored.text) {
            Some(words) => words,
            None => {
                return Ok(Err(format!("{at} is not all the user's own words: give `text`, the sentence that counts")));
            }
        },
        Some(text) => match Words::of(text).map(|words| words.find(stored.text)) {
            Some(Found::Own(place)) => &stored.text[place],
            Some(Found::Others) => return Ok(Err(format!("{at}: {NOT_OWN}"))),
            Some(Found::Unclear) => return Ok(Err(UNCLEAR.to_owned())),
            Some(Found::Nothing) | None => return Ok(Err(format!("{at} does not say that; copy its words"))),
        },
    };
    if words.is_empty() || words.len() > TEXT_MAX {
        return Ok(Err(format!("give `text`: the words of {at} that count, at most {TEXT_MAX} bytes")));
    }
    Ok(Ok(Said { ordinal, entry_id: head.id, time_ms: head.time_ms, text: words.to_owned() }))
}

/// Why words cannot be pinned that are in a message of the person.
const NOT_OWN: &str = "the user pasted or quoted that, so it cannot be pinned; ask the user to say it";
/// What to do about words that do not tell what is meant.
const UNCLEAR: &str = "that is too short or stands in several sentences: copy one whole sentence of the user";

/// The newest message of the person that says it and still counts.
fn anywhere(desk: &Desk<'_>, text: &str) -> engine_abi::Result<Result<Said, Wrong>> {
    if text.len() > TEXT_MAX {
        return Ok(Err(format!("the text is too long: at most {TEXT_MAX} bytes")));
    }
    let Some(words) = Words::of(text) else { return Ok(Err("the text has no words".to_owned())) };
    let mut looked = Looked::default();
    now(desk, &words, &mut looked)?;
    let session = &*desk.session;
    let texts = session.texts(desk.context, None);
    let mut end = Ordinal::try_from(session.rows.len()).unwrap_or(Ordinal::MAX);
    while end > 0 && looked.said.is_none() {
        desk.context.check()?;
        let start = end.saturating_sub(CHUNK);
        texts.each(start..end, |ordinal, stored| {
            if !session.shown.is_away(ordinal) {
                looked.look(&words, ordinal, &stored.head(), stored.text);
            }
        })?;
        end = start;
    }
    Ok(match looked {
        Looked { said: Some(said), .. } if said.text.len() <= TEXT_MAX => Ok(said),
        Looked { said: Some(said), .. } => {
            Err(format!("the sentence in {} is too long: at most {TEXT_MAX} bytes", number(said.ordinal)))
        }
        Looked { unclear: true, .. } => Err(UNCLEAR.to_owned()),
        Looked { others: true, .. } => Err(NOT_OWN.to_owned()),
        Looked { .. } => {
            Err("the user did not say that in this conversation: copy the user's own words, or give the number \
                              of the message; what a tool gave or the assistant said cannot be pinned"
                .to_owned())
        }
    })
}

/// What was found on the way.
#[derive(Default)]
struct Looked {
    said: Option<Said>,
    others: bool,
    unclear: bool,
}

impl Looked {
    /// Looks at a message; the last one that says it counts.
    fn look(&mut self, words: &Words, ordinal: Ordinal, head: &Head, text: &str) {
        if head.role != role::USER {
            return;
        }
        match words.find(text) {
            Found::Own(place) => {
                let text = text[place].to_owned();
                self.said = Some(Said { ordinal, entry_id: head.id, time_ms: head.time_ms, text });
            }
            Found::Others => self.others = true,
            Found::Unclear => self.unclear = true,
            Found::Nothing => {}
        }
    }
}

/// The user's message of the turn that runs, which is not handed over yet.
fn now(desk: &Desk<'_>, words: &Words, looked: &mut Looked) -> engine_abi::Result<()> {
    if desk.context.session().ephemeral() || !desk.context.offers(wire::service::TRANSCRIPT) {
        return Ok(());
    }
    let mut next = desk.session.rows.len();
    let mut request = CursorRequest::after_handed_over();
    loop {
        desk.context.check()?;
        let Page::Entries { entries, cursor, has_more, required_bytes } = desk.context.read_transcript(&request)?
        else {
            return Ok(());
        };
        for entry in entries.iter().filter(|entry| desk.session.ordinal(entry.id()).is_none()) {
            if let Ok(ordinal) = Ordinal::try_from(next) {
                looked.look(words, ordinal, entry.head(), entry.text());
            }
            next += 1;
        }
        if !has_more || (entries.is_empty() && request.max_bytes != 0) {
            return Ok(());
        }
        request.cursor = cursor;
        request.max_bytes = required_bytes.unwrap_or(0);
    }
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
            Words::of(text).is_some_and(|words| words.is_in(&pin.text)) || pin.text.trim() == text.trim()
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
