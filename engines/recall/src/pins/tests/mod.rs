//! What is pinned, what is not, and what becomes of pins.

mod languages;
mod life;
mod no_orders;
mod orders;
mod properties;
mod text;

use super::*;

/// The sentences of `text` that read like pins; none unless the person said it.
///
/// Bytes are those of `text`; the ranges are whole sentences, rise and do not overlap.
fn detect(text: &str, role: Role) -> Vec<Candidate> {
    let mut found = Vec::new();
    if role == Role::User {
        judge::remarks(text, |remark| {
            if let Remark::Pin(candidate) = remark {
                found.push(candidate);
            }
        });
    }
    found
}

/// What is found in a text of the person: kinds and quoted sentences.
fn found(text: &str) -> Vec<(Kind, &str)> {
    detect(text, Role::User).into_iter().map(|found| (found.kind, &text[found.start..found.end])).collect()
}

/// The quoted sentences alone.
fn quoted(text: &str) -> Vec<&str> {
    found(text).into_iter().map(|(_, text)| text).collect()
}

/// Learns messages of the person, one entry each.
fn learned(messages: &[&str]) -> Pins {
    let mut pins = Pins::default();
    for (ordinal, text) in messages.iter().enumerate() {
        let ordinal = ordinal as u32;
        pins.learn(ordinal, u64::from(ordinal) + 100, i64::from(ordinal) * 1000, Role::User, text);
    }
    pins
}

fn texts(pins: &Pins) -> Vec<&str> {
    pins.all().iter().map(|pin| pin.text.as_str()).collect()
}

/// Each is one pin, whole, where nothing was said before.
fn pinned(sentences: &[&str]) {
    let pins = sentences.iter().map(|text| (text, learned(&[text])));
    let missed: Vec<_> = pins.filter(|(text, pins)| texts(pins) != [**text]).map(|(text, _)| text).collect();
    assert!(missed.is_empty(), "not pinned whole: {missed:#?}");
}

/// None is a pin.
fn passed(sentences: &[&str]) {
    let pins = sentences.iter().map(|text| (text, learned(&[text])));
    let wrong: Vec<_> = pins.filter(|(_, pins)| !pins.all().is_empty()).map(|(text, _)| text).collect();
    assert!(wrong.is_empty(), "pinned: {wrong:#?}");
}
