//! Rules of the house that no lint knows.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Every Rust file below `folder`, as a path from the root.
fn rust_files(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![root().join(folder)];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path.strip_prefix(root()).unwrap().to_string_lossy().into_owned());
            }
        }
    }
    assert!(!found.is_empty());
    found
}

#[test]
fn the_readme_shows_the_window_engine_as_it_is_and_it_is_short() {
    let source = read("engines/window/src/lib.rs");
    assert!(source.lines().count() <= 120, "window is what authors read first: {} lines", source.lines().count());
    let readme = read("README.md");
    let shown = readme
        .split("<!-- window:begin -->\n```rust\n")
        .nth(1)
        .and_then(|rest| rest.split("```\n<!-- window:end -->").next());
    let shown = shown.expect("README.md has the block");
    assert!(shown == source, "README.md does not show engines/window/src/lib.rs as it is");
}

#[test]
fn the_page_for_authors_shows_the_smallest_engine_as_it_is() {
    let page = read("docs/write-an-engine.md");
    let shown = page.split("<!-- smallest:begin -->\n```rust\n").nth(1);
    let shown = shown.and_then(|rest| rest.split("```\n<!-- smallest:end -->").next());
    assert_eq!(shown.expect("the page has the block"), read("engine-abi/examples/smallest.rs"));
}

#[test]
fn unsafe_lives_only_where_the_architecture_says() {
    let allowed = ["host/src/plugins/load", "host/src/slot/", "host/src/worker/", "host/src/ledger/live"];
    for file in rust_files("host/src") {
        let text = read(&file);
        let is_unsafe = text.contains("allow(unsafe_code") || text.contains("expect(unsafe_code");
        assert!(!is_unsafe || allowed.iter().any(|place| file.starts_with(place)), "{file} allows unsafe code");
    }
    for folder in ["engines/window/src", "engines/notes/src", "engines/recall/src", "xtask", "benches"] {
        for file in rust_files(folder) {
            assert!(!read(&file).contains("allow(unsafe_code"), "{file} allows unsafe code");
        }
    }
}

#[test]
fn the_rooms_know_only_what_is_below_them() {
    // Room, and the rooms that it must not name.
    let rules: &[(&str, &[&str])] = &[
        ("transcript", &["turn", "slot", "plugins", "api", "cli", "gateway", "legacy", "model", "compaction"]),
        ("model", &["turn", "slot", "plugins", "api", "cli", "gateway", "legacy", "compaction"]),
        ("compaction", &["turn", "slot", "plugins", "api", "cli", "gateway", "legacy"]),
        (
            "config",
            &["turn", "slot", "plugins", "api", "cli", "gateway", "legacy", "model", "compaction", "transcript"],
        ),
        (
            "ledger",
            &[
                "turn",
                "slot",
                "plugins",
                "api",
                "cli",
                "gateway",
                "legacy",
                "model",
                "compaction",
                "transcript",
                "worker",
            ],
        ),
        ("plugins", &["turn", "api", "cli", "gateway", "legacy", "model", "compaction", "transcript"]),
        ("slot", &["turn", "api", "cli", "gateway", "model"]),
        ("memory", &["turn", "api", "cli", "gateway", "plugins", "legacy", "model", "compaction", "transcript"]),
        ("legacy", &["turn", "api", "cli", "gateway", "plugins", "model", "compaction", "transcript"]),
        ("turn", &["api", "cli", "gateway", "plugins"]),
        ("check", &["turn", "api", "cli", "gateway", "memory", "legacy"]),
        ("gateway", &["cli"]),
        ("api", &["cli"]),
    ];
    for (room, above) in rules {
        for file in rust_files(&format!("host/src/{room}")) {
            let text = read(&file);
            // Tests may look anywhere.
            let text = text.split("#[cfg(test)]").next().unwrap();
            if file.contains("test") {
                continue;
            }
            for other in *above {
                let climbs = text.lines().any(|line| {
                    let code = line.split("//").next().unwrap();
                    code.contains(&format!("crate::{other}::")) || code.contains(&format!("crate::{{{other}::"))
                });
                assert!(!climbs, "{file} (room {room}) names the room {other}");
            }
        }
    }
}

