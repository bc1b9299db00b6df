//! Paths of requests, keys of sessions, and the folders that names become.

use engineroom::api::fuzzing as api;
use engineroom::slot::fuzzing as slot;
use engineroom::transcript::agent_of_key;
use std::fmt::Write;

/// A key, or what comes behind `/api/sessions/`.
pub(crate) fn path(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Some((key, _)) = api::session(text) {
        assert!(!key.is_empty());
    }
    let label = api::label(&format!("/api/sessions/{text}"));
    assert!(label.starts_with("/api/sessions/{key}") || label == "other", "{label}");
    check_folder(text);
    check_folder(agent_of_key(text));
    if text.is_empty() {
        return;
    }
    // Encoded as one piece, a key comes through whatever it holds.
    let mut encoded = String::new();
    for byte in text.bytes() {
        write!(encoded, "%{byte:02x}").expect("memory is there");
    }
    assert_eq!(api::session(&encoded), Some((text.to_owned(), "Whole".to_owned())));
    assert_eq!(api::session(&format!("{encoded}/compact")), Some((text.to_owned(), "Compact".to_owned())));
}

/// A folder's name stays inside its folder, and no other name has the same.
fn check_folder(name: &str) {
    let folder = slot::folder(name);
    assert!(!folder.is_empty() && !folder.contains(['/', '\\', '\0', '.']), "{folder:?}");
    assert!(folder.len() <= 255, "no file system takes the name {folder:?}");
    // A long name ends in the hash of the whole; what stands before that begins it.
    if folder.contains("%h") {
        assert!(name.len() > 32, "{name:?} is short and has a hash");
        return;
    }
    let mut back = Vec::new();
    let mut bytes = folder.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let (Some(high), Some(low)) = (bytes.next(), bytes.next()) else { break };
            let digits = [high, low];
            let digits = std::str::from_utf8(&digits).expect("two digits");
            back.push(u8::from_str_radix(digits, 16).expect("hexadecimal digits"));
        } else {
            back.push(byte);
        }
    }
    assert_eq!(back, name.as_bytes(), "two names may share the folder {folder:?}");
}
