//! What happens to damaged databases: everything is as it was told, or there is a clear error; nothing is made anew in silence.

use super::evidence::{Mark, beside};
use super::{check, open, open_existing, salvage};
use crate::diagnostic::Diagnostic;
use crate::transcript::{Entry, EntryBody, Message, Role, SessionRecord, Store, StoreError, Submission, Write};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SESSIONS: usize = 4;
const DB: &str = "transcript.db";

fn key(number: usize) -> String {
    format!("agent:main:session-{number}")
}

fn text(session: usize, number: usize) -> String {
    // Long ones lie on several pages.
    let tail = if number.is_multiple_of(9) { "so it goes on ".repeat(700) } else { String::new() };
    format!("entry {number} of session {session}; {tail}")
}

fn submit(store: &dyn Store, session: u64, writes: Vec<Write>) {
    let ack = store.submit(Submission { lease: Some((session, store.lease())), writes });
    ack.durable_blocking(Instant::now() + Duration::from_secs(20)).unwrap();
}

/// Adds a turn of two entries to a session, as a turn does: what is acknowledged.
fn add(store: &dyn Store, session: &mut (u64, u64), number: usize, count: usize) {
    let (row, head) = *session;
    let mut writes = Vec::new();
    if head == 0 {
        writes.push(Write::CreateSession { record: SessionRecord::new(row, key(number), 1) });
    }
    let mut parent = head;
    for (place, role) in [Role::User, Role::Assistant].into_iter().enumerate() {
        let message = Message::text_of(role, text(number, count + place));
        let id = store.next_entry();
        let digest = message.digest();
        let body = EntryBody::Message(Arc::new(message));
        writes.push(Write::Append(Entry { id, parent, session: row, time_ms: 5, flags: 0, tokens: 3, digest, body }));
        parent = id;
    }
    writes.push(Write::SetHead { session: row, head: parent });
    submit(store, row, writes);
    session.1 = parent;
}

/// A store with sessions of `turns` turns each; where `killed`, as a process leaves it that was killed.
fn made(folder: &Path, turns: usize, killed: bool) {
    let own = folder.with_extension("own");
    let store = open(&own).unwrap();
    let mut sessions: Vec<(u64, u64)> = (0..SESSIONS).map(|_| (store.next_session(), 0)).collect();
    for turn in 0..turns {
        for (number, session) in sessions.iter_mut().enumerate() {
            add(&*store, session, number, turn * 2);
        }
    }
    if !killed {
        store.close();
    }
    copy(&own, folder);
    store.close();
    drop(store);
    fs::remove_dir_all(own).unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() != "gateway.lock" {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// Texts of a session, or why they cannot be had.
fn texts(store: &dyn Store, number: usize) -> Result<Option<Vec<String>>, StoreError> {
    let Some(record) = store.session(&key(number))? else { return Ok(None) };
    let branch = store.branch(record.row, record.head)?;
    let text = |entry: &Arc<Entry>| match &entry.body {
        EntryBody::Message(message) => message.text().into_owned(),
        EntryBody::Compaction(_) => String::new(),
    };
    Ok(Some(branch.iter().map(text).collect()))
}

fn expected(number: usize, turns: usize) -> Vec<String> {
    (0..turns * 2).map(|place| text(number, place)).collect()
}

fn clear(error: &StoreError) {
    let known = matches!(
        error,
        StoreError::Damaged { .. }
            | StoreError::Unreadable { .. }
            | StoreError::Gone { .. }
            | StoreError::Open { .. }
            | StoreError::Format { .. }
            | StoreError::Backend(_)
    );
    assert!(known && error.hint().is_some(), "{error:?}");
}

/// Every session is whole, or there is an error; true when all are whole.
fn judge(folder: &Path, turns: usize, what: &str) -> bool {
    let store = match open(folder) {
        Ok(store) => store,
        Err(error) => {
            clear(&error);
            return false;
        }
    };
    let mut whole = true;
    for number in 0..SESSIONS {
        match texts(&*store, number) {
            Ok(Some(found)) => {
                assert!(found == expected(number, turns), "{what}: session {number} is not what it was");
            }
            Ok(None) => panic!("{what}: session {number} is gone without a word"),
            Err(error) => {
                clear(&error);
                whole = false;
            }
        }
    }
    store.close();
    whole
}

/// A plain generator: the same damage for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % most.max(1) as u64).unwrap()
    }
}