/// Most lines of the checklist that may not apply.
const NOT_APPLICABLE: usize = 10;
const LINES: usize = 86;

/// The cells of a row of `docs/conformance.md`: line, rule, tests or answer, kind.
fn conformance_rows() -> Vec<[String; 4]> {
    read("docs/conformance.md")
        .lines()
        .filter(|line| line.starts_with("| 8.") || line.starts_with("| 9."))
        .map(|line| {
            let cells: Vec<String> = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
            cells.try_into().unwrap_or_else(|cells| panic!("not four cells: {cells:?}"))
        })
        .collect()
}

fn named_tests(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).filter(|name| name.contains("::")).collect()
}

#[test]
fn every_line_of_the_conformance_table_has_a_test_that_exists_and_a_switch_that_breaks_it() {
    let host: String = rust_files("host/src").iter().map(|file| read(file)).collect();
    let rows = conformance_rows();
    for number in 1..=LINES {
        let line = format!("8.{number}");
        assert_eq!(rows.iter().filter(|row| row[0] == line).count(), 1, "one row for {line}");
    }
    let mut not_applicable = 0;
    for [line, rule, tests, _] in &rows {
        assert!(!rule.is_empty() && !tests.is_empty(), "{line} is blank");
        let named = named_tests(tests);
        for test in &named {
            let (place, name) = (test.split("::").next().unwrap(), test.rsplit("::").next().unwrap());
            let source = if place == "engineroom" { host.clone() } else { read(&format!("tests/tests/{place}.rs")) };
            assert!(source.contains(&format!("fn {name}(")), "{line} names {test}, which does not exist");
        }
        if tests.starts_with("does not apply: ") {
            not_applicable += usize::from(line.starts_with("8."));
        } else if line.starts_with("8.") {
            assert!(!named.is_empty(), "{line} names no test");
            assert!(host.contains(&format!("broken(\"{line}\")")), "no switch breaks {line}");
        }
    }
    assert!(not_applicable <= NOT_APPLICABLE, "{not_applicable} lines do not apply");
}

/// The source that a test stands in which is named `PLACE::NAME`: `engineroom` is the gateway's own, `fixture_NAME` a fixture's.
fn source_of(place: &str) -> String {
    let folder = match place.strip_prefix("fixture_") {
        Some(fixture) => format!("tests/fixtures/{fixture}"),
        None if place == "engineroom" => "host/src".to_owned(),
        None => return read(&format!("tests/tests/{place}.rs")),
    };
    rust_files(&folder).iter().map(|file| read(file)).collect()
}

#[test]
fn the_security_document_promises_nothing_that_no_test_shows() {
    let text = read("SECURITY.md");
    for test in named_tests(&text) {
        let (place, name) = (test.split("::").next().unwrap(), test.rsplit("::").next().unwrap());
        let head = format!("fn {name}(");
        let source = source_of(place);
        let at = source.find(&head).unwrap_or_else(|| panic!("SECURITY.md names {test}, which does not exist"));
        let before = source[..at].trim_end();
        assert!(
            before.ends_with("#[test]") || before.ends_with("test]") || before.ends_with("async"),
            "{test} is no test"
        );
    }
    // Every row of a table that says how it is tested names a test that does.
    let mut tested = 0;
    for table in text.split("\n\n").filter(|part| part.starts_with('|')) {
        let mut rows = table.lines();
        if !rows.next().unwrap().contains("| tested by |") {
            continue;
        }
        for row in rows.skip(1) {
            let cell = row.trim_end_matches('|').rsplit('|').next().unwrap();
            assert!(!named_tests(cell).is_empty() || cell.contains("`cargo xtask "), "no test shows: {row}");
            tested += 1;
        }
    }
    assert!(tested >= 14, "{tested} rows");
}
