//! Changes to `plugins.toml` that keep its comments, its order and its formatting.

use super::{ConfigError, Overrides};
use crate::diagnostic::Diagnostic;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use toml_edit::{Array, DocumentMut, Item, TableLike, Value};

/// What an edit did.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Edited {
    /// The file, as it was named (a link stays a link).
    pub path: PathBuf,
    /// The lines that went and came, `-` and `+`; empty when the file already said so.
    pub change: String,
    /// False when the file already said so and was left alone.
    pub changed: bool,
    /// True when the file did not exist before.
    pub created: bool,
}

/// Why an edit was not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The file says that someone else writes it.
    #[error("{} is managed (plugins.managed = true) and was not changed", path.display())]
    Managed {
        /// The file.
        path: PathBuf,
        /// The change to make there where it is generated.
        change: String,
    },
    /// The file or its folder cannot be written.
    #[error("{} cannot be written and was not changed", path.display())]
    NotWritable {
        /// The file.
        path: PathBuf,
        /// The change to make by hand.
        change: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file as it is, or as it would be, is not a good configuration.
    #[error("{0}")]
    Config(ConfigError),
    /// The way to the key is blocked by something that is not a table.
    #[error("{} holds a value where the table plugins.slots belongs", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
    },
}

impl EditError {
    /// The exact change that was not made, for the operator to make.
    pub fn change(&self) -> Option<&str> {
        match self {
            EditError::Managed { change, .. } | EditError::NotWritable { change, .. } => Some(change),
            _ => None,
        }
    }
}

impl Diagnostic for EditError {
    fn code(&self) -> &'static str {
        match self {
            EditError::Managed { .. } => "CE120",
            EditError::NotWritable { .. } => "CE121",
            EditError::Config(error) => error.code(),
            EditError::Shape { .. } => "CE122",
        }
    }

    fn hint(&self) -> Option<String> {
        match self {
            EditError::Managed { .. } => Some("make this change where the file is generated".into()),
            EditError::NotWritable { .. } => {
                Some("make this change by hand, or give this user the right to write".into())
            }
            EditError::Config(error) => error.hint(),
            EditError::Shape { .. } => Some("write plugins.slots as a table: [plugins.slots]".into()),
        }
    }
}

/// Sets `plugins.slots.contextEngine` to an engine id or, with several, to a chain. The file is made when there is none.
pub fn select(path: &Path, chain: &[String]) -> Result<Edited, EditError> {
    edit(path, |document| slot(document, "contextEngine", chain_value(chain)))
}

/// Sets `plugins.slots.memory` to a provider id, or to "none". The file is made when there is none.
pub fn select_memory(path: &Path, provider: &str) -> Result<Edited, EditError> {
    edit(path, |document| slot(document, "memory", Value::from(provider)))
}

/// Takes what is gone out of every slot, the agents' too: a chain goes on without it, an empty one becomes `legacy`, the memory
/// slot becomes "none", and nobody watches any more. What no slot names changes nothing, and no file is made.
pub fn reset_slots(path: &Path, engines: &[String], memory: &[String]) -> Result<Edited, EditError> {
    if !path.exists() {
        return Ok(Edited { path: path.into(), change: String::new(), changed: false, created: false });
    }
    edit(path, |document| {
        let plugins = document.get_mut("plugins").and_then(Item::as_table_like_mut);
        let policy = plugins.and_then(|plugins| table_in(plugins, "policy"));
        if let Some(policy) = policy.and_then(|policy| table_in(policy, "contextEngine")) {
            let shadow = policy.get("shadow").and_then(Item::as_str).map(str::trim);
            if shadow.is_some_and(|shadow| engines.iter().any(|gone| gone == shadow)) {
                policy.remove("shadow");
            }
        }
        let mut tables: Vec<&mut dyn TableLike> = Vec::new();
        for (key, item) in document.iter_mut() {
            match key.get() {
                "plugins" => tables.extend(item.as_table_like_mut().and_then(|plugins| table_in(plugins, "slots"))),
                "agents" => {
                    let agents = item.as_table_like_mut().into_iter().flat_map(|agents| agents.iter_mut());
                    let agents = agents.filter_map(|(_, agent)| agent.as_table_like_mut());
                    tables.extend(agents.filter_map(|agent| table_in(agent, "slots")));
                }
                _ => {}
            }
        }
        for slots in tables {
            without(slots, "contextEngine", engines, "legacy");
            without(slots, "memory", memory, "none");
        }
        Some(())
    })
}

fn table_in<'t>(table: &'t mut dyn TableLike, key: &str) -> Option<&'t mut dyn TableLike> {
    table.get_mut(key).and_then(Item::as_table_like_mut)
}

