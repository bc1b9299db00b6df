//! The provider through its function table, over real folders.

use super::*;
use engine_abi::testing::{Folders, Memory};
use std::fs;

struct Bench {
    state: tempfile::TempDir,
    workspace: tempfile::TempDir,
}

impl Bench {
    fn new() -> Bench {
        Bench { state: tempfile::tempdir().unwrap(), workspace: tempfile::tempdir().unwrap() }
    }

    fn note(&self, name: &str, text: &str) {
        let path = self.workspace.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn memory(&self, config: &str) -> Memory {
        let folders = Folders { state: Some(self.state.path()), workspace: Some(self.workspace.path()) };
        Memory::within::<Notes>(config, folders).unwrap()
    }
}

fn ids(memory: &Memory, query: &str) -> Vec<String> {
    memory.search(query, 5).unwrap().into_iter().map(|hit| hit.id).collect()
}

#[test]
fn notes_are_found_and_the_index_follows_the_folder() {
    let bench = Bench::new();
    bench.note("memory/home.md", "# Home\n\n## Door\nthe code is 4711\n\n## Heating\n21 degrees\n");
    let memory = bench.memory("{}");
    let hits = memory.search("door code", 5).unwrap();
    assert_eq!((hits[0].id.as_str(), hits[0].text.as_str()), ("home.md#L4", "Home › Door\nthe code is 4711"));
    assert!(hits[0].score > 0.0 && hits[0].time_ms.is_some());

    // The same size, and perhaps the same tick of the clock.
    bench.note("memory/home.md", "# Home\n\n## Door\nthe code is 0815\n\n## Heating\n21 degrees\n");
    bench.note("memory/trips/rome.md", "Rome in May");
    assert!(ids(&memory, "4711").is_empty());
    assert_eq!(ids(&memory, "0815"), ["home.md#L4"]);
    assert_eq!(ids(&memory, "rome"), ["trips/rome.md#L1"]);
    fs::remove_file(bench.workspace.path().join("memory/home.md")).unwrap();
    assert!(ids(&memory, "0815").is_empty());
}

#[test]
fn what_is_appended_is_on_disk_and_found_by_this_and_by_the_next_instance() {
    let bench = Bench::new();
    let memory = bench.memory("{}");
    memory.append("Ada prefers tea").unwrap();
    assert_eq!(ids(&memory, "tea").len(), 1);
    drop(memory);
    assert_eq!(ids(&bench.memory("{}"), "tea").len(), 1);
    let folder = fs::read_dir(bench.workspace.path().join("memory")).unwrap();
    assert_eq!(folder.count(), 1);
}

#[test]
fn the_folder_is_the_workspaces_else_the_state_folder_else_as_configured() {
    let bench = Bench::new();
    bench.memory(r#"{"folder": "elsewhere"}"#).append("in the workspace").unwrap();
    assert!(bench.workspace.path().join("elsewhere").is_dir());
    let alone = Folders { state: Some(bench.state.path()), workspace: None };
    Memory::within::<Notes>("{}", alone).unwrap().append("in the state folder").unwrap();
    assert_eq!(fs::read_dir(bench.state.path()).unwrap().count(), 1);
    let absolute = tempfile::tempdir().unwrap();
    let config = format!("{{\"folder\": {:?}}}", absolute.path());
    bench.memory(&config).append("where it says").unwrap();
    assert_eq!(fs::read_dir(absolute.path()).unwrap().count(), 1);
    fs::write(bench.workspace.path().join("file"), "").unwrap();
    let folders = Folders { state: None, workspace: Some(bench.workspace.path()) };
    let failure = Memory::within::<Notes>(r#"{"folder": "file"}"#, folders).err().unwrap();
    assert!(failure.reason.contains("is no folder"), "{failure}");
}

#[test]
fn the_section_shows_the_main_note_in_the_folder_or_beside_it() {
    let bench = Bench::new();
    assert_eq!(bench.memory("{}").prompt_section(&[], CitationsMode::Auto).unwrap(), None);
    bench.note("MEMORY.md", "beside");
    let section = |config: &str| bench.memory(config).prompt_section(&[], CitationsMode::Auto).unwrap();
    assert!(section("{}").unwrap().contains("beside"));
    bench.note("memory/MEMORY.md", "inside");
    let both = section("{}").unwrap();
    assert!(both.contains("inside") && !both.contains("beside"), "{both}");
    assert_eq!(section(r#"{"section_chars": 0}"#), None);
    assert_eq!(section("{}"), Some(both), "it stays the same while the notes do");
}

#[test]
fn a_read_only_provider_keeps_nothing() {
    let bench = Bench::new();
    let failure = bench.memory(r#"{"read_only": true}"#).append("x").unwrap_err();
    assert_eq!(failure.status, engine_abi::wire::status::UNSUPPORTED);
}

#[test]
fn searches_at_once_wait_for_each_other() {
    let bench = Bench::new();
    for number in 0..200 {
        bench.note(&format!("memory/{number}.md"), "some words in a note");
    }
    let memory = bench.memory("{}");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(memory.search("note", 10).unwrap().len(), 10));
        }
    });
}

#[test]
fn a_folder_that_cannot_be_used_any_more_is_named() {
    let bench = Bench::new();
    let memory = bench.memory("{}");
    let root = bench.workspace.path().join("memory");
    fs::write(&root, "a file in the folder's place").unwrap();
    let failures = [memory.search("tea", 5).unwrap_err(), memory.append("Ada prefers tea").unwrap_err()];
    for failure in failures {
        assert!(failure.reason.contains(root.to_str().unwrap()), "{failure}");
    }
}
