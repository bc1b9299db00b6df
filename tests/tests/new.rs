//! From an empty folder to a turn that is served: `plugins new`, build and tests without any registry, the real gateway.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::{Setup, built, library_name, outer_cargo};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A cargo home without a registry: what is not in the project is not there.
fn cargo(home: &Path, target: &Path, project: &Path) -> Command {
    let mut cargo = outer_cargo();
    cargo.current_dir(project).env("CARGO_HOME", home).env("CARGO_TARGET_DIR", target).env("CARGO_NET_OFFLINE", "true");
    // What is tried is the way from the folder to the library, not how fast it runs.
    cargo.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "0").env_remove("RUSTFLAGS");
    cargo
}

#[track_caller]
fn done(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    said
}

fn new(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(built().engineroom());
    command.current_dir(folder).args(["plugins", "new"]).args(arguments);
    command
}

/// Runs `plugins new` into `home/project`. The sources that come along are the same for every project: those of the first are
/// kept, with their times, so that cargo builds them once.
fn project(home: &Path, name: &str, template: &str) -> PathBuf {
    let (made, place, sdk) = (home.join("made"), home.join("project"), home.join("sdk"));
    let path = made.to_str().unwrap();
    let said = done(&mut new(home, &[name, "--template", template, "--path", path]));
    for step in [
        "cargo test",
        "cargo build --release",
        "plugins check",
        "plugins install",
        "plugins select",
        "engineroom gateway",
    ] {
        assert!(said.contains(step), "{said}");
    }
    if place.exists() {
        std::fs::rename(place.join("sdk"), &sdk).unwrap();
        std::fs::remove_dir_all(&place).unwrap();
        let count = |folder: &Path| done(Command::new("find").arg(folder).args(["-type", "f"])).lines().count();
        assert_eq!(count(&sdk), count(&made.join("sdk")));
        std::fs::remove_dir_all(made.join("sdk")).unwrap();
        std::fs::rename(&sdk, made.join("sdk")).unwrap();
    }
    std::fs::rename(&made, &place).unwrap();
    place
}

fn served_by_engine(setup: &Setup, id: &str) {
    let gateway = setup.start();
    for said in ["My harbour pilot is called Marisol.", "And the harbour?"] {
        let answer = gateway.client().say("desk", said);
        assert_eq!((answer.engine(), answer.degraded()), (Some(id), None), "{answer:?}");
    }
    assert!(gateway.stop().success());
}

fn with_library(library: &Path) -> Setup {
    let name = library.file_name().unwrap().to_string_lossy().into_owned();
    Setup::new().file(&name, &std::fs::read(library).unwrap())
}

#[test]
fn a_project_in_rust_builds_without_a_registry_passes_its_tests_and_serves() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let (cargo_home, target) = (home.join("cargo-home"), home.join("target"));
    std::fs::create_dir(&cargo_home).unwrap();
    for (name, template) in [("my-window", "window"), ("a-keeper", "owning"), ("zettel", "memory")] {
        let project = project(home, name, template);
        let lock = std::fs::read_to_string(project.join("Cargo.lock")).unwrap();
        let cargo = || cargo(&cargo_home, &target, &project);
        let tests = done(cargo().args(["test", "--locked"]));
        assert!(tests.contains("test result: ok."), "{tests}");
        done(cargo().args(["build", "--locked"]));
        assert_eq!(
            std::fs::read_to_string(project.join("Cargo.lock")).unwrap(),
            lock,
            "cargo leaves the lock as it is"
        );
        if Command::new("rustfmt").arg("--version").output().is_ok_and(|output| output.status.success()) {
            done(Command::new("rustfmt").args(["--check", "--edition", "2024"]).arg(project.join("src/lib.rs")));
        }
        let setup = with_library(&target.join("debug").join(library_name(&name.replace('-', "_"))));
        if template == "memory" {
            let setup = setup.memory(name);
            let gateway = setup.start();
            gateway.client().say("desk", "Hello.").text();
            let provider = gateway.client().engines()["memory"]["providers"][0].clone();
            assert_eq!(
                (provider["id"].as_str(), provider["state"].as_str()),
                (Some(name), Some("ready")),
                "{provider:#}"
            );
            assert!(gateway.stop().success());
        } else {
            served_by_engine(&setup.select(name), name);
        }
        if template == "window" {
            // Another optimisation level, one unit of code, optimised across crates, without symbols.
            let mut release = cargo();
            release.args(["build", "--locked", "--release"]);
            for (key, value) in [("OPT_LEVEL", "1"), ("CODEGEN_UNITS", "1"), ("LTO", "fat"), ("STRIP", "symbols")] {
                release.env(format!("CARGO_PROFILE_RELEASE_{key}"), value);
            }
            done(&mut release);
            served_by_engine(&with_library(&target.join("release").join(library_name("my_window"))).select(name), name);
        }
    }
}

#[test]
fn a_project_in_c_builds_with_a_compiler_alone_passes_its_check_and_serves() {
    let folder = tempfile::tempdir().unwrap();
    let said = done(&mut new(folder.path(), &["harbour-view", "--lang", "c"]));
    assert!(said.contains("make check"), "{said}");
    let project = folder.path().join("harbour-view");
    if Command::new("make").arg("--version").output().is_err() {
        println!("skipped: no make on this machine");
        return;
    }
    let make = || {
        let mut make = Command::new("make");
        make.current_dir(&project).env("CFLAGS", "-O1 -Werror");
        make
    };
    assert!(done(make().arg("check")).contains("all is well"));
    done(&mut make());
    served_by_engine(&with_library(&project.join(library_name("harbour_view"))).select("harbour-view"), "harbour-view");
}

#[test]
fn a_wrong_order_is_refused_with_one_sentence_that_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("taken")).unwrap();
    std::fs::write(folder.path().join("taken/mine"), "mine").unwrap();
    // A configuration that is wrong is no reason to refuse.
    std::fs::write(folder.path().join("plugins.toml"), "[gateway\n").unwrap();
    let wrong: &[(&[&str], &[&str])] = &[
        (&["My Engine"], &["CE880", "did you mean \"my-engine\"?"]),
        (&["legacy"], &["CE880", "did you mean \"my-legacy\"?"]),
        (&["../up"], &["CE880", "did you mean \"up\"?"]),
        (&["keeper", "--lang", "c", "--template", "owning"], &["CE881", "window"]),
        (&["keeper", "--lang", "rsut"], &["rust"]),
        (&["keeper", "--template", "windoww"], &["window"]),
        (&["taken"], &["CE882", "nothing was changed"]),
    ];
    for (arguments, words) in wrong {
        let output = new(folder.path(), arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        words.iter().for_each(|word| assert!(said.contains(word), "{arguments:?}: {said}"));
    }
    let mut left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["plugins.toml", "taken"]);
    let made = new(folder.path(), &["mine", "--lang", "c", "--json"]).output().unwrap();
    let made: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    assert_eq!((made["build"].as_str(), made["select"][0].as_str()), (Some("make"), Some("mine")), "{made:#}");
}