fn damage(folder: &Path, random: &mut Random) -> String {
    let files: Vec<_> = ["", "-wal"]
        .iter()
        .map(|suffix| beside(&folder.join(DB), suffix))
        .filter(|path| fs::metadata(path).is_ok_and(|meta| meta.len() > 0))
        .collect();
    let path = &files[random.below(files.len())];
    let mut bytes = fs::read(path).unwrap();
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    let what = match random.below(4) {
        0 => {
            let len = random.below(bytes.len());
            bytes.truncate(len);
            format!("{name} cut to {len}")
        }
        1 => {
            // A page of which a half was written.
            let page = random.below(bytes.len() / 4096 + 1) * 4096;
            let end = bytes.len().min(page + 4096);
            let start = page + (end.saturating_sub(page)) / 2;
            bytes[start..end].fill(0);
            format!("{name} zeroed from {start} to {end}")
        }
        kind => {
            let times = if kind == 2 { 1 } else { 1 + random.below(12) };
            let places: Vec<usize> = (0..times).map(|_| random.below(bytes.len())).collect();
            for place in &places {
                bytes[*place] ^= 1 << random.below(8);
            }
            format!("{name} flipped at {places:?}")
        }
    };
    fs::write(path, bytes).unwrap();
    what
}

/// `STORE_DAMAGE_ROUNDS` looks further, `STORE_DAMAGE_SEED` elsewhere.
#[test]
fn damage_at_random_is_never_taken_for_what_was_written() {
    let number =
        |name: &str, standard: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(standard);
    let (rounds, seed) = (number("STORE_DAMAGE_ROUNDS", 50), number("STORE_DAMAGE_SEED", 1));
    let dir = tempfile::tempdir().unwrap();
    let turns = 14;
    for killed in [false, true] {
        let sound = dir.path().join(format!("sound-{killed}"));
        made(&sound, turns, killed);
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for round in 0..rounds {
            let folder = dir.path().join("damaged");
            copy(&sound, &folder);
            let what = format!("round {round} (killed: {killed}): {}", damage(&folder, &mut random));
            let before = fs::read(folder.join(DB)).unwrap();
            let opened = open(&folder).map(|store| store.close());
            if opened.is_err() {
                assert_eq!(fs::read(folder.join(DB)).unwrap(), before, "{what}: a refused file is not touched");
            }
            let whole = opened.is_ok() && judge(&folder, turns, &what);
            if !whole {
                repaired(&folder, turns, &what);
            }
            fs::remove_dir_all(&folder).unwrap();
        }
    }
}

/// After a repair the store is sound, and holds nothing that was not written.
fn repaired(folder: &Path, turns: usize, what: &str) {
    let report = match salvage(folder, false) {
        Ok(report) => report.unwrap_or_default(),
        Err(error) => return clear(&error),
    };
    assert!(report.kept.join(DB).exists(), "{what}: {report:?}");
    assert_eq!(check(folder, 5).unwrap().unwrap().problems, Vec::<String>::new(), "{what}");
    let store = open(folder).unwrap_or_else(|error| panic!("{what}: {error}"));
    for number in 0..SESSIONS {
        let Some(found) = texts(&*store, number).unwrap_or_else(|error| panic!("{what}: {error}")) else { continue };
        let all = expected(number, turns);
        let strange = found.iter().find(|text| !all.contains(text)).map(|text| text.get(..40));
        assert_eq!(strange, None, "{what}: {report:?}");
        if found.len() < all.len() {
            assert!(!report.lost.is_empty(), "{what}: a loss must be told: {report:?}");
        }
    }
    store.close();
}

