//! Every verb over every file of `corpus/`: what was asked changes, and no other byte.

use super::*;
use crate::config::{Overrides, load};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeSet;

struct Sample {
    name: String,
    text: String,
}

fn samples() -> Vec<Sample> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config/edit/corpus");
    let mut all: Vec<Sample> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| Sample {
            name: path.file_name().unwrap().to_string_lossy().into_owned(),
            text: std::fs::read_to_string(&path).unwrap(),
        })
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(all.len() >= 50, "{} files", all.len());
    all
}

/// A sample as a file.
struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new(text: &str) -> Bench {
        let bench = Bench { folder: tempfile::tempdir().unwrap() };
        std::fs::write(bench.path(), text).unwrap();
        bench
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("plugins.toml")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.path()).unwrap()
    }

    fn edit(&self, name: &str, changes: &[Change<'_>]) -> Edited {
        edit(&self.path(), changes, false).unwrap_or_else(|error| panic!("{name}: {changes:?}: {error}"))
    }
}

fn tree(text: &str) -> Json {
    let document: toml_edit::DocumentMut = text.parse().unwrap_or_else(|error| panic!("{error}\n{text}"));
    fn item(item: &Item) -> Json {
        match item {
            Item::None => Json::Null,
            Item::Value(value) => of(value),
            Item::Table(one) => table(one),
            Item::ArrayOfTables(many) => many.iter().map(|one| table(one)).collect(),
        }
    }
    fn table(table: &dyn toml_edit::TableLike) -> Json {
        Json::Object(table.iter().map(|(key, value)| (key.to_owned(), item(value))).collect())
    }
    fn of(value: &Value) -> Json {
        match value {
            Value::String(text) => text.value().as_str().into(),
            Value::Array(items) => items.iter().map(of).collect(),
            Value::InlineTable(inner) => table(inner),
            other => other.clone().decorated("", "").to_string().into(),
        }
    }
    table(document.as_table())
}

/// Puts a value at a path of a tree, with the tables on the way.
fn put(tree: &mut Json, path: &[&str], value: Json) {
    let (last, parents) = path.split_last().unwrap();
    let mut at = tree;
    for key in parents {
        at = at.as_object_mut().unwrap().entry(*key).or_insert_with(|| Json::Object(Map::new()));
    }
    at.as_object_mut().unwrap().insert((*last).to_owned(), value);
}

fn drop_at(tree: &mut Json, path: &[&str]) {
    let (last, parents) = path.split_last().unwrap();
    let mut at = tree;
    for key in parents {
        match at.get_mut(*key) {
            Some(inner) => at = inner,
            None => return,
        }
    }
    at.as_object_mut().unwrap().remove(*last);
}

/// Tables that hold nothing are as good as absent, and a chain of one is as good as its id.
fn without_blank(tree: &Json) -> Json {
    let plain = |key: &str, value: &Json| match value.as_array().map(Vec::as_slice) {
        Some([one]) if key == "contextEngine" => one.clone(),
        _ => without_blank(value),
    };
    match tree {
        Json::Object(fields) => {
            let fields = fields.iter().map(|(key, value)| (key.clone(), plain(key, value)));
            Json::Object(fields.filter(|(_, value)| *value != json!({})).collect())
        }
        other => other.clone(),
    }
}

/// Lines, of which those that differ are the change: each of them holds one of `words`, or is blank.
fn only_lines_with(name: &str, before: &str, after: &str, words: &[&str]) {
    let (old, new): (Vec<&str>, Vec<&str>) =
        (before.split_inclusive('\n').collect(), after.split_inclusive('\n').collect());
    let (mut gone, mut come) = (Vec::new(), Vec::new());
    for hunk in similar::capture_diff_slices(similar::Algorithm::Myers, &old, &new) {
        if hunk.tag() != similar::DiffTag::Equal {
            gone.extend_from_slice(&old[hunk.old_range()]);
            come.extend_from_slice(&new[hunk.new_range()]);
        }
    }
    // The last line may get a line end, or lose it.
    let bare = |line: &str| line.trim_end_matches(['\r', '\n']).to_owned();
    let same: BTreeSet<String> =
        gone.iter().map(|l| bare(l)).filter(|line| come.iter().any(|l| bare(l) == *line)).collect();
    let last = |lines: &[&str], all: &[&str]| lines.last().copied() == all.last().copied();
    assert!(
        same.is_empty() || last(&gone, &old) || last(&come, &new),
        "{name}: {same:?} changed in its line end alone"
    );
    for line in gone.iter().chain(&come) {
        let told = line.trim().trim_start_matches('\u{feff}');
        let known = told.is_empty() || same.contains(&bare(line)) || words.iter().any(|word| told.contains(word));
        assert!(known, "{name}: {line:?} changed\n{before}\n---\n{after}");
    }
}

