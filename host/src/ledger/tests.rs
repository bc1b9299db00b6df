//! The folder of a ledger: what is found there never stops a start, and what is begun there can be judged.

use super::format::{cause, ended, kind, word};
use super::*;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// There is one ledger per process, and the tests of one crate run in one; no other test of the crate keeps one.
fn one_at_a_time() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bytes_of(folder: &Path) -> Vec<u8> {
    std::fs::read(folder.join(LEDGER)).unwrap()
}

/// Changes words of the ledger, as an earlier process would have left it.
fn leave(folder: &Path, words: &[(usize, u64)]) {
    let mut bytes = bytes_of(folder);
    for (number, value) in words {
        bytes[number * 8..number * 8 + 8].copy_from_slice(&value.to_ne_bytes());
    }
    let words = format::CAUSE_WORDS.map(|at| u64::from_ne_bytes(bytes[at * 8..at * 8 + 8].try_into().unwrap()));
    let sum = if words.clone().any(|word| word != 0) { format::sum(words) } else { 0 };
    bytes[word::CAUSE_SUM * 8..word::CAUSE_SUM * 8 + 8].copy_from_slice(&sum.to_ne_bytes());
    std::fs::write(folder.join(LEDGER), bytes).unwrap();
}

#[test]
fn no_bit_that_turns_takes_a_verdict_away() {
    let _one = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let ledger = begin(path, &["assemble"], true).1.unwrap();
    let watched = Watched::new(Sort::Engine, "chaos", "p");
    std::thread::spawn(move || drop(enter(watched, Place::hook(0)))).join().unwrap();
    ledger.close();
    let crash = [(word::ENDED, ended::NOT), (word::CAUSE, cause::WHOLE), (word::KIND, kind::SIGNAL)];
    let rest = [(word::NUMBER, libc::SIGSEGV as u64), (word::CODE, 1), (word::ROW, format::row::pack(0, 3))];
    leave(path, &[&crash[..], &rest[..]].concat());
    let whole = bytes_of(path);
    let old = Old::read(&whole).unwrap();
    assert_eq!((old.rows.len(), old.cause.is_some()), (1, true));
    let rows = format::ROWS_AT..format::ROWS_AT + 8;
    let mut lost = Vec::new();
    for at in (0..format::SUBJECTS_AT + format::SUBJECT_BYTES).chain(rows) {
        // Ranges are only asked for where a cause names one.
        if (word::RANGES * 8..word::RANGES * 8 + 8).contains(&at) {
            continue;
        }
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            // More rows than there were say nothing of anybody.
            let same = |read: Old| read.cause == old.cause && read.ended == old.ended && read.rows[..1] == old.rows[..];
            if Old::read(&bytes).is_ok_and(|read| !same(read)) {
                lost.push((at, bit));
            }
        }
    }
    assert_eq!(lost, []);
}

#[test]
fn a_damaged_ledger_sends_every_library_to_a_worker_once() {
    let _one = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let start = |loads: bool| {
        let (verdicts, ledger) = begin(path, &["assemble"], loads);
        ledger.unwrap().close();
        verdicts
    };
    assert_eq!((start(true).to_worker("p"), start(true).damaged()), (None, None));
    std::fs::write(path.join(LEDGER), "garbage").unwrap();
    let seen = look(path);
    let previous = seen.previous().unwrap();
    assert_eq!(previous.verdict, Verdict::Unknown);
    assert!(previous.damaged.as_ref().unwrap().contains("crash-ledger"), "{previous:?}");
    // A process that loads nothing makes it new, and takes nothing away.
    assert!(start(false).to_worker("p").is_some());
    assert!(start(true).to_worker("p").is_some());
    assert!(start(true).to_worker("p").is_none());
    // The same for verdicts that cannot be read.
    std::fs::write(path.join(table::DOCUMENT), "{]").unwrap();
    assert!(look(path).damaged().is_some());
    assert!(start(true).to_worker("p").is_some() && start(true).to_worker("p").is_none());
}

