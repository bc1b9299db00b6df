//! What was deleted is not in the files either: no word of it, in the database or in its log.

use super::*;
use crate::transcript::{EngineOp, EntryBody, Message, OutboxState, Role, TurnRecord, Write};
use serde_json::json;
use std::time::{Duration, Instant};

/// What is said in a session, and kept of it; its first letters are the session's.
const PLACES: [&str; 7] = ["small", "large", "frozen", "turn", "engine", "outbox", "late"];

fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn submit(store: &dyn Store, writes: Vec<Write>) {
    store.submit(Submission { lease: None, writes }).durable_blocking(deadline()).unwrap();
}

fn word(key: &str, place: &str) -> String {
    format!("{key}-quillwort-{place}")
}

fn message(store: &dyn Store, session: SessionRow, parent: EntryId, text: String) -> Entry {
    let message = Message::text_of(Role::User, text);
    let digest = message.digest();
    let body = EntryBody::Message(Arc::new(message));
    Entry { id: store.next_entry(), parent, session, time_ms: 1, flags: 0, tokens: 7, digest, body }
}

fn put(scope: EngineScope, key: &str, value: &str) -> Write {
    let ops = vec![EngineOp::Put(key.as_bytes().to_vec(), value.as_bytes().to_vec())];
    Write::EngineBatch { engine: "e".into(), scope, ops }
}

/// A session with a word of its own in every table that knows of sessions.
fn fill(store: &dyn Store, key: &str) -> SessionRecord {
    let record = SessionRecord::new(store.next_session(), key, 1);
    let small = message(store, record.row, 0, word(key, "small"));
    let large = message(store, record.row, small.id, word(key, "large").repeat(2_000));
    let last = message(store, record.row, large.id, word(key, "late"));
    let head = last.id;
    let turn = TurnRecord {
        session: record.row,
        turn_id: format!("{key}-t"),
        admitted: small.id,
        terminal: head,
        idempotency_key: None,
        engine: "e".into(),
        degraded: None,
        detail: json!({"reason": word(key, "turn")}),
        started_ms: 1,
        ended_ms: 2,
    };
    let outbox = OutboxRow {
        engine: "e".into(),
        key: format!("{key}-k"),
        session: record.row,
        session_id: record.session_id.clone(),
        first: small.id,
        last: head,
        position: None,
        generation: 0,
        state: OutboxState::Ready,
        reason: None,
        attempts: 1,
        attempted_ms: 1,
        last_error: Some(word(key, "outbox")),
        facts: None,
        created_ms: 1,
    };
    let scope = EngineScope::Session(record.row);
    submit(
        store,
        vec![
            Write::CreateSession { record: record.clone() },
            Write::Append(small),
            Write::Append(large),
            Write::Append(last),
            Write::SetHead { session: record.row, head },
            Write::FreezePruned { session: record.row, entry: head, text: word(key, "frozen") },
            Write::Turn(turn),
            Write::Outbox(outbox),
            put(scope, "k", &word(key, "engine")),
        ],
    );
    record
}

/// Which of the words stand in a file of the folder.
fn found(folder: &Path, words: &[String]) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let bytes: Vec<Vec<u8>> = files.filter(|file| file.is_file()).map(|file| std::fs::read(file).unwrap()).collect();
    let stands = |word: &&String| bytes.iter().any(|bytes| memchr::memmem::find(bytes, word.as_bytes()).is_some());
    words.iter().filter(stands).cloned().collect()
}

fn words(key: &str) -> Vec<String> {
    PLACES.iter().map(|place| word(key, place)).collect()
}

