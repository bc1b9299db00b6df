//! The disk fails, the database is damaged, somebody else holds it: what a client was told is there, what fails says so with a
//! code and a hint, and it heals without a restart where it can.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stderr, reason = "tests")]

use engineroom_tests::fire::Burning;
use engineroom_tests::{Gateway, Setup};
use rusqlite::Connection;
use serde_json::Value;
use std::time::{Duration, Instant};

const DB: &str = "transcript.db";

#[test]
fn the_nth_write_fails_once_and_all_goes_on() {
    for error in ["ENOSPC", "EIO"] {
        let tried = Burning::new().once("write", error);
        assert!(tried > 10, "{tried}");
    }
}

#[test]
fn the_nth_sync_truncation_or_opening_fails_once_and_all_goes_on() {
    assert!(Burning::new().once("sync", "EIO") > 3);
    Burning::new().once("truncate", "EIO");
    Burning::new().once("open", "EMFILE");
}

#[test]
fn a_full_disk_is_told_as_one_and_passes() {
    let codes = Burning::new().for_ever("write", "ENOSPC");
    assert!(codes.contains("CE413"), "{codes:?}");
}

#[test]
fn a_disk_that_breaks_or_turns_read_only_is_told_and_passes() {
    for (kind, error) in [("write", "EROFS"), ("write", "EIO"), ("sync", "EIO")] {
        let codes = Burning::new().for_ever(kind, error);
        assert!(codes.iter().any(|code| code.starts_with("CE4")), "{kind} {error}: {codes:?}");
    }
}

#[test]
fn a_start_on_a_disk_that_fails_says_so_and_loses_nothing() {
    assert!(Burning::new().at_start("write", "ENOSPC") > 2);
    assert!(Burning::new().at_start("open", "EACCES") > 2);
    assert!(Burning::new().at_start("sync", "EIO") > 1);
}

/// A gateway whose fail points follow a file.
fn pointed() -> (Setup, impl Fn(&str)) {
    let setup = Setup::new();
    let plan = setup.path().join("fail");
    let setup = setup.env("ENGINEROOM_FAIL_FILE", &plan);
    (setup, move |text: &str| std::fs::write(&plan, text).unwrap())
}

#[test]
fn a_compaction_that_was_not_written_is_not_told_as_done() {
    let (setup, arm) = pointed();
    let setup = setup.toml("[compaction]\nkeep_recent_tokens = 50\n");
    let gateway = setup.start();
    for turn in 0..8 {
        let text = format!("Turn {turn}. {}", "It goes on and on. ".repeat(40));
        assert_eq!(ask(&gateway, "s", &text).0, 200);
    }
    // The next entry that is written is the boundary; nobody waits for that write alone.
    arm("store.write.entry=error@1");
    let answer = gateway.client().post("/api/sessions/s/compact", &[], &serde_json::json!({}));
    let told = answer.json();
    assert_eq!((answer.status, told["error"]["diagnostic"].as_str()), (500, Some("CE406")), "{told}");
    arm("");
    let compactions = || {
        let told = gateway.client().get("/api/sessions/s?limit=1000").json();
        told["messages"].as_array().unwrap().iter().filter(|row| row["role"] == "compaction").count()
    };
    assert_eq!(compactions(), 0);
    assert_eq!(ask(&gateway, "s", "And on.").0, 200, "the session knows that it is not compacted");
    let again = gateway.client().post("/api/sessions/s/compact", &[], &serde_json::json!({})).json();
    assert_eq!((again["compacted"].as_bool(), compactions()), (Some(true), 1), "{again}");
    assert!(gateway.stop().success());
}

#[test]
fn a_stream_whose_turn_broke_off_has_no_end_marker() {
    let (setup, arm) = pointed();
    let gateway = setup.start();
    let stream = |text: &str| {
        let body = serde_json::json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": text}]});
        gateway.client().post("/v1/chat/completions", &[("x-engineroom-session", "s")], &body).body
    };
    assert!(stream("First.").contains("data: [DONE]"));
    for point in ["turn.answer.before", "turn.answer.durable", "turn.reply.before_end"] {
        arm(&format!("{point}=panic@1"));
        let said = stream(&format!("Broken at {point}."));
        assert!(!said.contains("[DONE]") && said.contains("CE609"), "{point}: {said}");
        arm("");
        assert!(stream("And on.").contains("data: [DONE]"), "{point}: the session is free");
    }
    assert!(gateway.stop().success());
}