/// Makes a change of one sample, holds it against the tree that is expected, and gives the new text.
fn holds(sample: &Sample, change: Change<'_>, words: &[&str], expect: impl FnOnce(&mut Json)) -> String {
    let Sample { name, text } = sample;
    let bench = Bench::new(text);
    let shown = edit(&bench.path(), &[change], true).unwrap_or_else(|error| panic!("{name}: {change:?}: {error}"));
    assert!(shown.dry_run && bench.text() == *text, "{name}: a dry run writes nothing");
    let edited = bench.edit(name, &[change]);
    let after = bench.text();
    assert_eq!((edited.changed, &edited.change), (after != *text, &shown.change), "{name}: {change:?}");
    let mut expected = tree(text);
    let same = expected.clone();
    expect(&mut expected);
    assert_eq!(without_blank(&tree(&after)), without_blank(&expected), "{name}: {change:?}\n{text}\n---\n{after}");
    if same == expected {
        assert_eq!(after, *text, "{name}: {change:?} had nothing to do");
    }
    only_lines_with(&format!("{name}: {change:?}"), text, &after, words);
    load(Some(&bench.path()), &Overrides::default()).unwrap_or_else(|error| panic!("{name}: {change:?}: {error}"));
    let again = bench.edit(name, &[change]);
    assert!(!again.changed && bench.text() == after, "{name}: {change:?} a second time changes nothing");
    after
}

fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(ToString::to_string).collect()
}

