//! How a gateway ended, and what follows: whoever ended it is out at the next start, and nobody else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::{Gateway, Setup};
use serde_json::{Value, json};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// How long anything may take on a slow machine.
const SOON: Duration = Duration::from_secs(60);

fn crasher() -> Setup {
    crasher_in("in-process")
}

fn crasher_in(isolation: &str) -> Setup {
    let entry = format!("[plugins.entries.crasher]\nisolation = \"{isolation}\"\n");
    Setup::new().library("crasher").select("crasher").toml(&entry).toml("[plugins.deadlines]\nassemble_ms = 30000\n")
}

/// Says something that ends the gateway, and waits for its end.
#[track_caller]
fn ends(gateway: Gateway, word: &str) -> ExitStatus {
    assert_eq!(gateway.client().say("s", "Hello.").engine(), Some("crasher"), "{word}");
    // A thread of the engine's own ends it after the answer.
    let _ = gateway.client().try_say("s", &format!("do {word}"));
    gateway.wait()
}

/// What the next start says: how the last process ended, and the row of the engine.
fn judged(setup: &Setup) -> (Gateway, Value, Value) {
    let gateway = setup.start();
    let engines = gateway.client().engines();
    let row = engines["engines"].as_array().unwrap().iter().find(|row| row["id"] == "crasher").unwrap().clone();
    (gateway, engines["previousEnd"].clone(), row)
}

/// The engine ended the gateway and is out: everybody says so.
#[track_caller]
fn crashed(setup: &Setup, word: &str, cause: &str, at: &str) {
    let (gateway, end, row) = judged(setup);
    assert_eq!(end["verdict"], "crashed", "{word}: {end} {row:#}");
    assert_eq!((&row["state"], &row["code"]), (&json!("crashed"), &json!("engine-crashed")), "{word}: {row:#}");
    assert_eq!(row["crash"]["verdict"], "crashed", "{word}: {row:#}");
    assert!(row["crash"]["cause"].as_str().unwrap().starts_with(cause), "{word}: {row:#}");
    assert_eq!(row["crash"]["at"], at, "{word}: {row:#}");
    let answer = gateway.client().say("s", "And now?");
    assert_eq!(
        (answer.status, answer.engine(), answer.degraded()),
        (200, Some("legacy"), Some("engine-crashed")),
        "{word}: {answer:?}"
    );
    assert!(gateway.stop().success());
}

/// Nobody is accused: the engine serves.
#[track_caller]
fn acquitted(setup: &Setup, word: &str, verdict: &str) {
    let (gateway, end, row) = judged(setup);
    assert_eq!(end["verdict"], verdict, "{word}: {end} {row:#}");
    assert!(row.get("crash").is_none(), "{word}: {row:#}");
    let answer = gateway.client().say("s", "And now?");
    assert_eq!((answer.engine(), answer.degraded()), (Some("crasher"), None), "{word}: {answer:?}");
    assert!(gateway.stop().success());
}