#[test]
fn a_turn_that_broke_off_before_its_write_leaves_nothing_in_memory() {
    let (setup, arm) = pointed();
    let gateway = setup.start();
    assert_eq!(ask(&gateway, "s", "First.").0, 200);
    for point in ["turn.admit.before_queue", "turn.admit.after", "turn.answer.before_queue"] {
        arm(&format!("{point}=error@1"));
        let (status, told) = ask(&gateway, "s", "Broken.");
        assert_eq!((status, told["error"]["diagnostic"].as_str()), (500, Some("CE609")), "{point}: {told}");
        arm("");
        let (status, told) = ask(&gateway, "s", &format!("After {point}."));
        assert_eq!(status, 200, "{point}: the session stands on what was never written: {told}");
    }
    assert!(gateway.stop().success());
}

#[test]
fn a_writer_that_panics_fails_its_batch_and_goes_on() {
    let (setup, arm) = pointed();
    let gateway = setup.start();
    assert_eq!(ask(&gateway, "s", "First.").0, 200);
    for point in ["store.apply.before", "store.apply.after", "store.begin.after", "store.commit.before"] {
        // Also whatever else is written meanwhile.
        arm(&format!("{point}=panic@*"));
        let (status, told) = ask(&gateway, "s", "Not kept.");
        assert_eq!((status, told["error"]["diagnostic"].as_str()), (500, Some("CE406")), "{point}: {told}");
        arm("");
        assert_eq!(gateway.client().get("/readyz").status, 200, "{point}");
        assert_eq!(ask(&gateway, "s", &format!("After {point}.")).0, 200);
    }
    let told = gateway.client().get("/api/sessions/s").json();
    assert!(!told["messages"].to_string().contains("Not kept."), "{told}");
    assert!(gateway.stop().success());
}

fn ask(gateway: &Gateway, session: &str, text: &str) -> (u16, Value) {
    let answer = gateway.client().say(session, text);
    (answer.status, answer.json())
}

#[test]
fn a_program_that_holds_the_database_for_a_while_is_waited_for_and_one_that_never_lets_go_is_named() {
    let setup = Setup::new();
    let gateway = setup.start();
    assert_eq!(ask(&gateway, "s", "First.").0, 200);
    let other = Connection::open(setup.state().join(DB)).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| ask(&gateway, "s", "Second."));
        std::thread::sleep(Duration::from_millis(700));
        other.execute_batch("COMMIT").unwrap();
        assert_eq!(waiting.join().unwrap().0, 200, "it was let go in time");
    });
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (status, refused) = ask(&gateway, "s", "Third.");
    assert!(begun.elapsed() < Duration::from_secs(60), "nobody waits for ever");
    assert_eq!((status, refused["error"]["diagnostic"].as_str()), (503, Some("CE412")), "{refused}");
    assert!(refused["error"]["hint"].as_str().is_some_and(|hint| hint.contains("transcript.db")), "{refused}");
    let ready = gateway.client().get("/readyz");
    assert_eq!((ready.status, ready.json()["code"].as_str()), (503, Some("CE412")), "{}", ready.body);
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(gateway.client().get("/readyz").status, 200, "it is asked again, and heals");
    assert_eq!(ask(&gateway, "s", "Fourth.").0, 200);
    let told = gateway.client().get("/api/sessions/s").json();
    let texts: Vec<&str> = told["messages"].as_array().unwrap().iter().filter_map(|row| row["text"].as_str()).collect();
    for (text, times) in [("First.", 1), ("Second.", 1), ("Third.", 0), ("Fourth.", 1)] {
        assert_eq!(texts.iter().filter(|said| **said == text).count(), times, "{text}: {texts:?}");
    }
    assert!(gateway.stop().success());

    // And at a start.
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = Gateway::try_start(&setup).map(|_| ()).unwrap_err();
    assert!(refused.contains("CE412") && refused.contains("hint"), "{refused}");
    other.execute_batch("COMMIT").unwrap();
    drop(other);
    assert!(setup.start().stop().success());
}

