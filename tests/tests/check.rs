//! `plugins check`: each named check finds the one engine that is wrong in its way, and nothing else; our own engines pass.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::{Cli, Setup, built, library_name};
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The seed of everything here.
const SEED: &str = "20";

fn check(file: &Path, args: &[&str]) -> Cli {
    let file = file.to_str().expect("a path");
    let all: Vec<&str> = ["plugins", "check", file, "--seed", SEED].into_iter().chain(args.iter().copied()).collect();
    Setup::new().cli(&all)
}

/// What came of each check, by name, and the whole report. Several places count together: the worst.
fn checked(file: &Path, args: &[&str]) -> (BTreeMap<String, Value>, Value) {
    let all: Vec<&str> = args.iter().copied().chain(["--json"]).collect();
    let cli = check(file, &all);
    let report = cli.json();
    let mut checks: BTreeMap<String, Value> = BTreeMap::new();
    for one in report["checks"].as_array().unwrap_or_else(|| panic!("{cli:?}")) {
        let name = one["check"].as_str().unwrap().to_owned();
        let worse =
            |status: &str| ["pass", "skipped", "unreached", "warn", "fail"].iter().position(|word| *word == status);
        let rank = |one: &Value| worse(one["status"].as_str().unwrap()).unwrap();
        if checks.get(&name).is_none_or(|known| rank(one) > rank(known)) {
            checks.insert(name, one.clone());
        }
    }
    (checks, report)
}

/// The check of this name found something, every other one passed or was not reached because of it.
fn only(expected: &str, found: &str, file: &Path, args: &[&str]) -> Result<(), String> {
    let (checks, report) = checked(file, args);
    for (name, one) in &checks {
        let status = one["status"].as_str().unwrap();
        let good = match status {
            _ if name == expected => status == found,
            "pass" | "skipped" => true,
            "unreached" => one["because"] == expected,
            _ => false,
        };
        if !good {
            return Err(format!("{expected}: the check {name} says {one}"));
        }
    }
    if !checks.contains_key(expected) {
        return Err(format!("{expected}: it was not checked: {report:#}"));
    }
    Ok(())
}

fn wrong(expected: &str, found: &str, args: &[&str]) -> Result<(), String> {
    let all: Vec<&str> = ["--engine", expected].into_iter().chain(args.iter().copied()).collect();
    only(expected, found, &built().library("wrong"), &all)
}

const WARNINGS: [&str; 9] =
    ["budget", "estimate", "compact-no-op", "durable", "stable-prefix", "deterministic", "cancel", "threads", "memory"];

#[test]
fn each_check_finds_the_one_engine_that_is_wrong_in_its_way() {
    let listed = Setup::new().cli(&["plugins", "check", "--list", "--json"]).json();
    let of_the_file = [
        "file",
        "panic-mode",
        "trust",
        "config-defaults",
        "config-unknown-keys",
        "probe",
        "load",
        "layout",
        "register",
    ];
    let all = listed.as_array().unwrap().iter().filter(|one| !of_the_file.contains(&one["check"].as_str().unwrap()));
    let all: Vec<&Value> = all.collect();
    assert!(all.len() > 30, "{listed}");
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    // One hangs until its deadline, and others need not wait for it.
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let name = one["check"].as_str().unwrap();
                    let found = if WARNINGS.contains(&name) { "warn" } else { "fail" };
                    assert_eq!(one["finding"].as_str().unwrap(), format!("{found}s"), "{name}");
                    let place = if matches!(name, "worker" | "kill") { "process" } else { "in-process" };
                    let rounds = if name == "kill" { "8" } else { "3" };
                    let outcome = wrong(name, found, &["--isolation", place, "--rounds", rounds]);
                    failed.lock().unwrap().extend(outcome.err());
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn an_engine_that_is_right_passes_at_the_highest_level() {
    let (checks, report) = checked(&built().library("wrong"), &["--engine", "good", "--rounds", "3"]);
    assert!(checks.values().all(|one| one["status"] == "pass"), "{report:#}");
    assert_eq!((&report["levelReached"], &report["failures"], &report["warnings"]), (&5.into(), &0.into(), &0.into()));
}

fn compile(folder: &Path, name: &str, change: &[(&str, &str)]) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut source = std::fs::read_to_string(root.join("engines/c-window/c_window.c")).unwrap();
    for (from, to) in change {
        assert!(source.contains(from), "{from}");
        source = source.replace(from, to);
    }
    let (c, library) = (folder.join(format!("{name}.c")), folder.join(library_name(name)));
    std::fs::write(&c, source).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-shared", "-fPIC", "-fvisibility=hidden", "-I"]).arg(root.join("engine-abi/include"));
    assert!(cc.arg("-o").arg(&library).arg(&c).status().unwrap().success());
    library
}

