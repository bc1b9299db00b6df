use super::*;
use crate::diagnostic::Diagnostic;
use std::path::Path;

fn order(folder: &Path, lang: Lang, template: Template) -> Order {
    Order { name: "my-engine".into(), lang, template, folder: folder.to_path_buf() }
}

/// Every file below a folder, as a path from it.
fn files(folder: &Path) -> Vec<String> {
    let (mut found, mut open) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.push(path.strip_prefix(folder).unwrap().display().to_string());
            }
        }
    }
    found
}

#[test]
fn a_project_has_everything_and_no_hole_is_left_in_its_texts() {
    let all = [
        (Lang::Rust, Template::Window),
        (Lang::Rust, Template::Owning),
        (Lang::Rust, Template::Memory),
        (Lang::C, Template::Window),
    ];
    for (lang, template) in all {
        let kit = template::kit(&order(Path::new("there/my-engine"), lang, template)).unwrap();
        // The header names the example and has braces of its own; the lock names packages for "pc-windows".
        let is_template = |path: &str| path != "engineroom.h" && path != "Cargo.lock";
        for (path, text) in kit.files.iter().filter(|(path, _)| is_template(path)) {
            assert!(
                !text.contains("{{") && !text.contains("c_window") && !text.contains("c-window"),
                "{path}:\n{text}"
            );
        }
        assert!(kit.files.iter().any(|(path, _)| path == "README.md"));
        assert!(kit.files.iter().any(|(_, text)| text.contains("my-engine")));
    }
}

#[test]
fn what_it_is_built_from_is_complete() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("deep/er/my-engine");
    let made = make(&order(&folder, Lang::Rust, Template::Window)).unwrap();
    assert_eq!(made.select, ["my-engine"]);
    let files = files(&folder);
    let there = |path: &str| assert!(files.iter().any(|file| file == path), "{path} is missing");
    for path in
        ["Cargo.toml", "sdk/engine-abi/Cargo.toml", "sdk/engine-abi/LICENSE-MIT", "sdk/engine-abi/wire/src/lib.rs"]
    {
        there(path);
    }
    let lock = std::fs::read_to_string(folder.join("Cargo.lock")).unwrap();
    let versions = lock.split("[[package]]\n").filter(|package| package.contains("\nsource = "));
    let value = |package: &str, key: &str| {
        package.lines().find_map(|line| Some(line.strip_prefix(key)?.trim_matches(['"', ' ', '=']).to_owned())).unwrap()
    };
    let mut packages = 0;
    for package in versions {
        packages += 1;
        let folder = format!("sdk/vendor/{}-{}", value(package, "name"), value(package, "version"));
        there(&format!("{folder}/Cargo.toml"));
        there(&format!("{folder}/.cargo-checksum.json"));
    }
    assert!(packages > 30, "{packages} packages");
    // A name that sorts elsewhere than the archive's own stands where cargo would put it.
    let names: Vec<&str> = lock.lines().filter(|line| line.starts_with("name = ")).collect();
    assert!(names.is_sorted() && names.contains(&"name = \"my-engine\""), "{names:?}");
}

#[test]
fn a_folder_that_holds_something_is_left_alone() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("my-engine");
    std::fs::create_dir(&folder).unwrap();
    make(&order(&folder, Lang::C, Template::Window)).expect("an empty folder is free");
    let before = files(home.path());
    let error = make(&order(&folder, Lang::Rust, Template::Window)).unwrap_err();
    assert_eq!(error.code(), "CE882");
    assert_eq!(files(home.path()), before, "nothing was changed, and nothing lies beside it");
    let file = home.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    assert_eq!(make(&order(&file, Lang::C, Template::Window)).unwrap_err().code(), "CE882");
}

#[test]
fn what_is_not_there_in_c_says_what_is() {
    let error = make(&order(Path::new("nowhere"), Lang::C, Template::Memory)).unwrap_err();
    assert_eq!(error.code(), "CE881");
    assert!(error.hint().unwrap().contains("window"));
    assert!(!Path::new("nowhere").exists());
}