#[test]
fn what_lies_in_the_place_of_the_database_is_never_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let make = |name: &str, killed: bool| {
        let folder = dir.path().join(name);
        made(&folder, 3, killed);
        folder
    };
    // Gone, or empty, after it was there.
    for killed in [false, true] {
        let folder = make(&format!("gone-{killed}"), killed);
        fs::remove_file(folder.join(DB)).unwrap();
        assert!(matches!(open(&folder), Err(StoreError::Gone { .. })));
        assert!(matches!(open_existing(&folder), Err(StoreError::Gone { .. })), "not taken for an empty store");
        fs::write(folder.join(DB), "").unwrap();
        assert!(matches!(open(&folder), Err(StoreError::Gone { .. })));
        assert_eq!(fs::metadata(folder.join(DB)).unwrap().len(), 0);
        // The operator says so: then a new one is made.
        let Err(StoreError::Gone { remove, .. }) = open(&folder) else { panic!() };
        fs::remove_file(remove).unwrap();
        if killed {
            assert!(matches!(open(&folder), Err(StoreError::Gone { .. })), "its log is still there");
            fs::remove_file(beside(&folder.join(DB), "-wal")).unwrap();
        }
        open(&folder).unwrap().close();
    }
    let folder = make("folder", false);
    fs::remove_file(folder.join(DB)).unwrap();
    fs::create_dir(folder.join(DB)).unwrap();
    assert!(matches!(open(&folder), Err(StoreError::Open { .. })));
    assert!(matches!(open_existing(&folder), Err(StoreError::Open { .. })));

    let folder = make("other", false);
    fs::write(folder.join(DB), "another file altogether ".repeat(500)).unwrap();
    assert!(matches!(open(&folder), Err(StoreError::Damaged { .. })));
    assert!(check(&folder, 5).unwrap().unwrap().problems[0].contains("first bytes"));
}

#[test]
fn a_log_that_was_cut_or_lost_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let sound = dir.path().join("sound");
    made(&sound, 6, true);
    let wal = |folder: &Path| beside(&folder.join(DB), "-wal");
    let whole = fs::read(wal(&sound)).unwrap();
    let case = |name: &str, change: &dyn Fn(&Path)| {
        let folder = dir.path().join(name);
        copy(&sound, &folder);
        change(&folder);
        folder
    };
    let damaged = |folder: &Path| match open(folder) {
        Err(StoreError::Damaged { reason }) => reason,
        other => panic!("{:?}", other.map(|store| store.close())),
    };
    // As it was left: fine.
    assert!(judge(&case("untouched", &|_| {}), 6, "untouched"));
    assert!(damaged(&case("lost", &|folder| fs::remove_file(wal(folder)).unwrap())).contains("log"));
    damaged(&case("empty", &|folder| fs::write(wal(folder), "").unwrap()));
    damaged(&case("cut", &|folder| fs::write(wal(folder), &whole[..whole.len() - 5000]).unwrap()));
    damaged(&case("begin", &|folder| {
        let mut bytes = whole.clone();
        bytes[9] ^= 1;
        fs::write(wal(folder), bytes).unwrap();
    }));
    // After a power cut there is no index; what stands behind the bad page tells.
    let middle = case("middle", &|folder| {
        let mut bytes = whole.clone();
        bytes[32 + 24 + 4096 + 24 + 100] ^= 1;
        fs::write(wal(folder), bytes).unwrap();
        fs::remove_file(beside(&folder.join(DB), "-shm")).unwrap();
    });
    assert!(damaged(&middle).contains("commits follow"));
    // The last commit alone may have been torn by a power cut: it was not acknowledged.
    let last = case("last", &|folder| {
        let mut bytes = whole.clone();
        let end = bytes.len();
        bytes[end - 10] ^= 1;
        fs::write(wal(folder), bytes).unwrap();
        fs::remove_file(beside(&folder.join(DB), "-shm")).unwrap();
    });
    open(&last).unwrap().close();
}

