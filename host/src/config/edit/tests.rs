use super::*;
use crate::config::{Overrides, load};
use crate::diagnostic::Diagnostic;
use std::os::unix::fs::PermissionsExt;

fn select(path: &Path, chain: &[String]) -> Result<Edited, EditError> {
    edit(path, &[Change::Select(chain)], false)
}

fn select_memory(path: &Path, provider: &str) -> Result<Edited, EditError> {
    edit(path, &[Change::SelectMemory(provider)], false)
}

fn reset_slots(path: &Path, engines: &[String], memory: &[String]) -> Result<Edited, EditError> {
    edit(path, &[Change::ResetSlots { engines, memory }], false)
}

fn check(before: &str, chain: &[&str], expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugins.toml");
    std::fs::write(&path, before).unwrap();
    let chain: Vec<String> = chain.iter().map(ToString::to_string).collect();
    let edited = select(&path, &chain).unwrap();
    let after = std::fs::read_to_string(&path).unwrap();
    assert_eq!(after, expected);
    assert_eq!(edited.changed, before != expected);
    let loaded = load(Some(&path), &Overrides::default()).unwrap();
    assert_eq!(loaded.config.plugins.slots.context_engine, chain);
    assert!(!select(&path, &chain).unwrap().changed, "a second edit has nothing to do");
}

#[test]
fn comments_order_and_spaces_stay() {
    check(
        "# mine\n[plugins.slots]   # slots\nmemory = \"none\"\ncontextEngine =   \"legacy\"   # who serves\n\n# end\n[gateway]\n",
        &["window"],
        "# mine\n[plugins.slots]   # slots\nmemory = \"none\"\ncontextEngine =   \"window\"   # who serves\n\n# end\n[gateway]\n",
    );
}

#[test]
fn an_id_becomes_a_chain_and_a_chain_an_id() {
    check(
        "plugins.slots.contextEngine = \"a\" # x\n",
        &["recall", "window"],
        "plugins.slots.contextEngine = [\"recall\", \"window\"] # x\n",
    );
    check(
        "[plugins]\nslots = { contextEngine = [\"a\", \"b\"] }\n",
        &["c"],
        "[plugins]\nslots = { contextEngine = \"c\" }\n",
    );
}

#[test]
fn comments_inside_a_chain_stay() {
    let before =
        "[plugins.slots]\ncontextEngine = [\n  \"recall\", # the best\n  # then this\n  \"window\",\n] # all\n";
    check(
        before,
        &["window"],
        "[plugins.slots]\ncontextEngine = [ # the best\n  # then this\n  \"window\",\n] # all\n",
    );
    check(
        before,
        &["notes", "recall"],
        "[plugins.slots]\ncontextEngine = [\n  \"notes\",\n  \"recall\", # the best\n  # then this\n  \n] # all\n",
    );
    check(
        "plugins.slots.contextEngine = [ # one line\n\"a\"]\n",
        &["b"],
        "plugins.slots.contextEngine = [\n\"b\" # one line\n]\n",
    );
}

#[test]
fn a_missing_key_or_table_is_added() {
    check("[plugins.slots]\n# none yet\n", &["w"], "[plugins.slots]\ncontextEngine = \"w\"\n# none yet\n");
    check(
        "[plugins]\nenabled = true # on\n",
        &["w"],
        "[plugins]\nenabled = true # on\n\n[plugins.slots]\ncontextEngine = \"w\"\n",
    );
    check("", &["w"], "[plugins.slots]\ncontextEngine = \"w\"\n");
}

/// What `reset_slots` makes of a file when these are gone.
fn check_reset(before: &str, engines: &[&str], memory: &[&str], expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugins.toml");
    std::fs::write(&path, before).unwrap();
    let ids = |ids: &[&str]| -> Vec<String> { ids.iter().map(ToString::to_string).collect() };
    let edited = reset_slots(&path, &ids(engines), &ids(memory)).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), expected);
    assert_eq!(edited.changed, before != expected);
}

