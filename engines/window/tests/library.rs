//! The library as the gateway gets it: opened, its layout checked, and called through its table.
#![allow(unsafe_code, reason = "opens a library and calls it, as a host does")]
#![allow(clippy::unwrap_used, reason = "helpers of tests may")]

use engine_abi::host::{ROOT_SYMBOL, check_entry, check_root};
use engine_abi::testing::{Engine, Line};
use engine_abi::wire::{C_ENTRY_SYMBOL, EntryPointV1};
use std::ffi::c_void;
use std::path::PathBuf;

fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let name = format!("{}window{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    test.parent().unwrap().join(name)
}

#[test]
fn window_loads_through_both_doors_and_answers() {
    // SAFETY: the library is ours; it is never unloaded.
    let library = unsafe { libloading::Library::new(library()) }.unwrap();
    let library = Box::leak(Box::new(library));
    // SAFETY: the symbol is the static that the root check expects, of a library that stays.
    let entry = unsafe {
        let root = library.get::<*const c_void>(ROOT_SYMBOL.to_bytes_with_nul()).unwrap();
        check_root(root.try_as_raw_ptr().unwrap()).unwrap()
    };
    // SAFETY: the symbol has the C door's type.
    let same = unsafe {
        let door = library.get::<extern "C" fn() -> *const EntryPointV1>(C_ENTRY_SYMBOL).unwrap();
        check_entry(door()).unwrap()
    };
    assert!(std::ptr::eq(entry, same));

    let engine = Engine::from_entry(entry, r#"{"pin_first_turn": true}"#).unwrap();
    let history: Vec<Line> = (1..=100).map(|id| Line::user(id, "a turn of one entry").with_tokens(10)).collect();
    let ids = engine.assemble(&history, Some(200)).unwrap().ids(&history);
    assert_eq!((ids[0], ids[ids.len() - 1]), (1, 100));
    assert!(ids.len() > 10 && ids.len() <= 20, "{ids:?}");
    let failure = Engine::from_entry(entry, r#"{"pin": true}"#).err().unwrap();
    assert!(failure.reason.contains("unknown field `pin`"), "{failure}");
}

#[test]
fn the_manifest_lies_in_the_file() {
    use object::{Object, ObjectSection};
    let bytes = std::fs::read(library()).unwrap();
    let file = object::File::parse(bytes.as_slice()).unwrap();
    let name = match file.format() {
        object::BinaryFormat::MachO => engine_abi::manifest::MACHO_SECTION,
        _ => engine_abi::manifest::ELF_SECTION,
    };
    let section = file.section_by_name(name).unwrap();
    let manifest = engine_abi::manifest::parse(section.data().unwrap()).unwrap();
    assert_eq!((manifest.plugin.as_str(), manifest.engines.as_slice()), ("window", &["window".to_owned()][..]));
    assert_eq!(manifest.panic, engine_abi::manifest::Panic::Unwind);
    assert_eq!(manifest.contract, engine_abi::wire::CONTRACT_VERSION);
}