#[test]
fn each_check_of_the_file_finds_the_one_file_that_is_wrong_in_its_way() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let dispose = "static const EngineroomEngineV1 table";
    let schema = ",\\\"additionalProperties\\\":false}";
    let cases: [(&str, &str, PathBuf); 9] = [
        ("file", "fail", {
            let file = folder.join("file.so");
            std::fs::write(&file, "no library").unwrap();
            file
        }),
        ("trust", "fail", {
            let file = folder.join("loose.so");
            std::fs::copy(built().library("window"), &file).unwrap();
            std::fs::set_permissions(&file, PermissionsExt::from_mode(0o666)).unwrap();
            file
        }),
        ("panic-mode", "fail", compile(folder, "abort", &[("panic=unwind", "panic=abort")])),
        ("config-unknown-keys", "warn", compile(folder, "loose_schema", &[(schema, "}")])),
        (
            "config-defaults",
            "fail",
            compile(folder, "demanding", &[(schema, &format!(",\\\"required\\\":[\\\"key\\\"]{schema}"))]),
        ),
        ("probe", "fail", {
            let abort = "extern void abort(void);\n__attribute__((constructor)) static void early(void) { abort(); }\n";
            compile(folder, "constructor", &[(dispose, &format!("{abort}{dispose}"))])
        }),
        ("load", "fail", {
            let nowhere = "extern void nowhere(void);\nvoid (*volatile there)(void) = nowhere;\n";
            compile(folder, "nowhere", &[(dispose, &format!("{nowhere}{dispose}"))])
        }),
        (
            "layout",
            "fail",
            compile(folder, "future", &[("= ENGINEROOM_CONTRACT_MINOR", "= ENGINEROOM_CONTRACT_MINOR + 7")]),
        ),
        ("register", "fail", {
            let register =
                "return registrar->register_engine(registrar->context, engineroom_str(\"c-window\"), &factory);";
            compile(folder, "idle", &[(register, "(void)registrar; (void)&factory; return 0;")])
        }),
    ];
    let failed: Vec<String> = cases
        .iter()
        .filter_map(|(name, found, file)| only(name, found, file, &["--isolation", "in-process", "--level", "2"]).err())
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// No check failed, in either place.
fn passes(file: &Path, args: &[&str]) {
    let cli = check(file, args);
    assert_eq!(cli.code, Some(0), "{}\n{}", cli.stdout, cli.stderr);
    assert!(cli.stdout.contains("level reached: 5 of 5"), "{}", cli.stdout);
}

#[test]
fn our_own_engines_pass_at_the_highest_level_in_process_and_in_a_worker() {
    let folder = tempfile::tempdir().unwrap();
    passes(&built().library("window"), &["--rounds", "3"]);
    passes(&built().library("notes"), &[]);
    passes(&compile(folder.path(), "c_window", &[]), &["--rounds", "3"]);
}

#[test]
fn recall_passes_at_the_highest_level() {
    passes(&built().library("recall"), &["--rounds", "1"]);
}

#[test]
fn a_failure_is_explained_and_played_again() {
    let library = built().library("wrong");
    let cli = check(&library, &["--engine", "spans", "--isolation", "in-process", "--test", "spans"]);
    assert_eq!(cli.code, Some(1), "{cli:?}");
    for words in ["found: assemble: the span", "the contract says: ", "mend it: ", "next: mend \"spans\"", "--seed 20"]
    {
        assert!(cli.stdout.contains(words), "{words}: {}", cli.stdout);
    }
    let folder = tempfile::tempdir().unwrap();
    let xml = folder.path().join("report.xml");
    let args = ["--engine", "spans", "--isolation", "in-process", "--test", "spans", "--junit", xml.to_str().unwrap()];
    let again = check(&library, &args);
    let found = |cli: &Cli| cli.stdout.lines().find(|line| line.contains("found:")).map(str::to_owned);
    assert_eq!(found(&again), found(&cli), "the same seed plays the same");
    let xml = std::fs::read_to_string(xml).unwrap();
    assert!(xml.contains("<failure message=\"assemble: the span") && xml.contains("classname=\"spans\""), "{xml}");
}

#[test]
fn wrong_usage_is_told_with_what_would_be_right() {
    let library = built().library("wrong");
    for (args, words) in [
        (["--test", "spam"], "did you mean \"spans\"?"),
        (["--engine", "nope"], "it offers good"),
        (["--level", "6"], "1..=5"),
    ] {
        let cli = check(&library, &args);
        assert_eq!(cli.code, Some(2), "{cli:?}");
        assert!(cli.stderr.contains(words), "{}", cli.stderr);
    }
    let cli = check(Path::new("/nowhere/lib.so"), &[]);
    assert_eq!(cli.code, Some(2), "{cli:?}");
    assert!(cli.stderr.contains("CE380"), "{}", cli.stderr);
}
