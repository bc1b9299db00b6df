//! An engine in C, built against the checked-in header, through the C door and the same table as every other engine.
#![allow(unsafe_code, reason = "opens a library and calls it, as a host does")]
#![allow(clippy::unwrap_used, reason = "helpers of tests may")]

use engine_abi::host::check_entry;
use engine_abi::manifest::{Door, MAGIC, parse};
use engine_abi::testing::{Engine, Line, Piece};
use engine_abi::wire::{C_ENTRY_SYMBOL, EntryPointV1, commit_status, semantics};
use std::path::Path;
use std::process::Command;

/// Builds the fixture as its first comment says, with unused sections dropped, as a packager might.
fn build(folder: &Path) -> std::path::PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let library = folder.join("libc_window.so");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let collect = if cfg!(target_vendor = "apple") { "-Wl,-dead_strip" } else { "-Wl,--gc-sections" };
    let output = Command::new(compiler)
        .args(["-std=c11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", collect])
        .args(["-ffunction-sections", "-fdata-sections", "-I"])
        .arg(root.join("engine-abi/include"))
        .arg("-o")
        .arg(&library)
        .arg(root.join("tests/fixtures/c_window/c_window.c"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

#[test]
fn an_engine_in_c_serves_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = build(folder.path());

    let bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(MAGIC.len()).position(|window| window == MAGIC).unwrap();
    let manifest = parse(&bytes[at..]).unwrap();
    assert_eq!((manifest.plugin.as_str(), manifest.door), ("c_window", Door::C));
    assert_eq!(manifest.contract, engine_abi::wire::CONTRACT_VERSION);

    // SAFETY: the library is ours, and never unloaded; the symbol has the C door's type.
    let entry = unsafe {
        let library = Box::leak(Box::new(libloading::Library::new(&path).unwrap()));
        let door = library.get::<extern "C" fn() -> *const EntryPointV1>(C_ENTRY_SYMBOL).unwrap();
        check_entry(door()).unwrap()
    };
    let engine = Engine::from_entry(entry, "{}").unwrap();
    let info = engine.info().unwrap();
    assert_eq!((info.id.as_str(), info.transcript_semantics), ("c_window", semantics::DURABLE));

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