/// Takes the ids that are gone out of a slot's value; `default` when nothing is left of it.
fn without(slots: &mut dyn TableLike, key: &str, gone: &[String], default: &str) {
    let Some(value) = slots.get_mut(key).and_then(Item::as_value_mut) else { return };
    let ids: Vec<String> = match &*value {
        Value::String(id) => vec![id.value().clone()],
        Value::Array(ids) => ids.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => return,
    };
    let left: Vec<String> = ids.iter().filter(|id| !gone.iter().any(|gone| gone == id.trim())).cloned().collect();
    if left.len() == ids.len() {
        return;
    }
    let new = if left.is_empty() { Value::from(default) } else { chain_value(&left) };
    put(value, new);
}

fn chain_value(chain: &[String]) -> Value {
    match chain {
        [one] => Value::from(one.as_str()),
        many => Value::Array(many.iter().map(String::as_str).collect()),
    }
}

/// Puts a value in the place of another; the spaces before it and the comment behind it stay, and so do comments inside.
fn put(old: &mut Value, new: Value) {
    let mut new = match &*old {
        Value::Array(ids) if array_has_comments(ids) => Value::Array(rechained(ids, new)),
        _ => new,
    };
    *new.decor_mut() = old.decor().clone();
    *old = new;
}

fn array_has_comments(ids: &Array) -> bool {
    let noted = |text: Option<&str>| text.is_some_and(|text| text.contains('#'));
    noted(ids.trailing().as_str()) || ids.iter().any(|id| before(id).contains('#') || behind(id).contains('#'))
}

/// What stands before a value of an array, up to the comma or bracket.
fn before(value: &Value) -> &str {
    value.decor().prefix().and_then(toml_edit::RawString::as_str).unwrap_or_default()
}

/// What stands between a value of an array and its comma.
fn behind(value: &Value) -> &str {
    value.decor().suffix().and_then(toml_edit::RawString::as_str).unwrap_or_default()
}

/// The ids of `new` in the form of `old`, with all of its comments: those around an id that is gone go to the next one.
fn rechained(old: &Array, new: Value) -> Array {
    let new: Vec<String> = match new {
        Value::String(id) => vec![id.into_value()],
        Value::Array(ids) => ids.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    let indent = old.iter().map(before).find_map(|text| text.rfind('\n').map(|at| text[at..].to_owned()));
    let mut left: &[&Value] = &old.iter().collect::<Vec<_>>();
    let mut chain = Array::new();
    let mut loose = String::new();
    for id in &new {
        let (front, back) = match left.iter().position(|value| value.as_str() == Some(id)) {
            Some(at) => {
                loose.extend(left[..at].iter().flat_map(|value| comments_of(value)));
                let around = (before(left[at]).to_owned(), behind(left[at]).to_owned());
                left = &left[at + 1..];
                around
            }
            None => match &indent {
                Some(indent) => (indent.clone(), String::new()),
                None => (if chain.is_empty() { "" } else { " " }.to_owned(), String::new()),
            },
        };
        let front = std::mem::take(&mut loose) + &front;
        chain.push_formatted(Value::from(id.as_str()).decorated(front, back));
    }
    loose.extend(left.iter().flat_map(|value| comments_of(value)));
    chain.set_trailing(loose + old.trailing().as_str().unwrap_or_default());
    chain.set_trailing_comma(old.trailing_comma());
    chain
}

/// The text around a value of an array, where it holds comments.
fn comments_of(value: &Value) -> impl Iterator<Item = &str> {
    [before(value), behind(value)].into_iter().filter(|text| text.contains('#'))
}

/// Changes the document and writes it: whole, or not at all. `change` gives `None` when something that is no table is in its way.
fn edit(path: &Path, change: impl FnOnce(&mut DocumentMut) -> Option<()>) -> Result<Edited, EditError> {
    let before = match std::fs::read_to_string(path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(source) => return Err(EditError::Config(ConfigError::Unreadable { path: path.into(), source })),
    };
    let created = before.is_none();
    let before = before.unwrap_or_default();
    if !created {
        judge(path)?;
    }
    let shape = || EditError::Shape { path: path.into() };
    let mut document: DocumentMut = before.parse().map_err(|_| shape())?;
    let managed = document.get("plugins").and_then(|plugins| plugins.get("managed")).and_then(Item::as_bool);
    let unchanged = document.to_string();
    change(&mut document).ok_or_else(shape)?;
    let after = document.to_string();
    if after == unchanged {
        return Ok(Edited { path: path.into(), change: String::new(), changed: false, created: false });
    }
    let windows = before.contains("\r\n") && !after.contains("\r\n");
    let after = if windows { after.replace('\n', "\r\n") } else { after };
    let change = difference(&before, &after);
    if managed == Some(true) {
        return Err(EditError::Managed { path: path.into(), change });
    }
    match replace(path, &after) {
        Ok(()) => Ok(Edited { path: path.into(), change, changed: true, created }),
        Err(source) => Err(EditError::NotWritable { path: path.into(), change, source }),
    }
}

/// Refuses to build on a file that is wrong. The file alone is judged, without variables and flags; so a door that is open only
/// for want of them is none of our business here: `gateway` refuses it.
fn judge(path: &Path) -> Result<(), EditError> {
    let folder = std::env::current_dir().unwrap_or_default();
    match super::load_from(Some(path), &Overrides::default(), &|_| None, &folder) {
        Ok(_) => Ok(()),
        Err(ConfigError::Invalid { problems, .. })
            if problems.iter().all(|problem| problem.code == super::Problem::OPEN_DOOR) =>
        {
            Ok(())
        }
        Err(error) => Err(EditError::Config(error)),
    }
}

/// Puts a value into `plugins.slots`; `None` when something that is no table is in its way.
fn slot(document: &mut DocumentMut, key: &str, value: Value) -> Option<()> {
    let plugins = document.entry("plugins").or_insert_with(implicit).as_table_like_mut()?;
    let slots = plugins.entry("slots").or_insert_with(explicit).as_table_like_mut()?;
    match slots.get_mut(key).and_then(Item::as_value_mut) {
        Some(old) if same(old, &value) => {}
        Some(old) => put(old, value),
        None => {
            slots.insert(key, Item::Value(value));
        }
    }
    Some(())
}

/// A table that needs no header of its own.
fn implicit() -> Item {
    let mut table = toml_edit::Table::new();
    table.set_implicit(true);
    Item::Table(table)
}

fn explicit() -> Item {
    Item::Table(toml_edit::Table::new())
}

fn same(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::String(old), Value::String(new)) => old.value() == new.value(),
        (Value::Array(old), Value::Array(new)) => old.iter().map(Value::as_str).eq(new.iter().map(Value::as_str)),
        _ => false,
    }
}