#[test]
fn what_is_gone_leaves_every_slot() {
    check_reset(
        "[plugins.slots] # who\ncontextEngine = [\"recall\", \"window\"] # a chain\nmemory = \"notes\" # mine\n\
         [agents.a.slots]\ncontextEngine = \"recall\"\nmemory = \"other\"\n",
        &["recall"],
        &["notes"],
        "[plugins.slots] # who\ncontextEngine = \"window\" # a chain\nmemory = \"none\" # mine\n\
         [agents.a.slots]\ncontextEngine = \"legacy\"\nmemory = \"other\"\n",
    );
    check_reset("plugins.slots.contextEngine = \"w\"\n", &["w"], &[], "plugins.slots.contextEngine = \"legacy\"\n");
    let policy = "[plugins.policy.contextEngine]\non_failure = \"strict\" # sure\n";
    check_reset(&format!("{policy}shadow = \"w\"\n"), &["w"], &[], policy);
    let other = format!("{policy}shadow = \"other\"\n");
    check_reset(&other, &["w"], &[], &other);
}

#[test]
fn a_slot_that_names_something_else_stays_and_no_file_is_made() {
    let text = "[plugins]\nslots = { contextEngine = \"window\", memory = \"notes\" }\n";
    // The ids of engines and of memory providers are apart.
    check_reset(text, &["notes"], &["window"], text);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugins.toml");
    assert!(!reset_slots(&path, &["w".into()], &[]).unwrap().changed && !path.exists());
}

#[test]
fn a_memory_provider_is_selected_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugins.toml");
    std::fs::write(&path, "[plugins.slots]\nmemory = \"none\"   # for now\n").unwrap();
    assert!(select_memory(&path, "notes").unwrap().changed);
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, "[plugins.slots]\nmemory = \"notes\"   # for now\n");
    let loaded = load(Some(&path), &Overrides::default()).unwrap();
    assert_eq!(loaded.config.plugins.slots.memory.as_deref(), Some("notes"));
    assert!(!select_memory(&path, "notes").unwrap().changed);
}

#[test]
fn line_ends_stay() {
    check("[plugins.slots]\r\ncontextEngine = \"a\"\r\n", &["b"], "[plugins.slots]\r\ncontextEngine = \"b\"\r\n");
}

#[test]
fn a_missing_file_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugins.toml");
    let edited = select(&path, &["window".into()]).unwrap();
    assert!(edited.created && edited.changed);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "[plugins.slots]\ncontextEngine = \"window\"\n");
}

#[test]
fn a_managed_file_is_left_alone_and_the_change_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugins.toml");
    let text = "[plugins]\nmanaged = true\n[plugins.slots]\ncontextEngine = \"a\"\n";
    std::fs::write(&path, text).unwrap();
    let error = select(&path, &["b".into()]).unwrap_err();
    assert!(matches!(error, EditError::Managed { .. }));
    assert_eq!(error.change(), Some("-contextEngine = \"a\"\n+contextEngine = \"b\"\n"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn a_read_only_file_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugins.toml");
    std::fs::write(&path, "").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).unwrap();
    let error = select(&path, &["b".into()]).unwrap_err();
    assert!(matches!(error, EditError::NotWritable { .. }), "{error}");
    assert_eq!(error.change(), Some("+[plugins.slots]\n+contextEngine = \"b\"\n"));
}

#[test]
fn the_mode_stays_and_a_link_stays_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().join("real.toml");
    let path = folder.path().join("plugins.toml");
    std::fs::write(&real, "").unwrap();
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("real.toml", &path).unwrap();
    select(&path, &["b".into()]).unwrap();
    assert!(std::fs::symlink_metadata(&path).unwrap().file_type().is_symlink());
    assert_eq!(std::fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(std::fs::read_to_string(&real).unwrap().contains("\"b\""));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "no temporary file is left");
}

#[test]
fn a_wrong_file_is_not_built_upon() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugins.toml");
    std::fs::write(&path, "[plugin]\n").unwrap();
    assert_eq!(select(&path, &["b".into()]).unwrap_err().code(), "CE110");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "[plugin]\n");
}
