//! What a crash left behind: the ledger of calls, and the document with the verdicts.

use super::folder;
use engineroom::ledger::fuzzing::{FILES, fresh, held, told};
use engineroom::ledger::{look, release};

/// Up to the first zero byte a document; behind it changes to a fresh ledger: each two bytes of place and eight of value.
pub(crate) fn ledger(data: &[u8]) {
    let (document, changes) = match data.iter().position(|byte| *byte == 0) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &b""[..]),
    };
    let mut bytes = fresh();
    for change in changes.chunks_exact(10) {
        let words = bytes.len() / 8;
        let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % words * 8;
        bytes[place..place + 8].copy_from_slice(&change[2..]);
    }
    let said = told(&bytes);
    assert!(told(&bytes[..bytes.len() - 1]).is_none(), "a ledger that was cut passed as one");
    let folder = folder().join("ledger");
    std::fs::create_dir_all(&folder).expect("a folder");
    for (name, text) in FILES.iter().zip([&bytes[..], document]) {
        std::fs::write(folder.join(name), text).expect("a file");
    }
    let verdicts = look(&folder);
    assert_eq!(std::fs::read(folder.join(FILES[0])).ok(), Some(bytes), "who only looks changes nothing");
    let damaged = verdicts.previous().is_none_or(|previous| previous.damaged.is_some());
    assert!(said.is_some() || damaged, "what is no ledger accuses nobody");
    // What is held can be let go, by the name that is told.
    for id in held(&verdicts) {
        let released = release(&folder, &id, None).expect("the document is written");
        assert!(!held(&look(&folder)).contains(&id), "{id:?} is still held; released: {released:?}");
    }
}