#[test]
fn a_bit_that_fell_over_in_a_text_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("s");
    made(&folder, 5, false);
    let path = folder.join(DB);
    let mut bytes = fs::read(&path).unwrap();
    let needle = b"entry 3 of session 2";
    let at = bytes.windows(needle.len()).position(|window| window == needle).unwrap();
    bytes[at] ^= 4;
    fs::write(&path, bytes).unwrap();
    let store = open(&folder).unwrap();
    assert!(matches!(texts(&*store, 2), Err(StoreError::Damaged { .. })));
    assert_eq!(texts(&*store, 1).unwrap().unwrap(), expected(1, 5), "the others are what they were");
    assert!(matches!(store.health(), Some(StoreError::Damaged { .. })), "and everybody who asks is told");
    assert_eq!(store.check(10).unwrap().len(), 1);
    // One damaged row does not stop the rest.
    let record = store.session(&key(1)).unwrap().unwrap();
    add(&*store, &mut (record.row, record.head), 1, 10);
    store.close();
}

#[test]
fn a_repair_takes_what_can_be_read_and_tells_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let case = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let folder = dir.path().join(name);
        made(&folder, 20, false);
        let path = folder.join(DB);
        let mut bytes = fs::read(&path).unwrap();
        change(&mut bytes);
        fs::write(&path, &bytes).unwrap();
        let tried = salvage(&folder, true).unwrap().unwrap();
        assert_eq!(fs::read(&path).unwrap(), bytes, "{name}: a dry run changes nothing");
        let report = salvage(&folder, false).unwrap().unwrap();
        assert_eq!(tried.taken, report.taken);
        assert_eq!(fs::read(report.kept.join(DB)).unwrap(), bytes, "{name}: what was damaged is kept as it was");
        assert_eq!(check(&folder, 5).unwrap().unwrap().problems, Vec::<String>::new());
        (folder, report)
    };
    let (folder, report) = case("sound", &|_| {});
    assert_eq!((report.taken["sessions"], report.taken["entries"]), (4, 160));
    assert!(report.lost.is_empty(), "{report:?}");
    assert!(judge(&folder, 20, "sound"));

    // The first hundred bytes say what kind of file it is; all of the rest is there.
    let (folder, report) = case("header", &|bytes| bytes[..100].fill(7));
    assert_eq!(report.taken["entries"], 160, "{report:?}");
    assert!(judge(&folder, 20, "header"));

    // The whole first page, with the names of the tables.
    let (folder, report) = case("first page", &|bytes| bytes[..4096].fill(0));
    assert_eq!(report.taken["entries"], 160, "{report:?}");
    assert!(judge(&folder, 20, "first page"));

    // A page in the middle of the entries.
    let (folder, report) = case("middle", &|bytes| {
        let needle = b"entry 20 of session 1";
        let at = bytes.windows(needle.len()).position(|window| window == needle).unwrap() / 4096 * 4096;
        bytes[at..at + 4096].fill(0xa5);
    });
    assert!(report.taken["entries"] > 100 && report.taken["entries"] < 160, "{report:?}");
    assert_eq!(report.taken["sessions"], 4);
    assert!(!report.lost.is_empty());
    let store = open(&folder).unwrap();
    let kept = texts(&*store, 0).unwrap().unwrap();
    assert_eq!(kept.last(), expected(0, 20).last(), "what is behind the gap stays");
    // And each goes on.
    for number in 0..SESSIONS {
        let record = store.session(&key(number)).unwrap().unwrap();
        add(&*store, &mut (record.row, record.head), number, 40);
    }
    store.close();
}

#[test]
fn a_session_whose_row_is_lost_keeps_its_entries_under_another_name() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("s");
    made(&folder, 3, false);
    let conn = rusqlite::Connection::open(folder.join(DB)).unwrap();
    let row: i64 = conn.query_row("SELECT row FROM sessions WHERE key = ?1", [key(1)], |row| row.get(0)).unwrap();
    conn.execute("DELETE FROM sessions WHERE row = ?1", [row]).unwrap();
    drop(conn);
    let report = salvage(&folder, false).unwrap().unwrap();
    assert!(report.lost.iter().any(|line| line.contains("recovered-")), "{report:?}");
    let store = open(&folder).unwrap();
    let record = store.session(&format!("recovered-{row}")).unwrap().unwrap();
    assert_eq!(store.branch(record.row, record.head).unwrap().len(), 6);
    store.close();
}

