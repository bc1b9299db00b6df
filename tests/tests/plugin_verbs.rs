//! The way of an operator: install, select, talk, change, take away; and each wrong turn on it, told by one message that ends
//! the confusion.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

use engineroom_tests::{Cli, Setup, built, library_name};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const CONFIG: &str = "# mine\n[gateway]\nlisten = \"127.0.0.1:0\"\nstate_dir = \"state\"\n\n[plugins]\n# the folder\ndir = \"plugins\"\n";

/// A folder with a configuration of its own, which nobody but the commands changes.
struct Desk {
    setup: Setup,
}

impl Desk {
    fn new(config: &str) -> Desk {
        let desk = Desk { setup: Setup::new() };
        std::fs::write(desk.config(), config).unwrap();
        desk
    }

    fn config(&self) -> PathBuf {
        self.setup.path().join("plugins.toml")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.config()).unwrap()
    }

    fn run(&self, args: &[&str]) -> Cli {
        let mut command = Command::new(built().engineroom());
        let output = command.current_dir(self.setup.path()).args(args).stdin(Stdio::null()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Cli { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// Runs a command that must do what it is asked.
    #[track_caller]
    fn done(&self, args: &[&str]) -> Cli {
        let said = self.run(args);
        assert_eq!(said.code, Some(0), "{args:?}: {said:?}");
        said
    }

    /// Runs a command that must not, and say all of `words`.
    #[track_caller]
    fn wrong(&self, args: &[&str], code: i32, words: &[&str]) {
        let said = self.run(args);
        assert_eq!(said.code, Some(code), "{args:?}: {said:?}");
        for word in words {
            assert!(said.stderr.contains(word), "{args:?} does not say {word:?}: {said:?}");
        }
    }

    /// Who answers, and why it is not the selected one.
    #[track_caller]
    fn served(&self) -> (Value, Value) {
        let said = self.done(&["turn", "--json", "--session", "s", "Hello"]).json();
        (said["engine"].clone(), said["degraded"].clone())
    }

    fn plugins(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.setup.plugins())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn window() -> String {
    built().library("window").display().to_string()
}

#[test]
fn from_a_file_to_a_served_turn_and_back_with_every_wrong_turn_on_the_way() {
    let desk = Desk::new(CONFIG);
    let (library, file) = (window(), library_name("window"));
    // Typed wrongly, not built yet, not a library.
    desk.wrong(&["plugins", "install", &library.replace("window", "windw")], 2, &["CE831", &file]);
    desk.wrong(&["plugins", "install", "plugins.toml"], 1, &["CE214", "a text file", "cdylib"]);
    desk.wrong(&["plugins", "install", "."], 2, &["CE832", "plugins install -l"]);
    desk.wrong(&["plugins", "install", "https://example.org/libx.so"], 2, &["CE833", "--sha256"]);
    // Selected before it was installed.
    desk.wrong(&["plugins", "select", "window"], 2, &["CE809", "engineroom plugins install FILE"]);
    assert_eq!(desk.text(), CONFIG);

    let shown = desk.done(&["plugins", "install", &library, "--dry-run"]);
    assert!(shown.stdout.contains("would be installed") && desk.plugins().is_empty(), "{shown:?}");
    let told = desk.done(&["plugins", "install", &library]);
    assert!(told.stdout.contains("in-process (pinned)") && told.stderr.contains("isolation = \"process\""), "{told:?}");
    assert!(told.stderr.contains("next: `engineroom plugins select window`"), "{told:?}");
    assert_eq!(desk.plugins(), [file.as_str(), "plugins.lock"]);
    assert_eq!(desk.served().0, "legacy", "it is not selected yet");

    desk.wrong(&["plugins", "select", "windw"], 2, &["did you mean \"window\"?"]);
    let shown = desk.done(&["plugins", "select", "window", "--dry-run"]);
    assert!(shown.stdout.contains("+contextEngine = \"window\"") && desk.text() == CONFIG, "{shown:?}");
    desk.done(&["plugins", "select", "window"]);
    assert_eq!(desk.text(), format!("{CONFIG}\n[plugins.slots]\ncontextEngine = \"window\"\n"));
    assert_eq!(desk.served(), (json!("window"), Value::Null));

    let known = desk.done(&["plugins", "inspect", "window", "--json"]).json();
    assert_eq!(known["vouched"]["pin"]["source"], library.as_str(), "{known:#}");
    assert_eq!(known["configuration"][0]["key"], "pin_first_turn", "{known:#}");
    let known = desk.done(&["plugins", "inspect", "window"]).stdout;
    assert!(known.contains("pin_first_turn") && known.contains("boolean") && known.contains("pinned "), "{known}");

    let off = desk.done(&["plugins", "disable", "window"]);
    assert!(off.stderr.contains("legacy serves in its place"), "{off:?}");
    assert_eq!(desk.served().0, "legacy");
    desk.wrong(&["plugins", "enable", "windw"], 2, &["did you mean \"window\"?"]);
    desk.done(&["plugins", "enable", "window"]);
    assert_eq!(desk.served().0, "window");
    desk.done(&["plugins", "uninstall", "window", "--state", "delete", "--entry", "delete"]);
    assert_eq!(desk.text(), format!("{CONFIG}\n[plugins.slots]\ncontextEngine = \"legacy\"\n"));
    assert_eq!(desk.plugins(), ["plugins.lock"]);
    assert_eq!(desk.served(), (json!("legacy"), Value::Null));
}

#[test]
fn a_file_that_is_not_the_one_that_was_installed_is_refused_until_somebody_accepts_it() {
    let desk = Desk::new(CONFIG);
    let file = desk.setup.plugins().join(library_name("window"));
    desk.done(&["plugins", "install", &window()]);
    desk.done(&["plugins", "select", "window"]);
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.extend_from_slice(b"something behind the end");
    std::fs::write(&file, bytes).unwrap();
    assert_eq!(desk.served().0, "legacy");
    desk.wrong(&["doctor"], 1, &[]);
    let said = desk.run(&["doctor"]).stdout;
    for words in ["CE235", "pinned:", "found:", "engineroom plugins install", "engineroom plugins update window"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let shown = desk.done(&["plugins", "update", "window", "--dry-run", "--json"]).json();
    assert_eq!(shown["plugins"][0]["state"], "would update", "{shown:#}");
    let done = desk.done(&["plugins", "update", "--all", "--json"]).json();
    assert_eq!(done["plugins"][0]["state"], "updated", "{done:#}");
    assert_eq!(desk.served(), (json!("window"), Value::Null));
    assert_eq!(desk.done(&["plugins", "update", "--all", "--json"]).json()["plugins"][0]["state"], "same");
    desk.wrong(&["plugins", "update", "windw"], 2, &["did you mean \"window\"?"]);
}

#[test]
fn a_policy_keeps_out_what_nobody_pinned_and_no_flag_loosens_it() {
    let desk = Desk::new(&format!(
        "{CONFIG}\n[plugins.trust]\npolicy = \"pinned\"\n\n[plugins.slots]\ncontextEngine = \"window\"\n"
    ));
    let file = desk.setup.plugins().join(library_name("window"));
    std::fs::copy(window(), &file).unwrap();
    assert_eq!(desk.served().0, "legacy");
    let said = desk.run(&["doctor"]).stdout;
    assert!(said.contains("CE236") && said.contains("engineroom plugins install"), "{said}");
    desk.wrong(&["doctor", "--set", "plugins.trust.policy=any"], 2, &["can only be tightened"]);
    let pinned = desk.done(&["plugins", "install", file.to_str().unwrap()]);
    assert!(pinned.stdout.contains("pinned:"), "{pinned:?}");
    assert_eq!(desk.served(), (json!("window"), Value::Null));
    desk.wrong(&["plugins", "list", "--set", "plugins.trust.policy=none"], 2, &["must be one of"]);
    let out = desk.run(&["doctor", "--set", "plugins.trust.policy=signed"]);
    assert!(out.code == Some(1) && out.stdout.contains("CE237"), "{out:?}");
}

#[test]
fn a_linked_file_is_taken_as_it_is_at_each_start() {
    let desk = Desk::new(CONFIG);
    let build = desk.setup.path().join("build");
    std::fs::create_dir(&build).unwrap();
    let file = build.join(library_name("window"));
    std::fs::copy(window(), &file).unwrap();
    let link = file.to_str().unwrap();
    desk.wrong(&["plugins", "install", "-l", "nowhere"], 2, &["CE831"]);
    let told = desk.done(&["plugins", "install", "-l", link]);
    assert!(told.stdout.contains("+links = [") && told.stderr.contains("not pinned"), "{told:?}");
    desk.done(&["plugins", "select", "window"]);
    assert_eq!(desk.served().0, "window");
    // Built again: nobody asks.
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.extend_from_slice(b"built again");
    std::fs::write(&file, bytes).unwrap();
    assert_eq!(desk.served(), (json!("window"), Value::Null));
    // It is there, so it is not installed beside itself.
    desk.wrong(&["plugins", "install", link], 2, &["CE842", "is linked from"]);
    let gone = desk.done(&["plugins", "uninstall", "window"]);
    assert!(gone.stdout.contains("linked no more") && file.exists(), "{gone:?}");
    assert!(desk.text().contains("links = []"), "{}", desk.text());
}

#[test]
fn a_generated_configuration_is_left_alone_and_the_change_is_printed() {
    let text = format!("{CONFIG}managed = true\n");
    let desk = Desk::new(&text);
    // The folder is not the configuration: what lies in it may change.
    desk.done(&["plugins", "install", &window()]);
    for args in [&["plugins", "select", "window"][..], &["plugins", "disable", "window"]] {
        let said = desk.run(args);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.stderr.contains("CE120") && said.stdout.contains('+'), "{said:?}");
    }
    assert_eq!(desk.text(), text);
}

#[test]
fn a_selection_whose_plugin_is_gone_gives_way_to_the_next_of_the_chain_and_says_so() {
    let desk = Desk::new(&format!("{CONFIG}\n[plugins.slots]\ncontextEngine = [\"gone\", \"window\"]\n"));
    desk.done(&["plugins", "install", &window()]);
    let (engine, degraded) = desk.served();
    assert_eq!(engine, "window");
    assert!(!degraded.is_null(), "the reply says that it is not the first choice");
    let said = desk.run(&["doctor"]);
    assert!(said.code == Some(1) && said.stdout.contains("CE201") && said.stdout.contains("gone"), "{said:?}");
    // Taken away while it is selected: said at once, and the slot is not left behind.
    let gone = desk.done(&["plugins", "uninstall", "window"]);
    assert!(gone.stdout.contains("+contextEngine = \"gone\""), "{gone:?}");
}

#[test]
fn a_package_comes_by_npm_and_without_npm_that_is_said() {
    let desk = Desk::new(CONFIG);
    let tools = desk.setup.path().join("tools");
    std::fs::create_dir_all(tools.join("none")).unwrap();
    let with_path = |path: &Path, args: &[&str]| {
        let mut command = Command::new(built().engineroom());
        command.current_dir(desk.setup.path()).args(args).env("PATH", path).stdin(Stdio::null());
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let none = with_path(&tools.join("none"), &["plugins", "install", "npm:acme-window"]);
    assert!(none.0 == Some(1) && none.1.contains("CE841") && none.1.contains("install Node.js"), "{none:?}");
    desk.wrong(&["plugins", "install", "npm:../window"], 2, &["CE840", "npm:NAME"]);
    // A client that packs what it is given.
    let folder = format!("package/lib/{}-{}", std::env::consts::OS, std::env::consts::ARCH);
    let inside = desk.setup.path().join(&folder);
    std::fs::create_dir_all(&inside).unwrap();
    std::fs::copy(window(), inside.join(library_name("window"))).unwrap();
    let npm = tools.join("npm");
    let root = desk.setup.path().display();
    std::fs::write(&npm, format!("#!/bin/sh\nPATH=/usr/bin:/bin\ntar -czf acme-window-1.0.0.tgz -C {root} package\n"))
        .unwrap();
    std::fs::set_permissions(&npm, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let done = with_path(&tools, &["plugins", "install", "npm:acme-window"]);
    assert_eq!(done.0, Some(0), "{done:?}");
    let lock = std::fs::read_to_string(desk.setup.plugins().join("plugins.lock")).unwrap();
    assert!(lock.contains("source = \"npm:acme-window\"") && lock.contains("archive_sha256"), "{lock}");
}