#[test]
fn a_lock_of_a_dead_process_stops_nobody_and_that_of_a_living_one_does() {
    let setup = Setup::new();
    let gateway = setup.start();
    assert_eq!(ask(&gateway, "s", "First.").0, 200);
    let pid = gateway.pid().to_string();
    let second = Gateway::try_start(&setup).map(|_| ()).unwrap_err();
    assert!(second.contains("CE401") && second.contains(&pid), "{second}");
    // Beside a gateway: a look goes through it, a repair does not go at all.
    let check = setup.cli(&["store", "check"]);
    assert_eq!(check.code, Some(0), "{check:?}");
    let repair = setup.cli(&["store", "repair"]);
    assert!(repair.code != Some(0) && repair.stderr.contains("CE401") && repair.stderr.contains(&pid), "{repair:?}");
    gateway.kill();
    // The lock file still names the dead process, or one that is somebody else by now.
    std::fs::write(setup.state().join("gateway.lock"), format!("{}\n", std::process::id())).unwrap();
    let gateway = setup.start();
    assert_eq!(ask(&gateway, "s", "Second.").0, 200);
    assert!(gateway.stop().success());
}

/// A stopped gateway with a few long conversations.
fn stored() -> Setup {
    let setup = Setup::new();
    let gateway = setup.start();
    for session in ["one", "two", "three"] {
        for turn in 0..12 {
            let text = format!("Turn {turn} of {session}. {}", "It goes on. ".repeat(60));
            assert_eq!(ask(&gateway, session, &text).0, 200);
        }
    }
    assert!(gateway.stop().success());
    setup
}