#[test]
fn a_mark_says_how_the_store_was_left() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("s");
    let store = open(&folder).unwrap();
    let mark = || fs::read_to_string(Mark::path(&folder.join(DB))).unwrap();
    assert_eq!(mark(), "open\n");
    store.close();
    assert_eq!(mark(), "closed\n");
    // A store from before there were marks gets one.
    fs::remove_file(Mark::path(&folder.join(DB))).unwrap();
    open(&folder).unwrap().close();
    assert_eq!(mark(), "closed\n");
}

#[test]
fn a_gateway_that_runs_is_not_repaired_under() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("s");
    let store = open(&folder).unwrap();
    assert!(matches!(salvage(&folder, false), Err(StoreError::Locked { .. })));
    assert!(matches!(check(&folder, 1), Err(StoreError::Locked { .. })));
    store.close();
    assert!(salvage(&dir.path().join("nowhere"), false).unwrap().is_none());
}

#[test]
fn a_store_whose_file_lost_its_name_acknowledges_nothing_until_it_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("s");
    let (path, aside) = (folder.join(DB), dir.path().join("aside"));
    let store = open(&folder).unwrap();
    let mut session = (store.next_session(), 0);
    add(&*store, &mut session, 0, 0);
    let refused = |what: &str| {
        let ack = store.submit(Submission { lease: None, writes: vec![Write::Probe] });
        let told = ack.durable_blocking(Instant::now() + Duration::from_secs(20));
        assert!(matches!(told, Err(StoreError::Lost { .. })), "{what}: {told:?}");
        assert!(matches!(store.health(), Some(StoreError::Lost { .. })), "{what}");
        assert!(matches!(store.check(5), Err(StoreError::Lost { .. })), "{what}");
    };
    fs::rename(&path, &aside).unwrap();
    assert!(matches!(store.health(), Some(StoreError::Lost { .. })), "also before anybody writes");
    refused("moved");
    fs::copy(&aside, &path).unwrap();
    refused("another in its place");
    fs::rename(&aside, &path).unwrap();
    add(&*store, &mut session, 0, 2);
    assert!(store.health().is_none(), "it is back");
    fs::remove_file(beside(&path, "-wal")).unwrap();
    refused("its log is deleted");
    fs::remove_file(&path).unwrap();
    refused("deleted");
    store.close();
    assert_eq!(fs::read_to_string(Mark::path(&path)).unwrap(), "open\n", "it was not closed in good order");
    assert!(matches!(open(&folder), Err(StoreError::Gone { .. })));
}

#[test]
fn a_check_misses_what_is_gone_and_a_repair_mends_it() {
    let dir = tempfile::tempdir().unwrap();
    for (number, (sql, told)) in [
        ("DELETE FROM entries WHERE id = (SELECT parent FROM entries WHERE parent <> 0 LIMIT 1)", "is missing"),
        ("DELETE FROM entries WHERE session = 1 AND id NOT IN (SELECT head FROM sessions)", "is missing"),
        (
            "UPDATE entries SET parent = 0, sum = NULL; DELETE FROM entries WHERE id = (SELECT min(id) FROM entries)",
            "are there",
        ),
        ("DELETE FROM sessions WHERE row = 2", "session 2, with 6 entries, is missing"),
        ("DELETE FROM meta", "counter epoch is missing"),
        ("UPDATE meta SET value = 1 WHERE name = 'entries_reserved'", "counter entries_reserved says 1"),
        ("INSERT INTO turns VALUES(1, 't', 0, 0, NULL, 'e', NULL, '{\"reply', 0, 0)", "no readable detail"),
        ("INSERT INTO handed VALUES(1, 'e', 'x')", "no readable entry"),
    ]
    .into_iter()
    .enumerate()
    {
        let folder = dir.path().join(format!("s{number}"));
        made(&folder, 3, false);
        let problems = |folder: &Path| check(folder, 50).unwrap().unwrap().problems;
        assert_eq!(problems(&folder), Vec::<String>::new());
        rusqlite::Connection::open(folder.join(DB)).unwrap().execute_batch(sql).unwrap();
        let found = problems(&folder);
        assert!(found.iter().any(|problem| problem.contains(told)), "{sql}: {found:?}");
        assert!(salvage(&folder, false).unwrap().is_some());
        assert_eq!(problems(&folder), Vec::<String>::new(), "{sql}");
    }
}