#[test]
fn faults_and_aborts_in_a_call_accuse_its_engine_and_the_exit_status_stays_true() {
    for (word, signal, cause) in [
        ("segv", libc::SIGSEGV, "SIGSEGV (memory access at 0x8)"),
        ("ill", libc::SIGILL, "SIGILL"),
        ("fpe", libc::SIGFPE, "SIGFPE"),
        ("abort", libc::SIGABRT, "SIGABRT (abort)"),
        ("bad-free", libc::SIGABRT, "SIGABRT (abort)"),
        ("overflow", libc::SIGABRT, "SIGSEGV (stack overflow)"),
    ] {
        let setup = crasher();
        let status = ends(setup.start(), word);
        assert_eq!(status.signal(), Some(signal), "{word}: {status:?}");
        crashed(&setup, word, cause, "assemble");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn exits_in_a_call_accuse_its_engine() {
    for (word, code, cause) in [("exit", 0, "exit(0)"), ("quick-exit", 4, "quick_exit"), ("raw-exit", 3, "_exit(3)")] {
        let setup = crasher();
        let status = ends(setup.start(), word);
        assert_eq!(status.code(), Some(code), "{word}: {status:?}");
        crashed(&setup, word, cause, "assemble");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_thread_of_the_engines_own_accuses_its_library_though_no_call_runs() {
    for (word, cause) in [("later-segv", "SIGSEGV"), ("later-abort", "SIGABRT"), ("later-exit", "_exit(3)")] {
        let setup = crasher();
        ends(setup.start(), word);
        crashed(&setup, word, cause, "a thread of its own");
    }
}

#[test]
fn a_library_that_ends_the_gateway_while_it_registers_is_out() {
    let setup = crasher();
    let output = setup.command(&["gateway"]).env("CRASHER_REGISTER", "1").output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
    crashed(&setup, "register", "SIGABRT", "register");
}

#[test]
fn signals_from_outside_accuse_nobody() {
    for (name, signal) in
        [("SEGV", libc::SIGSEGV), ("ABRT", libc::SIGABRT), ("BUS", libc::SIGBUS), ("QUIT", libc::SIGQUIT)]
    {
        let setup = crasher();
        let gateway = setup.start();
        // Who runs the tests in the background of a script ignores it, and so does the gateway then.
        if ignores(gateway.pid(), signal) {
            continue;
        }
        let waiting = in_flight(&setup, &gateway);
        gateway.signal(name);
        assert_eq!(gateway.wait().signal(), Some(signal), "{name}");
        waiting.join().unwrap();
        acquitted(&setup, name, "outside");
    }
}

/// True when the process ignores the signal: whether it does is handed down by whoever started the tests.
fn ignores(pid: u32, signal: libc::c_int) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (signal - 1)) != 0
}

#[test]
fn the_end_of_a_terminal_is_an_order_to_stop_except_where_it_is_ignored() {
    let setup = crasher();
    let mut gateway = setup.start();
    let ignored = ignores(gateway.pid(), libc::SIGHUP);
    let waiting = in_flight(&setup, &gateway);
    gateway.signal("HUP");
    // The test itself may have been started with `nohup`.
    if ignored {
        waiting.join().unwrap();
        assert!(gateway.is_alive());
        gateway.signal("TERM");
    } else {
        waiting.join().unwrap();
    }
    assert!(gateway.wait().success());
    acquitted(&setup, "HUP", "well");
}

/// Sends a message whose hook takes a while, and waits until the ledger says that it runs.
fn in_flight(setup: &Setup, gateway: &Gateway) -> std::thread::JoinHandle<()> {
    assert_eq!(gateway.client().say("s", "Hello.").engine(), Some("crasher"));
    let client = gateway.client().clone();
    let waiting = std::thread::spawn(move || drop(client.try_say("s", "do wait")));
    let since = Instant::now();
    while !runs(setup) {
        assert!(since.elapsed() < SOON, "no hook ever ran");
        std::thread::sleep(Duration::from_millis(2));
    }
    waiting
}

const ROWS: usize = 6;
const BOOT: usize = 8 * 8;

fn ledger(setup: &Setup) -> Vec<u8> {
    std::fs::read(setup.state().join("crash-ledger")).unwrap()
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// True when every turn was handed over.
fn is_settled(gateway: &Gateway) -> bool {
    let engines = gateway.client().engines();
    let row = engines["engines"].as_array().unwrap().iter().find(|row| row["id"] == "crasher").unwrap().clone();
    row["outbox"]["waiting"] == 0 && row["outbox"]["open"] == 0
}

/// True while some thread runs `assemble`.
fn runs(setup: &Setup) -> bool {
    active(setup).any(|place| place == "assemble")
}

/// Where the threads are that run code of an engine.
fn active(setup: &Setup) -> impl Iterator<Item = String> {
    let bytes = ledger(setup);
    let place = |row: u64| {
        let name = &bytes[64 * 8 + (row >> 8 & 0xff) as usize * 32..][..32];
        String::from_utf8_lossy(name).trim_end_matches('\0').to_owned()
    };
    // Rows lie where the subjects end, 64 bytes apart.
    let rows = (64 * 8 + 64 * 32 + 128 * (16 + 2 * 128_usize)).next_multiple_of(64);
    let words = (0..word(&bytes, ROWS * 8) as usize).map(|row| word(&bytes, rows + row * 64));
    words.filter(|row| row & 1 != 0).map(place).collect::<Vec<_>>().into_iter()
}

#[test]
fn an_end_that_nothing_explains_is_counted_and_twice_in_a_row_is_a_crash() {
    let setup = crasher();
    let kill = || {
        let gateway = setup.start();
        let waiting = in_flight(&setup, &gateway);
        gateway.kill();
        waiting.join().unwrap();
    };
    kill();
    // Told with a count, and served from a worker this once.
    let (gateway, end, row) = judged(&setup);
    assert_eq!(end["verdict"], "unexplained", "{row:#}");
    assert_eq!((&row["crash"]["verdict"], &row["crash"]["count"]), (&json!("unexplained"), &json!(1)), "{row:#}");
    assert_eq!(row["library"]["placement"]["isolation"], "process", "{row:#}");
    let warnings = row["warnings"].to_string();
    assert!(warnings.contains("assemble") && warnings.contains("plugins release crasher"), "{warnings}");
    assert_eq!(gateway.client().say("s", "And now?").engine(), Some("crasher"));
    let said = setup.cli(&["doctor"]);
    assert!(said.stdout.contains("unexplained"), "{}", said.stdout);
    // However this process ends, nothing of it ran in-process.
    let waiting = std::thread::spawn({
        let client = gateway.client().clone();
        move || drop(client.try_say("s", "do wait"))
    });
    std::thread::sleep(Duration::from_millis(300));
    gateway.kill();
    waiting.join().unwrap();
    kill();
    let (gateway, _, row) = judged(&setup);
    assert_eq!((&row["state"], &row["crash"]["count"]), (&json!("crashed"), &json!(2)), "{row:#}");
    assert!(row["reason"].as_str().unwrap().contains("2 times in a row"), "{row:#}");
    assert!(gateway.stop().success());
}

#[test]
fn a_good_end_in_between_ends_the_row() {
    let setup = crasher();
    let kill = || {
        let gateway = setup.start();
        let waiting = in_flight(&setup, &gateway);
        gateway.kill();
        waiting.join().unwrap();
    };
    let count = || judged(&setup).2["crash"]["count"].clone();
    kill();
    // Once from a worker, then in-process again with a good end.
    assert_eq!(count(), 1);
    let gateway = setup.start();
    assert_eq!(gateway.client().say("s", "Well?").engine(), Some("crasher"));
    assert!(gateway.stop().success());
    assert_eq!(count(), Value::Null);
    kill();
    assert_eq!(count(), 1);
}

#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_told_from_a_kill_is_unexplained() {
    for word in ["exit-group", "kill-self", "blocked", "reset"] {
        let setup = crasher();
        ends(setup.start(), word);
        let (gateway, end, row) = judged(&setup);
        assert_eq!(end["verdict"], "unexplained", "{word}: {row:#}");
        assert_eq!(
            (&row["crash"]["verdict"], &row["crash"]["at"]),
            (&json!("unexplained"), &json!("assemble")),
            "{word}"
        );
        assert!(gateway.stop().success());
    }
}

#[test]
fn good_ends_accuse_nobody_and_neither_do_forked_children() {
    let setup = crasher();
    let gateway = setup.start();
    let answer = gateway.client().say("s", "do fork");
    assert_eq!((answer.engine(), answer.degraded()), (Some("crasher"), None), "{answer:?}");
    let bytes = ledger(&setup);
    assert_eq!((word(&bytes, 16 * 8), word(&bytes, 4 * 8)), (0, 0), "a child wrote into the ledger");
    assert!(gateway.stop().success());
    acquitted(&setup, "SIGTERM", "well");
    // Killed while nothing runs.
    let gateway = setup.start();
    gateway.client().say("s", "Hello.");
    let since = Instant::now();
    while active(&setup).next().is_some() || !is_settled(&gateway) || active(&setup).next().is_some() {
        assert!(since.elapsed() < SOON);
    }
    gateway.kill();
    acquitted(&setup, "idle", "unknown");
}

#[test]
fn a_second_signal_while_a_call_runs_is_an_end_by_order() {
    let setup = crasher();
    let gateway = setup.start();
    let waiting = in_flight(&setup, &gateway);
    gateway.signal("TERM");
    std::thread::sleep(Duration::from_millis(100));
    gateway.signal("TERM");
    gateway.wait();
    waiting.join().unwrap();
    acquitted(&setup, "second TERM", "well");
}

#[test]
fn a_kill_after_a_stop_was_asked_for_accuses_nobody() {
    let setup = crasher();
    let gateway = setup.start();
    let waiting = in_flight(&setup, &gateway);
    gateway.signal("TERM");
    let since = Instant::now();
    while word(&ledger(&setup), 29 * 8) == 0 {
        assert!(since.elapsed() < SOON, "the stop was never noted");
        std::thread::sleep(Duration::from_millis(2));
    }
    gateway.kill();
    waiting.join().unwrap();
    // On a slow machine it may have ended in good order before.
    let (_gateway, end, row) = judged(&setup);
    assert!(end["verdict"] == "outside" || end["verdict"] == "well", "{end}");
    assert!(row.get("crash").is_none(), "{row:#}");
}

#[test]
fn a_command_that_is_interrupted_accuses_nobody() {
    let setup = crasher();
    let mut turn = setup.command(&["turn", "--session", "s", "do wait"]).spawn().unwrap();
    let since = Instant::now();
    while !setup.state().join("crash-ledger").exists() || !runs(&setup) {
        assert!(since.elapsed() < SOON);
        std::thread::sleep(Duration::from_millis(2));
    }
    // As at a terminal; where the tests run in the background of a script, an interrupt is ignored.
    let (name, signal) = if ignores(turn.id(), libc::SIGINT) { ("TERM", libc::SIGTERM) } else { ("INT", libc::SIGINT) };
    std::process::Command::new("kill").args([&format!("-{name}"), &turn.id().to_string()]).status().unwrap();
    assert_eq!(turn.wait().unwrap().signal(), Some(signal));
    acquitted(&setup, &format!("SIG{name}"), "outside");
}

/// The switch is compiled into debug builds only, as for the conformance table.
#[cfg(debug_assertions)]
#[test]
fn a_defect_in_a_service_of_the_host_accuses_nobody() {
    let broken = crasher().env("ENGINEROOM_BREAK", "ledger.service");
    let output = broken.command(&["turn", "--session", "s", "Hello."]).output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
    let whole = crasher();
    copy(&broken.state(), &whole.state());
    acquitted(&whole, "a defect of the host", "host");
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    std::fs::copy(from.join("crash-ledger"), to.join("crash-ledger")).unwrap();
}

#[test]
fn a_worker_brings_a_crashed_engine_back_and_nothing_is_forgotten() {
    let inside = crasher();
    ends(inside.start(), "segv");
    let apart = crasher_in("process");
    copy(&inside.state(), &apart.state());
    let (gateway, end, row) = judged(&apart);
    assert_eq!(end["verdict"], "crashed");
    assert_eq!((&row["state"], &row["crash"]["verdict"]), (&json!("ready"), &json!("crashed")), "{row:#}");
    let warnings = row["warnings"].to_string();
    assert!(warnings.contains("a worker serves it") && !warnings.contains("isolation ="), "{warnings}");
    let answer = gateway.client().say("s", "And now?");
    assert_eq!((answer.engine(), answer.degraded()), (Some("crasher"), None), "{answer:?}");
    assert!(gateway.stop().success());
    // In-process it is still out.
    let again = crasher();
    for name in ["crash-ledger", "crash-verdicts.json"] {
        std::fs::create_dir_all(again.state()).unwrap();
        std::fs::copy(apart.state().join(name), again.state().join(name)).unwrap();
    }
    let (gateway, _, row) = judged(&again);
    assert_eq!(row["state"], "crashed", "{row:#}");
    assert!(gateway.stop().success());
}

/// The sum that a ledger has of its first words, the boot id and the names of places.
fn head_sum(bytes: &[u8]) -> u64 {
    let sum = |words: &[u64]| {
        let step = |sum: u64, word: &u64| (sum ^ word).rotate_left(29).wrapping_mul(0x2545_f491_4f6c_dd1d);
        words.iter().fold(0x9e37_79b9_7f4a_7c15, step)
    };
    let part = |from: usize, to: usize| sum(&(from..to).map(|at| word(bytes, at * 8)).collect::<Vec<_>>());
    sum(&[part(0, 4), part(8, 16), part(64, 64 + 64 * 4)])
}

#[test]
fn a_reboot_accuses_nobody() {
    let setup = crasher();
    ends(setup.start(), "segv");
    let mut bytes = ledger(&setup);
    bytes[BOOT..BOOT + 4].copy_from_slice(b"0000");
    let sum = head_sum(&bytes).to_ne_bytes();
    bytes[30 * 8..31 * 8].copy_from_slice(&sum);
    std::fs::write(setup.state().join("crash-ledger"), bytes).unwrap();
    acquitted(&setup, "reboot", "reboot");
}

#[test]
fn a_release_brings_it_back_from_the_next_start_on() {
    // While no gateway runs, also before any start has judged what happened.
    let setup = crasher();
    ends(setup.start(), "segv");
    let wrong = setup.cli(&["plugins", "release", "crashr"]);
    assert_eq!(wrong.code, Some(2), "{wrong:?}");
    assert!(wrong.stderr.contains("did you mean \"crasher\""), "{wrong:?}");
    let doctor = setup.cli(&["doctor"]);
    assert_eq!(doctor.code, Some(1));
    for said in ["crashed", "SIGSEGV", "assemble", "plugins release crasher", "legacy"] {
        assert!(doctor.stdout.contains(said), "doctor does not say {said:?}: {}", doctor.stdout);
    }
    let crash = &setup.cli(&["doctor", "--json"]).json()["slots"]["contextEngine"]["engines"][0]["crash"];
    assert_eq!((&crash["signal"], &crash["at"]), (&json!("SIGSEGV"), &json!("assemble")), "{crash:#}");
    let released = setup.cli(&["plugins", "release", "crasher", "--json"]);
    assert_eq!((released.code, &released.json()["released"][0]["id"]), (Some(0), &json!("crasher")), "{released:?}");
    let (gateway, end, row) = judged(&setup);
    assert_eq!((end, row.get("crash")), (Value::Null, None), "what was released is not judged again: {row:#}");
    assert_eq!(gateway.client().say("s", "And now?").engine(), Some("crasher"));
    assert!(gateway.stop().success());
}

#[test]
fn a_release_beside_a_running_gateway_says_that_it_counts_later() {
    let setup = crasher();
    ends(setup.start(), "abort");
    let (gateway, ..) = judged(&setup);
    let released = setup.cli(&["plugins", "release", "crasher"]);
    assert_eq!(released.code, Some(0), "{released:?}");
    assert!(format!("{}{}", released.stdout, released.stderr).contains("restart the gateway"), "{released:?}");
    assert_eq!(gateway.client().say("s", "And?").engine(), Some("legacy"), "not before the next start");
    let again = setup.cli(&["plugins", "release", "crasher"]);
    assert!(again.stdout.contains("released already"), "{again:?}");
    assert!(gateway.stop().success());
    acquitted(&setup, "released", "well");
    // One that merely failed needs no release.
    let setup = Setup::new().chaos(&json!({"mode": "error", "hook": "assemble"}));
    let gateway = setup.start();
    gateway.client().say("s", "Hello.");
    let said = setup.cli(&["plugins", "release", "chaos"]);
    assert!(said.code == Some(0) && said.stdout.contains("a restart of the gateway is enough"), "{said:?}");
    assert!(gateway.stop().success());
}

#[test]
fn the_setting_turns_all_of_it_off() {
    let setup = crasher().env("ENGINEROOM_PLUGINS_CRASH_LEDGER", "false");
    ends(setup.start(), "abort");
    assert!(!setup.state().join("crash-ledger").exists());
    let gateway = setup.start();
    assert_eq!(gateway.client().engines()["previousEnd"], Value::Null);
    assert_eq!(gateway.client().say("s", "Hello.").engine(), Some("crasher"));
    assert!(gateway.stop().success());
}

#[test]
fn what_an_engine_stored_is_not_touched_while_it_is_out() {
    let setup = crasher();
    ends(setup.start(), "segv");
    let folder = setup.state().join("engines/crasher/main/last");
    let before =
        (std::fs::read(&folder).unwrap(), std::fs::metadata(&folder).unwrap().modified().unwrap(), kept(&setup));
    assert!(!before.2.is_empty());
    for _ in 0..2 {
        let gateway = setup.start();
        for text in ["One.", "Two.", "Three."] {
            assert_eq!(gateway.client().say("s", text).engine(), Some("legacy"));
        }
        assert_eq!(gateway.client().post("/api/sessions/s/compact", &[], &json!({})).status, 200);
        assert!(gateway.stop().success());
    }
    let after =
        (std::fs::read(&folder).unwrap(), std::fs::metadata(&folder).unwrap().modified().unwrap(), kept(&setup));
    assert_eq!(before, after);
    // Back again, it takes up what it missed.
    assert_eq!(setup.cli(&["plugins", "release", "crasher"]).code, Some(0));
    let gateway = setup.start();
    assert_eq!(gateway.client().say("s", "Back?").engine(), Some("crasher"));
    assert!(gateway.stop().success());
    assert!(kept(&setup).len() > after.2.len());
}

/// The rows of the engine's store.
fn kept(setup: &Setup) -> Vec<(Vec<u8>, Vec<u8>)> {
    let store = rusqlite::Connection::open(setup.state().join("transcript.db")).unwrap();
    let mut rows = store.prepare("SELECT key, value FROM engine_kv WHERE engine = 'crasher' ORDER BY key").unwrap();
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

#[test]
fn a_memory_provider_is_judged_like_an_engine() {
    let setup = Setup::new()
        .chaos_memory(&json!({"mode": "abort", "hook": "memory_prompt"}))
        .toml("[plugins.entries.chaos]\nisolation = \"in-process\"\n");
    let gateway = setup.start();
    let _ = gateway.client().try_say("s", "Hello.");
    assert_eq!(gateway.wait().signal(), Some(libc::SIGABRT));
    let gateway = setup.start();
    let memory = gateway.client().engines()["memory"].clone();
    assert_eq!(memory["code"], "memory-crashed", "{memory:#}");
    let provider = &memory["providers"][0];
    assert_eq!(
        (&provider["state"], &provider["crash"]["at"]),
        (&json!("crashed"), &json!("memoryPrompt")),
        "{provider:#}"
    );
    assert_eq!(gateway.client().say("s", "Hello.").status, 200);
    assert!(gateway.stop().success());
    assert_eq!(setup.cli(&["plugins", "release", "chaos"]).code, Some(0));
}

#[test]
fn a_damaged_ledger_is_told_and_lets_nobody_into_the_gateway_this_time() {
    let setup = crasher();
    ends(setup.start(), "segv");
    let mut bytes = ledger(&setup);
    // The word that says that there is a cause.
    bytes[16 * 8] ^= 1;
    std::fs::write(setup.state().join("crash-ledger"), bytes).unwrap();
    let doctor = setup.cli(&["doctor"]);
    let told = |said: &str| said.contains("crash-ledger cannot be understood: its cause is damaged");
    assert!(told(&doctor.stdout) && !doctor.stdout.contains("all is well"), "{doctor:?}");
    let (gateway, end, row) = judged(&setup);
    assert!(told(&gateway.stderr()), "{}", gateway.stderr());
    assert_eq!(end["verdict"], "unknown", "{end}");
    assert_eq!(row["library"]["placement"]["isolation"], "process", "{row:#}");
    assert!(told(&setup.cli(&["doctor"]).stdout));
    assert_eq!(gateway.client().say("s", "Hello.").engine(), Some("crasher"));
    // What ended the gateway before ends a worker now.
    let answer = gateway.client().say("s", "do segv");
    assert_eq!((answer.engine(), answer.degraded()), (Some("legacy"), Some("engine-crashed")), "{answer:?}");
    let (status, said) = gateway.stop_and_hear();
    assert!(status.success() && !said.contains("failed in dispose"), "{said}");
    let (gateway, _, row) = judged(&setup);
    assert_eq!(row["library"]["placement"]["isolation"], "in-process", "{row:#}");
    assert!(gateway.stop().success());
    // One that cannot even be opened.
    let path = setup.state().join("crash-ledger");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let doctor = setup.cli(&["doctor"]);
    assert!(doctor.stdout.contains("crash-ledger cannot be understood: "), "{doctor:?}");
}

#[test]
fn no_ledger_that_is_found_stops_a_start() {
    let setup = crasher();
    let gateway = setup.start();
    assert!(gateway.stop().success());
    let whole = ledger(&setup);
    for found in [&b""[..], b"garbage", &whole[..1000], &vec![0xff; whole.len()]] {
        std::fs::write(setup.state().join("crash-ledger"), found).unwrap();
        std::fs::write(setup.state().join("crash-verdicts.json"), "{").unwrap();
        let gateway = setup.start();
        assert_eq!(gateway.client().say("s", "Hello.").engine(), Some("crasher"));
        assert!(gateway.stop().success());
    }
}