#[test]
fn a_damaged_database_stops_the_start_and_the_repair_brings_back_what_can_be_read() {
    let setup = stored();
    let path = setup.state().join(DB);
    let sound = setup.cli(&["store", "check"]);
    assert!(sound.code == Some(0) && sound.stdout.contains("every entry and session is what was written"), "{sound:?}");
    let mut bytes = std::fs::read(&path).unwrap();
    // The header, and a page in the middle.
    bytes[..100].fill(0);
    let needle = b"Turn 5 of two.";
    let at = bytes.windows(needle.len()).position(|window| window == needle).unwrap() / 4096 * 4096;
    bytes[at..at + 4096].fill(0x5a);
    std::fs::write(&path, &bytes).unwrap();

    let refused = Gateway::try_start(&setup).map(|_| ()).unwrap_err();
    assert!(refused.contains("CE415") && refused.contains("engineroom store repair"), "{refused}");
    assert!(!refused.contains("panicked"), "{refused}");
    let list = setup.cli(&["sessions", "list"]);
    assert!(list.code != Some(0) && list.stderr.contains("CE415"), "not taken for an empty store: {list:?}");
    let doctor = setup.cli(&["doctor"]);
    assert_eq!(doctor.code, Some(1));
    assert!(doctor.stdout.contains("CE415") && doctor.stdout.contains("engineroom store repair"), "{doctor:?}");
    let check = setup.cli(&["store", "check", "--json"]);
    assert!(check.code == Some(1) && !check.json()["problems"].as_array().unwrap().is_empty(), "{check:?}");
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "nobody has touched it");

    let tried = setup.cli(&["store", "repair", "--dry-run"]);
    assert!(tried.stdout.contains("taken:"), "{tried:?}");
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
    let repaired = setup.cli(&["store", "repair", "--json"]);
    assert_eq!(repaired.code, Some(1), "something is lost, and it says so: {repaired:?}");
    let report = repaired.json();
    assert!(report["taken"]["entries"].as_u64().unwrap() > 40 && !report["lost"].as_array().unwrap().is_empty());
    let kept = std::path::PathBuf::from(report["kept"].as_str().unwrap());
    assert_eq!(std::fs::read(kept.join(DB)).unwrap(), bytes, "the damaged file is kept as it was");
    assert_eq!(setup.cli(&["store", "check"]).code, Some(0));
    assert_eq!(setup.cli(&["doctor"]).code, Some(0));

    let gateway = setup.start();
    let texts = |session: &str| {
        let told = gateway.client().get(&format!("/api/sessions/{session}?limit=1000")).json();
        let rows = told["messages"].as_array().unwrap().clone();
        rows.iter().map(|row| row["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for session in ["one", "two", "three"] {
        let found = texts(session);
        assert!(!found.is_empty() && found.iter().any(|text| text.starts_with("Turn 11 of")), "{session}: {found:?}");
        assert_eq!(ask(&gateway, session, "And on.").0, 200);
    }
    assert_eq!(texts("one").iter().filter(|text| text.starts_with("Turn")).count(), 12, "what is whole stays whole");
    assert!(gateway.stop().success());
}

#[test]
fn a_database_that_is_gone_is_not_made_anew() {
    let setup = stored();
    let path = setup.state().join(DB);
    let aside = setup.path().join("aside.db");
    std::fs::rename(&path, &aside).unwrap();
    let refused = Gateway::try_start(&setup).map(|_| ()).unwrap_err();
    assert!(refused.contains("CE416") && refused.contains("transcript.mark"), "{refused}");
    assert!(!path.exists());
    let list = setup.cli(&["sessions", "list"]);
    assert!(list.stderr.contains("CE416"), "{list:?}");
    for command in [&["store", "check"][..], &["store", "repair"]] {
        let told = setup.cli(command);
        assert!(told.code == Some(1) && told.stderr.contains("CE416"), "{told:?}");
    }
    std::fs::rename(&aside, &path).unwrap();
    let gateway = setup.start();
    assert_eq!(gateway.client().get("/api/sessions/one").status, 200);
    assert!(gateway.stop().success());
}

#[test]
fn a_state_folder_that_is_a_file_is_told_by_everybody() {
    let setup = Setup::new();
    std::fs::write(setup.state(), "x").unwrap();
    for command in [&["store", "check"][..], &["store", "repair"], &["sessions", "list"], &["doctor"]] {
        let told = setup.cli(command);
        let said = format!("{}{}", told.stdout, told.stderr);
        assert!(told.code == Some(1) && said.contains("CE402"), "{command:?}: {told:?}");
    }
}

#[test]
fn a_database_that_is_taken_away_under_a_gateway_gets_no_turn_that_is_told_as_kept() {
    let setup = stored();
    let path = setup.state().join(DB);
    let aside = setup.path().join("aside.db");
    let gateway = setup.start();
    let refuses = |what: &str| {
        let (status, refused) = ask(&gateway, "one", "Not kept.");
        assert_eq!((status, refused["error"]["diagnostic"].as_str()), (500, Some("CE416")), "{what}: {refused}");
        assert!(refused["error"]["hint"].as_str().is_some_and(|hint| hint.contains("backup")), "{what}: {refused}");
        let ready = gateway.client().get("/readyz");
        assert_eq!((ready.status, ready.json()["code"].as_str()), (503, Some("CE416")), "{what}: {}", ready.body);
    };
    std::fs::rename(&path, &aside).unwrap();
    assert_eq!(gateway.client().get("/readyz").status, 503, "before anybody writes");
    refuses("moved");
    let doctor = setup.cli(&["doctor"]);
    assert!(doctor.code == Some(1) && doctor.stdout.contains("CE416"), "{doctor:?}");
    std::fs::rename(&aside, &path).unwrap();
    assert_eq!(gateway.client().get("/readyz").status, 200, "moved back");
    assert_eq!(ask(&gateway, "one", "Kept.").0, 200);
    for suffix in ["", "-wal", "-shm"] {
        std::fs::remove_file(setup.state().join(format!("{DB}{suffix}"))).unwrap();
    }
    refuses("deleted");
    let _ = gateway.stop();
}

#[test]
fn damage_under_a_running_gateway_is_told_and_what_is_whole_goes_on() {
    let setup = stored();
    let path = setup.state().join(DB);
    let mut bytes = std::fs::read(&path).unwrap();
    let needle = b"Turn 5 of two.";
    let at = bytes.windows(needle.len()).position(|window| window == needle).unwrap();
    bytes[at] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let gateway = setup.start();
    let (status, refused) = ask(&gateway, "two", "And on.");
    assert_eq!((status, refused["error"]["diagnostic"].as_str()), (500, Some("CE415")), "{refused}");
    assert!(refused["error"]["hint"].as_str().is_some_and(|hint| hint.contains("store repair")), "{refused}");
    assert_eq!(ask(&gateway, "one", "And on.").0, 200, "another session is not touched by it");
    let ready = gateway.client().get("/readyz");
    assert_eq!((ready.status, ready.json()["code"].as_str()), (503, Some("CE415")), "{}", ready.body);
    let doctor = setup.cli(&["doctor"]);
    assert!(doctor.code == Some(1) && doctor.stdout.contains("CE415"), "{doctor:?}");
    assert!(gateway.stop().success());
}