#[test]
fn a_session_that_is_being_taken_away_misses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("s");
    made(&folder, 3, false);
    let sql = "DELETE FROM sessions WHERE row = 2; INSERT INTO meta VALUES('dropping:2', 2);
               DELETE FROM entries WHERE id = (SELECT min(id) FROM entries WHERE session = 2)";
    rusqlite::Connection::open(folder.join(DB)).unwrap().execute_batch(sql).unwrap();
    assert_eq!(check(&folder, 50).unwrap().unwrap().problems, Vec::<String>::new());
}

#[test]
fn a_young_database_that_was_cut_gives_what_its_pages_hold() {
    let dir = tempfile::tempdir().unwrap();
    let sound = dir.path().join("sound");
    let store = open(&sound).unwrap();
    for number in 0..SESSIONS {
        add(&*store, &mut (store.next_session(), 0), number, 1);
    }
    store.close();
    drop(store);
    let whole = fs::read(sound.join(DB)).unwrap();
    let conn = rusqlite::Connection::open(sound.join(DB)).unwrap();
    let root = |name: &str| {
        let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
        conn.query_row(sql, [name], |row| row.get::<_, u32>(0)).unwrap() as usize
    };
    let least = root("entries").max(root("sessions"));
    drop(conn);
    assert!(least + 5 < whole.len() / 4096);
    for pages in least..whole.len() / 4096 {
        let folder = dir.path().join(format!("cut-{pages}"));
        copy(&sound, &folder);
        fs::write(folder.join(DB), &whole[..pages * 4096]).unwrap();
        assert!(matches!(open(&folder), Err(StoreError::Damaged { .. })), "{pages}");
        let report = salvage(&folder, false).unwrap().unwrap();
        assert_eq!((report.taken["sessions"], report.taken["entries"]), (4, 8), "{pages}: {report:?}");
        assert!(!report.lost.is_empty() && report.kept.join(DB).exists(), "{pages}: {report:?}");
        assert_eq!(check(&folder, 5).unwrap().unwrap().problems, Vec::<String>::new());
        let store = open(&folder).unwrap();
        for number in 0..SESSIONS {
            assert_eq!(texts(&*store, number).unwrap().unwrap(), [text(number, 1), text(number, 2)], "{pages}");
        }
        store.close();
    }
}

#[test]
fn what_cannot_be_repaired_is_told_without_recommending_the_repair() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("s");
    made(&folder, 2, false);
    let path = folder.join(DB);
    let refused = |path: &Path| {
        let error = salvage(path, false).unwrap_err();
        let hint = error.hint().unwrap();
        assert!(!hint.contains("store repair"), "{hint}");
        (error.code(), error)
    };
    fs::write(&path, &fs::read(&path).unwrap()[..5000]).unwrap();
    assert_eq!(refused(&folder).0, "CE415");
    assert_eq!(fs::metadata(&path).unwrap().len(), 5000, "it is as it was");
    for empty in [true, false] {
        if empty {
            fs::write(&path, "").unwrap();
        } else {
            fs::remove_file(&path).unwrap();
        }
        assert_eq!(refused(&folder).0, "CE416");
        assert!(matches!(check(&folder, 5), Err(StoreError::Gone { .. })));
    }
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    assert_eq!(refused(&file).0, "CE402");
    assert!(matches!(check(&file, 5), Err(StoreError::Open { .. })));
    assert!(matches!(open_existing(&file), Err(StoreError::Open { .. })));
}