#[test]
fn a_ledger_is_private_and_a_good_end_is_a_good_end() {
    let _one = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    let (verdicts, ledger) = begin(folder.path(), &["assemble"], true);
    let ledger = ledger.unwrap();
    assert!(verdicts.previous().is_none() && verdicts.crashes.is_empty());
    let mode = std::fs::metadata(folder.path().join(LEDGER)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert!(begin(tempfile::tempdir().unwrap().path(), &[], true).1.is_none(), "one ledger per process");
    ledger.close();
    let (verdicts, second) = begin(folder.path(), &["assemble"], true);
    assert_eq!(verdicts.previous().map(|previous| previous.verdict), Some(Verdict::Well));
    second.unwrap().close();
}

#[test]
fn what_runs_stands_in_the_file_with_the_service_that_runs_for_it() {
    let _one = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    let ledger = begin(folder.path(), &["assemble"], true).1.unwrap();
    let watched = Watched::new(Sort::Engine, "chaos", "chaos-plugin");
    let read = || Old::read(&bytes_of(folder.path())).unwrap().rows;
    let work = || {
        {
            let _running = enter(watched, Place::hook(0));
            let rows = read();
            assert_eq!(
                (rows.len(), rows[0].place.as_str(), rows[0].active, rows[0].serving),
                (1, "assemble", true, false)
            );
            assert_eq!((rows[0].subject.id.as_str(), rows[0].subject.plugin.as_str()), ("chaos", "chaos-plugin"));
            {
                let _outer = serving();
                let _inner = serving();
                assert!(read()[0].serving);
            }
            assert!(!read()[0].serving);
        }
        let rows = read();
        assert_eq!((rows[0].active, rows[0].returned), (false, 1));
        drop(enter(Watched::NOBODY, Place::LOAD));
        assert_eq!(read()[0].returned, 1, "nobody is not written down");
    };
    // A thread of its own, so that the row is a new one.
    std::thread::scope(|scope| scope.spawn(work).join()).unwrap();
    ledger.close();
}

#[test]
fn a_recorded_cause_lasts_until_it_is_released() {
    let _one = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let ledger = begin(path, &["assemble"], true).1.unwrap();
    let _ = Watched::new(Sort::Engine, "chaos", "p");
    ledger.close();
    let ran = format::row::pack(0, 3);
    let segv = libc::SIGSEGV as u64;
    leave(
        path,
        &[
            (word::ENDED, ended::NOT),
            (word::CAUSE, cause::WHOLE),
            (word::KIND, kind::SIGNAL),
            (word::NUMBER, segv),
            (word::CODE, 1),
            (word::ADDRESS, 8),
            (word::ROW, ran),
        ],
    );
    // Looking changes nothing, a start does.
    assert!(look(path).crashed(Sort::Engine, "chaos", "p").is_some());
    assert!(!path.join(table::DOCUMENT).exists());
    for _ in 0..2 {
        let (verdicts, ledger) = begin(path, &["assemble"], true);
        let crash = verdicts.crashed(Sort::Engine, "chaos", "p").unwrap();
        assert_eq!((crash.at.as_str(), crash.signal.as_deref()), ("assemble", Some("SIGSEGV")));
        assert!(verdicts.crashed(Sort::Memory, "chaos", "p").is_none(), "the provider of the same id is another");
        ledger.unwrap().close();
    }
    assert!(release(path, "another", None).unwrap().is_empty());
    assert_eq!(release(path, "chaos", None).unwrap().len(), 1);
    assert!(look(path).crashed(Sort::Engine, "chaos", "p").is_none());
}

#[test]
fn a_release_before_any_start_takes_what_no_start_has_judged() {
    let _one = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let ledger = begin(path, &["assemble"], true).1.unwrap();
    let _ = Watched::new(Sort::Memory, "notes", "p");
    ledger.close();
    let exit = [
        (word::ENDED, ended::NOT),
        (word::CAUSE, cause::WHOLE),
        (word::KIND, kind::EXIT),
        (word::ROW, format::row::pack(0, 3)),
    ];
    leave(path, &exit);
    std::fs::write(path.join(LOCK), "").unwrap();
    assert_eq!(release(path, "notes", None).unwrap().len(), 1);
    let (verdicts, ledger) = begin(path, &["assemble"], true);
    assert!(verdicts.crashes.is_empty());
    ledger.unwrap().close();
}

#[test]
fn no_ledger_that_is_found_stops_a_start() {
    let _one = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let whole = format::blank(1, 1, "boot", &["load"]);
    for found in [Vec::new(), b"text".to_vec(), whole[..whole.len() / 2].to_vec(), vec![0xff; format::SIZE], whole] {
        std::fs::write(path.join(LEDGER), found).unwrap();
        std::fs::write(path.join(table::DOCUMENT), "{]").unwrap();
        let (verdicts, ledger) = begin(path, &["assemble"], true);
        assert!(verdicts.crashes.is_empty());
        assert_eq!(bytes_of(path).len(), format::SIZE, "it is made new");
        ledger.unwrap().close();
    }
    // Where the file cannot even be made, there is none.
    std::fs::remove_file(path.join(LEDGER)).unwrap();
    std::fs::create_dir(path.join(LEDGER)).unwrap();
    std::fs::write(path.join(LEDGER).join("x"), "").unwrap();
    assert!(begin(path, &["assemble"], true).1.is_none());
    assert!(begin(Path::new("/no/such/folder"), &[], true).1.is_none());
}

#[test]
fn an_unexplained_end_asks_for_a_worker_at_the_one_start_that_loads_engines() {
    let _one = one_at_a_time();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let ledger = begin(path, &["assemble"], true).1.unwrap();
    let watched = Watched::new(Sort::Engine, "chaos", "p");
    // A call that never returns.
    std::thread::spawn(move || {
        let _ = std::mem::ManuallyDrop::new(enter(watched, Place::hook(0)));
    })
    .join()
    .unwrap();
    ledger.close();
    leave(path, &[(word::ENDED, ended::NOT)]);
    let workers = |loads: bool| {
        let (verdicts, ledger) = begin(path, &["assemble"], loads);
        ledger.unwrap().close();
        verdicts.to_worker("p").is_some()
    };
    assert!(workers(false), "a process that loads nothing takes nothing away");
    assert!(workers(true));
    assert!(!workers(true));
    assert_eq!(
        look(path).held(Sort::Engine, "chaos", "p").map(|crash| (crash.verdict, crash.count)),
        Some((Held::Unexplained, 1))
    );
}
