//! Our own three packages, made independent of this workspace.

use crate::Files;
use std::error::Error;
use std::path::Path;
use toml_edit::{DocumentMut, InlineTable, Item, Table, TableLike, Value};

/// Folders and files of `engine-abi/` that an author needs.
const PARTS: &[&str] =
    &["Cargo.toml", "README.md", "src", "include", "macros/Cargo.toml", "macros/src", "wire/Cargo.toml", "wire/src"];

/// Adds `sdk/engine-abi/`.
pub(crate) fn collect(root: &Path, files: &mut Files) -> Result<(), Box<dyn Error>> {
    let workspace: DocumentMut = std::fs::read_to_string(root.join("Cargo.toml"))?.parse()?;
    for part in PARTS {
        let path = root.join("engine-abi").join(part);
        println!("cargo::rerun-if-changed={}", path.display());
        read(&path, &format!("sdk/engine-abi/{part}"), files)?;
    }
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        files.insert(format!("sdk/engine-abi/{licence}"), std::fs::read(root.join(licence))?);
    }
    for (path, bytes) in files.iter_mut().filter(|(path, _)| path.ends_with("Cargo.toml")) {
        let manifest = independent(std::str::from_utf8(bytes)?, &workspace);
        *bytes = manifest.map_err(|error| format!("{path}: {error}"))?.into_bytes();
    }
    Ok(())
}

/// Adds a file, or all files below a folder.
pub(crate) fn read(path: &Path, name: &str, files: &mut Files) -> Result<(), Box<dyn Error>> {
    if path.is_dir() {
        for entry in std::fs::read_dir(path)? {
            let entry = entry?;
            read(&entry.path(), &format!("{name}/{}", entry.file_name().to_string_lossy()), files)?;
        }
    } else {
        files.insert(name.to_owned(), std::fs::read(path)?);
    }
    Ok(())
}

/// A manifest of a member with everything that it inherits written out, without what only this workspace's tests need.
fn independent(manifest: &str, workspace: &DocumentMut) -> Result<String, Box<dyn Error>> {
    let mut manifest: DocumentMut = manifest.parse()?;
    for key in ["dev-dependencies", "lints", "example"] {
        manifest.remove(key);
    }
    let inherited = &workspace["workspace"];
    if let Some(package) = manifest.get_mut("package").and_then(Item::as_table_mut) {
        for (name, item) in package.iter_mut() {
            if is_inherited(item) {
                *item = known(&inherited["package"], name.get())?;
            }
        }
    }
    if let Some(dependencies) = manifest.get_mut("dependencies").and_then(Item::as_table_mut) {
        for (name, item) in dependencies.iter_mut() {
            if is_inherited(item) {
                *item = dependency(known(&inherited["dependencies"], name.get())?)?;
            }
        }
    }
    Ok(manifest.to_string())
}

fn is_inherited(item: &Item) -> bool {
    let inherits = |table: &dyn TableLike| table.get("workspace").and_then(Item::as_bool) == Some(true);
    item.as_table_like().is_some_and(inherits)
}

fn known(table: &Item, name: &str) -> Result<Item, Box<dyn Error>> {
    let found = table.as_table().and_then(|table: &Table| table.get(name));
    found.cloned().ok_or_else(|| format!("the workspace says nothing of {name}").into())
}

/// A dependency as it stands in the workspace, its path seen from `engine-abi/`.
fn dependency(item: Item) -> Result<Item, Box<dyn Error>> {
    let Some(Value::InlineTable(mut table)) = item.as_value().cloned() else { return Ok(item) };
    if let Some(path) = table.get("path").and_then(Value::as_str) {
        let path = path.strip_prefix("engine-abi/").ok_or("a path that leads out of engine-abi")?.to_owned();
        table.insert("path", path.into());
    }
    Ok(inline(table))
}

fn inline(table: InlineTable) -> Item {
    Item::Value(Value::InlineTable(table))
}
