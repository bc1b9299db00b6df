//! valgrind over load, every hook, late pushes and dispose: an engine in C and engines in Rust, through the gateway's own loader
//! and slot. Without valgrind it is skipped, unless `ENGINEROOM_REQUIRE_VALGRIND` is set.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "tests")]
#![cfg(target_os = "linux")]

use engineroom_tests::{built, library_name};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What memcheck found is told by this exit code.
const FOUND: &str = "9";

fn there() -> bool {
    let there = Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success());
    assert!(there || std::env::var_os("ENGINEROOM_REQUIRE_VALGRIND").is_none(), "valgrind is required and not there");
    if !there {
        println!("skipped: valgrind::* (no valgrind on this machine)");
    }
    there
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// Runs the driver under valgrind with this library; what the driver said.
fn looked_at(library: &Path, id: &str, more: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("plugins")).unwrap();
    let copy = folder.path().join("plugins").join(library_name(id));
    std::fs::copy(library, &copy).unwrap();
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o644)).unwrap();
    let config = folder.path().join("plugins.toml");
    // Everything is slow under valgrind.
    let deadlines: String = ["register", "probe", "factory", "info", "bootstrap", "compact", "commit_turn", "dispose"]
        .iter()
        .map(|name| format!("{name}_ms = 120000\n"))
        .collect();
    let text = format!(
        "[gateway]\nstate_dir = \"state\"\n[plugins]\ndir = \"plugins\"\n[plugins.slots]\ncontextEngine = \"{id}\"\n\
         [plugins.entries.{id}]\nisolation = \"in-process\"\n{more}\n[plugins.deadlines]\n{deadlines}{}",
        if more.contains("hang") { "assemble_ms = 500\n" } else { "assemble_ms = 120000\n" }
    );
    std::fs::write(&config, text).unwrap();
    let output = Command::new("valgrind")
        .args(["--quiet", "--leak-check=full", "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"])
        .args(["--fair-sched=yes", &format!("--error-exitcode={FOUND}")])
        .arg(format!("--suppressions={}", root().join("fuzz/valgrind.supp").display()))
        .arg(env!("CARGO_BIN_EXE_hooks"))
        .arg(&config)
        .arg(built().engineroom())
        .arg(id)
        .output()
        .unwrap();
    let (said, found) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{said}\n{found}", output.status);
    said.into_owned()
}

fn in_c(folder: &Path) -> PathBuf {
    let library = folder.join("libc_window.so");
    let done = Command::new("cc")
        .args(["-std=c11", "-shared", "-fPIC", "-O1", "-g", "-I"])
        .arg(root().join("engine-abi/include"))
        .arg("-o")
        .arg(&library)
        .arg(root().join("engines/c-window/c_window.c"))
        .status()
        .unwrap();
    assert!(done.success(), "the engine in C does not build");
    library
}

#[test]
fn an_engine_in_c_is_clean_from_its_load_to_its_end() {
    if !there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let said = looked_at(&in_c(folder.path()), "c-window", "");
    assert!(said.contains("assemble: ok") && said.contains("disposed: true"), "{said}");
}

#[test]
fn an_engine_in_rust_is_clean_from_its_load_to_its_end() {
    if !there() {
        return;
    }
    let said = looked_at(&built().library("window"), "window", "");
    assert!(said.contains("assemble again: ok") && said.contains("disposed: true"), "{said}");
}

#[test]
fn a_call_that_comes_back_late_pushes_into_nothing() {
    if !there() {
        return;
    }
    let config = "[plugins.entries.chaos.config]\nmode = \"hang-sleep\"\nhook = \"assemble\"\nms = 2500\n";
    let said = looked_at(&built().library("chaos"), "chaos", config);
    assert!(said.contains("abandoned with its thread"), "{said}");
}

#[test]
fn a_panic_in_a_hook_leaves_nothing_behind() {
    if !there() {
        return;
    }
    let config = "[plugins.entries.chaos.config]\nmode = \"panic\"\nhook = \"assemble\"\n";
    let said = looked_at(&built().library("chaos"), "chaos", config);
    assert!(said.contains("assemble") && said.contains("panicked"), "{said}");
}
