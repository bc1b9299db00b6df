//! An engine in C, built against the checked-in header, through the C door and the same table as every other engine.
#![allow(unsafe_code, reason = "opens a library and calls it, as a host does")]
#![allow(clippy::unwrap_used, reason = "helpers of tests may")]

use engine_abi::host::check_entry;
use engine_abi::manifest::{Door, MAGIC, parse};
use engine_abi::testing::{Engine, Line, Piece};
use engine_abi::wire::{C_ENTRY_SYMBOL, EntryPointV1, commit_status, semantics};
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A compiler's command with the folder of the header.
fn compiler(variable: &str, usual: &str) -> Command {
    let mut command = Command::new(std::env::var(variable).unwrap_or_else(|_| usual.to_owned()));
    command.args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-I"]).arg(root().join("engine-abi/include"));
    command
}

#[track_caller]
fn done(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

/// Builds the engine in C, with unused sections dropped, as a packager might.
fn build(folder: &Path) -> PathBuf {
    let library = folder.join("libc_window.so");
    let collect = if cfg!(target_vendor = "apple") { "-Wl,-dead_strip" } else { "-Wl,--gc-sections" };
    let mut cc = compiler("CC", "cc");
    cc.args(["-std=c11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", collect]);
    cc.args(["-ffunction-sections", "-fdata-sections", "-o"]).arg(&library);
    done(cc.arg(root().join("engines/c-window/c_window.c")));
    library
}

#[test]
fn its_own_smoke_test_passes_and_notices_an_engine_that_splits_turns() {
    let folder = tempfile::tempdir().unwrap();
    let engine = root().join("engines/c-window/c_window.c");
    let smoke = |engine: &Path| {
        let program = folder.path().join("smoke");
        let mut cc = compiler("CC", "cc");
        cc.args(["-std=c11", "-o"]).arg(&program).arg(root().join("engines/c-window/smoke.c"));
        done(cc.arg(engine));
        program
    };
    assert!(done(&mut Command::new(smoke(&engine))).contains("all is well"));
    let source = std::fs::read_to_string(&engine).unwrap();
    let wrong = folder.path().join("wrong.c");
    std::fs::write(&wrong, source.replace("(entry->flags & ENGINEROOM_ENTRY_FLAGS_TURN_START)", "1")).unwrap();
    assert!(!Command::new(smoke(&wrong)).output().unwrap().status.success());
}

/// Every struct with a value, and the helper, so that nothing in the header is only read over.
const IN_CPP: &str = r#"
#include "engineroom.h"
ENGINEROOM_MANIFEST(manifest, "plugin=cpp\0engines=cpp\0kind=context-engine\0contract=" ENGINEROOM_CONTRACT_VERSION);
extern "C" const EngineroomEntryPointV1 *engineroom_entry_v1(void) {
  static EngineroomEntryPointV1 entry = {ENGINEROOM_CONTRACT_MAJOR, ENGINEROOM_CONTRACT_MINOR, nullptr, nullptr};
  EngineroomStr text = engineroom_str(manifest.text);
  uint32_t params = ENGINEROOM_HOST_PARAMS_PROMPT | ENGINEROOM_HOST_PARAMS_SESSION_KEY;
  return text.len > 0 && params != ENGINEROOM_STATUS_OK ? &entry : nullptr;
}
"#;

#[test]
fn the_header_is_clean_in_c_and_in_cpp() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("only.c");
    std::fs::write(&source, "#include \"engineroom.h\"\nint nothing;\n").unwrap();
    for standard in ["-std=c11", "-std=c17"] {
        done(compiler("CC", "cc").args([standard, "-fsyntax-only"]).arg(&source));
    }
    if Command::new("c++").arg("--version").output().is_err() {
        println!("skipped: no C++ compiler on this machine");
        return;
    }
    let source = folder.path().join("engine.cpp");
    std::fs::write(&source, IN_CPP).unwrap();
    for standard in ["-std=c++11", "-std=c++20"] {
        done(compiler("CXX", "c++").args([standard, "-fsyntax-only"]).arg(&source));
    }
}

#[test]
fn an_engine_in_c_serves_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = build(folder.path());

    let bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(MAGIC.len()).position(|window| window == MAGIC).unwrap();
    let manifest = parse(&bytes[at..]).unwrap();
    assert_eq!((manifest.plugin.as_str(), manifest.door), ("c-window", Door::C));
    assert_eq!(manifest.contract, engine_abi::wire::CONTRACT_VERSION);

    // SAFETY: the library is ours, and never unloaded; the symbol has the C door's type.
    let entry = unsafe {
        let library = Box::leak(Box::new(libloading::Library::new(&path).unwrap()));
        let door = library.get::<extern "C" fn() -> *const EntryPointV1>(C_ENTRY_SYMBOL).unwrap();
        check_entry(door()).unwrap()
    };
    let engine = Engine::from_entry(entry, "{}").unwrap();
    let info = engine.info().unwrap();
    assert_eq!((info.id.as_str(), info.transcript_semantics), ("c-window", semantics::DURABLE));

    let history: Vec<Line> = (1..=20)
        .map(|id| if id % 2 == 1 { Line::user(id, "question") } else { Line::assistant(id, "answer") })
        .map(|line| line.with_tokens(10))
        .collect();
    assert_eq!(engine.assemble(&history, Some(55)).unwrap().pieces, [Piece::Span(17, 20)]);
    assert_eq!(engine.assemble(&history, None).unwrap().pieces, [Piece::Span(1, 20)]);
    assert_eq!(engine.assemble(&history, Some(5)).unwrap().pieces, []);
    assert_eq!(engine.commit("key", &history[..2]), Ok(commit_status::COMMITTED));
    assert_eq!(engine.ingest(&history[0]), Ok(false));
    assert_eq!(engine.compact(&history, None).unwrap().summary.as_deref(), Some("a summary by the host"));
    engine.dispose().unwrap();
}