/// Waits until none of them stands anywhere.
fn wait_until_gone(folder: &Path, words: &[String]) {
    let until = deadline();
    loop {
        let left = found(folder, words);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < until, "still in a file: {left:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn no_word_of_a_deleted_session_stays_in_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let (gone, stays) = (fill(&*store, "gone"), fill(&*store, "stays"));
    assert_eq!(found(dir.path(), &words("gone")), words("gone"), "what is looked for can be found");
    submit(&*store, vec![Write::DeleteSession { session: gone.row }]);
    wait_until_gone(dir.path(), &words("gone"));
    assert_eq!(store.branch(stays.row, store.heads(stays.row).unwrap()[0]).unwrap().len(), 3);
    // The log was begun anew: one that is empty would tell at the next start that something was lost.
    let log = std::fs::metadata(dir.path().join("transcript.db-wal")).unwrap().len();
    assert!(log > 0 && log < 16_384, "{log}");
    fill(&*store, "next");
    store.close();
    assert_eq!(found(dir.path(), &words("gone")), Vec::<String>::new());
    assert_eq!(found(dir.path(), &words("stays")), words("stays"));
    assert_eq!(check(dir.path(), 10).unwrap().unwrap().problems, Vec::<String>::new());
}

#[test]
fn a_store_that_is_closed_at_once_takes_a_large_session_away_first() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let record = SessionRecord::new(store.next_session(), "gone", 1);
    let mut writes = vec![Write::CreateSession { record: record.clone() }];
    let mut head = 0;
    for _ in 0..1_300 {
        let entry = message(&*store, record.row, head, word("gone", "small"));
        head = entry.id;
        writes.push(Write::Append(entry));
    }
    submit(&*store, writes);
    submit(&*store, vec![Write::DeleteSession { session: record.row }]);
    store.close();
    assert_eq!(found(dir.path(), &words("gone")), Vec::<String>::new());
}

#[test]
fn what_an_engine_deletes_is_gone_after_a_pause() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path()).unwrap();
    let record = fill(&*store, "stays");
    let scope = EngineScope::Session(record.row);
    let secret = |n: usize| word("secret", &format!("engine{n}"));
    let all: Vec<String> = (0..4).map(secret).collect();
    submit(&*store, vec![put(scope, "one", &secret(0)), put(EngineScope::Engine, "two", &secret(1).repeat(900))]);
    submit(&*store, vec![put(scope, "three", &secret(2)), put(scope, "p1", &secret(3))]);
    assert_eq!(found(dir.path(), &all), all);
    let batch = |scope, op| Write::EngineBatch { engine: "e".into(), scope, ops: vec![op] };
    submit(&*store, vec![put(scope, "three", "other words")]);
    submit(&*store, vec![batch(scope, EngineOp::Delete(b"one".to_vec()))]);
    submit(&*store, vec![batch(scope, EngineOp::DeletePrefix(b"p".to_vec()))]);
    submit(&*store, vec![Write::EngineDropScope { engine: Some("e".into()), scope: EngineScope::Engine }]);
    wait_until_gone(dir.path(), &all);
    assert_eq!(store.engine_get("e", scope, b"three").unwrap().as_deref(), Some(b"other words".as_slice()));
    assert_eq!(found(dir.path(), &words("stays")), words("stays"));
}

#[test]
fn a_database_written_anew_has_what_it_had_and_nothing_of_what_was_deleted() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(shrink(dir.path()).unwrap(), None);
    let store = open(dir.path()).unwrap();
    let stays = fill(&*store, "stays");
    assert!(matches!(shrink(dir.path()), Err(StoreError::Locked { .. })));
    store.close();
    // As a version that did not overwrite left it.
    let path = dir.path().join("transcript.db");
    let conn = rusqlite::Connection::open(&path).unwrap();
    conn.execute_batch("PRAGMA secure_delete = OFF; CREATE TABLE t(x TEXT)").unwrap();
    for word in words("gone") {
        conn.execute("INSERT INTO t VALUES(?1)", [word.repeat(500)]).unwrap();
    }
    conn.execute_batch("DROP TABLE t").unwrap();
    drop(conn);
    assert_eq!(found(dir.path(), &words("gone")), words("gone"));
    let report = shrink(dir.path()).unwrap().unwrap();
    assert!(report.bytes < report.before, "{report:?}");
    assert_eq!(found(dir.path(), &words("gone")), Vec::<String>::new());
    assert_eq!(found(dir.path(), &words("stays")), words("stays"));
    let files = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(files, 3, "the database, its mark and the lock");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&path).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(check(dir.path(), 10).unwrap().unwrap().problems, Vec::<String>::new());
    let store = open(dir.path()).unwrap();
    assert_eq!(store.branch(stays.row, store.heads(stays.row).unwrap()[0]).unwrap().len(), 3);
}
