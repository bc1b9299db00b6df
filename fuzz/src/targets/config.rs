//! `plugins.toml`: what is read, and what an edit leaves as it was.

use super::folder;
use engineroom::config::edit::{self, Change};
use engineroom::config::{Config, Overrides, load_from};
use std::path::Path;

fn read(path: &Path) -> Option<Config> {
    load_from(Some(path), &Overrides::default(), &|_| None, Path::new("/")).ok().map(|loaded| loaded.config)
}

/// Everything but the slots of the gateway.
fn rest(config: &Config) -> String {
    let mut config = config.clone();
    config.plugins.slots = Default::default();
    format!("{config:?}")
}

/// Reads it; when it is good, selects another engine and another memory provider in it and resets them.
pub(crate) fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let path = folder().join("plugins.toml");
    std::fs::write(&path, text).expect("the file is written");
    let Some(before) = read(&path) else { return };
    let chain: Vec<String> = match data.len() % 3 {
        0 => vec!["window".into()],
        1 => vec!["recall".into(), "window".into()],
        _ => vec!["legacy".into()],
    };
    match edit::edit(&path, &[Change::Select(&chain)], false) {
        Ok(edited) => {
            let after = std::fs::read_to_string(&path).expect("the file is read");
            assert_eq!(edited.changed, after != text, "it says what it did");
            check_kept(text, &after);
            let config = read(&path).expect("a good file is good after an edit");
            assert_eq!(config.plugins.slots.context_engine, chain);
            assert_eq!(config.plugins.slots.memory, before.plugins.slots.memory);
            assert_eq!(rest(&config), rest(&before), "an edit changes what it is about and no more");
            let again = edit::edit(&path, &[Change::Select(&chain)], false).expect("again");
            assert!(!again.changed, "a second edit has nothing to do");
        }
        // Another engine watches, or the file says that someone else writes it.
        Err(_) => assert_eq!(std::fs::read_to_string(&path).expect("the file is read"), text),
    }
    let text = std::fs::read_to_string(&path).expect("the file is read");
    if edit::edit(&path, &[Change::SelectMemory("notes")], false).is_ok() {
        let after = std::fs::read_to_string(&path).expect("the file is read");
        check_kept(&text, &after);
        assert_eq!(read(&path).expect("still good").plugins.slots.memory.as_deref(), Some("notes"));
    }
    let text = std::fs::read_to_string(&path).expect("the file is read");
    let reset = Change::ResetSlots { engines: &chain, memory: &["notes".into()] };
    if edit::edit(&path, &[reset], false).is_ok() {
        let after = std::fs::read_to_string(&path).expect("the file is read");
        check_kept(&text, &after);
        let slots = read(&path).expect("still good").plugins.slots;
        assert!(slots.memory.as_deref().is_none_or(|memory| memory.trim() != "notes"));
        let gone = |id: &String| chain.contains(id) && id != "legacy";
        assert!(!slots.context_engine.iter().any(gone), "{slots:?}");
    }
}

/// Every comment is still there, in its order.
fn check_kept(before: &str, after: &str) {
    let (old, new) = (comments(before), comments(after));
    let mut new_ones = new.iter();
    for comment in &old {
        assert!(new_ones.any(|kept| kept == comment), "{comment:?} is gone:\n{before}\n----\n{after}");
    }
}

/// The comments of a TOML text that is known to be well formed.
fn comments(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        match bytes[at] {
            b'#' => {
                let end = bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |length| at + length);
                found.push(text[at..end].trim_end());
                at = end;
            }
            quote @ (b'"' | b'\'') => at = after_string(bytes, at, quote),
            _ => at += 1,
        }
    }
    found
}

fn after_string(bytes: &[u8], start: usize, quote: u8) -> usize {
    let long = bytes[start..].starts_with(&[quote; 3]);
    let mut at = start + if long { 3 } else { 1 };
    while at < bytes.len() {
        if bytes[at] == b'\\' && quote == b'"' {
            at += 2;
        } else if long && bytes[at..].starts_with(&[quote; 3]) {
            // Up to two quotes may stand before the closing three.
            at += 3;
            while bytes.get(at) == Some(&quote) {
                at += 1;
            }
            return at;
        } else if !long && bytes[at] == quote {
            return at + 1;
        } else {
            at += 1;
        }
    }
    at
}
