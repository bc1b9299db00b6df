//! A library that cannot be used: the gateway starts, `legacy` answers, and everybody can see why.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::{Setup, built, library_name};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;

/// Starts `setup`, whose selected engine must be refused at `stage`: the client is served by `legacy` with the degraded
/// header, and `doctor` names engine, stage, `words` of the cause and a remedy, and exits with 1.
#[track_caller]
fn refused(setup: &Setup, engine: &str, stage: &str, words: &[&str]) {
    let gateway = setup.start();
    let answer = gateway.client().say("s", "Is anybody there?");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.engine(), Some("legacy"), "{answer:?}");
    assert!(answer.degraded().is_some(), "{answer:?}");

    let engines = gateway.client().engines();
    let row = engines["engines"].as_array().unwrap().iter().find(|row| row["id"] == engine);
    let row = row.unwrap_or_else(|| panic!("{engine} is not listed: {engines:#}"));
    assert_eq!(row["state"], "quarantined", "{row:#}");

    let said = setup.cli(&["doctor"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    for word in [engine, stage].iter().chain(words) {
        assert!(
            said.stdout.to_lowercase().contains(&word.to_lowercase()),
            "doctor does not say {word:?}:\n{}",
            said.stdout
        );
    }
    assert!(said.stdout.contains("hint"), "doctor names no remedy:\n{}", said.stdout);
    assert!(gateway.stop().success());

    // Without a running gateway doctor finds the same by itself.
    let alone = setup.cli(&["doctor"]);
    assert_eq!(alone.code, Some(1), "{alone:?}");
    assert!(alone.stdout.contains(engine) && alone.stdout.contains("hint"), "{}", alone.stdout);
}

#[test]
fn an_engine_that_no_library_has_is_missing_and_the_nearest_is_suggested() {
    let setup = Setup::new().library("window").select("windw");
    refused(&setup, "windw", "discover", &["window"]);
}

/// A file that names no engine cannot be tied to the selected id: doctor lists the file with its reason as well.
#[track_caller]
fn refused_file(name: &str, bytes: &[u8], words: &[&str]) {
    let setup = Setup::new().file(&library_name(name), bytes).select(name);
    let file = library_name(name);
    let mut all = vec![file.as_str()];
    all.extend(words);
    refused(&setup, name, "inspect", &all);
}

#[test]
fn a_text_file_is_not_a_library() {
    refused_file("window", b"I am not a library, I am a poem.\n", &[]);
}

#[test]
fn an_empty_file_is_not_a_library() {
    refused_file("window", b"", &["empty"]);
}

#[test]
fn a_library_cut_anywhere_is_refused_before_it_is_opened() {
    let whole = std::fs::read(built().library("window")).unwrap();
    for percent in [1, 10, 50, 70, 90, 99] {
        refused_file("window", &whole[..whole.len() * percent / 100], &[]);
    }
}

#[test]
fn a_foreign_library_is_not_an_engine() {
    let name =
        ["/lib/x86_64-linux-gnu/libz.so.1", "/usr/lib/x86_64-linux-gnu/libz.so.1", "/lib/aarch64-linux-gnu/libz.so.1"]
            .into_iter()
            .find_map(|path| std::fs::read(path).ok());
    // Every Linux has some library that is not an engine; the C library serves where libz is not installed.
    let bytes = name.unwrap_or_else(|| std::fs::read("/lib/x86_64-linux-gnu/libc.so.6").unwrap());
    refused_file("z", &bytes, &["engineroom"]);
}

#[test]
fn a_library_outside_the_folder_is_not_used() {
    let setup = Setup::new().select("window");
    let outside = setup.path().join(library_name("window"));
    std::fs::copy(built().library("window"), &outside).unwrap();
    std::os::unix::fs::symlink(&outside, setup.plugins().join(library_name("window"))).unwrap();
    refused(&setup, "window", "trust", &["leads out of the plugins folder"]);
}

#[test]
fn a_world_writable_library_is_not_used() {
    let setup = Setup::new().library("window").select("window");
    let path = setup.plugins().join(library_name("window"));
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).unwrap();
    refused(&setup, "window", "trust", &["anybody may write", "chmod"]);
}

#[test]
fn a_library_of_another_user_is_not_used() {
    // SAFETY: no memory is involved; the call only reads the process's own id.
    #[allow(unsafe_code, reason = "libc has no safe geteuid")]
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        println!("skipped: a_library_of_another_user_is_not_used (only root can give a file away)");
        return;
    }
    let setup = Setup::new().library("window").select("window");
    std::os::unix::fs::chown(setup.plugins().join(library_name("window")), Some(12345), None).unwrap();
    refused(&setup, "window", "trust", &["12345"]);
}

#[test]
fn invalid_configuration_of_an_engine_names_the_path_and_the_reason() {
    let setup = Setup::new()
        .library("window")
        .select("window")
        .toml("[plugins.entries.window.config]\npin_first_turn = \"perhaps\"\n");
    refused(&setup, "window", "pin_first_turn", &["true or false"]);
}

