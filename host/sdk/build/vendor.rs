//! Packages of the registry, in the layout of `cargo vendor`.
//!
//! A package comes as its authors published it, without what is never built: tests, benches, examples. Licences stay. A package
//! that this platform does not build (Windows, Redox) stands in the lock all the same, so a stand-in without code takes its
//! place: cargo wants to see a manifest for each package of the lock.

use crate::{Files, own};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;
use toml_edit::{DocumentMut, Item};

/// Folders at the top of a package that no build looks into begin with one of these.
const LEFT_OUT: &[&str] = &["test", "bench", "example", "fuzz", "ci", "doc", "asset", "."];

/// A package of the lock.
struct Locked {
    name: String,
    version: String,
    checksum: String,
    dependencies: Vec<String>,
}

/// Adds `sdk/vendor/`.
pub(crate) fn collect(metadata: &Value, lock: &str, files: &mut Files) -> Result<(), Box<dyn Error>> {
    let packages = metadata["packages"].as_array().ok_or("cargo metadata lists no packages")?;
    let built: BTreeMap<(&str, &str), &Value> = packages
        .iter()
        .filter_map(|package| Some(((package["name"].as_str()?, package["version"].as_str()?), package)))
        .collect();
    for locked in locked(lock)? {
        let mut package = Files::new();
        match built.get(&(locked.name.as_str(), locked.version.as_str())) {
            Some(described) => published(described, &mut package)?,
            None => stand_in(&locked, packages, &mut package),
        }
        let sums: BTreeMap<&String, String> =
            package.iter().map(|(path, bytes)| (path, hexadecimal(&Sha256::digest(bytes)))).collect();
        let sums = json!({"files": sums, "package": locked.checksum}).to_string().into_bytes();
        package.insert(".cargo-checksum.json".into(), sums);
        let folder = format!("sdk/vendor/{}-{}", locked.name, locked.version);
        files.extend(package.into_iter().map(|(path, bytes)| (format!("{folder}/{path}"), bytes)));
    }
    Ok(())
}

/// The packages of the lock that come from the registry.
fn locked(lock: &str) -> Result<Vec<Locked>, Box<dyn Error>> {
    let lock: DocumentMut = lock.parse()?;
    let packages = lock["package"].as_array_of_tables().ok_or("the lock lists no packages")?;
    let text = |package: &toml_edit::Table, key: &str| package.get(key).and_then(Item::as_str).map(str::to_owned);
    let registry = packages.iter().filter(|package| package.contains_key("source"));
    let read = registry.map(|package| {
        let dependencies = package.get("dependencies").and_then(Item::as_array);
        Some(Locked {
            name: text(package, "name")?,
            version: text(package, "version")?,
            checksum: text(package, "checksum")?,
            dependencies: dependencies.into_iter().flatten().filter_map(|one| Some(one.as_str()?.to_owned())).collect(),
        })
    });
    read.collect::<Option<_>>().ok_or_else(|| "a package of the lock has no checksum".into())
}

/// The files of a package that a build or a reader of its licence needs.
fn published(described: &Value, files: &mut Files) -> Result<(), Box<dyn Error>> {
    let manifest = described["manifest_path"].as_str().ok_or("a package without a place")?;
    let folder = Path::new(manifest).parent().ok_or("a manifest without a folder")?;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_wanted = if entry.path().is_dir() {
            !LEFT_OUT.iter().any(|start| name.starts_with(start))
        } else {
            let lower = name.to_lowercase();
            let is_text =
                ["licen", "copy", "notice", "unlicense", "readme"].iter().any(|start| lower.starts_with(start));
            name == "Cargo.toml" || lower.ends_with(".rs") || is_text
        };
        if is_wanted {
            own::read(&entry.path(), &name, files)?;
        }
    }
    Ok(())
}

/// A package without code, with the features and dependencies that others and the lock expect of it.
fn stand_in(locked: &Locked, packages: &[Value], files: &mut Files) {
    let wishes = packages.iter().filter_map(|package| package["dependencies"].as_array()).flatten();
    let wishes = wishes.filter(|wish| wish["name"] == locked.name.as_str());
    let features: BTreeSet<&str> =
        wishes.filter_map(|wish| wish["features"].as_array()).flatten().filter_map(Value::as_str).collect();
    let mut manifest = format!(
        "# Takes the place of {0} {1}, which is not built on this platform.\n[package]\nname = \"{0}\"\nversion = \"{1}\"\n\
         edition = \"2021\"\n\n[features]\n",
        locked.name, locked.version
    );
    features.iter().for_each(|feature| manifest.push_str(&format!("{feature:?} = []\n")));
    manifest.push_str("\n[dependencies]\n");
    for dependency in &locked.dependencies {
        // A lock names the version only where the name alone is not clear.
        let mut words = dependency.split(' ');
        let (name, version) = (words.next().unwrap_or_default(), words.next());
        manifest
            .push_str(&format!("{name} = \"{}\"\n", version.map_or("*".to_owned(), |version| format!("={version}"))));
    }
    files.insert("Cargo.toml".into(), manifest.into_bytes());
    files.insert("src/lib.rs".into(), b"//! Nothing: see Cargo.toml.\n".to_vec());
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
