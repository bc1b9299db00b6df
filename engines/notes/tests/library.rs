//! The library as the gateway gets it: opened, its layout checked, and called through its table.
#![allow(unsafe_code, reason = "opens a library and calls it, as a host does")]
#![allow(clippy::unwrap_used, reason = "helpers of tests may")]

use engine_abi::host::{ROOT_SYMBOL, check_root};
use engine_abi::testing::{Folders, Memory};
use std::ffi::c_void;

#[test]
fn notes_load_through_the_door_and_answer() {
    let test = std::env::current_exe().unwrap();
    let name = format!("{}notes{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    // SAFETY: the library is ours; it is never unloaded.
    let library = unsafe { libloading::Library::new(test.parent().unwrap().join(name)) }.unwrap();
    let library = Box::leak(Box::new(library));
    // SAFETY: the symbol is the static that the root check expects, of a library that stays.
    let entry = unsafe {
        let root = library.get::<*const c_void>(ROOT_SYMBOL.to_bytes_with_nul()).unwrap();
        check_root(root.try_as_raw_ptr().unwrap()).unwrap()
    };
    let state = tempfile::tempdir().unwrap();
    let folders = Folders { state: Some(state.path()), workspace: None };
    let memory = Memory::from_entry(entry, "{}", folders).unwrap();
    assert_eq!(memory.info().unwrap().id, "notes");
    memory.append("a word").unwrap();
    assert_eq!(memory.search("word", 1).unwrap().len(), 1);
    let failure = Memory::from_entry(entry, r#"{"path": "x"}"#, folders).err().unwrap();
    assert!(failure.reason.contains("unknown field `path`"), "{failure}");
}