#[test]
fn every_sample_is_a_good_configuration() {
    for Sample { name, text } in samples() {
        let bench = Bench::new(&text);
        load(Some(&bench.path()), &Overrides::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn selecting_changes_the_slot_alone() {
    let slot = ["plugins", "slots", "contextEngine"];
    for sample in samples() {
        let words = [
            "contextEngine",
            "plugins.slots",
            "window",
            "recall",
            "new-one",
            "slots = {",
            "engine\"",
            "エンジン",
            "e7",
            "]",
            "plugins = {",
            "plugins={",
            "# the",
            "# first choice",
        ];
        holds(&sample, Change::Select(&ids(&["new-one"])), &words, |tree| put(tree, &slot, json!("new-one")));
        holds(&sample, Change::Select(&ids(&["recall", "new-one"])), &words, |tree| {
            put(tree, &slot, json!(["recall", "new-one"]));
        });
    }
}

#[test]
fn a_selection_that_is_taken_back_leaves_no_trace() {
    let mut taken_back = 0;
    for sample in samples() {
        let slot = tree(&sample.text).pointer("/plugins/slots/contextEngine").cloned();
        let Some(Json::String(id)) = slot else { continue };
        let plain = format!("\"{id}\"");
        let bench = Bench::new(&sample.text);
        bench.edit(&sample.name, &[Change::Select(&ids(&["new-one"]))]);
        bench.edit(&sample.name, &[Change::Select(&ids(&[&id]))]);
        // What was written with other quotes comes back with the usual ones.
        if sample.text.contains(&format!("ontextEngine = {plain}")) || sample.text.contains(&format!("={plain}")) {
            taken_back += 1;
            assert_eq!(bench.text(), sample.text, "{}", sample.name);
        }
    }
    assert!(taken_back > 20, "{taken_back}");
}

#[test]
fn selecting_a_memory_changes_its_slot_alone() {
    let slot = ["plugins", "slots", "memory"];
    let words = ["memory", "plugins.slots", "slots = {", "plugins = {", "plugins={"];
    for sample in samples() {
        holds(&sample, Change::SelectMemory("new-one"), &words, |tree| put(tree, &slot, json!("new-one")));
    }
}

#[test]
fn enabling_and_disabling_change_one_key() {
    for sample in samples() {
        for plugin in ["window", "brand-new", "my.engine"] {
            let key = ["plugins", "entries", plugin, "enabled"];
            let words = ["enabled", "plugins.entries", "entries = {", "plugins = {", "plugins={"];
            let off = holds(&sample, Change::Enable(plugin, false), &words, |tree| put(tree, &key, json!("false")));
            let pointer = format!("/plugins/entries/{plugin}/enabled");
            let before = tree(&sample.text).pointer(&pointer).cloned();
            holds(&sample, Change::Enable(plugin, true), &words, |tree| {
                if before == Some(json!("false")) {
                    put(tree, &key, json!("true"));
                }
            });
            let bench = Bench::new(&off);
            bench.edit(&sample.name, &[Change::Enable(plugin, true)]);
            match before {
                Some(said) if said == json!("true") => assert_eq!(bench.text(), sample.text, "{}", sample.name),
                _ => assert_eq!(tree(&bench.text()).pointer(&pointer), Some(&json!("true"))),
            }
        }
    }
}

#[test]
fn a_link_comes_and_goes_and_no_other_byte_changes() {
    let mut taken_back = 0;
    for sample in samples() {
        let new = Path::new("/opt/new engine/libnew.so");
        let old = tree(&sample.text).pointer("/plugins/links").cloned();
        // The line of the item before may get its comma.
        let words =
            ["links", "libnew.so", "/opt/", "[plugins]", "plugins = {", "plugins={", "# first", "# ours", "# no comma"];
        let with = holds(&sample, Change::Link(new), &words, |tree| {
            let mut links = old.as_ref().and_then(Json::as_array).cloned().unwrap_or_default();
            links.push(json!("/opt/new engine/libnew.so"));
            put(tree, &["plugins", "links"], links.into());
        });
        let bench = Bench::new(&with);
        bench.edit(&sample.name, &[Change::Unlink(new)]);
        if old.is_some() {
            taken_back += 1;
            assert_eq!(bench.text(), sample.text, "{}", sample.name);
        } else {
            let mut expected = tree(&sample.text);
            put(&mut expected, &["plugins", "links"], json!([]));
            assert_eq!(tree(&bench.text()), expected, "{}", sample.name);
        }
        for at in 0..old.as_ref().and_then(Json::as_array).map_or(0, Vec::len).min(5) {
            let mut links = old.as_ref().unwrap().as_array().unwrap().clone();
            let gone = links.remove(at);
            let path = PathBuf::from(gone.as_str().unwrap());
            holds(&sample, Change::Unlink(&path), &words, |tree| put(tree, &["plugins", "links"], links.into()));
        }
    }
    assert!(taken_back > 10, "{taken_back}");
}

#[test]
fn an_entry_that_is_made_and_forgotten_leaves_no_trace() {
    let mut whole = 0;
    for sample in samples() {
        let bench = Bench::new(&sample.text);
        bench.edit(&sample.name, &[Change::Enable("brand-new", false)]);
        bench.edit(&sample.name, &[Change::Forget("brand-new")]);
        assert_eq!(without_blank(&tree(&bench.text())), without_blank(&tree(&sample.text)), "{}", sample.name);
        whole += usize::from(bench.text() == sample.text);
        // Inside of braces nothing tells a table that was made from one that was there, nor at the end of a file a blank line.
        let told = |text: &str| match text.trim().is_empty() {
            true => String::new(),
            false => text.to_owned(),
        };
        let in_braces = ["entries = {", "plugins = {", "plugins={"].iter().any(|part| sample.text.contains(part));
        assert!(
            in_braces || told(&bench.text()) == told(&sample.text),
            "{}\n{:?}\n{:?}",
            sample.name,
            sample.text,
            bench.text()
        );
    }
    assert!(whole > 50, "{whole}");
}

#[test]
fn forgetting_takes_an_entry_with_all_its_tables_and_nothing_else() {
    for sample in samples() {
        let bench = Bench::new(&sample.text);
        let refused = edit(&bench.path(), &[Change::Forget("window")], false);
        // Tables in arrays are not taken away: the operator is told to do it.
        if sample.text.contains("[[plugins.entries.window") {
            assert!(matches!(refused, Err(EditError::Shape { .. })) && bench.text() == sample.text, "{}", sample.name);
            continue;
        }
        let own = [
            "window",
            "enabled",
            "pin_first_turn",
            "isolation",
            "key_",
            "text",
            "other",
            "contextEngine",
            "links",
            "[x]",
            "'''",
            "# nor me",
            "entries",
            "# six",
            "[plugins.slots]",
        ];
        holds(&sample, Change::Forget("window"), &own, |tree| drop_at(tree, &["plugins", "entries", "window"]));
    }
}

#[test]
fn what_is_gone_leaves_every_slot_and_nothing_else_changes() {
    let (engines, memory) = (ids(&["window", "my.engine", "エンジン"]), ids(&["notes"]));
    let words = ["contextEngine", "memory", "shadow", "window", "recall", "legacy", "slots = {", "]", "# the"];
    for sample in samples() {
        let change = Change::ResetSlots { engines: &engines, memory: &memory };
        holds(&sample, change, &words, |tree| {
            let shadow = tree.pointer("/plugins/policy/contextEngine/shadow").and_then(Json::as_str);
            if shadow.is_some_and(|id| engines.iter().any(|gone| gone == id)) {
                drop_at(tree, &["plugins", "policy", "contextEngine", "shadow"]);
            }
            let agents: Vec<String> =
                tree["agents"].as_object().map(|agents| agents.keys().cloned().collect()).unwrap_or_default();
            let mut tables = vec![vec!["plugins".to_owned(), "slots".into()]];
            tables.extend(agents.into_iter().map(|agent| vec!["agents".to_owned(), agent, "slots".into()]));
            for table in tables {
                let mut at = Some(&mut *tree);
                for key in &table {
                    at = at.and_then(|value| value.get_mut(key));
                }
                let Some(slots) = at else { continue };
                reset(slots, "contextEngine", &engines, "legacy");
                reset(slots, "memory", &memory, "none");
            }
        });
    }
}

fn reset(slots: &mut Json, key: &str, gone: &[String], default: &str) {
    let is_gone = |id: &Json| id.as_str().is_some_and(|id| gone.iter().any(|gone| gone == id));
    let new = match slots.get(key) {
        Some(one) if is_gone(one) => json!(default),
        Some(Json::Array(many)) if many.iter().any(is_gone) => {
            let left: Vec<&Json> = many.iter().filter(|id| !is_gone(id)).collect();
            match left.as_slice() {
                [] => json!(default),
                [one] => (*one).clone(),
                left => json!(left),
            }
        }
        _ => return,
    };
    slots[key] = new;
}

#[test]
fn several_changes_are_made_in_one_go() {
    for Sample { name, text } in samples() {
        let bench = Bench::new(&text);
        let chain = ids(&["new-one", "legacy"]);
        let link = Path::new("/opt/libnew.so");
        bench.edit(
            &name,
            &[Change::Select(&chain), Change::Link(link), Change::Enable("new-one", false), Change::SelectMemory("m")],
        );
        let mut expected = tree(&text);
        put(&mut expected, &["plugins", "slots", "contextEngine"], json!(chain));
        put(&mut expected, &["plugins", "slots", "memory"], json!("m"));
        put(&mut expected, &["plugins", "entries", "new-one", "enabled"], json!("false"));
        let mut links = expected.pointer("/plugins/links").and_then(Json::as_array).cloned().unwrap_or_default();
        links.push(json!("/opt/libnew.so"));
        put(&mut expected, &["plugins", "links"], links.into());
        assert_eq!(without_blank(&tree(&bench.text())), without_blank(&expected), "{name}");
    }
}