/// The lines that differ, between the common head and the common tail.
fn difference(before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let room = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(room).take_while(|(a, b)| a == b).count();
    let gone = old.iter().take(old.len() - tail).skip(head).map(|line| format!("-{line}\n"));
    let come = new.iter().take(new.len() - tail).skip(head).map(|line| format!("+{line}\n"));
    gone.chain(come).collect()
}

/// Replaces the file whole or not at all; its mode and owner stay, and a link keeps pointing where it points.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::{Error, ErrorKind};
    let target = match std::fs::canonicalize(path) {
        Ok(target) => target,
        Err(error) if error.kind() == ErrorKind::NotFound => std::path::absolute(path)?,
        Err(error) => return Err(error),
    };
    let folder = target.parent().ok_or_else(|| Error::from(ErrorKind::InvalidInput))?;
    let old = match std::fs::metadata(&target) {
        Ok(meta) => Some(meta),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    if let Some(old) = &old {
        // A rename needs no right on the file itself, so the file's own mode is asked first.
        if old.permissions().readonly() {
            return Err(Error::new(ErrorKind::PermissionDenied, "the file is read-only"));
        }
        rustix::fs::access(&target, rustix::fs::Access::WRITE_OK)?;
    }
    let mut temp = tempfile::Builder::new().prefix(".plugins.toml.").tempfile_in(folder)?;
    temp.write_all(text.as_bytes())?;
    match &old {
        Some(old) => {
            let new = temp.as_file().metadata()?;
            if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
                std::os::unix::fs::fchown(temp.as_file(), Some(old.uid()), Some(old.gid()))?;
            }
            temp.as_file().set_permissions(std::fs::Permissions::from_mode(old.mode() & 0o7777))?;
        }
        None => temp.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?,
    }
    temp.as_file().sync_all()?;
    temp.persist(&target).map_err(|failed| failed.error)?;
    std::fs::File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &str, chain: &[&str], expected: &str) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plugins.toml");
        std::fs::write(&path, before).unwrap();
        let chain: Vec<String> = chain.iter().map(ToString::to_string).collect();
        let edited = select(&path, &chain).unwrap();
        let after = std::fs::read_to_string(&path).unwrap();
        assert_eq!(after, expected);
        assert_eq!(edited.changed, before != expected);
        let loaded = crate::config::load(Some(&path), &Overrides::default()).unwrap();
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
        let loaded = crate::config::load(Some(&path), &Overrides::default()).unwrap();
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
}