#[test]
fn two_hundred_damaged_copies_never_keep_the_gateway_from_answering() {
    let whole = std::fs::read(built().library("window")).unwrap();
    let mut seed: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut next = move || {
        // xorshift64*: any spread of places will do, and a fixed seed replays.
        seed ^= seed >> 12;
        seed ^= seed << 25;
        seed ^= seed >> 27;
        seed.wrapping_mul(0x2545_f491_4f6c_dd1d)
    };
    for round in 0..200 {
        let mut bytes = whole.clone();
        for _ in 0..8 {
            let place = usize::try_from(next() % (16 * 1024)).unwrap().min(bytes.len() - 1);
            bytes[place] = next().to_le_bytes()[0];
        }
        let setup = Setup::new().file(&library_name("window"), &bytes).select("window");
        let mut gateway = setup.start();
        let answer = gateway.client().say("s", "Is anybody there?");
        assert_eq!(answer.status, 200, "round {round}: {answer:?}");
        let engines = gateway.client().engines();
        let ready =
            engines["engines"].as_array().unwrap().iter().any(|row| row["id"] == "window" && row["state"] == "ready");
        let expected = if ready { "window" } else { "legacy" };
        assert_eq!(answer.engine(), Some(expected), "round {round}: {answer:?} {engines:#}");
        assert!(gateway.is_alive(), "round {round}");
    }
}

#[test]
fn a_manifest_of_another_contract_is_refused_and_both_versions_are_named() {
    let setup = Setup::new().chaos_patched("contract=1.0-draft", "contract=9.9-draft");
    refused(&setup, "chaos", "inspect", &["9.9-draft", "1.0-draft"]);
}

#[test]
fn an_engine_built_with_panic_abort_is_refused_in_process() {
    refused(&Setup::new().chaos_patched("panic=unwind", "panic=abort"), "chaos", "inspect", &["abort"]);
}

#[test]
fn another_layout_is_refused_in_one_line_that_names_type_and_field() {
    let setup = Setup::new().chaos_patched("contract_minor", "contract_minus");
    refused(&setup, "chaos", "layout", &["EntryPointV1", "contract_min"]);
}

#[test]
fn a_constructor_that_aborts_ends_the_probe_and_nothing_else() {
    refused(&Setup::new().chaos_switched("constructor-aborts"), "chaos", "probe", &["SIGABRT"]);
}

#[test]
fn register_may_fail_panic_hang_or_register_nothing() {
    refused(&Setup::new().chaos_switched("register-fails"), "chaos", "register", &["told to fail in register"]);
    refused(&Setup::new().chaos_switched("register-panics"), "chaos", "register", &["told to panic in register"]);
    refused(&Setup::new().chaos_switched("register-hangs"), "chaos", "register", &["deadline"]);
    refused(&Setup::new().chaos_switched("register-nothing"), "chaos", "register", &[]);
}

#[test]
fn legacy_belongs_to_the_core_and_the_rest_of_the_library_goes_on() {
    let setup = Setup::new().chaos_switched("register-legacy");
    let gateway = setup.start();
    let answer = gateway.client().say("s", "Is anybody there?");
    assert_eq!((answer.engine(), answer.degraded()), (Some("chaos"), None), "{answer:?}\n{}", gateway.stderr());
    assert!(gateway.stderr().contains("core"), "{}", gateway.stderr());
}

#[test]
fn a_factory_may_fail_panic_hang_or_make_nothing() {
    for (mode, word) in
        [("error", "told"), ("panic", "told"), ("panic-bomb", ""), ("hang-sleep", "deadline"), ("no-result", "")]
    {
        // In the probe, where it is found first …
        let config = json!({"mode": mode, "hook": "factory", "probe": true});
        refused(&Setup::new().chaos(&config), "chaos", "factory", &[word]);
        // … and in the gateway, when the probe saw nothing.
        let config = json!({"mode": mode, "hook": "factory"});
        refused(&Setup::new().chaos(&config), "chaos", "factory", &[word]);
    }
}

#[test]
fn a_blank_id_or_name_breaks_the_contract() {
    refused(&Setup::new().chaos(&json!({"id": " "})), "chaos", "contract", &["info.id"]);
    refused(&Setup::new().chaos(&json!({"name": ""})), "chaos", "contract", &["info.name"]);
    refused(&Setup::new().chaos(&json!({"mode": "info-codes", "hook": "info"})), "chaos", "info", &["ownsCompaction"]);
}

#[test]
fn a_library_that_dies_in_a_hook_is_found_by_the_probe() {
    for (mode, word) in [("abort", "SIGABRT"), ("segfault", "SIGSEGV"), ("stack-overflow", "SIG"), ("exit", "exit")] {
        let config = json!({"mode": mode, "hook": "assemble", "probe": true});
        refused(&Setup::new().chaos(&config), "chaos", "probe", &[word]);
    }
}
