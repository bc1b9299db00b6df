//! The official `openai` package, from its own virtual environment, against the real gateway.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::{Gateway, Setup, built};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment's python, made once and kept in the target folder; `None` where there is no python3.
fn python() -> Option<PathBuf> {
    let required = std::env::var_os("ENGINEROOM_REQUIRE_PYTHON").is_some();
    let works =
        Command::new("python3").args(["-c", "import venv, ensurepip"]).output().is_ok_and(|o| o.status.success());
    if !works {
        assert!(!required, "python3 with venv is required here and missing");
        return None;
    }
    let requirements = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/requirements.txt");
    let wanted = std::fs::read_to_string(&requirements).unwrap();
    let venv = built().engineroom().with_file_name("test-venv");
    let stamp = venv.join("requirements.txt");
    let python = venv.join("bin/python");
    if std::fs::read_to_string(&stamp).is_ok_and(|have| have == wanted) && python.exists() {
        return Some(python);
    }
    let run = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv));
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(&requirements));
    std::fs::write(stamp, wanted).unwrap();
    Some(python)
}

fn part(python: &Path, gateway: &Gateway, part: &str) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/conversation.py");
    let base = format!("{}/v1", gateway.client().base());
    let output = Command::new(python).arg(script).args([&base, part]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("ok"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_official_client_completes_streams_and_continues_across_a_restart() {
    let Some(python) = python() else {
        println!(
            "skipped: the_official_client_completes_streams_and_continues_across_a_restart (no python3 with venv)"
        );
        return;
    };
    let setup = Setup::new().library("window").select("window");
    let gateway = setup.start();
    part(&python, &gateway, "first");
    assert!(gateway.stop().success());
    let gateway = setup.start();
    part(&python, &gateway, "second");
}
